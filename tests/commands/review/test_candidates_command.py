"""Tests of `memory-ci review --candidates` as a user calls it."""

from __future__ import annotations

import json

import pytest

from tests.command_line import Run
from tests.project import Project

pytestmark = pytest.mark.in_project

RULES = [
    "Two locks must never be held at the same time.",
    "A charge must always have a key, because a client retries.",
]


@pytest.fixture
def worked(project: Project) -> Project:
    for number, rule in enumerate(RULES):
        project.commit(f"feat: lock {number}\n\n{rule}", {"src/lock.py": f"{number}\n"})
    return project


def test_it_lists_accepts_and_declines(worked: Project, run: Run) -> None:
    listed = run("review", "--candidates")
    assert listed.stdout.startswith(f" 1. {RULES[1].rstrip('.')}\n")
    assert "Accept with --accept N, decline for good with --never N." in listed.stdout
    dry = run("review", "--candidates", "--accept", "1", "--never", "2", "--dry-run")
    assert (dry.exit_code, worked.status()) == (0, "")
    done = run("review", "--candidates", "--accept", "1", "--never", "2")
    assert "Wrote .memory/inbox/" in done.stdout
    assert "Committed on main: memory: accept 1 question, never 1 question" in done.stdout
    assert run("review", "--candidates").stdout.startswith("No candidates in the work")


def test_as_json_and_by_age(worked: Project, run: Run) -> None:
    data = json.loads(run("review", "--candidates", "--since", "99y", "--json").stdout)
    assert [candidate["candidate"]["title"] for candidate in data["candidates"]] == [
        rule.rstrip(".") for rule in RULES[::-1]
    ]


@pytest.mark.parametrize(
    ("editor", "slug"),
    [("true", "unsaved-edit"), ("truncate -s 0", "unsaved-edit"), ("touch -d 2030-01-01", "")],
)
def test_an_editor_left_without_saving_accepts_nothing(
    worked: Project, run: Run, monkeypatch: pytest.MonkeyPatch, editor: str, slug: str
) -> None:
    monkeypatch.setenv("VISUAL", editor)
    done = run("review", "--candidates", "--accept", "1", "--edit", "--never", "2")
    assert (done.exit_code, f"[{slug}]" in done.stderr) == ((2, True) if slug else (0, False))
    assert (worked.git("log", "-1", "--format=%s").startswith("memory: ")) == (not slug)


def test_a_number_that_is_not_listed_is_refused(worked: Project, run: Run) -> None:
    result = run("review", "--candidates", "--accept", "3")
    assert (result.exit_code, "[unknown-candidate]" in result.stderr) == (2, True)


@pytest.mark.parametrize(("asked", "is_told"), [((), True), (("--since", "90d"), False)])
def test_none_names_since_only_to_who_did_not_say_it(
    project: Project, run: Run, asked: tuple[str, ...], is_told: bool
) -> None:
    output = run("review", "--candidates", *asked).stdout
    assert output.startswith("No candidates in the work")
    assert ("looks further back" in output) is is_told
