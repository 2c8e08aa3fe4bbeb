"""The errors of a forge, and the addresses that they name: host and path, never a header or a query."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urljoin, urlsplit

from memory_ci.errors import EngineError
from memory_ci.forge.rules import format_settings

NEXT = re.compile(r'<([^<>]{1,2000})>\s*;[^,<]{0,500}?\brel="?next\b')


def split_url(url: str) -> SplitResult:
    """The parts of `url`; all are empty where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # checked only when it is read
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts


def host_of(url: str) -> str:
    """The host of `url`, for a message."""
    return split_url(url).hostname or "the forge"


def is_same_host(url: str, other: str) -> bool:
    """Whether both have one scheme, host and port: what may see the same token."""
    ours, theirs = split_url(url), split_url(other)
    return (ours.scheme, ours.hostname, ours.port) == (theirs.scheme, theirs.hostname, theirs.port)


def is_secure(url: str) -> bool:
    """Whether nobody on the way can read along."""
    return split_url(url).scheme == "https"


def is_loopback(url: str) -> bool:
    """Whether `url` is http on this machine."""
    parts = split_url(url)
    try:
        return parts.scheme == "http" and (
            parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
        )
    except ValueError:
        return False


def join_url(url: str, other: str) -> str:
    """`other` as seen from `url`, or "" where it is no address."""
    try:
        return urljoin(url, other)
    except ValueError:
        return ""


def next_page(url: str, link: str) -> str:
    """Where a `Link` header (RFC 8288) says that the next page is, or "".

    >>> next_page("https://api.example/pulls", '<https://api.example/pulls?page=2>; rel="next"')
    'https://api.example/pulls?page=2'
    """
    match = NEXT.search(link)
    return join_url(url, match[1]) if match else ""


LASTING = frozenset({"forge-rate-limited", "forge-budget-spent"})
"""After these nothing more can be asked: what fails is the run, not one part of a pull request."""


def failed(url: str, what: str) -> EngineError:
    """The forge, or what stands in its place, did not give what was asked for."""
    hint = "Try again later; if it stays, see whether the token may read pull requests (`memory-ci help forge`)."
    parts = split_url(url)
    place = f"{parts.hostname}{parts.path}" if parts.hostname else "an address without a host"
    return EngineError(f"{place} {what}", slug="forge-failed", hint=hint)


def unreachable(url: str, what: str) -> EngineError:
    """The network, or the forge behind it, is out of order for now."""
    error = failed(url, what)
    return EngineError(error.message, slug="forge-unreachable", hint="The next run tries again.")


def unauthorised(url: str) -> EngineError:
    """The token is wrong, has expired, or is no token."""
    hint = "Give a token that is valid and may read the repository (`memory-ci help forge` says which rights)."
    return EngineError(f"{host_of(url)} does not accept the token", slug="forge-unauthorised", hint=hint)


RIGHTS = "Give the token the right to write contents and pull requests (`memory-ci help publishing` says where)."


def refused(url: str, status: int, said: str) -> EngineError:
    """The forge does not let this token do it; `said` are its words, if it has any."""
    words = f": {said}" if said else ""
    message = f"{host_of(url)}{split_url(url).path} refused what was to be written, with status {status}{words}"
    return EngineError(message, slug="forge-refused", hint=format_settings(said, RIGHTS))


def refusal_of(url: str, said: str) -> EngineError:
    """The forge refused in a reply of status 200, or could only do so."""
    return EngineError(f"{host_of(url)} refused: {said}", slug="forge-refused", hint=format_settings(said, RIGHTS))


def rate_limited(url: str, until: str) -> EngineError:
    """The forge wants to be left alone for longer than a run waits."""
    message = f"{host_of(url)} limits how often it is asked; it may be asked again {until}"
    hint = "Run again then; what was not read is read by that run."
    return EngineError(message, slug="forge-rate-limited", hint=hint)


def budget_spent(what: str) -> EngineError:
    """This run asked enough."""
    hint = "Run again: what did not change is kept, and costs no more."
    return EngineError(what, slug="forge-budget-spent", hint=hint)
