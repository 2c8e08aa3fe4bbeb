"""Tests of the formats of a context: the output of an agent's hook, and Markdown."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.commands.retrieve.text import (
    USAGE_REQUEST,
    append_usage_request,
    render_hook,
    render_markdown,
)


def test_a_hook_gets_the_context_for_its_event() -> None:
    assert json.loads(render_hook("know\n")) == {
        "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "know\n"}
    }


def test_no_context_is_no_output() -> None:
    assert render_hook("") == render_markdown("") == ""


@given(st.lists(st.sampled_from(["`", "```", "````", "x", "\n", "~~~", "</b>"])).map("".join))
def test_no_content_ends_the_fence(content: str) -> None:
    lines = render_markdown(f"{content}\n").splitlines()
    fence = lines[2].removesuffix("text")
    ends = [line for line in lines[3:] if re.fullmatch(rf" {{0,3}}`{{{len(fence)},}}\s*", line)]
    assert ends == [lines[-1]] == [fence]


def test_the_agent_is_asked_for_feedback_only_if_entries_were_noted() -> None:
    assert append_usage_request("know\n", is_noted=True) == f"know\n{USAGE_REQUEST}"
    assert append_usage_request("know\n", is_noted=False) == "know\n"
    assert append_usage_request("", is_noted=True) == ""
