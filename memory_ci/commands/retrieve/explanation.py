"""The text of `retrieve --explain`."""

from __future__ import annotations

from collections.abc import Iterator

from memory_ci.anchors.text import format_verdict
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
    """Return the text of `retrieve --explain`: why each entry is served or not.

    It has a block for each served entry, best first, and a line for each that is not served.
    """
    lines = [_summarise_retrieval(retrieval)]
    for number, hit in enumerate(retrieval.hits, start=1):
        located = hit.located
        source = f"; {located.entry.source}" if located.entry.source else ""
        lines.append(f"{number:>2}. {_name_hit(hit)} {located.path}:{located.line}{source}")
        lines += _explain_hit(hit)
    for hit in retrieval.organisation:
        place = f"{printable(hit.repository)}:{hit.located.path}"
        lines.append(f"org {_name_hit(hit)} {place}; {hit.link}")
        lines += _explain_hit(hit)
    lines += [f" -  {_name_hit(hit)}: left out, no room" for hit in retrieval.hits_dropped]
    for withheld in retrieval.withheld:
        lines.append(f" -  {_name_hit(withheld.hit)}: withheld, {withheld.why}")
    for change in retrieval.hints.changes:
        lines += [f"hint: {render_task(change.task)}", explain_task(change)]
    return "".join(f"{printable(line)}\n" for line in lines)


def _summarise_retrieval(retrieval: Retrieval) -> str:
    """Return one line on how entries were searched, and how many are served and not served.

    Example: `Found by words · a close match · 1 norm · 2 entries given · 3 weak · 1 not`. Entries
    over the limit were close enough to the task, weak ones were not, and the last number counts
    the entries that had no room or are withheld.
    """
    parts = [f"Found {MODES[retrieval.mode]}"]
    if retrieval.verdict is not None:
        parts.append(STRENGTHS[retrieval.verdict])
    parts.append(plural(len(retrieval.norms), "norm"))
    parts.append(f"{plural(len(retrieval.hits), 'entry')} given")
    if retrieval.over_limit_count:
        parts.append(f"{retrieval.over_limit_count} over the limit")
    if retrieval.weak_count:
        parts.append(f"{retrieval.weak_count} weak")
    not_served_count = len(retrieval.hits_dropped) + len(retrieval.withheld)
    parts.append(f"{not_served_count} not")
    return " · ".join(parts)


def _name_hit(hit: Hit) -> str:
    entry = hit.located.entry
    facts = f"{entry.type}, {hit.located.scope.target}"
    return f"{entry.id[:8]} {shorten(entry.title, 80)} ({facts})"


def _explain_hit(hit: Hit) -> Iterator[str]:
    """Yield lines on the score of an entry: its factors, feedback, raw scores and cited code."""
    factors = " x ".join(f"{name} {value:.3f}" for name, value in hit.factors)
    yield f"      {hit.score:.4f} = {factors}"
    if hit.related:
        yield f"      {hit.related}"
    if hit.events:
        remark = ""
        if hit.is_low:
            remark = "; so low that a person should look at it: `memory-ci show ID --why`"
        yield f"      utility from {plural(hit.events, 'event')}{remark}"
    if hit.lanes:
        scores = []
        for lane, score in hit.lanes:
            name = "words" if lane == "lexical" else lane
            scores.append(f"{name} {score:.3f}")
        yield f"      raw: {', '.join(scores)}"
    for verdict in hit.verdicts:
        yield f"      {format_verdict(verdict)}"
