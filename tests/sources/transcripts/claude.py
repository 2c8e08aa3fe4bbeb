"""Functions that make records of a Claude Code session, with defaults for all fields."""

from __future__ import annotations

import io
import json
from typing import Any

from memory_ci.records.event import Session
from memory_ci.sources.transcripts.claude_code import read

SESSION = "0b1c2d3e-0000-4000-8000-000000000001"
NAME = "0b1c2d3e.jsonl"
NO = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)
SAID = NO + "To tell you how to proceed, the user said:\n"
STOP = NO + "STOP what you are doing and wait for the user to tell you how to proceed."

Record = dict[str, Any]


def make_record(kind: str, number: int, **fields: Any) -> Record:
    """Return a record of type `kind`, the `number`th of its session."""
    return {
        "type": kind,
        "uuid": f"{number:08x}-1111-4111-8111-111111111111",
        "parentUuid": None,
        "sessionId": SESSION,
        "cwd": "/home/ada/shop",
        "gitBranch": "retry",
        "isSidechain": False,
        "userType": "external",
        "timestamp": f"2026-09-01T12:{number:02}:00.000Z",
    } | fields


def make_user(content: object, number: int = 1, **fields: Any) -> Record:
    return make_record("user", number, message={"role": "user", "content": content}, **fields)


def make_agent(*blocks: Record, number: int = 2, **fields: Any) -> Record:
    return make_record(
        "assistant", number, message={"role": "assistant", "content": list(blocks)}, **fields
    )


def make_call(tool: str = "Edit", call: str = "toolu_1", **arguments: object) -> Record:
    return {"type": "tool_use", "id": call, "name": tool, "input": arguments}


def make_result(content: object, call: str = "toolu_1", is_error: bool = False) -> Record:
    return {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error}


def make_queue(operation: str, content: str | None = None, number: int = 3) -> Record:
    record = {"type": "queue-operation", "operation": operation, "sessionId": SESSION}
    record["timestamp"] = f"2026-09-01T12:{number:02}:30.000Z"
    return record | ({"content": content} if content else {})


def make_lines(*records: Record | str) -> bytes:
    """Return the bytes of a file with records; a string is a line as it is."""
    return "".join(
        f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in records
    ).encode()


def read_one(*records: Record | str) -> Session:
    """Return the only session in a file with these records."""
    (session,) = read(io.BytesIO(make_lines(*records)), NAME)
    return session


def human_texts(session: Session) -> list[str]:
    return [
        event.text for event in session.events if event.actor == "human" and event.kind == "text"
    ]
