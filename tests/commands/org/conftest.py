"""An organisation, and each git that is started for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.org.organisation import Organisation


@pytest.fixture
def org(tmp_path: Path) -> Organisation:
    return Organisation(tmp_path)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each git that is started, a line in this file."""
    log = tmp_path / "git.log"
    log.touch()
    monkeypatch.setenv("GIT_TRACE", str(log))
    return log
