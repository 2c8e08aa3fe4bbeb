"""Git commands that talk with a remote: bounded in time, and without anyone to ask."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from memory_ci.errors import EngineError
from memory_ci.gitrepo.environment import clean_environment
from memory_ci.secrets import mask_secrets
from memory_ci.text import shorten

SECONDS = 60.0
"""For one command, connection included."""

ADVICE = "Please make sure you have the correct access rights"
"""Where git's own words on a failure end, and its advice to everybody begins (connect.c)."""

CLOSING = "Could not read from remote repository."
"""What git says after whoever knew the reason."""

SAID_WIDTH = 300


class RemoteAnswer(NamedTuple):
    """What a git command ended with; `errors` is what git and its helpers said."""

    status: int
    output: bytes
    errors: str


def run_remote_git(
    cwd: Path, *args: str, input: bytes = b"", env: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> bytes:
    """Standard output of `git <args>` in a session of its own: with no terminal, nothing that it starts can prompt.

    Raises EngineError (remote-failed), also when it takes longer than `seconds`; then all that it started is ended.
    """
    answer = ask_remote_git(cwd, *args, input=input, env=env, seconds=seconds)
    if answer.status:
        raise remote_failure(args, answer)
    return answer.output


def ask_remote_git(
    cwd: Path, *args: str, input: bytes = b"", env: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> RemoteAnswer:
    """As run_remote_git, whatever the exit status; `env` is added to the clean environment.

    Raises EngineError (remote-failed) when it takes longer than `seconds`.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        ["git", *args],
        cwd=cwd,
        env=clean_environment(env),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(input, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise _failure(args, f"no answer within {seconds:g} seconds") from error
    finally:
        if process.returncode is None:
            _end(process)
    return RemoteAnswer(process.returncode, output, errors.decode("utf-8", "replace"))


def remote_failure(args: tuple[str, ...], answer: RemoteAnswer) -> EngineError:
    """The error of a command that did not end well; `args` name the remote after `--`."""
    return _failure(args, _reason(answer.errors) or f"exit status {answer.status}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and its helpers (ssh, git-remote-https), which would hold our pipes open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _reason(errors: str) -> str:
    """Why git failed, in one line: what it and its helpers said, without advice."""
    lines = [line.strip().removeprefix("fatal: ") for line in errors.partition(ADVICE)[0].splitlines()]
    said = [line for line in lines if line and not line.startswith("hint:")]
    return "; ".join([line for line in said if line != CLOSING] or said)


def _failure(args: tuple[str, ...], said: str) -> EngineError:
    """`args` name the remote after `--`."""
    remote = f"the remote {args[args.index('--') + 1]!r}" if "--" in args else "a remote"
    hint = "`git remote -v` lists the remotes: check the name, the address and your access. What is here is unchanged."
    message = shorten(mask_secrets(f"{remote} cannot be used: {said}"), SAID_WIDTH)
    return EngineError(message, slug="remote-failed", hint=hint)
