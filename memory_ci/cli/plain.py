"""What commands share and needs no click: the table of options, streams, errors, the clock (read nowhere else)."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

import msgspec

from memory_ci.errors import MemoryCIError, RepositoryError, UsageError
from memory_ci.findings import printable_lines, render_finding

if TYPE_CHECKING:
    from memory_ci.memory.workspace import Workspace
    from memory_ci.records.report import Finding

T = TypeVar("T")

MAX_INPUT = 10_000_000
"""Bytes of a text that is read whole: a task, a plan, an entry. What is longer was meant for somebody else."""

UNSAFE_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Legal in a JSON string as they are (RFC 8259, section 7), but a terminal obeys them."""

JSON_VERSION = 1  # Of what `--json` prints: docs/compatibility.md says what changes it.
COLORS = ("auto", "always", "never")
NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EROFS)


class Option(NamedTuple):
    """One option: its flag, and behind a blank the argument of `run` that it fills, if that has another name; how its
    value is read.

    `kind` bool takes no value; with a `negation` it is None until one of both is said. `is_multiple`: a tuple of them.
    """

    said: str
    help: str
    kind: type[str | int | bool] = str
    choices: tuple[str, ...] = ()
    is_multiple: bool = False
    default: Any = None
    metavar: str | None = None
    negation: str = ""

    @property
    def flag(self) -> str:
        return self.said.split()[0]

    @property
    def name(self) -> str:
        return self.said.split()[-1].strip("-").replace("-", "_")

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
        return run(*args, **extra)
    except MemoryCIError as found:
        error = found
    except OSError as found:
        if found.errno not in NO_ROOM:
            raise
        error = RepositoryError(f"cannot write: {found.strerror}", slug="write-failed")
    from memory_ci.cli.manual import link_to

    text = f"Error: {printable_lines(error.message)} [{error.slug}]\n"
    if error.place and error.place[2].strip():
        from memory_ci.cli.terminal import render_excerpt

        path, line, source = error.place
        excerpt, column = render_excerpt(line, source, error.message)
        text += f" --> {printable_lines(path)}:{line}:{column}\n{excerpt}"
    hint = f"Hint: {printable_lines(error.hint)}\n" if error.hint else ""
    say(f"{text}{hint}More: {link_to(error.slug)}\n", err=True)
    sys.exit(error.exit_code)


def say(text: str, *, err: bool = False) -> None:
    """Text for people, its last line ended: at a terminal folded to the width of that, with colour where it is wanted.

    What is data (JSON, ids, a file's text, what agents are given) is for `echo`. Credentials are masked: a memory file
    or a commit that was written by hand may hold one, and a job's log is kept. In a job no text is a command.
    """
    from memory_ci.secrets import mask_secrets  # a hook with nothing to say does not need it

    text = mask_secrets(text)
    if is_job_of_runner(os.environ):
        text = disarm_workflow_commands(text)
    stream = sys.stderr if err else sys.stdout
    if text and not text.endswith("\n"):
        text += "\n"
    width, is_colored = terminal_width(stream, os.environ), is_colored_for(stream, os.environ)
    if width or is_colored:
        from memory_ci.cli.terminal import fold, paint

        text = fold(text, width) if width else text
        text = paint(text) if is_colored else text
    if stream is not None and not stream.encoding.lower().startswith("utf"):
        from memory_ci.cli.terminal import BLOCKS

        text = text.translate(BLOCKS)
    echo(text, err=err)


def terminal_width(stream: TextIO | None, environ: Mapping[str, str]) -> int:
    """The columns of a terminal, or as many as COLUMNS says; 0 where no terminal is: there nothing is folded or cut."""
    if stream is None or not stream.isatty():
        return 0
    wanted = environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """How far long work is, in one line on stderr while it goes on: only at a terminal, and gone when it is done."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from memory_ci.cli.terminal import bar

    def draw(done: int, total: int) -> None:
        share = f" {bar(done / total, 20)} {done / total:.0%}" if total else "…"
        echo(f"\x1b[K{label}{share}\r", err=True)  # whatever is said next stands in its place

    draw(0, 0)
    try:
        yield draw
    finally:
        echo("\x1b[K", err=True)


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout is not None and sys.stdout.isatty()


def is_colored_for(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Whether text for people is coloured there: as NO_COLOR, FORCE_COLOR or CLICOLOR_FORCE say, else at a terminal.

    A job of CI has none of its own accord (no-color.org, force-color.org, bixense.com/clicolors).
    """
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    is_plain = environ.get("TERM") == "dumb" or environ.get("CI") or environ.get("CLICOLOR") == "0"
    return not is_plain and stream is not None and stream.isatty()


