"""What an anchor cites in a text: a definition, lines of one, lines of a file, or a file; and its words."""

from __future__ import annotations

from typing import NamedTuple

from memory_ci.lifecycle.symbols import Definition, find_around, find_definition
from memory_ci.lifecycle.words import BACK, BLANK, DEEPER, Said, read_code
from memory_ci.records.anchor import Anchor

Lines = tuple[int, int]
"""The first and the last line of a place, 1-based, both included."""

TELLING = 8
"""Fewer words stand in many places: they are looked for in their own only."""


class Subject(NamedTuple):
    """What an anchor cites in the text of its commit.

    `definition` is what it cites, or (`is_part`) what the cited lines stand in; None for lines of no definition and for
    a whole file. `said` are the cited words, those of a text that is read as `path`: as prose if it is "".
    """

    definition: Definition | None
    is_part: bool
    lines: Lines | None
    said: Said
    path: str

    @property
    def is_telling(self) -> bool:
        return len(self.said.words) >= TELLING


def find_subject(anchor: Anchor, text: str) -> Subject | None:
    """What an anchor cites in `text`; None if that says nothing."""
    path, lines = anchor.path, lines_of(anchor)
    around, is_all = find_around(path, text, lines) if lines else (None, False)
    if is_all and around and anchor.symbol in (None, around.name):
        return Subject(around, False, lines, say_definition(path, text, around), path)
    named = find_definition(path, text, anchor.symbol) if anchor.symbol else None
    if named is not None:
        return Subject(named, False, (named.first, named.last), say_definition(path, text, named), path)
    if lines is None:
        return Subject(None, False, None, read_code(path, text).say_all(), path)
    if around and is_all:
        return Subject(around, False, lines, say_definition(path, text, around), path)
    said = cut_words(say_definition(path, text, around) if around else read_code(path, text).say_all(), lines)
    if said.words:
        return Subject(around, True, lines, said, path)
    said = cut_words(read_code("", text).say_all(), lines)
    return Subject(None, True, lines, said, "") if said.words else None


def lines_of(anchor: Anchor) -> Lines | None:
    return (anchor.first, anchor.last) if anchor.first is not None and anchor.last is not None else None


def say_definition(path: str, text: str, definition: Definition) -> Said:
    """The words of a definition, of all its parts one after the other."""
    code = read_code(path, text)
    return join_words([code.say(*span) for span in definition.spans])


def join_words(parts: list[Said]) -> Said:
    if len(parts) == 1:
        return parts[0]
    return Said(tuple(word for one in parts for word in one.words), tuple(row for one in parts for row in one.rows))


def cut_words(said: Said, lines: Lines) -> Said:
    """The words of these rows, with the ends of the blocks that begin in them."""
    rows = [at for at, row in enumerate(said.rows) if lines[0] <= row <= lines[1]]
    if not rows:
        return Said((), ())
    start, stop = rows[0], rows[-1] + 1
    depth = sum((word == DEEPER) - (word == BACK) for word in said.words[start:stop])
    while depth > 0 and said.words[stop : stop + 1] == (BACK,):
        stop, depth = stop + 1, depth - 1
    start -= said.words[start - 1 : start] == (BLANK,)
    stop += said.words[stop : stop + 1] == (BLANK,)
    while stop > start + 1 and said.words[stop - 1] == ",":
        stop -= 1
    return Said(said.words[start:stop], said.rows[start:stop])
