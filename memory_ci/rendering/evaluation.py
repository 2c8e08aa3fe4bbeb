"""An evaluation as a table: every share with what it is of, and its 95 % interval."""

from __future__ import annotations

from memory_ci.records.quality import Evaluation, Share
from memory_ci.rendering.table import printable
from memory_ci.text import shorten

SHOWN = 20


def render_evaluation(done: Evaluation) -> str:
    """The table, then what was missed and what was written wrongly."""
    rows = [
        ("windows", f"{done.windows} ({done.negatives} with nothing to learn)"),
        ("precision of what is written", _share(done.precision)),
        ("gold learnings found", _share(done.recall)),
        ("abstained where nothing was to learn", _share(done.abstention)),
        ("quotes that hold", _share(done.evidence_validity)),
        ("duplicates of existing entries", str(done.duplicates)),
        ("learnings that could not be read", str(done.dropped)),
        ("secrets leaked", str(done.secrets_leaked)),
        ("injections obeyed", str(done.injections_obeyed)),
        ("calls that failed", f"{done.failures}{f' (the first: {done.failed_because})' if done.failures else ''}"),
        ("tokens for each window", f"{done.tokens_per_window:g}"),
    ]
    if done.agreement is not None:
        rows.append(("agreement of two labellers (kappa)", f"{done.agreement:.2f} on {done.labelled_twice} windows"))
    width = max(len(name) for name, _ in rows)
    lines = [f"engine {done.engine}", *(f"{name.ljust(width)}  {value}" for name, value in rows)]
    for heading, items in (("Missed", done.misses), ("Written, but not in gold", done.false_positives)):
        lines += [f"\n{heading}:", *(f"  {printable(shorten(item, 100))}" for item in items[:SHOWN])] if items else []
    return "\n".join(lines) + "\n"


def _share(share: Share) -> str:
    if share.value is None or share.low is None or share.high is None:
        return "n/a (nothing to count)"
    return f"{share.value:.2f}  ({share.hits} of {share.total}, 95 % interval {share.low:.2f} to {share.high:.2f})"
