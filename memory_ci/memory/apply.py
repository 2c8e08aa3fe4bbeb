"""Application of plans: the changes of a plan to memory are checked, and then committed.

A plan is made by a record run, perhaps in another job, so it is checked like any other input. Each
step of it may only make some kinds of changes. A run proves each new entry by quoted words. The
quotes that can be looked up again are looked up: those from the commits of the range, and from the
files that came in with them. Quotes from sessions and reviews cannot be (docs/security.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.errors import FindingsError, RepositoryError, UsageError
from memory_ci.extraction.entries import trim_evidence
from memory_ci.gitrepo.record_commits import SOURCE
from memory_ci.memory import episode_files
from memory_ci.memory.commit_message import render_commit_message
from memory_ci.memory.plan_checks import find_objections
from memory_ci.memory.recorded_ranges import plan_recorded_file
from memory_ci.memory.workspace import (
    Workspace,
    find_branch_tip,
    list_memory_files,
    load_files,
    workspace_at,
)
from memory_ci.records.config import Quotes
from memory_ci.records.plan import COMMITTED_ALONE, PLAN_VERSION, Change, Plan, PlannedStep
from memory_ci.store.edits import apply_changes
from memory_ci.store.layout import RECORDED_FILE

PreparedCommit = tuple[str, dict[str, bytes | None]]
"""The message and the files of a commit; None deletes a file."""


class _StepGroup(NamedTuple):
    """The steps of a plan that one commit makes, and its episode files by path.

    None as the content of an episode file deletes it.
    """

    steps: list[PlannedStep]
    episode_changes: dict[str, bytes | None]


class ExtraFiles(msgspec.Struct, frozen=True):
    """Files that are committed together with a plan.

    They go into the first commit of the plan, or into a commit of their own if it has none.

    Attributes:
        message: the message of that own commit.
        files: the content by path; None deletes a file.
        author: the author (`NAME <MAIL>`); empty for the author that is configured.
    """

    message: str
    files: Mapping[str, bytes | None]
    author: str = ""


class Applied(msgspec.Struct, frozen=True):
    """The commits that applying a plan made, or would make.

    Attributes:
        ref: the branch.
        tip: its tip afterwards; the old tip if nothing changed.
        subjects: the first line of each commit message.
    """

    ref: str
    tip: str
    subjects: tuple[str, ...]


def parse_plan(data: bytes) -> Plan:
    """Parse a plan from its JSON.

    Raises:
        UsageError: bad-plan.
    """
    try:
        plan = msgspec.json.decode(data, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"this is not a plan: {error}",
            slug="bad-plan",
            hint="Make one: memory-ci record --plan FILE.",
        ) from error

    if plan.schema_version != PLAN_VERSION:
        raise UsageError(
            f"the plan has schema version {plan.schema_version}, "
            f"this memory-ci reads {PLAN_VERSION}",
            slug="bad-plan",
            hint="Make the plan with the version that applies it.",
        )
    return plan


def apply_plan(
    workspace: Workspace,
    plan: Plan,
    now: datetime,
    *,
    in_actions: bool = False,
    extra_files: ExtraFiles | None = None,
) -> Applied:
    """Check the changes that a plan makes to memory files, and commit them: all, or none.

    The first commit holds new entries and episodes. Each step of upkeep is a commit of its own.

    Args:
        workspace: the repository.
        plan: the plan.
        now: the time of the commits.
        in_actions: whether this runs in GitHub Actions, which has another default identity.
        extra_files: other files to commit.

    Raises:
        RepositoryError: ref-moved, if the branch has another tip than the plan was made for;
            and the errors of the writer.
        FindingsError: plan-refused, if the plan does more than its steps may.
    """
    from memory_ci.gitrepo import writer  # GitPython: 75 ms, only to write

    prepared = _prepare_commits(workspace, plan, now, extra_files)
    preview = _describe_commits(plan, prepared)
    if not prepared:
        return preview

    config = workspace_at(workspace.repo, plan.base).config.publish
    if extra_files and extra_files.author:
        config = replace(config, author=extra_files.author)

    commits = [writer.PlannedCommit(files, message) for message, files in prepared]
    tip = writer.commit_series(
        workspace.repo,
        ref=plan.ref,
        expected=plan.base,
        commits=commits,
        identity=writer.choose_identity(config, in_actions=in_actions),
        when=now,
    )
    return replace(preview, tip=tip)


def remove_source_trailer(message: str) -> str:
    """Remove the trailer from a commit message that says how far a run came."""
    lines = message.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(f"{SOURCE}:"))


def preview_plan(
    workspace: Workspace, plan: Plan, now: datetime, extra_files: ExtraFiles | None = None
) -> Applied:
    """Return what `apply_plan` would commit, after all of its checks, and write nothing."""
    prepared = _prepare_commits(workspace, plan, now, extra_files)
    return _describe_commits(plan, prepared)


def _describe_commits(plan: Plan, prepared: Iterable[PreparedCommit]) -> Applied:
    """Return the subjects of commits that are not made yet, on the branch at its old tip."""
    subjects = tuple(message.partition("\n")[0] for message, _ in prepared)
    return Applied(plan.ref, plan.base, subjects)


def _prepare_commits(
    workspace: Workspace, plan: Plan, now: datetime, extra_files: ExtraFiles | None
) -> list[PreparedCommit]:
    """Check a plan on the commit that it was made for, and return its commits.

    Args:
        workspace: the repository.
        plan: the plan.
        now: the time of the commits.
        extra_files: other files, which go into the first commit.

    Raises:
        RepositoryError: ref-moved.
        FindingsError: plan-refused.
    """
    _require_base(workspace, plan)
    workspace = workspace_at(workspace.repo, plan.base)
    _require_no_objections(workspace, plan, now.astimezone(UTC).date())
    plan = trim_plan_quotes(plan, workspace.config.evidence.quotes)

    # Each step changes the files as the steps before it left them.
    current_files = _read_changed_files(workspace, plan)
    all_episode_changes = _list_episode_changes(workspace, plan)
    prepared = []
    for steps, episode_changes in _group_steps_by_commit(plan, all_episode_changes):
        files_of_commit = dict(episode_changes)
        for step in steps:
            changed_files = apply_changes(current_files, step.changes)
            files_of_commit |= changed_files
            _update_content(current_files, changed_files)
        message = _render_message(steps, plan, episode_changes)
        prepared.append((message, files_of_commit))

    if prepared and workspace.config.export.record:
        _, last_files = prepared[-1]
        last_files.update(_export_block(workspace, plan, current_files))
    if extra_files and extra_files.files:
        _add_files(prepared, extra_files)
    return prepared


def _render_message(
    steps: Sequence[PlannedStep], plan: Plan, episode_changes: Mapping[str, bytes | None]
) -> str:
    """Return the message of a commit with some steps of a plan and some episode files."""
    records_range = RECORDED_FILE in episode_changes
    file_count = len(episode_changes)
    if records_range:
        file_count -= 1  # RECORDED_FILE, which holds no episode
    return render_commit_message(steps, plan, file_count, records_range=records_range)


def _list_episode_changes(workspace: Workspace, plan: Plan) -> dict[str, bytes | None]:
    """Return the new content of the episode files that a plan changes, by path.

    RECORDED_FILE, which lists the ranges of history that runs have read, is among them if it
    changes. All of them are in the first commit of the plan.
    """
    changes = episode_files.list_changes(workspace, plan)
    # Steps in COMMITTED_ALONE have commits of their own, so they are not in the first commit.
    has_step_in_first_commit = any(step.step not in COMMITTED_ALONE for step in plan.steps)
    recorded_file = plan_recorded_file(
        workspace.at(plan.base), plan, is_committed=bool(changes) or has_step_in_first_commit
    )
    return {**changes, **recorded_file}


def _require_base(workspace: Workspace, plan: Plan) -> None:
    """Refuse a plan if its branch has another tip than the plan was made for."""
    ref, tip = find_branch_tip(workspace, plan.ref)
    if tip != plan.base:
        raise RepositoryError(
            f"{ref} is at {tip[:12]}, the plan was made for {plan.base[:12]}",
            slug="ref-moved",
            hint="Make the plan again: memory-ci record --plan FILE.",
        )


def _require_no_objections(workspace: Workspace, plan: Plan, today: date) -> None:
    """Refuse a plan that does more than its steps may, with the first reason."""
    objections = chain(
        find_objections(workspace, plan, today),
        episode_files.find_objections(workspace, plan, today),
    )
    for objection in objections:
        raise FindingsError(
            f"the plan is refused: {objection}",
            slug="plan-refused",
            hint="Make it again: memory-ci record --plan FILE.",
        )


def _read_changed_files(workspace: Workspace, plan: Plan) -> dict[str, bytes]:
    """Read from its base the files that the plan changes."""
    return dict(workspace.at(plan.base).read(_list_changed_paths(plan)))


def _list_changed_paths(plan: Plan) -> list[str]:
    """Return the paths of the files that a plan changes or moves entries from."""
    paths = []
    for step in plan.steps:
        for change in step.changes:
            paths.append(change.path)
            if change.moved_from:
                paths.append(change.moved_from)
    return paths


def _group_steps_by_commit(
    plan: Plan, episode_changes: dict[str, bytes | None]
) -> list[_StepGroup]:
    """Return the steps and the episode files of each commit of a plan.

    The first commit has all episode files, and the steps that need no commit of their own. Each
    step in COMMITTED_ALONE follows as a commit.

    Args:
        plan: the plan.
        episode_changes: the content of the episode files that it changes, by path.
    """
    joint_steps: list[PlannedStep] = []
    own_commits: list[_StepGroup] = []
    for planned_step in plan.steps:
        if planned_step.step in COMMITTED_ALONE:
            own_commits.append(_StepGroup([planned_step], episode_changes={}))
        else:
            joint_steps.append(planned_step)
    if joint_steps or episode_changes:
        return [_StepGroup(joint_steps, episode_changes), *own_commits]
    return own_commits


def _update_content(content: dict[str, bytes], changed_files: Mapping[str, bytes | None]) -> None:
    """Apply changed files to the content of files by path; None deletes a file."""
    for path, data in changed_files.items():
        if data is None:
            content.pop(path, None)
        else:
            content[path] = data


def _add_files(prepared: list[PreparedCommit], extra_files: ExtraFiles) -> None:
    """Add files to the first commit; without a commit, they become one."""
    if not prepared:
        prepared.append((extra_files.message, {}))
    first_files = prepared[0][1]
    first_files.update(extra_files.files)


def trim_plan_quotes(plan: Plan, quotes: Quotes) -> Plan:
    """Shorten or remove the quotes of people in the entries of a plan.

    Unless all quotes are allowed, the proposals that the plan did not accept lose theirs
    completely: they are in no memory file.

    Args:
        plan: the plan.
        quotes: how much of a quote the configuration allows in memory files; "full" changes
            nothing.
    """
    if quotes == "full":
        return plan

    steps = []
    for step in plan.steps:
        changes = tuple(_trim_change(change, quotes) for change in step.changes)
        steps.append(replace(step, changes=changes))

    judged_candidates = []
    for judged in plan.judged:
        candidate = replace(judged.candidate, quotes=())
        judged_candidates.append(replace(judged, candidate=candidate))
    return replace(plan, steps=tuple(steps), judged=tuple(judged_candidates))


def _trim_change(change: Change, quotes: Quotes) -> Change:
    """Shorten or remove the quotes of the entry that a change writes."""
    if change.kind in ("remove", "drop"):
        return change  # its entry is looked up by its present text
    return replace(change, entry=trim_evidence(change.entry, quotes))


def _export_block(
    workspace: Workspace, plan: Plan, final_files: Mapping[str, bytes]
) -> dict[str, bytes | None]:
    """Update the block of memory in AGENTS.md, or the file that is configured instead.

    Args:
        workspace: the workspace at the base of the plan.
        plan: the plan.
        final_files: the changed memory files as the plan leaves them.

    Returns:
        The new content by path; nothing if the block is the same as before.
    """
    from memory_ci.memory.agents_block import build_lines, put_block
    from memory_ci.store.memory_files import load_file

    changed_paths = set(_list_changed_paths(plan))
    memory_files = list_memory_files(workspace, plan.base)
    unchanged_files = [file for file in memory_files if file.path not in changed_paths]
    loaded_files = [*load_files(workspace, unchanged_files)]
    for path, data in final_files.items():
        if path in changed_paths:
            loaded_files.append(load_file(path, data, workspace.config.scopes))

    export_path = workspace.config.export.path
    old_data = workspace.at(plan.base).read([export_path]).get(export_path, b"")
    old_text = old_data.decode("utf-8", "surrogateescape")
    new_text = put_block(old_text, build_lines(loaded_files))
    if new_text == old_text:
        return {}
    return {export_path: new_text.encode("utf-8", "surrogateescape")}