def choose_color(wanted: str, environ: MutableMapping[str, str]) -> None:
    """What `--color` says: it stands above the environment, and what we start is told alike."""
    if wanted != "auto":
        for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
            environ.pop(name, None)
        environ["FORCE_COLOR" if wanted == "always" else "NO_COLOR"] = "1"


def echo(text: str, *, err: bool = False) -> None:
    """Write `text` to standard output or standard error as it is, at once; click knows what to do with odd streams."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or stream.encoding.lower() != "utf-8":
        import click

        click.echo(text, nl=False, err=err)
        return
    stream.write(text)
    stream.flush()


def is_job_of_runner(environ: Mapping[str, str]) -> bool:
    """Whether GitHub Actions, Azure Pipelines or TeamCity runs us: they obey what they find in the log."""
    is_actions = environ.get("GITHUB_ACTIONS") == "true"
    return is_actions or "TF_BUILD" in environ or "TEAMCITY_VERSION" in environ


def disarm_workflow_commands(text: str) -> str:
    r"""Return text in which the runner finds no workflow command.

    A command is `::` at the start of a line, or `##[` anywhere (actions/runner, ActionCommand.cs).
    Azure Pipelines reads `##vso[`, TeamCity `##teamcity[`.

    >>> disarm_workflow_commands("::error::x\nand ##[endgroup]##vso[task.setvariable]")
    ': :error::x\nand ## [endgroup]## vso[task.setvariable]'
    """
    return re.sub(r"(?m)(?:^|(?<=\r))(\s*:)(?=:)|##(?=(?:vso|teamcity)?\[)", r"\g<0> ", text)


class JobLog(io.TextIOWrapper):
    """Standard error in a job of a forge: whatever is written, the runner finds no workflow command in it."""

    def write(self, text: str) -> int:
        """Write `text`, with a blank in what would be a command."""
        super().write(disarm_workflow_commands(text))
        return len(text)


def guard_job_log(environ: Mapping[str, str]) -> None:
    """Make standard error a `JobLog` in a job; on standard output `say` does the same, and data stays as it is."""
    if is_job_of_runner(environ) and sys.stderr is not None:
        sys.stderr = JobLog(
            sys.stderr.buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )


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
    from memory_ci.memory.workspace import open_workspace

    found = open_workspace(Path.cwd())
    warn(() if is_quiet else found.findings)
    return found


def committed_workspace() -> Workspace:
    """The workspace for commands that work on a branch: they read the configuration that is committed there."""
    from memory_ci.memory.workspace import open_committed

    found = open_committed(Path.cwd())
    warn(found.findings)
    return found


def mask_strings(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value in which credentials are masked, wherever a text holds one."""
    from memory_ci.secrets import mask_secrets

    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, list | tuple):
        return [mask_strings(item) for item in value]
    if isinstance(value, dict):
        return {key: mask_strings(item) for key, item in value.items()}
    return value


def echo_json(value: Any) -> None:  # noqa: ANN401 - any record
    """A record as indented JSON on stdout, with the version of its schema; a list is of version 1.

    Credentials in it are masked.
    """
    plain = mask_strings(msgspec.to_builtins(value, str_keys=True))
    named = {"schema_version": JSON_VERSION, **plain} if isinstance(plain, dict) else plain
    text = msgspec.json.format(msgspec.json.encode(named), indent=2).decode()
    echo(UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def warn(findings: Iterable[Finding]) -> None:
    """Findings of a command that goes on all the same, one line each on stderr."""
    for finding in findings:
        say(f"Warning: {render_finding(finding, with_level=False)}", err=True)


def utf8(text: str) -> str:
    """An argument as the text its bytes are, whatever the locale made of them; what is no UTF-8 becomes U+FFFD."""
    return os.fsencode(text).decode("utf-8", "replace")


def has_input() -> bool:
    """Whether something is piped in."""
    return sys.stdin is not None and not sys.stdin.isatty()


def read_words_or_input(words: Sequence[str], asked: str, command: str) -> str:
    """The words of the command line, else what is piped in. Raises click.UsageError, which asks for one of them."""
    if words:
        return utf8(" ".join(words))
    if not has_input():
        from click import UsageError  # click's to report

        raise UsageError(f'{asked}: memory-ci {command} "…", or pipe it in.')
    return read_input()


def read_input() -> str:
    """Standard input as UTF-8. Raises UsageError (input-too-long)."""
    data = sys.stdin.buffer.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        message, hint = (
            f"the text is longer than {MAX_INPUT:,} bytes",
            "Give the part that says what it is about.",
        )
        raise UsageError(message, slug="input-too-long", hint=hint)
    return data.decode("utf-8", "replace")
