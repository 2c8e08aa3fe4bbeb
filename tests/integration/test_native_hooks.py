"""The native hooks, all installed: which of them git runs when, what they do, and that nobody notices.

A hook that was there first notes its name, so that what git ran can be read back.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from memory_ci.commands.setup.hooks import HOOKS, name_previous_hook
from memory_ci.commands.setup.install import install
from memory_ci.memory.prewarm import SECONDS, alone, prewarm, warmed_path
from memory_ci.memory.workspace import index_path
from memory_ci.sessions.active_session import OVERRIDE, VARIABLES
from memory_ci.sessions.moments import Moment, save_moments
from memory_ci.sessions.served_ids import record_served
from memory_ci.sessions.session_note import list_signs
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import fragment_path
from tests.integration.git_in_background import Done, pausing, run_git
from tests.make import make_entry, make_id
from tests.processes import CAN_ADOPT, Background
from tests.project import IMPORTED_FROM, NOW, Project, copy_project, make_project

pytestmark = pytest.mark.skipif(
    not CAN_ADOPT, reason="no way to wait for what goes on in the background"
)


ROOT = Path(__file__).parent.parent.parent
BACKGROUND = ("post-checkout", "post-commit", "post-merge", "post-rewrite")
NOTING = '#!/bin/sh\necho "${0##*/}" >>"$FIRED"\n'


class Case(NamedTuple):
    """Commands of git, the last of which counts; the hooks it runs; whether memory is another afterwards."""

    name: str
    commands: Sequence[str]
    fired: Sequence[str]
    is_memory_new: bool = True
    status: int = 0


PICKED = ("prepare-commit-msg", "post-commit")
COMMIT = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
CASES = [
    Case("commit", ["add .", "commit -m x"], COMMIT),
    Case("commit -a", ["commit -a -m x"], COMMIT),
    Case("commit of a path", ["commit MEMORY.md -m x"], COMMIT),
    Case("commit without memory", ["commit src/client.py -m x"], COMMIT, is_memory_new=False),
    Case("amend", ["commit -a --amend --no-edit"], (*COMMIT, "post-rewrite")),
    Case(
        "nothing to commit",
        ["stash", "commit -m x"],
        ("pre-commit",),
        is_memory_new=False,
        status=1,
    ),
    Case("fast-forward", ["stash", "merge ahead"], ("post-merge",)),
    Case(
        "true merge",
        ["stash", "merge --no-edit beside"],
        ("prepare-commit-msg", "commit-msg", "post-merge"),
    ),
    Case("squash merge", ["stash", "merge --squash beside"], ("post-merge",), is_memory_new=False),
    Case("conflicted merge", ["stash", "merge --no-edit clash"], (), is_memory_new=False, status=1),
    Case("conflict resolved", ["stash", "merge clash", "add .", "commit --no-edit"], COMMIT),
    Case("checkout of a branch", ["stash", "checkout ahead"], ("post-checkout",)),
    Case("new branch here", ["checkout -b new"], ("post-checkout",), is_memory_new=False),
    Case("checkout of a file", ["checkout -- MEMORY.md"], ("post-checkout",), is_memory_new=False),
    Case(
        "rebase",
        ["stash", "checkout beside", "rebase main"],
        ("post-checkout", *PICKED, "post-rewrite"),
    ),
    Case("cherry-pick", ["stash", "cherry-pick beside"], PICKED),
    Case("revert", ["stash", "revert --no-edit HEAD"], PICKED),
    Case("stash", ["stash"], (), is_memory_new=False),
    Case("stash pop", ["stash", "stash pop"], (), is_memory_new=False),
    Case("reset", ["reset --hard ahead"], (), is_memory_new=False),
    Case("worktree add", ["worktree add ../linked-{0} ahead"], ("post-checkout",)),
]


# -- set up


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Three branches beside main, each with memory of its own, and changes in the work tree; no hook yet."""
    made = make_project(tmp_path_factory.mktemp("template") / "shop")
    made.commit("Base", {"MEMORY.md": note(1), "src/client.py": "base\n"})
    start = made.sha()
    for number, name in enumerate(("ahead", "beside", "clash"), 2):
        made.branch(name, start)
        made.commit(name, {fragment_path(make_id(number)): note(number)})
    made.commit("clash", {"src/client.py": "clash\n"})
    made.checkout("main")
    made.git("merge", "-q", "--ff-only", start)
    made.commit("On main", {"MEMORY.md": note(7), "src/client.py": "main\n"})
    made.git("branch", "-qf", "ahead", "main")
    made.checkout("ahead")
    made.commit("Ahead", {fragment_path(make_id(8)): note(8)})
    made.checkout("main")
    made.write(
        ".git/info/exclude", ".gitattributes\n"
    )  # which `install` makes: nothing else may tell the copies apart
    made.write("MEMORY.md", note(9))
    made.write("src/client.py", "changed\n")
    return made


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of what fired."""
    fired = tmp_path / "fired"
    fired.touch()
    monkeypatch.setenv("FIRED", str(fired))
    monkeypatch.setenv("PYTHONPATH", IMPORTED_FROM)
    monkeypatch.setenv("GIT_AUTHOR_DATE", NOW.isoformat())
    monkeypatch.setenv("GIT_COMMITTER_DATE", NOW.isoformat())
    return fired


@pytest.fixture(scope="module")
def installed(template: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same with all hooks installed, its index warm."""
    made = copy_project(template, tmp_path_factory.mktemp("installed") / "shop")
    for hook in HOOKS:
        made.write(f".git/hooks/{hook}", NOTING).chmod(0o755)
    install(made.workspace, sys.executable)
    prewarm(made.path)
    return made


