"""The codec of episodes: files of documents to tellings and back, folded by month, and merged.

A document is front matter between two `---` lines and one line of text. A file of one document and
that of a whole month are read in the same way. Folding copies documents byte for byte, so that
unknown keys are kept.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from memory_ci.errors import UsageError
from memory_ci.records.episode import Amendment, Episode, EpisodeRecord, to_utc
from memory_ci.records.report import Finding
from memory_ci.regex import Regex
from memory_ci.store.document import not_utf8
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
"""The beginning of the name of a file with several tellings of one run."""
ID = Regex(r"[a-z0-9][a-z0-9.+-]{0,80}")
AMENDMENT_ID = Regex(r"[a-z0-9][a-z0-9.+-]{0,80}\+[0-9a-f]{12}|[a-z0-9][a-z0-9.+-]{0,80}")
KEY = Regex(r"[A-Za-z_][A-Za-z0-9_-]{0,60}")
# The first line of a front matter; no text below one begins like this.
OPENING = Regex(r"(?:id|at|occurred_at)[ \t]*:")
CONFLICT = Regex(r"<<<<<<< |>>>>>>> ")
TIME = Regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].+")
BAD_PLACE = Regex(r" - at `\$([^`]*)`\Z")
STEP = Regex(r"\.(\w+)|\[(\d+)\]")
SortKey = tuple[datetime, str, str]
"""Time, id and text of a document."""

WHOLE = -1  # The line of a fault that is in no line: the `---` above the front matter.
HINT = "`memory-ci help episodes` shows the form; what stands here is not used."


class ParsedEpisodes(msgspec.Struct, frozen=True):
    """The tellings of a file.

    Attributes:
        path: its path.
        tellings: the tellings that can be read.
        findings: remarks on text that cannot be read.
        lines: the line, 1-based, at which each telling begins.
    """

    path: str
    tellings: tuple[EpisodeRecord, ...]
    findings: tuple[Finding, ...]
    lines: tuple[int, ...] = ()


class _Document(msgspec.Struct, frozen=True):
    """A document in a file.

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


def telling_path(telling: EpisodeRecord) -> str:
    """Return the path of a telling, in the directory of its month (UTC).

    Raises:
        UsageError: the telling is not valid (bad-episode).
    """
    _require_valid(telling)
    month = _time_of(telling).astimezone(UTC).isoformat()[:7]
    return f"{EPISODES}/{month}/{telling.id}.md"


def run_path(tellings: Sequence[EpisodeRecord]) -> str:
    """Return the path of several tellings of one run, in the month (UTC) of the latest of them.

    Its name is a hash of its content, so two runs write the same file or two files.

    Raises:
        UsageError: a telling is not valid (bad-episode).
    """
    month = max(map(_time_of, tellings)).astimezone(UTC).isoformat()[:7]
    digest = hashlib.sha256(format_tellings(tellings)).hexdigest()[:12]
    return f"{EPISODES}/{month}/{RUN_PREFIX}{digest}.md"


def format_tellings(tellings: Iterable[EpisodeRecord]) -> bytes:
    """Return the documents of tellings in order of time.

    Raises:
        UsageError: a telling is not valid, or too long (bad-episode).
    """
    keys = [(_time_of(each), each.id, format_telling(each).decode()) for each in tellings]
    return _join_documents(keys)


def list_ids(path: str, data: bytes) -> tuple[str, ...]:
    """Return the ids of the episodes in a file that a run wrote.

    Args:
        path: the path, which names a single telling.
        data: the content, which is read only if it may hold several.
    """
    name = path.rpartition("/")[2].removesuffix(".md")
    if not name.startswith(RUN_PREFIX):
        return (name,)
    tellings = parse_episode_file(path, data).tellings
    return tuple(telling.id for telling in tellings) or (name,)


def format_telling(telling: EpisodeRecord) -> bytes:
    """Return the document of a telling.

    Raises:
        UsageError: the telling is not valid, or too long (bad-episode).
    """
    _require_valid(telling)
    fields = _list_fields(telling)
    body: list[str] = []
    # A text is below the front matter if it reads back there, else quoted within it.
    if _is_line(telling.text):
        body = [fields.pop("text")]
    head: list[str] = []
    for name, value in fields.items():
        if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
            head.append(f"{name}:")
            head += [f"- {_format_flow(item)}" for item in value]
        elif isinstance(value, str):
            head.append(f"{name}: {format_scalar(value)}")
        else:
            head.append(f"{name}: {_format_flow(value)}")

    data = "\n".join(["---", *head, "---", *body, ""]).encode()
    if len(data) > MAX_DOCUMENT_BYTES:
        message = (
            f"the episode {telling.id} is {len(data):,} bytes, "
            f"over the limit of {MAX_DOCUMENT_BYTES:,}"
        )
        raise UsageError(message, slug="bad-episode", hint="Name fewer files.")
    return data


