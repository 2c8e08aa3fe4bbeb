"""A commit or work tree whose code is compared with entries, and a cache of the results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TypeVar

import msgspec

from memory_ci import __version__
from memory_ci.digests import blake2b
from memory_ci.gitrepo.blobs import TreeFile, list_worktree, tree_at
from memory_ci.gitrepo.repo import find_commit, resolve_commit
from memory_ci.memory.workspace import Workspace, index_path

VERDICT_MODULES = (
    "anchors/anchors",
    "anchors/named_parts",
    "anchors/symbols",
    "anchors/verdicts",
    "anchors/words",
    "memory/cite_verdicts",
    "memory/cites",
    "memory/dead_names",
    "memory/name_search",
)
"""The modules that decide on a verdict.

A cached verdict counts only if it was made by the same source of these modules.
"""

T = TypeVar("T")
Subject = TypeVar("Subject")


class JudgedView:
    """A commit or the work tree with its files, and a cache of results about them.

    The files are listed when they are first used. The cache is in the index. Each of its keys is a
    hash of all that a result depends on.
    """

    def __init__(self, workspace: Workspace, view: str | None) -> None:
        """Choose the commit or work tree; nothing is read yet.

        Args:
            workspace: the repository.
            view: a revision; None for the work tree (HEAD in a bare repository).
        """
        self.workspace = workspace
        self.repo = workspace.repo
        self._index_path = index_path(workspace)
        self._view = view

    @cached_property
    def rev(self) -> str | None:
        """The commit; None for the work tree. Raises RepositoryError (unknown-revision)."""
        if self._view is None and self.repo.root is not None:
            return None
        return resolve_commit(self.repo, self._view or "HEAD")

    @cached_property
    def tip(self) -> str | None:
        """The newest commit of the history that the view has; None without a commit."""
        return self.rev or find_commit(self.repo, "HEAD")

    @cached_property
    def files(self) -> tuple[TreeFile, ...]:
        """All files of the view."""
        return self._list_files()

    @cached_property
    def tree_digest(self) -> str:
        """A digest of all files, with their state in git.

        The state matters for renames that are not committed yet.
        """
        return _digest(*(f"{file.path}\0{file.oid}\0{file.on_disk}" for file in self.files))

    def is_unmodified(self) -> bool:
        """Return whether nobody wrote to the work tree since its files were listed."""
        return self.rev is not None or self._list_files() == self.files

    def load_cached(self, keys: Mapping[Subject, str], kind: type[T]) -> dict[Subject, T]:
        """Return the cached results for keys; keys without a result are left out.

        A damaged cache counts as empty.

        Args:
            keys: the cache key of each subject, which may be any object.
            kind: the type of the results.

        Returns:
            The results by subject.
        """
        return self.load_cached_any({subject: (key,) for subject, key in keys.items()}, kind)

    def load_cached_any(
        self, keys: Mapping[Subject, Sequence[str]], kind: type[T]
    ) -> dict[Subject, T]:
        """Return the cached results of subjects that may be cached under several keys.

        Args:
            keys: the cache keys of each subject; the first that has a result counts.
            kind: the type of the results.

        Returns:
            The results by subject.
        """
        from memory_ci.search.verdicts import read_verdicts

        rows = read_verdicts(self._index_path, [*chain.from_iterable(keys.values())])
        results = {}
        try:
            for subject, subject_keys in keys.items():
                cached = [rows[key] for key in subject_keys if key in rows]
                if cached:
                    results[subject] = msgspec.convert(json.loads(cached[0]), kind)
        except (ValueError, TypeError, msgspec.ValidationError):
            return {}
        return results

    def save_cached(self, results: Mapping[str, object]) -> None:
        """Cache results by their keys."""
        from memory_ci.search.verdicts import keep_verdicts

        json_by_key = {}
        for key, result in results.items():
            json_by_key[key] = json.dumps(msgspec.to_builtins(result))
        keep_verdicts(self._index_path, json_by_key)

    def _list_files(self) -> tuple[TreeFile, ...]:
        if self.rev is None:
            return list_worktree(self.repo, ())
        return tree_at(self.repo, self.rev).select(())


def make_key(*parts: str) -> str:
    """Return the cache key of a result that depends on these texts and on the code that judges."""
    return _digest(__version__, hash_verdict_modules(), *parts)


@cache
def hash_verdict_modules() -> str:
    """Return a digest of the source of VERDICT_MODULES, "" if their source is not installed.

    It is part of every cache key: verdicts of an older version of these modules must not count.
    """
    package = Path(__file__).resolve().parent.parent
    hasher = blake2b(digest_size=16)
    try:
        for name in VERDICT_MODULES:
            hasher.update((package / f"{name}.py").read_bytes())
    except OSError:
        return ""
    return hasher.hexdigest()


def _digest(*parts: str) -> str:
    data = "\0".join(parts).encode("utf-8", "surrogateescape")
    return blake2b(data, digest_size=16).hexdigest()
