"""The errors of a forge. They name the host and the path, never a header, a query or the text of a reply."""

from __future__ import annotations

from memory_ci.errors import EngineError
from memory_ci.forge.addresses import host_of, split_url

LASTING = frozenset({"forge-rate-limited", "forge-budget-spent"})
"""After these nothing more can be asked: what fails is the run, not one part of a pull request."""


def failed(url: str, what: str) -> EngineError:
    """The forge, or what stands in its place, did not give what was asked for."""
    hint = "Try again later; if it stays, see whether the token may read pull requests (docs/forge.md)."
    parts = split_url(url)
    place = f"{parts.hostname}{parts.path}" if parts.hostname else "an address without a host"
    return EngineError(f"{place} {what}", slug="forge-failed", hint=hint)


def unreachable(url: str, what: str) -> EngineError:
    """The network, or the forge behind it, is out of order for now."""
    error = failed(url, what)
    return EngineError(error.message, slug="forge-unreachable", hint="The next run tries again.")


def unauthorised(url: str) -> EngineError:
    """The token is wrong, has expired, or is no token."""
    hint = "Give a token that is valid and may read the repository (docs/forge.md says which rights)."
    return EngineError(f"{host_of(url)} does not accept the token", slug="forge-unauthorised", hint=hint)


def refused(url: str, status: int) -> EngineError:
    """The forge does not let this token do it."""
    hint = "Give the token the right to write contents and pull requests (docs/publishing.md says where)."
    message = f"{host_of(url)}{split_url(url).path} refused what was to be written, with status {status}"
    return EngineError(message, slug="forge-refused", hint=hint)


def rate_limited(url: str, until: str) -> EngineError:
    """The forge wants to be left alone for longer than a run waits."""
    message = f"{host_of(url)} limits how often it is asked; it may be asked again {until}"
    hint = "Run again then; what was not read is read by that run."
    return EngineError(message, slug="forge-rate-limited", hint=hint)


def budget_spent(what: str) -> EngineError:
    """This run asked enough."""
    hint = "Run again: what did not change is kept, and costs no more."
    return EngineError(what, slug="forge-budget-spent", hint=hint)
