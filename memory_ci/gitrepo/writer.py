"""Write commits to a branch without the user's index, hooks and filters.

This module alone uses GitPython. Only git.Git is used, never git.Repo: that one reads GIT_DIR of
the hook that may have started us, and its objects know SHA-1 only. All commands are plumbing, so no
hook and no filter of the user's takes part, and no key, unless commits are to be signed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

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
    read_staged_files,
    refuse_local_changes,
    write_files,
)
from memory_ci.gitrepo.journal import Move, journaled
from memory_ci.gitrepo.process import clean_environment, without_hook_variables
from memory_ci.gitrepo.repo import Repository, find_commit, follow_symbolic
from memory_ci.records.config import PublishConfig

UTF8_SETTINGS = ("-c", "i18n.commitEncoding=UTF-8")


class Identity(msgspec.Struct, frozen=True):
    """The author and committer of a commit, and whether they sign it off and sign it."""

    name: str
    email: str
    signs_off: bool = False
    signs: bool = False


MEMORY_CI = Identity("memory-ci", "memory-ci@noreply.invalid")
IN_ACTIONS = Identity(
    "github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com"
)
"""The committer in GitHub Actions: the user that the forge shows for its runs."""


def choose_identity(config: PublishConfig, *, in_actions: bool) -> Identity:
    """Return the committer of memory: the one that is configured, or else our own.

    Args:
        config: its `author` is `Name <address>`, or has no address.
        in_actions: whether the process runs in GitHub Actions.
    """
    name, _, email = config.author.removesuffix(">").partition(" <")
    if not email:
        default = IN_ACTIONS if in_actions else MEMORY_CI
        name = default.name
        email = default.email
    return Identity(name, email, config.signoff, config.sign)


class PlannedCommit(msgspec.Struct, frozen=True):
    """Files to write (None: to delete), by path from the root, and the whole message."""

    files: Mapping[str, bytes | None]
    message: str


class _Plumbing(NamedTuple):
    """Runs low-level git commands for one series of commits.

    Attributes:
        repo: the repository.
        gitpython: runs git with an index of its own, and with the author of the commits.
        scratch: a temporary directory.
        commit_options: options of `git commit-tree`.
    """

    repo: Repository
    gitpython: git.Git
    scratch: Path
    commit_options: tuple[str, ...]

    def run(
        self, *args: str, input: bytes | None = None, shared_files: tuple[int, ...] = ()
    ) -> str:
        """Run a git command and return its output.

        It runs in a session of its own, so that no Ctrl-C ends it.

        Args:
            args: the command and its arguments.
            input: its standard input.
            shared_files: file descriptors that it inherits.
        """
        command_line = ["git", *NO_HOOKS, *UTF8_SETTINGS, *args]
        execute = partial(
            self.gitpython.execute, command_line, start_new_session=True, pass_fds=shared_files
        )
        if input is None:
            return str(execute())
        # GitPython passes only input that has a file descriptor.
        path = self.scratch / "input"
        path.write_bytes(input)
        with path.open("rb") as stream:
            return str(execute(istream=stream))


def commit_series(
    repo: Repository,
    *,
    ref: str,
    expected: str,
    commits: Sequence[PlannedCommit],
    identity: Identity,
    when: datetime,
) -> str:
    """Write commits on top of `expected`, move a branch to the last, and return its id.

    A commit that changes nothing is left out. When none remains, the branch stays. Where the branch
    is checked out, the files are written there too, before it moves. Everything else in index and
    work tree stays as it is.

    Args:
        repo: the repository.
        ref: the full name of the branch, or of a symbolic ref that points at it.
        expected: the commit that the branch must be at.
        commits: the commits, oldest first.
        identity: their author and committer.
        when: their date.

    Raises:
        RepositoryError: ref-moved, not-a-plain-file, repository-busy, local-changes, git-failed or
            write-failed. Branch and files are as before; loose objects may have been written.
    """
    ref = follow_symbolic(repo, ref)
    _refuse_moved(repo, ref, expected)
    tree = tree_at(repo, expected)
    paths = frozenset(chain.from_iterable(commit.files for commit in commits))
    _refuse_obstacles(tree, paths)
    base_files = read_staged_files(tree, paths)
    worktrees = find_checkouts(repo, ref)
    for worktree in worktrees:
        refuse_local_changes(worktree, base_files)

    if identity.signs_off:
        commits = [_sign_off(commit, identity) for commit in commits]
    with _open_plumbing(repo, identity, when) as plumbing:
        tip, tip_files = _write_commits(plumbing, expected, base_files, commits)
        if tip == expected:
            return tip
        changed = {path: file for path, file in tip_files.items() if file != base_files[path]}
        move = Move(ref, expected, tip)
        with journaled(repo, move) as journal_fd:
            for worktree in worktrees:
                write_files(worktree, changed, journal_fd)
            _move_branch(plumbing, move, journal_fd)
    return tip


def _refuse_moved(repo: Repository, ref: str, expected: str) -> None:
    """Make sure that a ref is at the commit `expected`; else raise ref-moved."""
    if find_commit(repo, ref) != expected:
        message = f"{ref} is no longer at {expected[:12]}: someone else moved it meanwhile"
        hint = "Nothing was changed. Run again on the new tip."
        raise RepositoryError(message, slug="ref-moved", hint=hint)


def _refuse_obstacles(tree: Tree, paths: frozenset[str]) -> None:
    """Make sure that a regular file can be written at each path of a tree.

    Raises:
        RepositoryError: not-a-plain-file.
    """
    obstacles = {find_obstacle(path, tree.modes) for path in paths}
    names = sorted(obstacle for obstacle in obstacles if obstacle)
    if names:
        location = f"{', '.join(names)} in {tree.oid[:12]}"
        message = f"{location} is where a memory file or a directory of one would be written"
        hint = (
            "Replace the link, submodule or directory by a plain file, "
            "or name another file under `scopes:`."
        )
        raise RepositoryError(message, slug="not-a-plain-file", hint=hint)


def _sign_off(commit: PlannedCommit, identity: Identity) -> PlannedCommit:
    """Add the trailer of the Developer Certificate of Origin (developercertificate.org)."""
    trailer = f"Signed-off-by: {identity.name} <{identity.email}>"
    return PlannedCommit(commit.files, f"{commit.message.rstrip()}\n{trailer}\n")


@contextmanager
def _open_plumbing(repo: Repository, identity: Identity, when: datetime) -> Iterator[_Plumbing]:
    """Provide a git that commits as `identity`, with an index in a temporary directory.

    Raises:
        RepositoryError: git-failed, write-failed, also for errors in the block.
    """
    date = f"@{int(when.timestamp())} {when:%z}"
    try:
        import tempfile  # Not at the top: it takes 2 ms, and commands that only read do without it.

        # The directory is deleted after the branch has moved. An error then must not be reported as
        # if nothing was changed.
        scratch = tempfile.TemporaryDirectory(prefix="memory-ci-", ignore_cleanup_errors=True)
        with scratch as name, without_hook_variables():
            gitpython = git.Git(repo.cwd)
            gitpython.update_environment(
                **clean_environment(cwd=repo.cwd),
                GIT_INDEX_FILE=str(Path(name, "index")),
                GIT_AUTHOR_NAME=identity.name,
                GIT_AUTHOR_EMAIL=identity.email,
                GIT_AUTHOR_DATE=date,
                GIT_COMMITTER_NAME=identity.name,
                GIT_COMMITTER_EMAIL=identity.email,
                GIT_COMMITTER_DATE=date,
            )
            commit_options = ("-S",) if identity.signs else ()
            yield _Plumbing(repo, gitpython, Path(name), commit_options)
    except git.GitCommandError as error:
        hint = "Nothing was changed."
        if "failed to sign" in str(error) or "signing" in str(error):
            hint += " Set up the key of git (user.signingkey), or take publish.sign out."
        message = f"git could not write the commits: {error}"
        raise RepositoryError(message, slug="git-failed", hint=hint) from error
    except OSError as error:
        message = f"A temporary file cannot be written: {error.strerror}"
        hint = "Make room in the temporary directory. Nothing was changed."
        raise RepositoryError(message, slug="write-failed", hint=hint) from error


def _write_commits(
    plumbing: _Plumbing, base: str, base_files: StagedFiles, commits: Sequence[PlannedCommit]
) -> tuple[str, StagedFiles]:
    """Write commits on top of `base`, without moving a branch.

    Args:
        plumbing: runs git.
        base: the id of a commit.
        base_files: the files that the commits touch, as `base` has them. They decide which files
            are executable.
        commits: the commits, oldest first.

    Returns:
        The id of the last commit, and its files; `base` and its files if no commit changes one.
    """
    blob_ids = _write_blobs(plumbing, commits)
    plumbing.run("read-tree", base)
    tip = base
    tree = base
    files = dict(base_files)  # As the last commit has them.
    for commit in commits:
        changes: dict[str, Staged] = {}
        for path, data in commit.files.items():
            staged = _plan_file(base_files[path], data, blob_ids)
            if staged != files[path]:
                changes[path] = staged
        if not changes:
            continue

        plumbing.run("update-index", "-z", "--index-info", input=format_index_info(changes))
        files |= changes
        tree = plumbing.run("write-tree")
        message = commit.message.encode("utf-8", "replace")
        commit_args = (*plumbing.commit_options, tree, "-p", tip)
        tip = plumbing.run("commit-tree", *commit_args, input=message)
    if tip != base:
        _verify_tree(Tree(plumbing.repo, tree), files)
    return tip, files


def _write_blobs(plumbing: _Plumbing, commits: Sequence[PlannedCommit]) -> dict[bytes, str]:
    """Write the contents of all files with one git process, and return the id of each content."""
    contents: dict[bytes, None] = {}
    for commit in commits:
        for data in commit.files.values():
            if data is not None:
                contents[data] = None

    paths: list[Path] = []
    for number, data in enumerate(contents):
        path = plumbing.scratch / f"blob-{number}"
        path.write_bytes(data)
        paths.append(path)
    lines = "".join(f"{path}\n" for path in paths).encode()
    oids = plumbing.run("hash-object", "-w", "--no-filters", "--stdin-paths", input=lines)
    return dict(zip(contents, oids.split(), strict=True))


def _plan_file(before: Staged, data: bytes | None, blob_ids: Mapping[bytes, str]) -> Staged:
    """Return mode and object id of a file as a commit will have it; its executable bit stays.

    Args:
        before: the file before.
        data: its new content; None to delete it.
        blob_ids: the object id of each content.
    """
    if data is None:
        return Staged("0", "0" * len(before.oid))
    mode = "100755" if before.mode == "100755" else "100644"
    return Staged(mode, blob_ids[data])


def _verify_tree(tree: Tree, planned: StagedFiles) -> None:
    """Make sure that a tree has the planned files: git skips an invalid path without an error."""
    written_files = read_staged_files(tree, planned)
    missing_paths = [path for path, staged in planned.items() if written_files[path] != staged]
    if missing_paths:
        message = f"git does not take the path {missing_paths[0]!r} into a commit"
        hint = "Nothing was changed. Name the file differently."
        raise RepositoryError(message, slug="git-failed", hint=hint)


def _move_branch(plumbing: _Plumbing, move: Move, journal_fd: int) -> None:
    """Move a branch if it still points at the old commit of the move.

    Args:
        plumbing: runs git.
        move: the branch, its old and its new commit.
        journal_fd: the file descriptor of the open journal, which git shares (`write_files`).

    Raises:
        RepositoryError: ref-moved, if it points at another commit.
    """
    args = ("update-ref", "-m", "memory-ci: record", move.ref, move.new_commit, move.old_commit)
    try:
        plumbing.run(*args, shared_files=(journal_fd,))
    except git.GitCommandError:
        _refuse_moved(plumbing.repo, move.ref, move.old_commit)
        raise
