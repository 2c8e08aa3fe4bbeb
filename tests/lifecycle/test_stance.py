"""Claims of sentences: what saves time changes none of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.checks.name_rules import THING, find_name_rules
from memory_ci.lifecycle import stance
from memory_ci.lifecycle.stance import (
    NO_CLAIM,
    NO_CLAIM_PHRASES,
    REASON,
    REASON_PHRASES,
    Claim,
    parse_claim,
)
from memory_ci.regex import Regex

PHRASES = [*NO_CLAIM_PHRASES, *REASON_PHRASES]
ODD = [
    "\u017f",
    "\u0131",
    "\u0130",
    "\u212a",
    "é",
    "don't",
    "Never",
    "retry",
    "30",
    "is",
    "private",
]
SIGNS = [" ", " ", ", ", ": ", "? ", "… ", "(", ")", "\n", "."]
TEXTS = st.lists(
    st.sampled_from([*PHRASES, *(phrase.upper() for phrase in PHRASES), *ODD, *SIGNS]), max_size=12
).map("".join)


def parse_with_patterns_alone(sentence: str) -> Claim | None:
    """Return the claim of a sentence without the search for phrases that precedes the patterns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stance, "contains_any", lambda *_: True)
        return parse_claim(sentence)


@given(TEXTS)
def test_to_search_for_phrases_first_changes_no_claim(sentence: str) -> None:
    assert parse_claim(sentence) == parse_with_patterns_alone(sentence)


@pytest.mark.parametrize(
    ("pattern", "phrases"),
    [(NO_CLAIM, NO_CLAIM_PHRASES), (REASON, REASON_PHRASES)],
    ids=["no claim", "reason"],
)
def test_letters_that_patterns_take_for_others_are_found(
    pattern: Regex[str], phrases: tuple[str, ...]
) -> None:
    for phrase in phrases:
        spelled = f" {phrase.replace('s', chr(0x17F)).replace('i', chr(0x131))} "
        assert pattern.search(spelled)
        assert stance.contains_any(phrases, spelled)


@given(
    st.lists(st.sampled_from(["function", "names", "start", "with", "'a_'", *SIGNS])).map("".join)
)
def test_a_sentence_with_rules_on_names_has_a_thing_with_a_name(sentence: str) -> None:
    if find_name_rules(sentence):
        assert THING.search(sentence)
