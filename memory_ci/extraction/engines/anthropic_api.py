"""The Anthropic engine: one call of the Messages API for a request, by key or workload identity, or through a cloud.

Facts it rests on (checked with versions 0.77 and 2.12 of the SDK against a loopback server, see docs/engines.md): the
SDK takes seconds to import; it sleeps as long as a server says unless max_retries is 0; `messages.parse` hides
stop_reason; blocks of thinking come before text; a reply that is no message becomes an AttributeError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from memory_ci.deadline import call_bounded
from memory_ci.errors import EngineError
from memory_ci.extraction.engines.faults import (
    SYSTEM_CLOCK,
    UNAUTHORISED,
    CallFailure,
    Clock,
    explain,
    refuses_output_config,
    scrub,
)
from memory_ci.extraction.engines.meter import Meter, read_usage
from memory_ci.extraction.prompt import Prompt, build_prompt
from memory_ci.records.candidate import EngineReply, Request, Usage
from memory_ci.records.config import EngineConfig, Provider
from memory_ci.text import estimate_tokens

T = TypeVar("T")
TRIES = 3
MAX_WAIT = (
    60.0  # Seconds between two tries at most, whatever a Retry-After says: it may name an hour.
)
# Tokens beside the evidence of a window: instructions, digest, schema, the quotes and names of JSON.
PROMPT_MARGIN = 10_000
TOKENS_PER_SECOND = (
    128_000 / 3600
)  # The slowest output that the SDK reckons with for a call that is not streamed.
DEFAULT_BASE_URL = "https://api.anthropic.com"

# Names of the SDK's clients, the same in every supported version.
CLIENTS: dict[Provider, str] = {
    "anthropic": "Anthropic",
    "bedrock": "AnthropicBedrock",
    "vertex": "AnthropicVertex",
    "foundry": "AnthropicFoundry",
}
# Sets of variables, each of which is enough, in the order in which the SDK looks at them.
CREDENTIALS: dict[Provider, tuple[tuple[str, ...], ...]] = {
    "anthropic": (
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_AUTH_TOKEN",),
        ("ANTHROPIC_PROFILE",),
        (
            "ANTHROPIC_FEDERATION_RULE_ID",
            "ANTHROPIC_ORGANIZATION_ID",
            "ANTHROPIC_IDENTITY_TOKEN_FILE",
        ),
        ("ANTHROPIC_FEDERATION_RULE_ID", "ANTHROPIC_ORGANIZATION_ID", "ANTHROPIC_IDENTITY_TOKEN"),
    ),
    "bedrock": (
        ("AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK"),
        ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_REGION", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
        ("AWS_REGION", "AWS_PROFILE"),
    ),
    "vertex": (
        ("CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID"),
        ("CLOUD_ML_REGION", "GOOGLE_APPLICATION_CREDENTIALS"),
    ),
    "foundry": (
        ("ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_RESOURCE"),
        ("ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_BASE_URL"),
    ),
}


def is_configured(environ: Mapping[str, str], settings: EngineConfig) -> str | None:
    """Why a call may be tried ("ANTHROPIC_API_KEY is set"), or None. Configured is not working: nothing is asked."""
    for names in CREDENTIALS[settings.provider]:
        if all(environ.get(name) for name in names):
            return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} set"
    return None


class AnthropicEngine:
    """Asks a model of Anthropic. One engine serves one run: its deadline and its meter hold for all of its calls.
    `call_seconds` bounds one call; by default what `max_tokens` may take, and a minute."""

    def __init__(
        self,
        settings: EngineConfig,
        environ: Mapping[str, str],
        clock: Clock = SYSTEM_CLOCK,
        call_seconds: float | None = None,
    ) -> None:
        self.settings, self.environ, self.meter = settings, environ, Meter(settings)
        self._clock, self._deadline = clock, clock.now() + settings.deadline_seconds
        self._call_seconds = call_seconds or 60 + settings.max_tokens / TOKENS_PER_SECOND
        self._client: Any = None
        self._takes_schema = True

    def extract(self, request: Request) -> EngineReply:
        """The reply to `request`, whatever its stop_reason. Raises EngineError (docs/engines.md lists the slugs)."""
        prompt = build_prompt(request)
        self.meter.check(self.expect(prompt))
        before = self.meter.spent.tries
        reply = self.ask(
            lambda client, seconds: read_message(self._create(client, prompt, seconds))
        )
        self.meter.add(reply.usage)
        return replace(reply, tries=self.meter.spent.tries - before)

    def expect(self, prompt: Prompt) -> Usage:
        """The most that one call with `prompt` may use. Raises EngineError [prompt-too-long]."""
        schema = msgspec.json.encode(prompt.schema).decode()
        tokens = sum(map(estimate_tokens, (prompt.system, prompt.user, schema)))
        limit = self.settings.prompt_tokens + PROMPT_MARGIN
        if tokens > limit:
            told = f"the prompt has about {tokens} tokens, {limit} are allowed: nothing was sent"
            hint = "raise engine.prompt_tokens, or lower it so that less evidence is chosen"
            raise EngineError(told, slug="prompt-too-long", hint=hint)
        return Usage(cache_write_tokens=tokens, output_tokens=self.settings.max_tokens)

    def build_parameters(self, prompt: Prompt) -> dict[str, Any]:
        """The body of the call: nothing of sampling, no prefill, the system part marked for the cache."""
        system = {"type": "text", "text": prompt.system, "cache_control": {"type": "ephemeral"}}
        parameters: dict[str, Any] = {
            "model": self.settings.model,
            "max_tokens": self.settings.max_tokens,
            "system": [system],
            "messages": [{"role": "user", "content": prompt.user}],
        }
        if self._takes_schema:
            parameters["output_config"] = {
                "format": {"type": "json_schema", "schema": prompt.schema}
            }
        return parameters

    def ask(self, call: Callable[[Any, float], T], tries: int = TRIES) -> T:
        """What `call(client, seconds it may take)` returns, tried again while its failure is transient. Raises
        EngineError and nothing else: that of the last failure, or [engine-deadline] when the run's time is up."""
        if self._client is None:
            self._client = self._make_client()

        def attempt(seconds: float) -> T:
            self.meter.add_try()
            return call(self._client, seconds)

        for number in range(1, tries + 1):
            left = self._deadline - self._clock.now()
            if left <= 0:
                raise _out_of_time("before the call was made")
            try:
                return call_bounded(attempt, min(left, self._call_seconds))
            except Exception as error:  # noqa: BLE001 - the one boundary: an SDK may throw anything
                failure = self.explain(error)
            if not failure.is_transient or number == tries:
                raise failure.error
            # What the server asks for, else 1, 2, 4 … less up to half.
            usual = min(2.0 ** (number - 1), MAX_WAIT) * (1 - self._clock.jitter() / 2)
            wait = usual if failure.retry_after is None else min(failure.retry_after, MAX_WAIT)
            if self._clock.now() + wait >= self._deadline:
                raise _out_of_time(f"while the call was tried again; last: {failure.error.message}")
            self._clock.sleep(wait)
        raise AssertionError("unreachable: the last try returns or raises")

    def close(self) -> None:
        """Close the connections; the process does so as well when it ends."""
        if self._client is not None:
            self._client.close()

    def explain(self, error: Exception) -> CallFailure:
        """What a failure of the SDK means. Where it finds no credentials, and we know of none, it says which to set."""
        failure = explain(error, self.settings.model, self.environ)
        is_ours = failure.error.slug == UNAUTHORISED.slug and not hasattr(error, "status_code")
        if not is_ours or error is failure.error or is_configured(self.environ, self.settings):
            return failure
        sets = "; or ".join(" and ".join(names) for names in CREDENTIALS[self.settings.provider])
        text = f"{self.settings.model}: no credentials for {self.settings.provider}: set {sets}"
        return CallFailure(
            EngineError(text, slug=UNAUTHORISED.slug, hint="`memory-ci help engines` explains them")
        )

    def _make_client(self) -> Any:  # noqa: ANN401 - one of four classes, whose import takes seconds
        try:
            import anthropic

            client = getattr(anthropic, CLIENTS[self.settings.provider])
            http = anthropic.DefaultHttpxClient(
                follow_redirects=False
            )  # a redirect would take the key to another host
            return client(max_retries=0, http_client=http, **self._find_credentials())
        except Exception as error:  # noqa: BLE001 - a missing region, a broken profile, a missing package
            raise self.explain(error).error from None

    def _find_credentials(self) -> dict[str, str]:
        """What is said to the client; workload identity and the clouds' own credentials it finds by itself. An empty
        variable (an unset one of a workflow) is none. The base URL is always said, so that nothing but the environment
        decides it."""
        if self.settings.provider != "anthropic":
            return {}
        base_url = self.environ.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL
        for argument, name in (
            ("api_key", "ANTHROPIC_API_KEY"),
            ("auth_token", "ANTHROPIC_AUTH_TOKEN"),
        ):
            if value := self.environ.get(name, "").strip():
                if value.isascii() and value.isprintable():
                    return {argument: value, "base_url": base_url}
                # The SDK would say that the service cannot be reached.
                text = f"{self.settings.model}: {name} is no key: it holds a line break, or what is not ASCII"
                raise EngineError(text, slug=UNAUTHORISED.slug, hint=UNAUTHORISED.hint)
        return {"base_url": base_url}

    def _create(self, client: Any, prompt: Prompt, seconds: float) -> Any:  # noqa: ANN401
        try:
            return client.messages.create(**self.build_parameters(prompt), timeout=seconds)
        except Exception as error:
            if not (self._takes_schema and refuses_output_config(error)):
                raise
        self._takes_schema = False
        self.meter.add_try()
        return client.messages.create(**self.build_parameters(prompt), timeout=seconds)


