"""Fixtures for every test: a clean environment, an empty home, no network, golden files."""

from __future__ import annotations

import gc
import ipaddress
import itertools
import os
import shutil
import signal
import socket
import ssl
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

REMOVED_PREFIXES = (
    "GIT_",
    "XDG_",
    "ANTHROPIC_",
    "CLAUDE",
    "GITHUB_",
    "GH_",
    "GITLAB_",
    "CI_",
    "MEMORY_CI_",
)
"""Prefixes of environment variables that are removed, or results would depend on the caller's machine."""

REMOVED_NAMES = (
    *("CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LANGUAGE", "PAGER", "EMAIL"),
    "PYTHONDONTWRITEBYTECODE",  # each process that a test starts would compile every module again
)
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY")
"""With a proxy set, a request to a server on localhost would leave the machine."""

SEALED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    # Not GIT_AUTHOR_NAME: it overrides `git -c user.name` and would hide a commit made without an identity.
    **git_settings({"user.name": "Tess Tester", "user.email": "tess@example.com"}),
    "MEMORY_CI_EMBEDDER": "none",  # with the extra installed, every retrieval would load an embedding model
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}

settings.register_profile("local", deadline=None, max_examples=15)
settings.register_profile("ci", deadline=None, max_examples=15, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


MIN_BYTES_FOR_WORKERS = 100_000
"""Bytes of selected test files below which starting xdist workers takes longer than they save."""


MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a directory of its own in it
"""A file system in memory: thousands of small repositories are made and removed faster than on a disk."""

MIN_FREE_BYTES = 2 * 2**30
"""Bytes that must be free in it: a container may have only 64 MiB, and a worker needs about 120 MiB."""


def pytest_configure() -> None:
    """Put temporary directories into memory if there is enough space and programs may run there."""
    is_free = (
        MEMORY.is_dir()
        and os.access(MEMORY, os.W_OK)
        and shutil.disk_usage(MEMORY).free >= MIN_FREE_BYTES
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
    """Exempt imported modules and collected tests from garbage collection, since they are never freed."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return 0 workers for a small selection, otherwise one more than cores.

    A worker waits for the processes that it starts, and another one uses the time.
    """
    selected_paths = [Path(argument.partition("::")[0]) for argument in config.args]
    files = {
        file
        for path in selected_paths
        for file in (path.rglob("test_*.py") if path.is_dir() else [path])
    }
    is_small = (
        config.option.keyword
        or sum(file.stat().st_size for file in files if file.exists()) < MIN_BYTES_FOR_WORKERS
    )
    return 0 if is_small else (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True, scope="session")
def sealed_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove the caller's environment variables and git configuration, and block the network.

    Commit dates are not set here: the repository builders set them.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if is_removed(name)]:
            patch.delenv(name)
        for name, value in SEALED.items():
            patch.setenv(name, value)
        quick = tmp_path_factory.mktemp("config") / "gitconfig"
        pairs = [(*key.split("."), value) for key, value in QUICK.items()]
        quick.write_text(
            "".join(f"[{section}]\n\t{name} = {value}\n" for section, name, value in pairs)
        )
        patch.setenv("GIT_CONFIG_GLOBAL", str(quick))  # the git that memory-ci starts reads it, too
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        time.tzset()
        for method in ("connect", "connect_ex"):
            patch.setattr(socket.socket, method, loopback_only(getattr(socket.socket, method)))
        yield
    time.tzset()


@pytest.fixture(autouse=True, scope="session")
def handle_ignored_signals() -> Iterator[None]:
    """Let programs that tests start be interrupted, even if pytest was started with signals ignored (`nohup`, `&`).

    A child process inherits an ignored signal, but resets a signal with a handler to its default.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    ignored = [number for number, handler in before.items() if handler == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda number, frame: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(autouse=True, scope="session")
def no_certificates() -> Iterator[None]:
    """Read no certificates of authorities: tests reach only servers without TLS, and each client would read a bundle."""
    with pytest.MonkeyPatch.context() as patch:
        for method in ("load_verify_locations", "load_default_certs"):
            patch.setattr(ssl.SSLContext, method, lambda *arguments, **options: None)
        yield


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield paths for home directories; `mktemp` for each test would list all earlier ones every time."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set HOME to an empty directory outside `tmp_path`, so that no repository in `tmp_path` contains it."""
    path = next(homes)
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.fixture(scope="session")
def project_template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("template") / "shop")


@pytest.fixture(scope="session")
def first_run_template(
    project_template: Project, tmp_path_factory: pytest.TempPathFactory
) -> Project:
    project = copy_project(project_template, tmp_path_factory.mktemp("first") / "shop")
    project.record()
    project.git("repack", "-adq")
    return project


@pytest.fixture
def project(
    request: pytest.FixtureRequest,
    project_template: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Project:
    """Return a copy of the project of `make_project`.

    With the marker `in_project` it is the current directory, and the date is 2026-11-21.
    With the marker `first_run` it is as `project.record()` leaves it.
    """
    template = project_template
    if request.node.get_closest_marker("first_run"):
        template = request.getfixturevalue("first_run_template")
    copy = copy_project(template, tmp_path / "shop")
    if request.node.get_closest_marker("in_project"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795262400")
        monkeypatch.chdir(copy.path)
    return copy


@pytest.fixture
def run() -> Run:
    """Run a command line: `run("check", "--json")` has exit_code, stdout and stderr; a traceback fails the test."""
    return invoke


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare texts with files: `golden(name, text)` reads tests/golden/`name`; `--update-golden` rewrites it."""
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


def is_removed(name: str) -> bool:
    return name.startswith(REMOVED_PREFIXES) or name in REMOVED_NAMES or name.upper() in PROXIES


def loopback_only(connect: Callable[..., T]) -> Callable[..., T]:
    """Return a `connect` that fails the test if the peer is another machine; `except Exception` cannot catch it."""

    def guarded(self: socket.socket, address: object) -> T:
        if self.family != socket.AF_UNIX and not is_loopback(address):
            pytest.fail(f"a test tried to reach {address!r}")
        return connect(self, address)

    return guarded


def is_loopback(address: object) -> bool:
    """Return whether a (host, port, …) address is on this machine; names other than localhost are not."""
    host = address[0] if isinstance(address, tuple) else ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
