"""Fixtures of every test: a sealed environment, a home of its own, no network, golden files."""

from __future__ import annotations

import gc
import ipaddress
import itertools
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings

from tests.command_line import Run, invoke
from tests.postgresql import make_address, postgres  # noqa: F401 - fixtures
from tests.processes import background  # noqa: F401 - a fixture
from tests.project import Project, copy_project, make_project
from tests.repos import QUICK, git_settings

T = TypeVar("T")

OUTSIDE = ("GIT_", "XDG_", "ANTHROPIC_", "CLAUDE", "GITHUB_", "GH_", "GITLAB_", "CI_", "MEMORY_CI_")
"""Variables of these families would let the caller's machine decide what a test sees."""

OUTSIDE_NAMES = (
    *("CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LANGUAGE", "PAGER", "EMAIL"),
    "PYTHONDONTWRITEBYTECODE",  # each process that a test starts would compile all anew
)
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY")
"""With a proxy set, a request to a loopback double would leave the machine."""

SEALED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    # Not GIT_AUTHOR_NAME: that beats `git -c user.name`, so a commit of ours without an identity would go unseen.
    **git_settings({"user.name": "Tess Tester", "user.email": "tess@example.com"}),
    "MEMORY_CI_EMBEDDER": "none",  # with the extra installed, every retrieval would load a model
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}

settings.register_profile("local", deadline=None, max_examples=15)
settings.register_profile("ci", deadline=None, max_examples=15, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


WORTH_WORKERS = 100_000
"""Bytes of test files. With fewer chosen, a worker would take longer to start than it saves."""


MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a directory of its own in it
"""Linux keeps these files in memory: thousands of small repositories are made and removed sooner than on a disk."""

ENOUGH = 2 * 2**30
"""Bytes that must be free there; a container may have 64 MiB in all. A worker keeps about 120 MiB at a time."""


def pytest_configure() -> None:
    is_free = (
        MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH
    )
    if (
        is_free and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    ):  # tests start programs that they write
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite tests/golden/ with what the code gives now",
    )


def pytest_collection_finish() -> None:
    """Spare the garbage collector what every test needs: modules and eleven thousand tests are never freed."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers where little is chosen, a worker for each core otherwise (None: pytest-xdist counts them)."""
    chosen = [Path(argument.partition("::")[0]) for argument in config.args]
    files = {
        file for path in chosen for file in (path.rglob("test_*.py") if path.is_dir() else [path])
    }
    is_little = (
        config.option.keyword
        or sum(file.stat().st_size for file in files if file.exists()) < WORTH_WORKERS
    )
    return 0 if is_little else None


@pytest.fixture(autouse=True, scope="session")
def sealed_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing of the caller's environment reaches a test, and no test reaches the network.

    Dates of commits are not set here: whoever makes a commit says when.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if is_outside(name)]:
            patch.delenv(name)
        for name, value in SEALED.items():
            patch.setenv(name, value)
        quick = tmp_path_factory.mktemp("config") / "gitconfig"
        pairs = [(*key.split("."), value) for key, value in QUICK.items()]
        quick.write_text(
            "".join(f"[{section}]\n\t{name} = {value}\n" for section, name, value in pairs)
        )
        patch.setenv("GIT_CONFIG_GLOBAL", str(quick))  # the product's git reads it, too
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        time.tzset()
        for method in ("connect", "connect_ex"):
            patch.setattr(socket.socket, method, loopback_only(getattr(socket.socket, method)))
        yield
    time.tzset()


@pytest.fixture(autouse=True, scope="session")
def signals_arrive() -> Iterator[None]:
    """What tests start can be interrupted, also where these signals were ignored at start (`nohup make test`, `&`).

    A handler of ours is the default again in every program that is started; an ignored signal would stay ignored.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    ignored = [number for number, handler in before.items() if handler == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda number, frame: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths for homes; `mktemp` of each would read the names of all that were made before it."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, beside `tmp_path` so that a repository made in `tmp_path` does not contain it."""
    path = next(homes)
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.fixture(scope="session")
def project_template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("template") / "shop")


@pytest.fixture
def project(
    request: pytest.FixtureRequest,
    project_template: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Project:
    """A repository with memory set up, and one merged pull request whose author marked what was learned.

    With the marker `in_project` it is the current directory, and the day is 2026-11-21.
    """
    copy = copy_project(project_template, tmp_path / "shop")
    if request.node.get_closest_marker("in_project"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795262400")
        monkeypatch.chdir(copy.path)
    return copy


@pytest.fixture
def run() -> Run:
    """`run("check", "--json")` gives exit_code, stdout and stderr; a traceback fails the test."""
    return invoke


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares `text` with tests/golden/`name`; `--update-golden` rewrites the file."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        assert text == path.read_bytes().decode(), (
            f"tests/golden/{name} differs; intended? pytest --update-golden"
        )

    return compare


def is_outside(name: str) -> bool:
    return name.startswith(OUTSIDE) or name in OUTSIDE_NAMES or name.upper() in PROXIES


def loopback_only(connect: Callable[..., T]) -> Callable[..., T]:
    """`connect` that fails the test, past any `except Exception`, when the peer is not this machine."""

    def guarded(self: socket.socket, address: object) -> T:
        if self.family != socket.AF_UNIX and not is_loopback(address):
            pytest.fail(f"a test tried to reach {address!r}")
        return connect(self, address)

    return guarded


def is_loopback(address: object) -> bool:
    """Is an (host, port, …) address on this machine? Names other than localhost count as outside."""
    host = address[0] if isinstance(address, tuple) else ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
