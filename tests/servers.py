"""HTTP servers on 127.0.0.1 that give a test's answers and keep the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

POLL_SECONDS = 0.002
"""How long a server that is told to stop may wait until it looks: each test waits for that at its end."""


class HttpRequest(NamedTuple):
    """A request that a server received. Header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Answer(NamedTuple):
    """An answer to a request.

    Attributes:
        status: 0 closes the connection without an answer.
        body: the body of the response.
        headers: names and values.
        cut_at: the number of bytes of the body after which the connection is closed.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    cut_at: int | None = None


class Server(NamedTuple):
    """A running server: its address without a slash at the end, and the requests so far."""

    url: str
    requests: list[HttpRequest]

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


Handler = Callable[[HttpRequest], Answer]


def json_answer(data: object, status: int = 200, **headers: str) -> Answer:
    """Return `data` as a JSON answer; `_` in the names of `headers` becomes `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(data).encode(), {"content-type": "application/json", **named})


def in_turn(*answers: Answer) -> Handler:
    """Return a handler that gives the answers one after the other, then always the last one."""
    remaining = list(answers)
    return lambda _: remaining.pop(0) if len(remaining) > 1 else remaining[0]


def by_path(routes: Mapping[str, Answer | Handler], otherwise: Answer | None = None) -> Handler:
    """Return a handler that looks up the request's path without its query; other paths get 404."""
    missing = otherwise or json_answer({"message": "Not Found"}, 404)

    def answer(request: HttpRequest) -> Answer:
        route = routes.get(request.path, missing)
        return route if isinstance(route, Answer) else route(request)

    return answer


@contextmanager
def serve(handler: Handler) -> Iterator[Server]:
    """Run a server whose requests are answered by `handler`, and close it at the end of the block."""
    requests: list[HttpRequest] = []

    class Connection(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = (
            True  # or each reply waits 40 ms for the client to confirm its first half
        )

        def answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = HttpRequest(self.command, self.path, headers, self.rfile.read(length))
            requests.append(request)
            _send(self, handler(request))

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Connection)
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_port}", requests)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _send(connection: BaseHTTPRequestHandler, answer: Answer) -> None:
    """Send an answer, or a part of it, and close the connection if the answer is not complete."""
    if answer.status:
        connection.send_response_only(answer.status)
        for name, value in {"content-length": str(len(answer.body)), **answer.headers}.items():
            connection.send_header(name, value)
        connection.end_headers()
        connection.wfile.write(answer.body[: answer.cut_at])
    if not answer.status or answer.cut_at is not None:
        connection.close_connection = True


@contextmanager
def drip(part: str, stuck: threading.Semaphore) -> Iterator[str]:
    """Run a server that sends header lines, or bytes of the body, and never ends a response.

    It releases `stuck` for each request, after it has sent three of them.
    """
    over = threading.Event()

    class Dripping(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\n"
                + (b"" if part == "headers" else b"content-length: 9999\r\n\r\n")
            )
            with suppress(OSError):
                for _ in range(3):
                    self.wfile.write(b"x-more: 1\r\n" if part == "headers" else b" ")
                stuck.release()
                over.wait()

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Keep stderr clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            over.set()
            server.shutdown()
