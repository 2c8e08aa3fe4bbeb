"""`memory-ci org verify`: compares the organisation's index with all repositories, read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import zip_longest

import msgspec

from memory_ci.commands.org.engine import OrgEngine
from memory_ci.commands.org.index import open_engine
from memory_ci.commands.org.records import OrgHead
from memory_ci.commands.org.sync import DEFAULT_JOBS, GIT_SECONDS, in_order, load_state
from memory_ci.commands.org.targets import OrgReading, OrgTarget, read_target
from memory_ci.errors import EngineError


class OrgDifference(msgspec.Struct, frozen=True):
    """A repository whose entries differ from those in the index.

    Attributes:
        name: its name.
        what: the difference, such as "is gone".
        is_behind: the index only lacks newer work, or could not be compared.
    """

    name: str
    what: str
    is_behind: bool = False


def verify_org(
    index: str,
    environ: Mapping[str, str],
    *,
    jobs: int = DEFAULT_JOBS,
    seconds: float = GIT_SECONDS,
    advance: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[tuple[OrgDifference, ...], int]:
    """Read all repositories again, and compare their entries with those in the index.

    Args:
        index: the address of the index.
        environ: the environment, which has the tokens.
        jobs: how many repositories are read at the same time.
        seconds: how long each git process of a repository may take.
        advance: is called with the number of repositories done, and of all.

    Returns:
        The differences, and the number of repositories.

    Raises:
        EngineError: org-missing, org-damaged.
    """
    with closing(open_engine(index)) as engine, ThreadPoolExecutor(max_workers=jobs) as pool:
        heads = engine.heads()
        states = load_state(engine)
        if heads.keys() - states.keys():
            message = f"{index} is not where this index is synced"
            hint = (
                "Verify where the index was synced:"
                " the addresses of the repositories are kept there."
            )
            raise EngineError(message, slug="org-missing", hint=hint)

        targets = [
            OrgTarget(head.repository, states[repo_id].address)
            for repo_id, head in sorted(heads.items())
        ]

        def read(target: OrgTarget) -> OrgReading:
            return read_target(target, None, "", environ, seconds)

        differences = []
        for done, reading in enumerate(in_order(pool, read, targets, jobs), 1):
            head = heads[reading.target.repository.id]
            difference = _compare_reading(reading, head, engine)
            if difference is not None:
                differences.append(difference)
            advance(done, len(targets))
    return tuple(differences), len(targets)


def _compare_reading(reading: OrgReading, head: OrgHead, engine: OrgEngine) -> OrgDifference | None:
    """Return how a repository differs from its entries in the index, None if it does not."""
    name = head.repository.name
    if reading.is_gone or reading.problem:
        return OrgDifference(name, reading.problem or "is gone", is_behind=True)
    if reading.head != head.commit:
        what = f"is at {reading.head[:12]}, the index at {head.commit[:12]}"
        return OrgDifference(name, what, is_behind=True)

    indexed = engine.entries(head.repository.id)
    entries = sorted(
        reading.entries or (), key=lambda located: (located.path, located.line, located.entry.id)
    )
    if indexed == entries:
        return None
    what = f"the index has {len(indexed)} entries, the repository {len(entries)}"
    for indexed_entry, entry in zip_longest(indexed, entries):
        if indexed_entry != entry:
            if indexed_entry:
                what += f"; the first that differs: {indexed_entry.path}:{indexed_entry.line}"
            break
    return OrgDifference(name, what)
