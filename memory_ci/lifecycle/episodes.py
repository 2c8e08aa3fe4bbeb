"""Episodes (records of merged changes) with their amendments, and the feedback on entries."""

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
    EpisodeRecord,
    EventKind,
    Feedback,
    FeedbackKind,
    Outcome,
    Situation,
    UseCount,
    to_utc,
)
from memory_ci.records.names import SHA_WIDTH
from memory_ci.regex import Regex
from memory_ci.text import content_words, shorten, unfenced_lines, words

OUTCOMES_BY_SEVERITY: tuple[Outcome, ...] = ("success", "neutral", "partial", "failure")
"""Outcomes, the worst last. Of two outcomes recorded for one time the worse counts."""


def make_amendment(
    at: datetime,
    amends: str = "",
    *,
    outcome: Outcome | None = None,
    valence: float | None = None,
    feedback: Iterable[Feedback] = (),
    text: str = "",
) -> Amendment:
    """Make an amendment: a later addition to an episode, the record of a merged change.

    Its id is a hash of its content, so that two writers of the same content write the same file.

    Args:
        at: when it was made.
        amends: the id of the episode. Feedback on entries may belong to no episode; then it is "".
        outcome: the new outcome of the episode; None if it stays.
        valence: the new valence, how much the episode matters from 0 to 1; None if it stays.
        feedback: feedback on entries.
        text: what people said about it.
    """
    events = [replace(event, at=to_utc(event.at)) for event in unique_events(feedback)]
    amendment = Amendment(
        id="",
        at=to_utc(at),
        amends=amends,
        outcome=outcome,
        valence=valence,
        feedback=tuple(events),
        text=text,
    )
    digest = hashlib.sha256(_encode_canonical(amendment)).hexdigest()[:12]
    return replace(amendment, id=f"{amends or 'feedback'}+{digest}")


def apply_amendments(records: Iterable[EpisodeRecord]) -> tuple[Episode, ...]:
    """Return every episode once, with its amendments applied, ordered by time and id.

    An episode is the record of one merged change. Where several files hold different versions of
    one, the earliest version counts, with the feedback of all.
    """
    versions: defaultdict[str, list[Episode]] = defaultdict(list)
    amendments: defaultdict[str, list[Amendment]] = defaultdict(list)
    for record in records:
        if isinstance(record, Episode):
            versions[record.id].append(record)
        else:
            amendments[record.amends].append(record)

    episodes = [
        _amend(episode_versions, amendments.get(episode_id, ()))
        for episode_id, episode_versions in versions.items()
    ]
    return tuple(sorted(episodes, key=lambda episode: (episode.occurred_at, episode.id)))


def list_feedback(records: Iterable[EpisodeRecord]) -> tuple[Feedback, ...]:
    """Return all feedback on entries, each event once, in the order of replay."""
    return unique_events(event for record in records for event in record.feedback)


def unique_events(feedback: Iterable[Feedback]) -> tuple[Feedback, ...]:
    """Return the first report of each event, ordered by time, entry, kind and reference."""
    first_reports: dict[tuple[object, ...], Feedback] = {}
    for event in feedback:
        key = event_key(event)
        first = first_reports.get(key)
        if first is None or (event.at, event.by) < (first.at, first.by):
            first_reports[key] = event

    def order(event: Feedback) -> tuple[datetime, str, str, str, str]:
        return event.at, event.id, event.kind, event.ref, event.by

    return tuple(sorted(first_reports.values(), key=order))


def event_key(event: Feedback) -> tuple[object, ...]:
    """Return the key that all reports of one event share: the entry, the kind and the work.

    If the event has no reference to the work, the author and the time identify the work.
    """
    if event.ref:
        return event.id, event.kind, event.ref
    return event.id, event.kind, "", event.by, event.at


