"""A repository: where it is, what its names mean, where its branches stand, what its configuration says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.objects import ask_objects
from memory_ci.gitrepo.process import (
    ask_git,
    config_variables,
    decode_path,
    encode_path,
    remember_place,
    run_git,
)
from memory_ci.records.names import HEADS

JOURNAL = "memory-ci/journal"
"""Where, in the common directory, the journal of a move stands (gitrepo.journal); it is there only during one."""

HEAD = re.compile(r"(?:ref: (refs/\S+)|[0-9a-f]{40,64})\n?", re.ASCII)
"""The file HEAD: the name of a branch, or the full id of a commit (gitrepository-layout(5))."""

UNUSED = "refs/heads/.invalid"  # What that file says where refs are in another store (gitformat-reftable).
MAX_KEPT = 1 << 25  # So many bytes of blobs are kept, lest they are asked for again.


class Contents(dict[str, bytes]):
    """The contents of blobs by their full ids, as many as fit into MAX_KEPT bytes."""

    size = 0

    def keep(self, oid: str, data: bytes | None) -> None:
        if data is None or len(data) > MAX_KEPT // 4:
            return
        if self.size + len(data) > MAX_KEPT:
            self.clear()
            self.size = 0
        self[oid] = data
        self.size += len(data)


class Repository(msgspec.Struct, frozen=True, dict=True):
    """Where a repository is. `root` is the top of the work tree, None in a bare repository.

    `git_dir` belongs to this work tree alone, `common_dir` to all work trees of the repository.
    What git said of full ids is kept, for that never changes; what a name stands for is asked each time.
    """

    root: Path | None
    git_dir: Path
    common_dir: Path

    @cached_property
    def commits(self) -> set[str]:
        """The full ids that are known to be commits."""
        return set()

    @cached_property
    def descents(self) -> set[tuple[str, str]]:
        """Pairs of known commits of which the first is in the history of the second."""
        return set()

    @cached_property
    def contents(self) -> Contents:
        return Contents()

    @cached_property
    def object_format(self) -> str:
        """The hash that its object ids are made by."""
        return run_git(self.cwd, "rev-parse", "--show-object-format").decode().strip()

    @property
    def cwd(self) -> Path:
        """Where git is run: paths in its output are relative to the top of the tree."""
        return self.root or self.git_dir


class Worktree(msgspec.Struct, frozen=True):
    """One work tree of a repository; `branch` is a full ref name, None when HEAD is detached."""

    path: Path
    branch: str | None
    is_bare: bool


ASKED = (
    "--path-format=absolute",
    "--git-dir",
    "--git-common-dir",
    "--is-inside-work-tree",
    "--show-cdup",
)
REFUSED_BARE = re.compile(r"cannot use bare repository '(.+?)'")
"""How git refuses a bare repository that nobody named (safe.bareRepository)."""


def find_repository(start: Path, *, is_named: bool = False) -> Repository:
    """Return the repository that the directory `start` is in: its root, a sub-directory or a linked work tree.

    A folder that only looks like a git directory is none: its configuration would come with the clone. A bare
    repository counts where somebody named it: `start` with `is_named`, else the variable GIT_DIR.

    Raises:
        RepositoryError: not-a-repository, unnamed-repository, git-missing, or git-failed with what git says (unsafe
            ownership).
    """
    if is_named and (bare := _find_bare(start)):
        return bare
    try:
        repo = _discover(start)
    except RepositoryError as error:
        named = os.environ.get("GIT_DIR")
        if named and (bare := _find_bare(start / named)):
            return bare
        if refused := REFUSED_BARE.search(error.message):
            path = Path(refused[1])
            if path.name != ".git":
                raise _refuse_bare(start, path) from error
            return _open_git_dir(path)
        if "not a git repository" in error.message:
            message, hint = (
                f"{start} is not in a git repository",
                "Run this inside a clone, or `git init` first.",
            )
            raise RepositoryError(message, slug="not-a-repository", hint=hint) from error
        raise
    if not _is_dot_git(repo):
        raise _refuse_bare(start, repo.git_dir)  # git before 2.38 does not know safe.bareRepository
    _remember(repo)
    return repo


def _discover(start: Path) -> Repository:
    answer = run_git(start, "rev-parse", *ASKED)
    git_dir, common_dir, is_inside, up = map(os.fsdecode, answer.split(b"\n")[:4])
    root = Path(os.path.normpath(start.resolve() / up)) if is_inside == "true" else None
    return Repository(root, Path(git_dir), Path(common_dir))


def _find_bare(path: Path) -> Repository | None:
    """Return the bare repository of which `path` is the git directory, if it is one."""
    if not (path / "HEAD").is_file() or not (path / "objects").is_dir():
        return None
    env = {"GIT_DIR": str(path)}
    is_bare = run_git(path, "rev-parse", "--is-bare-repository", env=env).strip() == b"true"
    return _open_git_dir(path) if is_bare else None


def _open_git_dir(path: Path) -> Repository:
    """Return the repository of a git directory, without its work tree."""
    words = ("rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir")
    answer = run_git(path, *words, env={"GIT_DIR": str(path)})
    git_dir, common_dir = map(os.fsdecode, answer.split(b"\n")[:2])
    repo = Repository(None, Path(git_dir), Path(common_dir))
    _remember(repo)
    return repo


def _is_dot_git(repo: Repository) -> bool:
    """Whether the git directory is `.git`, or what a `.git` file at the top of the work tree names."""
    if repo.root is None:
        return ".git" in (repo.git_dir.name, repo.common_dir.name)
    dot_git = repo.root / ".git"
    if dot_git.is_dir():
        return dot_git.samefile(repo.git_dir)
    return dot_git.is_file()


def _refuse_bare(start: Path, path: Path) -> RepositoryError:
    message = f"{start} is in a bare repository that nobody named: {path}"
    hint = "If it is yours, set GIT_DIR to it. A folder of a clone that looks like a repository is not used."
    return RepositoryError(message, slug="unnamed-repository", hint=hint)


def _remember(repo: Repository) -> None:
    """Tell every git of this repository where its git directory is, if it is not found, and to run no filter."""
    settings = list_filter_overrides(repo)
    if repo.root is None:
        remember_place(repo.git_dir, {"GIT_DIR": str(repo.git_dir)}, settings)
        return
    remember_place(repo.git_dir, {"GIT_DIR": str(repo.git_dir)}, ())
    if settings:
        remember_place(repo.root, {}, settings)


FILTERS = re.compile(rb"\[\s*(?:filter|include)", re.I)
FILTER_SETTING = r"^filter\..*\.(clean|smudge|process|required)$"


def list_filter_overrides(repo: Repository, *scopes: str) -> tuple[tuple[str, str], ...]:
    """Return the settings by which no filter of the configuration runs (gitattributes(5)); none where it names none.

    Args:
        repo: the repository whose configuration is read.
        scopes: only filters that these scopes name, as `local`; default: all.
    """
    if not any(FILTERS.search(text) for text in _read_configurations(repo)):
        return ()
    cwd, env = repo.cwd, {"GIT_DIR": str(repo.git_dir)}
    words = ("config", "-z", "--show-scope", "--name-only", "--get-regexp", FILTER_SETTING)
    fields = decode_path(run_git(cwd, *words, env=env, ok=(0, 1))).split("\0")[:-1]
    pairs = zip(fields[::2], fields[1::2], strict=False)
    names = {key.rpartition(".")[0] for scope, key in pairs if not scopes or scope in scopes}
    overrides = (((f"{name}.process", ""), (f"{name}.required", "false")) for name in sorted(names))
    return tuple(pair for pairs in overrides for pair in pairs)


def _read_configurations(repo: Repository) -> Iterator[bytes]:
    """Yield the files in which git usually finds its configuration, to see without a process if one names a filter."""
    home = Path(os.environ.get("HOME") or os.sep)
    usual = (
        home / ".gitconfig",
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config", "git", "config"),
    )
    named = os.environ.get("GIT_CONFIG_GLOBAL")
    system = Path(os.environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig")
    personal = (Path(named),) if named else usual
    for path in (repo.common_dir / "config", repo.git_dir / "config.worktree", *personal, system):
        with suppress(OSError):
            yield path.read_bytes()


def resolve_commit(repo: Repository, rev: str) -> str:
    """The full id of the commit that `rev` names. Raises RepositoryError (unknown-revision)."""
    commit = find_commit(repo, rev)
    if commit is None:
        message, hint = (
            f"{rev!r} names no commit of {repo.cwd}",
            "Check the name; a shallow clone may not hold it.",
        )
        raise RepositoryError(message, slug="unknown-revision", hint=hint)
    return commit


def find_commit(repo: Repository, rev: str) -> str | None:
    """The full id of the commit that `rev` names, if it names one. An option, a negation or a range is not a name."""
    if rev in repo.commits:
        return rev
    if rev.startswith(("-", "^")) or "\0" in rev:
        return None
    found = (ask_objects(repo.git_dir, "info", [f"{rev}^{{commit}}"], read_info) or [None])[0]
    if found is None:
        asked = ("--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
        answer = run_git(repo.cwd, "rev-parse", *asked, ok=(0, 1, 128)).decode().split()
        found = answer[0] if len(answer) == 1 else None
    if found is not None:
        repo.commits.add(found)
    return found


def find_objects(repo: Repository, names: Sequence[str]) -> tuple[str | None, ...]:
    """The object ids that names (`<commit>:<path>`, `<commit>^{tree}`) stand for, by one process; None for no object. A
    name must not hold a line break, nor its path begin with `./` or `../`: git ends at those."""
    if not names:
        return ()
    if (found := ask_objects(repo.git_dir, "info", names, read_info)) is not None:
        return tuple(found)
    asked = encode_path("".join(f"{name}\n" for name in names))
    answer = BytesIO(
        run_git(
            repo.cwd, "-c", "core.warnAmbiguousRefs=false", "cat-file", "--batch-check", input=asked
        )
    )
    return tuple(read_info(answer) for _ in names)


def read_info(stream: IO[bytes]) -> str | None:
    """An answer of `cat-file --batch-check`: `<id> <type> <size>`, else `<name> missing` or `<name> ambiguous`."""
    line = stream.readline()
    if not line:
        raise EOFError
    fields = line.rstrip(b"\n").split(b" ")
    return fields[0].decode() if len(fields) == 3 and fields[2].isdigit() else None


def head_branch(repo: Repository) -> str | None:
    """The full name of the branch that HEAD is on, also before its first commit; None when detached."""
    with suppress(OSError):
        if (found := HEAD.fullmatch(decode_path((repo.git_dir / "HEAD").read_bytes()))) and found[
            1
        ] != UNUSED:
            return found[1]
    return (
        decode_path(run_git(repo.cwd, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1))).strip() or None
    )


def follow_symbolic(repo: Repository, ref: str) -> str:
    """The full name of the ref that `ref` stands for: its own, unless it is symbolic."""
    return decode_path(run_git(repo.cwd, "symbolic-ref", "--quiet", ref, ok=(0, 1))).strip() or ref


def is_shallow(repo: Repository) -> bool:
    """Whether history was cut off when the repository was cloned or fetched."""
    return bool(list_cut(repo))


def list_cut(repo: Repository) -> frozenset[str]:
    """The commits whose parents a shallow clone does not hold (gitrepository-layout(5), shallow)."""
    file = repo.common_dir / "shallow"
    return frozenset(file.read_text().split()) if file.exists() else frozenset()


def find_merge_base(repo: Repository, one: str, other: str) -> str | None:
    """The commit at which two histories parted; None when they have nothing in common."""
    return (
        run_git(repo.cwd, "merge-base", one, other, ok=(0, 1)).decode().partition("\n")[0] or None
    )


def is_ancestor(repo: Repository, old: str, new: str) -> bool:
    """Whether the commit `old` is `new` or is in its history."""
    if (old, new) in repo.descents:
        return True
    is_found = ask_git(repo.cwd, "merge-base", "--is-ancestor", old, new)
    if is_found and repo.commits.issuperset((old, new)):
        repo.descents.add((old, new))
    return is_found


def is_held(repo: Repository, sha: str, tip: str) -> bool:
    """Whether `sha` is the full id of a commit, and that is in the history of `tip`."""
    return find_commit(repo, sha) == sha and is_ancestor(repo, sha, tip)


def list_foreign(repo: Repository, shas: Iterable[str], tip: str) -> frozenset[str]:
    """Those of full ids that are no commits of the history of `tip`."""
    asked = tuple(dict.fromkeys(shas))
    found = find_objects(repo, [f"{sha}^{{commit}}" for sha in asked])
    commits = dict.fromkeys(sha for sha, commit in zip(asked, found, strict=True) if sha == commit)
    # With no commit named git would refuse to begin.
    given = "".join(f"{item}\n" for item in (*commits, f"^{tip}")).encode()
    beside = run_git(repo.cwd, "rev-list", "--stdin", input=given) if commits else b""
    return frozenset(asked).difference(commits) | commits.keys() & set(beside.decode().split())


def list_worktrees(repo: Repository) -> tuple[Worktree, ...]:
    """All work trees, the main one (or the bare repository) first; one whose directory is gone is listed too."""
    if (
        repo.root
        and repo.git_dir == repo.common_dir
        and not (repo.common_dir / "worktrees").exists()
    ):
        return (Worktree(repo.root, head_branch(repo), is_bare=False),)
    blocks = run_git(repo.cwd, "worktree", "list", "--porcelain").strip(b"\n").split(b"\n\n")
    told = [
        dict(line.partition(" ")[::2] for line in decode_path(block).split("\n"))
        for block in blocks
    ]
    trees = [
        Worktree(Path(fields["worktree"]), fields.get("branch"), "bare" in fields)
        for fields in told
    ]
    if repo.root and repo.git_dir == repo.common_dir:
        # Of a submodule or a separate git directory git names that directory as the main work tree.
        trees[0] = replace(trees[0], path=repo.root)
    return tuple(trees)


DEFAULT_NAMES = ("main", "master")


class Tips(NamedTuple):
    """`commit`: the tip of the default branch, None where there is none; `default` and `name`: its full and its short
    name. `branch`: the full name of the one that is checked out, "" if none is, or if it has no commit."""

    commit: str | None
    default: str
    name: str
    branch: str

    @property
    def work(self) -> str:
        """The branch (a short name) that is checked out, "" if none is or if it is the default one."""
        work = self.branch.removeprefix(HEADS)
        return "" if work == self.name else work


def read_tips(repo: Repository, remote: str = "origin") -> Tips:
    """The default branch is the one that others start from: the remote's default one, else a local main or master."""
    wanted = [f"refs/remotes/{remote}/{name}" for name in ("HEAD", *DEFAULT_NAMES)]
    asked = (
        "for-each-ref",
        "--format=%(HEAD)%00%(objectname)%00%(refname)%00%(symref)",
        HEADS,
        *wanted,
    )
    rows = [line.split("\0") for line in decode_path(run_git(repo.cwd, *asked)).splitlines()]
    refs = {ref: (commit, target or ref) for _, commit, ref, target in rows}
    places = (*wanted, *(f"{HEADS}{name}" for name in DEFAULT_NAMES))
    commit, default = next((refs[ref] for ref in places if ref in refs), (None, ""))
    name = default.removeprefix(HEADS).removeprefix(f"refs/remotes/{remote}/")
    return Tips(commit, default, name, next((ref for mark, _, ref, _ in rows if mark == "*"), ""))


