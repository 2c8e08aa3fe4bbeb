"""Ingestion of the events of one merged change as evidence.

Events that are left out are listed with their reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from memory_ci.evidence.content import (
    failure_lines,
    interrupt_words,
    is_answer,
    last_words,
    own_words,
    redact,
)
from memory_ci.evidence.filters import (
    NUMBER,
    find_change_mark,
    find_reason_to_leave_out,
    message_words,
)
from memory_ci.evidence.paste import withdraw_pasted
from memory_ci.evidence.trust import classify_trust
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import (
    REFUSED,
    Event,
    EventKind,
    Evidence,
    EvidenceSet,
    LeftOut,
    Origin,
    Trust,
)
from memory_ci.secrets import find_secrets
from memory_ci.text import shorten

MAX_LENGTH = 65_536
"""Characters of a message or a record that are read; nobody writes more for a reader."""

BEFORE_WIDTH = 700  # Characters of the agent's last text, and of a call that was refused.
FAILURES = 5  # Latest failures of tools that are read of a session: they only corroborate.
NEAR = 10  # Events of a session before a person's turn among which its failures are looked for.
NAMED = 3  # The number of subjects and directories in `about`.
NAME_WIDTH = 80  # Characters of each.

UNTELLABLE = ("vetoed", "own-commit", "duplicate")
"""Reasons for leaving out a commit whose subject `about` must not name."""

MESSAGES = ("commit", "pr")
"""Kinds whose texts copy each other: a squash takes the words of its pull request."""

READERS: dict[EventKind, Callable[[str], str]] = {
    "review": own_words,
    "interrupt": interrupt_words,
    "tool_result": failure_lines,
}
"""By kind, the function that returns the readable part of a text; other texts are read whole."""


class Admitted(NamedTuple):
    """An event that is evidence.

    Attributes:
        event: the event.
        trust: its trust tier.
        before: the agent's text before it.
    """

    event: Event
    trust: Trust
    before: str = ""


def collect(events: Iterable[Event], policy: ExtractionConfig, names: str = "") -> EvidenceSet:
    """Return the redacted, trust-tiered evidence of one merged change.

    Of a text over `MAX_LENGTH` the beginning is evidence, and its end is left out as `too-long`. A
    rejection or an interrupt without a reason is a piece with an empty text: it counts that it
    happened, and no word of it can be quoted.

    Args:
        events: the events of the change.
        policy: the configuration.
        names: the title, the branch and the labels of the change, a line each, for its `about`.
    """
    events = withdraw_pasted(events, policy)
    admitted, left_out = _admit(events, policy)
    pieces: list[Evidence] = []
    redactions = 0
    for event, trust, before in admitted:
        text = _cut(event.text)
        if text != event.text:
            left_out.append(LeftOut(event.origin, "too-long"))
        reader = READERS.get(event.kind)
        redacted = redact(reader(text) if reader else text)
        redactions += redacted.credentials
        labels = [(key, redact(value).text) for key, value in event.labels if key != REFUSED]
        pieces.append(
            Evidence(
                id=f"e{len(pieces) + 1}",
                kind=event.kind,
                text=redacted.text,
                trust=trust,
                origin=event.origin,
                at=event.at,
                actor=event.actor,
                session=event.session,
                tool=event.tool,
                ok=event.ok,
                paths=tuple(path for path in event.paths if not find_secrets(path)),
                labels=tuple(labels),
                before=before,
            )
        )
    reasons = {left.origin: left.reason for left in left_out}
    about = _describe(names.splitlines(), events, reasons, pieces)
    return EvidenceSet(tuple(pieces), tuple(left_out), redactions, about)


def _cut(text: str) -> str:
    """Return the lines of a text that fit whole, else the words.

    No pattern would recognise half a credential.
    """
    if len(text) <= MAX_LENGTH:
        return text
    for blank in "\n ":
        end = text.rfind(blank, 0, MAX_LENGTH)
        if end > 0:
            return text[:end]
    return text[:MAX_LENGTH]


def _describe(
    names: Iterable[str],
    events: Iterable[Event],
    reasons: Mapping[Origin, str],
    pieces: Iterable[Evidence],
) -> str:
    """Describe a change by its names, subjects and directories that are not in its evidence.

    Args:
        names: the title, the branch and the labels of the change.
        events: its events, for the subjects left out and the directories with most changes.
        reasons: by origin, why events were left out.
        pieces: its evidence.
    """
    commits = [event for event in events if event.kind == "commit" and not event.is_merge]
    left_out_subjects = [
        _subject(commit)
        for commit in commits
        if reasons.get(commit.origin) not in (None, *UNTELLABLE)
    ]
    excluded = {_subject(piece) for piece in pieces}
    excluded.update(_subject(event) for event in events if reasons.get(event.origin) == "vetoed")
    subjects = dict.fromkeys([*names, *left_out_subjects[:NAMED]])
    lines = [
        shorten(redact(name).text, NAME_WIDTH) for name in subjects if name and name not in excluded
    ]

    folders: Counter[str] = Counter()
    for commit in commits:
        folders.update(path.rpartition("/")[0] or "." for path in commit.paths)
    top_folders = [folder for folder, _ in folders.most_common(NAMED)]
    places = ", ".join(folder for folder in top_folders if len(folder) <= NAME_WIDTH)
    if places:
        lines.append(f"in {redact(places).text}")
    return "\n".join(lines)


def _subject(event: Event | Evidence) -> str:
    return NUMBER.sub("", event.text.partition("\n")[0]).strip()


def _admit(
    events: Sequence[Event], policy: ExtractionConfig
) -> tuple[list[Admitted], list[LeftOut]]:
    """Return the events that are evidence, in order, and the others with their reason."""
    mark = find_change_mark(events)
    near_failures = _find_failures_near_words(events)
    before = _find_words_before(events)
    admitted: list[Admitted] = []
    left_out: list[LeftOut] = []
    for index, event in enumerate(events):
        reason = find_reason_to_leave_out(event, policy, mark)
        if reason is None and _is_failure(event) and index not in near_failures:
            reason = "tool-output"
        if reason:
            left_out.append(LeftOut(event.origin, reason))
        else:
            trust = classify_trust(event, policy.trusted_authors, policy.bot_authors)
            admitted.append(Admitted(event, trust, before.get(index, "")))

    originals = _drop_copies(admitted)
    for index, item in enumerate(admitted):
        if index not in originals:
            left_out.append(LeftOut(item.event.origin, "duplicate"))
    return [originals[index] for index in sorted(originals)], left_out


def _find_words_before(events: Iterable[Event]) -> dict[int, str]:
    """Return the agent's text before short turns, answers, rejections and interrupts.

    Returns:
        By the index of the event: the end of the agent's last text in the session since the person
        wrote, and the call that was refused, masked.
    """
    agent_texts: dict[str | None, str] = {}
    words_before: dict[int, str] = {}
    for index, event in enumerate(events):
        # A text with a label is a model's own summary.
        if event.actor == "agent" and event.kind == "text" and not event.labels:
            agent_texts[event.session] = event.text
        elif event.actor == "human" and event.session is not None:
            agent_text = agent_texts.pop(event.session, "").rstrip()
            if event.kind in ("rejection", "interrupt") or is_answer(event.text, agent_text):
                refused = next((value for key, value in event.labels if key == REFUSED), "")
                parts = (
                    last_words(redact(agent_text).text, BEFORE_WIDTH),
                    shorten(redact(refused).text, BEFORE_WIDTH),
                )
                words_before[index] = "\n".join(part for part in parts if part)
    return words_before


def _is_failure(event: Event) -> bool:
    return event.kind == "tool_result" and event.severity == "error"


def _find_failures_near_words(events: Sequence[Event]) -> set[int]:
    """Return the indices of failures that a person's next words may be about.

    Of each session the last `FAILURES` count. The output of a tool is never evidence by itself: a
    failure corroborates the correction that follows it.
    """
    recent: defaultdict[str | None, deque[int]] = defaultdict(_new_recent)
    failures: defaultdict[str | None, deque[int]] = defaultdict(_new_failures)
    for index, event in enumerate(events):
        if event.actor == "human":
            for recent_index in recent.pop(event.session, ()):
                if _is_failure(events[recent_index]):
                    failures[event.session].append(recent_index)
        elif event.session is not None:
            recent[event.session].append(index)
    near: set[int] = set()
    return near.union(*failures.values())


def _new_recent() -> deque[int]:
    return deque(maxlen=NEAR)


def _new_failures() -> deque[int]:
    return deque(maxlen=FAILURES)


def _drop_copies(admitted: Sequence[Admitted]) -> dict[int, Admitted]:
    """Return by index all events but the copies of a message.

    The most trusted of equal messages is kept, else the first. Words that an outsider wrote into
    the pull request stay his when a squash makes them a commit's.
    """
    copies: defaultdict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(admitted):
        if item.event.kind in MESSAGES:
            message = message_words(item.event.text)
            if message:
                copies[message].append(index)

    originals = dict(enumerate(admitted))
    for indices in copies.values():
        best = min(indices, key=lambda index: admitted[index].trust)
        if any(admitted[index].event.is_outside for index in indices):
            originals[best] = Admitted(admitted[best].event, "T3")
        for index in indices:
            if index != best:
                del originals[index]
    return originals
