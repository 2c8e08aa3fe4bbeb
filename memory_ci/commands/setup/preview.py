"""`memory-ci init --from`: previews what older work would teach, and writes and sends nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from memory_ci.commands.record.learn import Offer, price_history
from memory_ci.commands.record.learner import OnProgress
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.memory.workspace import Workspace
from memory_ci.text import plural

MAX_TITLES = 3  # of each list


class Preview(msgspec.Struct, frozen=True):
    """The learnings that a part of the history would give.

    Attributes:
        history: the age or revision where the part begins.
        change_count: the number of merged changes; `changes` in JSON.
        marked_titles: the titles of learnings that commits mark, which `record` would write;
            `marked` in JSON.
        candidate_titles: the titles of candidates, the best first; `candidates` in JSON.
        offer: the price of a model, None where no model may read this repository.
        reason: why there is an offer or none.
    """

    history: str
    change_count: int = msgspec.field(name="changes")
    marked_titles: tuple[str, ...] = msgspec.field(name="marked")
    candidate_titles: tuple[str, ...] = msgspec.field(name="candidates")
    offer: Offer | None
    reason: str

    def lines(self) -> Iterator[str]:
        """Yield the text for a terminal: what rules find in older work, and what a model costs."""
        since = f"--since {self.history}"
        yield f"Since {self.history}: {plural(self.change_count, 'merged change')}."
        if not self.change_count:
            return

        yield f"Marked in commit messages: {plural(len(self.marked_titles), 'learning')}."
        yield from _list_titles(self.marked_titles, f"write them: memory-ci record {since}")

        candidates = plural(len(self.candidate_titles), "candidate")
        yield f"Without a model: {candidates}, for you to accept or decline."
        yield from _list_titles(
            self.candidate_titles, f"see them all: memory-ci review --candidates {since}"
        )

        if self.offer is None:
            yield f"With a model: not here: {self.reason}."
            return
        yield f"With a model: {_format_price(self.offer)} ({self.offer.engine}: {self.reason})."
        if self.offer.request_count:
            yield f"  ask it: memory-ci learn {since}"


def _list_titles(titles: Sequence[str], next_step: str) -> Iterator[str]:
    """Yield a line for each of the first titles, and one for the next step."""
    for title in titles[:MAX_TITLES]:
        yield f"  {title}"
    if titles:
        yield f"  {next_step}"


def _format_price(offer: Offer) -> str:
    """Return the price of an offer: `12 questions, 30,000 tokens in, about 0.42 USD`."""
    price = "price unknown"
    if offer.cost_usd is not None:
        price = f"about {offer.cost_usd:.2f} USD"
    return f"{plural(offer.request_count, 'question')}, {offer.input_tokens:,} tokens in, {price}"


def preview_history(
    workspace: Workspace,
    history: str,
    now: datetime,
    environ: Mapping[str, str],
    progress: OnProgress,
) -> Preview:
    """Return the learnings that `record`, `review` and `learn` would find in older work.

    Args:
        workspace: the repository.
        history: the age, such as `90d`, or the revision where the work begins.
        now: the present time.
        environ: the environment, which may have the credentials of a model.
        progress: is called with the number of changes done, and of all.

    Raises:
        MemoryCIError: as `plan_record` does.
    """
    options = RecordOptions(since=history)
    rules_options = replace(options, engine="rules")
    try:
        plan = plan_record(workspace, rules_options, now.date(), progress, environ)
    except RepositoryError as error:
        if error.slug != "unborn-branch":
            raise
        return Preview(
            history,
            change_count=0,
            marked_titles=(),
            candidate_titles=(),
            offer=None,
            reason=error.message,
        )

    marked_titles: list[str] = []
    for step in plan.steps:
        if step.step == "extract":
            marked_titles += [change.entry.title for change in step.changes]
    suggestions = list_suggestions(plan.judged, ())
    candidate_titles = tuple(suggestion.candidate.title for suggestion in suggestions)

    offer = None
    try:
        offer = price_history(workspace, options, now, environ, progress)
        reason = offer.reason
    except (UsageError, EngineError) as error:
        reason = error.message
    return Preview(
        history=history,
        change_count=plan.counts.merged_changes,
        marked_titles=tuple(marked_titles),
        candidate_titles=candidate_titles,
        offer=offer,
        reason=reason,
    )
