"""Events of merged changes: commits, decision records, and the files that an agent's job wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

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

RISK_SOURCE = Regex(r"(?<![^\W_])From[\W_]*:[\W_]*(?P<source>a\s+model|memory)\b", re.IGNORECASE)
"""The source of an item of a pre-mortem, however its lines were wrapped or marked since.

An example is `From: a model`.
"""


def make_commit_events(change: MergedChange) -> tuple[Event, ...]:
    """Return one event per commit of a change, oldest first, the merge commit included."""
    return tuple(
        Event(
            seq=seq,
            at=commit.committed_at,
            actor="human",
            kind="commit",
            text=commit.message,
            origin=Origin(kind="commit", id=commit.sha),
            author=format_author(commit),
            paths=tuple(file.path for file in commit.files),
            labels=commit.trailers,
            is_merge=len(commit.parents) > 1,
        )
        for seq, commit in enumerate(change.commits)
    )


def make_diff_event(change: MergedChange) -> Event:
    """Return an event with the git status and path of each file of a change, one a line.

    Extraction compares it with what job files say was intended. It comes after the events of the
    commits, so its number is their count.
    """
    status_by_path: dict[str, str] = {}
    for commit in change.commits:
        for file in commit.files:
            status_by_path[file.path] = file.status
    lines = [f"{status} {path}" for path, status in list(status_by_path.items())[:MAX_FILES]]
    if len(status_by_path) > MAX_FILES:
        lines.append(f"and {len(status_by_path) - MAX_FILES} more")
    return Event(
        seq=len(change.commits),
        at=change.tip.committed_at,
        actor="system",
        kind="diff",
        text="\n".join(lines),
        origin=Origin(kind="commit", id=change.tip.sha),
        paths=tuple(status_by_path),
    )


def format_author(commit: Commit) -> str:
    """Return `Name <e-mail>`, as git prints it and as author patterns are matched."""
    return f"{commit.author} <{commit.email}>"


def make_file_event(
    change: MergedChange,
    path: str,
    kind: EventKind,
    text: str,
    actor: Actor = "human",
    *,
    line: int | None = None,
    labels: tuple[tuple[str, str], ...] = (),
) -> Event:
    """Return the event of a file of a change, or of one of its lines, at the change's last commit.

    Args:
        change: the change.
        path: the path of the file.
        kind: the kind of the event.
        text: the text of the event.
        actor: who wrote the text.
        line: the line of the file, None for the whole file.
        labels: the marks of the event.
    """
    return Event(
        seq=0,
        at=change.tip.committed_at,
        actor=actor,
        kind=kind,
        text=text,
        origin=Origin(kind="commit", id=change.tip.sha, path=path, line=line),
        author=format_author(change.tip),
        paths=(path,),
        labels=labels,
    )


def list_added_adrs(change: MergedChange, patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the paths of decision records that a change added: those that match a glob, each once.

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
    """Return a regular expression for each glob, with the syntax that `list_added_adrs` names."""
    expressions = []
    for pattern in patterns:
        tokens = TOKEN.findall(pattern)
        expressions.append(re.compile("".join(_translate(token) for token in tokens)))
    return expressions


def _translate(token: str) -> str:
    """Return the regular expression of a token of a glob, such as `**/`, `[!a]` or a character."""
    if token.startswith("[") and len(token) > 1:
        return token.replace("[!", "[^", 1)
    return WILDCARDS.get(token) or re.escape(token)


def list_job_files(change: MergedChange) -> tuple[str, ...]:
    """Return the paths of the files of agents' jobs that a change added or changed, each once."""
    paths: dict[str, None] = {}
    for commit in change.commits:
        for file in commit.files:
            if file.status != "D" and PurePosixPath(file.path).name in KINDS:
                paths[file.path] = None
    return tuple(paths)


def make_job_events(
    change: MergedChange, path: str, text: str, before: str = ""
) -> Iterator[Event]:
    """Yield the events of one file of an agent's job: a document is one, a log one per new line.

    The risks in a pre-mortem that a model wrote are an event of their own with the actor "agent";
    risks that were copied from memory are left out.

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
        yield make_file_event(change, path, kind, text)
        return
    own_text, model_text = _split_risks(text)
    yield make_file_event(change, path, kind, own_text)
    if model_text:
        yield make_file_event(change, path, kind, model_text, actor="agent")


def _iter_log_events(
    change: MergedChange, path: str, kind: EventKind, text: str, before: str
) -> Iterator[Event]:
    """Yield an event for each line that a change adds to a log of a job, in JSON Lines.

    Records without any text under WORD_KEYS are left out. A record with the key `by` names the
    agent that wrote it; a person's has no such key.

    Args:
        change: the change.
        path: the path of the log.
        kind: the kind of its events.
        text: the log after the change.
        before: the log before the change.
    """
    old_lines = frozenset(before.split("\n"))
    # `splitlines` would also split at line separators like U+2028, which JSON may hold.
    numbered_lines = list(enumerate(text.split("\n"), start=1))
    for number, line in numbered_lines[-MAX_LINES:]:
        if line in old_lines:
            continue
        record = _parse_record(line)
        values = [record.get(key) for key in WORD_KEYS]
        texts = [value for value in values if isinstance(value, str) and value.strip()]
        if not texts:
            continue
        labels = []
        for key in ("state", "milestone"):
            value = record.get(key)
            if isinstance(value, str):
                labels.append((key, value))
        actor: Actor = "agent" if record.get("by") else "human"
        event_text = "\n".join(texts)
        yield make_file_event(
            change, path, kind, event_text, actor, line=number, labels=tuple(labels)
        )


class _RiskTexts(NamedTuple):
    """The text of a pre-mortem without what a model or memory added, and what a model added."""

    own_text: str
    model_text: str


def _split_risks(text: str) -> _RiskTexts:
    """Split a pre-mortem, a list of risks, by the source that a risk may name (`From: a model`).

    Risks that name memory as their only source are left out.
    """
    own_items = []
    model_items = []
    for item in _list_risks(text.replace("\r\n", "\n").replace("\r", "\n")):
        sources = {match["source"].lower() for match in RISK_SOURCE.finditer(item)}
        if not sources:
            own_items.append(item)
        elif sources != {"memory"}:
            model_items.append(item)
    return _RiskTexts(own_text="".join(own_items), model_text="".join(model_items))


def _list_risks(text: str) -> list[str]:
    """Return the items of a pre-mortem, and the texts between them.

    If a source is named before the first item of a section, it is unknown which items it is for.
    Then the whole text is one item.
    """
    risks: list[str] = []
    for section in SECTION.split(text):
        items = _split_items(section)
        text_before_items = items[0]
        if RISK_SOURCE.search(text_before_items):
            return [text]
        risks += items
    return risks


def _split_items(section: str) -> list[str]:
    """Split a section of Markdown into the text before its list, and each outermost list item.

    The section stays whole if an item is only the name of a source: it is unknown which other items
    come from that source.
    """
    matches = list(ITEM.finditer(section))
    indents = [len(match["indent"].expandtabs(4)) for match in matches]
    outermost = min(indents, default=0)
    starts = [0]
    for match, indent in zip(matches, indents, strict=True):
        if indent != outermost:
            continue
        is_source_only = re.match(r"[\W_]*from[\W_]*:", section[match.end() :], re.IGNORECASE)
        if is_source_only:
            return [section]
        starts.append(match.start())
    return [section[start:end] for start, end in pairwise([*starts, len(section)])]


def _parse_record(line: str) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
