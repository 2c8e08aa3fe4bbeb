"""Tests of the questions at a terminal."""

from __future__ import annotations

import pytest

from memory_ci.commands.review import dialog
from memory_ci.commands.review.dialog import ask_each
from memory_ci.errors import UsageError
from memory_ci.records.candidate import Answer, Question, QuestionKind
from memory_ci.records.entry import PROJECT, Located
from tests.make import make_entry


def ask(kind: QuestionKind, number: int) -> Question:
    place = Located(make_entry(number), "MEMORY.md", 1, PROJECT)
    return Question(
        kind=kind, key=f"{number}", title="T", why="why", use=1.0, doubt=1.0, located=place
    )


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the keys that a person types; each answer removes the first."""
    keys: list[str] = []
    monkeypatch.setattr(dialog, "ask_text", lambda _, **__: keys.pop(0))
    return keys


def edit(_: Question) -> str:
    return "other words"


def accept_all(_question: Question, _verb: Answer, _text: str | None) -> None:
    """Refuse nothing."""


def refuse_second(question: Question, _verb: Answer, text: str | None) -> None:
    if question.key == "2" and text is None:
        raise UsageError("refused", slug="empty-entry", hint="say more")


def test_yes_to_all_still_asks_about_withheld_candidates(typed: list[str]) -> None:
    typed += ["a", "s"]
    questions = [ask("unused", 1), ask("quarantined", 2), ask("unused", 3)]
    answers = ask_each(questions, edit, accept_all)
    assert answers.by_verb == {"keep": [questions[0], questions[2]]}
    assert answers.skipped == [questions[1]]


def test_yes_to_all_asks_about_candidates_that_cannot_be_written(typed: list[str]) -> None:
    typed += ["a", "y", "e"]
    questions = [ask("promotion", 1), ask("unused", 2), ask("unused", 3)]
    answers = ask_each(questions, edit, refuse_second)
    assert answers.texts == {"2": "other words"}
    assert typed == []


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the prompts of questions that a person leaves for later."""
    shown_items: list[str] = []

    def answer(prompt: str, **_options: object) -> str:
        shown_items.append(prompt)
        return "s"

    monkeypatch.setattr(dialog, "ask_text", answer)
    return shown_items


def test_a_promotion_takes_no_other_words(prompts: list[str]) -> None:
    ask_each([ask("promotion", 1), ask("unused", 2)], edit, accept_all)
    promotion, unused = prompts
    assert ",e," not in promotion
    assert ",e," in unused


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("promotion", "Keep it for all repositories? ["),
        ("unused", "Does it still hold? ["),
    ],
)
def test_a_question_names_the_effect_of_its_answer(
    prompts: list[str], kind: QuestionKind, expected: str
) -> None:
    ask_each([ask(kind, 1)], edit, accept_all)
    assert prompts[0].startswith(expected)
