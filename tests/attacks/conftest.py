"""Fixtures for tests of attacks: a launcher of commands for each xdist worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.attack import Launcher


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path_factory.mktemp("launcher"))
    yield launcher
    launcher.close()
