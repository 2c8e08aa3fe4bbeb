"""Parse and format the field `check:` of an entry: a condition that changes must meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from memory_ci.checks.globs import GlobError, validate_globs
from memory_ci.checks.patterns import PatternError, compile_pattern
from memory_ci.errors import UsageError
from memory_ci.records.check import (
    AbsentCheck,
    BeforeCheck,
    ChangeCheck,
    CheckedCommand,
    MessageCheck,
    PresentCheck,
    UntouchedCheck,
    WithCheck,
)
from memory_ci.store.yamltext import YamlNode, YamlTextError, parse_nested, quote_scalar

MAX_COMMANDS = 10  # That a `before` check may name.
MAX_COMMAND_CHARS = 100
SINCE_EDIT = "edit"  # The only value of `since`: a `before` check counts from the last edit.

FORMS = (
    "with: {when: [GLOB], also: [GLOB]}",
    "untouched: [GLOB]",
    "absent: {in: [GLOB], text: PATTERN}",
    "present: {in: [GLOB], text: PATTERN}",
    "message: {match: PATTERN}",
    "message: {not: PATTERN}",
    "before: {command: commit, ran: [COMMAND], since: edit}",
)
"""The forms of a check, as messages name them."""


class CheckError(ValueError):
    """A check that cannot be read.

    Attributes:
        line: its line in the text that was read, 0-based.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        """Remember the line."""
        super().__init__(message)
        self.line = line


def parse_check_field(lines: Sequence[str]) -> ChangeCheck:
    """Parse the check in the lines of the field `check:`.

    Raises:
        CheckError: it is not one of FORMS.
    """
    try:
        node = parse_nested(lines)["check"]
    except YamlTextError as error:
        raise CheckError(error.reason, error.line) from None
    kind, value = _read_single(node)
    reader = READERS.get(kind)
    if reader is None:
        raise CheckError(f"{kind!r} is none of {', '.join(READERS)}", node.line)
    return reader(value)


def parse_check_text(text: str) -> ChangeCheck:
    """Parse a check that a person wrote on a command line, as `untouched: [vendor/**]`.

    Raises:
        UsageError: bad-check.
    """
    lines = ["check:", *(f"  {line}" for line in text.splitlines())]
    try:
        return parse_check_field(lines)
    except CheckError as error:
        hint = f"Write one of: {'; '.join(FORMS)}. A glob that begins with * stands in quotes."
        raise UsageError(f"the check {error}", slug="bad-check", hint=hint) from None


def format_check(check: ChangeCheck) -> str:
    """Format a check as one line of YAML; the inverse of `parse_check_text`.

    >>> format_check(UntouchedCheck(("vendor/**",)))
    "untouched: ['vendor/**']"
    """
    match check:
        case WithCheck(when, also):
            return f"with: {{when: {_format_list(when)}, also: {_format_list(also)}}}"
        case UntouchedCheck(paths):
            return f"untouched: {_format_list(paths)}"
        case AbsentCheck(paths, text):
            return f"absent: {{in: {_format_list(paths)}, text: {quote_scalar(text)}}}"
        case PresentCheck(paths, text):
            return f"present: {{in: {_format_list(paths)}, text: {quote_scalar(text)}}}"
        case MessageCheck(text, is_forbidden):
            key = "not" if is_forbidden else "match"
            return f"message: {{{key}: {quote_scalar(text)}}}"
        case BeforeCheck(command, ran):
            return f"before: {{command: {command}, ran: {_format_list(ran)}, since: {SINCE_EDIT}}}"


def format_check_field(check: ChangeCheck) -> list[str]:
    """Return the lines of the field `check:`."""
    return ["check:", f"  {format_check(check)}"]


def _format_list(texts: Sequence[str]) -> str:
    return f"[{', '.join(quote_scalar(text) for text in texts)}]"


def _read_with(node: YamlNode) -> ChangeCheck:
    fields = _read_fields(node, ("when", "also"))
    return WithCheck(_read_globs(fields["when"]), _read_globs(fields["also"]))


def _read_untouched(node: YamlNode) -> ChangeCheck:
    return UntouchedCheck(_read_globs(node))


