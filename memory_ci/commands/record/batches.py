"""Batches of requests to a model, which answers them within a day at half the price.

A record run without replies collects the requests, which are then sent in batches and noted in a
state file in the git directory. A later run reads the file, waits for the batches to end, and plans
the record run with their replies.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.commands.record.learner import OnProgress
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.errors import EngineError, RepositoryError, UsageError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.anthropic_api import (
    AnthropicEngine,
    Batch,
    fetch_results,
    is_batch_ended,
    is_configured,
    submit_batch,
)
from memory_ci.extraction.engines.meter import compute_max_cost
from memory_ci.extraction.prompt import Prompt, build_prompt, request_key
from memory_ci.extras import how_to_install
from memory_ci.gitrepo.repo import Repository, find_commit
from memory_ci.memory.model import Model, choose_run_model, trust_config_at
from memory_ci.memory.workspace import Workspace, find_branch_tip
from memory_ci.records.candidate import EngineReply, ExistingEntry, Request, Usage
from memory_ci.records.plan import Plan
from memory_ci.store.files import write_file
from memory_ci.text import estimate_tokens, plural

COST_HINT = "Raise engine.max_cost_usd, or take a shorter range: --since."

REPLY_TOKENS = 200
"""Tokens of a reply about one change; the mean of 45 replies was 127."""

MAX_BATCH_REQUESTS = 1_000  # Requests of one batch.

MAX_BATCH_BYTES = 64_000_000
"""Bytes of a batch, far below the limits of the API, so that a batch that fails costs little."""


class Estimate(msgspec.Struct, frozen=True):
    """The size of all batches, and their cost in USD if every reply has full length."""

    requests: int
    batches: int
    input_tokens: int
    cost_usd: float


class SentBatches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The batches that were sent for a range of history, as a file in the git directory notes them.

    Attributes:
        version: the version of the format.
        ref: the branch.
        base: the commit that the branch was at.
        since: where the range begins; None for the first commit.
        known: the entries of memory that were sent with all requests.
        estimate: the size and the cost of the batches.
        batches: the batches that were sent.
        is_whole: whether all batches of the range were sent.
    """

    version: Literal[1] = 1
    ref: str
    base: str
    since: str | None
    known: tuple[ExistingEntry, ...]
    estimate: Estimate
    batches: tuple[Batch, ...] = ()
    is_whole: bool = False


def find_sent_batches(repo: Repository) -> SentBatches | None:
    """Return the batches that an earlier run sent, as it noted them in a file, None if none wait.

    Raises:
        RepositoryError: bad-batch-state, foreign-batch-state.
    """
    path = _state_path(repo)
    try:
        sent_batches = msgspec.json.decode(path.read_bytes(), type=SentBatches)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        raise _make_state_error(path, f"cannot be read: {error}", "bad-batch-state") from error
    if find_commit(repo, sent_batches.base) != sent_batches.base:
        problem = f"is of another repository: commit {sent_batches.base[:12]} is not here"
        raise _make_state_error(path, problem, "foreign-batch-state")
    return sent_batches


def _state_path(repo: Repository) -> Path:
    return repo.common_dir / "memory-ci" / "backfill.json"


def _make_state_error(path: Path, problem: str, slug: str) -> RepositoryError:
    message = f"the note of a backfill, {path}, {problem}"
    hint = "Remove the file; the same range is then sent and paid for again."
    return RepositoryError(message, slug=slug, hint=hint)


class Pending(msgspec.Struct, frozen=True):
    """A backfill without a plan yet.

    Attributes:
        status: how far it is.
        estimate: the size and the cost of the batches.
        ended: the number of batches that have ended.
        refusal: why batches that were only estimated would not be sent.
    """

    status: Literal["estimated", "submitted", "processing"]
    estimate: Estimate
    ended: int = 0
    refusal: str = ""

    def __str__(self) -> str:
        """Return the progress as a sentence for people."""
        estimate = self.estimate
        requests = plural(estimate.requests, "request")
        batches = f"batches: {estimate.batches}"
        if self.status == "processing":
            return (
                f"Submitted {requests} ({batches}, ended: {self.ended}). "
                "Run again to collect the answers."
            )
        cost = _format_usd(estimate.cost_usd)
        size = f"about {estimate.input_tokens} tokens in, at most {cost}"
        if self.status == "submitted":
            return f"Submitted {requests} ({batches}), {size}. Run again to collect the answers."
        refusal = f"\nWould be refused: {self.refusal}." if self.refusal else ""
        return f"Would submit {requests} ({batches}), {size}.{refusal}"


