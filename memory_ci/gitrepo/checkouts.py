"""The work trees in which a branch is checked out: look at them before it moves, and write exactly what it changes.

Nothing else that the user has staged or modified there is read, written or refreshed.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.blobs import Tree
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import Repository, find_repository, list_worktrees

NO_HOOKS = (
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "core.splitIndex=false",
    "-c",
    "core.fsmonitor=false",
)
"""For every command that writes: no hook of the user's runs, and a temporary index leaves no shared one behind."""

UNDERWAY = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge",
    "rebase-apply",
    "BISECT_LOG",
)
NAMED = 10  # How many files a message names.


class Staged(msgspec.Struct, frozen=True):
    """What an index or a tree has for a path. Nothing is mode "0" and zeros, as `--index-info` writes a removal."""

    mode: str
    oid: str

    @property
    def is_absent(self) -> bool:
        return self.mode == "0"


StagedFiles = Mapping[
    str, Staged
]  # What a commit has for the files of a series, the absent ones too.


def is_under_way(place: Repository) -> bool:
    """Whether git is at a merge, rebase, cherry-pick, revert or bisect: its commits bring work that was done before."""
    return any((place.git_dir / name).exists() for name in UNDERWAY)


def find_checkouts(repo: Repository, ref: str | None = None) -> tuple[Repository, ...]:
    """The work trees that have `ref` checked out or are rebasing it; without `ref`, all.

    Raises:
        RepositoryError: repository-busy.
    """
    trees = [tree for tree in list_worktrees(repo) if not tree.is_bare]
    if ref is not None:
        trees = [tree for tree in trees if tree.branch in (ref, None)]
    found: list[Repository] = []
    for tree in trees:
        place = _find_place(repo, tree.path)
        if place is None:
            continue
        # The branch that is being rebased in a work tree: HEAD is detached meanwhile, and it is moved at the end.
        names = (place.git_dir / state / "head-name" for state in ("rebase-merge", "rebase-apply"))
        if ref in (tree.branch, None) or ref in {
            name.read_text().strip() for name in names if name.exists()
        }:
            _refuse_busy(place)
            found.append(place)
    return tuple(found)


def refuse_local_changes(place: Repository, expected: StagedFiles) -> None:
    """Make sure that files stand in the work tree and its index as they do in the commit that is checked out. Raises
    RepositoryError (local-changes) that names the files."""
    changed = set().union(*_list_changed(place, expected))
    if changed:
        message = f"Local changes in {place.cwd} would be overwritten: {_name(sorted(changed))}"
        raise RepositoryError(
            message, slug="local-changes", hint="Commit or stash these files, then run again."
        )


def sort_by_state(
    place: Repository, wanted: StagedFiles, *others: StagedFiles
) -> tuple[list[str], list[str]]:
    """The files that are not as wanted, in index or work tree: those in one of the other states, and those in none."""
    in_index, on_disk = _list_changed(place, wanted)
    differing = in_index | on_disk
    for other in others:
        staged, written = _list_changed(place, other)
        in_index, on_disk = in_index & staged, on_disk & written
    unknown = in_index | on_disk
    return sorted(differing - unknown), sorted(unknown)


def staged_in(tree: Tree, paths: Iterable[str]) -> StagedFiles:
    """What a tree has for the paths."""
    nothing, known = Staged("0", "0" * len(tree.oid)), tree.files
    return {
        path: Staged(tree.modes[path], known[path].oid) if path in known else nothing
        for path in sorted(paths)
    }


def write_files(place: Repository, wanted: StagedFiles, journal: int) -> None:
    """Make index and work tree have exactly `wanted` for these files, and leave everything else as it is.

    Args:
        place: the work tree.
        wanted: what the files shall be; an absent one is removed.
        journal: the open journal of the move, which stays locked until the last git that we start has ended.

    Raises:
        RepositoryError: write-failed; some of the files may be written.
    """
    kept = {path: staged for path, staged in wanted.items() if not staged.is_absent}
    gone = {path: staged for path, staged in wanted.items() if staged.is_absent}
    try:
        # What is new comes first: whoever commits half of it must not have a removal without what was made of the file.
        if kept:
            _stage(place, kept, journal)
            names = b"".join(encode_path(path) + b"\0" for path in kept)
            run_git(
                place.cwd,
                *NO_HOOKS,
                "checkout-index",
                "-f",
                "-u",
                "-z",
                "--stdin",
                input=names,
                apart=(journal,),
            )
        for path in gone:
            _remove(place.cwd, path)
        if gone:
            _stage(place, gone, journal)
    except (RepositoryError, OSError) as error:
        message = f"The files could not be written into {place.cwd}: {error}"
        hint = "Nothing was committed. Run again when the disk can be written."
        raise RepositoryError(message, slug="write-failed", hint=hint) from error


