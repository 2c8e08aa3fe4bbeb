"""Tests of the ranking: the effect of the configuration and of relations between entries."""

from __future__ import annotations

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


def test_prominence_is_bounded_so_that_a_fitting_entry_comes_before_a_popular_one(
    project: Project,
) -> None:
    put(
        project,
        FITTING,
        POPULAR,
        *(format_entry(make_entry(n, title=f"Other {n}")) for n in range(3, 30)),
    )
    assert served(project, "retry a charge")[0] == make_id(1)


def test_the_answer_says_whether_memory_speaks_of_the_task(project: Project) -> None:
    put(project, FITTING)
    verdicts = [
        project.retrieve(task).verdict
        for task in ("retry a charge", "charge the batteries overnight", "oven")
    ]
    assert verdicts == ["HIT", "WEAK", "MISS"]
