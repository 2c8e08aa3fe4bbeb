"""What all commands need without click: options, output, reports of errors, and the clock.

The clock is read nowhere else.
"""

# Without `from __future__ import annotations`: a NamedTuple compiles annotations that are strings,
# which would take a third of Python's own start.
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

from memory_ci.errors import MemoryCIError, RepositoryError, UsageError
from memory_ci.regex import Regex

if TYPE_CHECKING:
    from datetime import date, datetime

    from memory_ci.memory.workspace import Workspace
    from memory_ci.records.report import Finding

T = TypeVar("T")

MAX_INPUT = 10_000_000
"""Bytes of a text that is read whole: a task, a plan, an entry. A longer input is a mistake."""

UNSAFE_IN_JSON = Regex(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that are legal in a JSON string (RFC 8259, section 7), but that a terminal obeys."""

PLAIN_CHARACTERS = dict.fromkeys(
    code for code in range(128) if chr(code).isalnum() or chr(code) in " .,;:'`()!?-\n"
)
"""A table for str.translate that removes the characters that harmless text may have."""

MIN_CREDENTIAL_WORD = 10  # Characters from which a word may be a credential.
JSON_VERSION = 1  # The version of the output of `--json` (docs/upgrading.md).
COLORS = ("auto", "always", "never")
DISK_ERRORS = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EROFS)


class Option(NamedTuple):
    """One option of a command.

    Attributes:
        names: the flag and, after a blank, the argument of `run` that it fills if its name differs.
        kind: the type of the value; bool takes no value.
        is_multiple: the option may be repeated; the value is a tuple.
        negation: the flag for False; without either flag the value is None.
    """

    names: str
    help: str
    kind: type[str | int | bool] = str
    choices: tuple[str, ...] = ()
    is_multiple: bool = False
    default: Any = None
    metavar: str | None = None
    negation: str = ""

    @property
    def flag(self) -> str:
        """The flag, as `--max-chars`."""
        return self.names.split()[0]

    @property
    def name(self) -> str:
        """The argument of `run` that the option fills, as `max_chars`."""
        return self.names.split()[-1].strip("-").replace("-", "_")

    @property
    def initial(self) -> Any:  # noqa: ANN401 - as `kind`
        """The value without the flag."""
        if self.is_multiple:
            return ()
        return False if self.kind is bool and not self.negation else self.default


def run_reported(run: Callable[..., T], *args: Any, **options: Any) -> T:  # noqa: ANN401 - as `run`
    """Call a function and return its result; an error that a user can act on ends the process.

    Such an error is printed with its hint, and its exit status is used. A full disk under standard
    output is such an error, too. Any other exception is raised.
    """
    error: MemoryCIError
    try:
        return run(*args, **options)
    except MemoryCIError as memory_error:
        error = memory_error
    except OSError as os_error:
        if os_error.errno not in DISK_ERRORS:
            raise
        error = RepositoryError(f"cannot write: {os_error.strerror}", slug="write-failed")
    say(_render_error(error), err=True)
    sys.exit(error.exit_code)


def _render_error(error: MemoryCIError) -> str:
    """Return the text of an error: message, excerpt of the file it is in, hint, and a link."""
    from memory_ci.cli.manual import link_to
    from memory_ci.findings import printable_lines

    text = f"Error: {printable_lines(error.message)} [{error.slug}]\n"
    if error.place:
        path, line, source = error.place
        if source.strip():
            from memory_ci.cli.terminal import render_excerpt

            excerpt, column = render_excerpt(line, source, error.message)
            text += f" --> {printable_lines(path)}:{line}:{column}\n{excerpt}"
    if error.hint:
        text += f"Hint: {printable_lines(error.hint)}\n"
    return f"{text}More: {link_to(error.slug)}\n"


def is_harmless(text: str) -> bool:
    """Return whether a text is too plain to hold a credential: short words without a sign of one.

    Every credential has MIN_CREDENTIAL_WORD characters without a blank, or a sign such as `=` or `://`,
    or follows `login`.
    """
    if text.translate(PLAIN_CHARACTERS) or "login" in text.lower():
        return False
    return max(map(len, text.split()), default=0) < MIN_CREDENTIAL_WORD


def say(text: str, *, err: bool = False) -> None:
    """Print text for people, with a line break at its end.

    At a terminal it is folded to the width and coloured. Credentials are masked: a memory file or
    a commit that was written by hand may hold one, and logs of CI jobs are kept. In a CI job text
    that the runner would take for a command is changed. Use `echo` for data (JSON, ids, files).
    """
    if not is_harmless(text):
        # Not at the top: it takes 5 ms, and most texts hold short words only.
        from memory_ci.secrets import mask_secrets

        text = mask_secrets(text)
    if is_job_of_runner(os.environ):
        text = disarm_workflow_commands(text)
    if text and not text.endswith("\n"):
        text += "\n"

    stream = sys.stderr if err else sys.stdout
    width = terminal_width(stream, os.environ)
    is_colored = is_colored_for(stream, os.environ)
    if width or is_colored:
        from memory_ci.cli.terminal import fold, paint

        if width:
            text = fold(text, width)
        if is_colored:
            text = paint(text)
    if stream is not None and not stream.encoding.lower().startswith("utf"):
        from memory_ci.cli.terminal import BLOCKS

        text = text.translate(BLOCKS)
    echo(text, err=err)


def terminal_width(stream: TextIO | None, environ: Mapping[str, str]) -> int:
    """Return the width of a terminal in columns, COLUMNS if it is set; 0 for another stream."""
    if stream is None or not stream.isatty():
        return 0
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of long work in one line on stderr, which disappears at the end.

    Nothing is shown if stderr is not a terminal. Progress that the work reports by
    `memory_ci.progress` is shown in the same line, with the label of that part.

    Yields:
        A function that draws (done, total).
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield _draw_nothing
        return
    from memory_ci.cli.terminal import ProgressLine
    from memory_ci.progress import listen

    line = ProgressLine(terminal_width(sys.stderr, os.environ), partial(echo, err=True))
    line.draw(label, 0, 0)
    try:
        with listen(line.draw):
            yield partial(line.draw, label)
    finally:
        line.clear()


def _draw_nothing(done: int, total: int) -> None:
    pass


def is_terminal() -> bool:
    """Tell whether a person reads standard output."""
    return sys.stdout is not None and sys.stdout.isatty()


def is_colored_for(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Return whether text for people is coloured on a stream.

    NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE decide, else only terminals have colours, except in a
    job of CI (no-color.org, force-color.org, bixense.com/clicolors).
    """
    if environ.get("NO_COLOR"):
        return False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if environ.get(name, "0") not in ("", "0"):
            return True
    is_plain = environ.get("TERM") == "dumb" or environ.get("CI") or environ.get("CLICOLOR") == "0"
    return not is_plain and stream is not None and stream.isatty()


def choose_color(color: str, environ: MutableMapping[str, str]) -> None:
    """Set the variables for colours as `--color` says, for this process and those it starts."""
    if color == "auto":
        return
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        environ.pop(name, None)
    environ["FORCE_COLOR" if color == "always" else "NO_COLOR"] = "1"


def echo(text: str, *, err: bool = False) -> None:
    """Write text unchanged to standard output or error, and flush.

    To a stream that is missing or not UTF-8 the library click writes it, which knows what to do in
    these cases.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is None or stream.encoding.lower() != "utf-8":
        import click

        click.echo(text, nl=False, err=err)
        return
    stream.write(text)
    stream.flush()


def is_job_of_runner(environ: Mapping[str, str]) -> bool:
    """Return whether this is a job of a CI runner that obeys commands in its log.

    These are GitHub Actions, Azure Pipelines and TeamCity.
    """
    is_actions = environ.get("GITHUB_ACTIONS") == "true"
    return is_actions or "TF_BUILD" in environ or "TEAMCITY_VERSION" in environ


def disarm_workflow_commands(text: str) -> str:
    r"""Return text with a blank inserted into each word that a CI runner takes for a command.

    A command is `::` at the start of a line, or `##[` anywhere (actions/runner, ActionCommand.cs).
    Azure Pipelines reads `##vso[`, TeamCity `##teamcity[`.

    >>> disarm_workflow_commands("::error::x\nand ##[endgroup]##vso[task.setvariable]")
    ': :error::x\nand ## [endgroup]## vso[task.setvariable]'
    """
    return re.sub(r"(?m)(?:^|(?<=\r))(\s*:)(?=:)|##(?=(?:vso|teamcity)?\[)", r"\g<0> ", text)


class JobLog(io.TextIOWrapper):
    """Standard error in a job of a runner, with no workflow command that the runner obeys."""

    def write(self, text: str) -> int:
        """Write text, with a blank inside words that a runner takes for a command."""
        super().write(disarm_workflow_commands(text))
        return len(text)


def guard_job_log(environ: Mapping[str, str]) -> None:
    """Make sure that nothing on standard error is a command for a CI runner (a `JobLog`).

    A runner reads commands from the log of a job, and untrusted text may hold some. It reads
    standard output, too: there `say` changes text for people, while data of `echo` stays as it is.
    """
    if is_job_of_runner(environ) and sys.stderr is not None:
        sys.stderr = JobLog(
            sys.stderr.buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )


def now() -> "datetime":
    """Return the current time in UTC, or SOURCE_DATE_EPOCH if set (reproducible-builds.org)."""
    # Not at the top: many calls of an agent's hook end before they need the time.
    from datetime import UTC, datetime

    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isascii() and epoch.isdigit():
        try:
            return datetime.fromtimestamp(int(epoch), UTC)
        except (ValueError, OverflowError, OSError) as error:
            from click import UsageError  # click reports it

            raise UsageError(f"SOURCE_DATE_EPOCH is no time: {error}") from error
    return datetime.now(UTC)  # noqa: TID251 - the one place that reads the clock


def today() -> "date":
    """Return today in UTC: the same day for every runner."""
    return now().date()


def open_current_workspace(*, is_quiet: bool = False) -> "Workspace":
    """Return the repository of the current directory, with the configuration of its work tree.

    Args:
        is_quiet: do not warn of unknown keys on stderr, as in a hook of git.
    """
    from memory_ci.memory.workspace import open_workspace

    opened = open_workspace(Path.cwd())
    if not is_quiet:
        warn(opened.findings)
    return opened


def open_committed_workspace() -> "Workspace":
    """Return the repository of the current directory with its committed configuration.

    Commands that work on a branch, and not on the work tree, need it.
    """
    from memory_ci.memory.workspace import open_unconfigured

    opened = open_unconfigured(Path.cwd())
    warn(opened.findings)
    return opened


def shorten_path(path: str | Path, root: Path | None) -> str:
    """Return a path as people read it: relative to the work tree, or after `~` in the home."""
    absolute = Path(path)
    if root is not None and absolute.is_relative_to(root):
        return str(absolute.relative_to(root))
    with suppress(RuntimeError):  # A job in a container may have no home.
        if absolute.is_relative_to(Path.home()):
            return str("~" / absolute.relative_to(Path.home()))
    return str(path)


def mask_strings(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with all credentials masked."""
    from memory_ci.secrets import mask_secrets

    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, list | tuple):
        return [mask_strings(item) for item in value]
    if isinstance(value, dict):
        return {key: mask_strings(item) for key, item in value.items()}
    return value


