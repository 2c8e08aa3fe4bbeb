"""Standing: what feedback makes of entries in the ranking, asked of the index for those that are ranked alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING

import msgspec

from memory_ci.index.database import Index
from memory_ci.index.search import list_feedback, list_held
from memory_ci.lifecycle.prominence import Retention, recency
from memory_ci.records.config import Config, Decay
from memory_ci.records.entry import NO_FEEDBACK, Entry
from memory_ci.records.retrieval import Hit

if TYPE_CHECKING:
    from memory_ci.lifecycle.episodes import Heirs
    from memory_ci.lifecycle.utility import Utility
    from memory_ci.records.episode import Feedback


class Standing(msgspec.Struct, frozen=True):
    """The utilities of entries, and under the decay `fsrs` their retentions, by id; none of those nobody spoke of."""

    today: date
    decay: Decay
    utilities: Mapping[str, Utility] = {}
    retentions: Mapping[str, Retention] = {}

    def utility(self, entry: Entry) -> float:
        """What feedback says of an entry, in [0, 1]."""
        known = self.utilities.get(entry.id)
        return known.value if known else NO_FEEDBACK

    def recency(self, entry: Entry) -> float:
        """What its age leaves of an entry."""
        return recency(entry, self.today, self.decay, self.retentions.get(entry.id))

    def mark(self, hit: Hit) -> Hit:
        """The hit with the number of events behind its utility."""
        known = self.utilities.get(hit.located.entry.id)
        return msgspec.structs.replace(hit, events=known.events, is_low=known.is_low) if known else hit


def find_standing(index: Index, config: Config, entries: Iterable[Entry], today: date) -> Standing:
    """What stands in the index about `entries`, by one query, and one more where some supersede others.

    Raises UsageError (missing-extra) for `fsrs`.
    """
    chosen = {entry.id: entry for entry in entries}
    heirs = _find_heirs(index, chosen.values())
    with_ignored = config.episodes.ignored_policy == "split"
    told = list_feedback(index, {*chosen, *heirs}, with_ignored=with_ignored) if chosen else []
    if not told:
        return Standing(today, config.prominence.decay)
    # Nobody pays for these of whose entries nothing was said.
    from memory_ci.lifecycle.episodes import pass_on
    from memory_ci.lifecycle.utility import job_of, replay_some

    feedback = [said for said, _ in told]
    shares: dict[object, int] = {job_of(said): count for said, count in told if said.kind == "ignored"}
    utilities = replay_some(feedback, shares, heirs)
    return make_standing(chosen.values(), pass_on(feedback, heirs), utilities, config, today)


def _find_heirs(index: Index, entries: Iterable[Entry]) -> Heirs:
    """Which of the entries inherit what was said of those that no file has any more."""
    merged = [entry for entry in entries if entry.supersedes]
    if not merged:
        return {}
    from memory_ci.lifecycle.episodes import find_heirs  # most entries supersede nothing

    return find_heirs(merged, list_held(index, (older for entry in merged for older in entry.supersedes)))


def make_standing(
    entries: Iterable[Entry],
    feedback: Iterable[Feedback],
    utilities: Mapping[str, Utility],
    config: Config,
    today: date,
) -> Standing:
    """The standing of entries after their `feedback`, of which `utilities` were replayed."""
    decay = config.prominence.decay
    if decay != "fsrs":
        return Standing(today, decay, utilities)
    from memory_ci.lifecycle.stability import find_retentions  # for those who choose it

    return Standing(today, decay, utilities, find_retentions(entries, feedback))
