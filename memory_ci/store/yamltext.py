"""YAML as text: mappings read without types, and scalars written so that no reader changes them.

This module knows the syntax of YAML; `frontmatter` knows the meaning of fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from memory_ci.regex import Regex
from memory_ci.text import yaml_fault

FAST_PLAIN = r"[A-Za-z0-9](?:(?:[A-Za-z0-9 ._/@+-]|:(?=[A-Za-z0-9/]))*[A-Za-z0-9._/@+-])?"
# A line of the fast path: `key:`, `key: plain`, `key: 'quoted'`, `- plain`, `- 'quoted'`; ASCII, no
# escapes.
FAST_LINE = Regex(rf"(?:([A-Za-z_][A-Za-z0-9_-]*):|-)(?: (?:({FAST_PLAIN})|'([ -&(-~]*)'))?")
PLAIN = Regex(r"[A-Za-z](?:[A-Za-z0-9 _./@+-]|:(?=[^\s]))*(?<! )")
RETYPED = frozenset("y n yes no on off true false null nan inf".split())
QUOTED = Regex(r"[ \t]*+(?:'(?:[^']|'')*+'|\"(?:[^\"\\]|\\.)*+\")")
COMMENT = Regex(r"(?<=[ \t])#")
# Ends a line in YAML 1.1, but not here: its parser would count lines differently.
LINE_BREAK = Regex("[\r\x85\u2028\u2029]")
# A parser's time grows with the square of the depth, and with the length of a line in braces.
MAX_DEPTH = 20
MAX_LINE = 100_000  # Characters.
UNPRINTABLE = Regex("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


class YamlTextError(Exception):
    """A text that is not a plain mapping.

    Attributes:
        line: the line that is wrong, 0-based.
        reason: the fault.
    """

    def __init__(self, line: int, reason: str) -> None:
        """Remember the line and the fault."""
        super().__init__(reason)
        self.line = line
        self.reason = reason


class Field(msgspec.Struct, frozen=True):
    """A top-level key of a mapping.

    Attributes:
        key: its name.
        value: its value as text or as a list of texts; None if it is nested deeper.
        first: its first line, 0-based.
        last: its last line, included.
    """

    key: str
    value: str | tuple[str, ...] | None
    first: int
    last: int


class YamlNode(msgspec.Struct, frozen=True):
    """A value with the values nested in it.

    Attributes:
        value: a text, a list or a mapping.
        line: its line, 0-based.
    """

    value: str | tuple[YamlNode, ...] | dict[str, YamlNode]
    line: int


def parse_fields(lines: Sequence[str]) -> tuple[Field, ...]:
    """Return the top-level fields of a block mapping, each scalar as it is written.

    Raises:
        YamlTextError: the text has duplicate keys, anchors, aliases, tags, flow style or keys that
            do not start a line, or lines or nesting beyond the limits, which would take too long.
    """
    _refuse_long(lines)
    fields = _fast_fields(lines)
    if fields is None:
        fields = _yaml_fields(lines)
    if len({field.key for field in fields}) < len(fields):
        _refuse_duplicate(fields)
    return tuple(fields)


def _refuse_duplicate(fields: Sequence[Field]) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.key in seen:
            raise YamlTextError(field.first, f"the key {field.key!r} stands here twice")
        seen.add(field.key)


def parse_nested(lines: Sequence[str]) -> dict[str, YamlNode]:
    """Return a block mapping with all values that are nested in it.

    Raises:
        YamlTextError: as `parse_fields`, at any depth.
    """
    _refuse_long(lines)
    with _read_events(lines) as reader:
        return reader.mapping(1)


def _refuse_long(lines: Sequence[str]) -> None:
    if max(map(len, lines), default=0) <= MAX_LINE:
        return
    for number, line in enumerate(lines):
        if len(line) > MAX_LINE:
            raise YamlTextError(number, f"a line of more than {MAX_LINE:,} characters")


def _fast_fields(lines: Sequence[str]) -> list[Field] | None:
    """Return the fields of lines that need no YAML parser; None for other lines.

    PyYAML's C loader takes nine times as long.
    """
    fields: list[Field] = []
    items: list[str] = []
    for number, line in enumerate(lines):
        match = FAST_LINE.fullmatch(line)
        if match is None:
            return None
        key, plain, quoted = match.groups()
        value = plain if plain is not None else quoted
        if key is not None:
            fields.append(Field(key, value or "", number, number))
            items = []
            continue
        if value is None or not fields:
            return None
        owner = fields[-1]
        is_list = bool(items) or owner.value == ""
        if not is_list or lines[owner.first][-1] != ":":
            return None
        items.append(value)
        fields[-1] = Field(owner.key, tuple(items), owner.first, number)
    return fields


def _yaml_fields(lines: Sequence[str]) -> list[Field]:
    with _read_events(lines) as reader:
        return reader.fields()


@contextmanager
def _read_events(lines: Sequence[str]) -> Iterator[_EventReader]:
    """Parse lines while the block reads the events; all errors become YamlTextError."""
    import yaml  # Not at the top: it takes 20 ms, which lines of the fast path do not need.

    for number, line in enumerate(lines):
        if LINE_BREAK.search(line):
            reason = "a character that YAML takes for the end of the line; write it as an escape"
            raise YamlTextError(number, reason)
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        reader = _EventReader(yaml.parse("\n".join(lines), Loader=loader), lines)
        reader.open()
        yield reader
        reader.close()
    except yaml.YAMLError as error:
        number, reason = yaml_fault(error)
        raise YamlTextError(min(number, len(lines) - 1), f"not valid YAML: {reason}") from error


class _EventReader:
    """A reader of PyYAML's events as fields, which refuses ambiguous syntax.

    The events are taken one by one: text after an early fault is not parsed.
    """

    def __init__(self, events: Iterable[Any], lines: Sequence[str]) -> None:
        self._events: Iterator[Any] = iter(events)
        self._lines = lines
        self._scalar_end = 0  # The line after the last block scalar.

    def fields(self) -> list[Field]:
        """Return the top-level fields."""
        fields: list[Field] = []
        scalar_ends: list[int] = []
        for key in self._keys():
            start = key.start_mark
            end = key.end_mark
            is_line_start = start.column == 0 and start.line == end.line
            after = self._lines[end.line][end.column :] if is_line_start else ""
            if _kind(key) != "Scalar" or after.lstrip()[:1] != ":":
                raise YamlTextError(start.line, "a key must be a word at the start of its line")
            value = self._value(self._next())
            fields.append(Field(key.value, value, start.line, start.line))
            scalar_ends.append(self._scalar_end)

        next_lines = [field.first for field in fields[1:]] + [len(self._lines)]
        return [
            Field(
                field.key, field.value, field.first, self._last_line(field.first, end, scalar_end)
            )
            for field, end, scalar_end in zip(fields, next_lines, scalar_ends, strict=True)
        ]

    def _last_line(self, first: int, end: int, scalar_end: int) -> int:
        """Return the last line of a field that begins at `first`, the next at `end`.

        Comments and blank lines before the next key belong to no field; but a # in a block scalar,
        before `scalar_end`, is no comment.
        """
        last = end - 1
        while last > first:
            line = self._lines[last].lstrip()
            is_comment = last >= scalar_end and line.startswith("#")
            if line and not is_comment:
                break
            last -= 1
        return last

    def open(self) -> None:
        """Read up to the first key."""
        next(self._events)  # The start of the stream.
        document = next(self._events)
        if _kind(document) == "DocumentStart":
            top = self._next()
            if _kind(top) == "MappingStart":
                if top.flow_style:
                    reason = "write one key a line, not a mapping in braces"
                    raise YamlTextError(document.start_mark.line, reason)
                return
        raise YamlTextError(0, "not a mapping of keys and values")

    def close(self) -> None:
        """Read the end of the document, which must be the last."""
        self._next()
        if _kind(self._next()) != "StreamEnd":
            raise YamlTextError(0, "more than one YAML document")

    def mapping(self, depth: int) -> dict[str, YamlNode]:
        """Return the mapping whose start was read, at this depth."""
        nodes: dict[str, YamlNode] = {}
        for key in self._keys():
            line = key.start_mark.line
            if _kind(key) != "Scalar":
                raise YamlTextError(line, "a key must be a word")
            if key.value in nodes:
                raise YamlTextError(line, f"the key {key.value!r} stands here twice")
            nodes[key.value] = self._node(self._next(), depth)
        return nodes

    def _keys(self) -> Iterator[Any]:
        """Return the events that are keys of the current mapping; the caller reads the values."""
        key = self._next()
        while _kind(key) != "MappingEnd":
            yield key
            key = self._next()

    def _node(self, event: Any, depth: int) -> YamlNode:  # noqa: ANN401
        """Return the value that an event begins."""
        kind = _kind(event)
        line = event.start_mark.line
        if kind == "Scalar":
            return YamlNode(str(event.value), line)
        if depth == MAX_DEPTH:
            raise YamlTextError(line, f"nested deeper than {MAX_DEPTH} levels")
        if kind == "MappingStart":
            return YamlNode(self.mapping(depth + 1), line)
        items: list[YamlNode] = []
        item = self._next()
        while _kind(item) != "SequenceEnd":
            items.append(self._node(item, depth + 1))
            item = self._next()
        return YamlNode(tuple(items), line)

    def _next(self) -> Any:  # noqa: ANN401 - PyYAML's events are untyped
        """Return the next event, or refuse it."""
        event = next(self._events)
        line = event.start_mark.line
        if _kind(event) == "Alias" or getattr(event, "anchor", None):
            raise YamlTextError(line, "anchors and aliases are not allowed in front matter")
        if getattr(event, "tag", None):
            raise YamlTextError(line, f"the tag {event.tag} is not allowed in front matter")
        if getattr(event, "style", None) in ("|", ">"):
            self._scalar_end = event.end_mark.line + bool(event.end_mark.column)
        return event

    def _value(self, event: Any) -> str | tuple[str, ...] | None:  # noqa: ANN401
        """Return the text or the texts that an event begins; None if they are nested deeper."""
        if _kind(event) == "Scalar":
            return str(event.value)
        texts: list[str] = []
        is_flat = _kind(event) == "SequenceStart"
        depth = 1
        while depth:
            inner = self._next()
            kind = _kind(inner)
            if kind == "Scalar":
                texts.append(inner.value)
            elif kind.endswith("Start"):
                is_flat = False
                depth += 1
            else:
                depth -= 1
            if depth > MAX_DEPTH:
                raise YamlTextError(inner.start_mark.line, f"nested deeper than {MAX_DEPTH} levels")
        return tuple(texts) if is_flat else None


def _kind(event: object) -> str:
    """Return the name of an event's class without "Event"."""
    return type(event).__name__.removesuffix("Event")


