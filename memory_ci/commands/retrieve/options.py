"""Options of a retrieval, and the bounded request that is made of them."""

from __future__ import annotations

from datetime import date

import msgspec

from memory_ci.records.config import Config
from memory_ci.records.entry import Domain, EntryType, Phase, ScopeName, Status
from memory_ci.search.search import RANKED_SCOPES, Filters

MAX_LIMIT = 1_000  # Entries that `--limit` may ask for.
MAX_CHARS = 1_000_000  # Characters that `--max-chars` may ask for.
MAX_WALK = 1
DEFAULT_LIMIT = 50  # Entries that are ranked if no limit is set.
UNKNOWN_ROLE_SCOPES: tuple[ScopeName, ...] = ("session",)
"""Scopes of an unknown role if no role is configured: the entries of its own job."""


class RetrieveOptions(msgspec.Struct, frozen=True):
    """The options of one retrieval; None takes the configured value, or leaves a filter open.

    Attributes:
        max_chars: the budget of the rendered answer in characters.
        paths: files or directories that the work touches: only their team scopes are searched.
        types: only entries of these types; none for all, as for the next filters.
        session: the job that asks; its own entries count more, and none is served to it twice.
        limit: how many entries are served at most.
        domains: only entries of these domains.
        scopes: only entries of these scopes.
        statuses: only entries with this status; none for all but the retired ones.
        phases: only entries of these phases.
        occurred_between: only entries about something that occurred on these days or between.
        all_sessions: search the entries of all sessions, not only of the job that asks.
        role: a role of the configuration, which limits the scopes.
        at: a revision or a day whose memory is read.
        base: the revision that a fork's branch was started from.
        tree: the revision in which cited code is judged.
        stale: serve entries whose cited code is gone, too.
        total_chars: an upper bound of `max_chars`.
        reserved: characters that the caller prints in addition to the context.
        walk: 1 adds entries that are one relation away from those found.
        all_matches: serve weak matches, and entries that the session was served before.
        about: a file; its entries are served instead of those that a task's words find.
        diff: a revision; definitions that the work tree changes since then join the query.
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
    """The options within their ranges.

    Attributes:
        limit: entries at most.
        max_chars: characters at most, without those that the caller reserves for its own text.
        filters: the conditions on entries.
        notes: a sentence for each option that was out of range or unknown.
        adds_related: whether entries that are one relation away from the hits are added.
    """

    limit: int
    max_chars: int
    filters: Filters
    notes: tuple[str, ...]
    adds_related: bool = False


def bound_options(options: RetrieveOptions, config: Config, today: date) -> SearchRequest:
    """Return the options of a retrieval within their ranges, with the configured defaults.

    A value that is out of range or unknown is replaced by the nearest valid one, with a note. The
    budget in characters is `max_chars`, at most `total_chars`, less the characters that the caller
    reserves for its own text.

    Args:
        options: the options.
        config: the configuration.
        today: the day on which an entry must be valid.
    """
    settings = config.retrieve
    wanted_limit = DEFAULT_LIMIT if options.limit is None else options.limit
    wanted_chars = settings.max_chars if options.max_chars is None else options.max_chars
    wanted_walk = options.walk or 0
    limit = min(max(wanted_limit, 1), MAX_LIMIT)
    max_chars = min(max(wanted_chars, 0), MAX_CHARS)
    walk = min(max(wanted_walk, 0), MAX_WALK)

    notes = []
    numbers = (
        ("limit", wanted_limit, limit),
        ("max-chars", wanted_chars, max_chars),
        ("walk", wanted_walk, walk),
    )
    for name, wanted_number, bounded_number in numbers:
        if wanted_number != bounded_number:
            notes.append(f"--{name} {wanted_number} is out of range, {bounded_number} is taken.")

    scopes, role_notes = _visible_scopes(options, config)
    notes += role_notes
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
    budget = min(max_chars, options.total_chars) - options.reserved
    return SearchRequest(limit, budget, filters, tuple(notes), adds_related=walk > 0)


def _visible_scopes(
    options: RetrieveOptions, config: Config
) -> tuple[tuple[ScopeName, ...], list[str]]:
    """Return the ranked scopes that the options and the role allow, and notes on the role.

    A role of the configuration names the scopes that it may see. An unknown role sees those of the
    role with the fewest.
    """
    scopes = tuple(
        scope for scope in RANKED_SCOPES if not options.scopes or scope in options.scopes
    )
    if options.role is None:
        return scopes, []

    notes = []
    role_scopes = config.roles.get(options.role)
    if role_scopes is None:
        role_scopes = _narrowest_role(config)
        names = ", ".join(role_scopes) or "nothing"
        notes.append(f"The role {options.role!r} is not configured; it sees {names} only.")
    return tuple(scope for scope in scopes if scope in role_scopes), notes


def _narrowest_role(config: Config) -> tuple[ScopeName, ...]:
    """Return the scopes of the role with the fewest; of several such roles, the first by name."""
    roles = sorted(config.roles.items())
    if not roles:
        return UNKNOWN_ROLE_SCOPES
    return min((scopes for _, scopes in roles), key=len)
