"""A double of the Messages API on 127.0.0.1, which gives a test's answers and keeps the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

from tests.servers import POLL_SECONDS


class Answer(NamedTuple):
    """An answer of the double.

    `manner` says how it is sent: whole, cut in the middle, a few bytes and then none, or not at all.
    """

    body: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    manner: Literal["whole", "cut", "trickle", "hang"] = "whole"


class HttpRequest(NamedTuple):
    """A request that the double received."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class ModelDouble:
    """Gives its answers in order and then repeats the last; an answer of `paths` is for that path only."""

    def __init__(self, answers: tuple[Answer, ...], paths: dict[str, Answer]) -> None:
        self.requests: list[HttpRequest] = []
        self.paths = paths
        self.url = ""
        self.is_closing = threading.Event()
        self.stuck = threading.Semaphore(0)
        """Released for each answer that will not end."""

        self._answers = answers
        self._given = 0

    def find_answer(self, path: str) -> Answer:
        if path in self.paths:
            return self.paths[path]
        self._given += 1
        return self._answers[min(self._given, len(self._answers)) - 1]


class Handler(BaseHTTPRequestHandler):
    """Answers with `double`, which is set on a subclass for each server."""

    protocol_version = "HTTP/1.1"
    double: ModelDouble

    def do_POST(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        """Keep the request, and send the next answer of its path."""
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        self.double.requests.append(
            HttpRequest(self.command, path, headers, json.loads(data) if data else None)
        )
        try:
            self.send(self.double.find_answer(path))
        except OSError:
            self.close_connection = True  # the reader has given up, as it should

    def send(self, answer: Answer) -> None:
        """Send an answer in its manner: whole, cut, a few bytes, or not at all."""
        self.close_connection = answer.manner != "whole"
        if answer.manner == "hang":
            self.hang()
            return
        body = answer.body.encode()
        self.send_response(answer.status)
        for name, value in (*answer.headers, ("content-length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        if answer.manner == "trickle":
            self.trickle(body)
        else:
            self.wfile.write(body[: len(body) // 2] if answer.manner == "cut" else body)

    def trickle(self, body: bytes) -> None:
        for byte in body[:3]:
            self.wfile.write(bytes([byte]))
        self.hang()

    def hang(self) -> None:
        self.double.stuck.release()
        self.double.is_closing.wait()

    def log_message(self, format: str, *args: object) -> None:
        """Keep stderr clean: a test reads `requests`."""


@contextmanager
def serve_model(*answers: Answer, paths: dict[str, Answer] | None = None) -> Iterator[ModelDouble]:
    """Run a double while the context is open; `.url` is its address."""
    double = ModelDouble(answers, paths or {})
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("OneHandler", (Handler,), {"double": double})
    )
    server.daemon_threads, server.block_on_close = True, False
    double.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield double
    finally:
        double.is_closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def make_message(
    text: str | None, stop_reason: str = "end_turn", thinking: bool = False, **usage: int
) -> Any:
    """Return a message in the form of the API; without `text` it has no text block."""
    content: list[dict[str, str]] = (
        [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}] if thinking else []
    )
    if text is not None:
        content.append({"type": "text", "text": text})
    return {
        "id": "msg_01Double",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-5-5",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 1200, "output_tokens": 80} | usage,
    }


def make_answer(
    text: str | None, stop_reason: str = "end_turn", thinking: bool = False, **usage: int
) -> Answer:
    headers = (("content-type", "application/json"), ("request-id", "req_01Double"))
    return Answer(json.dumps(make_message(text, stop_reason, thinking, **usage)), headers=headers)


def make_error(status: int, type_: str, message: str, **headers: str) -> Answer:
    """Return an error in the form of the API; a header `retry_after` is sent as `retry-after`."""
    body = {
        "type": "error",
        "error": {"type": type_, "message": message},
        "request_id": "req_01Double",
    }
    sent = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Answer(json.dumps(body), status, (("content-type", "application/json"), *sent))
