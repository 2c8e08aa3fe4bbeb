"""What the configuration and the entries' relations do to the order of an answer."""

from __future__ import annotations

import pytest

from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import TODAY, Project


def put(project: Project, *texts: str) -> None:
    project.commit("Put", {"MEMORY.md": "\n".join(texts)})


def served(project: Project, task: str) -> list[str]:
    return [hit.located.entry.id for hit in project.retrieve(task).hits]


FITTING = format_entry(
    make_entry(1, title="Retry a charge with a key", importance=0.5, last_reinforced=TODAY)
)
POPULAR = format_entry(
    make_entry(
        2,
        title="Retry nothing at night",
        importance=0.5,
        reinforcement_count=200,
        last_reinforced=TODAY,
    )
)


@pytest.mark.parametrize(
    ("setting", "first"),
    [("prominence: bounded", 1), ("prominence: seed", 2), ("reinforcement: log", 1)],
)
def test_the_formula_of_prominence_is_a_setting(project: Project, setting: str, first: int) -> None:
    put(
        project,
        FITTING,
        POPULAR,
        *(format_entry(make_entry(n, title=f"Other {n}")) for n in range(3, 30)),
    )
    project.write(".memory-ci.yaml", f"retrieve:\n  {setting}\n")
    assert served(project, "retry a charge")[0] == make_id(first)


def test_linear_reinforcement_counts_more_than_logarithmic(project: Project) -> None:
    put(project, FITTING, POPULAR)
    weights = []
    for form in ("log", "linear"):
        project.write(".memory-ci.yaml", f"retrieve:\n  reinforcement: {form}\n")
        weights.append(
            {
                hit.located.entry.id: dict(hit.factors)["prominence"]
                for hit in project.retrieve("retry").hits
            }
        )
    log, linear = weights
    assert log[make_id(1)] == linear[make_id(1)]
    assert log[make_id(2)] < linear[make_id(2)] < 1.5


def test_the_answer_says_whether_memory_speaks_of_the_task(project: Project) -> None:
    put(project, FITTING)
    verdicts = [
        project.retrieve(task).verdict
        for task in ("retry a charge", "charge the batteries overnight", "oven")
    ]
    assert verdicts == ["HIT", "WEAK", "MISS"]
