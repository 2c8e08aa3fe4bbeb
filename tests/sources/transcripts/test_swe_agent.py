"""SWE-agent trajectories: nobody speaks in them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.sources.transcripts.swe_agent import read, sniff
from tests.make import examples
from tests.sources.transcripts.samples import broken, outline, read_one, sample, sniffed


def test_only_trajectories_are_taken_for_trajectories() -> None:
    assert sniffed(sniff) == {"swe-agent-calls.traj", "swe-agent-commands.traj"}


def test_prompt_demonstration_and_task_are_injected_and_nobody_is_human() -> None:
    session = read_one(read, sample("swe-agent-calls.traj"), "issue-7.traj")
    assert session.key == "swe-agent:issue-7"
    assert outline(session) == [
        ("injected", "text", "You are a programmer."),
        ("injected", "text", "Here is a demonstration "),
        ("injected", "text", "We are solving this issu"),
        ("agent", "text", "I look around."),
        ("agent", "tool_call", '{"path":"a.py"}'),
        ("tool", "tool_result", "Traceback (most recent c"),
        ("agent", "text", "Done."),
        ("agent", "tool_call", "{}"),
    ]


def test_a_call_names_its_tool_and_path_and_its_failure_is_an_error() -> None:
    session = read_one(read, sample("swe-agent-calls.traj"))
    call, result = session.events[4:6]
    assert (call.tool, call.paths, call.origin.line) == ("open", ("a.py",), 4)
    assert (result.ok, result.severity) == (False, "error")


def test_role_user_is_the_output_of_a_command_in_the_older_form() -> None:
    session = read_one(read, sample("swe-agent-commands.traj"))
    assert outline(session) == [
        ("injected", "text", "SETTING: a shell."),
        ("injected", "text", "demo step"),
        ("injected", "text", "ISSUE: the parser fails"),
        ("agent", "text", "I look."),
        ("agent", "tool_call", "ls -a"),
        ("tool", "tool_result", "a.py\n(Open file: n/a)\nba"),
    ]
    assert session.events[4].tool == "ls"
    assert session.counts.unknown == {"oracle": 1}


def test_a_demonstration_stays_one_after_the_work_has_begun() -> None:
    history = [
        {"role": "assistant", "content": "work"},
        {"role": "user", "content": "demo", "is_demo": True},
    ]
    session = read_one(read, json.dumps({"history": history}).encode())
    assert [event.actor for event in session.events] == ["agent", "injected"]


def test_a_truncated_file_is_counted() -> None:
    assert read_one(read, sample("swe-agent-calls.traj")[:-9]).counts.bad_lines == 1


def test_a_file_without_a_history_is_a_session_without_events() -> None:
    assert read_one(read, b'{"trajectory": [], "history": null}').events == ()


@examples(60)
@given(st.data())
def test_broken_files_never_raise_and_never_speak(data: st.DataObject) -> None:
    text = data.draw(
        broken(data.draw(st.sampled_from(["swe-agent-calls.traj", "swe-agent-commands.traj"])))
    )
    sniff(text[: 64 * 1024])
    assert read_one(read, text).counts.human_turns == 0
