"""Checkpoints: which of Entire's checkpoints no commit names, and which merged change their work came in with.

Where people fold commits (squash), the trailers that name checkpoints are lost. What a checkpoint says of itself is
left: the files that it touched, its branch and its time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.blobs import Tree
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.log import read_log
from memory_ci.gitrepo.repo import Repository, find_commit
from memory_ci.gitrepo.trailers import find_trailers, split_ids
from memory_ci.records.event import UNKNOWN_TIME
from memory_ci.records.history import Commit, MergedChange
from memory_ci.sources.commits import author_of
from memory_ci.sources.entire import CheckpointSummary, list_metadata, summarize
from memory_ci.text import plural

KEY = "Entire-Checkpoint"
GREP = ("--fixed-strings", "--regexp-ignore-case", f"--grep={KEY}:")
GRACE = timedelta(hours=1)  # How long after a merge a checkpoint of its work may be dated.
WINDOW = timedelta(days=14)  # How long before a merge its work may have been done.
LEAST_TOUCHED = (
    0.8  # The share of a checkpoint's files that a change must have, where the branch is not known.
)
HINT = "Keep the lines `Entire-Checkpoint:` of the commits that you fold in the message of the new one."
MAX_METADATA = 1_000_000  # Bytes of one file of metadata.


def list_named(commit: Commit) -> Iterator[str]:
    """Yield the ids of the checkpoints that a commit names."""
    for _, value in find_trailers(commit.message, (KEY,)):
        yield from split_ids(value)


class UnnamedCheckpoints:
    """The checkpoints of a tree that no commit of the history of `base` names. Each is joined to one change at most.

    Those that belong to changes up to the commit `since` were read by an earlier run.
    """

    def __init__(self, repo: Repository, tree: Tree, base: str, since: str | None = None) -> None:
        self._repo, self._tree = repo, tree
        self._base = find_commit(repo, base)
        self._since = since
        self._joined: set[str] = set()

    @cached_property
    def count(self) -> int:
        """How many checkpoints there are, named ones among them."""
        return len(self._metadata)

    @cached_property
    def unnamed(self) -> tuple[CheckpointSummary, ...]:
        """Return what each checkpoint that no commit names says of itself, the oldest first."""
        named = self._list_names(self._base) if self._base else set()
        wanted = {
            checkpoint: paths
            for checkpoint, paths in self._metadata.items()
            if checkpoint not in named
        }
        contents: dict[str, bytes] = {}
        for content in self._tree.read(
            {path for paths in wanted.values() for path in paths}, MAX_METADATA
        ):
            contents[content.file.path] = content.data or b""
        found = [
            summarize(checkpoint, [contents[path] for path in paths if path in contents])
            for checkpoint, paths in wanted.items()
        ]
        return tuple(sorted(found, key=lambda summary: (summary.at, summary.id)))

    def join(self, merged: MergedChange, branch: str) -> Iterator[tuple[CheckpointSummary, str]]:
        """Yield the checkpoints whose work a merged change brought, and how that is known."""
        changed = {file.path for commit in merged.commits for file in commit.files}
        for summary in self._free:
            if summary.id not in self._joined and (
                how := find_link(summary, merged, branch, changed)
            ):
                self._joined.add(summary.id)
                yield summary, how

    def list_unmerged(self) -> tuple[CheckpointSummary, ...]:
        """Return those that no change was joined with and none can be any more, without those of earlier runs."""
        if self._base is None:
            return ()
        end = self._committed_at(self._base) - WINDOW
        start = self._committed_at(self._since) - WINDOW if self._since else None
        left = (summary for summary in self._free if summary.id not in self._joined)
        return tuple(one for one in left if one.at <= end and (start is None or one.at > start))

    def survey(self) -> str:
        """Return what became of all checkpoints that no commit names, as runs over the whole history join them."""
        start = next((summary.at for summary in self.unnamed if summary.at != UNKNOWN_TIME), None)
        for merged in self._iter_changes(start - GRACE, self._base) if start and self._base else ():
            for _ in self.join(merged, find_branch(merged.tip.message)):
                pass
        return self.describe()

    def describe(self) -> str:
        """Return how many checkpoints no commit names and what became of them, "" if none is so recent as the run."""
        left = len(self.list_unmerged())
        if not self._joined and not left:
            return ""
        count = f"{len(self.unnamed)} of {plural(self.count, 'checkpoint')} of Entire"
        verb = "is" if len(self.unnamed) == 1 else "are"
        joined = f"{len(self._joined)} joined by branch, files and time"
        read = f"{left} of no change read for what people asked"
        waiting = self._count_waiting()
        earlier = len(self.unnamed) - len(self._joined) - left - waiting
        told = f"{count} {verb} named by no commit: {joined}, {read}, {waiting} may be merged yet"
        return f"{told}, {earlier} left to earlier runs" if earlier else told

    def _count_waiting(self) -> int:
        """Return how many were joined with nothing and are so new that their work may be merged yet."""
        end = self._committed_at(self._base) - WINDOW if self._base else None
        return sum(
            end is not None and one.at > end for one in self._free if one.id not in self._joined
        )

    @cached_property
    def authors(self) -> dict[str, str]:
        """Return who brought each checkpoint, `Name <e-mail>` by id: the author of the first commit that has it."""
        authors: dict[str, str] = {}
        for commit, _ in read_log(self._repo, "--end-of-options", self._tree.oid, "--"):
            for path in (file.path for file in commit.files):
                for checkpoint in list_metadata([path]):
                    authors[checkpoint] = author_of(commit)
        return authors

    @cached_property
    def _free(self) -> tuple[CheckpointSummary, ...]:
        """Those that are not of a change up to `since`, the oldest first."""
        free = {summary.id: summary for summary in self.unnamed}
        for merged in self._iter_earlier() if free else ():
            branch = find_branch(merged.tip.message)
            changed = {file.path for commit in merged.commits for file in commit.files}
            free = {
                name: summary
                for name, summary in free.items()
                if not find_link(summary, merged, branch, changed)
            }
        return tuple(free.values())

    def _iter_earlier(self) -> Iterator[MergedChange]:
        """Yield the changes before `since` that a checkpoint may belong to which is not too old for this run."""
        if self._since is not None:
            yield from self._iter_changes(
                self._committed_at(self._since) - WINDOW - GRACE, self._since
            )

    def _iter_changes(self, start: datetime, end: str) -> Iterator[MergedChange]:
        """Yield the changes up to the commit `end` that were merged after `start`, none where a shallow clone ends."""
        asked = (
            "-1",
            "--first-parent",
            f"--before={int(start.timestamp())}",
            "--end-of-options",
            end,
            "--",
        )
        older = next((commit.sha for commit, _ in read_log(self._repo, *asked)), None)
        try:
            yield from iter_merged_changes(self._repo, plan_range(self._repo, older, end))
        except RepositoryError as error:
            if error.slug != "shallow-clone":
                raise

    @cached_property
    def _metadata(self) -> dict[str, Sequence[str]]:
        return list_metadata(self._tree.files)

    def _committed_at(self, rev: str) -> datetime:
        return next(
            commit.committed_at
            for commit, _ in read_log(self._repo, "-1", "--end-of-options", rev, "--")
        )

    def _list_names(self, rev: str) -> set[str]:
        log = read_log(self._repo, *GREP, "--end-of-options", rev, "--")
        return {name for commit, _ in log for name in list_named(commit)}


def find_link(
    summary: CheckpointSummary, merged: MergedChange, branch: str, changed: Collection[str]
) -> str:
    """Return why the work of a checkpoint is that of a merged change, "" if it is not known to be.

    Both must be of the same time, and of the same branch if it is known of both, with a file in common; else the change
    must have four fifths of the files that the checkpoint touched.
    """
    end = merged.tip.committed_at + GRACE
    shared = [path for path in summary.paths if path in changed]
    if not shared or not end - WINDOW <= summary.at <= end:
        return ""
    if branch and summary.branch:
        return f"a checkpoint of Entire on {branch}" if branch == summary.branch else ""
    is_enough = len(shared) >= LEAST_TOUCHED * len(summary.paths)
    return f"a checkpoint of Entire touched {shared[0]}" if is_enough else ""
