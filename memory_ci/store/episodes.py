"""Parse, format and edit the files of episodes, and find their paths.

An episode describes one merged or declined change; an amendment is a later addition to it. Either
is an episode record, and is written as a document: front matter between two `---` lines and one
line of text. A file has one document or the documents of a month, and is read in the same way.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.errors import UsageError
from memory_ci.records.episode import Amendment, Episode, EpisodeRecord, to_utc
from memory_ci.records.report import Finding
from memory_ci.regex import Regex
from memory_ci.store.document import find_text_line, not_utf8
from memory_ci.store.frontmatter import MAX_COUNT, SURROGATE, UUID, format_share
from memory_ci.store.layout import EPISODES
from memory_ci.store.yamltext import (
    UNPRINTABLE,
    YamlNode,
    YamlTextError,
    format_flow_scalar,
    format_scalar,
    parse_nested,
    quote_scalar,
)

MAX_DOCUMENT_BYTES = 64_000  # Bytes of one episode or amendment.
MAX_FILE_BYTES = 20 * 1024 * 1024  # Bytes of a file of episodes.
PATH = Regex(rf"{re.escape(EPISODES)}/([0-9]{{4}}-(?:0[1-9]|1[0-2]))/[^/]+\.md", re.DOTALL)
# The file of a folded month. It stays in its directory: if that were gone, git would move files
# that others add to it elsewhere.
MONTH_FILE = "_all.md"
RUN_PREFIX = "run-"
"""The beginning of the name of a file with several episode records of one run."""
ID = Regex(r"[a-z0-9][a-z0-9.+-]{0,80}")
AMENDMENT_ID = Regex(r"[a-z0-9][a-z0-9.+-]{0,80}\+[0-9a-f]{12}|[a-z0-9][a-z0-9.+-]{0,80}")
KEY = Regex(r"[A-Za-z_][A-Za-z0-9_-]{0,60}")
# The first line of a front matter; no text below one begins like this.
OPENING = Regex(r"(?:id|at|occurred_at)[ \t]*:")
CONFLICT = Regex(r"<<<<<<< |>>>>>>> ")
TIME = Regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].+")
# The end of a message of msgspec: the path of the wrong value, as ` - at `$.feedback[0].at``.
BAD_PLACE = Regex(r" - at `\$([^`]*)`\Z")
# A step of such a path: `.key` or `[0]`.
STEP = Regex(r"\.(\w+)|\[(\d+)\]")


class DatedDocument(NamedTuple):
    """The text of an episode record, with the fields that order it in a file of several records.

    Attributes:
        time: the time of the episode or amendment.
        id: its id, which orders records of the same time.
        text: the text of the document, with its front matter.
    """

    time: datetime
    id: str
    text: str


WHOLE = -1  # The line of a fault that is in no line: the `---` above the front matter.
HINT = "`memory-ci help episodes` shows the form; what stands here is not used."


class ParsedEpisodes(msgspec.Struct, frozen=True):
    """The episode records of a file.

    Attributes:
        path: its path.
        records: the records that can be read.
        findings: remarks on text that cannot be read.
        lines: the line, 1-based, at which each record begins.
    """

    path: str
    records: tuple[EpisodeRecord, ...]
    findings: tuple[Finding, ...]
    lines: tuple[int, ...] = ()


class EpisodeDocument(msgspec.Struct, frozen=True):
    """The text of an episode record in a file.

    Attributes:
        first: its first line in the file, 0-based.
        lines: its lines.
        close: the index of its second `---` among them; None if it has none.
    """

    first: int
    lines: tuple[str, ...]
    close: int | None

    @property
    def raw(self) -> str:
        """Its text, which ends in one line feed."""
        return "\n".join(self.lines).rstrip(" \t\r\n") + "\n"


def is_episode_path(path: str) -> bool:
    """Return whether `path` is a file of episodes, in the directory of a month.

    >>> names = ("2026-11/pr-1.md", "2026-11/_all.md", "x.md")
    >>> [is_episode_path(f".memory/episodes/{name}") for name in names]
    [True, True, False]
    """
    return find_month(path) is not None


def find_month(path: str) -> str | None:
    """Return the month of a file of episodes, as `2026-11`; None for any other file."""
    match = PATH.fullmatch(path)
    return match.group(1) if match else None


def has_ended(month: str, before: date) -> bool:
    """Return whether a month ended before a day.

    >>> has_ended("2026-10", date(2026, 11, 1)), has_ended("2026-11", date(2026, 11, 30))
    (True, False)
    """
    return month < before.isoformat()[:7]


def month_path(month: str) -> str:
    """Return the path of the file of a folded month."""
    return f"{EPISODES}/{month}/{MONTH_FILE}"


def episode_record_path(record: EpisodeRecord) -> str:
    """Return the path of the file of an episode record, in the directory of its month (UTC).

    Raises:
        UsageError: the record is not valid (bad-episode).
    """
    _require_valid(record)
    return f"{EPISODES}/{_format_month(_time_of(record))}/{record.id}.md"


def _format_month(time: datetime) -> str:
    """Return the month (UTC) of a time, as `2026-11`."""
    return time.astimezone(UTC).isoformat()[: len("2026-11")]


def run_file_path(records: Sequence[EpisodeRecord]) -> str:
    """Return the path of the file for several episode records that one record run wrote.

    It is in the directory of the month (UTC) of the latest of them. Its name is a hash of its
    content: two runs that find the same records write the same file, and other runs never do.

    Raises:
        UsageError: a record is not valid (bad-episode).
    """
    latest = max(_time_of(record) for record in records)
    digest = hashlib.sha256(format_episode_records(records)).hexdigest()[:12]
    return f"{EPISODES}/{_format_month(latest)}/{RUN_PREFIX}{digest}.md"


def format_episode_records(records: Iterable[EpisodeRecord]) -> bytes:
    """Format episode records as the content of one file, in order of time.

    Raises:
        UsageError: a record is not valid, or too long (bad-episode).
    """
    documents: list[DatedDocument] = []
    for record in records:
        text = format_episode_record(record).decode()
        documents.append(DatedDocument(_time_of(record), record.id, text))
    return join_documents(documents)


def list_ids(path: str, data: bytes) -> tuple[str, ...]:
    """Return the ids of the episode records in a file that a record run wrote.

    A file with a single record has its id as its name. A file with several has a name that begins
    with RUN_PREFIX: it is parsed. If it cannot be read, its name is returned instead of ids.

    Args:
        path: the path of the file.
        data: its content.
    """
    name = path.rpartition("/")[2].removesuffix(".md")
    has_single_record = not name.startswith(RUN_PREFIX)
    if has_single_record:
        return (name,)
    records = parse_episode_file(path, data).records
    return tuple(record.id for record in records) or (name,)


def format_episode_record(record: EpisodeRecord) -> bytes:
    """Format an episode record as a document: front matter, then a line of text.

    Raises:
        UsageError: the record is not valid, or too long (bad-episode).
    """
    _require_valid(record)
    fields = _list_fields(record)
    body: list[str] = []
    # A text is below the front matter if it reads back there, else quoted within it.
    if _is_line(record.text):
        body = [fields.pop("text")]
    head: list[str] = []
    for name, value in fields.items():
        head += _format_field(name, value)
    data = "\n".join(["---", *head, "---", *body, ""]).encode()
    if len(data) > MAX_DOCUMENT_BYTES:
        message = (
            f"the episode {record.id} is {len(data):,} bytes, "
            f"over the limit of {MAX_DOCUMENT_BYTES:,}"
        )
        raise UsageError(message, slug="bad-episode", hint="Name fewer files.")
    return data


def _format_field(name: str, value: object) -> list[str]:
    """Format a field as YAML: a list of records has a line for each, other values are on one."""
    if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
        return [f"{name}:", *(f"- {_format_flow(item)}" for item in value)]
    if isinstance(value, str):
        return [f"{name}: {format_scalar(value)}"]
    return [f"{name}: {_format_flow(value)}"]


def _is_line(text: str) -> bool:
    """Return whether a text reads back as the line below a front matter."""
    if text == "" or text != text.strip() or text.startswith("---"):
        return False
    return not (UNPRINTABLE.search(text) or OPENING.match(text) or CONFLICT.match(text))


def _list_fields(struct: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a value that are written: those that differ from their defaults.

    The outcome of an episode is always written. A required field is left out if it is an empty
    mapping.
    """
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        default = {} if field.default is msgspec.NODEFAULT else field.default
        is_outcome = isinstance(struct, Episode) and field.name == "outcome"
        if value != default or is_outcome:
            fields[field.name] = value
    return fields


