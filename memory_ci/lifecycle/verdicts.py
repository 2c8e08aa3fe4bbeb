"""Verdicts: does the code still say what it said when an entry was anchored in it? (docs/anchors.md)"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from memory_ci.lifecycle.anchors import cut_lines, fold, hash_folded
from memory_ci.lifecycle.symbols import find_definition
from memory_ci.records.anchor import Anchor, Verdict, VerdictKind

Lines = tuple[int, int]
"""The first and the last line of a place, 1-based, both included."""

TELLING_LENGTH = 20
"""A shorter text (folded) stands in many places: it is not looked for elsewhere."""

MAX_WINDOW = 300
"""Of more lines than this a text is not looked for by its hash alone: each place would be hashed."""

KEPT_SHARE = 0.5
"""A definition whose name is gone is taken for renamed, not removed, while this share of its lines still stands."""

TRUTH: Mapping[VerdictKind, float] = {"fresh": 1.0, "moved": 1.0, "unverifiable": 1.0, "changed": 0.5, "gone": 0.0}

ORDER: tuple[VerdictKind, ...] = ("moved", "fresh", "unverifiable")


class Sought(msgspec.Struct, frozen=True):
    """What an anchor stood for: its folded text and how often its file had it, or only the hash of it.

    `lines` is where it stood, None for a whole file or where that is not known.
    """

    lines: Lines | None
    folded: str | None
    digest: str = ""
    copies: int = 1

    @property
    def is_telling(self) -> bool:
        return self.folded is None or len(self.folded) >= TELLING_LENGTH

    def is_worth_finding(self, anchor: Anchor, text: str) -> bool:
        """Whether to look into another file: a short text is everywhere, and a definition brings its name along."""
        return self.is_telling and (not anchor.symbol or _tail(anchor.symbol) in text)

    def is_said_by(self, folded: str) -> bool:
        return folded == self.folded if self.folded is not None else hash_folded(folded).startswith(self.digest)


def judge(anchor: Anchor, then: str | None, files: Mapping[str, str], successor: str | None) -> Verdict:
    """What became of an anchor. Pure: the caller reads.

    `then` is the text of its file at its commit, None where that cannot be had. `successor` is the path at which the
    file lives on: its own, or the one it was renamed to. `files` are the texts of a view that may hold what is sought,
    the likeliest first; a successor that is not among them cannot be read.
    """
    sought = _seek(anchor, then)
    if sought is None:
        return Verdict("unverifiable", anchor.path, anchor.first, anchor.last, "nothing to compare with is known")
    if successor is not None and successor not in files:
        return Verdict("unverifiable", successor, anchor.first, anchor.last, "the file cannot be read")
    for path, text in files.items():
        if path == successor or sought.is_worth_finding(anchor, text):
            for lines in _find(sought, anchor, path, text):
                return _standing(anchor, path, lines)
    return _judge_lost(anchor, sought, then, files, successor)


def judge_entry(verdicts: Iterable[Verdict]) -> VerdictKind:
    """What the anchors of one entry say together: gone if all are, changed if any is changed or gone."""
    kinds = {verdict.kind for verdict in verdicts}
    if kinds == {"gone"}:
        return "gone"
    if kinds & {"changed", "gone"}:
        return "changed"
    return next((kind for kind in ORDER if kind in kinds), "fresh")


def truth_factor(verdicts: Iterable[Verdict]) -> float:
    """The factor of an entry in ranking, by the verdicts on its anchors; 0 means that it is withheld."""
    return TRUTH[judge_entry(verdicts)]


def _seek(anchor: Anchor, then: str | None) -> Sought | None:
    """What to look for; None when neither the commit nor a hash tells, or the lines that are cited are empty."""
    lines = (anchor.first, anchor.last) if anchor.first is not None and anchor.last is not None else None
    if then is None:
        return Sought(lines, None, anchor.text) if anchor.text else None
    lines = lines or _defined(anchor, anchor.path, then)
    folded = fold(cut_lines(then, lines))
    if lines is None:
        return Sought(None, folded)
    return Sought(lines, folded, copies=fold(then).count(folded)) if folded else None


def _find(sought: Sought, anchor: Anchor, path: str, text: str) -> Iterator[Lines | None]:
    """The places of a file that say what is sought, the likeliest first; None is the file as a whole."""
    named = _defined(anchor, path, text)
    if sought.lines is None and named is None:
        yield from [None] if sought.is_said_by(fold(text)) else []
        return
    guesses = [lines for lines in (sought.lines, named) if lines is not None]
    yield from (lines for lines in guesses if sought.is_said_by(fold(cut_lines(text, lines))))
    if sought.lines is not None and sought.is_telling:
        yield from _search(sought, sought.lines, text)


def _search(sought: Sought, lines: Lines, text: str) -> list[Lines]:
    """Whole lines elsewhere in a file, nearest first.

    If there were copies and there are fewer now, nobody can say which one it was that changed: nothing is found.
    """
    found = list(_windows(sought, lines, text) if sought.folded is None else _occurrences(sought.folded, text))
    return sorted(found, key=lambda place: abs(place[0] - lines[0])) if len(found) >= sought.copies else []


def _windows(sought: Sought, lines: Lines, text: str) -> Iterator[Lines]:
    """Where as many lines as there were have the hash: all that can be done without the text."""
    folded = list(map(fold, text.split("\n")))
    width = lines[1] - lines[0] + 1
    for start in range(len(folded) - width + 1 if width <= MAX_WINDOW else 0):
        if folded[start] and sought.is_said_by("".join(folded[start : start + width])):
            yield start + 1, start + width


def _occurrences(folded: str, text: str) -> Iterator[Lines]:
    """Where `folded` fills whole lines of `text`, however its lines are broken there."""
    if folded not in fold(text):
        return
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    whole = ""
    for number, line in enumerate(map(fold, text.split("\n")), start=1):
        if line:
            starts[len(whole)] = number
            whole += line
            ends[len(whole)] = number
    for at, first in starts.items():
        if at + len(folded) in ends and whole.startswith(folded, at):
            yield first, ends[at + len(folded)]


def _standing(anchor: Anchor, path: str, lines: Lines | None) -> Verdict:
    first, last = lines or (None, None)
    if path != anchor.path:
        return Verdict("moved", path, first, last, f"was {anchor.path}")
    if anchor.first not in (None, first):
        return Verdict("moved", path, first, last, f"was line {anchor.first}")
    return Verdict("fresh", path, first, last)


def _judge_lost(
    anchor: Anchor, sought: Sought, then: str | None, files: Mapping[str, str], successor: str | None
) -> Verdict:
    """The text is nowhere: is the place still there?"""
    for path, text in files.items():
        definition = find_definition(path, text, anchor.symbol) if anchor.symbol else None
        if definition is not None:
            lines = definition.first, definition.last
            is_it = definition.name == anchor.symbol and path == successor
            if is_it or _mostly_stands(sought, then, cut_lines(text, lines)):
                return Verdict("changed", path, *lines, _was(anchor, path))
    if successor is None:
        kind: VerdictKind = "gone" if then is not None else "unverifiable"
        return Verdict(kind, anchor.path, note="the file is not there any more")
    if anchor.symbol and not _mostly_stands(sought, then, files[successor]):
        return Verdict("gone", successor, note=f"{anchor.symbol} is not defined there any more")
    return Verdict("changed", successor, note=_was(anchor, successor))


def _was(anchor: Anchor, path: str) -> str:
    return f"was {anchor.path}" if path != anchor.path else ""


def _defined(anchor: Anchor, path: str, text: str) -> Lines | None:
    definition = find_definition(path, text, anchor.symbol) if anchor.symbol else None
    return (definition.first, definition.last) if definition else None


def _tail(symbol: str) -> str:
    return symbol.rpartition(".")[2]


def _mostly_stands(sought: Sought, then: str | None, text: str) -> bool:
    """Whether the lines that were there are, for the most part, still in a file: then only the name went."""
    wanted = [line for line in map(fold, cut_lines(then or "", sought.lines).split("\n")) if len(line) > 1]
    said = set(map(fold, text.split("\n")))
    return bool(wanted) and sum(line in said for line in wanted) >= KEPT_SHARE * len(wanted)
