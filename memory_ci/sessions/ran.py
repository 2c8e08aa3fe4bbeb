"""What a session ran since its last edit, for checks of what comes before a commit.

A hook notes it in the git directory, and only where a check asks for it. The note holds no more
than an edit and the forms of commands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from memory_ci.checks.judge import ChangeFault
from memory_ci.files import read_regular
from memory_ci.records.check import BeforeCheck, CheckedCommand
from memory_ci.repetition.commands import CommandForm, list_forms
from memory_ci.sessions.moments import COMMANDS, RAN, hold_note

EDITED = "edit"  # The first line of a note, which an edit begins anew.
MAX_NOTE = 20_000  # Bytes of a note.
MAX_FORMS = 200  # Commands that a note holds.

ADD = CommandForm("git", ("add",))
ALL = re.compile(r"--all|-[A-Za-z]*a[A-Za-z]*")
"""The option by which `git commit` takes all tracked files."""

MESSAGE = re.compile(r"--message|-[A-Za-z]*m")
"""The option in front of a commit message."""


def note_edit(common_dir: Path, session: str) -> None:
    """Note that a session edits a file: what it ran before does not count any more."""
    with suppress(OSError), hold_note(common_dir, session, RAN) as note:
        note.write_text(f"{EDITED}\n", "utf-8")


def note_run(common_dir: Path, session: str, command: str, *, is_failure: bool = False) -> None:
    """Note that a session runs a command after an edit, or that it has failed."""
    forms = [str(form) for form in list_forms(command)]
    if not forms:
        return
    with suppress(OSError), hold_note(common_dir, session, RAN) as note:
        lines = _read(note)
        if not lines:
            return
        kept = [line for line in lines if line not in forms]
        if not is_failure:
            kept = [*kept, *forms]
        note.write_text("".join(f"{line}\n" for line in kept[: MAX_FORMS + 1]), "utf-8")


def find_missing(
    common_dir: Path, session: str, check: BeforeCheck, command: str
) -> ChangeFault | None:
    """Return what a session has not run since its last edit, before a command line.

    Args:
        common_dir: the git directory that all work trees share.
        session: the session.
        check: the check.
        command: the command line; what it runs before the command of the check counts.

    Returns:
        The fault; None if nothing is missing, or the session has edited nothing.
    """
    lines: list[str] = []
    with suppress(OSError), hold_note(common_dir, session, RAN) as note:
        lines = _read(note)
    if not lines:
        return None
    noted = [form for line in lines[1:] for form in list_forms(line)]
    runs = [*noted, *_list_before(list_forms(command), check.command)]
    missing = [text for text in check.ran if not _is_run(text, runs)]
    if not missing:
        return None
    names = ", ".join(f"`{text}`" for text in missing)
    verb = "was" if len(missing) == 1 else "were"
    return ChangeFault(f"{names} {verb} not run since the last edit", "run it first")


def list_commands(command: str) -> list[CheckedCommand]:
    """Return the commands that checks know in a line of a shell."""
    runs = list_forms(command)
    names: tuple[CheckedCommand, ...] = ("commit", "push", "pull-request")
    return [name for name in names if any(_is_command(name, run) for run in runs)]


def takes_whole_tree(command: str) -> bool:
    """Return whether a line of a shell commits what is not staged yet."""
    runs = list_forms(command)
    commits = [run for run in runs if _is_command("commit", run)]
    has_all = any(ALL.fullmatch(option) for run in commits for option in run.options)
    return has_all or any(ADD.covers(run) for run in runs)


def read_message(command: str) -> str:
    """Return the message that a line of a shell gives a commit, "" if it gives none.

    >>> read_message("git commit -am 'Retry' -m 'Memory-Skip: 7f3a not seen'")
    'Retry\\n\\nMemory-Skip: 7f3a not seen'
    """
    try:
        words = shlex.split(command)
    except ValueError:  # a quotation mark without its partner
        return ""
    parts: list[str] = []
    for word, following in pairwise([*words, ""]):
        if word.startswith("--message="):
            parts.append(word.removeprefix("--message="))
        elif MESSAGE.fullmatch(word):
            parts.append(following)
    return "\n\n".join(parts)


def _list_before(runs: Sequence[CommandForm], command: CheckedCommand) -> list[CommandForm]:
    """Return the commands of a line in front of the first that a check is about."""
    before: list[CommandForm] = []
    for run in runs:
        if _is_command(command, run):
            return before
        before.append(run)
    return before


def _is_command(name: CheckedCommand, run: CommandForm) -> bool:
    return any(form.covers(run) for form in COMMANDS[f"before:{name}"])


def _is_run(text: str, runs: Iterable[CommandForm]) -> bool:
    forms = list_forms(text)
    runs = list(runs)
    return all(any(form.covers(run) for run in runs) for form in forms)


def _read(note: Path) -> list[str]:
    """Return the lines of a note, none if the session has edited nothing."""
    lines = read_regular(note, MAX_NOTE).decode("utf-8", "replace").splitlines()
    return lines if lines[:1] == [EDITED] else []
