"""Tests of doctor's check for merged changes that are not recorded."""

from __future__ import annotations

from pathlib import Path

from tests.commands.doctor.diagnosed_projects import commit_from_the_future, one
from tests.project import Project
from tests.repos import RepoBuilder


def test_merged_changes_unrecorded_for_long_are_reported(healthy: Project) -> None:
    for number in range(20):
        healthy.commit(f"Work {number}", {"a.txt": f"{number}\n"})
    assert one(healthy, "recorded").message == "20 merged changes wait to be recorded"
    healthy.commit("One more", {"a.txt": "more\n"})
    probe = one(healthy, "recorded")
    assert (probe.state, probe.message) == ("warn", "21 merged changes wait since the last record")


def test_commits_without_work_are_not_reported_as_unrecorded(healthy: Project) -> None:
    healthy.commit(
        "Bump",
        {"a.txt": "1\n"},
        author="dependabot[bot] <1+dependabot[bot]@users.noreply.github.com>",
    )
    healthy.commit("Word it better", {"MEMORY.md": "# Memory\n\nBy hand.\n"})
    assert one(healthy, "recorded").message == "everything that was merged is recorded"


def test_a_tip_from_the_future_waits_like_any_other(healthy: Project) -> None:
    now = healthy.clock.now
    commit_from_the_future(healthy)
    healthy.at(now)
    healthy.commit("Work", {"a.txt": "a\n"})
    assert one(healthy, "recorded").message == "2 merged changes wait to be recorded"
    healthy.record()
    assert one(healthy, "recorded").message == "everything that was merged is recorded"
    healthy.commit("More work", {"a.txt": "b\n"})
    assert one(healthy, "recorded").message == "1 merged change waits to be recorded"


def test_memory_without_any_record_run_is_reported(project: Project) -> None:
    probe = one(project, "recorded")
    assert (probe.state, probe.remedy) == ("warn", "memory-ci record")


def test_checks_that_need_history_are_skipped_in_a_shallow_clone(
    healthy: Project, tmp_path: Path
) -> None:
    healthy.git("clone", "-q", "--depth=1", healthy.path.as_uri(), str(tmp_path / "clone"))
    clone = RepoBuilder(tmp_path / "clone")
    states = {name: one(clone, name).state for name in ("history", "sessions", "recorded")}
    assert states == {"history": "warn", "sessions": "skip", "recorded": "skip"}
