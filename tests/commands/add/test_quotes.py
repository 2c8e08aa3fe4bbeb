"""Tests of `add --quote`: which words of a session may be quoted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.command_line import Run
from tests.commands.add.sessions_at_work import (
    CORRECTION,
    SAID,
    Add,
    Hook,
    Write,
    at_work,
    edit,
    result,
    slug,
    spoken,
    user,
)
from tests.project import Project

pytestmark = pytest.mark.in_project


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("No: don\u2019t \u201cretry\u201d\n  a charge here", 'don\'t "retry" a charge here'),
        (f"Look:\n```\nshout\n```\n{SAID}", SAID),
        (f"> an answer\n\n- {SAID}", SAID),
        (
            f"Not so.\n\n{SAID} Ask ada@example.com",
            "retry a charge in the caller. Ask ada@example.com",
        ),
    ],
    ids=["folded", "after a fence", "in a list", "an address"],
)
def test_words_that_a_person_typed_can_be_quoted(
    hook: Hook, transcript: Write, add: Add, said: str, words: str
) -> None:
    at_work(hook, transcript(user(said)))
    added = add("--quote", words)
    assert added.exit_code == 0, added.stderr
    assert "ada@example.com" not in added.stdout


@pytest.mark.parametrize(
    "records",
    [
        [user("Fix it"), edit("src/client.py"), result(SAID)],
        [user("Fix it"), spoken({"type": "text", "text": SAID})],
        [user("Fix it"), user(SAID, isMeta=True)],
        [user("Fix it"), user(SAID, isSidechain=True)],
        [user(SAID, entrypoint="sdk-cli")],
        [user(f"memory-ci: is it so? {SAID}")],
        [user(f"Read this:\n```\n{SAID}\n```")],
        [user(f"Read this:\n```\n{SAID}")],
        [user(f"He says\n> {SAID}")],
        [user(f"He says\n\n    {SAID}")],
        [user(f"{SAID}\n" + "x" * 2_000)],
        [user("\n".join([*["INFO a line of a log"] * 12, SAID]))],
        [user("Never retry a charge in the callers.")],
        [user("Never retry a charge.\n\nin the caller.")],
    ],
    ids=[
        "tool",
        "agent",
        "meta",
        "sub-agent",
        "program",
        "ours",
        "fence",
        "open fence",
        "quotation",
        "indented",
        "long turn",
        "long block",
        "half a word",
        "two paragraphs",
    ],
)
def test_words_that_no_person_typed_cannot_be_quoted(
    hook: Hook, transcript: Write, add: Add, project: Project, records: list[dict[str, Any]]
) -> None:
    at_work(hook, transcript(*records))
    assert slug(add("--quote", SAID.rstrip("."))) == "quote-not-said"
    assert ".memory" not in project.status()


@pytest.mark.parametrize("words", ["", "in the", "a b c", "retry-a-charge caller", "never " * 200])
def test_a_quote_needs_several_words_and_a_limited_length(
    hook: Hook, transcript: Write, add: Add, words: str
) -> None:
    at_work(hook, transcript(user(CORRECTION)))
    assert slug(add("--quote", words)) == "bad-quote"


def test_a_title_that_says_the_opposite_of_the_quote_is_refused(
    hook: Hook, transcript: Write, run: Run, project: Project
) -> None:
    at_work(hook, transcript(user(SAID)))
    assert (
        slug(run("add", "Always retry a charge in the caller", "--quote", SAID))
        == "opposite-of-the-quotes"
    )
    assert ".memory" not in project.status()


def test_a_quote_is_read_from_standard_input(
    hook: Hook, transcript: Write, add: Add, run: Run
) -> None:
    at_work(hook, transcript(user(SAID)))
    read = run("add", "Read the quote", "--quote", "-", "--dry-run", stdin=SAID)
    assert read.stdout.startswith("Would add")
    assert slug(run("add", "--quote", "-", stdin=SAID)) == "bad-quote"


def test_a_session_adds_at_most_three_quotes_and_none_is_institutional(
    hook: Hook, transcript: Write, add: Add, run: Run
) -> None:
    at_work(hook, transcript(user(SAID)))
    assert slug(add("--quote", SAID, "--scope", "institutional")) == "bad-scope"
    for _ in range(3):
        assert add("--quote", SAID).exit_code == 0
    assert slug(add("--quote", SAID)) == "too-many-marks"
    assert run("add", "Anybody adds what nobody is quoted for").exit_code == 0
