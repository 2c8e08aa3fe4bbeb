"""Find the parts of a cited file that an entry names, and the share of a file that was edited."""

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
"""A name that is in more parts of a file is frequent there: it counts only if the entry has no name
that is not."""

MAX_PARTS = 30  # Names that are in more parts select none: the file is compared as a whole.
MIN_TERM = 3  # Characters: shorter names occur anywhere.
MAX_TERM = 200  # Characters: longer texts are no names.
# Text in back quotes or in quotes: `run`, "max-line".
QUOTATION = Regex(r"(?P<mark>`{1,2})(?P<code>[^`\n]+)(?P=mark)|[\"“](?P<quoted>[^\"“”\n]+)[\"”]")
WORD = Regex(r"[\w.-]*\w")
# A line of settings: `key: value`, `- key: value`, `"key" = value`.
KEY = Regex(r"\s*(?:-\s+)?[\"']?(?P<key>[A-Za-z_][\w.-]*)[\"']?\s*[:=](?!=)")
# The title of a section of settings: `[tool.ruff]`.
SECTION = Regex(r"\[+\s*(?P<title>[^\[\]]+?)\s*\]+\s*(?:[#;].*)?")
# A heading of Markdown: `## Title`.
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


def anchor_named_parts(anchor: Anchor, text: str, prose: str) -> list[Anchor]:
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
    """Return the parts of a file that an entry names, in the order of the file.

    Names that are in more than FEW_PARTS parts count only if the entry has no other. There are no
    parts if they are more than MAX_PARTS.

    Args:
        path: the path of the file.
        text: its text.
        prose: the title and the body of the entry.
    """
    rare_parts: dict[Lines, FilePart] = {}
    frequent_parts: dict[Lines, FilePart] = {}
    for term in list_terms(path, text, prose):
        term_parts = _find_parts(path, text, term)
        parts = frequent_parts if len(term_parts) > FEW_PARTS else rare_parts
        for part in term_parts:
            parts[part.lines] = part
    named_parts = rare_parts or frequent_parts
    if len(named_parts) > MAX_PARTS:
        return []
    return [named_parts[lines] for lines in sorted(named_parts)]


def find_edited_share(path: str, old_text: str, new_path: str, new_text: str) -> float:
    """Return the share of the words of a file that are in edited or deleted parts of it, in [0, 1].

    A part was edited or deleted if the new text has no part with the same words. Imports and added
    parts do not count: they do not change the subject of an older entry.

    Args:
        path: the path of the file at the older commit.
        old_text: its text there.
        new_path: its path at the newer commit.
        new_text: its text there.
    """
    unmatched_counts = Counter(part.words for part in list_parts(new_path, new_text))
    edited_count = 0
    total_count = 0
    for part in list_parts(path, old_text):
        is_import = part.definition is None and part.words[0] in IMPORTS
        if is_import:
            continue
        total_count += len(part.words)
        if unmatched_counts[part.words] > 0:
            unmatched_counts[part.words] -= 1
        else:
            edited_count += len(part.words)
    return edited_count / total_count if total_count else 0.0


def list_terms(path: str, text: str, prose: str) -> list[str]:
    """Return the words of an entry that may name a part of a file, and are in the file.

    These are names that it writes as code, and its quotations; the keys of a settings file that are
    among its words; and the headings of a document, of two words or more, that it repeats.

    Args:
        path: the path of the file.
        text: its text.
        prose: the title and the body of the entry.
    """
    terms = list_mentions(prose)
    for quotation in QUOTATION.finditer(prose):
        quoted = quotation["code"] or quotation["quoted"]
        terms.append(quoted.strip())

    extension = _get_extension(path)
    lines = [line for line in text.split("\n") if len(line) <= MAX_WIDTH]
    if extension in SETTINGS:
        terms += _list_used_keys(lines, prose)
    elif extension in DOCUMENTS:
        terms += _list_repeated_headings(lines, prose)
    distinct_terms = dict.fromkeys(terms)
    return [term for term in distinct_terms if MIN_TERM <= len(term) <= MAX_TERM and term in text]


def _list_used_keys(lines: Sequence[str], prose: str) -> list[str]:
    """Return the keys and sections of a settings file that are words of a text."""
    words = set(WORD.findall(prose))
    used_keys: list[str] = []
    for line in lines:
        used_keys += [key for key in _list_keys(line) if key in words]
    return used_keys


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
        joins_lines = _get_extension(path) in DOCUMENTS
        return tuple(_list_text_parts(code, joins_lines=joins_lines))
    return tuple(_list_code_parts(path, text, code))


def _list_code_parts(path: str, text: str, code: Code) -> Iterator[FilePart]:
    """Yield the definitions of a file that hold no other, then each statement outside of them.

    Docstrings of Python are left out.
    """
    spans: list[tuple[int, int]] = []  # The ranges of words of the definitions, in order.
    for definition in _list_leaf_definitions(path, text):
        spans += definition.spans
        words = normalize_definition(path, text, definition).words
        yield FilePart((definition.first, definition.last), definition, words)

    next_span = 0  # The index of the first span that does not end before the statement.
    for statement in code.lines:
        while next_span < len(spans) and spans[next_span][1] <= statement.start:
            next_span += 1
        is_in_definition = next_span < len(spans) and spans[next_span][0] <= statement.start
        if is_in_definition:
            continue
        indices = range(statement.start, statement.stop)
        is_docstring = code.lexer is PYTHON_LEXER and code.literal_indices.issuperset(indices)
        if is_docstring:
            continue
        words = code.normalize(statement.start, statement.stop).words
        if words:
            first_row = code.rows[statement.start]
            last_row = code.rows[statement.stop - 1]
            yield FilePart((first_row, last_row), None, words)


