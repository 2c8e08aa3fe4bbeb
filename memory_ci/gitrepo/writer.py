"""Commits made beside the user: own blobs, an own index, one compare-and-swap. This module alone uses GitPython.

Only git.Git is used, never git.Repo: that one reads GIT_DIR of the hook that may have started us, and its objects
know SHA-1 only. All is plumbing, so no hook and no filter of the user's takes part; no key, unless we are to sign.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import git
import msgspec

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.blobs import Tree, find_obstacle, tree_at
from memory_ci.gitrepo.checkouts import (
    NO_HOOKS,
    Staged,
    StagedFiles,
    find_checkouts,
    format_index_info,
    refuse_local_changes,
    staged_in,
    write_files,
)
from memory_ci.gitrepo.journal import Move, journaled
from memory_ci.gitrepo.process import clean_environment, without_hook_variables
from memory_ci.gitrepo.repo import Repository, find_commit, follow_symbolic
from memory_ci.records.config import PublishConfig

UTF8 = ("-c", "i18n.commitEncoding=UTF-8")


class Identity(msgspec.Struct, frozen=True):
    """Who a commit is by, and whether they sign it off, and sign it."""

    name: str
    email: str
    signs_off: bool = False
    signs: bool = False


MEMORY_CI = Identity("memory-ci", "memory-ci@noreply.invalid")
IN_ACTIONS = Identity(
    "github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com"
)
"""Who commits: ourselves, or in GitHub Actions the user that a forge shows for its runs."""


def choose_identity(config: PublishConfig, *, in_actions: bool) -> Identity:
    """Who memory is committed by: whom the configuration names, or else us."""
    name, _, email = config.author.removesuffix(">").partition(" <")
    who = Identity(name, email) if email else IN_ACTIONS if in_actions else MEMORY_CI
    return Identity(who.name, who.email, config.signoff, config.sign)


class PlannedCommit(msgspec.Struct, frozen=True):
    """Files to write (None: to delete), by path from the root, and the whole message."""

    files: Mapping[str, bytes | None]
    message: str


def commit_series(
    repo: Repository,
    *,
    ref: str,
    expected: str,
    commits: Sequence[PlannedCommit],
    identity: Identity,
    when: datetime,
) -> str:
    """Put commits on top of `expected` and move the branch `ref` (a full name) there; its new tip is returned.

    A symbolic `ref` stands for the branch that it points at. A commit that changes nothing is left out; when none is
    left, the branch stays. Where the branch is checked out, the files are written there too, before it moves;
    everything else in index and work tree stays as it is.

    Raises:
        RepositoryError: ref-moved, not-a-plain-file, repository-busy, local-changes, git-failed or write-failed.
            Branch and files are as they were; loose objects may have been written.
    """
    ref = follow_symbolic(repo, ref)
    _refuse_moved(repo, ref, expected)
    paths = frozenset(path for commit in commits for path in commit.files)
    tree = tree_at(repo, expected)
    if obstacles := sorted(
        {obstacle for path in paths if (obstacle := find_obstacle(path, tree.modes))}
    ):
        message = f"{', '.join(obstacles)} in {tree.oid[:12]} is not what a memory file can be, or lie under"
        hint = "Replace the link, submodule or directory by a plain file, or name another file under `scopes:`."
        raise RepositoryError(message, slug="not-a-plain-file", hint=hint)
    start = staged_in(tree, paths)
    places = find_checkouts(repo, ref)
    for place in places:
        refuse_local_changes(place, start)
    if identity.signs_off:
        # The trailer of the Developer Certificate of Origin (developercertificate.org), after the others.
        signed = f"\nSigned-off-by: {identity.name} <{identity.email}>\n"
        commits = [
            PlannedCommit(commit.files, f"{commit.message.rstrip()}{signed}") for commit in commits
        ]
    with _plumbing(repo, identity, when) as (plumbing, scratch):
        tip, end = _build(
            repo, plumbing, scratch, expected, start, commits, ("-S",) if identity.signs else ()
        )
        if tip == expected:
            return tip
        written = {path: staged for path, staged in end.items() if staged != start[path]}
        with journaled(repo, Move(ref, expected, tip)) as journal:
            for place in places:
                write_files(place, written, journal)
            try:
                _run(
                    plumbing,
                    "update-ref",
                    "-m",
                    "memory-ci: record",
                    ref,
                    tip,
                    expected,
                    holding=(journal,),
                )
            except git.GitCommandError:
                _refuse_moved(repo, ref, expected)
                raise
    return tip


@contextmanager
def _plumbing(
    repo: Repository, identity: Identity, when: datetime
) -> Iterator[tuple[git.Git, Path]]:
    """GitPython's git with an index of its own, and the scratch directory that holds it; both gone afterwards."""
    date = f"@{int(when.timestamp())} {when:%z}"
    try:
        # Cleaning up comes after the branch has moved: it must not say that nothing was changed.
        scratch = tempfile.TemporaryDirectory(prefix="memory-ci-", ignore_cleanup_errors=True)
        with scratch as name, without_hook_variables():
            plumbing = git.Git(repo.cwd)
            plumbing.update_environment(
                **clean_environment(cwd=repo.cwd),
                GIT_INDEX_FILE=str(Path(name, "index")),
                GIT_AUTHOR_NAME=identity.name,
                GIT_AUTHOR_EMAIL=identity.email,
                GIT_AUTHOR_DATE=date,
                GIT_COMMITTER_NAME=identity.name,
                GIT_COMMITTER_EMAIL=identity.email,
                GIT_COMMITTER_DATE=date,
            )
            yield plumbing, Path(name)
    except git.GitCommandError as error:
        hint = "Nothing was changed."
        if "failed to sign" in str(error) or "signing" in str(error):
            hint += " Set up the key of git (user.signingkey), or take publish.sign out."
        raise RepositoryError(
            f"git could not write the commits: {error}", slug="git-failed", hint=hint
        ) from error
    except OSError as error:
        message = f"A temporary file cannot be written: {error.strerror}"
        hint = "Make room in the temporary directory. Nothing was changed."
        raise RepositoryError(message, slug="write-failed", hint=hint) from error


