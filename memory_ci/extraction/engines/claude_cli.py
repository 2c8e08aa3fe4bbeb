"""The claude-cli engine: `claude -p` on this machine, with no tools, no settings, no MCP servers and no project.

Facts checked by running Claude Code 2.1.197 against a loopback server: `--tools ""` sends no tools; with
`--setting-sources ""` neither settings (their hooks, their base URL) nor CLAUDE.md files (the user's, or of a directory
above) have any effect, while all of them do without it; `--system-prompt-file` replaces the system prompt;
`--output-format json` prints one object, also where the exit status is 1, with `is_error`, `api_error_status`,
`result`, `stop_reason` and `usage`. `--json-schema` is not used: it adds a tool and a second call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec

from memory_ci.errors import EngineError
from memory_ci.extraction.engines.faults import scrub
from memory_ci.extraction.engines.program import MAX_SECONDS, Finished, empty_directory, find_program, run_program
from memory_ci.extraction.prompt import Prompt, build_prompt
from memory_ci.records.candidate import EngineReply, Request, Usage
from memory_ci.records.config import EngineConfig

PASSED = frozenset(
    """PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TMPDIR XDG_CONFIG_HOME XDG_DATA_HOME CLAUDE_CONFIG_DIR
    ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL CLAUDE_CODE_OAUTH_TOKEN
    HTTPS_PROXY HTTP_PROXY NO_PROXY https_proxy http_proxy no_proxy SSL_CERT_FILE NODE_EXTRA_CA_CERTS""".split()
)
"""What the program may see of our environment: where it lives, who asks, and its way to the model. No token of a forge,
nothing of git."""

QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "2"}
"""Nothing but the question leaves the machine; and three tries, or a refusal (even 401) is tried for minutes."""

STATUSES: tuple[tuple[range, str, str], ...] = (
    (range(401, 402), "engine-unauthorised", "log in with `claude` and `/login`, or set ANTHROPIC_API_KEY"),
    (range(403, 404), "engine-unauthorised", "the account may not use this model: see engine.model"),
    (range(429, 430), "engine-rate-limited", "run again later; the same range is taken again"),
    (range(400, 500), "engine-rejected-request", "check engine.model and engine.prompt_tokens"),
    (range(500, 600), "engine-overloaded", "run again later; the same range is taken again"),
)
"""HTTP statuses that the program reports; the first range that holds one tells the slug."""

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
    """Asks the `claude` program of PATH, once for each request."""

    def __init__(self, settings: EngineConfig, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ

    def extract(self, request: Request) -> EngineReply:
        """The program's answer. Raises EngineError by what it reports (docs/engines.md), and as `run_program`."""
        prompt = build_prompt(request)
        env = {key: self._environ[key] for key in PASSED & self._environ.keys()} | QUIET
        seconds = min(self._settings.deadline_seconds, MAX_SECONDS)
        program = find_program("claude", self._environ)
        with empty_directory() as cwd, empty_directory() as beside:
            system = beside / "system.txt"
            system.write_text(_system(prompt), encoding="utf-8")
            argv = [program, *self._arguments(system)]
            done = run_program(argv, prompt.user, cwd=cwd, env=env, seconds=seconds)
        return self._reply(_result(done, self._environ))

    def _arguments(self, system: Path) -> list[str]:
        """No evidence among them: a list of processes shows arguments to everyone."""
        return [
            "-p",
            "--output-format=json",
            "--tools=",
            "--strict-mcp-config",
            "--setting-sources=",
            "--disable-slash-commands",
            "--no-session-persistence",
            f"--model={self._settings.model}",
            f"--system-prompt-file={system}",
        ]

    def _reply(self, result: Result) -> EngineReply:
        used = result.usage
        return EngineReply(
            text=result.result,
            stop_reason=result.stop_reason or "",
            usage=Usage(
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                cache_read_tokens=used.cache_read_input_tokens,
                cache_write_tokens=used.cache_creation_input_tokens,
            ),
            model=self._settings.model,
        )


def _system(prompt: Prompt) -> str:
    """Instructions with the schema, which the program is not given in any other way."""
    return f"{prompt.system}\n\nAnswer with JSON of this schema and nothing else:\n{json.dumps(prompt.schema)}\n"


def _result(done: Finished, environ: Mapping[str, str]) -> Result:
    """What the program printed, if it is an answer; an error of its own has no JSON."""
    try:
        result = msgspec.json.decode(done.output, type=Result)
    except (msgspec.DecodeError, RecursionError) as error:
        told = scrub(done.errors or done.output, environ)
        raise EngineError(
            f"`claude -p` ended with status {done.status} and without an answer: {told}",
            slug="engine-failed",
            hint="run `claude -p hello --output-format json` by hand; an old version may lack a flag",
        ) from error
    if result.is_error or done.status:
        _refuse(result, done.status, environ)
    return result


def _refuse(result: Result, status: int, environ: Mapping[str, str]) -> NoReturn:
    known = (row for row in STATUSES if result.api_error_status in row[0])
    _, slug, hint = next(known, (None, "engine-failed", "run `claude` by hand; `/login` if it is not logged in"))
    told = scrub(result.result, environ)
    raise EngineError(f"`claude -p` ended with status {status}: {told}", slug=slug, hint=hint)
