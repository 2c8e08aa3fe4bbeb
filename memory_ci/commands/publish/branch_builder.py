"""The commits of a memory branch: maintainers' decisions, the run, and this week's questions."""

from __future__ import annotations

from datetime import UTC

from memory_ci.commands.publish.carry_over import KeptDecisions, carry_over, list_lost_titles
from memory_ci.commands.publish.landing import Run, commit_files, plan_and_commit
from memory_ci.commands.publish.pull_request import BuiltBranch
from memory_ci.commands.review.priority import ASKED_LINE
from memory_ci.commands.review.queue import (
    CANDIDATE_KINDS,
    ENTRY_KINDS,
    find_week,
    list_questions,
    record_asked,
)
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.record_commits import STEP
from memory_ci.memory.forgotten import REJECTED_FILE, read_rejected
from memory_ci.memory.maintainer_decisions import KEEP, MaintainerDecisions
from memory_ci.memory.workspace import Workspace, workspace_at

ASKED_MESSAGE = f"memory: note what this week asks\n\n{STEP}: ask\n"
KEPT_DECISIONS_MESSAGE = f"memory: keep what maintainers decided on this branch\n\n{STEP}: {KEEP}\n"


def build_branch(
    run: Run, ref: str, base: str, decisions: MaintainerDecisions
) -> BuiltBranch | str:
    """Make the commits of the memory branch on a private ref.

    1. Decisions of maintainers on the earlier branch that the base does not have.
    2. The run. It is planned on top of the decisions, so that it does not propose removed entries
       again.
    3. The lines that record which questions people are asked this week.

    Args:
        run: the run.
        ref: the private ref at the base, on which the commits are made.
        base: the commit that the branch begins at.
        decisions: the decisions of maintainers on the earlier branch.

    Returns:
        The built branch, or why it cannot be built.
    """
    workspace = workspace_at(run.workspace.repo, base)
    # The file of rejections also has lines on questions that were asked. They are written with the
    # new questions, in the last commit.
    asked_lines = tuple(line for line in decisions.rejected_lines if ASKED_LINE.match(line))
    rejections = tuple(line for line in decisions.rejected_lines if line not in asked_lines)
    kept_decisions = _commit_kept_decisions(
        run, workspace, ref, base, decisions._replace(rejected_lines=rejections)
    )
    # The commit of the decisions is no merged work, so the range ends before it, at the base.
    range_end = base if kept_decisions.files else None
    try:
        plan, applied = plan_and_commit(run, ref, range_end)
    except RepositoryError as error:
        if error.slug != "ref-moved" or not kept_decisions.files:
            raise
        # The plan is of another job, which did not know the decisions.
        return error.message
    built = BuiltBranch(
        base=base,
        tip=applied.tip,
        plan=plan,
        subjects=applied.subjects,
        rejected_lines=decisions.rejected_lines,
        kept_decisions=kept_decisions,
        lost_titles=list_lost_titles(workspace, applied.tip, decisions),
    )
    if built.tip == base:
        return built
    return _commit_questions(run, workspace, ref, built, asked_lines)


def _commit_questions(
    run: Run, workspace: Workspace, ref: str, built: BuiltBranch, asked_lines: tuple[str, ...]
) -> BuiltBranch:
    """Choose this week's questions to people, and commit the lines that record them.

    Questions are about candidates that may become entries, and about entries that may be outdated.
    REJECTED_FILE records which were asked and when, so that nobody is asked too often.

    Args:
        run: the run.
        workspace: the repository, with the configuration at the base.
        ref: the private ref with the built commits.
        built: the built branch.
        asked_lines: the lines that record earlier questions on the branch.

    Returns:
        The built branch with the commit of the lines, and the questions.
    """
    today, tip = run.now.astimezone(UTC).date(), built.tip
    # A job of CI has no global memory, the checkout of a person, to promote entries to.
    kinds = CANDIDATE_KINDS | (ENTRY_KINDS - {"promotion"})
    questions = tuple(list_questions(workspace, tip, built.plan.judged, run.now, kinds))
    week = find_week(workspace, tip, questions, today, asked_lines)
    new_content = record_asked(workspace, tip, week.questions, (), today, more_lines=asked_lines)
    old_content = workspace.at(tip).read([REJECTED_FILE]).get(REJECTED_FILE)
    if new_content != old_content and (week.questions or asked_lines):
        files = {REJECTED_FILE: new_content}
        tip = commit_files(
            workspace,
            ref,
            tip,
            files,
            message=ASKED_MESSAGE,
            now=run.now,
            in_actions=run.in_actions,
        )
    all_asked_lines = [line for line in read_rejected(workspace.at(tip)) if ASKED_LINE.match(line)]
    rejected_lines = tuple(dict.fromkeys((*built.rejected_lines, *all_asked_lines)))
    return built._replace(tip=tip, questions=week.questions, rejected_lines=rejected_lines)


def _commit_kept_decisions(
    run: Run, workspace: Workspace, ref: str, base: str, decisions: MaintainerDecisions
) -> KeptDecisions:
    """Commit what maintainers edited and removed on the earlier memory branch.

    Args:
        run: the run.
        workspace: the repository, with the configuration at the base.
        ref: the private ref at the base, on which the commit is made.
        base: the commit that the new memory branch begins at.
        decisions: the decisions of maintainers.

    Returns:
        The decisions with the committed files; no files if the base has all of the decisions.
    """
    kept_decisions = carry_over(workspace, base, decisions)
    if kept_decisions.files:
        commit_files(
            workspace,
            ref,
            base,
            kept_decisions.files,
            message=KEPT_DECISIONS_MESSAGE,
            now=run.now,
            in_actions=run.in_actions,
        )
    return kept_decisions
