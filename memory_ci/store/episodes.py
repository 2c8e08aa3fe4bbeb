"""The episode codec: files of documents to tellings and back, months that become one file each, and their merging.

A document is front matter between two `---` lines and one line of text. A file of one document and that of a whole
month are read alike. What is folded is copied as it stands, so that keys nobody here knows survive.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from memory_ci.errors import UsageError
from memory_ci.records.episode import Amendment, Episode, Telling, in_utc
from memory_ci.records.report import Finding
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

MAX_DOCUMENT_BYTES = 64_000
MAX_FILE_BYTES = 20 * 1024 * 1024
PATH = re.compile(rf"{re.escape(EPISODES)}/([0-9]{{4}}-(?:0[1-9]|1[0-2]))/[^/]+\.md", re.DOTALL)
# What a month becomes. It stays in its directory: were that gone, git would move what others add to it elsewhere.
MONTH_FILE = "_all.md"
ID = re.compile(r"[a-z0-9][a-z0-9.+-]{0,80}")
AMENDMENT_ID = re.compile(r"[a-z0-9][a-z0-9.+-]{0,80}\+[0-9a-f]{12}|[a-z0-9][a-z0-9.+-]{0,80}")
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,60}")
OPENING = re.compile(r"(?:id|at|occurred_at)[ \t]*:")  # Begins no text below a front matter.
CONFLICT = re.compile(r"<<<<<<< |>>>>>>> ")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].+")
BAD_PLACE = re.compile(r" - at `\$([^`]*)`\Z")
STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_Placed = tuple[datetime, str, str]  # What a document is sorted by: its time and id, then its text.
WHOLE = -1  # The line of what no line is at fault for: the `---` above the front matter.
HINT = "`memory-ci help episodes` shows the form; what stands here is not used."


class ParsedEpisodes(msgspec.Struct, frozen=True):
    """What one file tells, and what of it cannot be read.
    `lines` has the line, from 1, at which each telling begins."""

    path: str
    tellings: tuple[Telling, ...]
    findings: tuple[Finding, ...]
    lines: tuple[int, ...] = ()


class _Document(msgspec.Struct, frozen=True):
    """Lines of a file from its 0-based `first`; `close` is its second `---` among them, None where it has none."""

    first: int
    lines: tuple[str, ...]
    close: int | None

    @property
    def raw(self) -> str:
        return "\n".join(self.lines).rstrip(" \t\r\n") + "\n"


def is_episode_path(path: str) -> bool:
    """Whether `path` is a file of episodes: one in the directory of a month.

    >>> [is_episode_path(f".memory/episodes/{name}") for name in ("2026-11/pr-1.md", "2026-11/_all.md", "x.md")]
    [True, True, False]
    """
    return find_month(path) is not None


def find_month(path: str) -> str | None:
    """The month that a file of episodes is of, as `2026-11`; None for another file."""
    match = PATH.fullmatch(path)
    return match.group(1) if match else None


def has_ended(month: str, before: date) -> bool:
    """Whether a month was over before a day.

    >>> [has_ended("2026-10", date(2026, 11, day)) for day in (1, 30)], has_ended("2026-11", date(2026, 11, 30))
    ([True, True], False)
    """
    return month < before.isoformat()[:7]


def month_path(month: str) -> str:
    return f"{EPISODES}/{month}/{MONTH_FILE}"


def telling_path(telling: Telling) -> str:
    """The file of a telling, in the directory of its month (UTC). Raises UsageError (bad-episode)."""
    _refuse(telling)
    return f"{EPISODES}/{_time(telling).astimezone(UTC).isoformat()[:7]}/{telling.id}.md"


def format_telling(telling: Telling) -> bytes:
    """The document of a telling. Raises UsageError (bad-episode) for what would not read back as it is."""
    _refuse(telling)
    said, text, body = _said(telling), telling.text, list[str]()
    # A text stands below the front matter if it can be there as it is; any other is quoted within.
    is_line = (
        text == text.strip() != "" and not text.startswith("---") and not UNPRINTABLE.search(text)
    )
    if is_line and not OPENING.match(text) and not CONFLICT.match(text):
        body = [said.pop("text")]
    head: list[str] = []
    for name, value in said.items():
        if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
            head += [f"{name}:", *(f"- {_flow(item)}" for item in value)]
        else:
            head.append(
                f"{name}: {format_scalar(value) if isinstance(value, str) else _flow(value)}"
            )
    data = "\n".join(["---", *head, "---", *body, ""]).encode()
    if len(data) > MAX_DOCUMENT_BYTES:
        message = f"the episode {telling.id} is {len(data):,} bytes, over the limit of {MAX_DOCUMENT_BYTES:,}"
        raise UsageError(message, slug="bad-episode", hint="Name fewer files.")
    return data


def _said(record: msgspec.Struct) -> dict[str, Any]:
    """The fields of a record that say something: those that are required, and those that are not as by default."""
    kept = {"outcome"} if isinstance(record, Episode) else set()
    found = [(field, getattr(record, field.name)) for field in msgspec.structs.fields(record)]
    blank = {
        field.name: {} if field.default is msgspec.NODEFAULT else field.default
        for field, _ in found
    }
    return {
        field.name: value
        for field, value in found
        if value != blank[field.name] or field.name in kept
    }


def _flow(value: object) -> str:
    """A value on one line, as it may stand in braces."""
    match value:
        case str():
            return value if UUID.fullmatch(value) else format_flow_scalar(value)
        case datetime():
            return quote_scalar(value.astimezone(UTC).isoformat())
        case float():
            return format_share(value)
        case tuple():
            return f"[{', '.join(map(_flow, value))}]"
        case dict():
            return (
                "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
            )
        case msgspec.Struct():
            return _flow(_said(value))
    return str(value)


def _refuse(telling: Telling) -> None:
    if problem := next(_problems(telling), None):
        hint = "`memory-ci help episodes` says what an episode may hold."
        raise UsageError(f"this is no episode: {problem}", slug="bad-episode", hint=hint)


def _problems(telling: Telling) -> Iterator[str]:
    """What it may not hold, whether it is written or read."""
    is_episode = isinstance(telling, Episode)
    if not (ID if is_episode else AMENDMENT_ID).fullmatch(telling.id):
        yield f"the id {telling.id!r} is not of lower-case letters, digits, `.`, `+` and `-`"
    if any(
        time.tzinfo is None for time in (_time(telling), *(said.at for said in telling.feedback))
    ):
        yield "a time has no zone, as `+00:00`"
    if telling.valence is not None and not 0 <= telling.valence <= 1:
        yield f"the valence {telling.valence} is not a number from 0.0 to 1.0"
    if isinstance(telling, Episode):
        counts = (*(given.rank for given in telling.retrieved), telling.action.pr or 0)
        if not all(0 <= count <= MAX_COUNT for count in counts):
            yield "a rank or number is not a whole number of 0 or more"
        yield from (
            f"the key {key!r} of the context is no word"
            for key in telling.context
            if not KEY.fullmatch(key)
        )
    elif telling.amends and not ID.fullmatch(telling.amends):
        yield f"it amends {telling.amends!r}, which is no id"
    if any(map(SURROGATE.search, list_texts(telling))):
        yield "it holds half a character"


def list_texts(value: object) -> Iterator[str]:
    """Every text in a record, however deep; keys of a mapping are none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from list_texts(getattr(value, name))
    elif isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from list_texts(item)


