"""Blocks of ours in YAML files of somebody else: put in as text, so that comments and formatting stay byte for byte.

A block stands between two comments; the first holds a checksum, so that one that somebody changed is known and left.
What was put in is proved: the new text must say, event for event of YAML's parser, what the old one said and our block.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from textwrap import dedent, indent

from memory_ci.store.yamltext import YamlTextError, YamlToken, list_tokens

BEGIN = "# memory-ci init: begin"
END = "# memory-ci init: end"
BLOCK = re.compile(rf"^[ \t]*{BEGIN} ([0-9a-f]{{8}})[^\n]*\n(.*?)^[ \t]*{END}[ \t]*(?:\r?\n|\Z)", re.M | re.S)
NOTE = "(taken out by `memory-ci uninit`, unless it was changed)"
WHOLE = "(this file; taken out by `memory-ci uninit`, unless it was changed)"
ROW = re.compile(r"[^\n]*\n|[^\n]+")


def fence(text: str, note: str = NOTE) -> str:
    """The block that holds `text`, whose lines all end."""
    return f"{BEGIN} {_digest(text)} {note}\n{text}{END}\n"


def list_blocks(text: str) -> tuple[str, ...]:
    """What our blocks hold, each as it was before it was indented, in order."""
    return tuple(sorted(dedent(found[2].replace("\r", "")) for found in BLOCK.finditer(text)))


def is_changed(text: str) -> bool:
    """Whether somebody changed one of our blocks."""
    return any(found[1] != _digest(dedent(found[2].replace("\r", ""))) for found in BLOCK.finditer(text))


def take_out(text: str) -> str | None:
    """The text without our blocks: as it was before they were put in. None where it was a file of ours, and no more.

    Blocks that were changed stay.
    """
    for number in reversed(range(len(BLOCK.findall(text)))):
        found = list(BLOCK.finditer(text))[number]  # anew: taking one out may end the one before without a newline
        if found[1] != _digest(dedent(found[2].replace("\r", ""))):
            continue
        before, after = text[: found.start()], text[found.end() :]
        if not found.group().endswith("\n"):
            before = before.removesuffix("\n").removesuffix("\r")
        text = before + after
        if not text and WHOLE in found.group():
            return None
    return text


def list_keys(text: str) -> dict[str, tuple[str, ...]]:
    """The keys at the top of a mapping, with the texts in what each holds, at any depth. Raises YamlTextError."""
    tokens = list_tokens(text)
    values = _find_values(tokens) if len(tokens) > 2 else {}
    texts = {
        key: [token.value for token in tokens[first : last + 1] if token.kind == "Scalar"]
        for key, (first, last) in values.items()
    }
    return {key: tuple(found) for key, found in texts.items()}


def add_keys(text: str, lines: str) -> str:
    """The text with more keys at its end, in a block of ours. Raises YamlTextError where that cannot be proved."""
    tokens = list_tokens(text)
    if len(tokens) == 2:  # comments and blank lines alone
        return _put(text, len(ROW.findall(text)), fence(lines), tokens, 1, lines)
    _find_values(tokens)
    return _put(text, len(ROW.findall(text)), fence(lines), tokens, len(tokens) - 3, lines)


def add_items(text: str, key: str, lines: str) -> str:
    """The text with more items at the end of the list `key`, in a block of ours. Raises YamlTextError as `add_keys`."""
    tokens = list_tokens(text)
    first, last = _find_values(tokens)[key]
    start = tokens[first]
    if start.kind != "SequenceStart" or start.is_flow:
        raise YamlTextError(start.start[0], f"`{key}` is no list with an item a line")
    column = start.start[1]
    inside = [token.end for token in tokens[first + 1 : last] if token.end > token.start]
    row, behind = max(inside)
    row, rows = row + bool(behind), ROW.findall(text)
    while (comment := _next_comment(rows, row)) and len(rows[comment - 1]) - len(rows[comment - 1].lstrip()) > column:
        row = comment
    return _put(text, row, indent(fence(lines), " " * column), tokens, last, lines)


def _next_comment(rows: Sequence[str], row: int) -> int:
    """The number behind the next row that is not blank, if that is a comment; else 0."""
    while row < len(rows) and not rows[row].strip():
        row += 1
    return row + 1 if row < len(rows) and rows[row].lstrip().startswith("#") else 0


def _put(text: str, row: int, block: str, tokens: Sequence[YamlToken], place: int, lines: str) -> str:
    """The text with the block before a row, if it then says what it said, with that of `lines` at `place`."""
    rows = ROW.findall(text)
    if "\r\n" in text:
        block = block.replace("\n", "\r\n")
    if row == len(rows) and rows and not rows[-1].endswith("\n"):
        ending = "\r\n" if "\r\n" in text else "\n"
        block = ending + block.removesuffix(ending)
    new = "".join([*rows[:row], block, *rows[row:]])
    around = 3 if len(tokens) > 2 else 1  # beginnings and ends: of the stream, else the document and the collection too
    ours = list_tokens(lines)[around:-around]
    wanted = [token.says for token in (*tokens[:place], *ours, *tokens[place:])]
    if [token.says for token in list_tokens(new)] != wanted or take_out(new) != take_out(text):
        raise YamlTextError(row, "what was put in here would change what the rest says")
    return new


def _find_values(tokens: Sequence[YamlToken]) -> dict[str, tuple[int, int]]:
    """The keys at the top, and the first and last token of what each holds."""
    starts, depth = [], 0
    for place, token in enumerate(tokens):
        depth -= token.kind.endswith("End")
        if depth == 3 and not token.kind.endswith("End"):  # in the stream, the document and the mapping
            starts.append(place)
        depth += token.kind.endswith("Start")
    if [token.kind for token in tokens].count("DocumentStart") != 1:
        raise YamlTextError(0, "not one YAML document")
    if tokens[2].kind != "MappingStart" or tokens[2].is_flow:
        raise YamlTextError(tokens[2].start[0], "not a mapping with a key a line")
    ends = [*starts[2::2], len(tokens) - 3]
    return {
        tokens[key].value: (first, end - 1) for key, first, end in zip(starts[::2], starts[1::2], ends, strict=True)
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]
