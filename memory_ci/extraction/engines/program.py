"""Engines that are programs: a bounded run in an empty directory; the command of the user, and `claude -p`."""

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
from memory_ci.extraction.prompt import build_prompt
from memory_ci.records.candidate import EngineReply, Request
from memory_ci.records.config import EngineConfig

MAX_OUTPUT = (
    8_000_000  # Bytes that a program may print, on standard output and standard error together.
)
MAX_SECONDS = 300  # For one answer, whatever the deadline of the run allows.
PREFIX = "memory-ci-"  # Of directories of our own: no file of a project lies beside them.
TICK = 0.1  # Seconds between two looks at a program that runs.


class Finished(NamedTuple):
    """How a program ended, and what it printed."""

    status: int
    output: str
    errors: str


def find_program(name: str, environ: Mapping[str, str]) -> str:
    """The absolute path of a program on PATH. Raises EngineError (engine-not-installed). One that is found only
    relative to where we stand would be a file of the repository, and is not run."""
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found is None or not Path(found).is_absolute():
        is_path = Path(name).is_absolute()
        told = f"the program {name!r} was not found{', or is not executable' if is_path else ' on PATH'}"
        hint = (
            "check the path, and `chmod +x` it"
            if is_path
            else "install it, or name it by its absolute path"
        )
        raise EngineError(told, slug="engine-not-installed", hint=hint)
    return found


def run_program(argv: Sequence[str], text: str, env: Mapping[str, str], seconds: float) -> Finished:
    """Run `argv` with `text` on its standard input, without a shell, in a directory with nothing in it. Raises
    EngineError: as `find_program`, engine-not-installed when it cannot be started, engine-timeout after `seconds` or
    MAX_SECONDS, engine-unreadable-reply when it prints over MAX_OUTPUT bytes. What it started does not outlive it."""
    argv = [find_program(argv[0], env), *argv[1:]]
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX) as cwd,
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(text.encode("utf-8", "replace"))
        stdin.seek(0)
        # In files, not pipes: a child that outlives the program can hold nobody up. In a session, to be killed whole.
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(env),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            told, hint = (
                f"{argv[0]} cannot be run: {error.strerror}",
                "check that it is a program and may be run",
            )
            raise EngineError(told, slug="engine-not-installed", hint=hint) from error
        try:
            status = _wait(process, (stdout, stderr), min(seconds, MAX_SECONDS))
        finally:
            kill_group(process)
            process.wait()
        printed = []
        for stream in (stdout, stderr):
            stream.seek(0)
            printed.append(stream.read(MAX_OUTPUT).decode("utf-8", "replace"))
        return Finished(status, *printed)


def _wait(process: subprocess.Popen[bytes], printed: Sequence[IO[bytes]], seconds: float) -> int:
    for _ in range(math.ceil(seconds / TICK)):
        with suppress(subprocess.TimeoutExpired):
            process.wait(TICK)
        if sum(os.fstat(stream.fileno()).st_size for stream in printed) > MAX_OUTPUT:
            told = f"the engine's program printed more than {MAX_OUTPUT:,} bytes"
            hint = "see what it prints when it is run by hand"
            raise EngineError(told, slug="engine-unreadable-reply", hint=hint)
        if process.returncode is not None:
            return process.returncode
    told = f"the engine's program gave no answer within {seconds:g} seconds"
    raise EngineError(
        told, slug="engine-timeout", hint="run again, or raise engine.deadline_seconds"
    )


VARIABLE = (
    "MEMORY_CI_ENGINE_COMMAND"  # The one place that names the program: no file of a repository can.
)


class CommandEngine:
    """Runs the program that the environment names, in an empty directory, once for each request."""

    def __init__(self, settings: EngineConfig, environ: Mapping[str, str]) -> None:
        self._words: list[str] = []
        with suppress(ValueError):
            self._words = shlex.split(environ.get(VARIABLE, ""))
        if not self._words:
            told = (
                f"the engine `command` needs a program, and {VARIABLE} names none that can be read"
            )
            hint = f"set {VARIABLE}, for example to `/usr/local/bin/my-model --quiet`"
            raise UsageError(told, slug="engine-not-configured", hint=hint)
        self._settings, self._environ = settings, environ

    def extract(self, request: Request) -> EngineReply:
        """What the program printed. Raises EngineError: engine-failed for an exit status other than 0, and as
        `run_program`."""
        prompt = build_prompt(request)
        document = {
            "version": 1,
            "task": request.task,
            "model": self._settings.model,
            "system": prompt.system,
        }
        text = json.dumps(document | {"user": prompt.user, "schema": prompt.schema})
        done = run_program(self._words, text, self._environ, self._settings.deadline_seconds)
        if done.status:
            said = scrub(done.errors, self._environ)
            told = f"the program of {VARIABLE} ended with status {done.status}"
            told += f": {said}" if said else " and said nothing"
            raise EngineError(told, slug="engine-failed", hint="run it by hand with the same input")
        return EngineReply(text=done.output, stop_reason="end_turn")