def _out_of_time(when: str) -> EngineError:
    told = f"the time for all calls of this run was up {when}"
    hint = "run again: the same range is taken; or raise engine.deadline_seconds"
    return EngineError(told, slug="engine-deadline", hint=hint)


def read_message(message: Any) -> EngineReply:  # noqa: ANN401
    """The text blocks of a message; of a refusal or a truncated reply too. Raises AttributeError when it is none."""
    return EngineReply(
        text="".join(block.text for block in message.content if block.type == "text"),
        stop_reason=message.stop_reason or "",
        usage=read_usage(message.usage),
        model=message.model,
    )


MAX_REQUESTS = 100_000
MAX_BYTES = 200_000_000  # The API's limits are 100,000 requests and 256 MB of JSON.


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch that was sent: its calls are answered within a day, in any order, at half price. It outlives the process
    that sent it: `flows.record.backfill` keeps this to fetch it later. `ids` are the keys of its requests
    (`prompt.request_key`), as the API's custom_id."""

    id: str
    model: str
    ids: tuple[str, ...]
    submitted_at: datetime


def submit(engine: AnthropicEngine, requests: Mapping[str, Request], now: datetime) -> Batch:
    """Send `requests`, by their keys. It is tried once: a lost answer may stand for a paid batch. Raises EngineError,
    also [cost-limit] when the whole batch could cost more than the run may."""
    if engine.settings.provider != "anthropic":
        raise _refuse(
            f"engine.provider {engine.settings.provider} has no batches", "use provider anthropic"
        )
    prompts = {key: build_prompt(request) for key, request in requests.items()}
    parts = {
        key: (engine.build_parameters(prompt), replace(engine.expect(prompt), is_batch=True))
        for key, prompt in prompts.items()
    }
    size = sum(len(msgspec.json.encode(parameters)) for parameters, _ in parts.values())
    if size > MAX_BYTES or len(parts) > MAX_REQUESTS:
        raise _refuse(
            f"{len(parts)} requests of {size} bytes are too many for one batch",
            "take a shorter range",
        )
    engine.meter.check(*(expected for _, expected in parts.values()))
    items = [{"custom_id": key, "params": parameters} for key, (parameters, _) in parts.items()]
    sent = engine.ask(
        lambda client, seconds: client.messages.batches.create(requests=items, timeout=seconds).id,
        1,
    )
    return Batch(str(sent), engine.settings.model, tuple(requests), now)


