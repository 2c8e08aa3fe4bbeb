"""Tests of `publish.every`: how often a run publishes, and that an open request is not changed under review."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from memory_ci.commands.ci.event import CiJob
from memory_ci.commands.ci.job import CiOptions, run_ci
from memory_ci.records.plan import Published
from tests.project import DECIDED, NOW
from tests.remote import UPDATE, GitHubDouble, Publisher, Remote

BRANCH = f"refs/heads/{UPDATE}"


def configure(publish: Publisher, text: str) -> None:
    publish.project.commit("Configure", {".memory-ci.yaml": f"publish: {{{text}}}\n"})
    publish.project.git("push", "-q", "origin", "main")


def merge_more(publish: Publisher, name: str = "refund", number: int = 129) -> None:
    publish.project.merge_work(DECIDED.format(name=name), name, number, f"src/{name}.py")
    publish.project.git("push", "-q", "origin", "main")


@pytest.mark.parametrize(("every", "due"), [("day", "2026-11-22"), ("week", "2026-11-23")])
def test_all_merges_of_a_day_are_in_the_request_of_the_next(
    remote: Remote, publish: Publisher, every: str, due: str
) -> None:
    configure(publish, f"every: {every}")
    tip = publish("pr").tip
    merge_more(publish)
    merge_more(publish, "void", 130)
    publish.before = [lambda: pytest.fail("the run was planned")]
    waited = publish("pr")
    assert (waited.reason, waited.tip) == (f"publish.every: {every}: next on {due}", tip)
    assert (waited.is_paused, waited.opened) == (True, NOW), (
        "who watches sees how old the request is"
    )
    assert remote.sha(BRANCH) == tip
    publish.before, publish.now = [], NOW + timedelta(days=2)
    publish("pr")
    subjects = remote.git("log", "--format=%s", f"main..{UPDATE}")
    assert all(label in subjects for label in ("#128", "#129", "#130"))


def test_a_push_waits_for_its_day_as_well_and_a_person_does_not(
    remote: Remote, publish: Publisher
) -> None:
    configure(publish, "every: day")
    publish("push")
    merge_more(publish)
    assert "next on 2026-11-22" in publish("push").reason
    publish.environ["GITHUB_EVENT_NAME"] = "workflow_dispatch"
    assert "#129" in publish("push").subjects[0]
    assert remote.sha("main") == publish.project.sha("main")


def test_a_request_waits_for_so_many_entries_unless_it_is_wanted_now(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    configure(publish, "every: 3 entries")
    assert (
        publish("pr").reason
        == publish("push").reason
        == "publish.every: 3 entries: next at 3 entries, 2 so far"
    )
    assert UPDATE not in remote.branches()
    assert forge.pulls == []
    merge_more(publish)
    publish("pr")
    tip = remote.sha(BRANCH)
    assert len(forge.pulls) == 1
    merge_more(publish, "void", 130)
    assert publish("pr").reason.endswith("1 so far")
    assert remote.sha(BRANCH) == tip
    publish("pr", at_once=True)
    assert remote.sha(BRANCH) != tip


def test_the_job_that_has_the_key_asks_no_model_when_nothing_is_due(
    publish: Publisher, remote: Remote, tmp_path: Path
) -> None:
    configure(publish, "mode: pr, every: week")
    publish()
    merge_more(publish)
    plan, project = tmp_path / "plan.json", publish.project
    for now, kind in ((NOW, "nothing"), (NOW + timedelta(days=2), "record")):
        job = CiJob("record", "push", branch="main")
        run = run_ci(
            project.workspace,
            job,
            CiOptions(extract=plan),
            now=now,
            environ=publish.environ,
        )
        assert (run.job.kind, plan.exists()) == (kind, kind == "record")


@pytest.mark.parametrize(
    ("review", "words"),
    [
        (("APPROVED",), "request 1 is approved"),
        (("CHANGES_REQUESTED",), "request 1 is under review (changes requested)"),
        (("APPROVED", "eve", "CONTRIBUTOR"), ""),
    ],
)
def test_the_branch_of_a_request_under_review_is_not_moved(
    remote: Remote,
    forge: GitHubDouble,
    publish: Publisher,
    opened: Published,
    review: tuple[str, ...],
    words: str,
) -> None:
    tip = opened.tip
    forge.review(*review)
    merge_more(publish)
    if words:
        publish.before = [lambda: pytest.fail("the run was planned")]
    reason = publish("pr").reason
    assert words in reason
    assert (remote.sha(BRANCH) == tip) is bool(words)
    publish.before = []
    publish("pr", at_once=True)
    assert (remote.sha(BRANCH) == tip) is (review == ("APPROVED",)), "no push dismisses an approval"


def test_a_review_that_comes_while_the_run_is_planned_stops_it(
    remote: Remote, forge: GitHubDouble, publish: Publisher, opened: Published
) -> None:
    merge_more(publish)
    publish.before = [lambda: forge.review("APPROVED")]
    assert "is approved" in publish("pr").reason
    assert remote.sha(BRANCH) == opened.tip


def test_work_merged_during_a_review_is_in_the_next_request(
    remote: Remote, forge: GitHubDouble, publish: Publisher, opened: Published
) -> None:
    forge.review("APPROVED")
    merge_more(publish)
    publish("pr")
    clone = remote.clone(remote.path.parent / "merge")
    clone.git("merge", "-q", "--no-ff", "-m", "Merge pull request #7", f"origin/{UPDATE}")
    clone.git("push", "-q", "origin", "main", f":{BRANCH}")
    forge.pulls[0] |= {"state": "closed", "merged_at": "2026-11-21T12:00:00Z"}
    published = publish("pr")
    assert published.url == forge.pulls[1]["html_url"]
    assert published.plan is not None
    assert any("#129" in subject for subject in published.subjects)
    assert remote.sha(BRANCH) != opened.tip
