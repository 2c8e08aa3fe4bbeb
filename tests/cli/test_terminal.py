"""Tests of the output of commands at a terminal of 80 columns and without a terminal."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import click
import pytest

from memory_ci.cli import manual
from memory_ci.cli.plain import choose_color, is_colored_for, shorten_path, terminal_width
from memory_ci.commands.root import main
from memory_ci.commands.table import group_commands
from memory_ci.store.edits import format_entry
from memory_ci.text import shorten
from tests.command_line import Run
from tests.make import make_entry, make_id
from tests.project import Project

pytestmark = pytest.mark.in_project

LONG = "Retry a POST only with an idempotency key, for the gateway charges twice without one and nobody sees it"


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


def at_terminal(project: Project, *argv: str, typed: str = "", **environ: str) -> str:
    """Run a command as a process at a terminal of 80 columns with typed input, and return its output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {
        key: value for key, value in os.environ.items() if key not in ("CI", "NO_COLOR", "COLUMNS")
    }
    command = [sys.executable, "-m", "memory_ci", *argv]
    with subprocess.Popen(
        command,
        cwd=project.path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**env, "TERM": "xterm", **environ},
    ):
        os.close(theirs)
        os.write(ours, typed.encode())
        output = b""
        while chunk := _read(ours):
            output += chunk
    os.close(ours)
    return output.decode().replace("\r\n", "\n")


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 1 << 16)
    except OSError:  # the other side is closed
        return b""


@pytest.fixture
def zoo(project: Project) -> Project:
    project.commit("Zoo", {"MEMORY.md": format_entry(make_entry(1, title=LONG, body=LONG))})
    return project


def test_lines_are_folded_and_coloured_at_a_terminal_and_nowhere_else(
    zoo: Project, run: Run
) -> None:
    output = at_terminal(zoo, "list", NO_COLOR="1")
    assert "\x1b" not in output
    assert max(map(len, output.splitlines())) <= 80
    assert "\x1b[33m00000001\x1b[0m" in at_terminal(zoo, "--color", "always", "list", NO_COLOR="1")
    piped = run("list").stdout
    assert LONG in piped
    assert "\x1b" not in piped


def test_a_finding_is_shown_with_its_line_at_a_terminal_and_in_one_line_elsewhere(
    zoo: Project, run: Run
) -> None:
    text = (zoo.path / "MEMORY.md").read_text()
    zoo.write("MEMORY.md", text.replace("last_reinforced:", "status: novel\nlast_reinforced:"))
    for printed in (
        at_terminal(zoo, "--color", "never", "check"),
        at_terminal(zoo, "check", "MEMORY.md", NO_COLOR="1"),
    ):
        assert "bad-value status: 'novel'" in printed
        assert " | status: novel\n" in printed
        assert f"{' ' * len('status: ')}^^^^^\n" in printed
    (line, *_) = run("check").stdout.splitlines()
    assert line.endswith("[bad-value]")


def test_an_error_names_the_problem_the_place_the_remedy_and_the_documentation(
    run: Run, project: Project
) -> None:
    project.write(".memory-ci.yaml", "# mine\nretrieve:\n  max_chars: many\n")
    error_lines = run("list").stderr.splitlines()
    assert error_lines[0].startswith(
        "Error: .memory-ci.yaml:3: retrieve.max_chars must be a whole number"
    )
    assert error_lines[1:5] == [
        " --> .memory-ci.yaml:3:3",
        "  |",
        "3 |   max_chars: many",
        "  |   ^^^^^^^^^",
    ]
    assert error_lines[5].startswith("Hint: ")
    assert error_lines[6].startswith("More: ")
    assert "bad-config" in error_lines[6]


def test_an_error_links_to_the_site_in_the_package_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = ("Repository, https://x.example", "Documentation, https://d.example/")
    monkeypatch.setattr(manual, "list_urls", lambda: named)
    assert manual.link_to("bad-config") == "https://d.example/errors.html#bad-config"
    monkeypatch.setattr(manual, "list_urls", lambda: ())
    assert manual.link_to("bad-config") == "memory-ci help bad-config"