class UnansweredRun(NamedTuple):
    """A plan of a run in which no request was answered, and the requests."""

    plan: Plan
    requests: tuple[Request, ...]


Wait = Callable[[Pending], None]
"""Called between two polls of the batches; it returns when the next poll is due."""


class Backfill:
    """A record run in batches, which continues an earlier one with its range and its branch."""

    def __init__(
        self,
        workspace: Workspace,
        options: RecordOptions,
        now: datetime,
        progress: OnProgress,
        environ: Mapping[str, str],
    ) -> None:
        """Read which batches an earlier run sent, whose range and branch are the default.

        Raises:
            RepositoryError: bad-batch-state, foreign-batch-state.
        """
        self._workspace = workspace
        self._now = now
        self._progress = progress
        self._environ = environ
        self._sent_batches = find_sent_batches(workspace.repo)
        since = options.since
        ref = options.ref
        if self._sent_batches is not None:
            since = self._sent_batches.since if since is None else since
            ref = self._sent_batches.ref if ref is None else ref
        # Batches are for old history, so a run that names no range begins at the first commit.
        self._options = replace(options, since=since, ref=ref, from_root=True)

    def plan(self, wait: Wait | None = None, *, dry_run: bool = False) -> Plan | Pending:
        """Send the batches if none were sent, and plan the run if all batches have ended.

        Args:
            wait: called between two polls, which go on until all batches have ended; None to poll
                once.
            dry_run: send nothing.

        Returns:
            The plan of the run with all replies. If batches have not ended, their progress.

        Raises:
            UsageError: no-batches.
            EngineError: as the API; cost-limit; and what planning raises.
        """
        result = self.send(wait, dry_run=dry_run)
        if isinstance(result, SentBatches):  # All have ended.
            return self._plan_with_replies(result)
        return result

    def send(
        self,
        wait: Wait | None = None,
        *,
        dry_run: bool = False,
        unanswered_run: UnansweredRun | None = None,
    ) -> Plan | Pending | SentBatches:
        """Send the requests that were not sent yet, and poll the batches.

        An interrupted run may have sent a part of the batches: the rest is sent now.

        Args:
            wait: called between two polls, which go on until all batches have ended; None to poll
                once, or not at all if batches were sent just now.
            dry_run: send nothing.
            unanswered_run: the requests of the run, and its plan as if none of them had a reply;
                None to plan the run here.

        Returns:
            - `SentBatches` if all batches have ended, so that their replies can be fetched;
            - `Plan` if the run makes no requests, so that it needs no replies;
            - `Pending` otherwise: the progress of the batches, or their estimate for `dry_run`.

        Raises:
            UsageError: no-batches.
            EngineError: as the API; cost-limit.
        """
        sent_batches = self._sent_batches
        if sent_batches is None or not sent_batches.is_whole:
            unanswered_run = unanswered_run or self._collect_requests()
            requests = self._list_unsent(unanswered_run)
            if sent_batches is None and not requests:
                return unanswered_run.plan
            pending, sent_batches = self._submit_batches(
                unanswered_run.plan, requests, dry_run=dry_run
            )
            if wait is None or sent_batches is None:
                return pending
        return self._poll_batches(sent_batches, wait)

    def finish(self, plan: Plan) -> None:
        """Delete the state file after a plan was applied.

        It is kept if the model failed and the plan ends before its range: the next run needs the
        replies.
        """
        if not plan.engine.failure:
            _state_path(self._workspace.repo).unlink(missing_ok=True)

    def _collect_requests(self) -> UnansweredRun:
        """Return the plan of the run without replies, and the requests that it made."""
        collector = Collector()
        with self._open_model() as (model, _):
            plan = self._plan_run(model, collector)
        return UnansweredRun(plan, tuple(collector.requests))

    def _list_unsent(self, unanswered_run: UnansweredRun) -> dict[str, Request]:
        """Return the requests that were not sent yet, by the keys of their replies.

        All of them show the model the same entries of memory: those of the first request that was
        sent. So later entries change no request, and each reply is found by its key.
        """
        sent_entries: tuple[ExistingEntry, ...] | None = None
        sent_keys: set[str] = set()
        if self._sent_batches is not None:
            sent_entries = self._sent_batches.known
            for batch in self._sent_batches.batches:
                sent_keys.update(batch.ids)
        elif unanswered_run.requests:
            sent_entries = unanswered_run.requests[0].existing

        unsent: dict[str, Request] = {}
        for request in unanswered_run.requests:
            if sent_entries is not None:
                request = replace(request, existing=sent_entries)
            key = request_key(request)
            if key not in sent_keys:
                unsent[key] = request
        return unsent

    def _submit_batches(
        self, plan: Plan, requests: Mapping[str, Request], *, dry_run: bool
    ) -> tuple[Pending, SentBatches | None]:
        """Send all batches if their cost together is within the limit.

        Args:
            plan: the plan of the run without replies.
            requests: the requests that were not sent yet, by their keys.
            dry_run: send nothing, and return the estimate alone.

        Returns:
            The estimate, and the batches if they were sent.

        Raises:
            EngineError: as the API; `cost-limit` if the batches could cost more than the
                configuration allows.
        """
        with self._open_model() as (model, engine):
            prompts = {key: build_prompt(request) for key, request in requests.items()}
            sizes = {
                key: len(msgspec.json.encode(engine.build_parameters(prompt)))
                for key, prompt in prompts.items()
            }
            batch_keys = tuple(split_requests(sizes))
            estimate = _estimate_batches(model, list(prompts.values()), len(batch_keys))
            # `submit` checks the cost of one batch only.
            refusal = _find_refusal(model, estimate)
            if dry_run:
                return Pending("estimated", estimate, refusal=refusal), None
            if refusal:
                message = f"{refusal}; nothing was sent"
                raise EngineError(message, slug="cost-limit", hint=COST_HINT)

            sent_batches = self._sent_batches or _start_state(plan, requests, estimate)
            for keys in batch_keys:
                sent_batches = self._submit_one(
                    engine, sent_batches, {key: requests[key] for key in keys}
                )
        sent_batches = replace(sent_batches, is_whole=True)
        self._save_state(sent_batches)
        return Pending("submitted", estimate), sent_batches

    def _submit_one(
        self, engine: AnthropicEngine, sent_batches: SentBatches, requests: Mapping[str, Request]
    ) -> SentBatches:
        """Submit one batch, save it in the state file, and return all batches sent so far."""
        batch = submit_batch(engine, requests, self._now)
        sent_batches = replace(sent_batches, batches=(*sent_batches.batches, batch))
        self._save_state(sent_batches)
        return sent_batches

    def _save_state(self, sent_batches: SentBatches) -> None:
        """Write the state file of the batches as JSON, whole or not at all.

        Raises:
            RepositoryError: write-failed, the slug of an error of the file system.
        """
        data = msgspec.json.format(msgspec.json.encode(sent_batches), indent=2) + b"\n"
        write_file(_state_path(self._workspace.repo), data)
        self._sent_batches = sent_batches

    def _poll_batches(self, sent_batches: SentBatches, wait: Wait | None) -> Pending | SentBatches:
        """Ask the API how many batches have ended, again and again until all have.

        Args:
            sent_batches: the batches.
            wait: called between two polls; None to poll once.

        Returns:
            The batches if all have ended, else their progress.
        """
        while True:
            with self._open_model() as (_, engine):
                ended_count = sum(is_batch_ended(engine, batch) for batch in sent_batches.batches)
            if ended_count == len(sent_batches.batches):
                return sent_batches
            pending = Pending("processing", sent_batches.estimate, ended_count)
            if wait is None:
                return pending
            wait(pending)

    def _plan_with_replies(self, sent_batches: SentBatches) -> Plan:
        """Return the plan of the run, made with the replies of the batches.

        Replies of a model that is no longer configured are not used. A request without a reply is
        sent to the model by itself, with a problem in the plan.
        """
        with self._open_model() as (model, engine):
            replies: dict[str, EngineReply | EngineError] = {}
            for batch in sent_batches.batches:
                if batch.model == model.settings.model:
                    replies |= fetch_results(engine, batch)
            batch_replies = BatchReplies(engine, sent_batches.known, replies)
            plan = self._plan_run(model, batch_replies)
        return replace(plan, problems=(*plan.problems, *batch_replies.problems))

    def _plan_run(self, model: Model, engine: Engine) -> Plan:
        """Return the plan of the run, with another engine in place of the model's own."""
        return plan_record(
            self._workspace,
            self._options,
            self._now.date(),
            self._progress,
            self._environ,
            model=model._replace(engine=engine),
        )

    @contextmanager
    def _open_model(self) -> Iterator[tuple[Model, AnthropicEngine]]:
        """Open the model with a new engine, and close it after the block.

        An engine has a deadline, counted from when it is opened. So each step opens its own: the
        wait between two polls may be longer than the deadline.

        Raises:
            UsageError: no-batches.
        """
        model = choose_reusing_model(self._workspace, self._options, self._now, self._environ)
        if not isinstance(model.engine, AnthropicEngine) or not has_batches(model):
            raise self._make_batches_error(model)
        with closing(model.engine):
            yield model, model.engine

    def _make_batches_error(self, model: Model) -> UsageError:
        """Return the error for a model without batches, with advice on choosing another model."""
        settings = model.settings
        provider = f" by {settings.provider}" if model.name == "anthropic" else ""
        message = f"the engine {model.name}{provider} has no batches ({model.reason})"
        hint = "Set ANTHROPIC_API_KEY with provider anthropic, or name another engine."
        is_fallback = settings.name == "auto" and model.name == "rules"
        if is_fallback and is_configured(self._environ, settings):
            hint = f"Install the package: {how_to_install('anthropic')}."
        return UsageError(message, slug="no-batches", hint=hint)


