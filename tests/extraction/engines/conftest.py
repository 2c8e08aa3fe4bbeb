"""Fixtures of the engines' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.extraction.engines.make import MADE


@pytest.fixture(autouse=True)
def close_engines() -> Iterator[None]:
    """No engine of a test keeps a connection after it."""
    yield
    while MADE:
        MADE.pop().close()
