"""Learning from the past: a stretch of it read by a model, with its price said first, and replies kept as they come.

Nothing is committed before all is answered: memory as the requests show it stays the same, so a run that was stopped
asks only what is left. Where the model has batches, a long history goes there, at half price: the requests are gathered
by a record run in which nobody answers, then sent, and noted beside the repository. A later run finds the note, waits
for the batches to end, and plans the record run with what came back.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import msgspec
from msgspec.structs import replace

from memory_ci.commands.record.learner import OnProgress
from memory_ci.commands.record.run import RecordOptions, plan_record
from memory_ci.errors import EngineError, RepositoryError, UnreadableMemoryError, UsageError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.anthropic_api import (
    AnthropicEngine,
    Batch,
    fetch_results,
    is_configured,
    poll,
    submit,
)
from memory_ci.extraction.engines.meter import cost, cost_bound
from memory_ci.extraction.engines.program import COMMAND_VARIABLE
from memory_ci.extraction.prompt import Prompt, build_prompt, request_key
from memory_ci.gitrepo.repo import Repository, find_commit
from memory_ci.memory.model import Model, choose_run_model, trusted_at
from memory_ci.memory.workspace import Workspace, branch_tip
from memory_ci.records.candidate import EngineReply, Known, Request, Usage
from memory_ci.records.plan import Plan
from memory_ci.store.files import write_file
from memory_ci.text import estimate_tokens, plural

EXAMPLE = "an example: no model is set up here"
AGAIN = "Run the same command again: what was answered is kept, and is not asked or paid for twice."
REPLY_TOKENS = 200  # Of an answer about one change: 127 on average of 45 that were counted.
CHUNK_REQUESTS = 1_000
CHUNK_BYTES = 64_000_000  # A batch is kept far below the limits of the API, so that one that fails costs little.


class Estimate(msgspec.Struct, frozen=True):
    """What the batches will cost at most: requests, tokens of input, and USD with every answer at full length."""

    requests: int
    batches: int
    input_tokens: int
    cost_usd: float


class Sent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The batches of the changes after `since` on `ref`, which was at `base`. `known` is the digest of memory that all
    of them were sent with. `is_whole` is False until the last was sent."""

    version: Literal[1] = 1
    ref: str
    base: str
    since: str | None
    known: tuple[Known, ...]
    estimate: Estimate
    batches: tuple[Batch, ...] = ()
    is_whole: bool = False


def find_sent(repo: Repository) -> Sent | None:
    """What an earlier run sent. Raises RepositoryError: bad-batch-state, foreign-batch-state."""
    path = _place(repo)
    try:
        sent = msgspec.json.decode(path.read_bytes(), type=Sent)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        _refuse(path, f"cannot be read: {error}", "bad-batch-state", error)
    if find_commit(repo, sent.base) != sent.base:
        _refuse(
            path,
            f"is of another repository: commit {sent.base[:12]} is not here",
            "foreign-batch-state",
        )
    return sent


def _place(repo: Repository) -> Path:
    return repo.common_dir / "memory-ci" / "backfill.json"


def _refuse(path: Path, what: str, slug: str, error: Exception | None = None) -> NoReturn:
    hint = "Remove the file; the same range is then sent and paid for again."
    raise RepositoryError(
        f"the note of a backfill, {path}, {what}", slug=slug, hint=hint
    ) from error


class Pending(msgspec.Struct, frozen=True):
    """A backfill that has no plan yet; `ended` counts the batches whose answers are there. `refusal`: why what was
    estimated would not be sent."""

    status: Literal["estimated", "submitted", "processing"]
    estimate: Estimate
    ended: int = 0
    refusal: str = ""

    def __str__(self) -> str:
        requests, batches = (
            plural(self.estimate.requests, "request"),
            f"batches: {self.estimate.batches}",
        )
        size = (
            f"about {self.estimate.input_tokens} tokens in, at most {_usd(self.estimate.cost_usd)}"
        )
        match self.status:
            case "estimated":
                refusal = f"\nWould be refused: {self.refusal}." if self.refusal else ""
                return f"Would submit {requests} ({batches}), {size}.{refusal}"
            case "submitted":
                return (
                    f"Submitted {requests} ({batches}), {size}. Run again to collect the answers."
                )
            case "processing":
                return f"Submitted {requests} ({batches}, ended: {self.ended}). Run again to collect the answers."


class UnansweredRun(NamedTuple):
    """A plan for which nobody answered, and what a model would have been asked for it."""

    plan: Plan
    requests: tuple[Request, ...]


Wait = Callable[
    [Pending], None
]  # Called between two looks at the batches; returns when it is time for the next.


