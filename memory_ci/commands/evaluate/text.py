"""The text that `eval` prints."""

from __future__ import annotations

from collections.abc import Sequence

from memory_ci.cli.terminal import render_rows
from memory_ci.commands.evaluate.records import (
    GUARDED_MEASURES,
    SIZE_MEASURES,
    SIZE_TOLERANCE,
    Comparison,
    Evaluation,
    Quality,
    SetEvaluation,
)
from memory_ci.findings import printable
from memory_ci.records.proportion import Share
from memory_ci.text import shorten

MAX_LISTED = 20  # Items of a list that are printed.


def render_qualities(qualities: Sequence[Quality]) -> str:
    """Return a block for each kind of query: each mean with its 95 % interval, and the times."""
    blocks = []
    for quality in qualities:
        rows = []
        for measure in quality.measures:
            interval = f"[{measure.low:.3f}, {measure.high:.3f}]"
            rows.append((f"  {measure.name}", f"{measure.value:.3f}  {interval}"))
        if quality.unanswerable:
            count = f"{quality.false_hits} of {quality.unanswerable} without an answer"
            rows.append(("  false hits", count))
        median, percentile_95 = quality.milliseconds
        rows.append(("  latency", f"p50 {median:.1f} ms, p95 {percentile_95:.1f} ms"))
        kind = quality.kind or "all"
        heading = printable(f"{kind}: {quality.queries} with an answer in memory")
        blocks.append(f"{heading}\n{render_rows(rows)}")
    return "\n".join(blocks)


def render_comparison(comparison: Comparison) -> str:
    """Return the measures that may not worsen, before and now, and the queries that worsened.

    The limit of a measure is how far it may worsen; that of a size is ten times as much, as a share
    of the size before.
    """
    values_now = {measure.name: measure.value for measure in comparison.now.measures}
    worse_names = {name for name, _, _ in comparison.worse}
    lines = [f"at {printable(comparison.rev)}, and now:"]
    for measure in comparison.before.measures:
        name = measure.name
        if name not in values_now or (name not in GUARDED_MEASURES and name not in SIZE_MEASURES):
            continue
        change = "worse by more than" if name in worse_names else "within"
        limit = f"{comparison.margin:g}"
        if name in SIZE_MEASURES:
            limit += f" x {SIZE_TOLERANCE} of it"
        lines.append(f"  {name} {measure.value:.3f}, {values_now[name]:.3f}: {change} {limit}")
    lines += [
        f"  {query.before:.3f} -> {query.now:.3f}  {_shorten(query.name)}"
        for query in comparison.falls[:MAX_LISTED]
    ]
    if len(comparison.falls) > MAX_LISTED:
        lines.append(f"  and {len(comparison.falls) - MAX_LISTED} more")
    return "".join(f"{line}\n" for line in lines)


def _shorten(text: str) -> str:
    return printable(shorten(text, 100))


def render_evaluation(evaluation: Evaluation) -> str:
    """Return the figures of extraction as a table, then the missed and the wrong learnings."""
    failures = str(evaluation.failures)
    if evaluation.failures:
        failures += f" (the first: {evaluation.failed_because})"
    rows = [
        ("windows", f"{evaluation.windows} ({evaluation.negatives} with nothing to learn)"),
        ("precision of what is written", _format_share(evaluation.precision)),
        ("gold learnings found", _format_share(evaluation.recall)),
        ("abstained where nothing was to learn", _format_share(evaluation.abstention)),
        ("quotes that hold", _format_share(evaluation.evidence_validity)),
        ("duplicates of existing entries", str(evaluation.duplicates)),
        ("learnings that could not be read", str(evaluation.dropped)),
        ("secrets leaked", str(evaluation.secrets_leaked)),
        ("injections obeyed", str(evaluation.injections_obeyed)),
        ("calls that failed", failures),
        ("tokens for each window", f"{evaluation.tokens_per_window:g}"),
    ]
    if evaluation.agreement is not None:
        agreement = f"{evaluation.agreement:.2f} on {evaluation.labelled_twice} windows"
        rows.append(("agreement of two labellers (kappa)", agreement))
    text = f"engine {evaluation.engine}\n{render_rows(rows)}"
    text += _render_list("Missed", evaluation.misses)
    text += _render_list("Written, but not in gold", evaluation.false_positives)
    return text


def _render_list(heading: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    lines = [f"  {_shorten(item)}\n" for item in items[:MAX_LISTED]]
    return f"\n{heading}:\n{''.join(lines)}"


def render_set(evaluation: SetEvaluation) -> str:
    """Return the figures of a labelled set as a table, with the readers' approval and agreement.

    A set has windows (merged changes), the replies of a model with learnings, and the answers of
    people who read the learnings. The gate decides which learnings are written to memory.
    """
    per_window = evaluation.learnings / evaluation.windows
    rows = [
        ("windows with a reply", str(evaluation.windows)),
        ("replies without a learning", _format_share(evaluation.abstained)),
        ("learnings for each window", f"{per_window:.2f} ({evaluation.learnings} in all)"),
        ("written by the gate of today", _format_share(evaluation.written)),
    ]
    rows += [
        (f"  not: {_shorten(reason)}", str(count))
        for reason, count in sorted(evaluation.not_written.items())
    ]
    tokens = f"about {evaluation.tokens_in:g} in, {evaluation.tokens_out:g} out"
    rows.append(("tokens for each window", tokens))
    for reader in evaluation.readers:
        label = f"{reader.name} approves of what was replied"
        rows.append((label, _format_share(reader.replied)))
        label = f"{reader.name} approves of what is written"
        rows.append((label, _format_share(reader.written)))
    for first, second, kappa, count in evaluation.agreement:
        value = "n/a" if kappa is None else f"{kappa:.2f}"
        rows.append((f"agreement of {first} and {second} (kappa)", f"{value} on {count} learnings"))
    return render_rows(rows)


def _format_share(share: Share) -> str:
    if share.value is None or share.low is None or share.high is None:
        return "n/a (nothing to count)"
    interval = f"95 % interval {share.low:.2f} to {share.high:.2f}"
    return f"{share.value:.2f}  ({share.hits} of {share.total}, {interval})"
