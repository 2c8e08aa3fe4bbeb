"""Git commands that talk with a remote: bounded in time, and without anyone to ask."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from memory_ci.errors import EngineError
from memory_ci.gitrepo.environment import clean_environment

SECONDS = 60.0
"""For one command, connection included."""


def run_remote_git(cwd: Path, *args: str, input: bytes = b"", seconds: float = SECONDS) -> bytes:
    """Standard output of `git <args>` in a session of its own: with no terminal, nothing that it starts can prompt.

    Raises EngineError (remote-failed), also when it takes longer than `seconds`; then all that it started is ended.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        ["git", *args], cwd=cwd, env=clean_environment(), stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    try:
        output, errors = process.communicate(input, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise _failure(args[0], f"no answer within {seconds:g} seconds") from error
    finally:
        if process.returncode is None:
            _end(process)
    if process.returncode:
        said = os.fsdecode(errors).strip().splitlines() or [f"exit status {process.returncode}"]
        raise _failure(args[0], said[-1])
    return output


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and its helpers (ssh, git-remote-https), which would hold our pipes open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _failure(command: str, said: str) -> EngineError:
    hint = "Check the remote and your access to it; what is here is unchanged."
    return EngineError(f"git {command} failed: {said}", slug="remote-failed", hint=hint)