TOKEN_DETAILS = (
    "value",
    "anchor",
    "tag",
    "implicit",
    "style",
    "flow_style",
    "explicit",
    "version",
    "tags",
)


class YamlToken(msgspec.Struct, frozen=True):
    """An event of a YAML text.

    Attributes:
        details: its kind and its details without its place, in the order of TOKEN_DETAILS.
        start: the line and the column of its begin, 0-based.
        end: the line and the column of its end.
    """

    details: tuple[str, ...]
    start: tuple[int, int]
    end: tuple[int, int]

    @property
    def kind(self) -> str:
        """The name of the event's class without "Event"."""
        return self.details[0]

    @property
    def value(self) -> str:
        """The text of a scalar."""
        return self.details[1]

    @property
    def is_flow(self) -> bool:
        """Whether it is a collection in braces or brackets."""
        return self.details[1 + TOKEN_DETAILS.index("flow_style")] == "True"


def list_tokens(text: str) -> tuple[YamlToken, ...]:
    """Return all events of a YAML text of any style, in order, anchors and tags included.

    Raises:
        YamlTextError: it is not valid YAML.
    """
    import yaml

    tokens: list[YamlToken] = []
    try:
        event: Any
        for event in yaml.parse(text, Loader=yaml.BaseLoader):
            details = [str(getattr(event, name, None)) for name in TOKEN_DETAILS]
            start, end = event.start_mark, event.end_mark
            tokens.append(
                YamlToken(
                    (_kind(event), *details), (start.line, start.column), (end.line, end.column)
                )
            )
    except yaml.YAMLError as error:
        line, reason = yaml_fault(error)
        raise YamlTextError(line, f"not valid YAML: {reason}") from error
    return tuple(tokens)


