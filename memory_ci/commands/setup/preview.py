"""Preview: what older work would give, before anything of memory-ci is in a repository. Nothing is sent or written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

from memory_ci.commands.record.learn import Offer, price_history
from memory_ci.commands.record.learner import OnProgress
from memory_ci.commands.record.run import RecordOptions, plan_record
from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.memory.workspace import Workspace
from memory_ci.text import plural

SHOWN = 3


class Preview(msgspec.Struct, frozen=True):
    """The merged changes of a stretch of history, what in them looks like a learning, and what a model would cost.

    `marked` are the titles of learnings that commits mark, so that `record` would write them. `candidates` are titles,
    the best first. `offer` is None where no model may read here; `reason` says why.
    """

    history: str
    changes: int
    marked: tuple[str, ...]
    candidates: tuple[str, ...]
    offer: Offer | None
    reason: str

    def lines(self) -> Iterator[str]:
        yield f"Since {self.history}: {plural(self.changes, 'merged change')}."
        if not self.changes:
            return
        yield f"Marked in commit messages: {plural(len(self.marked), 'learning')}."
        yield from (f"  {title}" for title in self.marked[:SHOWN])
        if self.marked:
            yield f"  write them: memory-ci record --since {self.history}"
        yield f"Without a model: {plural(len(self.candidates), 'candidate')}, for you to accept or decline."
        yield from (f"  {title}" for title in self.candidates[:SHOWN])
        if self.candidates:
            yield f"  see them all: memory-ci candidates --since {self.history}"
        if self.offer is None:
            yield f"With a model: not here: {self.reason}."
            return
        offer = self.offer
        price = "price unknown" if offer.cost_usd is None else f"about {offer.cost_usd:.2f} USD"
        what = f"{plural(offer.windows, 'question')}, {offer.input_tokens} tokens in"
        yield f"With a model: {what}, {price} ({offer.engine}: {self.reason})."
        if offer.windows:
            yield f"  ask it: memory-ci learn --since {self.history}"


def preview_history(
    workspace: Workspace,
    history: str,
    now: datetime,
    environ: Mapping[str, str],
    progress: OnProgress,
) -> Preview:
    """What the work since `history` (an age, or a revision) would give. Raises as `plan_record` does."""
    options = RecordOptions(since=history)
    try:
        plan = plan_record(
            workspace, replace(options, engine="rules"), now.date(), progress, environ
        )
    except RepositoryError as error:
        if error.slug != "unborn-branch":
            raise
        return Preview(history, 0, (), (), None, error.message)
    marked = tuple(
        one.entry.title for step in plan.steps if step.step == "extract" for one in step.changes
    )
    titles = tuple(one.candidate.title for one in list_suggestions(plan.judged, ()))
    offer, reason = None, ""
    try:
        offer = price_history(workspace, options, now, environ, progress)
        reason = offer.reason
    except (UsageError, EngineError) as error:
        reason = error.message
    return Preview(history, plan.counts.merged_changes, marked, titles, offer, reason)
