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
from memory_ci.gitrepo.history import iter_merged_changes, plan_range, read_commit_once
from memory_ci.gitrepo.log import FILE_OPTIONS, read_log
from memory_ci.gitrepo.repo import Repository, find_commit
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.records.event import UNKNOWN_TIME
from memory_ci.records.history import Commit, MergedChange
from memory_ci.sources.commits import format_author
from memory_ci.sources.entire import CheckpointSummary, list_metadata, summarize_checkpoint
from memory_ci.text import plural

TRAILER_KEY = "Entire-Checkpoint"
TRAILER_LOG_OPTIONS = ("--fixed-strings", "--regexp-ignore-case", f"--grep={TRAILER_KEY}:")
TIME_TOLERANCE = timedelta(hours=1)
"""How far the times of a session and of its commit may be apart, chosen by hand."""

MAX_TIME_TO_MERGE = timedelta(days=14)
"""The longest time between work and its merge, chosen by hand."""

MIN_SHARED_PATHS = 0.8
"""The share of a checkpoint's files that a change must have where the branch is unknown."""

HINT = (
    "Keep the lines `Entire-Checkpoint:` of the commits that you fold "
    "in the message of the new one."
)
MAX_METADATA = 1_000_000  # Bytes of one file of metadata.


def list_named_ids(commit: Commit) -> Iterator[str]:
    """Yield the ids of the checkpoints that a commit names."""
    for _, value in find_trailers(commit.message, (TRAILER_KEY,)):
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
        self._joined_ids: set[str] = set()  # of the checkpoints that this run joined

    @cached_property
    def count(self) -> int:
        """The number of all checkpoints, those that commits name included."""
        return len(self._metadata)

    @cached_property
    def summaries(self) -> tuple[CheckpointSummary, ...]:
        """The metadata of each checkpoint that no commit names, the oldest first."""
        named_ids = self._find_named_ids(self._base) if self._base else set()
        paths_by_id: dict[str, Sequence[str]] = {}
        all_paths: set[str] = set()
        for checkpoint_id, paths in self._metadata.items():
            if checkpoint_id not in named_ids:
                paths_by_id[checkpoint_id] = paths
                all_paths.update(paths)

        contents: dict[str, bytes] = {}
        for content in self._tree.read(all_paths, MAX_METADATA):
            contents[content.file.path] = content.data or b""

        summaries = []
        for checkpoint_id, paths in paths_by_id.items():
            metadata = [contents[path] for path in paths if path in contents]
            summaries.append(summarize_checkpoint(checkpoint_id, metadata))
        return tuple(sorted(summaries, key=lambda summary: (summary.at, summary.id)))

    def join_change(
        self, merged: MergedChange, branch: str
    ) -> Iterator[tuple[CheckpointSummary, str]]:
        """Yield the checkpoints whose work is in a merged change, each with the reason in words.

        A checkpoint is a part of a session that the tool Entire has stored. No commit names these
        checkpoints, so their branch, files and time are compared with the change. A checkpoint is
        joined with one change only.

        Args:
            merged: the change.
            branch: its branch, "" if unknown.
        """
        changed_paths = _list_changed_paths(merged)
        for summary in self._open_summaries:
            if summary.id in self._joined_ids:
                continue
            if reason := find_reason_to_join(summary, merged, branch, changed_paths):
                self._joined_ids.add(summary.id)
                yield summary, reason

    def list_unmerged(self) -> tuple[CheckpointSummary, ...]:
        """Return the checkpoints of no merged change that are too old to be merged any more.

        Checkpoints that earlier runs returned are left out.
        """
        if self._base is None:
            return ()
        end = find_commit_time(self._repo, self._base) - MAX_TIME_TO_MERGE
        start = (
            find_commit_time(self._repo, self._since) - MAX_TIME_TO_MERGE if self._since else None
        )
        return tuple(
            summary
            for summary in self._list_unjoined_summaries()
            if summary.at <= end and (start is None or summary.at > start)
        )

    def join_whole_history(self) -> str:
        """Join all unnamed checkpoints with the changes of the history; return the description."""
        times = [summary.at for summary in self.summaries if summary.at != UNKNOWN_TIME]
        if times and self._base:
            for merged in iter_changes(self._repo, times[0] - TIME_TOLERANCE, self._base):
                # The iteration notes the checkpoints as joined.
                list(self.join_change(merged, find_branch(merged.tip.message)))
        return self.describe()

    def describe(self) -> str:
        """Return how many checkpoints no commit names, and how these were used; "" without any.

        Each was joined with a merged change, or is of no merged change and too old to be merged
        any more, or may be merged yet, or was read by an earlier run.
        """
        unmerged_count = len(self.list_unmerged())
        if not self._joined_ids and not unmerged_count:
            return ""
        joined_count = len(self._joined_ids)
        waiting_count = self._count_waiting()
        earlier_count = len(self.summaries) - joined_count - unmerged_count - waiting_count

        count = f"{len(self.summaries)} of {plural(self.count, 'checkpoint')} of Entire"
        verb = "is" if len(self.summaries) == 1 else "are"
        joined = f"{joined_count} joined by branch, files and time"
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
                authors[checkpoint] = format_author(commit)
        return authors

    def _list_unjoined_summaries(self) -> list[CheckpointSummary]:
        return [summary for summary in self._open_summaries if summary.id not in self._joined_ids]

    def _count_waiting(self) -> int:
        """Return how many checkpoints of no change are so new that they may be merged yet."""
        if not self._base:
            return 0
        end = find_commit_time(self._repo, self._base) - MAX_TIME_TO_MERGE
        return sum(summary.at > end for summary in self._list_unjoined_summaries())

    @cached_property
    def _open_summaries(self) -> tuple[CheckpointSummary, ...]:
        """The unnamed checkpoints, the oldest first, without those that earlier runs have joined.

        Earlier runs read the changes up to the commit `since`.
        """
        open_summaries = list(self.summaries)
        if not open_summaries:
            return ()
        for merged in self._iter_earlier_changes():
            branch = find_branch(merged.tip.message)
            changed_paths = _list_changed_paths(merged)
            open_summaries = [
                summary
                for summary in open_summaries
                if not find_reason_to_join(summary, merged, branch, changed_paths)
            ]
        return tuple(open_summaries)

    def _iter_earlier_changes(self) -> Iterator[MergedChange]:
        """Yield the changes before `since` that a checkpoint of this run may belong to."""
        if self._since is not None:
            start = find_commit_time(self._repo, self._since) - MAX_TIME_TO_MERGE - TIME_TOLERANCE
            yield from iter_changes(self._repo, start, self._since)

    @cached_property
    def _metadata(self) -> dict[str, Sequence[str]]:
        return list_metadata(self._tree.files)

    def _find_named_ids(self, rev: str) -> set[str]:
        """Return the ids of all checkpoints that the history of a revision names."""
        named: set[str] = set()
        for commit, _ in read_log(self._repo, *TRAILER_LOG_OPTIONS, "--end-of-options", rev, "--"):
            named.update(list_named_ids(commit))
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
    return read_commit_once(repo, rev).committed_at