def _amend(versions: Sequence[Episode], amendments: Sequence[Amendment]) -> Episode:
    """Return the earliest version of an episode with its latest outcome and valence.

    Of two outcomes of one time the worse counts, of two valences the higher. The feedback is that
    of all versions and amendments.
    """
    episode = min(versions, key=lambda version: (version.occurred_at, _encode_canonical(version)))
    feedback = list_feedback([*versions, *amendments])
    outcomes: list[tuple[datetime, int]] = []
    valences: list[tuple[datetime, float]] = []
    for amendment in amendments:
        if amendment.outcome is not None:
            severity = OUTCOMES_BY_SEVERITY.index(amendment.outcome)
            outcomes.append((amendment.at, severity))
        if amendment.valence is not None:
            valences.append((amendment.at, amendment.valence))

    outcome = episode.outcome
    if outcomes:
        _, severity = max(outcomes)
        outcome = OUTCOMES_BY_SEVERITY[severity]
    valence = episode.valence
    if valences:
        _, valence = max(valences)
    return replace(episode, outcome=outcome, valence=valence, feedback=feedback)


def _encode_canonical(record: Any) -> bytes:  # noqa: ANN401 - any record
    return msgspec.json.encode(record, order="deterministic")


Successors = Mapping[str, Sequence[str]]
"""The ids of the entries that supersede an entry, by the id of an entry that no file holds."""

NO_SUCCESSORS: Successors = {}


def find_successors(entries: Iterable[Entry], present_ids: Container[str]) -> Successors:
    """Return for each entry that was removed from the memory files the entries that supersede it.

    Args:
        entries: the entries that may supersede others.
        present_ids: ids of entries in memory files; these have no successors.
    """
    successors: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for entry in entries:
        for old_id in entry.supersedes:
            if old_id not in present_ids and old_id != entry.id:
                successors[old_id][entry.id] = None
    return {old_id: tuple(successor_ids) for old_id, successor_ids in successors.items()}


def find_successors_among(entries: Iterable[Entry]) -> Successors:
    """Return the successors of removed entries, from all entries of the memory files."""
    all_entries = tuple(entries)
    return find_successors(all_entries, {entry.id for entry in all_entries})


def move_to_successors(
    feedback: Iterable[Feedback], successors: Successors
) -> tuple[Feedback, ...]:
    """Return feedback in which removed entries are replaced by the entries that supersede them.

    Each event is returned once, ordered by time. Feedback of one piece of work on two entries that
    were merged into one becomes one event.
    """
    moved_events: list[Feedback] = []
    for event in feedback:
        for successor_id in successors.get(event.id, (event.id,)):
            moved_events.append(replace(event, id=successor_id))
    return unique_events(moved_events)


def count_usage(
    episodes: Iterable[Episode], successors: Successors = NO_SUCCESSORS
) -> dict[str, UseCount]:
    """Count for each entry the episodes that it was served to and those that used it.

    A superseded entry counts for its successors, the entries that supersede it. An entry that was
    used counts as served, even if the episode does not list it as retrieved.

    Args:
        episodes: the records of merged changes.
        successors: the successors of entries that no memory file holds any more.
    """
    served_counts = Counter[str]()
    used_counts = Counter[str]()
    for episode in episodes:
        used_ids = replace_by_successors(episode.used, successors)
        retrieved_ids = replace_by_successors((entry.id for entry in episode.retrieved), successors)
        used_counts.update(used_ids)
        served_counts.update(used_ids | retrieved_ids)
    return {
        entry_id: UseCount(count, used_counts[entry_id])
        for entry_id, count in served_counts.items()
    }


def replace_by_successors(ids: Iterable[str], successors: Successors) -> set[str]:
    """Return ids with those that no memory file holds replaced by their successors."""
    return {successor_id for id_ in ids for successor_id in successors.get(id_, (id_,))}


def weigh_by_learned(
    records: Iterable[EpisodeRecord], written_ids: Container[str], entries: Iterable[Entry]
) -> tuple[EpisodeRecord, ...]:
    """Return episodes, with the valence of each derived one raised to that of its learnings.

    The valence is how much an episode matters. An episode that was derived from git's history has
    no valence of its own, but entries name the change that they were learned from, and have an
    importance. An episode that was written keeps its valence.

    Args:
        records: the episodes and amendments.
        written_ids: ids of those that have a file.
        entries: the entries of memory.
    """
    importance_by_ref: dict[str, float] = {}
    for entry in entries:
        for ref in [*(entry.source or "").split(), *entry.occurrences]:
            importance_by_ref[ref] = max(importance_by_ref.get(ref, 0.0), entry.importance)

    weighed: list[EpisodeRecord] = []
    for record in records:
        if isinstance(record, Episode) and record.id not in written_ids:
            action = record.action
            refs = (f"pr:{action.pr}", f"commit:{action.commit[:SHA_WIDTH]}")
            importances = [importance_by_ref.get(ref, 0.0) for ref in refs]
            record = replace(record, valence=max(record.valence, *importances))
        weighed.append(record)
    return tuple(weighed)


