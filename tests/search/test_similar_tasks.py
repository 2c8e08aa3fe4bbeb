"""Similar tasks: alike by their prompts, never the task itself, weighed by what became of them."""

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


def twice(title: str) -> dict[str, float]:
    """The terms of a title as they count in a prompt."""
    return {term: 2.0 * count for term, count in count_terms(title).items()}


def find(asked: str | TaskQuery, *tasks: Task | str, top: int = 2) -> tuple[SimilarTask, ...]:
    """What may be named to a job among `tasks` and some that have nothing to do with them."""
    corpus = [
        task if isinstance(task, Task) else make_task(task, place)
        for place, task in enumerate(tasks)
    ]
    corpus += [make_task(title, 50 + place) for place, title in enumerate(OTHERS)]
    prompts = build_prompt_index([twice(task.title) for task in corpus])
    return find_similar(
        TaskQuery(asked) if isinstance(asked, str) else asked, corpus, prompts, top, is_hint=True
    )


def labels(found: tuple[SimilarTask, ...]) -> list[str]:
    return [one.task.label for one in found]


def test_a_task_finds_the_one_that_was_like_it() -> None:
    assert labels(find("failed charges of the payments client are not retried", RETRY)) == ["#100"]


@pytest.mark.parametrize("others", [0, 1, 3, 29])
def test_a_young_repository_answers_too(others: int) -> None:
    titles = [RETRY, *(f"{OTHERS[n % len(OTHERS)]} number {n}" for n in range(others))]
    tasks = [make_task(title, place) for place, title in enumerate(titles)]
    asked = "charges of the payments client are not retried, failed ones get lost"
    found = find_similar(
        TaskQuery(asked),
        tasks,
        build_prompt_index([twice(task.title) for task in tasks]),
        is_hint=True,
    )
    assert labels(found) == ["#100"]


def test_an_unrelated_task_finds_nothing() -> None:
    assert find("translate error messages into French", RETRY) == ()
    assert find("", RETRY) == ()
    assert find("the of and", RETRY) == ()


def test_who_asks_by_hand_is_shown_the_best_whatever_its_score() -> None:
    asked, corpus = (
        "Show a chart of failed charges per month and country on a dashboard of the shop",
        [RETRY, *OTHERS],
    )
    tasks = [make_task(title, place) for place, title in enumerate(corpus)]
    prompts = build_prompt_index([count_terms(title) for title in corpus])
    assert labels(find_similar(TaskQuery(asked), tasks, prompts, 1)) == ["#100"]
    assert find_similar(TaskQuery(asked), tasks, prompts, is_hint=True) == ()


def test_in_a_long_history_a_score_of_20_and_three_terms_are_asked_for() -> None:
    titles = [
        RETRY,
        *(f"Paint wall {n} of room {n * 7 % 100} in colour {n * 3}" for n in range(SMALL_HISTORY)),
    ]
    tasks = [make_task(title, place) for place, title in enumerate(titles)]
    prompts = build_prompt_index([twice(title) for title in titles])
    long = "retry failed charges of payments in the client and worker"
    ((_, score), *_) = find_similar(TaskQuery(long), tasks, prompts, 1, is_hint=True)[0].factors
    assert score >= 20
    assert find_similar(TaskQuery("retry failed"), tasks, prompts, is_hint=True) == ()
    assert labels(find_similar(TaskQuery("retry failed"), tasks, prompts)) == ["#100"]


def test_the_first_line_alone_is_asked() -> None:
    assert find(f"Paint the wall\n\n{RETRY}, it says", RETRY) == ()


def test_titles_weigh_more_and_paths_less_than_prose() -> None:
    tasks = [make_task(title, place) for place, title in enumerate(["a", "b", *OTHERS])]
    counts: list[dict[str, float]] = [
        {"ledger": 0.5, "x": 3.0},
        {"ledger": 2.0, "x": 1.5},
        *map(twice, OTHERS),
    ]
    found = find_similar(TaskQuery("ledger"), tasks, build_prompt_index(counts))
    assert labels(found) == ["#101", "#100"]


