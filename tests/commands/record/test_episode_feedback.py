"""Tests of episodes: the entries that their work was served, and those that it used."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path

import pytest

from memory_ci.commands.episodes.feedback import give_feedback
from memory_ci.commands.retrieve.text import render_context
from memory_ci.commands.show.why import explain_entry
from memory_ci.records.episode import Feedback
from tests.agents_at_work import keep_session, make_session
from tests.commands.record.episodes_at_work import GIVEN, episodes, said, utility
from tests.make import make_id
from tests.project import TODAY, Project
from tests.sources.transcripts.claude import make_agent


def counts(project: Project) -> list[int]:
    results_by_name = {entry.id: entry.reinforcement_count for entry in project.entries()}
    return [results_by_name[make_id(number)] for number in (1, 2)]


# -- an episode of each merged change


def test_a_used_entry_is_confirmed_and_an_entry_only_served_is_ignored(charged: Project) -> None:
    assert said(charged, 1) == [("confirmed", "pr:150")]
    assert said(charged, 2) == [("ignored", "pr:150")]
    assert counts(charged) == [1, 0]


@pytest.mark.parametrize(
    ("used", "reinforced", "ignored"),
    [("", 0, 0), (GIVEN, 1, 1)],
    ids=["silence says nothing", "use counts"],
)
def test_use_reinforces_an_entry_and_serving_does_not(
    recorded_project: Project, used: str, reinforced: int, ignored: int
) -> None:
    recorded_project.commit(
        f"Charge once (#150)\n\n{used or GIVEN.splitlines()[0]}", {"src/client.py": "once\n"}
    )
    recorded_project.record()
    assert sum(entry.reinforcement_count for entry in recorded_project.entries()) == reinforced
    assert [event.kind for event in episodes(recorded_project)["pr-150"].feedback].count(
        "ignored"
    ) == ignored


def test_work_on_the_same_topic_is_shown_and_does_not_reinforce(recorded_project: Project) -> None:
    recorded_project.merge_work(
        f"Send the key with the charge\n\n{GIVEN}", "once", 150, "src/client.py"
    )
    recorded_project.record()
    assert ("touched", "pr:150") in said(recorded_project)
    assert all(kind != "touched" for kind, _ in said(recorded_project, 2))
    why = explain_entry(recorded_project.workspace, make_id(1), TODAY)
    assert (why.served_count, why.used_count, why.related_count) == (1, 1, 1)
    assert utility(recorded_project) == pytest.approx(0.7)


def test_serving_or_ignoring_an_entry_never_raises_its_utility(recorded_project: Project) -> None:
    def work(times: int, *trailers: str) -> tuple[int, date, float]:
        for _ in range(times):
            recorded_project.commit(
                "\n".join(("Charge", "", *trailers)), {"src/client.py": recorded_project.sha()}
            )
        recorded_project.record()
        (entry,) = (entry for entry in recorded_project.entries() if entry.id == make_id(2))
        factors = explain_entry(recorded_project.workspace, make_id(2)[:8], TODAY).rank_factors
        return (
            entry.reinforcement_count,
            entry.last_reinforced,
            math.prod(value for _, value in factors),
        )

    trailer = f"Memory-Retrieved: {make_id(1)}, {make_id(2)}"
    first = work(1)
    assert work(5, trailer) == first
    used = work(1, trailer, f"Memory-Used: {make_id(2)[:8]}")
    assert used[0] == first[0] + 1
    assert used[2] > first[2]
    ignored = work(5, trailer, f"Memory-Used: {make_id(1)[:8]}")
    assert ignored[:2] == used[:2]
    assert ignored[2] < used[2]


def test_an_entry_confirmed_by_a_person_is_reinforced_once(recorded_project: Project) -> None:
    feedback_by_hand = Feedback(
        id=make_id(1), kind="confirmed", at=recorded_project.clock.now, by="Ada"
    )
    noted = give_feedback(recorded_project.workspace, feedback_by_hand)
    recorded_project.commit(
        "Confirm", {noted.path: (recorded_project.path / noted.path).read_text()}
    )
    recorded_project.record()
    recorded_project.record(since=recorded_project.git("rev-list", "--max-parents=0", "HEAD"))
    assert counts(recorded_project) == [1, 0]


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        (f"The note {make_id(1)[:8]} says that a key is needed, so I send one.", 1),
        (
            f"> {make_id(1)[:8]} was quoted here by somebody else\n- {make_id(1)[:8]} is one of a list of such notes",
            0,
        ),
        ("BLOCK", 0),
    ],
    ids=["in a sentence", "quoted and listed", "the whole block again"],
)
def test_an_entry_that_the_agent_names_in_its_own_sentence_counts_as_used(
    recorded_project: Project, tmp_path: Path, said: str, counted: int
) -> None:
    block = render_context(
        recorded_project.retrieve(
            "send a key with each charge, name branches after their issue", all_matches=True
        )
    )
    assert make_id(1)[:8] in block
    turn = make_agent({"type": "text", "text": said.replace("BLOCK", block)})
    key = keep_session(
        recorded_project, tmp_path, make_session("Charge once", turn, at=recorded_project.clock.now)
    )
    recorded_project.commit(
        f"Charge once (#150)\n\n{GIVEN.splitlines()[0]}\nMemory-Session: {key}",
        {"src/client.py": "once\n"},
    )
    recorded_project.record()
    assert counts(recorded_project) == [counted, 0]


# -- what later changes say


def test_utility_is_the_same_in_whatever_order_branches_bring_the_files(
    recorded_project: Project,
) -> None:
    """Two runs on two branches that are merged: without a conflict, and each event counts once."""
    recorded_project.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    recorded_project.branch("other")
    recorded_project.record()
    recorded_project.checkout("main")
    recorded_project.record()
    recorded_project.merge_work(f"Charge twice\n\n{GIVEN}", "twice", 151)
    recorded_project.record()
    recorded_project.git("merge", "-q", "--no-edit", "other")
    assert [kind for kind, _ in said(recorded_project)] == ["confirmed", "confirmed"]
    assert utility(recorded_project) == pytest.approx(0.9)