def _build(
    repo: Repository,
    plumbing: git.Git,
    scratch: Path,
    base: str,
    start: StagedFiles,
    commits: Sequence[PlannedCommit],
    signing: tuple[str, ...],
) -> tuple[str, StagedFiles]:
    """The last commit of the series and what it has for the files."""
    blobs = _write_blobs(plumbing, scratch, commits)
    _run(plumbing, "read-tree", base)
    tip, tree, files = base, base, dict(start)
    for commit in commits:
        planned = {path: _staged(start[path], data, blobs) for path, data in commit.files.items()}
        changes = {path: staged for path, staged in planned.items() if staged != files[path]}
        if not changes:
            continue
        with _written(scratch / "changes", format_index_info(changes)) as given:
            _run(plumbing, "update-index", "-z", "--index-info", istream=given)
        files |= changes
        tree = _run(plumbing, "write-tree")
        with _written(scratch / "message", commit.message.encode("utf-8", "replace")) as given:
            tip = _run(plumbing, "commit-tree", *signing, tree, "-p", tip, istream=given)
    if tip != base:
        _verify(repo, tree, files)
    return tip, files


def _verify(repo: Repository, tree: str, planned: StagedFiles) -> None:
    """Make sure that a tree has what was planned: git leaves out a path that it finds invalid, and calls it done."""
    found = staged_in(Tree(repo, tree), planned)
    missed = [path for path, staged in planned.items() if found[path] != staged]
    if missed:
        message = f"git does not take the path {missed[0]!r} into a commit"
        raise RepositoryError(
            message, slug="git-failed", hint="Nothing was changed. Name the file differently."
        )


def _write_blobs(
    plumbing: git.Git, scratch: Path, commits: Sequence[PlannedCommit]
) -> Iterator[str]:
    """The ids of all contents, in order, written by one process."""
    contents = [data for commit in commits for data in commit.files.values() if data is not None]
    names = [scratch / f"blob-{number}" for number in range(len(contents))]
    for name, data in zip(names, contents, strict=True):
        name.write_bytes(data)
    with _written(scratch / "names", "".join(f"{name}\n" for name in names).encode()) as given:
        oids = _run(plumbing, "hash-object", "-w", "--no-filters", "--stdin-paths", istream=given)
    return iter(oids.split())


def _staged(before: Staged, data: bytes | None, blobs: Iterator[str]) -> Staged:
    """A file as a commit will have it; one that was executable stays so."""
    if data is None:
        return Staged("0", "0" * len(before.oid))
    return Staged("100755" if before.mode == "100755" else "100644", next(blobs))


def _refuse_moved(repo: Repository, ref: str, expected: str) -> None:
    if find_commit(repo, ref) != expected:
        message = f"{ref} is no longer at {expected[:12]}: someone else moved it meanwhile"
        raise RepositoryError(
            message, slug="ref-moved", hint="Nothing was changed. Run again on the new tip."
        )


def _run(
    plumbing: git.Git, *args: str, istream: BinaryIO | None = None, holding: tuple[int, ...] = ()
) -> str:
    # In a session of its own, so that no Ctrl-C ends it.
    command = ["git", *NO_HOOKS, *UTF8, *args]
    return str(plumbing.execute(command, istream=istream, start_new_session=True, pass_fds=holding))


@contextmanager
def _written(path: Path, data: bytes) -> Iterator[BinaryIO]:
    """A file with `data`, open for reading: GitPython gives git only what has a file descriptor."""
    path.write_bytes(data)
    with path.open("rb") as file:
        yield file
