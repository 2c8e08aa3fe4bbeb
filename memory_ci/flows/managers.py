"""Tools that manage the hooks of a clone from a file of the repository: recognised, told what to add, never written to.

What is added there is committed: it calls `memory-ci` by name, and does nothing on a machine without it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from memory_ci.flows.stepping import read_text

LEFTHOOK = [
    f"{place}lefthook.{notation}" for place in ("", ".", ".config/") for notation in ("yml", "yaml", "toml", "json")
]
HUSKY = ".husky"
CALL = "memory-ci hook"
WITH_ARGUMENT = ("prepare-commit-msg", "pre-push")
"""Hooks with work of their own, for which they need git's first argument; the others bring the index up."""


class Manager(msgspec.Struct, frozen=True):
    """A tool that manages hooks, and what is to be added for ours: a text for each file, none if all is there."""

    tool: str
    additions: dict[str, str]


def find_manager(root: Path, hooks: Sequence[str]) -> Manager | None:
    """The tool that the top of a work tree is set up for, lefthook or husky.

    Raises RepositoryError (not-a-file).
    """
    settings = next((path for path in LEFTHOOK if (root / path).exists()), None)
    if settings is not None:
        text = read_text(root / settings)
        missing = "".join(_lefthook(hook) for hook in hooks if not _block(hook).search(text))
        return Manager("lefthook", {settings: missing} if missing else {})
    if (root / HUSKY).is_dir():
        missing_in = [hook for hook in hooks if CALL not in read_text(root / HUSKY / hook)]
        return Manager("husky", {f"{HUSKY}/{hook}": f"{hook_line(hook)}\n" for hook in missing_in})
    return None


def hook_line(hook: str, argument: str = '"$1"') -> str:
    """What to write into a hook that is a script of sh."""
    work = f"{hook} {argument}" if hook in WITH_ARGUMENT else "sync"
    return f"! command -v memory-ci >/dev/null || {CALL} {work}"


def _block(hook: str) -> re.Pattern[str]:
    """Our call under the hook's name in YAML: up to the next line that begins with neither a blank nor a comment."""
    return re.compile(rf"^{hook}:.*(?:\n(?:[ \t#].*)?)*?{CALL}", re.MULTILINE)


def _lefthook(hook: str) -> str:
    """A command of lefthook, which puts the arguments of git's hook in for {1}, {2} ..."""
    return f"{hook}:\n  commands:\n    memory-ci:\n      run: '{hook_line(hook, '{1}')}'\n"
