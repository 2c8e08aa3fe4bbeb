"""Why an entry was given, and why another was not: each factor, and their product."""

from __future__ import annotations

from collections.abc import Iterator

from memory_ci.records.anchor import Verdict
from memory_ci.records.retrieval import Hit, Retrieval
from memory_ci.rendering.similar import explain_task, render_task
from memory_ci.rendering.table import printable, scope_name
from memory_ci.text import plural, shorten


def render_explanation(retrieval: Retrieval) -> str:
    """A block for each entry that is given, best first, and a line for each that is not."""
    lines = [" · ".join(_facts(retrieval))]
    for place, hit in enumerate(retrieval.hits, start=1):
        lines += [f"{place:>2}. {_name(hit)}", *_reasons(hit)]
    lines += [f" -  {_name(hit)}: left out, no room" for hit in retrieval.hits_dropped]
    lines += [f" -  {_name(one.hit)}: withheld, {one.why}" for one in retrieval.withheld]
    lines += [line for one in retrieval.similar for line in (f"similar: {render_task(one.task)}", *explain_task(one))]
    return "".join(f"{printable(line)}\n" for line in lines)


def _facts(retrieval: Retrieval) -> Iterator[str]:
    yield f"mode {retrieval.mode}"
    if retrieval.verdict is not None:
        yield f"verdict {retrieval.verdict}"
    yield plural(len(retrieval.norms), "norm")
    yield f"{plural(len(retrieval.hits), 'entry')} given"
    yield f"{len(retrieval.hits_dropped) + len(retrieval.withheld)} not"


def _name(hit: Hit) -> str:
    place = hit.located
    return f"{place.entry.id[:8]} {shorten(place.entry.title, 80)} ({place.entry.type}, {scope_name(place.scope)})"


def _reasons(hit: Hit) -> Iterator[str]:
    factors = " x ".join(f"{name} {value:.3f}" for name, value in hit.factors)
    yield f"      {hit.score:.4f} = {factors}"
    if hit.related:
        yield f"      {hit.related}"
    if hit.events:
        low = "; so low that a person should look at it: `memory-ci why`" if hit.is_low else ""
        yield f"      utility from {plural(hit.events, 'event')}{low}"
    if hit.lanes:
        yield f"      raw: {', '.join(f'{name} {value:.3f}' for name, value in hit.lanes)}"
    yield from (f"      {say_verdict(verdict)}" for verdict in hit.verdicts)


def say_verdict(verdict: Verdict) -> str:
    """What became of one place that is cited."""
    place = f"{verdict.path}:{verdict.first}" if verdict.first is not None else verdict.path
    return f"{verdict.kind}: {place}{f' ({verdict.note})' if verdict.note else ''}"
