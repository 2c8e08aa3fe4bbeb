"""Tests of `memory-ci review --stale` as a user calls it."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner, Result

from memory_ci.commands.root import main
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project

pytestmark = pytest.mark.in_project


def test_stale_entries_are_listed_and_answered_without_a_terminal(
    project: Project, run: Run
) -> None:
    assert run("review", "--stale").stdout == "No entry is stale.\n"
    sha = project.commit("Write", {"src/pay.py": "one()\ntwo()\n"})[:12]
    entry = make_entry(1, title="Pay \x1b[2Jonce", cites=(f"src/pay.py:1@{sha}",))
    project.commit("Remember", {"MEMORY.md": format_entry(entry)})
    edit = project.commit("Edit", {"src/pay.py": "other()\ntwo()\n"})
    listed = run("review", "--stale")
    assert listed.stdout.splitlines()[:2] == [
        " 1. 00000001 Pay \\x1b[2Jonce (MEMORY.md:1)", f"    changed: src/pay.py, edited in {edit[:7]}"
    ]  # fmt: skip
    assert json.loads(run("review", "--stale", "--json").stdout)["stale"][0]["located"]["entry"][
        "id"
    ] == make_id(1)
    dry = run("review", "--stale", "--retire", make_id(1), "--dry-run")
    assert (dry.stdout.startswith("Would commit on main: "), project.sha()) == (True, edit)
    done = run("review", "--stale", "--keep", make_id(1))
    assert done.stdout.startswith("Committed on main: "), done.stderr
    assert run("review", "--stale").stdout == "No entry is stale.\n"
    assert run("review").stdout == "Nothing waits for you this week.\n"


def test_a_full_week_reports_the_number_of_remaining_questions(project: Project, run: Run) -> None:
    sha = project.commit("Write", {"src/pay.py": "one()\ntwo()\n"})[:12]
    entries = [make_entry(n, title=f"Pay {n}", cites=(f"src/pay.py:{n}@{sha}",)) for n in (1, 2)]
    project.commit("Remember", {"MEMORY.md": "".join(map(format_entry, entries))})
    project.commit("Edit", {"src/pay.py": "1()\n2()\n"})
    project.commit("Ask less", {".memory-ci.yaml": "review:\n  per_week: 1\n"})
    assert run("review", "--keep", "1").exit_code == 0
    output = run("review").stdout
    assert (
        output == "Nothing more waits for you this week. 1 question for later: --all lists them.\n"
    )
    assert run("review", "--all").stdout.count("(MEMORY.md:") == 1


def test_a_person_is_asked_of_each_and_an_edit_goes_into_the_inbox(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = project.commit("Write", {"src/pay.py": "one()\ntwo()\nthree()\nfour()\n"})[:12]
    entries = [
        make_entry(n, title=f"Pay {n}", cites=(f"src/pay.py:{n}@{sha}",)) for n in range(1, 5)
    ]
    project.commit("Remember", {"MEMORY.md": "".join(map(format_entry, entries))})
    project.commit("Edit", {"src/pay.py": "1()\n2()\n3()\n4()\n"})
    answers = iter("yens")
    monkeypatch.setattr("memory_ci.commands.review.command.has_input", lambda: False)
    monkeypatch.setattr(click, "prompt", lambda *_, **__: next(answers))
    monkeypatch.setattr(click, "edit", lambda text, **_: text.replace("Pay 2", "Pay twice"))
    before = project.sha()
    result = run("review", "--stale")
    assert result.exit_code == 0, result.stderr
    for number in (1, 2, 3, 4):
        assert f"{number} of 4\n\n  Pay {number}\n\n  changed: src/pay.py" in result.stdout
        assert f"\n\n  {make_id(number)[:8]} in MEMORY.md:" in result.stdout
    assert len(project.subjects(before)) == 2
    assert [entry.status for entry in project.entries()] == [
        "active",
        "active",
        "retired",
        "active",
    ]
    (note,) = (project.path / ".memory/inbox").glob("*.md")
    assert ("Pay twice" in note.read_text(), make_id(2) in note.read_text()) == (True, True)


@pytest.fixture
def stale(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project at a terminal with three entries whose code has changed."""
    sha = project.commit("Write", {"src/pay.py": "one()\ntwo()\nthree()\n"})[:12]
    entries = [make_entry(n, title=f"Pay {n}", cites=(f"src/pay.py:{n}@{sha}",)) for n in (1, 2, 3)]
    project.commit("Remember", {"MEMORY.md": "".join(map(format_entry, entries))})
    project.commit("Edit", {"src/pay.py": "1()\n2()\n3()\n"})
    monkeypatch.setattr("memory_ci.commands.review.command.has_input", lambda: False)
    return project


def review_with(*keys: str) -> Result:
    """Review stale entries with a key for each question."""
    typed = "".join(f"{key}\n" for key in keys)
    return CliRunner().invoke(main, ["review", "--stale"], input=typed)


def test_a_question_mark_explains_the_keys_and_asks_again(stale: Project) -> None:
    output = review_with("?", "q").output
    assert "n - no, retire it: agents are no longer given it\n" in output
    assert output.count("Does it still hold? [y,n,x,e,s,a,d,q,?]") == 2


def test_quitting_at_once_writes_nothing_and_says_so(stale: Project) -> None:
    before = stale.sha()
    assert review_with("q").output.endswith("Nothing was answered.\n")
    assert stale.sha() == before


def test_one_key_keeps_all_that_follow(stale: Project) -> None:
    output = review_with("n", "a").output
    assert "3 of 3" not in output
    assert sorted(entry.status for entry in stale.entries()) == ["active", "active", "retired"]


def test_one_key_leaves_all_that_follow_for_later(stale: Project) -> None:
    output = review_with("n", "d").output
    assert "3 of 3" not in output
    assert sorted(entry.status for entry in stale.entries()) == ["active", "active", "retired"]


def test_the_end_of_the_input_quits_and_keeps_the_answers(stale: Project) -> None:
    review_with("n")
    assert sorted(entry.status for entry in stale.entries()) == ["active", "active", "retired"]


@pytest.mark.parametrize("saved", [None, "\n"])
def test_an_edit_that_saves_nothing_asks_again_and_loses_no_answer(
    stale: Project, monkeypatch: pytest.MonkeyPatch, saved: str | None
) -> None:
    monkeypatch.setattr("click.edit", lambda *_, **__: saved)
    assert "the editor saved no text" in review_with("n", "e", "q").output
    assert sorted(entry.status for entry in stale.entries()) == ["active", "active", "retired"]


def test_an_editor_that_fails_loses_no_answer(
    stale: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor")
    assert "the editor saved no text" in review_with("n", "e", "q").output
    assert sorted(entry.status for entry in stale.entries()) == ["active", "active", "retired"]


def test_words_that_memory_refuses_are_asked_again(
    stale: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.edit", lambda *_, **__: f"Pay\n\nghp_{'a1B2' * 9}\n")
    output = review_with("n", "e", "q").output
    assert output.count("Does it still hold?") == 3
    assert sorted(entry.status for entry in stale.entries()) == ["active", "active", "retired"]
