"""Sessions kept by the tool Entire (checkpoints) that no commit names, joined with merged changes.

If commits are squashed, the trailers that name checkpoints are lost. The metadata of a checkpoint
is not: the files that it touched, its branch and its time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.blobs import Tree
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.log import FILE_OPTIONS, read_log
from memory_ci.gitrepo.repo import Repository, find_commit
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.records.event import UNKNOWN_TIME
from memory_ci.records.history import Commit, MergedChange
from memory_ci.sources.commits import author_of
from memory_ci.sources.entire import CheckpointSummary, list_metadata, summarize
from memory_ci.text import plural

KEY = "Entire-Checkpoint"
GREP = ("--fixed-strings", "--regexp-ignore-case", f"--grep={KEY}:")
GRACE = timedelta(hours=1)  # The latest date of a checkpoint after the merge of its work.
WINDOW = timedelta(days=14)  # The longest time between work and its merge.

LEAST_TOUCHED = 0.8
"""The share of a checkpoint's files that a change must have where the branch is unknown."""

HINT = (
    "Keep the lines `Entire-Checkpoint:` of the commits that you fold "
    "in the message of the new one."
)
MAX_METADATA = 1_000_000  # Bytes of one file of metadata.


def list_named(commit: Commit) -> Iterator[str]:
    """Yield the ids of the checkpoints that a commit names."""
    for _, value in find_trailers(commit.message, (KEY,)):
        yield from split_ids(value)


class UnnamedCheckpoints:
    """The checkpoints of a tree that no commit of a history names, each joined to one change.

    Checkpoints of changes up to the commit `since` were read by an earlier run.
    """

    def __init__(self, repo: Repository, tree: Tree, base: str, since: str | None = None) -> None:
        """Prepare the search; nothing is read yet.

        Args:
            repo: the repository.
            tree: the tree of the branch of checkpoints.
            base: a revision; its history is searched for names of checkpoints.
            since: the commit up to which earlier runs have read.
        """
        self._repo = repo
        self._tree = tree
        self._base = find_commit(repo, base)
        self._since = since
        self._joined: set[str] = set()

    @cached_property
    def count(self) -> int:
        """The number of all checkpoints, those that commits name included."""
        return len(self._metadata)

    @cached_property
    def unnamed(self) -> tuple[CheckpointSummary, ...]:
        """The metadata of each checkpoint that no commit names, the oldest first."""
        named = self._find_named(self._base) if self._base else set()
        unnamed: dict[str, Sequence[str]] = {}
        all_paths: set[str] = set()
        for checkpoint, paths in self._metadata.items():
            if checkpoint not in named:
                unnamed[checkpoint] = paths
                all_paths.update(paths)

        contents: dict[str, bytes] = {}
        for content in self._tree.read(all_paths, MAX_METADATA):
            contents[content.file.path] = content.data or b""

        summaries = []
        for checkpoint, paths in unnamed.items():
            metadata = [contents[path] for path in paths if path in contents]
            summaries.append(summarize(checkpoint, metadata))
        return tuple(sorted(summaries, key=lambda summary: (summary.at, summary.id)))

    def join(self, merged: MergedChange, branch: str) -> Iterator[tuple[CheckpointSummary, str]]:
        """Yield the checkpoints whose work is in a merged change, each with the reason to think so.

        A checkpoint that was joined with a change before is left out.
        """
        changed = _list_changed(merged)
        for summary in self._unread:
            if summary.id in self._joined:
                continue
            if how := find_link(summary, merged, branch, changed):
                self._joined.add(summary.id)
                yield summary, how

    def list_unmerged(self) -> tuple[CheckpointSummary, ...]:
        """Return the checkpoints of no merged change that are too old to be merged any more.

        Checkpoints that earlier runs returned are left out.
        """
        if self._base is None:
            return ()
        end = find_commit_time(self._repo, self._base) - WINDOW
        start = find_commit_time(self._repo, self._since) - WINDOW if self._since else None
        return tuple(
            summary
            for summary in self._list_unjoined()
            if summary.at <= end and (start is None or summary.at > start)
        )

    def survey(self) -> str:
        """Join all unnamed checkpoints with the changes of the whole history, and `describe` it."""
        times = [summary.at for summary in self.unnamed if summary.at != UNKNOWN_TIME]
        if times and self._base:
            for merged in iter_changes(self._repo, times[0] - GRACE, self._base):
                list(self.join(merged, find_branch(merged.tip.message)))  # it marks them as joined
        return self.describe()

    def describe(self) -> str:
        """Return how many checkpoints no commit names, and how these were used; "" without any."""
        unmerged_count = len(self.list_unmerged())
        if not self._joined and not unmerged_count:
            return ""
        waiting_count = self._count_waiting()
        earlier_count = len(self.unnamed) - len(self._joined) - unmerged_count - waiting_count

        count = f"{len(self.unnamed)} of {plural(self.count, 'checkpoint')} of Entire"
        verb = "is" if len(self.unnamed) == 1 else "are"
        joined = f"{len(self._joined)} joined by branch, files and time"
        unmerged = f"{unmerged_count} of no change read for what people asked"
        waiting = f"{waiting_count} may be merged yet"
        message = f"{count} {verb} named by no commit: {joined}, {unmerged}, {waiting}"
        if earlier_count:
            message += f", {earlier_count} left to earlier runs"
        return message

    @cached_property
    def authors(self) -> dict[str, str]:
        """The author of the first commit of each checkpoint, `Name <e-mail>` by its id."""
        authors: dict[str, str] = {}
        # The log is newest first, so that the first commit of a checkpoint comes last.
        for commit, _ in read_log(
            self._repo, *FILE_OPTIONS, "--end-of-options", self._tree.oid, "--"
        ):
            for checkpoint in list_metadata(file.path for file in commit.files):
                authors[checkpoint] = author_of(commit)
        return authors

    def _list_unjoined(self) -> list[CheckpointSummary]:
        return [summary for summary in self._unread if summary.id not in self._joined]

    def _count_waiting(self) -> int:
        """Return how many checkpoints of no change are so new that they may be merged yet."""
        if not self._base:
            return 0
        end = find_commit_time(self._repo, self._base) - WINDOW
        return sum(summary.at > end for summary in self._list_unjoined())

    @cached_property
    def _unread(self) -> tuple[CheckpointSummary, ...]:
        """The unnamed checkpoints of no change up to `since`, the oldest first."""
        unread = list(self.unnamed)
        if not unread:
            return ()
        for merged in self._iter_earlier():
            branch = find_branch(merged.tip.message)
            changed = _list_changed(merged)
            unread = [
                summary for summary in unread if not find_link(summary, merged, branch, changed)
            ]
        return tuple(unread)

    def _iter_earlier(self) -> Iterator[MergedChange]:
        """Yield the changes before `since` that a checkpoint of this run may belong to."""
        if self._since is not None:
            start = find_commit_time(self._repo, self._since) - WINDOW - GRACE
            yield from iter_changes(self._repo, start, self._since)

    @cached_property
    def _metadata(self) -> dict[str, Sequence[str]]:
        return list_metadata(self._tree.files)

    def _find_named(self, rev: str) -> set[str]:
        """Return the ids of all checkpoints that the history of a revision names."""
        named: set[str] = set()
        for commit, _ in read_log(self._repo, *GREP, "--end-of-options", rev, "--"):
            named.update(list_named(commit))
        return named


