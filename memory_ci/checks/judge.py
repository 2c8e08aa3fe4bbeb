"""The judge: whether a check applies to a change, and whether the change breaks it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        is_moved: whether the change removes the same line elsewhere: it was moved or indented.
    """

    path: str
    number: int
    text: str
    is_moved: bool = False


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
    """Judge a change by a check.

    A `before` check applies to no change, because only sessions record commands (`sessions.ran`).
    """
    try:
        return _judge(check, change)
    except (UnjudgedError, GlobError, PatternError) as error:
        return Judgement(is_applicable=True, unjudged=str(error))


def _judge(check: ChangeCheck, change: CheckedChange) -> Judgement:
    match check:
        case WithCheck():
            return _judge_with(check, change)
        case UntouchedCheck(paths):
            touched = compile_globs(paths).select(change.paths)
            if touched:
                path = escape_undecoded(touched[0])
                fault = ChangeFault(f"{path} is touched", "leave it as it was", path)
                return Judgement(is_applicable=True, fault=fault)
            return FOLLOWED if change.files else NOT_APPLICABLE
        case AbsentCheck():
            return _judge_absent(check, change)
        case PresentCheck():
            return _judge_present(check, change)
        case MessageCheck():
            return _judge_message(check, change)
        case BeforeCheck():
            return NOT_APPLICABLE


def _judge_with(check: WithCheck, change: CheckedChange) -> Judgement:
    also = set(compile_globs(check.also).select(change.paths))
    causes = [path for path in compile_globs(check.when).select(change.paths) if path not in also]
    if not causes:
        return NOT_APPLICABLE
    if also:
        return FOLLOWED
    names = _list_names(check.also)
    is_single = len(check.also) == 1 and is_literal(check.also[0])
    message = f"{names} is not touched" if is_single else f"nothing in {names} is touched"
    is_prose = check.also[0].endswith((".md", ".rst", ".txt"))
    remedy = "add a line" if is_single and is_prose else "change it, too"
    return Judgement(
        is_applicable=True, fault=ChangeFault(message, remedy, escape_undecoded(causes[0]))
    )


def _judge_absent(check: AbsentCheck, change: CheckedChange) -> Judgement:
    globs = compile_globs(check.paths)
    if not any(file.status != "D" and globs.matches(file.path) for file in change.files):
        return NOT_APPLICABLE
    pattern = compile_pattern(check.text)
    added = [line for line in change.added if not line.is_moved]
    lines = [line for line in added if globs.matches(line.path)]
    with limit_time():
        position = find_match(pattern, [line.text for line in lines])
    if position is None:
        _refuse_unread(change)
        return FOLLOWED
    line = lines[position]
    path = escape_undecoded(line.path)
    message = f"{path}:{line.number} adds text that matches {_show(check.text)}"
    fault = ChangeFault(message, "take it out", path, line.number)
    return Judgement(is_applicable=True, fault=fault)


def _judge_present(check: PresentCheck, change: CheckedChange) -> Judgement:
    globs = compile_globs(check.paths)
    new = [file.path for file in change.files if file.status == "A" and globs.matches(file.path)]
    texts: dict[str, list[str]] = {path: [] for path in new}
    for line in change.added:
        if line.path in texts:
            texts[line.path].append(line.text)
    if not any(texts.values()):
        return NOT_APPLICABLE  # An empty file has no text, and needs none.
    pattern = compile_pattern(check.text)
    with limit_time():
        lacking = (path for path in new if texts[path] and find_match(pattern, texts[path]) is None)
        first = next(lacking, None)
    if first is None:
        return FOLLOWED
    _refuse_unread(change)
    path = escape_undecoded(first)
    fault = ChangeFault(f"{path} has no text that matches {_show(check.text)}", "add it", path)
    return Judgement(is_applicable=True, fault=fault)


def _judge_message(check: MessageCheck, change: CheckedChange) -> Judgement:
    pattern = compile_pattern(check.text)
    if check.is_forbidden:
        texts = [line for message in change.messages for line in message.splitlines()]
        if change.title:
            texts.append(change.title)
        if not texts:
            return NOT_APPLICABLE
        with limit_time():
            position = find_match(pattern, texts)
        if position is None:
            return FOLLOWED
        fault = ChangeFault(f"a commit message matches {_show(check.text)}", "reword it")
        return Judgement(is_applicable=True, fault=fault)

    if not change.messages and not change.title:
        return NOT_APPLICABLE
    with limit_time():
        if change.title and find_match(pattern, [change.title]) is not None:
            return FOLLOWED  # A squash merge makes the title the message.
        messages = [message.splitlines() for message in change.messages]
        if messages and all(find_match(pattern, lines) is not None for lines in messages):
            return FOLLOWED
    name = "a commit message" if change.messages else "the title"
    fault = ChangeFault(f"{name} does not match {_show(check.text)}", "reword it")
    return Judgement(is_applicable=True, fault=fault)


def _refuse_unread(change: CheckedChange) -> None:
    """Raise UnjudgedError if not all added lines were read."""
    if change.unread:
        raise UnjudgedError(change.unread)


def _list_names(globs: Sequence[str]) -> str:
    names = ", ".join(globs[:MAX_SHOWN])
    return f"{names}, …" if len(globs) > MAX_SHOWN else names


def _show(pattern: str) -> str:
    shortened = pattern if len(pattern) <= MAX_PATTERN_SHOWN else f"{pattern[:MAX_PATTERN_SHOWN]}…"
    return f"/{shortened}/"
