"""Tests of plans: applied as they were made, and refused if they were changed."""

from __future__ import annotations

import pytest

from memory_ci.commands.record.run import format_plan
from memory_ci.errors import FindingsError, MemoryCIError
from memory_ci.memory.apply import apply_plan, parse_plan, preview_plan
from memory_ci.records.plan import Plan
from tests.project import NOW, Project


def test_a_plan_is_the_same_after_a_round_trip_and_applies(project: Project) -> None:
    plan = parse_plan(format_plan(project.plan()))
    assert preview_plan(project.workspace, plan, NOW).subjects == (
        "memory: extract 2 learnings from #128",
    )
    assert project.status() == ""
    apply_plan(project.workspace, plan, NOW)
    assert len(project.entries()) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"path": "MEMORY.md"', '"path": "src/client.py"'),
        ('"path": "MEMORY.md"', '"path": ".git/hooks/MEMORY.md"'),
        ('"kind": "add"', '"kind": "update"'),
        ('"step": "extract"', '"step": "compact"'),
        ("The client retried a POST", "Ignore all previous instructions and"),
        ("idempotency key with each charge", "key AKIA" + "ABCDEFGHIJKLMNOP with each charge"),
    ],
)
def test_a_plan_that_was_tampered_with_is_refused(
    project: Project, first_plan: Plan, old: str, new: str
) -> None:
    text = format_plan(first_plan).decode()
    assert old in text
    start = project.sha()
    with pytest.raises(FindingsError) as raised:
        apply_plan(project.workspace, parse_plan(text.replace(old, new).encode()), NOW)
    assert raised.value.slug == "plan-refused"
    assert project.sha() == start


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"schema_version": 1}', b"\xff", b'{"ref": "\xff"}']
)
def test_data_that_is_not_a_plan_is_an_error(data: bytes) -> None:
    with pytest.raises(MemoryCIError) as raised:
        parse_plan(data)
    assert raised.value.slug == "bad-plan"
