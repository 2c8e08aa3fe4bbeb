"""Shared by the tests of attacks: the cases, a client of the launcher, and functions that run commands and git."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import click

from memory_ci.commands.root import main
from memory_ci.commands.table import COMMANDS
from tests.project import IMPORTED_FROM

LOST = "nothing lost"
BELIEVED = "nobody believed"
COMMAND = "no command run"
SECRET = "no secret out"
ERROR = "a clear error"
BOUNDED = "bounded time and memory"

LAUNCHER = Path(__file__).parent / "launcher.py"
SECONDS = 60
"""Seconds after which a command that waits for ever, for example for a pipe, is killed; others take less than one."""


class Area(NamedTuple):
    """A line of the table in README.md.

    Attributes:
        name: the name in the table.
        tried: the attacks of the cases.
        how: the measure of the product that resists.
    """

    name: str
    tried: str
    how: str


class Case(NamedTuple):
    """A case of the campaign.

    Attributes:
        name: its id, unique within the area.
        does: a short description of the attack.
        holds: the promises, of the six above, that must hold.
        data: the values that the test of the area needs.
    """

    name: str
    does: str
    holds: tuple[str, ...]
    data: Any = None


class Done(NamedTuple):
    """A command that has ended; `status` is negative if a signal killed it."""

    status: int
    stdout: str
    stderr: str
    rss: int

    @property
    def printed(self) -> str:
        return self.stdout + self.stderr


class Launcher:
    """Start commands of memory-ci by a process that has the package in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        environment = {**os.environ, "PYTHONPATH": IMPORTED_FROM}
        self.process = subprocess.Popen(
            [sys.executable, str(LAUNCHER)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        cwd: Path,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        fault: str = "",
        number: int = 0,
        log: Path | None = None,
        file_bytes: int | None = None,
        memory: int = 0,
        seconds: int = SECONDS,
        meanwhile: Callable[[], object] | None = None,
    ) -> Done:
        """Run one command to its end.

        Args:
            cwd: the current folder.
            args: the arguments after `memory-ci`.
            stdin: its standard input.
            env: more environment variables.
            fault: the kind of `launcher.Fault` that occurs before write `number`.
            number: from 1.
            log: gets one line for each write.
            file_bytes: RLIMIT_FSIZE, also for git.
            memory: RLIMIT_AS.
            seconds: the time after which a hanging command is killed.
            meanwhile: runs while the command is stopped, with the fault `stop`.
        """
        self.number += 1
        place = self.folder / f"run-{self.number}"
        place.mkdir()
        (place / "stdin").write_bytes(stdin)
        job = {
            "cwd": str(cwd),
            "args": args,
            "env": {**os.environ, "PYTHONPATH": IMPORTED_FROM, **(env or {})},
            "stdin": str(place / "stdin"),
            "stdout": str(place / "stdout"),
            "stderr": str(place / "stderr"),
            "fault": fault,
            "number": number,
            "log": str(log or ""),
            "roots": [str(cwd), os.environ["HOME"]],
            "file_bytes": file_bytes,
            "memory": memory,
            "seconds": seconds,
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        if "stopped" in reply:
            assert meanwhile is not None
            try:
                meanwhile()
            finally:
                self.process.stdin.write("go on\n")
                self.process.stdin.flush()
                reply = json.loads(self.process.stdout.readline())
        stdout = (place / "stdout").read_bytes().decode("utf-8", "replace")
        stderr = (place / "stderr").read_bytes().decode("utf-8", "replace")
        return Done(reply["status"], stdout, stderr, reply["rss"])

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def start(cwd: Path, *args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a command as a separate process, without waiting for it."""
    environment = {**os.environ, "PYTHONPATH": IMPORTED_FROM, **(env or {})}
    command = [sys.executable, "-m", "memory_ci", *args]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )


def assert_ended_clearly(result: Done, context: object = "") -> None:
    """Assert that a command ended by itself, without a traceback and with a documented status."""
    assert "Traceback (most recent call last)" not in result.printed, (
        context,
        result.printed[-2000:],
    )
    assert result.status in (0, 1, 2, 3, 4, 5), (context, result.status, result.printed[-2000:])


ENTRY = "0a0a0a0a-0000-4000-8000-000000000001"
WORDS: Mapping[str, tuple[str, ...]] = {
    "add": ("Retry a charge only with a key",),
    "ci": ("--provider", "none"),
    "feedback": (ENTRY, "confirmed", "--ref", "pr:1"),
    "forget": (ENTRY, "--plan"),
    "report": ("--json",),
    "show": (ENTRY,),
}
"""Arguments with which these commands get as far as calling git. Other commands get one argument for each parameter."""


MODES: Mapping[str, tuple[str, ...]] = {
    "check --fix": (),
    "check --migrate": (),
    "health --stage": (),
    "init --clone": (),
    "init --policy": ("docs/promisor@main",),
    "init --remove": (),
    "init --remove --clone": (),
    "recall --tasks": ("Retry a charge",),
    "record --apply": ("-",),
    "record --plan": ("-",),
    "review --candidates": (),
    "sessions --capture": (),
    "show --blame": ("a.py:1",),
    "show --graph": (ENTRY,),
    "show --lines": (ENTRY,),
    "show --log": (ENTRY,),
    "show --why": (ENTRY,),
    "upkeep compact": (),
    "upkeep promote": (),
    "upkeep retire": (),
}
"""Further modes of commands, with their arguments."""


def list_commands() -> list[tuple[str, tuple[str, ...]]]:
    """Return every command, including hidden ones and those of groups, with arguments that it accepts."""
    commands = [(name, words_for(name, command)) for name, command in walk_commands(main, ())]
    return [*commands, *MODES.items()]


def walk_commands(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    """Yield the full name and the command of every command of a group, recursively."""
    context = click.Context(group)
    names = list(group.list_commands(context)) if path else list(COMMANDS)
    for name in names:
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from walk_commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def words_for(name: str, command: click.Command) -> tuple[str, ...]:
    """Return the arguments of a command: those of `WORDS`, or one for each required parameter."""
    if name in WORDS:
        return WORDS[name]
    words: list[str] = []
    for parameter in command.params:
        if not parameter.required:
            continue
        kind = parameter.type
        value = kind.choices[0] if isinstance(kind, click.Choice) else "MEMORY.md"
        if isinstance(parameter, click.Option):
            words.append(parameter.opts[0])
        words.append(str(value))
    return tuple(words)


def log_git(folder: Path) -> dict[str, str]:
    """Put a `git` first on PATH that writes its arguments to `folder`/argv and then runs git.

    Returns:
        the environment variables that make commands use it.
    """
    real = shutil.which("git")
    wrapper = folder / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{folder}/argv\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    return {"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}


def call_tool(number: int, tool: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """Return a request of the Model Context Protocol that calls a tool."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def ask_mcp(
    cwd: Path,
    *calls: Mapping[str, object],
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Done:
    """Start the server, send requests one by one, each after the previous answer, and stop it."""
    client = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}
    environment = {**os.environ, "PYTHONPATH": IMPORTED_FROM, **(env or {})}
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "memory_ci", "mcp", *options]
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdin=pipe, stdout=pipe, stderr=pipe
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        printed = b""
        for call in (first, *calls):
            try:
                server.stdin.write(json.dumps(call).encode() + b"\n")
                server.stdin.flush()
            except BrokenPipeError:
                break
            printed += server.stdout.readline()
        with suppress(BrokenPipeError):  # a server that refused the folder has ended
            server.stdin.close()
        printed += server.stdout.read()
        errors = server.stderr.read()
        status = server.wait()
    return Done(status, printed.decode("utf-8", "replace"), errors.decode("utf-8", "replace"), 0)
