"""Tests of the journal: after a run is killed before its branch moves, the next command restores the files."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_ci.gitrepo import journal
from memory_ci.gitrepo.journal import Move, find_unfinished, journaled, undo_move
from memory_ci.gitrepo.repo import JOURNAL, Repository, find_repository, resolve_commit
from memory_ci.gitrepo.writer import Identity, PlannedCommit, commit_series
from memory_ci.memory.workspace import open_unconfigured
from tests.gitrepo.wrapped_git import make_git_wrapper
from tests.repos import RepoBuilder

WRITE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
import signal
signal.signal(signal.SIGINT, lambda number, frame: sys.exit(130))
from memory_ci.gitrepo.repo import find_repository, resolve_commit
from memory_ci.gitrepo.writer import Identity, PlannedCommit, commit_series
repo = find_repository(Path(sys.argv[1]))
files = {"MEMORY.md": b"new\\n", "a/new.md": b"new\\n", "b/old.md": None}
commit_series(repo, ref="refs/heads/main", expected=resolve_commit(repo, "refs/heads/main"),
    commits=[PlannedCommit(files, "memory")], identity=Identity("a", "b"), when=datetime(2026, 1, 1, tzinfo=UTC))
"""
OF_THE_USER = 'case "$GIT_INDEX_FILE $*" in " "*'
"""Starts a shell `case` for git commands that use the index of the work tree, not a temporary index."""


@pytest.fixture
def builder(builder: RepoBuilder) -> RepoBuilder:
    add_memory(builder)
    return builder


def add_memory(builder: RepoBuilder) -> None:
    builder.commit("Memory", {"MEMORY.md": "old\n", "b/old.md": "old\n"})


def run_writer(builder: RepoBuilder, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a process, as leader of its own group, that writes one file, adds one and removes one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITE, str(cwd or builder.path)]
    return subprocess.run(
        command,
        env=environment,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )


def run_writer_in_process(builder: RepoBuilder) -> None:
    """Do the same run in this process, which is faster; it must not be killed."""
    repo = find_repository(builder.path)
    commit_series(
        repo,
        ref="refs/heads/main",
        expected=resolve_commit(repo, "refs/heads/main"),
        commits=[
            PlannedCommit({"MEMORY.md": b"new\n", "a/new.md": b"new\n", "b/old.md": None}, "memory")
        ],
        identity=Identity("a", "b"),
        when=datetime(2026, 1, 1, tzinfo=UTC),
    )


def is_completed(builder: RepoBuilder) -> bool:
    """Return whether index and work tree are at the run's commit and the journal is removed."""
    assert builder.show("main", "MEMORY.md") == "new\n"
    assert not (builder.path / ".git" / JOURNAL).exists()
    builder.git("fsck", "--strict", "--no-dangling")
    return builder.git("status", "--porcelain") == "" and (builder.path / "a/new.md").exists()


def kill_run(
    builder: RepoBuilder,
    wrap_git: Callable[[str], None],
    script: str,
    *,
    waits_for_git: bool = True,
) -> None:
    """Run the writer with a script of git that kills it, and wait until that git has ended."""
    wrap_git(script)
    assert run_writer(builder).returncode == -signal.SIGKILL
    wrap_git("")
    if waits_for_git:  # the git that killed the run holds the journal until it has ended
        with (builder.path / ".git" / JOURNAL).open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)


AFTER_THE_BRANCH = 'case "$*" in *update-ref*) "$GIT" "$@"; kill -KILL $PPID; exit;; esac'
BEFORE_THE_BRANCH = 'case "$*" in *update-ref*) kill -KILL $PPID; exit 1;; esac'
KILLS = {
    "before the branch": BEFORE_THE_BRANCH,
    "before the index": f"{OF_THE_USER}update-index*) kill -KILL $PPID; exit 1;; esac",
    "after the index": f'{OF_THE_USER}update-index*) "$GIT" "$@"; kill -KILL $PPID; exit;; esac',
    "before the files": f"{OF_THE_USER}checkout-index*) kill -KILL $PPID; exit 1;; esac",
    "before a removal": f'{OF_THE_USER}checkout-index*) "$GIT" "$@"; kill -KILL $PPID; exit;; esac',
}


@pytest.mark.parametrize(
    "fields",
    [
        ("refs/heads/main", "--output={decoy}", "{tip}"),
        ("refs/heads/main", "{tip}", "--output={decoy}"),
        ("refs/heads/../config", "{tip}", "{tip}"),
        ("--output={decoy}", "{tip}", "{tip}"),
        ("refs/heads/main", "HEAD", "HEAD"),
    ],
)
def test_a_journal_that_no_run_of_ours_wrote_is_not_followed(
    builder: RepoBuilder, tmp_path: Path, fields: tuple[str, ...]
) -> None:
    decoy = tmp_path / "bashrc"
    decoy.write_text("mine\n", encoding="utf-8")
    journal = builder.path / ".git" / JOURNAL
    journal.parent.mkdir(exist_ok=True)
    text = "\0".join(fields).format(decoy=decoy, tip=builder.sha())
    journal.write_text(text, encoding="utf-8")
    repo = find_repository(builder.path)
    assert find_unfinished(repo) is None
    assert undo_move(repo) == ()
    assert decoy.read_text(encoding="utf-8") == "mine\n"


