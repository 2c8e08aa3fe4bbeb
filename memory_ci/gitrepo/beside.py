"""Beside HEAD: what branches hold that HEAD does not."""

from __future__ import annotations

from datetime import UTC, datetime

from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.repo import Repository


def find_told(repo: Repository, words: str) -> datetime | None:
    """When the newest commit of another local branch, made on top of HEAD, was made that has these words, if any."""
    beside = ("--branches", "--not", "HEAD", "--ancestry-path")
    asked = (*beside, "--fixed-strings", f"--grep={words}", "--max-count=1", "--format=%ct")
    found = run_git(repo.cwd, "log", *asked, "--").decode().strip()
    return datetime.fromtimestamp(int(found), UTC) if found else None
