"""A model on localhost that answers by a script, with the APIs of Anthropic, OpenAI (chat, responses) and Google."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Json = dict[str, Any]
RESULTS = ("tool_result", "function_call_output", "custom_tool_call_output")
TEXTS = ("text", "content", "output", "functionResponse", "response", "input_text")
SPEAKING = ("assistant", "model")


class Call(NamedTuple):
    """A tool call of the model: "read", "edit" or "shell", with the arguments of a file or a command."""

    tool: str
    path: str = ""
    old: str = ""
    new: str = ""
    command: str = ""


class ModelRequest(NamedTuple):
    """A request to the model.

    Attributes:
        new: the text since the model's last reply.
        tool: the tool whose result is in it, or "".
        body: the whole request.
    """

    new: str
    result_of: str
    body: Json


Script = Callable[[ModelRequest], "Call | str"]


class Model:
    """A server for one client at a time.

    Attributes:
        tools: maps a call to the client's name and arguments of the tool.
        requests: the requests of the conversation.
        replies: the replies of the model.
    """

    def __init__(
        self, script: Script, tools: Mapping[str, Callable[[Call], tuple[str, Json]]]
    ) -> None:
        self.script, self.tools = script, tools
        self.requests: list[ModelRequest] = []
        self.replies: list[Call | str] = []
        self.is_busy = 0
        model = self

        class Handler(_Handler):
            of = model

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: Json) -> Call | str:
        """Return the script's reply to a request, and keep both."""
        if not body.get("tools"):  # a title, a summary: no part of the conversation
            return "ok"
        last = self.replies[-1] if self.replies else ""
        new, is_result = _read_new(body)
        request = ModelRequest(new, last.tool if is_result and isinstance(last, Call) else "", body)
        self.requests.append(request)
        self.replies.append(reply := self.script(request))
        return reply

    def call(self, reply: Call | str) -> tuple[str, str, Json] | None:
        """Return the id, the name and the arguments of a call, or None for a text."""
        if isinstance(reply, str):
            return None
        name, arguments = self.tools[reply.tool](reply)
        return f"call_{len(self.replies)}_{time.time_ns() % 10**9}", name, arguments


