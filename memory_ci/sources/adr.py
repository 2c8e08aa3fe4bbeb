"""Architecture decision records that a merged change added: a decision its author wrote down whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memory_ci.records.event import Event, Origin
from memory_ci.records.history import MergedChange
from memory_ci.sources.commits import author_of

TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]/]+\]|.", re.DOTALL)
WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def adr_paths_added(change: MergedChange, patterns: Iterable[str]) -> tuple[str, ...]:
    """Paths that `change` added (git status A) and that match one of `patterns`, each once, in order.

    `*` and `?` stay inside one path segment, `**/` is any number of segments, `[0-9]` is a class.
    """
    globs = [_compile(pattern) for pattern in patterns]
    added = (file.path for commit in change.commits for file in commit.files if file.status == "A")
    return tuple(dict.fromkeys(path for path in added if any(glob.fullmatch(path) for glob in globs)))


def adr_event(change: MergedChange, path: str, text: str) -> Iterator[Event]:
    """The event of one added decision record; `text` is the file as of the tip of `change`."""
    yield Event(
        seq=0,
        at=change.tip.committed_at,
        actor="human",
        kind="adr",
        text=text,
        origin=Origin(kind="commit", id=change.tip.sha, path=path),
        author=author_of(change.tip),
        paths=(path,),
    )


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_translate(token) for token in TOKEN.findall(pattern)))


def _translate(token: str) -> str:
    if token.startswith("[") and len(token) > 1:
        return token.replace("[!", "[^", 1)
    return WILDCARDS.get(token) or re.escape(token)