def trailing_comment(line: str) -> str:
    """Return the comment of a `key: value` line with the blanks before it; "" if it has none.

    >>> [trailing_comment(line) for line in ("a: 1  # why", "a: 'x # y' # z", "a: x#y")]
    ['  # why', ' # z', '']
    """
    value = line.partition(":")[2]
    quoted = QUOTED.match(value)
    after_quotes = value[quoted.end() :] if quoted else value
    comment = COMMENT.search(after_quotes)
    if comment is None:
        return ""
    before = after_quotes[: comment.start()].rstrip(" \t")
    return after_quotes[len(before) :]


def format_scalar(text: str) -> str:
    """Return a text as a YAML scalar that a YAML 1.1 or 1.2 reader reads as the same string.

    >>> [format_scalar(t) for t in ("claude-code:7b1c", "NO", "12:30", "it's", "a: b")]
    ['claude-code:7b1c', "'NO'", "'12:30'", "'it''s'", "'a: b'"]
    """
    if PLAIN.fullmatch(text) and text.lower() not in RETYPED:
        return text
    return quote_scalar(text)


def format_flow_scalar(text: str) -> str:
    """Return a text as a scalar in braces or brackets, where a colon may end a plain one.

    >>> [format_flow_scalar(t) for t in ("src/client.py", "pr:128", "a, b", "")]
    ['src/client.py', "'pr:128'", "'a, b'", "''"]
    """
    return quote_scalar(text) if ":" in text else format_scalar(text)


def quote_scalar(text: str) -> str:
    """Return a text in single quotes, or in double quotes if it has a control character."""
    if not UNPRINTABLE.search(text):
        return "'" + text.replace("'", "''") + "'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + UNPRINTABLE.sub(_escape, escaped) + '"'


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
