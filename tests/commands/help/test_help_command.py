"""Tests of `memory-ci help`, the overview of commands, and `memory-ci` without arguments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memory_ci.cli.manual import link_to
from memory_ci.commands.help import command as manual
from memory_ci.commands.table import COMMANDS, group_commands
from memory_ci.text import unfenced_lines
from tests.command_line import Run

pytestmark = pytest.mark.in_project

DOCS = Path(__file__).parents[3] / "docs"


def test_every_command_is_in_one_group_of_the_overview(run: Run) -> None:
    grouped = [name for names in group_commands().values() for name in names]
    assert sorted([*grouped, "hook"]) == sorted(COMMANDS)
    overview = run("--help").stdout
    assert all(f"{group}:" in overview for group in group_commands())
    assert not any(line.strip().startswith("hook ") for line in overview.splitlines())


def test_without_arguments_the_everyday_commands_are_shown(run: Run) -> None:
    result = run()
    assert result.exit_code == 0
    assert [line.split()[1] for line in result.stdout.splitlines()[:5]] == group_commands()[
        "Everyday"
    ]


def test_pages_travel_and_are_listed_by_name(run: Run) -> None:
    listed = [line.split()[0] for line in run("help").stdout.splitlines() if line]
    assert listed == sorted(page.stem for page in DOCS.rglob("*.md"))
    assert run("help", "platform").stdout.startswith("# ")


def test_the_word_of_an_error_is_explained(run: Run) -> None:
    output = run("help", "[push-refused]").stdout
    assert output.startswith("push-refused\n\n")
    assert "###" not in output


def test_a_command_shows_its_options(run: Run) -> None:
    assert "Usage: memory-ci record" in run("help", "record").stdout


@pytest.mark.parametrize("topic", ["platfor", "../README", "zzz"])
def test_an_unknown_topic_is_refused_with_similar_ones(run: Run, topic: str) -> None:
    result = run("help", topic)
    assert result.exit_code == 2
    assert "[unknown-topic]" in result.stderr
    assert ("platform" in result.stderr) == (topic == "platfor")


@pytest.mark.parametrize("name", sorted({page.stem for page in DOCS.rglob("*.md")} & set(COMMANDS)))
def test_a_page_that_has_the_name_of_a_command_is_shown_below_its_usage(
    run: Run, name: str
) -> None:
    usage, shown = run("help", name).stdout.split("\n\n", 1)
    assert usage.startswith(f"Usage: memory-ci {name} ")
    assert f"Options: `memory-ci {name} --help`.\n\n# " in shown
    assert next(DOCS.rglob(f"{name}.md")).read_text() in shown


@pytest.mark.parametrize(
    "link", ["platform#who-commits", "platform.md#who-commits", "../platform.md#who-commits"]
)
def test_a_section_is_shown_as_links_write_it(run: Run, link: str) -> None:
    output = run("help", link).stdout
    assert output.startswith("### Who commits\n\nCommits are by ")
    assert output in (DOCS / "platform.md").read_text()


def test_a_section_includes_subsections_and_an_error_may_have_a_link(run: Run) -> None:
    assert "### memory-ci record\n" in run("help", "commands#everyday").stdout
    assert run("help", "errors.md#push-refused").stdout == run("help", "push-refused").stdout
    assert "platform#who-commits" in run("help", "platform#who-commit").stderr


def test_a_key_is_explained(run: Run) -> None:
    output = run("help", "publish.mode").stdout
    assert output.startswith("publish.mode\n\nHow `record` publishes its commits")
    assert output.endswith("Default: `none`. Value: one of api, auto, none, pr, push.\n")
    assert "publish.mode" in run("help", "publish.mod").stderr


def test_words_are_searched_for_and_each_section_can_be_read(run: Run) -> None:
    lines = run("help", "protected", "branch").stdout.splitlines()
    assert 1 < len(lines) <= 8
    for line in lines:
        command, title = line.split("  ", 1)
        output = run(*command.split()[1:]).stdout
        assert title.strip() in output
        assert {"protected", "branch"} <= {
            word.strip("`.,;:()*") for word in output.lower().replace("es ", " ").split()
        }
    assert run("help", "fork").stdout.startswith(
        "memory-ci help errors#fork-memory "
    )  # A heading goes before a text.


def test_a_page_is_folded_at_a_terminal_and_as_it_is_elsewhere(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("help", "platform").stdout == (DOCS / "platform.md").read_text()
    monkeypatch.setattr(manual, "terminal_width", lambda stream, environ: 80)
    output = run("help", "platform").stdout
    assert max(map(len, unfenced_lines(output.splitlines()))) <= 80
    assert (
        "    pip install 'memory-ci[report]'\n    memory-ci report --output memory.html"
        in run("help", "report").stdout
    )
    fences = re.findall(r"(?ms)^```.*?^```", (DOCS / "platform.md").read_text())
    assert max(len(line) for fence in fences for line in fence.splitlines()) > 80
    assert all(fence in output for fence in fences)
    assert (
        "\n- `push`: one push; a refusal is [push-refused](errors.md#push-refused) |\n  contents: write\n"
        in output
    )


def test_the_error_for_a_misspelt_command_names_similar_ones(run: Run) -> None:
    result = run("recrod")
    assert result.exit_code == 2
    assert "No such command 'recrod'. Did you mean record?" in result.stderr
    assert "Did you mean" not in run("zzzz").stderr


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (("list", "--color", "never"), "memory-ci --color never list"),
        (("org", "sync", "--color=always"), "memory-ci --color always org sync"),
    ],
)
def test_the_error_for_color_after_a_command_shows_its_position(
    run: Run, said: tuple[str, ...], meant: str
) -> None:
    result = run(*said)
    assert (result.exit_code, f"It goes before the command: `{meant}`." in result.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("urls", "link"),
    [
        ((), "memory-ci help bad-value"),
        (("Documentation, https://docs.example/",), "https://docs.example/errors.html#bad-value"),
    ],
)
def test_an_error_leads_to_its_explanation_on_the_site_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, urls: tuple[str, ...], link: str
) -> None:
    monkeypatch.setattr("memory_ci.cli.manual.list_urls", lambda: urls)
    assert link_to("bad-value") == link
