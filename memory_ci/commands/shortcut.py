"""Commands that a prompt or a commit waits for, without click, whose import takes as long as their work.

Of the command line only what can be read in one way is read here. All else is click's: help, errors, abbreviations,
`--option=value`, completion. So there is one definition of what is legal, and this can only be faster.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory_ci.cli.plain import COLORS, Option, choose_color, reported

SHORT = {"retrieve": "retrieve", "check": "check", "add": "add", "hook": "agents"}
"""Each has a module here, with OPTIONS, `read_words` and `run`, which click uses, too."""

MAX_DIGITS = 11  # A number of so many digits is legal everywhere: as a size, and as a time in seconds (the year 5138).


def run_shortcut(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Run the command that `argv` plainly asks for; whether it did. May end the process, as click does."""
    color = argv[1] if argv[:1] == ["--color"] and argv[1:2] and argv[1] in COLORS else ""
    argv = argv[2:] if color else argv
    if not argv or argv[0] not in SHORT or not is_plain(environ):
        return False
    command = importlib.import_module(f"memory_ci.commands.{SHORT[argv[0]]}.shortcut")
    values = parse_plain(argv[1:], command)
    if values is None:
        return False
    choose_color(color or "auto", os.environ)
    try:
        reported(command.run, **values)
    except BrokenPipeError:
        # Python flushes once more at exit (its manual: signal, Note on SIGPIPE).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    return True


def is_plain(environ: Mapping[str, str]) -> bool:
    """Whether nothing in the environment changes how arguments are read, or what the time is to an error."""
    completes = any(name.startswith("_") and name.endswith("_COMPLETE") for name in environ)
    return (
        os.name != "nt"
        and not completes
        and len(environ.get("SOURCE_DATE_EPOCH", "")) <= MAX_DIGITS
    )


def parse_plain(argv: Sequence[str], command: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a module: see SHORT
    """The arguments of `run` that `argv` gives; None where it is click's to say what they are."""
    options: Sequence[Option] = command.OPTIONS
    by_flag = {
        flag: option for option in options for flag in (option.flag, option.negation) if flag
    }
    values: dict[str, Any] = {option.name: option.initial for option in options}
    words: list[str] = []
    left = iter(argv)
    for word in left:
        if not word.startswith("-"):
            words.append(word)
            continue
        option = by_flag.get(word)
        value = None if option is None else _read_value(option, word, left)
        if option is None or value is None:
            return None
        values[option.name] = (*values[option.name], value) if option.is_multiple else value
    read: dict[str, Any] | None = command.read_words(tuple(words), values)
    return read


def _read_value(option: Option, flag: str, left: Iterator[str]) -> str | int | None:
    """The value of an option, None where it is missing or not plain."""
    if option.kind is bool:
        return flag == option.flag
    value = next(left, "-")
    if value.startswith("-") or (option.choices and value not in option.choices):
        return None
    if option.kind is int:
        return (
            int(value) if value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS else None
        )
    return value
