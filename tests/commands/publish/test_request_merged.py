"""Tests of merged memory pull requests: nothing counts twice, by any way to merge."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.records.plan import Published
from tests.commands.publish.requests_at_work import squash
from tests.make import make_id
from tests.remote import UPDATE, GitHubDouble, Publisher, Remote, SavedRequest


def test_a_merge_commit_of_the_pull_request_makes_nothing_count_twice(
    saved_use: SavedRequest,
    remote: Remote,
    forge: GitHubDouble,
    publish: Publisher,
    tmp_path: Path,
) -> None:
    saved_use.restore(publish.project, remote, forge)
    merged = remote.clone(tmp_path / "merged")
    merged.merge(f"origin/{UPDATE}", message=f"Merge pull request #7 from acme/{UPDATE}")
    merged.git("push", "-q", "origin", "main", f":refs/heads/{UPDATE}")
    assert {entry.id: entry.reinforcement_count for entry in merged.entries()}[make_id(7)] == 1
    assert publish("pr").reason == "nothing to propose"


def merge_by(how: str, remote: Remote, path: Path) -> None:
    """Merge the memory branch as one of GitHub's three buttons does, and delete it."""
    if how == "squash":
        squash(remote, path)
        return
    clone = remote.clone(path)
    if how == "merge":
        clone.merge(f"origin/{UPDATE}", message=f"Merge pull request #7 from acme/{UPDATE}")
    else:
        clone.git("checkout", "-q", "--detach", f"origin/{UPDATE}")
        clone.git("rebase", "-q", "--force-rebase", "main")
        clone.git("checkout", "-q", "-B", "main")
    clone.git("push", "-q", "origin", "main", f":refs/heads/{UPDATE}")


@pytest.mark.parametrize("how", ["squash", "merge", "rebase"])
def test_however_the_pull_request_is_merged_the_next_run_reads_nothing_again(
    remote: Remote, publish: Publisher, opened: Published, tmp_path: Path, how: str
) -> None:
    merge_by(how, remote, tmp_path / "merged")
    assert remote.sha("main") != opened.tip
    published = publish("pr")
    assert published.reason == "nothing to propose"
    assert UPDATE not in remote.branches()
    assert published.plan is not None
    assert published.plan.since == publish.project.sha("main"), (
        "the branch is where the first run read it"
    )
    assert published.plan.judged == ()
