"""HTTPS, bounded in time and size, and careful whom it shows the token.

The token goes to the host of the API and to no other, wherever a redirect leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from memory_ci.forge.addresses import is_loopback, is_same_host, is_secure, join_url
from memory_ci.forge.budget import Budget
from memory_ci.forge.failures import failed, unauthorised

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
REPLY_SECONDS = 60.0
"""For one reply in all: a server that sends a byte now and then keeps within any bound on a single read."""

MAX_HOPS = 4
MAX_BYTES = 20_000_000
CHUNK = 65_536
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Reply(NamedTuple):
    """What came back. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """Sends requests to the API at `base` (https, or http on this machine) and to where it redirects.

    `secrets` are the headers that only the host of `base` is sent. Raises EngineError: forge-unauthorised for a token
    that no header can hold (the library below would print it), forge-failed for a `base` that is not secure.
    """

    def __init__(self, base: str, *, headers: Mapping[str, str], secrets: Mapping[str, str], budget: Budget) -> None:
        if not all(value.isascii() and value.isprintable() for value in secrets.values()):
            raise unauthorised(base)
        self.base = base.rstrip("/")
        self.budget = budget
        self._headers = {"user-agent": "memory-ci", **headers}
        self._secrets = dict(secrets)
        self._check(self.base)

    def send(self, url: str, etag: str = "") -> Reply:
        """The reply at the end of at most three redirects; `etag` is that of the reply already known.

        Raises EngineError (forge-failed, forge-budget-spent), or what urllib3 raises when the wire breaks.
        """
        target = url
        for _ in range(MAX_HOPS):
            reply = self._request(target, self._headers_for(target, etag))
            if reply.status not in REDIRECTS:
                return reply
            target = join_url(target, reply.headers.get("location", ""))
            self._check(target)
        raise failed(url, "redirects in a circle")

    def write(self, method: str, url: str, body: bytes) -> Reply:
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

    def _request(self, url: str, headers: Mapping[str, str], method: str = "GET", body: bytes = b"") -> Reply:
        from urllib3 import Timeout

        self.budget.spend()
        end = self.budget.now() + REPLY_SECONDS
        timeout = Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        response = self._pool.request(
            method,
            url,
            body=body or None,
            headers=headers,
            redirect=False,
            retries=False,
            preload_content=False,
            timeout=timeout,
        )
        try:
            answer = self._read(url, response, end)
        finally:
            response.close()  # a connection whose reply was read to its end is back in the pool by now
        return Reply(response.status, {name.lower(): value for name, value in response.headers.items()}, answer)

    def _read(self, url: str, response: BaseHTTPResponse, end: float) -> bytes:
        """The body as it trickles in, so that the end of its time and of the budget is seen between two pieces."""
        body = bytearray()
        while piece := response.read1(CHUNK):
            body += piece
            self.budget.check_deadline()
            if self.budget.now() >= end:
                raise failed(url, f"did not end its reply within {REPLY_SECONDS:g} seconds")
            if len(body) > MAX_BYTES:
                raise failed(url, f"answered with more than {MAX_BYTES:,} bytes")
        return bytes(body)

    @cached_property
    def _pool(self) -> PoolManager:
        from urllib3 import PoolManager

        return PoolManager()

    def _check(self, url: str) -> None:
        if not is_secure(url) and not (is_loopback(url) and is_loopback(self.base)):
            raise failed(url, "was not asked: only https addresses are")
