"""Merged changes as events: commits, decision records, and the files that a job wrote for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from memory_ci.records.event import Actor, Event, EventKind, Origin
from memory_ci.records.history import Commit, MergedChange
from memory_ci.regex import Regex

MAX_FILES = 100  # Files that a summary of a change names.

TOKEN = Regex(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|.", re.DOTALL)
WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

PREMORTEM = ".premortem.md"
ASSUMPTIONS = ".assumptions.jsonl"
INTERVENTIONS = ".interventions.jsonl"
INTENT = "INTENT.md"

KINDS: dict[str, EventKind] = {
    PREMORTEM: "premortem",
    ASSUMPTIONS: "assumption",
    INTERVENTIONS: "intervention",
    INTENT: "intent",
}
"""The kinds of events of job files, which a job wrote before and while it worked."""

WORD_KEYS = ("assumption", "text", "message", "intervention", "feedback", "outcome", "because")
"""Keys of a record whose values are somebody's words, in the order of the event's text."""

MAX_LINES = 500
SECTION = Regex(r"^(?=[ \t>]*#{1,6}[ \t])", re.MULTILINE)
ITEM = Regex(r"^(?P<indent>[^\S\n]*(?:>[^\S\n]*)*)(?:[-*+]|[0-9]+[.)])[^\S\n]+", re.MULTILINE)

FROM = Regex(r"(?<![^\W_])From[\W_]*:[\W_]*(?P<who>a\s+model|memory)\b", re.IGNORECASE)
"""The source of an item of a pre-mortem, however its lines were wrapped or marked since."""


def commit_events(change: MergedChange) -> tuple[Event, ...]:
    """Return one event per commit of a change, oldest first, the merge commit included."""
    return tuple(
        Event(
            seq=seq,
            at=commit.committed_at,
            actor="human",
            kind="commit",
            text=commit.message,
            origin=Origin(kind="commit", id=commit.sha),
            author=author_of(commit),
            paths=tuple(file.path for file in commit.files),
            labels=commit.trailers,
            is_merge=len(commit.parents) > 1,
        )
        for seq, commit in enumerate(change.commits)
    )


def diff_event(change: MergedChange) -> Event:
    """Return the status of each file of a change, one a line, to compare intentions with."""
    statuses = {file.path: file.status for commit in change.commits for file in commit.files}
    lines = [f"{status} {path}" for path, status in list(statuses.items())[:MAX_FILES]]
    if len(statuses) > MAX_FILES:
        lines.append(f"and {len(statuses) - MAX_FILES} more")
    return Event(
        seq=len(change.commits),
        at=change.tip.committed_at,
        actor="system",
        kind="diff",
        text="\n".join(lines),
        origin=Origin(kind="commit", id=change.tip.sha),
        paths=tuple(statuses),
    )


def author_of(commit: Commit) -> str:
    """Return `Name <e-mail>`, as git prints it and as author patterns are matched."""
    return f"{commit.author} <{commit.email}>"


def file_event(
    change: MergedChange,
    path: str,
    kind: EventKind,
    text: str,
    actor: Actor = "human",
    *,
    line: int | None = None,
    labels: tuple[tuple[str, str], ...] = (),
) -> Event:
    """Return the event of a file of a change, or of one of its lines, as of the change's tip."""
    return Event(
        seq=0,
        at=change.tip.committed_at,
        actor=actor,
        kind=kind,
        text=text,
        origin=Origin(kind="commit", id=change.tip.sha, path=path, line=line),
        author=author_of(change.tip),
        paths=(path,),
        labels=labels,
    )


