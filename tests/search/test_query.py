"""Tests of the query terms of a task."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.search.query import Corpus, build_terms


def test_the_terms_of_a_one_line_task_have_no_stop_words() -> None:
    assert build_terms("When do we retry the charge?") == ("retry", "charge")


def test_the_words_of_the_first_line_count_twice() -> None:
    assert build_terms("Retry charges\nThe client retries, the client waits.") == (
        *("retry", "charges"),
        *("retry", "charges"),
        *("client", "retries", "waits"),
    )


def test_a_task_of_stop_words_only_keeps_them() -> None:
    assert build_terms("What did you do?") == ("what", "did", "you", "do")


def test_identifiers_are_searched_whole_and_in_parts() -> None:
    assert build_terms("Fix readUserName in src/http_client.py") == (
        *("fix", "readusername", "src/http_client.py"),
        *("read", "user", "name", "src", "http", "client", "py"),
    )


def test_a_possessive_keeps_its_noun_and_a_numbered_name_its_number() -> None:
    assert build_terms("Dave's hint on pytest\u2019s exit") == ("dave", "hint", "pytest", "exit")
    assert set(build_terms("ask o1-preview")) == {"ask", "o1-preview", "o1", "preview"}


def test_given_paths_count_once_and_only_together_with_a_task() -> None:
    terms = build_terms("retry twice", paths=("src/http_client.py", "src/retry.py"))
    assert terms == (
        "retry",
        "twice",
        "retry",
        "twice",
        "src/http_client",
        "src",
        "http",
        "client",
        "src/retry",
    )
    assert build_terms("", paths=("src/http_client.py",)) == ()


LEFT_OUT = {
    "fenced code": "```python\nimport noise\n```\n",
    "a fence of tildes with a fence inside": "~~~~\nnoise\n~~~\n```\nnoise\n~~~~\n",
    "a comment": "<!-- noise\nnoise -->\n",
    "a quotation": "> noise said someone\n",
    "a log": "2026-11-20T14:02:11Z ERROR noise\n[12:00:01] noise\n",
    "a traceback": 'Traceback (most recent call last):\n  File "noise.py", line 3, in noise\n',
    "a stack": "    at noise.run (noise.js:1:2)\n",
}


@pytest.mark.parametrize("part", LEFT_OUT)
def test_quoted_text_is_not_searched(part: str) -> None:
    assert build_terms(f"Retry charges\n{LEFT_OUT[part]}client") == (
        "retry",
        "charges",
        "retry",
        "charges",
        "client",
    )


@pytest.mark.parametrize("part", LEFT_OUT)
def test_a_task_that_is_only_a_quotation_is_searched(part: str) -> None:
    assert "noise" in " ".join(build_terms(LEFT_OUT[part]))


def test_the_number_of_terms_is_limited_and_frequent_ones_are_kept() -> None:
    prose = " ".join(f"word{n}" for n in range(100_000))
    terms = build_terms(f"A title\n{prose[:15_000]} needle needle")
    assert len(terms) == 1 + 1 + 20
    assert "needle" in terms
    assert len(build_terms(prose)) == 32


@given(st.text(st.characters() | st.sampled_from("`~<!->\n _.'")))
def test_any_task_is_read_without_an_error(task: str) -> None:
    terms = build_terms(task)
    assert all(terms)
    assert terms == build_terms(task)


def test_the_terms_of_a_body_are_frequent_in_it_and_rare_in_memory() -> None:
    df = {"client": 900, "timeout": 3, "gateway": 0}
    body = "client client client timeout timeout gateway gateway gateway gateway"
    terms = build_terms(f"Title\n{body}", Corpus(1000, lambda term: df.get(term, 1)))
    assert terms == ("title", "title", "timeout", "client"), "what no entry holds is not asked"


def test_document_frequencies_are_read_for_a_limited_number_of_terms() -> None:
    searched_terms: list[str] = []

    def df(term: str) -> int:
        searched_terms.append(term)
        return 1

    build_terms("Title\n" + " ".join(f"word{n}" for n in range(1000)), Corpus(1000, df))
    assert len(searched_terms) == 60
    searched_terms.clear()
    build_terms("Only a title", Corpus(1000, df))
    assert searched_terms == []


@pytest.mark.parametrize(
    ("task", "terms"),
    [
        ("wo wird die Verbindung geschlossen", ("verbindung", "geschlossen")),
        ("por qué se cobró dos veces al cliente", ("cobró", "dos", "veces", "cliente")),
        ("why does the worker die in bin", ("worker", "die", "bin")),
    ],
)
def test_function_words_of_the_tasks_language_are_left_out(
    task: str, terms: tuple[str, ...]
) -> None:
    assert build_terms(task) == terms


def test_words_with_many_forms_are_searched_by_their_stems() -> None:
    assert build_terms("удалить колонку лог") == ("удал*", "коло*", "лог")


def test_a_very_long_word_is_read_in_linear_time() -> None:
    """A reader that compares each pair of letters would not end."""
    assert build_terms("x" * 5_000_000)


def test_a_long_word_in_no_entry_is_searched_by_its_stem() -> None:
    held = Corpus(1000, lambda term: int(term == "charges"))
    assert build_terms("charges refunds api_keys", held)[:3] == ("charges", "refun*", "api_keys")
