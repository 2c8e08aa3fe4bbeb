"""Tests of `memory-ci sessions` outside of a repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import Run
from tests.sources.transcripts.claude import (
    SAID,
    make_agent,
    make_call,
    make_lines,
    make_queue,
    make_result,
    make_user,
)

pytestmark = pytest.mark.in_project


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.jsonl"
    path.write_bytes(
        make_lines(
            make_user("retry it\nand log \x1b[2Jit"),
            make_agent(make_call("Bash", command="npm i")),
            make_user(
                [make_result(SAID + "use pnpm", is_error=True)], 3, toolDenialKind="user-rejected"
            ),
            make_queue("enqueue", "rebase first"),
            make_queue("remove"),
            {"type": "hologram", "sessionId": "0b1c2d3e-0000-4000-8000-000000000001"},
            "cut off",
        )
    )
    return path


def test_the_table_counts_sessions_and_turns(run: Run, transcript: Path) -> None:
    headings, row = run("sessions", str(transcript)).stdout.splitlines()
    assert headings.split()[:4] == ["format", "agent", "id", "started"]
    cells = (
        "claude-code-jsonl claude-code 0b1c2d3e 2026-09-01 12:01 6 2 (1) 1 (1) 0 0 0 0 1 hologram 1"
    )
    assert row.split() == cells.split()


def test_words_of_people_are_shown_with_file_and_line_and_no_control_characters(
    run: Run, transcript: Path
) -> None:
    assert run("sessions", "--human", str(transcript)).stdout.splitlines() == [
        "claude-code:0b1c2d3e-0000-4000-8000-000000000001 (claude-code-jsonl)",
        "  run.jsonl:1: retry it",
        r"    and log \x1b[2Jit",
        "  run.jsonl:3: [rejection Bash] use pnpm",
        "  run.jsonl:4: [mid-turn] rebase first",
    ]


def test_json_has_the_counts_and_the_words(run: Run, transcript: Path) -> None:
    (session,) = json.loads(run("sessions", "--json", str(transcript)).stdout)["sessions"]
    assert session["counts"]["unknown"] == {"hologram": 1}
    assert [event["actor"] for event in session["events"]] == ["human"] * 3


def test_a_named_file_of_no_format_is_skipped_aloud(run: Run, transcript: Path) -> None:
    (transcript.parent / "LICENSE").write_text("MIT")
    result = run("sessions", "LICENSE", "run.jsonl")
    assert result.exit_code == 0
    assert result.stderr == "Skipped: LICENSE is no transcript of a known format\n"
    assert len(result.stdout.splitlines()) == 2


def test_a_path_that_is_not_there_is_a_usage_error(run: Run, transcript: Path) -> None:
    result = run("sessions", str(transcript.parent / "gone"))
    assert result.exit_code == 2
    assert "[transcript-unreadable]" in result.stderr
