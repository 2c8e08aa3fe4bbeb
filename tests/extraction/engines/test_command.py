"""Tests of the engine `command`: a program of the user with JSON as input and output."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from pathlib import Path

import pytest

from memory_ci.errors import EngineError, UsageError
from memory_ci.extraction.engines.program import CommandEngine
from memory_ci.extraction.prompt import build_prompt
from memory_ci.records.config import EngineConfig
from tests.extraction.engines.make import make_request
from tests.extraction.engines.programs import make_program


def make_engine(command: str) -> CommandEngine:
    return CommandEngine(
        EngineConfig(), {"MEMORY_CI_ENGINE_COMMAND": command, "PATH": "", "EXTRA": "kept"}
    )


def test_the_program_reads_one_document_and_its_output_is_the_reply(tmp_path: Path) -> None:
    program = make_program(tmp_path / "a folder", """print('{"learnings": []}')""", "my-model")
    reply = make_engine(f"{shlex.quote(str(program))} --fast 'a b; echo $HOME'").extract(
        make_request()
    )
    program_input, prompt = (
        json.loads(program.with_suffix(".seen").read_text()),
        build_prompt(make_request()),
    )
    assert reply.text == '{"learnings": []}\n'
    assert program_input["argv"] == ["--fast", "a b; echo $HOME"]
    assert json.loads(program_input["input"]) == {
        "version": 1,
        "task": "learnings",
        "model": "claude-haiku-5-5",
        "system": prompt.system,
        "user": prompt.user,
        "schema": prompt.schema,
    }
    assert (program_input["files"], program_input["env"]["EXTRA"]) == ([], "kept")


def test_a_failing_program_is_an_error(tmp_path: Path) -> None:
    program = make_program(tmp_path, "sys.exit('no weights')", "my-model")
    with pytest.raises(EngineError, match="status 1: no weights") as caught:
        make_engine(str(program)).extract(make_request())
    assert caught.value.slug == "engine-failed"


@pytest.mark.parametrize("command", ["", "  ", "my-model 'unclosed"])
def test_without_a_readable_command_no_program_is_started(command: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_engine(command)
    assert caught.value.slug == "engine-not-configured"


@pytest.mark.parametrize("command", ["no-such-program", "./my-model", "tools/my-model"])
def test_a_program_in_the_current_directory_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    make_program(tmp_path, "print(1)", "my-model")
    make_program(tmp_path / "tools", "print(1)", "my-model")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EngineError) as caught:
        make_engine(command).extract(make_request())
    assert caught.value.slug == "engine-not-installed"


def test_a_missing_program_with_a_directory_is_not_searched_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print(1)\n")
    for name in ("nope.py", "plain.py"):
        with pytest.raises(EngineError) as caught:
            make_engine(str(tmp_path / name)).extract(make_request())
        assert caught.value.message.endswith(f"{name}' was not found, or is not executable")
        assert "chmod +x" in caught.value.hint


def test_the_error_of_a_silent_program_ends_without_a_colon(tmp_path: Path) -> None:
    program = make_program(tmp_path, "sys.exit(1)", "my-model")
    with pytest.raises(EngineError) as caught:
        make_engine(str(program)).extract(make_request())
    assert caught.value.message.endswith("ended with status 1 and said nothing")


def test_a_file_that_is_not_executable_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "my-model"
    program.write_bytes(b"\x7fELF no program at all")
    program.chmod(0o755)
    with pytest.raises(EngineError) as caught:
        make_engine(str(program)).extract(make_request())
    assert caught.value.slug == "engine-not-installed"


def test_a_credential_that_the_program_prints_is_masked(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    program = make_program(tmp_path, f"sys.exit('no access with {key}')", "my-model")
    with pytest.raises(EngineError, match=r"no access with \[redacted:github-token\]") as caught:
        make_engine(str(program)).extract(make_request())
    assert key not in str(caught.value)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_program_with_endless_output_is_killed(tmp_path: Path, stream: str) -> None:
    source = f"for _ in range(3_000): sys.{stream}.write('x' * 10_000)\nsys.{stream}.flush()\nsys.stdin.close()"
    program = make_program(tmp_path, source, "my-model")
    with pytest.raises(EngineError, match="printed more than") as caught:
        make_engine(str(program)).extract(make_request())
    assert caught.value.slug == "engine-unreadable-reply"


def test_children_of_a_program_are_killed_when_it_ends(tmp_path: Path) -> None:
    """The child holds a lock while it lives."""
    lock = tmp_path / "lock"
    source = f"""
import fcntl, subprocess
held = open({str(lock)!r}, "w")
fcntl.flock(held, fcntl.LOCK_EX)
subprocess.Popen(["tail", "-f", "/dev/null"], pass_fds=[held.fileno()], stdout=subprocess.DEVNULL)
print('{{"learnings": []}}')
"""
    program = make_program(tmp_path, source, "my-model")
    engine = CommandEngine(
        EngineConfig(), {"MEMORY_CI_ENGINE_COMMAND": str(program), "PATH": os.defpath}
    )
    assert "learnings" in engine.extract(make_request()).text
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # free as soon as the child is gone