def _start_state(plan: Plan, requests: Mapping[str, Request], estimate: Estimate) -> SentBatches:
    """Return the state of a run's batches before any was sent."""
    known_entries: tuple[ExistingEntry, ...] = ()
    for request in requests.values():
        known_entries = request.existing  # All requests have the same.
        break
    return SentBatches(
        ref=plan.ref, base=plan.base, since=plan.since, known=known_entries, estimate=estimate
    )


def choose_reusing_model(
    workspace: Workspace, options: RecordOptions, now: datetime, environ: Mapping[str, str]
) -> Model:
    """Return the model of a run, which uses cached replies even if memory has grown since.

    Raises:
        UsageError, EngineError: as `choose_run_model`.
    """
    _, base = find_branch_tip(workspace, options.ref)
    trusted = trust_config_at(workspace.repo, base)
    model = choose_run_model(trusted, base, options.engine, now.date(), environ)
    return model._replace(reuses_stale_replies=True)


def split_requests(
    sizes: Mapping[str, int], max_requests: int | None = None, max_bytes: int | None = None
) -> Iterator[tuple[str, ...]]:
    """Split requests into batches, and yield the keys of each batch.

    The requests keep their order. A request that is larger than `max_bytes` is a batch of its own.

    Args:
        sizes: the size of each request in bytes, by its key.
        max_requests: the number of requests in a batch; None for MAX_BATCH_REQUESTS.
        max_bytes: the size of a batch; None for MAX_BATCH_BYTES.
    """
    max_requests = max_requests or MAX_BATCH_REQUESTS
    max_bytes = max_bytes or MAX_BATCH_BYTES
    batch: list[str] = []
    batch_bytes = 0
    for key, size in sizes.items():
        if batch and (len(batch) == max_requests or batch_bytes + size > max_bytes):
            yield tuple(batch)
            batch = []
            batch_bytes = 0
        batch.append(key)
        batch_bytes += size
    if batch:
        yield tuple(batch)


