"""Apply: a plan, checked again against the tree it is applied to, becomes commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain

import msgspec
from msgspec.structs import replace

from memory_ci.errors import FindingsError, RepositoryError, UsageError
from memory_ci.extraction.entries import trim_evidence
from memory_ci.flows.record import episode_files as telling
from memory_ci.flows.record.referee import find_objections
from memory_ci.flows.workspace import Workspace, branch_tip, list_memory_files, load_files, workspace_at
from memory_ci.gitrepo.history import SOURCE
from memory_ci.records.config import Quotes
from memory_ci.records.plan import ALONE, PLAN_VERSION, Change, Plan
from memory_ci.rendering.plan import render_commit_message
from memory_ci.store.edits import apply_changes

Prepared = list[tuple[str, dict[str, bytes | None]]]  # The message and the files of each commit.


class Beside(msgspec.Struct, frozen=True):
    """Files that go with the first commit of a plan, or are one of their own where it has none.

    `by` is who commits (`NAME <MAIL>`), if not who commits memory else.
    """

    message: str
    files: Mapping[str, bytes | None]
    by: str = ""


class Applied(msgspec.Struct, frozen=True):
    """What was committed: the new tip of the branch (the old one if nothing changed), and what commits say first."""

    ref: str
    tip: str
    subjects: tuple[str, ...]


def parse_plan(data: bytes) -> Plan:
    """A plan from its JSON. Raises UsageError (bad-plan)."""
    try:
        plan = msgspec.json.decode(data, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"this is not a plan: {error}", slug="bad-plan", hint="Make one: memory-ci extract."
        ) from error
    if plan.schema_version != PLAN_VERSION:
        message = f"the plan has schema version {plan.schema_version}, this memory-ci reads {PLAN_VERSION}"
        raise UsageError(message, slug="bad-plan", hint="Make the plan with the version that applies it.")
    return plan


def apply_plan(
    workspace: Workspace,
    plan: Plan,
    now: datetime,
    *,
    in_actions: bool = False,
    covers: bool = True,
    beside: Beside | None = None,
) -> Applied:
    """Perform a plan: one commit with entries and episodes, and one for each step of upkeep; all or none of them.

    Unless it `covers` its range, no commit says how far the run came.

    Raises RepositoryError (ref-moved) when the branch is not where the plan was made, FindingsError (plan-refused)
    when the plan does what a plan of its kind may not, and what the writer raises.
    """
    from memory_ci.gitrepo.writer import (  # GitPython: 75 ms, only to write
        PlannedCommit,
        choose_identity,
        commit_series,
    )

    prepared = _prepare(workspace, plan, now, beside)
    preview = _preview(plan, prepared)
    if not prepared:
        return preview
    config = workspace_at(workspace.repo, plan.base).config.publish
    if beside and beside.by:
        config = replace(config, author=beside.by)
    tip = commit_series(
        workspace.repo,
        ref=plan.ref,
        expected=plan.base,
        commits=[PlannedCommit(files, message if covers else without_source(message)) for message, files in prepared],
        identity=choose_identity(config, in_actions=in_actions),
        when=now,
    )
    return replace(preview, tip=tip)


def without_source(message: str) -> str:
    """A message that does not say how far a run came."""
    return "".join(line for line in message.splitlines(keepends=True) if not line.startswith(f"{SOURCE}:"))


def preview_plan(workspace: Workspace, plan: Plan, now: datetime, beside: Beside | None = None) -> Applied:
    """What apply_plan would commit, after every check it makes; nothing is written."""
    return _preview(plan, _prepare(workspace, plan, now, beside))


def _preview(plan: Plan, prepared: Prepared) -> Applied:
    return Applied(plan.ref, plan.base, tuple(message.partition("\n")[0] for message, _ in prepared))


def _prepare(workspace: Workspace, plan: Plan, now: datetime, beside: Beside | None) -> Prepared:
    """The message and the files of each commit, for a plan that has been checked against its tree."""
    ref, tip = branch_tip(workspace, plan.ref)
    if tip != plan.base:
        message = f"{ref} is at {tip[:12]}, the plan was made for {plan.base[:12]}"
        raise RepositoryError(message, slug="ref-moved", hint="Make the plan again: memory-ci extract.")
    workspace = workspace_at(workspace.repo, tip)
    today = now.astimezone(UTC).date()
    for reason in chain(find_objections(workspace, plan, today), telling.find_objections(workspace, plan, today)):
        hint = "Make it again: memory-ci extract."
        raise FindingsError(f"the plan is refused: {reason}", slug="plan-refused", hint=hint)
    plan = trim_plan(plan, workspace.config.evidence.quotes)
    noted = telling.list_changes(workspace, plan)
    run = [step for step in plan.steps if step.step not in ALONE]
    groups = [*([run] if run or noted else []), *([step] for step in plan.steps if step.step in ALONE)]
    prepared = []
    changes = [change for step in plan.steps for change in step.changes]
    content = workspace.at(tip).read(path for change in changes for path in (change.path, change.moved_from) if path)
    for steps in groups:
        told = noted if steps is run else {}
        files = dict(told)
        for step in steps:
            files |= (changed := apply_changes(content, step.changes))
            content = {path: data for path, data in {**content, **changed}.items() if data is not None}
        prepared.append((render_commit_message(steps, plan, len(told)), files))
    if prepared and workspace.config.export.record:
        prepared[-1][1].update(_export(workspace, tip, changes, content))
    if beside and beside.files:
        message, files = prepared[0] if prepared else (beside.message, {})
        prepared[:1] = [(message, files | dict(beside.files))]
    return prepared


def trim_plan(plan: Plan, quotes: Quotes) -> Plan:
    """The plan with as much of people's words as the configuration lets out of the run that proved them."""
    if quotes == "full":
        return plan

    def trim(change: Change) -> Change:
        is_kept = change.kind in ("remove", "drop")  # is found by what it says now
        return change if is_kept else replace(change, entry=trim_evidence(change.entry, quotes))

    steps = tuple(replace(step, changes=tuple(map(trim, step.changes))) for step in plan.steps)
    judged = (replace(one, candidate=replace(one.candidate, quotes=())) for one in plan.judged)
    return replace(plan, steps=steps, judged=tuple(judged))


def _export(
    workspace: Workspace, tip: str, changes: Iterable[Change], content: Mapping[str, bytes]
) -> dict[str, bytes | None]:
    """The exported file, where it is another with the memory that these changes leave."""
    from memory_ci.flows.serve.export import build_lines, put_block
    from memory_ci.store.document import load_file

    path, touched = workspace.config.export.path, {path for one in changes for path in (one.path, one.moved_from)}
    left = [file for file in list_memory_files(workspace, tip) if file.path not in touched]
    new = [load_file(name, data, workspace.config.scopes) for name, data in content.items() if name in touched]
    files = [*load_files(workspace, left), *new]
    before = workspace.at(tip).read([path]).get(path, b"").decode("utf-8", "surrogateescape")
    after = put_block(before, build_lines(files))
    return {} if after == before else {path: after.encode("utf-8", "surrogateescape")}
