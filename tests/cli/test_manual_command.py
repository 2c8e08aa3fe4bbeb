"""memory-ci help, the overview of commands, and memory-ci alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.cli.main import COMMANDS, GROUPS
from tests.cli.conftest import Run

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_every_command_stands_in_one_group_of_the_overview(run: Run) -> None:
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert sorted([*grouped, "hook"]) == sorted(COMMANDS)
    overview = run("--help").stdout
    assert all(f"{group}:" in overview for group in GROUPS)
    assert not any(line.strip().startswith("hook ") for line in overview.splitlines())


def test_alone_it_says_what_is_done_every_day(run: Run) -> None:
    result = run()
    assert result.exit_code == 0
    assert [line.split()[1] for line in result.stdout.splitlines()[:5]] == GROUPS["Everyday"].split()


def test_pages_travel_and_are_listed_by_name(run: Run) -> None:
    listed = [line.split()[0] for line in run("help").stdout.splitlines() if line]
    assert listed == sorted(page.stem for page in DOCS.rglob("*.md"))
    assert run("help", "publishing").stdout.startswith("# ")


def test_the_word_of_an_error_is_explained(run: Run) -> None:
    shown = run("help", "[push-refused]").stdout
    assert shown.startswith("push-refused\n\n")
    assert "###" not in shown


def test_a_command_shows_its_options(run: Run) -> None:
    assert "Usage: memory-ci record" in run("help", "record").stdout


@pytest.mark.parametrize("topic", ["publishin", "../README", "zzz"])
def test_what_is_no_topic_is_refused_with_the_nearest(run: Run, topic: str) -> None:
    result = run("help", topic)
    assert result.exit_code == 2
    assert "[unknown-topic]" in result.stderr
    assert ("publishing" in result.stderr) == (topic == "publishin")
