from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Barrier, Thread

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.repo import Repository, find_repository
from memory_ci.gitrepo.writer import Identity, PlannedCommit, commit_series
from memory_ci.memory.workspace import open_committed
from tests.repos import RepoBuilder, make_repo

MAIN = "refs/heads/main"
BOT = Identity("memory-ci", "memory-ci@example.com")
WHEN = datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5, minutes=30)))


def series(*commits: Mapping[str, bytes | None]) -> list[PlannedCommit]:
    return [
        PlannedCommit(files, f"memory: step {number}\n") for number, files in enumerate(commits, 1)
    ]


def write(
    repo: Repository,
    commits: Sequence[PlannedCommit],
    *,
    ref: str = MAIN,
    expected: str | None = None,
) -> str:
    base = expected or RepoBuilder(repo.cwd).sha(ref)
    return commit_series(repo, ref=ref, expected=base, commits=commits, identity=BOT, when=WHEN)


def state(builder: RepoBuilder) -> tuple[str, ...]:
    """Everything that a failed write must leave as it was: refs, index, status and the files of the work tree."""
    files = sorted(p for p in builder.path.rglob("*") if p.is_file() and ".git" not in p.parts)
    return (
        builder.git("for-each-ref"),
        builder.git("ls-files", "-s", "-t"),
        builder.git("status", "--porcelain=v2"),
        *(f"{path} {path.read_bytes()!r}" for path in files),
    )


