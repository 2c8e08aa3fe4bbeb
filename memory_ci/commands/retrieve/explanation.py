"""The text of `retrieve --explain`."""

from __future__ import annotations

from collections.abc import Iterator

from memory_ci.anchors.text import say_verdict
from memory_ci.commands.retrieve.text import explain_task, render_task
from memory_ci.findings import printable
from memory_ci.records.retrieval import Hit, Retrieval
from memory_ci.text import plural, shorten

MODES = {
    "lexical": "by words",
    "hybrid": "by words and vectors",
    "degraded": "by words alone, for vectors fail",
}
STRENGTHS = {"HIT": "a close match", "WEAK": "a weak match", "MISS": "nothing close"}


def render_explanation(retrieval: Retrieval) -> str:
    """A block for each entry that is given, best first, and a line for each that is not."""
    lines = [
        f"Found {MODES[retrieval.mode]}"
        + (f" · {STRENGTHS[retrieval.verdict]}" if retrieval.verdict is not None else "")
        + f" · {plural(len(retrieval.norms), 'norm')} · {plural(len(retrieval.hits), 'entry')} given"
        + (f" · {retrieval.weak} weak" if retrieval.weak else "")
        + f" · {len(retrieval.hits_dropped) + len(retrieval.withheld)} not"
    ]
    for place, hit in enumerate(retrieval.hits, start=1):
        origin = f"; {hit.located.entry.source}" if hit.located.entry.source else ""
        lines += [
            f"{place:>2}. {_name(hit)} {hit.located.path}:{hit.located.line}{origin}",
            *_reasons(hit),
        ]
    for hit in retrieval.organisation:
        lines += [
            f"org {_name(hit)} {printable(hit.repository)}:{hit.located.path}; {hit.link}",
            *_reasons(hit),
        ]
    lines += [f" -  {_name(hit)}: left out, no room" for hit in retrieval.hits_dropped]
    lines += [f" -  {_name(held.hit)}: withheld, {held.why}" for held in retrieval.withheld]
    for one in retrieval.hints.changes:
        lines += [f"hint: {render_task(one.task)}", explain_task(one)]
    return "".join(f"{printable(line)}\n" for line in lines)


def _name(hit: Hit) -> str:
    place = hit.located
    return f"{place.entry.id[:8]} {shorten(place.entry.title, 80)} ({place.entry.type}, {place.scope.target})"


def _reasons(hit: Hit) -> Iterator[str]:
    factors = " x ".join(f"{name} {value:.3f}" for name, value in hit.factors)
    yield f"      {hit.score:.4f} = {factors}"
    if hit.related:
        yield f"      {hit.related}"
    if hit.events:
        low = "; so low that a person should look at it: `memory-ci why`" if hit.is_low else ""
        yield f"      utility from {plural(hit.events, 'event')}{low}"
    if hit.lanes:
        raw = (f"{'words' if name == 'lexical' else name} {value:.3f}" for name, value in hit.lanes)
        yield f"      raw: {', '.join(raw)}"
    yield from (f"      {say_verdict(verdict)}" for verdict in hit.verdicts)
