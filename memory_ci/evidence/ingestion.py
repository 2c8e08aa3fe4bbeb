"""The events of one merged change (commits, reviews, agents' turns) become evidence.

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
    typed_events = withdraw_pasted(events, policy)
    admitted, left_out = _admit(typed_events, policy)
    pieces: list[Evidence] = []
    redactions = 0
    for number, item in enumerate(admitted, start=1):
        text = _cut(item.event.text)
        if text != item.event.text:
            left_out.append(LeftOut(item.event.origin, "too-long"))
        reader = READERS.get(item.event.kind)
        redacted = redact(reader(text) if reader else text)
        redactions += redacted.credentials
        pieces.append(_make_piece(f"e{number}", item, redacted.text))
    reasons = {left.origin: left.reason for left in left_out}
    about = _describe(names.splitlines(), typed_events, reasons, pieces)
    return EvidenceSet(tuple(pieces), tuple(left_out), redactions, about)


def _make_piece(piece_id: str, item: Admitted, redacted_text: str) -> Evidence:
    """Return a piece of evidence; its labels are redacted, and paths with secrets are left out."""
    event = item.event
    labels = [(key, redact(value).text) for key, value in event.labels if key != REFUSED]
    return Evidence(
        id=piece_id,
        kind=event.kind,
        text=redacted_text,
        trust=item.trust,
        origin=event.origin,
        at=event.at,
        actor=event.actor,
        session=event.session,
        tool=event.tool,
        ok=event.ok,
        paths=tuple(path for path in event.paths if not find_secrets(path)),
        labels=tuple(labels),
        before=item.before,
    )


def _cut(text: str) -> str:
    """Return the start of a text, of at most `MAX_LENGTH` characters, cut at the end of a line.

    A line that is too long is cut at a blank: no pattern would recognise half a credential.
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
    """Describe a change by names that its evidence lacks: title, branch, subjects, directories.

    Args:
        names: the title, the branch and the labels of the change.
        events: its events, for the subjects left out and the directories with most changes.
        reasons: by origin, why events were left out.
        pieces: its evidence.

    Returns:
        A line for each name, and a line `in src, docs` at the end.
    """
    commits: list[Event] = []
    excluded = {_subject(piece) for piece in pieces}
    for event in events:
        if event.kind == "commit" and not event.is_merge:
            commits.append(event)
        if reasons.get(event.origin) == "vetoed":
            excluded.add(_subject(event))

    left_out_subjects: list[str] = []
    for commit in commits:
        reason = reasons.get(commit.origin)
        if reason is not None and reason not in UNTELLABLE:
            left_out_subjects.append(_subject(commit))

    lines: list[str] = []
    for name in dict.fromkeys([*names, *left_out_subjects[:NAMED]]):
        if name and name not in excluded:
            lines.append(shorten(redact(name).text, NAME_WIDTH))
    directories = _list_changed_directories(commits)
    if directories:
        lines.append(f"in {redact(directories).text}")
    return "\n".join(lines)


def _list_changed_directories(commits: Iterable[Event]) -> str:
    """Return the directories with most changed files, separated by commas."""
    counts: Counter[str] = Counter()
    for commit in commits:
        for path in commit.paths:
            directory = path.rpartition("/")[0] or "."
            counts[directory] += 1
    top = [directory for directory, _ in counts.most_common(NAMED)]
    return ", ".join(directory for directory in top if len(directory) <= NAME_WIDTH)


def _subject(event: Event | Evidence) -> str:
    """Return the first line of a message without the number of its request (`(#128)`)."""
    return NUMBER.sub("", event.text.partition("\n")[0]).strip()


def _admit(
    events: Sequence[Event], policy: ExtractionConfig
) -> tuple[list[Admitted], list[LeftOut]]:
    """Separate the events that are evidence from the others, which get a reason."""
    mark = find_change_mark(events)
    near_failures = _find_failures_near_words(events)
    words_before = _find_words_before(events)
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
            admitted.append(Admitted(event, trust, words_before.get(index, "")))

    originals = _drop_copies(admitted)
    for index, item in enumerate(admitted):
        if index not in originals:
            left_out.append(LeftOut(item.event.origin, "duplicate"))
    return [originals[index] for index in sorted(originals)], left_out


def _find_words_before(events: Iterable[Event]) -> dict[int, str]:
    """Return the agent's text before short turns, answers, rejections and interrupts.

    Such a turn of a person cannot be understood without it.

    Returns:
        By the index of the event: the end of the agent's last text in the session since the person
        wrote, and the call that was refused, masked.
    """
    last_agent_texts: dict[str | None, str] = {}
    words_before: dict[int, str] = {}
    for index, event in enumerate(events):
        # A text with a label is a model's own summary.
        if event.actor == "agent" and event.kind == "text" and not event.labels:
            last_agent_texts[event.session] = event.text
        elif event.actor == "human" and event.session is not None:
            agent_text = last_agent_texts.pop(event.session, "").rstrip()
            if event.kind in ("rejection", "interrupt") or is_answer(event.text, agent_text):
                words_before[index] = _join_words_before(agent_text, event)
    return words_before


def _join_words_before(agent_text: str, event: Event) -> str:
    """Return the end of the agent's text, and the call that the event refused, each in one line."""
    refused_calls = [value for key, value in event.labels if key == REFUSED]
    lines = [last_words(redact(agent_text).text, BEFORE_WIDTH)]
    if refused_calls:
        lines.append(shorten(redact(refused_calls[0]).text, BEFORE_WIDTH))
    return "\n".join(line for line in lines if line)


def _is_failure(event: Event) -> bool:
    return event.kind == "tool_result" and event.severity == "error"


def _find_failures_near_words(events: Sequence[Event]) -> set[int]:
    """Return the indices of failed tool calls that a person's next words may be about.

    These are failures among the last `NEAR` events before the words; of each session the last
    `FAILURES` count. The output of a tool is never evidence by itself: a failure corroborates the
    correction that follows it.
    """
    recent_by_session: defaultdict[str | None, deque[int]] = defaultdict(_new_recent)
    failures_by_session: defaultdict[str | None, deque[int]] = defaultdict(_new_failures)
    for index, event in enumerate(events):
        if event.actor == "human":
            for recent_index in recent_by_session.pop(event.session, ()):
                if _is_failure(events[recent_index]):
                    failures_by_session[event.session].append(recent_index)
        elif event.session is not None:
            recent_by_session[event.session].append(index)
    near: set[int] = set()
    return near.union(*failures_by_session.values())


def _new_recent() -> deque[int]:
    return deque(maxlen=NEAR)


def _new_failures() -> deque[int]:
    return deque(maxlen=FAILURES)


def _drop_copies(admitted: Sequence[Admitted]) -> dict[int, Admitted]:
    """Return by index all admitted events but the copies of a message.

    A squash repeats the text of its pull request. The most trusted of equal messages is kept, else
    the first. Words that an outsider wrote into the pull request stay his when a squash makes them
    a commit's.
    """
    indices_by_message: defaultdict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(admitted):
        if item.event.kind in MESSAGES:
            message = message_words(item.event.text)
            if message:
                indices_by_message[message].append(index)

    originals = dict(enumerate(admitted))
    for indices in indices_by_message.values():
        best = min(indices, key=lambda index: admitted[index].trust)
        if any(admitted[index].event.is_outside for index in indices):
            originals[best] = Admitted(admitted[best].event, "T3")
        for index in indices:
            if index != best:
                del originals[index]
    return originals
