"""The engine that calls the Messages API of Anthropic, directly or through a cloud.

It relies on the following facts, checked with versions 0.77 and 2.12 of the SDK against a loopback
server (docs/models.md). The SDK takes seconds to import. It sleeps as long as a server says unless
`max_retries` is 0. `messages.parse` hides `stop_reason`. Blocks of thinking come before text. A
reply that is no message becomes an AttributeError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from memory_ci.deadline import call_bounded
from memory_ci.errors import EngineError
from memory_ci.extraction.engines import faults
from memory_ci.extraction.engines.faults import (
    SYSTEM_CLOCK,
    UNAUTHORISED,
    CallFailure,
    Clock,
    refuses_output_config,
    scrub,
)
from memory_ci.extraction.engines.meter import Meter, read_usage
from memory_ci.extraction.prompt import ANSWER_TOKENS, PROMPT_TOKENS, Prompt, build_prompt
from memory_ci.records.candidate import EngineReply, Request, Usage
from memory_ci.records.config import EngineConfig, Provider
from memory_ci.text import estimate_tokens

T = TypeVar("T")
TRIES = 3  # Tries of one call, where another try can help.
MAX_WAIT = 60.0
"""Number of seconds between two tries, even if a Retry-After is longer: it may be an hour."""

PROMPT_MARGIN = 10_000
"""Number of tokens besides the evidence: instructions, known entries, schema and JSON."""

TOKENS_PER_SECOND = 128_000 / 3600
"""The slowest output that the SDK expects of a call that is not streamed."""

DEFAULT_BASE_URL = "https://api.anthropic.com"

CLIENTS: dict[Provider, str] = {
    "anthropic": "Anthropic",
    "bedrock": "AnthropicBedrock",
    "vertex": "AnthropicVertex",
    "foundry": "AnthropicFoundry",
}
"""The SDK's clients, whose names are the same in every supported version."""

