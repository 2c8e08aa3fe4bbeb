"""Tests of episodes of work that was reverted later, or restored."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.commands.record.episodes_at_work import GIVEN, episodes, said, utility
from tests.make import make_id
from tests.project import Project


def test_a_revert_undoes_confirmations_by_an_appended_amendment(recorded_project: Project) -> None:
    merged = recorded_project.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    recorded_project.record(today=recorded_project.clock.now.date())
    path = recorded_project.git("ls-files", "*/pr-150.md")
    before = recorded_project.show("HEAD", path)
    recorded_project.git("revert", "--no-edit", "-m", "1", merged)
    recorded_project.clock.tick()
    recorded_project.record(today=recorded_project.clock.now.date())
    assert [kind for kind, _ in said(recorded_project)] == ["confirmed", "undone"]
    assert utility(recorded_project) == pytest.approx(0.3)
    assert episodes(recorded_project)["pr-150"].outcome == "failure"
    assert recorded_project.show("HEAD", path) == before, "what was told is not rewritten"


def test_work_that_is_reverted_after_thirty_days_stays_a_success_and_its_memory_is_undone(
    charged: Project,
) -> None:
    merged = charged.sha("HEAD~1")
    charged.at(charged.clock.now + timedelta(days=31))
    charged.git("revert", "--no-edit", "-m", "1", merged)
    charged.record()
    assert episodes(charged)["pr-150"].outcome == "success"
    assert [kind for kind, _ in said(charged)] == ["confirmed", "undone"]


def test_restored_work_is_a_success_again(charged: Project) -> None:
    merged = charged.sha("HEAD~1")
    charged.git("revert", "--no-edit", "-m", "1", merged)
    charged.git("revert", "--no-edit", "HEAD")  # in the same second
    charged.record()
    assert episodes(charged)["pr-150"].outcome == "success"


def test_work_restored_in_a_later_run_is_a_success_and_its_revert_a_failure(
    charged: Project,
) -> None:
    merged = charged.sha("HEAD~1")
    charged.git("revert", "--no-edit", "-m", "1", merged)
    charged.clock.tick()
    taken_back = charged.sha()
    charged.record()
    charged.git("revert", "--no-edit", taken_back)
    charged.clock.tick()
    charged.record()
    by_name = episodes(charged)
    assert (by_name["pr-150"].outcome, by_name[f"commit-{taken_back[:12]}"].outcome) == (
        "success",
        "failure",
    )


def test_a_trailer_added_by_a_hook_is_not_taken_for_the_title_of_a_merge(
    recorded_project: Project,
) -> None:
    recorded_project.branch("once")
    recorded_project.commit("Charge once", {"src/client.py": "once\n"})
    recorded_project.checkout("main")
    recorded_project.merge(
        "once", message=f"Merge pull request #150 from ada/once\n\nMemory-Retrieved: {make_id(1)}"
    )
    recorded_project.record()
    assert episodes(recorded_project)["pr-150"].situation.summary == "Charge once"


def test_a_revert_of_the_only_commit_of_a_merge_undoes_the_merge(charged: Project) -> None:
    merged = charged.sha("HEAD~1")
    charged.git("revert", "--no-edit", f"{merged}^2")
    charged.clock.tick()
    charged.record()
    assert episodes(charged)["pr-150"].outcome == "failure"
    assert [kind for kind, _ in said(charged)] == ["confirmed", "undone"]


def test_a_change_that_reverts_and_restores_work_itself_undoes_nothing(
    charged: Project,
) -> None:
    merged = charged.sha("HEAD~1")
    charged.branch("back")
    charged.git("revert", "--no-edit", "-m", "1", merged)
    charged.clock.tick()
    charged.git("revert", "--no-edit", "HEAD")
    charged.clock.tick()
    charged.checkout("main")
    charged.merge("back", message="Merge pull request #151 from ada/back\n\nBack and forth")
    charged.record()
    assert episodes(charged)["pr-150"].outcome == "success"
    assert [kind for kind, _ in said(charged)] == ["confirmed"]


def test_one_commit_that_reverts_two_works_undoes_both(recorded_project: Project) -> None:
    merged = [
        recorded_project.merge_work(f"Charge {name}\n\n{GIVEN}", name, 150 + at)
        for at, name in enumerate("ab")
    ]
    recorded_project.record()
    words = "".join(f"This reverts commit {sha}.\n" for sha in merged)
    recorded_project.commit(f"Take both back\n\n{words}", {"src/client.py": "old\n"})
    recorded_project.record()
    assert sorted(said(recorded_project)) == [
        (kind, f"pr:{n}") for kind in ("confirmed", "undone") for n in (150, 151)
    ]


def test_a_cherry_picked_commit_gives_no_feedback_again(charged: Project) -> None:
    merged = charged.sha("HEAD~1")
    charged.branch("release", f"{merged}^1")
    charged.commit("Other", {"other.txt": "x"})
    charged.git("cherry-pick", f"{merged}^2")
    charged.checkout("main")
    charged.merge(
        "release", "-s", "ours", message="Merge pull request #151 from ada/release\n\nRelease"
    )
    charged.record()
    assert said(charged) == [("confirmed", "pr:150")]


def revert_works(project: Project, count: int) -> None:
    """Merge works, and revert each of them."""
    works = [project.commit(f"Add part {at}", {f"src/part{at}.py": "x\n"}) for at in range(count)]
    for work in works:
        project.git("revert", "--no-edit", work)
        project.clock.tick()


def list_episode_files(project: Project) -> list[str]:
    return project.git("ls-files", ".memory/episodes/").split()


def test_a_first_record_of_eight_reverts_writes_at_most_five_files(
    recorded_project: Project,
) -> None:
    revert_works(recorded_project, 8)
    recorded_project.record()
    assert len(list_episode_files(recorded_project)) <= 5
    failed = [
        episode for episode in episodes(recorded_project).values() if episode.outcome == "failure"
    ]
    assert len(failed) == 8


def test_a_later_run_leaves_the_amendments_of_a_former_one(recorded_project: Project) -> None:
    revert_works(recorded_project, 2)
    recorded_project.record()
    before = {
        path: recorded_project.show("HEAD", path) for path in list_episode_files(recorded_project)
    }
    revert_works(recorded_project, 3)
    recorded_project.record()
    after = {
        path: recorded_project.show("HEAD", path) for path in list_episode_files(recorded_project)
    }
    ranges = ".memory/episodes/recorded/ranges.md"
    assert {**before, ranges: after[ranges]}.items() <= after.items()
    assert len(after) == len(before) + 1


def test_one_amendment_is_a_file_of_its_own(recorded_project: Project) -> None:
    revert_works(recorded_project, 1)
    recorded_project.record()
    (path,) = [path for path in list_episode_files(recorded_project) if "/20" in path]
    assert "+" in path


def test_amendments_whose_file_was_deleted_are_not_written_again(recorded_project: Project) -> None:
    start = recorded_project.sha()
    revert_works(recorded_project, 3)
    recorded_project.record()
    (path,) = [path for path in list_episode_files(recorded_project) if "run-" in path]
    recorded_project.git("rm", "-q", path)
    recorded_project.git("commit", "-qm", "They were right")
    recorded_project.record(since=start)
    assert not [path for path in list_episode_files(recorded_project) if "/20" in path]


def test_the_amendments_of_runs_are_folded_with_their_month(recorded_project: Project) -> None:
    for _ in range(3):
        revert_works(recorded_project, 2)
        recorded_project.record()
    before = episodes(recorded_project)
    recorded_project.at(recorded_project.clock.now + timedelta(days=240))
    recorded_project.record(today=recorded_project.clock.now.date())
    folded = [path for path in list_episode_files(recorded_project) if "/20" in path]
    assert [path.rpartition("/")[2] for path in folded] == ["_all.md"]
    assert before.items() <= episodes(recorded_project).items()
