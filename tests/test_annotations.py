"""Tests of annotations: a runner obeys our workflow commands, and none in other text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.findings import MAX_ANNOTATIONS, render_annotations
from memory_ci.records.report import Finding, Level

TOKEN = "0123456789abcdef"


def make_finding(
    number: int = 1, message: str = "wrong", path: str = "MEMORY.md", level: Level = "error"
) -> Finding:
    return Finding(path, number, "bad-value", message, "Mend it.", level)


def list_commands(text: str) -> list[str]:
    """Return the commands that a runner obeys: lines with `::`, except between a stop and its token."""
    commands: list[str] = []
    stopped = ""
    for line in text.split("\n"):
        if stopped:
            stopped = "" if line == f"::{stopped}::" else stopped
        elif line.startswith("::stop-commands::"):
            stopped = line.removeprefix("::stop-commands::")
        elif line.lstrip().startswith("::"):
            commands.append(line)
    assert not stopped
    return commands


def test_a_finding_is_annotated_at_its_line() -> None:
    (command,) = list_commands(render_annotations([make_finding(7)], TOKEN))
    assert command == "::error file=MEMORY.md,line=7,title=bad-value::wrong. Mend it."


def test_separators_in_a_path_and_a_message_are_escaped() -> None:
    (command,) = list_commands(
        render_annotations([make_finding(message="100%", path="a,b:c/MEMORY.md")], TOKEN)
    )
    assert command == "::error file=a%2Cb%3Ac/MEMORY.md,line=1,title=bad-value::100%25. Mend it."


def test_a_path_in_an_annotation_moves_no_cursor() -> None:
    (command,) = list_commands(render_annotations([make_finding(path="a\x1b[2J\udcff.py")], TOKEN))
    assert command.startswith("::error file=a\\x1b[2J\\udcff.py,line=1")


def test_annotations_of_a_level_are_limited_with_a_line_for_the_others() -> None:
    text = render_annotations(
        [*(make_finding(n) for n in range(13)), make_finding(level="notice")], TOKEN
    )
    commands = list_commands(text)
    assert (
        len([command for command in commands if command.startswith("::error")]) == MAX_ANNOTATIONS
    )
    assert len([command for command in commands if command.startswith("::notice")]) == 1
    assert "3 more errors in the log above" in text
    assert text.count("MEMORY.md:12:") == 1


def test_no_findings_print_nothing() -> None:
    assert render_annotations([], TOKEN) == ""


@given(st.text(), st.text())
def test_no_text_from_outside_becomes_a_command(message: str, path: str) -> None:
    hostile = make_finding(
        message=f"{message}\n::set-output name=x::y\r::{TOKEN[:-1]}::",
        path=f"::error::{path}\n::error::z",
    )
    (command,) = list_commands(render_annotations([hostile], TOKEN))
    assert command.startswith("::error file=")
    assert command.count("::") >= 2
    assert "\r" not in command