COMMAND = Regex(
    r" {0,3}/memory[ \t]+(?P<verb>[a-z]+)[ \t]+(?P<id>[0-9a-fA-F][0-9a-fA-F-]{3,35})(?![\w-])"
)
"""`/memory reject 0f6f1f0e` at the start of a line of a comment. Further indented, it is code."""

HIDDEN = Regex(r"<!--.*?(?:-->|\Z)", re.DOTALL)
"""HTML comments, which readers of a rendered comment do not see."""

FEEDBACK_VERBS: tuple[tuple[str, FeedbackKind], ...] = (
    ("confirm", "confirmed"),
    ("correct", "corrected"),
    ("reject", "rejected"),
    ("undo", "undone"),
    ("ignore", "ignored"),
)
KINDS_BY_VERB: dict[str, FeedbackKind] = {
    **dict(FEEDBACK_VERBS),
    **{kind: kind for _, kind in FEEDBACK_VERBS},
}
"""Kinds of feedback by the verb of a command; the name of a kind is a verb, too."""

BY_FACTS = "git"
"""The author (`by`) of feedback that is derived from the history and was given by no person."""


class MergedWork(msgspec.Struct, frozen=True, kw_only=True):
    """A merged or declined change and the entries that were involved in it.

    Attributes:
        ref: `pr:128` or `commit:…`.
        at: when it was merged or declined.
        served: ids of the entries that it was served.
        used: ids of the entries that it used.
        corrected: ids of used entries about code that a review then changed.
        touched: ids of the entries about the code that it changed.
        is_declined: whether it was closed without a merge.
    """

    ref: str
    at: datetime
    served: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()
    corrected: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    is_declined: bool = False


def derive_feedback(work: MergedWork) -> tuple[Feedback, ...]:
    """Derive feedback on the entries that were involved in a merged or declined change, by id.

    - confirmed: used, and merged unchanged;
    - corrected: used, and changed by a review in the code that the entry is about;
    - rejected: used in work that was declined;
    - ignored: served and not used;
    - touched: about code that the work changed, in addition to the kinds above.
    """
    kinds: list[tuple[str, EventKind]] = []
    for entry_id in sorted(work.served | work.used):
        kinds.append((entry_id, _derive_kind(work, entry_id)))
    for entry_id in sorted(work.touched):
        kinds.append((entry_id, "touched"))

    at = work.at.astimezone(UTC)
    return tuple(
        Feedback(id=entry_id, kind=kind, at=at, by=BY_FACTS, ref=work.ref)
        for entry_id, kind in kinds
    )


def _derive_kind(work: MergedWork, entry_id: str) -> EventKind:
    if entry_id not in work.used:
        return "ignored"
    if work.is_declined:
        return "rejected"
    return "corrected" if entry_id in work.corrected else "confirmed"


def derive_undone_feedback(used_ids: Iterable[str], ref: str, at: datetime) -> tuple[Feedback, ...]:
    """Derive feedback `undone` on each entry that reverted work had used.

    Args:
        used_ids: ids of the entries.
        ref: the reverted work, so that a second revert of it adds no event.
        at: when it was reverted.
    """
    utc_time = at.astimezone(UTC)
    return tuple(
        Feedback(id=entry_id, kind="undone", at=utc_time, by=BY_FACTS, ref=ref)
        for entry_id in sorted(set(used_ids))
    )


def find_commands(text: str) -> Iterator[tuple[FeedbackKind, str]]:
    """Yield the commands by which a comment gives feedback on entries (`/memory reject 0f6f1f0e`).

    Each is a kind of feedback and an id, or its start. Lines in code blocks and in HTML comments,
    and lines with an unknown verb are skipped.
    """
    visible = HIDDEN.sub("<!-- -->", "\n".join(unfenced_lines(text.splitlines())))
    for line in visible.split("\n"):
        match = COMMAND.match(line)
        kind = KINDS_BY_VERB.get(match["verb"]) if match else None
        if match and kind:
            yield kind, match["id"].lower()