class Backfill:
    """One call of a backfill; it takes up where an earlier one stopped, with the range and branch of that one. Raises
    RepositoryError (bad-batch-state, foreign-batch-state) when made."""

    def __init__(
        self,
        workspace: Workspace,
        options: RecordOptions,
        now: datetime,
        progress: OnProgress,
        environ: Mapping[str, str],
    ) -> None:
        self._workspace, self._now, self._progress, self._environ = (
            workspace,
            now,
            progress,
            environ,
        )
        self._sent = sent = find_sent(workspace.repo)
        since = options.since if options.since is not None or sent is None else sent.since
        ref = options.ref if options.ref is not None or sent is None else sent.ref
        self._options = replace(options, since=since, ref=ref, from_root=True)

    def plan(self, wait: Wait | None = None, *, dry_run: bool = False) -> Plan | Pending:
        """The plan of the run, once all answers are there or none are needed; without `wait` what stands in the way.
        With `dry_run` nothing is sent. Raises UsageError (no-batches), EngineError, and as `plan_record`."""
        found = self.send(wait, dry_run=dry_run)
        return self._collect(found) if isinstance(found, Sent) else found

    def send(
        self,
        wait: Wait | None = None,
        *,
        dry_run: bool = False,
        gathered: UnansweredRun | None = None,
    ) -> Plan | Pending | Sent:
        """Send what was not sent yet, and look whether the batches have ended.

        Args:
            wait: called until they have; without it one look is all.
            dry_run: send nothing.
            gathered: what the run asks, where that is known; else it is planned.

        Returns:
            What was sent, if all batches have ended; a plan, if there is nothing to ask; else what stands in the way.

        Raises:
            UsageError: no-batches.
            EngineError: as the API; cost-limit.
        """
        sent = self._sent
        if sent is None or not sent.is_whole:
            # What a plan without a model would ask, by the keys of requests, and what of that was not sent yet.
            gathered = gathered or self._gather()
            known = sent.known if sent else next((one.existing for one in gathered.requests), None)
            requests = {
                request_key(asked): asked
                for asked in (known_as(one, known) for one in gathered.requests)
            }
            for batch in sent.batches if sent else ():
                requests = {
                    key: request for key, request in requests.items() if key not in batch.ids
                }
            if sent is None and not requests:
                return gathered.plan
            pending, sent = self._send(gathered.plan, requests, dry_run=dry_run)
            if wait is None or sent is None:
                return pending
        while True:
            with self._model() as (_, engine):
                ended = sum(poll(engine, batch) for batch in sent.batches)
            if ended == len(sent.batches):
                return sent
            pending = Pending("processing", sent.estimate, ended)
            if wait is None:
                return pending
            wait(pending)

    def _gather(self) -> UnansweredRun:
        collector = Collector()
        with self._model() as (model, _):
            return UnansweredRun(self._plan(model, collector), tuple(collector.requests))

    def finish(self, plan: Plan) -> None:
        """Forget what was sent, after `plan` was applied; a plan that ends early leaves it to the next run."""
        if not plan.engine.failure:
            _place(self._workspace.repo).unlink(missing_ok=True)

    def _send(
        self, plan: Plan, requests: Mapping[str, Request], *, dry_run: bool
    ) -> tuple[Pending, Sent | None]:
        """Send one batch after another, each noted before the next, unless it is a `dry_run`. All batches together must
        keep to the limit: `submit` looks at one. Raises EngineError, also cost-limit."""
        with self._model() as (model, engine):
            prompts = {key: build_prompt(request) for key, request in requests.items()}
            sizes = {
                key: len(msgspec.json.encode(engine.build_parameters(prompts[key])))
                for key in prompts
            }
            chunks = tuple(split(sizes))
            usages = [_expect(model, prompt) for prompt in prompts.values()]
            most = sum(
                cost_bound(usage, model.settings.model, model.settings.price) for usage in usages
            )
            tokens = sum(usage.cache_write_tokens for usage in usages)
            estimate = Estimate(len(usages), len(chunks), tokens, most)
            refusal = _refusal(model, estimate)
            if dry_run:
                return Pending("estimated", estimate, refusal=refusal), None
            if refusal:
                hint = "Raise engine.max_cost_usd, or take a shorter range: --since."
                raise EngineError(f"{refusal}; nothing was sent", slug="cost-limit", hint=hint)
            known = next((request.existing for request in requests.values()), ())
            sent = self._sent or Sent(
                ref=plan.ref, base=plan.base, since=plan.since, known=known, estimate=estimate
            )
            for chunk in chunks:
                batch = submit(engine, {key: requests[key] for key in chunk}, self._now)
                sent = self._note(replace(sent, batches=(*sent.batches, batch)))
            return Pending("submitted", estimate), self._note(replace(sent, is_whole=True))

    def _note(self, sent: Sent) -> Sent:
        """Write the note, whole or not at all. Raises RepositoryError (write-failed)."""
        write_file(
            _place(self._workspace.repo),
            msgspec.json.format(msgspec.json.encode(sent), indent=2) + b"\n",
        )
        self._sent = sent
        return sent

    def _collect(self, sent: Sent) -> Plan:
        """The plan with the answers; those of a model that is no longer the one that is configured are not used."""
        with self._model() as (model, engine):
            found: dict[str, EngineReply | EngineError] = {}
            for batch in sent.batches:
                found |= fetch_results(engine, batch) if batch.model == model.settings.model else {}
            answers = BatchReplies(engine, sent.known, found)
            plan = self._plan(model, answers)
        return replace(plan, problems=(*plan.problems, *answers.problems))

    def _plan(self, model: Model, engine: Engine) -> Plan:
        adapted = model._replace(engine=engine)
        today = self._now.date()
        return plan_record(
            self._workspace, self._options, today, self._progress, self._environ, adapted
        )

    @contextmanager
    def _model(self) -> Iterator[tuple[Model, AnthropicEngine]]:
        """The model with a new engine, so that its deadline counts from now and not from before the wait."""
        model = choose_asked(self._workspace, self._options, self._now, self._environ)
        engine = model.engine
        if not isinstance(engine, AnthropicEngine) or model.settings.provider != "anthropic":
            provider = f" by {model.settings.provider}" if model.name == "anthropic" else ""
            message = f"the engine {model.name}{provider} has no batches ({model.reason})"
            hint = "Set ANTHROPIC_API_KEY with provider anthropic, or name another engine."
            if (
                model.settings.name == "auto"
                and model.name == "rules"
                and is_configured(self._environ, model.settings)
            ):
                hint = "Install the package: pip install 'memory-ci[anthropic]'."
            raise UsageError(message, slug="no-batches", hint=hint)
        with closing(engine):
            yield model, engine


