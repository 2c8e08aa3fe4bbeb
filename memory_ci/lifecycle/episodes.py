"""Episodes after all that was told of them, in any order; what facts say of the entries that work was given."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from memory_ci.records.entry import Entry
from memory_ci.records.episode import (
    Amendment,
    Episode,
    EventKind,
    Feedback,
    FeedbackKind,
    Outcome,
    Situation,
    Telling,
    UseCount,
    in_utc,
)
from memory_ci.text import content_words, shorten, unfenced_lines, words

WORSE: tuple[Outcome, ...] = (
    "success",
    "neutral",
    "partial",
    "failure",
)  # Of two told at one time the worse stands.


def make_amendment(
    at: datetime,
    amends: str = "",
    *,
    outcome: Outcome | None = None,
    valence: float | None = None,
    feedback: Iterable[Feedback] = (),
    text: str = "",
) -> Amendment:
    """An amendment whose id follows from what it says: two writers of the same thing write the same file."""
    said = tuple(replace(item, at=in_utc(item.at)) for item in unique_events(feedback))
    told = Amendment(
        id="",
        at=in_utc(at),
        amends=amends,
        outcome=outcome,
        valence=valence,
        feedback=said,
        text=text,
    )
    digest = hashlib.sha256(_canonical(told)).hexdigest()[:12]
    return replace(told, id=f"{amends or 'feedback'}+{digest}")


def combine(tellings: Iterable[Telling]) -> tuple[Episode, ...]:
    """Every episode once, with what was learned of it later; ordered by time and id. Where several files tell one
    episode differently, the earliest of them stands, with the feedback of all."""
    told: defaultdict[str, list[Episode]] = defaultdict(list)
    amended: defaultdict[str, list[Amendment]] = defaultdict(list)
    for telling in tellings:
        if isinstance(telling, Episode):
            told[telling.id].append(telling)
        else:
            amended[telling.amends].append(telling)
    episodes = (_amend(versions, amended.get(name, ())) for name, versions in told.items())
    return tuple(sorted(episodes, key=lambda episode: (episode.occurred_at, episode.id)))


def list_feedback(tellings: Iterable[Telling]) -> tuple[Feedback, ...]:
    """All that was said of entries, each event once, in the order in which it is replayed."""
    return unique_events(said for telling in tellings for said in telling.feedback)


def unique_events(feedback: Iterable[Feedback]) -> tuple[Feedback, ...]:
    """Each event as it was told first, ordered by time, entry, kind and reference."""
    first: dict[tuple[object, ...], Feedback] = {}
    for said in feedback:
        key = event_key(said)
        known = first.get(key)
        if known is None or (said.at, said.by) < (known.at, known.by):
            first[key] = said
    return tuple(
        sorted(first.values(), key=lambda item: (item.at, item.id, item.kind, item.ref, item.by))
    )


def event_key(said: Feedback) -> tuple[object, ...]:
    """What two tellings of one event have in common."""
    return (
        (said.id, said.kind, said.ref) if said.ref else (said.id, said.kind, "", said.by, said.at)
    )


def _amend(versions: Sequence[Episode], amendments: Sequence[Amendment]) -> Episode:
    episode = min(versions, key=lambda version: (version.occurred_at, _canonical(version)))
    outcomes = [
        (told.at, WORSE.index(told.outcome), told.outcome)
        for told in amendments
        if told.outcome is not None
    ]
    valences = [(told.at, told.valence) for told in amendments if told.valence is not None]
    told: list[Telling] = [*versions, *amendments]
    return replace(
        episode,
        outcome=max(outcomes)[-1] if outcomes else episode.outcome,
        valence=max(valences)[-1] if valences else episode.valence,
        feedback=unique_events(said for one in told for said in one.feedback),
    )


def _canonical(telling: Any) -> bytes:  # noqa: ANN401 - any record
    return msgspec.json.encode(telling, order="deterministic")


Heirs = Mapping[str, Sequence[str]]  # By the id of an entry that is gone those that supersede it.
NO_HEIRS: Heirs = {}


def find_heirs(entries: Iterable[Entry], held: Container[str]) -> Heirs:
    """Which of `entries` inherit from which ids; an older entry that some memory file has (`held`) keeps its own."""
    heirs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for entry in entries:
        for older in entry.supersedes:
            if older not in held and older != entry.id:
                heirs[older][entry.id] = None
    return {older: tuple(ids) for older, ids in heirs.items()}


def find_heirs_among(entries: Iterable[Entry]) -> Heirs:
    """The same, where `entries` are all that memory files hold."""
    every = tuple(entries)
    return find_heirs(every, {entry.id for entry in every})


def pass_on(feedback: Iterable[Feedback], heirs: Heirs) -> tuple[Feedback, ...]:
    """Each event once, in the order of replay; what was said of one that is gone is said of its heirs. What one job
    said of two that became one is one event."""
    return unique_events(
        said if heir == said.id else replace(said, id=heir)
        for said in feedback
        for heir in heirs.get(said.id, (said.id,))
    )


def count_usage(episodes: Iterable[Episode], heirs: Heirs = NO_HEIRS) -> dict[str, UseCount]:
    """The usage of each entry that some work was given, or of its heirs. What was used was given, noted or not."""
    given, used = Counter[str](), Counter[str]()
    for episode in episodes:
        used_here = _heirs_of(episode.used, heirs)
        used.update(used_here)
        given.update(used_here | _heirs_of((one.id for one in episode.retrieved), heirs))
    return {entry_id: UseCount(count, used[entry_id]) for entry_id, count in given.items()}


def _heirs_of(ids: Iterable[str], heirs: Heirs) -> set[str]:
    return {heir for entry_id in ids for heir in heirs.get(entry_id, (entry_id,))}


# `/memory reject 0f6f1f0e`, at the start of a line of a comment; further in, it is code that is shown.
COMMAND = re.compile(
    r" {0,3}/memory[ \t]+(?P<verb>[a-z]+)[ \t]+(?P<id>[0-9a-fA-F][0-9a-fA-F-]{3,35})(?![\w-])"
)
HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)  # What nobody sees who reads the comment.
COMMANDS: tuple[tuple[str, FeedbackKind], ...] = (
    ("confirm", "confirmed"), ("correct", "corrected"), ("reject", "rejected"), ("undo", "undone"),
    ("ignore", "ignored"),
)  # fmt: skip
VERBS: dict[str, FeedbackKind] = {word: kind for verb, kind in COMMANDS for word in (verb, kind)}
BY_FACTS = "git"  # Who says what nobody said: the history.


class MergedWork(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a piece of work: the entries it was given and used, and of these the ones that a review changed
    the work where they speak, and those that it was about. `ref` is `pr:128` or `commit:…`."""

    ref: str
    at: datetime
    given: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()
    corrected: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    is_declined: bool = False


