"""HTTPS, bounded in time and size, and careful whom it shows the token.

The token goes to the host of the API and to no other, wherever a redirect leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from memory_ci.deadline import call_bounded
from memory_ci.errors import EngineError
from memory_ci.forge.failures import failed, is_loopback, is_same_host, is_secure, join_url, unauthorised, unreachable
from memory_ci.forge.limits import Budget

if TYPE_CHECKING:
    from urllib3 import PoolManager

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
REPLY_SECONDS = 60.0
"""For one reply in all, headers included: a byte now and then keeps within any bound on a single read."""

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

    `wait` waits for so many seconds, or gives False when there is no time for it.
    """
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
    pool: PoolManager, method: str, url: str, limits: Limits, *, headers: Mapping[str, str], body: bytes = b""
) -> HttpReply:
    """One request and its whole reply; redirects are not followed, and nothing is tried again.

    Raises TimeoutError when it takes longer than `limits.total`, headers included, OverflowError for a body that is too
    large, ConnectionError that says what broke.
    """
    return call_bounded(lambda _: _exchange(pool, method, url, limits, headers, body), limits.total)


def _exchange(
    pool: PoolManager, method: str, url: str, limits: Limits, headers: Mapping[str, str], body: bytes
) -> HttpReply:
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
            # Piece by piece: what is compressed can grow a thousandfold.
            while piece := response.read1(CHUNK):
                answer += piece
                if len(answer) > limits.max_bytes:
                    raise OverflowError
        finally:
            response.close()  # a connection whose reply was read to its end is back in the pool by now
    except (HTTPError, OSError) as error:
        raise ConnectionError("no answer in time" if isinstance(error, NoAnswer) else type(error).__name__) from error
    return HttpReply(response.status, {name.lower(): value for name, value in response.headers.items()}, bytes(answer))


class Transport:
    """Sends requests to the API at `base` (https, or http on this machine) and to where it redirects.

    `secrets` are the headers that only the host of `base` is sent. Raises EngineError: forge-unauthorised for a token
    that no header can hold (the library below would print it), forge-failed for a `base` that is not secure.
    """

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
        self._reply_seconds = REPLY_SECONDS * max(1, max_bytes // MAX_BYTES)  # a large file takes its time
        self._headers = {"user-agent": "memory-ci", **headers}
        self._secrets = dict(secrets)
        self._check(self.base)

    def send(self, url: str, etag: str = "") -> HttpReply:
        """The reply at the end of at most three redirects; `etag` is that of the reply already known.

        Raises EngineError (forge-failed, forge-budget-spent), or ConnectionError when the wire breaks.
        """
        target = url
        for _ in range(MAX_HOPS):
            reply = self._request(target, self._headers_for(target, etag))
            if reply.status not in REDIRECTS:
                return reply
            target = join_url(target, reply.headers.get("location", ""))
            self._check(target)
        raise failed(url, "redirects in a circle")

    def write(self, method: str, url: str, body: bytes) -> HttpReply:
        """The reply to JSON sent to our own host; not sent again anywhere, whatever the reply.

        Raises as `send`; EngineError (forge-failed) for another host.
        """
        if not is_same_host(url, self.base):
            raise failed(url, "was not written to: it is another host")
        return self._request(url, self._headers_for(url, "") | {"content-type": "application/json"}, method, body)

    def _headers_for(self, url: str, etag: str) -> dict[str, str]:
        if not is_same_host(url, self.base):
            return self._headers
        return self._headers | self._secrets | ({"if-none-match": etag} if etag else {})

    def _request(self, url: str, headers: Mapping[str, str], method: str = "GET", body: bytes = b"") -> HttpReply:
        self.budget.spend()
        limits = Limits(CONNECT_SECONDS, READ_SECONDS, min(self._reply_seconds, self.budget.left), self._max_bytes)
        try:
            reply = exchange(self._pool, method, url, limits, headers=headers, body=body)
        except OverflowError:
            raise failed(url, f"answered with more than {self._max_bytes:,} bytes") from None
        except TimeoutError:
            self.budget.check_deadline()
            raise unreachable(url, f"did not end its reply within {self._reply_seconds:g} seconds") from None
        self.budget.check_deadline()
        return reply

    @cached_property
    def _pool(self) -> PoolManager:
        return open_pool()

    def _check(self, url: str) -> None:
        if not is_secure(url) and not (is_loopback(url) and is_loopback(self.base)):
            raise failed(url, "was not asked: only https addresses are")
