"""Parts of a file that is cited as a whole: those an entry names, and the share that was edited."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from memory_ci.anchors.anchors import Lines, normalize_definition
from memory_ci.anchors.symbols import (
    MAX_WIDTH,
    Definition,
    find_definition,
    is_type,
    list_definitions,
    list_mentions,
    strip_owners,
)
from memory_ci.anchors.words import PROSE_LEXER, PYTHON_LEXER, Code, read_code
from memory_ci.records.anchor import Anchor
from memory_ci.regex import Regex

FEW_PARTS = 3
"""Parts of a file that a name is in. A name in more of them counts only if the entry has no name
in fewer."""

MAX_PARTS = 30  # Names that are in more parts select none: the file is compared as a whole.
MIN_TERM = 3  # Characters: shorter names occur anywhere.
MAX_TERM = 200  # Characters: longer texts are no names.
QUOTATION = Regex(r"(?P<mark>`{1,2})(?P<code>[^`\n]+)(?P=mark)|[\"“](?P<quoted>[^\"“”\n]+)[\"”]")
WORD = Regex(r"[\w.-]*\w")
KEY = Regex(r"\s*(?:-\s+)?[\"']?(?P<key>[A-Za-z_][\w.-]*)[\"']?\s*[:=](?!=)")
SECTION = Regex(r"\[+\s*(?P<title>[^\[\]]+?)\s*\]+\s*(?:[#;].*)?")
HEADING = Regex(r"(?P<level>#{1,6})\s+(?P<title>.+?)\s*#*")
SETTINGS = frozenset("toml ini cfg yaml yml json jsonc properties".split())
DOCUMENTS = frozenset("md mdx markdown rst txt adoc".split())
IMPORTS = frozenset(("import", "from", "use", "package"))


class FilePart(NamedTuple):
    """A part of a file.

    Attributes:
        lines: its first and last line.
        definition: the definition that it is, if it is one.
        words: its words in the form in which they are compared.
    """

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
        symbol: str | None = None
        if part.definition is not None:
            name = part.definition.name
            if find_definition(anchor.path, text, name) == part.definition:
                symbol = name
        first, last = part.lines
        anchors.append(
            Anchor(path=anchor.path, commit=anchor.commit, first=first, last=last, symbol=symbol)
        )
    return anchors


def find_named_parts(path: str, text: str, prose: str) -> list[FilePart]:
    """Return the parts of a file that hold names of an entry, in the order of the file."""
    parts_by_lines: dict[Lines, FilePart] = {}
    frequent: dict[Lines, FilePart] = {}
    for term in list_terms(path, text, prose):
        parts = _find_parts(path, text, term)
        is_frequent = len(parts) > FEW_PARTS
        for part in parts:
            target = frequent if is_frequent else parts_by_lines
            target[part.lines] = part
    if not parts_by_lines:
        parts_by_lines = frequent
    if len(parts_by_lines) > MAX_PARTS:
        return []
    return [parts_by_lines[lines] for lines in sorted(parts_by_lines)]


def find_edited_share(path: str, old_text: str, new_path: str, new_text: str) -> float:
    """Return the share of the words of a file that were in parts which it no longer has.

    Imports and added parts do not count: they do not change the subject of an older entry.

    Args:
        path: the path of the file at the older commit.
        old_text: its text there.
        new_path: its path at the newer commit.
        new_text: its text there.
    """
    remaining = Counter(part.words for part in list_parts(new_path, new_text))
    edited = total = 0
    for part in list_parts(path, old_text):
        if part.definition is None and part.words[0] in IMPORTS:
            continue
        total += len(part.words)
        if remaining[part.words]:
            remaining[part.words] -= 1
        else:
            edited += len(part.words)
    return edited / total if total else 0.0


def list_terms(path: str, text: str, prose: str) -> list[str]:
    """Return the terms by which an entry may name a part of a file.

    These are names that it writes as code and quotations that the file has, the keys of a settings
    file that are among its words, and the headings of a document of two words or more that it
    repeats.
    """
    terms = list_mentions(prose)
    for quotation in QUOTATION.finditer(prose):
        quoted = quotation["code"] or quotation["quoted"]
        terms.append(quoted.strip())

    extension = _extension(path)
    lines = [line for line in text.split("\n") if len(line) <= MAX_WIDTH]
    if extension in SETTINGS:
        terms += _list_used_keys(lines, prose)
    elif extension in DOCUMENTS:
        terms += _list_repeated_headings(lines, prose)
    return [
        term for term in dict.fromkeys(terms) if MIN_TERM <= len(term) <= MAX_TERM and term in text
    ]


def _list_used_keys(lines: Sequence[str], prose: str) -> list[str]:
    """Return the keys and sections of a settings file that are words of a text."""
    words = set(WORD.findall(prose))
    used: list[str] = []
    for line in lines:
        used += [key for key in _list_keys(line) if key in words]
    return used


def _list_repeated_headings(lines: Sequence[str], prose: str) -> list[str]:
    """Return the headings of a document, of two words or more, that a text repeats."""
    folded_prose = f" {_fold_words(prose)} "
    repeated: list[str] = []
    for line in lines:
        heading = HEADING.fullmatch(line)
        if heading is None or " " not in heading["title"]:
            continue
        if f" {_fold_words(heading['title'])} " in folded_prose:
            repeated.append(heading["title"])
    return repeated


@lru_cache(maxsize=128)
def list_parts(path: str, text: str) -> tuple[FilePart, ...]:
    """Return the parts of a file.

    In code these are functions, constants, types without members, and the statements outside of
    them; in a document its paragraphs; elsewhere its lines.
    """
    code = read_code(path, text)
    if code.lexer is PROSE_LEXER:
        gap = 1 if _extension(path) in DOCUMENTS else 0
        return tuple(_list_text_parts(code, gap))
    return tuple(_list_code_parts(path, text, code))


def _list_code_parts(path: str, text: str, code: Code) -> Iterator[FilePart]:
    spans: list[tuple[int, int]] = []
    for definition in _list_leaves(path, text):
        spans += definition.spans
        words = normalize_definition(path, text, definition).words
        yield FilePart((definition.first, definition.last), definition, words)

    index = 0
    for line in code.lines:
        while index < len(spans) and spans[index][1] <= line.start:
            index += 1
        if index < len(spans) and spans[index][0] <= line.start:
            continue
        indices = range(line.start, line.stop)
        if code.lexer is PYTHON_LEXER and code.string_indices.issuperset(indices):
            continue  # A docstring.
        words = code.normalize(line.start, line.stop).words
        if words:
            yield FilePart((code.rows[line.start], code.rows[line.stop - 1]), None, words)


def _list_leaves(path: str, text: str) -> list[Definition]:
    """Return the definitions that are no type with members, without those inside of them."""
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
    starts = [index for index, row in enumerate(rows) if index == 0 or row > rows[index - 1] + gap]
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        yield FilePart((rows[start], rows[stop - 1]), None, tuple(code.words[start:stop]))


def _find_parts(path: str, text: str, term: str) -> list[FilePart]:
    """Return the parts that a term is the name of, else those that it occurs in."""
    definitions = [
        FilePart((definition.first, definition.last), definition)
        for definition in list_definitions(path, text)
        if term in (definition.name, strip_owners(definition.name))
    ]
    if definitions:
        return definitions

    lines = text.split("\n")
    rows = _find_rows(lines, term)
    blocks: dict[Lines, None] = {}
    for row in rows:
        block = _find_block(path, lines, row, term)
        if block:
            blocks[block] = None
    if blocks:
        return [FilePart(block) for block in blocks]

    parts: dict[FilePart, None] = {}
    for row in rows:
        for part in list_parts(path, text):
            if part.lines[0] <= row <= part.lines[1]:
                parts[part] = None
    return list(parts)


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
    """Return the lines of the section or key that a term names and that begins in a row."""
    line = lines[row - 1]
    if len(line) > MAX_WIDTH:
        return None
    extension = _extension(path)
    if extension in DOCUMENTS:
        heading = HEADING.fullmatch(line)
        return (row, _find_section_end(lines, row, len(heading["level"]))) if heading else None
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
    """Return the last row of the value of a key.

    A value has the rows that are indented deeper than its key, and the bracket that closes it.
    """
    key_indent = _indentation(lines[row - 1])
    last = row
    for number in range(row + 1, len(lines) + 1):
        line = lines[number - 1]
        if not line.strip():
            continue
        indent = _indentation(line)
        if indent <= key_indent:
            is_closing = indent == key_indent and line.strip()[0] in ")]}"
            return number if is_closing else last
        last = number
    return last


def _list_keys(line: str) -> list[str]:
    """Return the names of the key or the section that a line begins."""
    section = SECTION.fullmatch(line)
    if section:
        title = section["title"].replace('"', "")
        return [title, strip_owners(title)]
    key = KEY.match(line)
    return [key["key"]] if key else []


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fold_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _extension(path: str) -> str:
    return path.rpartition(".")[2].lower()
