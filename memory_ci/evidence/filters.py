"""Filters that decide which events of a merged change are evidence, as two tables.

`INTAKE_ROWS` decides by kind, actor and severity, then `RULES` by text. In each the first row that
holds decides. `Memory: keep` lifts a filter, never a row of the never list; `Memory: skip` vetoes
everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, get_args

from memory_ci.evidence.content import extract_own_words, says_something
from memory_ci.evidence.trust import is_bot
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Actor, Event, EventKind, Severity
from memory_ci.records.names import LEARNING_MARK, MERGE_LINE, OWN_TRAILER, TRAILER_LINE
from memory_ci.regex import Regex

Instruction = Literal["keep", "skip"]
"""What an author says of an event or a change by `Memory: keep` or `Memory: skip`."""

LOCKFILE_PATH = Regex(
    r"(?:.*/)?(?:[\w.-]*\.lock|[\w.-]*-lock\.(?:json|yaml)|go\.sum|npm-shrinkwrap\.json"
    r"|bun\.lockb|gradle\.lockfile)"
)
"""The path of a lock file: `uv.lock`, `go.sum`."""

GENERATED_PATH = Regex(
    r"(?:.*/)?(?:_build|site|generated|__generated__)/.*|(?:.*/)?llms(?:-full)?\.txt"
)
"""The path of a generated document: `site/index.html`, `llms.txt`."""

UPDATE_SUBJECT = Regex(
    r"\b(?:bump|update|upgrade|autoupdate|renovate|pin|lock file maintenance|deps|dependenc)",
    re.IGNORECASE,
)
"""The subject of an update of dependencies: `build(deps): bump urllib3`."""

FORMAT_SUBJECT = Regex(
    r"(?:style|format|fmt)(?:\([^)]*\))?!?:|(?:\w+(?:\([^)]*\))?!?:\s*+)?(?:apply|run|fix)?\s*+"
    r"(?:gofmt|black|prettier|rustfmt|ruff format|clang-format|isort|auto-?format\w*|re-?format\w*"
    r"|formatting)\b",
    re.IGNORECASE,
)
"""The subject of a commit that only formats: `style: …`, `run black`."""

REGENERATE_SUBJECT = Regex(
    r"(?:\w+(?:\([^)]*\))?!?:\s*)?(?:re-?generate|auto-?generate)d?\b.*\b(?:docs?|documentation)\b",
    re.I,
)
"""The subject of generated documents: `docs: regenerate the docs`."""

REVERT_SUBJECT = Regex(r"revert|hot-?fix", re.IGNORECASE)
"""The subject of a revert or a hotfix."""

INSTRUCTION_LABEL = Regex(
    r"(?:label:\s*)?memory(?:\s*:\s*|-)(?P<instruction>keep|skip):?", re.IGNORECASE
)
"""The label of a forge that is an instruction: `memory: skip`, `memory-keep`."""

REQUEST_NUMBER = Regex(r"\([#!]\d{1,9}\)\s*\Z")
"""The number of its request at the end of a subject: `(#128)`."""

MARKED_SUBJECT = Regex(
    r"(?:learn(?:ing|ed)|lesson|til|decision|decided|constraint|rejected|directive|convention"
    r"|gotcha|invariant|root[- ]cause)s?\b[^:\n]*[:\uff1a]",
    re.IGNORECASE,
)
"""A subject that is itself a marked learning: it needs no body."""

FORGE_MERGE = Regex(r"\AMerge (?:pull request|PR|MR)\b|^See merge request ", re.MULTILINE)
"""A merge message of a forge: it adds the title of the request as one line."""

SUMMARY_LENGTH = 200
"""Characters below which a compaction is only the notice of one, without its summary."""

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
ANYONE: frozenset[Actor] = frozenset(get_args(Actor))
AGENTS: frozenset[Actor] = frozenset({"agent", "subagent"})
PEOPLE: frozenset[Actor] = frozenset({"human"})

SUMMARY_KINDS: frozenset[EventKind] = frozenset(
    {
        "commit",
        "adr",
        "pr",
        "check",
        "diff",
        "intent",
        "premortem",
        "assumption",
        "intervention",
        "entry",
        "compaction",
    }
)
"""Kinds of events that are summaries or outcomes, whatever their actor."""


class Intake(NamedTuple):
    """A row of the intake table.

    Attributes:
        kinds: the kinds of events it is for.
        actors: the actors it is for.
        since: the severity from which such an event is evidence, None for never.
        reason: the reason that is counted if it is not.
        can_keep: whether `Memory: keep` makes it evidence.
    """

    kinds: frozenset[EventKind]
    actors: frozenset[Actor]
    since: Severity | None
    reason: str
    can_keep: bool = False


INTAKE_ROWS: tuple[Intake, ...] = (
    Intake(SUMMARY_KINDS, ANYONE, "info", ""),
    Intake(frozenset({"rejection", "interrupt"}), PEOPLE, "info", ""),
    Intake(frozenset({"text"}), PEOPLE, "info", ""),
    Intake(frozenset({"review"}), PEOPLE | AGENTS, "info", ""),
    Intake(frozenset({"review"}), ANYONE, None, "bot-chatter"),
    Intake(frozenset({"text"}), AGENTS, "warn", "low-severity", can_keep=True),
    Intake(frozenset({"tool_call", "tool_result"}), ANYONE, "warn", "tool-output"),
    Intake(frozenset(get_args(EventKind)), ANYONE, None, "injected"),
)


def _is_own_commit(event: Event, _: ExtractionConfig) -> bool:
    return event.kind in ("commit", "pr") and bool(
        re.search(OWN_TRAILER, _join_message_and_trailers(event))
    )


def _is_bare_merge(event: Event, _: ExtractionConfig) -> bool:
    return event.is_merge and not _list_own_lines(event.text)


def _is_dependency_bump(event: Event, policy: ExtractionConfig) -> bool:
    return is_bot(event, policy) and bool(UPDATE_SUBJECT.search(_subject(event)))


def _is_bot_review(event: Event, policy: ExtractionConfig) -> bool:
    return event.kind == "review" and is_bot(event, policy)


def _is_lockfile_commit(event: Event, _: ExtractionConfig) -> bool:
    return event.kind == "commit" and _do_all_paths_match(event, LOCKFILE_PATH)


def _is_format_commit(event: Event, _: ExtractionConfig) -> bool:
    return event.kind == "commit" and bool(FORMAT_SUBJECT.match(_subject(event)))


def _is_generated_commit(event: Event, _: ExtractionConfig) -> bool:
    if event.kind != "commit":
        return False
    return _do_all_paths_match(event, GENERATED_PATH) or bool(
        REGENERATE_SUBJECT.match(_subject(event))
    )


def _is_check_without_outcome(event: Event, _: ExtractionConfig) -> bool:
    return event.kind == "check" and not has_outcome(event.labels)


def _is_empty_review(event: Event, _: ExtractionConfig) -> bool:
    return event.kind == "review" and not says_something(extract_own_words(event.text))


def _is_empty_turn(event: Event, _: ExtractionConfig) -> bool:
    return event.kind == "text" and not says_something(event.text)


def _is_bare_compaction(event: Event, _: ExtractionConfig) -> bool:
    return event.kind == "compaction" and len(event.text) < SUMMARY_LENGTH


def _is_subject_only(event: Event, _: ExtractionConfig) -> bool:
    return event.kind == "commit" and not _says_more_than_subject(event.text)


class Rule(NamedTuple):
    """A row of the table of rules.

    Attributes:
        reason: the reason that is counted in the report.
        can_keep: whether `Memory: keep` lifts it.
        holds: a function that returns whether the rule holds for an event.
    """

    reason: str
    can_keep: bool
    holds: Callable[[Event, ExtractionConfig], bool]


RULES: tuple[Rule, ...] = (
    Rule("own-commit", False, _is_own_commit),
    Rule("merge-commit", False, _is_bare_merge),
    Rule("dependency-bump", False, _is_dependency_bump),
    Rule("bot-chatter", False, _is_bot_review),
    Rule("lockfile-only", False, _is_lockfile_commit),
    Rule("format-only", False, _is_format_commit),
    Rule("generated-docs", False, _is_generated_commit),
    Rule("ci-output", False, _is_check_without_outcome),
    Rule("no-content", False, _is_empty_review),
    Rule("no-content", True, _is_empty_turn),
    Rule("no-content", False, _is_bare_compaction),
    Rule("subject-only", True, _is_subject_only),
)


def find_reason_to_leave_out(
    event: Event, policy: ExtractionConfig, change_instruction: Instruction | None = None
) -> str | None:
    """Return the reason (a slug) why an event is left out of the evidence, None if it is kept.

    Authors may instruct by `Memory: keep` or `Memory: skip` for an event or a whole change. A skip
    leaves out everything. A keep lifts only the filters whose row says so (`can_keep`).

    Args:
        event: the event.
        policy: the configuration.
        change_instruction: the instruction for its whole change, which counts like its own.
    """
    own_instruction = _choose_strongest(
        [
            *re.findall(LEARNING_MARK, _join_message_and_trailers(event)),
            *_list_label_instructions(event),
        ]
    )
    if "skip" in (change_instruction, own_instruction):
        return "vetoed"
    is_to_be_kept = "keep" in (change_instruction, own_instruction)

    row = _find_intake_row(event)
    if not _is_severe_enough(event, row) and not (is_to_be_kept and row.can_keep):
        return row.reason
    for rule in RULES:
        is_lifted = is_to_be_kept and rule.can_keep
        if not is_lifted and rule.holds(event, policy):
            return rule.reason
    return None


def _find_intake_row(event: Event) -> Intake:
    """Return the first row of the intake table that is for the kind and actor of an event."""
    return next(row for row in INTAKE_ROWS if event.kind in row.kinds and event.actor in row.actors)


def _is_severe_enough(event: Event, row: Intake) -> bool:
    """Return whether an event has the severity from which its row makes it evidence."""
    if row.since is None:
        return False
    return SEVERITIES.index(event.severity) >= SEVERITIES.index(row.since)


def find_change_instruction(events: Iterable[Event]) -> Instruction | None:
    """Return the instruction `Memory: keep` or `skip` that a pull request has for its whole change.

    Its labels count, and its body unless an outsider wrote that.
    """
    instructions: list[str] = []
    for event in events:
        if event.kind != "pr":
            continue
        if not event.is_outside:
            instructions += re.findall(LEARNING_MARK, event.text)
        instructions += _list_label_instructions(event)
    return _choose_strongest(instructions)


def has_outcome(labels: Iterable[tuple[str, str]]) -> bool:
    """Return whether an event had an outcome.

    That is a check that failed and then passed, or a requested change that was made.
    """
    return any(key == "outcome" for key, _ in labels)


def normalize_message(text: str) -> str:
    """Return a commit message or pull request in one line, case folded, to be compared.

    Trailers, lines of a merge and `(#128)` are left out.
    """
    subject, _, body = text.partition("\n")
    lines = _list_prose_lines([REQUEST_NUMBER.sub("", subject), *body.splitlines()])
    return " ".join(" ".join(lines).split()).casefold()


def _choose_strongest(instructions: Iterable[str]) -> Instruction | None:
    """Return "skip" if any instruction is one, else "keep" if there is any; None without one."""
    lowered = {instruction.lower() for instruction in instructions}
    if "skip" in lowered:
        return "skip"
    return "keep" if lowered else None


def _list_label_instructions(event: Event) -> list[str]:
    """Return "keep" or "skip" for each label of a forge such as `memory: skip` or `memory-keep`."""
    instructions: list[str] = []
    for key, value in event.labels:
        match = INSTRUCTION_LABEL.fullmatch(f"{key}:{value}".strip())
        if match:
            instructions.append(match["instruction"])
    return instructions


def _join_message_and_trailers(event: Event) -> str:
    """Return the message and its trailers as lines; a squash buries trailers in the message."""
    return "\n".join([event.text, *(f"{key}: {value}" for key, value in event.labels)])


def _subject(event: Event) -> str:
    return event.text.partition("\n")[0].strip()


def _do_all_paths_match(event: Event, regex: Regex[str]) -> bool:
    return bool(event.paths) and all(regex.fullmatch(path) for path in event.paths)


def _says_more_than_subject(message: str) -> bool:
    """Return whether a message has a body other than trailers, or needs no body.

    The subject of a revert or a marked learning is enough.
    """
    # Some agents write `\n` out.
    subject, _, body = message.replace("\\n", "\n").partition("\n")
    if REVERT_SUBJECT.search(subject) or MARKED_SUBJECT.match(subject):
        return True
    return bool(_list_prose_lines(body.splitlines()))


def _list_own_lines(message: str) -> list[str]:
    """Return the lines of a merge message that a person wrote.

    Lines that git or a forge wrote are left out. So is a single line in a forge's merge message:
    it is the title of the pull request.
    """
    lines = _list_prose_lines(message.splitlines())
    is_title_alone = len(lines) == 1 and FORGE_MERGE.search(message)
    return [] if is_title_alone else lines


def _list_prose_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines of a message that its author wrote as prose, stripped.

    Blank lines, trailers, lines that git writes for a merge, and `Memory: keep` are left out.
    """
    prose_lines: list[str] = []
    for line in lines:
        stripped = line.strip()
        if not stripped:
            continue
        forms = (TRAILER_LINE, MERGE_LINE, LEARNING_MARK)
        if not any(re.fullmatch(form, stripped) for form in forms):
            prose_lines.append(stripped)
    return prose_lines
