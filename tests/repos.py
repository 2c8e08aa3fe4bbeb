"""RepoBuilder: git repositories built by tests, with the same commit ids in every run."""

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
"""Settings of git for speed: no maintenance after each commit, and no wait for the disk."""


def git_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that pass settings to git."""
    pairs = [
        {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": settings[key]}
        for n, key in enumerate(settings)
    ]
    return {"GIT_CONFIG_COUNT": str(len(settings))} | {
        name: value for pair in pairs for name, value in pair.items()
    }


class Clock:
    """The time of the next commit, shared by a repository and its linked work trees."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def tick(self) -> datetime:
        now, self.now = self.now, self.now + STEP
        return now


class RepoBuilder:
    """Builds the history of a repository. Paths are relative to its root; the current directory never changes.

    Every commit advances the clock by one minute, starting at `START`. Git reads no configuration and no
    GIT_* variable of the machine that runs the tests.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path = path
        self.clock = clock or Clock(START)

    def git(self, *args: str, input: bytes | None = None) -> str:
        """Return the output of a git command without its last newline; raise git's message if it fails."""
        completed = subprocess.run(
            ["git", *args], cwd=self.path, env=self._environment(), input=input, capture_output=True
        )
        if completed.returncode:
            raise AssertionError(f"git {' '.join(args)}: {os.fsdecode(completed.stderr)}")
        return os.fsdecode(completed.stdout).removesuffix("\n")

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a file of the work tree and return its path; create its directories, stage nothing."""
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
        """Commit the index and `files` (text None deletes a file), and return the sha; it may be empty."""
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
        """Commit like `commit`, in cases that GitFiles does not support."""
        if files:
            self.git("--literal-pathspecs", "add", "-f", "--", *map(str, files))
        self.git("commit", "-q", "--allow-empty", f"--author={author}", "-F", "-", input=message)
        return self._ticked()

    def branch(self, name: str, start: str | None = None) -> None:
        """Create a branch at `start`, or at HEAD, and check it out."""
        if start is None:
            with suppress(NotPlain):
                return GitFiles(self.path).create_branch(name, self._signatures())
        self.git("checkout", "-q", "-b", name, *([start] if start else []))

    def checkout(self, name: str) -> None:
        self.git("checkout", "-q", name)

    def merge(self, *branches: str, message: str | None = None) -> str:
        """Make a merge commit (never a fast-forward) and return its sha; several branches make an octopus."""
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
        """Add a linked work tree with `branch` checked out, and create the branch at HEAD if it is missing."""
        branch_exists = self.git("branch", "--list", branch)
        self.git(
            "worktree", "add", "-q", str(path), *([branch] if branch_exists else ["-b", branch])
        )
        return RepoBuilder(path, self.clock)

    def bare(self, path: Path) -> RepoBuilder:
        """Make a bare clone."""
        try:
            GitFiles(self.path).copy_bare(path)
        except NotPlain:
            self.git("clone", "-q", "--bare", str(self.path), str(path))
        return RepoBuilder(path, self.clock)

    def copy(self, path: Path) -> Self:
        """Return a copy of the repository: copying is cheaper than building it again."""
        shutil.copytree(self.path, path, symlinks=True)
        return type(self)(path, Clock(self.clock.now))

    def at(self, when: datetime) -> RepoBuilder:
        """Set the time of the next commit."""
        self.clock.now = when
        return self

    def show(self, rev: str, path: str) -> str:
        """Return the text of a file in a commit, with its last newline."""
        completed = subprocess.run(
            ["git", "cat-file", "blob", f"{rev}:{path}"],
            cwd=self.path,
            env=self._environment(),
            check=True,
            capture_output=True,
        )
        return completed.stdout.decode()

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
        """Return the environment of git: fixed identities and times, and no configuration of the machine."""
        now = self.clock.now.isoformat(timespec="seconds")
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("GIT_")
        }
        return inherited | {
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
    """Make an empty repository on branch `main`, without hooks."""
    path.mkdir(parents=True, exist_ok=True)
    repo = RepoBuilder(path)
    repo.git(
        "init", "-q", "--initial-branch=main", "--template=", f"--object-format={object_format}"
    )
    return repo
