"""Tests of shell commands in the events of a session: each call is paired with its result."""

from __future__ import annotations

import json

import pytest

from memory_ci.records.event import Event
from memory_ci.sources.transcripts.builder import SessionBuilder
from memory_ci.sources.transcripts.shell import list_shell_runs, read_command
from tests.cost import count_calls


def make_events(*calls: tuple[str, str, str]) -> tuple[Event, ...]:
    """Return events, each of a kind, a tool and a text."""
    builder = SessionBuilder("codex", "codex", "s.jsonl")
    for kind, tool, text in calls:
        is_call = kind == "call"
        builder.add_event(
            "agent" if is_call else "tool",
            "tool_call" if is_call else "tool_result",
            text,
            tool=tool,
            ok=None if is_call else True,
        )
    return builder.build().events


def list_texts(*calls: tuple[str, str, str]) -> list[tuple[str, str]]:
    runs = list_shell_runs(make_events(*calls))
    return [(run.call.text, run.result.text) for run in runs]


def test_each_result_answers_the_first_open_call_of_its_tool() -> None:
    assert list_texts(
        ("call", "Bash", "one"),
        ("call", "shell", "two"),
        ("call", "Bash", "three"),
        ("result", "shell", "2"),
        ("result", "Bash", "1"),
        ("result", "Bash", "3"),
        ("result", "Bash", "nobody's"),
    ) == [("two", "2"), ("one", "1"), ("three", "3")]


def test_a_result_without_a_call_of_its_tool_answers_the_first_call_of_another() -> None:
    assert list_texts(("call", "Bash", "one"), ("result", "terminal", "1")) == [("one", "1")]


def test_other_tools_and_calls_without_text_are_left_out() -> None:
    assert list_texts(("call", "Edit", "x"), ("call", "Bash", ""), ("result", "Bash", "1")) == []


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("git push", "git push"),
        (json.dumps({"command": "git push"}), "git push"),
        (json.dumps({"cmd": ["git", "push"]}), "git push"),
        ('{"command": 5}', '{"command": 5}'),
        ("{ git push; }", "{ git push; }"),
        ("{\ud800", "{\ud800"),
    ],
)
def test_the_command_is_the_text_or_an_argument(text: str, command: str) -> None:
    assert read_command(text) == command


def test_calls_without_results_are_read_in_linear_time() -> None:
    def count(size: int) -> int:
        calls = [("call", "bash", "one")] * size
        pairs = [("call", "shell", "two"), ("result", "shell", "2")] * size
        events = make_events(*calls, *pairs)
        assert len(list_shell_runs(events)) == size
        return count_calls(lambda: list_shell_runs(events))

    assert count(2_000) < 3 * count(1_000)
