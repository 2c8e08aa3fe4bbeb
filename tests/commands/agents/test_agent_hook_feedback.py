"""Tests of `memory-ci hook agent`: feedback of agents and people on entries."""

from __future__ import annotations

import pytest

from tests.commands.agents.hooks_at_work import ASK, Call, context
from tests.make import make_id

pytestmark = pytest.mark.in_project


OUTDATED = "No, that is outdated."


def test_the_way_to_give_feedback_is_shown_once_and_at_each_start(call: Call) -> None:
    tool = {
        "hook_event_name": "PostToolUse",
        "tool_name": "Read",
        "tool_input": {"file_path": "src/client.py"},
    }
    prompt = {"hook_event_name": "UserPromptSubmit", "prompt": ASK}
    assert HELPED in context(call("codex", **prompt, session_id="s1"))
    assert HELPED not in (served_text := context(call("codex", **tool, session_id="s1")))
    assert "Feed the hen" in served_text
    assert HELPED in context(
        call("codex", hook_event_name="SessionStart", source="compact", session_id="s1")
    )


HELPED = "in a sentence of your own"


def test_a_remark_that_memory_is_outdated_is_offered_as_feedback(
    call: Call,
) -> None:
    prompt = {"hook_event_name": "UserPromptSubmit"}
    offer = f"`memory-ci feedback {make_id(1)[:8]} rejected`"
    assert offer not in context(call("codex", **prompt, prompt=OUTDATED)), "nothing was given"
    assert "Charge a card once" in context(call("codex", **prompt, prompt=ASK))
    assert offer in context(call("codex", **prompt, prompt=OUTDATED))
    assert offer not in context(call("codex", **prompt, prompt=OUTDATED)), (
        "of the turn before nothing is left"
    )


@pytest.mark.parametrize(
    "prompt", ["Show me the outdated packages. " * 20, "Thanks, go on with the tests.", "No."]
)
def test_a_prompt_without_doubt_is_no_feedback(call: Call, prompt: str) -> None:
    call("codex", hook_event_name="UserPromptSubmit", prompt=ASK)
    assert "memory-ci feedback 0" not in context(
        call("codex", hook_event_name="UserPromptSubmit", prompt=prompt)
    )


@pytest.mark.parametrize("flags", [{"agent_id": "sub-1"}, {"session_id": "another"}])
def test_a_remark_in_a_sub_agent_or_another_session_is_no_feedback(
    call: Call, flags: dict[str, str]
) -> None:
    call("codex", hook_event_name="UserPromptSubmit", prompt=ASK)
    event = {"hook_event_name": "UserPromptSubmit", "prompt": OUTDATED, **flags}
    assert "rejected`" not in context(call("codex", **event))
