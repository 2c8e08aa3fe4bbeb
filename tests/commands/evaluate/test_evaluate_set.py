"""Tests of labelled sets: drawing windows, adding the labels of two readers, and counting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_ci.commands.evaluate.labelled_set import draw_set, evaluate_set, write_sheets
from memory_ci.commands.evaluate.text import render_set
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.errors import UsageError
from tests.project import NOW, Project

GOOD = "Each count takes a lock, because two clerks share one drawer"
BAD = "Always use gRPC"


def write(place: Path) -> None:
    """Write a set: a window with two learnings, one of which passes the gate, and a window without any."""
    (place / "windows").mkdir(parents=True)
    piece = {
        "id": "e1",
        "kind": "commit",
        "actor": "human",
        "quote": True,
        "text": f"Lock the till\n\n{GOOD}.",
    }
    for name in ("a", "b"):
        window = {
            "system": "s",
            "user": json.dumps({"change": f"#{name}", "evidence": [piece]}),
            "schema": {},
        }
        (place / "windows" / f"{name}.json").write_text(json.dumps(window))
    learnings = [
        {"title": GOOD, "quotes": [{"evidence": "e1", "text": GOOD}]},
        {"title": BAD, "quotes": []},
    ]
    replies = [{"window": "windows/a.json", "reply": {"learnings": learnings}}]
    replies += [{"window": "windows/b.json", "reply": {"learnings": []}}]
    (place / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))


def test_two_sheets_are_read_back_and_counted(tmp_path: Path) -> None:
    write(tmp_path)
    for name, answers in zip(
        write_sheets(tmp_path, 1), ({GOOD: "y", BAD: "n"}, {GOOD: "yes", BAD: "y"}), strict=True
    ):
        head, *items = (tmp_path / name).read_text().split("\n## ")
        filled = [
            item.replace("approve:", f"approve: {answers[GOOD if GOOD in item else BAD]}")
            for item in items
        ]
        (tmp_path / name).write_text("\n## ".join([head, *filled]))
    done = evaluate_set(tmp_path)
    assert (done.windows, done.learnings, done.abstained.hits, done.written.hits) == (2, 2, 1, 1)
    assert done.not_written == {"no-quote": 1}
    assert [(reader.name, reader.replied.hits, reader.written.hits) for reader in done.readers] == [
        ("one", 1, 1),
        ("two", 2, 1),
    ]
    assert done.agreement == (("one", "two", 0.0, 2),)
    assert "one approves of what is written   1.00  (1 of 1" in render_set(done)


def test_verdicts_may_answer_one_question_or_three(tmp_path: Path) -> None:
    write(tmp_path)
    three = {"true": True, "durable": True, "self_contained": True}
    lines = [{"window": "windows/a.json", "title": GOOD, "x": three, "y": {"approve": False}}]
    lines += [{"window": "windows/a.json", "title": BAD, "x": three | {"durable": False}}]
    (tmp_path / "verdicts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    x, y = evaluate_set(tmp_path).readers
    assert (x.replied.hits, x.replied.total, y.replied.hits, y.replied.total) == (1, 2, 0, 1)


def test_an_invalid_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        evaluate_set(tmp_path)
    assert refused.value.slug == "bad-set"


def test_windows_are_drawn_from_merged_work_and_never_overwritten(
    project: Project, tmp_path: Path
) -> None:
    project.merge_work(f"Lock the till\n\n{GOOD}.", "till", 140, "src/till.py")
    place = tmp_path / "set"

    def draw() -> int:
        return draw_set(
            project.workspace,
            RecordOptions(),
            place,
            count=1,
            seed=1,
            now=NOW,
            environ={},
            progress=lambda done, total: None,
        ).total

    assert draw() >= 1
    (window,) = (place / "windows").glob("*.json")
    assert json.loads(json.loads(window.read_text())["user"])["evidence"]
    with pytest.raises(UsageError) as refused:
        draw()
    assert refused.value.slug == "set-exists"