def echo_json(value: Any) -> None:  # noqa: ANN401 - any record
    """Print a record as indented JSON, with credentials masked.

    An object begins with the version of its schema; a list has none and is of version 1.
    """
    import msgspec  # so long to load that an agent's hook does without

    masked_value = mask_strings(msgspec.to_builtins(value, str_keys=True))
    if isinstance(masked_value, dict):
        masked_value = {"schema_version": JSON_VERSION, **masked_value}
    text = msgspec.json.format(msgspec.json.encode(masked_value), indent=2).decode()
    echo(UNSAFE_IN_JSON.sub(_escape_in_json, text) + "\n")


def _escape_in_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def warn(findings: "Iterable[Finding]") -> None:
    """Print the findings of a command that continues, one line each on stderr."""
    from memory_ci.findings import render_finding

    for finding in findings:
        say(f"Warning: {render_finding(finding, with_level=False)}", err=True)


def decode_argument(text: str) -> str:
    """Return an argument decoded as UTF-8, whatever the locale; invalid bytes become U+FFFD."""
    return os.fsencode(text).decode("utf-8", "replace")


def has_input() -> bool:
    """Tell whether something is piped in."""
    return sys.stdin is not None and not sys.stdin.isatty()


def read_words_or_input(words: Sequence[str], request: str, command: str) -> str:
    """Return the words of the command line as one text, else standard input.

    Args:
        words: the positional arguments.
        request: the start of the error message, such as "Say what the task is".
        command: the name of the command, for the error message.

    Raises:
        click.UsageError: there are neither words nor standard input.
    """
    if words:
        return decode_argument(" ".join(words))
    if not has_input():
        from click import UsageError  # click reports it

        raise UsageError(f'{request}: memory-ci {command} "…", or pipe it in.')
    return read_input()


def read_input() -> str:
    """Read standard input as UTF-8.

    Raises:
        UsageError: input-too-long.
    """
    data = sys.stdin.buffer.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        message = f"the text is longer than {MAX_INPUT:,} bytes"
        hint = "Give the part that says what it is about."
        raise UsageError(message, slug="input-too-long", hint=hint)
    return data.decode("utf-8", "replace")
