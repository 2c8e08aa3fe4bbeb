"""Touched: the entries whose code a range of commits changes, moves or removes."""

from __future__ import annotations

import msgspec

from memory_ci.errors import UsageError
from memory_ci.flows.anchors import compare_anchors, read_texts
from memory_ci.flows.guard.check import CheckReport
from memory_ci.flows.workspace import Snapshot, Workspace
from memory_ci.gitrepo.repo import find_merge_base
from memory_ci.lifecycle.touched import Touch, list_touch_findings
from memory_ci.records.report import Finding


def add_touched(workspace: Workspace, report: CheckReport, written: str) -> CheckReport:
    """A report with what find_touched says of the range `A..B`. Raises UsageError (bad-range), RepositoryError."""
    touched = find_touched(*read_range(workspace, written))
    return msgspec.structs.replace(report, findings=(*report.findings, *touched))


def read_range(workspace: Workspace, written: str) -> tuple[Snapshot, Snapshot]:
    """The two ends of `A..B`, for A where B left it; B is HEAD when it is left out.

    As in a pull request, what was changed on the side of A meanwhile does not count.
    Raises UsageError (bad-range), RepositoryError (unknown-revision).
    """
    since, dots, until = written.partition("..")
    if not since or not dots or until.startswith("."):
        raise UsageError(f"{written!r} is not a range", slug="bad-range", hint="Write A..B, such as origin/main..HEAD.")
    start, head = workspace.at(since), workspace.at(until or "HEAD")
    base = find_merge_base(workspace.repo, start.sha, head.sha)
    return workspace.at(base) if base else start, head


def find_touched(start: Snapshot, head: Snapshot) -> tuple[Finding, ...]:
    """Notices and warnings for the entries of `head` whose code its commits since `start` touched, where it changed."""
    workspace = head.workspace
    located = [place for place in head.memory.located if place.entry.status != "retired"]
    before, after = compare_anchors(workspace, located, start.sha, head.sha)
    entries = {place.entry.id: place.entry for place in located}
    pairs = [
        (entries[key[0]], before[key], verdict)
        for key, verdict in after.items()
        if verdict != before[key] or verdict.kind == "changed"
    ]
    files = [(start.tree.files.get(old.path), head.tree.files.get(new.path)) for _, old, new in pairs]
    texts = read_texts(workspace.repo, filter(None, (file for both in files for file in both)))
    sides = ((texts.get(one, "") if one else "" for one in both) for both in files)
    return list_touch_findings(Touch(*pair, *both) for pair, both in zip(pairs, sides, strict=True))
