"""Tests of `memory-ci show ID` as a user runs it."""

from __future__ import annotations

import json

import pytest

from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project

pytestmark = pytest.mark.in_project


def test_the_json_of_an_entry_has_its_place_its_text_and_its_prominence(
    project: Project, run: Run
) -> None:
    text = format_entry(make_entry(1))
    project.write("MEMORY.md", text)
    data = json.loads(run("show", make_id(1), "--json").stdout)
    assert data.keys() == {"schema_version", "located", "text", "prominence"}
    assert data["located"]["path"] == "MEMORY.md"
    assert data["text"].rstrip("\n") == text.rstrip("\n")
