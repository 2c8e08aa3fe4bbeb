"""Tests of the fast search for credentials: it finds the same as the slow search."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci import secrets
from memory_ci.cli.plain import is_harmless
from memory_ci.secret_patterns import PATTERNS
from memory_ci.secrets import Secret, find_secrets, lower_case
from tests.make import examples

MIXED = "a1B2c3D4e5F6g7H8i9J0"
KEYWORDS = [keyword for pattern in PATTERNS for keyword in pattern.keywords]


def find_everywhere(text: str) -> list[Secret]:
    """Return the secrets that trying every pattern at every position finds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            secrets,
            "list_possible_keywords",
            lambda lowered: {number: [] for number in range(len(PATTERNS))},
        )
        patch.setattr(secrets, "ANCHORED", [])
        patch.setattr(secrets, "list_starts", lambda places, reach: range(len(text)))
        return find_secrets(text)


@pytest.mark.parametrize("number", range(len(PATTERNS)), ids=[pattern.kind for pattern in PATTERNS])
@examples(6)
@given(data=st.data())
def test_every_match_of_a_pattern_is_found_by_its_keywords_and_never_printed_unchecked(
    number: int, data: st.DataObject
) -> None:
    pattern = PATTERNS[number]
    text = data.draw(st.from_regex(pattern.regex))  # most of the time of this file
    assert not (find_secrets(text) and is_harmless(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            secrets,
            "list_possible_keywords",
            lambda lowered: {number: near_keywords(lowered).get(number, [])},
        )
        patch.setattr(secrets, "ANCHORED", [])
        found_secrets = find_secrets(text)
        patch.setattr(secrets, "list_starts", lambda places, reach: range(len(text)))
        assert found_secrets == find_secrets(text)


near_keywords = secrets.list_possible_keywords


PIECES = [
    *KEYWORDS,
    *map(str.upper, KEYWORDS),
    MIXED,
    MIXED * 2,
    "AKIAQWERTYUIOP234567",
    f"eyJ{MIXED}.",
    "AccountKey=",
]
PIECES += [
    "=",
    ": ",
    "\n",
    " ",
    "-",
    "_",
    "x",
    "9",
    "'",
    "user:",
    ";pwd=",
    "@host.example",
    "https",
    "Bearer ",
    " id=",
]
PIECES += [" login ada password ", "\u0130", "\u017fecret=", "\u212aey", "[redacted:jwt]"]


@examples(300)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_adjacent_credentials_give_the_findings_of_the_slow_search(text: str) -> None:
    assert find_secrets(text) == find_everywhere(text)


@pytest.mark.parametrize(
    "text", ["my_api_key", "DBPASSWORDFILE", "x-secret-y", "laws_secret_token", "a.b+c://u"]
)
def test_a_key_may_have_any_name_around_its_word(text: str) -> None:
    sign = ":" if "://" in text else "="
    assert find_secrets(f"{text}{sign}{MIXED * 2}@h") != []


def test_a_url_password_needs_its_scheme_and_the_scheme_is_not_the_password() -> None:
    text = "see postgres+psycopg://app:s3cr3t@db"
    assert [text[secret.start : secret.end] for secret in find_secrets(text)] == ["s3cr3t"]
    assert find_secrets("see ://app:s3cr3t@db") == []


def test_characters_that_match_a_letter_without_case_are_folded_to_it() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    letters = re.findall("[a-z]", everything, re.IGNORECASE)
    assert len(letters) > 2 * 26
    assert all(
        re.fullmatch(letter, lower_case(char)) for char in letters for letter in lower_case(char)
    )
    assert set(map(lower_case, letters)) == set("abcdefghijklmnopqrstuvwxyz")
    assert len(lower_case(everything)) == len(everything)


def test_the_beginning_of_a_key_is_searched_up_to_the_next_key_only() -> None:
    beginning = "-----BEGIN RSA PRIVATE KEY-----\n"
    assert [secret.start for secret in find_secrets(beginning + "no key\n" + KEY_BLOCK)] == [
        0,
        len(beginning) + 7,
    ]


KEY_BLOCK = "-----BEGIN PRIVATE KEY-----\nabc,\n-----END PRIVATE KEY-----\n"


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_the_same_credentials_are_found_in_a_long_text(text: str) -> None:
    padding = "wait for the lock \n" * 600
    long_text = f"{padding}{text}\n{padding}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "LONG_TEXT", len(long_text))
        expected = find_secrets(long_text)
    assert find_secrets(long_text) == expected


@given(
    st.lists(
        st.sampled_from([*KEYWORDS, "login", "%3D", "x", " ", ": ", "=", "a1B2c3D4e5"])
        | st.text("aB1 .-:", max_size=12),
        max_size=8,
    ).map("".join)
)
def test_masking_text_that_is_printed_unchecked_changes_nothing(text: str) -> None:
    if is_harmless(text):
        assert secrets.mask_secrets(text) == text


def test_our_own_messages_are_printed_unchecked() -> None:
    assert is_harmless("Note: 49 weaker entries left out; `--all` shows them.\n")
