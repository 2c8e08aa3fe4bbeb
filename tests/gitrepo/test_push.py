"""Tests of pushing with compare-and-swap: a lost race, a refusal and a failure are distinguished."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from memory_ci.errors import EngineError
from memory_ci.gitrepo.merges import fast_forward
from memory_ci.gitrepo.network import (
    Remote,
    classify_rejection,
    connect,
    fetch_tip,
    find_remote_tip,
    push_tip,
)
from memory_ci.gitrepo.repo import Repository, find_repository
from tests.repos import RepoBuilder, make_repo

TOKEN = "ghs_" + "n0tArealT0ken" * 3


@pytest.fixture
def place(tmp_path: Path) -> RepoBuilder:
    repo = make_repo(tmp_path / "work")
    repo.commit("Start", {"a.txt": "a"})
    repo.git("remote", "add", "origin", str(repo.bare(tmp_path / "bare").path))
    return repo


@pytest.fixture
def repo(place: RepoBuilder) -> Repository:
    return find_repository(place.path)


@pytest.mark.parametrize(
    ("errors", "state"),
    [
        (" ! [rejected]        main -> main (stale info)", "moved"),
        (" ! [rejected]        main -> main (non-fast-forward)", "moved"),
        (" ! [rejected]        main -> main (fetch first)", "moved"),
        (
            " ! [remote rejected] main -> main (cannot lock ref 'refs/heads/main': is at 1 but expected 2)",
            "moved",
        ),
        (" ! [remote rejected] main -> main (failed to update ref)", "moved"),
        (" ! [remote rejected] main -> main (incorrect old value provided)", "moved"),
        (
            "remote: error: GH006: Protected branch update failed\n ! [remote rejected] main -> main",
            "refused",
        ),
        ("remote: error: GH013: Repository rule violations found for refs/heads/main.", "refused"),
        (" ! [remote rejected] main -> main (protected branch hook declined)", "refused"),
        (
            " ! [remote rejected] main -> main (push declined due to repository rule violations)",
            "refused",
        ),
        (" ! [remote rejected] main -> main (pre-receive hook declined)", "refused"),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 403", "refused"),
        (" ! [remote rejected] main -> main (branch is currently checked out)", "refused"),
        ("remote: Permission to acme/shop.git denied to github-actions[bot].", "refused"),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", None),
        ("fatal: Authentication failed for 'https://x/'", None),
    ],
)
def test_the_message_of_a_remote_is_a_lost_race_a_refusal_or_a_failure(
    errors: str, state: str | None
) -> None:
    outcome = classify_rejection(
        f"To https://x/shop.git\n{errors}\nerror: failed to push some refs to 'https://x'\n"
    )
    assert (outcome.state if outcome else None) == state
    assert outcome is None or "To https" not in outcome.detail


def test_a_branch_moves_only_from_its_expected_commit(place: RepoBuilder, repo: Repository) -> None:
    start, remote = place.sha(), connect("origin", {})
    commit_sha = place.commit("One")
    assert push_tip(repo, remote, "main", commit_sha, start).state == "done"
    two = place.commit("Two")
    assert push_tip(repo, remote, "main", two, start).state == "moved"
    assert find_remote_tip(repo, remote, "main") == commit_sha


def test_a_branch_is_created_only_if_it_is_missing_and_can_be_deleted(
    place: RepoBuilder, repo: Repository
) -> None:
    remote, tip = connect("origin", {}), place.sha()
    assert find_remote_tip(repo, remote, "new") is None
    assert push_tip(repo, remote, "new", tip, None).state == "done"
    assert push_tip(repo, remote, "new", place.commit("More"), None).state == "moved"
    assert push_tip(repo, remote, "new", None, tip).state == "done"
    assert find_remote_tip(repo, remote, "new") is None


def test_fetching_a_tip_moves_no_other_ref(place: RepoBuilder, repo: Repository) -> None:
    before = place.git("for-each-ref")
    fetch_tip(repo, connect("origin", {}), "main", "refs/memory-ci/publish/x")
    assert place.git("for-each-ref", "--format=%(refname)").count("\n") == before.count("\n") + 1
    assert place.sha("refs/memory-ci/publish/x") == place.sha()


def test_a_remote_that_does_not_answer_is_an_engine_error(
    place: RepoBuilder, repo: Repository
) -> None:
    place.git("remote", "add", "gone", str(place.path / "nowhere"))
    with pytest.raises(EngineError) as caught:
        push_tip(repo, connect("gone", {}), "main", place.sha(), None)
    assert caught.value.slug == "remote-failed"


def settings_of(remote: Remote) -> list[tuple[str, str]]:
    count = int(remote.env["GIT_CONFIG_COUNT"])
    return [
        (remote.env[f"GIT_CONFIG_KEY_{n}"], remote.env[f"GIT_CONFIG_VALUE_{n}"])
        for n in range(count)
    ]


def test_the_token_is_sent_to_its_server_only_and_replaces_configured_headers() -> None:
    remote = connect(
        "origin", {"GITHUB_TOKEN": TOKEN, "GITHUB_SERVER_URL": "https://git.example.com"}
    )
    header = f"Authorization: Basic {b64encode(f'x-access-token:{TOKEN}'.encode()).decode()}"
    key = "http.https://git.example.com/.extraheader"
    assert settings_of(remote)[-2:] == [(key, ""), (key, header)]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"GITHUB_TOKEN": " "},
        {"GITHUB_TOKEN": "a\nb"},
        {"GITHUB_TOKEN": TOKEN, "GITHUB_SERVER_URL": "http://git.example.com"},
    ],
)
def test_no_token_is_sent_if_it_is_missing_or_could_be_exposed(
    environ: dict[str, str],
) -> None:
    assert not any("extraheader" in key for key, _ in settings_of(connect("origin", environ)))


def test_gitlab_uses_its_own_token() -> None:
    keys = [key for key, _ in settings_of(connect("origin", {"GITLAB_TOKEN": TOKEN}))]
    assert "http.https://gitlab.com/.extraheader" in keys


def test_a_local_branch_is_only_fast_forwarded(place: RepoBuilder, repo: Repository) -> None:
    start = place.sha()
    tip = place.commit("Ahead", {"b.txt": "b"})
    place.git("reset", "-q", "--hard", start)
    assert fast_forward(repo, "refs/heads/main", tip)
    assert (place.path / "b.txt").exists()
    place.git("reset", "-q", "--hard", start)
    local_commit = place.commit("Mine")
    assert not fast_forward(repo, "refs/heads/main", tip)
    assert not fast_forward(repo, "refs/heads/unknown", tip)
    assert place.sha() == local_commit


def test_a_branch_that_is_not_checked_out_loses_no_commit(
    place: RepoBuilder, repo: Repository
) -> None:
    start = place.sha()
    tip = place.commit("Ahead")
    place.branch("other", start)
    local_commit = place.commit("Mine")
    place.checkout("main")
    assert not fast_forward(repo, "refs/heads/other", tip)
    assert place.sha("other") == local_commit


def test_a_branch_stays_while_a_merge_is_underway(place: RepoBuilder, repo: Repository) -> None:
    start = place.sha()
    tip = place.commit("Ahead", {"b.txt": "b"})
    place.git("reset", "-q", "--hard", start)
    (place.path / ".git" / "MERGE_HEAD").write_text(f"{tip}\n")
    assert not fast_forward(repo, "refs/heads/main", tip)
    assert place.sha() == start
