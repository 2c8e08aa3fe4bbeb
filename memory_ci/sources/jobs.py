"""Job files: what a job wrote down before and while it worked, and that came in with its merge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePosixPath

from memory_ci.records.event import Event, EventKind, Origin
from memory_ci.records.history import MergedChange
from memory_ci.sources.commits import author_of

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

SAYS = ("assumption", "text", "message", "intervention", "feedback", "outcome", "because")
"""Keys of a record whose values are somebody's words, in the order in which they are read out."""

MAX_LINES = 500


def job_paths(change: MergedChange) -> tuple[str, ...]:
    """Paths of job files that `change` wrote, each once."""
    written = (file.path for commit in change.commits for file in commit.files if file.status != "D")
    return tuple(dict.fromkeys(path for path in written if PurePosixPath(path).name in KINDS))


def job_events(change: MergedChange, path: str, text: str, before: str = "") -> Iterator[Event]:
    """The events of one job file: a document is one, of a log each line that was not there `before` is one.

    Lines end with a line feed only: JSON may hold the other characters that `splitlines` knows.
    """
    kind = KINDS[PurePosixPath(path).name]
    if not path.endswith(".jsonl"):
        if text != before:
            yield _event(change, path, kind, text, None, ())
        return
    old = frozenset(before.split("\n"))
    for number, line in list(enumerate(text.split("\n"), start=1))[-MAX_LINES:]:
        record = None if line in old else _record(line)
        if record and (said := _words(record)):
            yield _event(change, path, kind, said, number, _labels(record))


def _record(line: str) -> dict[str, object] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _words(record: dict[str, object]) -> str:
    return "\n".join(value for key in SAYS if isinstance(value := record.get(key), str) and value.strip())


def _labels(record: dict[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key in ("state", "milestone") if isinstance(value := record.get(key), str))


def _event(
    change: MergedChange, path: str, kind: EventKind, text: str, line: int | None, labels: tuple[tuple[str, str], ...]
) -> Event:
    return Event(
        seq=0,
        at=change.tip.committed_at,
        actor="human",
        kind=kind,
        text=text,
        origin=Origin(kind="commit", id=change.tip.sha, path=path, line=line),
        author=author_of(change.tip),
        paths=(path,),
        labels=labels,
    )
