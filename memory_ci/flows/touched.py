"""Touched: the entries whose code a range of commits changes, moves or removes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memory_ci.errors import UsageError
from memory_ci.flows.anchors import judge_anchors, read_texts
from memory_ci.flows.check import CheckReport
from memory_ci.flows.workspace import Workspace, load_memory
from memory_ci.gitrepo.blobs import TreeFile
from memory_ci.gitrepo.merges import find_merge_base
from memory_ci.gitrepo.renames import find_objects
from memory_ci.gitrepo.repo import Repository, resolve_commit
from memory_ci.lifecycle.touched import Touch, list_touch_findings
from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Entry
from memory_ci.records.report import Finding

Pair = tuple[Entry, Verdict, Verdict]
"""An entry, and the verdicts on one of its anchors before a range and after it."""


def add_touched(workspace: Workspace, report: CheckReport, written: str) -> CheckReport:
    """A report with what find_touched says of the range `A..B`. Raises UsageError (bad-range), RepositoryError."""
    touched = find_touched(workspace, *parse_range(written))
    return msgspec.structs.replace(report, findings=(*report.findings, *touched))


def parse_range(written: str) -> tuple[str, str]:
    """The two ends of `A..B`; B is HEAD when it is left out. Raises UsageError (bad-range)."""
    since, dots, until = written.partition("..")
    if not since or not dots or until.startswith("."):
        raise UsageError(f"{written!r} is not a range", slug="bad-range", hint="Write A..B, such as origin/main..HEAD.")
    return since, until or "HEAD"


def find_touched(workspace: Workspace, since: str, until: str) -> tuple[Finding, ...]:
    """Notices and warnings for the entries of `until` whose code its commits since `since` touched, where it changed.

    As in a pull request, what was changed on the side of `since` meanwhile does not count.
    Raises RepositoryError (unknown-revision).
    """
    repo = workspace.repo
    start, head = resolve_commit(repo, since), resolve_commit(repo, until)
    base = find_merge_base(repo, start, head) or start
    located = [place for place in load_memory(workspace, head).located if place.entry.status != "retired"]
    before, after = judge_anchors(workspace, located, base), judge_anchors(workspace, located, head)
    entries = {place.entry.id: place.entry for place in located}
    pairs = [
        (entries[key[0]], before[key], verdict)
        for key, verdict in after.items()
        if verdict != before[key] or verdict.kind == "changed"
    ]
    texts = _read_sides(repo, base, head, pairs)
    touches = (Touch(entry, old, new, texts[base, old.path], texts[head, new.path]) for entry, old, new in pairs)
    return list_touch_findings(touches)


def _read_sides(repo: Repository, base: str, head: str, pairs: Sequence[Pair]) -> dict[tuple[str, str], str]:
    """The texts of the files before and after, by commit and path; "" for one that is not there or not readable."""
    places = list(dict.fromkeys(place for _, old, new in pairs for place in ((base, old.path), (head, new.path))))
    oids = find_objects(repo, [f"{commit}:{path}" for commit, path in places])
    blobs = [TreeFile(path, oid) if oid else None for (_, path), oid in zip(places, oids, strict=True)]
    texts = read_texts(repo, (blob for blob in blobs if blob is not None))
    return {place: texts.get(blob, "") if blob else "" for place, blob in zip(places, blobs, strict=True)}
