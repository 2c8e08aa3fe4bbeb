"""Tests of scopes: each is derived from the learning and decides which file is written."""

from __future__ import annotations

from typing import Any

import pytest

from memory_ci.extraction.entries import (
    MEMORY_SCOPES,
    derive_extraction_scope,
    find_memory_scope,
    list_reaches,
)
from memory_ci.records.candidate import Kind, Reach
from memory_ci.records.event import EventKind, Evidence
from tests.extraction.make import make_piece

Pieces = tuple[Evidence, ...]


def piece(kind: EventKind, number: int = 1, text: str = "words", **fields: Any) -> Evidence:
    return make_piece(text, number, kind=kind, **fields)


TURN = piece("text", text="no, use the pool", session="claude-code:5f0a")
SAID = (TURN,)
REFUSED = (piece("rejection", actor="human", session="5f0a"),)
STOPPED_WORK = (piece("interrupt", actor="human", session="5f0a"),)
COMMIT = (piece("commit"),)
CASES: list[tuple[Kind, Reach, Pieces, str]] = [
    ("preference", "project", SAID, "observations"),
    ("preference", "project", REFUSED, "observations"),
    ("convention", "everyone", SAID, "observations"),
    ("preference", "project", (*SAID, *STOPPED_WORK), "escalation"),
    ("preference", "project", (piece("tool_call", ok=False),), "escalation"),
    ("preference", "project", (*SAID, *COMMIT), "project"),
    ("preference", "everyone", COMMIT, "project"),
    ("convention", "project", SAID, "project"),
    ("fix", "project", COMMIT, "corrective"),
    ("decision", "project", COMMIT, "project"),
    ("gotcha", "team", COMMIT, "team"),
    ("preference", "session", SAID, "session"),
    ("decision", "project", (*COMMIT, piece("intent")), "intent-alignment"),
    ("fix", "everyone", (piece("premortem"), *COMMIT), "prospective"),
    ("gotcha", "project", (piece("assumption"),), "in-flight"),
    ("preference", "team", (piece("intervention"),), "in-flight"),
    ("convention", "everyone", (piece("entry"),), "global"),
]


@pytest.mark.parametrize(("kind", "reach", "quoted", "scope"), CASES)
def test_the_scope_of_a_learning_follows_from_its_kind_its_reach_and_what_it_quotes(
    kind: Kind, reach: Reach, quoted: Pieces, scope: str
) -> None:
    assert derive_extraction_scope(kind, reach, quoted) == scope


def test_the_cases_include_every_scope() -> None:
    assert {scope for *_, scope in CASES} == set(MEMORY_SCOPES)


@pytest.mark.parametrize(
    ("pieces", "reaches"),
    [
        ((piece("commit", paths=("a.py", "src/b.py")),), "project everyone"),
        ((piece("commit", paths=("src/api/a.py", "src/api/b/c.py")),), "project team everyone"),
        ((TURN,), "project session everyone"),
        ((TURN, piece("text", 2, session="codex:77")), "project everyone"),
    ],
)
def test_a_reach_is_offered_only_if_the_change_has_such_a_scope(
    pieces: Pieces, reaches: str
) -> None:
    assert list_reaches(pieces) == tuple(reaches.split())


@pytest.mark.parametrize(
    ("paths", "target"),
    [
        ((), "project"),
        (("a.py",), "project"),
        (("src/a.py",), "team:src"),
        (("src/api/a.py", "src/api/b.py"), "team:src/api"),
        (("src/api/a.py", "src/apis/b.py"), "team:src"),
        (("src/api/a.py", "src/api/v1/b.py", "src/b.py"), "team:src"),
        (("src/a.py", "README.md"), "project"),
    ],
)
def test_a_team_is_the_deepest_directory_that_all_changed_files_share(
    paths: tuple[str, ...], target: str
) -> None:
    commits = tuple(piece("commit", number, paths=(path,)) for number, path in enumerate(paths))
    assert (
        find_memory_scope("team", (*commits, piece("text", 99, paths=("docs/read.md",)))) == target
    )


@pytest.mark.parametrize(
    ("session", "target"),
    [
        ("claude-code:5F0A-77", "session:5f0a-77"),
        ("runs/job_7.jsonl", "session:job-7-jsonl"),
        ("../../etc/", "session:etc"),
        ("..", "project"),
        ("x" * 99, f"session:{'x' * 64}"),
        (None, "project"),
    ],
)
def test_the_name_of_a_job_is_the_last_part_of_its_session_made_safe_for_paths(
    session: str | None, target: str
) -> None:
    assert find_memory_scope("session", (piece("text", session=session),)) == target


def test_the_other_scopes_write_to_the_file_in_the_table() -> None:
    targets = {
        name: find_memory_scope(name, (TURN,))
        for name in MEMORY_SCOPES
        if name not in ("team", "session")
    }
    assert targets == {name: MEMORY_SCOPES[name] for name in targets}
    assert set(targets.values()) == {"institutional", "project", "global"}
