"""Finding the Chromium browser for tests, without a package that drives it."""

from __future__ import annotations

import shutil

import pytest

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
NEEDS_BROWSER = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser tests: none of {', '.join(BROWSERS)} on PATH"
)

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