def _time(telling: Telling) -> datetime:
    return telling.occurred_at if isinstance(telling, Episode) else telling.at


def parse_episode_file(path: str, data: bytes) -> ParsedEpisodes:
    """What a file tells. Never raises: what cannot be read is a finding, and the rest is served."""
    read, findings = _read(path, data)
    lines = tuple(document.first + 1 for document, _ in read)
    return ParsedEpisodes(path, tuple(telling for _, telling in read), findings, lines)


def edit_tellings(path: str, data: bytes, change: Callable[[Telling], Telling]) -> bytes:
    """The file with its tellings changed; one that stays as it is keeps its text. Raises UsageError (bad-episode)."""
    for document, telling in _read(path, data)[0]:
        if (new := change(telling)) != telling:
            data = data.replace(document.raw.rstrip().encode(), format_telling(new).rstrip())
    return data


def _read(path: str, data: bytes) -> tuple[list[tuple[_Document, Telling]], tuple[Finding, ...]]:
    if len(data) > MAX_FILE_BYTES:
        message = f"the file is {len(data):,} bytes, over the limit of {MAX_FILE_BYTES:,}"
        return [], (Finding(path, 1, "bad-episode", message, "Split it, or restore it from git."),)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], (not_utf8(path, data, error),)
    read: list[tuple[_Document, Telling]] = []
    findings: list[Finding] = []
    lines = text.split("\n")
    documents = _split(lines)
    above = lines[: documents[0].first if documents else len(lines)]
    loose = next((number for number, line in enumerate(above, 1) if line.strip()), 0)
    if loose or not documents:
        message = "this text belongs to no episode" if loose else "the file holds no episode"
        findings.append(Finding(path, loose or 1, "bad-episode", message, HINT))
    for document in documents:
        try:
            read.append((document, _parse(document)))
        except YamlTextError as error:
            findings.append(
                Finding(path, document.first + error.line + 1, "bad-episode", error.reason, HINT)
            )
    return read, tuple(findings)


