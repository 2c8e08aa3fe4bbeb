"""Programs that engines ask: a bounded run in an empty directory. The command engine: a program of the user."""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from memory_ci.deadline import kill_group
from memory_ci.errors import EngineError, UsageError
from memory_ci.extraction.engines.faults import scrub
from memory_ci.extraction.prompt import build_prompt
from memory_ci.records.candidate import EngineReply, Request
from memory_ci.records.config import EngineConfig

MAX_OUTPUT = 8_000_000  # Bytes that a program may print, on standard output and standard error together.
MAX_SECONDS = 300  # For one answer, whatever the deadline of the run allows.
TICK = 0.1  # Seconds between two looks at a program that runs.


class Finished(NamedTuple):
    """How a program ended, and what it printed."""

    status: int
    output: str
    errors: str


def find_program(name: str, environ: Mapping[str, str]) -> str:
    """The absolute path of a program on PATH. Raises EngineError (engine-not-installed).

    One that is found only relative to where we stand would be a file of the repository, and is not run.
    """
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found is None or not Path(found).is_absolute():
        is_path = Path(name).is_absolute()
        raise EngineError(
            f"the program {name!r} was not found{', or is not executable' if is_path else ' on PATH'}",
            slug="engine-not-installed",
            hint="check the path, and `chmod +x` it" if is_path else "install it, or name it by its absolute path",
        )
    return found


@contextmanager
def empty_directory() -> Iterator[Path]:
    """A directory of our own with nothing in it, removed at the end: no file of a project lies beside it."""
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as name:
        yield Path(name)


def run_program(argv: Sequence[str], text: str, *, cwd: Path, env: Mapping[str, str], seconds: float) -> Finished:
    """Run `argv` with `text` on its standard input, without a shell.

    Raises EngineError: engine-not-installed when it cannot be started, engine-timeout after `seconds`,
    engine-unreadable-reply when it prints over MAX_OUTPUT bytes. What it started does not outlive it.
    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(text.encode("utf-8", "replace"))
        stdin.seek(0)
        process = _start(argv, cwd, env, (stdin, stdout, stderr))
        try:
            status = _wait(process, (stdout, stderr), seconds)
        finally:
            kill_group(process)
            process.wait()
        return Finished(status, _read(stdout), _read(stderr))


def _start(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], streams: tuple[IO[bytes], IO[bytes], IO[bytes]]
) -> subprocess.Popen[bytes]:
    """In files, not pipes: a child that outlives the program can hold nobody up. In a session, to be killed whole."""
    stdin, stdout, stderr = streams
    try:
        return subprocess.Popen(
            argv, cwd=cwd, env=dict(env), stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
    except OSError as error:
        raise EngineError(
            f"{argv[0]} cannot be run: {error.strerror}",
            slug="engine-not-installed",
            hint="check that it is a program and may be run",
        ) from error


def _wait(process: subprocess.Popen[bytes], printed: Sequence[IO[bytes]], seconds: float) -> int:
    for _ in range(math.ceil(seconds / TICK)):
        with suppress(subprocess.TimeoutExpired):
            process.wait(TICK)
        if sum(os.fstat(stream.fileno()).st_size for stream in printed) > MAX_OUTPUT:
            raise EngineError(
                f"the engine's program printed more than {MAX_OUTPUT:,} bytes",
                slug="engine-unreadable-reply",
                hint="see what it prints when it is run by hand",
            )
        if process.returncode is not None:
            return process.returncode
    raise EngineError(
        f"the engine's program gave no answer within {seconds:g} seconds",
        slug="engine-timeout",
        hint="run again, or raise engine.deadline_seconds",
    )


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(MAX_OUTPUT).decode("utf-8", "replace")


VARIABLE = "MEMORY_CI_ENGINE_COMMAND"  # The one place that names the program: no file of a repository can.


class CommandEngine:
    """Runs the program that the environment names, in an empty directory, once for each request."""

    def __init__(self, settings: EngineConfig, environ: Mapping[str, str]) -> None:
        self._words = _split(environ.get(VARIABLE, ""))
        self._settings, self._environ = settings, environ

    def extract(self, request: Request) -> EngineReply:
        """What the program printed. Raises EngineError: engine-failed for an exit status other than 0, and as
        `run_program`."""
        name, *arguments = self._words
        argv = [find_program(name, self._environ), *arguments]
        seconds = min(self._settings.deadline_seconds, MAX_SECONDS)
        with empty_directory() as cwd:
            done = run_program(argv, self._document(request), cwd=cwd, env=self._environ, seconds=seconds)
        if done.status:
            raise EngineError(
                f"the program of {VARIABLE} ended with status {done.status}{self._said(done.errors)}",
                slug="engine-failed",
                hint="run it by hand with the same input",
            )
        return EngineReply(text=done.output, stop_reason="end_turn")

    def _said(self, errors: str) -> str:
        said = scrub(errors, self._environ)
        return f": {said}" if said else " and said nothing"

    def _document(self, request: Request) -> str:
        prompt = build_prompt(request)
        document = {"version": 1, "task": request.task, "model": self._settings.model, "system": prompt.system}
        return json.dumps(document | {"user": prompt.user, "schema": prompt.schema})


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise UsageError(
            f"the engine `command` needs a program, and {VARIABLE} names none that can be read",
            slug="engine-not-configured",
            hint=f"set {VARIABLE}, for example to `/usr/local/bin/my-model --quiet`",
        )
    return words
