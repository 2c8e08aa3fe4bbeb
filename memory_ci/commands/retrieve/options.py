"""The options of a retrieval, and the search request that they become: values in range, a role's scopes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from memory_ci.records.config import Config
from memory_ci.records.entry import Domain, EntryType, Phase, ScopeName, Status
from memory_ci.search.search import RANKED_SCOPES, Filters

MAX_LIMIT = 1_000
MAX_CHARS = 1_000_000
MAX_WALK = 1

DEFAULT_LIMIT = 50
"""Entries that are ranked if the caller does not say how many."""

LEAST_SCOPES: tuple[ScopeName, ...] = ("session",)
"""What an unknown role sees if no role is configured: the entries of its own job."""


class RetrieveOptions(msgspec.Struct, frozen=True):
    """Filters and budgets of a retrieval; None leaves a value to the configuration.

    Attributes:
        max_chars: characters that may be served.
        paths: files and directories that the work touches.
        types: serve these types alone.
        session: the job that asks.
        limit: entries that may be served.
        domains: serve these domains alone.
        scopes: serve these scopes alone.
        statuses: serve these statuses; by default all but retired.
        phases: serve what was learned in these stages alone.
        occurred_between: serve what happened between these days alone.
        all_sessions: serve the entries of other sessions too.
        role: serve what this role of the configuration may see.
        at: a revision or a day whose memory is searched.
        base: the revision that a fork's branch was started from.
        tree: the revision in which cited code is judged; None for the work tree.
        stale: serve entries whose code is gone, marked.
        total_chars: an upper bound of `max_chars`.
        reserved: characters that the caller prints itself.
        walk: how many relations away entries are added.
        all_matches: serve weak matches too, and what the session was served before.
        about: a file; entries about it are served instead of what words find.
        diff: a revision; the definitions that the work tree changes since then are searched for.
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
    """A sound request.

    Attributes:
        limit: entries that may be served.
        max_chars: characters that may be served.
        filters: which entries.
        notes: which options were corrected.
        walk: how many relations away entries are added.
    """

    limit: int
    max_chars: int
    filters: Filters
    notes: tuple[str, ...]
    walk: int = 0


def make_sound(options: RetrieveOptions, config: Config, today: date) -> SearchRequest:
    """Return the request that comes nearest to the options, with a note for each correction."""
    wanted_limit = DEFAULT_LIMIT if options.limit is None else options.limit
    limit = min(max(wanted_limit, 1), MAX_LIMIT)
    wanted_chars = config.retrieve.max_chars if options.max_chars is None else options.max_chars
    max_chars = min(max(wanted_chars, 0), MAX_CHARS)
    wanted_walk = config.retrieve.walk if options.walk is None else options.walk
    walk = min(max(wanted_walk, 0), MAX_WALK)
    numbers = (
        ("limit", wanted_limit, limit),
        ("max-chars", wanted_chars, max_chars),
        ("walk", wanted_walk, walk),
    )
    notes = [
        f"--{name} {wanted} is out of range, {taken} is taken."
        for name, wanted, taken in numbers
        if wanted != taken
    ]
    scopes = [scope for scope in RANKED_SCOPES if not options.scopes or scope in options.scopes]
    if options.role is not None:
        visible, note = _find_visible_scopes(options.role, config)
        scopes = [scope for scope in scopes if scope in visible]
        notes += [note] if note else []
    filters: Filters = {
        "paths": options.paths,
        "scopes": tuple(scopes),
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
    available_chars = min(max_chars, options.total_chars) - options.reserved
    return SearchRequest(limit, available_chars, filters, tuple(notes), walk)


def _find_visible_scopes(role: str, config: Config) -> tuple[Sequence[ScopeName], str]:
    """Return the scopes that a role may see, and a note if it is not configured.

    An unknown role sees the least that any role sees: the fewest scopes, of several the first by
    name.
    """
    scopes = config.roles.get(role)
    if scopes is not None:
        return scopes, ""
    by_name = [config.roles[name] for name in sorted(config.roles)]
    least = min(by_name, key=len, default=LEAST_SCOPES)
    names = ", ".join(least) or "nothing"
    return least, f"The role {role!r} is not configured; it sees {names} only."
