"""Faults of a model's service: each an EngineError without a credential."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from memory_ci.errors import EngineError
from memory_ci.secrets import mask_secrets
from memory_ci.text import shorten


class Clock(NamedTuple):
    """What a loop of tries needs of the outer world, in seconds; `jitter` gives [0, 1)."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


SYSTEM_CLOCK = Clock()


class CallFailure(NamedTuple):
    """Why a call failed, and whether the same call may work later; `retry_after` is the server's wish in seconds."""

    error: EngineError
    is_transient: bool = False
    retry_after: float | None = None


DETAIL_WIDTH = 300
# Variables whose values never stand in a message, even when a server sends them back.
SECRET_NAMES = """ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_IDENTITY_TOKEN ANTHROPIC_FOUNDRY_API_KEY
    CLAUDE_CODE_OAUTH_TOKEN AWS_BEARER_TOKEN_BEDROCK AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN""".split()


class Fault(NamedTuple):
    """A kind of failure; `is_transient`: the same call may work later."""

    slug: str
    what: str
    hint: str
    is_transient: bool = False


UNAUTHORISED = Fault(
    "engine-unauthorised",
    "the model's service does not accept the credentials, or there are none",
    "check the key or the workload identity, and that it may use this model; variables: `memory-ci help engines`",
)
REJECTED = Fault(
    "engine-rejected-request",
    "the model's service does not accept the request",
    "check engine.model and engine.provider; the same request would be refused again",
)
RATE_LIMITED = Fault(
    "engine-rate-limited",
    "the model's service answers that there were too many requests",
    "run again later: the same range is taken",
    is_transient=True,
)
OVERLOADED = Fault(
    "engine-overloaded",
    "the model's service is overloaded or out of order",
    "run again later: the same range is taken",
    is_transient=True,
)
TIMEOUT = Fault(
    "engine-timeout",
    "the model's service did not answer in time",
    "run again; a lower engine.max_tokens makes calls shorter",
    is_transient=True,
)
UNREACHABLE = Fault(
    "engine-unreachable",
    "the model's service cannot be reached, or the connection was cut",
    "check the network, the proxy and ANTHROPIC_BASE_URL",
    is_transient=True,
)
UNREADABLE = Fault(
    "engine-unreadable-reply",
    "what answered is not the Messages API",
    "check ANTHROPIC_BASE_URL and the proxy: a login page answers like this",
)
NOT_INSTALLED = Fault(
    "engine-not-installed",
    "a package that the engine needs is not installed",
    "pip install 'memory-ci[anthropic]'; for engine.provider bedrock or vertex 'memory-ci[bedrock]' or"
    " 'memory-ci[vertex]'",
)


def explain(error: Exception, model: str, environ: Mapping[str, str]) -> CallFailure:
    """What `error`, thrown while `model` was called, means. `environ` holds the credentials to mask."""
    if isinstance(error, EngineError):
        return CallFailure(error)
    fault = _find_fault(error)
    text = f"{model}: {fault.what}: {scrub(_detail(error), environ)}"
    # Seconds of the Retry-After header; anything else there, a date too, counts as none.
    after = getattr(getattr(error, "response", None), "headers", {}).get("retry-after", "")
    seconds = float(after) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", after) else None
    return CallFailure(
        EngineError(text, slug=fault.slug, hint=fault.hint), fault.is_transient, seconds
    )


def names_output_config(error: Exception) -> bool:
    """Does an older API, or a gateway, refuse the request for its `output_config`?"""
    return getattr(error, "status_code", None) == 400 and "output_config" in _detail(error)


def scrub(text: str, environ: Mapping[str, str]) -> str:
    """`text` in one short line, without the credentials of `environ` and without anything that looks like one."""
    for name in SECRET_NAMES:
        if value := environ.get(name, "").strip():
            text = text.replace(value, "[redacted]")
    return shorten(mask_secrets(text), DETAIL_WIDTH)


def _find_fault(error: Exception) -> Fault:
    if isinstance(error, ImportError):
        return NOT_INSTALLED
    import anthropic

    if isinstance(error, TimeoutError | anthropic.APITimeoutError):
        return TIMEOUT
    if isinstance(error, anthropic.APIStatusError):
        status = error.status_code
        if status in (401, 403):
            return UNAUTHORISED
        if status == 429:
            return RATE_LIMITED
        return OVERLOADED if status >= 500 or status in (408, 409) else REJECTED
    if isinstance(error, anthropic.APIConnectionError):
        return UNREACHABLE
    # A missing key is a TypeError, a missing region a ValueError, a refused identity an AnthropicError of its own.
    if isinstance(error, anthropic.AnthropicError):
        return UNREADABLE if isinstance(error, anthropic.APIError) else UNAUTHORISED
    text = str(error).lower()
    words = ("authentication", "credential", "region", "project_id", "api token")
    return UNAUTHORISED if any(word in text for word in words) else UNREADABLE


def _detail(error: Exception) -> str:
    """The API's own words where there are any. The rest of a body may be a page, so it is not shown."""
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    said = body.get("error") if isinstance(body, dict) else None
    words = said.get("message") if isinstance(said, dict) else None
    if isinstance(error, ImportError) and error.name:
        return f"the package {error.name}"
    if status is not None:
        return f"status {status}{f', {words}' if isinstance(words, str) else ''}"
    return f"{type(error).__name__} {error}"