def _read_new(body: Json) -> tuple[str, bool]:
    """Return the text since the model's last reply, and whether it contains a tool's result."""
    messages = body.get("messages") or body.get("contents") or body.get("input") or []
    new: list[str] = []
    is_result = False
    for message in reversed(
        [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    ):
        if message.get("role") in SPEAKING or message.get("type") in (
            "function_call",
            "custom_tool_call",
            "reasoning",
        ):
            break
        parts = message.get("parts") or message.get("content")
        of_parts = (
            [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        )
        is_result |= message.get("role") == "tool" or message.get("type") in RESULTS
        is_result |= any(
            part.get("type") in RESULTS or "functionResponse" in part for part in of_parts
        )
        new.append(read_text(message.get("parts") or message))
    return "\n".join(reversed(new)), is_result


def read_text(value: Any) -> str:
    """Return all text of a part of a request."""
    if isinstance(value, dict):
        texts = [value[key] for key in TEXTS if key in value]
        return "\n".join(map(read_text, texts)) if texts else json.dumps(value)
    return "\n".join(map(read_text, value)) if isinstance(value, list) else str(value)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    of: Model

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the requests are kept."""

    def do_HEAD(self) -> None:
        self._send("")

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "stub", "object": "model"}], "models": []}
        self._send(json.dumps(models if "models" in self.path else {}))

    def do_POST(self) -> None:
        try:
            body = json.loads(self._read())
        except ValueError:
            return self._send("{}")
        if "count" in self.path.lower() and "token" in self.path.lower():
            return self._send('{"input_tokens": 10, "totalTokens": 10}')
        dialects = {
            "/messages": _messages,
            "/responses": _responses,
            "enerateContent": _google,
            "/completions": _chat,
        }
        dialect = next((handler for mark, handler in dialects.items() if mark in self.path), None)
        if dialect is None:
            return self._send("{}")
        self.of.is_busy += 1
        try:
            reply = self.of.answer(body)
            chunks, whole = dialect(self.of.call(reply), reply if isinstance(reply, str) else "")
        finally:
            self.of.is_busy -= 1
        if not (body.get("stream") or "stream" in self.path):
            return self._send(json.dumps(whole))
        end = "data: [DONE]\n\n" if dialect is _chat else ""
        self._send("".join(_event(chunk) for chunk in chunks) + end, "text/event-stream")
        return None

    def _read(self) -> bytes:
        """Return the body of a request, also if it is chunked or compressed."""
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        while self.headers.get("transfer-encoding") == "chunked":
            size = int(self.rfile.readline().strip() or b"0", 16)
            data += self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                break
        return gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data

    def _send(self, text: str, kind: str = "application/json") -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:  # the client hung up: a person interrupted it
            self.close_connection = True


def _event(chunk: Json) -> str:
    name = f"event: {chunk['type']}\n" if "type" in chunk else ""
    return f"{name}data: {json.dumps(chunk)}\n\n"


Answer = tuple[Iterable[Json], Json]
"""The events of a stream, and the complete answer."""


def _messages(call: tuple[str, str, Json] | None, text: str) -> Answer:
    """Return an answer in the form of Anthropic's API."""
    use = {"input_tokens": 10, "output_tokens": 10}
    whole: Json = {
        "id": f"msg_{time.time_ns()}",
        "type": "message",
        "role": "assistant",
        "model": "stub",
        "usage": use,
    }
    stop = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    block: Json = {"type": "text", "text": ""}
    delta: Json = {"type": "text_delta", "text": text}
    if call:
        block = {"type": "tool_use", "id": f"toolu_{call[0]}", "name": call[1], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[2])}
    begun = {**whole, "content": [], "stop_reason": None, "stop_sequence": None}
    chunks: list[Json] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": use},
        {"type": "message_stop"},
    ]
    done = {**block, "input": call[2]} if call else {**block, "text": text}
    return chunks, {**whole, **stop, "content": [done]}


def _responses(call: tuple[str, str, Json] | None, text: str) -> Answer:
    """Return an answer in the form of OpenAI's responses API."""
    words = [{"type": "output_text", "text": text, "annotations": []}]
    item: Json = {
        "type": "message",
        "id": f"msg_{time.time_ns()}",
        "role": "assistant",
        "content": words,
    }
    if call:
        namespace, _, name = call[1].rpartition(".")
        arguments = {"name": name, "arguments": json.dumps(call[2])}
        if namespace:  # Codex groups the tools of a server of MCP
            arguments["namespace"] = namespace
        item = {"type": "function_call", "id": f"fc_{call[0]}", "call_id": call[0], **arguments}
    use = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    whole: Json = {
        "id": f"resp_{time.time_ns()}",
        "object": "response",
        "model": "stub",
        "usage": use,
    }
    done = {**whole, "status": "completed", "output": [{**item, "status": "completed"}]}
    chunks: list[Json] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress"},
        },
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, "status": "completed"},
        },
        {"type": "response.completed", "response": done},
    ]
    return chunks, done


def _google(call: tuple[str, str, Json] | None, text: str) -> Answer:
    """Return an answer in the form of Google's API."""
    part = {"functionCall": {"name": call[1], "args": call[2]}} if call else {"text": text}
    content = {"role": "model", "parts": [part]}
    use = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    whole = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": use,
    }
    return [whole], whole


def _chat(call: tuple[str, str, Json] | None, text: str) -> Answer:
    """Return an answer in the form of OpenAI's chat API."""
    message: Json = {"role": "assistant", "content": text or None}
    if call:
        function = {"name": call[1], "arguments": json.dumps(call[2])}
        message["tool_calls"] = [
            {"index": 0, "id": call[0], "type": "function", "function": function}
        ]
    reason = "tool_calls" if call else "stop"
    use = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    base: Json = {"id": f"chat_{time.time_ns()}", "created": 1, "model": "stub"}
    chunk = {**base, "object": "chat.completion.chunk"}
    chunks = [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": use},
    ]
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return chunks, {**base, "object": "chat.completion", "choices": [choice], "usage": use}
