"""Tests of adding a trailer to a commit message: git itself must read it afterwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.gitrepo.trailers import SCISSORS, add_ids
from tests.repos import RepoBuilder

KEY = "Memory-Retrieved"
HASH = ("#",)

PLACES = {
    "a subject": ("Do it\n", "Do it\n\n+\n"),
    "no line end": ("Do it", "Do it\n\n+\n"),
    "a body": ("Do it\n\nBecause.\n", "Do it\n\nBecause.\n\n+\n"),
    "a subject that looks like a trailer": ("fix: it\n", "fix: it\n\n+\n"),
    "a trailer block": (
        "Do it\n\nReviewed-by: A\nFixes: 1\n",
        "Do it\n\nReviewed-by: A\nFixes: 1\n+\n",
    ),
    "a folded trailer": (
        "Do it\n\nReviewed-by: A\n and B\n",
        "Do it\n\nReviewed-by: A\n and B\n+\n",
    ),
    "a signature beside prose": (
        "Do it\n\nprose\nmore\nSigned-off-by: A\n",
        "Do it\n\nprose\nmore\nSigned-off-by: A\n+\n",
    ),
    "a trailer beside prose": ("Do it\n\nprose\nFixes: 1\n", "Do it\n\nprose\nFixes: 1\n\n+\n"),
    "a line of dashes": ("Do it\n\n---\nnot a patch\n", "Do it\n\n---\nnot a patch\n\n+\n"),
    "comments": (
        "Do it\n\n# Please enter\n#\n# a: b\n",
        "Do it\n\n+\n\n# Please enter\n#\n# a: b\n",
    ),
    "a comment in a block": ("Do it\n\nA: b\n# c\nD: e\n", "Do it\n\nA: b\n# c\nD: e\n+\n"),
    "a diff": (
        f"Do it\n\n# {SCISSORS}\n# all below is dropped\ndiff --git a b\n+A: b\n",
        f"Do it\n\n+\n\n# {SCISSORS}\n# all below is dropped\ndiff --git a b\n+A: b\n",
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_the_trailer_comes_after_the_text_and_before_the_comments(case: str) -> None:
    before, after = PLACES[case]
    expected = after.replace("+\n", f"{KEY}: a1, b2\n", 1)
    assert add_ids(before, KEY, ("a1", "b2"), HASH) == expected
    assert add_ids(expected, KEY, ("a1", "b2"), HASH) == expected, "twice is once"


@pytest.mark.parametrize("case", PLACES)
def test_git_finds_the_trailer_and_all_earlier_trailers(case: str, builder: RepoBuilder) -> None:
    def trailers(message: str) -> list[str]:
        args = (
            "commit",
            "-q",
            "--allow-empty",
            "--cleanup=scissors" if SCISSORS in message else "--cleanup=strip",
        )
        builder.git(*args, "-F", "-", input=message.encode())
        return builder.git("log", "-1", "--format=%(trailers:only)").split("\n\n")[0].splitlines()

    before = trailers(PLACES[case][0])
    after = add_ids(PLACES[case][0], KEY, ("a1",), HASH)
    assert after is not None
    assert [line for line in trailers(after) if line] == [*filter(None, before), f"{KEY}: a1"]


def test_ids_are_added_to_those_of_an_earlier_trailer() -> None:
    cut = add_ids(f"Do it\n\n{KEY}: a1,\n# c\n b2\n", KEY, ("c3",), HASH)
    assert cut == f"Do it\n\n# c\n{KEY}: a1, b2, c3\n", (
        "git takes comments out before it reads trailers"
    )
    before = f"Do it\n\n{KEY.lower()}: a1,\n b2\nReviewed-by: A\n"
    assert (
        add_ids(before, KEY, ("b2", "c3"), HASH) == f"Do it\n\nReviewed-by: A\n{KEY}: a1, b2, c3\n"
    )


@pytest.mark.parametrize(
    "message", ["", "\n", "\n# Please\n", f"\n# {SCISSORS}\ndiff --git a b\n", "#\n \n"]
)
def test_a_message_without_text_gets_no_trailer(message: str) -> None:
    assert add_ids(message, KEY, ("a1",), HASH) is None


def test_comments_start_with_the_configured_sign() -> None:
    assert add_ids("; c\n", KEY, ("a1",), (";",)) is None
    assert add_ids(f"// {SCISSORS}\ntext\n", KEY, ("a1",), ("//",)) is None
    assert add_ids("# text\n; c\n", KEY, ("a1",), (";",)) == f"# text\n\n{KEY}: a1\n; c\n"


LINES = st.sampled_from(
    [
        "",
        "word",
        "Fixes: 1",
        f"{KEY}: z9",
        " more",
        "# c",
        "---",
        "Signed-off-by: A",
        f"# {SCISSORS}",
    ]
)


@given(st.lists(LINES, max_size=8))
def test_adding_a_trailer_loses_no_text_and_is_idempotent(lines: list[str]) -> None:
    message = "\n".join(lines)
    once = add_ids(message, KEY, ("a1",), HASH)
    if once is not None:
        assert add_ids(once, KEY, ("a1",), HASH) == once
        kept_lines = [line for line in once.split("\n") if line and not line.startswith((KEY, " "))]
        assert kept_lines == [line for line in lines if line and not line.startswith((KEY, " "))]