def _read_absent(node: YamlNode) -> ChangeCheck:
    fields = _read_fields(node, ("in", "text"))
    return AbsentCheck(_read_globs(fields["in"]), _read_pattern(fields["text"]))


def _read_present(node: YamlNode) -> ChangeCheck:
    fields = _read_fields(node, ("in", "text"))
    return PresentCheck(_read_globs(fields["in"]), _read_pattern(fields["text"]))


def _read_message(node: YamlNode) -> ChangeCheck:
    kind, value = _read_single(node)
    if kind not in ("match", "not"):
        raise CheckError(f"message has {kind!r}, and needs match or not", node.line)
    return MessageCheck(_read_pattern(value), is_forbidden=kind == "not")


def _read_before(node: YamlNode) -> ChangeCheck:
    """Return the check that commands ran before a git command, for example tests before a commit.

    Raises:
        CheckError: the git command is none of those that can be checked, `since` is not `edit`, or
            there are too many or too long commands.
    """
    fields = _read_fields(node, required=("command", "ran"), optional=("since",))
    name = _read_text(fields["command"])
    checked_commands: tuple[CheckedCommand, ...] = get_args(CheckedCommand)
    matching_commands = [command for command in checked_commands if command == name]
    if not matching_commands:
        names = ", ".join(checked_commands)
        raise CheckError(f"command {name!r} is none of {names}", fields["command"].line)

    since = fields.get("since")
    if since is not None and _read_text(since) != SINCE_EDIT:
        raise CheckError(f"since is {SINCE_EDIT}, nothing else", since.line)
    required_commands = _read_texts(fields["ran"])
    is_count_allowed = 1 <= len(required_commands) <= MAX_COMMANDS
    is_one_too_long = any(len(command) > MAX_COMMAND_CHARS for command in required_commands)
    if not is_count_allowed or is_one_too_long:
        message = (
            f"ran needs 1 to {MAX_COMMANDS} commands of at most {MAX_COMMAND_CHARS} characters"
        )
        raise CheckError(message, fields["ran"].line)
    return BeforeCheck(matching_commands[0], required_commands)


READERS: Mapping[str, Callable[[YamlNode], ChangeCheck]] = {
    "with": _read_with,
    "untouched": _read_untouched,
    "absent": _read_absent,
    "present": _read_present,
    "message": _read_message,
    "before": _read_before,
}


def _read_single(node: YamlNode) -> tuple[str, YamlNode]:
    """Return the only key of a mapping, and its value."""
    if not isinstance(node.value, dict) or len(node.value) != 1:
        raise CheckError(f"needs one of {', '.join(READERS)} and nothing else", node.line)
    return next(iter(node.value.items()))


def _read_fields(
    node: YamlNode, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, YamlNode]:
    """Return the fields of a mapping by name.

    Raises:
        CheckError: a required field is missing, or a field is neither required nor optional.
    """
    fields = node.value if isinstance(node.value, dict) else {}
    missing_names = [name for name in required if name not in fields]
    if missing_names:
        raise CheckError(f"lacks {' and '.join(missing_names)}", node.line)
    for name, value in fields.items():
        if name not in (*required, *optional):
            raise CheckError(f"has an unknown key {name!r}", value.line)
    return fields


def _read_text(node: YamlNode) -> str:
    if not isinstance(node.value, str):
        raise CheckError("needs a single text here", node.line)
    return node.value


def _read_texts(node: YamlNode) -> tuple[str, ...]:
    items = node.value if isinstance(node.value, tuple) else (node,)
    return tuple(_read_text(item) for item in items)


def _read_globs(node: YamlNode) -> tuple[str, ...]:
    """Return the globs of a field, which has a single glob or a list of them.

    Raises:
        CheckError: a glob is not valid, or does too much work.
    """
    globs = _read_texts(node)
    try:
        validate_globs(globs)
    except GlobError as error:
        raise CheckError(str(error), node.line) from None
    return globs


def _read_pattern(node: YamlNode) -> str:
    """Return a regular expression.

    Raises:
        CheckError: it cannot be compiled.
    """
    text = _read_text(node)
    try:
        compile_pattern(text)
    except PatternError as error:
        raise CheckError(f"pattern {error}", node.line) from None
    return text
