"""Backfill: a long history goes to the model in batches, at half price, and is recorded when the answers are there.

The requests are gathered by a record run in which nobody answers, then sent, and noted beside the repository. A later
run finds the note, waits for the batches to end, and plans the record run with what came back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal, NoReturn

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.anthropic_api import AnthropicEngine, Batch, is_configured, poll, results, submit
from memory_ci.extraction.engines.meter import cost_bound
from memory_ci.extraction.prompt import build_prompt, request_key
from memory_ci.flows.model import Model, choose_run_model, trusted_config
from memory_ci.flows.record.learner import OnProgress
from memory_ci.flows.record.run import RecordOptions, plan_record
from memory_ci.flows.workspace import Workspace, branch_tip
from memory_ci.gitrepo.repo import Repository, find_commit
from memory_ci.records.candidate import EngineReply, Known, Request
from memory_ci.records.plan import Plan
from memory_ci.store.files import write_file
from memory_ci.text import plural

CHUNK_REQUESTS = 1_000
CHUNK_BYTES = 64_000_000
"""A batch is kept far below the limits of the API, so that one that fails costs little."""


class Estimate(msgspec.Struct, frozen=True):
    """What the batches will cost at most: requests, tokens of input, and USD with every answer at full length."""

    requests: int
    batches: int
    input_tokens: int
    cost_usd: float


class Sent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The batches of the changes after `since` on `ref`, which was at `base`.

    `known` is the digest of memory that all of them were sent with. `is_whole` is False until the last was sent.
    """

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
        _refuse(path, f"is of another repository: commit {sent.base[:12]} is not here", "foreign-batch-state")
    return sent


def save_sent(repo: Repository, sent: Sent) -> None:
    """Write the note, whole or not at all. Raises RepositoryError (write-failed)."""
    write_file(_place(repo), msgspec.json.format(msgspec.json.encode(sent), indent=2) + b"\n")


def remove_sent(repo: Repository) -> None:
    """Forget what was sent; there may be nothing."""
    _place(repo).unlink(missing_ok=True)


def _place(repo: Repository) -> Path:
    return repo.common_dir / "memory-ci" / "backfill.json"


def _refuse(path: Path, what: str, slug: str, error: Exception | None = None) -> NoReturn:
    hint = "Remove the file; the same range is then sent and paid for again."
    raise RepositoryError(f"the note of a backfill, {path}, {what}", slug=slug, hint=hint) from error


class Pending(msgspec.Struct, frozen=True):
    """A backfill that has no plan yet; `ended` counts the batches whose answers are there.

    `refusal`: why what was estimated would not be sent.
    """

    status: Literal["estimated", "submitted", "processing"]
    estimate: Estimate
    ended: int = 0
    refusal: str = ""

    def __str__(self) -> str:
        requests, batches = plural(self.estimate.requests, "request"), f"batches: {self.estimate.batches}"
        size = f"about {self.estimate.input_tokens} tokens in, at most {_usd(self.estimate.cost_usd)}"
        match self.status:
            case "estimated":
                refusal = f"\nWould be refused: {self.refusal}." if self.refusal else ""
                return f"Would submit {requests} ({batches}), {size}.{refusal}"
            case "submitted":
                return f"Submitted {requests} ({batches}), {size}. Run again to collect the answers."
            case "processing":
                return f"Submitted {requests} ({batches}, ended: {self.ended}). Run again to collect the answers."


Wait = Callable[[Pending], None]
"""Called between two looks at the batches; returns when it is time for the next."""


