"""Where the default branch and the work stand, by one process."""

from __future__ import annotations

from typing import NamedTuple

from memory_ci.gitrepo.process import decode_path, run_git
from memory_ci.gitrepo.repo import Repository

HEADS = "refs/heads/"
DEFAULT_NAMES = ("main", "master")


class Tips(NamedTuple):
    """`commit`: the tip of the default branch, None where there is none; `default` and `name`: its full and its short
    name. `branch`: the full name of the one that is checked out, "" if none is, or if it has no commit.
    """

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
    asked = ("for-each-ref", "--format=%(HEAD)%00%(objectname)%00%(refname)%00%(symref)", HEADS, *wanted)
    rows = [line.split("\0") for line in decode_path(run_git(repo.cwd, *asked)).splitlines()]
    refs = {ref: (commit, target or ref) for _, commit, ref, target in rows}
    places = (*wanted, *(f"{HEADS}{name}" for name in DEFAULT_NAMES))
    commit, default = next((refs[ref] for ref in places if ref in refs), (None, ""))
    name = default.removeprefix(HEADS).removeprefix(f"refs/remotes/{remote}/")
    return Tips(commit, default, name, next((ref for mark, _, ref, _ in rows if mark == "*"), ""))
