"""Each scope reads what it should, is asked for only then, and writes where it should."""

from __future__ import annotations

from typing import Any

import pytest

from memory_ci.extraction.scopes import SCOPES, may_cite, scopes_for, target_of
from memory_ci.records.event import EventKind, Evidence
from tests.extraction.make import make_piece

Pieces = tuple[Evidence, ...]


def piece(kind: EventKind, number: int = 1, text: str = "words", **fields: Any) -> Evidence:  # noqa: ANN401
    return make_piece(text, number, kind=kind, **fields)


TURN = piece("text", text="no, use the pool", session="claude-code:5f0a")
CASES: list[tuple[Pieces, str]] = [
    ((), ""),
    ((piece("commit", paths=("a.py", "src/b.py")),), "project"),
    ((piece("commit", paths=("src/api/a.py", "src/api/b/c.py")),), "team project"),
    ((TURN,), "observations escalation session project corrective"),
    ((piece("text", actor="agent", session="5f0a"),), "session project"),
    ((TURN, piece("text", 2, session="codex:77")), "observations escalation project corrective"),
    ((piece("rejection", session="5f0a"),), "escalation session project corrective"),
    ((piece("interrupt", session="5f0a"),), "escalation session project corrective"),
    ((piece("tool_call", ok=False, session="5f0a"),), "escalation session project"),
    ((piece("pr"),), "project"),
    ((piece("pr"), piece("diff", 2)), "intent-alignment project"),
    ((piece("intent"), piece("diff", 2)), "intent-alignment project"),
    ((piece("premortem"),), "project"),
    ((piece("premortem"), piece("commit", 2)), "project prospective"),
    ((piece("assumption"),), "project in-flight"),
    ((piece("intervention"),), "escalation project in-flight corrective"),
    ((piece("review"),), "project"),
    ((piece("review", labels=(("state", "changes_requested"),)),), "project corrective"),
    ((piece("review", labels=(("outcome", "requested-then-made"),)),), "project corrective"),
    ((piece("check", labels=(("outcome", "failed-then-passed"),)),), "project corrective"),
    ((piece("check", labels=(("outcome", "passed"),)),), "project"),
    ((piece("pr", labels=(("outcome", "closed-unmerged"),)),), "project corrective"),
    ((piece("commit", text='Revert "feat: retry"'),), "project corrective"),
    ((piece("commit", text="Pool (#3)\n\n* feat: x\n* fix(db): close it\n"),), "project corrective"),
    ((piece("commit", text="feat: prefix fixes nothing here"),), "project"),
    ((piece("entry"),), "global"),
]


@pytest.mark.parametrize(("pieces", "scopes"), CASES)
def test_a_scope_is_asked_for_when_it_has_something_to_read(pieces: Pieces, scopes: str) -> None:
    assert scopes_for(pieces) == tuple(scopes.split())


def test_the_cases_speak_of_every_scope_and_in_the_order_of_the_table() -> None:
    assert {name for _, scopes in CASES for name in scopes.split()} == set(SCOPES)
    everything = tuple(piece for pieces, _ in CASES for piece in pieces if piece.kind != "entry")
    found = scopes_for(everything)
    assert list(found) == [name for name in SCOPES if name in found]


@pytest.mark.parametrize(
    ("scope", "cited", "is_read"),
    [
        ("observations", TURN, True),
        ("observations", piece("text", actor="agent"), False),
        ("observations", piece("review"), False),
        ("intent-alignment", piece("diff"), True),
        ("intent-alignment", piece("commit"), False),
        ("prospective", piece("premortem"), True),
        ("prospective", piece("review"), True),
        ("project", piece("check"), True),
        ("project", piece("entry"), False),
        ("in-flight", piece("commit"), False),
    ],
)
def test_a_scope_may_cite_what_it_reads(scope: str, cited: Evidence, is_read: bool) -> None:
    assert may_cite(scope, cited) is is_read


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
def test_a_team_is_the_deepest_directory_that_all_changed_files_share(paths: tuple[str, ...], target: str) -> None:
    commits = tuple(piece("commit", number, paths=(path,)) for number, path in enumerate(paths))
    assert target_of("team", (*commits, piece("text", 99, paths=("docs/read.md",)))) == target


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
def test_a_job_is_the_last_part_of_its_session_safe_in_a_path(session: str | None, target: str) -> None:
    assert target_of("session", (piece("text", session=session),)) == target


def test_the_other_scopes_write_where_their_row_says() -> None:
    targets = {name: target_of(name, (TURN,)) for name in SCOPES if name not in ("team", "session")}
    assert targets == {name: SCOPES[name].writes_to for name in targets}
    assert set(targets.values()) == {"institutional", "project", "global"}
