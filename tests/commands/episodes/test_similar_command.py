"""Tests of `memory-ci recall --tasks` as a user calls it."""

from __future__ import annotations

import json

import pytest

from tests.command_line import Run
from tests.project import Project

pytestmark = pytest.mark.in_project

RETRY = "charge a card once, retried after a timeout of the gateway"


def test_each_task_is_one_line(project: Project, run: Run) -> None:
    result = run("recall", "--tasks", RETRY)
    line = "#128 fix: charge a card once (merged 2026-01-05, still 1 of 1 files; success)\n"
    assert result.stdout.endswith(f"  {line}")
    assert float(result.stdout.split()[0]) > 0
    assert result.exit_code == 0


def test_nothing_like_it_prints_nothing(project: Project, run: Run) -> None:
    result = run("recall", "--tasks", "translate the manual into French")
    assert (result.exit_code, result.output) == (0, "")


def test_the_factors_are_explained_and_multiply_to_the_score(project: Project, run: Run) -> None:
    _, line = run("recall", "--tasks", "--explain", RETRY).stdout.splitlines()
    score, _, product = line.partition(" = ")
    cosine, outcome, files = (float(factor.split()[1]) for factor in product.split(" x "))
    assert (outcome, files) == (1.2, 1.0)
    assert abs(float(score) - cosine * outcome * files) < 0.01


def test_json_holds_the_task_and_its_score(project: Project, run: Run) -> None:
    (load,) = json.loads(run("recall", "--tasks", "--json", "--limit", "5", RETRY).stdout)
    assert load["task"]["number"] == 128
    assert load["score"] > 0


def test_a_task_is_read_from_standard_input(project: Project, run: Run) -> None:
    assert run("recall", "--tasks", stdin=RETRY).stdout.split()[1] == "#128"


def test_a_title_moves_no_cursor(project: Project, run: Run) -> None:
    project.commit("Round \x1b[2Jcents of the ledger (#140)")
    assert "\x1b" not in run("recall", "--tasks", "the ledger rounds cents wrongly").stdout


def test_retrieve_explains_the_similar_tasks_too(project: Project, run: Run) -> None:
    assert "hint: #128 fix: charge a card once" in run("retrieve", "--explain", RETRY).stdout
