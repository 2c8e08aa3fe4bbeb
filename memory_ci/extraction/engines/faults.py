"""Failures of a model's service, translated to EngineErrors without credentials."""

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
    """The time, in seconds, and chance for repeated tries; `jitter` returns a number in [0, 1)."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random  # noqa: S311 - of a delay


SYSTEM_CLOCK = Clock()


class CallFailure(NamedTuple):
    """The failure of a call.

    Attributes:
        error: the error to raise.
        is_transient: whether the same call may work later.
        retry_after: the seconds after which the server wants the next try, or None.
    """

    error: EngineError
    is_transient: bool = False
    retry_after: float | None = None


DETAIL_WIDTH = 300
"""Number of characters of the service's own message that are shown."""

SECRET_NAMES = """ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_IDENTITY_TOKEN
    ANTHROPIC_FOUNDRY_API_KEY CLAUDE_CODE_OAUTH_TOKEN AWS_BEARER_TOKEN_BEDROCK
    AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN""".split()
"""Environment variables whose values are masked in messages, even if a server sends them back."""


class Fault(NamedTuple):
    """A kind of failure; `is_transient`: the same call may work later."""

    slug: str
    description: str
    hint: str
    is_transient: bool = False


UNAUTHORISED = Fault(
    "engine-unauthorised",
    "the model's service does not accept the credentials, or there are none",
    "check the key or the workload identity, and that it may use this model; variables:"
    " `memory-ci help models`",
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
    "run again: the same range is taken",
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
    "pip install 'memory-ci[anthropic]'; for engine.provider bedrock or vertex"
    " 'memory-ci[bedrock]' or 'memory-ci[vertex]'",
)
CREDENTIAL_WORDS = ("authentication", "credential", "region", "project_id", "api token")


def explain_error(error: Exception, model: str, environ: Mapping[str, str]) -> CallFailure:
    """Return the failure for an exception of the SDK.

    Args:
        error: the exception.
        model: the model that was called.
        environ: the environment, whose credentials are masked.
    """
    if isinstance(error, EngineError):
        return CallFailure(error)
    fault = _find_fault(error)
    message = f"{model}: {fault.description}: {scrub(_describe_exception(error), environ)}"
    engine_error = EngineError(message, slug=fault.slug, hint=fault.hint)
    return CallFailure(engine_error, fault.is_transient, _read_retry_after(error))


def _read_retry_after(error: Exception) -> float | None:
    """Return the seconds of the Retry-After header; a date counts as none."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    value = headers.get("retry-after", "")
    return float(value) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value) else None


def refuses_output_config(error: Exception) -> bool:
    """Return whether an older API or a gateway refuses a request for its `output_config`."""
    return getattr(error, "status_code", None) == 400 and "output_config" in _describe_exception(
        error
    )


def scrub(text: str, environ: Mapping[str, str]) -> str:
    """Return a text in one short line, with credentials and what looks like one masked."""
    for name in SECRET_NAMES:
        value = environ.get(name, "").strip()
        if value:
            text = text.replace(value, "[redacted]")
    return shorten(mask_secrets(text), DETAIL_WIDTH)


def _find_fault(error: Exception) -> Fault:
    """Return the kind of failure of an exception that a call of the SDK raised."""
    if isinstance(error, ImportError):
        return NOT_INSTALLED
    import anthropic

    if isinstance(error, TimeoutError | anthropic.APITimeoutError):
        return TIMEOUT
    if isinstance(error, anthropic.APIStatusError):
        return _find_fault_of_status(error.status_code)
    if isinstance(error, anthropic.APIConnectionError):
        return UNREACHABLE
    # A missing key is a TypeError, a missing region a ValueError, and a refused identity an
    # AnthropicError that is no APIError.
    if isinstance(error, anthropic.AnthropicError):
        return UNREADABLE if isinstance(error, anthropic.APIError) else UNAUTHORISED
    message = str(error).lower()
    is_about_credentials = any(word in message for word in CREDENTIAL_WORDS)
    return UNAUTHORISED if is_about_credentials else UNREADABLE


def _find_fault_of_status(status: int) -> Fault:
    """Return the kind of failure that an HTTP status of the service means."""
    if status in (401, 403):
        return UNAUTHORISED
    if status == 429:
        return RATE_LIMITED
    if status >= 500 or status in (408, 409):
        return OVERLOADED
    return REJECTED


def _describe_exception(error: Exception) -> str:
    """Return what an exception says: the API's own message, or the type and text of any other.

    Of the body of a failed response only the field `message` is used: it may be a whole web page.
    """
    if isinstance(error, ImportError) and error.name:
        return f"the package {error.name}"
    status = getattr(error, "status_code", None)
    if status is None:
        return f"{type(error).__name__} {error}"
    body = getattr(error, "body", None)
    api_error = body.get("error") if isinstance(body, dict) else None
    message = api_error.get("message") if isinstance(api_error, dict) else None
    return f"status {status}, {message}" if isinstance(message, str) else f"status {status}"
