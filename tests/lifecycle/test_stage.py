"""Tests of detecting the stage of a project from clear statements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.lifecycle.stage import StatedPhase, find_stage, parse_phase
from memory_ci.records.entry import Phase

BOXES = "- [x] Specification\n- [x] Design\n- [ ] Build\n- [ ] Review\n"
TABLE = """
| # | Stage | Owner | State |
|---|---|---|---|
| 1 | Design | Ada | done ✅ |
| 2 | Coding | Bob | in progress |
| 3 | QA | | not started |
"""


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("---\nstage: design # since March\n---\n# Intent\n", "design"),
        ("---\ntitle: Shop\nphase: 'spec'\n---\n", "specification"),
        ("# Intent\n\nStage: coding\n", "implementation"),
        ("**Stage:** In design (since 2026-03)\n", "design"),
        ("## Stage: review\n", "review"),
        ("## Stage\n\nWe are in the planning stage.\n", "planning"),
        ("## Current phase\n\n- **Maintenance**\n", "maintenance"),
        ("Status: in implementation\n", "implementation"),
        ("Status: approved\nStage: design\n", "design"),
        ("Stage: build\n## Phase\nimplementation\n", "implementation"),
        (BOXES, "implementation"),
        (BOXES.replace("- [ ] Build", "- [/] Build: the client"), "implementation"),
        (TABLE, "implementation"),
        ("Stage: design\n\n" + BOXES, "design"),
    ],
)
def test_a_stated_stage_is_read(text: str, phase: Phase) -> None:
    stage = find_stage(text)
    assert stage is not None
    assert stage.phase == phase


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Intent\n\nWe design and build and review a shop.\n",
        "Stage: design\nStage: implementation\n",
        "---\nstage: design\n---\nStatus: in review\n",
        "Stage: design -> implementation\n",
        "Stage: not yet in design\n",
        "Stage: design complete\n",
        "Stage: design (complete)\n",
        "Stage: design, then build\n",
        "Stage: alpha\n\n" + BOXES,
        "Status: active\n",
        "```\nStage: design\n```\n",
        "- [ ] Review\n",
        "- [x] Design\n- [ ] Review PR 12\n",
        "- [ ] Design\n- [ ] Build\n",
        "- [x] Design\n- [x] Build\n",
        "- [ ] Design\n- [x] Build\n",
        "- [x] Design\n- [ ] Build\n- [x] Review\n",
        "- [/] Design\n- [/] Build\n",
        "| Design | 100% |\n| Build | 40% |\n",
    ],
)
def test_unclear_or_contradictory_statements_are_not_a_stage(text: str) -> None:
    assert find_stage(text) is None


def test_the_stage_has_the_line_of_its_statement() -> None:
    assert find_stage("# Intent\n\n## Stage\n\nDesign\n") == StatedPhase("design", 5)
    assert find_stage(BOXES) == StatedPhase("implementation", 3)


def test_a_name_is_a_phase_only_when_nothing_else_is_said() -> None:
    assert parse_phase("1. Testing") == "review"
    assert parse_phase("testing the design") is None


@given(st.text(st.sampled_from("Stage:designbuild -[x]\n#|*`()/")) | st.text())
def test_reading_any_text_raises_no_error(text: str) -> None:
    stage = find_stage(text)
    assert stage is None or stage.line > 0
