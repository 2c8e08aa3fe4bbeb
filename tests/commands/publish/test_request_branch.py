"""Tests of the branch of the memory pull request: made again, kept, or left alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from memory_ci.records.entry import Entry
from memory_ci.records.plan import Plan, Published
from memory_ci.store.document import parse_memory_file
from tests.commands.publish.requests_at_work import edit_branch
from tests.make import make_entry
from tests.project import MARKED, Project
from tests.remote import UPDATE, GitHubDouble, Publisher, Remote


def test_a_second_run_leaves_the_branch_and_updates_the_same_pull_request(
    remote: Remote, forge: GitHubDouble, publish: Publisher, opened: Published
) -> None:
    publish.now += timedelta(hours=1)
    assert publish("pr").tip == opened.tip == remote.sha(f"refs/heads/{UPDATE}")
    assert len(forge.pulls) == 1


@pytest.mark.usefixtures("opened")
def test_the_branch_is_rebuilt_on_a_newer_base(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    project.merge_work(MARKED.replace("charge", "refund"), "refund", 129, "src/refund.py")
    project.git("push", "-q", "origin", "main")
    publish("pr")
    assert remote.git("merge-base", "main", UPDATE) == remote.sha("main")
    assert "#129" in remote.git("log", "--format=%s", f"main..{UPDATE}")
    assert len(forge.pulls) == 1


@pytest.mark.usefixtures("opened")
def test_a_merged_pull_request_leaves_nothing_and_a_stale_one_is_closed(
    remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    clone = remote.clone(tmp_path / "clone")
    clone.git("merge", "-q", "--ff-only", f"origin/{UPDATE}")
    clone.git("push", "-q", "origin", "main")
    published = publish("pr")
    assert published.reason == "nothing to propose"
    assert UPDATE not in remote.branches()
    assert forge.pulls[0]["state"] == "closed"


def test_a_run_that_stopped_takes_nothing_out_of_the_pull_request(
    remote: Remote, forge: GitHubDouble, publish: Publisher, opened: Published
) -> None:
    def stop(plan: Plan) -> Plan:
        engine = msgspec.structs.replace(plan.engine, failure="the model is overloaded")
        return msgspec.structs.replace(plan, engine=engine, until=None, steps=())

    publish.failure = stop
    published = publish("pr")
    assert "left as it is" in published.reason
    assert published.plan is not None
    assert remote.sha(f"refs/heads/{UPDATE}") == published.tip == opened.tip
    assert forge.pulls[0]["state"] == "open"


@pytest.mark.usefixtures("opened")
def test_a_branch_on_which_others_changed_code_is_left_as_it_is(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    edit_branch(remote, tmp_path / "maintainer", {"src/client.py": ("retry", "RETRY")})
    tip = remote.sha(f"refs/heads/{UPDATE}")
    assert "left as it is" in publish("pr").reason
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


@pytest.mark.usefixtures("opened")
def test_a_branch_with_unreadable_memory_is_left_as_it_is(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    edit_branch(
        remote, tmp_path / "maintainer", {"MEMORY.md": ("importance: ", "importance: oops ")}
    )
    tip = remote.sha(f"refs/heads/{UPDATE}")
    assert "MEMORY.md:" in publish("pr").reason
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


@pytest.mark.usefixtures("opened")
def test_a_maintainer_who_pushes_while_the_run_works_is_not_overwritten(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish.project.put_fragment(make_entry(7, title="One more"))
    publish.project.git("push", "-q", "origin", "main")
    publish.before = [
        lambda: edit_branch(
            remote,
            tmp_path / "maintainer",
            {"MEMORY.md": ("send an idempotency key", "send a nonce")},
        )
    ]
    assert publish("pr").tries == 2
    assert "send a nonce" in remote.show(UPDATE, "MEMORY.md")
    assert "One more" in remote.show(UPDATE, "MEMORY.md")


def test_learnings_of_older_work_are_kept_when_the_branch_is_rebuilt(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    start = project.sha()
    project.commit("Trust nobody", {".memory-ci.yaml": "extraction: {trusted_authors: [nobody]}\n"})
    because = "because two people who count one drawer never agree."
    project.merge_work(
        f"Drawers\n\nDecision: one clerk a drawer rather than two, {because}",
        "drawer",
        129,
        "src/b.py",
    )
    project.git("push", "-q", "origin", "main")
    publish("push")
    project.git("pull", "-q", "origin", "main")
    project.commit("Trust again", {".memory-ci.yaml": ""})
    project.commit("Go on, with settings that hold now", {"src/c.py": ""})
    project.git("push", "-q", "origin", "main")
    publish("pr", since=start)
    older = [entry.title for entry in read_entries(remote, UPDATE) if "clerk" in entry.title]
    assert older
    assert "Memory-CI-Range: asked" in remote.git("log", "--format=%B", f"main..{UPDATE}")
    project.merge_work(
        "Voids\n\nDecision: a void is a row rather than a delete, because auditors ask.",
        "void",
        130,
    )
    project.git("push", "-q", "origin", "main")
    for _ in range(2):
        publish("pr")
        results_by_name = {entry.title: entry for entry in read_entries(remote, UPDATE)}
        assert {*older} < {*results_by_name}
        assert [results_by_name[title].reinforcement_count for title in older] == [0] * len(older)
        assert all(f"[x] `{title}" in forge.pulls[0]["body"] for title in older)
    publish("pr", since=start)
    assert {entry.title for entry in read_entries(remote, UPDATE)} == {*results_by_name}


def read_entries(remote: Remote, branch: str) -> tuple[Entry, ...]:
    return parse_memory_file("MEMORY.md", remote.show(branch, "MEMORY.md").encode()).entries
