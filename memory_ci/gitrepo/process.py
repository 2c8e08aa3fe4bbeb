"""Run git: whole output for short answers, a stream for long ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, NoReturn, cast

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.environment import clean_environment

MESSAGE_LINES = 6
"""How much of git's own message is passed on: the longest that matters (dubious ownership) has four lines."""


def run_git(
    cwd: Path,
    *args: str,
    input: bytes | None = None,
    env: Mapping[str, str] | None = None,
    ok: Container[int] = (0,),
    apart: Collection[int] | None = None,
) -> bytes:
    """Standard output of `git <args>` in `cwd`; `env` is added to the clean environment.

    With `apart` git is in a session of its own, so that no Ctrl-C ends it, and it cannot ask for a password; it shares
    those open files for as long as it runs.

    Raises RepositoryError: git-missing when there is no git, git-failed when its exit status is not in `ok`.
    """
    done = _completed(cwd, args, input, env, apart)
    if done.returncode not in ok:
        raise _failure(args, done.returncode, done.stderr)
    return done.stdout


def ask_git(cwd: Path, *args: str) -> bool:
    """The answer of a git command that says yes with exit status 0 and no with 1; others raise as in `run_git`."""
    done = _completed(cwd, args)
    if done.returncode not in (0, 1):
        raise _failure(args, done.returncode, done.stderr)
    return done.returncode == 0


@contextmanager
def stream_git(cwd: Path, *args: str, input: bytes | None = None) -> Iterator[IO[bytes]]:
    """Standard output of `git <args>` as it comes; git is ended when the block is left before all was read.

    Raises as `run_git`, git-failed at the end of the stream.
    """
    process = _started(cwd, args)
    stdin, stdout, stderr = (cast(IO[bytes], pipe) for pipe in (process.stdin, process.stdout, process.stderr))
    errors: list[bytes] = []
    # Threads, for otherwise git could wait for us to read what it says while we wait for it to read.
    threads = (Thread(target=_feed, args=(stdin, input or b"")), Thread(target=_drain, args=(stderr, errors)))
    for thread in threads:
        thread.start()
    is_complete = False
    try:
        yield stdout
        is_complete = not stdout.read(1)
    finally:
        if not is_complete:
            process.kill()
        status = process.wait()
        for thread in threads:
            thread.join()
        stdout.close()
    if is_complete and status:
        raise _failure(args, status, errors[0])


def decode_path(path: bytes) -> str:
    """A path as git gives it; bytes that are not UTF-8 survive a round trip through `encode_path`."""
    return path.decode("utf-8", "surrogateescape")


def encode_path(path: str) -> bytes:
    """The bytes of a path, as `decode_path` read them."""
    return path.encode("utf-8", "surrogateescape")


def _completed(
    cwd: Path,
    args: Sequence[str],
    input: bytes | None = None,
    env: Mapping[str, str] | None = None,
    apart: Collection[int] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", *args],
            cwd=cwd,
            env=clean_environment(env),
            input=input or b"",
            capture_output=True,
            check=False,
            start_new_session=apart is not None,
            pass_fds=apart or (),
        )
    except OSError as error:
        _refuse(cwd, error)


def _started(cwd: Path, args: Sequence[str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(["git", *args], cwd=cwd, env=clean_environment(), stdin=pipe, stdout=pipe, stderr=pipe)
    except OSError as error:
        _refuse(cwd, error)


def _feed(stdin: IO[bytes], data: bytes) -> None:
    with suppress(BrokenPipeError), stdin:
        stdin.write(data)


def _drain(stderr: IO[bytes], errors: list[bytes]) -> None:
    with stderr:
        errors.append(stderr.read())


def _refuse(cwd: Path, error: OSError) -> NoReturn:
    if cwd.is_dir() and isinstance(error, FileNotFoundError):
        message, hint = "git was not found on PATH", "Install git 2.31 or newer."
        raise RepositoryError(message, slug="git-missing", hint=hint) from error
    message = f"git cannot be run in {cwd}: {error.strerror}"
    raise RepositoryError(message, slug="git-failed", hint="Check that the directory exists.") from error


def _failure(args: Sequence[str], status: int, errors: bytes) -> RepositoryError:
    command = next((arg for index, arg in enumerate(args) if not _is_global_option(args, index)), "")
    said = "\n".join(os.fsdecode(errors).strip().splitlines()[:MESSAGE_LINES]) or f"exit status {status}"
    return RepositoryError(
        f"git {command} failed: {said}", slug="git-failed", hint="The words after the colon are git's."
    )


def _is_global_option(args: Sequence[str], index: int) -> bool:
    return args[index] == "-c" or (index > 0 and args[index - 1] == "-c")
