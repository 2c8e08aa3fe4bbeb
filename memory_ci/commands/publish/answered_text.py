"""Answers in the text of a memory pull request: the boxes that people ticked, and comments."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from memory_ci.commands.publish.text import CLOSED
from memory_ci.lifecycle.relations import MIN_PREFIX
from memory_ci.memory.maintainer_decisions import Boxes
from memory_ci.regex import Regex
from memory_ci.text import strip_comments, unfenced_lines

KEYS = Regex(r"\A<!-- memory-ci holds:(?P<keys>(?: [0-9a-f]+)*) -->$", re.MULTILINE)
"""The first line, which a forge does not show: the keys of all that the pull request proposes."""

LAST_COMMENT = Regex(r"^<!-- memory-ci read comments: (\d{1,18}) -->$", re.MULTILINE | re.ASCII)
"""The second line, which a forge does not show: the number of the last comment that was applied."""

MAX_LINES = 100
"""Number of lines that are read of one comment, and of keys that are read of one line."""

BOX = Regex(
    r"^- \[(?P<mark>[ xX~])\] .*<!-- (?P<kind>entry|candidate|rejected) (?P<key>[\w-]+) -->$",
    re.MULTILINE | re.ASCII,
)
"""A line with a box, and a comment with its subject. A click on the box changes only the mark."""

COMMAND = Regex(
    r"^/memory[ \t]+(?P<verb>[a-z]+)(?P<keys>(?:[ \t]+[\w-]+)+)[ \t]*$", re.MULTILINE | re.ASCII
)
"""A line of a comment: `/memory drop 3f2ab91c 9d0c3f2a`."""
EFFECT_OF_VERB = {
    "accept": (("candidate",), "x"),
    "drop": (("entry", "candidate"), " "),
    "restore": (("rejected",), "x"),
}
"""The verbs of comments: the kinds of box that a verb applies to, and the mark that it sets."""


def parse_keys(text: str) -> frozenset[str]:
    """Return the keys in the text of a pull request; none if the text is not by memory-ci."""
    match = KEYS.search(_unify_newlines(text))
    return frozenset(match["keys"].split()) if match else frozenset()


def parse_boxes(text: str) -> Boxes:
    """Return the boxes that people ticked and unticked in the text of a pull request.

    The result is empty if memory-ci closed the request.
    """
    if text.startswith(CLOSED.strip()):
        return Boxes()
    accepted_keys: set[str] = set()
    unticked_ids: set[str] = set()
    withdrawn_keys: set[str] = set()
    for box in BOX.finditer(_unify_newlines(text)):
        is_ticked = box["mark"] in "xX"
        if box["kind"] == "candidate" and is_ticked:
            accepted_keys.add(box["key"])
        elif box["kind"] == "entry" and not is_ticked:
            unticked_ids.add(box["key"])
        elif box["kind"] == "rejected" and is_ticked:
            withdrawn_keys.add(box["key"])
    return Boxes(frozenset(accepted_keys), frozenset(unticked_ids), frozenset(withdrawn_keys))


def parse_last_comment(text: str) -> int:
    """Return the number of the last comment that is applied in a text; 0 if it has none."""
    match = LAST_COMMENT.search(_unify_newlines(text))
    return int(match[1]) if match else 0


def apply_comments(text: str, comments: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Tick and untick the boxes of a request's text, as commands in comments ask.

    A line `/memory drop KEY…` unticks the box whose key begins with KEY, if there is only one. The
    last command for a box counts. A key of fewer than MIN_PREFIX characters may be a plain word, so
    it names no box.

    Args:
        text: the text of the request.
        comments: the comments, the oldest first.

    Returns:
        The text, and the command lines with an unknown verb or a key of no box.
    """
    text = _unify_newlines(text)
    unclear: list[str] = []
    for comment in comments:
        for visible_line in _list_visible_lines(comment):
            line = visible_line.strip(" \t`")
            command = COMMAND.fullmatch(line)
            if command is None:
                if line.startswith("/memory"):
                    unclear.append(line)
                continue
            # An unknown verb applies to no kind of box, so its keys are unclear.
            kinds, mark = EFFECT_OF_VERB.get(command["verb"], ((), ""))
            for key in command["keys"].split()[:MAX_LINES]:
                position = _find_mark(text, kinds, key)
                if position is None:
                    unclear.append(line)
                else:
                    text = text[:position] + mark + text[position + 1 :]
    return text, tuple(dict.fromkeys(unclear))


def _find_mark(text: str, kinds: Collection[str], prefix: str) -> int | None:
    """Return the position in a text of the mark of one box (`x` in `- [x]`).

    Args:
        text: the text.
        kinds: the kinds of boxes to look at.
        prefix: the beginning of the box's key.

    Returns:
        The position; None if no box has such a key, or if several have.
    """
    if len(prefix) < MIN_PREFIX:
        return None
    positions: list[int] = []
    for box in BOX.finditer(text):
        if box["kind"] in kinds and box["key"].startswith(prefix):
            positions.append(box.start("mark"))
    return positions[0] if len(positions) == 1 else None


def _list_visible_lines(comment: str) -> list[str]:
    """Return the first lines of a comment, with code and HTML comments blanked."""
    text = strip_comments(_unify_newlines(comment), keeps_lines=True)
    return list(unfenced_lines(text.splitlines()))[:MAX_LINES]


def _unify_newlines(text: str) -> str:
    return text.replace("\r\n", "\n")
