"""`memory-ci org status`: the audiences of the organisation's index, and repositories that fail."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from typing import NamedTuple

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


class FailingRepository(NamedTuple):
    """A repository that could not be read at the last sync; an array in JSON.

    Attributes:
        name: its name.
        failed_at: since when it could not be read.
        reason: why.
    """

    name: str
    failed_at: datetime | None
    reason: str


class OrgStatus(msgspec.Struct, frozen=True):
    """The state of an index.

    Attributes:
        audiences: its audiences.
        failing: the repositories that could not be read.
        unsafe_count: how many entries are not shared because they must not be shown to others;
            `gated` in JSON.
        excess_count: how many entries are not shared because they are too many or too long, or
            files because they are too large; `cut` in JSON.
    """

    audiences: tuple[AudienceStatus, ...]
    failing: tuple[FailingRepository, ...]
    unsafe_count: int = msgspec.field(name="gated")
    excess_count: int = msgspec.field(name="cut")


def load_status(index: str) -> OrgStatus:
    """Return the state of an index: its audiences, failures, and counts of what is not shared.

    Failures and counts are in the operator's records, which only the copy of the index has that
    syncs write to. In other copies there are none.

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
            failing.append(FailingRepository(state.name, state.failed_at, state.failure))
    return OrgStatus(
        audiences=tuple(audiences),
        failing=tuple(failing),
        unsafe_count=sum(state.unsafe_count for state in states.values()),
        excess_count=sum(state.excess_count for state in states.values()),
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
