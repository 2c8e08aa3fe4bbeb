"""Tests of the environment of git processes, and of the modules that are imported."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

from memory_ci.gitrepo.process import (
    OFFLINE,
    clean_environment,
    config_variables,
    network_variables,
    without_hook_variables,
)

PASSES = [
    ("GIT_SSH_COMMAND", True),
    ("GIT_SSL_CAINFO", True),
    ("GIT_SSL_NO_VERIFY", True),
    ("GIT_ASKPASS", True),
    ("GIT_CONFIG_GLOBAL", True),
    ("GIT_CONFIG_SYSTEM", True),
    ("GIT_CONFIG_NOSYSTEM", True),
    ("GIT_CEILING_DIRECTORIES", True),
    ("GIT_TRACE2_EVENT", True),
    ("HOME", True),
    ("HTTPS_PROXY", True),
    ("GIT_DIR", False),
    ("GIT_WORK_TREE", False),
    ("GIT_INDEX_FILE", False),
    ("GIT_COMMON_DIR", False),
    ("GIT_PREFIX", False),
    ("GIT_OBJECT_DIRECTORY", False),
    ("GIT_ALTERNATE_OBJECT_DIRECTORIES", False),
    ("GIT_QUARANTINE_PATH", False),
    ("GIT_NAMESPACE", False),
    ("GIT_AUTHOR_NAME", False),
    ("GIT_AUTHOR_DATE", False),
    ("GIT_COMMITTER_EMAIL", False),
    ("GIT_CONFIG_PARAMETERS", False),
    ("GIT_CONFIG_COUNT", False),
    ("GIT_CONFIG_KEY_0", False),
    ("GIT_LITERAL_PATHSPECS", False),
    ("GIT_EXTERNAL_DIFF", False),
    ("GIT_REFLOG_ACTION", False),
]


@pytest.mark.parametrize(("name", "passes"), PASSES)
def test_only_variables_about_transport_configuration_and_tracing_pass(
    name: str, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "a value")
    assert (clean_environment().get(name) == "a value") is passes


def test_our_variables_override_inherited_ones_and_requested_ones_override_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("GIT_INDEX_FILE", "/theirs")
    environment = clean_environment({"GIT_INDEX_FILE": "/ours"})
    assert environment["LC_ALL"] == "C"
    assert environment["GIT_INDEX_FILE"] == "/ours"
    assert environment["GIT_TERMINAL_PROMPT"] == "0"


def test_hook_variables_are_removed_for_a_block_and_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIT_DIR", "/theirs")
    with contextlib.suppress(KeyError), without_hook_variables():
        assert "GIT_DIR" not in os.environ
        raise KeyError("the block may fail")
    assert os.environ["GIT_DIR"] == "/theirs"


def test_only_safe_directories_pass_from_the_configuration_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = [
        ("user.name", "Eve"),
        ("safe.directory", "/a"),
        ("core.pager", "x"),
        ("Safe.Directory", "/b c"),
    ]
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for number, (key, value) in enumerate(settings):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    passed = {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "/a",
        "GIT_CONFIG_KEY_1": "Safe.Directory",
        "GIT_CONFIG_VALUE_1": "/b c",
    }
    assert config_variables() == passed
    environment = clean_environment()
    values = {value for name, value in environment.items() if name.startswith("GIT_CONFIG_")}
    assert values.isdisjoint({"user.name", "Eve", "core.pager", "x"})
    assert environment.items() >= (passed | {"GIT_CONFIG_COUNT": "5"}).items()


@pytest.mark.parametrize("count", ["", "-1", "two", "9" * 30, "999999999", "\u00b2"])
def test_an_invalid_count_of_settings_is_ignored(
    count: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KEY_0", "VALUE_0", "KEY_1", "VALUE_1"):
        monkeypatch.delenv(f"GIT_CONFIG_{name}")
    monkeypatch.setenv("GIT_CONFIG_COUNT", count)
    assert config_variables() == {"GIT_CONFIG_COUNT": "0"}


READ_MODULES = ("process", "repo", "blobs", "trailers", "forges", "log", "history")
HEAVY = ("git", "yaml", "click", "sqlite3", "tempfile", "hashlib", "asyncio")


def loaded_by(*modules: str) -> set[str]:
    """Return the modules that importing these modules loads."""
    imports = "; ".join(f"import memory_ci.gitrepo.{module}" for module in modules)
    # -S: a site-packages with start-up files of its own loads modules that are none of our doing.
    program = f"import sys; sys.path[:] = {sys.path!r}; {imports}; print(*sys.modules)"
    completed = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True
    )
    return set(completed.stdout.split())


def test_the_read_path_loads_nothing_heavy() -> None:
    loaded = loaded_by(*READ_MODULES)
    assert "memory_ci.gitrepo.history" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_write_path_does_load_gitpython() -> None:
    assert "git" in loaded_by("writer")


def test_git_neither_fetches_lazily_nor_uses_a_protocol_unless_a_remote_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert clean_environment().items() >= OFFLINE.items()
    assert network_variables() == {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "https:ext")
    assert clean_environment()["GIT_ALLOW_PROTOCOL"] == ""
    assert network_variables() == {"GIT_ALLOW_PROTOCOL": "https"}