def list_added_adrs(change: MergedChange, patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that a change added (git status A) and that match a pattern, each once.

    `*` and `?` stay inside one path segment, `**/` is any number of segments, `[0-9]` is a class.
    """
    globs = compile_globs(patterns)
    matching: dict[str, None] = {}
    for commit in change.commits:
        for file in commit.files:
            if file.status == "A" and any(glob.fullmatch(file.path) for glob in globs):
                matching[file.path] = None
    return tuple(matching)


def compile_globs(patterns: Iterable[str]) -> list[re.Pattern[str]]:
    """Return the regular expressions of globs, as `list_added_adrs` reads them."""
    return [
        re.compile("".join(_translate(token) for token in TOKEN.findall(pattern)))
        for pattern in patterns
    ]


def _translate(token: str) -> str:
    """Return the regular expression of a token of a glob."""
    if token.startswith("[") and len(token) > 1:
        return token.replace("[!", "[^", 1)
    return WILDCARDS.get(token) or re.escape(token)


def list_job_files(change: MergedChange) -> tuple[str, ...]:
    """Return the paths of job files that a change wrote, each once."""
    paths: dict[str, None] = {}
    for commit in change.commits:
        for file in commit.files:
            if file.status != "D" and PurePosixPath(file.path).name in KINDS:
                paths[file.path] = None
    return tuple(paths)


def job_events(change: MergedChange, path: str, text: str, before: str = "") -> Iterator[Event]:
    """Yield the events of one job file: of a document one, of a log one for each new line.

    A model's risks in a pre-mortem are an event of their own, and an agent's; risks from memory are
    none. Lines end with a line feed only: JSON may hold the other characters that `splitlines`
    knows.

    Args:
        change: the change.
        path: the path of the file.
        text: its text at the tip of the change.
        before: its text before the change.
    """
    kind = KINDS[PurePosixPath(path).name]
    if path.endswith(".jsonl"):
        yield from _iter_log_events(change, path, kind, text, before)
        return
    if text == before:
        return
    if kind != "premortem":
        yield file_event(change, path, kind, text)
        return
    own_text, model_text = _split_risks(text)
    yield file_event(change, path, kind, own_text)
    if model_text:
        yield file_event(change, path, kind, model_text, actor="agent")


def _iter_log_events(
    change: MergedChange, path: str, kind: EventKind, text: str, before: str
) -> Iterator[Event]:
    old_lines = frozenset(before.split("\n"))
    numbered = list(enumerate(text.split("\n"), start=1))
    for number, line in numbered[-MAX_LINES:]:
        if line in old_lines:
            continue
        record = _parse_record(line)
        values = [record.get(key) for key in WORD_KEYS]
        words = [value for value in values if isinstance(value, str) and value.strip()]
        if not words:
            continue
        labels = []
        for key in ("state", "milestone"):
            value = record.get(key)
            if isinstance(value, str):
                labels.append((key, value))
        actor: Actor = "agent" if record.get("by") else "human"
        event_text = "\n".join(words)
        yield file_event(change, path, kind, event_text, actor, line=number, labels=tuple(labels))


def _split_risks(text: str) -> tuple[str, str]:
    """Return a pre-mortem without risks of a model or memory, and the risks of a model.

    If such a risk comes before the first item of a section, its end is unknown: then all of the
    text is theirs.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    items: list[str] = []
    for section in SECTION.split(text):
        section_items = _split_items(section)
        if FROM.search(section_items[0]):
            items = [text]
            break
        items += section_items

    own_items = []
    model_items = []
    for item in items:
        sources = {match["who"].lower() for match in FROM.finditer(item)}
        if not sources:
            own_items.append(item)
        elif sources != {"memory"}:
            model_items.append(item)
    return "".join(own_items), "".join(model_items)


def _split_items(section: str) -> list[str]:
    """Return the text before the outermost items of a list, and each of these items.

    The section stays whole if one of the items only names its source.
    """
    matches = list(ITEM.finditer(section))
    indents = [len(match["indent"].expandtabs(4)) for match in matches]
    outermost = min(indents, default=0)
    starts = [0]
    for match, indent in zip(matches, indents, strict=True):
        if indent != outermost:
            continue
        if re.match(r"[\W_]*from[\W_]*:", section[match.end() :], re.IGNORECASE):
            return [section]
        starts.append(match.start())
    return [section[start:end] for start, end in pairwise([*starts, len(section)])]


def _parse_record(line: str) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
