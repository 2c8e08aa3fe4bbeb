"""Parse YAML mappings without converting values, and format texts as YAML scalars.

This module knows the syntax of YAML; `frontmatter` knows the meaning of fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from memory_ci.regex import Regex
from memory_ci.text import locate_yaml_error

FAST_PLAIN = r"[A-Za-z0-9](?:(?:[A-Za-z0-9 ._/@+-]|:(?=[A-Za-z0-9/]))*[A-Za-z0-9._/@+-])?"
# A line that needs no YAML parser: `key:`, `key: plain`, `key: 'quoted'`, `- plain`, `- 'quoted'`,
# of ASCII characters and without escapes. Groups: the key, the plain value, the quoted value.
FAST_LINE = Regex(rf"(?:([A-Za-z_][A-Za-z0-9_-]*):|-)(?: (?:({FAST_PLAIN})|'([ -&(-~]*)'))?")
# A text that may be written without quotes: `claude-code:7b1c`.
PLAIN = Regex(r"[A-Za-z](?:[A-Za-z0-9 _./@+-]|:(?=[^\s]))*(?<! )")
# Words that YAML 1.1 reads as something else than a string, unless they are quoted.
RETYPED = frozenset("y n yes no on off true false null nan inf".split())
# A value in quotes, after blanks: ` 'it''s'`, ` "a \"b\""`.
QUOTED = Regex(r"[ \t]*+(?:'(?:[^']|'')*+'|\"(?:[^\"\\]|\\.)*+\")")
# The # that begins a comment: it follows a blank.
COMMENT = Regex(r"(?<=[ \t])#")
# Ends a line in YAML 1.1, but not here: its parser would count lines differently.
LINE_BREAK = Regex("[\r\x85\u2028\u2029]")
# A parser's time grows with the square of the depth, and with the length of a line in braces.
MAX_DEPTH = 20
MAX_LINE = 100_000  # Characters.
# A character that is written as an escape: a control character, a line separator, a byte order
# mark, or half of a UTF-16 pair.
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
    fields = parse_simple_lines(lines)
    if fields is None:
        fields = parse_with_yaml(lines)
    if len({field.key for field in fields}) < len(fields):
        _refuse_duplicate(fields)
    return tuple(fields)


def _refuse_duplicate(fields: Sequence[Field]) -> None:
    """Raise a YamlTextError at the first key that an earlier field has, too."""
    seen_keys: set[str] = set()
    for field in fields:
        if field.key in seen_keys:
            raise YamlTextError(field.first, f"the key {field.key!r} stands here twice")
        seen_keys.add(field.key)


def parse_nested(lines: Sequence[str]) -> dict[str, YamlNode]:
    """Return a block mapping with all values that are nested in it.

    Raises:
        YamlTextError: as `parse_fields`, at any depth.
    """
    _refuse_long(lines)
    with _read_events(lines) as reader:
        return reader.read_mapping(depth=1)


def _refuse_long(lines: Sequence[str]) -> None:
    if max(map(len, lines), default=0) <= MAX_LINE:
        return
    for number, line in enumerate(lines):
        if len(line) > MAX_LINE:
            raise YamlTextError(number, f"a line of more than {MAX_LINE:,} characters")


def parse_simple_lines(lines: Sequence[str]) -> list[Field] | None:
    """Parse lines such as `key: value` and `- item` into fields; None if there are other lines.

    PyYAML's C loader takes nine times as long.
    """
    fields: list[Field] = []
    items: list[str] = []  # The list items of the last field.
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

        # The line is a list item, which belongs to a field that has no value on its own line.
        if value is None or not fields:
            return None
        field = fields[-1]
        is_list = bool(items) or field.value == ""
        if not is_list or lines[field.first][-1] != ":":
            return None
        items.append(value)
        fields[-1] = Field(field.key, tuple(items), field.first, number)
    return fields


def parse_with_yaml(lines: Sequence[str]) -> list[Field]:
    """Parse lines of a YAML mapping into fields by PyYAML.

    Raises:
        YamlTextError: they are no plain mapping.
    """
    with _read_events(lines) as reader:
        return reader.read_fields()


@contextmanager
def _read_events(lines: Sequence[str]) -> Iterator[_EventReader]:
    """Provide a reader of the parsed YAML; parse errors in the block become YamlTextError."""
    import yaml  # Not at the top: it takes 20 ms, and simple lines do without it.

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
        number, reason = locate_yaml_error(error)
        raise YamlTextError(min(number, len(lines) - 1), f"not valid YAML: {reason}") from error


class _FieldStart(msgspec.Struct, frozen=True):
    """A field whose last line is not known yet.

    Attributes:
        key: its name.
        value: its value, as `Field` has it.
        first: its first line, 0-based.
        scalar_end: the line after the last block scalar (`|` or `>`) up to the end of its value.
    """

    key: str
    value: str | tuple[str, ...] | None
    first: int
    scalar_end: int


class _EventReader:
    """Builds fields or nested values from the events of PyYAML, and refuses ambiguous syntax.

    PyYAML parses as events are taken, so text after an early fault costs nothing.
    """

    def __init__(self, events: Iterable[Any], lines: Sequence[str]) -> None:
        self._events: Iterator[Any] = iter(events)
        self._lines = lines
        self._scalar_end = 0  # The line after the last block scalar.

    def read_fields(self) -> list[Field]:
        """Read the top-level mapping as fields.

        Raises:
            YamlTextError: a key is no word, or does not start its line.
        """
        parts: list[_FieldStart] = []
        for key_event in self._iter_keys():
            first = key_event.start_mark.line
            if not self._is_line_key(key_event):
                raise YamlTextError(first, "a key must be a word at the start of its line")
            value = self._read_value(self._next_event())
            parts.append(_FieldStart(key_event.value, value, first, self._scalar_end))

        # Where a field ends is known when the next one begins.
        next_lines = [*(part.first for part in parts[1:]), len(self._lines)]
        fields: list[Field] = []
        for part, next_line in zip(parts, next_lines, strict=True):
            last = self._find_last_line(part.first, next_line, part.scalar_end)
            fields.append(Field(part.key, part.value, part.first, last))
        return fields

    def _is_line_key(self, event: Any) -> bool:  # noqa: ANN401
        """Return whether an event is a word at the start of a line, with a colon after it."""
        start = event.start_mark
        end = event.end_mark
        if _get_kind(event) != "Scalar" or start.column != 0 or start.line != end.line:
            return False
        text_after: str = self._lines[end.line][end.column :]
        return text_after.lstrip().startswith(":")

    def _find_last_line(self, first: int, next_line: int, scalar_end: int) -> int:
        """Return the last line of a field, without the comments and blank lines before the next.

        Args:
            first: the first line of the field.
            next_line: the first line of the next field.
            scalar_end: the line after the field's last block scalar. Before it, # is no comment.
        """
        last = next_line - 1
        while last > first:
            line = self._lines[last].lstrip()
            is_comment = last >= scalar_end and line.startswith("#")
            if line and not is_comment:
                break
            last -= 1
        return last

    def open(self) -> None:
        """Read the events before the first key of the top-level mapping.

        Raises:
            YamlTextError: the document is no mapping, or one in braces.
        """
        next(self._events)  # The start of the stream.
        document = next(self._events)
        if _get_kind(document) == "DocumentStart":
            top = self._next_event()
            if _get_kind(top) == "MappingStart":
                if top.flow_style:
                    reason = "write one key a line, not a mapping in braces"
                    raise YamlTextError(document.start_mark.line, reason)
                return
        raise YamlTextError(0, "not a mapping of keys and values")

    def close(self) -> None:
        """Read the end of the document, which must be the last."""
        self._next_event()
        if _get_kind(self._next_event()) != "StreamEnd":
            raise YamlTextError(0, "more than one YAML document")

    def read_mapping(self, depth: int) -> dict[str, YamlNode]:
        """Read the rest of a mapping whose start event was taken.

        Args:
            depth: 1 for the top-level mapping, one more for each mapping or list around it.
        """
        nodes: dict[str, YamlNode] = {}
        for key_event in self._iter_keys():
            key = key_event.value if _get_kind(key_event) == "Scalar" else None
            line = key_event.start_mark.line
            if key is None:
                raise YamlTextError(line, "a key must be a word")
            if key in nodes:
                raise YamlTextError(line, f"the key {key!r} stands here twice")
            nodes[key] = self._read_node(self._next_event(), depth)
        return nodes

    def _iter_keys(self) -> Iterator[Any]:
        """Yield the events that begin keys of a mapping; the caller takes the events of values."""
        event = self._next_event()
        while _get_kind(event) != "MappingEnd":
            yield event
            event = self._next_event()

    def _read_node(self, event: Any, depth: int) -> YamlNode:  # noqa: ANN401
        """Return the value that begins with `event`, which is nested in `depth` collections."""
        kind = _get_kind(event)
        line = event.start_mark.line
        if kind == "Scalar":
            return YamlNode(str(event.value), line)
        if depth == MAX_DEPTH:
            raise YamlTextError(line, f"nested deeper than {MAX_DEPTH} levels")
        if kind == "MappingStart":
            return YamlNode(self.read_mapping(depth + 1), line)

        items: list[YamlNode] = []
        item_event = self._next_event()
        while _get_kind(item_event) != "SequenceEnd":
            items.append(self._read_node(item_event, depth + 1))
            item_event = self._next_event()
        return YamlNode(tuple(items), line)

    def _next_event(self) -> Any:  # noqa: ANN401 - PyYAML's events are untyped
        """Return the next event, and remember where a block scalar (`|` or `>`) ends.

        Raises:
            YamlTextError: it is an alias, or has an anchor or a tag.
        """
        event = next(self._events)
        line = event.start_mark.line
        if _get_kind(event) == "Alias" or getattr(event, "anchor", None):
            raise YamlTextError(line, "anchors and aliases are not allowed in front matter")
        if getattr(event, "tag", None):
            raise YamlTextError(line, f"the tag {event.tag} is not allowed in front matter")
        if getattr(event, "style", None) in ("|", ">"):
            end = event.end_mark
            ends_inside_line = end.column > 0
            self._scalar_end = end.line + 1 if ends_inside_line else end.line
        return event

    def _read_value(self, event: Any) -> str | tuple[str, ...] | None:  # noqa: ANN401
        """Read the value that begins with `event`.

        Returns:
            The text of a scalar, or the texts of a list of scalars; None if values are nested
            deeper or in a mapping.
        """
        if _get_kind(event) == "Scalar":
            return str(event.value)
        texts: list[str] = []
        is_flat_list = _get_kind(event) == "SequenceStart"
        depth = 1
        while depth > 0:
            inner_event = self._next_event()
            kind = _get_kind(inner_event)
            if kind == "Scalar":
                texts.append(inner_event.value)
            elif kind.endswith("Start"):
                is_flat_list = False
                depth += 1
            else:
                depth -= 1
            if depth > MAX_DEPTH:
                line = inner_event.start_mark.line
                raise YamlTextError(line, f"nested deeper than {MAX_DEPTH} levels")
        return tuple(texts) if is_flat_list else None


def _get_kind(event: object) -> str:
    """Return the name of an event's class without "Event", for example "Scalar"."""
    return type(event).__name__.removesuffix("Event")