def refused(repo: Repository, commits: Sequence[PlannedCommit], **more: str) -> RepositoryError:
    """The error of a write, which has left refs, index and work tree as they were."""
    builder = RepoBuilder(repo.root or repo.git_dir)
    before = state(builder)
    with pytest.raises(RepositoryError) as failure:
        write(repo, commits, **more)
    assert state(builder) == before
    return failure.value


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of its own, so that a test can ask what was left in it."""
    path = tmp_path / "scratch"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


@pytest.fixture(autouse=True)
def nothing_is_left_behind(tmp_path: Path, scratch: Path) -> object:
    """After each test: no temporary file, no lock, and sound repositories."""
    yield
    assert list(scratch.iterdir()) == []
    assert list(tmp_path.glob("**/sharedindex.*")) == []
    for head in tmp_path.glob("**/HEAD"):
        if (head.parent / "objects").is_dir():
            RepoBuilder(head.parent).git("fsck", "--strict", "--no-dangling")


def test_each_step_is_a_commit_with_its_files_message_identity_and_time(
    builder: RepoBuilder, repo: Repository
) -> None:
    base = builder.sha()
    tip = write(
        repo,
        series(
            {"MEMORY.md": b"one\n"},
            {"MEMORY.md": b"two\n", "a/b/c.md": b"c\n"},
            {"README.md": None},
        ),
    )
    assert tip == builder.sha("main")
    assert builder.git("rev-list", "--reverse", f"{base}..main").splitlines()[-1] == tip
    log = builder.git(
        "log",
        "--reverse",
        "--name-status",
        "--format=%s|%an|%ae|%cn|%ce|%ad|%cd",
        "--date=raw",
        f"{base}..",
    )
    who = "memory-ci|memory-ci@example.com|memory-ci|memory-ci@example.com"
    date = f"{int(WHEN.timestamp())} +0530"
    assert log == (
        f"memory: step 1|{who}|{date}|{date}\n\nA\tMEMORY.md\n"
        f"memory: step 2|{who}|{date}|{date}\n\nM\tMEMORY.md\nA\ta/b/c.md\n"
        f"memory: step 3|{who}|{date}|{date}\n\nD\tREADME.md"
    )
    assert builder.show("main~2", "MEMORY.md") == "one\n"
    assert builder.show("main", "MEMORY.md") == "two\n"
    assert builder.git("reflog", "-1", "--format=%gs", "main") == "memory-ci: record"


def test_the_written_files_are_brought_along_and_the_status_stays_clean(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Inbox", {".memory/inbox/1.md": "1\n", ".memory/inbox/2.md": "2\n"})
    write(
        repo,
        series(
            {"MEMORY.md": b"1\n", ".memory/inbox/1.md": None},
            {"MEMORY.md": b"1\n2\n", ".memory/inbox/2.md": None},
        ),
    )
    assert (builder.path / "MEMORY.md").read_bytes() == b"1\n2\n"
    assert not (builder.path / ".memory").exists()
    assert builder.git("status", "--porcelain") == ""
    assert builder.path.is_dir()


def test_the_same_series_gives_the_same_commit(tmp_path: Path) -> None:
    tips = set()
    for name in ("one", "two"):
        builder = make_repo(tmp_path / name)
        builder.commit("Begin", {"README.md": "hello\n"})
        tips.add(write(find_repository(builder.path), series({"b.md": b"b", "a.md": b"a"})))
    assert len(tips) == 1


def test_a_commit_that_changes_nothing_is_left_out(builder: RepoBuilder, repo: Repository) -> None:
    base = builder.sha()
    tip = write(
        repo,
        series(
            {"README.md": b"hello\n"},
            {"MEMORY.md": b"m\n"},
            {"MEMORY.md": b"m\n"},
            {},
            {"gone.md": None},
        ),
    )
    assert builder.git("log", "--format=%s", f"{base}..{tip}") == "memory: step 2"


def test_a_series_that_changes_nothing_moves_nothing(
    builder: RepoBuilder, repo: Repository
) -> None:
    before = (state(builder), builder.git("reflog"))
    assert write(repo, series({"README.md": b"hello\n"})) == write(repo, []) == builder.sha()
    assert (state(builder), builder.git("reflog")) == before


def test_what_else_is_staged_modified_or_untracked_stays_as_it_is(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit(
        "Files",
        {"staged.md": "old\n", "both.md": "old\n", "modified.md": "old\n", "removed.md": "r\n"},
    )
    builder.write("staged.md", "staged\n")
    builder.write("both.md", "staged\n")
    builder.write("added.md", "added\n")
    builder.git("add", "staged.md", "both.md", "added.md")
    builder.git("rm", "-q", "--cached", "removed.md")
    builder.write("both.md", "and modified\n")
    builder.write("modified.md", "modified\n")
    builder.write("a/untracked.md", "untracked\n")
    status = builder.git("status", "--porcelain=v2", "--untracked-files=all")
    write(repo, series({"a/MEMORY.md": b"new\n", "README.md": b"changed\n"}))
    assert builder.git("status", "--porcelain=v2", "--untracked-files=all") == status
    assert (builder.path / "a/MEMORY.md").read_text() == "new\n"
    assert builder.git("cat-file", "blob", ":both.md") == "staged"
    assert (builder.path / "both.md").read_text() == "and modified\n"
    assert "staged.md" not in builder.git("show", "--name-only", "--format=", "main")


def modify(builder: RepoBuilder) -> None:
    builder.write("MEMORY.md", "mine\n")


def stage(builder: RepoBuilder) -> None:
    modify(builder)
    builder.git("add", "MEMORY.md")


def stage_and_change_back(builder: RepoBuilder) -> None:
    stage(builder)
    builder.write("MEMORY.md", "memory\n")


def delete(builder: RepoBuilder) -> None:
    (builder.path / "MEMORY.md").unlink()


def forget(builder: RepoBuilder) -> None:
    builder.git("rm", "-q", "--cached", "MEMORY.md")


def hide_a_change(builder: RepoBuilder) -> None:
    builder.git("update-index", "--assume-unchanged", "MEMORY.md")
    modify(builder)


def skip_a_change(builder: RepoBuilder) -> None:
    builder.git("update-index", "--skip-worktree", "MEMORY.md")
    modify(builder)


def make_executable(builder: RepoBuilder) -> None:
    (builder.path / "MEMORY.md").chmod(0o755)


def link(builder: RepoBuilder) -> None:
    delete(builder)
    (builder.path / "MEMORY.md").symlink_to("README.md")


LOCAL_CHANGES = (
    modify,
    stage,
    stage_and_change_back,
    delete,
    forget,
    hide_a_change,
    skip_a_change,
    make_executable,
    link,
)


@pytest.mark.parametrize("change", LOCAL_CHANGES)
@pytest.mark.parametrize("data", [b"new\n", None])
def test_a_local_change_of_a_file_to_be_written_stops_the_run_first(
    builder: RepoBuilder,
    repo: Repository,
    change: Callable[[RepoBuilder], None],
    data: bytes | None,
) -> None:
    builder.commit("Memory", {"MEMORY.md": "memory\n"})
    change(builder)
    objects = builder.git("count-objects", "-v")
    error = refused(repo, series({"other.md": b"x\n", "MEMORY.md": data}))
    assert error.slug == "local-changes"
    assert error.message.endswith("would be overwritten: MEMORY.md")
    assert builder.git("count-objects", "-v") == objects


def test_an_unmerged_file_stops_the_run_as_does_any_merge_in_progress(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.branch("topic")
    builder.commit("Theirs", {"MEMORY.md": "theirs\n"})
    builder.checkout("main")
    builder.commit("Ours", {"MEMORY.md": "ours\n"})
    with pytest.raises(AssertionError):
        builder.merge("topic")
    assert refused(repo, series({"other.md": b"x\n"})).slug == "repository-busy"
    (builder.path / ".git" / "MERGE_HEAD").unlink()
    assert refused(repo, series({"MEMORY.md": b"x\n"})).slug == "local-changes"


IN_THE_WAY = {
    "an untracked file": ("a/MEMORY.md", None),
    "an ignored file": ("ignored/MEMORY.md", None),
    "a file in the place of a directory": ("a", None),
    "a link in the place of a directory": ("a", "elsewhere"),
    "a dangling link in the place of the file": ("a/MEMORY.md", "nowhere"),
}


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_what_stands_where_a_file_will_be_made_stops_the_run_first(
    builder: RepoBuilder, repo: Repository, case: str
) -> None:
    builder.commit("Ignore", {".gitignore": "ignored/\n", "elsewhere/x": "x\n"})
    path, target = IN_THE_WAY[case]
    (builder.path / path).parent.mkdir(exist_ok=True)
    if target:
        (builder.path / path).symlink_to(target)
    else:
        builder.write(path, "in the way\n")
    error = refused(repo, series({"a/MEMORY.md": b"new\n", "ignored/MEMORY.md": b"new\n"}))
    assert error.slug == "local-changes"
    assert os.path.lexists(builder.path / path)
    assert not (builder.path / "elsewhere" / "MEMORY.md").exists()


def test_many_local_changes_are_not_all_named(builder: RepoBuilder, repo: Repository) -> None:
    files = {f"f{number:02}.md": b"x" for number in range(12)}
    for path in files:
        builder.write(path, "mine")
    assert refused(repo, series(files)).message.endswith("f08.md, f09.md and 2 more")


def start_rebase(builder: RepoBuilder) -> None:
    builder.branch("base", "HEAD~1")
    builder.commit("Base", {"README.md": "theirs\n"})
    builder.checkout("main")
    with pytest.raises(AssertionError):
        builder.git("rebase", "base")


def start_cherry_pick(builder: RepoBuilder) -> None:
    builder.branch("other", "HEAD~1")
    builder.commit("Other", {"README.md": "theirs\n"})
    builder.checkout("main")
    with pytest.raises(AssertionError):
        builder.git("cherry-pick", "other")


def lock_index(builder: RepoBuilder) -> None:
    (builder.path / ".git" / "index.lock").touch()


@pytest.mark.parametrize("start", [start_rebase, start_cherry_pick, lock_index])
def test_a_busy_work_tree_stops_the_run_first(
    builder: RepoBuilder, repo: Repository, start: Callable[[RepoBuilder], None]
) -> None:
    builder.commit("Change", {"README.md": "ours\n"})
    start(builder)
    assert refused(repo, series({"MEMORY.md": b"x\n"})).slug == "repository-busy"
    (builder.path / ".git" / "index.lock").unlink(missing_ok=True)


def test_a_branch_that_is_checked_out_elsewhere_is_brought_along_there(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    linked = builder.worktree(tmp_path / "linked", "memory")
    builder.write("MEMORY.md", "untracked, on another branch\n")
    before = state(builder)[1:]
    write(repo, series({"MEMORY.md": b"new\n"}), ref="refs/heads/memory")
    assert (linked.path / "MEMORY.md").read_text() == "new\n"
    assert linked.git("status", "--porcelain") == ""
    assert state(builder)[1:] == before


def test_a_local_change_in_another_work_tree_stops_the_run_as_well(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    linked = builder.worktree(tmp_path / "linked", "memory")
    linked.write("MEMORY.md", "mine\n")
    error = refused(repo, series({"MEMORY.md": b"new\n"}), ref="refs/heads/memory")
    assert error.slug == "local-changes"
    assert str(linked.path) in error.message
    linked.write("MEMORY.md", "mine\n").unlink()


def test_a_write_may_start_from_a_linked_work_tree_and_from_a_directory_that_is_gone(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    linked = builder.worktree(tmp_path / "linked", "memory")
    gone = builder.worktree(tmp_path / "gone", "gone")
    subprocess.run(["rm", "-r", gone.path], check=True)
    write(find_repository(linked.path), series({"MEMORY.md": b"m\n"}))
    write(find_repository(linked.path), series({"MEMORY.md": b"g\n"}), ref="refs/heads/gone")
    assert (builder.path / "MEMORY.md").read_text() == "m\n"
    assert builder.show("gone", "MEMORY.md") == "g\n"
    assert not (linked.path / "MEMORY.md").exists()


def test_a_bare_repository_is_written_as_well(builder: RepoBuilder, tmp_path: Path) -> None:
    bare = builder.bare(tmp_path / "bare.git")
    write(find_repository(bare.path, is_named=True), series({"a/MEMORY.md": b"m\n"}))
    assert bare.show("main", "a/MEMORY.md") == "m\n"
    assert not (bare.path / "index").exists()


def test_a_detached_work_tree_is_left_alone(builder: RepoBuilder, repo: Repository) -> None:
    builder.git("checkout", "-q", "--detach")
    before = state(builder)[1:]
    write(repo, series({"MEMORY.md": b"m\n"}))
    assert state(builder)[1:] == before


def test_a_sha256_repository_is_written_as_well(tmp_path: Path) -> None:
    builder = make_repo(tmp_path / "repo", "sha256")
    builder.commit("Begin", {"old.md": "o\n", "MEMORY.md": "1\n"})
    tip = write(
        find_repository(builder.path),
        series({"MEMORY.md": b"2\n", "old.md": None, "new.md": b"n\n", "x": None}),
    )
    assert len(tip) == 64
    assert builder.git("status", "--porcelain") == ""
    assert builder.git("ls-files") == "MEMORY.md\nnew.md"


def test_line_ends_follow_the_work_tree_and_the_blob_is_what_was_planned(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.git("config", "core.autocrlf", "true")
    builder.write("MEMORY.md", "one\r\n")
    builder.git("add", "MEMORY.md")
    builder.commit("Memory")
    write(repo, series({"MEMORY.md": b"one\ntwo\n", "a.md": b"a\n", "theirs.md": b"as given\r\n"}))
    assert builder.show("main", "MEMORY.md") == "one\ntwo\n"
    assert builder.show("main", "theirs.md") == "as given\r\n"
    assert (builder.path / "MEMORY.md").read_bytes() == b"one\r\ntwo\r\n"
    assert builder.git("status", "--porcelain") == ""


ODD = (
    'quo"te.md',
    "new\nline/tab\t.md",
    "café.md",
    os.fsdecode(b"latin\xe9/x.md"),
    "*.md",
    " lead.md",
    "-x.md",
    ":!x.md",
)


def test_odd_paths_are_written_and_deleted(builder: RepoBuilder, repo: Repository) -> None:
    builder.commit("More", {"x.md": "x\n"})
    write(repo, series(dict.fromkeys(ODD, b"odd\n")))
    assert all((builder.path / path).read_text() == "odd\n" for path in ODD)
    assert builder.git("status", "--porcelain") == ""
    write(repo, series(dict.fromkeys(ODD)))
    assert builder.git("ls-files").splitlines() == ["README.md", "x.md"]
    assert sorted(path.name for path in builder.path.iterdir()) == [".git", "README.md", "x.md"]


def test_an_executable_file_stays_executable(builder: RepoBuilder, repo: Repository) -> None:
    builder.write("MEMORY.md", "m\n").chmod(0o755)
    builder.git("add", "MEMORY.md")
    builder.commit("Executable")
    write(repo, series({"MEMORY.md": b"n\n"}))
    assert builder.git("ls-tree", "main", "MEMORY.md").startswith("100755 ")
    assert builder.git("status", "--porcelain") == ""


def test_a_sparse_checkout_does_not_stop_the_run(builder: RepoBuilder, repo: Repository) -> None:
    builder.commit("Memory", {"in/MEMORY.md": "in\n", "out/MEMORY.md": "out\n"})
    builder.git("sparse-checkout", "set", "in")
    write(repo, series({"out/MEMORY.md": b"new\n", "in/MEMORY.md": b"new\n"}))
    assert builder.show("main", "out/MEMORY.md") == "new\n"
    assert builder.git("status", "--porcelain") == ""


def test_no_hook_no_signature_and_no_setting_of_the_user_takes_part(
    builder: RepoBuilder, repo: Repository, tmp_path: Path
) -> None:
    hooks = builder.path / ".git" / "hooks"
    hooks.mkdir()
    for name in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "post-checkout",
    ):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{name}\nexit 1\n")
        (hooks / name).chmod(0o755)
    for setting in (
        "commit.gpgSign=true",
        "gpg.program=false",
        "core.splitIndex=true",
        "i18n.commitEncoding=latin1",
    ):
        builder.git("config", *setting.split("="))
    config = (builder.path / ".git" / "config").read_bytes()
    commits = [PlannedCommit({"MEMORY.md": b"m\n"}, "memory: café\n")]
    tip = write(repo, commits)
    assert list(tmp_path.glob("ran-*")) == []
    assert (builder.path / ".git" / "config").read_bytes() == config
    assert builder.git("cat-file", "commit", tip).endswith("\n\nmemory: café")
    assert "encoding" not in builder.git("cat-file", "commit", tip)
    assert "gpgsig" not in builder.git("cat-file", "commit", tip)


def test_the_variables_of_a_hook_that_started_us_lead_nowhere(
    builder: RepoBuilder, repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repo(tmp_path / "other")
    other.commit("Theirs", {"theirs.md": "t\n"})
    theirs = state(other)
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git" / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.path / ".git" / "objects"))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "@1 +0000")
    tip = write(repo, series({"MEMORY.md": b"m\n"}))
    assert builder.git("log", "-1", "--format=%at", tip) == str(int(WHEN.timestamp()))
    assert builder.git("status", "--porcelain") == ""
    assert state(other) == theirs


def test_an_expectation_that_is_out_of_date_is_refused(
    builder: RepoBuilder, repo: Repository
) -> None:
    old = builder.sha()
    builder.commit("Someone else", {"MEMORY.md": "theirs\n"})
    assert refused(repo, series({"MEMORY.md": b"m\n"}), expected=old).slug == "ref-moved"
    assert (
        refused(repo, series({"MEMORY.md": b"m\n"}), ref="refs/heads/none", expected=old).slug
        == "ref-moved"
    )


def test_a_branch_that_moves_while_the_commits_are_made_is_not_overwritten(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None]
) -> None:
    base = builder.sha()
    theirs = builder.commit("Someone else", {"theirs.md": "t\n"})
    builder.git("reset", "-q", "--hard", base)
    wrap_git(f'case "$*" in *commit-tree*) "$GIT" update-ref {MAIN} {theirs};; esac')
    with pytest.raises(RepositoryError) as failure:
        write(repo, series({"MEMORY.md": b"m\n"}))
    assert failure.value.slug == "ref-moved"
    assert builder.sha("main") == theirs
    assert not (builder.path / "MEMORY.md").exists()


def test_of_two_writers_at_once_one_wins_and_the_other_is_told(
    builder: RepoBuilder, tmp_path: Path
) -> None:
    repo = find_repository(builder.bare(tmp_path / "bare.git").path, is_named=True)
    base, start, outcomes = builder.sha(), Barrier(2), list[str]()

    def run(name: str) -> None:
        start.wait()
        try:
            outcomes.append(write(repo, series({f"{name}.md": b"x\n"}), expected=base))
        except RepositoryError as error:
            outcomes.append(error.slug)

    threads = [Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes, key=len) == ["ref-moved", RepoBuilder(repo.cwd).sha("main")]


@pytest.mark.parametrize(
    "step", ["hash-object", "read-tree", "update-index", "write-tree", "commit-tree", "update-ref"]
)
def test_a_step_that_fails_leaves_all_as_it_was(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None], step: str
) -> None:
    wrap_git(
        f'case "$*" in *core.hooksPath*" {step} "*) echo "No space left on device" >&2; exit 128;; esac'
    )
    if step == "write-tree":
        wrap_git(
            'case "$*" in *core.hooksPath*write-tree) echo "No space left on device" >&2; exit 128;; esac'
        )
    error = refused(repo, series({"MEMORY.md": b"m\n"}))
    assert error.slug == "git-failed"
    assert "No space left on device" in error.message


LIMITED = """
import resource, sys
from datetime import UTC, datetime
from pathlib import Path
import memory_ci.gitrepo.writer as writer
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.repo import find_repository, resolve_commit
repo = find_repository(Path(sys.argv[1]), is_named=True)
tip = resolve_commit(repo, "HEAD")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
plan = [writer.PlannedCommit({"MEMORY.md": b"m" * 5000}, "memory")]
who, when = writer.Identity("a", "b"), datetime(2026, 1, 1, tzinfo=UTC)
try:
    writer.commit_series(repo, ref="refs/heads/main", expected=tip, commits=plan, identity=who, when=when)
