"""Which words of a session prove a quote."""

from __future__ import annotations

import pytest

from memory_ci.errors import UsageError
from memory_ci.memory.quotes import check_title, find_quote
from tests.sources.transcripts.claude import (
    Record,
    make_agent,
    make_call,
    make_result,
    make_user,
    read_one,
)

WORDS = "always deploy on a Tuesday, because the gateway is calm then"


def refuse(*records: Record) -> None:
    """Expect that the words are refused as those of nobody."""
    with pytest.raises(UsageError) as caught:
        find_quote(read_one(*records), WORDS)
    assert caught.value.slug == "quote-not-said"


def test_what_a_person_typed_proves_a_quote() -> None:
    evidence, _ = find_quote(read_one(make_user(f"From now on {WORDS}. Thanks")), WORDS)
    assert evidence.endswith(WORDS)


@pytest.mark.parametrize(
    "text",
    [
        f"INFO starting\nINFO reading\nWARN {WORDS}\nINFO done\nINFO bye",
        f"2026-11-23 10:00:00 start\n2026-11-23 10:00:01 {WORDS}",
        f"[10:00:00] start\n[10:00:01] {WORDS}\nwhat is this?",
    ],
)
def test_a_pasted_log_proves_none(text: str) -> None:
    refuse(make_user(text))


def test_words_that_a_tool_showed_before_prove_none() -> None:
    call = make_agent(make_call("Read", file_path="/home/ada/shop/notes.md"), number=1)
    shown = make_user([make_result(f"Notes: {WORDS}")], 2)
    said = make_user(f"As it says, {WORDS}", 3)
    refuse(call, shown, said)
    assert find_quote(read_one(said, call, shown), WORDS)


def test_a_title_that_says_the_opposite_of_the_sentence_is_refused() -> None:
    session = read_one(
        make_user("Please never amend commits that were pushed, it breaks the links")
    )
    evidence, _ = find_quote(session, "amend commits that were pushed")
    with pytest.raises(UsageError) as caught:
        check_title(session, "Always amend pushed commits", evidence)
    assert caught.value.slug == "opposite-of-the-quotes"
    check_title(session, "Never amend pushed commits", evidence)
