"""Problems and findings of a record run on its range, the work tree, and unproved messages."""

from __future__ import annotations

from collections.abc import Iterator

from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.commands.record.new_reverts import NewReverts
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.record.tally import Tally
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import UsageError
from memory_ci.gitrepo.history import plan_range
from memory_ci.gitrepo.record_commits import find_lost_cursor
from memory_ci.gitrepo.repo import head_branch, is_ancestor
from memory_ci.memory.claims import report_unproved_claim
from memory_ci.memory.workspace import (
    Snapshot,
    build_memory_test,
    configure_from_work_tree,
    list_memory_files,
)
from memory_ci.records.report import Finding
from memory_ci.store.layout import is_fragment
from memory_ci.text import plural


def find_gaps(run: RecordRun, options: RecordOptions) -> Iterator[str]:
    """Yield a problem if the range does not begin where the last run ended.

    Either the branch was rewritten below the last run, so that the range begins earlier; or the
    range begins after the last run's end, so that no later run reads the changes between.
    """
    repo, cursor = run.workspace.repo, run.cursor
    if options.since is None:
        lost = find_lost_cursor(repo, run.base.sha, cursor, build_memory_test(run.workspace))
        if lost is not None:
            yield (
                f"where the last run ended: its commit {lost.commit[:12]} names "
                f"{lost.source[:12]}, which the rewritten branch no longer holds. "
                "Older changes are read again; those that kept their commit are not counted twice"
            )
    if cursor is None or run.since in (None, cursor.source):
        return
    if not is_ancestor(repo, cursor.source, run.since):
        return
    count = plan_range(repo, cursor.source, run.since).change_count
    yield (
        f"{plural(count, 'change')} between the end of the last run ({cursor.source[:10]}) "
        "and --since: no later run reads them. Run without --since to read them"
    )


def find_uncommitted(snapshot: Snapshot, ref: str) -> Iterator[Finding]:
    """Yield findings for files of the work tree that a run does not read.

    These are notes of the inbox that are not committed, and an unreadable configuration, instead of
    which the committed configuration is used.
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
    committed_paths = {file.path for file in snapshot.memory.files}
    hint = "Commit it, and the next run folds it."
    for file in list_memory_files(workspace, None):
        if is_fragment(file.path) and file.path not in committed_paths:
            message = "waits in the work tree only"
            yield Finding(file.path, 1, "not-committed", message, hint, "notice")


def find_unproved_claims(run: RecordRun, tally: Tally, reverts: NewReverts) -> list[Finding]:
    """Return a notice if commit messages count without a forge that says who may write.

    Those are messages that say that a commit reverts other work or used an entry.
    """
    has_reverts = any(revert.sha not in tally.outsiders for revert in reverts.proved)
    if run.gatherer.has_forge or not (tally.has_uses or has_reverts):
        return []
    message = (
        "no forge was asked who may write: statements of commits on other work "
        "(reverts, Memory-Retrieved, Memory-Used) count for all extraction.trusted_authors"
    )
    return [report_unproved_claim(message, "notice")]
