"""Whether the organisation's index holds what its repositories hold, and how it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime

import msgspec

from memory_ci.errors import EngineError
from memory_ci.flows.org.shared_entries import OrgLook, look
from memory_ci.flows.org.sync import JOBS, SECONDS, OrgState, in_order, load_state
from memory_ci.flows.org.targets import OrgTarget
from memory_ci.index.org import open_engine
from memory_ci.records.entry import Located
from memory_ci.records.org import OrgHead


class OrgDifference(msgspec.Struct, frozen=True):
    """A repository of which the index does not hold what it holds, and what differs. `is_behind`: only newer work."""

    name: str
    what: str
    is_behind: bool = False


class AudienceStatus(msgspec.Struct, frozen=True):
    """One audience: what is published, and since when the oldest of it was not seen to be current."""

    audience: str
    repositories: int
    entries: int
    size: int
    oldest: datetime | None


class OrgStatus(msgspec.Struct, frozen=True):
    """How the index is kept; `failing` repositories as (name, since when, why), which keep their rows."""

    audiences: tuple[AudienceStatus, ...]
    failing: tuple[tuple[str, datetime | None, str], ...]
    gated: int
    cut: int


def org_status(index: str) -> OrgStatus:
    """The state of an index; failures are known where its operator runs this. Raises EngineError (org-missing)."""
    with closing(open_engine(index)) as engine:
        heads, states = engine.heads(), load_state(engine)
        named = sorted({head.repository.audience for head in heads.values()})
        sizes = {audience: engine.size(audience) for audience in named}
    failing = [(state.name, state.failed_at, state.failure) for state in states.values() if state.failure]
    return OrgStatus(
        tuple(_status(audience, sizes[audience], heads, states) for audience in named),
        tuple(sorted(failing, key=lambda one: one[0])),
        sum(state.gated for state in states.values()),
        sum(state.cut for state in states.values()),
    )


def _status(audience: str, size: int, heads: Mapping[str, OrgHead], states: Mapping[str, OrgState]) -> AudienceStatus:
    mine = [head for head in heads.values() if head.repository.audience == audience]
    checked = [state.checked_at for head in mine if (state := states.get(head.repository.id)) and state.checked_at]
    return AudienceStatus(audience, len(mine), sum(head.entries for head in mine), size, min(checked, default=None))


def verify_org(
    index: str,
    environ: Mapping[str, str],
    *,
    jobs: int = JOBS,
    seconds: float = SECONDS,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[tuple[OrgDifference, ...], int]:
    """What reading all repositories anew shows to differ, row for row; and how many there are.

    Raises EngineError (org-missing, org-damaged).
    """
    with closing(open_engine(index)) as engine, ThreadPoolExecutor(max_workers=jobs) as pool:
        heads, states = engine.heads(), load_state(engine)
        unknown = heads.keys() - states.keys()
        if unknown:
            hint = "Verify where the index was synced: the addresses of the repositories are kept there."
            raise EngineError(f"{index} is not where this index is synced", slug="org-missing", hint=hint)
        targets = [OrgTarget(head.repository, states[id_].address) for id_, head in sorted(heads.items())]
        looks = in_order(pool, lambda target: look(target, None, "", environ, seconds), targets, jobs)
        differences = []
        for done, seen in enumerate(looks, 1):
            head = heads[seen.target.repository.id]
            if found := _compare(head, seen, lambda head=head: engine.entries(head.repository.id)):  # type: ignore[misc]
                differences.append(found)
            advance(done, len(targets))
    return tuple(differences), len(targets)


def _compare(head: OrgHead, seen: OrgLook, rows: Callable[[], list[Located]]) -> OrgDifference | None:
    name = head.repository.name
    if seen.is_gone or seen.problem:
        return OrgDifference(name, seen.problem or "is gone", is_behind=True)
    if seen.head != head.head:
        return OrgDifference(name, f"is at {seen.head[:12]}, the index at {head.head[:12]}", is_behind=True)
    held, fresh = rows(), sorted(seen.entries or (), key=lambda place: (place.path, place.line, place.entry.id))
    if held == fresh:
        return None
    other = next((one for one, two in zip([*held, None], [*fresh, None], strict=False) if one != two), None)
    place = f"; the first that differs: {other.path}:{other.line}" if other else ""
    return OrgDifference(name, f"the index has {len(held)} entries, the repository {len(fresh)}{place}")