def choose_asked(
    workspace: Workspace, options: RecordOptions, now: datetime, environ: Mapping[str, str]
) -> Model:
    """Return the model of a run with these options, which is not asked again because memory has grown since.

    Raises:
        UsageError, EngineError: as `choose_run_model`.
    """
    _, base = branch_tip(workspace, options.ref)
    model = choose_run_model(
        trusted_at(workspace.repo, base), base, options.engine, now.date(), environ
    )
    return model._replace(is_reusing=True)


def split(
    sizes: Mapping[str, int], most: int | None = None, room: int | None = None
) -> Iterator[tuple[str, ...]]:
    """The keys in their order, in parts of at most `most` keys and `room` bytes; one that is larger stands alone."""
    most, room = most or CHUNK_REQUESTS, room or CHUNK_BYTES
    part: list[str] = []
    left = room
    for key, size in sizes.items():
        if part and (len(part) == most or size > left):
            yield tuple(part)
            part, left = [], room
        part.append(key)
        left -= size
    if part:
        yield tuple(part)


def _refusal(model: Model, estimate: Estimate) -> str:
    """Why an estimate passes the limit of a run, or nothing."""
    limit, settings = model.settings.max_cost_usd, model.settings
    if not limit or estimate.cost_usd <= limit:
        return ""
    requests = f"{plural(estimate.requests, 'request')} to {settings.model} in batches"
    return f"{requests} could cost {_usd(estimate.cost_usd)}: more than engine.max_cost_usd, {limit:g} USD a run"


def _usd(amount: float) -> str:
    """An upper bound, rounded up: a small one is not zero."""
    return f"{math.ceil(amount * 10_000) / 10_000:.4f} USD"


class Collector:
    """An engine that keeps what it is asked of changes and answers nothing; one without a stop reason is not kept."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.calls = 0

    def extract(self, request: Request) -> EngineReply:
        """No learnings."""
        self.calls += 1
        self.requests += [request] if request.task == "learnings" else []
        return EngineReply(text='{"learnings": []}', stop_reason="")


class BatchReplies:
    """An engine that answers with what came back, keyed by the request as it was sent: with memory as `known` then.
    What did not come back, or was not sent like this, is asked of `engine`, and counted. The usage of what came back is
    metered when it is read."""

    def __init__(
        self,
        engine: Engine,
        known: tuple[Known, ...],
        found: Mapping[str, EngineReply | EngineError],
    ) -> None:
        self._engine, self._known, self._found = engine, known, found
        self._again: Counter[str] = Counter()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(
            f"{count} of the batches' answers, so the model is asked again: {reason}"
            for reason, count in sorted(self._again.items())
        )

    def extract(self, request: Request) -> EngineReply:
        """The reply from a batch, else that of the engine. Raises EngineError as the engine."""
        if request.task != "learnings":
            return self._engine.extract(request)
        found = self._found.get(request_key(known_as(request, self._known)))
        if isinstance(found, EngineReply):
            return found
        reason = (
            "range, model or prompt changed since"
            if found is None
            else "failed, expired or missing"
        )
        self._again[reason] += 1
        return self._engine.extract(request)


def known_as(request: Request, known: tuple[Known, ...] | None) -> Request:
    """The request as it is with this digest of memory; None leaves its own."""
    return request if known is None else replace(request, existing=known)


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What learning would take. `cost_usd`: at most, in batches; else about; None where the price is not known.
    `windows` would be asked about, `kept` were answered before; `is_sent`: the batches are paid for already."""

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
            f"{plural(self.windows, 'window')} to ask about"
            + (f", {self.kept} answered before" if self.kept else ""),
            f"about {self.input_tokens} tokens in, {'paid for already' if self.is_sent else cost}",
            f"by {self.engine}{' in batches' if self.is_batch else ''}: {self.reason}",
        ]
        return "\n".join(lines)


