"""Record: merged work in, decisions out. Planning reads only; `flows.apply` performs a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date
from pathlib import Path

import msgspec

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError
from memory_ci.evidence.ingest import collect
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.rules import RulesEngine
from memory_ci.extraction.entries import entry_id, to_entry
from memory_ci.extraction.judge import judge
from memory_ci.flows.workspace import MAX_FILE_BYTES, Workspace, config_at, load_memory
from memory_ci.gitrepo.blobs import list_tree, read_files
from memory_ci.gitrepo.history import (
    find_addition,
    find_cursor,
    iter_merged_changes,
    list_added_lines,
    list_counted,
    plan_range,
)
from memory_ci.gitrepo.repo import find_commit, head_branch, is_ancestor, is_shallow, resolve_commit
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.lifecycle.fold import plan_fold
from memory_ci.lifecycle.reinforce import plan_reinforcement
from memory_ci.records.candidate import Judged
from memory_ci.records.change import Change
from memory_ci.records.entry import Located, ScopeOf
from memory_ci.records.event import Event
from memory_ci.records.history import MergedChange
from memory_ci.records.plan import PLAN_VERSION, Counts, EngineUse, Plan, PlannedStep
from memory_ci.records.report import Finding
from memory_ci.sources.adr import adr_event, adr_paths_added
from memory_ci.sources.commits import commit_events
from memory_ci.store.files import write_file
from memory_ci.store.layout import is_fragment, memory_pathspecs, parse_target, scope_path
from memory_ci.store.load import target_of

Progress = Callable[[int, int], None]
"""Called with (merged changes done, merged changes in all)."""

USE_TRAILERS = ("Memory-Retrieved", "Memory-Used")


class RecordOptions(msgspec.Struct, frozen=True):
    """`since` excludes that commit; None takes up where the last record run ended. `ref` None: HEAD's branch."""

    since: str | None = None
    ref: str | None = None


def plan_record(workspace: Workspace, options: RecordOptions, today: date, progress: Progress) -> Plan:
    """Everything a run over the range would do, on the tree of the branch's tip. Writes nothing.

    Raises RepositoryError: unborn-branch, detached-head, unknown-revision, shallow-clone, unreachable-cursor.
    """
    ref, base = branch_tip(workspace, options.ref)
    workspace = Workspace(workspace.repo, config_at(workspace.repo, base))
    since = _find_since(workspace, options.since, base)
    past = _past_ids(workspace, base) if options.since is not None else frozenset()
    return _Planner(workspace, ref, base, since, today, past).plan(progress)


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan as JSON. Raises RepositoryError (write-failed)."""
    write_file(path, format_plan(plan))


def format_plan(plan: Plan) -> bytes:
    """A plan as indented JSON: what `flows.apply.parse_plan` reads."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n"


def branch_tip(workspace: Workspace, wanted: str | None) -> tuple[str, str]:
    """The full name of the branch to record on, and the commit it is at."""
    repo = workspace.repo
    ref = head_branch(repo) if wanted is None else f"refs/heads/{wanted.removeprefix('refs/heads/')}"
    if ref is None:
        hint = "Check out the branch, or name it: --branch main."
        raise RepositoryError("HEAD is detached: no branch to record on", slug="detached-head", hint=hint)
    base = find_commit(repo, ref)
    if base is None:
        name = ref.removeprefix("refs/heads/")
        message = f"the branch {name!r} has no commit" if wanted is None else f"there is no branch {name!r}"
        raise RepositoryError(message, slug="unborn-branch", hint="Commit something first, or name another branch.")
    return ref, base


def _find_since(workspace: Workspace, wanted: str | None, base: str) -> str | None:
    """Where the range begins: as asked, else after the newest record, else where memory-ci came in, else the root."""
    if wanted is not None:
        return resolve_commit(workspace.repo, wanted)
    cursor = find_cursor(workspace.repo, base)
    if cursor is None:  # in a shallow clone the oldest commit seems to add everything: let the range refuse it
        return None if is_shallow(workspace.repo) else find_addition(workspace.repo, base, CONFIG_FILE)
    if find_commit(workspace.repo, cursor.source) and is_ancestor(workspace.repo, cursor.source, base):
        return cursor.source
    raise RepositoryError(
        f"the last recorded commit {cursor.source[:12]} is not in the history of this branch",
        slug="unreachable-cursor",
        hint="Fetch the whole history (`fetch-depth: 0`); after a rewrite of it, name a start: --since REV.",
    )


def _past_ids(workspace: Workspace, base: str) -> frozenset[str]:
    """The ids of all entries that ever stood in memory: what a person took out does not come back."""
    pathspecs = memory_pathspecs(workspace.config.scopes)
    lines = list_added_lines(workspace.repo, base, pathspecs, "id: ")
    return frozenset(line.removeprefix("id: ").strip("'\" ").lower() for line in lines)


