"""How git is told of the merge driver: its command, and the paths it merges."""

from __future__ import annotations

import json
import re
import shlex

from memory_ci.records.config import ScopePatterns
from memory_ci.store.layout import EPISODES, INBOX, ORDER

SECTION = "merge.memory-ci"


ATTRIBUTES = ".gitattributes"


def driver_command(python: str) -> str:
    """The shell command of the driver. Where memory-ci cannot be imported any more, it is git's own merge of lines.
    `-P` keeps modules that lie in the merged work tree out of the interpreter's path."""
    ours = f"{shlex.quote(python).replace('%', '%%')} -P"
    merge = f"{ours} -m memory_ci hook merge %O %A %B %P"
    return f"if {ours} -c 'import memory_ci' 2>/dev/null; then {merge}; else git merge-file %A %O %B || exit 1; fi"


def attribute_lines(patterns: ScopePatterns) -> tuple[str, ...]:
    """The lines that give memory files and episodes to the driver (gitattributes(5)), for the scopes as configured."""
    written = [pattern for name in ORDER for pattern in getattr(patterns, name)]
    globs = [
        re.sub(r"([\[?\\])", r"\\\1", pattern)
        for pattern in [*written, f"{INBOX}/*.md", f"{EPISODES}/*/*.md"]
    ]
    globs = [
        "/" + re.sub(r"(?<![^/])\{where\}(?![^/])", "**", glob).replace("{where}", "*")
        for glob in globs
    ]
    quoted = [
        json.dumps(glob, ensure_ascii=False) if re.search(r'[\s"]', glob) else glob
        for glob in globs
    ]
    return tuple(dict.fromkeys(f"{glob} merge=memory-ci" for glob in quoted))