def is_restored(builder: RepoBuilder) -> bool:
    """Return whether branch, index and work tree are as before the run and the journal is removed."""
    assert builder.show("main", "MEMORY.md") == "old\n"
    assert not (builder.path / ".git" / JOURNAL).exists()
    builder.git("fsck", "--strict", "--no-dangling")
    return builder.git("status", "--porcelain") == "" and not (builder.path / "a/new.md").exists()


@pytest.fixture(scope="module")
def killed_by(
    builder_template: RepoBuilder, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Path], RepoBuilder]:
    """Return a function: `killed_by(script, path)` copies a repository whose run was killed by a script of git."""
    templates: dict[str, RepoBuilder] = {}

    def copy(script: str, path: Path) -> RepoBuilder:
        if script not in templates:
            folder = tmp_path_factory.mktemp("killed")
            template = builder_template.copy(folder / "repo")
            add_memory(template)
            with pytest.MonkeyPatch.context() as patch:
                kill_run(template, make_git_wrapper(folder, patch), script)
            templates[script] = template
        return templates[script].copy(path)

    return copy


@pytest.mark.parametrize("script", KILLS.values(), ids=KILLS)
def test_the_next_command_restores_files_that_a_killed_run_wrote_but_did_not_commit(
    killed_by: Callable[[str, Path], RepoBuilder], tmp_path: Path, script: str
) -> None:
    builder = killed_by(script, tmp_path / "killed")
    assert find_unfinished(find_repository(builder.path)) is not None
    assert open_unconfigured(builder.path).findings == ()
    assert is_restored(builder)
    run_writer_in_process(builder)
    assert is_completed(builder)


def test_a_run_that_is_killed_after_its_branch_moved_is_completed(
    builder: RepoBuilder, wrap_git: Callable[[str], None]
) -> None:
    kill_run(builder, wrap_git, AFTER_THE_BRANCH)
    assert builder.git("status", "--porcelain") == ""
    assert open_unconfigured(builder.path).findings == ()
    assert is_completed(builder)


