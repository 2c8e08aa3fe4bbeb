"""The merged changes of a branch with all that checks test: files, added lines, messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory_ci import progress
from memory_ci.checks.backtest import PastChange
from memory_ci.checks.globs import list_pathspecs
from memory_ci.checks.judge import AddedLine, CheckedChange, list_read_globs
from memory_ci.gitrepo.diffs import Additions, iter_additions
from memory_ci.gitrepo.history import HistoryRange, iter_merged_changes
from memory_ci.gitrepo.repo import Repository
from memory_ci.memory.rules import TOO_LONG, build_wanted, list_worded_messages
from memory_ci.memory.workspace import Workspace
from memory_ci.records.check import RuleCheck
from memory_ci.records.history import Commit, FileChange, MergedChange

MAX_PATHSPECS = 40
"""Pathspecs that git compares by; with more it is slower than without any."""


def iter_past_changes(
    workspace: Workspace, history: HistoryRange, rules: Sequence[RuleCheck]
) -> Iterator[PastChange]:
    """Yield the merged changes of a range, oldest first, with what checks need of them.

    One git process reads commits and files; a second one reads added lines, if a check needs them.

    Args:
        workspace: the repository.
        history: the range.
        rules: the checks.
    """
    repo = workspace.repo
    globs = list_read_globs([rule.check for rule in rules])
    additions = _AdditionStream(repo, history, rules, globs) if globs else None
    merged_changes = iter_merged_changes(repo, history)
    for merged in progress.count("Trying checks on history", merged_changes, history.change_count):
        landed = list_landed(merged)
        change = _make_change(merged, landed, workspace)
        if additions is not None:
            change = additions.add(change, landed)
        yield PastChange(merged, change)


class _AdditionStream:
    """The added lines of the changes of a range, in the order of the changes."""

    def __init__(
        self,
        repo: Repository,
        history: HistoryRange,
        rules: Sequence[RuleCheck],
        globs: Sequence[str],
    ) -> None:
        """Start the git process that reads the lines.

        Args:
            repo: the repository.
            history: the range.
            rules: the checks; only lines of files that they need are read.
            globs: the globs of these files.
        """
        first_parents = [group[-1] for group in history.groups]
        pathspecs = list_pathspecs(globs)
        if len(pathspecs) > MAX_PATHSPECS:
            pathspecs = []
        self._stream = iter_additions(repo, first_parents, build_wanted(rules), pathspecs)
        # The next commit that adds lines to such files, and its lines.
        self._next: tuple[str, Additions] | None = next(self._stream, None)

    def add(self, change: CheckedChange, landed: Sequence[Commit]) -> CheckedChange:
        """Return a change with the lines that it adds, read from the stream.

        Args:
            change: the next change of the range.
            landed: its commits on the first-parent line.
        """
        moved_paths = {file.path for file in change.files if file.status == "R"}
        added: list[AddedLine] = []
        unread = ""
        for commit in landed:
            if self._next is None or self._next[0] != commit.sha:
                continue  # It changes no file that a check reads.
            _, additions = self._next
            for line in additions.lines:
                # A file that was moved from where git did not look seems to be new.
                if line.path not in moved_paths:
                    added.append(AddedLine(*line))
            if not additions.is_complete:
                unread = TOO_LONG
            self._next = next(self._stream, None)
        return CheckedChange(
            files=change.files,
            added=tuple(added),
            messages=change.messages,
            title=change.title,
            unread=unread,
        )


def list_landed(merged: MergedChange) -> tuple[Commit, ...]:
    """Return the commits of a change that are on the first-parent line: several of a rebase."""
    return merged.commits if merged.kind == "rebase" else (merged.tip,)


def _make_change(
    merged: MergedChange, landed: Sequence[Commit], workspace: Workspace
) -> CheckedChange:
    """Return the files, messages and title of a merged change, without its added lines.

    Args:
        merged: the change.
        landed: its commits on the first-parent line, which have its files.
        workspace: the repository.
    """
    files: dict[str, FileChange] = {}
    for commit in landed:
        for file in commit.files:
            files.setdefault(file.path, file)
    return CheckedChange(
        files=tuple(files.values()),
        messages=list_worded_messages(merged.commits, workspace),
        title=merged.title if merged.number is not None else "",
    )