def covers_changed_path(cited_paths: Collection[str], changed_paths: Collection[str]) -> bool:
    """Return whether a changed path is a cited file, or a file below a cited directory."""
    for cited_path in cited_paths:
        prefix = f"{cited_path.rstrip('/')}/"
        for path in changed_paths:
            if path == cited_path or path.startswith(prefix):
                return True
    return False


# -- the situation of a change, from its paths, labels and title

SUMMARY_WIDTH = 120
MAX_TOPIC_WORDS = 3

AREA = Regex(
    r"(?:area|domain|component|module|pkg|package|scope)\s*[:/]\s*(?P<name>\S.*?)\s*", re.IGNORECASE
)
"""A label that names a part of the repository: `area: payments`, `component/search`."""

CONVENTIONAL_SCOPE = Regex(r"\w+\((?P<topic>[^()]{1,40})\)!?:\s")
"""`fix(retries): …`, a title with a scope as in Conventional Commits."""

CONVENTIONAL_TYPE = Regex(r"\w+!?:\s+")
"""`fix: `, the type of a conventional title."""

CONTAINER_DIRECTORIES = frozenset(
    "src lib libs app apps packages pkg crates cmd internal modules services".split()
)
"""Directories that hold the parts of a repository and are no part themselves."""

SECONDARY_DIRECTORIES = frozenset(
    "tests test docs doc spec examples benchmarks .github changelog.d".split()
)
"""Directories that work of any subject changes."""


def derive_situation(title: str, paths: Sequence[str], labels: Collection[str]) -> Situation:
    """Return the subject of a change: the part of the repository, a topic, and the short title.

    The domain is the part of the repository that a label names, or else the part that most paths
    are in; "" is the root. The topic is the scope of a conventional title, or else the first
    content words of the title.

    >>> derive_situation("fix(retries): charge once", ["src/payments/client.py", "tests/t.py"], [])
    Situation(domain='payments', topic='retries', summary='fix(retries): charge once')
    """
    domain = _find_labelled_area(labels)
    if domain is None:
        domain = _find_usual_part(paths)
    summary = shorten(title, SUMMARY_WIDTH)
    return Situation(domain=domain, topic=_derive_topic(title), summary=summary)


def _find_labelled_area(labels: Collection[str]) -> str | None:
    """Return the part of the repository that the first such label names, in lower case."""
    for label in sorted(labels):
        match = AREA.fullmatch(label)
        if match:
            return match["name"].lower()
    return None


def _find_usual_part(paths: Sequence[str]) -> str:
    """Return the part of the repository that most paths are in; "" if none is in a directory.

    The part of a path is its first directory that is no container such as `src`. Parts such as
    `tests` count only if there is no other.
    """
    part_counts = Counter[str]()
    for path in paths:
        parts = [name for name in path.split("/")[:-1] if name not in CONTAINER_DIRECTORIES]
        if parts and parts[0]:
            part_counts[parts[0]] += 1

    main_counts = {
        part: count for part, count in part_counts.items() if part not in SECONDARY_DIRECTORIES
    }
    counts = main_counts or part_counts
    # Of parts with as many paths the first by name.
    return min(counts, key=lambda part: (-counts[part], part), default="")


def _derive_topic(title: str) -> str:
    """Return the scope of a title as in Conventional Commits, or else its first content words.

    >>> _derive_topic("fix(retries): charge once"), _derive_topic("fix: Charge the card once")
    ('retries', 'charge card once')
    """
    match = CONVENTIONAL_SCOPE.match(title)
    if match:
        return match["topic"].strip().lower()
    title_without_type = CONVENTIONAL_TYPE.sub("", title, count=1)
    topic_words = content_words(title_without_type)  # a set, so the order is that of the title
    ordered_words = [word for word in words(title_without_type) if word in topic_words]
    return " ".join(list(dict.fromkeys(ordered_words))[:MAX_TOPIC_WORDS])
