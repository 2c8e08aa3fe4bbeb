"""Run git: whole output for short answers, a stream for long ones; and which variables a git of ours may see.

A hook is started by git with GIT_DIR, GIT_INDEX_FILE and the author of the commit in its environment. Passed on, they
would make us read the wrong repository, or stage files in the index of the user (docs/architecture.md, gitrepo).
Of configuration in the environment only `safe.directory` passes: without it no container could use a mounted clone.

A cloned repository is untrusted. No git of ours uses a bare repository that merely lies in the current directory, runs
a filter, fetches lazily, or uses a protocol that starts a program (docs/security.md).
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, NamedTuple, NoReturn, cast

from memory_ci.errors import RepositoryError

PASSED = frozenset(
    """GIT_ASKPASS GIT_CEILING_DIRECTORIES GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM
    GIT_CONFIG_SYSTEM GIT_CURL_VERBOSE GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_EXEC_PATH GIT_HTTP_LOW_SPEED_LIMIT
    GIT_HTTP_LOW_SPEED_TIME GIT_HTTP_PROXY_AUTHMETHOD GIT_PROTOCOL_FROM_USER
    GIT_PROXY_SSL_CAINFO GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_SSL_CERT
    GIT_SSL_KEY GIT_SSL_NO_VERIFY""".split()
)
"""How git is found, configured and connected; nothing here says which repository, index or identity."""

PASSED_PREFIXES = ("GIT_TRACE", "GIT_PYTHON_")

SETTINGS = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
}
"""English messages, no index refreshed behind the user's back, never a prompt or a pager."""


NO_PROGRAMS = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("safe.bareRepository", "explicit"),
)
"""Programs that a configuration names and that git would start even to list files, and configurations that nobody
chose: those of a bare repository that lies in the current directory (git-config(1), safe.bareRepository)."""


OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
"""In a partial clone git fetches what it lacks by itself, unless it may not (git before 2.45 knows the second only)."""

NETWORK_PROTOCOLS = ("file", "git", "http", "https", "ssh")
"""What git may speak where we ask a remote; others, as `ext::`, start a program that an address names."""


class DirectorySettings(NamedTuple):
    """What every git that runs in a directory is told besides: variables, and settings of its configuration."""

    variables: Mapping[str, str]
    settings: tuple[tuple[str, str], ...]


_places: dict[str, DirectorySettings] = {}


def remember_place(
    cwd: Path, variables: Mapping[str, str], settings: Iterable[tuple[str, str]]
) -> None:
    """Note what every git that runs in `cwd` is told; `find_repository` says it of the repositories that it finds."""
    _places[str(cwd)] = DirectorySettings(variables, tuple(settings))


MISSING = re.compile(
    r"unable to read|could not read [0-9a-f]{40}|bad object|missing (?:blob|tree|commit)|not a tree obj"
    r"|promisor remote",
    re.I,
)
MISSING_HINT = "This clone lacks an object: `git fsck` names what is missing, `git fetch --refetch --no-filter` gets all again."
"""How git says that an object is missing, and what to do."""

ONE_AT_A_TIME = threading.Lock()


def may_pass(name: str) -> bool:
    """Whether git may inherit the variable `name`."""
    return not name.startswith("GIT_") or name in PASSED or name.startswith(PASSED_PREFIXES)


def clean_environment(
    extra: Mapping[str, str] | None = None, cwd: Path | None = None
) -> dict[str, str]:
    """Return the environment for a git process that runs in `cwd`.

    It is ours without what points at a repository, then our settings, those of the directory, and `extra`.
    """
    inherited = {name: value for name, value in os.environ.items() if may_pass(name)}
    place = _places.get(str(cwd), DirectorySettings({}, ()))
    settings = config_variables(*NO_PROGRAMS, *place.settings)
    return inherited | SETTINGS | OFFLINE | settings | dict(place.variables) | dict(extra or {})


