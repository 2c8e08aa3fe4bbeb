"""Commands without click: its import would take as long as their work, while a user waits.

Only a plain command line is read here. Click reads all others: help, errors, abbreviations,
`--option=value`, completion. So click alone defines legal command lines, and this module only saves
time.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory_ci.cli.plain import COLORS, Option, choose_color, run_reported

MODULES = {
    "retrieve": "retrieve.shortcut",
    "check": "check.shortcut",
    "add": "add.shortcut",
    "list": "show.shortcut",
    "index": "upkeep.shortcut",
    "hook agent": "agents.shortcut",
    "hook": "agents.git_hooks",
}
"""The module of each command, with OPTIONS, `read_words` and `run`.

Click uses these as well.
"""

MAX_DIGITS = 11  # Such a number is legal as a size and as a time in seconds (the year 5138).


def run_shortcut(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Run the command of a plain command line; it may end the process, as click does.

    Returns:
        Whether the command ran.
    """
    color = "auto"
    if len(argv) >= 2 and argv[0] == "--color" and argv[1] in COLORS:
        color = argv[1]
        argv = argv[2:]
    names = 2 if " ".join(argv[:2]) in MODULES else 1
    module = MODULES.get(" ".join(argv[:names]))
    if module is None or not is_plain(environ):
        return False
    command = importlib.import_module(f"memory_ci.commands.{module}")
    values = parse_plain(argv[names:], command)
    if values is None:
        return False

    choose_color(color, os.environ)
    try:
        run_reported(command.run, **values)
    except BrokenPipeError:
        # Python flushes once more at exit (its manual: signal, Note on SIGPIPE).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    return True


def is_plain(environ: Mapping[str, str]) -> bool:
    """Tell whether nothing in the environment changes how arguments and the time are read."""
    if os.name == "nt" or len(environ.get("SOURCE_DATE_EPOCH", "")) > MAX_DIGITS:
        return False
    return not any(name.startswith("_") and name.endswith("_COMPLETE") for name in environ)


def parse_plain(argv: Sequence[str], command: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a module: see FEATURES
    """Return the arguments of `run`; None if click has to read the command line."""
    options: Sequence[Option] = command.OPTIONS
    options_by_flag = {option.flag: option for option in options}
    options_by_flag |= {option.negation: option for option in options if option.negation}
    values: dict[str, Any] = {option.name: option.initial for option in options}
    words: list[str] = []
    remaining = iter(argv)
    for word in remaining:
        if not word.startswith("-"):
            words.append(word)
            continue
        option = options_by_flag.get(word)
        if option is None:
            return None
        value = _read_value(option, word, remaining)
        if value is None:
            return None
        values[option.name] = (*values[option.name], value) if option.is_multiple else value
    arguments: dict[str, Any] | None = command.read_words(tuple(words), values)
    return arguments


def _read_value(option: Option, flag: str, remaining: Iterator[str]) -> str | int | None:
    """Return the value of an option, None if it is missing or not plain."""
    if option.kind is bool:
        return flag == option.flag
    value = next(remaining, "-")
    if value.startswith("-") or (option.choices and value not in option.choices):
        return None
    if option.kind is not int:
        return value
    is_number = value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS
    return int(value) if is_number else None