NEXT_STEPS = {
    "commit -a": [("commit", "-q", "--allow-empty", "-am", "Mine")],
    "add -A": [("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "Mine")],
    "checkout .": [("checkout", "-q", "."), ("commit", "-q", "--allow-empty", "-am", "Mine")],
    "stash": [("stash", "-q", "-u")],
    "stash, pop": [("stash", "-q", "-u"), ("stash", "pop", "-q")],
    "reset": [("reset", "-q", "--hard")],
    "reset to an earlier commit": [("reset", "-q", "--hard", "HEAD~1")],
    "switch": [("switch", "-q", "-c", "other")],
    "switch there and back": [("switch", "-q", "-c", "other"), ("switch", "-q", "main")],
    "rebase": [
        ("branch", "base", "HEAD~1"),
        ("rebase", "-q", "--autostash", "--force-rebase", "base"),
        ("rebase", "--quit"),  # git begins where a file is in its way, and cannot abort
    ],
}


@pytest.mark.parametrize("script", KILLS.values(), ids=KILLS)
@pytest.mark.parametrize("steps", NEXT_STEPS.values(), ids=NEXT_STEPS)
def test_the_next_run_commits_its_changes_whatever_a_person_does_after_a_kill(
    killed_by: Callable[[str, Path], RepoBuilder],
    tmp_path: Path,
    script: str,
    steps: list[tuple[str, ...]],
) -> None:
    """Uncommitted changes never count as committed, so that no later step removes them unnoticed."""
    builder = killed_by(script, tmp_path / "killed")
    for step in steps:
        with suppress(
            AssertionError
        ):  # git refuses some: nothing to stash, files in the way of a rebase
            builder.git(*step)
    assert open_unconfigured(builder.path).findings == ()
    assert builder.git("status", "--porcelain") == ""
    builder.git("switch", "-q", "main")
    assert builder.git("status", "--porcelain") == ""
    run_writer_in_process(builder)
    assert is_completed(builder)


class StoppedClock:
    """A clock that does not advance; the first sleep lets a hanging git continue."""

    def __init__(self, may_go_on: Path) -> None:
        self._may_go_on = may_go_on

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        if self._may_go_on.exists():
            self._may_go_on.write_text("\n")
            self._may_go_on.unlink()


def test_a_git_process_that_outlives_its_run_is_waited_for(
    builder: RepoBuilder,
    wrap_git: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the journal would be removed although the branch moves a moment later."""
    may_go_on = tmp_path / "may-go-on"
    os.mkfifo(may_go_on)
    hangs = f'case "$*" in *update-ref*) kill -KILL $PPID; read -r _ <"{may_go_on}";; esac'
    kill_run(builder, wrap_git, hangs, waits_for_git=False)
    assert builder.show("main", "MEMORY.md") == "old\n"
    monkeypatch.setattr(journal, "time", StoppedClock(may_go_on))
    open_unconfigured(builder.path)
    assert is_completed(builder)


@pytest.mark.parametrize("stage", [True, False])
def test_a_file_changed_since_the_kill_is_kept_and_reported_until_it_is_resolved(
    builder: RepoBuilder, wrap_git: Callable[[str], None], *, stage: bool
) -> None:
    kill_run(builder, wrap_git, BEFORE_THE_BRANCH)
    builder.write("MEMORY.md", "old\nmine\n")
    if stage:
        builder.git("add", "MEMORY.md")
    for _ in range(2):
        (finding,) = open_unconfigured(builder.path).findings
        assert (finding.path, finding.code) == (str(builder.path / "MEMORY.md"), "interrupted-run")
    assert (builder.path / "MEMORY.md").read_text() == "old\nmine\n"
    assert builder.git("status", "--porcelain").split() == ["M" if stage else "MM", "MEMORY.md"]
    builder.git("checkout", "-q", "HEAD", "--", "MEMORY.md")
    assert open_unconfigured(builder.path).findings == ()
    assert is_restored(builder)


def test_the_files_of_a_linked_work_tree_are_restored_from_the_main_one(
    builder: RepoBuilder, wrap_git: Callable[[str], None], tmp_path: Path
) -> None:
    builder.branch("work")
    linked = builder.worktree(tmp_path / "linked", "main")
    kill_run(builder, wrap_git, BEFORE_THE_BRANCH)
    assert linked.git("status", "--porcelain") != ""
    open_unconfigured(builder.path)
    assert linked.git("status", "--porcelain") == builder.git("status", "--porcelain") == ""
    assert (
        (linked.path / "MEMORY.md").read_text()
        == (builder.path / "MEMORY.md").read_text()
        == "old\n"
    )


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_journal_that_is_not_a_regular_file_is_not_opened(
    builder: RepoBuilder, tmp_path: Path, kind: str
) -> None:
    journal = builder.path / ".git" / JOURNAL
    journal.parent.mkdir(exist_ok=True)
    if kind == "link":
        journal.symlink_to(tmp_path / "target")
    elif kind == "pipe":
        os.mkfifo(journal)
    else:
        journal.mkdir()
    assert undo_move(find_repository(builder.path)) == ()
    assert run_writer(builder).returncode == 1
    assert not (tmp_path / "target").exists()
    assert builder.git("status", "--porcelain") == ""


def test_the_files_are_restored_after_the_repository_was_moved(
    builder: RepoBuilder, wrap_git: Callable[[str], None], tmp_path: Path
) -> None:
    kill_run(builder, wrap_git, BEFORE_THE_BRANCH)
    moved = RepoBuilder(builder.path.rename(tmp_path / "moved"), builder.clock)
    assert open_unconfigured(moved.path).findings == ()
    assert is_restored(moved)


ENDS = {"INT": 130, "TERM": -signal.SIGTERM, "HUP": -signal.SIGHUP}


@pytest.mark.parametrize(("name", "status"), ENDS.items())
@pytest.mark.parametrize("step", ["update-ref", "checkout-index"])
def test_a_signal_to_the_process_group_is_handled_after_the_files_are_restored(
    builder: RepoBuilder, wrap_git: Callable[[str], None], step: str, name: str, status: int
) -> None:
    wrap_git(f'case "$*" in *{step}*) kill -{name} -$PPID; "$GIT" "$@"; exit;; esac')
    assert run_writer(builder).returncode == status
    assert is_completed(builder)


def test_a_signal_that_is_ignored_stays_so(
    builder: RepoBuilder, wrap_git: Callable[[str], None]
) -> None:
    wrap_git('case "$*" in *update-ref*) kill -HUP -$PPID;; esac')
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_writer(builder).returncode == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert is_completed(builder)


def test_the_journal_of_a_running_process_is_not_used_by_another(
    builder: RepoBuilder, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_UNDO_WAIT", 0.0)
    base = builder.sha()
    tip = builder.commit("Next", {"MEMORY.md": "new\n"})
    builder.git("reset", "-q", "--hard", base)
    with journaled(repo, Move("refs/heads/main", base, tip)):
        builder.git("update-ref", "refs/heads/main", tip)
        assert undo_move(repo) == ()
        assert find_unfinished(repo) is None
        assert (builder.path / "MEMORY.md").read_text() == "old\n"
    assert not (builder.path / ".git" / JOURNAL).exists()


def test_a_run_restores_the_files_of_a_killed_run_before_writing_its_own_journal(
    builder: RepoBuilder, repo: Repository, wrap_git: Callable[[str], None]
) -> None:
    kill_run(builder, wrap_git, BEFORE_THE_BRANCH)
    with journaled(repo, Move("refs/heads/other", builder.sha(), builder.sha())):
        assert builder.git("status", "--porcelain") == ""
    assert is_restored(builder)
