"""Run git processes in a safe environment, and turn their failures into errors.

A hook is started by git with GIT_DIR, GIT_INDEX_FILE and the author of the commit in its
environment. Passed on, they would make us read the wrong repository, or stage files in the index of
the user (docs/architecture.md, gitrepo). Of configuration in the environment only `safe.directory`
passes: without it no container could use a mounted clone.

A cloned repository is untrusted. No git of ours uses a bare repository that merely lies in the
current directory, runs a filter, fetches lazily, or uses a protocol that starts a program
(docs/security.md).
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
from typing import IO, NoReturn, cast

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.regex import Regex

INHERITED = frozenset(
    """GIT_ASKPASS GIT_CEILING_DIRECTORIES GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM
    GIT_CONFIG_SYSTEM GIT_CURL_VERBOSE GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_EXEC_PATH
    GIT_HTTP_LOW_SPEED_LIMIT GIT_HTTP_LOW_SPEED_TIME GIT_HTTP_PROXY_AUTHMETHOD
    GIT_PROTOCOL_FROM_USER GIT_PROXY_SSL_CAINFO GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT
    GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_SSL_CERT GIT_SSL_KEY GIT_SSL_NO_VERIFY""".split()
)
"""How git is found, configured and connected; none names a repository, an index or an identity."""

INHERITED_PREFIXES = ("GIT_TRACE", "GIT_PYTHON_")

VARIABLES = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
}
"""English messages, no refresh of the user's index, never a prompt or a pager."""

NO_PROGRAMS = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("safe.bareRepository", "explicit"),
)
"""Settings against foreign programs and configurations.

A configuration can name programs that git starts even to list files. A bare repository in the
current directory has a configuration that nobody chose (git-config(1), safe.bareRepository).
"""

OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
"""Keeps git in a partial clone from fetching missing objects (before 2.45 by the second only)."""

NETWORK_PROTOCOLS = ("file", "git", "http", "https", "ssh")
"""The protocols for remotes. Others, as `ext::`, start a program that an address names."""

MISSING = Regex(
    r"unable to read|could not read [0-9a-f]{40}|bad object|missing (?:blob|tree|commit)"
    r"|not a tree obj|promisor remote",
    re.I,
)
"""How git says that an object is missing."""

MISSING_HINT = (
    "This clone lacks an object: `git fsck` names what is missing, "
    "`git fetch --refetch --no-filter` gets all again."
)

MESSAGE_LINES = 6
"""How much of git's own message is passed on: the longest useful one (ownership) has four lines."""

ENVIRONMENT_LOCK = threading.Lock()


class DirectorySettings(msgspec.Struct, frozen=True):
    """Additional variables and configuration settings for every git that runs in a directory."""

    variables: Mapping[str, str]
    settings: tuple[tuple[str, str], ...]


_directory_settings: dict[str, DirectorySettings] = {}


def remember_directory(
    cwd: Path, variables: Mapping[str, str], settings: Iterable[tuple[str, str]]
) -> None:
    """Set variables and settings for every git that runs in `cwd`.

    `find_repository` does so for the repositories that it finds.
    """
    _directory_settings[str(cwd)] = DirectorySettings(variables, tuple(settings))


def is_inherited(name: str) -> bool:
    """Return whether git may inherit a variable."""
    return not name.startswith("GIT_") or name in INHERITED or name.startswith(INHERITED_PREFIXES)


def clean_environment(
    extra: Mapping[str, str] | None = None, cwd: Path | None = None
) -> dict[str, str]:
    """Return the environment for a git process that runs in `cwd`.

    It has our own environment without the variables that point at a repository. The variables of
    this module, then of the directory, then of `extra` are added, and replace earlier ones.
    """
    inherited = {name: value for name, value in os.environ.items() if is_inherited(name)}
    directory = _directory_settings.get(str(cwd), DirectorySettings({}, ()))
    settings = config_variables(*NO_PROGRAMS, *directory.settings)
    variables = dict(directory.variables)
    return inherited | VARIABLES | OFFLINE | settings | variables | dict(extra or {})


