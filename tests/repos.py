"""RepoBuilder: real repositories for tests, deterministic to the commit id."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from tests.gitfiles import GitFiles, NotPlain, Signatures

FileText = str | bytes | None
AUTHOR = "Ann Author <ann@example.com>"
COMMITTER = "Cam Committer <cam@example.com>"
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
STEP = timedelta(minutes=1)


QUICK = {
    "init.defaultBranch": "main",
    "maintenance.auto": "false",
    "gc.auto": "0",
    "core.fsync": "none",
}
"""Settings of git: no process that looks after each commit whether to tidy up, and no wait for the disk."""


def git_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment that gives git these settings."""
    pairs = [
        {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": settings[key]}
        for n, key in enumerate(settings)
    ]
    return {"GIT_CONFIG_COUNT": str(len(settings))} | {
        name: value for pair in pairs for name, value in pair.items()
    }


class Clock:
    """The time that the next commit will carry; shared by a repository and its linked work trees."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def tick(self) -> datetime:
        now, self.now = self.now, self.now + STEP
        return now


class RepoBuilder:
    """Says what a repository's history is. Paths are relative to its root; nothing changes directory.

    Every commit advances the clock by one minute, starting at `START`. No configuration and no GIT_*
    of the machine that runs the tests is read.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path = path
        self.clock = clock or Clock(START)

    def git(self, *args: str, input: bytes | None = None) -> str:
        """Output of a git command without its last newline; a failure raises with git's own words."""
        done = subprocess.run(
            ["git", *args], cwd=self.path, env=self._environment(), input=input, capture_output=True
        )
        if done.returncode:
            raise AssertionError(f"git {' '.join(args)}: {os.fsdecode(done.stderr)}")
        return os.fsdecode(done.stdout).removesuffix("\n")

    def write(self, path: str, text: str | bytes) -> Path:
        """A file in the work tree, its directories made as needed; nothing is staged."""
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def commit(
        self,
        message: str | bytes,
        files: Mapping[str, FileText] | None = None,
        author: str | None = None,
    ) -> str:
        """The sha of a commit of what is staged and of `files` (None deletes one); it may be empty."""
        texts = files or {}
        for path in [path for path, text in texts.items() if text is None]:
            self.git("--literal-pathspecs", "rm", "-q", "--", path)
        written = {path: self.write(path, text) for path, text in texts.items() if text is not None}
        data = message if isinstance(message, bytes) else message.encode()
        signatures = self._signatures(author)
        try:
            commit = GitFiles(self.path).commit(data, written, signatures)
        except NotPlain:
            return self.commit_with_git(data, written.values(), signatures.author)
        self.clock.tick()
        return commit

    def commit_with_git(self, message: bytes, files: Collection[Path], author: str) -> str:
        """As `commit`, where GitFiles cannot."""
        if files:
            self.git("--literal-pathspecs", "add", "-f", "--", *map(str, files))
        self.git("commit", "-q", "--allow-empty", f"--author={author}", "-F", "-", input=message)
        return self._ticked()

    def branch(self, name: str, start: str | None = None) -> None:
        """A new branch at `start`, or at HEAD, checked out."""
        if start is None:
            with suppress(NotPlain):
                return GitFiles(self.path).create_branch(name, self._signatures())
        self.git("checkout", "-q", "-b", name, *([start] if start else []))

    def checkout(self, name: str) -> None:
        self.git("checkout", "-q", name)

    def merge(self, *branches: str, message: str | None = None) -> str:
        """The sha of a true merge commit (never a fast-forward); more than one branch makes an octopus."""
        self.git(
            "merge", "-q", "--no-ff", "-m", message or f"Merge branch '{branches[0]}'", *branches
        )
        return self._ticked()

    def merge_back(self, branch: str, message: str | None = None) -> str:
        """Check out `main`, and merge `branch`; that is quick for the present branch, if it began at `main`."""
        data = (message or f"Merge branch '{branch}'").encode()
        try:
            commit = GitFiles(self.path).merge_back(branch, "main", data, self._signatures())
        except NotPlain:
            self.checkout("main")
            return self.merge(branch, message=message)
        self.clock.tick()
        return commit

    def worktree(self, path: Path, branch: str) -> RepoBuilder:
        """A linked work tree at `path` with `branch` checked out, made from HEAD when there is none."""
        is_known = self.git("branch", "--list", branch)
        self.git("worktree", "add", "-q", str(path), *([branch] if is_known else ["-b", branch]))
        return RepoBuilder(path, self.clock)

    def bare(self, path: Path) -> RepoBuilder:
        """A bare clone at `path`."""
        try:
            GitFiles(self.path).copy_bare(path)
        except NotPlain:
            self.git("clone", "-q", "--bare", str(self.path), str(path))
        return RepoBuilder(path, self.clock)

    def copy(self, path: Path) -> Self:
        """The same repository at another place: copying is cheaper than building."""
        shutil.copytree(self.path, path, symlinks=True)
        return type(self)(path, Clock(self.clock.now))

    def at(self, when: datetime) -> RepoBuilder:
        """Set the time of the next commit."""
        self.clock.now = when
        return self

    def show(self, rev: str, path: str) -> str:
        """The text of a file in a commit, exactly."""
        done = subprocess.run(
            ["git", "cat-file", "blob", f"{rev}:{path}"],
            cwd=self.path,
            env=self._environment(),
            check=True,
            capture_output=True,
        )
        return done.stdout.decode()

    def sha(self, rev: str = "HEAD") -> str:
        if rev == "HEAD":
            with suppress(OSError):  # a branch that was just written is a file of its own
                commit, _, ref = (self.path / ".git/HEAD").read_text().strip().partition("ref: ")
                return commit or (self.path / ".git" / ref).read_text().strip()
        return self.git("rev-parse", "--verify", rev)

    def _ticked(self) -> str:
        self.clock.tick()
        return self.sha()

    def _signatures(self, author: str | None = None) -> Signatures:
        return Signatures(author or AUTHOR, COMMITTER, self.clock.now)

    def _environment(self) -> dict[str, str]:
        now = self.clock.now.isoformat(timespec="seconds")
        outside = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return outside | {
            "GIT_AUTHOR_NAME": "Ann Author",
            "GIT_AUTHOR_EMAIL": "ann@example.com",
            "GIT_AUTHOR_DATE": now,
            "GIT_COMMITTER_NAME": "Cam Committer",
            "GIT_COMMITTER_EMAIL": "cam@example.com",
            "GIT_COMMITTER_DATE": now,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
            **git_settings(QUICK),
        }


def make_repo(path: Path, object_format: str = "sha1") -> RepoBuilder:
    """An empty repository on branch `main`, with no hooks."""
    path.mkdir(parents=True, exist_ok=True)
    repo = RepoBuilder(path)
    repo.git(
        "init", "-q", "--initial-branch=main", "--template=", f"--object-format={object_format}"
    )
    return repo
