"""Tests of episodes that are derived from git's history, so that `record` writes no file for them."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from memory_ci.commands.episodes.recall import RecallQuery, recall_episodes
from memory_ci.commands.retrieve.similar import list_similar_tasks
from memory_ci.errors import FindingsError
from memory_ci.memory import git_episodes
from memory_ci.memory.apply import preview_plan
from memory_ci.memory.episodes import load_episodes, load_written
from memory_ci.memory.git_episodes import cache_path
from memory_ci.records.episode import Amendment, Episode
from memory_ci.records.plan import Unwritten
from memory_ci.store.episodes import episode_record_path, format_episode_record
from memory_ci.store.layout import RECORDED_FILE
from memory_ci.store.ranges import parse_recorded
from tests.commands.record.episodes_at_work import GIVEN, episodes
from tests.project import NOW, Project, copy_project

WORK = (
    "fix(payments): charge once\n\nA retry booked twice, because the gateway answered late.",
    "Round cents of the ledger down\n\nThe tax office rounds down as well.",
    "Look up a card by its token",
)


def do_work(project: Project) -> None:
    for number, message in enumerate(WORK, start=150):
        project.merge_work(message, f"work-{number}", number, f"src/part{number}.py")


@pytest.fixture(scope="module")
def worked_template(
    recorded_template: Project, tmp_path_factory: pytest.TempPathFactory
) -> Project:
    project = copy_project(recorded_template, tmp_path_factory.mktemp("worked") / "shop")
    do_work(project)
    project.record()
    return project


@pytest.fixture
def worked(worked_template: Project, tmp_path: Path) -> Project:
    """Return `recorded_project` after a run that recorded three merged changes."""
    return copy_project(worked_template, tmp_path / "worked")


def list_files(project: Project) -> list[str]:
    """Return the paths of the files below the directory of episodes."""
    return project.git("ls-files", ".memory/episodes").splitlines()


def list_ranges(project: Project) -> list[str]:
    recorded = parse_recorded(project.show("HEAD", RECORDED_FILE).encode())
    return [f"{each.since}..{each.until} {each.stage}".strip() for each in recorded.ranges]


def recall(project: Project, question: str) -> list[tuple[str, float, float, int | None]]:
    """Return the recalled episodes: id, score, valence and remaining files of each."""
    recalled = recall_episodes(project.workspace, RecallQuery(question, NOW))
    return [
        (hit.episode.id, hit.score, hit.episode.valence, hit.remaining_count)
        for hit in (*recalled.hits, *recalled.changes)
    ]


# -- what is written


def test_a_first_run_over_much_work_writes_one_file_beside_memory(project: Project) -> None:
    do_work(project)
    start = project.sha("HEAD~4^{commit}")
    project.record()
    assert list_files(project) == [RECORDED_FILE]
    assert len(project.show("HEAD", RECORDED_FILE).splitlines()) == 2
    assert {"pr-128", "pr-150", "pr-151", "pr-152"} <= episodes(project).keys()
    assert start != project.sha()


def test_only_work_with_data_of_agents_has_a_file(recorded_project: Project) -> None:
    do_work(recorded_project)
    recorded_project.merge_work(f"Send it twice\n\n{GIVEN}", "twice", 160)
    recorded_project.merge_work("Try alone\n\nMemory-Holdout: ab12", "alone", 161)
    assert recorded_project.record().subjects[0].endswith("note 2 episodes")
    names = [path.rpartition("/")[2] for path in list_files(recorded_project)]
    assert names == ["pr-160.md", "pr-161.md", "ranges.md"]
    assert {"pr-150", "pr-160", "pr-161"} <= episodes(recorded_project).keys()


def test_a_revert_is_an_amendment_of_an_episode_without_a_file(recorded_project: Project) -> None:
    merged = recorded_project.merge_work("Charge once", "once", 150)
    recorded_project.record()
    recorded_project.git("revert", "--no-edit", "-m", "1", merged)
    recorded_project.clock.tick()
    recorded_project.record()
    (amendment,) = load_written(recorded_project.workspace, "HEAD").records
    assert isinstance(amendment, Amendment)
    assert (amendment.amends, amendment.outcome) == ("pr-150", "failure")
    assert episodes(recorded_project)["pr-150"].outcome == "failure"
    recorded_project.git("revert", "--no-edit", "HEAD~1")
    recorded_project.clock.tick()
    recorded_project.record()
    assert episodes(recorded_project)["pr-150"].outcome == "success", "it was brought back"


def test_reading_the_same_history_again_changes_nothing(recorded_project: Project) -> None:
    do_work(recorded_project)
    root = recorded_project.git("rev-list", "--max-parents=0", "HEAD")
    recorded_project.record()
    recorded_project.record(since=root)
    after = recorded_project.sha()
    for since in (None, root):
        assert recorded_project.record(since=since).subjects == ()
    assert recorded_project.sha() == after
    assert len(list_ranges(recorded_project)) == 1


def test_runs_one_after_another_are_one_range(recorded_project: Project) -> None:
    for number in (150, 151, 152):
        recorded_project.merge_work(f"Charge {number}", f"b{number}", number)
        recorded_project.record()
    assert len(list_ranges(recorded_project)) == 1


def test_each_stage_of_the_project_has_a_range(project: Project) -> None:
    for number, stage in ((150, "design"), (151, "implementation")):
        project.commit(f"Plan {stage}", {"INTENT.md": f"# Shop\n\nStage: {stage}\n"})
        project.merge_work(f"Charge {number}", f"b{number}", number)
        project.record()
    stages = [line.partition(" ")[2] for line in list_ranges(project)]
    assert stages == ["design", "implementation"]
    assert episodes(project)["pr-150"].context["stage"] == "design"
    assert episodes(project)["pr-151"].context["stage"] == "implementation"


def test_where_no_episodes_are_wanted_no_range_is_noted(project: Project) -> None:
    project.commit("No episodes", {".memory-ci.yaml": "episodes: {write: false}\n"})
    project.record()
    assert list_files(project) == []
    assert episodes(project) == {}


def test_an_episode_that_a_person_deleted_is_not_derived(recorded_project: Project) -> None:
    recorded_project.merge_work("Charge once", "once", 150)
    recorded_project.merge_work("Charge twice", "twice", 151)
    keep_as_files(recorded_project)
    path = ".memory/episodes/2026-01/pr-150.md"
    recorded_project.commit("Not this one", {path: None})
    recorded_project.record(since=recorded_project.git("rev-list", "--max-parents=0", "HEAD"))
    assert "pr-150" not in episodes(recorded_project)
    assert "pr-151" in episodes(recorded_project)


def test_a_person_can_take_a_derived_episode_out(worked: Project) -> None:
    text = worked.show("HEAD", RECORDED_FILE)
    worked.commit("Without it", {RECORDED_FILE: f"{text}\n- without pr-151\n"})
    assert "pr-151" not in episodes(worked)
    worked.merge_work("More", "more", 160)
    worked.record()
    assert "pr-151" not in episodes(worked), "a later run keeps the line"


@pytest.mark.parametrize(
    "unwritten",
    [Unwritten(1, "design\n- without pr-1"), Unwritten(1, "", ("pr-1\n- root..x",))],
    ids=["a stage", "an id"],
)
def test_a_plan_may_not_write_anything_else_into_the_file_of_ranges(
    recorded_project: Project, unwritten: Unwritten
) -> None:
    do_work(recorded_project)
    bad = msgspec.structs.replace(recorded_project.plan(), unwritten=unwritten)
    with pytest.raises(FindingsError, match="plan is refused"):
        preview_plan(recorded_project.workspace, bad, NOW)


# -- what is read


def keep_as_files(project: Project) -> None:
    """Commit a file for each episode, as an older version did."""
    project.record()
    files: dict[str, str | bytes | None] = {RECORDED_FILE: None}
    for telling_episode in load_episodes(project.workspace, "HEAD").records:
        files[episode_record_path(telling_episode)] = format_episode_record(telling_episode)
    project.commit("memory: note episodes\n\nMemory-CI-Step: episode", files)


def test_files_of_an_older_version_give_the_same(project: Project, tmp_path: Path) -> None:
    do_work(project)
    older = copy_project(project, tmp_path / "older")
    project.record()
    keep_as_files(older)
    assert len(list_files(older)) > len(WORK)
    assert episodes(older) == episodes(project)
    for question in ("a retry booked a charge twice", "round cents of the ledger", "card token"):
        answers = recall(project, question)
        assert answers
        assert recall(older, question) == answers


def test_an_older_version_s_files_are_not_derived_again(recorded_project: Project) -> None:
    do_work(recorded_project)
    keep_as_files(recorded_project)
    before = episodes(recorded_project)
    recorded_project.record(since=recorded_project.git("rev-list", "--max-parents=0", "HEAD"))
    episodes_found = load_episodes(recorded_project.workspace, "HEAD").records
    ids = [telling.id for telling in episodes_found]
    assert len(ids) == len(set(ids))
    assert before.items() <= episodes(recorded_project).items()


def test_the_second_of_one_number_has_an_id_of_its_own_written_or_not(
    recorded_project: Project,
) -> None:
    recorded_project.merge_work("One", "one", 150)
    second = recorded_project.merge_work("Two", "two", 150)
    third = recorded_project.merge_work(f"Three\n\n{GIVEN}", "three", 150)
    recorded_project.record()
    expected = {"pr-150", f"pr-150-{second[:12]}", f"pr-150-{third[:12]}"}
    assert expected <= episodes(recorded_project).keys()
    assert [
        path for path in list_files(recorded_project) if path.endswith(f"pr-150-{third[:12]}.md")
    ]


@pytest.mark.first_run
def test_the_learnings_of_a_change_decide_the_valence_of_its_episode(
    project: Project,
) -> None:
    importances = [entry.importance for entry in project.entries()]
    (answer,) = [each for each in recall(project, "charge a card once") if each[0] == "pr-128"]
    assert math.isclose(answer[2], max(importances))


def test_an_earlier_commit_has_the_episodes_of_then(recorded_project: Project) -> None:
    recorded_project.merge_work("Charge once", "once", 150)
    recorded_project.record()
    then = recorded_project.sha()
    recorded_project.merge_work("Charge twice", "twice", 151)
    recorded_project.record()
    assert {"pr-150", "pr-151"} <= episodes(recorded_project).keys()
    ids = {
        telling_episode.id
        for telling_episode in load_episodes(recorded_project.workspace, then).records
    }
    assert "pr-150" in ids
    assert "pr-151" not in ids
    assert "pr-151" in episodes(recorded_project), "and the cache still has the newer one"


def test_tasks_have_the_outcome_that_an_amendment_states(worked: Project) -> None:
    amendment = Amendment(id="pr-151+0123456789ab", at=NOW, amends="pr-151", outcome="failure")
    worked.commit("Say more", {episode_record_path(amendment): format_episode_record(amendment)})
    similar = list_similar_tasks(worked.workspace, "round cents of the ledger down again")
    assert [(each.task.number, each.task.outcome) for each in similar] == [(151, "failure")]


def test_a_shallow_clone_names_the_missing_history(worked: Project, tmp_path: Path) -> None:
    worked.git("clone", "-q", "--depth", "1", f"file://{worked.path}", str(tmp_path / "cut"))
    cut = Project(tmp_path / "cut", worked.clock)
    recalled = recall_episodes(cut.workspace, RecallQuery("a retry booked twice", NOW))
    assert "Merged changes without a file cannot be read: this clone is shallow." in recalled.notes


def test_a_range_that_the_history_does_not_hold_hides_no_other(worked: Project) -> None:
    text = worked.show("HEAD", RECORDED_FILE)
    worked.commit("Foreign", {RECORDED_FILE: f"{text}- root..{'1' * 40}\n"})
    assert "pr-150" in episodes(worked)
    assert load_episodes(worked.workspace, "HEAD").problem


# -- the cache


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the commits of changes whose episodes are derived from now on."""
    shas: list[str] = []
    derive = git_episodes.derive_episode

    def count(*args: object) -> Episode:
        episode = derive(*args)  # type: ignore[arg-type] # passed on
        shas.append(episode.action.commit)
        return episode

    monkeypatch.setattr(git_episodes, "derive_episode", count)
    return shas


