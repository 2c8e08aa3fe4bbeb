"""Functions that make long histories, and describe the merged changes in them."""

from __future__ import annotations

from memory_ci.gitrepo.history import iter_merged_changes, plan_range
from memory_ci.gitrepo.repo import Repository
from memory_ci.records.history import MergedChange
from tests.repos import RepoBuilder


def changes(repo: Repository, since: str | None = None, until: str = "HEAD") -> list[MergedChange]:
    return list(iter_merged_changes(repo, plan_range(repo, since, until)))


def shape(
    repo: Repository, since: str | None = None, until: str = "HEAD"
) -> list[tuple[str, int | None, list[str]]]:
    """Return the kind, the number and the commit subjects of each change."""
    return [
        (c.kind, c.number, [commit.subject for commit in c.commits])
        for c in changes(repo, since, until)
    ]


def write_long_history(builder: RepoBuilder, merges: int) -> None:
    """Write `merges` merge commits of one-commit branches by fast-import: in all `2 * merges + 1` commits."""
    lines = [
        "reset refs/heads/main",
        "commit refs/heads/main",
        "mark :1",
        "committer A <a@b.c> 1 +0000",
        "data 1",
        "0",
        "",
    ]
    for number in range(merges):
        base = 2 * number + 1
        for parents, mark, message in (
            ([base], base + 1, f"work {number}"),
            ([base, base + 1], base + 2, f"merge {number}"),
        ):
            lines += [
                f"commit refs/heads/{'main' if len(parents) > 1 else 'side'}",
                f"mark :{mark}",
            ]
            lines += [
                f"committer A <a@b.c> {mark} +0000",
                f"data {len(message)}",
                message,
                f"from :{parents[0]}",
            ]
            lines += [
                *(f"merge :{parent}" for parent in parents[1:]),
                f"M 644 inline f{number % 9}",
                "data 4",
                f"{number:04}",
                "",
            ]
    builder.git("fast-import", "--quiet", "--force", input="\n".join(lines).encode())
