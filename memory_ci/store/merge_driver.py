"""Configure git's merge driver for memory files: its command, and the paths that it merges."""

from __future__ import annotations

import json
import re
import shlex

from memory_ci.records.config import ScopePatterns
from memory_ci.store.layout import EPISODES, INBOX, list_patterns

SECTION = "merge.memory-ci"
ATTRIBUTES = ".gitattributes"


def driver_command(python: str) -> str:
    """Return the shell command of the merge driver, in which git replaces %O, %A, %B and %P.

    If memory-ci can no longer be imported, git's own merge of lines runs instead. `-P` keeps
    modules in the merged work tree out of the interpreter's path.

    Args:
        python: the path of the interpreter.
    """
    interpreter = f"{shlex.quote(python).replace('%', '%%')} -P"
    is_importable = f"{interpreter} -c 'import memory_ci' 2>/dev/null"
    merge = f"{interpreter} -m memory_ci hook merge %O %A %B %P"
    return f"if {is_importable}; then {merge}; else git merge-file %A %O %B || exit 1; fi"


def attribute_lines(patterns: ScopePatterns) -> tuple[str, ...]:
    """Return the lines that assign memory files and episodes to the driver (gitattributes(5))."""
    globs = [*list_patterns(patterns), f"{INBOX}/*.md", f"{EPISODES}/*/*.md"]
    lines = [f"{_format_glob(glob)} merge=memory-ci" for glob in globs]
    return tuple(dict.fromkeys(lines))


def _format_glob(pattern: str) -> str:
    """Convert a pattern of a scope to one of gitattributes."""
    escaped = re.sub(r"([\[?\\])", r"\\\1", pattern)
    # As a whole name `{where}` may be several directories, within a name it has no slash.
    with_directories = re.sub(r"(?<![^/])\{where\}(?![^/])", "**", escaped)
    glob = "/" + with_directories.replace("{where}", "*")
    needs_quotes = re.search(r'[\s"]', glob) is not None
    return json.dumps(glob, ensure_ascii=False) if needs_quotes else glob