def _list_leaf_definitions(path: str, text: str) -> list[Definition]:
    """Return the definitions of a file that hold no other: functions, constants, small types.

    Of a type with members only the members are returned. A function inside of a function is left
    out, for the outer one has its words.
    """
    definitions = list_definitions(path, text)
    owners = {definition.name.rpartition(".")[0] for definition in definitions}
    leaves: list[Definition] = []
    last_stop = 0
    for definition in definitions:
        start, stop = definition.span
        is_nested = start < last_stop
        has_members = definition.name in owners and is_type(path, text, definition)
        if not is_nested and not has_members:
            leaves.append(definition)
            last_stop = stop
    return leaves


def _list_text_parts(code: Code, *, joins_lines: bool) -> Iterator[FilePart]:
    """Yield the paragraphs or the lines of a text that are not blank.

    Args:
        code: the text as words.
        joins_lines: yield paragraphs: lines with no blank line between them.
    """
    rows = code.rows
    max_step = 1 if joins_lines else 0  # Rows between a word and the next word in its part.
    starts: list[int] = []
    for index, row in enumerate(rows):
        if index == 0 or row > rows[index - 1] + max_step:
            starts.append(index)
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        yield FilePart((rows[start], rows[stop - 1]), None, tuple(code.words[start:stop]))


def _find_parts(path: str, text: str, term: str) -> list[FilePart]:
    """Return the parts of a file that a term names or, if it names none, those that it occurs in.

    A term names definitions; else sections of a document; else the sections and keys of settings.
    """
    definitions: list[FilePart] = []
    for definition in list_definitions(path, text):
        if term in (definition.name, strip_owners(definition.name)):
            definitions.append(FilePart((definition.first, definition.last), definition))
    if definitions:
        return definitions

    lines = text.split("\n")
    numbers = _find_line_numbers(lines, term)
    sections: dict[Lines, None] = {}
    for number in numbers:
        section = _find_section(path, lines, number, term)
        if section:
            sections[section] = None
    if sections:
        return [FilePart(section) for section in sections]

    parts: dict[FilePart, None] = {}
    for number in numbers:
        for part in list_parts(path, text):
            first, last = part.lines
            if first <= number <= last:
                parts[part] = None
    return list(parts)


def _find_line_numbers(lines: Sequence[str], term: str) -> list[int]:
    """Return the numbers, from 1, of the lines that have a term as a whole word."""
    no_word_before = r"(?<![\w-])" if term[0].isalnum() else ""
    no_word_after = r"(?![\w-])" if term[-1].isalnum() else ""
    pattern = re.compile(f"{no_word_before}{re.escape(term)}{no_word_after}")
    numbers: list[int] = []
    for number, line in enumerate(lines, start=1):
        if term in line and pattern.search(line):
            numbers.append(number)
    return numbers


def _find_section(path: str, lines: Sequence[str], number: int, term: str) -> Lines | None:
    """Return the section that begins in a line with a term; None if none begins there.

    In a document any heading begins a section. In settings a section (`[tool.ruff]`) and a key with
    its value count, if the term is their name.

    Args:
        path: the path of the file.
        lines: its lines.
        number: the number of the line, from 1.
        term: the term.

    Returns:
        The numbers of the first and the last line.
    """
    line = lines[number - 1]
    if len(line) > MAX_WIDTH:
        return None
    extension = _get_extension(path)
    if extension in DOCUMENTS:
        heading = HEADING.fullmatch(line)
        if heading is None:
            return None
        return number, _find_section_end(lines, number, len(heading["level"]))
    if extension not in SETTINGS or term not in _list_keys(line):
        return None
    if SECTION.fullmatch(line):
        return number, _find_table_end(lines, number)
    return number, _find_value_end(lines, number)


def _find_section_end(lines: Sequence[str], row: int, level: int) -> int:
    """Return the last row of the section of a document whose heading is in a row.

    The next heading of the same or a higher level (with as many #s or fewer) ends it.
    """
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
    """Return the last row of the value of the key in a row of a settings file.

    A value has the rows that are indented deeper than its key, and the bracket that closes it.
    """
    key_indent = _measure_indent(lines[row - 1])
    last = row
    for number in range(row + 1, len(lines) + 1):
        line = lines[number - 1]
        if not line.strip():
            continue
        indent = _measure_indent(line)
        if indent <= key_indent:
            is_closing_bracket = indent == key_indent and line.strip().startswith((")", "]", "}"))
            return number if is_closing_bracket else last
        last = number
    return last


def _list_keys(line: str) -> list[str]:
    """Return the names of the key or the section of settings that begins in a line.

    A section has two names: `tool.ruff` and `ruff`.
    """
    section = SECTION.fullmatch(line)
    if section:
        title = section["title"].replace('"', "")
        return [title, strip_owners(title)]
    key = KEY.match(line)
    return [key["key"]] if key else []


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fold_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _get_extension(path: str) -> str:
    return path.rpartition(".")[2].lower()
