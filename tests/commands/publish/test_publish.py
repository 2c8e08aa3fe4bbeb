"""Tests of publishing by push: recorded commits reach the remote branch once, also with concurrent pushes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memory_ci.commands.publish import landing
from memory_ci.commands.publish.publish import PublishOptions, publish_mode
from memory_ci.errors import EngineError, RepositoryError
from tests.make import make_entry
from tests.project import DECIDED, MARKED, Project
from tests.remote import TOKEN, Publisher, Remote, git_over_http, make_remote
from tests.servers import serve

WRITER = Path(__file__).parents[2] / "one_writer.py"
GH006 = "remote: error: GH006: Protected branch update failed for refs/heads/main."
GH013 = "remote: error: GH013: Repository rule violations found for refs/heads/main."


@pytest.fixture
def remote(project: Project, tmp_path: Path) -> Remote:
    return make_remote(project, tmp_path / "shop.git")


@pytest.fixture
def publish(project: Project, remote: Remote) -> Publisher:
    return Publisher(project)


def test_recorded_commits_are_on_the_remote_and_the_local_branch_follows(
    project: Project, remote: Remote, publish: Publisher
) -> None:
    published = publish("push")
    assert (published.mode, published.tries, published.is_followed) == ("push", 1, True)
    assert remote.sha("main") == published.tip == project.sha("main")
    assert remote.git("log", "-1", "--format=%s", "main") == "memory: extract 2 learnings from #128"
    assert project.status() == ""
    assert "retried a POST" in (project.path / "MEMORY.md").read_text()
    assert published.plan is not None
    assert published.plan.ref == "refs/heads/main", "the plan names the branch"
    assert project.git("for-each-ref", "refs/memory-ci") == "", "nothing private is left behind"
    assert publish("push").subjects == ()
    assert remote.sha("main") == published.tip, "publishing again changes nothing"


def test_mode_none_stays_here(project: Project, remote: Remote, publish: Publisher) -> None:
    before = remote.sha("main")
    published = publish("none")
    assert remote.sha("main") == before
    assert project.sha("main") == published.tip != before


def test_the_mode_comes_from_the_configuration_on_the_branch(project: Project) -> None:
    assert publish_mode(project.workspace, PublishOptions()) == "none"
    project.commit("Publish", {".memory-ci.yaml": "publish:\n  mode: auto\n"})
    assert publish_mode(project.workspace, PublishOptions()) == "auto"
    assert publish_mode(project.workspace, PublishOptions("push")) == "push"


def test_a_job_that_checked_out_a_commit_publishes_to_the_branch_it_names(
    project: Project, remote: Remote, tmp_path: Path
) -> None:
    project.commit("Publish", {".memory-ci.yaml": "publish:\n  mode: push\n  remote: upstream\n"})
    project.git("push", "-q", "origin", "main")
    job = remote.clone(tmp_path / "job")
    job.git("checkout", "-q", "--detach")
    job.git("branch", "-q", "-D", "main")
    job.git("remote", "rename", "origin", "upstream")
    published = Publisher(job)(ref="main")
    assert (published.mode, published.is_followed) == ("push", False)
    assert remote.sha("main") == published.tip


def test_a_commit_between_fetch_and_push_is_kept_and_the_run_is_planned_on_it(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    other_project = remote.clone(tmp_path / "other")

    def push_other() -> None:
        other_project.put_fragment(make_entry(7, title="Said meanwhile"))
        other_project.git("push", "-q", "origin", "main")

    publish.before = [push_other]
    published = publish("push")
    assert published.tries == 2
    assert remote.git("log", "--format=%s", "main").splitlines()[:2] == [
        "memory: fold 1 entry from the inbox, extract 2 learnings from #128",
        "Note something",
    ]
    assert publish.waits.bounds == [1.0], "one wait, drawn below a bound that doubles"


def test_a_push_to_a_moving_branch_stops_after_the_last_try(
    remote: Remote, publish: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_project = remote.clone(tmp_path / "other")

    def push_other() -> None:
        other_project.commit("More")
        other_project.git("push", "-q", "origin", "main")

    monkeypatch.setattr(landing, "MAX_TRIES", 3)  # test_retry.py has the number
    publish.before = [push_other] * 10
    with pytest.raises(EngineError) as caught:
        publish("push")
    assert caught.value.slug == "push-contended"
    assert len(publish.before) == 10 - 3
    assert remote.git("log", "--grep=memory:", "--format=%s", "main") == "", "nothing landed"


@pytest.mark.parametrize(
    "words", [GH006, GH013, "You are not allowed to push code to protected branches"]
)
def test_a_refusal_is_an_error_that_says_why_and_is_not_tried_again(
    project: Project, remote: Remote, publish: Publisher, words: str
) -> None:
    remote.refuse("refs/heads/main", words)
    before = project.sha("main")
    with pytest.raises(RepositoryError) as caught:
        publish("push")
    assert caught.value.slug == "push-refused"
    assert words.removeprefix("remote: ") in caught.value.message
    assert project.sha("main") == before
    assert publish.waits.bounds == []


def test_a_dirty_work_tree_is_left_alone(
    project: Project, remote: Remote, publish: Publisher
) -> None:
    before = project.sha("main")
    project.write("README.md", "My own words\n")
    published = publish("push")
    assert not published.is_followed
    assert project.sha("main") == before
    assert remote.sha("main") == published.tip
    assert (project.path / "README.md").read_text() == "My own words\n"


def test_local_commits_that_are_not_pushed_stay_local(
    project: Project, remote: Remote, publish: Publisher
) -> None:
    mine = project.commit("Not yet", {"draft.txt": "x"})
    published = publish("push")
    assert not published.is_followed
    assert project.sha("main") == mine
    assert remote.git("ls-tree", "--name-only", "main", "draft.txt") == ""


def test_a_branch_that_is_checked_out_nowhere_follows(
    project: Project, remote: Remote, publish: Publisher
) -> None:
    project.branch("elsewhere")
    assert publish("push", ref="main").is_followed
    assert project.sha("main") == remote.sha("main")


def test_a_push_of_nothing_but_memory_starts_no_run(
    project: Project, remote: Remote, publish: Publisher
) -> None:
    publish("push")
    publish.environ["GITHUB_EVENT_NAME"] = "push"
    publish.before = [lambda: pytest.fail("the run was planned")]
    assert "nothing to do" in publish("push").reason
    publish.before = []
    project.merge_work(MARKED.replace("charge", "refund"), "refund", 129, "src/refund.py")
    project.git("push", "-q", "origin", "main")
    assert publish("push").subjects != ()


def test_a_shallow_clone_is_made_deeper_until_it_holds_the_range(
    remote: Remote, tmp_path: Path
) -> None:
    shallow = remote.clone(tmp_path / "shallow", "--depth=1")
    assert shallow.git("rev-list", "--count", "HEAD") == "1"
    published = Publisher(shallow)("push")
    assert published.subjects == ("memory: extract 2 learnings from #128",)
    assert remote.sha("main") == published.tip


def test_a_rewritten_branch_heals_from_the_record_that_is_left(
    project: Project, remote: Remote, publish: Publisher
) -> None:
    publish("push")
    first = project.sha("main")
    project.merge_work(MARKED.replace("charge", "refund"), "refund", 129, "src/refund.py")
    project.git("push", "-q", "origin", "main")
    publish("push")
    project.git("reset", "-q", "--hard", first)
    project.git("push", "-q", "--force", "origin", "main")
    project.merge_work(MARKED.replace("charge", "void"), "void", 130, "src/void.py")
    project.git("push", "-q", "origin", "main")
    published = publish("push")
    assert published.plan is not None
    assert published.plan.counts.merged_changes >= 1
    assert any("#130" in subject for subject in published.subjects)


def test_there_must_be_a_remote_of_that_name(project: Project) -> None:
    with pytest.raises(RepositoryError) as caught:
        Publisher(project)("push")
    assert caught.value.slug == "no-remote"


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_writers_at_the_same_time_lose_nothing(
    project: Project, remote: Remote, tmp_path: Path, count: int
) -> None:
    since = project.sha()
    names = ("refund", "void", "quote", "ship")[:count]
    labels = [f"#{number}" for number in range(201, 201 + count)]
    for label, name in zip(labels, names, strict=True):
        project.merge_work(DECIDED.format(name=name), name, int(label[1:]), f"src/{name}.py")
    project.git("push", "-q", "origin", "main")
    clones = [remote.clone(tmp_path / f"clone{label}") for label in labels]
    writers = [
        subprocess.Popen(
            [sys.executable, str(WRITER), str(clone.path), label, since], stdout=subprocess.PIPE
        )
        for clone, label in zip(clones, labels, strict=True)
    ]
    outputs = [writer.communicate(timeout=300)[0] for writer in writers]
    tries = [int(text or 0) for text in outputs]
    last = remote.clone(tmp_path / "last")
    assert len(last.entries()) == count
    assert {entry.source.partition(" ")[0] for entry in last.entries() if entry.source} == {
        f"pr:{label[1:]}" for label in labels
    }
    assert remote.git("log", "--format=%s", "main").count("memory: extract 1 learning") == count
    assert all(1 <= number <= count for number in tries), (
        "each lost race is another writer's landing"
    )
    last.git("fsck", "--strict")


def test_the_token_is_sent_to_its_server_and_is_in_no_argument(
    project: Project, remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.git("config", "http.receivepack", "true")
    trace, given = tmp_path / "trace", list[str]()
    with serve(git_over_http(tmp_path, TOKEN, given)) as server:
        project.git("remote", "set-url", "origin", f"{server.url}/shop.git")
        monkeypatch.setenv("GIT_TRACE", str(trace))
        publish = Publisher(project, {"GITHUB_TOKEN": TOKEN, "GITHUB_SERVER_URL": server.url})
        # What an earlier step of the job left behind must not be sent beside ours.
        project.git(
            "config", f"http.{server.url}/.extraheader", "Authorization: Basic b2xkOm9sZA=="
        )
        published = publish("push")
    assert remote.sha("main") == published.tip
    trace_text = trace.read_text()
    assert "remote-http" in trace_text, "the trace has the arguments of every git"
    secrets = {TOKEN, given[0].removeprefix("Basic ")}
    assert not any(secret in trace_text for secret in secrets)
    config = (project.path / ".git" / "config").read_text()
    assert not any(secret in config for secret in secrets)
    assert all("," not in header for header in given), "one header, not two"


def test_a_token_without_the_right_is_a_refusal(
    project: Project, remote: Remote, tmp_path: Path
) -> None:
    remote.git("config", "http.receivepack", "true")
    with serve(git_over_http(tmp_path, TOKEN, [], is_read_only=True)) as server:
        project.git("remote", "set-url", "origin", f"{server.url}/shop.git")
        publish = Publisher(project, {"GITHUB_TOKEN": TOKEN, "GITHUB_SERVER_URL": server.url})
        with pytest.raises(RepositoryError) as caught:
            publish("push")
    assert caught.value.slug == "push-refused"
    assert "403" in caught.value.message
