"""YAML as text: a flat mapping read without any typing, and scalars written so that nobody re-types them.

This is the one place that knows YAML's syntax for memory files; `frontmatter` gives the fields their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from memory_ci.text import yaml_fault

FAST_PLAIN = r"[A-Za-z0-9](?:(?:[A-Za-z0-9 ._/@+-]|:(?=[A-Za-z0-9/]))*[A-Za-z0-9._/@+-])?"
# A line of the fast path: `key:`, `key: plain`, `key: 'quoted'`, `- plain`, `- 'quoted'`; ASCII, no escapes.
FAST_LINE = re.compile(rf"(?:([A-Za-z_][A-Za-z0-9_-]*):|-)(?: (?:({FAST_PLAIN})|'([ -&(-~]*)'))?")
PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 _./@+-]|:(?=[^\s]))*(?<! )")
RETYPED = frozenset("y n yes no on off true false null nan inf".split())
QUOTED = re.compile(r"[ \t]*+(?:'(?:[^']|'')*+'|\"(?:[^\"\\]|\\.)*+\")")
COMMENT = re.compile(r"(?<=[ \t])#")
LINE_BREAK = re.compile(
    "[\r\x85\u2028\u2029]"
)  # Ends a line in YAML 1.1, but not here: its parser would count others.
MAX_DEPTH = 20
MAX_LINE = 100_000  # A parser's time grows with the square of the depth, and with the length of a line in braces.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


class YamlTextError(Exception):
    """The text is not a plain mapping; `line` is 0-based within it."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class Field(msgspec.Struct, frozen=True):
    """A top-level key: its value as text, list of texts, or None when it is nested; lines [first, last]."""

    key: str
    value: str | tuple[str, ...] | None
    first: int
    last: int


class YamlNode(msgspec.Struct, frozen=True):
    """A value with what is nested in it, and its 0-based line: a text, a list, or a mapping."""

    value: str | tuple[YamlNode, ...] | dict[str, YamlNode]
    line: int


def parse_fields(lines: Sequence[str]) -> tuple[Field, ...]:
    """The top-level fields of a block mapping, each scalar as the text that stands there. Duplicate keys, anchors,
    aliases, tags, flow style and keys that do not start a line raise YamlTextError, as does what would cost too much:
    lines and nesting without measure."""
    _refuse_long(lines)
    fields = _fast_fields(lines)
    fields = _yaml_fields(lines) if fields is None else fields
    seen: set[str] = set()
    for field in fields:
        if field.key in seen:
            raise YamlTextError(field.first, f"the key {field.key!r} stands here twice")
        seen.add(field.key)
    return tuple(fields)


def parse_nested(lines: Sequence[str]) -> dict[str, YamlNode]:
    """A block mapping with all that is nested in it, refusing what `parse_fields` refuses, at any depth."""
    _refuse_long(lines)
    with _read_events(lines) as reader:
        return reader.mapping(1)


def _refuse_long(lines: Sequence[str]) -> None:
    for number, line in enumerate(lines):
        if len(line) > MAX_LINE:
            raise YamlTextError(number, f"a line of more than {MAX_LINE:,} characters")


def _fast_fields(lines: Sequence[str]) -> list[Field] | None:
    """Fields of lines that need no YAML parser, or None: PyYAML's C loader costs nine times as much."""
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
        else:
            is_item = fields and value is not None and (items or fields[-1].value == "")
            if value is None or not is_item or lines[fields[-1].first][-1] != ":":
                return None
            items.append(value)
            fields[-1] = Field(fields[-1].key, tuple(items), fields[-1].first, number)
    return fields


def _yaml_fields(lines: Sequence[str]) -> list[Field]:
    with _read_events(lines) as reader:
        return reader.fields()