def _list_changed_paths(merged: MergedChange) -> set[str]:
    return {file.path for commit in merged.commits for file in commit.files}


def find_reason_to_join(
    summary: CheckpointSummary, merged: MergedChange, branch: str, changed_paths: Collection[str]
) -> str:
    """Return why the work of a checkpoint is in a merged change, "" if nothing shows that it is.

    The checkpoint must be at most two weeks older than the merge, and both must have a file in
    common. If both branches are known, they must be equal. If not, the change must have four fifths
    of the files that the checkpoint touched.

    Args:
        summary: the metadata of the checkpoint.
        merged: the change.
        branch: the branch of the change, "" if unknown.
        changed_paths: the paths that the change touched.
    """
    latest = merged.tip.committed_at + TIME_TOLERANCE
    earliest = latest - MAX_TIME_TO_MERGE
    shared_paths = [path for path in summary.paths if path in changed_paths]
    if not shared_paths or not earliest <= summary.at <= latest:
        return ""
    if branch and summary.branch:
        return f"a checkpoint of Entire on {branch}" if branch == summary.branch else ""
    has_most_paths = len(shared_paths) >= MIN_SHARED_PATHS * len(summary.paths)
    return f"a checkpoint of Entire touched {shared_paths[0]}" if has_most_paths else ""