@pytest.fixture
def project(installed: Project, tmp_path: Path, mark: Path, background: Background) -> Project:
    """A copy with all hooks installed, its index warm."""
    return copy_project(installed, tmp_path / "shop")


def note(number: int) -> str:
    return format_entry(make_entry(number, title=f"Zebra {number}"))


def warmed(project: Project) -> str:
    return warmed_path(project.workspace).read_text().splitlines()[0]


# -- which hook fires when


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_git_runs_these_hooks_and_nobody_notices(
    case: Case,
    template: Project,
    project: Project,
    mark: Path,
    tmp_path: Path,
    background: Background,
) -> None:
    plain = copy_project(template, tmp_path / "plain")
    *before, last = [command.format("x") for command in case.commands]
    for command in before:
        run_git(project.path, command)
        run_git(plain.path, command.replace("linked", "plain"))
    background.wait()
    mark.write_text("")
    start = warmed(project)
    done = run_git(project.path, last)
    expected = run_git(plain.path, last.replace("linked", "plain"))
    assert done == expected, "git's exit status and words are those it has without us"
    assert done.status == case.status
    background.wait()
    fired = mark.read_text().split()
    assert [name.removesuffix(".memory-ci-previous") for name in fired] == list(case.fired)
    place = project.path if "worktree" not in last else tmp_path / "linked-x"
    head = Project(place).sha()
    assert warmed(project) == (head if case.is_memory_new else start)


def test_a_push_runs_the_hook_for_pushes_alone(
    project: Project, mark: Path, tmp_path: Path
) -> None:
    project.git("remote", "add", "origin", str(project.bare(tmp_path / "origin.git").path))
    mark.write_text("")
    assert run_git(project.path, "push -q origin main") == Done(0, "")
    assert mark.read_text().split() == [name_previous_hook("pre-push")]


# -- what it costs


def count_starts(
    project: Project, tmp_path: Path, background: Background, *commands: str
) -> list[str]:
    """The hooks' work for which an interpreter was started."""
    started = tmp_path / "started"
    started.write_text("")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$5" >>{started}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    install(project.workspace, str(python))
    for command in commands:
        assert run_git(project.path, command).status == 0
        background.wait()
    return started.read_text().split()


def test_a_commit_that_leaves_memory_alone_starts_no_interpreter(
    project: Project, background: Background, tmp_path: Path
) -> None:
    assert (
        count_starts(
            project, tmp_path, background, "commit src/client.py -m x", "commit --amend -m y"
        )
        == []
    )


def test_a_commit_of_memory_starts_one_and_the_next_none(
    project: Project, background: Background, tmp_path: Path
) -> None:
    assert count_starts(
        project, tmp_path, background, "commit -a -m x", "commit --allow-empty -m y"
    ) == ["sync"]


