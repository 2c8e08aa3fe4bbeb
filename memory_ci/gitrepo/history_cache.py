"""A cache of the commits and ranges of history that one process has read."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from memory_ci.records.history import Commit

MAX_PARENTS = 100_000  # Commits of all cached ranges together: about 25 MB.
MAX_CHARS = 8_000_000  # Characters of the messages and paths of all cached commits together.
COMMIT_CHARS = 500  # Counted for the rest of a commit: ids, names, dates.
FILE_CHARS = 100  # Counted for a file beside its paths.

Parents = Mapping[str, tuple[str, ...]]
"""The parents of each commit of a range, children before parents."""


class HistoryCache:
    """The commits and ranges that were read last, so that git is asked for each only once.

    All are named by full ids of commits. What git answers about these does not change for as long
    as history is cut off at the same commits (see `Repository.history_caches`). Threads may share
    the cache.
    """

    def __init__(self) -> None:
        """Create an empty cache."""
        self._parents_by_range: dict[tuple[str | None, str], Parents] = {}
        self._parents_count = 0
        self._commits: dict[str, Commit] = {}
        self._char_count = 0
        self._lock = Lock()

    def find_parents(self, since: str | None, tip: str) -> Parents | None:
        """Return the parents of each commit of a range; None if the range is not cached."""
        return self._parents_by_range.get((since, tip))

    def find_covering(self, since: str | None, tip: str) -> Parents | None:
        """Return the parents of each commit of a cached range that includes another range.

        Args:
            since: the full id of the commit before the range; None for all of history.
            tip: the full id of the last commit.

        Returns:
            The parents of the range itself, else of one that begins at an ancestor of `since`,
            down the line of first parents; None if neither is cached.
        """
        parents = self.find_parents(since, tip)
        if parents is not None or since is None:
            return parents
        for (longer_since, longer_tip), longer_parents in self._list_ranges():
            if longer_tip != tip or since not in longer_parents:
                continue
            if longer_since is None or _leads_to(longer_parents, since, longer_since):
                return longer_parents
        return None

    def add_parents(self, since: str | None, tip: str, parents: Parents) -> None:
        """Add a range; the oldest ranges are dropped if there are too many commits.

        Args:
            since: the full id of the commit before the range; None for all of history.
            tip: the full id of the last commit.
            parents: the parents of its commits. A range of more than MAX_PARENTS is not cached.
        """
        with self._lock:
            if len(parents) > MAX_PARENTS or (since, tip) in self._parents_by_range:
                return
            self._parents_by_range[since, tip] = parents
            self._parents_count += len(parents)
            while self._parents_count > MAX_PARENTS:
                oldest_range = next(iter(self._parents_by_range))
                self._parents_count -= len(self._parents_by_range.pop(oldest_range))

    def is_in_range(self, sha: str, tip: str) -> bool:
        """Return whether a commit is in a cached range that ends with `tip`."""
        return any(
            range_tip == tip and sha in parents for (_, range_tip), parents in self._list_ranges()
        )

    def find_commit(self, sha: str) -> Commit | None:
        """Return a commit with its files, as FILE_OPTIONS list them; None if it is not cached."""
        return self._commits.get(sha)

    def add_commit(self, commit: Commit) -> None:
        """Add a commit with its files; the oldest are dropped if the cache is too large."""
        size = _estimate_size(commit)
        with self._lock:
            if size > MAX_CHARS // 4 or commit.sha in self._commits:
                return
            self._commits[commit.sha] = commit
            self._char_count += size
            while self._char_count > MAX_CHARS:
                oldest_sha = next(iter(self._commits))
                self._char_count -= _estimate_size(self._commits.pop(oldest_sha))

    def _list_ranges(self) -> list[tuple[tuple[str | None, str], Parents]]:
        """Return the cached ranges, each as the commits that name it, and its parents."""
        with self._lock:
            return list(self._parents_by_range.items())


def _leads_to(parents: Parents, commit: str, ancestor: str) -> bool:
    """Return whether first parents lead from a commit to an ancestor, which is no key."""
    while commit in parents:
        commit = next(iter(parents[commit]), "")
    return commit == ancestor


def _estimate_size(commit: Commit) -> int:
    """Return about how many characters a commit takes in memory."""
    size = COMMIT_CHARS + 2 * len(commit.message)  # The trailers are a part of the message again.
    for file in commit.files:
        size += FILE_CHARS + len(file.path) + len(file.old_path or "")
    return size
