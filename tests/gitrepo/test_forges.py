"""Tests of the number and the title in merge messages of forges."""

from __future__ import annotations

import pytest

from memory_ci.gitrepo.forges import find_number, find_title

MESSAGES = {
    "GitHub, merge": (
        "Merge pull request #12 from ann/retry\n\nRetry only with a key\n\nmore",
        12,
        "Retry only with a key",
    ),
    "GitHub, merge without a title": (
        "Merge pull request #12 from ann/retry",
        12,
        "Merge pull request #12 from ann/retry",
    ),
    "GitHub, merge named after the pull request": (
        "Retry only with a key (#12)\n\nbody",
        12,
        "Retry only with a key",
    ),
    "GitHub, squash": ("Retry only with a key (#12)", 12, "Retry only with a key"),
    "GitHub, squash of a revert": ('Revert "Retry (#12)" (#15)', 15, 'Revert "Retry (#12)"'),
    "a revert by hand": ('Revert "Retry (#12)"', None, 'Revert "Retry (#12)"'),
    "GitLab": (
        "Merge branch 'retry' into 'main'\n\nRetry only with a key\n\nCloses #3\n\nSee merge request group/sub/app!12",
        12,
        "Retry only with a key",
    ),
    "GitLab, without a title": (
        "Merge branch 'retry' into 'main'\n\nSee merge request group/project!12",
        12,
        "Merge branch 'retry' into 'main'",
    ),
    "GitLab, squash": (
        "Retry only with a key\n\nSee merge request !12",
        12,
        "Retry only with a key",
    ),
    "Bitbucket": (
        "Merged in retry (pull request #12)\n\nRetry only with a key\n\n* one\n",
        12,
        "Retry only with a key",
    ),
    "a local merge": (
        "Merge branch 'retry' into main\n\nSome words",
        None,
        "Merge branch 'retry' into main",
    ),
    "a direct commit": ("Fix #12 at last\n\nas said in (#11)\n", None, "Fix #12 at last"),
    "an empty message": ("", None, ""),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_number_and_title_are_those_of_the_merged_change(case: str) -> None:
    message, number, title = MESSAGES[case]
    assert (find_number(message), find_title(message)) == (number, title)


@pytest.mark.parametrize(
    "message",
    [
        "Retry (#{})",
        "Merge pull request #{} from a/b",
        "Merged in x (pull request #{})",
        "Retry\n\nSee merge request a/b!{}",
    ],
)
def test_an_impossible_number_is_ignored(message: str) -> None:
    assert find_number(message.format("123456789")) == 123456789
    assert find_number(message.format("1" * 5000)) is None
    assert find_title(message.format("1" * 5000))


@pytest.mark.parametrize("number", ["0", "012", "\u0661\u0662\u0663", "1\u0662"])
def test_numbers_in_other_forms_are_ignored(number: str) -> None:
    assert find_number(f"Retry (#{number})") is None
    assert find_number(f"Merge pull request #{number} from a/b") is None
    assert find_number(f"Retry\n\nSee merge request a/b!{number}") is None


def test_only_the_beginning_of_a_subject_is_read() -> None:
    assert find_number("x" * 990 + " (#12)") == 12
    blanks = "x" + " \t" * 50_000
    assert find_number(f"{blanks}(#12)") is None
    assert find_title(f"{blanks}(#12)") == "x"
    assert find_number(f"Retry\n\n{blanks}(#12)") is None
