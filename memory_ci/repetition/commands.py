"""The forms of shell commands: programs, subcommands and options, without other arguments."""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from memory_ci.regex import Regex

MAX_COMMAND = 2_000  # Characters of a command line that are read.
MAX_LINE_CHARS = 10_000  # Characters of a command line whose arguments are read.
MAX_SUBCOMMANDS = 3
MAX_OPTIONS = 3

TOKEN = Regex(
    r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|(?<!\S)#[^\n]*"
    r"|(?P<end>&&|\|\||[;|\n]|(?<![>&])&(?![>&]))"
    r"|(?P<heredoc>(?<!<)<<-?\s*['\"]?\w)",
    re.DOTALL,
)
"""A quotation, an escape or a comment, which end no command; the end of one; or a here-document."""

PROGRAM = Regex(r"[a-z0-9_.][\w.+:@/-]{0,79}", re.ASCII | re.IGNORECASE)
QUOTED_HEREDOC = Regex(
    r"""\"\$\(cat[ ]<<-?[ ]?['\"]?(\w+)['\"]?\n(?P<text>.*?)\n?[ \t]*\1\s*\)\"""", re.DOTALL
)
"""An argument that a here-document holds, as agents write the messages of commits."""

ASSIGNMENT = Regex(r"[A-Za-z_]\w*=")
SUBCOMMAND = Regex(r"[a-z][a-z0-9]*(?:[:-][a-z0-9]+)*")
OPTION = Regex(r"--?[A-Za-z][\w-]*")
REDIRECTION = Regex(r"\d*[<>]")
WRAPPERS = frozenset("sudo time env command exec nohup nice timeout then do else".split())
"""Words in front of a program."""

IGNORED_COMMANDS = frozenset(
    "cd export set source . echo true false test [ [[ if for while fi done".split()
)
"""Commands of the shell that do no work of their own."""

PROGRAMS_WITHOUT_SUBCOMMANDS = frozenset(
    """cat grep rg ls find sed awk head tail wc rm cp mv mkdir touch chmod stat file diff sort
    which node python python3 bash sh zsh""".split()
)
"""Programs without subcommands: their words are arguments."""

PRIVATE_PATH = Regex(r"(?<![\w.*])(?:~/|/)(?:[\w.@+-]+/)*[\w.@+-]*")
"""A path outside the repository: absolute, or in a home."""

VARYING_TEXT = Regex(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\b(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b|\b\d+\b|REDACTED[\w.]*"
    r"|\[redacted[^\]]{0,80}\]"
)
"""An id, a hash, a number, or what was masked."""


class CommandForm(NamedTuple):
    """A command without what varies.

    Attributes:
        program: the name of the program, without its folder.
        subcommands: the words behind it that choose an action.
        options: the names of its options, without their values.
    """

    program: str
    subcommands: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.program, *self.subcommands, *self.options])

    def covers(self, command: "CommandForm") -> bool:
        """Return whether a command has the program, subcommands and options of this form."""
        first_subcommands = command.subcommands[: len(self.subcommands)]
        return (
            command.program == self.program
            and first_subcommands == self.subcommands
            and set(self.options) <= set(command.options)
        )


def list_forms(command: str) -> list[CommandForm]:
    """Return the forms of the commands in a command line, in order.

    >>> [str(form) for form in list_forms("cd app && FOO=1 gh pr diff 12 --stat | head -3")]
    ['gh pr diff --stat', 'head']
    """
    forms = []
    for simple_command in _split_simple_commands(command[:MAX_COMMAND]):
        form = _read_form(_drop_wrappers(_split_words(simple_command)))
        if form is not None:
            forms.append(form)
    return forms


class ShellCommand(NamedTuple):
    """A simple command of a line.

    Attributes:
        words: its program and arguments without quotation marks; none if a mark has no partner.
    """

    form: CommandForm
    words: tuple[str, ...]


def list_shell_commands(command: str) -> list[ShellCommand]:
    """Return the commands in a command line with their arguments, `cd` among them, in order.

    >>> list_shell_commands("mkdir -m 755 d; FOO=1 git commit -m 'a b'")[1].words
    ('git', 'commit', '-m', 'a b')
    """
    import shlex

    # A here-document that is an argument, as in `git commit -m "$(cat <<EOF …)"`, becomes a word.
    line = QUOTED_HEREDOC.sub(lambda match: shlex.quote(match["text"]), command[:MAX_LINE_CHARS])
    shell_commands = []
    for simple_command in _split_simple_commands(line):
        words = _drop_wrappers(_split_words(simple_command))
        is_change_of_directory = words[:1] == ["cd"]
        form = CommandForm("cd") if is_change_of_directory else _read_form(words)
        if form is None:
            continue
        if not _has_matching_quotes(simple_command):
            words = []  # it is not known where an argument ends
        shell_commands.append(ShellCommand(form, tuple(words)))
    return shell_commands


def mask_line(line: str) -> str:
    """Return a line of output without paths outside the repository, ids and numbers.

    >>> mask_line("fatal: /home/ada/shop/.git/index.lock exists (pid 4711)")
    'fatal: PATH exists (pid N)'
    """
    return " ".join(VARYING_TEXT.sub("N", PRIVATE_PATH.sub("PATH", line)).split())


def _split_simple_commands(command: str) -> Iterator[str]:
    """Yield the simple commands of a command line: `cd app` and `make` of `cd app && make`.

    The rest behind a here-document is left out.
    """
    line = command.replace("\\\n", " ")
    start = 0
    for token in TOKEN.finditer(line):
        if token["end"]:
            yield line[start : token.start()]
            start = token.end()
        elif token["heredoc"]:
            yield line[start : token.start()]
            return
    yield line[start:]


def _drop_wrappers(words: list[str]) -> list[str]:
    """Return a command without assignments and wrappers: `make` of `FOO=1 sudo timeout 9 make`."""
    while words and (ASSIGNMENT.match(words[0]) or words[0] in WRAPPERS or words[0].isdigit()):
        words = words[1:]
    return words


def _read_form(words: list[str]) -> CommandForm | None:
    """Return the program, the subcommands and the options of a simple command.

    Returns:
        None if the command is one of the shell's own that do no work, such as `cd`.
    """
    if not words or words[0] in IGNORED_COMMANDS or REDIRECTION.match(words[0]):
        return None

    name = words[0].strip("()")
    arguments = words[1:]
    is_script = "/" in name and not name.startswith(("/", "~"))
    program = name if is_script else name.rsplit("/", 1)[-1]
    if not PROGRAM.fullmatch(program):
        return None

    options: dict[str, None] = {}
    for argument in arguments:
        option = OPTION.match(argument)
        if option:
            options[option[0]] = None
    subcommands = []
    if program not in PROGRAMS_WITHOUT_SUBCOMMANDS:
        subcommands = list(takewhile(SUBCOMMAND.fullmatch, arguments[:MAX_SUBCOMMANDS]))
    return CommandForm(program, tuple(subcommands), tuple(options)[:MAX_OPTIONS])


def _has_matching_quotes(command: str) -> bool:
    """Return whether each quotation mark of a command has its partner."""
    import shlex

    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


def _split_words(command: str) -> list[str]:
    """Return the words of a command, as the shell splits them if its quotation marks match."""
    import shlex  # most events run no command

    try:
        return shlex.split(command)
    except ValueError:  # a quotation mark without its partner
        return command.split()
