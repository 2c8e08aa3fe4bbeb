"""The events of one merged change (commits, reviews, agents' turns) become evidence.

Events that are left out are listed with their reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from memory_ci.evidence.content import (
    cut_to_end,
    extract_failure_lines,
    extract_interrupt_words,
    extract_own_words,
    needs_agent_text,
    redact,
)
from memory_ci.evidence.filters import (
    REQUEST_NUMBER,
    find_change_instruction,
    find_reason_to_leave_out,
    normalize_message,
)
from memory_ci.evidence.paste import remove_pasted_reviews
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
MAX_FAILURES = 5  # Latest failures of tools that are read of a session: they only corroborate.
MAX_EVENTS_BEFORE_WORDS = (
    10  # Events of a session before a person's turn among which its failures are looked for.
)
MAX_NAMES = 3  # The number of subjects and directories in `about`.
NAME_WIDTH = 80  # Characters of each.

REASONS_WITHOUT_NAME = ("vetoed", "own-commit", "duplicate")
"""Reasons for leaving out a commit whose subject `about` must not name."""

MESSAGE_KINDS = ("commit", "pr")
"""Kinds whose texts copy each other: a squash takes the words of its pull request."""

READER_BY_KIND: dict[EventKind, Callable[[str], str]] = {
    "review": extract_own_words,
    "interrupt": extract_interrupt_words,
    "tool_result": extract_failure_lines,
}
"""By kind, the function that returns the readable part of a text; other texts are read whole."""


class AdmittedEvent(NamedTuple):
    """An event that is evidence.

    Attributes:
        event: the event.
        trust: its trust tier.
        before: the agent's text before it.
    """

    event: Event
    trust: Trust
    before: str = ""


def collect_evidence(
    events: Iterable[Event], policy: ExtractionConfig, names: str = ""
) -> EvidenceSet:
    """Return the redacted, trust-tiered evidence of one merged change.

    Of a text over `MAX_LENGTH` the beginning is evidence, and its end is left out as `too-long`. A
    rejection or an interrupt without a reason is a piece with an empty text: it counts that it
    happened, and no word of it can be quoted.

    Args:
        events: the events of the change.
        policy: the configuration.
        names: the title, the branch and the labels of the change, a line each, for its `about`.
    """
    typed_events = remove_pasted_reviews(events, policy)
    admitted, left_out = _select_evidence(typed_events, policy)
    pieces: list[Evidence] = []
    redactions = 0
    for number, item in enumerate(admitted, start=1):
        text = _cut(item.event.text)
        if text != item.event.text:
            left_out.append(LeftOut(item.event.origin, "too-long"))
        reader = READER_BY_KIND.get(item.event.kind)
        redacted = redact(reader(text) if reader else text)
        redactions += redacted.credentials
        pieces.append(_make_piece(f"e{number}", item, redacted.text))
    left_out_reasons = {left.origin: left.reason for left in left_out}
    about = _describe_change(names.splitlines(), typed_events, left_out_reasons, pieces)
    return EvidenceSet(tuple(pieces), tuple(left_out), redactions, about)


def _make_piece(piece_id: str, item: AdmittedEvent, redacted_text: str) -> Evidence:
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


def _describe_change(
    names: Iterable[str],
    events: Iterable[Event],
    left_out_reasons: Mapping[Origin, str],
    pieces: Iterable[Evidence],
) -> str:
    """Return what a change is about, in addition to its evidence: names, subjects, directories.

    A subject is listed if its commit is no evidence itself. A line that evidence begins with is
    not repeated. No line is the subject of a commit that its author vetoed
    (`Memory: skip`).

    Args:
        names: the title, the branch and the labels of the change.
        events: its events, which have the subjects and the directories with most changes.
        left_out_reasons: why events were left out of the evidence, by origin.
        pieces: its evidence.

    Returns:
        A line for each name and subject, and a line `in src, docs` at the end.
    """
    commits: list[Event] = []
    excluded_lines = {_get_subject(piece) for piece in pieces}
    for event in events:
        if event.kind == "commit" and not event.is_merge:
            commits.append(event)
        if left_out_reasons.get(event.origin) == "vetoed":
            excluded_lines.add(_get_subject(event))

    subjects: list[str] = []
    for commit in commits:
        reason = left_out_reasons.get(commit.origin)
        if reason is not None and reason not in REASONS_WITHOUT_NAME:
            subjects.append(_get_subject(commit))

    lines: list[str] = []
    for line in dict.fromkeys([*names, *subjects[:MAX_NAMES]]):
        if line and line not in excluded_lines:
            lines.append(shorten(redact(line).text, NAME_WIDTH))
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
    top = [directory for directory, _ in counts.most_common(MAX_NAMES)]
    return ", ".join(directory for directory in top if len(directory) <= NAME_WIDTH)


def _get_subject(event: Event | Evidence) -> str:
    """Return the first line of a message without the number of its request (`(#128)`)."""
    return REQUEST_NUMBER.sub("", event.text.partition("\n")[0]).strip()


def _select_evidence(
    events: Sequence[Event], policy: ExtractionConfig
) -> tuple[list[AdmittedEvent], list[LeftOut]]:
    """Return the events that are evidence, and the others with the reason why they are left out.

    A person's short turn gets the agent's text before it. A failed tool call is evidence only if a
    person speaks soon after it, perhaps about it.
    """
    change_instruction = find_change_instruction(events)
    failures_before_words = _find_failures_before_words(events)
    agent_texts_before = _find_agent_texts_before(events)
    admitted: list[AdmittedEvent] = []
    left_out: list[LeftOut] = []
    for index, event in enumerate(events):
        reason = find_reason_to_leave_out(event, policy, change_instruction)
        if reason is None and _is_failure(event) and index not in failures_before_words:
            reason = "tool-output"
        if reason:
            left_out.append(LeftOut(event.origin, reason))
        else:
            trust = classify_trust(event, policy.trusted_authors, policy.bot_authors)
            admitted.append(AdmittedEvent(event, trust, agent_texts_before.get(index, "")))

    originals = _remove_copies(admitted)
    for index, item in enumerate(admitted):
        if index not in originals:
            left_out.append(LeftOut(item.event.origin, "duplicate"))
    return [originals[index] for index in sorted(originals)], left_out


def _find_agent_texts_before(events: Iterable[Event]) -> dict[int, str]:
    """Return the agent's text before each turn of a person that needs it to be understood.

    These turns are short turns, answers, rejections and interrupts. The text is the agent's last
    one since the person's turn before, cut to its end. For a rejection, the call that was refused
    is added. Secrets are masked.

    Returns:
        The texts by the index of the person's turn.
    """
    last_agent_texts: dict[str | None, str] = {}  # by session, since the person's last turn
    texts_before: dict[int, str] = {}
    for index, event in enumerate(events):
        is_summary = bool(event.labels)  # a model's own summary of the session has a label
        if event.actor == "agent" and event.kind == "text" and not is_summary:
            last_agent_texts[event.session] = event.text
        elif event.actor == "human" and event.session is not None:
            agent_text = last_agent_texts.pop(event.session, "").rstrip()
            is_stop = event.kind in ("rejection", "interrupt")
            if is_stop or needs_agent_text(event.text, agent_text):
                texts_before[index] = _join_agent_text_and_call(agent_text, event)
    return texts_before


def _join_agent_text_and_call(agent_text: str, event: Event) -> str:
    """Return the end of the agent's text, and the call that the event refused, each in one line."""
    refused_calls = [value for key, value in event.labels if key == REFUSED]
    lines = [cut_to_end(redact(agent_text).text, BEFORE_WIDTH)]
    if refused_calls:
        lines.append(shorten(redact(refused_calls[0]).text, BEFORE_WIDTH))
    return "\n".join(line for line in lines if line)


