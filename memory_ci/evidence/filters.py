"""Which events are evidence, as two tables: by kind, actor and severity (`INTAKE`), then by what they say (`RULES`).

In each the first row that holds decides. `Memory: keep` lifts a filter, never a row of the never list; `Memory: skip`
vetoes everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, get_args

from memory_ci.evidence.content import own_words, says_something
from memory_ci.evidence.trust import is_author
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Actor, Event, EventKind, Severity
from memory_ci.records.names import MARK, MERGE_LINE, OWN, TRAILER

Mark = Literal["keep", "skip"]

LOCKFILE = re.compile(
    r"(?:.*/)?(?:[\w.-]*\.lock|[\w.-]*-lock\.(?:json|yaml)|go\.sum|npm-shrinkwrap\.json|bun\.lockb|gradle\.lockfile)"
)
GENERATED = re.compile(
    r"(?:.*/)?(?:_build|site|generated|__generated__)/.*|(?:.*/)?llms(?:-full)?\.txt"
)
BUMP = re.compile(
    r"\b(?:bump|update|upgrade|autoupdate|renovate|pin|lock file maintenance|deps|dependenc)",
    re.IGNORECASE,
)
FORMAT = re.compile(
    r"(?:style|format|fmt)(?:\([^)]*\))?!?:|(?:\w+(?:\([^)]*\))?!?:\s*+)?(?:apply|run|fix)?\s*+"
    r"(?:gofmt|black|prettier|rustfmt|ruff format|clang-format|isort|auto-?format\w*|re-?format\w*|formatting)\b",
    re.IGNORECASE,
)
REGENERATE = re.compile(
    r"(?:\w+(?:\([^)]*\))?!?:\s*)?(?:re-?generate|auto-?generate)d?\b.*\b(?:docs?|documentation)\b",
    re.I,
)
REVERT = re.compile(r"revert|hot-?fix", re.IGNORECASE)
LABEL = re.compile(r"(?:label:\s*)?memory(?:\s*:\s*|-)(keep|skip):?", re.IGNORECASE)
NUMBER = re.compile(r"\([#!]\d{1,9}\)\s*\Z")

# A subject that is itself a marked learning: it needs no body.
MARKED = re.compile(
    r"(?:learn(?:ing|ed)|lesson|til|decision|decided|constraint|rejected|directive|convention|gotcha|invariant"
    r"|root[- ]cause)s?\b[^:\n]*[:\uff1a]",
    re.IGNORECASE,
)

# A merge that a forge wrote: it adds the title of the request as one line.
FORGE_MERGE = re.compile(r"\AMerge (?:pull request|PR|MR)\b|^See merge request ", re.MULTILINE)
SUMMARY_LENGTH = (
    200  # Characters below which a compaction is the bare notice of one, without its summary.
)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
ANYONE: frozenset[Actor] = frozenset(get_args(Actor))
AGENTS: frozenset[Actor] = frozenset({"agent", "subagent"})
HUMAN: frozenset[Actor] = frozenset({"human"})
# Kinds that are summaries or outcomes, whoever brings them.
TOLD: frozenset[EventKind] = frozenset(
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


class Intake(NamedTuple):
    """Who says what, from which severity on it is evidence (None: never), and the reason counted when it is not."""

    kinds: frozenset[EventKind]
    actors: frozenset[Actor]
    since: Severity | None
    reason: str
    can_keep: bool = False


INTAKE: tuple[Intake, ...] = (
    Intake(TOLD, ANYONE, "info", ""),
    Intake(frozenset({"rejection", "interrupt"}), HUMAN, "info", ""),
    Intake(frozenset({"text"}), HUMAN, "info", ""),
    Intake(frozenset({"review"}), HUMAN | AGENTS, "info", ""),
    Intake(frozenset({"review"}), ANYONE, None, "bot-chatter"),
    Intake(frozenset({"text"}), AGENTS, "warn", "low-severity", can_keep=True),
    Intake(frozenset({"tool_call", "tool_result"}), ANYONE, "warn", "tool-output"),
    Intake(frozenset(get_args(EventKind)), ANYONE, None, "injected"),
)


class Rule(NamedTuple):
    """One row: the reason counted in the report, whether `Memory: keep` lifts it, and when it holds."""

    reason: str
    can_keep: bool
    holds: Callable[[Event, ExtractionConfig], bool]


RULES: tuple[Rule, ...] = (
    Rule(
        "own-commit",
        False,
        lambda event, _: event.kind in ("commit", "pr") and bool(re.search(OWN, _lines(event))),
    ),
    Rule("merge-commit", False, lambda event, _: event.is_merge and not _own_text(event.text)),
    Rule(
        "dependency-bump",
        False,
        lambda event, policy: _is_bot(event, policy) and bool(BUMP.search(_subject(event))),
    ),
    Rule(
        "bot-chatter",
        False,
        lambda event, policy: event.kind == "review" and _is_bot(event, policy),
    ),
    Rule(
        "lockfile-only",
        False,
        lambda event, _: event.kind == "commit" and _all_paths(event, LOCKFILE),
    ),
    Rule(
        "format-only",
        False,
        lambda event, _: event.kind == "commit" and bool(FORMAT.match(_subject(event))),
    ),
    Rule("generated-docs", False, lambda event, _: _is_generated(event)),
    Rule(
        "ci-output", False, lambda event, _: event.kind == "check" and not has_outcome(event.labels)
    ),
    Rule(
        "no-content",
        False,
        lambda event, _: event.kind == "review" and not says_something(own_words(event.text)),
    ),
    Rule(
        "no-content", True, lambda event, _: event.kind == "text" and not says_something(event.text)
    ),
    Rule(
        "no-content",
        False,
        lambda event, _: event.kind == "compaction" and len(event.text) < SUMMARY_LENGTH,
    ),
    Rule(
        "subject-only", True, lambda event, _: event.kind == "commit" and not _says_more(event.text)
    ),
)


def find_reason_to_leave_out(
    event: Event, policy: ExtractionConfig, mark: Mark | None = None
) -> str | None:
    """Why `event` is no evidence, or None. `mark` is that of its whole change, beside its own."""
    # What its author says of `event` itself, by trailer or label; a veto is stronger than a wish.
    marks = {mark, _strongest([*re.findall(MARK, _lines(event)), *_labelled(event)])}
    if "skip" in marks:
        return "vetoed"
    is_kept = "keep" in marks
    row = next(row for row in INTAKE if event.kind in row.kinds and event.actor in row.actors)
    is_let_in = row.since is not None and SEVERITIES.index(event.severity) >= SEVERITIES.index(
        row.since
    )
    if not is_let_in and not (is_kept and row.can_keep):
        return row.reason
    return next(
        (
            rule.reason
            for rule in RULES
            if not (is_kept and rule.can_keep) and rule.holds(event, policy)
        ),
        None,
    )


def find_change_mark(events: Iterable[Event]) -> Mark | None:
    """What the pull request says of its whole change: its labels, and its body unless an outsider wrote that."""
    requests = [event for event in events if event.kind == "pr"]
    said = [
        found
        for event in requests
        if not event.is_outside
        for found in re.findall(MARK, event.text)
    ]
    return _strongest([*said, *(found for event in requests for found in _labelled(event))])


def has_outcome(labels: Iterable[tuple[str, str]]) -> bool:
    """Whether something came of it: a check that failed and then passed, a requested change that was made."""
    return any(key == "outcome" for key, _ in labels)


def message_words(text: str) -> str:
    """What a commit message or pull request says, in one line: no trailers, no lines of a merge, no `(#128)`."""
    subject, _, body = text.partition("\n")
    lines = _prose([NUMBER.sub("", subject), *body.splitlines()])
    return " ".join(" ".join(lines).split()).casefold()


def _strongest(found: Iterable[str]) -> Mark | None:
    marks = {mark.lower() for mark in found}
    return "skip" if "skip" in marks else "keep" if marks else None


def _labelled(event: Event) -> list[str]:
    """Marks among the labels of a forge, which have names of their own: `memory: skip`, `memory-skip`."""
    lines = (f"{key}:{value}" for key, value in event.labels)
    return [match.group(1) for line in lines if (match := LABEL.fullmatch(line.strip()))]


def _lines(event: Event) -> str:
    """The message and its trailers as lines: squash merges bury trailers, so both are read alike."""
    return "\n".join([event.text, *(f"{key}: {value}" for key, value in event.labels)])


def _subject(event: Event) -> str:
    return event.text.partition("\n")[0].strip()


def _is_bot(event: Event, policy: ExtractionConfig) -> bool:
    return event.actor == "bot" or is_author(event.author, policy.bot_authors)


def _all_paths(event: Event, regex: re.Pattern[str]) -> bool:
    return bool(event.paths) and all(regex.fullmatch(path) for path in event.paths)


def _is_generated(event: Event) -> bool:
    return event.kind == "commit" and (
        _all_paths(event, GENERATED) or bool(REGENERATE.match(_subject(event)))
    )


def _says_more(message: str) -> bool:
    """Whether a message has a body besides trailers. A revert or a mark says enough by its subject."""
    subject, _, body = message.replace("\\n", "\n").partition("\n")  # some agents write it out
    return bool(REVERT.search(subject) or MARKED.match(subject)) or bool(_prose(body.splitlines()))


def _own_text(message: str) -> list[str]:
    """The lines of a merge message that its author wrote: no default lines of git or a forge, no title."""
    lines = _prose(message.splitlines())
    return [] if len(lines) == 1 and FORGE_MERGE.search(message) else lines


def _prose(lines: Sequence[str]) -> list[str]:
    stripped = (line.strip() for line in lines)
    return [
        line
        for line in stripped
        if line and not any(re.fullmatch(form, line) for form in (TRAILER, MERGE_LINE, MARK))
    ]
