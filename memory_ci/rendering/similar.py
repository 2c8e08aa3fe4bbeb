"""Tasks of the past, a line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memory_ci.records.retrieval import SimilarTask, Task
from memory_ci.rendering.table import printable
from memory_ci.text import shorten

MAX_TITLE = 120


def render_task(task: Task) -> str:
    """`#128 retry failed charges (merged 2026-03-02, still 3 of 4 files; success)`, one line whatever the title is."""
    still = f", still {task.still} of {task.files} files" if task.files else ""
    outcome = "tried, did not work" if task.outcome == "failure" else task.outcome
    why = f": {task.why}" if task.why else ""
    ended = f"{'merged' if task.is_merged else 'declined'} {task.merged_on}"
    return f"{task.label} {shorten(task.title, MAX_TITLE)} ({ended}{still}; {outcome}{why})"


def render_similar(found: Iterable[SimilarTask], *, explain: bool = False) -> str:
    """A line for each task, best first; with `explain`, a second one with the factors of its score."""
    lines = (line for one in found for line in (render_task(one.task), *(explain_task(one) if explain else ())))
    return "".join(f"{printable(line)}\n" for line in lines)


def explain_task(found: SimilarTask) -> Iterator[str]:
    """The score of a task as the product that it is."""
    factors = " x ".join(f"{name} {value:.3f}" for name, value in found.factors)
    yield f"      {found.score:.4f} = {factors}"
