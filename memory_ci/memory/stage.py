"""Stage: which phase each project is in, and when that changed. The state lives in the history of its intent file."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

import msgspec

from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.history import list_versions, plan_range
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.lifecycle.stage import Reading, find_stage
from memory_ci.memory.workspace import MAX_FILE_BYTES, Snapshot, Workspace
from memory_ci.records.entry import Located, Phase
from memory_ci.records.history import Commit
from memory_ci.records.plan import Change

PROJECTS = "projects/"
"""Beside the root, each directory in here is a project with a stage of its own (TeaParty's layout)."""


class StagePoint(msgspec.Struct, frozen=True):
    """A commit at which a project was in a stage that it had not been in before. `project` is "" for the root."""

    project: str
    phase: Phase
    commit: Commit


class Transition(msgspec.Struct, frozen=True):
    """A project went from one known stage to another."""

    project: str
    ended: Phase
    begun: Phase
    commit: Commit


class ProjectStage(msgspec.Struct, frozen=True, kw_only=True):
    """The stage that an intent file states now; `known` is the last one that it stated clearly, with its commit."""

    project: str
    path: str
    stated: Reading | None
    known: StagePoint | None


def list_stages(workspace: Workspace, rev: str) -> tuple[ProjectStage, ...]:
    """The stage of every project that has an intent file at `rev`. Raises RepositoryError (unknown-revision)."""
    tip, file = resolve_commit(workspace.repo, rev), workspace.config.stage.file
    stated = _read_intents(workspace, tip)
    last = {point.project: point for point in stage_history(workspace, tip)} if stated else {}
    return tuple(
        ProjectStage(
            project=project,
            path=posixpath.join(project, file),
            stated=reading,
            known=last.get(project),
        )
        for project, reading in stated.items()
    )


def current_phases(workspace: Workspace, rev: str) -> dict[str, Phase | None]:
    """The stage in force at `rev` of each project that has an intent file ("" is the root). Where the file is unclear,
    the last stage it stated clearly holds on."""
    stated = _read_intents(workspace, rev)
    known: dict[str, Phase] = {}
    if None in stated.values():
        known = {point.project: point.phase for point in stage_history(workspace, rev)}
    return {
        project: reading.phase if reading else known.get(project)
        for project, reading in stated.items()
    }


def current_phase(workspace: Workspace, rev: str, where: str = "") -> Phase | None:
    """The stage in force at `rev` for a directory: of the project it is in; None without an intent file there."""
    phases = current_phases(workspace, rev)
    return phases.get(find_project(where, phases))


def stage_history(workspace: Workspace, rev: str) -> tuple[StagePoint, ...]:
    """Every change of a known stage on the first-parent history of `rev`, oldest first. Versions that state nothing
    clear are passed over: a stage that is unknown for a while has not ended."""
    versions = tuple(list_versions(workspace.repo, rev, _pathspecs(workspace)))
    files = {
        version.oid: TreeFile(version.path, version.oid) for version in versions if version.oid
    }
    readings = {file.oid: reading for file, reading in _read(workspace, files.values())}
    points: list[StagePoint] = []
    last: dict[str, Phase] = {}
    for version in reversed(versions):
        project = _project(workspace, version.path)
        reading = readings.get(version.oid or "")
        if project is not None and reading is not None and last.get(project) != reading.phase:
            last[project] = reading.phase
            points.append(StagePoint(project, reading.phase, version.commit))
    return tuple(points)


def list_transitions(workspace: Workspace, since: str | None, until: str) -> tuple[Transition, ...]:
    """The transitions that the first-parent commits after `since`, up to `until`, brought; oldest first. Raises
    RepositoryError: unknown-revision, unreachable-cursor, shallow-clone."""
    points = stage_history(workspace, until)
    if not points:
        return ()
    tips = {group[-1] for group in plan_range(workspace.repo, since, until).groups}
    found: list[Transition] = []
    last: dict[str, Phase] = {}
    for point in points:
        if point.project in last and point.commit.sha in tips:
            found.append(Transition(point.project, last[point.project], point.phase, point.commit))
        last[point.project] = point.phase
    return tuple(found)


def plan_retirements(
    tip: Snapshot, located: Sequence[Located], since: str | None, today: date
) -> tuple[Change, ...]:
    """What the transitions of a range retire: per project, the task entries of each stage that is over at its end."""
    from memory_ci.lifecycle.compaction import (
        plan_stage_retirement,
    )  # `add` asks for the stage, and retires nothing

    transitions = list_transitions(tip.workspace, since, tip.sha)
    if not transitions:
        return ()
    projects = _read_intents(tip.workspace, tip.sha).keys()
    begun = {transition.project: transition.begun for transition in transitions}
    ended = dict.fromkeys((t.project, t.ended) for t in transitions if t.ended != begun[t.project])
    return tuple(
        change
        for project, phase in ended
        for change in plan_stage_retirement(
            (
                place
                for place in located
                if find_project(posixpath.dirname(place.path), projects) == project
            ),
            phase,
            today,
        )
    )


def _pathspecs(workspace: Workspace) -> tuple[str, str]:
    file = workspace.config.stage.file
    return file, f"{PROJECTS}*/{file}"


def _project(workspace: Workspace, path: str) -> str | None:
    """The project whose intent file `path` is: "" for the root, None for a file that is none."""
    file = workspace.config.stage.file
    project = path.removesuffix(file).removesuffix("/")
    is_project = not project or (project.startswith(PROJECTS) and project.count("/") == 1)
    return project if is_project and posixpath.join(project, file) == path else None


def find_project(where: str, projects: Iterable[str]) -> str:
    """The project that a directory belongs to: that of `projects/` which contains it, else the root's."""
    inside = (project for project in projects if project and f"{where}/".startswith(f"{project}/"))
    return next(inside, "")


def _read_intents(workspace: Workspace, rev: str) -> dict[str, Reading | None]:
    """What the intent file of each project states at a revision."""
    files = workspace.at(rev).tree.select(_pathspecs(workspace))
    read = ((_project(workspace, file.path), reading) for file, reading in _read(workspace, files))
    return {project: reading for project, reading in read if project is not None}


def _read(
    workspace: Workspace, files: Iterable[TreeFile]
) -> Iterator[tuple[TreeFile, Reading | None]]:
    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        yield content.file, find_stage((content.data or b"").decode("utf-8", "replace"))
