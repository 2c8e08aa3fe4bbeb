"""Fixtures for tests of sessions: a program that replaces the language model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.standin import StandIn


@pytest.fixture
def model(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path / "model")