CREDENTIAL_VARIABLES: dict[Provider, tuple[tuple[str, ...], ...]] = {
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
"""Sets of variables, each of which is enough, in the order in which the SDK looks for them."""

KEY_VARIABLES = (("api_key", "ANTHROPIC_API_KEY"), ("auth_token", "ANTHROPIC_AUTH_TOKEN"))
"""Arguments of the client, and the environment variables with their values."""


def is_configured(environ: Mapping[str, str], settings: EngineConfig) -> str | None:
    """Return why a call may be tried ("ANTHROPIC_API_KEY is set"), or None.

    No call is made, so configured credentials need not work.
    """
    for names in CREDENTIAL_VARIABLES[settings.provider]:
        if all(environ.get(name) for name in names):
            verb = "is" if len(names) == 1 else "are"
            return f"{' and '.join(names)} {verb} set"
    return None


class AnthropicEngine:
    """Calls a model of Anthropic.

    One engine serves one run: its deadline and its meter hold for all calls.
    """

    def __init__(
        self,
        settings: EngineConfig,
        environ: Mapping[str, str],
        clock: Clock = SYSTEM_CLOCK,
        call_seconds: float | None = None,
    ) -> None:
        """Create an engine.

        Args:
            settings: the configuration.
            environ: the environment, which has the credentials.
            clock: the clock.
            call_seconds: how long one call may take. By default a minute, and the time that a model
                needs to write an answer of `ANSWER_TOKENS`.
        """
        self.settings = settings
        self.environ = environ
        self.meter = Meter(settings)  # counts the tokens of the run, and refuses more than allowed
        self._clock = clock
        self._deadline = clock.now() + settings.deadline_seconds
        self._call_seconds = call_seconds or 60 + ANSWER_TOKENS / TOKENS_PER_SECOND
        self._client: Any = None  # created at the first call
        self._accepts_schema = True  # whether the service accepts a schema of the answer

    def extract(self, request: Request) -> EngineReply:
        """Return the reply to a request, with any stop reason.

        Raises:
            EngineError: the API sent no reply; docs/models.md lists the slugs.
        """
        prompt = build_prompt(request)
        self.meter.check_next_calls(self.estimate_usage(prompt))
        tries_before = self.meter.spent.tries
        reply = self.call_api(
            lambda client, seconds: read_message(self._create(client, prompt, seconds))
        )
        self.meter.add_call(reply.usage)
        return replace(reply, tries=self.meter.spent.tries - tries_before)

    def estimate_usage(self, prompt: Prompt) -> Usage:
        """Return an upper bound of the tokens that one call takes.

        All tokens of the prompt count as written to the cache, which costs most.

        Raises:
            EngineError: prompt-too-long.
        """
        schema = msgspec.json.encode(prompt.schema).decode()
        tokens = sum(estimate_tokens(text) for text in (prompt.system, prompt.user, schema))
        limit = PROMPT_TOKENS + PROMPT_MARGIN
        if tokens > limit:
            message = f"the prompt has about {tokens} tokens, {limit} are allowed: nothing was sent"
            hint = "memory that is shown to the model is too long: run `memory-ci upkeep compact`"
            raise EngineError(message, slug="prompt-too-long", hint=hint)
        return Usage(cache_write_tokens=tokens, output_tokens=ANSWER_TOKENS)

    def build_parameters(self, prompt: Prompt) -> dict[str, Any]:
        """Return the arguments of a call of `messages.create`, which caches the system prompt."""
        system = {"type": "text", "text": prompt.system, "cache_control": {"type": "ephemeral"}}
        parameters: dict[str, Any] = {
            "model": self.settings.model,
            "max_tokens": ANSWER_TOKENS,
            "system": [system],
            "messages": [{"role": "user", "content": prompt.user}],
        }
        if self._accepts_schema:
            parameters["output_config"] = {
                "format": {"type": "json_schema", "schema": prompt.schema}
            }
        return parameters

    def call_api(self, call: Callable[[Any, float], T], tries: int = TRIES) -> T:
        """Return the result of a call of the API; it is tried again while its failure is transient.

        Args:
            call: gets the client and the seconds that it may take.
            tries: how often the call is made at most.

        Raises:
            EngineError: of the last failure; engine-deadline, if the time of the run is over. No
                other exception is raised.
        """
        if self._client is None:
            self._client = self._make_client()

        def attempt(seconds: float) -> T:
            self.meter.add_try()
            return call(self._client, seconds)

        for number in range(1, tries + 1):
            seconds_left = self._deadline - self._clock.now()
            if seconds_left <= 0:
                raise _make_deadline_error("before the call was made")
            try:
                return call_bounded(attempt, min(seconds_left, self._call_seconds))
            except Exception as error:  # noqa: BLE001 - the one boundary: an SDK may throw anything
                failure = self.explain_error(error)
            if not failure.is_transient or number == tries:
                raise failure.error
            self._wait_before_retry(number, failure)
        raise AssertionError("unreachable: the last try returns or raises")

    def _wait_before_retry(self, number: int, failure: CallFailure) -> None:
        """Wait after a failed try, as long as the server wants.

        Otherwise the wait is 1, 2, 4 ... seconds, less up to half by chance.

        Args:
            number: the number of the try, from 1.
            failure: its failure.

        Raises:
            EngineError: engine-deadline, if the time of the run would be over.
        """
        if failure.retry_after is None:
            seconds = min(2.0 ** (number - 1), MAX_WAIT) * (1 - self._clock.jitter() / 2)
        else:
            seconds = min(failure.retry_after, MAX_WAIT)
        if self._clock.now() + seconds >= self._deadline:
            raise _make_deadline_error(
                f"while the call was tried again; last: {failure.error.message}"
            )
        self._clock.sleep(seconds)

    def close(self) -> None:
        """Close the connections; the process does so as well when it ends."""
        if self._client is not None:
            self._client.close()

    def explain_error(self, error: Exception) -> CallFailure:
        """Return the failure that an exception of the SDK means: a message and whether to retry.

        If the SDK finds no credentials and none are configured, the message says which to set.
        """
        failure = faults.explain_error(error, self.settings.model, self.environ)
        if not self._lacks_credentials(error, failure):
            return failure
        provider = self.settings.provider
        variables = "; or ".join(" and ".join(names) for names in CREDENTIAL_VARIABLES[provider])
        message = f"{self.settings.model}: no credentials for {provider}: set {variables}"
        hint = "`memory-ci help models` explains them"
        return CallFailure(EngineError(message, slug=UNAUTHORISED.slug, hint=hint))

    def _lacks_credentials(self, error: Exception, failure: CallFailure) -> bool:
        """Return whether the SDK raised an exception because no credentials are configured.

        Args:
            error: the exception.
            failure: what it means.
        """
        is_our_error = error is failure.error  # it says already what to do
        if is_our_error or failure.error.slug != UNAUTHORISED.slug:
            return False
        # With a status, the service refused credentials.
        if hasattr(error, "status_code"):
            return False
        return is_configured(self.environ, self.settings) is None

    def _make_client(self) -> Any:  # noqa: ANN401 - one of four classes, whose import takes seconds
        """Return a client of the SDK for the configured provider.

        Raises:
            EngineError: if the package, the credentials or a region are missing.
        """
        try:
            import anthropic

            client_class = getattr(anthropic, CLIENTS[self.settings.provider])
            # A redirect would take the key to another host.
            http_client = anthropic.DefaultHttpxClient(follow_redirects=False)
            credentials = self._find_credentials()
            return client_class(max_retries=0, http_client=http_client, **credentials)
        except Exception as error:  # noqa: BLE001 - no region, a broken profile, no package
            raise self.explain_error(error).error from None

    def _find_credentials(self) -> dict[str, str]:
        """Return the arguments of the client for its key and the address of the service.

        The client itself finds workload identity and the credentials of clouds. An empty variable
        counts as unset: a workflow passes a secret that does not exist as an empty string. The base
        URL is always an argument, so that only the environment decides it.

        Raises:
            EngineError: engine-unauthorised, for a key that cannot be one.
        """
        if self.settings.provider != "anthropic":
            return {}
        base_url = self.environ.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL
        for argument, name in KEY_VARIABLES:
            value = self.environ.get(name, "").strip()
            if not value:
                continue
            if not (value.isascii() and value.isprintable()):
                # The SDK would say that the service cannot be reached.
                message = (
                    f"{self.settings.model}: {name} is no key: it holds a line break, or what is"
                    " not ASCII"
                )
                raise EngineError(message, slug=UNAUTHORISED.slug, hint=UNAUTHORISED.hint)
            return {argument: value, "base_url": base_url}
        return {"base_url": base_url}

    def _create(self, client: Any, prompt: Prompt, seconds: float) -> Any:  # noqa: ANN401
        """Return the model's message for a prompt.

        An older service that refuses the schema of the answer is called again without it.
        """
        try:
            return client.messages.create(**self.build_parameters(prompt), timeout=seconds)
        except Exception as error:
            if not (self._accepts_schema and refuses_output_config(error)):
                raise
        self._accepts_schema = False
        self.meter.add_try()
        return client.messages.create(**self.build_parameters(prompt), timeout=seconds)


def _make_deadline_error(when: str) -> EngineError:
    message = f"the time for all calls of this run was up {when}"
    hint = "run again: the same range is taken; or raise engine.deadline_seconds"
    return EngineError(message, slug="engine-deadline", hint=hint)


def read_message(message: Any) -> EngineReply:  # noqa: ANN401
    """Return a message of the API as our record: its text, why the model stopped, and the tokens.

    A refusal or a truncated reply is returned as well.

    Raises:
        AttributeError: if it is no message.
    """
    return EngineReply(
        text="".join(block.text for block in message.content if block.type == "text"),
        stop_reason=message.stop_reason or "",
        usage=read_usage(message.usage),
        model=message.model,
    )


# -- batches

# The API's limits are 100,000 requests and 256 MB of JSON.
MAX_REQUESTS = 100_000
MAX_BYTES = 200_000_000


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch that was sent.

    Its calls are answered within a day, in any order, at half price. It outlives the process that
    sent it, so it is stored to fetch its results later.

    Attributes:
        id: the id of the batch.
        model: the model.
        ids: the keys of its requests (`prompt.request_key`), the API's `custom_id`.
        submitted_at: when it was sent.
    """

    id: str
    model: str
    ids: tuple[str, ...]
    submitted_at: datetime


def submit_batch(engine: AnthropicEngine, requests: Mapping[str, Request], now: datetime) -> Batch:
    """Send requests as a batch, which costs half and is answered within a day.

    It is tried only once: if the answer is lost, the batch may be paid for.

    Args:
        engine: the engine.
        requests: the requests by their keys.
        now: the time.

    Raises:
        EngineError: batch-refused; cost-limit, if the whole batch could cost more than the run may;
            and as `AnthropicEngine.call_api`.
    """
    if engine.settings.provider != "anthropic":
        reason = f"engine.provider {engine.settings.provider} has no batches"
        raise _make_refusal(reason, "use provider anthropic")
    items: list[dict[str, Any]] = []
    expected: list[Usage] = []
    size = 0
    for key, request in requests.items():
        prompt = build_prompt(request)
        parameters = engine.build_parameters(prompt)
        items.append({"custom_id": key, "params": parameters})
        expected.append(replace(engine.estimate_usage(prompt), is_batch=True))
        size += len(msgspec.json.encode(parameters))
    if size > MAX_BYTES or len(items) > MAX_REQUESTS:
        reason = f"{len(items)} requests of {size} bytes are too many for one batch"
        raise _make_refusal(reason, "take a shorter range")
    engine.meter.check_next_calls(*expected)

    def create(client: Any, seconds: float) -> str:  # noqa: ANN401 - of the SDK
        return str(client.messages.batches.create(requests=items, timeout=seconds).id)

    batch_id = engine.call_api(create, tries=1)
    return Batch(batch_id, engine.settings.model, tuple(requests), now)


def is_batch_ended(engine: AnthropicEngine, batch: Batch) -> bool:
    """Return whether a batch has ended, so that its results can be fetched.

    Raises:
        EngineError: as `AnthropicEngine.call_api`.
    """
    state = engine.call_api(
        lambda client, seconds: client.messages.batches.retrieve(batch.id, timeout=seconds)
    )
    return bool(state.processing_status == "ended")


def fetch_results(engine: AnthropicEngine, batch: Batch) -> dict[str, EngineReply | EngineError]:
    """Return the reply to each request of an ended batch, or why it has no reply.

    Raises:
        EngineError: as `AnthropicEngine.call_api`, if no result can be fetched.
    """

    def download(client: Any, seconds: float) -> dict[str, Any]:  # noqa: ANN401 - of the SDK
        lines = client.messages.batches.results(batch.id, timeout=seconds)
        return {line.custom_id: line.result for line in lines}

    results = engine.call_api(download)
    replies: dict[str, EngineReply | EngineError] = {}
    for key in batch.ids:
        reply = _read_result(engine, key, results.get(key))
        if isinstance(reply, EngineReply):
            engine.meter.add_call(reply.usage)
        replies[key] = reply
    return replies


def _read_result(
    engine: AnthropicEngine,
    key: str,
    result: Any,  # noqa: ANN401 - of the SDK
) -> EngineReply | EngineError:
    """Return the reply to one request of a batch, or why it has none.

    Args:
        engine: the engine.
        key: the key of the request.
        result: the result that the API returned for it, None if it is missing.
    """
    if result is None:
        return _make_item_error(key, "it is missing from the results")
    if result.type != "succeeded":
        reason = str(result.type)
        api_error = getattr(getattr(result, "error", None), "error", None)
        detail = getattr(api_error, "message", None)
        if detail:
            reason += f", {detail}"
        return _make_item_error(key, scrub(reason, engine.environ))
    try:
        reply = read_message(result.message)
    except Exception as error:  # noqa: BLE001 - one odd line costs only itself
        return engine.explain_error(error).error
    return replace(reply, usage=replace(reply.usage, is_batch=True))


def _make_item_error(key: str, reason: str) -> EngineError:
    message = f"request {key[:12]} of a batch has no reply: {reason}"
    hint = "it is asked again by itself; if that fails too, the next run takes it again"
    return EngineError(message, slug="batch-item-failed", hint=hint)


def _make_refusal(reason: str, hint: str) -> EngineError:
    return EngineError(f"the batch was not sent: {reason}", slug="batch-refused", hint=hint)
