"""The command engine: a program of the user's, JSON on its standard input, the reply as JSON on its standard output."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from memory_ci.errors import EngineError, UsageError
from memory_ci.extraction.engines.faults import scrub
from memory_ci.extraction.engines.program import MAX_SECONDS, empty_directory, find_program, run_program
from memory_ci.extraction.prompt import build_prompt
from memory_ci.records.config import EngineConfig
from memory_ci.records.engine import EngineReply, Request

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