def _format_flow(value: object) -> str:
    """Format a value as YAML on one line: lists in brackets, mappings in braces."""
    match value:
        case str():
            return value if UUID.fullmatch(value) else format_flow_scalar(value)
        case datetime():
            return quote_scalar(value.astimezone(UTC).isoformat())
        case float():
            return format_share(value)
        case tuple():
            items = ", ".join(_format_flow(item) for item in value)
            return f"[{items}]"
        case dict():
            pairs = [f"{_format_flow(key)}: {_format_flow(item)}" for key, item in value.items()]
            return "{" + ", ".join(pairs) + "}"
        case msgspec.Struct():
            return _format_flow(_list_fields(value))
    return str(value)


def _require_valid(record: EpisodeRecord) -> None:
    """Make sure that an episode record is valid, before it is written.

    Raises:
        UsageError: it is not valid (bad-episode).
    """
    problem = next(_list_problems(record), None)
    if problem:
        hint = "`memory-ci help episodes` says what an episode may hold."
        raise UsageError(f"this is no episode: {problem}", slug="bad-episode", hint=hint)


def _list_problems(record: EpisodeRecord) -> Iterator[str]:
    """Yield the reasons why an episode record is not valid, whether it is written or read."""
    id_pattern = ID if isinstance(record, Episode) else AMENDMENT_ID
    if not id_pattern.fullmatch(record.id):
        yield f"the id {record.id!r} is not of lower-case letters, digits, `.`, `+` and `-`"
    times = [_time_of(record), *(event.at for event in record.feedback)]
    if any(time.tzinfo is None for time in times):
        yield "a time has no zone, as `+00:00`"
    if record.valence is not None and not 0 <= record.valence <= 1:
        yield f"the valence {record.valence} is not a number from 0.0 to 1.0"
    if isinstance(record, Episode):
        yield from _list_episode_problems(record)
    elif record.amends and not ID.fullmatch(record.amends):
        yield f"it amends {record.amends!r}, which is no id"
    if any(SURROGATE.search(text) for text in list_texts(record)):
        yield "a text has half of a UTF-16 surrogate pair, which UTF-8 cannot encode"


