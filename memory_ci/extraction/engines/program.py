"""Engines that are programs: the command of the user, and `claude -p`.

Each runs in an empty directory, for a limited time.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated, NamedTuple

import msgspec

from memory_ci.deadline import kill_group
from memory_ci.errors import EngineError, UsageError
from memory_ci.extraction.engines.faults import scrub
from memory_ci.extraction.engines.meter import read_usage
from memory_ci.extraction.prompt import Prompt, build_prompt
from memory_ci.records.candidate import EngineReply, Request
from memory_ci.records.config import EngineConfig

MAX_OUTPUT = 8_000_000
"""Number of bytes that a program may print, on standard output and standard error together."""

MAX_SECONDS = 300
"""Number of seconds for one answer, even if the deadline of the run allows more."""

DIRECTORY_PREFIX = "memory-ci-"
"""The prefix of our temporary directories, so that no file of a project is beside them."""

CHECK_SECONDS = 0.1
"""Number of seconds between two checks of a running program."""


class FinishedProgram(NamedTuple):
    """The exit status and the output of a program."""

    status: int
    output: str
    errors: str


def find_program(name: str, environ: Mapping[str, str]) -> str:
    """Return the absolute path of a program on PATH.

    A program with a relative path would be a file of the repository, and is not run.

    Raises:
        EngineError: engine-not-installed, if PATH has no such program.
    """
    path = shutil.which(name, path=environ.get("PATH", os.defpath))
    if path is not None and Path(path).is_absolute():
        return path
    if Path(name).is_absolute():
        message = f"the program {name!r} was not found, or is not executable"
        hint = "check the path, and `chmod +x` it"
    else:
        message = f"the program {name!r} was not found on PATH"
        hint = "install it, or name it by its absolute path"
    raise EngineError(message, slug="engine-not-installed", hint=hint)


def run_program(
    argv: Sequence[str], text: str, env: Mapping[str, str], seconds: float
) -> FinishedProgram:
    """Run a program without a shell in an empty directory, and kill the processes that it leaves.

    Args:
        argv: the program and its arguments.
        text: its standard input.
        env: its environment.
        seconds: how long it may run, `MAX_SECONDS` at most.

    Raises:
        EngineError: engine-not-installed, if it is missing or cannot be started; engine-timeout;
            engine-unreadable-reply, if it prints more than `MAX_OUTPUT` bytes.
    """
    argv = [find_program(argv[0], env), *argv[1:]]
    # Output goes to files: with pipes, a child that outlives the program would block us.
    with (
        tempfile.TemporaryDirectory(prefix=DIRECTORY_PREFIX) as cwd,
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(text.encode("utf-8", "replace"))
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(env),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,  # to be killed with its children
            )
        except OSError as error:
            message = f"{argv[0]} cannot be run: {error.strerror}"
            hint = "check that it is a program and may be run"
            raise EngineError(message, slug="engine-not-installed", hint=hint) from error
        try:
            status = _wait_for_exit(process, (stdout, stderr), min(seconds, MAX_SECONDS))
        finally:
            kill_group(process)
            process.wait()
        return FinishedProgram(status, _read_output(stdout), _read_output(stderr))


def _read_output(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(MAX_OUTPUT).decode("utf-8", "replace")


def _wait_for_exit(
    process: subprocess.Popen[bytes], outputs: Sequence[IO[bytes]], seconds: float
) -> int:
    """Wait for the exit status of a program, within its limits of time and output."""
    for _ in range(math.ceil(seconds / CHECK_SECONDS)):
        with suppress(subprocess.TimeoutExpired):
            process.wait(CHECK_SECONDS)
        size = sum(os.fstat(stream.fileno()).st_size for stream in outputs)
        if size > MAX_OUTPUT:
            message = f"the engine's program printed more than {MAX_OUTPUT:,} bytes"
            hint = "see what it prints when it is run by hand"
            raise EngineError(message, slug="engine-unreadable-reply", hint=hint)
        if process.returncode is not None:
            return process.returncode
    message = f"the engine's program gave no answer within {seconds:g} seconds"
    hint = "run again, or raise engine.deadline_seconds"
    raise EngineError(message, slug="engine-timeout", hint=hint)


# -- the command of the user

COMMAND_VARIABLE = "MEMORY_CI_ENGINE_COMMAND"
"""The environment variable with the command; no file of a repository can set it."""


class CommandEngine:
    """Runs the command of `MEMORY_CI_ENGINE_COMMAND`, once for each request."""

    def __init__(self, settings: EngineConfig, environ: Mapping[str, str]) -> None:
        """Create the engine.

        Raises:
            UsageError: engine-not-configured, if the variable has no command that can be parsed.
        """
        self._settings = settings
        self._environ = environ
        self._argv: list[str] = []
        with suppress(ValueError):
            self._argv = shlex.split(environ.get(COMMAND_VARIABLE, ""))
        if not self._argv:
            message = (
                f"the engine `command` needs a program, and {COMMAND_VARIABLE} names none that can"
                " be read"
            )
            hint = f"set {COMMAND_VARIABLE}, for example to `/usr/local/bin/my-model --quiet`"
            raise UsageError(message, slug="engine-not-configured", hint=hint)

    def extract(self, request: Request) -> EngineReply:
        """Return the output of the command.

        Raises:
            EngineError: engine-failed, for an exit status other than 0; and as `run_program`.
        """
        prompt = build_prompt(request)
        document = {
            "version": 1,
            "task": request.task,
            "model": self._settings.model,
            "system": prompt.system,
            "user": prompt.user,
            "schema": prompt.schema,
        }
        seconds = self._settings.deadline_seconds
        finished = run_program(self._argv, json.dumps(document), self._environ, seconds)
        if finished.status:
            errors = scrub(finished.errors, self._environ)
            message = f"the program of {COMMAND_VARIABLE} ended with status {finished.status}"
            message += f": {errors}" if errors else " and said nothing"
            hint = "run it by hand with the same input"
            raise EngineError(message, slug="engine-failed", hint=hint)
        return EngineReply(text=finished.output, stop_reason="end_turn")


# -- claude -p

PASSED_VARIABLES = frozenset(
    """PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TMPDIR XDG_CONFIG_HOME XDG_DATA_HOME
    CLAUDE_CONFIG_DIR ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL
    CLAUDE_CODE_OAUTH_TOKEN HTTPS_PROXY HTTP_PROXY NO_PROXY https_proxy http_proxy no_proxy
    SSL_CERT_FILE NODE_EXTRA_CA_CERTS""".split()
)
"""The environment variables that the program gets: no token of a forge, and nothing of git."""

# Without a limit of retries a refusal (even 401) is tried for minutes.
QUIET_CLAUDE_VARIABLES = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",
}
FAULTS_BY_STATUS: tuple[tuple[range, str, str], ...] = (
    (
        range(401, 402),
        "engine-unauthorised",
        "log in with `claude` and `/login`, or set ANTHROPIC_API_KEY",
    ),
    (
        range(403, 404),
        "engine-unauthorised",
        "the account may not use this model: see engine.model",
    ),
    (range(429, 430), "engine-rate-limited", "run again later; the same range is taken again"),
    (range(400, 500), "engine-rejected-request", "check engine.model"),
    (range(500, 600), "engine-overloaded", "run again later; the same range is taken again"),
)
"""HTTP statuses that the program reports, with slug and hint; the first matching row counts."""

CLAUDE_ARGUMENTS = """-p --output-format=json --tools= --strict-mcp-config --setting-sources=
    --disable-slash-commands --no-session-persistence""".split()
Tokens = Annotated[int, msgspec.Meta(ge=0)]


class CliUsage(msgspec.Struct, frozen=True):
    """Numbers of tokens under the names of the API."""

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_input_tokens: Tokens = 0
    cache_creation_input_tokens: Tokens = 0


class ClaudeResult(msgspec.Struct, frozen=True):
    """The fields that are read of the object that `--output-format json` prints."""

    result: str = ""
    is_error: bool = False
    api_error_status: int | None = None
    stop_reason: str | None = None
    usage: CliUsage = CliUsage()


class ClaudeCliEngine:
    """Runs the program `claude`, once for each request.

    It has no tools, settings, MCP servers or project. The following was checked by running Claude
    Code 2.1.197 against a loopback server. `--tools ""` sends no tools. With `--setting-sources ""`
    neither settings (their hooks, their base URL) nor CLAUDE.md files (of the user or of a parent
    directory) have any effect; without it all of them do. `--system-prompt-file` replaces the
    system prompt. `--output-format json` prints one object, even if the exit status is 1, with
    `is_error`, `api_error_status`, `result`, `stop_reason` and `usage`. `--json-schema` is not
    used, because it adds a tool and a second call, so the schema is part of the instructions.
    """

    def __init__(self, settings: EngineConfig, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ

    def extract(self, request: Request) -> EngineReply:
        """Return the program's answer.

        Raises:
            EngineError: the program reported an error (docs/models.md lists the slugs), or could
                not be run.
        """
        finished = self._run_claude(build_prompt(request))
        result = _read_result(finished, self._environ)
        return EngineReply(
            text=result.result,
            stop_reason=result.stop_reason or "",
            usage=read_usage(result.usage),
            model=self._settings.model,
        )

    def _run_claude(self, prompt: Prompt) -> FinishedProgram:
        """Run `claude -p` for a prompt, with the system prompt and the schema in a file."""
        env = {name: self._environ[name] for name in PASSED_VARIABLES & self._environ.keys()}
        schema = json.dumps(prompt.schema)
        system = f"{prompt.system}\n\nAnswer with JSON of this schema and nothing else:\n{schema}\n"
        with tempfile.TemporaryDirectory(prefix=DIRECTORY_PREFIX) as directory:
            system_file = Path(directory, "system.txt")
            system_file.write_text(system, encoding="utf-8")
            # The list of processes shows arguments to everyone, so none holds evidence.
            argv = [
                "claude",
                *CLAUDE_ARGUMENTS,
                f"--model={self._settings.model}",
                f"--system-prompt-file={system_file}",
            ]
            seconds = self._settings.deadline_seconds
            return run_program(argv, prompt.user, env | QUIET_CLAUDE_VARIABLES, seconds)


def _read_result(finished: FinishedProgram, environ: Mapping[str, str]) -> ClaudeResult:
    """Return the result that `claude -p` printed; its own errors are not JSON.

    Args:
        finished: the exit status and the output of the program.
        environ: the environment, whose credentials are masked in messages.

    Raises:
        EngineError: the program printed an error, or no result.
    """
    try:
        result = msgspec.json.decode(finished.output, type=ClaudeResult)
    except (msgspec.DecodeError, RecursionError) as error:
        output = scrub(finished.errors or finished.output, environ)
        message = f"`claude -p` ended with status {finished.status} and without an answer: {output}"
        hint = "run `claude -p hello --output-format json` by hand; an old version may lack a flag"
        raise EngineError(message, slug="engine-failed", hint=hint) from error
    if result.is_error or finished.status:
        slug, hint = _explain_status(result.api_error_status)
        output = scrub(result.result, environ)
        message = f"`claude -p` ended with status {finished.status}: {output}"
        raise EngineError(message, slug=slug, hint=hint)
    return result


def _explain_status(status: int | None) -> tuple[str, str]:
    """Return the slug and hint for an HTTP status."""
    for statuses, slug, hint in FAULTS_BY_STATUS:
        if status in statuses:
            return slug, hint
    return "engine-failed", "run `claude` by hand; `/login` if it is not logged in"
