"""Tests of hook managers: which are recognised, and which of our lines are missing."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from memory_ci.commands.setup.hooks import (
    HOOKS,
    LEFTHOOK_FILES,
    WITH_ARGUMENT,
    Manager,
    find_manager,
    hook_line,
)


def lefthook(root: Path, text: str) -> str:
    """Return the lines to add to lefthook's settings."""
    (root / "lefthook.yml").write_text(text)
    manager = find_manager(root, HOOKS)
    assert manager is not None
    return manager.additions.get("lefthook.yml", "")


def test_without_settings_of_a_tool_hooks_are_ours(tmp_path: Path) -> None:
    (tmp_path / ".husky").touch()  # no directory
    assert find_manager(tmp_path, HOOKS) is None


READERS: dict[str, Callable[[str], Any]] = {
    "yml": yaml.safe_load,
    "yaml": yaml.safe_load,
    "toml": tomllib.loads,
    "json": json.loads,
}


@pytest.mark.parametrize("name", LEFTHOOK_FILES)
def test_suggested_lines_have_the_notation_of_the_file_and_are_recognised(
    tmp_path: Path, name: str
) -> None:
    settings = tmp_path / name
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("")
    manager = find_manager(tmp_path, HOOKS)
    assert manager is not None
    (text,) = manager.additions.values()
    hook_settings = READERS[settings.suffix[1:]](text)
    assert hook_settings["post-merge"]["commands"]["memory-ci"]["run"] == hook_line("post-merge")
    assert hook_settings["pre-push"]["commands"]["memory-ci"]["use_stdin"] is True
    settings.write_text(text)
    assert find_manager(tmp_path, HOOKS) == Manager("lefthook", {}, "lefthook install")


@pytest.mark.parametrize("name", ["lefthook.toml", "lefthook.json"])
def test_settings_that_cannot_be_read_call_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("post-merge: memory-ci hook sync [")
    manager = find_manager(tmp_path, ["post-merge"])
    assert manager is not None
    assert list(manager.additions) == [name]


@pytest.mark.parametrize("name", LEFTHOOK_FILES)
def test_lefthook_is_recognised_by_any_of_its_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    manager = find_manager(tmp_path, HOOKS)
    assert manager is not None
    assert manager.tool == "lefthook"
    assert list(manager.additions) == [name]


def test_the_lines_suggested_for_lefthook_are_the_missing_ones(tmp_path: Path) -> None:
    text = lefthook(tmp_path, "")
    assert list(yaml.safe_load(text)) == list(HOOKS)
    assert lefthook(tmp_path, text) == ""
    assert list(yaml.safe_load(lefthook(tmp_path, text.partition("post-merge:")[0]))) == [
        "post-merge",
        "post-rewrite",
    ]


def test_a_call_below_another_hook_does_not_count(tmp_path: Path) -> None:
    text = "post-merge:\n  commands: {}\n\n# ours\npost-rewrite:\n  commands:\n    a:\n      run: memory-ci hook sync\n"
    assert "post-merge" in yaml.safe_load(lefthook(tmp_path, text))
    assert "post-rewrite" not in yaml.safe_load(lefthook(tmp_path, text))


def test_a_comment_is_no_call(tmp_path: Path) -> None:
    text = "post-merge:\n  # memory-ci hook sync was removed\n  commands:\n    a:\n      run: true # memory-ci hook sync\n"
    assert "post-merge" in yaml.safe_load(lefthook(tmp_path, text))
    (tmp_path / "lefthook.yml").unlink()
    (tmp_path / ".husky").mkdir()
    (tmp_path / ".husky/post-merge").write_text("# no memory-ci hook here\n")
    manager = find_manager(tmp_path, ["post-merge"])
    assert manager is not None
    assert list(manager.additions) == [".husky/post-merge"]


def test_husky_gets_a_suggestion_for_each_hook_without_our_line(tmp_path: Path) -> None:
    (tmp_path / ".husky").mkdir()
    (tmp_path / ".husky/pre-push").write_text("npm test\nmemory-ci hook pre-push\n")
    manager = find_manager(tmp_path, HOOKS)
    assert manager is not None
    assert manager.tool == "husky"
    assert sorted(manager.additions) == sorted(
        f".husky/{hook}" for hook in HOOKS if hook != "pre-push"
    )


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("status", [None, 0])
def test_a_line_is_harmless_where_memory_ci_is_missing(
    tmp_path: Path, hook: str, status: int | None
) -> None:
    """husky runs its files with `sh -e`: a line that fails would end the hook."""
    program = tmp_path / "memory-ci"
    if status is not None:
        program.write_text('#!/bin/sh\necho "$@"\n')
        program.chmod(0o755)
    command = ["/bin/sh", "-e", "-c", f"{hook_line(hook)}\necho after", hook, "first"]
    done = subprocess.run(
        command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    work = f"hook {hook} first" if hook in WITH_ARGUMENT else "hook sync"
    assert done.stdout.splitlines() == ([work] if status is not None else []) + ["after"]
    assert done.stderr == ""
