"""Cites: anchors in the code that an entry speaks about, so that it can later be told whether it still holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from memory_ci.extraction.gate import check_words

SHA_WIDTH = 12
MAX_UNNAMED = 3
"""A small commit is about its files even where its text names none; a large one is not."""

PROSE = re.compile(
    r".*\.(?:md|mdx|rst|txt|adoc|lock|sum)|(?:.*/)?(?:LICENSE|CHANGELOG|package-lock\.json)[^/]*", re.IGNORECASE
)
LINES = r"(?::(?P<lines>\d+(?:-\d+)?))?"


def find_cites(text: str, paths: Sequence[str], sha: str) -> tuple[str, ...]:
    """Anchors `path[:first-last]@sha` for the `paths` that `text` names (whole, or by a base name that is unique),
    else for all code files of the commit if it touched no more than three.

    A path that is not UTF-8, holds control characters or words that the gate refuses is nobody's anchor.
    """
    paths = [path for path in paths if path.isprintable()]
    basenames = Counter(_basename(path) for path in paths)
    named = (_named(text, path, basenames[_basename(path)] == 1) for path in paths)
    places = [place for place in named if place] or _few_code_files(paths)
    cites = (f"{place}@{sha[:SHA_WIDTH]}" for place in places)
    return tuple(cite for cite in cites if not check_words(cite))


def _named(text: str, path: str, is_unique: bool) -> str | None:
    """`path` with the lines that `text` gives for it, if it names it."""
    names = [path, *([_basename(path)] if is_unique and "." in _basename(path) else [])]
    names = [re.escape(name) for name in names if name in text]
    if not names:  # as of nearly all paths of a large commit: no pattern is made for them
        return None
    match = re.search(rf"(?<![\w./-])(?:{'|'.join(names)}){LINES}(?![\w/]|[.-]\w)", text)
    if match is None:
        return None
    return f"{path}:{match['lines']}" if match["lines"] else path


def _few_code_files(paths: Sequence[str]) -> list[str]:
    code = [path for path in paths if not PROSE.fullmatch(path)]
    return code if len(code) <= MAX_UNNAMED else []


def _basename(path: str) -> str:
    return path.rpartition("/")[2]
