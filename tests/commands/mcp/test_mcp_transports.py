"""Tests of `memory-ci mcp` over stdio and over HTTP on loopback, and of the cost of its start."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import anyio
import pytest
import urllib3
from click.testing import CliRunner
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import CallToolRequestParams, CallToolResult

from memory_ci.commands.mcp import tools
from memory_ci.commands.mcp.server import RequestHandlers
from memory_ci.commands.mcp.tools import Caller
from memory_ci.commands.root import main
from memory_ci.extras import how_to_install
from tests.commands.mcp.mcp_client import (
    INJECTION,
    LEARNING,
    OPENING,
    SECONDS,
    ask,
    slug_of,
    text_of,
)
from tests.project import IMPORTED_FROM, NOW, Project

ROOT = Path(__file__).parents[3]


def command(*options: str) -> list[str]:
    return ["-W", "error", "-m", "memory_ci", "mcp", *options]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": IMPORTED_FROM}


def stdio(project: Project, *options: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=command(*options), cwd=project.path, env=environment()
    )


# -- the two transports, in a process of its own


async def visit(client: Client) -> tuple[list[str], CallToolResult, CallToolResult]:
    names = [tool.name for tool in (await client.list_tools()).tools]
    await client.call_tool("add_learning", LEARNING)
    return (
        names,
        await client.call_tool("retrieve", {"task": "retry"}),
        await client.call_tool("add_learning", INJECTION),
    )


def check_visit(visited: tuple[list[str], CallToolResult, CallToolResult]) -> None:
    names, retrieved, refused = visited
    assert names == [tool.name for tool in tools.TOOLS]
    assert text_of(retrieved).startswith(OPENING)
    assert LEARNING["title"] in text_of(retrieved)
    assert slug_of(refused) == "refused-text"


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
def test_a_client_over_stdio_is_served(zoo: Project, mode: str) -> None:
    check_visit(ask(stdio(zoo), visit, mode))


@pytest.mark.slow
def test_the_server_of_a_plugin_serves_a_repository_with_memory(zoo: Project) -> None:
    check_visit(ask(stdio(zoo, "--plugin", "claude-code"), visit))


def test_the_server_of_a_plugin_offers_nothing_beside_the_projects_own(zoo: Project) -> None:
    server = {"type": "stdio", "command": "memory-ci", "args": ["mcp"]}
    (zoo.path / ".mcp.json").write_text(json.dumps({"mcpServers": {"memory-ci": server}}))

    async def list_offers(client: Client) -> tuple[object, object]:
        offers = client.server_capabilities
        return offers.tools, offers.resources

    assert ask(stdio(zoo, "--plugin", "claude-code"), list_offers) == (None, None)


def test_the_process_ends_with_its_input_and_prints_nothing_but_the_protocol(zoo: Project) -> None:
    lines = b'not json\n{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    process = start(zoo, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        out, err = process.communicate(lines, timeout=SECONDS)
    assert process.returncode == 0
    assert all(line.startswith(b'{"jsonrpc":"2.0"') for line in out.splitlines())
    assert b'"id":1' in out, "the ping is answered"
    assert b"Traceback" not in err


def test_an_interrupt_ends_the_process_although_its_input_is_open(zoo: Project) -> None:
    process = start(zoo, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == -signal.SIGINT


def start(project: Project, *options: str, **pipes: int) -> subprocess.Popen[bytes]:
    argv = [sys.executable, *command(*options)]
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return] # pipes by name
        argv, cwd=project.path, env=environment(), stderr=subprocess.PIPE, **pipes
    )


@contextmanager
def http(project: Project, *options: str) -> Iterator[str]:
    """Return the address of a server over HTTP, which is interrupted at the end and then exits."""
    process = start(project, "--transport", "http", *options)
    with process:
        assert process.stderr is not None
        stderr_line = process.stderr.readline().decode()
        try:
            yield stderr_line.removeprefix("Serving memory at ").strip()
        finally:
            process.terminate()
            process.wait(SECONDS)


async def two_at_once(address: str) -> list[str]:
    """Return the texts that two clients receive, each for its own query, while both are connected."""
    texts: list[str] = []

    async def learn(title: str) -> None:
        async with Client(address) as client:
            await client.call_tool("add_learning", {"title": title})
            texts.append(text_of(await client.call_tool("retrieve", {"task": title})))

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(learn, "Quokkas smile when seen")
            group.start_soon(learn, "Numbats eat termites only")
    return texts


@pytest.mark.slow
def test_http_serves_two_clients_at_once_and_refuses_other_sites(zoo: Project) -> None:
    with http(zoo) as address:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", address)
        check_visit(ask(address, visit))
        check_visit(ask(address, visit, "legacy"))
        quokka, numbat = sorted(anyio.run(two_at_once, address), reverse=True)
        assert "Quokkas smile when seen" in quokka + numbat
        assert "Numbats eat termites only" in quokka + numbat
        assert post(address) == 200
        assert post(address, host="evil.example") == 421
        assert post(address, host="localhost:1") == 421, "another port is another server"
        assert post(address, origin="http://evil.example") == 403


def post(address: str, **headers: str) -> int:
    """Return the status of a call as the page of a browser could make it."""
    pool = urllib3.PoolManager(retries=False)
    arguments = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        **headers,
    }
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    response = pool.request("POST", address, body=body, headers=arguments, timeout=SECONDS)
    pool.clear()
    return response.status


@pytest.mark.slow
def test_a_port_that_is_taken_is_an_error(zoo: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = start(zoo, "--transport", "http", "--port", str(taken.getsockname()[1]))
        with server:
            _, err = server.communicate(timeout=SECONDS)
    assert b"[port-taken]" in err
    assert server.returncode == 5


@pytest.mark.slow
def test_where_there_is_no_repository_the_server_does_not_start(tmp_path: Path) -> None:
    argv = [sys.executable, *command("--repo", str(tmp_path))]
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment(), input=b"", capture_output=True, check=False
    )
    assert done.returncode == 4
    assert b"[not-a-repository]" in done.stderr


def test_the_session_and_the_role_are_the_servers(
    zoo: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options or the environment set them; tested in this process."""
    served: list[Caller] = []
    monkeypatch.setattr("memory_ci.commands.mcp.server.serve_stdio", served.append)
    by_option = ["mcp", "--repo", str(zoo.path), "--session", "job-7", "--role", "lead"]
    by_environment = {"MEMORY_CI_MCP_SESSION": "job-7", "MEMORY_CI_MCP_ROLE": "lead"}
    CliRunner().invoke(main, by_option, catch_exceptions=False)
    CliRunner().invoke(
        main, ["mcp", "--repo", str(zoo.path)], env=by_environment, catch_exceptions=False
    )
    CliRunner().invoke(main, ["mcp", "--repo", str(zoo.path)], catch_exceptions=False)
    who = [(caller.session, caller.role) for caller in served]
    assert who == [("job-7", "lead"), ("job-7", "lead"), (None, None)]


