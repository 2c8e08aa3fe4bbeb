"""The cites of an entry: files and lines of code that its text names, at a commit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from memory_ci.extraction.gate import check_words
from memory_ci.regex import Regex

SHA_WIDTH = 12
"""Number of characters of a short commit id."""

MAX_CODE_FILES = 20
"""Number of code files of a commit that all get an anchor; of more only those that are named."""

NOT_CODE = Regex(
    r"(?i).*\.(?:md|mdx|rst|txt|adoc|lock|sum|snap|svg|map|min\.(?:js|css))"
    r"|(?:.*/)?(?:LICENSE|CHANGELOG|package-lock\.json|pnpm-lock\.yaml)[^/]*"
    r"|(?:.*/)?\.memory(?:/.*|-ci\.yaml)"
    r"|.*[._]pb2?\.\w+"
)
"""Paths of documents, lock files, generated text, and memory itself."""

LINES = r"(?::(?P<lines>\d+(?:-\d+)?))?"


def find_cites(text: str, paths: Sequence[str], sha: str) -> tuple[str, ...]:
    """Return addresses `path[:first-last]@sha` of the code that an entry may be about (its cites).

    They are of the files that the text names, and, if the commit has few code files, of all of
    these. Later steps read the files and keep the addresses that fit. A path gets none if it is not
    UTF-8, has control characters, or must not be written to a memory file.

    Args:
        text: the text of the entry.
        paths: the files of the commit.
        sha: the commit.
    """
    printable = [path for path in paths if path.isprintable()]
    places = find_named_places(text, printable)
    code_paths = [path for path in printable if not NOT_CODE.fullmatch(path)]
    if len(code_paths) <= MAX_CODE_FILES:
        for path in code_paths:
            places.setdefault(path, path)
    cites = [f"{place}@{sha[:SHA_WIDTH]}" for place in places.values()]
    return tuple(cite for cite in cites if not check_words(cite))


def find_named_places(text: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the paths that a text names, each with the lines that it gives (`path[:first-last]`).

    A base name counts as well if it has an extension and is unique among the paths.

    Args:
        text: the text.
        paths: the paths to look for.
    """
    base_names = {path: path.rpartition("/")[2] for path in paths}
    counts = Counter(base_names.values())
    places: dict[str, str] = {}
    for path, base_name in base_names.items():
        names = [path]
        if counts[base_name] == 1 and "." in base_name:
            names.append(base_name)
        # Of a large commit hardly any path is named, so most need no pattern.
        patterns = [re.escape(name) for name in names if name in text]
        if not patterns:
            continue
        any_name = "|".join(patterns)
        match = re.search(rf"(?<![\w./-])(?:{any_name}){LINES}(?![\w/]|[.-]\w)", text)
        if match:
            places[path] = f"{path}:{match['lines']}" if match["lines"] else path
    return places
