"""Selective ingestion: which events are evidence. High-volume, low-signal events drown memory.

NEVER, FILTERED and the vetoes are one table, `RULES`, read from the top: the first row that holds decides.
`Memory: keep` lifts a filter, never a row of the never list; `Memory: skip` vetoes everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from memory_ci.evidence.redact import redact
from memory_ci.evidence.trust import is_author, tier
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Event
from memory_ci.records.evidence import Evidence, EvidenceSet, LeftOut
from memory_ci.secrets import find_secrets

LOCKFILE = re.compile(
    r"(?:.*/)?(?:[\w.-]*\.lock|[\w.-]*-lock\.(?:json|yaml)|go\.sum|npm-shrinkwrap\.json|bun\.lockb|gradle\.lockfile)"
)
GENERATED = re.compile(r"(?:.*/)?(?:_build|site|generated|__generated__)/.*|(?:.*/)?llms(?:-full)?\.txt")
BUMP = re.compile(
    r"\b(?:bump|update|upgrade|autoupdate|renovate|pin|lock file maintenance|deps|dependenc)", re.IGNORECASE
)
FORMAT = re.compile(
    r"(?:style|format|fmt)(?:\([^)]*\))?!?:|(?:\w+(?:\([^)]*\))?!?:\s*+)?(?:apply|run|fix)?\s*+"
    r"(?:gofmt|black|prettier|rustfmt|ruff format|clang-format|isort|auto-?format\w*|re-?format\w*|formatting)\b",
    re.IGNORECASE,
)
REGENERATE = re.compile(
    r"(?:\w+(?:\([^)]*\))?!?:\s*)?(?:re-?generate|auto-?generate)d?\b.*\b(?:docs?|documentation)\b", re.I
)
REVERT = re.compile(r"revert|hot-?fix", re.IGNORECASE)
OWN = re.compile(r"^Memory-CI-(?:Step|Source):", re.MULTILINE | re.IGNORECASE)
MARK = re.compile(r"^[ \t]*Memory:[ \t]*(keep|skip)[ \t]*$", re.MULTILINE | re.IGNORECASE)
TRAILER = re.compile(r"[A-Z]\w*+-[\w-]++: .*")
MERGE_LINE = re.compile(
    r"Merge (?:pull request|branch|branches|remote-tracking|tag|commit|PR|MR)\b.*|See merge request .*|#.*"
)

MARKED = re.compile(
    r"(?:learn(?:ing|ed)|lesson|til|decision|decided|constraint|rejected|directive|convention|gotcha|invariant"
    r"|root[- ]cause)s?\b[^:\n]*[:\uff1a]",
    re.IGNORECASE,
)
"""A subject that is itself a marked learning: it needs no body."""

FORGE_MERGE = re.compile(r"\AMerge (?:pull request|PR|MR)\b|^See merge request ", re.MULTILINE)
"""A merge that a forge wrote: it adds the title of the request as one line."""


MAX_LENGTH = 65_536
"""Characters of a message or a record that are read; nobody who means to be read writes more."""


class Rule(NamedTuple):
    """One row: the reason counted in the report, whether `Memory: keep` lifts it, and when it holds."""

    reason: str
    can_keep: bool
    holds: Callable[[Event, ExtractionConfig], bool]


RULES: tuple[Rule, ...] = (
    Rule("own-commit", False, lambda event, _: bool(OWN.search(_marks(event)))),
    Rule("vetoed", False, lambda event, _: _mark(event) == "skip"),
    Rule(
        "tool-output", False, lambda event, _: event.kind in ("tool_call", "tool_result") and event.severity == "info"
    ),
    Rule("merge-commit", False, lambda event, _: event.is_merge and not _own_text(event.text)),
    Rule("dependency-bump", False, lambda event, policy: _is_bot(event, policy) and bool(BUMP.search(_subject(event)))),
    Rule("lockfile-only", False, lambda event, _: _all_paths(event, LOCKFILE)),
    Rule("format-only", False, lambda event, _: event.kind == "commit" and bool(FORMAT.match(_subject(event)))),
    Rule("generated-docs", False, lambda event, _: _is_generated(event)),
    Rule("subject-only", True, lambda event, _: event.kind == "commit" and not _says_more(event.text)),
    Rule("low-severity", True, lambda event, _: event.actor in ("agent", "subagent") and event.severity == "info"),
)


def collect(events: Iterable[Event], policy: ExtractionConfig) -> EvidenceSet:
    """Redacted, trust-tiered evidence of one merged change; what is left out is listed with its reason.

    Of a text over `MAX_LENGTH` the beginning is evidence, and its rest is left out as `too-long`.
    """
    pieces: list[Evidence] = []
    left_out: list[LeftOut] = []
    redactions = 0
    for event in events:
        if reason := find_reason_to_leave_out(event, policy):
            left_out.append(LeftOut(event.origin, reason))
            continue
        text = _cut(event.text)
        if text != event.text:
            left_out.append(LeftOut(event.origin, "too-long"))
        redacted = redact(text)
        redactions += redacted.credentials
        pieces.append(_evidence(event, redacted.text, f"e{len(pieces) + 1}", policy))
    return EvidenceSet(tuple(pieces), tuple(left_out), redactions)


def find_reason_to_leave_out(event: Event, policy: ExtractionConfig) -> str | None:
    """The reason of the first row of `RULES` that holds for `event` and that its author did not lift."""
    is_kept = _mark(event) == "keep"
    return next((rule.reason for rule in RULES if not (is_kept and rule.can_keep) and rule.holds(event, policy)), None)


def _evidence(event: Event, text: str, address: str, policy: ExtractionConfig) -> Evidence:
    return Evidence(
        id=address,
        kind=event.kind,
        text=text,
        trust=tier(event, policy.trusted_authors, policy.bot_authors),
        origin=event.origin,
        at=event.at,
        paths=tuple(path for path in event.paths if not find_secrets(path)),
        labels=tuple((key, redact(value).text) for key, value in event.labels),
    )


def _cut(text: str) -> str:
    """The lines of `text` that fit whole, else the words: half a credential would not be known as one."""
    if len(text) <= MAX_LENGTH:
        return text
    ends = (text.rfind(blank, 0, MAX_LENGTH) for blank in "\n ")
    return text[: next((end for end in ends if end > 0), MAX_LENGTH)]


def _subject(event: Event) -> str:
    return event.text.partition("\n")[0].strip()


def _marks(event: Event) -> str:
    """The message and its trailers as lines: squash merges bury trailers, so both are read alike."""
    return "\n".join([event.text, *(f"{key}: {value}" for key, value in event.labels)])


def _mark(event: Event) -> str | None:
    """`keep` or `skip`; a veto is stronger than a wish."""
    found = {mark.lower() for mark in MARK.findall(_marks(event))}
    return "skip" if "skip" in found else ("keep" if found else None)


def _is_bot(event: Event, policy: ExtractionConfig) -> bool:
    return event.actor == "bot" or is_author(event.author, policy.bot_authors)


def _all_paths(event: Event, regex: re.Pattern[str]) -> bool:
    return bool(event.paths) and all(regex.fullmatch(path) for path in event.paths)


def _is_generated(event: Event) -> bool:
    return event.kind == "commit" and (_all_paths(event, GENERATED) or bool(REGENERATE.match(_subject(event))))


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
        line for line in stripped if line and not any(regex.fullmatch(line) for regex in (TRAILER, MERGE_LINE, MARK))
    ]
