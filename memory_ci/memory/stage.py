"""Stages of projects, such as planning or work: read from the history of their INTENT.md files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

import msgspec

from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.history import has_version, list_versions, plan_range
from memory_ci.gitrepo.repo import resolve_commit
from memory_ci.lifecycle.stage import StatedPhase, find_stage
from memory_ci.memory.workspace import MAX_FILE_BYTES, Snapshot, Workspace
from memory_ci.records.entry import Located, Phase
from memory_ci.records.history import Commit
from memory_ci.records.plan import Change
from memory_ci.store.layout import INTENT_FILE

PROJECTS = "projects/"
"""The directory of projects. Each directory in it has a stage of its own (TeaParty's layout)."""


class StagePoint(msgspec.Struct, frozen=True):
    """A commit that changed the stage of a project; `project` is "" for the root."""

    project: str
    phase: Phase
    commit: Commit


class Transition(msgspec.Struct, frozen=True):
    """A change of a project from one known stage to another."""

    project: str
    ended: Phase
    begun: Phase
    commit: Commit


class ProjectStage(msgspec.Struct, frozen=True, kw_only=True):
    """The stage of a project.

    Attributes:
        project: the directory of the project; "" for the root.
        path: its intent file.
        stated: the stage that the file states now; None if it is unclear.
        known: the last stage that it stated clearly.
    """

    project: str
    path: str
    stated: StatedPhase | None
    known: StagePoint | None


def list_stages(workspace: Workspace, rev: str) -> tuple[ProjectStage, ...]:
    """Return the stage of every project that has an intent file at a revision.

    An intent file states the phase of work that a project is in. A `ProjectStage` has what the file
    states at the revision, which is None if that is unclear, and the last clear statement in
    history.

    Raises:
        RepositoryError: unknown-revision.
    """
    tip = resolve_commit(workspace.repo, rev)
    statements = _read_statements(workspace, tip)
    if not statements:
        return ()

    last_change_by_project = {
        stage_change.project: stage_change for stage_change in list_stage_changes(workspace, tip)
    }
    stages = []
    for project, statement in statements.items():
        stage = ProjectStage(
            project=project,
            path=posixpath.join(project, INTENT_FILE),
            stated=statement,
            known=last_change_by_project.get(project),
        )
        stages.append(stage)
    return tuple(stages)


def read_current_phases(workspace: Workspace, rev: str) -> dict[str, Phase | None]:
    """Return the phase of each project that has an intent file, by its directory ("" is the root).

    Where the file is unclear, it is the last phase that the file stated clearly.
    """
    statements = _read_statements(workspace, rev)
    last_phases: dict[str, Phase] = {}
    if None in statements.values():
        for point in list_stage_changes(workspace, rev):
            last_phases[point.project] = point.phase

    phases = {}
    for project, statement in statements.items():
        phases[project] = statement.phase if statement else last_phases.get(project)
    return phases


def read_current_phase(workspace: Workspace, rev: str, where: str = "") -> Phase | None:
    """Return the phase of the project that a directory belongs to; None without an intent file."""
    phases = read_current_phases(workspace, rev)
    return phases.get(find_project(where, phases))


def list_stage_changes(workspace: Workspace, rev: str) -> tuple[StagePoint, ...]:
    """Return every change of a project's stage in the first-parent history of a revision.

    The stage of a project is the phase of work that its intent file states. Versions of the file
    whose statement is unclear are skipped: a stage does not end by being unclear.

    Returns:
        The changes, oldest first.
    """
    versions = list(list_versions(workspace.repo, rev, _pathspecs()))
    files = {}
    for version in versions:
        if version.oid:
            files[version.oid] = TreeFile(version.path, version.oid)
    statement_by_oid: dict[str, StatedPhase | None] = {}
    for file, statement in _read_files(workspace, files.values()):
        statement_by_oid[file.oid] = statement

    points: list[StagePoint] = []
    last_phases: dict[str, Phase] = {}
    for version in reversed(versions):
        project = _find_project_of_file(version.path)
        statement = statement_by_oid.get(version.oid or "")
        if project is None or statement is None or last_phases.get(project) == statement.phase:
            continue
        last_phases[project] = statement.phase
        points.append(StagePoint(project, statement.phase, version.commit))
    return tuple(points)


def list_transitions(workspace: Workspace, since: str | None, until: str) -> tuple[Transition, ...]:
    """Return the changes of projects from one stage to another in a range, oldest first.

    Args:
        workspace: the repository.
        since: the last commit before the range.
        until: the last commit of the range.

    Raises:
        RepositoryError: unknown-revision, unreachable-cursor, shallow-clone.
    """
    if since is not None and not has_version(workspace.repo, since, until, _pathspecs()):
        return ()
    points = list_stage_changes(workspace, until)
    if not points:
        return ()

    groups = plan_range(workspace.repo, since, until).groups
    first_parents = {group[-1] for group in groups}
    transitions: list[Transition] = []
    last_phases: dict[str, Phase] = {}
    for point in points:
        ended = last_phases.get(point.project)
        if ended is not None and point.commit.sha in first_parents:
            transitions.append(Transition(point.project, ended, point.phase, point.commit))
        last_phases[point.project] = point.phase
    return tuple(transitions)


def plan_retirement_of_ended_stages(
    tip: Snapshot, located: Sequence[Located], since: str | None, today: date
) -> tuple[Change, ...]:
    """Plan to retire the task entries of stages that ended in a range and did not begin again.

    The stage of a project is the phase of work that its intent file states.

    Args:
        tip: the last commit of the range.
        located: all entries.
        since: the last commit before the range.
        today: the day.
    """
    # `add` imports this module for the stage, and retires nothing.
    from memory_ci.lifecycle.compaction import plan_stage_retirement

    transitions = list_transitions(tip.workspace, since, tip.sha)
    if not transitions:
        return ()

    projects = _read_statements(tip.workspace, tip.sha).keys()
    entries_by_project: dict[str, list[Located]] = {}
    for located_entry in located:
        project = find_project(posixpath.dirname(located_entry.path), projects)
        entries_by_project.setdefault(project, []).append(located_entry)

    last_phase_by_project = {transition.project: transition.begun for transition in transitions}
    ended_phases: dict[tuple[str, Phase], None] = {}  # without duplicates, in order
    for transition in transitions:
        if transition.ended != last_phase_by_project[transition.project]:
            ended_phases[transition.project, transition.ended] = None

    changes: list[Change] = []
    for project, ended_phase in ended_phases:
        entries = entries_by_project.get(project, [])
        changes += plan_stage_retirement(entries, ended_phase, today)
    return tuple(changes)


def _pathspecs() -> tuple[str, str]:
    """Return pathspecs for the intent files; they match those of deeper directories, too."""
    return INTENT_FILE, f"{PROJECTS}*/{INTENT_FILE}"


def _find_project_of_file(path: str) -> str | None:
    """Return the project whose intent file has this path, "" for the root; None for another path.

    >>> paths = ("INTENT.md", "projects/shop/INTENT.md", "projects/shop/docs/INTENT.md")
    >>> [_find_project_of_file(path) for path in paths]
    ['', 'projects/shop', None]
    """
    directory = posixpath.dirname(path)
    is_root = directory == ""
    is_project = directory.startswith(PROJECTS) and directory.count("/") == 1
    is_intent_file = path == posixpath.join(directory, INTENT_FILE)
    if is_intent_file and (is_root or is_project):
        return directory
    return None


def find_project(directory: str, projects: Iterable[str]) -> str:
    """Return the project that contains a directory, or "" for that of the root.

    Args:
        directory: the directory.
        projects: the directories of all projects.
    """
    for project in projects:
        if project and f"{directory}/".startswith(f"{project}/"):
            return project
    return ""


def _read_statements(workspace: Workspace, rev: str) -> dict[str, StatedPhase | None]:
    """Return the stage that each project states at a revision, by its directory ("" is the root).

    It is None where the intent file is unclear. Projects without an intent file are left out.
    """
    files = workspace.at(rev).tree.select(_pathspecs())
    statements = {}
    for file, statement in _read_files(workspace, files):
        project = _find_project_of_file(file.path)
        if project is not None:
            statements[project] = statement
    return statements


def _read_files(
    workspace: Workspace, files: Iterable[TreeFile]
) -> Iterator[tuple[TreeFile, StatedPhase | None]]:
    """Yield intent files with the stage that each states, None if it is unclear."""
    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        yield content.file, find_stage((content.data or b"").decode("utf-8", "replace"))
