"""What was merged as events, unedited, and where it was found: commits, decision records and job files, which a job
wrote down before and while it worked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from memory_ci.records.event import Actor, Event, EventKind, Origin
from memory_ci.records.history import Commit, MergedChange

MAX_FILES = 100  # Files that a summary of a change names.


def commit_events(change: MergedChange) -> tuple[Event, ...]:
    """One event per commit of `change`, oldest first, the merge commit included."""
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
    """What the change did to which files, one a line: what intentions are held against."""
    files = {file.path: file.status for commit in change.commits for file in commit.files}
    lines = [f"{status} {path}" for path, status in list(files.items())[:MAX_FILES]]
    more = [f"and {len(files) - MAX_FILES} more"] if len(files) > MAX_FILES else []
    return Event(
        seq=len(change.commits),
        at=change.tip.committed_at,
        actor="system",
        kind="diff",
        text="\n".join(lines + more),
        origin=Origin(kind="commit", id=change.tip.sha),
        paths=tuple(files),
    )


def author_of(commit: Commit) -> str:
    """`Name <e-mail>`, as git prints it and as the author patterns of the configuration are matched."""
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
    """What a file of the change says, as of its tip."""
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


TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|.", re.DOTALL)
WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def adr_paths_added(change: MergedChange, patterns: Iterable[str]) -> tuple[str, ...]:
    """Paths that `change` added (git status A) and that match one of `patterns`, each once, in order. `*` and `?` stay
    inside one path segment, `**/` is any number of segments, `[0-9]` is a class."""

    def translate(token: str) -> str:
        if token.startswith("[") and len(token) > 1:
            return token.replace("[!", "[^", 1)
        return WILDCARDS.get(token) or re.escape(token)

    globs = [re.compile("".join(map(translate, TOKEN.findall(pattern)))) for pattern in patterns]
    added = (file.path for commit in change.commits for file in commit.files if file.status == "A")
    return tuple(
        dict.fromkeys(path for path in added if any(glob.fullmatch(path) for glob in globs))
    )


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

# Keys of a record whose values are somebody's words, in the order in which they are read out.
SAYS = ("assumption", "text", "message", "intervention", "feedback", "outcome", "because")
MAX_LINES = 500
SECTION = re.compile(r"^(?=[ \t>]*#{1,6}[ \t])", re.MULTILINE)
ITEM = re.compile(r"^(?P<indent>[^\S\n]*(?:>[^\S\n]*)*)(?:[-*+]|[0-9]+[.)])[^\S\n]+", re.MULTILINE)
# Whose an item of a pre-mortem is, however its lines were wrapped or marked since.
FROM = re.compile(r"(?<![^\W_])From[\W_]*:[\W_]*(?P<who>a\s+model|memory)\b", re.IGNORECASE)


def job_paths(change: MergedChange) -> tuple[str, ...]:
    """Paths of job files that `change` wrote, each once."""
    written = (
        file.path for commit in change.commits for file in commit.files if file.status != "D"
    )
    return tuple(dict.fromkeys(path for path in written if PurePosixPath(path).name in KINDS))


def job_events(change: MergedChange, path: str, text: str, before: str = "") -> Iterator[Event]:
    """The events of one job file: a document is one, of a log each line that was not there `before` is one.

    What a pre-mortem has from a model is an event of its own, and an agent's; what it has from memory is none. Lines
    end with a line feed only: JSON may hold the other characters that `splitlines` knows.
    """
    kind = KINDS[PurePosixPath(path).name]
    if not path.endswith(".jsonl"):
        if text != before:
            said, by_model = _split_risks(text) if kind == "premortem" else (text, "")
            yield file_event(change, path, kind, said)
            if by_model:
                yield file_event(change, path, kind, by_model, actor="agent")
        return
    old = frozenset(before.split("\n"))
    for number, line in list(enumerate(text.split("\n"), start=1))[-MAX_LINES:]:
        record = {} if line in old else _record(line)
        said = "\n".join(
            value for key in SAYS if isinstance(value := record.get(key), str) and value.strip()
        )
        if said:
            labels = [
                (key, value)
                for key in ("state", "milestone")
                if isinstance(value := record.get(key), str)
            ]
            actor: Actor = "agent" if record.get("by") else "human"
            yield file_event(change, path, kind, said, actor, line=number, labels=tuple(labels))


def _split_risks(text: str) -> tuple[str, str]:
    """(a pre-mortem without the risks that a model or memory named, those of a model). All of it is theirs where one of
    their risks has no title to begin with."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    sections = [_split_items(section) for section in SECTION.split(text)]
    is_sure = not any(FROM.search(before) for before, *_ in sections)
    items = [item for section in sections for item in section] if is_sure else [text]
    whose = [{found["who"].lower() for found in FROM.finditer(item)} for item in items]
    said = "".join(item for item, who in zip(items, whose, strict=True) if not who)
    return said, "".join(item for item, who in zip(items, whose, strict=True) if who - {"memory"})


def _split_items(section: str) -> list[str]:
    """What stands before the outermost items of a list, and each of them; nothing is told apart where one says no more
    than whose it is."""
    found = [(len(item["indent"].expandtabs(4)), item) for item in ITEM.finditer(section)]
    outer = min((indent for indent, _ in found), default=0)
    items = [item for indent, item in found if indent == outer]
    if any(re.match(r"[\W_]*from[\W_]*:", section[item.end() :], re.IGNORECASE) for item in items):
        return [section]
    starts = [0, *(item.start() for item in items), len(section)]
    return [section[start:end] for start, end in pairwise(starts)]


def _record(line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
