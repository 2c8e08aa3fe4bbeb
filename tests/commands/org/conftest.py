"""Fixtures: an organisation, and a log of the git processes that are started for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.org.organisation import Organisation


@pytest.fixture
def org(tmp_path: Path) -> Organisation:
    return Organisation(tmp_path)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file to which each started git process writes a line."""
    log = tmp_path / "git.log"
    log.touch()
    monkeypatch.setenv("GIT_TRACE", str(log))
    return log
