"""Copies: a cherry-pick or a rebase brings a commit again, with its trailers. What it was given counts once."""

from __future__ import annotations

from functools import cached_property

from memory_ci.flows.record.episode_facts import GIVEN, USED
from memory_ci.gitrepo.log import read_log
from memory_ci.gitrepo.repo import Repository, find_commit
from memory_ci.records.history import Commit

Authorship = tuple[str, str, str]
"""What a copy keeps: the author, when it was written, and what it is called."""


class Copies:
    """Knows the commits with trailers before a range, and those of the range that it was asked about, oldest first."""

    def __init__(self, repo: Repository, since: str | None) -> None:
        self._repo, self._since = repo, since

    def is_copy(self, commit: Commit) -> bool:
        """Whether an older commit is this one: told of the same author, time and subject."""
        if not _has_trailers(commit):
            return False
        return self._known.setdefault(_authorship(commit), commit.sha) != commit.sha

    @cached_property
    def _known(self) -> dict[Authorship, str]:
        """The first commit of each authorship; one git process, and only where the range has trailers."""
        start = self._since and find_commit(self._repo, self._since)
        if not start:
            return {}
        grep = ("--fixed-strings", "--regexp-ignore-case", f"--grep={GIVEN}:", f"--grep={USED}:", "--reverse")
        log = read_log(self._repo, *grep, "--end-of-options", start, "--")
        known: dict[Authorship, str] = {}
        for commit, _ in log:
            known.setdefault(_authorship(commit), commit.sha)
        return known


def _has_trailers(commit: Commit) -> bool:
    words = commit.message.lower()
    return any(f"{key.lower()}:" in words for key in (GIVEN, USED))


def _authorship(commit: Commit) -> Authorship:
    return commit.email, commit.authored_at.isoformat(), commit.subject
