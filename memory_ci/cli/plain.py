"""What commands share and needs no click: the table of options, streams, errors, the clock (read nowhere else)."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from memory_ci.errors import MemoryCIError, RepositoryError, UsageError
from memory_ci.rendering.table import printable_lines, render_finding

if TYPE_CHECKING:
    from memory_ci.flows.workspace import Workspace
    from memory_ci.records.report import Finding

T = TypeVar("T")

MAX_INPUT = 10_000_000
"""Bytes of a text that is read whole: a task, a plan, an entry. What is longer was meant for somebody else."""

JSON_VERSION = 1
"""Of what `--json` prints: docs/compatibility.md says what changes it."""

NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)


class Option(NamedTuple):
    """One option: its flag, the argument of `run` that it fills, how its value is read.

    `kind` bool takes no value; with a `negation` it is None until one of both is said. `is_multiple`: a tuple of them.
    """

    flag: str
    name: str
    help: str
    kind: type[str | int | bool] = str
    choices: tuple[str, ...] = ()
    is_multiple: bool = False
    default: Any = None
    metavar: str | None = None
    negation: str = ""

    @property
    def initial(self) -> Any:  # noqa: ANN401 - what `kind` says
        """The value where the option is not given."""
        if self.is_multiple:
            return ()
        return False if self.kind is bool and not self.negation else self.default


def reported(run: Callable[..., T], *args: Any, **extra: Any) -> T:  # noqa: ANN401 - whatever `run` takes
    """What `run` gives. An error that a user can act on becomes one line, a hint and its exit status.

    So does standard output on a full disk: it is the user's to mend, not a fault of ours to trace back.
    """
    try:
        return _with_room(run, *args, **extra)
    except MemoryCIError as error:
        echo(f"Error: {printable_lines(error.message)} [{error.slug}]\n", err=True)
        if error.hint:
            echo(f"Hint: {printable_lines(error.hint)}\n", err=True)
        sys.exit(error.exit_code)


def _with_room(run: Callable[..., T], *args: Any, **extra: Any) -> T:  # noqa: ANN401 - whatever `run` takes
    try:
        return run(*args, **extra)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise RepositoryError(f"cannot write: {error.strerror}", slug="write-failed") from error


def echo(text: str, *, err: bool = False) -> None:
    """Write `text` to standard output or standard error as it is, at once; click knows what to do with odd streams."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or stream.encoding.lower() != "utf-8":
        import click

        click.echo(text, nl=False, err=err)
        return
    stream.write(text)
    stream.flush()


class JobLog(io.TextIOWrapper):
    """Standard error in a job of GitHub Actions: whatever is written, the runner finds no workflow command in it.

    A command is `::` at the start of a line, or `##[` anywhere (actions/runner, ActionCommand.cs).
    """

    def write(self, text: str) -> int:
        """Write `text`, with a blank in what would be a command."""
        super().write(re.sub(r"(?m)(?:^|(?<=\r))(\s*:)(?=:)|##(?=\[)", r"\g<0> ", text))
        return len(text)


def guard_job_log(environ: Mapping[str, str]) -> None:
    """Make standard error a `JobLog` where the environment is that of a job; standard output is data, and stays."""
    if environ.get("GITHUB_ACTIONS") == "true" and sys.stderr is not None:
        sys.stderr = JobLog(sys.stderr.buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def now() -> datetime:
    """The time; SOURCE_DATE_EPOCH, if set, is the clock (reproducible-builds.org)."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isascii() and epoch.isdigit():
        try:
            return datetime.fromtimestamp(int(epoch), UTC)
        except (ValueError, OverflowError, OSError) as error:
            from click import UsageError  # the only error that is click's to report

            raise UsageError(f"SOURCE_DATE_EPOCH is no time: {error}") from error
    return datetime.now(UTC)  # noqa: TID251 - here the clock is read, and passed down


def today() -> date:
    """Today in UTC: the same day for every runner."""
    return now().date()


def workspace(*, is_quiet: bool = False) -> Workspace:
    """The workspace of the current directory, with the configuration of its work tree.

    Unknown keys of that are warned of on stderr, unless git itself has started us.
    """
    from memory_ci.flows.workspace import open_workspace

    found = open_workspace(Path.cwd())
    warn(() if is_quiet else found.findings)
    return found


def committed_workspace() -> Workspace:
    """The workspace for commands that work on a branch: they read the configuration that is committed there."""
    from memory_ci.flows.workspace import open_committed

    found = open_committed(Path.cwd())
    warn(found.findings)
    return found


def echo_json(value: Any) -> None:  # noqa: ANN401 - any record
    """A record as indented JSON on stdout, with the version of its schema; a list is of version 1."""
    plain = msgspec.to_builtins(value, str_keys=True)
    named = {"schema_version": JSON_VERSION, **plain} if isinstance(plain, dict) else plain
    echo(msgspec.json.format(msgspec.json.encode(named), indent=2).decode() + "\n")


def warn(findings: Iterable[Finding]) -> None:
    """Findings of a command that goes on all the same, one line each on stderr."""
    for finding in findings:
        echo(f"Warning: {render_finding(finding, with_level=False)}\n", err=True)


def utf8(text: str) -> str:
    """An argument as the text its bytes are, whatever the locale made of them; what is no UTF-8 becomes U+FFFD."""
    return os.fsencode(text).decode("utf-8", "replace")


def has_input() -> bool:
    """Whether something is piped in."""
    return sys.stdin is not None and not sys.stdin.isatty()


def read_input() -> str:
    """Standard input as UTF-8. Raises UsageError (input-too-long)."""
    data = sys.stdin.buffer.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        message, hint = f"the text is longer than {MAX_INPUT:,} bytes", "Give the part that says what it is about."
        raise UsageError(message, slug="input-too-long", hint=hint)
    return data.decode("utf-8", "replace")
