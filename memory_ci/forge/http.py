"""Send HTTPS requests to a forge (GitHub, GitLab), bounded in time, size and number.

The token goes to the host of the API and to no other, wherever a redirect leads. Messages name host
and path, never a header or a query.

GitHub refuses with 403 or 429. Over the primary limit `x-ratelimit-remaining` is 0 and
`x-ratelimit-reset` says when it is lifted. Over a secondary one there is `retry-after`, or only a
sentence, and then a wait of a minute is expected (docs.github.com, "Rate limits for the REST API").
GitLab refuses with 429 and `retry-after`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

from memory_ci.deadline import call_bounded
from memory_ci.errors import EngineError
from memory_ci.forge.rules import format_settings
from memory_ci.regex import Regex

if TYPE_CHECKING:
    from urllib3 import PoolManager

T = TypeVar("T")
# The link to the next page in a `Link` header: `<https://…?page=2>; rel="next"`.
NEXT = Regex(r'<([^<>]{1,2000})>\s*;[^,<]{0,500}?\brel="?next\b')

LASTING = frozenset({"forge-rate-limited", "forge-budget-spent"})
"""Errors after which no request succeeds: the run fails, not one part of a pull request."""

RIGHTS = (
    "Give the token the right to write contents and pull requests "
    "(`memory-ci help platform#the-token` says where)."
)

SECONDARY = b"secondary rate limit"
SECONDARY_WAIT = 60.0  # Seconds.
UNSTATED_WAIT = 1.0  # Seconds to wait after a 429 that names no time.

# A GITHUB_TOKEN may send 1,000 requests an hour and repository; other jobs of the hour need some.
MAX_REQUESTS = 600  # Requests to a forge that one run makes.
MAX_SECONDS = 300.0  # Seconds that one run spends on them.
MAX_WAIT = 60.0  # Seconds that a run waits for a limit to pass or a server to come back.

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
REPLY_SECONDS = 60.0
"""For a whole reply, headers included: a byte now and then keeps within any bound on one read."""

MAX_HOPS = 4  # Requests until the end of redirects.
MAX_BYTES = 20_000_000
CHUNK = 65_536
REDIRECTS = frozenset({301, 302, 303, 307, 308})


# -- addresses


def split_url(url: str) -> SplitResult:
    """Split a URL; all parts are empty where it is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # It is validated only when it is read.
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts


def host_of(url: str) -> str:
    """Return the host of a URL, for a message."""
    return split_url(url).hostname or "the forge"


def is_same_host(url: str, base: str) -> bool:
    """Return whether two URLs have one scheme, host and port, and so may get the same token."""
    first = split_url(url)
    second = split_url(base)
    is_same_scheme = first.scheme == second.scheme
    return is_same_scheme and (first.hostname, first.port) == (second.hostname, second.port)


def is_secure(url: str) -> bool:
    """Return whether the connection to a URL is encrypted."""
    return split_url(url).scheme == "https"


def is_loopback(url: str) -> bool:
    """Return whether a URL is one of this machine over http: it never leaves it."""
    parts = split_url(url)
    if parts.scheme != "http":
        return False
    if parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def join_url(url: str, reference: str) -> str:
    """Resolve a reference relative to `url`; "" where it is invalid."""
    try:
        return urljoin(url, reference)
    except ValueError:
        return ""


def next_page(url: str, link: str) -> str:
    """Return the URL of the next page that a `Link` header (RFC 8288) names; "" if it names none.

    Args:
        url: the URL whose reply has the header.
        link: the value of the header.

    >>> next_page("https://api.example/pulls", '<https://api.example/pulls?page=2>; rel="next"')
    'https://api.example/pulls?page=2'
    """
    match = NEXT.search(link)
    return join_url(url, match[1]) if match else ""


# -- errors


def forge_failed(url: str, problem: str) -> EngineError:
    """Return the error of an unusable reply of the forge, or of a proxy in its place."""
    hint = (
        "Try again later; if it stays, see whether the token may read pull requests "
        "(`memory-ci help ci`)."
    )
    return EngineError(f"{_format_place(url)} {problem}", slug="forge-failed", hint=hint)


