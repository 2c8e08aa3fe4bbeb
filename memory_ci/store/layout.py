"""Where memory lives: which path is a memory file, of which scope, and which file a target scope means."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from typing import get_args

from memory_ci.errors import UsageError
from memory_ci.records.config import ScopePatterns
from memory_ci.records.entry import ScopeName, ScopeOf

INBOX = ".memory/inbox"
EPISODES = ".memory/episodes"
LEGACY_TEAM = re.compile(
    r"projects/[^/]+/\.sessions/[^/]+/.+\.md"
)  # TeaParty's of before; read, never written.
GIT_NAMES = (".git", "git~1")
CONTROL = re.compile("[\x00-\x1f\x7f]")
# What HFS+ leaves out of a file name (git's utf8.c, next_hfs_char).
IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)
ORDER: tuple[ScopeName, ...] = (
    "session",
    "institutional",
    "project",
    "team",
)  # The first that matches decides.


def classify_scope(path: str, patterns: ScopePatterns) -> ScopeOf | None:
    """The scope whose memory file `path` is, or None. Total and pure: any string is a legal path.

    What may be read is more than what may be written, for which is_canonical_path stands.

    >>> classify_scope("src/api/MEMORY.md", ScopePatterns())
    ScopeOf(name='team', where='src/api')
    >>> classify_scope("../MEMORY.md", ScopePatterns()) is None
    True
    """
    clean = posixpath.normpath(path.replace("\\", "/"))
    if any(map(_is_guarded, clean.split("/"))) or clean.startswith((INBOX + "/", EPISODES + "/")):
        return None
    for name in ORDER:
        for pattern in getattr(patterns, name):
            match = _regex(pattern).fullmatch(clean)
            if match is not None:
                return ScopeOf(name, match.groupdict().get("where", ""))
    return ScopeOf("team", posixpath.dirname(clean)) if LEGACY_TEAM.fullmatch(clean) else None


def is_canonical_path(path: str) -> bool:
    """Whether `path` may be written: relative, in its only spelling, and to no place that a git of any system guards.

    The names are those of git's verify_path (read-cache.c, path.c): `.git` in any case, `git~1`, either with a stream
    of NTFS. Windows drops dots and blanks at the end of a name, so such a name is another one there.

    >>> [is_canonical_path(path) for path in ("src/MEMORY.md", "./MEMORY.md", "a//b", ".GIT/x", "a./b")]
    [True, False, False, False, False]
    """
    if CONTROL.search(path) or "\\" in path:
        return False
    return not any(_is_guarded(name) or name.endswith((".", " ")) for name in path.split("/"))


def _is_guarded(name: str) -> bool:
    """Whether a name in a path is none, leads elsewhere, or is git's own directory on some system."""
    return (
        name in ("", ".", "..")
        or name.translate(IGNORED).partition(":")[0].rstrip(". ").lower() in GIT_NAMES
    )


def is_fragment(path: str) -> bool:
    """Whether `path` is an inbox fragment: one entry that waits to be folded into its scope's file."""
    return posixpath.dirname(path) == INBOX and path.endswith(".md")


def fragment_path(entry_id: str) -> str:
    return f"{INBOX}/{entry_id}.md"


def memory_pathspecs(patterns: ScopePatterns) -> tuple[str, ...]:
    """Globs, `*` matching `/` too, that cover every memory file; classify_scope decides what they bring."""
    written = [pattern for name in ORDER for pattern in getattr(patterns, name)]
    globs = [re.sub(r"\{where\}|\*+", "*", pattern) for pattern in written]
    return tuple(dict.fromkeys([*globs, "projects/*/.sessions/*.md", f"{INBOX}/*.md"]))


def parse_target(target: str) -> ScopeOf:
    """A target scope as written in `scope:` and `--scope`: `project`, `team:src/api`, `session:job-7`. Raises
    UsageError (bad-scope) for an unknown name, a missing or needless place, or one that leaves the tree."""
    name, colon, where = target.partition(":")
    needs_place = name in ("team", "session")
    clean = posixpath.normpath(where) if where else ""
    escapes = needs_place and not is_canonical_path(clean)
    if name not in get_args(ScopeName) or needs_place != bool(colon and where) or escapes:
        hint = "Use project, institutional, global, team:<directory> or session:<job>."
        raise UsageError(f"{target!r} is not a scope", slug="bad-scope", hint=hint)
    return ScopeOf(name, clean)  # type: ignore[arg-type] # membership was checked just above


def is_legacy(path: str) -> bool:
    """Whether `path` is of the layout that is read and never written."""
    return LEGACY_TEAM.fullmatch(path) is not None


def serves_prose(path: str, patterns: ScopePatterns) -> bool:
    """Whether prose may stand beside entries: institutional memory is given whole, the old layout is only read."""
    scope = classify_scope(path, patterns)
    return is_legacy(path) or (scope is not None and scope.name == "institutional")


def scope_path(scope: ScopeOf, patterns: ScopePatterns) -> str | None:
    """The file that new entries of a scope go to, by the last of its patterns that gives one. None for global, which
    lies outside the repository, where no pattern gives a file of that scope, and for what is of the layout that is only
    read."""
    for pattern in reversed(getattr(patterns, scope.name, ())):
        path = pattern.replace("{where}", scope.where)
        if is_legacy(path):
            return None
        if "*" not in path and is_canonical_path(path) and classify_scope(path, patterns) == scope:
            return str(path)
    return None


@lru_cache(maxsize=64)
def _regex(pattern: str) -> re.Pattern[str]:
    special = {"{where}": "(?P<where>.+)", "**/": "(?:.+/)?", "**": ".*", "*": "[^/]*"}
    pieces = re.split(r"(\{where\}|\*\*/|\*\*|\*)", pattern)
    return re.compile("".join(special.get(piece, re.escape(piece)) for piece in pieces), re.DOTALL)
