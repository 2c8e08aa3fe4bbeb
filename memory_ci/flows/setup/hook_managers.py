"""Tools that manage the hooks of a clone by a file of the repository: found, never written to.

The user is told what to add. That is committed: it calls `memory-ci` by name, and does nothing on a machine without it.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from memory_ci.flows.setup.steps import read_text

ARGUMENTS = ["-P", "-m", "memory_ci"]
"""What follows the interpreter in everything that `install` writes."""

LEFTHOOK = [
    f"{place}lefthook.{notation}" for place in ("", ".", ".config/") for notation in ("yml", "yaml", "toml", "json")
]
HUSKY = ".husky"
CALL = "memory-ci hook"
WITH_ARGUMENT = ("prepare-commit-msg", "pre-commit", "pre-push")
"""Hooks with work of their own, for which most need git's first argument; the others bring the index up."""

WITH_INPUT = ("pre-push",)
"""Hooks that git tells more by standard input."""


def find_interpreter(text: str) -> str | None:
    """The interpreter that a text of sh calls memory-ci with, None where none is called by its path."""
    marked = " ".join(ARGUMENTS)
    return next((python for line in text.splitlines() if marked in line for python in _read_line(line)), None)


def _read_line(line: str) -> Iterator[str]:
    words = _split(line)
    for place in range(1, len(words)):
        if words[place : place + len(ARGUMENTS)] == ARGUMENTS:
            yield words[place - 1]


def _split(line: str) -> list[str]:
    """The words of a line of sh, quotes and comments taken away; none if a quote stays open."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return []


def list_texts(value: object) -> Iterator[str]:
    """Every text in a value of JSON or TOML, but for keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from list_texts(part)


def without_comments(text: str) -> str:
    """The text without comments, which begin with a `#` that begins a word: in sh, YAML and TOML alike."""
    return re.sub(r"(?m)(?:^|[ \t])#.*$", "", text)


class Manager(msgspec.Struct, frozen=True):
    """A tool that manages hooks, what is to be added for ours: a text for each file, none if all is there.

    `remedy` puts the tool into the clone: what stands in its file alone is never run.
    """

    tool: str
    additions: dict[str, str]
    remedy: str = ""


def find_manager(root: Path, hooks: Sequence[str]) -> Manager | None:
    """The tool that the top of a work tree is set up for, lefthook or husky.

    Raises RepositoryError (not-a-file).
    """
    settings = next((path for path in LEFTHOOK if (root / path).exists()), None)
    if settings is not None:
        notation = settings.rpartition(".")[2]
        called = _list_called(read_text(root / settings), notation, hooks)
        missing = _write_lefthook([hook for hook in hooks if hook not in called], notation)
        return Manager("lefthook", {settings: missing} if missing else {}, "lefthook install")
    if (root / HUSKY).is_dir():
        missing_in = [hook for hook in hooks if CALL not in without_comments(read_text(root / HUSKY / hook))]
        additions = {f"{HUSKY}/{hook}": f"{hook_line(hook)}\n" for hook in missing_in}
        return Manager("husky", additions, "npx husky")
    return None


def hook_line(hook: str, argument: str = '"$1"') -> str:
    """What to write into a hook that is a script of sh."""
    work = f"{hook} {argument}" if hook in WITH_ARGUMENT else "sync"
    return f"! command -v memory-ci >/dev/null || {CALL} {work}"


# -- lefthook, in any of its notations


def _list_called(text: str, notation: str, hooks: Sequence[str]) -> set[str]:
    """The hooks under whose name memory-ci is called."""
    if notation in ("toml", "json"):
        settings = _parse(text, notation)
        return {hook for hook in hooks if CALL in "\n".join(list_texts(settings.get(hook)))}
    plain = without_comments(text)
    return {hook for hook in hooks if _block(hook).search(plain)}


def _parse(text: str, notation: str) -> Mapping[str, object]:
    """The settings; none where they cannot be read, which is lefthook's to say."""
    try:
        found = tomllib.loads(text) if notation == "toml" else msgspec.json.decode(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _block(hook: str) -> re.Pattern[str]:
    """Our call under the hook's name in YAML: up to the next line that begins with no blank."""
    return re.compile(rf"^{hook}:.*(?:\n(?:[ \t].*)?)*?{CALL}", re.MULTILINE)


def _write_lefthook(hooks: Sequence[str], notation: str) -> str:
    """A command of lefthook for each hook; it puts the arguments of git's hook in for {1}, {2} ..."""
    if notation == "json":
        parts = {hook: {"commands": {"memory-ci": _command(hook)}} for hook in hooks}
        return f"{json.dumps(parts, indent=2)}\n" if parts else ""
    return "".join(_write_toml(hook) if notation == "toml" else _write_yaml(hook) for hook in hooks)


def _command(hook: str) -> dict[str, object]:
    return {"run": hook_line(hook, "{1}")} | ({"use_stdin": True} if hook in WITH_INPUT else {})


def _write_yaml(hook: str) -> str:
    lines = "".join(f"      {key}: {_quote(value)}\n" for key, value in _command(hook).items())
    return f"{hook}:\n  commands:\n    memory-ci:\n{lines}"


def _write_toml(hook: str) -> str:
    lines = "".join(f"{key} = {_quote(value)}\n" for key, value in _command(hook).items())
    return f"[{hook}.commands.memory-ci]\n{lines}"


def _quote(value: object) -> str:
    """As YAML and TOML alike; our lines hold no such quote."""
    return "true" if value is True else f"'{value}'"