def _estimate_batches(model: Model, prompts: Sequence[Prompt], batches: int) -> Estimate:
    """Return the size of batches and the upper bound of their cost.

    Args:
        model: the model.
        prompts: one prompt for each request.
        batches: the number of batches.
    """
    settings = model.settings
    usages = [expect_usage(model, prompt) for prompt in prompts]
    # Anthropic counts all input of a request with a cache mark as tokens written to the cache.
    return Estimate(
        requests=len(usages),
        batches=batches,
        input_tokens=sum(usage.cache_write_tokens for usage in usages),
        cost_usd=sum(compute_max_cost(usage, settings.model, settings.price) for usage in usages),
    )


def _find_refusal(model: Model, estimate: Estimate) -> str:
    """Return why an estimate exceeds the cost limit of a run, or ""."""
    settings = model.settings
    limit = settings.max_cost_usd
    if not limit or estimate.cost_usd <= limit:
        return ""
    requests = f"{plural(estimate.requests, 'request')} to {settings.model} in batches"
    cost_text = _format_usd(estimate.cost_usd)
    return f"{requests} could cost {cost_text}: more than engine.max_cost_usd, {limit:g} USD a run"


def _format_usd(amount: float) -> str:
    """Format an upper bound, rounded up, so that a small amount is not zero."""
    return f"{math.ceil(amount * 10_000) / 10_000:.4f} USD"


