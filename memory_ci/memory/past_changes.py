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
from memory_ci.memory.rules import TOO_LONG, build_added_line_filter, list_messages_by_people
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
    added_lines = _AddedLinesStream(repo, history, rules, globs) if globs else None
    merged_changes = iter_merged_changes(repo, history)
    for merged in progress.count("Trying checks on history", merged_changes, history.change_count):
        commits = list_first_parent_commits(merged)
        change = _make_change(merged, commits, workspace)
        if added_lines is not None:
            change = added_lines.add_to(change, commits)
        yield PastChange(merged, change)


class _AddedLinesStream:
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
        # The last commit of a change is the one on the first-parent line.
        first_parents = [group[-1] for group in history.groups]
        pathspecs = list_pathspecs(globs)
        if len(pathspecs) > MAX_PATHSPECS:
            pathspecs = []  # git reads all files faster than it compares them with many patterns
        self._stream = iter_additions(
            repo, first_parents, build_added_line_filter(rules), pathspecs
        )
        # The next commit that adds lines to such files, and its lines; None at the end.
        self._next: tuple[str, Additions] | None = next(self._stream, None)

    def add_to(self, change: CheckedChange, commits: Sequence[Commit]) -> CheckedChange:
        """Return a change with the lines that it adds, which are the next ones of the stream.

        Args:
            change: the next change of the range.
            commits: its commits on the first-parent line.
        """
        # Git compares only the paths that checks read. A file that was moved there from another
        # path therefore looks like a new file, and its lines must not count as added.
        moved_paths = {file.path for file in change.files if file.status == "R"}
        added_lines: list[AddedLine] = []
        unread_reason = ""
        for commit in commits:
            if self._next is None or self._next[0] != commit.sha:
                continue  # It changes no file that a check reads.
            _, additions = self._next
            for line in additions.lines:
                if line.path not in moved_paths:
                    added_lines.append(AddedLine(*line))
            if not additions.is_complete:
                unread_reason = TOO_LONG
            self._next = next(self._stream, None)
        return CheckedChange(
            files=change.files,
            added=tuple(added_lines),
            messages=change.messages,
            title=change.title,
            unread=unread_reason,
        )


def list_first_parent_commits(merged: MergedChange) -> tuple[Commit, ...]:
    """Return the commits of a change on the first-parent line: all if it was merged by a rebase."""
    return merged.commits if merged.kind == "rebase" else (merged.tip,)


def _make_change(
    merged: MergedChange, first_parent_commits: Sequence[Commit], workspace: Workspace
) -> CheckedChange:
    """Return the files, messages and title of a merged change, without its added lines.

    Args:
        merged: the change.
        first_parent_commits: its commits on the first-parent line, which have its files.
        workspace: the repository.
    """
    file_by_path: dict[str, FileChange] = {}
    for commit in first_parent_commits:
        for file in commit.files:
            file_by_path.setdefault(file.path, file)
    # Checks of titles are about pull requests: a change without one has no title that counts.
    title = merged.title if merged.number is not None else ""
    return CheckedChange(
        files=tuple(file_by_path.values()),
        messages=list_messages_by_people(merged.commits, workspace),
        title=title,
    )
