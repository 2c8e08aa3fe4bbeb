"""The engines that the conformance suite asks: how each is opened by a writer and by readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from memory_ci.index.org import OrgEngine
from memory_ci.index.org.sqlite import SqliteEngine
from memory_ci.records.entry import Located
from memory_ci.records.org import OrgRepository
from tests.make import make_located

NAMES = ("sqlite",)


class Place(NamedTuple):
    """One empty index: `write` and `read` open it; `read` sees what was published, until a moment if one is given."""

    write: Callable[[], OrgEngine]
    read: Callable[[float | None], OrgEngine]


def make_place(name: str, directory: Path) -> Place:
    assert name == "sqlite"
    return Place(
        lambda: SqliteEngine(directory, is_writer=True), lambda deadline: SqliteEngine(directory, deadline=deadline)
    )


@contextmanager
def writing(place: Place) -> Iterator[OrgEngine]:
    engine = place.write()
    yield engine
    engine.publish()
    engine.close()


def make_repository(name: str, audience: str = "internal", id: str = "") -> OrgRepository:
    return OrgRepository(id or f"forge.example#{name}", name, f"https://forge.example/{name}", audience)


def make_entries(first: int, *titles: str) -> list[Located]:
    return [make_located(first + at, title=title) for at, title in enumerate(titles)]
