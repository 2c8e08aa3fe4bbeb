"""Fixtures for tests of engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.extraction.engines.make import MADE


@pytest.fixture(autouse=True)
def close_engines() -> Iterator[None]:
    """Close the engines of a test after it, so that no connection stays open."""
    yield
    while MADE:
        MADE.pop().close()
