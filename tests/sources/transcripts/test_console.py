"""Terminal copies: rather no human turn than a false one."""

from __future__ import annotations

import io

from hypothesis import given

from memory_ci.sources.transcripts.console import read, sniff
from tests.make import examples
from tests.sources.transcripts.breaking import ORDINARY, broken_text, unreadable
from tests.sources.transcripts.samples import (
    human_texts,
    of_kind,
    outline,
    read_one,
    sample,
    sniffed,
)

NAME = "claude-console.txt"


def test_only_a_terminal_copy_is_taken_for_one() -> None:
    assert sniffed(sniff) == {NAME}
    assert not any(map(sniff, ORDINARY))


def test_a_turn_is_human_if_the_agent_answers_it() -> None:
    assert human_texts(read_one(read, sample(NAME), NAME)) == [
        "add a retry to the client",
        "use pytest -q, the Makefile is gone: it was\nremoved last week",
    ]


def test_a_prompt_without_an_answer_a_command_and_a_quotation_are_not_human() -> None:
    found = outline(read_one(read, sample(NAME), NAME))
    assert ("injected", "text", "/cost") in found
    assert ("injected", "text", "a last word without an a") in found
    assert not [text for _, _, text in found if text.startswith("not a prompt")]


def test_a_refusal_and_an_interrupt_are_found_though_the_copy_has_fixed_spaces() -> None:
    session = read_one(
        read, sample(NAME).replace("  ⎿  ".encode(), "\xa0\xa0⎿ \xa0".encode()), NAME
    )
    assert [event.origin.line for event in of_kind(session, "rejection")] == [18]
    assert [event.origin.line for event in of_kind(session, "interrupt")] == [28]
    assert session.counts.tool_calls == 3


@given(broken_text(NAME))
@examples(60)
def test_a_broken_copy_costs_no_traceback(data: bytes) -> None:
    (session,) = read(io.BytesIO(data), NAME)
    assert session.counts.bad_lines == unreadable(data)
