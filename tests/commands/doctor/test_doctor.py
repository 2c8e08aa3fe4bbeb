"""Tests of `doctor`: what is set up, what works, and what to do about faults; nothing is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_ci.commands.doctor.context import DoctorContext
from memory_ci.commands.doctor.doctor import CHECKS, diagnose
from memory_ci.commands.doctor.records import Probe
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.gitrepo.repo import JOURNAL
from memory_ci.memory.index import build_index
from memory_ci.memory.prewarm import prewarm
from memory_ci.memory.workspace import open_workspace
from tests.commands.doctor.diagnosed_projects import (
    NOBODY,
    amiss,
    commit_from_the_future,
    look,
    one,
)
from tests.project import IMPORTED_FROM, NOW, Project
from tests.repos import RepoBuilder, make_repo


def test_a_killed_run_is_named_and_left_to_the_next_command(healthy: Project) -> None:
    assert one(healthy, "interrupted").state == "ok"
    tip, journal = healthy.sha(), healthy.path / ".git" / JOURNAL
    journal.write_text(f"refs/heads/main\0{healthy.sha('HEAD~1')}\0{tip}")
    results = one(healthy, "interrupted")
    assert (results.state, results.message) == (
        "warn",
        "a run was killed while it committed to refs/heads/main: files may be written that no commit has",
    )
    assert journal.exists()
    assert open_workspace(healthy.path).findings == ()
    assert not journal.exists()


# -- a fresh, a healthy and a broken repository


def test_a_new_repository_gets_a_list_of_next_steps(tmp_path: Path) -> None:
    results = look(make_repo(tmp_path / "new"))
    assert {probe.state for probe in results.probes} == {"ok", "warn", "skip"}
    remedies = "\n".join(probe.remedy for probe in results.probes)
    assert "memory-ci init" in remedies
    assert "memory-ci init --clone" in remedies
    assert results.exit_status == 1


def test_where_everything_is_set_up_nothing_is_amiss(healthy: Project) -> None:
    results = look(healthy)
    assert amiss(results) == []
    assert results.exit_status == 0
    assert one(healthy, "sessions").message.startswith(
        "1 of the last 5 merged changes has a session; 1 session kept"
    )


def lose_the_interpreter(project: Project) -> None:
    hook = project.path / ".git/hooks/pre-push"
    hook.write_text(hook.read_text().replace(sys.executable, NOBODY))


def break_an_entry(project: Project) -> None:
    memory = project.path / "MEMORY.md"
    memory.write_text(memory.read_text().replace("importance: ", "importance: much ", 1))


def lose_the_attributes(project: Project) -> None:
    project.commit("Lose them", {".gitattributes": None})


def rewrite_the_branch(project: Project) -> None:
    """Put the last record commit onto another parent, and reset the branch to it."""
    source = project.git("log", "-1", "--format=%H", "--grep=Memory-CI-Source", "HEAD")
    tree, message = (
        project.git("rev-parse", f"{source}^{{tree}}"),
        project.git("log", "-1", "--format=%B", source),
    )
    base = project.git(
        "commit-tree", "-m", "Rewritten", project.git("rev-parse", f"{source}^^{{tree}}")
    )
    project.git(
        "reset", "-q", "--hard", project.git("commit-tree", tree, "-p", base, "-m", message)
    )


@pytest.mark.parametrize(
    ("breaking", "name", "state", "words", "remedy"),
    [
        (
            lose_the_interpreter,
            "hooks",
            "fail",
            f"pre-push calls {NOBODY}, which is not there",
            "memory-ci init --clone",
        ),
        (break_an_entry, "memory", "fail", "[bad-value]", "memory-ci check"),
        (
            lose_the_attributes,
            "merge-driver",
            "fail",
            "no attribute gives it",
            "memory-ci init --clone",
        ),
        (rewrite_the_branch, "recorded", "fail", "it was rewritten", "memory-ci record --since "),
        (commit_from_the_future, "clock", "warn", "1 commit of the newest", "date -u"),
    ],
)
def test_only_faults_are_reported_each_with_its_remedy(
    healthy: Project,
    breaking: Callable[[Project], None],
    name: str,
    state: str,
    words: str,
    remedy: str,
) -> None:
    breaking(healthy)
    results = look(healthy)
    assert (name, state) in amiss(results)
    (probe,) = [probe for probe in results.probes if (probe.name, probe.state) == (name, state)]
    assert words in probe.message
    assert remedy in probe.remedy
    allowed = (
        {"sessions"} if breaking is rewrite_the_branch else set()
    )  # the changes went with the history
    assert {other for other, _ in amiss(results)} - allowed == {name}


def test_the_remedy_for_a_lost_cursor_works(healthy: Project) -> None:
    rewrite_the_branch(healthy)
    healthy.commit("Go on\n\nDecision: prices are kept in cents, because floats lose them.")
    since = one(healthy, "recorded").remedy.rpartition(" ")[2]
    healthy.at(NOW)
    healthy.record(since)
    assert one(healthy, "recorded").state == "ok"


def test_each_fault_has_a_remedy(healthy: Project, tmp_path: Path) -> None:
    for breaking in (
        lose_the_interpreter,
        break_an_entry,
        lose_the_attributes,
        commit_from_the_future,
    ):
        breaking(healthy)
    for found in (look(healthy), look(make_repo(tmp_path / "new"))):
        assert [
            probe for probe in found.probes if probe.state in ("warn", "fail") and not probe.remedy
        ] == []


# -- what doctor itself does


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_nothing_is_written(healthy: Project, home: Path) -> None:
    build_index(healthy.workspace, None)
    before = everything(healthy.path)
    look(healthy)
    assert everything(healthy.path) == before
    assert list(home.iterdir()) == []


def test_nothing_is_written_into_a_repository_without_an_index(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "new")
    before = everything(repo.path)
    look(repo)
    assert everything(repo.path) == before


def partial(project: Project, tmp_path: Path) -> tuple[RepoBuilder, Path]:
    """Return a clone without the blobs of old commits, and a file that appears once a blob is fetched."""
    log, program = tmp_path / "asked", tmp_path / "upload-pack"
    program.write_text(f'#!/bin/sh\ntouch {log}\nexec git upload-pack "$@"\n')
    program.chmod(0o755)
    for name in ("allowFilter", "allowAnySHA1InWant"):
        project.git("config", f"uploadpack.{name}", "true")
    project.git(
        "clone",
        "-q",
        "--no-checkout",
        "--filter=blob:none",
        project.path.as_uri(),
        str(tmp_path / "clone"),
    )
    clone = RepoBuilder(tmp_path / "clone")
    clone.git("config", "remote.origin.uploadpack", str(program))
    return clone, log


def test_missing_objects_of_a_partial_clone_are_not_fetched(
    healthy: Project, tmp_path: Path
) -> None:
    clone, log = partial(healthy, tmp_path)
    clone.git(
        "read-tree", "HEAD"
    )  # as in a sparse checkout: everything is in the index, nothing on disk
    clone.git("update-index", "--skip-worktree", "MEMORY.md", "institutional.md")
    results = look(clone)
    assert not log.exists()
    assert "partial clone" in one(clone, "memory").message
    assert [probe.name for probe in results.probes if "git-failed" in probe.message] == []
    assert one(clone, "memory", is_online=True).state == "skip"
    assert not log.exists()


def test_prebuilding_the_index_fetches_no_objects_of_a_partial_clone(
    healthy: Project, tmp_path: Path
) -> None:
    clone, log = partial(healthy, tmp_path)
    clone.git("read-tree", "HEAD")
    clone.git("update-index", "--skip-worktree", "MEMORY.md", "institutional.md")
    with pytest.raises(RepositoryError, match="promisor"):
        prewarm(clone.path)
    assert not log.exists()
    with pytest.raises(RepositoryError, match="promisor") as caught:
        build_index(open_workspace(clone.path), None)
    assert "git fetch --refetch --no-filter" in caught.value.hint
    assert not log.exists()


def test_no_scratch_repository_is_left_behind(
    healthy: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    look(healthy)
    assert list(place.iterdir()) == []


def test_a_check_that_crashes_is_a_failure_of_its_own(healthy: Project) -> None:
    def crash(case: DoctorContext) -> Iterator[Probe]:
        raise ZeroDivisionError("by nothing, says ghp_" + "q0W1z2R3t4Y5p6L7k8J9h0G1f2D3s4X5c6V7")

    def refuse(case: DoctorContext) -> Iterator[Probe]:
        raise UsageError("no such thing", slug="bad-scope", hint="Name another.")

    last = CHECKS[0]
    results = diagnose(
        healthy.path, {}, NOW, sys.executable, checks=[("one", crash), ("two", refuse), last]
    )
    _, crashed, refused, fine = results.probes
    assert (crashed.name, crashed.state) == ("one", "fail")
    assert "ZeroDivisionError: by nothing" in crashed.message
    assert "ghp_" not in crashed.message
    assert refused == Probe("two", "fail", "no such thing [bad-scope]", "Name another.")
    assert fine.state == "ok"
    assert results.exit_status == 2


def test_a_configuration_that_cannot_be_read_is_one_fault_among_others(healthy: Project) -> None:
    healthy.write(".memory-ci.yaml", "retrieve:\n  max_chars: many\n")
    results = look(healthy)
    assert "retrieve.max_chars must be a whole number" in one(healthy, "configuration").message
    assert [name for name, _ in amiss(results)] == ["configuration"]


def test_a_key_that_is_not_known_is_a_warning(healthy: Project) -> None:
    healthy.write(".memory-ci.yaml", "retrieve:\n  max_char: 1\n")
    probe = one(healthy, "configuration")
    assert (probe.state, probe.message) == ("warn", "unknown key 'retrieve.max_char'")
    assert probe.remedy == "Did you mean 'max_chars'?"


def test_who_commits_is_asked_of_git_and_of_the_environment(healthy: Project) -> None:
    healthy.git("config", "--unset", "user.email")
    assert one(healthy, "identity").message == "git does not know user.email"
    assert one(healthy, "identity", {"GIT_AUTHOR_EMAIL": "ada@example.com"}).state == "ok"


def test_the_configuration_of_the_user_has_no_say_in_the_scratch_repository(
    healthy: Project, tmp_path: Path
) -> None:
    (tmp_path / "ignored").write_text("*\n")
    (tmp_path / "gitconfig").write_text(f"[core]\n\texcludesFile = {tmp_path / 'ignored'}\n")
    code = (
        "import sys; from datetime import datetime, UTC; from pathlib import Path;"
        "from memory_ci.commands.doctor.doctor import diagnose;"
        "print([p.state for p in diagnose(Path.cwd(), {}, datetime(2026, 11, 21, tzinfo=UTC), '').probes][-1])"
    )
    environ = os.environ | {
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
        "PYTHONPATH": IMPORTED_FROM,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=healthy.path, env=environ, capture_output=True, text=True
    )
    assert done.stdout == "ok\n", done.stderr


def test_a_bare_repository_is_looked_at_too(
    healthy: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = healthy.bare(tmp_path / "shop.git")
    monkeypatch.setenv("GIT_DIR", str(bare.path))
    results = look(bare)
    assert [probe for probe in results.probes if "the check itself failed" in probe.message] == []
    assert [
        probe.name
        for probe in results.probes
        if probe.remedy in ("memory-ci init --clone", "memory-ci init")
    ] == []
    shutil.rmtree(tmp_path / "shop.git")


def test_each_check_is_documented_on_its_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "commands.md").read_text(
        encoding="utf-8"
    )
    missing = [name for name, _ in CHECKS if f"| {name} |" not in page]
    assert missing == []