# -- what it costs


def test_calls_are_made_one_at_a_time(zoo: Project) -> None:
    at_once: list[int] = []
    running = 0

    def clock() -> datetime:
        nonlocal running
        running += 1
        at_once.append(running)
        for _ in range(10):  # whoever else may begin does so now
            anyio.from_thread.run(anyio.lowlevel.checkpoint)
        running -= 1
        return NOW

    async def run() -> None:
        environ = {"MEMORY_CI_EMBEDDER": "none"}
        desk = RequestHandlers(Caller(start=zoo.path, clock=clock, environ=environ))
        question = CallToolRequestParams(name="retrieve", arguments={"task": "zebra"})
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(desk.call_tool, None, question)

    anyio.run(run)
    assert len(at_once) >= 5
    assert set(at_once) == {1}


def test_nothing_but_the_server_loads_the_sdk(zoo: Project) -> None:
    program = """
import importlib, pkgutil, sys, memory_ci
for module in pkgutil.walk_packages(memory_ci.__path__, "memory_ci."):
    if module.name not in ("memory_ci.commands.mcp.server", "memory_ci.__main__"):
        importlib.import_module(module.name)
print(sorted({"mcp", "mcp_types", "anyio", "uvicorn", "pydantic"} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=zoo.path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_without_the_extra_the_error_names_the_package(zoo: Project) -> None:
    program = "import sys; sys.modules['mcp'] = None; from memory_ci.commands.root import main; main(['mcp'])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=zoo.path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"Install it: {how_to_install('mcp')}" in done.stderr


def test_the_manual_names_every_tool_with_its_parameters() -> None:
    manual = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    section = manual.partition("\n## MCP\n")[2].partition("\n### ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section, re.MULTILINE))
    arguments = {name: re.findall(r"`(\w+)`", row) for name, row in rows.items()}
    assert arguments == {
        tool.name: list(tool.argument_type.__struct_fields__) for tool in tools.TOOLS
    }
