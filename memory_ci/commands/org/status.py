"""`memory-ci org status`: the audiences of the organisation's index, and repositories that fail."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime

import msgspec

from memory_ci.commands.org.index import open_engine
from memory_ci.commands.org.records import OrgHead
from memory_ci.commands.org.sync import OrgState, load_state


class AudienceStatus(msgspec.Struct, frozen=True):
    """The published index of one audience.

    Attributes:
        audience: its name.
        repositories: the number of its repositories.
        entries: the number of their entries.
        size: the bytes that its readers read.
        oldest: the time of the last check of the repository that was not checked for longest.
    """

    audience: str
    repositories: int
    entries: int
    size: int
    oldest: datetime | None


class OrgStatus(msgspec.Struct, frozen=True):
    """The state of an index.

    Attributes:
        audiences: its audiences.
        failing: the repositories that could not be read, as (name, since when, reason).
        gated: how many entries must not be shown to others.
        cut: how many entries are too many or too long, and files too large.
    """

    audiences: tuple[AudienceStatus, ...]
    failing: tuple[tuple[str, datetime | None, str], ...]
    gated: int
    cut: int


def load_status(index: str) -> OrgStatus:
    """Return the state of an index.

    Failures are recorded only in the copy that is synced; other copies have no record of them.

    Raises:
        EngineError: org-missing.
    """
    with closing(open_engine(index)) as engine:
        heads = engine.heads()
        states = load_state(engine)
        audience_names = {head.repository.audience for head in heads.values()}
        audiences = []
        for name in sorted(audience_names):
            audiences.append(_make_status(name, engine.size(name), heads, states))

    failing = []
    for state in sorted(states.values(), key=lambda state: state.name):
        if state.failure:
            failing.append((state.name, state.failed_at, state.failure))
    return OrgStatus(
        audiences=tuple(audiences),
        failing=tuple(failing),
        gated=sum(state.gated for state in states.values()),
        cut=sum(state.cut for state in states.values()),
    )


def _make_status(
    audience: str, size: int, heads: Mapping[str, OrgHead], states: Mapping[str, OrgState]
) -> AudienceStatus:
    """Return the status of one audience, from the heads and states of all repositories by id."""
    audience_heads = [head for head in heads.values() if head.repository.audience == audience]
    check_times = []
    for head in audience_heads:
        state = states.get(head.repository.id)
        if state and state.checked_at:
            check_times.append(state.checked_at)
    return AudienceStatus(
        audience=audience,
        repositories=len(audience_heads),
        entries=sum(head.entries for head in audience_heads),
        size=size,
        oldest=min(check_times, default=None),
    )