def _split(lines: Sequence[str]) -> list[_Document]:
    """The documents of a file: each begins at a `---` that an `id:` or a time follows before the next one."""
    bounds = [number for number, line in enumerate(lines) if _is_bound(line)]
    ends = [*bounds, len(lines)][1:]
    opened: list[tuple[int, int | None]] = []
    skipped = -1
    for place, (first, end) in enumerate(zip(bounds, ends, strict=True)):
        if place == skipped or not any(OPENING.match(line) for line in lines[first + 1 : end]):
            continue
        is_closed = end < len(lines) and not any(
            OPENING.match(line) for line in lines[end + 1 : end + 2]
        )
        opened.append((first, end - first if is_closed else None))
        skipped = place + 1 if is_closed else -1
    starts = [*(first for first, _ in opened), len(lines)]
    ranges = zip(opened, starts[1:], strict=True)
    return [_Document(first, tuple(lines[first:end]), close) for (first, close), end in ranges]


def _is_bound(line: str) -> bool:
    return line.startswith("---") and line.rstrip() == "---"


def _parse(document: _Document) -> Telling:
    """The telling of a document. Raises YamlTextError with a line that is counted from the document's."""
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
        return _convert(parse_nested(lines[1 : document.close]), "\n".join(below).strip())
    except YamlTextError as error:
        raise YamlTextError(error.line + 1, error.reason) from error


def _convert(nodes: Mapping[str, YamlNode], body: str) -> Telling:
    plain = {key: _plain(node) for key, node in nodes.items()}
    if body and "text" in nodes:
        raise YamlTextError(
            nodes["text"].line, "its text stands here and below the front matter: keep one"
        )
    kind: type[Telling] = Episode if "occurred_at" in nodes else Amendment
    try:
        _check_times(nodes)
        read: Telling = msgspec.convert({"situation": {}, "text": body} | plain, kind, strict=False)
        feedback = tuple(replace(said, at=in_utc(said.at)) for said in read.feedback)
        name = "occurred_at" if isinstance(read, Episode) else "at"
        telling: Telling = replace(read, feedback=feedback, **{name: in_utc(_time(read))})
    except msgspec.ValidationError as error:
        raise _explain(str(error), nodes) from error
    except OverflowError as error:
        raise YamlTextError(WHOLE, "a time lies outside of the calendar") from error
    if problem := next(_problems(telling), None):
        raise YamlTextError(WHOLE, problem)
    return telling


def _plain(node: YamlNode) -> Any:  # noqa: ANN401 - texts, lists and mappings
    if isinstance(node.value, str):
        return node.value
    if isinstance(node.value, dict):
        return {key: _plain(inner) for key, inner in node.value.items()}
    return [_plain(item) for item in node.value]


def _check_times(nodes: Mapping[str, YamlNode]) -> None:
    """A time is written as one: msgspec takes a lone number for seconds since 1970."""
    feedback = nodes.get("feedback", YamlNode((), 0)).value
    items = feedback if isinstance(feedback, tuple) else ()
    for mapping in (nodes, *(item.value for item in items if isinstance(item.value, dict))):
        for key in ("at", "occurred_at"):
            node = mapping.get(key)
            if node is not None and not (
                isinstance(node.value, str) and TIME.fullmatch(node.value)
            ):
                raise YamlTextError(
                    node.line, f"{key}: not a time like '2026-11-20T14:02:11+00:00'"
                )


