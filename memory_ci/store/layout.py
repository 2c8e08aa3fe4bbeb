"""Where memory lives: which path is a memory file, of which scope, and which file a target scope means."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import get_args

from memory_ci.errors import UsageError
from memory_ci.records.config import ScopePatterns
from memory_ci.records.entry import ScopeName, ScopeOf

INBOX = ".memory/inbox"
EPISODES = ".memory/episodes"
LEGACY_TEAM = re.compile(r"projects/[^/]+/\.sessions/[^/]+/.+\.md")
"""Team memory of TeaParty before its repositories were flattened; read, never written."""

ORDER: tuple[ScopeName, ...] = ("session", "institutional", "project", "team")
"""The scopes in the order their patterns are tried: the first that matches decides."""


def classify_scope(path: str, patterns: ScopePatterns) -> ScopeOf | None:
    """The scope whose memory file `path` is, or None. Total and pure: any string is a legal path.

    >>> classify_scope("src/api/MEMORY.md", ScopePatterns())
    ScopeOf(name='team', where='src/api')
    >>> classify_scope("../MEMORY.md", ScopePatterns()) is None
    True
    """
    clean = posixpath.normpath(path.replace("\\", "/"))
    if clean.startswith(("/", "../")) or clean.startswith((INBOX + "/", EPISODES + "/", ".git/")):
        return None
    for name in ORDER:
        for pattern in getattr(patterns, name):
            match = _regex(pattern).fullmatch(clean)
            if match is not None:
                return ScopeOf(name, match.groupdict().get("where", ""))
    return ScopeOf("team", posixpath.dirname(clean)) if LEGACY_TEAM.fullmatch(clean) else None


def is_fragment(path: str) -> bool:
    """Whether `path` is an inbox fragment: one entry that waits to be folded into its scope's file."""
    return posixpath.dirname(path) == INBOX and path.endswith(".md")


def fragment_path(entry_id: str) -> str:
    """The inbox file of an entry."""
    return f"{INBOX}/{entry_id}.md"


def memory_pathspecs(patterns: ScopePatterns) -> tuple[str, ...]:
    """Globs, `*` matching `/` too, that cover every memory file; classify_scope decides what they bring."""
    written = [pattern for name in ORDER for pattern in getattr(patterns, name)]
    globs = [re.sub(r"\{where\}|\*+", "*", pattern) for pattern in written]
    return tuple(dict.fromkeys([*globs, "projects/*/.sessions/*.md", f"{INBOX}/*.md"]))


def parse_target(target: str) -> ScopeOf:
    """A target scope as written in `scope:` and `--scope`: `project`, `team:src/api`, `session:job-7`.

    Raises UsageError (bad-scope) for an unknown name, a missing or needless place, or one that leaves the tree.
    """
    name, colon, where = target.partition(":")
    needs_place = name in ("team", "session")
    clean = posixpath.normpath(where) if where else ""
    escapes = clean.startswith(("/", "..")) or ".git" in clean.split("/") or bool(re.search(r"[\x00-\x1f]", clean))
    if name not in get_args(ScopeName) or needs_place != bool(colon and where) or clean == "." or escapes:
        raise UsageError(
            f"{target!r} is not a scope",
            slug="bad-scope",
            hint="Use project, institutional, global, team:<directory> or session:<job>.",
        )
    return ScopeOf(name, clean)  # type: ignore[arg-type] # membership was checked just above


def format_target(scope: ScopeOf) -> str:
    """The inverse of parse_target."""
    return f"{scope.name}:{scope.where}" if scope.where else scope.name


def is_legacy(path: str) -> bool:
    """Whether `path` is of the layout that is read and never written."""
    return LEGACY_TEAM.fullmatch(path) is not None


def scope_path(scope: ScopeOf, patterns: ScopePatterns) -> str | None:
    """The file that new entries of a scope go to, by the last of its patterns that gives one.

    None for global, which lies outside the repository, and where no pattern gives a file of that scope.
    """
    for pattern in reversed(getattr(patterns, scope.name, ())):
        path = pattern.replace("{where}", scope.where)
        if "*" not in path and classify_scope(path, patterns) == scope:
            return str(path)
    return None


@lru_cache(maxsize=64)
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_pieces(pattern)), re.DOTALL)


def _pieces(pattern: str) -> Iterator[str]:
    for piece in re.split(r"(\{where\}|\*\*/|\*\*|\*)", pattern):
        special = {"{where}": "(?P<where>.+)", "**/": "(?:.+/)?", "**": ".*", "*": "[^/]*"}
        yield special.get(piece, re.escape(piece))