def network_variables() -> dict[str, str]:
    """Return the variable that lets git connect to a remote: GIT_ALLOW_PROTOCOL.

    Protocols that the user's own GIT_ALLOW_PROTOCOL lacks stay forbidden.
    """
    allowed_by_user = os.environ.get("GIT_ALLOW_PROTOCOL")
    if allowed_by_user is None:
        return {"GIT_ALLOW_PROTOCOL": ":".join(NETWORK_PROTOCOLS)}
    protocols = [name for name in allowed_by_user.split(":") if name in NETWORK_PROTOCOLS]
    return {"GIT_ALLOW_PROTOCOL": ":".join(protocols)}


def config_variables(*pairs: tuple[str, str]) -> dict[str, str]:
    """Return environment variables that set git's configuration: GIT_CONFIG_COUNT … (git(1)).

    They hold the `safe.directory` settings of our own environment, then `pairs`.

    Args:
        pairs: names and values of settings.
    """
    variables: dict[str, str] = {}
    all_pairs = (*_iter_safe_directories(), *pairs)
    for number, (key, value) in enumerate(all_pairs):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return {"GIT_CONFIG_COUNT": str(len(all_pairs))} | variables


def _iter_safe_directories() -> Iterator[tuple[str, str]]:
    """Yield the `safe.directory` settings of our environment: pairs of the name and a directory.

    The order matters: an empty value resets the values before it.
    """
    text = os.environ.get("GIT_CONFIG_COUNT", "")
    count = int(text) if text.isdecimal() and len(text) < 10 else 0
    for number in range(count):
        key = os.environ.get(f"GIT_CONFIG_KEY_{number}")
        if key is None:
            return  # Git refuses such a list, so no later pair counts.
        if key.lower() == "safe.directory":
            yield key, os.environ.get(f"GIT_CONFIG_VALUE_{number}", "")


@contextmanager
def without_hook_variables() -> Iterator[None]:
    """Remove the variables that git must not inherit from `os.environ` within the block.

    GitPython passes `os.environ` to every git that it starts, and cannot remove variables. Settings
    of `safe.directory` stay. The environment belongs to the whole process, so threads take turns:
    otherwise one would restore variables that another removed.
    """
    with ENVIRONMENT_LOCK:
        settings = config_variables()
        names = [name for name in os.environ if not is_inherited(name)]
        removed = {name: os.environ.pop(name) for name in names}
        os.environ.update(settings)
        try:
            yield
        finally:
            for name in settings:
                os.environ.pop(name, None)
            os.environ.update(removed)


def run_git(
    cwd: Path,
    *args: str,
    input: bytes | None = None,
    env: Mapping[str, str] | None = None,
    ok: Container[int] = (0,),
    shared_files: Collection[int] | None = None,
) -> bytes:
    """Run `git <args>` and return its standard output.

    Args:
        cwd: the directory that git runs in.
        args: its arguments.
        input: its standard input.
        env: added to the clean environment.
        ok: exit statuses that are no error.
        shared_files: open files that git shares for as long as it runs. Where it is not None, git
            has a session of its own: no Ctrl-C ends it, and it cannot prompt for a password.

    Raises:
        RepositoryError: git-missing when there is no git, git-failed for another exit status.
    """
    process = _run(cwd, args, input, env, shared_files)
    if process.returncode not in ok:
        raise _git_failed(args, process.returncode, process.stderr)
    return process.stdout


def ask_git(cwd: Path, *args: str) -> bool:
    """Run a git command that answers yes with exit status 0, and no with 1; return the answer.

    Raises:
        RepositoryError: as `run_git`, for another exit status.
    """
    process = _run(cwd, args)
    if process.returncode not in (0, 1):
        raise _git_failed(args, process.returncode, process.stderr)
    return process.returncode == 0


