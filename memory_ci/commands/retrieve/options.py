"""What is asked of memory, made sound: numbers in range, a role's scopes, each correction with a note."""

from __future__ import annotations

from datetime import date

import msgspec

from memory_ci.records.config import Config
from memory_ci.records.entry import Domain, EntryType, Phase, ScopeName, Status
from memory_ci.search.search import RANKED_SCOPES, Filters

MAX_LIMIT, MAX_CHARS, MAX_WALK = 1_000, 1_000_000, 1
DEFAULT_LIMIT = 50  # Entries that are ranked where nobody says how many.
NARROWEST: tuple[ScopeName, ...] = ("session",)
"""What an unknown role may see where no role is configured: the entries of its own job."""


class RetrieveOptions(msgspec.Struct, frozen=True):
    """What is asked for. None leaves a value to the configuration, or a filter open.

    `at`: a revision or a day whose memory is asked. `base`: what a fork's branch was started from. `tree`: the revision
    against which cited code is judged. `total_chars` bounds `max_chars`, and the caller prints `reserved` characters of
    its own besides. `walk`: entries so many relations away from what is found are added. `all_matches`: weak matches
    are given, too, and what the session was given before. `about`: a file, of which what is known is asked instead of
    what words find. `diff`: a revision; the definitions that the work tree changes since then are asked as well.
    """

    max_chars: int | None = None
    paths: tuple[str, ...] | None = None
    types: tuple[EntryType, ...] = ()
    session: str | None = None
    limit: int | None = None
    domains: tuple[Domain, ...] = ()
    scopes: tuple[ScopeName, ...] = ()
    statuses: tuple[Status, ...] = ()
    phases: tuple[Phase, ...] = ()
    occurred_between: tuple[date, date] | None = None
    all_sessions: bool = False
    role: str | None = None
    at: str | None = None
    base: str | None = None
    tree: str | None = None
    stale: bool = False
    total_chars: int = MAX_CHARS
    reserved: int = 0
    walk: int | None = None
    all_matches: bool = False
    about: str | None = None
    diff: str | None = None


class SearchRequest(msgspec.Struct, frozen=True):
    """The options as they are answered: how many entries and characters, which of them, and what was put right."""

    limit: int
    max_chars: int
    filters: Filters
    notes: tuple[str, ...]
    walk: int = 0


def make_sound(options: RetrieveOptions, config: Config, today: date) -> SearchRequest:
    """The options within their ranges; what is out of range or unknown is answered as near as can be, and noted."""
    wanted = config.retrieve.max_chars if options.max_chars is None else options.max_chars
    most = DEFAULT_LIMIT if options.limit is None else options.limit
    limit = min(max(most, 1), MAX_LIMIT)
    max_chars = min(max(wanted, 0), MAX_CHARS)
    room = min(max_chars, options.total_chars) - options.reserved
    far = config.retrieve.walk if options.walk is None else options.walk
    walk = min(max(far, 0), MAX_WALK)
    numbers = (("limit", most, limit), ("max-chars", wanted, max_chars), ("walk", far, walk))
    notes = [
        f"--{name} {asked} is out of range, {taken} is taken."
        for name, asked, taken in numbers
        if asked != taken
    ]
    scopes = tuple(
        scope for scope in RANKED_SCOPES if not options.scopes or scope in options.scopes
    )
    if options.role is not None:
        seen = config.roles.get(options.role)
        if (
            seen is None
        ):  # It gets the least that any role gets: the one of fewest scopes, the first by name of several.
            seen = min(
                sorted(config.roles.items()), key=lambda item: len(item[1]), default=("", NARROWEST)
            )[1]
            notes.append(
                f"The role {options.role!r} is not configured; it sees {', '.join(seen) or 'nothing'} only."
            )
        scopes = tuple(scope for scope in scopes if scope in seen)
    filters: Filters = {
        "paths": options.paths,
        "scopes": scopes,
        "types": options.types or None,
        "domains": options.domains or None,
        "phases": options.phases or None,
        "session": options.session,
        "all_sessions": options.all_sessions,
        "occurred_between": options.occurred_between,
        "today": today,
    }
    if options.statuses:
        filters["statuses"] = options.statuses
    return SearchRequest(limit, room, filters, tuple(notes), walk)