@contextmanager
def _read_events(lines: Sequence[str]) -> Iterator[_EventReader]:
    import yaml  # 20 ms that the fast path saves

    for number, line in enumerate(lines):
        if LINE_BREAK.search(line):
            raise YamlTextError(
                number, "a character that YAML takes for the end of the line; write it as an escape"
            )
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
    """Turns PyYAML's event stream into fields, refusing what would make a reader and a writer disagree. The events are
    taken one by one: what is refused early is not parsed to its end."""

    def __init__(self, events: Iterable[Any], lines: Sequence[str]) -> None:
        self._events: Iterator[Any] = iter(events)
        self._lines = lines
        self._scalar_end = 0  # behind the last line of the newest block scalar

    def fields(self) -> list[Field]:
        found: list[tuple[str, str | tuple[str, ...] | None, int, int]] = []
        while self._kind(key := self._next()) != "MappingEnd":
            at, end = key.start_mark, key.end_mark
            is_begun = (
                at.column == 0
                and at.line == end.line
                and self._lines[at.line][end.column :].lstrip()[:1] == ":"
            )
            if self._kind(key) != "Scalar" or not is_begun:
                raise YamlTextError(at.line, "a key must be a word at the start of its line")
            found.append((key.value, self._value(self._next()), at.line, self._scalar_end))
        fields: list[Field] = []
        ends = [line for _, _, line, _ in found[1:]] + [len(self._lines)]
        for (name, value, first, scalar_end), end in zip(found, ends, strict=True):
            # Comments and blank lines before the next key are nobody's; but a # in a block scalar is no comment.
            last = end - 1
            while last > first and (
                not (line := self._lines[last].lstrip())
                or (last >= scalar_end and line.startswith("#"))
            ):
                last -= 1
            fields.append(Field(name, value, first, last))
        return fields

    def open(self) -> None:
        next(self._events)  # stream start
        is_document = self._kind(event := next(self._events)) == "DocumentStart"
        if not is_document or self._kind(top := self._next()) != "MappingStart":
            raise YamlTextError(0, "not a mapping of keys and values")
        if top.flow_style:
            raise YamlTextError(
                event.start_mark.line, "write one key a line, not a mapping in braces"
            )

    def close(self) -> None:
        self._next()  # document end
        if self._kind(self._next()) != "StreamEnd":
            raise YamlTextError(0, "more than one YAML document")

    def mapping(self, depth: int) -> dict[str, YamlNode]:
        found: dict[str, YamlNode] = {}
        while self._kind(key := self._next()) != "MappingEnd":
            if self._kind(key) != "Scalar":
                raise YamlTextError(key.start_mark.line, "a key must be a word")
            if key.value in found:
                raise YamlTextError(key.start_mark.line, f"the key {key.value!r} stands here twice")
            found[key.value] = self._node(self._next(), depth)
        return found

    def _node(self, event: Any, depth: int) -> YamlNode:  # noqa: ANN401
        kind, line = self._kind(event), event.start_mark.line
        if kind == "Scalar":
            return YamlNode(str(event.value), line)
        if depth == MAX_DEPTH:
            raise YamlTextError(line, f"nested deeper than {MAX_DEPTH} levels")
        if kind == "MappingStart":
            return YamlNode(self.mapping(depth + 1), line)
        items: list[YamlNode] = []
        while self._kind(item := self._next()) != "SequenceEnd":
            items.append(self._node(item, depth + 1))
        return YamlNode(tuple(items), line)

    def _next(self) -> Any:  # noqa: ANN401 - PyYAML's events are untyped
        event = next(self._events)
        if self._kind(event) == "Alias" or getattr(event, "anchor", None):
            raise YamlTextError(
                event.start_mark.line, "anchors and aliases are not allowed in front matter"
            )
        if getattr(event, "tag", None):
            raise YamlTextError(
                event.start_mark.line, f"the tag {event.tag} is not allowed in front matter"
            )
        if getattr(event, "style", None) in ("|", ">"):
            self._scalar_end = event.end_mark.line + bool(event.end_mark.column)
        return event

    def _value(self, event: Any) -> str | tuple[str, ...] | None:  # noqa: ANN401
        if self._kind(event) == "Scalar":
            return str(event.value)
        texts: list[str] = []
        is_flat, depth = self._kind(event) == "SequenceStart", 1
        while depth:
            inner = self._next()
            depth += self._kind(inner).endswith("Start") - self._kind(inner).endswith("End")
            if depth > MAX_DEPTH:
                raise YamlTextError(inner.start_mark.line, f"nested deeper than {MAX_DEPTH} levels")
            is_flat = is_flat and (self._kind(inner) == "Scalar" or depth == 0)
            if self._kind(inner) == "Scalar":
                texts.append(inner.value)
        return tuple(texts) if is_flat else None

    @staticmethod
    def _kind(event: object) -> str:
        return type(event).__name__.removesuffix("Event")


class YamlToken(msgspec.Struct, frozen=True):
    """One event of a YAML text: what it says, without where it stands; and where that is, 0-based."""

    says: tuple[str, ...]
    start: tuple[int, int]
    end: tuple[int, int]

    @property
    def kind(self) -> str:
        return self.says[0]

    @property
    def value(self) -> str:
        return self.says[1]

    @property
    def is_flow(self) -> bool:
        """Whether a collection is in braces or brackets."""
        return self.says[6] == "True"


def list_tokens(text: str) -> tuple[YamlToken, ...]:
    """All that a YAML text of somebody else says, anchors, tags and styles too, in order. Raises YamlTextError."""
    import yaml

    details = (
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
    try:
        events: Iterator[Any] = yaml.parse(text, Loader=yaml.BaseLoader)
        return tuple(
            YamlToken(
                (_EventReader._kind(event), *(str(getattr(event, name, None)) for name in details)),
                (event.start_mark.line, event.start_mark.column),
                (event.end_mark.line, event.end_mark.column),
            )
            for event in events
        )
    except yaml.YAMLError as error:
        line, reason = yaml_fault(error)
        raise YamlTextError(line, f"not valid YAML: {reason}") from error


def trailing_comment(line: str) -> str:
    """The comment behind the plain or quoted value of a `key: value` line, with the blanks before it; else nothing.

    >>> [trailing_comment(line) for line in ("a: 1  # why", "a: 'x # y' # z", "a: x#y")]
    ['  # why', ' # z', '']
    """
    value = line.partition(":")[2]
    quoted = QUOTED.match(value)
    rest = value[quoted.end() :] if quoted else value
    found = COMMENT.search(rest)
    return rest[len(rest[: found.start()].rstrip(" \t")) :] if found else ""


def format_scalar(text: str) -> str:
    """`text` as a YAML scalar that a YAML 1.1 or 1.2 reader gives back as the same string.

    >>> [format_scalar(t) for t in ("claude-code:7b1c", "NO", "12:30", "it's", "a: b")]
    ['claude-code:7b1c', "'NO'", "'12:30'", "'it''s'", "'a: b'"]
    """
    if PLAIN.fullmatch(text) and text.lower() not in RETYPED:
        return text
    return quote_scalar(text)


def format_flow_scalar(text: str) -> str:
    """`text` as a scalar inside of braces or brackets, where some readers end a plain one at a colon.

    >>> [format_flow_scalar(t) for t in ("src/client.py", "pr:128", "a, b", "")]
    ['src/client.py', "'pr:128'", "'a, b'", "''"]
    """
    return quote_scalar(text) if ":" in text else format_scalar(text)


def quote_scalar(text: str) -> str:
    """`text` in single quotes, or in double quotes where it holds what single quotes cannot."""
    if not UNPRINTABLE.search(text):
        return "'" + text.replace("'", "''") + "'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + UNPRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", escaped) + '"'
