"""Map paths of memory files to scopes (where their entries apply), and scopes to files."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from typing import get_args

from memory_ci.errors import UsageError
from memory_ci.records.config import ScopePatterns
from memory_ci.records.entry import ScopeName, ScopeOf
from memory_ci.regex import Regex

INBOX = ".memory/inbox"
EPISODES = ".memory/episodes"
RECORDED_FILE = f"{EPISODES}/recorded/ranges.md"
"""The file of the ranges that `record` has read (`store.ranges`)."""
INTENT_FILE = "INTENT.md"
"""The file that says which stage a project is in: at the root, and in each project's directory."""
# The files of earlier versions of TeaParty; they are read, but never written.
LEGACY_TEAM = Regex(r"projects/[^/]+/\.sessions/[^/]+/.+\.md")
GIT_NAMES = (".git", "git~1")
CONTROL = Regex("[\x00-\x1f\x7f]")
# Characters that HFS+ ignores in a file name (git's utf8.c, next_hfs_char).
IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)
SCOPE_ORDER: tuple[ScopeName, ...] = ("session", "institutional", "project", "team")
"""Scopes in the order in which their patterns are tried."""


def classify_scope(path: str, patterns: ScopePatterns) -> ScopeOf | None:
    """Return the scope of the memory file at a path: where its entries apply.

    None if there can be no memory file at the path. Any string may be a path. This decides which
    files are read; `is_canonical_path` decides which may be written, and allows fewer.

    Args:
        path: the path in the repository.
        patterns: the patterns of the paths of each scope.

    >>> classify_scope("src/api/MEMORY.md", ScopePatterns())
    ScopeOf(name='team', where='src/api')
    >>> classify_scope("../MEMORY.md", ScopePatterns()) is None
    True
    """
    normal_path = posixpath.normpath(path.replace("\\", "/"))
    if any(_is_guarded(name) for name in normal_path.split("/")):
        return None
    if normal_path.startswith((f"{INBOX}/", f"{EPISODES}/")):
        return None
    for scope_name in SCOPE_ORDER:
        scope_patterns: tuple[str, ...] = getattr(patterns, scope_name)
        for pattern in scope_patterns:
            match = _compile_pattern(pattern).fullmatch(normal_path)
            if match is not None:
                directory_or_job = match.groupdict().get("where", "")
                return ScopeOf(scope_name, directory_or_job)
    if LEGACY_TEAM.fullmatch(normal_path):
        return ScopeOf("team", posixpath.dirname(normal_path))
    return None


def is_canonical_path(path: str) -> bool:
    """Return whether a memory file may be written at `path`.

    It must be relative, without `.`, `..` or doubled slashes, and outside of git's own directory on
    any system. Git refuses the same names in verify_path (read-cache.c, path.c): `.git` in any
    case, `git~1`, either with a stream of NTFS. Windows drops dots and blanks at the end of a name,
    so such a name has two spellings there.

    >>> paths = ("src/MEMORY.md", "./MEMORY.md", "a//b", ".GIT/x", "a./b")
    >>> [is_canonical_path(path) for path in paths]
    [True, False, False, False, False]
    """
    if CONTROL.search(path) or "\\" in path:
        return False
    return not any(_is_guarded(name) or name.endswith((".", " ")) for name in path.split("/"))


def _is_guarded(name: str) -> bool:
    """Return whether a name in a path is empty, a dot, or git's own directory on some system."""
    if name in ("", ".", ".."):
        return True
    plain_name = name.translate(IGNORED).partition(":")[0].rstrip(". ")
    return plain_name.lower() in GIT_NAMES


def is_fragment(path: str) -> bool:
    """Return whether `path` is an inbox fragment: an entry not yet in the file of its scope."""
    return posixpath.dirname(path) == INBOX and path.endswith(".md")


def fragment_path(entry_id: str) -> str:
    """Return the path of the inbox fragment of an entry."""
    return f"{INBOX}/{entry_id}.md"


def memory_pathspecs(patterns: ScopePatterns) -> tuple[str, ...]:
    """Return pathspecs for git that match every memory file, and some others.

    `classify_scope` tells them apart. The `*` of a pathspec matches `/` too.
    """
    globs = [re.sub(r"\{where\}|\*+", "*", pattern) for pattern in list_patterns(patterns)]
    return tuple(dict.fromkeys([*globs, "projects/*/.sessions/*.md", f"{INBOX}/*.md"]))


def list_patterns(patterns: ScopePatterns) -> list[str]:
    """Return the patterns of all scopes, in the order in which they are tried."""
    all_patterns: list[str] = []
    for name in SCOPE_ORDER:
        all_patterns += getattr(patterns, name)
    return all_patterns


def parse_target(target: str) -> ScopeOf:
    """Parse a scope as people write it: `project`, `team:src/api`, `session:job-7`.

    Raises:
        UsageError: the name is unknown, the place is missing or needless, or leaves the tree
            (bad-scope).
    """
    name, _, where = target.partition(":")
    needs_place = name in ("team", "session")
    has_place = where != ""
    clean_path = posixpath.normpath(where) if where else ""
    leaves_tree = needs_place and not is_canonical_path(clean_path)
    if name not in get_args(ScopeName) or needs_place != has_place or leaves_tree:
        hint = "Use project, institutional, global, team:<directory> or session:<job>."
        raise UsageError(f"{target!r} is not a scope", slug="bad-scope", hint=hint)
    return ScopeOf(name, clean_path)  # type: ignore[arg-type] # membership was checked just above


def is_legacy(path: str) -> bool:
    """Return whether `path` is of the old layout, which is read and never written."""
    return LEGACY_TEAM.fullmatch(path) is not None


def may_have_prose(path: str, patterns: ScopePatterns) -> bool:
    """Return whether a file may have prose next to entries.

    Institutional memory is served whole, and the old layout is only read.
    """
    scope = classify_scope(path, patterns)
    return is_legacy(path) or (scope is not None and scope.name == "institutional")


def scope_path(scope: ScopeOf, patterns: ScopePatterns) -> str | None:
    """Return the path of the file into which new entries of a scope are written.

    The last pattern of the scope that names a single file counts, if entries in that file would be
    read with this scope again. None for a scope without such a pattern, for the scope `global`,
    which is outside the repository, and for a file of the old layout (LEGACY_TEAM).
    """
    scope_patterns: tuple[str, ...] = getattr(patterns, scope.name, ())
    for pattern in reversed(scope_patterns):
        path = pattern.replace("{where}", scope.where)
        if is_legacy(path):
            return None
        names_one_file = "*" not in path and is_canonical_path(path)
        if names_one_file and classify_scope(path, patterns) == scope:
            return path
    return None


@lru_cache(maxsize=64)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of a scope: a glob in which `{where}` is the directory or the job."""
    special = {"{where}": "(?P<where>.+)", "**/": "(?:.+/)?", "**": ".*", "*": "[^/]*"}
    parts = re.split(r"(\{where\}|\*\*/|\*\*|\*)", pattern)
    regex = "".join(special.get(part, re.escape(part)) for part in parts)
    return re.compile(regex, re.DOTALL)
