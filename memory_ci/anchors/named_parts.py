"""Parts of a file cited as a whole: those that the entry names, and how much of all was edited."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from memory_ci.anchors.anchors import Lines, say_definition
from memory_ci.anchors.symbols import (
    MAX_WIDTH,
    Definition,
    find_definition,
    is_type,
    list_definitions,
    list_mentions,
    tail_of,
)
from memory_ci.anchors.words import PROSE, PYTHON, Code, read_code
from memory_ci.records.anchor import Anchor

FEW_PARTS = 3
"""A name that stands in more parts of a file counts only if the entry has no name that stands in fewer."""

MAX_PARTS = 30  # Names that stand in more parts say nothing: the file is compared as a whole.
MIN_TERM, MAX_TERM = 3, 200  # Characters: shorter names stand anywhere, longer ones are no names.
QUOTATION = re.compile(r"(?P<mark>`{1,2})(?P<code>[^`\n]+)(?P=mark)|[\"“](?P<said>[^\"“”\n]+)[\"”]")
WORD = re.compile(r"[\w.-]*\w")
KEY = re.compile(r"\s*(?:-\s+)?[\"']?(?P<key>[A-Za-z_][\w.-]*)[\"']?\s*[:=](?!=)")
SECTION = re.compile(r"\[+\s*(?P<title>[^\[\]]+?)\s*\]+\s*(?:[#;].*)?")
HEADING = re.compile(r"(?P<level>#{1,6})\s+(?P<title>.+?)\s*#*")
SETTINGS = frozenset("toml ini cfg yaml yml json jsonc properties".split())
DOCUMENTS = frozenset("md mdx markdown rst txt adoc".split())
IMPORTS = frozenset(("import", "from", "use", "package"))


class FilePart(NamedTuple):
    """A part of a file: its lines, the definition that it is, if it is one, and its words as they are compared."""

    lines: Lines
    definition: Definition | None = None
    words: tuple[str, ...] = ()


def anchor_parts(anchor: Anchor, text: str, prose: str) -> list[Anchor]:
    """Return an anchor for each part that an entry names of a file that it cites as a whole.

    Args:
        anchor: the anchor of the file.
        text: the text of the file at the commit of the anchor.
        prose: the title and the body of the entry.
    """
    anchors: list[Anchor] = []
    for part in find_named_parts(anchor.path, text, prose):
        first, last = part.lines
        name = part.definition.name if part.definition else None
        is_only = name is not None and find_definition(anchor.path, text, name) == part.definition
        symbol = name if is_only else None
        anchors.append(
            Anchor(path=anchor.path, commit=anchor.commit, first=first, last=last, symbol=symbol)
        )
    return anchors


def find_named_parts(path: str, text: str, prose: str) -> list[FilePart]:
    """Return the parts of a file that hold what an entry names, in the order of the file."""
    parts_by_term = [_find_parts(path, text, term) for term in list_terms(path, text, prose)]
    telling = [parts for parts in parts_by_term if len(parts) <= FEW_PARTS]
    by_lines = {part.lines: part for parts in telling for part in parts}
    if not by_lines:
        by_lines = {part.lines: part for parts in parts_by_term for part in parts}
    if len(by_lines) > MAX_PARTS:
        return []
    return [by_lines[lines] for lines in sorted(by_lines)]


def find_edited_share(path: str, then: str, new_path: str, now: str) -> float:
    """Return the share of the words of a file that were in parts which are not there any more.

    Imports do not count, nor does what was added: they do not change what an older entry is about.
    """
    standing = Counter(part.words for part in list_parts(new_path, now))
    edited = total = 0
    for part in list_parts(path, then):
        if part.definition is None and part.words[0] in IMPORTS:
            continue
        total += len(part.words)
        if standing[part.words]:
            standing[part.words] -= 1
        else:
            edited += len(part.words)
    return edited / total if total else 0.0


def list_terms(path: str, text: str, prose: str) -> list[str]:
    """Return what an entry may name in a file.

    These are names that it writes as code and quotations that stand in the file, the keys of a settings file that are
    among its words, and the headings of a document of two words or more that it repeats.
    """
    quotations = [(match["code"] or match["said"]).strip() for match in QUOTATION.finditer(prose)]
    terms = [*list_mentions(prose), *quotations]
    extension = _extension(path)
    lines = [line for line in text.split("\n") if len(line) <= MAX_WIDTH]
    if extension in SETTINGS:
        words = set(WORD.findall(prose))
        terms += [key for line in lines for key in _list_keys(line) if key in words]
    elif extension in DOCUMENTS:
        said = f" {_fold_words(prose)} "
        titles = [match["title"] for line in lines if (match := HEADING.fullmatch(line))]
        terms += [title for title in titles if " " in title and f" {_fold_words(title)} " in said]
    return [
        term for term in dict.fromkeys(terms) if MIN_TERM <= len(term) <= MAX_TERM and term in text
    ]


@lru_cache(maxsize=128)
def list_parts(path: str, text: str) -> tuple[FilePart, ...]:
    """Return the parts of a file.

    In code these are functions, constants, types without members, and the statements outside of them; in a document
    its paragraphs; elsewhere its lines.
    """
    code = read_code(path, text)
    if code.lexer is PROSE:
        return tuple(_list_text_parts(code, gap=1 if _extension(path) in DOCUMENTS else 0))
    return tuple(_list_code_parts(path, text, code))


def _list_code_parts(path: str, text: str, code: Code) -> Iterator[FilePart]:
    spans: list[tuple[int, int]] = []
    for definition in _list_leaves(path, text):
        spans += definition.spans
        words = say_definition(path, text, definition).words
        yield FilePart((definition.first, definition.last), definition, words)
    at = 0
    for line in code.lines:
        while at < len(spans) and spans[at][1] <= line.start:
            at += 1
        if at < len(spans) and spans[at][0] <= line.start:
            continue
        is_docstring = code.lexer is PYTHON and code.strings.issuperset(
            range(line.start, line.stop)
        )
        words = () if is_docstring else code.say(line.start, line.stop).words
        if words:
            yield FilePart((code.rows[line.start], code.rows[line.stop - 1]), None, words)


def _list_leaves(path: str, text: str) -> list[Definition]:
    """Return the definitions that are no type with members, without those that are inside of them."""
    definitions = list_definitions(path, text)
    owners = {definition.name.rpartition(".")[0] for definition in definitions}
    leaves: list[Definition] = []
    end = 0
    for definition in definitions:
        ((start, stop),) = definition.spans
        if start < end or (definition.name in owners and is_type(path, text, definition)):
            continue
        leaves.append(definition)
        end = stop
    return leaves


def _list_text_parts(code: Code, gap: int) -> Iterator[FilePart]:
    """Return the runs of rows that have at most `gap` line breaks between them."""
    rows = code.rows
    starts = [at for at in range(len(rows)) if at == 0 or rows[at] > rows[at - 1] + gap]
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        yield FilePart((rows[start], rows[stop - 1]), None, tuple(code.words[start:stop]))


def _find_parts(path: str, text: str, term: str) -> list[FilePart]:
    """Return the parts that a term is the name of; where it is none's, those that it stands in."""
    definitions = list_definitions(path, text)
    named = [
        definition
        for definition in definitions
        if term in (definition.name, tail_of(definition.name))
    ]
    if named:
        return [FilePart((definition.first, definition.last), definition) for definition in named]
    lines = text.split("\n")
    rows = _find_rows(lines, term)
    blocks = {block: None for row in rows if (block := _find_block(path, lines, row, term))}
    if blocks:
        return [FilePart(block) for block in blocks]
    parts = list_parts(path, text)
    found = {part: None for row in rows for part in parts if part.lines[0] <= row <= part.lines[1]}
    return list(found)