def derive_feedback(work: MergedWork) -> tuple[Feedback, ...]:
    """What the work says of each entry, one event each, by id. Used and merged unchanged: confirmed. Used and changed
    in review where it speaks: corrected. Used in work that was declined: rejected. Given and not used: ignored. About
    the same thing: touched, besides."""
    kinds: list[tuple[str, EventKind]] = []
    for one in sorted(work.given | work.used):
        used: EventKind = (
            "rejected"
            if work.is_declined
            else "corrected"
            if one in work.corrected
            else "confirmed"
        )
        kinds.append((one, used if one in work.used else "ignored"))
    kinds += [(one, "touched") for one in sorted(work.touched)]
    at = work.at.astimezone(UTC)
    return tuple(
        Feedback(id=one, kind=kind, at=at, by=BY_FACTS, ref=work.ref) for one, kind in kinds
    )


def undone_feedback(used: Iterable[str], ref: str, at: datetime) -> tuple[Feedback, ...]:
    """What a revert says of the entries that the reverted work used; `ref` is that work, which is undone once."""
    day = at.astimezone(UTC)
    return tuple(
        Feedback(id=one, kind="undone", at=day, by=BY_FACTS, ref=ref) for one in sorted(set(used))
    )


def find_commands(text: str) -> Iterator[tuple[FeedbackKind, str]]:
    """(kind, id or the beginning of one) of each `/memory …` line that is no code; a verb that is none says nothing."""
    seen = HIDDEN.sub("<!-- -->", "\n".join(unfenced_lines(text.splitlines())))
    for match in filter(None, map(COMMAND.match, seen.split("\n"))):
        if kind := VERBS.get(match["verb"]):
            yield kind, match["id"].lower()


def is_spoken_of(places: Collection[str], changed: Collection[str]) -> bool:
    """Whether a path that a review changed is one that an entry speaks of: its file, or a file below its directory."""
    return any(
        path == place or path.startswith(f"{place.rstrip('/')}/")
        for place in places
        for path in changed
    )


# -- what a piece of work was about, told from its paths, its labels and its title

SUMMARY_WIDTH = 120
MAX_TOPIC_WORDS = 3
# A label of the forge that names a part: `area: payments`, `component/search`.
AREA = re.compile(
    r"(?:area|domain|component|module|pkg|package|scope)\s*[:/]\s*(?P<name>\S.*?)\s*", re.IGNORECASE
)
CONVENTIONAL = re.compile(
    r"\w+\((?P<topic>[^()]{1,40})\)!?:\s"
)  # `fix(retries): …`, as Conventional Commits have it.
KIND = re.compile(r"\w+!?:\s+")
CONTAINERS = frozenset(
    {
        "src",
        "lib",
        "libs",
        "app",
        "apps",
        "packages",
        "pkg",
        "crates",
        "cmd",
        "internal",
        "modules",
        "services",
    }
)  # Directories that hold the parts and are none themselves.
# Where work leaves traces whatever it is about.
ASIDE = frozenset(
    {"tests", "test", "docs", "doc", "spec", "examples", "benchmarks", ".github", "changelog.d"}
)


def situation_of(title: str, paths: Sequence[str], labels: Collection[str]) -> Situation:
    """The situation of a change.

    Its domain is the part of the repository that a label names, else the one that most of the paths are in, "" for the
    root; its topic the scope of a conventional title, else the first words of content.

    >>> situation_of("fix(retries): charge once", ["src/payments/client.py", "tests/test_client.py"], ["bug"])
    Situation(domain='payments', topic='retries', summary='fix(retries): charge once')
    """
    areas = (match["name"].lower() for label in sorted(labels) if (match := AREA.fullmatch(label)))
    parts = [
        next((name for name in path.split("/")[:-1] if name not in CONTAINERS), "")
        for path in paths
    ]
    counts = Counter(part for part in parts if part and part not in ASIDE) or Counter(
        filter(None, parts)
    )
    usual = min(counts, key=lambda part: (-counts[part], part), default="")
    if match := CONVENTIONAL.match(title):
        topic = match["topic"].strip().lower()
    else:
        plain = KIND.sub("", title, count=1)
        telling = content_words(plain)
        topic = " ".join(
            list(dict.fromkeys(word for word in words(plain) if word in telling))[:MAX_TOPIC_WORDS]
        )
    return Situation(domain=next(areas, usual), topic=topic, summary=shorten(title, SUMMARY_WIDTH))
