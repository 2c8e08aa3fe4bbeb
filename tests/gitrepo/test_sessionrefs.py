"""Tests of sessions stored as refs: the user's data is untouched, each session is stored once, remotes get new ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory_ci.errors import EngineError, RepositoryError
from memory_ci.gitrepo.network import run_remote_git
from memory_ci.gitrepo.repo import Repository, find_repository
from memory_ci.gitrepo.sessionrefs import (
    PUSHED,
    SESSIONS,
    delete,
    delete_remote,
    fetch,
    list_remote,
    list_stored,
    list_unpushed,
    push,
    read_stored,
    session_ref,
    store,
)
from tests.repos import RepoBuilder, make_repo

WHEN = datetime(2026, 11, 20, 10, tzinfo=UTC)
HOSTILE = [
    "../../heads/main",
    "a..b",
    "-x",
    ".lock",
    "x.lock",
    "a" * 300,
    "",
    "a b\n~^:?*[\\",
    "@{",
    "é\ud800",
    "x/",
]


def store_session(
    repo: Repository, session_id: str = "s1", data: bytes = b"one\n", when: datetime = WHEN
) -> str:
    return store(repo, "claude-code", session_id, {"digest.jsonl": data}, when).oid


def list_refs(builder: RepoBuilder, pattern: str = "refs/") -> list[str]:
    return builder.git("for-each-ref", "--format=%(refname)", pattern).splitlines()


def test_without_sessions_no_git_process_looks_for_them(
    repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    assert list_stored(repo) == ()
    assert list_unpushed(repo, "origin") == ()
    assert git_calls() == []


def test_packed_sessions_are_listed(builder: RepoBuilder, repo: Repository) -> None:
    oid = store_session(repo)
    builder.git("pack-refs", "--all", "--prune")
    assert not (builder.path / ".git" / session_ref("claude-code", "s1")).exists()
    assert [stored.oid for stored in list_stored(repo)] == [oid]
    assert store_session(repo) == oid


def test_sessions_are_listed_in_a_linked_work_tree(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    oid = store_session(repo)
    builder.git("worktree", "add", "-q", str(tmp_path / "tree"), "HEAD")
    assert [stored.oid for stored in list_stored(find_repository(tmp_path / "tree"))] == [oid]


def test_git_is_asked_for_sessions_where_refs_have_another_store(
    builder: RepoBuilder, repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    # In a repository with reftables this is a file (gitformat-reftable(5)).
    heads = builder.path / ".git" / "refs" / "heads"
    builder.git("pack-refs", "--all", "--prune")
    heads.rmdir()
    heads.write_text("this repository uses the reftable format\n")
    assert list_stored(repo) == ()
    assert [call.split()[0] for call in git_calls()][-1:] == ["for-each-ref"]


def test_a_session_is_a_commit_without_parents_by_memory_ci(
    builder: RepoBuilder, repo: Repository
) -> None:
    stored = store(repo, "codex", "s1", {"digest.jsonl": b"one\n", "transcript": b"all\n"}, WHEN)
    assert stored.is_new
    assert stored.ref == "refs/memory-ci/sessions/codex/s1"
    assert builder.git("log", "-1", "--format=%P|%an|%ce|%cI", stored.ref) == (
        "|memory-ci|memory-ci@noreply.invalid|2026-11-20T10:00:00+00:00"
    )
    assert builder.git("ls-tree", "--name-only", stored.ref).splitlines() == [
        "digest.jsonl",
        "transcript",
    ]


def test_index_work_tree_and_branches_are_unchanged_and_no_hook_runs(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.write("README.md", "changed\n")
    builder.git("add", "README.md")
    builder.git("config", "commit.gpgSign", "true")
    builder.git("config", "core.logAllRefUpdates", "always")
    hook = builder.write(".git/hooks/reference-transaction", "#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    index, head = (builder.path / ".git" / "index").read_bytes(), builder.sha()
    store_session(repo)
    assert (builder.path / ".git" / "index").read_bytes() == index
    assert (builder.sha(), builder.git("status", "--porcelain")) == (head, "M  README.md")
    delete(repo, list_stored(repo))
    assert list_refs(builder) == ["refs/heads/main"]


def test_a_session_is_stored_once_with_the_same_id_in_every_repository(
    repo: Repository, tmp_path: Path
) -> None:
    first = store(repo, "codex", "s1", {"digest.jsonl": b"one\n"}, WHEN)
    stored_again = store(repo, "codex", "s1", {"digest.jsonl": b"one\n"}, WHEN)
    elsewhere = find_repository(make_repo(tmp_path / "other").path)
    elsewhere_stored = store(
        elsewhere, "codex", "s1", {"digest.jsonl": b"one\n"}, WHEN.astimezone()
    )
    assert (stored_again.is_new, stored_again.oid, elsewhere_stored.oid) == (
        False,
        first.oid,
        first.oid,
    )


def test_a_longer_session_replaces_a_shorter_one_and_never_the_reverse(
    repo: Repository,
) -> None:
    store_session(repo)
    grown = store_session(repo, data=b"one\ntwo\n", when=WHEN + timedelta(minutes=5))
    stored_later = store(repo, "claude-code", "s1", {"digest.jsonl": b"one\n"}, WHEN)
    assert (stored_later.oid, stored_later.is_new) == (grown, False)
    assert [stored.oid for stored in list_stored(repo)] == [grown]


def test_the_slower_of_two_concurrent_captures_gets_an_error(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None]
) -> None:
    other_commit = builder.sha()
    wrap_git(
        f'case "$*" in *update-ref*) "$GIT" update-ref {SESSIONS}claude-code/s1 {other_commit};; esac'
    )
    with pytest.raises(RepositoryError) as caught:
        store_session(repo)
    assert caught.value.slug == "ref-moved"
    assert builder.sha(f"{SESSIONS}claude-code/s1") == other_commit


@pytest.mark.parametrize("session_id", HOSTILE)
def test_a_hostile_id_gives_one_ref_below_its_agent(
    builder: RepoBuilder, repo: Repository, session_id: str
) -> None:
    ref = session_ref(session_id, session_id)
    assert len(ref.removeprefix(SESSIONS).split("/")) == 2
    assert len(ref) < 250
    builder.git("check-ref-format", ref)
    head = builder.sha("main")
    store(repo, session_id, session_id, {"digest.jsonl": b"x\n"}, WHEN)
    assert sorted(list_refs(builder)) == sorted(["refs/heads/main", ref])
    assert builder.sha("main") == head


def test_similar_ids_have_different_refs() -> None:
    assert len({session_ref("a", name) for name in ("x.y", "x y", "x-y", "x/y", "x:y")}) == 5


def test_digests_are_read_by_one_process_within_a_limit(
    repo: Repository, git_calls: Callable[[], list[str]]
) -> None:
    store_session(repo, "a", b"one\n")
    store_session(repo, "b", b"x" * 100)
    store(repo, "codex", "no-digest", {"transcript": b"all\n"}, WHEN)
    stored = list_stored(repo)
    before = len(git_calls())
    assert [(session.id, data) for session, data in read_stored(repo, stored, 50)] == [
        ("a", b"one\n")
    ]
    assert len(git_calls()) == before + 1


def test_sessions_survive_garbage_collection(builder: RepoBuilder, repo: Repository) -> None:
    store_session(repo)
    builder.git("gc", "-q", "--prune=now")
    assert [data for _, data in read_stored(repo, list_stored(repo))] == [b"one\n"]


def test_only_sessions_that_a_remote_lacks_are_pushed(
    builder: RepoBuilder, repo: Repository, tmp_path: Path, git_calls: Callable[[], list[str]]
) -> None:
    bare = builder.bare(tmp_path / "bare.git")
    builder.git("remote", "add", "origin", str(bare.path))
    store_session(repo)
    push(repo, "origin", list_unpushed(repo, "origin"))
    assert list_remote(repo, "origin") == {
        session_ref("claude-code", "s1"): builder.sha(f"{SESSIONS}claude-code/s1")
    }
    before = len(git_calls())
    assert list_unpushed(repo, "origin") == ()
    assert [call.split()[0] for call in git_calls()[before:]] == ["for-each-ref"]
    assert len(list_unpushed(repo, "elsewhere")) == 1
    grown = store_session(repo, data=b"one\ntwo\n", when=WHEN + timedelta(minutes=5))
    push(repo, "origin", list_unpushed(repo, "origin"))
    assert bare.sha(f"{SESSIONS}claude-code/s1") == grown
    assert not [ref for ref in list_refs(bare) if ref.startswith(PUSHED)]


def test_fetching_sessions_never_overwrites_local_ones(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    bare = find_repository(builder.bare(tmp_path / "bare.git").path, is_named=True)
    store_session(bare, "a", b"theirs, older\n")
    store_session(bare, "b", b"theirs\n")
    builder.git("remote", "add", "origin", str(bare.git_dir))
    repo = find_repository(builder.path)
    local_session = store_session(repo, "a", b"mine\n", WHEN + timedelta(hours=1))
    assert fetch(repo, "origin") == (session_ref("claude-code", "b"),)
    assert builder.sha(f"{SESSIONS}claude-code/a") == local_session
    assert [stored.key for stored in list_unpushed(repo, "origin")] == ["claude-code:a"]
    assert fetch(repo, "origin") == ()
    assert not (builder.path / ".git" / "FETCH_HEAD").exists()


def test_a_session_is_deleted_locally_or_on_a_remote(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    bare = builder.bare(tmp_path / "bare.git")
    builder.git("remote", "add", "origin", str(bare.path))
    store_session(repo, "a")
    store_session(repo, "b")
    push(repo, "origin", list_stored(repo))
    delete(repo, [stored for stored in list_stored(repo) if stored.key.endswith(":a")])
    assert [ref.rpartition("/")[2] for ref in list_refs(builder, "refs/memory-ci/")] == ["b", "b"]
    delete_remote(repo, "origin", [session_ref("claude-code", "a"), "refs/heads/main"])
    assert list_refs(bare) == ["refs/heads/main", session_ref("claude-code", "b")]


def test_an_unreachable_remote_is_a_temporary_error(repo: Repository, tmp_path: Path) -> None:
    store_session(repo)
    with pytest.raises(EngineError) as caught:
        push(repo, str(tmp_path / "nowhere"), list_stored(repo))
    assert caught.value.slug == "remote-failed"
    assert len(list_unpushed(repo, str(tmp_path / "nowhere"))) == 1


def test_the_error_for_an_unknown_remote_names_it(repo: Repository) -> None:
    with pytest.raises(EngineError) as caught:
        list_remote(repo, "nope")
    expected = "the remote 'nope' cannot be used: 'nope' does not appear to be a git repository"
    assert caught.value.message == expected
    assert "`git remote -v`" in caught.value.hint


def test_messages_of_a_remote_are_one_line_without_credentials(
    repo: Repository, wrap_git: Callable[[str], None]
) -> None:
    wrap_git(
        "printf '%s\\n' 'ssh: Could not resolve hostname forge: Name or service not known' "
        "'fatal: Could not read from remote repository.' '' "
        "'Please make sure you have the correct access rights' 'and the repository exists.' >&2; exit 128"
    )
    with pytest.raises(EngineError) as caught:
        list_remote(repo, "https://ada:hunter2hunter2@forge.example/shop.git")
    assert caught.value.message.endswith(
        "ssh: Could not resolve hostname forge: Name or service not known"
    )
    assert "hunter2" not in caught.value.message


def test_a_remote_that_does_not_answer_is_aborted_with_all_started_processes(
    repo: Repository,
    tmp_path: Path,
    wrap_git: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hangs, lives, communicate = tmp_path / "hangs", tmp_path / "lives", subprocess.Popen.communicate
    os.mkfifo(hangs)
    os.mkfifo(lives)

    def give_up_when_it_hangs(
        process: subprocess.Popen[bytes], data: bytes | None = None, timeout: float | None = None
    ) -> object:
        if timeout is None:
            return communicate(process, data)
        hangs.read_text()
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", give_up_when_it_hangs)
    reader = os.open(lives, os.O_RDONLY | os.O_NONBLOCK)
    wrap_git(f'exec 3>"{lives}"; tail -f /dev/null >/dev/null 2>&1 & echo >"{hangs}"; wait')
    with pytest.raises(EngineError, match="no answer within"):
        run_remote_git(repo.cwd, "ls-remote")
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b"", "the helper has ended: until then the pipe is open"
    os.close(reader)


@pytest.mark.parametrize("date", ["253402300800", "99999999999999999", "-5"])
def test_a_commit_with_an_impossible_date_counts_as_the_oldest(
    builder: RepoBuilder, repo: Repository, date: str
) -> None:
    store_session(repo)
    tree = builder.git("rev-parse", f"{SESSIONS}claude-code/s1^{{tree}}")
    by = f"a <a@b.example> {date} +0000"
    path = builder.write("commit.txt", f"tree {tree}\nauthor {by}\ncommitter {by}\n\nmad\n")
    oid = builder.git("hash-object", "-t", "commit", "-w", "--literally", str(path))
    builder.git("update-ref", f"{SESSIONS}claude-code/s2", oid)
    assert [stored.ended_at.year for stored in list_stored(repo)] == [2026, 1970]


def test_a_session_that_ended_before_1970_has_the_first_date_of_git(
    repo: Repository,
) -> None:
    store_session(repo, when=datetime(1931, 5, 1, tzinfo=UTC))
    assert [stored.ended_at for stored in list_stored(repo)] == [datetime(1970, 1, 1, tzinfo=UTC)]


def test_a_ref_that_is_not_a_session_is_neither_listed_nor_fetched(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    bare = builder.bare(tmp_path / "bare.git")
    head = builder.sha()
    builder.git(
        "push",
        "-q",
        str(bare.path),
        *(f"{head}:{SESSIONS}{name}" for name in ("codex", "a/b/c", "a/x.y", "é/s")),
    )
    store_session(find_repository(bare.path, is_named=True))
    repo = find_repository(builder.path)
    assert list(list_remote(repo, str(bare.path))) == [session_ref("claude-code", "s1")]
    assert fetch(repo, str(bare.path)) == (session_ref("claude-code", "s1"),)
    builder.git("update-ref", f"{SESSIONS}codex", head)
    assert [stored.key for stored in list_stored(repo)] == ["claude-code:s1"]


def test_a_session_that_cannot_be_fetched_does_not_block_others(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    bare = find_repository(builder.bare(tmp_path / "bare.git").path, is_named=True)
    store_session(bare)
    store(bare, "codex", "s2", {"digest.jsonl": b"two\n"}, WHEN)
    repo = find_repository(builder.path)
    builder.git(
        "update-ref", f"{SESSIONS}codex", builder.sha()
    )  # a ref where a directory is needed
    assert fetch(repo, str(bare.git_dir)) == (session_ref("claude-code", "s1"),)
    with pytest.raises(EngineError):
        fetch(repo, str(bare.git_dir))
