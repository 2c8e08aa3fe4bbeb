"""The configuration of the merge driver in git: its command, and the paths that it merges."""

from __future__ import annotations

import json
import re
import shlex

from memory_ci.records.config import ScopePatterns
from memory_ci.store.layout import EPISODES, INBOX, list_patterns

SECTION = "merge.memory-ci"
ATTRIBUTES = ".gitattributes"


def driver_command(python: str) -> str:
    """Return the shell command of the merge driver.

    Where memory-ci can no longer be imported, it is git's own merge of lines. `-P` keeps modules in
    the merged work tree out of the interpreter's path.

    Args:
        python: the path of the interpreter.
    """
    ours = f"{shlex.quote(python).replace('%', '%%')} -P"
    is_importable = f"{ours} -c 'import memory_ci' 2>/dev/null"
    merge = f"{ours} -m memory_ci hook merge %O %A %B %P"
    return f"if {is_importable}; then {merge}; else git merge-file %A %O %B || exit 1; fi"


def attribute_lines(patterns: ScopePatterns) -> tuple[str, ...]:
    """Return the lines that assign memory files and episodes to the driver (gitattributes(5))."""
    globs = [*list_patterns(patterns), f"{INBOX}/*.md", f"{EPISODES}/*/*.md"]
    lines = [f"{_format_glob(glob)} merge=memory-ci" for glob in globs]
    return tuple(dict.fromkeys(lines))


def _format_glob(pattern: str) -> str:
    """Return a scope pattern as a pattern of gitattributes."""
    glob = re.sub(r"([\[?\\])", r"\\\1", pattern)
    glob = re.sub(r"(?<![^/])\{where\}(?![^/])", "**", glob).replace("{where}", "*")
    glob = f"/{glob}"
    return json.dumps(glob, ensure_ascii=False) if re.search(r'[\s"]', glob) else glob
