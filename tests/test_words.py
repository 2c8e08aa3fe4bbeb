"""Tests of printed text: it uses the readers' words and no internal terms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import memory_ci
from memory_ci.commands.doctor.doctor import CHECKS

pytestmark = pytest.mark.in_project

PACKAGE = Path(memory_ci.__file__).parent
PLACES = (
    "cli",
    "commands/*/command.py",
    "commands/*/text.py",
    "commands/doctor",
    "commands/health",
    "config.py",
)
OURS = re.compile(
    r"\b(?:cursors?|guards?|lexical|lanes?|own-commit|subject-only|reckon(?:s|ed)?|curve|heirs?|tombstones?|unanchored"
    r"|degraded|hearsay|retrievability|referee|tally|snapshots?|HIT|WEAK|MISS|docs/[a-z-]+\.md)\b"
)


def list_prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that contain words, except docstrings of anything but commands."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(body := getattr(node, "body", None), list)
        and not any(
            "command" in ast.unparse(decorator) for decorator in getattr(node, "decorator_list", ())
        )
        for statement in body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in silent
        ):
            yield from [(node.lineno, node.value)] if " " in node.value.strip() else []


@pytest.mark.parametrize("place", PLACES)
def test_no_internal_word_is_printed(place: str) -> None:
    matches = sorted(PACKAGE.glob(place))
    paths = [
        path
        for match in matches
        for path in ([match] if match.is_file() else sorted(match.rglob("*.py")))
    ]
    texts = [(path.name, line, text) for path in paths for line, text in list_prose(path)]
    assert texts, "there are texts"
    assert [(*where, match[0]) for *where, text in texts for match in OURS.finditer(text)] == []


def test_the_checks_of_doctor_have_names_of_the_readers() -> None:
    assert [name for name, *_ in CHECKS if OURS.search(name)] == []