class LearnRun:
    """One call of `learn`. Raises UsageError (no-model) where only rules would read, else as `choose_model`."""

    def __init__(
        self,
        workspace: Workspace,
        options: RecordOptions,
        now: datetime,
        environ: Mapping[str, str],
    ) -> None:
        self._workspace, self._options, self._now, self._environ = workspace, options, now, environ
        self._batches: Backfill | None = None
        self._gathered: UnansweredRun | None = None
        self._model().close()

    def add_problems(self, problems: tuple[str, ...]) -> None:
        """What the report is to say of the time before the run."""
        self._options = replace(self._options, problems=(*self._options.problems, *problems))

    def offer(self, progress: OnProgress) -> Offer:
        """What would be asked and what it would cost; nothing is sent."""
        collector = Collector()
        with closing(self._model()) as model:
            plan = self._plan(model._replace(engine=collector), self._options, progress)
            usages = [_expect(model, build_prompt(request)) for request in collector.requests]
        self._gathered = UnansweredRun(plan, tuple(collector.requests))
        count = cost_bound if _is_batch(model) else cost
        costs = [count(usage, model.settings.model, model.settings.price) for usage in usages]
        is_known = None not in costs and (
            model.name != "command" or model.settings.price is not None
        )
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
        with closing(self._model()) as model:
            if not _is_batch(model):
                return None
        batches = Backfill(self._workspace, self._options, self._now, progress, self._environ)
        found = batches.send(wait, gathered=self._gathered)
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
        return plan_record(
            self._workspace, options, self._now.date(), progress, self._environ, model
        )

    def _model(self) -> Model:
        model = choose_asked(self._workspace, self._options, self._now, self._environ)
        if model.engine is None:
            hint = "Set ANTHROPIC_API_KEY, or name one: --engine claude-cli. `memory-ci review --candidates` needs none."
            raise UsageError(
                f"there is no model to learn with ({model.reason})", slug="no-model", hint=hint
            )
        command = self._environ.get(COMMAND_VARIABLE, "") if model.name == "command" else ""
        return model._replace(
            kept_as=hashlib.sha256(command.encode()).hexdigest()[:12] if command else ""
        )


def price_history(
    workspace: Workspace,
    options: RecordOptions,
    now: datetime,
    environ: Mapping[str, str],
    progress: OnProgress,
) -> Offer:
    """Return what a model would be asked and what it would cost; nothing is sent.

    Where no model is set up and none is asked for, the price is that of an example.

    Raises:
        UsageError, EngineError: as `LearnRun`; no-model only where rules are asked for.
    """
    try:
        return LearnRun(workspace, options, now, environ).offer(progress)
    except UsageError as error:
        if error.slug != "no-model" or options.engine is not None:
            raise
    example = LearnRun(workspace, replace(options, engine="anthropic"), now, environ)
    return replace(example.offer(progress), reason=EXAMPLE)


@contextmanager
def keeping_answers() -> Iterator[None]:
    """Say of a repository that failed in the block that the answers are kept."""
    try:
        yield
    except (RepositoryError, UnreadableMemoryError) as error:
        raise type(error)(
            error.message, slug=error.slug, hint=f"{error.hint} {AGAIN}".lstrip()
        ) from error


def _is_batch(model: Model) -> bool:
    return isinstance(model.engine, AnthropicEngine) and model.settings.provider == "anthropic"


def _expect(model: Model, prompt: Prompt) -> Usage:
    """What one call takes: at most, where the engine says so; else an answer of usual length."""
    if isinstance(model.engine, AnthropicEngine):
        return replace(model.engine.expect(prompt), is_batch=_is_batch(model))
    tokens = estimate_tokens(prompt.system) + estimate_tokens(prompt.user)
    return Usage(input_tokens=tokens, output_tokens=REPLY_TOKENS)
