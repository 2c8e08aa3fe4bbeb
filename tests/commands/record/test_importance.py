"""Tests of importance: learnings of a revert count more than those of routine work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import Project
from tests.standin import StandIn, make_learning

WORDS = "A charge must be sent once."
CAUSE = "Root cause: the gateway books a charge each time it is asked.\nFix: send a key with each charge."


def record(project: Project, model: StandIn, message: str) -> float:
    """Merge work with a message, and return the importance of a learning for which the model states none."""
    project.merge_work(message, "work", 140)
    model.will_find(make_learning(WORDS, title="Send a charge once"))
    model.record(project)
    (entry,) = [entry for entry in project.entries() if entry.title == "Send a charge once"]
    return entry.importance


@pytest.fixture
def model(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path / "model")


def test_a_model_s_learning_from_routine_work_has_half_importance(
    project: Project, model: StandIn
) -> None:
    assert record(project, model, f"Move the worker\n\n{WORDS}") == 0.5


def test_a_model_s_learning_from_a_revert_has_more_importance(
    project: Project, model: StandIn
) -> None:
    assert record(project, model, f'Revert "Send a charge again"\n\n{WORDS}') == 0.8


@pytest.mark.parametrize(
    ("subject", "expected"), [("fix: charge once", 0.6), ('Revert "Charge again"', 0.8)]
)
def test_a_root_cause_counts_by_the_commit_that_names_it(
    project: Project, subject: str, expected: float
) -> None:
    project.merge_work(f"{subject}\n\n{CAUSE}", "work", 140)
    project.record()
    (entry,) = [
        entry for entry in project.entries() if "each time it is asked" in entry.title + entry.body
    ]
    assert entry.importance == expected
