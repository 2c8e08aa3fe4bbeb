"""Where a text that others may have edited calls memory-ci: a hook, a merge driver, the settings of a tool."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

ARGUMENTS = ["-P", "-m", "memory_ci"]
"""What follows the interpreter in everything that `install` writes."""


def find_interpreter(text: str) -> str | None:
    """The interpreter that a text of sh calls memory-ci with, None where none is called by its path."""
    marked = " ".join(ARGUMENTS)
    return next((python for line in text.splitlines() if marked in line for python in _read_line(line)), None)


def _read_line(line: str) -> Iterator[str]:
    words = _split(line)
    for place in range(1, len(words)):
        if words[place : place + len(ARGUMENTS)] == ARGUMENTS:
            yield words[place - 1]


def _split(line: str) -> list[str]:
    """The words of a line of sh, quotes and comments taken away; none if a quote stays open."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return []


def list_texts(value: object) -> Iterator[str]:
    """Every text in a value of JSON or TOML, but for keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from list_texts(part)


def without_comments(text: str) -> str:
    """The text without what stands after a `#` that begins a word: sh, YAML and TOML alike."""
    return re.sub(r"(?m)(?:^|[ \t])#.*$", "", text)