except RepositoryError as error:
    print(error.slug)
"""


@pytest.mark.parametrize(("limit", "slug"), [(1000, "write-failed"), (6000, "git-failed")])
def test_a_full_disk_leaves_all_as_it_was(
    builder: RepoBuilder, scratch: Path, monkeypatch: pytest.MonkeyPatch, limit: int, slug: str
) -> None:
    builder.commit("Many", {f"a-name-to-fill-the-index-{number}": "x" for number in range(100)})
    before = state(builder)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(builder.path), str(limit)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == slug
    assert state(builder) == before
    assert list(builder.path.glob(".git/*.lock")) == []


@pytest.mark.parametrize("step", ["checkout-index", "update-index"])
def test_where_the_files_cannot_be_written_nothing_is_committed(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None], step: str
) -> None:
    builder.commit("Memory", {"MEMORY.md": "m\n", "old name.md": "o\n"})
    before = state(builder)
    wrap_git(f'case "$GIT_INDEX_FILE $*" in " "*{step}*) exit 128;; esac')
    with pytest.raises(RepositoryError) as failure:
        write(repo, series({"MEMORY.md": b"n\n", "old name.md": None}))
    assert failure.value.slug == "write-failed"
    wrap_git("")
    assert open_committed(builder.path).findings == ()
    assert state(builder) == before


def test_a_branch_that_cannot_move_leaves_the_files_as_they_were(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None]
) -> None:
    builder.commit("Memory", {"MEMORY.md": "m\n", "old name.md": "o\n"})
    before = state(builder)
    wrap_git('case "$*" in *update-ref*) exit 128;; esac')
    with pytest.raises(RepositoryError):
        write(repo, series({"MEMORY.md": b"n\n", "new.md": b"n\n", "old name.md": None}))
    assert state(builder) == before


def special(builder: RepoBuilder, path: Path) -> None:
    """A link to a file, a link to a directory, a submodule and an executable, committed."""
    module = make_repo(path / "module")
    module.commit("Module", {"x.md": "x\n"})
    builder.git("update-index", "--add", "--cacheinfo", f"160000,{module.sha()},module")
    builder.commit("Files", {"docs/mem.md": "m\n"})
    (builder.path / "MEMORY.md").symlink_to("docs/mem.md")
    (builder.path / "linked").symlink_to("docs")
    builder.git("add", "MEMORY.md", "linked")
    builder.commit("Links")


@pytest.mark.parametrize(
    ("path", "obstacle"),
    [
        ("MEMORY.md", "MEMORY.md"),
        ("module", "module"),
        ("docs", "docs"),
        ("linked/MEMORY.md", "linked"),
        ("module/a/MEMORY.md", "module"),
        ("README.md/MEMORY.md", "README.md"),
    ],
)
@pytest.mark.parametrize("data", [b"new\n", None])
def test_a_link_a_submodule_and_a_directory_are_not_replaced_by_a_file(
    builder: RepoBuilder,
    repo: Repository,
    tmp_path: Path,
    path: str,
    obstacle: str,
    data: bytes | None,
) -> None:
    special(builder, tmp_path)
    builder.checkout("--detach")
    error = refused(repo, series({"good.md": b"g\n", path: data}))
    assert error.slug == "not-a-plain-file"
    assert error.message.startswith(f"{obstacle} in ")


@pytest.mark.parametrize("path", [".GIT/x", "./MEMORY.md", "a//x", "a/../x", "a/.git/x"])
def test_a_path_that_git_does_not_take_is_no_success(
    builder: RepoBuilder, repo: Repository, path: str
) -> None:
    error = refused(repo, series({"good.md": b"g\n", path: b"new\n"}))
    assert error.slug == "git-failed"
    assert repr(path) in error.message


def test_two_files_of_one_commit_that_exclude_each_other_are_no_success(
    builder: RepoBuilder, repo: Repository
) -> None:
    assert refused(repo, series({"a": b"1\n", "a/b.md": b"2\n"})).slug == "git-failed"


def test_a_branch_that_stands_for_another_moves_that_one_and_its_work_tree(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.git("symbolic-ref", "refs/heads/master", MAIN)
    tip = write(repo, series({"MEMORY.md": b"new\n"}), ref="refs/heads/master")
    assert builder.sha(MAIN) == tip
    assert builder.git("symbolic-ref", "refs/heads/master") == MAIN
    assert (builder.path / "MEMORY.md").read_text() == "new\n"
    assert builder.git("status", "--porcelain") == ""


@pytest.mark.parametrize("inside", [".", "theirs", "ours"])
def test_a_directory_made_anew_where_a_work_tree_was_is_left_alone(
    builder: RepoBuilder, repo: Repository, tmp_path: Path, inside: str
) -> None:
    theirs = make_repo(tmp_path / "theirs")
    theirs.commit("Theirs", {"theirs.md": "t\n"})
    home = {
        ".": tmp_path / "linked",
        "theirs": theirs.path / "linked",
        "ours": builder.path / "linked",
    }[inside]
    linked = builder.worktree(home, "memory")
    shutil.rmtree(linked.path)
    linked.path.mkdir()
    before = state(theirs)
    tip = write(repo, series({"MEMORY.md": b"new\n"}), ref="refs/heads/memory")
    assert builder.sha("memory") == tip
    assert list(linked.path.iterdir()) == []
    assert not (builder.path / "MEMORY.md").exists()
    assert builder.git("status", "--porcelain") == ""
    assert state(theirs) == before