def _is_failure(event: Event) -> bool:
    return event.kind == "tool_result" and event.severity == "error"


def _find_failures_before_words(events: Sequence[Event]) -> set[int]:
    """Return the indices of failed tool calls that a person's next words may be about.

    These are failures among the last `MAX_EVENTS_BEFORE_WORDS` events of a session before a
    person's turn; of each session, the last `MAX_FAILURES` of them. The output of a tool is never
    evidence by itself: a failure corroborates the correction that follows it.
    """
    # The last events of each session since the person's turn before.
    recent_by_session: dict[str | None, deque[int]] = {}
    failures_by_session: dict[str | None, deque[int]] = {}
    for index, event in enumerate(events):
        if event.actor == "human":
            failures = failures_by_session.setdefault(event.session, deque(maxlen=MAX_FAILURES))
            for recent_index in recent_by_session.pop(event.session, ()):
                if _is_failure(events[recent_index]):
                    failures.append(recent_index)
        elif event.session is not None:
            recent = recent_by_session.setdefault(
                event.session, deque(maxlen=MAX_EVENTS_BEFORE_WORDS)
            )
            recent.append(index)
    near_words: set[int] = set()
    return near_words.union(*failures_by_session.values())


def _remove_copies(admitted: Sequence[AdmittedEvent]) -> dict[int, AdmittedEvent]:
    """Return the admitted events without copies of a message, by their indices.

    A squash commit repeats the text of its pull request. Of equal messages the most trusted is
    kept, or the first one. If any of them is by an outsider, the trust of the kept one is T3 (not
    quotable): a squash must not turn an outsider's words into those of the person who merged them.
    """
    indices_by_message: defaultdict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(admitted):
        if item.event.kind in MESSAGE_KINDS:
            message = normalize_message(item.event.text)
            if message:
                indices_by_message[message].append(index)

    originals = dict(enumerate(admitted))
    for indices in indices_by_message.values():
        best = min(indices, key=lambda index: admitted[index].trust)
        if any(admitted[index].event.is_outside for index in indices):
            originals[best] = AdmittedEvent(admitted[best].event, "T3")
        for index in indices:
            if index != best:
                del originals[index]
    return originals
