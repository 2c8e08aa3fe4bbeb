"""HTTPS, bounded in time and size, and careful whom it shows the token; what a forge allows, and its errors.

The token goes to the host of the API and to no other, wherever a redirect leads. Messages name host and path, never a
header or a query.

GitHub refuses with 403 or 429: over the primary limit `x-ratelimit-remaining` is 0 and `x-ratelimit-reset` says when
it is lifted; over a secondary one there is `retry-after`, or only a sentence, and then a minute is asked for
(docs.github.com, "Rate limits for the REST API"). GitLab refuses with 429 and `retry-after`.
"""

from __future__ import annotations

import math
import re
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

if TYPE_CHECKING:
    from urllib3 import PoolManager

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


# After these nothing more can be asked: what fails is the run, not one part of a pull request.
LASTING = frozenset({"forge-rate-limited", "forge-budget-spent"})


def failed(url: str, what: str) -> EngineError:
    """The forge, or what stands in its place, did not give what was asked for."""
    hint = "Try again later; if it stays, see whether the token may read pull requests (`memory-ci help forge`)."
    parts = split_url(url)
    place = f"{parts.hostname}{parts.path}" if parts.hostname else "an address without a host"
    return EngineError(f"{place} {what}", slug="forge-failed", hint=hint)


def unreachable(url: str, what: str) -> EngineError:
    """The network, or the forge behind it, is out of order for now."""
    return EngineError(
        failed(url, what).message, slug="forge-unreachable", hint="The next run tries again."
    )


def unauthorised(url: str) -> EngineError:
    """The token is wrong, has expired, or is no token."""
    hint = "Give a token that is valid and may read the repository (`memory-ci help forge` says which rights)."
    return EngineError(
        f"{host_of(url)} does not accept the token", slug="forge-unauthorised", hint=hint
    )


RIGHTS = "Give the token the right to write contents and pull requests (`memory-ci help publishing` says where)."


def refused(place: str, what: str, said: str) -> EngineError:
    """The forge does not let this token do it; `said` are its words, if it has any."""
    words = f": {said}" if said else ""
    return EngineError(
        f"{place} refused{what}{words}", slug="forge-refused", hint=format_settings(said, RIGHTS)
    )


def budget_spent(what: str) -> EngineError:
    """This run asked enough."""
    hint = "Run again: what did not change is kept, and costs no more."
    return EngineError(what, slug="forge-budget-spent", hint=hint)


SECONDARY = b"secondary rate limit"
SECONDARY_WAIT = 60.0
UNSTATED_WAIT = 1.0  # Seconds to wait after a 429 that says nothing.


class Limit(NamedTuple):
    """How long to wait in seconds, and when that is over, in words."""

    seconds: float
    until: str


def find_limit(status: int, headers: Mapping[str, str], body: bytes) -> Limit | None:
    """The limit that a reply refuses by, or None when it is no such refusal. Header names are in lower case."""
    if status not in (403, 429):
        return None
    asked, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if asked.isdecimal():
        return Limit(float(asked), f"in {asked} s")
    if limit := _at(_date(asked), headers):
        return limit
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        with suppress(OverflowError, ValueError, OSError):
            return _at(datetime.fromtimestamp(int(reset), UTC), headers)
        return None
    if SECONDARY in body[:10_000]:
        return Limit(SECONDARY_WAIT, "in a minute")
    return Limit(UNSTATED_WAIT, "later: it did not say when") if status == 429 else None


def _at(end: datetime | None, headers: Mapping[str, str]) -> Limit | None:
    """The time until `end` by the forge's own clock; without its Date there is no telling, and so no waiting."""
    if end is None:
        return None
    now = _date(headers.get("date", ""))
    seconds = max((end - now).total_seconds(), UNSTATED_WAIT) if now else math.inf
    return Limit(seconds, f"at {end:%Y-%m-%d %H:%M:%S} UTC")


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


# A GITHUB_TOKEN may ask 1,000 times an hour and repository; other jobs of the hour want some of them.
MAX_REQUESTS = 600
MAX_SECONDS = 300.0
MAX_WAIT = 60.0  # Seconds of waiting, in a run, for a limit to pass or a server to come back.


class Budget:
    """Requests, seconds and waiting that are left. `clock` gives seconds that never go back; `sleep` waits."""

    def __init__(
        self,
        *,
        requests: int = MAX_REQUESTS,
        seconds: float = MAX_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._requests = requests
        self._wait = MAX_WAIT
        self._clock = clock
        self._sleep = sleep
        self._end = clock() + seconds

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self._end - self._clock())

    def spend(self) -> None:
        """Count one request. Raises EngineError (forge-budget-spent) when there is none left, or no time."""
        if self._requests <= 0:
            raise budget_spent("all requests of this run to the forge are made")
        self._requests -= 1
        self.check_deadline()

    def refund(self) -> None:
        """Take the last request back: an unchanged reply costs nothing."""
        self._requests += 1

    @contextmanager
    def half(self) -> Iterator[None]:
        """Within it half of the requests and of the time that are left may be spent: the rest is for what follows."""
        kept, end = self._requests // 2, self._end
        self._requests -= kept
        self._end -= max(0.0, end - self._clock()) / 2
        try:
            yield
        finally:
            self._requests += kept
            self._end = end

    def check_deadline(self) -> None:
        """Raises EngineError (forge-budget-spent) when the time of the run is over."""
        if self._clock() >= self._end:
            raise budget_spent("the time of this run for asking the forge is over")

    def wait(self, seconds: float) -> bool:
        """Wait, or return False at once when that is more than is left."""
        if seconds > self._wait or self._clock() + seconds >= self._end:
            return False
        self._wait -= seconds
        self._sleep(seconds)
        return True


CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
# For one reply in all, headers included: a byte now and then keeps within any bound on a single read.
REPLY_SECONDS = 60.0
MAX_HOPS = 4
T = TypeVar("T")
MAX_BYTES = 20_000_000
CHUNK = 65_536
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class HttpReply(NamedTuple):
    """What came back. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Limits(NamedTuple):
    """Of one exchange: seconds to connect, of one silence, and from the connection to the last byte; bytes of body."""

    connect: float
    read: float
    total: float
    max_bytes: int


class FailedTry(NamedTuple):
    """Why a try failed. `pause`: seconds to wait before the next one, None for the usual; `is_final`: no next one."""

    error: EngineError
    pause: float | None = None
    is_final: bool = False


def try_again(
    attempt: Callable[[], T | FailedTry], pauses: Iterable[float], wait: Callable[[float], bool]
) -> T | FailedTry:
    """What `attempt` gives; made again after each of `pauses` (or the one it names), unless its failure is final.
    `wait` waits for so many seconds, or gives False when there is no time for it."""
    outcome = attempt()
    for usual in pauses:
        if not isinstance(outcome, FailedTry) or outcome.is_final:
            break
        if not wait(usual if outcome.pause is None else outcome.pause):
            break
        outcome = attempt()
    return outcome


def open_pool() -> PoolManager:
    """Connections to be used again; a context manager that closes them."""
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
    """One request and its whole reply; redirects are not followed, and nothing is tried again. Raises TimeoutError when
    it takes longer than `limits.total`, headers included, OverflowError for a body that is too large, ConnectionError
    that says what broke."""
    from urllib3 import Timeout
    from urllib3.exceptions import HTTPError
    from urllib3.exceptions import TimeoutError as NoAnswer

    def send(_seconds: float) -> HttpReply:
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
                # Piece by piece: what is compressed can grow a thousandfold.
                while piece := response.read1(CHUNK):
                    answer += piece
                    if len(answer) > limits.max_bytes:
                        raise OverflowError
            finally:
                response.close()  # a connection whose reply was read to its end is back in the pool by now
        except (HTTPError, OSError) as error:
            said = "no answer in time" if isinstance(error, NoAnswer) else type(error).__name__
            raise ConnectionError(said) from error
        names = {name.lower(): value for name, value in response.headers.items()}
        return HttpReply(response.status, names, bytes(answer))

    return call_bounded(send, limits.total)


class Transport:
    """Sends requests to the API at `base` (https, or http on this machine) and to where it redirects. `secrets` are the
    headers that only the host of `base` is sent. Raises EngineError: forge-unauthorised for a token that no header can
    hold (the library below would print it), forge-failed for a `base` that is not secure."""

    def __init__(
        self,
        base: str,
        *,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        budget: Budget,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        if not all(value.isascii() and value.isprintable() for value in secrets.values()):
            raise unauthorised(base)
        self.base = base.rstrip("/")
        self.budget = budget
        self._max_bytes = max_bytes
        self._reply_seconds = REPLY_SECONDS * max(
            1, max_bytes // MAX_BYTES
        )  # a large file takes its time
        self._headers = {"user-agent": "memory-ci", **headers}
        self._secrets = dict(secrets)
        self._check(self.base)

    def send(self, url: str, etag: str = "") -> HttpReply:
        """The reply at the end of at most three redirects; `etag` is that of the reply already known. Raises
        EngineError (forge-failed, forge-budget-spent), or ConnectionError when the wire breaks."""
        target = url
        for _ in range(MAX_HOPS):
            reply = self._request(target, self._headers_for(target, etag))
            if reply.status not in REDIRECTS:
                return reply
            target = join_url(target, reply.headers.get("location", ""))
            self._check(target)
        raise failed(url, "redirects in a circle")

    def write(self, method: str, url: str, body: bytes) -> HttpReply:
        """The reply to JSON sent to our own host; not sent again anywhere, whatever the reply. Raises as `send`;
        EngineError (forge-failed) for another host."""
        if not is_same_host(url, self.base):
            raise failed(url, "was not written to: it is another host")
        return self._request(
            url, self._headers_for(url, "") | {"content-type": "application/json"}, method, body
        )

    def _headers_for(self, url: str, etag: str) -> dict[str, str]:
        if not is_same_host(url, self.base):
            return self._headers
        return self._headers | self._secrets | ({"if-none-match": etag} if etag else {})

    def _request(
        self, url: str, headers: Mapping[str, str], method: str = "GET", body: bytes = b""
    ) -> HttpReply:
        self.budget.spend()
        limits = Limits(
            CONNECT_SECONDS,
            READ_SECONDS,
            min(self._reply_seconds, self.budget.left),
            self._max_bytes,
        )
        try:
            reply = exchange(self._pool, method, url, limits, headers=headers, body=body)
        except OverflowError:
            raise failed(url, f"answered with more than {self._max_bytes:,} bytes") from None
        except TimeoutError:
            self.budget.check_deadline()
            raise unreachable(
                url, f"did not end its reply within {self._reply_seconds:g} seconds"
            ) from None
        self.budget.check_deadline()
        return reply

    @cached_property
    def _pool(self) -> PoolManager:
        return open_pool()

    def _check(self, url: str) -> None:
        if not is_secure(url) and not (is_loopback(url) and is_loopback(self.base)):
            raise failed(url, "was not asked: only https addresses are")