def test_another_configuration_is_another_index(
    project: Project, background: Background, tmp_path: Path
) -> None:
    project.write(".memory-ci.yaml", "scopes:\n  project: [NOTES.md]\n")
    project.git("add", ".memory-ci.yaml")
    assert count_starts(project, tmp_path, background, "commit .memory-ci.yaml -m x") == ["sync"]
    assert "NOTES.md" in warmed_path(project.workspace).read_text().splitlines()


@pytest.mark.parametrize("lost", ["index.db", "warmed"])
def test_an_index_that_was_deleted_is_built_again(
    project: Project, background: Background, tmp_path: Path, lost: str
) -> None:
    (project.path / ".git/memory-ci" / lost).unlink()
    assert count_starts(project, tmp_path, background, "commit --allow-empty -m x") == ["sync"]


def test_an_episode_is_a_reason_to_build(
    project: Project, background: Background, tmp_path: Path
) -> None:
    project.write(".memory/episodes/2026-11/pr-1.md", "An episode.\n")
    project.git("add", ".memory")
    assert count_starts(project, tmp_path, background, "commit .memory -m x") == ["sync"]
    assert warmed(project) == project.sha()


def test_a_commit_that_is_gone_is_a_reason_to_build(
    project: Project, background: Background, tmp_path: Path
) -> None:
    path = warmed_path(project.workspace)
    path.write_text(path.read_text().replace(warmed(project), "1" * 40))
    assert count_starts(project, tmp_path, background, "commit --allow-empty -m x") == ["sync"]
    assert warmed(project) == project.sha()


