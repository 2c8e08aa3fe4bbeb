"""Tests of rewordings within a run: the model sees them, is asked about them once, and one entry is kept."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.retrieve.text import render_context
from memory_ci.errors import EngineError
from memory_ci.extraction.engines.meter import Meter
from memory_ci.memory.apply import apply_plan
from memory_ci.memory.model import Model
from memory_ci.records.candidate import EngineReply, Request
from memory_ci.records.config import EngineConfig
from memory_ci.records.plan import Plan
from tests.project import NOW, TODAY, Project

FIRST = "Bring main into your branch before you push it"
SECOND = "Before each push of a branch take what main has"


class Reader:
    """A model that returns the reason of each change as a learning, and groups learnings as configured."""

    def __init__(self, group: Callable[[Request], list[str]]) -> None:
        self.requests: list[Request] = []
        self._group = group

    def extract(self, request: Request) -> EngineReply:
        self.requests.append(request)
        if request.task == "consolidation":
            quoted = self._group(request)
            texts = {piece.id: piece.text.partition("\n")[0] for piece in request.evidence}
            learnings: list[dict[str, object]] = [
                {"title": "x", "quotes": [{"evidence": key, "text": texts[key]} for key in quoted]}
            ]
        else:
            sentence = next(
                (
                    item
                    for item in (FIRST, SECOND)
                    for piece in request.evidence
                    if item in piece.text
                ),
                None,
            )
            piece = next(
                (piece.id for piece in request.evidence if sentence and sentence in piece.text), ""
            )
            learning: dict[str, object] = {
                "title": sentence,
                "kind": "preference",
                "quotes": [{"evidence": piece, "text": sentence}],
            }
            learnings = [learning] if sentence else []
        return EngineReply(
            text=json.dumps({"learnings": learnings}), stop_reason="end_turn", model="m"
        )


def run(project: Project, reader: Reader) -> Plan:
    settings = EngineConfig(name="command")
    model = Model("command", "a test", reader, Meter(settings), settings)
    plan = plan_record(
        project.workspace, RecordOptions(), TODAY, lambda done, total: None, model=model
    )
    apply_plan(project.workspace, plan, NOW)
    return plan


@pytest.fixture
def shop(project: Project) -> Project:
    project.record()
    for number, said in enumerate((FIRST, SECOND), start=700):
        project.merge_work(
            f"Change {number}\n\n{said}.", f"work-{number}", number, f"src/f{number}.py"
        )
    return project


def test_a_learning_of_two_changes_is_one_entry_with_both_sources(shop: Project) -> None:
    reader = Reader(lambda request: [piece.id for piece in request.evidence])
    plan = run(shop, reader)
    assert [request.task for request in reader.requests].count("consolidation") == 1
    (entry,) = [entry for entry in shop.entries() if entry.title in (FIRST, SECOND)]
    assert (entry.mention_count, plan.problems) == (2, ())
    assert "said in 2 changes" in render_context(shop.retrieve("push a branch after taking main"))
    assert shop.record().subjects == ()


def test_a_later_window_shows_earlier_entries_of_the_run(shop: Project) -> None:
    reader = Reader(lambda request: [])
    run(shop, reader)
    (window,) = [
        each_request
        for each_request in reader.requests
        if each_request.change == "#701" and each_request.task == "learnings"
    ]
    assert FIRST in {known.title for known in window.existing}
    assert {FIRST, SECOND} <= shop.titles()


def test_a_failing_consolidation_loses_no_learnings(shop: Project) -> None:
    def fail(request: Request) -> list[str]:
        raise EngineError("busy", slug="engine-overloaded")

    plan = run(shop, Reader(fail))
    assert plan.problems == ("which entries say the same: busy [engine-overloaded]",)
    assert {FIRST, SECOND} <= shop.titles()
