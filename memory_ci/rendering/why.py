"""Why an entry counts what it counts: its prominence, what was said of it, and how it is ranked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memory_ci.records.why import Heard, Why
from memory_ci.rendering.explain import say_verdict
from memory_ci.rendering.table import printable, scope_name
from memory_ci.text import plural, shorten

MAX_TITLE = 120
MAX_SUMMARY = 80


def render_why(why: Why) -> str:
    """A block of lines, each safe to print whatever the entry and its episodes hold."""
    return "".join(f"{printable(line)}\n" for line in _lines(why))


def _lines(why: Why) -> Iterator[str]:
    place, entry = why.located, why.located.entry
    yield f"{entry.id[:8]} {shorten(entry.title, MAX_TITLE)}"
    yield f"  {entry.type}, {scope_name(place.scope)}, {entry.status}; {place.path}:{place.line}; as on {why.today}"
    yield from _origin(why)
    yield f"prominence {why.prominence:.3f} = {_product(why.parts)}"
    yield f"utility    {why.utility:.3f} from {plural(len(why.heard), 'event')}{' (low)' if why.is_low else ''}"
    yield from (f"  {_say(heard)}" for heard in why.heard)
    if why.memory is not None:
        memory = why.memory
        reviews = f"{plural(memory.reviews, 'review')}, the last on {memory.reviewed_on}"
        yield f"stability  {memory.stability:.1f} days, retrievability {memory.retrievability:.3f} ({reviews})"
    if why.factors:
        yield f"ranking    relevance x {_product(why.factors)}"
    yield from (f"cites      {say_verdict(verdict)}" for verdict in why.verdicts)
    yield from why.notes


def _origin(why: Why) -> Iterator[str]:
    entry = why.located.entry
    source = [f"from {entry.source}"] if entry.source else []
    learned = [f"learned on {entry.created_at}"] if entry.created_at else []
    reinforced = f"last reinforced on {entry.last_reinforced}, {plural(entry.reinforcement_count, 'time')}"
    yield f"  {', '.join([*source, *learned, reinforced])}"
    yield from (f"  evidence: {shorten(line, MAX_TITLE)}" for line in entry.evidence)


def _say(heard: Heard) -> str:
    """`2026-11-20 confirmed +0.200 -> 0.700 by ada, pr:128; pr-128 (success): retry failed charges`."""
    who = ", ".join(filter(None, (f"by {heard.by}" if heard.by else "", heard.ref)))
    outcome = f" ({heard.outcome})" if heard.outcome else ""
    about = f"{heard.episode}{outcome}" if heard.episode else ""
    told = ": ".join(filter(None, (about, shorten(heard.summary, MAX_SUMMARY))))
    what = f"{heard.at:%Y-%m-%d} {heard.kind} {heard.delta:+.3f} -> {heard.value:.3f}"
    return "; ".join(filter(None, (" ".join(filter(None, (what, who))), told)))


def _product(factors: Iterable[tuple[str, float]]) -> str:
    return " x ".join(f"{name} {value:.3f}" for name, value in factors)