# What the program may see of our environment: where it lives, who asks, and its way to the model. No token of a forge,
# nothing of git.
PASSED = frozenset(
    """PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TMPDIR XDG_CONFIG_HOME XDG_DATA_HOME CLAUDE_CONFIG_DIR
    ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL CLAUDE_CODE_OAUTH_TOKEN
    HTTPS_PROXY HTTP_PROXY NO_PROXY https_proxy http_proxy no_proxy SSL_CERT_FILE NODE_EXTRA_CA_CERTS""".split()
)
# Nothing but the question leaves the machine; and three tries, or a refusal (even 401) is tried for minutes.
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "2"}
# HTTP statuses that the program reports; the first range that holds one tells the slug.
STATUSES: tuple[tuple[range, str, str], ...] = (
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
    (range(400, 500), "engine-rejected-request", "check engine.model and engine.prompt_tokens"),
    (range(500, 600), "engine-overloaded", "run again later; the same range is taken again"),
)
ARGUMENTS = """-p --output-format=json --tools= --strict-mcp-config --setting-sources= --disable-slash-commands
    --no-session-persistence""".split()
Tokens = Annotated[int, msgspec.Meta(ge=0)]


class CliUsage(msgspec.Struct, frozen=True):
    """Token counts under the names of the API."""

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_input_tokens: Tokens = 0
    cache_creation_input_tokens: Tokens = 0


class Result(msgspec.Struct, frozen=True):
    """The fields that are read of the object that `--output-format json` prints."""

    result: str = ""
    is_error: bool = False
    api_error_status: int | None = None
    stop_reason: str | None = None
    usage: CliUsage = CliUsage()


class ClaudeCliEngine:
    """Asks the `claude` program of PATH, once for each request, with no tools, settings, MCP servers and project.

    Facts checked by running Claude Code 2.1.197 against a loopback server: `--tools ""` sends no tools; with
    `--setting-sources ""` neither settings (their hooks, their base URL) nor CLAUDE.md files (the user's, or of a
    directory above) have any effect, while all of them do without it; `--system-prompt-file` replaces the system
    prompt; `--output-format json` prints one object, also where the exit status is 1, with `is_error`,
    `api_error_status`, `result`, `stop_reason` and `usage`. `--json-schema` is not used: it adds a tool and a second
    call, so the schema stands among the instructions.
    """

    def __init__(self, settings: EngineConfig, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ

    def extract(self, request: Request) -> EngineReply:
        """The program's answer. Raises EngineError by what it reports (docs/engines.md), and as `run_program`."""
        prompt = build_prompt(request)
        env = {key: self._environ[key] for key in PASSED & self._environ.keys()} | QUIET
        with tempfile.TemporaryDirectory(prefix=PREFIX) as beside:
            system, schema = Path(beside, "system.txt"), json.dumps(prompt.schema)
            told = (
                f"{prompt.system}\n\nAnswer with JSON of this schema and nothing else:\n{schema}\n"
            )
            system.write_text(told, encoding="utf-8")
            # No evidence among the arguments: a list of processes shows them to everyone.
            named = [f"--model={self._settings.model}", f"--system-prompt-file={system}"]
            argv = ["claude", *ARGUMENTS, *named]
            done = run_program(argv, prompt.user, env, self._settings.deadline_seconds)
        result = _read_result(done, self._environ)
        usage = read_usage(result.usage)
        return EngineReply(
            text=result.result,
            stop_reason=result.stop_reason or "",
            usage=usage,
            model=self._settings.model,
        )


def _read_result(done: Finished, environ: Mapping[str, str]) -> Result:
    """What the program printed, if it is an answer; an error of its own has no JSON."""
    try:
        result = msgspec.json.decode(done.output, type=Result)
    except (msgspec.DecodeError, RecursionError) as error:
        told = scrub(done.errors or done.output, environ)
        told = f"`claude -p` ended with status {done.status} and without an answer: {told}"
        hint = "run `claude -p hello --output-format json` by hand; an old version may lack a flag"
        raise EngineError(told, slug="engine-failed", hint=hint) from error
    if result.is_error or done.status:
        known = (row for row in STATUSES if result.api_error_status in row[0])
        _, slug, hint = next(
            known, (None, "engine-failed", "run `claude` by hand; `/login` if it is not logged in")
        )
        told = f"`claude -p` ended with status {done.status}: {scrub(result.result, environ)}"
        raise EngineError(told, slug=slug, hint=hint)
    return result
