"""Sessions of coding agents in which a person corrects the agent, and the transcripts they write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

CORRECTION = "No, never retry a charge in the caller: the client alone knows the key."
PROMPTS = {"claude-code": "UserPromptSubmit", "codex": "UserPromptSubmit", "gemini": "BeforeAgent"}
Hook = Callable[..., str]
Write = Callable[..., Path]
Add = Callable[..., Result]


def correct(hook: Hook, agent: str = "claude-code", prompt: str = CORRECTION, **fields: Any) -> str:
    return hook(agent, PROMPTS.get(agent, "userPromptSubmitted"), prompt=prompt, **fields)


def user(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": text}, **fields}


def spoken(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": list(blocks)}}


def edit(path: str, number: int = 1) -> dict[str, Any]:
    return spoken(
        {"type": "tool_use", "id": f"t{number}", "name": "Edit", "input": {"file_path": path}}
    )


def result(text: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": text}
    return {"type": "user", "message": {"role": "user", "content": [block]}}


def slug(result: Result) -> str:
    assert result.exit_code == 2, result.output
    return result.stderr.partition("[")[2].partition("]")[0]


def at_work(hook: Hook, path: Path, session: str = "s1", **fields: Any) -> None:
    correct(hook, transcript_path=str(path), session_id=session, **fields)


SAID = "Never retry a charge in the caller."
