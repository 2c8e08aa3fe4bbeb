"""Tests of the command that installs an extra, which depends on the source of the installation."""

from __future__ import annotations

import json

import pytest

from memory_ci import extras


class Installed:
    """A distribution as pip recorded it."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def read_text(self, name: str) -> str | None:
        return self._text if name == "direct_url.json" else None


GIT = {
    "url": "https://example.org/team/memory-ci",
    "vcs_info": {"vcs": "git", "requested_revision": "v1.0.0", "commit_id": "0" * 40},
}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (None, "pip install 'memory-ci[report]'"),
        ("no json", "pip install 'memory-ci[report]'"),
        (
            '{"url": "file:///src/memory-ci", "dir_info": {}}',
            "pip install '/src/memory-ci[report]'",
        ),
        ('{"url": "file:///a.whl", "archive_info": {}}', "pip install 'memory-ci[report]'"),
        (
            json.dumps(GIT),
            "pip install 'memory-ci[report] @ git+https://example.org/team/memory-ci@v1.0.0'",
        ),
    ],
    ids=["registry", "broken", "folder", "wheel", "git"],
)
def test_an_extra_is_installed_from_the_source_of_memory_ci(
    monkeypatch: pytest.MonkeyPatch, record: str | None, expected: str
) -> None:
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(record))
    assert extras.how_to_install("report") == expected
