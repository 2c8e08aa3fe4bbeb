"""The judge of checks: whether a check applies to a change, and whether the change violates it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from memory_ci.checks.globs import GlobError, compile_globs, is_literal
from memory_ci.checks.patterns import (
    PatternError,
    UnjudgedError,
    compile_pattern,
    find_match,
    limit_time,
)
from memory_ci.records.check import (
    AbsentCheck,
    BeforeCheck,
    ChangeCheck,
    MessageCheck,
    PresentCheck,
    UntouchedCheck,
    WithCheck,
)
from memory_ci.records.history import FileChange
from memory_ci.text import escape_undecoded

MAX_SHOWN = 3  # Globs that a message names.
MAX_PATTERN_SHOWN = 60  # Characters of a pattern that a message shows.


class AddedLine(NamedTuple):
    """A line that a change adds.

    Attributes:
        number: its number in the new file, from 1.
        moved_from: the file from which the change removes the same line, "" for none: the line was
            moved or indented.
    """

    path: str
    number: int
    text: str
    moved_from: str = ""


class CheckedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change as checks see it.

    Attributes:
        files: the files that it touches.
        added: the lines that it adds to files that a check reads.
        messages: the messages of its commits, without merges.
        title: the title of its request, "" if it has none.
        unread: why not all of its added lines were read, "" if they were.
    """

    files: tuple[FileChange, ...] = ()
    added: tuple[AddedLine, ...] = ()
    messages: tuple[str, ...] = ()
    title: str = ""
    unread: str = ""

    @property
    def paths(self) -> list[str]:
        """All paths that it touches; a renamed file has two."""
        paths: dict[str, None] = {}
        for file in self.files:
            paths[file.path] = None
            if file.old_path:
                paths[file.old_path] = None
        return list(paths)


class ChangeFault(NamedTuple):
    """A violation of a check by a change.

    Attributes:
        message: the fault, such as "CHANGELOG.md is not touched".
        remedy: what to do, such as "add a line".
        path: the file that shows it, as `text.escape_undecoded`; "" for a message.
        line: the line in that file, from 1.
    """

    message: str
    remedy: str
    path: str = ""
    line: int = 1


class Judgement(NamedTuple):
    """The outcome of a check for one change.

    Attributes:
        is_applicable: whether the check is about changes like this one.
        fault: what breaks the check, None if nothing was found that does.
        unjudged: why the check could not be judged, "" if it was.
    """

    is_applicable: bool
    fault: ChangeFault | None = None
    unjudged: str = ""


NOT_APPLICABLE = Judgement(is_applicable=False)
FOLLOWED = Judgement(is_applicable=True)


def list_read_globs(checks: Iterable[ChangeCheck]) -> tuple[str, ...]:
    """Return the globs of the files whose added lines some checks read; none: no file is read."""
    globs: dict[str, None] = {}
    for check in checks:
        if isinstance(check, AbsentCheck | PresentCheck):
            globs.update(dict.fromkeys(check.paths))
    return tuple(globs)


def is_read(check: ChangeCheck, path: str) -> bool:
    """Return whether a check reads the added lines of a file."""
    if not isinstance(check, AbsentCheck | PresentCheck):
        return False
    return compile_globs(check.paths).matches(path)


def judge(check: ChangeCheck, change: CheckedChange) -> Judgement:
    """Return whether a check applies to a change, and how the change breaks it.

    A `before` check applies to no change, because only sessions record commands
    (`sessions.session_commands`).
    """
    try:
        return _judge_by_kind(check, change)
    except (UnjudgedError, GlobError, PatternError) as error:
        return Judgement(is_applicable=True, unjudged=str(error))


def _judge_by_kind(check: ChangeCheck, change: CheckedChange) -> Judgement:
    """Judge a change by the function for the kind of the check."""
    match check:
        case WithCheck():
            return _judge_with(check, change)
        case UntouchedCheck():
            return _judge_untouched(check, change)
        case AbsentCheck():
            return _judge_absent(check, change)
        case PresentCheck():
            return _judge_present(check, change)
        case MessageCheck():
            return _judge_message(check, change)
        case BeforeCheck():
            return NOT_APPLICABLE


def _judge_untouched(check: UntouchedCheck, change: CheckedChange) -> Judgement:
    """Judge a check by which some files are left alone."""
    touched = compile_globs(check.paths).select(change.paths)
    if not touched:
        return FOLLOWED if change.files else NOT_APPLICABLE
    path = escape_undecoded(touched[0])
    return _violated(ChangeFault(f"{path} is touched", "leave it as it was", path))


