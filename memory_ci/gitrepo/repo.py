"""Find a git repository, and ask it for commits, branches, work trees and settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.process import (
    ask_git,
    config_variables,
    decode_path,
    encode_path,
    remember_directory,
    run_git,
)
from memory_ci.records.names import HEADS
from memory_ci.regex import Regex

if TYPE_CHECKING:
    from memory_ci.gitrepo.history_cache import HistoryCache

JOURNAL = "memory-ci/journal"
"""The file, in the common directory, of the journal of a move, present only during one.

See gitrepo.journal.
"""

HEAD = Regex(r"(?:ref: (refs/\S+)|[0-9a-f]{40,64})\n?", re.ASCII)
"""The file HEAD: the name of a branch, or the full id of a commit (gitrepository-layout(5))."""

FULL_ID = Regex(r"([0-9a-f]{40}|[0-9a-f]{64})\n", re.ASCII)
UNUSED_HEAD = "refs/heads/.invalid"  # In HEAD where refs have another store (gitformat-reftable).
MAX_KEPT = 1 << 25  # Bytes of blobs in memory, so that they are read once.

DISCOVERY = (
    "--path-format=absolute",
    "--git-dir",
    "--git-common-dir",
    "--show-object-format",
    "--is-inside-work-tree",
    "--show-cdup",
)
BARE_REFUSAL = Regex(r"cannot use bare repository '(.+?)'")
"""The message by which git refuses a bare repository that it found by itself.

We set safe.bareRepository=explicit, so that only a person can name one: a folder of a clone may
look like a bare repository, with a configuration that runs programs.
"""

# The section of a configuration file that defines a filter, or includes another file.
FILTERS = Regex(rb"\[\s*(?:filter|include)", re.I)
FILTER_SETTING = r"^filter\..*\.(clean|smudge|process|required)$"

DEFAULT_NAMES = ("main", "master")

COMMENT_SETTING = "^core\\.comment(char|string)$"
AUTO_COMMENT = "#;@!$%^&|:"
"""The characters among which git chooses for `auto`.

