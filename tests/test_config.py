"""The configuration: what is said is read, what is wrong is named by file, line and key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.config import parse_config
from memory_ci.errors import UsageError
from memory_ci.flows.init import CONFIG_TEXT
from memory_ci.records.config import Config


def test_nothing_said_is_the_default() -> None:
    assert parse_config("") == parse_config("# a comment\n") == parse_config("---\n") == Config()


def test_the_file_that_init_writes_says_the_defaults() -> None:
    assert parse_config(CONFIG_TEXT) == Config()
    spoken = "\n".join(line.removeprefix("# ") for line in CONFIG_TEXT.splitlines()[1:])
    assert parse_config(spoken) == Config(), "uncommented, it still says the defaults"


def test_every_key_can_be_said() -> None:
    config = parse_config(
        "scopes: {project: [docs/MEMORY.md]}\nextraction:\n  max_entries_per_change: 1\n  trusted_authors: ['*@a>']\n"
        "retrieve: {max_chars: 100, institutional_max_chars: 0}\nglobal: {path: ''}\n"
    )
    assert config.scopes.project == ("docs/MEMORY.md",)
    assert config.extraction.max_entries_per_change == 1
    assert config.retrieve.institutional_max_chars == 0
    assert config.global_.path == ""


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("retrive:\n  max_chars: 1\n", ":1: unknown key 'retrive'", "Did you mean 'retrieve'?"),
        ("a: 1\n", ":1: unknown key 'a'", "Known keys here: scopes"),
        ("retrieve:\n  max_chars: many\n", ":2: retrieve.max_chars: Expected `int`", ""),
        ("retrieve:\n  max_chars: -1\n", ":2: retrieve.max_chars: Expected `int` >= 0", ""),
        ("extraction:\n  adr_paths: docs\n", ":2: extraction.adr_paths: Expected `array`", ""),
        ("retrieve: 7\n", ":1: retrieve must be a mapping", ""),
        ("- a\n", ":1: the file must be a mapping", ""),
        ("retrieve: {max_chars: 1}\nretrieve: {max_chars: 2}\n", ":2: the key 'retrieve' stands here twice", ""),
        ("a: [\n", "not valid YAML", ""),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_config(text)
    assert message in raised.value.message
    assert raised.value.message.startswith(".memory-ci.yaml:")
    assert hint in raised.value.hint


@given(st.text("abc:-[]{}#\n 1'\"&*!", max_size=60))
def test_any_text_is_a_configuration_or_a_clear_error(text: str) -> None:
    try:
        parse_config(text)
    except UsageError as error:
        assert error.slug == "bad-config"  # noqa: PT017 - both outcomes are legal


@pytest.mark.parametrize(
    "text",
    [
        "retrieve: {max_chars: !foo 3}",
        "retrieve: {max_chars: 2024-13-45}",
        "retrieve: {max_chars: !!int abc}",
        "extraction: {adr_paths: &a [*a]}",
        "a: " + "[" * 100_000,
        "extraction: {trusted_authors: [=]}\nx: 1",
        'scopes: {team: ["{where}/{where}/MEMORY.md"]}',
        'extraction: {adr_paths: ["docs/[z-a].md"]}',
        'scopes: {project: [""]}',
        'scopes: {team: ["**/**/**/**/{where}.md"]}',
        "#" * 70_000,
    ],
)
def test_a_hostile_configuration_is_a_clear_error_and_nothing_worse(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_config(text)
    assert raised.value.slug == "bad-config"


def test_yes_and_no_and_broken_numbers_are_read_as_yaml_means_them() -> None:
    config = parse_config("sessions: {push: no, keep_full: true}\nengine: {max_cost_usd: 0.5}")
    assert (config.sessions.push, config.sessions.keep_full, config.engine.max_cost_usd) == (False, True, 0.5)