def test_in_ci_nothing_is_built_ahead(
    project: Project, background: Background, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    assert count_starts(project, tmp_path, background, "commit -a -m x") == []


def test_what_was_given_is_noted_in_the_next_commit_only(
    project: Project, background: Background, tmp_path: Path
) -> None:
    record_served(project.workspace, [make_id(1)], NOW)
    starts = count_starts(
        project, tmp_path, background, "commit src/client.py -m x", "commit --allow-empty -m y"
    )
    assert starts == ["prepare-commit-msg"]
    assert make_id(1) in project.git("log", "-1", "--format=%B", "HEAD^")


def test_each_work_tree_notes_what_it_was_given(project: Project, tmp_path: Path) -> None:
    linked = Project(project.worktree(tmp_path / "linked", "side").path)
    record_served(linked.workspace, [make_id(2)], NOW)
    run_git(project.path, "commit --allow-empty -m x")
    run_git(linked.path, "commit --allow-empty -m x")
    assert make_id(2) not in project.git("log", "-1", "--format=%B")
    assert make_id(2) in linked.git("log", "-1", "--format=%B")


def test_a_merge_is_no_work_that_was_given_anything(project: Project) -> None:
    project.git("stash", "-q")
    record_served(project.workspace, [make_id(1)], NOW)
    assert run_git(project.path, "merge --no-edit beside").status == 0
    assert make_id(1) not in project.git("log", "-1", "--format=%B")


@pytest.mark.parametrize("merge", ["cherry-pick beside", "revert --no-edit HEAD"])
def test_whatever_makes_a_commit_notes_what_its_work_was_given(
    project: Project, merge: str
) -> None:
    project.git("stash", "-q")
    record_served(project.workspace, [make_id(1)], NOW)
    assert run_git(project.path, merge).status == 0
    assert make_id(1) in project.git("log", "-1", "--format=%B")


@pytest.mark.parametrize("variable", [OVERRIDE, *VARIABLES])
def test_a_session_that_we_know_of_is_known_to_the_hook(
    project: Project, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "codex:s1" if variable == OVERRIDE else "s1")
    run_git(project.path, "commit --allow-empty -m x")
    assert ":s1" in project.git("log", "-1", "--format=%(trailers:key=Memory-Session,valueonly)")


DUE = "memory-ci: before you commit: Run the linter (id 00000001)"


def put_due_line(project: Project) -> None:
    save_moments(project.workspace.repo.common_dir, [Moment(make_id(1), "before:commit", DUE)])


@pytest.mark.parametrize("variable", [OVERRIDE, *VARIABLES])
def test_a_commit_of_an_agent_s_session_prints_what_is_due_once(
    project: Project, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "codex:s1" if variable == OVERRIDE else "s1")
    put_due_line(project)
    assert DUE in run_git(project.path, "commit --allow-empty -m x").printed
    assert DUE not in run_git(project.path, "commit --allow-empty -m y").printed


def test_what_git_s_hook_prints_counts_as_served(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OVERRIDE, "codex:s1")
    put_due_line(project)
    run_git(project.path, "commit --allow-empty -m x")
    (sign,) = list_signs(project.workspace, "s1")
    assert (sign.key, sign.given) == ("codex:s1", (make_id(1),))


def test_a_commit_in_a_linked_work_tree_prints_what_is_due(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(OVERRIDE, "codex:s1")
    put_due_line(project)
    project.git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    assert DUE in run_git(tmp_path / "tree", "commit --allow-empty -m x").printed


def test_a_commit_of_a_person_starts_no_interpreter_for_what_is_due(
    project: Project, background: Background, tmp_path: Path
) -> None:
    put_due_line(project)
    assert count_starts(project, tmp_path, background, "commit --allow-empty -m x") == []


def test_a_table_that_is_a_pipe_is_not_waited_for(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OVERRIDE, "codex:s1")
    folder = project.path / ".git/memory-ci"
    folder.mkdir(exist_ok=True)
    os.mkfifo(folder / "moments.json")
    assert run_git(project.path, "commit --allow-empty -m x").status == 0


def test_the_hooks_that_build_ahead_are_one_text() -> None:
    assert len({(ROOT / "hooks" / hook).read_bytes() for hook in BACKGROUND}) == 1
    assert {path.name for path in (ROOT / "hooks").iterdir()} == set(HOOKS)


@pytest.mark.parametrize("work", ["sync", "pre-push", "prepare-commit-msg"])
def test_a_hook_loads_no_library_that_is_slow(project: Project, work: str) -> None:
    record_served(project.workspace, [make_id(1)], NOW)
    argv = ["hook", work, *([".git/COMMIT_EDITMSG"] if work == "prepare-commit-msg" else [])]
    program = (
        "import sys; from memory_ci.commands.root import main;"
        f"main.main({argv}, standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project.path, capture_output=True, check=True
    )
    loaded = set(done.stdout.decode().split())
    assert "memory_ci.commands.agents.hook" in loaded
    assert not loaded & {"git", "anthropic", "urllib3", "numpy", "asyncio"}


def test_bringing_up_what_is_up_asks_git_for_four_things(project: Project, tmp_path: Path) -> None:
    project.git("stash", "-q")
    prewarm(project.path)
    trace = tmp_path / "trace"
    command = [sys.executable, "-m", "memory_ci", "hook", "sync"]
    subprocess.run(
        command, cwd=project.path, env={**os.environ, "GIT_TRACE": str(trace)}, check=True
    )
    lines = [
        line.partition("built-in: git ")[2]
        for line in trace.read_text().splitlines()
        if "built-in" in line
    ]
    assert [line.split()[0] for line in lines] == [
        "rev-parse",
        "cat-file",
        "ls-files",
        "for-each-ref",
    ]


# -- in the background


def test_who_comes_second_goes_at_once(
    project: Project, background: Background, tmp_path: Path
) -> None:
    with pausing(project, tmp_path) as paused:
        run_git(project.path, "commit -a -m x")
        paused.await_run()
        assert prewarm(project.path) is False
    background.wait()
    assert prewarm(project.path) is True


def test_while_one_is_at_work_no_other_python_is_started(
    project: Project, background: Background, tmp_path: Path
) -> None:
    with pausing(project, tmp_path) as paused:
        run_git(project.path, "commit -a -m x")
        run = paused.await_run()
        for number in range(5):
            project.write("MEMORY.md", note(20 + number))
            run_git(project.path, "commit -a -m y")
        background.wait(but_for=run)
    background.wait()
    assert paused.count_starts() == 1
    assert warmed(project) == project.sha()


@pytest.mark.parametrize("left", ["ended", "of old", "none"])
def test_a_number_that_is_left_in_the_lock_keeps_nobody_away(
    project: Project, background: Background, tmp_path: Path, left: str
) -> None:
    lock = project.path / ".git/memory-ci/prewarm.lock"
    assert lock.read_text() == "", "who ends takes its number out"
    ended = subprocess.Popen(["true"])
    ended.wait()
    lock.write_text(
        {"ended": f"{ended.pid}\n", "of old": f"{os.getpid()}\n", "none": "nonsense\n"}[left]
    )
    if left == "of old":
        os.utime(lock, (0, 0))
    assert count_starts(project, tmp_path, background, "commit -a -m x") == ["sync"]


def test_a_repository_that_is_removed_stays_removed(
    project: Project, background: Background, tmp_path: Path
) -> None:
    with pausing(project, tmp_path) as paused:
        run_git(project.path, "commit -a -m x")
        paused.await_run()
        shutil.rmtree(project.path)
    background.wait()
    assert not project.path.exists()


def test_a_lock_is_not_made_in_a_git_directory_that_is_gone(project: Project) -> None:
    workspace = project.workspace
    shutil.rmtree(project.path / ".git")
    with pytest.raises(FileNotFoundError), alone(index_path(workspace).with_name("prewarm.lock")):
        pass
    assert not (project.path / ".git").exists()


def test_a_run_looks_again_where_head_is_before_it_ends(
    project: Project, background: Background, tmp_path: Path
) -> None:
    with pausing(project, tmp_path) as paused:
        run_git(project.path, "commit -a -m x")
        paused.await_run()
        run_git(project.path, "-c core.hooksPath=/dev/null commit --allow-empty -m y")
    background.wait()
    assert warmed(project) == project.sha()


def test_a_run_is_in_a_session_of_its_own_and_holds_nothing_of_ours(
    project: Project, background: Background, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    with pausing(project, tmp_path) as paused:
        assert run_git(project.path, "commit -q -a -m x", pass_fds=(writer,)) == Done(0, "")
        os.close(writer)
        run = paused.await_run()
        background.wait(but_for=run)
        assert background.list() == [run]
        assert os.getsid(run) == run
        assert os.read(reader, 1) == b"", (
            "the pipe of who called git is closed, while the run goes on"
        )
    os.close(reader)


def test_a_run_that_hangs_is_ended_by_the_clock() -> None:
    """The alarm is told here that its time is over; a caller that ignores it changes nothing."""
    program = """import os, signal
from memory_ci.memory import prewarm
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
signal.alarm = lambda seconds: print(seconds, flush=True)
prewarm.detach()
os.kill(os.getpid(), signal.SIGALRM)
print("goes on")"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (-signal.SIGALRM, f"{SECONDS}\n")


def test_an_index_that_was_not_kept_is_not_said_to_be(
    project: Project, background: Background
) -> None:
    project.git("commit", "-qam", "x")
    background.wait()  # a run behind the commit would write where we remove
    shutil.rmtree(project.path / ".git/memory-ci")
    project.write(".git/memory-ci", "in the way")
    assert (
        subprocess.run(
            [sys.executable, "-m", "memory_ci", "hook", "sync"], cwd=project.path
        ).returncode
        == 0
    )
    assert (project.path / ".git/memory-ci").read_text() == "in the way"


def test_a_package_that_is_gone_is_not_missed(project: Project, mark: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named memory_ci >&2\nexit 1\n")
    python.chmod(0o755)
    install(project.workspace, str(python))
    record_served(project.workspace, [make_id(1)], NOW)
    assert run_git(project.path, "commit -q -a -m x") == Done(0, "")
    project.git("remote", "add", "origin", str(project.bare(tmp_path / "origin.git").path))
    assert run_git(project.path, "push -q origin main") == Done(0, "")


def test_an_interpreter_that_is_gone_is_not_missed(
    project: Project, background: Background
) -> None:
    install(project.workspace, "/nowhere/bin/python")
    record_served(project.workspace, [make_id(1)], NOW)
    assert run_git(project.path, "commit -q -a -m x") == Done(0, "")
    assert run_git(project.path, "checkout -q ahead") == Done(0, "")
    background.wait()