def forge_unreachable(url: str, problem: str) -> EngineError:
    """Return the error of a network, or of the forge behind it, that is temporarily down."""
    message = f"{_format_place(url)} {problem}"
    return EngineError(message, slug="forge-unreachable", hint="The next run tries again.")


def forge_unauthorised(url: str) -> EngineError:
    """Return the error of a token that is wrong, expired or malformed."""
    message = f"{host_of(url)} does not accept the token"
    hint = (
        "Give a token that is valid and may read the repository "
        "(`memory-ci help ci` says which rights)."
    )
    return EngineError(message, slug="forge-unauthorised", hint=hint)


def forge_refused(address: str, action: str, reason: str) -> EngineError:
    """Return the error of an action that the forge does not allow with this token.

    Args:
        address: host, or host and path.
        action: the refused action, as the end of the sentence; may be empty.
        reason: the words of the forge; may be empty.
    """
    words = f": {reason}" if reason else ""
    hint = format_settings(reason, RIGHTS)
    return EngineError(f"{address} refused{action}{words}", slug="forge-refused", hint=hint)


def forge_budget_spent(message: str) -> EngineError:
    """Return the error of a run that has spent its budget."""
    hint = "Run again: what did not change is kept, and costs no more."
    return EngineError(message, slug="forge-budget-spent", hint=hint)


def _format_place(url: str) -> str:
    parts = split_url(url)
    return f"{parts.hostname}{parts.path}" if parts.hostname else "an address without a host"


# -- rate limits


class Limit(NamedTuple):
    """Seconds to wait, and the time of their end in words."""

    seconds: float
    until: str


def find_limit(status: int, headers: Mapping[str, str], body: bytes) -> Limit | None:
    """Return the rate limit that a reply refuses with; None when it refuses for no rate limit.

    Args:
        status: the status of the reply.
        headers: its headers, by name in lower case.
        body: its body.
    """
    if status not in (403, 429):
        return None
    retry_after = headers.get("retry-after", "")
    if retry_after.isdecimal():
        return Limit(float(retry_after), f"in {retry_after} s")
    retry_date = _parse_date(retry_after)
    if retry_date is not None:
        return _limit_until(retry_date, headers)

    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        with suppress(OverflowError, ValueError, OSError):
            return _limit_until(datetime.fromtimestamp(int(reset), UTC), headers)
        return None
    if SECONDARY in body[:10_000]:
        return Limit(SECONDARY_WAIT, "in a minute")
    if status == 429:
        return Limit(UNSTATED_WAIT, "later: it did not say when")
    return None


def _limit_until(end: datetime, headers: Mapping[str, str]) -> Limit:
    """Return a limit that ends at `end` by the forge's clock, which the header `date` shows.

    Without that header the wait is infinite, so that no run waits.
    """
    now = _parse_date(headers.get("date", ""))
    seconds = math.inf
    if now is not None:
        seconds = max((end - now).total_seconds(), UNSTATED_WAIT)
    return Limit(seconds, f"at {end:%Y-%m-%d %H:%M:%S} UTC")


def _parse_date(text: str) -> datetime | None:
    """Parse the date of an HTTP header as UTC; None if it is not a date."""
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date.astimezone(UTC) if date.tzinfo else date.replace(tzinfo=UTC)


# -- the budget of a run


