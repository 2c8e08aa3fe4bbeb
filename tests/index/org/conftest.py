"""A PostgreSQL server for the tests that ask for it, and databases that are empty."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tests.index.org.postgresql import running_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The directory of its socket. Not in `tmp_path`: who the server runs as could not go there."""
    pytest.importorskip("psycopg", reason="the extra org-postgres is not installed")
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as directory:
        Path(directory).chmod(0o755)
        with running_server(Path(directory)) as socket:
            yield socket


NUMBERS = count(1)


@pytest.fixture
def make_address(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Gives the address of a new database of an operator; the server starts when it is first called."""

    def make() -> str:
        import psycopg

        socket = request.getfixturevalue("postgres")
        name = f"org{os.getpid()}_{next(NUMBERS)}"
        with psycopg.connect(f"postgresql://postgres@/postgres?host={socket}", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql://postgres@/{name}?host={socket}"

    yield make
    with suppress(ImportError):
        from memory_ci.index.org.server import close_idle

        close_idle()
