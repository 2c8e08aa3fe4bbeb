"""Tests of command lines of memory-ci 0.2: those that still work, and the errors of the others."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from memory_ci.commands import former
from memory_ci.commands.root import main
from memory_ci.commands.table import COMMANDS, group_commands
from tests.command_line import Run
from tests.make import format_all_keys, make_entry
from tests.project import Project

MAX_COMMANDS = 30
MAX_OPTIONS = 200
IGNORED = [(name, flag) for name, flags in former.IGNORED_OPTIONS.items() for flag in flags]
REMOVED = [(name, flag) for name, flags in former.REMOVED_OPTIONS.items() for flag in flags]
TRANSLATED = [name for name, command in former.COMMANDS.items() if command.words]
REFUSED = [name for name, command in former.COMMANDS.items() if not command.words]


def test_help_lists_at_most_thirty_commands() -> None:
    assert sum(map(len, group_commands().values())) <= MAX_COMMANDS


def list_options(command: click.Command, parent: click.Context | None = None) -> list[str]:
    """Return the options that the help of a command and of its sub-commands lists."""
    ctx = click.Context(command, parent=parent)
    flags = [
        parameter.opts[0]
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
    ]
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            subcommand = command.get_command(ctx, name)
            assert subcommand is not None
            flags += list_options(subcommand, ctx)
    return flags


def test_help_lists_at_most_two_hundred_options() -> None:
    assert len(list_options(main)) <= MAX_OPTIONS


@pytest.mark.parametrize(("name", "flag"), IGNORED)
def test_an_option_that_workflows_may_have_is_ignored_with_a_line(
    run: Run, name: str, flag: str
) -> None:
    ignored = former.IGNORED_OPTIONS[name][flag]
    result = run(*name.split(), flag, *["1"] * ignored.values, "--help")
    line = f"memory-ci {name} {flag} is gone: {ignored.reason}; it is ignored until 0.4\n"
    assert (result.exit_code, result.stderr) == (0, line)


@pytest.mark.parametrize(("name", "flag"), REMOVED)
def test_the_error_of_a_removed_option_explains_what_to_do(run: Run, name: str, flag: str) -> None:
    if flag in former.IGNORED_OPTIONS.get(name, {}):
        return
    result = run(*name.split(), flag, "1")
    assert result.exit_code == 2
    assert f"{flag} was removed: {former.REMOVED_OPTIONS[name][flag]}." in result.stderr


@pytest.mark.in_project
def test_the_title_of_a_learning_may_still_be_an_option(run: Run, project: Project) -> None:
    added = json.loads(run("add", "--title", "Zebra crossing", "--json").stdout)
    assert added["entry"]["title"] == "Zebra crossing"


@pytest.mark.first_run
@pytest.mark.in_project
def test_the_hook_of_an_agent_before_hook_agent_still_serves_memory(
    run: Run, project: Project
) -> None:
    prompt = json.dumps({"session_id": "s1", "prompt": "charge retried", "cwd": str(project.path)})
    result = run("retrieve", "--hook", stdin=prompt)
    assert (result.exit_code, "is now `memory-ci hook agent" in result.stderr) == (0, True)
    assert "recalled-memory" in result.stdout


@pytest.mark.in_project
def test_the_former_hook_serves_nothing_to_a_role(run: Run, project: Project) -> None:
    result = run("retrieve", "--hook", "--role", "reviewer", stdin='{"prompt": "charge retried"}')
    assert (result.exit_code, result.stdout) == (2, "")
    assert "takes no --role" in result.stderr


def test_no_former_command_is_in_the_help(run: Run) -> None:
    assert COMMANDS.keys() & former.COMMANDS.keys() == set()


@pytest.mark.parametrize("name", TRANSLATED)
def test_a_former_command_says_its_new_form_on_stderr(run: Run, name: str) -> None:
    result = run(name, "--help")
    usage = former.COMMANDS[name].usage
    line = f"memory-ci {name} is now `memory-ci {usage}`; the old form goes in 0.4\n"
    assert (result.exit_code, result.stderr) == (0, line)
    assert result.stdout.startswith(f"Usage: memory-ci {former.COMMANDS[name].words[0]} ")


@pytest.mark.parametrize("name", REFUSED)
def test_the_error_of_any_other_former_command_names_the_new_form(run: Run, name: str) -> None:
    result = run(name, "--json")
    assert result.exit_code == 2
    assert f"memory-ci {name} is now `memory-ci {former.COMMANDS[name].usage}`." in result.stderr


@pytest.mark.parametrize("name", former.COMMANDS)
def test_each_new_form_is_one_of_a_command_that_has_its_options(name: str) -> None:
    command_name, *words = former.COMMANDS[name].usage.split()
    command = main.get_command(click.Context(main), command_name)
    assert command is not None
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= flags


@pytest.mark.in_project
def test_extract_and_apply_still_make_and_perform_a_plan(
    run: Run, project: Project, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    assert run("extract", "-o", str(plan)).exit_code == 0
    assert json.loads(run("extract").stdout)["steps"] == json.loads(plan.read_text())["steps"]
    assert "Would commit on main:" in run("apply", "--dry-run", str(plan)).stdout
    assert run("apply", str(plan)).exit_code == 0
    assert len(project.entries()) == 2


@pytest.mark.in_project
def test_fmt_still_names_files_that_are_not_canonical(run: Run, project: Project) -> None:
    text = format_all_keys(make_entry(1)).replace("importance: 0.5", "importance: .5")
    project.write("src/MEMORY.md", text)
    checked = run("fmt", "--check")
    assert (checked.exit_code, checked.stdout) == (1, "would format src/MEMORY.md\n")
    assert run("fmt", "src/MEMORY.md").stdout == "formatted src/MEMORY.md\n"


@pytest.mark.in_project
def test_install_still_sets_up_a_clone(run: Run, project: Project) -> None:
    assert "would be written" in run("install", "--no-hook", "--dry-run").stdout
    arguments = ["install", "--all", "--no-mcp", "--no-ask", "--no-retrieve", "--json"]
    assert json.loads(run(*arguments).stdout)["steps"]
    assert (project.path / ".git/hooks/prepare-commit-msg").exists()


@pytest.mark.in_project
def test_capture_still_takes_the_input_of_an_agents_hook(run: Run, project: Project) -> None:
    result = run("capture", "-", "--hook", "--agent", "gemini", stdin="{}")
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.in_project
@pytest.mark.parametrize("step", ["compact", "promote", "retire"])
def test_a_step_of_upkeep_is_still_a_command(run: Run, project: Project, step: str) -> None:
    assert (
        run(step, "--dry-run", "--json").stdout == run("upkeep", step, "--dry-run", "--json").stdout
    )


@pytest.mark.in_project
def test_policy_still_compares_the_pinned_policy(run: Run, project: Project) -> None:
    result = run("policy", "--check")
    assert (result.exit_code, "[bad-policy-source]" in result.stderr) == (2, True)


@pytest.mark.first_run
@pytest.mark.in_project
def test_upkeep_without_a_step_changes_nothing(run: Run, project: Project) -> None:
    before = project.sha()
    assert json.loads(run("upkeep", "--json").stdout)["applied"] is None
    assert project.sha() == before
