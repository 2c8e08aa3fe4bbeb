"""Tests of the messages of memory commits: they move no cursor, trigger nothing on a forge, hold no secret."""

from __future__ import annotations

from typing import Any

import pytest

from memory_ci.memory.commit_message import render_commit_message
from memory_ci.records.plan import Change, Counts, EngineUse, Plan, PlannedStep, Step
from tests.make import make_entry

TITLE = "Learning number 1"
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2


def make_message(
    why: str = "from #128", path: str = "MEMORY.md", step: Step = "extract", title: str = TITLE
) -> str:
    """Return the message of a memory commit that adds one entry."""
    change = Change(step=step, kind="add", path=path, entry=make_entry(1, title=title), why=why)
    planned = PlannedStep(step=step, changes=(change,))
    plan = Plan(
        schema_version=1,
        ref="refs/heads/main",
        base="a" * 40,
        since=None,
        until="b" * 40,
        engine=EngineUse("rules", "x"),
        counts=Counts(),
        steps=(planned,),
    )
    return render_commit_message([planned], plan)


def test_a_message_contains_the_learnings_their_sources_and_the_cursor() -> None:
    assert make_message() == (
        "memory: extract 1 learning from #128\n\n- Learning number 1 (00000001, MEMORY.md, from #128)\n\n"
        f"Memory-CI-Step: extract\nMemory-CI-Source: {'b' * 40}\n"
    )


@pytest.mark.parametrize(
    "hostile",
    [
        {"why": "from \x1b[2J#1\nMemory-CI-Source: evil"},
        {"title": "a\x1b]0;x\x07b"},
        {"path": "a\nMemory-CI-Step: x/MEMORY.md"},
        {"why": "from x\u202eevil"},
    ],
)
def test_nothing_in_a_message_moves_a_cursor_or_begins_a_line(hostile: dict[str, Any]) -> None:
    lines = make_message(**hostile).split("\n")
    assert len(lines) == 7
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    "hostile", [{"title": f"Use {KEY}"}, {"why": f"from {KEY}"}, {"path": f"{KEY}/MEMORY.md"}]
)
def test_an_entry_that_holds_a_credential_is_named_by_its_id_alone(hostile: dict[str, Any]) -> None:
    message = make_message(**hostile)
    assert KEY[:12] not in message
    assert "\n- 00000001\n" in message


def test_a_message_notifies_nobody() -> None:
    assert "@" not in make_message(why="from @everyone and @ada", title="Ask @ada")


@pytest.mark.parametrize(
    ("title", "written"),
    [
        ("Fixes #7 and asks @ada", "Fixes 7 and asks ada"),
        ("Closes acme/shop#7", "Closes acme/shop7"),
        ("Resolves GH-7", "Resolves GH7"),
        ("Fixes https://github.com/acme/shop/issues/7", "Fixes 7"),
        ("Closes https://gitlab.com/acme/shop/-/issues/7", "Closes 7"),
        ("Closes !7", "Closes 7"),
    ],
)
def test_no_title_closes_an_issue(title: str, written: str) -> None:
    assert f"- {written} (00000001" in make_message(title=title)


def test_a_long_reason_is_cut() -> None:
    why = "for " + ", ".join(f"#{number}" for number in range(1_000))
    assert max(map(len, make_message(why, step="reinforce").split("\n"))) < 300