def _is_line(text: str) -> bool:
    """Return whether a text reads back as the line below a front matter."""
    if text == "" or text != text.strip() or text.startswith("---"):
        return False
    return not (UNPRINTABLE.search(text) or OPENING.match(text) or CONFLICT.match(text))


def _list_fields(record: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a record that differ from their defaults; of an episode its outcome too.

    A required field is left out if it is an empty mapping.
    """
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(record):
        value = getattr(record, field.name)
        default = {} if field.default is msgspec.NODEFAULT else field.default
        is_outcome = isinstance(record, Episode) and field.name == "outcome"
        if value != default or is_outcome:
            fields[field.name] = value
    return fields


def _format_flow(value: object) -> str:
    """Return a value on one line, as it may be in braces."""
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


def _require_valid(telling: EpisodeRecord) -> None:
    """Check a telling before it is written.

    Raises:
        UsageError: it is not valid (bad-episode).
    """
    problem = next(_list_problems(telling), None)
    if problem:
        hint = "`memory-ci help episodes` says what an episode may hold."
        raise UsageError(f"this is no episode: {problem}", slug="bad-episode", hint=hint)


def _list_problems(telling: EpisodeRecord) -> Iterator[str]:
    """Return why a telling is not valid, whether it is written or read."""
    is_episode = isinstance(telling, Episode)
    if not (ID if is_episode else AMENDMENT_ID).fullmatch(telling.id):
        yield f"the id {telling.id!r} is not of lower-case letters, digits, `.`, `+` and `-`"
    times = [_time_of(telling), *(event.at for event in telling.feedback)]
    if any(time.tzinfo is None for time in times):
        yield "a time has no zone, as `+00:00`"
    if telling.valence is not None and not 0 <= telling.valence <= 1:
        yield f"the valence {telling.valence} is not a number from 0.0 to 1.0"
    if isinstance(telling, Episode):
        counts = [telling.action.pr or 0, *(entry.rank for entry in telling.retrieved)]
        if not all(0 <= count <= MAX_COUNT for count in counts):
            yield "a rank or number is not a whole number of 0 or more"
        for key in telling.context:
            if not KEY.fullmatch(key):
                yield f"the key {key!r} of the context is no word"
    elif telling.amends and not ID.fullmatch(telling.amends):
        yield f"it amends {telling.amends!r}, which is no id"
    if any(SURROGATE.search(text) for text in list_texts(telling)):
        yield "it holds half a character"


def list_texts(value: object) -> Iterator[str]:
    """Return every text in a record, however deep, except the keys of mappings."""
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


def _time_of(telling: EpisodeRecord) -> datetime:
    return telling.occurred_at if isinstance(telling, Episode) else telling.at


def parse_episode_file(path: str, data: bytes) -> ParsedEpisodes:
    """Return the tellings of a file. Never raises: text that cannot be read becomes a finding."""
    documents, findings = _read_documents(path, data)
    tellings = tuple(telling for _, telling in documents)
    lines = tuple(document.first + 1 for document, _ in documents)
    return ParsedEpisodes(path, tellings, findings, lines)


def edit_tellings(
    path: str, data: bytes, change: Callable[[EpisodeRecord], EpisodeRecord]
) -> bytes:
    """Return a file with its tellings changed; an unchanged telling keeps its text.

    Args:
        path: the path of the file.
        data: its content.
        change: returns the new state of a telling.

    Raises:
        UsageError: a new telling is not valid (bad-episode).
    """
    documents, _ = _read_documents(path, data)
    for document, telling in documents:
        new_telling = change(telling)
        if new_telling != telling:
            old_text = document.raw.rstrip().encode()
            data = data.replace(old_text, format_telling(new_telling).rstrip())
    return data


def _read_documents(
    path: str, data: bytes
) -> tuple[list[tuple[_Document, EpisodeRecord]], tuple[Finding, ...]]:
    """Return the documents of a file with their tellings, and findings on other text."""
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
    above = lines[: documents[0].first if documents else len(lines)]
    loose_line = next((number for number, line in enumerate(above, 1) if line.strip()), None)
    if loose_line is not None:
        message = "this text belongs to no episode"
        findings.append(Finding(path, loose_line, "bad-episode", message, HINT))
    elif not documents:
        findings.append(Finding(path, 1, "bad-episode", "the file holds no episode", HINT))

    readable: list[tuple[_Document, EpisodeRecord]] = []
    for document in documents:
        try:
            readable.append((document, _parse_document(document)))
        except YamlTextError as error:
            line_number = document.first + error.line + 1
            findings.append(Finding(path, line_number, "bad-episode", error.reason, HINT))
    return readable, tuple(findings)


def _split_documents(lines: Sequence[str]) -> list[_Document]:
    """Return the documents of a file.

    Each begins at a `---` that an `id:` or a time follows before the next one.
    """
    bounds = [number for number, line in enumerate(lines) if _is_bound(line)]
    ends = [*bounds, len(lines)][1:]
    openings: list[tuple[int, int | None]] = []
    closing = -1  # The `---` that closes the last document.
    for first, end in zip(bounds, ends, strict=True):
        if first == closing or not _has_opening(lines[first + 1 : end]):
            continue
        is_closed = end < len(lines) and not _has_opening(lines[end + 1 : end + 2])
        openings.append((first, end - first if is_closed else None))
        closing = end if is_closed else -1

    starts = [*(first for first, _ in openings), len(lines)]
    return [
        _Document(first, tuple(lines[first:stop]), close)
        for (first, close), stop in zip(openings, starts[1:], strict=True)
    ]


def _has_opening(lines: Sequence[str]) -> bool:
    return any(OPENING.match(line) for line in lines)


def _is_bound(line: str) -> bool:
    return line.startswith("---") and line.rstrip() == "---"


def _parse_document(document: _Document) -> EpisodeRecord:
    """Return the telling of a document.

    Raises:
        YamlTextError: it is malformed; the line is counted from that of the document.
    """
    lines = [line.removesuffix("\r") for line in document.lines]
    if len(document.raw.encode()) > MAX_DOCUMENT_BYTES:
        raise YamlTextError(0, f"an episode of more than {MAX_DOCUMENT_BYTES:,} bytes")
    for number, line in enumerate(lines):
        if CONFLICT.match(line):
            raise YamlTextError(number, "merge conflict markers stand here")
    if document.close is None:
        raise YamlTextError(0, "the front matter is not closed by a line ---")
    below = lines[document.close + 1 :]
    for number, line in enumerate(below, document.close + 1):
        if _is_bound(line):
            raise YamlTextError(number, "a line --- stands in the text, which is one line")
    try:
        nodes = parse_nested(lines[1 : document.close])
        return _convert(nodes, "\n".join(below).strip())
    except YamlTextError as error:
        raise YamlTextError(error.line + 1, error.reason) from error


def _convert(nodes: Mapping[str, YamlNode], body: str) -> EpisodeRecord:
    """Return the telling of a front matter and the text below it.

    Raises:
        YamlTextError: it is malformed; the line is that in the front matter.
    """
    values = {key: _to_builtins(node) for key, node in nodes.items()}
    if body and "text" in nodes:
        reason = "its text stands here and below the front matter: keep one"
        raise YamlTextError(nodes["text"].line, reason)
    kind: type[EpisodeRecord] = Episode if "occurred_at" in nodes else Amendment
    try:
        _check_times(nodes)
        defaults: dict[str, Any] = {"situation": {}, "text": body}
        telling: EpisodeRecord = msgspec.convert(defaults | values, kind, strict=False)
        telling = _convert_times(telling)
    except msgspec.ValidationError as error:
        raise _locate_error(str(error), nodes) from error
    except OverflowError as error:
        raise YamlTextError(WHOLE, "a time lies outside of the calendar") from error
    problem = next(_list_problems(telling), None)
    if problem:
        raise YamlTextError(WHOLE, problem)
    return telling


def _convert_times(telling: EpisodeRecord) -> EpisodeRecord:
    """Return a telling with all times in UTC."""
    feedback = tuple(replace(event, at=to_utc(event.at)) for event in telling.feedback)
    time = to_utc(_time_of(telling))
    if isinstance(telling, Episode):
        return replace(telling, feedback=feedback, occurred_at=time)
    return replace(telling, feedback=feedback, at=time)


def _to_builtins(node: YamlNode) -> Any:  # noqa: ANN401 - texts, lists and mappings
    if isinstance(node.value, str):
        return node.value
    if isinstance(node.value, dict):
        return {key: _to_builtins(inner) for key, inner in node.value.items()}
    return [_to_builtins(item) for item in node.value]


def _check_times(nodes: Mapping[str, YamlNode]) -> None:
    """Check the form of times: msgspec takes a lone number for seconds since 1970.

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
            if not isinstance(node.value, str) or not TIME.fullmatch(node.value):
                reason = f"{key}: not a time like '2026-11-20T14:02:11+00:00'"
                raise YamlTextError(node.line, reason)


def _locate_error(message: str, nodes: Mapping[str, YamlNode]) -> YamlTextError:
    """Return msgspec's error with the line of the value that it names, as precise as possible."""
    place = BAD_PLACE.search(message)
    if place is None:
        return YamlTextError(WHOLE, message)
    path = place.group(1)
    line = WHOLE
    value: object = nodes
    for key, index in STEP.findall(path):
        node: object = None
        if isinstance(value, Mapping):
            node = value.get(key)
        elif isinstance(value, tuple) and index:
            node = value[int(index)]
        if not isinstance(node, YamlNode):
            break
        line = node.line
        value = node.value
    reason = message[: place.start()]
    return YamlTextError(line, f"{path.lstrip('.')}: {reason}" if path else reason)


def fold_months(files: Mapping[str, bytes | None], before: date) -> dict[str, bytes | None]:
    """Fold the files of each month that ended before a day into one.

    Documents are copied byte for byte, each once, in order of time. A file with text that cannot be
    read stays.

    Args:
        files: the content of files of episodes; None for an unreadable file.
        before: the day.

    Returns:
        The new content of each changed file; None for a deleted file.
    """
    files_by_month: defaultdict[str, dict[str, bytes | None]] = defaultdict(dict)
    for path in sorted(files):
        month = find_month(path)
        if month is not None and has_ended(month, before):
            files_by_month[month][path] = files[path]
    changes: dict[str, bytes | None] = {}
    for month, month_files in files_by_month.items():
        changes |= _fold_month(month_path(month), month_files)
    return changes


def _fold_month(target: str, files: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    """Fold the files of a month into `target`; return the files that change."""
    readable_paths: list[str] = []
    sizes: list[int] = []
    keys: set[SortKey] = set()
    for path, data in files.items():
        if data is None:
            continue
        documents, findings = _read_documents(path, data)
        if not findings:
            readable_paths.append(path)
            sizes.append(len(data))
            keys.update(_sort_key(document, telling) for document, telling in documents)
    single_paths = [path for path in readable_paths if path != target]
    if not single_paths or (target in files and target not in readable_paths):
        return {}

    folded = _join_documents(keys)
    # If one file were half of a new file, git would take the file for a rename of it. And where
    # two branches fold the month, one of them with more in it, git would find a conflict of names
    # for which it calls no merge driver.
    is_mostly_one = max(sizes) * 2 >= len(folded)
    if len(folded) > MAX_FILE_BYTES or (target not in files and is_mostly_one):
        return {}
    return {target: folded, **dict.fromkeys(single_paths)}


def _sort_key(document: _Document, telling: EpisodeRecord) -> SortKey:
    return _time_of(telling), telling.id, document.raw


def _join_documents(keys: Iterable[SortKey]) -> bytes:
    """Return the text of documents in order of time."""
    return "\n".join(raw for _, _, raw in sorted(keys)).encode()


def merge_documents(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, int] | None:
    """Merge the documents of two sides.

    A document is dropped only if one side deleted it and the other did not change it. Two different
    ones with one id are put between git's conflict markers.

    Args:
        base: the file at the merge base.
        ours: the file of our side.
        theirs: the file of their side.

    Returns:
        The documents in order of time, and the number of conflicts; None if a side cannot be read
        completely or the result is too long.
    """
    sides: list[dict[str, SortKey]] = []
    for data in (base, ours, theirs):
        side = _group_by_id(data)
        if side is None:
            return None
        sides.append(side)

    merged: list[SortKey] = []
    conflicts = 0
    for document_id in set().union(*sides):
        versions = [side.get(document_id) for side in sides]
        document, is_conflict = _merge_document(*versions)
        conflicts += is_conflict
        if document is not None:
            merged.append(document)
    data = _join_documents(merged)
    return (data, conflicts) if len(data) <= MAX_FILE_BYTES else None


def _group_by_id(data: bytes) -> dict[str, SortKey] | None:
    """Return the documents of a file by id.

    None if one cannot be read, two share an id, or line endings are mixed.
    """
    if b"\r" in data:
        return None
    if not data.strip():
        return {}
    documents, findings = _read_documents("", data)
    keys = {_sort_key(document, telling) for document, telling in documents}
    by_id = {key[1]: key for key in keys}
    return None if findings or len(by_id) < len(keys) else by_id


def _merge_document(
    base: SortKey | None, ours: SortKey | None, theirs: SortKey | None
) -> tuple[SortKey | None, bool]:
    """Merge three versions of a document; return it and whether it is in conflict."""
    if ours == theirs or base == theirs:
        return ours, False
    if base == ours:
        return theirs, False
    if ours is None or theirs is None:
        return ours or theirs, False
    time, document_id, raw = ours
    conflict = f"<<<<<<< ours\n{raw}=======\n{theirs[2]}>>>>>>> theirs\n"
    return (time, document_id, conflict), True
