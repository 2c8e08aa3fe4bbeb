"""Cites: anchors in the code that an entry speaks about, so that it can later be told whether it still holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from memory_ci.extraction.gate import check_words

SHA_WIDTH = 12
MAX_SEARCHED = (
    20  # Of a commit with more code files, only those are looked into that the text names.
)
# Documents, lock files, generated text, and what is memory itself.
NO_CODE = re.compile(
    r"(?i).*\.(?:md|mdx|rst|txt|adoc|lock|sum|snap|svg|map|min\.(?:js|css))"
    r"|(?:.*/)?(?:LICENSE|CHANGELOG|package-lock\.json|pnpm-lock\.yaml)[^/]*|(?:.*/)?\.memory(?:/.*|-ci\.yaml)"
    r"|.*[._]pb2?\.\w+"
)
LINES = r"(?::(?P<lines>\d+(?:-\d+)?))?"


def find_cites(text: str, paths: Sequence[str], sha: str) -> tuple[str, ...]:
    """Anchors `path[:first-last]@sha` for the `paths` that `text` names, and for all code files of a commit of few.
    These say where to look for what the entry is about, which is chosen where files can be read. A path that is not
    UTF-8, holds control characters or words that the gate refuses is nobody's anchor."""
    paths = [path for path in paths if path.isprintable()]
    named = name_places(text, paths)
    code = [path for path in paths if not NO_CODE.fullmatch(path)]
    places = named | {
        path: path for path in code if path not in named and len(code) <= MAX_SEARCHED
    }
    cites = (f"{place}@{sha[:SHA_WIDTH]}" for place in places.values())
    return tuple(cite for cite in cites if not check_words(cite))


def name_places(text: str, paths: Sequence[str]) -> dict[str, str]:
    """Those of `paths` that `text` names, whole or by a base name that is unique, each with the lines that it gives."""
    bases = {path: path.rpartition("/")[2] for path in paths}
    counts = Counter(bases.values())
    found: dict[str, str] = {}
    for path, base in bases.items():
        called = (path, base) if counts[base] == 1 and "." in base else (path,)
        names = [re.escape(name) for name in called if name in text]
        if not names:  # as of nearly all paths of a large commit: no pattern is made for them
            continue
        if match := re.search(rf"(?<![\w./-])(?:{'|'.join(names)}){LINES}(?![\w/]|[.-]\w)", text):
            found[path] = f"{path}:{match['lines']}" if match["lines"] else path
    return found