def test_one_word_in_common_makes_no_similar_task() -> None:
    assert find("Add a login form", RETRY) == ()
    assert find("telemetry", RETRY) == ()


@pytest.mark.parametrize(
    "asked",
    [
        TaskQuery("retry failed charges of payments", number=100),
        TaskQuery("retry failed charges of payments", sha=f"{0:040x}"),
        TaskQuery("retry failed charges of payments", branch="retry"),
        TaskQuery(RETRY),
    ],
    ids=["number", "sha", "branch", "the same words"],
)
def test_a_task_does_not_find_itself(asked: TaskQuery) -> None:
    own = make_task(RETRY, branch="retry")
    assert find(TaskQuery("retry failed charges of payments"), own), (
        "another such task would find it"
    )
    assert find(asked, own) == ()


def test_work_without_a_branch_is_not_taken_for_any_other_work_without_one() -> None:
    assert find(
        TaskQuery("retry failed charges of payments", branch=""), make_task(RETRY, branch="")
    )


def test_at_most_so_many_are_given() -> None:
    several = [
        f"Retry failed charges of payments in the {name}"
        for name in ("client", "worker", "cron job")
    ]
    assert len(find("retry failed charges of payments", *several)) == 2
    assert len(find("retry failed charges of payments", *several, top=1)) == 1


def test_what_succeeded_comes_before_what_was_mended_before_what_failed() -> None:
    outcomes = [
        make_task(RETRY, place, outcome=outcome)
        for place, outcome in enumerate(("failure", "partial", "success"))
    ]
    found = find("retry failed charges of payments", *outcomes, top=3)
    assert [one.task.outcome for one in found] == ["success", "partial", "failure"]
    assert [dict(one.factors)["outcome"] for one in found] == [1.2, 1.0, 0.8]


def test_work_whose_files_are_gone_counts_half() -> None:
    gone, there = (
        make_task(RETRY, 0, files=4, remaining_count=0),
        make_task(RETRY, 1, files=4, remaining_count=4),
    )
    bare = make_task(RETRY, 2)
    found = {
        one.task.label: dict(one.factors)["files"]
        for one in find("retry failed charges", gone, there, bare, top=3)
    }
    assert found == {"#100": 0.5, "#101": 1.0, "#102": 1.0}
    assert labels(find("retry failed charges", gone, there))[0] == "#101"


def test_a_second_task_says_something_new() -> None:
    twin, other = (
        "Retry failed charges in the payments client again",
        "Refund failed charges in the payments worker",
    )
    asked = "retry failed charges in payments: client or worker"
    assert labels(find(asked, RETRY, twin, other)) == ["#100", "#102"]


def test_of_equal_ones_the_newest_is_given() -> None:
    old, new = make_task(RETRY, 0), make_task(RETRY, 1, merged_on=date(2026, 5, 1))
    assert labels(find("retry failed charges of payments", old, new))[0] == "#101"


def test_code_logs_and_quotations_of_a_prompt_do_not_count() -> None:
    quoted = f"Translate error messages\n> {RETRY}\n```\n{RETRY}\n```\n<!-- {RETRY} -->\n"
    assert "charges" not in count_terms(quoted)
    assert find(quoted, RETRY) == ()


@given(st.lists(st.text(max_size=40), max_size=5), st.text(max_size=60))
def test_scores_are_above_zero_and_in_order_whatever_the_words(
    prompts: list[str], asked: str
) -> None:
    tasks = [make_task(f"task {place}", place) for place in range(len(prompts))]
    found = find_similar(
        TaskQuery(asked), tasks, build_prompt_index([count_terms(prompt) for prompt in prompts]), 5
    )
    assert all(one.score > 0 for one in found)