def network_variables() -> dict[str, str]:
    """Return the variables of a git that may ask a remote: the protocols that it may use.

    A narrower GIT_ALLOW_PROTOCOL of the person's own is kept.
    """
    allowed = os.environ.get("GIT_ALLOW_PROTOCOL")
    protocols = NETWORK_PROTOCOLS if allowed is None else allowed.split(":")
    return {"GIT_ALLOW_PROTOCOL": ":".join(name for name in protocols if name in NETWORK_PROTOCOLS)}


def config_variables(*pairs: tuple[str, str]) -> dict[str, str]:
    """GIT_CONFIG_COUNT and its companions (git(1)) for the `safe.directory` pairs that we inherit, and for `pairs`."""
    numbered = list(enumerate((*_safe_directories(), *pairs)))
    keys = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in numbered}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in numbered}
    return {"GIT_CONFIG_COUNT": str(len(numbered))} | keys | values


def _safe_directories() -> Iterator[tuple[str, str]]:
    """In order, for an empty value takes back what stands before it."""
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    for number in range(int(count) if count.isdecimal() and len(count) < 10 else 0):
        key = os.environ.get(f"GIT_CONFIG_KEY_{number}")
        if key is None:
            return  # git refuses such a list: nothing of it counts after this
        if key.lower() == "safe.directory":
            yield key, os.environ.get(f"GIT_CONFIG_VALUE_{number}", "")


@contextmanager
def without_hook_variables() -> Iterator[None]:
    """Take the variables that may not pass out of `os.environ` for a while; of the settings there, safe ones stay.

    GitPython gives `os.environ` to every git that it starts and can add to it but leave nothing out. The environment
    belongs to the whole process, so threads take turns: one would otherwise give back what the other took out.
    """
    with ONE_AT_A_TIME:
        kept = config_variables()
        removed = {name: os.environ.pop(name) for name in list(os.environ) if not may_pass(name)}
        os.environ.update(kept)
        try:
            yield
        finally:
            for name in kept:
                os.environ.pop(name, None)
            os.environ.update(removed)


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
    """Standard output of `git <args>` as it comes; git is ended when the block is left before all was read. Raises as
    `run_git`, git-failed at the end of the stream."""
    pipe = subprocess.PIPE
    try:
        command = ["git", *args]
        process = subprocess.Popen(
            command, cwd=cwd, env=clean_environment(cwd=cwd), stdin=pipe, stdout=pipe, stderr=pipe
        )
    except OSError as error:
        _refuse(cwd, error)
    stdin, stdout, stderr = (
        cast(IO[bytes], pipe) for pipe in (process.stdin, process.stdout, process.stderr)
    )
    errors: list[bytes] = []

    def drain() -> None:
        with stderr:
            errors.append(stderr.read())

    # Threads, for otherwise git could wait for us to read what it says while we wait for it to read.
    threads = Thread(target=_feed, args=(stdin, input or b"")), Thread(target=drain)
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
            env=clean_environment(env, cwd),
            input=input or b"",
            capture_output=True,
            check=False,
            start_new_session=apart is not None,
            pass_fds=apart or (),
        )
    except OSError as error:
        _refuse(cwd, error)


def _feed(stdin: IO[bytes], data: bytes) -> None:
    with suppress(BrokenPipeError), stdin:
        stdin.write(data)


def _refuse(cwd: Path, error: OSError) -> NoReturn:
    if cwd.is_dir() and isinstance(error, FileNotFoundError):
        message, hint = "git was not found on PATH", "Install git 2.31 or newer."
        raise RepositoryError(message, slug="git-missing", hint=hint) from error
    message = f"git cannot be run in {cwd}: {error.strerror}"
    raise RepositoryError(
        message, slug="git-failed", hint="Check that the directory exists."
    ) from error


def _failure(args: Sequence[str], status: int, errors: bytes) -> RepositoryError:
    command = next(
        (arg for before, arg in zip(("", *args), args, strict=False) if "-c" not in (before, arg)),
        "",
    )
    said = (
        "\n".join(os.fsdecode(errors).strip().splitlines()[:MESSAGE_LINES])
        or f"exit status {status}"
    )
    hint = MISSING_HINT if MISSING.search(said) else "The words after the colon are git's."
    return RepositoryError(f"git {command} failed: {said}", slug="git-failed", hint=hint)
