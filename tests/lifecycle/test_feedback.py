"""Tests of commands in comments: feedback of people on entries, and text that only looks like a command."""

from __future__ import annotations

import pytest

from memory_ci.lifecycle.episodes import find_commands

ID = "0f6f1f0e"


def list_commands(text: str) -> list[tuple[str, str]]:
    """Return the commands of a comment with their entry ids."""
    return list(find_commands(text))


@pytest.mark.parametrize(
    "text",
    [
        f"/memory reject {ID}",
        f"Thanks!\n\n  /memory rejected {ID.upper()}, it misled me",
        f"```\ncode\n```\n/memory reject {ID}",
        f"<!-- a note\n-->\n/memory reject {ID}",
        f"/memory reject {ID}\n```\n/memory confirm 11111111",
    ],
)
def test_a_command_is_read_at_the_start_of_a_line(text: str) -> None:
    assert list_commands(text) == [("rejected", ID)]


@pytest.mark.parametrize(
    "text",
    [
        f"```\n/memory reject {ID}\n```",
        f"~~~text\n/memory reject {ID}",
        f"    /memory reject {ID}",
        f"\t/memory reject {ID}",
        f"<!-- /memory reject {ID} -->",
        f"<!--\n/memory reject {ID}\n-->",
        f"<!--\n/memory reject {ID}",
        f"<!-- x -->/memory reject {ID}",
        f"> /memory reject {ID}",
        f"Say /memory reject {ID}",
        f"/memory reject {ID}xyz",
        f"/memory reject {ID}_1",
        "/memory reject " + "a" * 40,
        f"/memory praise {ID}",
        "/memory reject 0f6",
    ],
)
def test_quoted_hidden_and_misspelt_commands_are_ignored(text: str) -> None:
    assert list_commands(text) == []
