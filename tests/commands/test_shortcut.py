"""Tests of commands that run without click: the same answers as with it, and their counted cost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.cli.plain import Option
from memory_ci.commands.add import shortcut as add
from memory_ci.commands.add.command import add_command
from memory_ci.commands.agents import git_hooks
from memory_ci.commands.check import shortcut as check
from memory_ci.commands.check.command import check_command
from memory_ci.commands.retrieve import shortcut as retrieve
from memory_ci.commands.retrieve.command import retrieve_command
from memory_ci.commands.retrieve.shortcut import OPTIONS
from memory_ci.commands.retrieve.text import USAGE_REQUEST
from memory_ci.commands.shortcut import is_plain, parse_plain, run_shortcut
from memory_ci.commands.show import shortcut as show
from memory_ci.commands.show.command import list_command
from memory_ci.store.edits import format_entry
from tests.command_line import Run
from tests.make import make_entry
from tests.project import Project

pytestmark = pytest.mark.in_project

UUID = re.compile(r"\b[\da-f]{8}(?:(?:-[\da-f]{4}){3}-[\da-f]{12})?\b")
WORD = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
ADD_FLAGS = [option.flag for option in add.OPTIONS]
FLAGS = [flag for option in OPTIONS for flag in (option.flag, option.negation) if flag]
CHOICES = sorted({choice for option in OPTIONS for choice in option.choices})
ODD = [
    "",
    "-",
    "--",
    "-5",
    "--help",
    "--limit=3",
    "--lim",
    "5",
    "007",
    "1_000",
    "\u0665",
    "9" * 12,
]

ON_THE_PATH = set(
    """memory_ci memory_ci.__main__ memory_ci.api memory_ci.errors memory_ci.config memory_ci.digests
    memory_ci.files memory_ci.text memory_ci.regex
    memory_ci.cli memory_ci.cli.plain memory_ci.commands.retrieve.shortcut memory_ci.commands.shortcut
    memory_ci.memory memory_ci.memory.index memory_ci.commands.retrieve
    memory_ci.memory.past_tasks memory_ci.commands.retrieve.similar
    memory_ci.commands.retrieve.options memory_ci.commands.retrieve.ranking memory_ci.commands.retrieve.retrieve
    memory_ci.commands.retrieve.norms memory_ci.commands.retrieve.view
    memory_ci.commands.retrieve.similar memory_ci.memory.workspace
    memory_ci.gitrepo memory_ci.gitrepo.blobs memory_ci.gitrepo.objects memory_ci.gitrepo.process memory_ci.gitrepo.repo
    memory_ci.search memory_ci.search.builder memory_ci.search.database memory_ci.search.embedders
    memory_ci.search.rows memory_ci.search.search
    memory_ci.lifecycle memory_ci.lifecycle.prominence
    memory_ci.records memory_ci.records.anchor memory_ci.records.check memory_ci.records.config
    memory_ci.records.entry memory_ci.records.names
    memory_ci.records.report memory_ci.records.retrieval
    memory_ci.commands memory_ci.commands.retrieve.text memory_ci.disarm memory_ci.findings
    memory_ci.search.query memory_ci.search.rank memory_ci.search.similar_tasks
    memory_ci.search.strength
    memory_ci.store memory_ci.store.layout""".split()
)
"""Our modules that a retrieval may load when nothing changed; each more costs time at every prompt."""

HEAVY = {
    "click",
    "yaml",
    "git",
    "urllib3",
    "numpy",
    "anthropic",
    "argparse",
    "tempfile",
    "random",
    "http",
    "asyncio",
}


@pytest.fixture
def zoo(project: Project) -> Project:
    """Return a project with one entry."""
    project.commit(
        "Zoo", {"MEMORY.md": format_entry(make_entry(1, title="Zebra crossing", body="Wait."))}
    )
    return project


# -- one definition of what is legal


@given(
    st.lists(st.sampled_from([*FLAGS, *CHOICES, *ODD, "a task"]) | st.text(max_size=5), max_size=6)
)
def test_command_lines_read_without_click_mean_the_same_with_click(argv: list[str]) -> None:
    values = parse_plain(argv, retrieve)
    if values is not None:
        assert retrieve_command.make_context("retrieve", list(argv)).params == values


@given(
    st.lists(
        st.sampled_from(["--staged", "--fix", "--json", *ADD_FLAGS, *CHOICES, *ODD])
        | st.text(WORD, max_size=5)
    ),
    st.sampled_from(["add", "check"]),
)
def test_command_lines_of_other_commands_mean_the_same_with_click(
    argv: list[str], name: str
) -> None:
    module, command = {"add": (add, add_command), "check": (check, check_command)}[name]
    values = parse_plain(argv, module)
    if values is not None:
        params = command.make_context(name, list(argv)).params
        assert {key: params.pop(key) for key in values} == values
        assert not any(params.values()), "what has no option here is not given"


@pytest.mark.parametrize("argv", [[], ["a", "b"], ["a", "--title", "b"], ["--body", "b"]])
def test_an_entry_whose_title_is_not_plain_is_left_to_click(argv: list[str]) -> None:
    assert parse_plain(argv, add) is None


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.flag)
def test_every_option_of_the_table_can_be_read_without_click(option: Option) -> None:
    value = [] if option.kind is bool else [option.choices[0] if option.choices else "7"]
    argv = ["zebra", option.flag, *value]
    assert (
        parse_plain(argv, retrieve) == retrieve_command.make_context("retrieve", list(argv)).params
    )


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["-h"],
        ["zebra", "--limit=3"],
        ["zebra", "--lim", "3"],
        ["zebra", "--limit"],
        ["zebra", "--limit", "-3"],
        ["zebra", "--limit", "1_000"],
        ["zebra", "--path", "--ids"],
        ["--", "--ids"],
        ["-"],
    ],
)
def test_other_command_lines_are_left_to_click(argv: list[str]) -> None:
    assert parse_plain(argv, retrieve) is None
    assert not run_shortcut(["retrieve", *argv], {})


@pytest.mark.parametrize(
    "environ",
    [{"_MEMORY_CI_COMPLETE": "bash_source"}, {"SOURCE_DATE_EPOCH": "99999999999999999"}],
    ids=["tab", "epoch"],
)
def test_an_environment_that_changes_the_meaning_is_left_to_click(environ: dict[str, str]) -> None:
    assert not is_plain(environ)
    assert not run_shortcut(["retrieve", "zebra"], environ)


def test_colour_is_read_without_click(
    zoo: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "")
    assert run_shortcut(["--color", "never", "retrieve", "zebra", "--explain"], {})
    assert "\x1b" not in capsys.readouterr().out
    assert run_shortcut(["--color", "always", "retrieve", "zebra", "--explain"], {})
    assert "\x1b[33m00000001\x1b[0m" in capsys.readouterr().out
    assert not run_shortcut(["--color", "sometimes", "retrieve", "zebra"], {})


def test_other_commands_are_left_to_click() -> None:
    assert not run_shortcut(["index", "--key"], {})
    assert not run_shortcut(["health"], {})
    assert not run_shortcut([], {})


@pytest.mark.parametrize("words", [[], ["agent"], ["sync"], ["merge", "a"], ["commit-msg"]])
def test_other_hooks_are_left_to_click(words: list[str]) -> None:
    assert parse_plain(words, git_hooks) is None


@pytest.mark.parametrize(
    "words",
    [
        ["prepare-commit-msg", "m"],
        ["prepare-commit-msg", "m", "merge"],
        ["commit-msg", "m"],
        ["pre-commit"],
        ["pre-push", "origin", "address"],
    ],
    ids=" ".join,
)
def test_hooks_of_git_are_read_without_click(words: list[str]) -> None:
    name, *arguments = words
    assert parse_plain(words, git_hooks) == {"name": name, "arguments": arguments}


@given(st.lists(st.sampled_from(["--type", "corrective", "--at", "HEAD", "--format", "csv", *ODD])))
def test_command_lines_of_list_mean_the_same_with_click(argv: list[str]) -> None:
    values = parse_plain(argv, show)
    if values is not None:
        assert list_command.make_context("list", list(argv)).params == values


# -- the same bytes


@pytest.mark.parametrize(
    "argv",
    [
        ["zebra"],
        ["zebra", "crossing", "--json"],
        ["zebra", "--ids", "--limit", "0"],
        ["zebra", "--format", "hook", "--max-chars", "500"],
        ["zebra", "--explain"],
        ["quantum", "--all"],
        ["zebra", "--at", "no-such-revision"],
        ["zebra", "--at", "HEAD", "--base", "HEAD"],
    ],
    ids=" ".join,
)
def test_answers_and_errors_equal_those_with_click(
    run: Run, zoo: Project, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    expected = run("retrieve", *argv)
    capsys.readouterr()
    code = shortcut(argv)
    out, err = capsys.readouterr()
    assert (code, out, err) == (expected.exit_code, expected.stdout, expected.stderr)


@pytest.mark.parametrize(
    "argv",
    [
        ["check"],
        ["check", "--staged"],
        ["check", "MEMORY.md"],
        ["check", "no-such-file"],
        ["list"],
        ["list", "--type", "procedural"],
        ["list", "--json"],
        ["list", "--at", "no-such-revision"],
        ["add", "Zebra crossing", "--body", "Stop.", "--type", "corrective", "--dry-run"],
        ["add", "Zebra", "--scope", "team:", "--dry-run"],
        ["add", "Zebra", "--scope", "nowhere"],
        ["add", "Zebra", "--cite", "no-such-file"],
    ],
    ids=" ".join,
)
def test_other_commands_print_the_same_with_click(
    run: Run, zoo: Project, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    entry_text = format_entry(make_entry(1, title="Zebra crossing", body="Wait."))
    zoo.commit("Broken", {"MEMORY.md": f"{entry_text}---\nid: 7\n---\n"})
    expected = run(*argv)
    capsys.readouterr()
    code = shortcut(argv[1:], argv[0])
    out, err = capsys.readouterr()
    assert (code, UUID.sub("", out), err) == (
        expected.exit_code,
        UUID.sub("", expected.stdout),
        expected.stderr,
    )


def shortcut(argv: Sequence[str], command: str = "retrieve") -> int:
    """Return the exit status of a command line that the shortcut must run."""
    try:
        assert run_shortcut([command, *argv], {})
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def call(
    project: Project, *argv: str, stdin: bytes = b"", **environ: str
) -> subprocess.CompletedProcess[bytes]:
    """Run memory-ci as a process in the project."""
    command = [sys.executable, "-m", "memory_ci", *argv]
    return subprocess.run(
        command,
        cwd=project.path,
        input=stdin,
        env={**os.environ, **environ},
        capture_output=True,
        check=False,
        timeout=300,
    )


def test_a_whole_process_answers_from_arguments_input_and_hook(run: Run, zoo: Project) -> None:
    text = run("retrieve", "zebra").stdout.encode()
    given_to_hook = json.dumps({"prompt": "zebra", "hook_event_name": "UserPromptSubmit"}).encode()
    assert call(zoo, "retrieve", "zebra").stdout == text
    assert call(zoo, "retrieve", stdin=b"zebra").stdout == text
    hook = json.loads(call(zoo, "hook", "agent", "--no-ask", stdin=given_to_hook).stdout)
    assert (
        hook["hookSpecificOutput"]["additionalContext"].removesuffix(USAGE_REQUEST).encode() == text
    )
    assert call(zoo, "retrieve", "zebra", "--limit=1").stdout == text


def test_a_stream_of_another_encoding_is_written_as_click_writes_it(run: Run, zoo: Project) -> None:
    zoo.commit("Accent", {"MEMORY.md": format_entry(make_entry(1, title="Caf\u00e9 zebra"))})
    text = run("retrieve", "zebra").stdout.encode()
    assert "Caf\u00e9".encode() in text
    assert call(zoo, "retrieve", "zebra", PYTHONIOENCODING="ascii").stdout == text


@pytest.mark.parametrize("words", [["retrieve", "zebra"], ["--version"]])
def test_a_reader_that_goes_away_ends_it_quietly(zoo: Project, words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "memory_ci", *words]
    done = subprocess.run(
        command, cwd=zoo.path, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=300
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


# -- what it costs, in counts


def test_an_unchanged_retrieval_loads_only_needed_modules(zoo: Project) -> None:
    call(zoo, "retrieve", "zebra")
    program = (
        "import sys, memory_ci.__main__; from memory_ci.commands.shortcut import run_shortcut;"
        "run_shortcut(['retrieve', 'zebra', '--ids'], {}); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=zoo.path, capture_output=True, check=True, timeout=300
    )
    loaded = set(done.stdout.decode().split())
    assert {name for name in loaded if name.startswith("memory_ci")} <= ON_THE_PATH
    assert not loaded & {*HEAVY, "hashlib"}, "OpenSSL takes as long as all of our own modules"


def test_a_retrieval_of_names_that_were_judged_before_loads_nothing_that_compares_code(
    project: Project,
) -> None:
    entry = make_entry(1, title="Zebra crossing", body="Never nest `retry_twice` in it.")
    project.commit("Zoo", {"MEMORY.md": format_entry(entry)})
    call(project, "retrieve", "zebra")
    loaded = list_loaded(project, ["retrieve", "zebra"])
    assert "memory_ci.memory.dead_names" in loaded
    assert [name for name in loaded if name.startswith("memory_ci.anchors")] == []
    assert "memory_ci.gitrepo.history" not in loaded


PATHS: list[tuple[list[str], int]] = [
    (["check"], 46),
    (["check", "--staged"], 46),
    (["add", "Hear the zebra", "--dry-run"], 48),
    (["list"], 56),
    (["hook", "prepare-commit-msg", "message"], 37),
    (["hook", "commit-msg", "message"], 55),
    (["hook", "pre-commit"], 49),
    (["hook", "pre-push"], 57),
]
"""Command lines, and how many of our modules each may load; each more costs time at every call."""


@pytest.mark.parametrize(("argv", "most"), PATHS, ids=[" ".join(argv) for argv, _ in PATHS])
def test_a_commit_and_a_note_wait_for_few_modules(zoo: Project, argv: list[str], most: int) -> None:
    zoo.write("message", "Zebra\n")
    list_loaded(zoo, argv)
    loaded = list_loaded(zoo, argv)
    ours = [name for name in loaded if name.startswith("memory_ci")]
    assert len(ours) <= most, ours
    assert {"sqlite3", "fractions", *HEAVY}.isdisjoint(loaded)


@pytest.mark.parametrize(
    "argv",
    [
        ["retrieve", "zebra"],
        ["check"],
        ["add", "Hear the zebra", "--dry-run"],
        ["hook", "pre-push"],
    ],
    ids=" ".join,
)
def test_what_runs_often_has_few_named_tuples_that_compile_their_annotations(
    zoo: Project, argv: list[str]
) -> None:
    zoo.write("message", "Zebra\n")
    print_at_exit(zoo, argv, COMPILED)  # which writes the index
    compiled = print_at_exit(zoo, argv, COMPILED)
    assert len(compiled) <= MOST_COMPILED, compiled


def list_loaded(project: Project, argv: list[str], stdin: bytes = b"") -> list[str]:
    """Return the modules that a command line without click has loaded at its end."""
    return print_at_exit(project, argv, "sys.modules", stdin)


COMPILED = (
    "(cls.__name__ for cls in tuple.__subclasses__()"
    " if cls.__module__.startswith('memory_ci') and 'ForwardRef' in str(cls.__annotations__))"
)
"""The named tuples of ours whose annotations are strings. Each takes 0.3 ms, a frozen Struct 0.05."""

MOST_COMPILED = 3


def print_at_exit(
    project: Project, argv: list[str], expression: str, stdin: bytes = b""
) -> list[str]:
    """Return the words of an iterable that a command line without click has at its end."""
    program = (
        "import atexit, os, sys; os._exit = sys.exit\n"
        f"atexit.register(lambda: print('\\n', *{expression}))\n"
        f"sys.argv[1:] = {argv}\n"
        "from memory_ci.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project.path,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=300,
    )
    return done.stdout.decode().splitlines()[-1].split()


def test_the_version_is_printed_before_anything_is_loaded(zoo: Project, run: Run) -> None:
    loaded = list_loaded(zoo, ["--version"])
    assert {name for name in loaded if name.startswith("memory_ci")} == {
        "memory_ci",
        "memory_ci.__main__",
    }
    assert "typing" not in loaded
    assert call(zoo, "--version").stdout.decode() == run("--version").output


EVENTS: list[tuple[dict[str, object], int]] = [
    ({"hook_event_name": "PreToolUse", "tool_name": "Read"}, 18),
    ({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}, 18),
    ({"hook_event_name": "Stop"}, 45),
    ({"hook_event_name": "UserPromptSubmit", "prompt": "Go on"}, 87),
    ({"hook_event_name": "SessionStart", "source": "startup"}, 92),
]
"""Events of an agent, and our modules that each may load at most."""


@pytest.mark.parametrize(
    ("event", "most"), EVENTS, ids=[str(event["hook_event_name"]) for event, _ in EVENTS]
)
def test_an_event_of_an_agent_loads_few_modules(
    zoo: Project, event: dict[str, object], most: int
) -> None:
    data = json.dumps({"session_id": "zebra", **event}).encode()
    list_loaded(zoo, ["hook", "agent"], data)  # which writes the index
    loaded = list_loaded(zoo, ["hook", "agent"], data)
    ours = [name for name in loaded if name.startswith("memory_ci")]
    assert len(ours) <= most, ours
    assert {"click", "yaml", "git", "urllib3", "email", "logging", "csv"}.isdisjoint(loaded)


@pytest.mark.parametrize("event", [event for event, _ in EVENTS[:3]])
def test_an_event_without_an_answer_compiles_few_annotations(
    zoo: Project, event: dict[str, object]
) -> None:
    data = json.dumps({"session_id": "zebra", **event}).encode()
    compiled = print_at_exit(zoo, ["hook", "agent"], COMPILED, data)
    assert len(compiled) <= MOST_COMPILED, compiled


def test_an_unchanged_retrieval_asks_git_three_times(zoo: Project, tmp_path: Path) -> None:
    call(zoo, "retrieve", "zebra")
    trace = tmp_path / "trace"
    call(zoo, "retrieve", "zebra", GIT_TRACE=str(trace))
    started = [
        line.partition("built-in: git ")[2].split()[0]
        for line in trace.read_text().splitlines()
        if "built-in" in line
    ]
    assert sorted(started) == ["for-each-ref", "ls-files", "rev-parse"]


def test_an_unchanged_retrieval_writes_nothing(zoo: Project) -> None:
    call(zoo, "retrieve", "zebra")
    memory_directory = zoo.path / ".git/memory-ci"
    before = {path.name: path.stat().st_mtime_ns for path in memory_directory.iterdir()}
    call(zoo, "retrieve", "crossing")
    assert {path.name: path.stat().st_mtime_ns for path in memory_directory.iterdir()} == before
