"""Flagged entries: those of which so much ill was said that a person should look at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memory_ci.lifecycle.episodes import find_heirs_among, list_feedback
from memory_ci.lifecycle.utility import replay
from memory_ci.records.config import Config
from memory_ci.records.entry import Located
from memory_ci.records.episode import Telling
from memory_ci.records.report import Finding

HINT = (
    "`memory-ci why` says what was said of it. Mend it, retire it, or say that it helped; nothing is done on its own."
)


def find_flagged(config: Config, located: Iterable[Located], tellings: Iterable[Telling]) -> Iterator[Finding]:
    """A notice for each entry of low utility that is not retired, after all that episodes tell."""
    places = tuple(located)
    heirs = find_heirs_among(place.entry for place in places)
    utilities = replay(list_feedback(tellings), config.episodes.ignored_policy, heirs=heirs)
    for place in places:
        utility = utilities.get(place.entry.id)
        if utility is not None and utility.is_low and place.entry.status != "retired":
            message = f"utility {utility.value:.2f} after {utility.events} events of feedback"
            yield Finding(place.path, place.line, "low-utility", message, HINT, "notice")