class _Planner:
    """One planning run. Its `known` is memory as the steps planned so far would leave it."""

    def __init__(
        self, workspace: Workspace, ref: str, base: str, since: str | None, today: date, past: frozenset[str]
    ) -> None:
        self.workspace = workspace
        self.ref, self.base, self.since = ref, base, since
        self.today, self.past = today, past
        self.engine: Engine = RulesEngine()
        memory = load_memory(workspace, base)
        self.findings: list[Finding] = list(memory.findings)
        self.fragments = [place for place in memory.located if is_fragment(place.path)]
        self.paths = frozenset(file.path for file in list_tree(workspace.repo, base, ()))
        kept = (place for place in memory.located if not is_fragment(place.path) and place.path in self.paths)
        self.known = {place.entry.id: place for place in kept}
        self.uses: list[tuple[MergedChange, frozenset[str]]] = []
        self.judged: list[Judged] = []
        self.left_out: Counter[str] = Counter()
        self.commits = self.redactions = 0

    def plan(self, progress: Progress) -> Plan:
        folded = self._fold()
        extracted = self._extract(progress)
        reinforced, counted = self._reinforce()
        steps = (
            PlannedStep(step="fold", changes=folded),
            PlannedStep(step="extract", changes=extracted),
            PlannedStep(step="reinforce", changes=reinforced),
        )
        return Plan(
            schema_version=PLAN_VERSION,
            ref=self.ref,
            base=self.base,
            since=self.since,
            until=self.base,
            engine=EngineUse("rules", "the only engine that needs neither key nor network"),
            counts=Counts(
                merged_changes=len(self.uses),
                commits=self.commits,
                redactions=self.redactions,
                left_out=dict(sorted(self.left_out.items())),
            ),
            steps=tuple(step for step in steps if step.changes),
            counted=counted,
            judged=tuple(self.judged),
            findings=tuple(self.findings),
        )

    # -- fold

    def _fold(self) -> tuple[Change, ...]:
        targets = {place.path: self._target_path(target_of(place.entry)) for place in self.fragments}
        changes, findings = plan_fold(self.fragments, tuple(self.known.values()), targets)
        self.findings += findings
        self._take_over(changes)
        return changes

    def _target_path(self, scope: ScopeOf) -> str | None:
        """The file of a scope, unless the tree has a file where it needs a directory or the reverse."""
        path = scope_path(scope, self.workspace.config.scopes)
        if path is None:
            return None
        parents = {path[:at] for at, char in enumerate(path) if char == "/"}
        is_directory = any(other.startswith(path + "/") for other in self.paths)
        return None if is_directory or parents & self.paths else path

    def _take_over(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.kind != "drop":
                scope = self.known[change.entry.id].scope if change.entry.id in self.known else ScopeOf("project")
                self.known[change.entry.id] = Located(change.entry, change.path, 0, scope)

    # -- extract

    def _extract(self, progress: Progress) -> tuple[Change, ...]:
        history = plan_range(self.workspace.repo, self.since, self.base)
        changes: list[Change] = []
        for done, merged in enumerate(iter_merged_changes(self.workspace.repo, history), start=1):
            self.commits += len(merged.commits)
            changes += self._learn(merged)
            progress(done, history.change_count)
        return tuple(changes)

    def _learn(self, merged: MergedChange) -> list[Change]:
        settings = self.workspace.config.extraction
        evidence = collect(tuple(self._events(merged)), settings)
        self.redactions += evidence.redactions
        self.left_out.update(left.reason for left in evidence.left_out)
        existing = tuple(place.entry for place in self.known.values())
        judged = judge(merged.label, evidence, self.engine, existing, settings.max_entries_per_change)
        self.judged += judged
        changes = [change for item in judged if item.verdict == "written" and (change := self._add(item, merged))]
        self._take_over(changes)
        self.uses.append((merged, self._used(merged, judged)))
        return changes

    def _events(self, merged: MergedChange) -> Iterator[Event]:
        events = commit_events(merged)
        yield from events
        paths = adr_paths_added(merged, self.workspace.config.extraction.adr_paths)
        files = list_tree(self.workspace.repo, merged.tip.sha, paths) if paths else ()
        for seq, content in enumerate(read_files(self.workspace.repo, files, MAX_FILE_BYTES), start=len(events)):
            if content.data is not None:
                yield adr_event(merged, content.file.path, content.data.decode("utf-8", "replace"), seq)

    def _add(self, item: Judged, merged: MergedChange) -> Change | None:
        candidate = item.candidate
        path = self._target_path(parse_target(candidate.scope))
        if path is None:
            return None
        new_id, merged_on = entry_id(candidate), merged.tip.committed_at.astimezone(UTC).date()
        if new_id in self.known or new_id in self.past:  # written before, and reworded or removed by a person since
            return None
        entry = to_entry(candidate, entry_id=new_id, today=self.today, merged_on=merged_on, engine="rules")
        return Change(step="extract", kind="add", path=path, entry=entry, why=f"from {merged.label}")

    # -- reinforce

    def _used(self, merged: MergedChange, judged: Sequence[Judged]) -> frozenset[str]:
        """The entries that this change was given or used, and those that it says again."""
        named = [
            found
            for commit in merged.commits
            for _, value in find_trailers(commit.message, USE_TRAILERS)
            for found in split_ids(value)
        ]
        restated = [
            item.entry_id
            for item in judged
            if item.verdict == "restates" and item.entry_id and item.entry_id != entry_id(item.candidate)
        ]
        return frozenset(named + restated)

    def _reinforce(self) -> tuple[tuple[Change, ...], tuple[str, ...]]:
        seen = list_counted(self.workspace.repo, self.base)
        fresh = [(merged, self._resolve(ids)) for merged, ids in self.uses if merged.tip.sha not in seen]
        uses = [(merged, ids) for merged, ids in fresh if ids]
        days = [(merged.label, merged.tip.committed_at.astimezone(UTC).date(), ids) for merged, ids in uses]
        changes = plan_reinforcement(days, self.known)
        return changes, tuple(merged.tip.sha for merged, _ in uses) if changes else ()

    def _resolve(self, ids: Iterable[str]) -> frozenset[str]:
        """Known entries by whole id, or by a prefix of eight or more characters that only one has."""
        found: set[str] = set()
        for written in ids:
            fits = [i for i in self.known if i == written] or [
                i for i in self.known if len(written) >= 8 and i.startswith(written.lower())
            ]
            found.update(fits[:1] if len(fits) == 1 else [])
        return frozenset(found)