def _list_episode_problems(episode: Episode) -> Iterator[str]:
    """Yield the reasons why the numbers or the context of an episode are not valid."""
    numbers = [entry.rank for entry in episode.retrieved]
    if episode.action.pr is not None:
        numbers.append(episode.action.pr)
    if not all(0 <= number <= MAX_COUNT for number in numbers):
        yield "a rank or number is not a whole number of 0 or more"
    for key in episode.context:
        if not KEY.fullmatch(key):
            yield f"the key {key!r} of the context is no word"


def list_texts(value: object) -> Iterator[str]:
    """Yield every text in a value and the values nested in it, except the keys of mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from list_texts(getattr(value, name))
    elif isinstance(value, dict):
        for item in value.values():
            yield from list_texts(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from list_texts(item)


def _time_of(record: EpisodeRecord) -> datetime:
    return record.occurred_at if isinstance(record, Episode) else record.at


def parse_episode_file(path: str, data: bytes) -> ParsedEpisodes:
    """Parse a file of episode records. Never raises: text that cannot be read becomes a finding."""
    documents, findings = read_documents(path, data)
    records = tuple(record for _, record in documents)
    lines = tuple(document.first + 1 for document, _ in documents)
    return ParsedEpisodes(path, records, findings, lines)


def edit_episode_records(
    path: str, data: bytes, change: Callable[[EpisodeRecord], EpisodeRecord]
) -> bytes:
    """Return the content of a file with its episode records changed.

    Args:
        path: the path of the file.
        data: its content.
        change: returns the new state of a record. The text of an unchanged record is kept.

    Raises:
        UsageError: a new record is not valid (bad-episode).
    """
    edited = data
    documents, _ = read_documents(path, data)
    for document, record in documents:
        new_record = change(record)
        if new_record != record:
            old_text = document.raw.rstrip().encode()
            edited = edited.replace(old_text, format_episode_record(new_record).rstrip())
    return edited


def read_documents(
    path: str, data: bytes
) -> tuple[list[tuple[EpisodeDocument, EpisodeRecord]], tuple[Finding, ...]]:
    """Parse a file of episodes.

    Returns:
        The documents that can be read, each with its episode record, and findings on other text.
    """
    if len(data) > MAX_FILE_BYTES:
        message = f"the file is {len(data):,} bytes, over the limit of {MAX_FILE_BYTES:,}"
        return [], (Finding(path, 1, "bad-episode", message, "Split it, or restore it from git."),)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], (not_utf8(path, data, error),)

    findings: list[Finding] = []
    lines = text.split("\n")
    documents = _split_documents(lines)
    first_document_line = documents[0].first if documents else len(lines)
    loose_line = find_text_line(lines[:first_document_line])
    if loose_line is not None:
        message = "this text belongs to no episode"
        findings.append(Finding(path, loose_line + 1, "bad-episode", message, HINT))
    elif not documents:
        findings.append(Finding(path, 1, "bad-episode", "the file holds no episode", HINT))

    readable: list[tuple[EpisodeDocument, EpisodeRecord]] = []
    for document in documents:
        try:
            readable.append((document, _parse_document(document)))
        except YamlTextError as error:
            line_number = document.first + error.line + 1
            findings.append(Finding(path, line_number, "bad-episode", error.reason, HINT))
    return readable, tuple(findings)


def _split_documents(lines: Sequence[str]) -> list[EpisodeDocument]:
    """Split a file at the lines `---` that begin a document.

    A line `---` begins a document if a line with `id:` or a time follows before the next `---`.
    That next one closes the front matter. If it begins a document itself, the front matter is not
    closed.
    """
    separators = [number for number, line in enumerate(lines) if _is_separator(line)]
    next_separators = [*separators, len(lines)][1:]
    closing_by_first: dict[int, int | None] = {}  # The second `---` of each document.
    previous_closing: int | None = None
    for first, following in zip(separators, next_separators, strict=True):
        is_closing = first == previous_closing
        begins_document = not is_closing and _has_opening(lines[first + 1 : following])
        if not begins_document:
            continue
        is_last = following == len(lines)
        next_begins_document = _has_opening(lines[following + 1 : following + 2])
        is_closed = not is_last and not next_begins_document
        previous_closing = following if is_closed else None
        closing_by_first[first] = previous_closing

    ends = [*closing_by_first, len(lines)][1:]
    documents: list[EpisodeDocument] = []
    for (first, closing), end in zip(closing_by_first.items(), ends, strict=True):
        close = None if closing is None else closing - first
        documents.append(EpisodeDocument(first, tuple(lines[first:end]), close))
    return documents


def _has_opening(lines: Sequence[str]) -> bool:
    """Return whether one of the lines begins with `id:` or a time, as a front matter does."""
    return any(OPENING.match(line) for line in lines)


def _is_separator(line: str) -> bool:
    return line.startswith("---") and line.rstrip() == "---"


def _parse_document(document: EpisodeDocument) -> EpisodeRecord:
    """Parse the episode record of a document.

    Raises:
        YamlTextError: it is malformed. The line of the error counts from the document's first, 0.
    """
    lines = [line.removesuffix("\r") for line in document.lines]
    if len(document.raw.encode()) > MAX_DOCUMENT_BYTES:
        raise YamlTextError(0, f"an episode of more than {MAX_DOCUMENT_BYTES:,} bytes")
    for number, line in enumerate(lines):
        if CONFLICT.match(line):
            raise YamlTextError(number, "merge conflict markers stand here")
    if document.close is None:
        raise YamlTextError(0, "the front matter is not closed by a line ---")
    lines_below = lines[document.close + 1 :]
    for number, line in enumerate(lines_below, document.close + 1):
        if _is_separator(line):
            raise YamlTextError(number, "the text has a line ---, and must be one line")
    try:
        nodes = parse_nested(lines[1 : document.close])
        return _convert_record(nodes, "\n".join(lines_below).strip())
    except YamlTextError as error:
        raise YamlTextError(error.line + 1, error.reason) from error


def _convert_record(nodes: Mapping[str, YamlNode], body: str) -> EpisodeRecord:
    """Convert a parsed front matter and the text below it to an episode or an amendment.

    Raises:
        YamlTextError: it is malformed. The line of the error counts from the front matter's first.
    """
    values = {key: _to_builtins(node) for key, node in nodes.items()}
    if body and "text" in nodes:
        reason = "the episode has a text here and below the front matter: keep one of them"
        raise YamlTextError(nodes["text"].line, reason)
    kind: type[EpisodeRecord] = Episode if "occurred_at" in nodes else Amendment
    try:
        _check_times(nodes)
        defaults: dict[str, Any] = {"situation": {}, "text": body}
        record: EpisodeRecord = msgspec.convert(defaults | values, kind, strict=False)
        record = _convert_times(record)
    except msgspec.ValidationError as error:
        raise _locate_error(str(error), nodes) from error
    except OverflowError as error:
        raise YamlTextError(WHOLE, "a time lies outside of the calendar") from error
    problem = next(_list_problems(record), None)
    if problem:
        raise YamlTextError(WHOLE, problem)
    return record


def _convert_times(record: EpisodeRecord) -> EpisodeRecord:
    """Return an episode record with all times in UTC."""
    feedback = tuple(replace(event, at=to_utc(event.at)) for event in record.feedback)
    time = to_utc(_time_of(record))
    if isinstance(record, Episode):
        return replace(record, feedback=feedback, occurred_at=time)
    return replace(record, feedback=feedback, at=time)


def _to_builtins(node: YamlNode) -> Any:  # noqa: ANN401 - texts, lists and mappings
    """Convert a parsed YAML value to a string, a list or a dictionary."""
    if isinstance(node.value, str):
        return node.value
    if isinstance(node.value, dict):
        return {key: _to_builtins(inner) for key, inner in node.value.items()}
    return [_to_builtins(item) for item in node.value]


def _check_times(nodes: Mapping[str, YamlNode]) -> None:
    """Check the times of an episode record and its feedback: msgspec would convert a lone number.

    Raises:
        YamlTextError: a time has another form.
    """
    mappings = [nodes]
    feedback = nodes.get("feedback")
    if feedback is not None and isinstance(feedback.value, tuple):
        mappings += [item.value for item in feedback.value if isinstance(item.value, dict)]
    for mapping in mappings:
        for key in ("at", "occurred_at"):
            node = mapping.get(key)
            if node is None:
                continue
            is_time = isinstance(node.value, str) and TIME.fullmatch(node.value)
            if not is_time:
                reason = f"{key}: not a time like '2026-11-20T14:02:11+00:00'"
                raise YamlTextError(node.line, reason)


def _locate_error(message: str, nodes: Mapping[str, YamlNode]) -> YamlTextError:
    """Return a validation error of msgspec with the line of the value that it names.

    Args:
        message: the message of msgspec, which ends with the path of the value.
        nodes: the front matter. If the path leads out of it, the last value on the way has
            the line.
    """
    path_match = BAD_PLACE.search(message)
    if path_match is None:
        return YamlTextError(WHOLE, message)
    path = path_match.group(1)
    line = WHOLE
    container: object = nodes
    for key, index in STEP.findall(path):
        node: object = None
        if isinstance(container, Mapping):
            node = container.get(key)
        elif isinstance(container, tuple) and index:
            node = container[int(index)]
        if not isinstance(node, YamlNode):
            break
        line = node.line
        container = node.value
    reason = message[: path_match.start()]
    return YamlTextError(line, f"{path.lstrip('.')}: {reason}" if path else reason)


def date_document(document: EpisodeDocument, record: EpisodeRecord) -> DatedDocument:
    """Return the text of a document with the time and the id of its record."""
    return DatedDocument(_time_of(record), record.id, document.raw)


def join_documents(documents: Iterable[DatedDocument]) -> bytes:
    """Return the content of a file with these documents, in order of time."""
    return "\n".join(document.text for document in sorted(documents)).encode()
