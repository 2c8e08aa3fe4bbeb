"""Tests of reading the configuration: values, defaults, and errors with file, line and key."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from memory_ci.commands.setup.init import CONFIG_TEXT
from memory_ci.config import describe, parse_config
from memory_ci.errors import UsageError
from memory_ci.records.config import Config
from memory_ci.records.report import Finding


def test_an_empty_configuration_has_the_defaults() -> None:
    assert parse_config("") == parse_config("# a comment\n") == parse_config("---\n") == Config()


def test_the_file_that_init_writes_contains_the_defaults() -> None:
    assert parse_config(CONFIG_TEXT) == Config()
    spoken = "\n".join(line.removeprefix("# ") for line in CONFIG_TEXT.splitlines()[1:])
    assert parse_config(spoken) == Config(), "uncommented, it still says the defaults"


def test_every_key_can_be_set() -> None:
    config = parse_config(
        "scopes: {project: [docs/MEMORY.md]}\nextraction:\n  max_entries_per_change: 1\n  trusted_authors: ['*@a>']\n"
        "retrieve: {max_chars: 100}\nglobal: {path: ''}\n"
    )
    assert config.scopes.project == ("docs/MEMORY.md",)
    assert config.extraction.max_entries_per_change == 1
    assert config.retrieve.max_chars == 100
    assert config.global_.path == ""


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "retrieve:\n  max_chars: many\n",
            ":2: retrieve.max_chars must be a whole number from 0 to 1000000",
            "",
        ),
        (
            "retrieve:\n  max_chars: -1\n",
            ":2: retrieve.max_chars must be a whole number from 0 to 1000000",
            "",
        ),
        (
            "extraction:\n  adr_paths: docs\n",
            ":2: extraction.adr_paths must be a list of texts",
            "",
        ),
        (
            "engine: {name: gpt}",
            "must be one of anthropic, auto, claude-cli, command, replay, rules",
            "",
        ),
        (
            "engine: {max_cost_usd: much}",
            ":1: engine.max_cost_usd must be a number from 0 to 10000",
            "",
        ),
        (
            "engine: {price: [1]}",
            "price must be a list of 2 numbers from 0 to 10000 or nothing",
            "",
        ),
        ("engine: {model: 3}", ":1: engine.model must be a text", ""),
        ("sessions: {push: 3}", ":1: sessions.push must be true or false or one of private", ""),
        (
            "roles: {reviewer: [all]}",
            ":1: roles must be a mapping from texts to lists of any of global, inst",
            "",
        ),
        (
            "retrieve: {embedder_model: a b}",
            "retrieve.embedder_model must be a text like 'nomic-embed-text'",
            "",
        ),
        ("retrieve: 7\n", ":1: retrieve must be a mapping", ""),
        ("- a\n", ":1: the file must be a mapping", ""),
        (
            "retrieve: {max_chars: 1}\nretrieve: {max_chars: 2}\n",
            ":2: the key 'retrieve' stands here twice",
            "",
        ),
        ("a: [\n", "not valid YAML", ""),
        ("format: 1\nroles: [x\nengine: {}\n", ":2: not valid YAML", ""),
    ],
)
def test_an_error_names_file_line_and_key(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_config(text)
    assert message in raised.value.message
    assert raised.value.message.startswith(".memory-ci.yaml:")
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("text", "line", "key", "hint"),
    [
        ("retrive:\n  max_chars: 1\n", 1, "retrive", "Did you mean 'retrieve'?"),
        ("a: {b: [{c: 1}]}\n", 1, "a", "Known keys here: format, extends"),
        ("engine:\n  max_cost_us: 3\n", 2, "engine.max_cost_us", "Did you mean 'max_cost_usd'?"),
        *(
            (
                f"engine:\n  {key}: x\n",
                2,
                f"engine.{key}",
                "Keys, addresses and programs come from the environment",
            )
            for key in (
                "api_key",
                "auth-token",
                "token",
                "base_url",
                "url",
                "command",
                "engine_command",
                "SOME_API_KEY",
            )
        ),
    ],
)
def test_an_unknown_key_is_ignored_with_a_warning(
    text: str, line: int, key: str, hint: str
) -> None:
    findings: list[Finding] = []
    assert parse_config(text, warnings=findings) == Config()
    (finding,) = findings
    assert (finding.path, finding.line, finding.level) == (".memory-ci.yaml", line, "warning")
    assert finding.message == f"unknown key {key!r}"
    assert finding.hint.startswith(hint)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("publish:\n  draft: true\n", "publish.draft"),
        ("retrieve:\n  walk: 1\n", "retrieve.walk"),
        ("stage:\n  file: x\n", "stage"),
    ],
)
def test_the_warning_about_a_removed_key_says_to_delete_its_line(text: str, key: str) -> None:
    findings: list[Finding] = []
    assert parse_config(text, warnings=findings) == Config()
    (finding,) = findings
    assert finding.message == f"unknown key {key!r}"
    assert finding.hint == "This setting is gone since 0.3: delete the line."


def test_a_newer_format_is_a_warning_and_an_invalid_format_an_error() -> None:
    findings: list[Finding] = []
    assert parse_config("format: 2\n", warnings=findings).format == 2
    assert [finding.code for finding in findings] == ["newer-format"]
    with pytest.raises(UsageError, match="format must be a whole number from 1"):
        parse_config("format: x\n")


def test_every_type_of_setting_has_a_description() -> None:
    texts = [describe(inspect.type_info(type_)) for type_ in types_of(Config)]
    assert len(texts) > 30
    assert [
        text for text in texts if text == "nothing" or "Type" in text or "msgspec" in text
    ] == []


def types_of(kind: type[msgspec.Struct]) -> Iterator[object]:
    for field in msgspec.structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from types_of(field.type)
        else:
            yield field.type


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
        "extraction: {trusted_authors: [=]}\nnudge: 1",
        'scopes: {team: ["{where}/{where}/MEMORY.md"]}',
        'extraction: {adr_paths: ["docs/[z-a].md"]}',
        'scopes: {project: [""]}',
        'scopes: {team: ["**/**/**/**/{where}.md"]}',
        "#" * 70_000,
    ],
)
def test_a_hostile_configuration_is_a_clear_error(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_config(text)
    assert raised.value.slug == "bad-config"


def test_yes_no_and_unusual_numbers_are_read_as_in_yaml() -> None:
    config = parse_config("sessions: {push: no, read: true}\nengine: {max_cost_usd: 0.5}")
    assert (config.sessions.push, config.sessions.read, config.engine.max_cost_usd) == (
        False,
        True,
        0.5,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "roles:\n  dev: [project]\n  dev: [team]\n",
            ".memory-ci.yaml:3: the key 'roles.dev' stands here twice",
        ),
        (
            "roles:\n  [a, b]: [project]\n",
            ".memory-ci.yaml:2: roles: a list or a mapping cannot be a key",
        ),
        ("? {a: b}\n: 1\n", ".memory-ci.yaml:1: the file: a list or a mapping cannot be a key"),
    ],
)
def test_keys_of_all_mappings_are_unique_words(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_config(text)
    assert message in raised.value.message


@pytest.mark.parametrize("model", ["", " ", "a b", "a\0", "a\n", "\x1b[2J", "\u0430", "x" * 201])
def test_the_id_of_a_model_is_one_printable_word(model: str) -> None:
    with pytest.raises(UsageError, match=r"engine\.model must be a text like"):
        parse_config(f"engine: {{model: {json.dumps(model)}}}")


@pytest.mark.parametrize(
    "model",
    ["arn:aws:bedrock:us-east-1:1:inference-profile/us.x-v1:0", "claude@20250101", "org/m[1m]"],
)
def test_any_printable_word_is_a_valid_model_id(model: str) -> None:
    assert parse_config(f"engine: {{model: '{model}'}}").engine.model == model
