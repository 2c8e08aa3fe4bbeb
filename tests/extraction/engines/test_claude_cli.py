"""Tests of the engine `claude -p`: its input, its isolation, and its replies and failures."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memory_ci.errors import EngineError
from memory_ci.extraction.engines import program
from memory_ci.extraction.engines.program import ClaudeCliEngine
from memory_ci.extraction.prompt import build_prompt
from memory_ci.records.candidate import EngineReply, Usage
from memory_ci.records.config import EngineConfig
from tests.extraction.engines.make import make_request
from tests.extraction.engines.programs import make_program

REPLY = '{"learnings": []}'
ANSWER: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "api_error_status": None,
    "result": REPLY,
    "stop_reason": "end_turn",
    "session_id": "8e4781a7",
    "usage": {
        "input_tokens": 10,
        "output_tokens": 7,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 2,
    },
}


def ask(
    folder: Path, source: str, environ: dict[str, str] | None = None, seconds: int = 60
) -> EngineReply:
    make_program(folder, source)
    engine = ClaudeCliEngine(
        EngineConfig(deadline_seconds=seconds), {"PATH": str(folder)} | (environ or {})
    )
    return engine.extract(make_request())


def print_answer(status: int = 0, **fields: object) -> str:
    return f"print({json.dumps(ANSWER | fields)!r}); sys.exit({status})"


def test_an_answer_becomes_a_reply_with_its_tokens(tmp_path: Path) -> None:
    reply = ask(tmp_path, print_answer())
    assert reply == EngineReply(
        text=REPLY,
        stop_reason="end_turn",
        usage=Usage(input_tokens=10, output_tokens=7, cache_read_tokens=3, cache_write_tokens=2),
        model="claude-haiku-5-5",
    )


def test_the_prompt_is_passed_by_standard_input_and_a_file_not_by_arguments(tmp_path: Path) -> None:
    ask(tmp_path, print_answer())
    program_input, prompt = (
        json.loads((tmp_path / "claude.seen").read_text()),
        build_prompt(make_request()),
    )
    assert program_input["input"] == prompt.user
    assert program_input["system"].startswith(prompt.system)
    assert json.dumps(prompt.schema) in program_input["system"]
    assert "idempotency" not in " ".join(program_input["argv"])


def test_the_program_has_no_tools_no_settings_and_an_empty_directory(tmp_path: Path) -> None:
    ask(tmp_path, print_answer())
    program_input = json.loads((tmp_path / "claude.seen").read_text())
    assert {
        "-p",
        "--tools=",
        "--setting-sources=",
        "--strict-mcp-config",
        "--no-session-persistence",
    } <= {*program_input["argv"]}
    assert program_input["files"] == []
    assert not Path(program_input["cwd"]).exists()


def test_the_program_gets_only_the_environment_variables_it_needs(tmp_path: Path) -> None:
    outside = {
        "GITHUB_TOKEN": "x",
        "GIT_DIR": "x",
        "MEMORY_CI_REPLAY": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    ask(tmp_path, print_answer(), {"HOME": "/home/ada", "ANTHROPIC_API_KEY": "key"} | outside)
    env = json.loads((tmp_path / "claude.seen").read_text())["env"]
    assert env.keys().isdisjoint(outside)
    assert (env["HOME"], env["ANTHROPIC_API_KEY"]) == ("/home/ada", "key")
    assert env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"


FAILURES = [
    (print_answer(1, is_error=True, api_error_status=401, result="Failed"), "engine-unauthorised"),
    (
        print_answer(1, is_error=True, api_error_status=403, result="Forbidden"),
        "engine-unauthorised",
    ),
    (
        print_answer(1, is_error=True, api_error_status=404, result="No such model"),
        "engine-rejected-request",
    ),
    (
        print_answer(1, is_error=True, api_error_status=429, result="Slow down"),
        "engine-rate-limited",
    ),
    (
        print_answer(1, is_error=True, api_error_status=529, result="Overloaded"),
        "engine-overloaded",
    ),
    (print_answer(1, is_error=True, result="Not logged in"), "engine-failed"),
    (print_answer(0, is_error=True, result="Stopped"), "engine-failed"),
    (print_answer(3), "engine-failed"),
    ("sys.exit('error: unknown option --tools')", "engine-failed"),
    ("print('not JSON')", "engine-failed"),
    ("print('[' * 100000)", "engine-failed"),
    ("print('{\"result\": 3}')", "engine-failed"),
    (
        "print('x' * 9_000_000, flush=True); import signal; signal.pause()",
        "engine-unreadable-reply",
    ),
]


@pytest.mark.parametrize(("source", "slug"), FAILURES)
def test_each_failure_has_its_slug(tmp_path: Path, source: str, slug: str) -> None:
    with pytest.raises(EngineError) as caught:
        ask(tmp_path, source)
    assert caught.value.slug == slug
    assert caught.value.hint


def test_the_output_of_a_failed_program_is_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="unknown option --tools"):
        ask(tmp_path, "sys.exit('error: unknown option --tools')")


HANGS = """
import signal, subprocess
lock = "import fcntl, signal, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); signal.pause()"
name = str(pathlib.Path(__file__).with_suffix(".lock"))
subprocess.Popen([sys.executable, "-c", lock, name], stdout=subprocess.PIPE).stdout.readline()
pathlib.Path(__file__).with_suffix(".hangs").write_text("now")
signal.pause()
"""
"""Starts a child that holds a lock while it lives, reports that by a named pipe, and hangs like the child."""


def test_a_program_that_hangs_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, wait = tmp_path / "claude.hangs", subprocess.Popen.wait
    os.mkfifo(hangs)

    def give_up_when_it_hangs(
        process: subprocess.Popen[bytes], timeout: float | None = None
    ) -> int:
        if timeout is None:
            return wait(process)
        hangs.read_text()
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", give_up_when_it_hangs)
    monkeypatch.setattr(program, "CHECK_SECONDS", 1)
    with pytest.raises(EngineError) as caught:
        ask(tmp_path, HANGS, seconds=1)
    assert caught.value.slug == "engine-timeout"
    with (tmp_path / "claude.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # free as soon as the child is gone


@pytest.mark.parametrize("path", ["", "."])
def test_a_program_that_is_missing_or_inside_the_repository_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    make_program(tmp_path, print_answer())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EngineError, match="not found on PATH") as caught:
        ClaudeCliEngine(EngineConfig(), {"PATH": path}).extract(make_request())
    assert caught.value.slug == "engine-not-installed"


@pytest.mark.parametrize(
    "source",
    [
        "sys.exit(f'bad key {KEY}')",
        "print(json.dumps({'result': f'bad key {KEY}', 'is_error': True}))",
    ],
)
def test_a_credential_in_the_programs_output_is_masked(tmp_path: Path, source: str) -> None:
    key = "sk-ant-" + "a1B2c3D4e5F6g7H8i9J0" * 2
    with pytest.raises(EngineError, match=r"bad key \[redacted") as caught:
        ask(tmp_path, f"KEY = {key!r}\n{source}")
    assert key not in str(caught.value)
