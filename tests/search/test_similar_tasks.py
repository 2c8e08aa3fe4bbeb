"""Tests of similar tasks: found by their prompts, without the task itself, weighted by their outcome."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.retrieval import SimilarTask, Task
from memory_ci.search.similar_tasks import (
    SMALL_HISTORY,
    TaskQuery,
    build_prompt_index,
    count_terms,
    find_similar,
)

OTHERS = [
    "Add a dark theme to the settings page",
    "Add a command that prints the version",
    "Upgrade the database driver",
    "Document how releases are made",
    "Speed up parsing of large manifests",
    "Remove the deprecated telemetry switch",
]
RETRY = "Retry failed charges in the payments client"


def make_task(title: str, place: int = 0, **fields: Any) -> Task:
    defaults: dict[str, Any] = {
        "sha": f"{place:040x}",
        "merged_on": date(2026, 3, 2),
        "number": 100 + place,
    }
    return Task(title=title, **defaults | fields)


def weigh_title(title: str) -> dict[str, float]:
    """Return the terms of a title with their weight in a prompt."""
    return {term: 2.0 * count for term, count in count_terms(title).items()}


def find_tasks(query: str | TaskQuery, *tasks: Task | str, top: int = 2) -> tuple[SimilarTask, ...]:
    """Return the tasks that are similar to a query, among `tasks` and unrelated ones."""
    corpus = [
        task if isinstance(task, Task) else make_task(task, place)
        for place, task in enumerate(tasks)
    ]
    corpus += [make_task(title, 50 + place) for place, title in enumerate(OTHERS)]
    prompts = build_prompt_index([weigh_title(task.title) for task in corpus])
    return find_similar(
        TaskQuery(query) if isinstance(query, str) else query, corpus, prompts, top, is_hint=True
    )


def list_labels(similar: tuple[SimilarTask, ...]) -> list[str]:
    return [match.task.label for match in similar]


def test_a_task_finds_a_similar_task() -> None:
    assert list_labels(
        find_tasks("failed charges of the payments client are not retried", RETRY)
    ) == ["#100"]


@pytest.mark.parametrize("others", [0, 1, 3, 29])
def test_a_repository_with_few_tasks_is_searched(others: int) -> None:
    titles = [RETRY, *(f"{OTHERS[n % len(OTHERS)]} number {n}" for n in range(others))]
    tasks = [make_task(title, place) for place, title in enumerate(titles)]
    query = "charges of the payments client are not retried, failed ones get lost"
    similar = find_similar(
        TaskQuery(query),
        tasks,
        build_prompt_index([weigh_title(task.title) for task in tasks]),
        is_hint=True,
    )
    assert list_labels(similar) == ["#100"]


def test_an_unrelated_task_finds_nothing() -> None:
    assert find_tasks("translate error messages into French", RETRY) == ()
    assert find_tasks("", RETRY) == ()
    assert find_tasks("the of and", RETRY) == ()


def test_a_manual_query_gets_the_best_task_whatever_its_score() -> None:
    query, corpus = (
        "Show a chart of failed charges per month and country on a dashboard of the shop",
        [RETRY, *OTHERS],
    )
    tasks = [make_task(title, place) for place, title in enumerate(corpus)]
    prompts = build_prompt_index([count_terms(title) for title in corpus])
    assert list_labels(find_similar(TaskQuery(query), tasks, prompts, 1)) == ["#100"]
    assert find_similar(TaskQuery(query), tasks, prompts, is_hint=True) == ()


def test_in_a_long_history_a_score_of_20_and_three_terms_are_required() -> None:
    titles = [
        RETRY,
        *(f"Paint wall {n} of room {n * 7 % 100} in colour {n * 3}" for n in range(SMALL_HISTORY)),
    ]
    tasks = [make_task(title, place) for place, title in enumerate(titles)]
    prompts = build_prompt_index([weigh_title(title) for title in titles])
    long = "retry failed charges of payments in the client and worker"
    ((_, score), *_) = find_similar(TaskQuery(long), tasks, prompts, 1, is_hint=True)[0].factors
    assert score >= 20
    assert find_similar(TaskQuery("retry failed"), tasks, prompts, is_hint=True) == ()
    assert list_labels(find_similar(TaskQuery("retry failed"), tasks, prompts)) == ["#100"]


def test_only_the_first_line_of_the_query_is_searched() -> None:
    assert find_tasks(f"Paint the wall\n\n{RETRY}, it says", RETRY) == ()


def test_titles_weigh_more_and_paths_less_than_prose() -> None:
    tasks = [make_task(title, place) for place, title in enumerate(["a", "b", *OTHERS])]
    counts: list[dict[str, float]] = [
        {"ledger": 0.5, "x": 3.0},
        {"ledger": 2.0, "x": 1.5},
        *map(weigh_title, OTHERS),
    ]
    similar = find_similar(TaskQuery("ledger"), tasks, build_prompt_index(counts))
    assert list_labels(similar) == ["#101", "#100"]


def test_one_common_word_does_not_make_a_similar_task() -> None:
    assert find_tasks("Add a login form", RETRY) == ()
    assert find_tasks("telemetry", RETRY) == ()


@pytest.mark.parametrize(
    "query",
    [
        TaskQuery("retry failed charges of payments", number=100),
        TaskQuery("retry failed charges of payments", sha=f"{0:040x}"),
        TaskQuery("retry failed charges of payments", branch="retry"),
        TaskQuery(RETRY),
    ],
    ids=["number", "sha", "branch", "the same words"],
)
def test_a_task_does_not_find_itself(query: TaskQuery) -> None:
    same_task = make_task(RETRY, branch="retry")
    assert find_tasks(TaskQuery("retry failed charges of payments"), same_task), (
        "another such task would find it"
    )
    assert find_tasks(query, same_task) == ()


def test_two_tasks_without_a_branch_are_not_the_same() -> None:
    assert find_tasks(
        TaskQuery("retry failed charges of payments", branch=""), make_task(RETRY, branch="")
    )


def test_the_number_of_tasks_is_limited() -> None:
    several = [
        f"Retry failed charges of payments in the {name}"
        for name in ("client", "worker", "cron job")
    ]
    assert len(find_tasks("retry failed charges of payments", *several)) == 2
    assert len(find_tasks("retry failed charges of payments", *several, top=1)) == 1


def test_successful_tasks_rank_above_fixed_and_failed_ones() -> None:
    outcomes = [
        make_task(RETRY, place, outcome=outcome)
        for place, outcome in enumerate(("failure", "partial", "success"))
    ]
    similar = find_tasks("retry failed charges of payments", *outcomes, top=3)
    assert [match.task.outcome for match in similar] == ["success", "partial", "failure"]
    assert [dict(match.factors)["outcome"] for match in similar] == [1.2, 1.0, 0.8]


def test_work_whose_files_are_gone_counts_half() -> None:
    gone, present = (
        make_task(RETRY, 0, files=4, remaining_count=0),
        make_task(RETRY, 1, files=4, remaining_count=4),
    )
    bare = make_task(RETRY, 2)
    factor_of = {
        match.task.label: dict(match.factors)["files"]
        for match in find_tasks("retry failed charges", gone, present, bare, top=3)
    }
    assert factor_of == {"#100": 0.5, "#101": 1.0, "#102": 1.0}
    assert list_labels(find_tasks("retry failed charges", gone, present))[0] == "#101"


def test_the_second_task_differs_from_the_first() -> None:
    twin, other_task = (
        "Retry failed charges in the payments client again",
        "Refund failed charges in the payments worker",
    )
    query = "retry failed charges in payments: client or worker"
    assert list_labels(find_tasks(query, RETRY, twin, other_task)) == ["#100", "#102"]


def test_of_equal_tasks_the_newest_is_returned() -> None:
    old, new = make_task(RETRY, 0), make_task(RETRY, 1, merged_on=date(2026, 5, 1))
    assert list_labels(find_tasks("retry failed charges of payments", old, new))[0] == "#101"


def test_code_logs_and_quotations_of_a_prompt_do_not_count() -> None:
    quoted = f"Translate error messages\n> {RETRY}\n```\n{RETRY}\n```\n<!-- {RETRY} -->\n"
    assert "charges" not in count_terms(quoted)
    assert find_tasks(quoted, RETRY) == ()


@given(st.lists(st.text(max_size=40), max_size=5), st.text(max_size=60))
def test_scores_are_above_zero_and_in_order_whatever_the_words(
    prompts: list[str], query: str
) -> None:
    tasks = [make_task(f"task {place}", place) for place in range(len(prompts))]
    similar = find_similar(
        TaskQuery(query), tasks, build_prompt_index([count_terms(prompt) for prompt in prompts]), 5
    )
    assert all(match.score > 0 for match in similar)