def poll(engine: AnthropicEngine, batch: Batch) -> bool:
    """Has the batch ended, so that `results` may be read? Raises EngineError."""
    found = engine.ask(
        lambda client, seconds: client.messages.batches.retrieve(batch.id, timeout=seconds)
    )
    return bool(found.processing_status == "ended")


def results(engine: AnthropicEngine, batch: Batch) -> dict[str, EngineReply | EngineError]:
    """For each id of an ended batch its reply, or why it has none. Raises EngineError when none can be read."""
    lines = engine.ask(
        lambda client, seconds: {
            line.custom_id: line.result
            for line in client.messages.batches.results(batch.id, timeout=seconds)
        }
    )
    found = {key: _read(engine, key, lines.get(key)) for key in batch.ids}
    for reply in found.values():
        if isinstance(reply, EngineReply):
            engine.meter.add(reply.usage)
    return found


def _read(engine: AnthropicEngine, key: str, result: Any) -> EngineReply | EngineError:  # noqa: ANN401
    if result is None:
        return _fail(key, "it is missing from the results")
    if result.type != "succeeded":
        said = getattr(getattr(getattr(result, "error", None), "error", None), "message", None)
        return _fail(key, scrub(f"{result.type}{f', {said}' if said else ''}", engine.environ))
    try:
        reply = read_message(result.message)
    except Exception as error:  # noqa: BLE001 - one odd line costs only itself
        return engine.explain(error).error
    return replace(reply, usage=replace(reply.usage, is_batch=True))


def _fail(key: str, why: str) -> EngineError:
    hint = "it is asked again by itself; if that fails too, the next run takes it again"
    return EngineError(
        f"request {key[:12]} of a batch has no reply: {why}", slug="batch-item-failed", hint=hint
    )


def _refuse(what: str, hint: str) -> EngineError:
    return EngineError(f"the batch was not sent: {what}", slug="batch-refused", hint=hint)
