"""The command line, run in this process as a user would run it."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import CliRunner, Result

from memory_ci.commands.root import main

Run = Callable[..., Result]


def invoke(*args: str, stdin: str | None = None) -> Result:
    """Run `memory-ci` with arguments and return its exit code and output; a traceback is raised."""
    result = CliRunner().invoke(main, args, input=stdin, prog_name="memory-ci")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
