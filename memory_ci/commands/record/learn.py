"""Learning from older work with a model: the price of a range, and its plan with all replies.

Nothing is committed before all requests are answered, and replies are cached. The requests hold
memory as it was at the start, so a run after an interruption sends only unanswered requests. A
model that takes batches gets the requests in batches, at half the price.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime

import msgspec
from msgspec.structs import replace

from memory_ci.commands.record.batches import (
    Backfill,
    Collector,
    Pending,
    UnansweredRun,
    Wait,
    choose_reusing_model,
    expect_usage,
    find_sent_batches,
    has_batches,
)
from memory_ci.commands.record.learner import OnProgress
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.errors import EngineError, RepositoryError, UnreadableMemoryError, UsageError
from memory_ci.extraction.engines.meter import compute_cost, compute_max_cost
from memory_ci.extraction.engines.program import COMMAND_VARIABLE
from memory_ci.extraction.prompt import build_prompt
from memory_ci.memory.model import Model
from memory_ci.memory.workspace import Workspace
from memory_ci.records.candidate import Usage
from memory_ci.records.plan import Plan
from memory_ci.text import plural

EXAMPLE_REASON = "as an example, no model is set up here"
RESUME_HINT = "Run the same command again: stored answers are reused, and not paid for twice."


class Offer(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"request_count": "windows", "answered_count": "kept"},
):
    """The size of a range and the price of learning from it, shown before anything is paid.

    Attributes:
        engine: the name of the engine.
        reason: why it was chosen.
        since: the commit after which the range begins; None for the first commit.
        changes: the number of merged changes.
        request_count: the number of requests to a model, each with a window on the work that fits
            a prompt.
        answered_count: the number of requests that were answered before, by cached replies.
        input_tokens: the tokens of the requests.
        cost_usd: the upper bound of the cost in batches, else the expected cost; None if the price
            is not known.
        is_batch: whether the requests are sent in batches.
        is_sent: whether the batches were sent, and paid for, before.
    """

    engine: str
    reason: str
    since: str | None
    changes: int
    request_count: int
    answered_count: int
    input_tokens: int
    cost_usd: float | None
    is_batch: bool
    is_sent: bool = False

    def __str__(self) -> str:
        """Return the offer as lines for a terminal."""
        since = self.since[:10] if self.since else "the beginning"
        answered = f", {self.answered_count} answered before" if self.answered_count else ""
        batches = " in batches" if self.is_batch else ""
        return (
            f"{plural(self.changes, 'merged change')} since {since}\n"
            f"{plural(self.request_count, 'window')} to ask about{answered}\n"
            f"about {self.input_tokens} tokens in, {self._format_cost()}\n"
            f"by {self.engine}{batches}: {self.reason}"
        )

    def _format_cost(self) -> str:
        if self.is_sent:
            return "paid for already"
        if self.cost_usd is None:
            return "price unknown"
        bound = "at most" if self.is_batch else "about"
        return f"{bound} {self.cost_usd:.4f} USD"


class LearnRun:
    """A run of `learn`: its offer, its batches if the model has any, and its plan."""

    def __init__(
        self,
        workspace: Workspace,
        options: RecordOptions,
        now: datetime,
        environ: Mapping[str, str],
    ) -> None:
        """Check that there is a model.

        Raises:
            UsageError: no-model; and as `choose_model`.
            EngineError: as `choose_model`.
        """
        self._workspace = workspace
        self._options = options
        self._now = now
        self._environ = environ
        self._backfill: Backfill | None = None
        self._unanswered_run: UnansweredRun | None = None
        self._choose_model().close()  # Raises if there is none.

    def add_problems(self, problems: tuple[str, ...]) -> None:
        """Add problems from before the run to its report."""
        self._options = replace(self._options, problems=(*self._options.problems, *problems))

    def offer(self, progress: OnProgress) -> Offer:
        """Return the price of the run; nothing is sent.

        The run is planned with an engine that collects the requests in place of the model. Replies
        that are cached from an earlier run are used, and these requests are not collected.
        """
        collector = Collector()
        with closing(self._choose_model()) as model:
            plan = self._plan_run(model._replace(engine=collector), self._options, progress)
            usages = [expect_usage(model, build_prompt(request)) for request in collector.requests]
        self._unanswered_run = UnansweredRun(plan, tuple(collector.requests))
        return Offer(
            engine=model.name,
            reason=model.reason,
            since=plan.since,
            changes=plan.counts.merged_changes,
            request_count=len(usages),
            # The plan counts all answers, and the collector the requests that it answered itself.
            answered_count=plan.engine.answers - collector.calls,
            input_tokens=sum(usage.input_tokens + usage.cache_write_tokens for usage in usages),
            cost_usd=_estimate_cost(model, usages),
            is_batch=has_batches(model),
            is_sent=find_sent_batches(self._workspace.repo) is not None,
        )

    def send(self, progress: OnProgress, wait: Wait | None) -> Pending | None:
        """Send the requests in batches if the model takes batches.

        Args:
            progress: called as merged work is read.
            wait: called between two polls of the batches; None not to wait for them.

        Returns:
            The progress of the batches if they have not ended; None if `plan` can be called.
        """
        with closing(self._choose_model()) as model:
            if not has_batches(model):
                return None
        backfill = Backfill(self._workspace, self._options, self._now, progress, self._environ)
        result = backfill.send(wait, unanswered_run=self._unanswered_run)
        return result if isinstance(result, Pending) else None

    def plan(self, ref: str, accepted_keys: frozenset[str], progress: OnProgress) -> Plan:
        """Return the plan of the record run with all replies of the model.

        A model that takes batches must have ended them (`send`); any other model is asked now.

        Args:
            ref: the branch to plan on.
            accepted_keys: content keys of the candidates that a person accepted.
            progress: called as merged work is read.

        Raises:
            EngineError: learn-stopped, if the model failed at a request.
        """
        options = replace(self._options, ref=ref, base=None, accepted_keys=accepted_keys)
        model = self._choose_model()
        if has_batches(model):
            model.close()
            plan = self._plan_batches(options, progress)
        else:
            plan = self._plan_run(model, options, progress)
        if plan.engine.failure:
            answers = plural(plan.engine.answers, "answer")
            message = (
                f"the model stopped after {answers}, and nothing was committed: "
                f"{plan.engine.failure}"
            )
            raise EngineError(message, slug="learn-stopped", hint=RESUME_HINT)
        return plan

    def _plan_batches(self, options: RecordOptions, progress: OnProgress) -> Plan:
        """Return the plan with the replies of the batches, all of which must have ended.

        Raises:
            EngineError: `learn-stopped` if a batch has not ended.
        """
        self._backfill = Backfill(self._workspace, options, self._now, progress, self._environ)
        plan = self._backfill.plan()
        if isinstance(plan, Pending):
            raise EngineError("the batches have not ended", slug="learn-stopped", hint=RESUME_HINT)
        return plan

    def finish(self, plan: Plan) -> None:
        """Delete the note of the batches after a plan was applied."""
        if self._backfill is not None:
            self._backfill.finish(plan)

    def _plan_run(self, model: Model, options: RecordOptions, progress: OnProgress) -> Plan:
        return plan_record(
            self._workspace, options, self._now.date(), progress, self._environ, model=model
        )

    def _choose_model(self) -> Model:
        """Return the model to learn with.

        Raises:
            UsageError: no-model.
        """
        model = choose_reusing_model(self._workspace, self._options, self._now, self._environ)
        if model.engine is None:
            message = f"there is no model to learn with ({model.reason})"
            hint = (
                "Set ANTHROPIC_API_KEY, or name one: --engine claude-cli. "
                "`memory-ci review --candidates` needs none."
            )
            raise UsageError(message, slug="no-model", hint=hint)
        # Replies are cached by the name of the model. A command (the engine "command") may run any
        # model, so its replies are cached by a hash of the command as well.
        command = self._environ.get(COMMAND_VARIABLE, "") if model.name == "command" else ""
        cache_name = ""
        if command:
            cache_name = hashlib.sha256(command.encode()).hexdigest()[:12]
        return model._replace(cache_name=cache_name)


def price_history(
    workspace: Workspace,
    options: RecordOptions,
    now: datetime,
    environ: Mapping[str, str],
    progress: OnProgress,
) -> Offer:
    """Return the price of learning from a range; nothing is sent.

    If no model is set up and the options name none, it is the price by Anthropic's API, marked as
    an example.

    Raises:
        UsageError, EngineError: as `LearnRun`. `no-model` is raised only if the options name an
            engine that is no model (the rules).
    """
    try:
        return LearnRun(workspace, options, now, environ).offer(progress)
    except UsageError as error:
        if error.slug != "no-model" or options.engine is not None:
            raise
    example = LearnRun(workspace, replace(options, engine="anthropic"), now, environ)
    return replace(example.offer(progress), reason=EXAMPLE_REASON)


@contextmanager
def hint_to_resume() -> Iterator[None]:
    """Add to errors of the repository the hint that replies are cached, and paid for only once.

    Raises:
        RepositoryError, UnreadableMemoryError: those of the block, with a longer hint.
    """
    try:
        yield
    except (RepositoryError, UnreadableMemoryError) as error:
        hint = f"{error.hint} {RESUME_HINT}".lstrip()
        raise type(error)(error.message, slug=error.slug, hint=hint) from error


def _estimate_cost(model: Model, usages: Sequence[Usage]) -> float | None:
    """Return the cost of requests in USD, None if the price of the model is not known.

    For batches it is an upper bound, otherwise the expected cost.
    """
    settings = model.settings
    # A command may ask any model, which the price list need not have.
    if model.name == "command" and settings.price is None:
        return None
    if has_batches(model):
        return sum(compute_max_cost(usage, settings.model, settings.price) for usage in usages)
    costs: list[float] = []
    for usage in usages:
        usage_cost = compute_cost(usage, settings.model, settings.price)
        if usage_cost is None:
            return None
        costs.append(usage_cost)
    return sum(costs)