class Budget:
    """The requests, seconds and waiting that a run may still spend."""

    def __init__(
        self,
        *,
        requests: int = MAX_REQUESTS,
        seconds: float = MAX_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Start the budget.

        Args:
            requests: the maximum of requests.
            seconds: the maximum time from now.
            clock: returns seconds that never go back.
            sleep: waits for seconds.
        """
        self._requests = requests
        self._wait = MAX_WAIT
        self._clock = clock
        self._sleep = sleep
        self._end = clock() + seconds

    @property
    def seconds(self) -> float:
        """The seconds that remain."""
        return max(0.0, self._end - self._clock())

    def spend(self) -> None:
        """Count one request.

        Raises:
            EngineError: forge-budget-spent, when no request or no time remains.
        """
        if self._requests <= 0:
            raise forge_budget_spent("all requests of this run to the forge are made")
        self._requests -= 1
        self.check_deadline()

    def refund(self) -> None:
        """Restore the last request: an unchanged reply costs nothing."""
        self._requests += 1

    @contextmanager
    def limit_to_half(self) -> Iterator[None]:
        """Let the block spend no more than half of the remaining requests and time."""
        reserved_requests = self._requests // 2
        old_end = self._end
        self._requests -= reserved_requests
        self._end -= self.seconds / 2
        try:
            yield
        finally:
            self._requests += reserved_requests
            self._end = old_end

    def check_deadline(self) -> None:
        """Make sure that time remains.

        Raises:
            EngineError: forge-budget-spent.
        """
        if self._clock() >= self._end:
            raise forge_budget_spent("the time of this run for asking the forge is over")

    def wait(self, seconds: float) -> bool:
        """Wait and return True; return False at once if the budget has no time for it."""
        if seconds > self._wait or self._clock() + seconds >= self._end:
            return False
        self._wait -= seconds
        self._sleep(seconds)
        return True


# -- requests


class HttpReply(NamedTuple):
    """A reply; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Limits(NamedTuple):
    """The limits of one exchange.

    Attributes:
        connect: seconds to connect.
        read: seconds without a byte.
        total: seconds from the connection to the last byte.
        max_bytes: the maximum size of the body.
    """

    connect: float
    read: float
    total: float
    max_bytes: int


class FailedTry(NamedTuple):
    """The error of an attempt, and its consequence.

    Attributes:
        error: the error.
        pause: seconds before the next attempt; None for the usual pause.
        is_final: whether there must be no other attempt.
    """

    error: EngineError
    pause: float | None = None
    is_final: bool = False


def try_again(
    attempt: Callable[[], T | FailedTry], pauses: Iterable[float], wait: Callable[[float], bool]
) -> T | FailedTry:
    """Call `attempt` until it succeeds, fails for good, or no pause or time remains.

    Args:
        attempt: returns its result, or a FailedTry.
        pauses: the usual pause before each repetition, in seconds.
        wait: waits for seconds; returns False when there is no time for it.

    Returns:
        The result of the last call.
    """
    outcome = attempt()
    for usual_pause in pauses:
        if not isinstance(outcome, FailedTry) or outcome.is_final:
            break
        pause = usual_pause if outcome.pause is None else outcome.pause
        if not wait(pause):
            break
        outcome = attempt()
    return outcome


def open_pool() -> PoolManager:
    """Return a pool of connections for reuse, a context manager that closes them."""
    from urllib3 import PoolManager

    return PoolManager()


def exchange(
    pool: PoolManager,
    method: str,
    url: str,
    limits: Limits,
    *,
    headers: Mapping[str, str],
    body: bytes = b"",
) -> HttpReply:
    """Send one request and read its whole reply, without redirects and repetitions.

    Args:
        pool: the connections.
        method: GET, POST and so on.
        url: the address.
        limits: the limits of time and size.
        headers: the headers of the request.
        body: its body.

    Raises:
        TimeoutError: it takes longer than `limits.total`, headers included.
        OverflowError: the body is too large.
        ConnectionError: the connection broke; the message says how.
    """

    def send(_seconds: float) -> HttpReply:
        return _send(pool, method, url, limits, headers=headers, body=body)

    return call_bounded(send, limits.total)


def _send(
    pool: PoolManager,
    method: str,
    url: str,
    limits: Limits,
    *,
    headers: Mapping[str, str],
    body: bytes,
) -> HttpReply:
    """Send a request as `exchange` does, without the limit of the total time.

    Raises:
        OverflowError: the body is too large.
        ConnectionError: the connection broke.
    """
    from urllib3 import Timeout
    from urllib3.exceptions import HTTPError
    from urllib3.exceptions import TimeoutError as NoAnswer

    answer = bytearray()
    try:
        response = pool.request(
            method,
            url,
            body=body or None,
            headers=headers,
            redirect=False,
            retries=False,
            preload_content=False,
            timeout=Timeout(connect=limits.connect, read=limits.read),
        )
        try:
            # Piece by piece: compressed data can grow a thousandfold.
            while piece := response.read1(CHUNK):
                answer += piece
                if len(answer) > limits.max_bytes:
                    raise OverflowError
        finally:
            # After a complete reply the connection is in the pool already.
            response.close()
    except (HTTPError, OSError) as error:
        reason = "no answer in time" if isinstance(error, NoAnswer) else type(error).__name__
        raise ConnectionError(reason) from error
    reply_headers = {name.lower(): value for name, value in response.headers.items()}
    return HttpReply(response.status, reply_headers, bytes(answer))


class Transport:
    """Sends requests to an API (https, or http on this machine) and to where it redirects."""

    def __init__(
        self,
        base: str,
        *,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        budget: Budget,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Check address and secrets.

        Args:
            base: the address of the API.
            headers: headers of all requests.
            secrets: headers of requests to the host of `base` only.
            budget: the budget that requests are counted on.
            max_bytes: the maximum size of a reply.

        Raises:
            EngineError: forge-unauthorised for a token that no header can hold, since urllib3 would
                print it; forge-failed for a `base` that is not secure.
        """
        if not all(value.isascii() and value.isprintable() for value in secrets.values()):
            raise forge_unauthorised(base)
        self.base = base.rstrip("/")
        self.budget = budget
        self._max_bytes = max_bytes
        self._reply_seconds = REPLY_SECONDS * max(1, max_bytes // MAX_BYTES)  # In proportion.
        self._headers = {"user-agent": "memory-ci", **headers}
        self._secrets = dict(secrets)
        self._check_secure(self.base)

    def send(self, url: str, etag: str = "") -> HttpReply:
        """Send a GET request, follow at most three redirects, and return the last reply.

        Args:
            url: the address.
            etag: the ETag of a cached reply.

        Raises:
            EngineError: forge-failed, forge-budget-spent.
            ConnectionError: the connection broke.
        """
        target = url
        for _ in range(MAX_HOPS):
            reply = self._request("GET", target, self._headers_for(target, etag))
            if reply.status not in REDIRECTS:
                return reply
            target = join_url(target, reply.headers.get("location", ""))
            self._check_secure(target)
        raise forge_failed(url, "redirects in a circle")

    def write(self, method: str, url: str, body: bytes) -> HttpReply:
        """Send JSON to the host of the API once, and return the reply.

        Raises:
            EngineError: as `send`; forge-failed for another host.
            ConnectionError: the connection broke.
        """
        if not is_same_host(url, self.base):
            raise forge_failed(url, "was not written to: it is another host")
        headers = self._headers_for(url) | {"content-type": "application/json"}
        return self._request(method, url, headers, body)

    def _headers_for(self, url: str, etag: str = "") -> dict[str, str]:
        """Return the headers of a request.

        Args:
            url: the address. The token is sent to the host of the API only.
            etag: the ETag of a cached reply, to get a new reply only if it differs.
        """
        if not is_same_host(url, self.base):
            return self._headers
        condition = {"if-none-match": etag} if etag else {}
        return self._headers | self._secrets | condition

    def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpReply:
        """Send one request on the budget of the run.

        Raises:
            EngineError: forge-failed, forge-unreachable, forge-budget-spent.
            ConnectionError: the connection broke.
        """
        self.budget.spend()
        seconds = min(self._reply_seconds, self.budget.seconds)
        limits = Limits(CONNECT_SECONDS, READ_SECONDS, seconds, self._max_bytes)
        try:
            reply = exchange(self._pool, method, url, limits, headers=headers, body=body)
        except OverflowError:
            problem = f"answered with more than {self._max_bytes:,} bytes"
            raise forge_failed(url, problem) from None
        except TimeoutError:
            self.budget.check_deadline()
            problem = f"did not end its reply within {self._reply_seconds:g} seconds"
            raise forge_unreachable(url, problem) from None
        self.budget.check_deadline()
        return reply

    @cached_property
    def _pool(self) -> PoolManager:
        return open_pool()

    def _check_secure(self, url: str) -> None:
        """Refuse a URL that is not https, unless it and the API are of this machine."""
        is_local = is_loopback(url) and is_loopback(self.base)
        if not is_secure(url) and not is_local:
            raise forge_failed(url, "was not asked: only https addresses are")