@contextmanager
def stream_git(
    cwd: Path, *args: str, input: bytes | None = None, env: Mapping[str, str] | None = None
) -> Iterator[IO[bytes]]:
    """Run `git <args>` and yield its standard output as a stream.

    Git is ended when the block is left before all was read.

    Args:
        cwd: the directory that git runs in.
        args: its arguments.
        input: its standard input.
        env: added to the clean environment.

    Raises:
        RepositoryError: as `run_git`; git-failed at the end of the stream.
    """
    pipe = subprocess.PIPE
    variables = clean_environment(env, cwd)
    stdin = pipe if input else subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            ["git", *args], cwd=cwd, env=variables, stdin=stdin, stdout=pipe, stderr=pipe
        )
    except OSError as error:
        _raise_not_started(cwd, error)
    stdout = cast(IO[bytes], process.stdout)
    stderr = cast(IO[bytes], process.stderr)

    # Threads write the input and read the errors: else git and we could each wait for the other.
    error_outputs: list[bytes] = []  # One, when the thread has ended.
    threads = [Thread(target=_read_errors, args=(stderr, error_outputs))]
    if input:
        threads.append(Thread(target=_write_input, args=(process.stdin, input)))
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
        raise _git_failed(args, status, error_outputs[0])


def decode_path(path: bytes) -> str:
    """Decode a path of git's output.

    Bytes that are not UTF-8 survive a round trip through `encode_path`.
    """
    return path.decode("utf-8", "surrogateescape")


def encode_path(path: str) -> bytes:
    """Encode a path that `decode_path` decoded."""
    return path.encode("utf-8", "surrogateescape")


def _run(
    cwd: Path,
    args: Sequence[str],
    input: bytes | None = None,
    env: Mapping[str, str] | None = None,
    shared_files: Collection[int] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end, whatever its exit status, with the parameters of `run_git`.

    Raises:
        RepositoryError: git-missing, git-failed.
    """
    try:
        return subprocess.run(
            ["git", *args],
            cwd=cwd,
            env=clean_environment(env, cwd),
            input=input or b"",
            capture_output=True,
            check=False,
            start_new_session=shared_files is not None,
            pass_fds=shared_files or (),
        )
    except OSError as error:
        _raise_not_started(cwd, error)


def _write_input(stdin: IO[bytes], data: bytes) -> None:
    with suppress(BrokenPipeError), stdin:
        stdin.write(data)


def _read_errors(stderr: IO[bytes], error_outputs: list[bytes]) -> None:
    with stderr:
        error_outputs.append(stderr.read())


def _raise_not_started(cwd: Path, error: OSError) -> NoReturn:
    """Raise the RepositoryError for a git that could not be started in `cwd`."""
    if cwd.is_dir() and isinstance(error, FileNotFoundError):
        message = "git was not found on PATH"
        hint = "Install git 2.31 or newer."
        raise RepositoryError(message, slug="git-missing", hint=hint) from error
    message = f"git cannot be run in {cwd}: {error.strerror}"
    hint = "Check that the directory exists."
    raise RepositoryError(message, slug="git-failed", hint=hint) from error


def _git_failed(args: Sequence[str], status: int, error_output: bytes) -> RepositoryError:
    """Return the error for a git command that failed, with the first lines of git's own message."""
    lines = os.fsdecode(error_output).strip().splitlines()[:MESSAGE_LINES]
    reason = "\n".join(lines) or f"exit status {status}"
    hint = MISSING_HINT if MISSING.search(reason) else "The words after the colon are git's."
    message = f"git {_find_command(args)} failed: {reason}"
    return RepositoryError(message, slug="git-failed", hint=hint)


def _find_command(args: Sequence[str]) -> str:
    """Return the command of git's arguments: `log` of `-c name=value log HEAD`.

    That is the first argument that is neither `-c` nor the setting after it.
    """
    previous_arg = ""
    for arg in args:
        is_setting = previous_arg == "-c"
        if arg != "-c" and not is_setting:
            return arg
        previous_arg = arg
    return ""