def _judge_with(check: WithCheck, change: CheckedChange) -> Judgement:
    """Judge a check by which files of `also` change with those of `when`."""
    companions = set(compile_globs(check.also).select(change.paths))
    touched = compile_globs(check.when).select(change.paths)
    causes = [path for path in touched if path not in companions]
    if not causes:
        return NOT_APPLICABLE
    if companions:
        return FOLLOWED
    names = _list_names(check.also)
    is_single = len(check.also) == 1 and is_literal(check.also[0])
    is_prose = check.also[0].endswith((".md", ".rst", ".txt"))
    message = f"{names} is not touched" if is_single else f"nothing in {names} is touched"
    remedy = "add a line" if is_single and is_prose else "change it, too"
    return _violated(ChangeFault(message, remedy, escape_undecoded(causes[0])))


def _judge_absent(check: AbsentCheck, change: CheckedChange) -> Judgement:
    """Judge a check by which added lines of some files must not match a pattern."""
    globs = compile_globs(check.paths)
    if not any(file.status != "D" and globs.matches(file.path) for file in change.files):
        return NOT_APPLICABLE
    pattern = compile_pattern(check.text)
    lines: list[AddedLine] = []
    for line in change.added:
        # A line that comes from where it was allowed is new here.
        is_moved_within = line.moved_from and globs.matches(line.moved_from)
        if globs.matches(line.path) and not is_moved_within:
            lines.append(line)
    with limit_time():
        position = find_match(pattern, [line.text for line in lines])
    if position is None:
        _refuse_unread(change)
        return FOLLOWED
    line = lines[position]
    path = escape_undecoded(line.path)
    message = f"{path}:{line.number} adds text that matches {_show_pattern(check.text)}"
    return _violated(ChangeFault(message, "take it out", path, line.number))


def _judge_present(check: PresentCheck, change: CheckedChange) -> Judgement:
    """Judge a check by which each new file of some globs must have text that matches a pattern."""
    globs = compile_globs(check.paths)
    texts_by_path: dict[str, list[str]] = {}
    for file in change.files:
        if file.status == "A" and globs.matches(file.path):
            texts_by_path[file.path] = []
    for line in change.added:
        if line.path in texts_by_path:
            texts_by_path[line.path].append(line.text)
    # An empty file has no text, and needs none.
    with_text = {path: texts for path, texts in texts_by_path.items() if texts}
    if not with_text:
        return NOT_APPLICABLE
    lacking_path = _find_lacking(compile_pattern(check.text), with_text)
    if lacking_path is None:
        return FOLLOWED
    _refuse_unread(change)
    path = escape_undecoded(lacking_path)
    message = f"{path} has no text that matches {_show_pattern(check.text)}"
    return _violated(ChangeFault(message, "add it", path))


def _find_lacking(pattern: re.Pattern[str], texts_by_path: Mapping[str, list[str]]) -> str | None:
    """Return the first file without a line that a pattern matches."""
    with limit_time():
        for path, texts in texts_by_path.items():
            if find_match(pattern, texts) is None:
                return path
    return None


def _judge_message(check: MessageCheck, change: CheckedChange) -> Judgement:
    """Judge a check by which commit messages must match a pattern, or must not."""
    pattern = compile_pattern(check.text)
    if check.is_forbidden:
        return _judge_forbidden_message(check, change)
    if not change.messages and not change.title:
        return NOT_APPLICABLE
    with limit_time():
        if change.title and find_match(pattern, [change.title]) is not None:
            return FOLLOWED  # A squash merge makes the title the message.
        messages = [message.splitlines() for message in change.messages]
        if messages and all(find_match(pattern, lines) is not None for lines in messages):
            return FOLLOWED
    name = "a commit message" if change.messages else "the title"
    return _violated(ChangeFault(f"{name} does not match {_show_pattern(check.text)}", "reword it"))


def _judge_forbidden_message(check: MessageCheck, change: CheckedChange) -> Judgement:
    """Judge a check by which no line of a commit message, and no title, matches a pattern."""
    lines = [line for message in change.messages for line in message.splitlines()]
    if change.title:
        lines.append(change.title)
    if not lines:
        return NOT_APPLICABLE
    with limit_time():
        position = find_match(compile_pattern(check.text), lines)
    if position is None:
        return FOLLOWED
    return _violated(
        ChangeFault(f"a commit message matches {_show_pattern(check.text)}", "reword it")
    )


def _violated(fault: ChangeFault) -> Judgement:
    return Judgement(is_applicable=True, fault=fault)


def _refuse_unread(change: CheckedChange) -> None:
    """Raise UnjudgedError if not all added lines were read."""
    if change.unread:
        raise UnjudgedError(change.unread)


def _list_names(globs: Sequence[str]) -> str:
    names = ", ".join(globs[:MAX_SHOWN])
    return f"{names}, …" if len(globs) > MAX_SHOWN else names


def _show_pattern(pattern: str) -> str:
    shortened = pattern if len(pattern) <= MAX_PATTERN_SHOWN else f"{pattern[:MAX_PATTERN_SHOWN]}…"
    return f"/{shortened}/"
