"""The commands that a session ran since its last edit, for checks like "run the tests first".

A hook notes them in the git directory, and only if a check needs them. The note holds no more than
that a file was edited, and commands without their arguments.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from memory_ci.checks.judge import ChangeFault
from memory_ci.files import read_regular
from memory_ci.records.check import BeforeCheck, CheckedCommand
from memory_ci.records.history import Staging
from memory_ci.repetition.commands import (
    CommandForm,
    list_forms,
    list_shell_commands,
)
from memory_ci.sessions.moments import FORMS_BY_MOMENT, RUNS_DIRECTORY, hold_note

EDIT_LINE = "edit"  # The first line of a note; an edit removes all other lines.
MAX_NOTE = 20_000  # Bytes of a note.
MAX_COMMANDS = 200  # Commands that a note holds.

GIT_ADD = CommandForm("git", ("add",))

SHORT_OPTIONS_WITH_VALUE = {"commit": "mFCct", "add": ""}
"""Short options of git whose value is the rest of the word, or the next word."""

SHORT_OPTIONS_WITH_OPTIONAL_VALUE = {"commit": "Su", "add": ""}
"""Short options of git whose value is the rest of the word alone."""

LONG_OPTIONS_WITH_VALUE = frozenset(
    """--message --file --author --date --template --reuse-message --reedit-message --fixup
    --squash --cleanup --trailer --pathspec-from-file --chmod""".split()
)
"""Long options of git whose value may be the next word."""


def note_edit(common_dir: Path, session: str) -> None:
    """Note that a session edits a file: its earlier commands no longer count."""
    with suppress(OSError), hold_note(common_dir, session, RUNS_DIRECTORY) as note:
        _write_commands(note, [])


def note_run(common_dir: Path, session: str, command: str, *, is_failure: bool = False) -> None:
    """Note that a session runs a command; if it has failed, remove it from the note.

    Only commands after an edit are noted. A command line that runs several programs is noted as
    several commands.

    Args:
        common_dir: the git directory that all work trees share.
        session: the session.
        command: the command line.
        is_failure: whether it has just failed.
    """
    commands = [str(form) for form in list_forms(command)]
    if not commands:
        return
    with suppress(OSError), hold_note(common_dir, session, RUNS_DIRECTORY) as note:
        noted_commands = _read_commands(note)
        if noted_commands is None:  # the session has edited nothing
            return
        others = [noted for noted in noted_commands if noted not in commands]
        _write_commands(note, others if is_failure else [*others, *commands])


def find_missing_runs(
    common_dir: Path, session: str, check: BeforeCheck, command: str
) -> ChangeFault | None:
    """Return a fault if a session has not run all commands of a check since its last edit.

    A check of the kind `before` names commands that must be run before a commit, push or pull
    request.

    Args:
        common_dir: the git directory that all work trees share.
        session: the session.
        check: the check.
        command: the command line; commands in it before the checked command count as run.

    Returns:
        The fault, which names the commands; None if none is missing, or nothing was edited.
    """
    noted_commands: list[str] | None = None
    with suppress(OSError), hold_note(common_dir, session, RUNS_DIRECTORY) as note:
        noted_commands = _read_commands(note)
    if noted_commands is None:  # the session has edited nothing
        return None
    runs = _list_runs_before(list_forms(command), check.command)
    for noted_command in noted_commands:
        runs += list_forms(noted_command)
    required_commands = check.ran
    missing = [required for required in required_commands if not _is_run(required, runs)]
    if not missing:
        return None
    names = ", ".join(f"`{text}`" for text in missing)
    verb = "was" if len(missing) == 1 else "were"
    return ChangeFault(f"{names} {verb} not run since the last edit", "run it first")


def list_commands(command: str) -> list[CheckedCommand]:
    """Return which of commit, push and pull-request a shell command line runs."""
    runs = list_forms(command)
    names: tuple[CheckedCommand, ...] = ("commit", "push", "pull-request")
    return [name for name in names if any(_is_command(name, run) for run in runs)]


def read_staging(command: str) -> Staging:
    """Return the files that a shell command line commits in addition to those staged before.

    It looks at `git add` and at the arguments of the first `git commit`. Paths are relative to the
    directory where the line is run.
    """
    has_all = False
    has_tracked = False
    paths: list[str] = []
    directory = ""
    for form, words in list_shell_commands(command):
        if form.program == "cd":
            directory = posixpath.join(directory, *words[1:2])
        elif GIT_ADD.covers(form):
            added = _read_arguments("add", words)
            if added.has("-n", "--dry-run", "-p", "--patch", "-i", "--interactive"):
                continue
            paths += [posixpath.join(directory, path) for path in added.paths]
            if not added.paths:
                has_all = has_all or added.has("-A", "--all")
                has_tracked = has_tracked or added.has("-u", "--update")
        elif _is_command("commit", form):
            committed = _read_arguments("commit", words)
            paths += [posixpath.join(directory, path) for path in committed.paths]
            has_tracked = has_tracked or committed.has("-a", "--all")
            break
    return Staging(is_whole_tree=has_all, has_tracked=has_tracked, paths=tuple(paths))


def read_message(command: str) -> str:
    """Return the message of the first `git commit` in a shell command line, "" without one.

    >>> read_message("git commit -am 'Retry' -m 'Memory-Skip: 7f3a not seen'")
    'Retry\\n\\nMemory-Skip: 7f3a not seen'
    """
    for form, words in list_shell_commands(command):
        if _is_command("commit", form):
            options = _read_arguments("commit", words).options
            return "\n\n".join(value for name, value in options if name in ("-m", "--message"))
    return ""


class _Arguments(NamedTuple):
    """The arguments of a command of git.

    Attributes:
        options: the names of its options with their values, "" for none.
        paths: its other arguments.
    """

    options: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]

    def has(self, *names: str) -> bool:
        """Return whether one of some options is given."""
        return any(name in names for name, _ in self.options)


def _read_arguments(subcommand: str, words: Sequence[str]) -> _Arguments:
    """Return the options and paths behind a subcommand of git, parsed as git does it.

    Args:
        subcommand: `commit` or `add`.
        words: the words of the command line, `git` first.
    """
    options: list[tuple[str, str]] = []
    paths: list[str] = []
    remaining_words = list(words[2:])
    while remaining_words:
        word = remaining_words.pop(0)
        if word == "--":
            paths += remaining_words
            break
        if word.startswith("--"):
            name, equals_sign, value = word.partition("=")
            if not equals_sign and name in LONG_OPTIONS_WITH_VALUE and remaining_words:
                value = remaining_words.pop(0)
            options.append((name, value))
        elif word.startswith("-") and word != "-":
            cluster = _read_cluster(subcommand, word[1:])
            last_name, value = cluster[-1]
            takes_next_word = last_name.removeprefix("-") in SHORT_OPTIONS_WITH_VALUE[subcommand]
            if not value and takes_next_word and remaining_words:
                cluster[-1] = (last_name, remaining_words.pop(0))
            options += cluster
        else:
            paths.append(word)
    return _Arguments(tuple(options), tuple(paths))


def _read_cluster(subcommand: str, letters: str) -> list[tuple[str, str]]:
    """Return the short options in a word like `-amfix`: `-a`, and `-m` with the value `fix`."""
    options: list[tuple[str, str]] = []
    for position, letter in enumerate(letters, start=1):
        if (
            letter
            in SHORT_OPTIONS_WITH_VALUE[subcommand] + SHORT_OPTIONS_WITH_OPTIONAL_VALUE[subcommand]
        ):
            return [*options, (f"-{letter}", letters[position:])]
        options.append((f"-{letter}", ""))
    return options


def _list_runs_before(
    runs: Sequence[CommandForm], checked_command: CheckedCommand
) -> list[CommandForm]:
    """Return the commands of a command line before the first checked command in it.

    Args:
        runs: the commands of the line.
        checked_command: "commit", "push" or "pull-request".
    """
    before: list[CommandForm] = []
    for run in runs:
        if _is_command(checked_command, run):
            return before
        before.append(run)
    return before


def _is_command(name: CheckedCommand, run: CommandForm) -> bool:
    return any(form.covers(run) for form in FORMS_BY_MOMENT[f"before:{name}"])


def _is_run(text: str, runs: Sequence[CommandForm]) -> bool:
    """Return whether all commands of a line were run."""
    return all(any(form.covers(run) for run in runs) for form in list_forms(text))


def _write_commands(note: Path, commands: Sequence[str]) -> None:
    """Write the note on a session: a line for its edit, and the commands that it ran since.

    If these are too many, the newest are written.
    """
    lines: list[bytes] = []
    size = len(EDIT_LINE) + 1
    for command in reversed(commands[-MAX_COMMANDS:]):
        line = f"{command}\n".encode("utf-8", "replace")
        size += len(line)
        if size > MAX_NOTE:
            break
        lines.insert(0, line)
    note.write_bytes(b"".join([f"{EDIT_LINE}\n".encode(), *lines]))


def _read_commands(note: Path) -> list[str] | None:
    """Return the commands that a session ran since its last edit, None if it has edited nothing."""
    lines = read_regular(note, MAX_NOTE).decode("utf-8", "replace").splitlines()
    return lines[1:] if lines[:1] == [EDIT_LINE] else None