def test_commits_read_by_a_run_are_not_read_again(
    recorded_project: Project, derived: list[str]
) -> None:
    do_work(recorded_project)
    recorded_project.record()
    before = episodes(recorded_project)
    assert derived == []
    cache_path(recorded_project.workspace).unlink()
    assert episodes(recorded_project) == before
    assert len(derived) >= len(WORK)
    derived.clear()
    assert episodes(recorded_project) == before
    assert derived == []


def test_only_new_changes_are_derived(
    recorded_project: Project, tmp_path: Path, derived: list[str]
) -> None:
    do_work(recorded_project)
    recorded_project.record()
    other_project = copy_project(recorded_project, tmp_path / "other")
    recorded_project.merge_work("More", "more", 160)
    recorded_project.record()
    other_project.git("pull", "-q", str(recorded_project.path), "main")
    assert episodes(other_project) == episodes(recorded_project)
    assert derived == [recorded_project.sha("HEAD~1")]


@pytest.mark.parametrize("data", [b"", b"memory-ci episodes 1\n", b"x" * 100])
def test_a_damaged_cache_is_made_again(worked: Project, data: bytes) -> None:
    before = episodes(worked)
    cache_path(worked.workspace).write_bytes(data)
    assert episodes(worked) == before
    assert cache_path(worked.workspace).read_bytes() != data


def test_other_settings_have_other_episodes(worked: Project) -> None:
    assert "gateway answered late" in episodes(worked)["pr-150"].text
    worked.commit("Trust nobody", {".memory-ci.yaml": "extraction: {trusted_authors: []}\n"})
    assert episodes(worked)["pr-150"].text == "Merged."