def _stage(place: Repository, files: StagedFiles, journal: int) -> None:
    index = format_index_info(files)
    run_git(
        place.cwd, *NO_HOOKS, "update-index", "-z", "--index-info", input=index, apart=(journal,)
    )


def format_index_info(files: StagedFiles) -> bytes:
    """Input of `git update-index -z --index-info`: set files to these modes and blobs, or take them out."""
    return b"".join(
        encode_path(f"{staged.mode} {staged.oid}\t{path}\0") for path, staged in files.items()
    )


def _find_place(repo: Repository, path: Path) -> Repository | None:
    """The work tree at `path`; None when it was removed by hand, also if something else stands there now."""
    if path == repo.root:
        return repo
    try:
        place = find_repository(path)
    except RepositoryError as error:
        if path.is_dir() and error.slug not in ("not-a-repository", "unnamed-repository"):
            raise
        return None
    # A directory made anew belongs to whatever repository it lies in.
    is_ours = place.cwd.samefile(path) and place.common_dir.samefile(repo.common_dir)
    return place if is_ours else None


def _refuse_busy(place: Repository) -> None:
    if (place.git_dir / "index.lock").exists():
        message, hint = (
            f"The index of {place.cwd} is locked",
            "Wait for the other git command, then run again.",
        )
        raise RepositoryError(message, slug="repository-busy", hint=hint)
    underway = [name for name in UNDERWAY if (place.git_dir / name).exists()]
    if underway:
        message = f"A merge, rebase, cherry-pick, revert or bisect is in progress in {place.cwd} ({underway[0]})"
        raise RepositoryError(
            message, slug="repository-busy", hint="Finish or abort it, then run again."
        )


def _list_changed(place: Repository, expected: StagedFiles) -> tuple[set[str], set[str]]:
    """The files that are not as expected: in the index, and on disk."""
    staged, skipped = _list_index(place, expected)
    present = {path: there for path, there in expected.items() if not there.is_absent}
    standing = {path for path in expected if _is_in_the_way(place.cwd, path)}
    # What was skipped and is not there is a sparse checkout's.
    modified = _list_modified(place, present) - (skipped - standing)
    return {path for path in expected if staged.get(path) != present.get(path)}, modified | (
        standing - present.keys()
    )


def _list_index(place: Repository, paths: Collection[str]) -> tuple[dict[str, Staged], set[str]]:
    """What the index has for the paths, and which of them it says to be left out of the work tree (skip-worktree)."""
    staged: dict[str, Staged] = {}
    skipped: set[str] = set()
    for line in decode_path(run_git(place.cwd, "ls-files", "-z", "-t", "-s")).split("\0")[:-1]:
        fields, _, path = line.partition("\t")
        if path in paths:
            tag, mode, oid, stage = fields.split(" ")
            # An unmerged path equals nothing that a commit has.
            staged[path] = Staged(mode, oid) if stage == "0" else Staged(stage, oid)
            if tag == "S":
                skipped.add(path)
    return staged, skipped


def _list_modified(place: Repository, expected: StagedFiles) -> set[str]:
    """The files whose content in the work tree is not the expected one, after git's own filters.

    An index of these files alone, without time stamps, is compared: content decides, and no flag of the user's index
    (assume-unchanged) hides a change.
    """
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as scratch:
        env = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
        run_git(
            place.cwd,
            *NO_HOOKS,
            "update-index",
            "-z",
            "--index-info",
            input=format_index_info(expected),
            env=env,
        )
        listing = run_git(
            place.cwd, *NO_HOOKS, "ls-files", "-z", "--modified", "--deleted", env=env
        )
    return set(decode_path(listing).split("\0")[:-1])


def _is_in_the_way(root: Path, path: str) -> bool:
    """Whether something stands where a file will be made: at its path, or a file or a link instead of a directory."""
    if os.path.lexists(root / path):
        return True
    parents = [root / parent for parent in Path(path).parents[:-1]]
    return any(
        os.path.lexists(parent) and not stat.S_ISDIR(os.lstat(parent).st_mode) for parent in parents
    )


def _remove(root: Path, path: str) -> None:
    (root / path).unlink(missing_ok=True)
    for parent in Path(path).parents[:-1]:
        with suppress(OSError):  # not empty: it stays, as it does when git removes a file
            (root / parent).rmdir()


def _name(paths: Iterable[str]) -> str:
    names = list(paths)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