COMMENT_SETTING = "^core\\.comment(char|string)$"
AUTO_COMMENT = "#;@!$%^&|:"
"""The characters among which git chooses by itself with `auto` (builtin/commit.c, adjust_comment_line_char)."""


def find_setting(repo: Repository, name: str, *scope: str) -> str | None:
    """The value in force, from whatever file; only from the repository's own with the scope `--local`."""
    asked = ("config", *scope, "--get", "-z", name)
    # Without the settings of our own making, which would be what is found.
    answer = decode_path(run_git(repo.cwd, *asked, env=config_variables(), ok=(0, 1)))
    return answer.removesuffix("\0") if answer else None


def find_hooks(repo: Repository) -> Path:
    """Where git looks for hooks: core.hooksPath is taken from the top of the work tree."""
    elsewhere = find_setting(repo, "core.hooksPath", "--type=path")
    return repo.common_dir / "hooks" if elsewhere is None else repo.cwd / elsewhere


def find_comment_prefixes(repo: Repository) -> tuple[str, ...]:
    """How a line begins that git takes for a comment in a commit message (core.commentChar, core.commentString)."""
    found = decode_path(
        run_git(repo.cwd, "config", "-z", "--get-regexp", COMMENT_SETTING, ok=(0, 1))
    )
    value = found.split("\0")[-2].partition("\n")[2] if found else ""
    return tuple(AUTO_COMMENT) if value == "auto" else (value or AUTO_COMMENT[0],)


def set_setting(repo: Repository, name: str, value: str) -> None:
    """Write a value into the repository's own configuration. Raises RepositoryError (git-failed)."""
    run_git(repo.cwd, "config", "--local", name, value)


def remove_section(repo: Repository, section: str) -> None:
    """Take a section out of the repository's own configuration."""
    run_git(repo.cwd, "config", "--local", "--remove-section", section)


def read_user_attributes(repo: Repository) -> bytes:
    """The attributes that the user has for all repositories (gitattributes(5)); empty if there are none."""
    named = decode_path(
        run_git(repo.cwd, "config", "--type=path", "--get", "-z", "core.attributesFile", ok=(0, 1))
    )
    usual = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "git", "attributes")
    with suppress(OSError):
        return Path(named.removesuffix("\0") if named else usual).read_bytes()
    return b""