def _explain(message: str, nodes: Mapping[str, YamlNode]) -> YamlTextError:
    """msgspec's error with the line of the value that it names, as far down as that can be told."""
    place = BAD_PLACE.search(message)
    path = place.group(1) if place else ""
    node: YamlNode | None = None
    for key, index in STEP.findall(path):
        inner = nodes if node is None else node.value
        found = (
            inner.get(key) if isinstance(inner, Mapping) else inner[int(index)] if index else None
        )
        if not isinstance(found, YamlNode):
            break
        node = found
    reason = message[: place.start()] if place else message
    return YamlTextError(
        node.line if node else WHOLE, f"{path.lstrip('.')}: {reason}" if path else reason
    )


def fold_months(files: Mapping[str, bytes | None], before: date) -> dict[str, bytes | None]:
    """What changes when the files of each month that ended before `before` become one file; None: taken away. Documents
    are copied as they stand, each once, in order of time. A file of which something cannot be read stays; without bytes
    it is one that is there and cannot be read at all."""
    months: defaultdict[str, dict[str, bytes | None]] = defaultdict(dict)
    for path in sorted(files):
        if (month := find_month(path)) is not None and has_ended(month, before):
            months[month][path] = files[path]
    changes: dict[str, bytes | None] = {}
    for month, own in months.items():
        changes |= _fold(month_path(month), own)
    return changes


def _fold(target: str, files: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    read = {path: _read(path, data) for path, data in files.items() if data is not None}
    whole = {path: documents for path, (documents, findings) in read.items() if not findings}
    singles = [path for path in whole if path != target]
    if not singles or (target in files and target not in whole):
        return {}
    placed = {_place(*one) for documents in whole.values() for one in documents}
    data = _join(placed)
    # Were one document half of a new file, git would take that for its new name; and where two branches fold the month,
    # one of them with more in it, it would find a conflict of names that no merge driver is asked about.
    is_mostly_one = max(len(raw.encode()) for _, _, raw in placed) * 2 >= len(data)
    if len(data) > MAX_FILE_BYTES or (target not in files and is_mostly_one):
        return {}
    return {target: data, **dict.fromkeys(singles)}


def _place(document: _Document, telling: Telling) -> _Placed:
    return _time(telling), telling.id, document.raw


def _join(placed: Iterable[_Placed]) -> bytes:
    return "\n".join(raw for _, _, raw in sorted(placed)).encode()


def merge_documents(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, int] | None:
    """The documents of both sides in order of time, and how many conflict; None where a side cannot be read whole. Gone
    is only what one side took away and the other left as it was. Two that share an id stand between git's markers."""
    sides = [found for found in map(_by_id, (base, ours, theirs)) if found is not None]
    if len(sides) < 3:
        return None
    names = set().union(*sides)
    settled = [_settle(*(side.get(name) for side in sides)) for name in names]
    data = _join(placed for placed, _ in settled if placed is not None)
    return (
        (data, sum(is_disputed for _, is_disputed in settled))
        if len(data) <= MAX_FILE_BYTES
        else None
    )


def _by_id(data: bytes) -> dict[str, _Placed] | None:
    """The documents of a file by their ids; None where one cannot be read, two share an id, or line ends are mixed."""
    read, findings = _read("", data) if data.strip() else ([], ())
    placed = {_place(*one) for one in read}
    found = {one[1]: one for one in placed}
    return None if findings or len(found) < len(placed) or b"\r" in data else found


def _settle(
    base: _Placed | None, ours: _Placed | None, theirs: _Placed | None
) -> tuple[_Placed | None, bool]:
    """A document three ways, and whether it is in conflict."""
    if ours == theirs or base in (ours, theirs):
        return (theirs if ours == base else ours), False
    if ours is None or theirs is None:
        return ours or theirs, False
    time, name, raw = ours
    return (time, name, f"<<<<<<< ours\n{raw}=======\n{theirs[2]}>>>>>>> theirs\n"), True