def iter_changes(repo: Repository, start: datetime, end: str) -> Iterator[MergedChange]:
    """Yield the changes up to the commit `end` that were merged after `start`.

    In a shallow clone nothing is yielded if the range reaches beyond the fetched history.
    """
    before = f"--before={int(start.timestamp())}"
    log = read_log(repo, "-1", "--first-parent", before, "--end-of-options", end, "--")
    older = None  # the last commit before `start`
    for commit, _ in log:
        older = commit.sha
    try:
        yield from iter_merged_changes(repo, plan_range(repo, older, end))
    except RepositoryError as error:
        if error.slug != "shallow-clone":
            raise


def find_commit_time(repo: Repository, rev: str) -> datetime:
    """Return when the commit of a revision was committed."""
    log = read_log(repo, "-1", "--end-of-options", rev, "--")
    return next(commit.committed_at for commit, _ in log)


def _list_changed(merged: MergedChange) -> set[str]:
    return {file.path for commit in merged.commits for file in commit.files}


def find_link(
    summary: CheckpointSummary, merged: MergedChange, branch: str, changed: Collection[str]
) -> str:
    """Return why the work of a checkpoint is in a merged change, "" if nothing shows that it is.

    Both must be of the same time and have a file in common. If the branch of both is known, it must
    be the same; else the change must have four fifths of the files that the checkpoint touched.

    Args:
        summary: the metadata of the checkpoint.
        merged: the change.
        branch: the branch of the change, "" if unknown.
        changed: the paths that the change touched.
    """
    end = merged.tip.committed_at + GRACE
    shared = [path for path in summary.paths if path in changed]
    if not shared or not end - WINDOW <= summary.at <= end:
        return ""
    if branch and summary.branch:
        return f"a checkpoint of Entire on {branch}" if branch == summary.branch else ""
    is_enough = len(shared) >= LEAST_TOUCHED * len(summary.paths)
    return f"a checkpoint of Entire touched {shared[0]}" if is_enough else ""
