"""Tests of episodes of work that was reverted later, or restored."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.commands.record.episodes_at_work import GIVEN, episodes, said, utility
from tests.make import make_id
from tests.project import Project


def test_a_revert_undoes_confirmations_by_an_appended_amendment(known: Project) -> None:
    merged = known.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    known.record(today=known.clock.now.date())
    path = known.git("ls-files", "*/pr-150.md")
    before = known.show("HEAD", path)
    known.git("revert", "--no-edit", "-m", "1", merged)
    known.clock.tick()
    known.record(today=known.clock.now.date())
    assert [kind for kind, _ in said(known)] == ["confirmed", "undone"]
    assert utility(known) == pytest.approx(0.3)
    assert episodes(known)["pr-150"].outcome == "failure"
    assert known.show("HEAD", path) == before, "what was told is not rewritten"


def test_work_that_is_reverted_after_thirty_days_stays_a_success_and_its_memory_is_undone(
    known: Project,
) -> None:
    merged = known.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    known.record()
    known.at(known.clock.now + timedelta(days=31))
    known.git("revert", "--no-edit", "-m", "1", merged)
    known.record()
    assert episodes(known)["pr-150"].outcome == "success"
    assert [kind for kind, _ in said(known)] == ["confirmed", "undone"]


def test_restored_work_is_a_success_again(known: Project) -> None:
    merged = known.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    known.record()
    known.git("revert", "--no-edit", "-m", "1", merged)
    known.git("revert", "--no-edit", "HEAD")  # in the same second
    known.record()
    assert episodes(known)["pr-150"].outcome == "success"


def test_work_restored_in_a_later_run_is_a_success_and_its_revert_a_failure(
    known: Project,
) -> None:
    merged = known.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    known.record()
    known.git("revert", "--no-edit", "-m", "1", merged)
    known.clock.tick()
    taken_back = known.sha()
    known.record()
    known.git("revert", "--no-edit", taken_back)
    known.clock.tick()
    known.record()
    by_name = episodes(known)
    assert (by_name["pr-150"].outcome, by_name[f"commit-{taken_back[:12]}"].outcome) == (
        "success",
        "failure",
    )


def test_a_trailer_added_by_a_hook_is_not_taken_for_the_title_of_a_merge(known: Project) -> None:
    known.branch("once")
    known.commit("Charge once", {"src/client.py": "once\n"})
    known.checkout("main")
    known.merge(
        "once", message=f"Merge pull request #150 from ada/once\n\nMemory-Retrieved: {make_id(1)}"
    )
    known.record()
    assert episodes(known)["pr-150"].situation.summary == "Charge once"


def test_a_revert_of_the_only_commit_of_a_merge_undoes_the_merge(known: Project) -> None:
    merged = known.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    known.record()
    known.git("revert", "--no-edit", f"{merged}^2")
    known.clock.tick()
    known.record()
    assert episodes(known)["pr-150"].outcome == "failure"
    assert [kind for kind, _ in said(known)] == ["confirmed", "undone"]


def test_a_change_that_reverts_and_restores_work_itself_undoes_nothing(known: Project) -> None:
    merged = known.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    known.record()
    known.branch("back")
    known.git("revert", "--no-edit", "-m", "1", merged)
    known.clock.tick()
    known.git("revert", "--no-edit", "HEAD")
    known.clock.tick()
    known.checkout("main")
    known.merge("back", message="Merge pull request #151 from ada/back\n\nBack and forth")
    known.record()
    assert episodes(known)["pr-150"].outcome == "success"
    assert [kind for kind, _ in said(known)] == ["confirmed"]


def test_one_commit_that_reverts_two_works_undoes_both(known: Project) -> None:
    merged = [
        known.merge_work(f"Charge {name}\n\n{GIVEN}", name, 150 + at)
        for at, name in enumerate("ab")
    ]
    known.record()
    words = "".join(f"This reverts commit {sha}.\n" for sha in merged)
    known.commit(f"Take both back\n\n{words}", {"src/client.py": "old\n"})
    known.record()
    assert sorted(said(known)) == [
        (kind, f"pr:{n}") for kind in ("confirmed", "undone") for n in (150, 151)
    ]


def test_a_cherry_picked_commit_gives_no_feedback_again(known: Project) -> None:
    merged = known.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    known.record()
    known.branch("release", f"{merged}^1")
    known.commit("Other", {"other.txt": "x"})
    known.git("cherry-pick", f"{merged}^2")
    known.checkout("main")
    known.merge(
        "release", "-s", "ours", message="Merge pull request #151 from ada/release\n\nRelease"
    )
    known.record()
    assert said(known) == [("confirmed", "pr:150")]


def revert_works(project: Project, count: int) -> None:
    """Merge works, and revert each of them."""
    works = [project.commit(f"Add part {at}", {f"src/part{at}.py": "x\n"}) for at in range(count)]
    for work in works:
        project.git("revert", "--no-edit", work)
        project.clock.tick()


def list_episode_files(project: Project) -> list[str]:
    return project.git("ls-files", ".memory/episodes/").split()


def test_a_first_record_of_eight_reverts_writes_at_most_five_files(known: Project) -> None:
    revert_works(known, 8)
    known.record()
    assert len(list_episode_files(known)) <= 5
    failed = [episode for episode in episodes(known).values() if episode.outcome == "failure"]
    assert len(failed) == 8


def test_a_later_run_leaves_the_amendments_of_a_former_one(known: Project) -> None:
    revert_works(known, 2)
    known.record()
    before = {path: known.show("HEAD", path) for path in list_episode_files(known)}
    revert_works(known, 3)
    known.record()
    after = {path: known.show("HEAD", path) for path in list_episode_files(known)}
    ranges = ".memory/episodes/recorded/ranges.md"
    assert {**before, ranges: after[ranges]}.items() <= after.items()
    assert len(after) == len(before) + 1


def test_one_amendment_is_a_file_of_its_own(known: Project) -> None:
    revert_works(known, 1)
    known.record()
    (path,) = [path for path in list_episode_files(known) if "/20" in path]
    assert "+" in path


def test_amendments_whose_file_was_deleted_are_not_written_again(known: Project) -> None:
    start = known.sha()
    revert_works(known, 3)
    known.record()
    (path,) = [path for path in list_episode_files(known) if "run-" in path]
    known.git("rm", "-q", path)
    known.git("commit", "-qm", "They were right")
    known.record(since=start)
    assert not [path for path in list_episode_files(known) if "/20" in path]


def test_the_amendments_of_runs_are_folded_with_their_month(known: Project) -> None:
    for _ in range(3):
        revert_works(known, 2)
        known.record()
    before = episodes(known)
    known.at(known.clock.now + timedelta(days=240))
    known.record(today=known.clock.now.date())
    folded = [path for path in list_episode_files(known) if "/20" in path]
    assert [path.rpartition("/")[2] for path in folded] == ["_all.md"]
    assert before.items() <= episodes(known).items()
