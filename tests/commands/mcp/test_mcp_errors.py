"""Tests of MCP errors: of the protocol and of our code, and their texts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult

from memory_ci.commands.mcp.server import build_server
from memory_ci.commands.mcp.tools import Caller
from tests.commands.mcp.mcp_client import ask, in_process, slug_of, text_of
from tests.make import make_id
from tests.project import Project


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("no_such_tool", {}, "there is no tool"),
        ("retrieve", {}, "missing required field `task`"),
        ("retrieve", {"task": 5}, "Expected `str`"),
        ("retrieve", {"task": "zebra", "session": "job-8"}, "unknown field `session`"),
        ("retrieve", {"task": "zebra", "role": "lead"}, "unknown field `role`"),
        ("retrieve", {"task": "zebra", "all_sessions": True}, "unknown field"),
        ("retrieve", {"task": "zebra", "statuses": ["retired"]}, "unknown field"),
        ("recall_episodes", {"query": "x", "limit": 51}, "limit"),
        ("mark_important", {"episode_id": "pr-1", "valence": 1.5}, "valence"),
        ("record_feedback", {"id": make_id(2), "kind": "loved"}, "kind"),
        ("health", {"at": "HEAD"}, "unknown field `at`"),
    ],
)
def test_unknown_tools_and_bad_arguments_are_errors_of_the_protocol(
    zoo: Project, tool: str, arguments: dict[str, Any], words: str
) -> None:
    async def refused(client: Client) -> str:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(tool, arguments)
        return caught.value.message

    assert words in ask(in_process(zoo), refused)


def test_an_internal_error_is_reported_without_its_text_and_the_server_continues(
    zoo: Project,
) -> None:
    def broken() -> datetime:
        raise RuntimeError("secret words")

    caller = Caller(start=zoo.path, clock=broken, environ={})

    async def go_on(client: Client) -> tuple[CallToolResult, str]:
        failed = await client.call_tool("retrieve", {"task": "zebra"})
        return failed, (await client.list_tools()).tools[0].name

    failed, still = ask(build_server(caller), go_on)
    assert slug_of(failed) == "tool-failed"
    assert "secret" not in text_of(failed)
    assert still == "retrieve"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("\x1b[2J" + "x" * 10_000, {}), ("retrieve", {"\x1b[2J" + "x" * 10_000: 1, "task": "x"})],
)
def test_an_error_is_short_and_has_no_control_characters(
    zoo: Project, tool: str, arguments: dict[str, Any]
) -> None:
    async def refused(client: Client) -> str:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(tool, arguments)
        return caught.value.message

    message = ask(in_process(zoo), refused)
    assert len(message) < 3_000
    assert "\x1b" not in message
