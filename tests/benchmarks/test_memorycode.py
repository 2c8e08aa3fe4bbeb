"""Tests of the benchmark on MemoryCode, with a dialogue of our own in its format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import memorycode
from benchmarks.memorycode_checks import compare_expression, find_checks
from benchmarks.memorycode_data import Instruction, parse_dialogue, read_dialogues, says
from benchmarks.memorycode_memory import remember
from memory_ci.errors import EngineError
from memory_ci.extraction.engines.replay import ReplayEngine


def session(text: str, *topics: tuple[str, str, list[Any]]) -> dict[str, Any]:
    return {
        "type": [kind for kind, _, _ in topics],
        "topic": [topic for _, topic, _ in topics],
        "session_regex": [regex for _, _, regex in topics if regex],
        "text": text,
    }


DATA = {
    "context": {"mentor": "Ada", "mentee": "Bo"},
    "instructions": [[[8, 0]], [-1], [[8, 1]]],
    "sessions": [
        session(
            "Ada: Welcome!\n\nBo: Hi.\n\nAda: Please always start method names with 'm_'.",
            ("instruction-add", "always start method names with 'm_'", ["method", "^m_.*"]),
        ),
        session(
            "Ada: Never use a linter here.\n\nBo: I will always start functions with 'q_'.",
            ("filler-instruction-add", "never use a linter", []),
        ),
        session(
            'Ada: "From now on, I want you to start method names with \'n_\'."\n\nBo: "Fine."',
            ("instruction-update", "always start method names with 'n_'", ["method", "^n_.*"]),
        ),
    ],
}
DIALOGUE = parse_dialogue(2, DATA)


def test_an_instruction_has_the_number_of_its_topic() -> None:
    assert DIALOGUE.instructions == (
        Instruction(8, 0, "always start method names with 'm_'", "method", "^m_.*"),
        Instruction(8, 2, "always start method names with 'n_'", "method", "^n_.*"),
    )
    assert DIALOGUE.fillers == ("never use a linter",)


def test_only_the_mentor_gives_instructions() -> None:
    assert not any("q_" in entry.text for entry in remember(DIALOGUE, None))


def test_only_the_last_instruction_of_a_topic_is_served() -> None:
    entries = remember(DIALOGUE, None)
    checks = find_checks(entry.title for entry in entries)
    counts = memorycode.count(DIALOGUE, entries, checks)
    assert (counts.in_force, counts.held) == (1, 1)
    assert (counts.superseded, counts.noticed, counts.served) == (1, 1, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Methods begin with `m_`", True),
        ("Methods end with `_m`", False),
        ("Functions begin with `m_`", False),
        ("Methods begin with `am_`", False),
    ],
)
def test_an_entry_is_matched_with_an_instruction_by_object_and_value(
    text: str, expected: bool
) -> None:
    assert says(text, DIALOGUE.instructions[0]) is expected


@pytest.mark.parametrize(
    ("text", "object_", "expression", "is_expressible", "is_equal"),
    [
        ("always start method names with 'm_'", "method", "^m_.*", True, True),
        ("always start method names with 'm_'", "method", "^k_.*", True, False),
        ("always use docstrings in methods", "method docstring", True, False, False),
        ("be kind to methods", "method", "^m_.*", True, False),
        ("always add comments in your code", "comment", True, True, True),
    ],
)
def test_a_check_is_compared_with_an_expression(
    text: str, object_: str, expression: str | bool, is_expressible: bool, is_equal: bool
) -> None:
    check = find_checks([text])[text]
    result = compare_expression(Instruction(1, 0, text, object_, expression), check)
    assert (result.is_expressible, result.is_equal) == (is_expressible, is_equal)


def test_a_dialogue_without_replies_is_not_counted(tmp_path: Path) -> None:
    replies = tmp_path / "replies.jsonl"
    replies.write_text("")
    with pytest.raises(EngineError, match="no reply"):
        remember(DIALOGUE, ReplayEngine(replies))


def test_dialogues_are_chosen_by_their_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2, 4):
        (tmp_path / f"dialogue_{number}.json").write_text(json.dumps(DATA))
    (tmp_path / "dialogue_x.json").write_text("{}")
    assert [item.number for item in read_dialogues(tmp_path, "even")] == [2, 4]
    assert [item.number for item in read_dialogues(tmp_path, "odd")] == [1]
    memorycode.main(["--data", str(tmp_path), "--parity", "odd"])
    assert "keyless, 1 dialogues" in capsys.readouterr().out
