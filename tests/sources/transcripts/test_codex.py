"""Tests of reading Codex rollouts: which messages of role user are a person's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.event import MID_TURN
from memory_ci.sources.transcripts.codex import read, sniff
from tests.make import examples
from tests.sources.transcripts.samples import (
    broken,
    human_texts,
    lines,
    of_kind,
    outline,
    read_one,
    records,
    sample,
    sniffed,
)

META: dict[str, Any] = {"type": "session_meta", "payload": {"id": "s1"}}


def user(text: str) -> dict[str, Any]:
    return response(type="message", role="user", content=[{"type": "input_text", "text": text}])


def response(**payload: object) -> dict[str, Any]:
    return {"type": "response_item", "payload": payload}


def event(name: str, **payload: object) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": name, **payload}}


def typed_item(text: str, uid: str = "u1") -> dict[str, Any]:
    item = {"type": "UserMessage", "id": uid, "content": [{"type": "text", "text": text}]}
    return event("item_completed", item=item)


def test_only_rollouts_are_recognised() -> None:
    assert sniffed(sniff) == {"codex-new.jsonl", "codex-old.jsonl"}


def test_a_rollout_with_a_first_line_longer_than_the_head_is_recognised() -> None:
    line = (
        b'{"timestamp":"2026-09-01T10:00:00Z","type":"session_meta","payload":{"id":"s1","instructions":"'
        + b"x" * 99
    )
    assert sniff(line)


def test_a_rollout_with_a_broken_first_line_is_recognised() -> None:
    assert sniff(b"{broken\n" + sample("codex-new.jsonl"))


def test_a_message_is_one_turn_whether_its_event_precedes_or_follows_it() -> None:
    session = read_one(read, sample("codex-new.jsonl"))
    assert human_texts(session) == [
        "Retry the POST when it times out.",
        "Never retry a POST without a key.",
        "Now write the change log.",
    ]


def test_a_message_with_only_role_user_is_not_from_a_person() -> None:
    session = read_one(read, sample("codex-new.jsonl"))
    assert ("injected", "text", "A goal that no one typed") in outline(session)
    assert [event.text[:12] for event in session.events if event.actor == "injected"][:3] == [
        "<permissions",
        "# AGENTS.md ",
        "<environment",
    ]


def test_turns_typed_while_the_agent_worked_are_marked() -> None:
    session = read_one(read, sample("codex-new.jsonl"))
    assert [event.text for event in session.events if MID_TURN in event.labels] == [
        "Never retry a POST without a key."
    ]


def test_a_refused_command_is_a_rejection_and_not_a_result() -> None:
    session = read_one(read, sample("codex-new.jsonl"))
    (event_read,) = of_kind(session, "rejection")
    assert (event_read.actor, event_read.tool, event_read.text, event_read.ok) == (
        "human",
        "exec_command",
        "",
        False,
    )
    assert session.counts.tool_results == 2


def test_a_refusal_by_a_guardian_is_not_a_rejection() -> None:
    output = response(
        type="function_call_output", call_id="c", output="This action was rejected due to risk."
    )
    session = read_one(read, lines(META, output))
    assert [(event.kind, event.ok) for event in session.events] == [("tool_result", False)]


def test_a_failed_command_is_an_error() -> None:
    event_read = of_kind(read_one(read, sample("codex-new.jsonl")), "tool_result")[0]
    assert (event_read.tool, event_read.ok, event_read.severity) == ("exec_command", False, "error")


def test_an_interruption_recorded_twice_counts_once() -> None:
    assert read_one(read, sample("codex-new.jsonl")).counts.interrupts == 1


def test_a_turn_that_the_program_ended_is_not_an_interruption() -> None:
    assert (
        read_one(
            read, lines(META, event("turn_aborted", reason="budget_limited"))
        ).counts.interrupts
        == 0
    )


def test_a_compaction_is_marked_and_not_human() -> None:
    (event_read,) = of_kind(read_one(read, sample("codex-new.jsonl")), "compaction")
    assert (event_read.actor, event_read.text) == (
        "injected",
        "Summary: POST needs an idempotency key.",
    )


def test_the_files_of_a_patch_are_paths() -> None:
    assert read_one(read, sample("codex-new.jsonl")).events[12].paths == ("CHANGES.md",)


def test_paths_are_relative_to_the_session_and_stay_inside_it() -> None:
    header = {"type": "session_meta", "payload": {"id": "s1", "cwd": "/home/user/shop"}}
    patch = "".join(
        f"*** Add File: {path}\n" for path in ("/home/user/shop/a.py", "/etc/x", "../b.py", "c.py")
    )
    call = response(type="custom_tool_call", name="apply_patch", call_id="c", input=patch)
    assert read_one(read, lines(header, call)).events[0].paths == ("a.py", "c.py")


def test_a_session_has_its_id_branch_and_lines() -> None:
    session = read_one(read, sample("codex-new.jsonl"), "rollout-x.jsonl")
    assert (session.key, session.branch) == (
        "codex:0199a000-0000-7000-8000-000000000001",
        "retry-post",
    )
    assert str(session.events[3].origin).endswith("rollout-x.jsonl:7")
    assert session.counts.unknown == {"event_msg/brand_new_event": 1}


def test_the_old_form_is_read() -> None:
    session = read_one(read, sample("codex-old.jsonl"))
    assert session.key == "codex:0198b000-0000-7000-8000-000000000002"
    assert session.branch == "main"
    assert outline(session) == [
        ("injected", "text", "<environment_context>\nCu"),
        ("human", "text", "Rename the module."),
        ("agent", "tool_call", '{"command":["mv","a.py",'),
        ("tool", "tool_result", "mv: no such file\n"),
        ("agent", "text", "There is no a.py."),
    ]
    assert session.events[3].severity == "error"


def test_in_paginated_histories_an_item_proves_a_turn() -> None:
    session = read_one(
        read, lines(META, user("go"), typed_item("go"), user("go"), typed_item("go", "u2"))
    )
    assert human_texts(session) == ["go", "go"]
    assert session.counts.injected == 0


def test_two_forms_of_one_proof_are_one_turn() -> None:
    session = read_one(
        read, lines(META, user("go"), event("user_message", message="go"), typed_item("go"))
    )
    assert human_texts(session) == ["go"]


def test_editor_context_before_the_words_is_removed() -> None:
    text = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nuse pnpm\n"
    assert human_texts(read_one(read, lines(META, event("user_message", message=text)))) == [
        "use pnpm"
    ]


def test_an_event_with_a_wrapper_is_injected() -> None:
    message = event("user_message", message="what the tool says", kind="environment_context")
    assert outline(read_one(read, lines(META, message))) == [
        ("injected", "text", "what the tool says")
    ]


@pytest.mark.parametrize(
    "meta",
    [
        {"source": {"subagent": "review"}},
        {"source": {"subagent": {"other": "guardian"}}},
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}},
        {"source": "cli", "thread_source": "subagent"},
    ],
)
def test_a_sub_agents_session_has_no_words_of_a_person(meta: dict[str, Any]) -> None:
    rejected = response(
        type="function_call_output", call_id="c", output="exec command rejected by user"
    )
    header = {"type": "session_meta", "payload": {"id": "s1"} | meta}
    session = read_one(
        read, lines(header, user("review it"), event("user_message", message="review it"), rejected)
    )
    assert [event.actor for event in session.events] == ["subagent", "tool"]


def test_rolled_back_turns_do_not_count() -> None:
    messages = [event("user_message", message=text) for text in ("keep", "drop", "drop too")]
    session = read_one(read, lines(META, *messages, event("thread_rolled_back", num_turns=2)))
    assert outline(session) == [("human", "text", "keep"), ("human", "interrupt", "")]
    assert [event.seq for event in session.events] == [0, 1]


def test_a_bad_line_is_counted_and_the_others_are_read() -> None:
    good = sample("codex-new.jsonl").splitlines(keepends=True)
    session = read_one(
        read,
        b"".join([*good[:5], b'{"cut": \n', b"[" * 100_000 + b"\n", b"\x00\n", b"7\n", *good[5:]]),
    )
    assert session.counts.bad_lines == 4
    assert session.counts.human_turns == 3


def test_an_empty_file_is_a_session_without_events_named_after_the_file() -> None:
    session = read_one(read, b"", "rollout-7.jsonl")
    assert (session.id, session.events, session.counts.records) == ("rollout-7", (), 0)


def test_a_fork_keeps_its_own_header() -> None:
    assert (
        read_one(read, lines(META, {"type": "session_meta", "payload": {"id": "parent"}})).id
        == "s1"
    )


@examples(60)
@given(st.data())
def test_broken_files_raise_no_error(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["codex-new.jsonl", "codex-old.jsonl"]))
    text = data.draw(broken(name))
    sniff(text[: 64 * 1024])
    assert read_one(read, text).counts.records <= len(records(name)) + 2


def test_a_prompt_of_codex_exec_is_not_from_a_person() -> None:
    meta = {
        "type": "session_meta",
        "payload": {"id": "s1", "source": "exec", "thread_source": "user"},
    }
    session = read_one(
        read, lines(meta, event("user_message", message="fix the build"), user("fix the build"))
    )
    assert human_texts(session) == []
    assert session.counts.injected == 1