class Backfill:
    """One call of a backfill; it takes up where an earlier one stopped, with the range and branch of that one.

    Raises RepositoryError (bad-batch-state, foreign-batch-state) when made.
    """

    def __init__(
        self,
        workspace: Workspace,
        options: RecordOptions,
        now: datetime,
        progress: OnProgress,
        environ: Mapping[str, str],
    ) -> None:
        self._workspace, self._now, self._progress, self._environ = workspace, now, progress, environ
        self._sent = find_sent(workspace.repo)
        self._options = _take_up(options, self._sent)

    def plan(self, wait: Wait | None = None, *, dry_run: bool = False) -> Plan | Pending:
        """The plan of the run, once all answers are there or none are needed; without `wait` what stands in the way.

        With `dry_run` nothing is sent. Raises UsageError (no-batches), EngineError, and as `plan_record`.
        """
        if self._sent is None or not self._sent.is_whole:
            plan, requests = self._gather()
            if self._sent is None and not requests:
                return plan
            pending = self._send(plan, requests, dry_run=dry_run)
            if wait is None or dry_run:
                return pending
        while (waiting := self._poll(self._noted)) is not None:
            if wait is None:
                return waiting
            wait(waiting)
        return self._collect(self._noted)

    def finish(self, plan: Plan) -> None:
        """Forget what was sent, after `plan` was applied; a plan that ends early leaves it to the next run."""
        if not plan.engine.failure:
            remove_sent(self._workspace.repo)

    @property
    def _noted(self) -> Sent:
        if self._sent is None:
            raise AssertionError("unreachable: what was sent is noted")
        return self._sent

    def _gather(self) -> tuple[Plan, dict[str, Request]]:
        """The plan without a model, and by their keys the requests that it would take and that were not sent yet."""
        known = self._sent.known if self._sent else None
        collector = Collector()
        with self._model() as (model, _):
            plan = self._plan(model, collector)
        if known is None and collector.requests:
            known = collector.requests[0].existing
        requests = {request_key(asked): asked for asked in (known_as(one, known) for one in collector.requests)}
        done = {key for batch in self._sent.batches for key in batch.ids} if self._sent else set()
        return plan, {key: request for key, request in requests.items() if key not in done}

    def _send(self, plan: Plan, requests: dict[str, Request], *, dry_run: bool) -> Pending:
        """Send one batch after another, each noted before the next. Raises EngineError, also cost-limit."""
        with self._model() as (model, engine):
            chunks = tuple(split({key: _size(engine, request) for key, request in requests.items()}))
            estimate = _estimate(model, engine, requests, len(chunks))
            if dry_run:
                return Pending("estimated", estimate, refusal=_refusal(model, estimate))
            _check_cost(model, estimate)
            known = next((request.existing for request in requests.values()), ())
            sent = self._sent or Sent(ref=plan.ref, base=plan.base, since=plan.since, known=known, estimate=estimate)
            for chunk in chunks:
                batch = submit(engine, {key: requests[key] for key in chunk}, self._now)
                sent = self._note(replace(sent, batches=(*sent.batches, batch)))
            self._note(replace(sent, is_whole=True))
        return Pending("submitted", estimate)

    def _note(self, sent: Sent) -> Sent:
        save_sent(self._workspace.repo, sent)
        self._sent = sent
        return sent

    def _poll(self, sent: Sent) -> Pending | None:
        """How far the batches are; None when all have ended."""
        with self._model() as (_, engine):
            ended = sum(poll(engine, batch) for batch in sent.batches)
        return None if ended == len(sent.batches) else Pending("processing", sent.estimate, ended)

    def _collect(self, sent: Sent) -> Plan:
        """The plan with the answers; those of a model that is no longer the one that is configured are not used."""
        with self._model() as (model, engine):
            found: dict[str, EngineReply | EngineError] = {}
            for batch in sent.batches:
                found |= results(engine, batch) if batch.model == model.settings.model else {}
            answers = BatchReplies(engine, sent.known, found)
            plan = self._plan(model, answers)
        return replace(plan, problems=(*plan.problems, *answers.problems))

    def _plan(self, model: Model, engine: Engine) -> Plan:
        adapted = model._replace(engine=engine)
        today = self._now.date()
        return plan_record(self._workspace, self._options, today, self._progress, self._environ, adapted)

    @contextmanager
    def _model(self) -> Iterator[tuple[Model, AnthropicEngine]]:
        """The model with a new engine, so that its deadline counts from now and not from before the wait."""
        repo = self._workspace.repo
        _, base = branch_tip(self._workspace, self._options.ref)
        here = Workspace(repo, trusted_config(repo, base))
        model = choose_run_model(here, base, self._options.engine, self._now.date(), self._environ)
        engine = model.engine
        if not isinstance(engine, AnthropicEngine) or model.settings.provider != "anthropic":
            raise _no_batches(model, self._environ)
        with closing(engine):
            yield model, engine


def split(sizes: Mapping[str, int], most: int | None = None, room: int | None = None) -> Iterator[tuple[str, ...]]:
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


def _take_up(options: RecordOptions, sent: Sent | None) -> RecordOptions:
    """The range and branch of what was sent, where the caller names no other; a first run begins at the root."""
    since = options.since if options.since is not None or sent is None else sent.since
    ref = options.ref if options.ref is not None or sent is None else sent.ref
    return replace(options, since=since, ref=ref, from_root=True)


def _size(engine: AnthropicEngine, request: Request) -> int:
    """Bytes of the request as JSON."""
    return len(msgspec.json.encode(engine.build_parameters(build_prompt(request))))


def _estimate(model: Model, engine: AnthropicEngine, requests: Mapping[str, Request], batches: int) -> Estimate:
    usages = [replace(engine.expect(build_prompt(request)), is_batch=True) for request in requests.values()]
    cost = sum(cost_bound(usage, model.settings.model, model.settings.price) for usage in usages)
    return Estimate(len(usages), batches, sum(usage.cache_write_tokens for usage in usages), cost)


def _check_cost(model: Model, estimate: Estimate) -> None:
    """All batches together must keep to the limit, before the first is sent: `submit` looks at one."""
    if refusal := _refusal(model, estimate):
        raise EngineError(
            f"{refusal}; nothing was sent",
            slug="cost-limit",
            hint="Raise engine.max_cost_usd, lower engine.max_tokens, or take a shorter range: --since.",
        )


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


def _no_batches(model: Model, environ: Mapping[str, str]) -> UsageError:
    provider = f" by {model.settings.provider}" if model.name == "anthropic" else ""
    hint = "Set ANTHROPIC_API_KEY with provider anthropic, or name another engine."
    if model.settings.name == "auto" and model.name == "rules" and is_configured(environ, model.settings):
        hint = "Install the package: pip install 'memory-ci[anthropic]'."
    return UsageError(
        f"the engine {model.name}{provider} has no batches ({model.reason})", slug="no-batches", hint=hint
    )


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

    What did not come back, or was not sent like this, is asked of `engine`, and counted. The usage of what came back
    is metered when it is read.
    """

    def __init__(
        self, engine: Engine, known: tuple[Known, ...], found: Mapping[str, EngineReply | EngineError]
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
        reason = "range, model or prompt changed since" if found is None else "failed, expired or missing"
        self._again[reason] += 1
        return self._engine.extract(request)


def known_as(request: Request, known: tuple[Known, ...] | None) -> Request:
    """The request as it is with this digest of memory; None leaves its own."""
    return request if known is None else replace(request, existing=known)
