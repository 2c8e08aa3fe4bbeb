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
            return _judge_with_check(check, change)
        case UntouchedCheck():
            return _judge_untouched_check(check, change)
        case AbsentCheck():
            return _judge_absent_check(check, change)
        case PresentCheck():
            return _judge_present_check(check, change)
        case MessageCheck():
            return _judge_message_check(check, change)
        case BeforeCheck():
            return NOT_APPLICABLE


def _judge_untouched_check(check: UntouchedCheck, change: CheckedChange) -> Judgement:
    """Judge a check by which some files are left alone."""
    touched = compile_globs(check.paths).select(change.paths)
    if not touched:
        return FOLLOWED if change.files else NOT_APPLICABLE
    path = escape_undecoded(touched[0])
    return _report_fault(ChangeFault(f"{path} is touched", "leave it as it was", path))


def _judge_with_check(check: WithCheck, change: CheckedChange) -> Judgement:
    """Judge a check by which files change together.

    If a change touches a file of `when`, it must touch a file of `also`. A file of both lists does
    not make the check applicable.
    """
    also_paths = set(compile_globs(check.also).select(change.paths))
    touched_paths = compile_globs(check.when).select(change.paths)
    when_paths = [path for path in touched_paths if path not in also_paths]
    if not when_paths:
        return NOT_APPLICABLE
    if also_paths:
        return FOLLOWED
    globs_text = _join_globs(check.also)
    is_single_file = len(check.also) == 1 and is_literal(check.also[0])
    is_prose = check.also[0].endswith((".md", ".rst", ".txt"))
    message = f"nothing in {globs_text} is touched"
    if is_single_file:
        message = f"{globs_text} is not touched"
    remedy = "add a line" if is_single_file and is_prose else "change it, too"
    return _report_fault(ChangeFault(message, remedy, escape_undecoded(when_paths[0])))


def _judge_absent_check(check: AbsentCheck, change: CheckedChange) -> Judgement:
    """Judge a check that forbids a text in some files.

    No line that a change adds to these files may match the pattern. A line that the change moves
    within these files was there before, and does not count.
    """
    globs = compile_globs(check.paths)
    if not any(file.status != "D" and globs.matches(file.path) for file in change.files):
        return NOT_APPLICABLE
    pattern = compile_pattern(check.text)
    checked_lines: list[AddedLine] = []
    for added_line in change.added:
        was_there_before = added_line.moved_from and globs.matches(added_line.moved_from)
        if globs.matches(added_line.path) and not was_there_before:
            checked_lines.append(added_line)
    with limit_time():
        index = find_match(pattern, [line.text for line in checked_lines])
    if index is None:
        _require_read_lines(change)
        return FOLLOWED
    forbidden_line = checked_lines[index]
    path = escape_undecoded(forbidden_line.path)
    pattern_text = _format_pattern(check.text)
    message = f"{path}:{forbidden_line.number} adds text that matches {pattern_text}"
    return _report_fault(ChangeFault(message, "take it out", path, forbidden_line.number))


def _judge_present_check(check: PresentCheck, change: CheckedChange) -> Judgement:
    """Judge a check that demands a text in new files.

    Each file that a change adds and that the globs name must have a line that matches the pattern.
    Empty files need none.
    """
    globs = compile_globs(check.paths)
    lines_by_new_path: dict[str, list[str]] = {}
    for file in change.files:
        if file.status == "A" and globs.matches(file.path):
            lines_by_new_path[file.path] = []
    for added_line in change.added:
        if added_line.path in lines_by_new_path:
            lines_by_new_path[added_line.path].append(added_line.text)
    lines_by_path = {path: lines for path, lines in lines_by_new_path.items() if lines}
    if not lines_by_path:
        return NOT_APPLICABLE
    path_without_match = _find_path_without_match(compile_pattern(check.text), lines_by_path)
    if path_without_match is None:
        return FOLLOWED
    _require_read_lines(change)
    path = escape_undecoded(path_without_match)
    message = f"{path} has no text that matches {_format_pattern(check.text)}"
    return _report_fault(ChangeFault(message, "add it", path))


def _find_path_without_match(
    pattern: re.Pattern[str], lines_by_path: Mapping[str, list[str]]
) -> str | None:
    """Return the first file without a line that a pattern matches."""
    with limit_time():
        for path, lines in lines_by_path.items():
            if find_match(pattern, lines) is None:
                return path
    return None


def _judge_message_check(check: MessageCheck, change: CheckedChange) -> Judgement:
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
    return _report_fault(
        ChangeFault(f"{name} does not match {_format_pattern(check.text)}", "reword it")
    )


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
    return _report_fault(
        ChangeFault(f"a commit message matches {_format_pattern(check.text)}", "reword it")
    )


def _report_fault(fault: ChangeFault) -> Judgement:
    return Judgement(is_applicable=True, fault=fault)


def _require_read_lines(change: CheckedChange) -> None:
    """Raise UnjudgedError if not all added lines were read, so that the outcome is unknown."""
    if change.unread:
        raise UnjudgedError(change.unread)


def _join_globs(globs: Sequence[str]) -> str:
    names = ", ".join(globs[:MAX_SHOWN])
    return f"{names}, …" if len(globs) > MAX_SHOWN else names


def _format_pattern(pattern: str) -> str:
    shortened = pattern if len(pattern) <= MAX_PATTERN_SHOWN else f"{pattern[:MAX_PATTERN_SHOWN]}…"
    return f"/{shortened}/"