@pytest.mark.parametrize(
    ("environ", "at_a_terminal", "piped"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"CI": "true"}, False, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_colour_can_be_forced(environ: dict[str, str], at_a_terminal: bool, piped: bool) -> None:
    assert is_colored_for(Screen(), environ) is at_a_terminal
    assert is_colored_for(StringIO(), environ) is piped


def test_piped_output_is_not_folded_whatever_columns_is_set() -> None:
    assert terminal_width(StringIO(), {"COLUMNS": "60"}) == 0
    assert terminal_width(Screen(), {"COLUMNS": "60"}) == 60
    assert terminal_width(Screen(), {}) == 80


def test_the_option_overrides_the_environment() -> None:
    environ = {"NO_COLOR": "1"}
    choose_color("always", environ)
    assert environ == {"FORCE_COLOR": "1"}
    choose_color("never", environ)
    assert environ == {"NO_COLOR": "1"}


def test_lists_are_tables_json_csv_or_ids(zoo: Project, run: Run) -> None:
    (row,) = json.loads(run("list", "--format", "json").stdout)
    assert (row["id"], row["title"], row["path"], row["served"]) == (
        make_id(1),
        LONG,
        "MEMORY.md",
        0,
    )
    assert json.loads(run("list", "--json").stdout) == [row]
    (csv_row,) = csv.DictReader(StringIO(run("list", "--format", "csv").stdout))
    assert csv_row["title"] == LONG
    assert run("list", "--format", "ids").stdout == f"{make_id(1)}\n"


ID_WORDS = {"ID", "N|ID", "ID|WORDS|PERSON"}


def test_every_id_is_completed_with_its_title(zoo: Project) -> None:
    params = [
        (context, param)
        for context in list_contexts()
        for param in context.command.params
        if {param.metavar, *getattr(param, "opts", ())} & ID_WORDS or param.name == "entry_id"
    ]
    assert len(params) >= 4
    for context, param in params:
        (item,) = param.shell_complete(context, "0000")
        assert item.value == make_id(1)[:8], context.info_name
        assert item.help == shorten(LONG, 60)
        assert param.shell_complete(context, "ffff") == []


def list_contexts(of: click.Context | None = None) -> Iterator[click.Context]:
    """Yield the context of every command and sub-command."""
    of = of or click.Context(main, info_name="memory-ci")
    yield of
    if isinstance(of.command, click.Group):
        for name in (*of.command.list_commands(of), *(["hook"] if of.parent is None else [])):
            command = of.command.get_command(of, name)
            assert command is not None
            yield from list_contexts(click.Context(command, info_name=name, parent=of))


def test_every_command_has_an_example_and_each_line_of_its_help_fits() -> None:
    for context in list_contexts():
        if "hook" in context.command_path:
            continue
        text = context.get_help()
        assert "Example" in text, context.command_path
        assert max(map(len, text.splitlines())) <= 80, context.command_path


@pytest.mark.parametrize("argv", [["health"], ["review"]])
def test_long_work_shows_progress_only_at_a_terminal(
    zoo: Project, run: Run, argv: list[str]
) -> None:
    output = at_terminal(zoo, *argv)
    assert re.match(r"\x1b\[K\w[\w ]+…\r(?:\x1b\[K[^\r\n]+\r)*\x1b\[K", output), output
    assert "\x1b" not in run(*argv).output


def test_no_question_of_init_is_broken_within_a_word(project: Project) -> None:
    project.git("remote", "add", "origin", "https://github.com/acme/shop.git")
    output = at_terminal(project, "init", typed="\n\nn\n", NO_COLOR="1")
    assert "Set up GitHub Actions to record merged work? [Y/n]" in output
    assert re.search(r"repository\? OWNER/REPO@v[\d.]+ \(empty: leave\nthem out", output), output


GOLDEN = Path(__file__).parent.parent / "golden" / "terminal.txt"


def test_output_at_a_terminal_of_80_columns(zoo: Project, request: pytest.FixtureRequest) -> None:
    output = ""
    for argv in (["list"], ["show", "--why", "0000"], ["show", "ffff"], ["check"]):
        if argv == ["check"]:
            text = (zoo.path / "MEMORY.md").read_text()
            zoo.write(
                "MEMORY.md", text.replace("last_reinforced:", "status: novel\nlast_reinforced:")
            )
        output += f"$ memory-ci {' '.join(argv)}\n{at_terminal(zoo, *argv, NO_COLOR='1')}\n"
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(output, encoding="utf-8")
    assert output == GOLDEN.read_text(encoding="utf-8")


def test_a_bar_is_ascii_if_the_stream_has_no_unicode(zoo: Project) -> None:
    output = at_terminal(zoo, "show", "--why", "0000", NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert re.search(r"(?m)^  importance     #+-+ 0\.\d+$", output), output


def test_an_entry_is_formatted_at_a_terminal_and_printed_as_in_its_file_elsewhere(
    zoo: Project, run: Run
) -> None:
    assert at_terminal(zoo, "show", "0000", NO_COLOR="1").startswith("Retry a POST only with")
    piped = run("show", "0000")
    assert piped.stdout.startswith("---\nid: ")
    assert piped.stderr.startswith("MEMORY.md:1 ")


def test_help_is_in_colour_at_a_terminal_and_nowhere_else(project: Project, run: Run) -> None:
    output = at_terminal(project, "--help")
    assert "\x1b[1;32mEveryday:\x1b[0m\n  \x1b[1;36mrecord\x1b[0m " in output
    assert "\x1b[2m$ memory-ci record\x1b[0m\n" in output
    assert "\x1b[1;36m--since\x1b[0m REV|AGE" in at_terminal(project, "record", "--help")
    assert "\x1b" not in at_terminal(project, "--help", NO_COLOR="1")
    assert "\x1b" not in run("--help").stdout


def test_each_everyday_command_has_an_example_in_the_overview(run: Run) -> None:
    overview = run("--help").stdout
    for name in group_commands()["Everyday"]:
        assert re.search(rf"(?m)^  {name} .*\n +\$ memory-ci {name}\b", overview), name


def test_an_error_of_the_command_line_is_folded_between_words(project: Project) -> None:
    output = at_terminal(project, "report", NO_COLOR="1")
    assert "print the values with\n--json.\n" in output


def test_a_task_without_results_prints_a_message_only_at_a_terminal(zoo: Project, run: Run) -> None:
    assert "Memory holds nothing on this" in at_terminal(zoo, "retrieve", "quantum", NO_COLOR="1")
    assert run("retrieve", "quantum").output == ""


def test_an_empty_list_says_how_to_fill_it(zoo: Project, run: Run) -> None:
    zoo.commit("Forget", {"MEMORY.md": "# Memory\n"})
    listed = run("list")
    assert (listed.stdout, listed.stderr[:15]) == ("", "No entries yet:")
    assert run("list", "--format", "ids").stdout == ""


def test_a_path_is_not_shortened_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert shorten_path("/srv/memory/index.db", None) == "/srv/memory/index.db"
