"""Problems and findings of a record run on its range, the work tree, and unproved messages."""

from __future__ import annotations

import os
from collections.abc import Iterator

from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.commands.record.new_reverts import NewReverts
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.record.run_results import RunResults
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import UsageError
from memory_ci.gitrepo.history import plan_range
from memory_ci.gitrepo.repo import head_branch, is_ancestor
from memory_ci.memory.claims import report_unproved_claim
from memory_ci.memory.workspace import (
    Snapshot,
    configure_from_work_tree,
    list_memory_files,
)
from memory_ci.records.report import Finding
from memory_ci.store.layout import INBOX, is_fragment
from memory_ci.text import plural


def find_gaps(run: RecordRun, options: RecordOptions) -> Iterator[str]:
    """Yield a problem if the range does not begin where the last run ended.

    Either the branch was rewritten below the last run, so that the range begins earlier; or the
    range begins after the last run's end, so that no later run reads the changes between.
    """
    repo = run.workspace.repo
    cursor = run.cursor
    lost_cursor = run.lost_cursor
    if options.since is None and lost_cursor is not None:
        yield (
            f"where the last run ended: its commit {lost_cursor.commit[:12]} names "
            f"{lost_cursor.source[:12]}, which the rewritten branch no longer holds. "
            "Older changes are read again; those that kept their commit are not counted twice"
        )
    if cursor is None or run.since is None:
        return
    last_run_end = cursor.source
    has_gap = run.since != last_run_end and is_ancestor(repo, last_run_end, run.since)
    if not has_gap:
        return
    unread_count = plan_range(repo, last_run_end, run.since).change_count
    yield (
        f"{plural(unread_count, 'change')} between the end of the last run ({last_run_end[:10]}) "
        "and --since: no later run reads them. Run without --since to read them"
    )


def find_uncommitted(snapshot: Snapshot, ref: str) -> Iterator[Finding]:
    """Yield findings for files of the work tree that a run does not read.

    These are notes of the inbox that are not committed; a run after their commit moves them into
    the memory files (folds them). An unreadable configuration gives a finding as well: the run uses
    the committed configuration.

    Args:
        snapshot: the commit that the run reads.
        ref: the full name of the run's branch. If another one is checked out, there is no finding.
    """
    workspace = snapshot.workspace
    if workspace.repo.root is None or head_branch(workspace.repo) != ref:
        return
    try:
        configure_from_work_tree(workspace.repo)
    except UsageError as error:
        message = (
            "the configuration of the work tree cannot be read, and that of the commit holds: "
            f"{error.message}"
        )
        yield Finding(CONFIG_FILE, 1, error.slug, message, error.hint, "notice")
    if not os.path.lexists(workspace.repo.root / INBOX):
        return
    committed_paths = {file.path for file in snapshot.memory.files}
    hint = "Commit it, and the next run folds it."
    for file in list_memory_files(workspace, None):
        if is_fragment(file.path) and file.path not in committed_paths:
            message = "waits in the work tree only"
            yield Finding(file.path, 1, "not-committed", message, hint, "notice")


def find_unproved_claims(run: RecordRun, results: RunResults, reverts: NewReverts) -> list[Finding]:
    """Return a notice if the run believed commit messages of people who may lack write access.

    Such a message says that a commit reverts other work or used an entry. It counts only if a
    person with write access wrote it, and only a forge knows who has write access.
    """
    has_reverts = any(revert.sha not in results.outsider_commits for revert in reverts.proved)
    has_claims = results.has_use_trailers or has_reverts
    if run.gatherer.has_forge or not has_claims:
        return []
    message = (
        "no forge was asked who may write: statements of commits on other work "
        "(reverts, Memory-Retrieved, Memory-Used) count for all extraction.trusted_authors"
    )
    return [report_unproved_claim(message, "notice")]
