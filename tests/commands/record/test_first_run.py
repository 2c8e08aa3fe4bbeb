"""Tests of the first record of a repository: a long history is not recorded unless asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.commands.record import run_checks
from tests.command_line import Run
from tests.project import Project
from tests.repos import RepoBuilder, make_repo

pytestmark = pytest.mark.in_project


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> RepoBuilder:
    """Return a repository with four changes, where `init` has run but its files are not committed."""
    repo = make_repo(tmp_path / "fresh")
    for number in range(4):
        repo.commit(f"Change {number}", {"a.py": f"{number}\n"})
    monkeypatch.chdir(repo.path)
    run("init")
    return repo


def test_record_before_init_is_committed_is_refused(fresh: RepoBuilder, run: Run) -> None:
    refused = run("record")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "[nothing-committed]" in refused.stderr
    assert "Commit .memory-ci.yaml first" in refused.stderr
    assert fresh.git("log", "-1", "--format=%s") == "Change 3"
    assert "3 merged changes" in run("record", "--dry-run", "--since", "HEAD~3").stdout
    assert "4 merged changes" in run("record", "--since", "99y").stdout
    assert "from the beginning" not in run("record").stdout, "a later run knows where it begins"


@pytest.fixture
def many(fresh: RepoBuilder, monkeypatch: pytest.MonkeyPatch) -> RepoBuilder:
    """Return the same repository, committed, with more changes than a first run writes unasked."""
    monkeypatch.setattr(run_checks, "FREE_EPISODES", 2)
    fresh.git("add", ".")
    fresh.commit("Add memory")
    for number in range(3):
        held_out = f"Later {number}\n\nMemory-Holdout: ab{number}"
        fresh.commit(held_out, {"a.py": f"later {number}\n"})
    return fresh


def test_many_episodes_of_a_first_run_need_a_word(many: RepoBuilder, run: Run) -> None:
    before = many.sha()
    refused = run("record")
    assert refused.exit_code == 2
    assert "would write 3 episodes [many-episodes]" in refused.stderr
    assert many.sha() == before
    assert run("record", "--dry-run").exit_code == 0
    assert "episodes: 3 new, " in run("record", "--yes").stdout
    for number in range(3):
        many.commit(f"Even later {number}", {"a.py": f"even later {number}\n"})
    assert run("record").exit_code == 0, "no later run asks"


@pytest.mark.parametrize("since", ["HEAD~3", "99y"])
def test_who_names_the_range_has_agreed(many: RepoBuilder, run: Run, since: str) -> None:
    assert run("record", "--since", since).exit_code == 0
    assert many.git("log", "-1", "--format=%s").startswith("memory: note ")


def test_on_a_terminal_one_is_asked(
    many: RepoBuilder, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_ci.commands.record.command.has_input", lambda: False)
    before = many.sha()
    assert run("record", stdin="n\n").exit_code == 1
    assert many.sha() == before
    result = run("record", stdin="y\n")
    assert (result.exit_code, many.sha() != before) == (0, True)
    assert "This first run writes 3 episodes. Go on?" in result.stderr


@pytest.mark.usefixtures("many")
def test_a_job_never_asks(run: Run) -> None:
    assert run("ci", "--provider", "none").exit_code == 0


def test_the_report_names_the_files_that_exist(
    many: RepoBuilder, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1893456000")  # 2030: the months of the work are over
    output = run("record", "--yes", "--verbose").stdout
    paths = [line.strip() for line in output.splitlines() if line.startswith("  .memory/episodes/")]
    assert "episodes: 3 new, 1 file\n" in output
    assert [path.rpartition("/")[2] for path in paths] == ["_all.md"]
    assert all((many.path / path).is_file() for path in paths)


def test_another_branch_than_the_default_one_must_be_named(project: Project, run: Run) -> None:
    project.branch("feature")
    before = project.sha()
    refused = run("record")
    assert refused.exit_code == 2
    assert "'feature' is checked out" in refused.stderr
    assert "[other-branch]" in refused.stderr
    assert project.sha() == before
    assert run("record", "--branch", "feature").exit_code == 0
    assert project.sha() != before


def test_without_a_known_default_branch_the_current_branch_is_used(
    project: Project, run: Run
) -> None:
    project.git("branch", "-m", "main", "trunk")
    assert run("record").exit_code == 0
    assert project.git("log", "-1", "--format=%s", "trunk").startswith("memory: ")
