"""Selective ingestion: what is left out, for which reason, and what a person may force in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memory_ci.evidence.ingest import MAX_LENGTH, collect
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import Event, Origin
from memory_ci.records.evidence import EvidenceSet

POLICY = ExtractionConfig()


def make_event(text: str, **fields: Any) -> Event:  # noqa: ANN401
    defaults: dict[str, Any] = {
        "seq": 0,
        "at": datetime(2026, 9, 1, tzinfo=UTC),
        "actor": "human",
        "kind": "commit",
        "text": text,
        "origin": Origin("commit", "a" * 40),
        "author": "Ada <ada@example.com>",
        "paths": ("src/a.py",),
    }
    return Event(**defaults | fields)


def reasons(found: EvidenceSet) -> list[str]:
    return [left.reason for left in found.left_out]


BODY = "\n\nThe cache was shared between workers."
BOT = "dependabot[bot] <d@users.noreply.github.com>"

LEFT_OUT = [
    ("merge-commit", make_event("Merge branch 'x' into main", is_merge=True)),
    ("merge-commit", make_event("Merge pull request #7 from a/b\n\nAdd retries\n", is_merge=True)),
    (
        "merge-commit",
        make_event("Merge branch 'x' into 'main'\n\nAdd retries\n\nSee merge request g/p!7\n", is_merge=True),
    ),
    ("merge-commit", make_event("Merge branch 'x'\n\n# Conflicts:\n#\tgo.sum\n", is_merge=True)),
    ("dependency-bump", make_event("Bump left-pad from 1 to 2" + BODY, author=BOT)),
    ("lockfile-only", make_event("refresh" + BODY, paths=("go.sum", "web/package-lock.json", "uv.lock"))),
    ("format-only", make_event("style: run black" + BODY)),
    ("format-only", make_event("chore: gofmt everything" + BODY)),
    ("generated-docs", make_event("docs: regenerate CLI docs" + BODY)),
    ("vetoed", make_event("fix: x" + BODY + "\n\nMemory: skip\n")),
    ("vetoed", make_event("fix: x" + BODY, labels=(("memory", "Skip"),))),
    ("own-commit", make_event("memory: extract\n\nMemory-CI-Step: extract\n")),
    ("own-commit", make_event("memory" + BODY, labels=(("Memory-CI-Source", "a" * 40),))),
    ("subject-only", make_event("feat: retries")),
    ("subject-only", make_event("feat: retries\n\nCo-authored-by: B <b@example.com>\n")),
    ("tool-output", make_event("npm ERR!", kind="tool_result", actor="tool")),
    ("low-severity", make_event("I will now read the file", kind="text", actor="agent")),
]


@pytest.mark.parametrize(("reason", "event"), LEFT_OUT)
def test_what_is_no_evidence_is_left_out_with_its_reason(reason: str, event: Event) -> None:
    found = collect([event], POLICY)
    assert reasons(found) == [reason]
    assert found.pieces == ()


EVIDENCE = [
    make_event("fix: x" + BODY),
    make_event(
        "Merge pull request #7 from a/b\n\nAdd retries\n\nDecision: retry once, because POST is not safe\n",
        is_merge=True,
    ),
    make_event("Merge branch 'x'\n\nLearning: never merge on a Friday\n", is_merge=True),
    make_event("update the parser" + BODY, paths=("go.sum", "main.go")),
    make_event('Revert "feat: retries"'),
    make_event("format dates in UTC" + BODY),
    make_event("denied: rm -rf", kind="text", actor="agent", severity="error"),
    make_event("feat: retries\n\nMemory: keep\n"),
]


@pytest.mark.parametrize("event", EVIDENCE)
def test_what_says_something_is_evidence(event: Event) -> None:
    found = collect([event], POLICY)
    assert [piece.text for piece in found.pieces] == [event.text]


@pytest.mark.parametrize("reason", ["merge-commit", "dependency-bump", "lockfile-only", "format-only", "own-commit"])
def test_keep_forces_nothing_in_that_is_never_evidence(reason: str) -> None:
    event = next(event for left, event in LEFT_OUT if left == reason)
    kept = Event(**{name: getattr(event, name) for name in event.__struct_fields__} | {"labels": (("Memory", "keep"),)})
    assert reason in reasons(collect([kept, event], POLICY))
    assert collect([kept], POLICY).pieces == ()


def test_a_veto_is_stronger_than_a_wish() -> None:
    event = make_event("fix: x" + BODY + "\n\nMemory: keep\nMemory: skip\n")
    assert reasons(collect([event], POLICY)) == ["vetoed"]


def test_a_bump_by_a_person_is_evidence() -> None:
    assert collect([make_event("Bump left-pad from 1 to 2" + BODY)], POLICY).pieces


def test_pieces_are_masked_counted_addressed_and_trusted_by_author() -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    events = [
        make_event(f"fix: x\n\nThe key {key} leaked.", paths=("src/a.py", f"keys/{key}")),
        make_event("fix: y" + BODY, author=BOT),
    ]
    found = collect(events, POLICY)
    assert [(piece.id, piece.trust) for piece in found.pieces] == [("e1", "T0"), ("e2", "T3")]
    assert found.redactions == 1
    assert key not in found.pieces[0].text
    assert found.pieces[0].paths == ("src/a.py",)


@pytest.mark.parametrize(
    "line", ["A" + "-" * 100_000, "chore:" + " " * 100_000 + "x", "A" + "-a" * 100_000, "a" * 100_000 + ":"]
)
def test_a_line_that_was_written_to_keep_us_busy_is_read_at_once(line: str) -> None:
    assert collect([make_event(f"{line}\n\n{line}")], POLICY).pieces


def test_of_a_text_that_is_too_long_the_beginning_is_evidence_and_the_rest_is_counted() -> None:
    lines = "Learning: the pool never shrinks\n" * 5_000
    found = collect([make_event(f"feat: x\n\n{lines}")], POLICY)
    (piece,) = found.pieces
    assert MAX_LENGTH - 40 < len(piece.text) <= MAX_LENGTH
    assert piece.text.endswith("Learning: the pool never shrinks")
    assert reasons(found) == ["too-long"]


def test_a_veto_at_the_end_of_a_text_that_is_too_long_holds() -> None:
    assert reasons(collect([make_event(f"feat: x\n\n{'word ' * 20_000}\nMemory: skip\n")], POLICY)) == ["vetoed"]


def test_no_credential_is_cut_in_two() -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    text = "feat: x\n\n" + "a" * (MAX_LENGTH - 20) + " " + key
    assert "ghp_" not in collect([make_event(text)], POLICY).pieces[0].text
