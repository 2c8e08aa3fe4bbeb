"""Loopback doubles: a real HTTP server on 127.0.0.1 that answers as a test says, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Asked(NamedTuple):
    """One request as it came in. Header names are in lower case."""

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
    """What to send. `cut_at`: only so many bytes of the body, then the line goes dead; status 0: no word at all."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    cut_at: int | None = None


class Server(NamedTuple):
    """A running server: its address without a slash at the end, and the requests so far."""

    url: str
    asked: list[Asked]

    def paths(self) -> list[str]:
        return [one.path for one in self.asked]


Handler = Callable[[Asked], Answer]


def json_answer(data: object, status: int = 200, **headers: str) -> Answer:
    """`data` as JSON; the names of `headers` have `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(data).encode(), {"content-type": "application/json", **named})


def in_turn(*answers: Answer) -> Handler:
    """Gives these answers one after the other, then the last of them for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def by_path(routes: Mapping[str, Answer | Handler], otherwise: Answer | None = None) -> Handler:
    """Gives the answer of the path that was asked for, whatever the query; 404 for any other."""
    missing = otherwise or json_answer({"message": "Not Found"}, 404)

    def answer(asked: Asked) -> Answer:
        route = routes.get(asked.path, missing)
        return route if isinstance(route, Answer) else route(asked)

    return answer


@contextmanager
def serve(handler: Handler) -> Iterator[Server]:
    """A server on a port of its own, closed at the end of the block; each request is answered by `handler`."""
    asked: list[Asked] = []

    class Connection(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = (
            True  # or each reply waits 40 ms for the client to confirm its first half
        )

        def answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Asked(self.command, self.path, headers, self.rfile.read(length))
            asked.append(request)
            _send(self, handler(request))

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Connection)
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _send(connection: BaseHTTPRequestHandler, answer: Answer) -> None:
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
    """A server that sends a line of its headers, or a byte of its body, again and again and never ends a reply.

    It releases `stuck` for each request, once a few of them have been sent.
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
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            over.set()
            server.shutdown()