class Collector:
    """An engine that collects the requests about changes, and replies that nothing was learned.

    Its replies have no stop reason, so they are not cached.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.calls = 0

    def extract(self, request: Request) -> EngineReply:
        """Return a reply without learnings."""
        self.calls += 1
        if request.task == "learnings":
            self.requests.append(request)
        return EngineReply(text='{"learnings": []}', stop_reason="")


class BatchReplies:
    """An engine that answers with the replies of batches, and asks another engine for the rest."""

    def __init__(
        self,
        engine: Engine,
        existing: tuple[ExistingEntry, ...],
        replies: Mapping[str, EngineReply | EngineError],
    ) -> None:
        """Answer with replies of batches.

        Args:
            engine: the engine for requests without a reply.
            existing: the entries of memory that were sent with the requests.
            replies: the replies or errors, by the keys of the requests that were sent.
        """
        self._engine = engine
        self._sent_entries = existing
        self._replies = replies
        self._missing_replies: Counter[str] = Counter()  # By reason.

    @property
    def problems(self) -> tuple[str, ...]:
        """How many replies were missing, for each reason."""
        return tuple(
            f"{count} of the batches' answers, so the model is asked again: {reason}"
            for reason, count in sorted(self._missing_replies.items())
        )

    def extract(self, request: Request) -> EngineReply:
        """Return the reply to a request from the batches, or else ask the engine.

        The engine is asked if the batches have no reply to this request, which is counted as a
        problem.

        Raises:
            EngineError: as the engine.
        """
        # Batches hold only requests about merged changes. Requests that compare entries go to the
        # engine.
        if request.task != "learnings":
            return self._engine.extract(request)
        # Replies are stored under a hash of the sent request, which names the entries of memory. So
        # the hash is taken with the entries of that time, not with those of now.
        sent_request = replace(request, existing=self._sent_entries)
        reply = self._replies.get(request_key(sent_request))
        if isinstance(reply, EngineReply):
            return reply
        reason = "failed, expired or missing"
        if reply is None:
            reason = "range, model or prompt changed since"
        self._missing_replies[reason] += 1
        return self._engine.extract(request)


def has_batches(model: Model) -> bool:
    """Return whether a model answers batches of requests, as the API of Anthropic does."""
    return isinstance(model.engine, AnthropicEngine) and model.settings.provider == "anthropic"


def expect_usage(model: Model, prompt: Prompt) -> Usage:
    """Return the tokens that a request is expected to use.

    It is the upper bound if the engine has one, else the tokens of a reply of usual length.
    """
    if isinstance(model.engine, AnthropicEngine):
        return replace(model.engine.estimate_usage(prompt), is_batch=has_batches(model))
    tokens = estimate_tokens(prompt.system) + estimate_tokens(prompt.user)
    return Usage(input_tokens=tokens, output_tokens=REPLY_TOKENS)
