"""The engines for the conformance suite: how a writer and readers open each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from memory_ci.commands.org.engine import OrgEngine
from memory_ci.commands.org.index import open_engine
from memory_ci.commands.org.records import OrgRepository
from memory_ci.records.entry import Located
from tests.make import make_located

NAMES = ("sqlite", "postgres")


class Place(NamedTuple):
    """An empty index: `write` and `read` open it; `read` sees what was published until a moment, if given."""

    write: Callable[[], OrgEngine]
    read: Callable[[float | None], OrgEngine]
    close: Callable[[], None]


def make_place(name: str, address: str) -> Place:
    """Return the index at `address`, a directory or a database; engines that a test leaves open are closed."""
    assert name in NAMES
    opened: list[OrgEngine] = []

    def keep(engine: OrgEngine) -> OrgEngine:
        opened.append(engine)
        return engine

    def close() -> None:
        for engine in opened:
            engine.close()

    return Place(
        lambda: keep(open_engine(address, is_writer=True)),
        lambda deadline: keep(open_engine(address, deadline=deadline)),
        close,
    )


@contextmanager
def writing(place: Place) -> Iterator[OrgEngine]:
    engine = place.write()
    yield engine
    engine.publish()
    engine.close()


def make_repository(name: str, audience: str = "internal", id: str = "") -> OrgRepository:
    return OrgRepository(
        id or f"forge.example#{name}", name, f"https://forge.example/{name}", audience
    )


def make_entries(first: int, *titles: str) -> list[Located]:
    return [make_located(first + at, title=title) for at, title in enumerate(titles)]
