"""Which words of a task are asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.search.query import Corpus, build_terms


def test_a_task_of_one_line_is_asked_without_its_stop_words() -> None:
    assert build_terms("When do we retry the charge?") == ("retry", "charge")


def test_the_words_of_the_first_line_are_asked_twice() -> None:
    assert build_terms("Retry charges\nThe client retries, the client waits.") == (
        *("retry", "charges"),
        *("retry", "charges"),
        *("client", "retries", "waits"),
    )


def test_a_task_of_stop_words_only_is_asked_as_it_stands() -> None:
    assert build_terms("What did you do?") == ("what", "did", "you", "do")


def test_identifiers_are_asked_whole_and_in_parts() -> None:
    assert build_terms("Fix readUserName in src/http_client.py") == (
        *("fix", "readusername", "src/http_client.py"),
        *("read", "user", "name", "src", "http", "client", "py"),
    )


def test_a_possessive_keeps_its_noun_and_a_numbered_name_its_number() -> None:
    assert build_terms("Dave's hint on pytest\u2019s exit") == ("dave", "hint", "pytest", "exit")
    assert set(build_terms("ask o1-preview")) == {"ask", "o1-preview", "o1", "preview"}


def test_the_paths_at_hand_are_asked_once_beside_the_task_and_never_alone() -> None:
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
def test_what_is_quoted_is_not_asked(part: str) -> None:
    assert build_terms(f"Retry charges\n{LEFT_OUT[part]}client") == (
        "retry",
        "charges",
        "retry",
        "charges",
        "client",
    )


@pytest.mark.parametrize("part", LEFT_OUT)
def test_a_task_that_is_all_quotation_is_asked_as_it_stands(part: str) -> None:
    assert "noise" in " ".join(build_terms(LEFT_OUT[part]))


def test_the_number_of_terms_is_bounded_and_the_frequent_ones_stay() -> None:
    prose = " ".join(f"word{n}" for n in range(100_000))
    terms = build_terms(f"A title\n{prose[:15_000]} needle needle")
    assert len(terms) == 1 + 1 + 20
    assert "needle" in terms
    assert len(build_terms(prose)) == 32


@given(st.text(st.characters() | st.sampled_from("`~<!->\n _.'")))
def test_any_task_gives_terms_or_none(task: str) -> None:
    terms = build_terms(task)
    assert all(terms)
    assert terms == build_terms(task)


def test_of_a_body_the_terms_that_are_frequent_there_and_rare_in_memory_are_asked() -> None:
    df = {"client": 900, "timeout": 3, "gateway": 0}
    body = "client client client timeout timeout gateway gateway gateway gateway"
    terms = build_terms(f"Title\n{body}", Corpus(1000, lambda term: df.get(term, 1)))
    assert terms == ("title", "title", "timeout", "client"), "what no entry holds is not asked"


def test_memory_is_asked_about_a_bounded_number_of_terms() -> None:
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
def test_small_words_of_another_language_are_left_out_where_a_task_is_in_it(
    task: str, terms: tuple[str, ...]
) -> None:
    assert build_terms(task) == terms


def test_words_with_many_forms_are_asked_by_their_stems() -> None:
    assert build_terms("удалить колонку лог") == ("удал*", "коло*", "лог")


def test_a_very_long_word_is_read_to_its_end() -> None:
    """A reader that looks at each pair of its letters would not end while anyone waits for it."""
    assert build_terms("x" * 5_000_000)


def test_a_long_word_that_no_entry_holds_is_asked_by_its_stem() -> None:
    held = Corpus(1000, lambda term: int(term == "charges"))
    assert build_terms("charges refunds api_keys", held)[:3] == ("charges", "refun*", "api_keys")
