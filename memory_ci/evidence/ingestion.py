"""Selective ingestion: from the events of one merged change to its evidence. What is left out is counted by reason."""

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
from memory_ci.evidence.trust import tier
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

MAX_LENGTH = 65_536  # Characters of a message or a record that are read; nobody who means to be read writes more.
BEFORE_WIDTH = 700  # Characters of what the agent said last, and of a call that was refused.
FAILURES = 5  # Failed tool results of one session that are read, the latest: they only corroborate.
NEAR = (
    10  # Events of a session before a human word in which a failure may be what that word is about.
)
NAMED, NAME_WIDTH = (
    3,
    80,
)  # How many subjects and directories `about` names, and the characters of each.
UNTELLABLE = (
    "vetoed",
    "own-commit",
    "duplicate",
)  # Why commits are left out whose subjects `about` does not name.
MESSAGES = (
    "commit",
    "pr",
)  # Kinds whose texts copy each other: a squash takes the words of its pull request.


# The part of a text that may be read: of a failure what failed, else their author's own words.
READERS: dict[EventKind, Callable[[str], str]] = {
    "review": own_words,
    "interrupt": interrupt_words,
    "tool_result": failure_lines,
}


class Admitted(NamedTuple):
    """An event that is evidence, how far it is trusted, and what an agent had said before."""

    event: Event
    trust: Trust
    before: str = ""


def collect(events: Iterable[Event], policy: ExtractionConfig, called: str = "") -> EvidenceSet:
    """Redacted, trust-tiered evidence of one merged change; what is left out is listed with its reason.

    `called` are the title, the branch and the labels of the change, a line each: what it is `about`. Of a text over
    `MAX_LENGTH` the beginning is evidence, and its rest is left out as `too-long`. A rejection or an interrupt without
    a reason is a piece with an empty text: that it happened counts, and nothing of it can be quoted.
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
                labels=tuple(
                    (key, redact(value).text) for key, value in event.labels if key != REFUSED
                ),
                before=before,
            )
        )
    about = _describe(
        called.splitlines(), events, {left.origin: left.reason for left in left_out}, pieces
    )
    return EvidenceSet(tuple(pieces), tuple(left_out), redactions, about)


def _cut(text: str) -> str:
    """The lines of `text` that fit whole, else the words: half a credential would not be known as one."""
    if len(text) <= MAX_LENGTH:
        return text
    ends = (text.rfind(blank, 0, MAX_LENGTH) for blank in "\n ")
    return text[: next((end for end in ends if end > 0), MAX_LENGTH)]


def _describe(
    names: Iterable[str],
    events: Iterable[Event],
    left_out: Mapping[Origin, str],
    pieces: Iterable[Evidence],
) -> str:
    """What the change is called where no piece says so, subjects that are no evidence, and where it changed most."""
    commits = [event for event in events if event.kind == "commit" and not event.is_merge]
    untold = [
        _subject(commit)
        for commit in commits
        if left_out.get(commit.origin) not in (None, *UNTELLABLE)
    ]
    told = [
        *map(_subject, pieces),
        *(_subject(one) for one in events if left_out.get(one.origin) == "vetoed"),
    ]
    named = [name for name in dict.fromkeys([*names, *untold[:NAMED]]) if name and name not in told]
    folders = Counter(path.rpartition("/")[0] or "." for commit in commits for path in commit.paths)
    places = ", ".join(
        folder for folder, _ in folders.most_common(NAMED) if len(folder) <= NAME_WIDTH
    )
    lines = [shorten(redact(name).text, NAME_WIDTH) for name in named]
    return "\n".join([*lines, f"in {redact(places).text}"] if places else lines)


def _subject(one: Event | Evidence) -> str:
    return NUMBER.sub("", one.text.partition("\n")[0]).strip()


def _admit(
    events: Sequence[Event], policy: ExtractionConfig
) -> tuple[list[Admitted], list[LeftOut]]:
    """The events that are evidence, in order, and the others with their reason."""
    mark, near, before = (
        find_change_mark(events),
        _failures_near_words(events),
        _words_before(events),
    )
    admitted: list[Admitted] = []
    left_out: list[LeftOut] = []
    for at, event in enumerate(events):
        reason = find_reason_to_leave_out(event, policy, mark)
        if reason is None and _is_failure(event) and at not in near:
            reason = "tool-output"
        if reason:
            left_out.append(LeftOut(event.origin, reason))
        else:
            trust = tier(event, policy.trusted_authors, policy.bot_authors)
            admitted.append(Admitted(event, trust, before.get(at, "")))
    kept = _without_copies(admitted)
    left_out += (
        LeftOut(one.event.origin, "duplicate") for at, one in enumerate(admitted) if at not in kept
    )
    return [kept[at] for at in sorted(kept)], left_out


def _words_before(events: Iterable[Event]) -> dict[int, str]:
    """By the place of a short turn, an answer, a rejection or an interrupt: the end of what the agent had said in its
    session since the person spoke, and the call that was refused, masked."""
    spoken: dict[str | None, str] = {}
    found = {}
    for at, event in enumerate(events):
        if (
            event.actor == "agent" and event.kind == "text" and not event.labels
        ):  # a label: a model's own summary
            spoken[event.session] = event.text
        elif event.actor == "human" and event.session is not None:
            said = spoken.pop(event.session, "").rstrip()
            refused = next((value for key, value in event.labels if key == REFUSED), "")
            if event.kind in ("rejection", "interrupt") or is_answer(event.text, said):
                told = (
                    last_words(redact(said).text, BEFORE_WIDTH),
                    shorten(redact(refused).text, BEFORE_WIDTH),
                )
                found[at] = "\n".join(filter(None, told))
    return found


def _is_failure(event: Event) -> bool:
    return event.kind == "tool_result" and event.severity == "error"


def _failures_near_words(events: Sequence[Event]) -> frozenset[int]:
    """Where the failed results are that a person's next words may be about; of each session the last `FAILURES`. A
    tool's output is never evidence by itself: a failure corroborates the correction that follows it."""
    recent: defaultdict[str | None, deque[tuple[int, Event]]] = defaultdict(
        lambda: deque(maxlen=NEAR)
    )
    kept: defaultdict[str | None, deque[int]] = defaultdict(lambda: deque(maxlen=FAILURES))
    for at, event in enumerate(events):
        if event.actor == "human":
            kept[event.session] += (
                place for place, one in recent.pop(event.session, ()) if _is_failure(one)
            )
        elif event.session is not None:
            recent[event.session].append((at, event))
    return frozenset(place for places in kept.values() for place in places)


def _without_copies(admitted: Sequence[Admitted]) -> dict[int, Admitted]:
    """By their places, what is left when messages that say the same are one: the most trusted, else the first. Words
    that an outsider wrote into the pull request stay his when a squash makes them a commit's."""
    kept = dict(enumerate(admitted))
    copies: defaultdict[str, list[int]] = defaultdict(list)
    for at, one in kept.items():
        if one.event.kind in MESSAGES and (said := message_words(one.event.text)):
            copies[said].append(at)
    for places in copies.values():
        best = min(places, key=lambda at: kept[at].trust)
        if any(kept[at].event.is_outside for at in places):
            kept[best] = Admitted(kept[best].event, "T3")
        for at in places:
            if at != best:
                del kept[at]
    return kept
