"""What is asked of memory, made sound: numbers in range, a role's scopes, each correction with a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

import msgspec

from memory_ci.index.search import RANKED_SCOPES, Filters
from memory_ci.records.config import Config
from memory_ci.records.entry import Domain, EntryType, Phase, ScopeName, Status

MAX_LIMIT = 1_000
MAX_CHARS = 1_000_000
MAX_WALK = 1
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
    limit: int = 50
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
    limit = min(max(options.limit, 1), MAX_LIMIT)
    max_chars = min(max(wanted, 0), MAX_CHARS)
    room = min(max_chars, options.total_chars) - options.reserved
    far = config.retrieve.walk if options.walk is None else options.walk
    walk = min(max(far, 0), MAX_WALK)
    scopes, role_note = _find_scopes(options, config.roles)
    notes = (
        f"--limit {options.limit} is out of range, {limit} is taken." if limit != options.limit else "",
        f"--max-chars {wanted} is out of range, {max_chars} is taken." if max_chars != wanted else "",
        f"--walk {far} is out of range, {walk} is taken." if walk != far else "",
        role_note,
    )
    return SearchRequest(limit, room, _filters(options, scopes, today), tuple(filter(None, notes)), walk)


def _filters(options: RetrieveOptions, scopes: Sequence[ScopeName], today: date) -> Filters:
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
    return {**filters, "statuses": options.statuses} if options.statuses else filters


def _find_scopes(
    options: RetrieveOptions, roles: Mapping[str, tuple[ScopeName, ...]]
) -> tuple[tuple[ScopeName, ...], str]:
    """The ranked scopes that are asked for and that the role may see, and a note if nobody knows the role.

    It then gets the least that any role gets: the one of fewest scopes, the first by name of several.
    """
    asked = tuple(scope for scope in RANKED_SCOPES if not options.scopes or scope in options.scopes)
    if options.role is None:
        return asked, ""
    seen, note = roles.get(options.role), ""
    if seen is None:
        least = min(roles, key=lambda name: (len(roles[name]), name), default=None)
        seen = roles[least] if least is not None else NARROWEST
        note = f"The role {options.role!r} is not configured; it sees {', '.join(seen) or 'nothing'} only."
    return tuple(scope for scope in asked if scope in seen), note