def _find_rows(lines: Sequence[str], term: str) -> list[int]:
    """Return the numbers of the lines in which a term is not part of a longer word."""
    before = r"(?<![\w-])" if term[0].isalnum() else ""
    after = r"(?![\w-])" if term[-1].isalnum() else ""
    pattern = re.compile(f"{before}{re.escape(term)}{after}")
    return [
        number
        for number, line in enumerate(lines, start=1)
        if term in line and pattern.search(line)
    ]


def _find_block(path: str, lines: Sequence[str], row: int, term: str) -> Lines | None:
    """Return the lines of the section or key that a term names and that begins in a row; None if none does."""
    line = lines[row - 1]
    if len(line) > MAX_WIDTH:
        return None
    extension = _extension(path)
    if extension in DOCUMENTS and (heading := HEADING.fullmatch(line)):
        return row, _find_section_end(lines, row, len(heading["level"]))
    if extension not in SETTINGS or term not in _list_keys(line):
        return None
    if SECTION.fullmatch(line):
        return row, _find_table_end(lines, row)
    return row, _find_value_end(lines, row)


def _find_section_end(lines: Sequence[str], row: int, level: int) -> int:
    """Return the last row before the next heading of the same or a higher level."""
    for number in range(row + 1, len(lines) + 1):
        heading = HEADING.fullmatch(lines[number - 1][:MAX_WIDTH])
        if heading and len(heading["level"]) <= level:
            return number - 1
    return len(lines)


def _find_table_end(lines: Sequence[str], row: int) -> int:
    """Return the last row before the next section of a settings file."""
    for number in range(row + 1, len(lines) + 1):
        if SECTION.fullmatch(lines[number - 1][:MAX_WIDTH]):
            return number - 1
    return len(lines)


def _find_value_end(lines: Sequence[str], row: int) -> int:
    """Return the last row of the value of a key: what is indented deeper, and the bracket that closes it."""
    indent = _indent(lines[row - 1])
    last = row
    for number in range(row + 1, len(lines) + 1):
        line = lines[number - 1].strip()
        if not line:
            continue
        if _indent(lines[number - 1]) <= indent:
            is_closing = _indent(lines[number - 1]) == indent and line[0] in ")]}"
            return number if is_closing else last
        last = number
    return last


def _list_keys(line: str) -> list[str]:
    """Return the names by which people call the key or the section that a line begins."""
    if section := SECTION.fullmatch(line):
        title = section["title"].replace('"', "")
        return [title, tail_of(title)]
    key = KEY.match(line)
    return [key["key"]] if key else []


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fold_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _extension(path: str) -> str:
    return path.rpartition(".")[2].lower()
