"""Blame: the first-parent commit that brought each line of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from itertools import groupby
from typing import NamedTuple

from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.repo import Repository

HEADER = re.compile(r"(?P<sha>[0-9a-f]{40,64}) \d+ (?P<line>\d+)(?: \d+)?")


class Brought(NamedTuple):
    """Lines of a file that one commit brought, a merge for all that it merged. `sha`: "" for what is not committed."""

    first: int
    last: int
    sha: str
    day: date
    subject: str


def blame_lines(repo: Repository, path: str, lines: tuple[int, int] | None, rev: str | None) -> tuple[Brought, ...]:
    """What brought the lines (None: all) of a file at a revision, or as the work tree has it.

    A change of white space alone brings nothing. Raises RepositoryError (git-failed).
    """
    asked = ("blame", "--porcelain", "--first-parent", "-w", *(["-L", f"{lines[0]},{lines[1]}"] if lines else []))
    said = run_git(repo.cwd, *asked, *([rev] if rev else []), "--", path)
    shas: list[tuple[int, str]] = []
    facts: dict[str, dict[str, str]] = {}
    for line in said.decode("utf-8", "replace").splitlines():
        if header := HEADER.fullmatch(line):
            shas.append((int(header["line"]), header["sha"]))
        elif not line.startswith("\t"):
            key, _, value = line.partition(" ")
            facts.setdefault(shas[-1][1], {}).setdefault(key, value)
    return tuple(_united(shas, facts))


def _united(shas: list[tuple[int, str]], facts: dict[str, dict[str, str]]) -> Iterator[Brought]:
    for sha, group in groupby(shas, key=lambda pair: pair[1]):
        numbers = [number for number, _ in group]
        fact = facts[sha]
        day = datetime.fromtimestamp(int(fact["committer-time"]), UTC).date()
        is_committed = bool(sha.strip("0"))
        subject = fact["summary"] if is_committed else ""
        yield Brought(numbers[0], numbers[-1], sha if is_committed else "", day, subject)