EVENT_ATTRIBUTES = (
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


class YamlEvent(msgspec.Struct, frozen=True):
    """An event of PyYAML: a scalar, an alias, or the start or end of a collection or document.

    Attributes:
        details: its kind, then its other attributes in the order of EVENT_ATTRIBUTES, as text.
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
        return self.details[1 + EVENT_ATTRIBUTES.index("flow_style")] == "True"


def list_events(text: str) -> tuple[YamlEvent, ...]:
    """Return all events that PyYAML parses a YAML text to, in order.

    Other than `parse_fields` it takes any YAML, also with anchors and tags.

    Raises:
        YamlTextError: it is not valid YAML.
    """
    import yaml

    events: list[YamlEvent] = []
    try:
        event: Any
        for event in yaml.parse(text, Loader=yaml.BaseLoader):
            details = [str(getattr(event, name, None)) for name in EVENT_ATTRIBUTES]
            start = (event.start_mark.line, event.start_mark.column)
            end = (event.end_mark.line, event.end_mark.column)
            events.append(YamlEvent((_get_kind(event), *details), start, end))
    except yaml.YAMLError as error:
        line, reason = locate_yaml_error(error)
        raise YamlTextError(line, f"not valid YAML: {reason}") from error
    return tuple(events)


def find_trailing_comment(line: str) -> str:
    """Return the comment at the end of a `key: value` line, with the blanks before it, or "".

    >>> [find_trailing_comment(line) for line in ("a: 1  # why", "a: 'x # y' # z", "a: x#y")]
    ['  # why', ' # z', '']
    """
    value = line.partition(":")[2]
    quoted = QUOTED.match(value)
    after_quotes = value[quoted.end() :] if quoted else value
    comment = COMMENT.search(after_quotes)
    if comment is None:
        return ""
    text_before = after_quotes[: comment.start()].rstrip(" \t")
    return after_quotes[len(text_before) :]


def format_scalar(text: str) -> str:
    """Format a text as a YAML scalar that any YAML 1.1 or 1.2 parser reads as the same string.

    >>> [format_scalar(text) for text in ("claude-code:7b1c", "NO", "12:30", "it's", "a: b")]
    ['claude-code:7b1c', "'NO'", "'12:30'", "'it''s'", "'a: b'"]
    """
    if PLAIN.fullmatch(text) and text.lower() not in RETYPED:
        return text
    return quote_scalar(text)


def format_flow_scalar(text: str) -> str:
    """Format a text as a YAML scalar inside braces or brackets; quote it if it has a colon.

    >>> [format_flow_scalar(text) for text in ("src/client.py", "pr:128", "a, b", "")]
    ['src/client.py', "'pr:128'", "'a, b'", "''"]
    """
    return quote_scalar(text) if ":" in text else format_scalar(text)


def quote_scalar(text: str) -> str:
    """Format a text as a YAML scalar in single quotes, or in double ones if it needs escapes."""
    if not UNPRINTABLE.search(text):
        return "'" + text.replace("'", "''") + "'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + UNPRINTABLE.sub(_escape_character, escaped) + '"'


def _escape_character(match: re.Match[str]) -> str:
    """Return the YAML escape of a character, for example `\\u0007`."""
    return f"\\u{ord(match.group()):04x}"
