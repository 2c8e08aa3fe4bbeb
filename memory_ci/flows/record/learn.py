"""Learn: a stretch of the past read by a model, with its price said first. Replies are kept as they come.

Nothing is committed before all is answered: memory as the requests show it stays the same, so a run that was stopped
asks only what is left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError, RepositoryError, UnreadableMemoryError, UsageError
from memory_ci.extraction.engines.anthropic_api import AnthropicEngine
from memory_ci.extraction.engines.meter import cost, cost_bound
from memory_ci.extraction.engines.program import VARIABLE
from memory_ci.extraction.prompt import Prompt, build_prompt
from memory_ci.flows.model import Model
from memory_ci.flows.record.backfill import Backfill, Collector, Pending, Wait, choose_asked, find_sent
from memory_ci.flows.record.learner import OnProgress
from memory_ci.flows.record.run import RecordOptions, plan_record
from memory_ci.flows.workspace import Workspace
from memory_ci.records.candidate import Usage
from memory_ci.records.plan import Plan
from memory_ci.text import estimate_tokens, plural

REPLY_TOKENS = 200  # Of an answer about one change: 127 on average of 45 that were counted.


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What learning would take. `cost_usd`: at most, in batches; else about; None where the price is not known.

    `windows` would be asked about, `kept` were answered before; `is_sent`: the batches are paid for already.
    """

    engine: str
    reason: str
    since: str | None
    changes: int
    windows: int
    kept: int
    input_tokens: int
    cost_usd: float | None
    is_batch: bool
    is_sent: bool = False

    def __str__(self) -> str:
        cost = "price unknown"
        if self.cost_usd is not None:
            cost = f"{'at most' if self.is_batch else 'about'} {self.cost_usd:.4f} USD"
        lines = [
            f"{plural(self.changes, 'merged change')} since {self.since[:10] if self.since else 'the beginning'}",
            f"{plural(self.windows, 'window')} to ask about" + (f", {self.kept} answered before" if self.kept else ""),
            f"about {self.input_tokens} tokens in, {'paid for already' if self.is_sent else cost}",
            f"by {self.engine}{' in batches' if self.is_batch else ''}: {self.reason}",
        ]
        return "\n".join(lines)


class LearnRun:
    """One call of `learn`. Raises UsageError (no-model) where only rules would read, else as `choose_model`."""

    def __init__(self, workspace: Workspace, options: RecordOptions, now: datetime, environ: Mapping[str, str]) -> None:
        self._workspace, self._options, self._now, self._environ = workspace, options, now, environ
        self._batches: Backfill | None = None
        self._model().close()

    def add_problems(self, problems: tuple[str, ...]) -> None:
        """What the report is to say of the time before the run."""
        self._options = replace(self._options, problems=(*self._options.problems, *problems))

    def offer(self, progress: OnProgress) -> Offer:
        """What would be asked and what it would cost; nothing is sent."""
        collector, model = Collector(), self._model()
        with closing(model):
            plan = self._plan(model._replace(engine=collector), self._options, progress)
            usages = [_expect(model, build_prompt(request)) for request in collector.requests]
        count = cost_bound if _is_batch(model) else cost
        costs = [count(usage, model.settings.model, model.settings.price) for usage in usages]
        is_known = None not in costs and (model.name != "command" or model.settings.price is not None)
        return Offer(
            engine=model.name,
            reason=model.reason,
            since=plan.since,
            changes=plan.counts.merged_changes,
            windows=len(usages),
            kept=plan.engine.answers - collector.calls,
            input_tokens=sum(usage.input_tokens + usage.cache_write_tokens for usage in usages),
            cost_usd=sum(filter(None, costs)) if is_known else None,
            is_batch=_is_batch(model),
            is_sent=find_sent(self._workspace.repo) is not None,
        )

    def send(self, progress: OnProgress, wait: Wait | None) -> Pending | None:
        """Where the model has batches: what stands in the way of their answers, None when these are there."""
        model = self._model()
        with closing(model):
            if not _is_batch(model):
                return None
        found = Backfill(self._workspace, self._options, self._now, progress, self._environ).plan(wait)
        return found if isinstance(found, Pending) else None

    def plan(self, ref: str, accepted: frozenset[str], progress: OnProgress) -> Plan:
        """The plan with all answers. Raises EngineError (learn-stopped) where the model failed at one."""
        options = replace(self._options, ref=ref, base=None, accepted=accepted)
        model = self._model()
        if _is_batch(model):
            model.close()
            self._batches = Backfill(self._workspace, options, self._now, progress, self._environ)
            found = self._batches.plan()
            if isinstance(found, Pending):
                raise EngineError("the batches have not ended", slug="learn-stopped", hint=AGAIN)
            plan = found
        else:
            plan = self._plan(model, options, progress)
        if plan.engine.failure:
            answers = plural(plan.engine.answers, "answer")
            message = f"the model stopped after {answers}, and nothing was committed: {plan.engine.failure}"
            raise EngineError(message, slug="learn-stopped", hint=AGAIN)
        return plan

    def finish(self, plan: Plan) -> None:
        """Forget the batches, after `plan` was applied."""
        if self._batches is not None:
            self._batches.finish(plan)

    def _plan(self, model: Model, options: RecordOptions, progress: OnProgress) -> Plan:
        return plan_record(self._workspace, options, self._now.date(), progress, self._environ, model)

    def _model(self) -> Model:
        model = choose_asked(self._workspace, self._options, self._now, self._environ)
        if model.engine is None:
            hint = "Set ANTHROPIC_API_KEY, or name one: --engine claude-cli. `memory-ci candidates` needs none."
            raise UsageError(f"there is no model to learn with ({model.reason})", slug="no-model", hint=hint)
        command = self._environ.get(VARIABLE, "") if model.name == "command" else ""
        return model._replace(kept_as=hashlib.sha256(command.encode()).hexdigest()[:12] if command else "")


@contextmanager
def keeping_answers() -> Iterator[None]:
    """Say of a repository that failed in the block that the answers are kept."""
    try:
        yield
    except (RepositoryError, UnreadableMemoryError) as error:
        raise type(error)(error.message, slug=error.slug, hint=f"{error.hint} {AGAIN}".lstrip()) from error


AGAIN = "Run the same command again: what was answered is kept, and is not asked or paid for twice."


def _is_batch(model: Model) -> bool:
    return isinstance(model.engine, AnthropicEngine) and model.settings.provider == "anthropic"


def _expect(model: Model, prompt: Prompt) -> Usage:
    """What one call takes: at most, where the engine says so; else an answer of usual length."""
    if isinstance(model.engine, AnthropicEngine):
        return replace(model.engine.expect(prompt), is_batch=_is_batch(model))
    tokens = estimate_tokens(prompt.system) + estimate_tokens(prompt.user)
    return Usage(input_tokens=tokens, output_tokens=REPLY_TOKENS)