See builtin/commit.c, adjust_comment_line_char.
"""


class Contents(dict[str, bytes]):
    """A cache of the contents of blobs by their full ids, of at most MAX_KEPT bytes."""

    size = 0

    def add(self, oid: str, data: bytes | None) -> None:
        """Add the content of a blob, unless it is None or large; clear a full cache first.

        Args:
            oid: the object id.
            data: the content.
        """
        if data is None or len(data) > MAX_KEPT // 4:
            return
        if self.size + len(data) > MAX_KEPT:
            self.clear()
            self.size = 0
        self[oid] = data
        self.size += len(data)


class Repository(msgspec.Struct, frozen=True, dict=True):
    """The directories of a repository.

    Answers of git about full ids are cached, for they never change. Names are resolved each time.

    Attributes:
        root: the top of the work tree; None in a bare repository.
        git_dir: the git directory of this work tree alone.
        common_dir: the git directory that all work trees of the repository share.
        object_format: the hash algorithm of the object ids.
    """

    root: Path | None
    git_dir: Path
    common_dir: Path
    object_format: str = "sha1"

    @cached_property
    def commits(self) -> set[str]:
        """A cache of full ids that are known to be ids of commits."""
        return set()

    @cached_property
    def ancestor_pairs(self) -> set[tuple[str, str]]:
        """A cache of pairs of commits whose first is in the history of the second."""
        return set()

    @cached_property
    def contents(self) -> Contents:
        """A cache of contents of blobs."""
        return Contents()

    @cached_property
    def history_caches(self) -> dict[frozenset[str], HistoryCache]:
        """A cache of commits and ranges, by the commits at which history is cut off.

        A shallow clone that gets more history shows parents that it hid before.
        """
        return {}

    @property
    def cwd(self) -> Path:
        """The directory of git processes, which print paths relative to the top of the tree."""
        return self.root or self.git_dir


class Worktree(msgspec.Struct, frozen=True):
    """A work tree of a repository; `branch` is a full ref name, None when HEAD is detached."""

    path: Path
    branch: str | None
    is_bare: bool


class Tips(msgspec.Struct, frozen=True):
    """The default branch, and the branch that is checked out.

    Attributes:
        commit: the tip of the default branch; None where there is no such branch.
        default: the full name of the default branch.
        name: its short name.
        branch: the full name of the branch that is checked out; "" if none is, or if it has no
            commit.
    """

    commit: str | None
    default: str
    name: str
    branch: str

    @property
    def work_branch(self) -> str:
        """The short name of the branch that is checked out; "" for none and for the default one."""
        name = self.branch.removeprefix(HEADS)
        return "" if name == self.name else name


# -- discovery


def find_repository(start: Path, *, is_named: bool = False) -> Repository:
    """Return the repository that contains a directory.

    A folder that only looks like a git directory does not count: its configuration would come with
    the clone. A bare repository counts where somebody named it: by `start` with `is_named`, else by
    the variable GIT_DIR.

    Args:
        start: the root of a work tree, a directory below it, or a bare repository.
        is_named: whether a person named the directory, so that it may be a bare repository.

    Raises:
        RepositoryError: not-a-repository, unnamed-repository, git-missing, or git-failed with the
            message of git (unsafe ownership).
    """
    if is_named:
        bare = _find_bare(start)
        if bare is not None:
            return bare
    try:
        repo = _discover(start)
    except RepositoryError as error:
        return _open_refused_repository(start, error)
    # Git before 2.38 has no safe.bareRepository, which refuses a bare repository.
    if not _is_in_dot_git(repo):
        raise _make_unnamed_error(start, repo.git_dir)
    _remember_settings(repo)
    return repo


def _discover(start: Path) -> Repository:
    """Return the repository that git finds for a directory.

    Raises:
        RepositoryError: git-failed, also if the directory is in no repository.
    """
    answer = run_git(start, "rev-parse", *DISCOVERY)
    lines = [os.fsdecode(line) for line in answer.split(b"\n")]
    git_dir, common_dir, object_format, is_inside_work_tree, path_to_root = lines[:5]
    root = None
    if is_inside_work_tree == "true":
        root = Path(os.path.normpath(start.resolve() / path_to_root))
    return Repository(root, Path(git_dir), Path(common_dir), object_format)


def _open_refused_repository(start: Path, error: RepositoryError) -> Repository:
    """Return the bare repository or git directory that git did not accept for a directory.

    It is accepted here if the variable `GIT_DIR` names it, or if it is a directory `.git`, in which
    git runs only with that variable.

    Args:
        start: a directory for which `_discover` raised an error.
        error: the error.

    Raises:
        RepositoryError: as `find_repository`.
    """
    named_by_variable = os.environ.get("GIT_DIR")
    if named_by_variable:
        bare = _find_bare(start / named_by_variable)
        if bare is not None:
            return bare
    refusal = BARE_REFUSAL.search(error.message)
    if refusal:
        path = Path(refusal[1])
        if path.name != ".git":
            raise _make_unnamed_error(start, path) from error
        return _open_git_dir(path)
    if "not a git repository" in error.message:
        message = f"{start} is not in a git repository"
        hint = "Run this inside a clone, or `git init` first."
        raise RepositoryError(message, slug="not-a-repository", hint=hint) from error
    raise error


def _find_bare(path: Path) -> Repository | None:
    """Return the bare repository whose git directory is `path`, if it is one."""
    if not (path / "HEAD").is_file() or not (path / "objects").is_dir():
        return None
    env = {"GIT_DIR": str(path)}
    is_bare = run_git(path, "rev-parse", "--is-bare-repository", env=env).strip() == b"true"
    return _open_git_dir(path) if is_bare else None


def _open_git_dir(path: Path) -> Repository:
    """Return the repository of a git directory, without its work tree."""
    questions = ("--path-format=absolute", "--git-dir", "--git-common-dir", "--show-object-format")
    answer = run_git(path, "rev-parse", *questions, env={"GIT_DIR": str(path)})
    git_dir, common_dir, object_format = map(os.fsdecode, answer.split(b"\n")[:3])
    repo = Repository(None, Path(git_dir), Path(common_dir), object_format)
    _remember_settings(repo)
    return repo


def _is_in_dot_git(repo: Repository) -> bool:
    """Return whether git found a repository by a directory or file `.git`.

    If it has a work tree, `.git` is in it: the git directory itself, or a file that names the git
    directory. Without a work tree, git was started inside of a directory `.git`, or inside of the
    part of it that a linked work tree has.
    """
    if repo.root is None:
        return ".git" in (repo.git_dir.name, repo.common_dir.name)
    dot_git = repo.root / ".git"
    if dot_git.is_dir():
        return dot_git.samefile(repo.git_dir)
    return dot_git.is_file()


def _make_unnamed_error(start: Path, path: Path) -> RepositoryError:
    """Return the error for a bare repository that is not used, because no person named it.

    Args:
        start: the directory whose repository was searched for.
        path: the bare repository around it.
    """
    message = f"{start} is in a bare repository that nobody named: {path}"
    hint = (
        "If it is yours, set GIT_DIR to it. "
        "A folder of a clone that looks like a repository is not used."
    )
    return RepositoryError(message, slug="unnamed-repository", hint=hint)


def _remember_settings(repo: Repository) -> None:
    """Register settings for all later git processes that run in the directories of a repository.

    In the git directory git needs `GIT_DIR`, since it would refuse a bare repository; in the work
    tree it finds the git directory by itself. Filters, programs that a configuration names, are
    disabled in the directory in which our processes run (`Repository.cwd`).
    """
    settings = list_filter_overrides(repo)
    variables = {"GIT_DIR": str(repo.git_dir)}
    if repo.root is None:
        remember_directory(repo.git_dir, variables, settings)
        return
    remember_directory(repo.git_dir, variables, ())
    if settings:
        remember_directory(repo.root, {}, settings)


def list_filter_overrides(repo: Repository, *scopes: str) -> tuple[tuple[str, str], ...]:
    """Return the git settings that disable the filters that a configuration defines.

    A filter is a program that converts files when git reads or writes them (gitattributes(5)).

    Args:
        repo: the repository whose configuration is read.
        scopes: only filters that these scopes name, as `local`; default: all.
    """
    if not any(FILTERS.search(text) for text in _iter_configurations(repo)):
        return ()
    env = {"GIT_DIR": str(repo.git_dir)}
    args = ("config", "-z", "--show-scope", "--name-only", "--get-regexp", FILTER_SETTING)
    fields = decode_path(run_git(repo.cwd, *args, env=env, ok=(0, 1))).split("\0")[:-1]
    filter_names: set[str] = set()  # As `filter.lfs`.
    for scope, key in zip(fields[::2], fields[1::2], strict=False):
        if not scopes or scope in scopes:
            filter_name, _, _ = key.rpartition(".")
            filter_names.add(filter_name)

    overrides: list[tuple[str, str]] = []
    for filter_name in sorted(filter_names):
        overrides += [(f"{filter_name}.process", ""), (f"{filter_name}.required", "false")]
    return tuple(overrides)


def _iter_configurations(repo: Repository) -> Iterator[bytes]:
    """Yield the content of the repository's, the user's and the system's git configuration files.

    They show without a process whether one defines a filter.
    """
    home = Path(os.environ.get("HOME") or os.sep)
    xdg_config = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
    of_user = [home / ".gitconfig", Path(xdg_config, "git", "config")]
    named_by_user = os.environ.get("GIT_CONFIG_GLOBAL")
    if named_by_user:
        of_user = [Path(named_by_user)]
    of_system = Path(os.environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig")
    of_repo = [repo.common_dir / "config", repo.git_dir / "config.worktree"]
    for path in (*of_repo, *of_user, of_system):
        with suppress(OSError):
            yield path.read_bytes()


# -- revisions


def resolve_commit(repo: Repository, rev: str) -> str:
    """Return the full id of the commit that `rev` names.

    Raises:
        RepositoryError: unknown-revision.
    """
    commit = find_commit(repo, rev)
    if commit is None:
        message = f"{rev!r} names no commit of {repo.cwd}"
        hint = "Check the name; a shallow clone may not hold it."
        raise RepositoryError(message, slug="unknown-revision", hint=hint)
    return commit


def find_commit(repo: Repository, rev: str) -> str | None:
    """Return the full id of the commit that `rev` names; None if it names no commit.

    An option (`-p`), a negation (`^main`) or a range does not count as a name.
    """
    if rev in repo.commits:
        return rev
    if rev.startswith(("-", "^")) or "\0" in rev:
        return None
    commit = _read_head(repo) if rev == "HEAD" else None
    if commit is not None:
        repo.commits.add(commit)
        return commit

    from memory_ci.gitrepo.objects import ask_objects  # Not at the top: HEAD is read without it.

    name = f"{rev}^{{commit}}"
    answers = ask_objects(repo.git_dir, "info", [name], read_object_id)
    if answers is not None:
        (commit,) = answers
    else:  # The open process is unavailable.
        args = ("--verify", "--quiet", "--end-of-options", name)
        oids = run_git(repo.cwd, "rev-parse", *args, ok=(0, 1, 128)).decode().split()
        commit = oids[0] if len(oids) == 1 else None
    if commit is not None:
        repo.commits.add(commit)
    return commit


def _read_head(repo: Repository) -> str | None:
    """Return the commit of HEAD as its files name it; None where only git can tell.

    Git has to be asked for a branch that is packed, or without a commit, or in another store.
    """
    with suppress(OSError):
        text = decode_path((repo.git_dir / "HEAD").read_bytes())
        match = HEAD.fullmatch(text)
        if match and match[1]:
            return _read_branch_file(repo, match[1])
        full_id = FULL_ID.fullmatch(text)
        return full_id[1] if full_id else None
    return None


def _read_branch_file(repo: Repository, ref: str) -> str | None:
    """Return the commit in the file of a branch.

    None for other refs, and where only git can tell: for a branch that is packed, or symbolic, or
    without a commit, or in another store.
    """
    if not ref.startswith(HEADS) or ".." in ref:
        return None
    with suppress(OSError):
        match = FULL_ID.fullmatch(decode_path((repo.common_dir / ref).read_bytes()))
        return match[1] if match else None
    return None


def find_objects(repo: Repository, names: Sequence[str]) -> tuple[str | None, ...]:
    """Return the object ids of several names, by one process; None for a missing object.

    Args:
        repo: the repository.
        names: as `<commit>:<path>` or `<commit>^{tree}`. A name must not hold a line break, and its
            path must not begin with `./` or `../`: git ends at those.
    """
    if not names:
        return ()
    from memory_ci.gitrepo.objects import ask_objects  # Not at the top: HEAD is read without it.

    answers = ask_objects(repo.git_dir, "info", names, read_object_id)
    if answers is not None:
        return tuple(answers)
    lines = encode_path("".join(f"{name}\n" for name in names))
    args = ("-c", "core.warnAmbiguousRefs=false", "cat-file", "--batch-check")
    stream = BytesIO(run_git(repo.cwd, *args, input=lines))
    return tuple(read_object_id(stream) for _ in names)


def read_object_id(stream: IO[bytes]) -> str | None:
    """Read the object id from an answer of `cat-file --batch-check`; None for a missing object.

    The answer is `<id> <type> <size>`, else `<name> missing` or `<name> ambiguous`.

    Raises:
        EOFError: at the end of the stream.
    """
    line = stream.readline()
    if not line:
        raise EOFError
    fields = line.rstrip(b"\n").split(b" ")
    if len(fields) == 3 and fields[2].isdigit():
        return fields[0].decode()
    return None


def head_branch(repo: Repository) -> str | None:
    """Return the full name of the branch that is checked out, also before its first commit.

    None when HEAD is detached.
    """
    with suppress(OSError):
        match = HEAD.fullmatch(decode_path((repo.git_dir / "HEAD").read_bytes()))
        if match and match[1] != UNUSED_HEAD:
            return match[1]
    ref = decode_path(run_git(repo.cwd, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1))).strip()
    return ref or None


def follow_symbolic(repo: Repository, ref: str) -> str:
    """Return the full name of the ref that a symbolic ref points at, or `ref` itself."""
    if _read_branch_file(repo, ref) is not None:
        return ref  # A file with a commit is no symbolic ref: no process is needed.
    target = decode_path(run_git(repo.cwd, "symbolic-ref", "--quiet", ref, ok=(0, 1))).strip()
    return target or ref


def is_shallow(repo: Repository) -> bool:
    """Return whether history was cut off when the repository was cloned or fetched."""
    return bool(list_cut(repo))


def list_cut(repo: Repository) -> frozenset[str]:
    """Return the commits whose parents a shallow clone lacks (gitrepository-layout(5), shallow)."""
    file = repo.common_dir / "shallow"
    return frozenset(file.read_text().split()) if file.exists() else frozenset()


def find_merge_base(repo: Repository, rev: str, base_rev: str) -> str | None:
    """Return the merge base of two revisions; None when they have no commit in common."""
    listing = run_git(repo.cwd, "merge-base", rev, base_rev, ok=(0, 1)).decode()
    return listing.partition("\n")[0] or None


def is_ancestor(repo: Repository, old: str, new: str) -> bool:
    """Return whether the commit `old` is `new` or is in its history.

    A positive answer about two full ids of commits (`repo.commits`) is cached, for it never
    changes. A name may be moved to another commit later.
    """
    if _is_known_ancestor(repo, old, new):
        return True
    if old != new and _is_known_ancestor(repo, new, old):
        return False  # No commit is in the history of one of its ancestors.
    is_in_history = ask_git(repo.cwd, "merge-base", "--is-ancestor", old, new)
    are_full_ids = repo.commits.issuperset((old, new))
    if is_in_history and are_full_ids:
        repo.ancestor_pairs.add((old, new))
    return is_in_history


def _is_known_ancestor(repo: Repository, old: str, new: str) -> bool:
    """Return whether git said before that a commit is another, or is in its history.

    Only full ids are cached, so that names are never known.
    """
    if (old, new) in repo.ancestor_pairs or (old == new and old in repo.commits):
        return True
    return any(cache.is_in_range(old, new) for cache in tuple(repo.history_caches.values()))


def cache_ancestor(repo: Repository, old: str, new: str) -> None:
    """Cache that a commit is in the history of another, which a caller read in a log of it.

    `is_ancestor` then answers without a git process. Nothing is cached if `new` may be a name: what
    a name stands for can change.

    Args:
        repo: the repository.
        old: the full id of a commit.
        new: a revision that has it in its history.
    """
    if new in repo.commits:
        repo.commits.add(old)
        repo.ancestor_pairs.add((old, new))


def is_in_history(repo: Repository, sha: str, tip: str) -> bool:
    """Return whether `sha` is the full id of a commit in the history of `tip`."""
    return find_commit(repo, sha) == sha and is_ancestor(repo, sha, tip)


def list_outside_history(repo: Repository, shas: Iterable[str], tip: str) -> frozenset[str]:
    """Return the full ids that are no commits, or are not in the history of `tip`."""
    distinct_shas = tuple(dict.fromkeys(shas))
    # An id that is no full id of a commit is resolved to nothing, or to another id.
    oids = find_objects(repo, [f"{sha}^{{commit}}" for sha in distinct_shas])
    commits = {sha for sha, oid in zip(distinct_shas, oids, strict=True) if sha == oid}
    not_commits = frozenset(distinct_shas) - commits
    unknown = {sha for sha in commits if not _is_known_ancestor(repo, sha, tip)}
    if not unknown:
        return not_commits  # Without a commit git would refuse to list any.
    lines = "".join(f"{rev}\n" for rev in (*sorted(unknown), f"^{tip}")).encode()
    listing = run_git(repo.cwd, "rev-list", "--stdin", input=lines).decode()
    # With the asked commits git lists their ancestors, down to the history of `tip`.
    outside = unknown.intersection(listing.split())
    for sha in unknown - outside:
        cache_ancestor(repo, sha, tip)
    return not_commits | outside


def list_worktrees(repo: Repository) -> tuple[Worktree, ...]:
    """Return all work trees, the main one (or the bare repository) first.

    A work tree whose directory is gone is among them.
    """
    is_main = repo.git_dir == repo.common_dir
    if repo.root and is_main and not (repo.common_dir / "worktrees").exists():
        return (Worktree(repo.root, head_branch(repo), is_bare=False),)

    trees: list[Worktree] = []
    listing = run_git(repo.cwd, "worktree", "list", "--porcelain").strip(b"\n")
    for block in listing.split(b"\n\n"):
        fields: dict[str, str] = {}
        for line in decode_path(block).split("\n"):
            key, _, value = line.partition(" ")
            fields[key] = value
        path = Path(fields["worktree"])
        trees.append(Worktree(path, fields.get("branch"), "bare" in fields))
    if repo.root and is_main:
        # For a submodule or a separate git directory, git names that directory as the main one.
        trees[0] = replace(trees[0], path=repo.root)
    return tuple(trees)


def read_tips(repo: Repository, remote: str = "origin") -> Tips:
    """Return the tips of the default branch and of the branch that is checked out.

    The default branch is the one of the remote, else a local main or master: work starts from it.
    """
    remote_refs = [f"refs/remotes/{remote}/{name}" for name in ("HEAD", *DEFAULT_NAMES)]
    format_ = "--format=%(HEAD)%00%(objectname)%00%(refname)%00%(symref)"
    listing = decode_path(run_git(repo.cwd, "for-each-ref", format_, HEADS, *remote_refs))

    commits: dict[str, str] = {}  # By full name of the ref.
    targets: dict[str, str] = {}  # The ref that a symbolic ref points at, else itself.
    branch = ""
    for line in listing.splitlines():
        mark, commit, ref, target = line.split("\0")
        commits[ref] = commit
        targets[ref] = target or ref
        if mark == "*":
            branch = ref

    local_refs = [f"{HEADS}{name}" for name in DEFAULT_NAMES]
    for ref in (*remote_refs, *local_refs):
        if ref in commits:
            default = targets[ref]
            name = default.removeprefix(HEADS).removeprefix(f"refs/remotes/{remote}/")
            return Tips(commits[ref], default, name, branch)
    return Tips(None, "", "", branch)


# -- configuration


def find_setting(repo: Repository, name: str, *scope: str) -> str | None:
    """Return the value of a setting of git's configuration; None if it is not set.

    Args:
        repo: the repository.
        name: the name of the setting.
        scope: options of `git config`: with `--local` only the repository's own file is read.
    """
    args = ("config", *scope, "--get", "-z", name)
    # Without our own settings, which would be returned otherwise.
    value = decode_path(run_git(repo.cwd, *args, env=config_variables(), ok=(0, 1)))
    return value.removesuffix("\0") if value else None


def find_hooks(repo: Repository) -> Path:
    """Return where git looks for hooks: core.hooksPath is relative to the top of the work tree."""
    hooks_path = find_setting(repo, "core.hooksPath", "--type=path")
    return repo.common_dir / "hooks" if hooks_path is None else repo.cwd / hooks_path


def find_comment_prefixes(repo: Repository) -> tuple[str, ...]:
    """Return how a comment line in a commit message may begin: with `#`, unless configured.

    The settings are core.commentChar and core.commentString.
    """
    args = ("config", "-z", "--get-regexp", COMMENT_SETTING)
    listing = decode_path(run_git(repo.cwd, *args, ok=(0, 1)))
    prefix = AUTO_COMMENT[0]
    for setting in listing.split("\0")[:-1]:  # The last one counts.
        _, _, value = setting.partition("\n")
        prefix = value or AUTO_COMMENT[0]
    return tuple(AUTO_COMMENT) if prefix == "auto" else (prefix,)


def set_setting(repo: Repository, name: str, value: str) -> None:
    """Write a value into the repository's own configuration.

    Raises:
        RepositoryError: git-failed.
    """
    run_git(repo.cwd, "config", "--local", name, value)


def remove_section(repo: Repository, section: str) -> None:
    """Remove a section of the repository's own configuration."""
    run_git(repo.cwd, "config", "--local", "--remove-section", section)


def read_user_attributes(repo: Repository) -> bytes:
    """Return the content of the user's attributes file (gitattributes(5)); b"" if it is missing."""
    args = ("config", "--type=path", "--get", "-z", "core.attributesFile")
    configured_path = decode_path(run_git(repo.cwd, *args, ok=(0, 1)))
    if configured_path:
        path = Path(configured_path.removesuffix("\0"))
    else:
        xdg_config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        path = Path(xdg_config, "git", "attributes")
    with suppress(OSError):
        return path.read_bytes()
    return b""
