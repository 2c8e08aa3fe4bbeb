"""Tests of selecting the engine, and of the reason in the report."""

from __future__ import annotations

import importlib.util

import pytest

from memory_ci.errors import UsageError
from memory_ci.extraction.engines import choose_engine
from memory_ci.records.config import EngineConfig, EngineName

KEY = {"ANTHROPIC_API_KEY": "key"}
COMMAND = {"MEMORY_CI_ENGINE_COMMAND": "my-model"}
REPLAY = {"MEMORY_CI_REPLAY": "replies"}


@pytest.mark.parametrize(
    ("name", "environ", "engine", "reason"),
    [
        ("auto", {}, "RulesEngine", "no model is configured"),
        ("auto", COMMAND | REPLAY, "RulesEngine", "no model is configured"),
        ("rules", KEY, "RulesEngine", "engine.name is rules"),
        ("anthropic", {}, "AnthropicEngine", "engine.name is anthropic"),
        ("claude-cli", {}, "ClaudeCliEngine", "engine.name is claude-cli"),
        ("command", COMMAND, "CommandEngine", "engine.name is command"),
        ("replay", REPLAY, "ReplayEngine", "engine.name is replay"),
    ],
)
def test_the_setting_selects_the_engine_and_else_the_configured_provider(
    name: EngineName, environ: dict[str, str], engine: str, reason: str
) -> None:
    selected, choice = choose_engine(EngineConfig(name=name), environ)
    assert (type(selected).__name__, choice.reason) == (engine, reason)
    assert choice.name == ("rules" if name == "auto" else name)


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_model_is_used_if_it_is_configured_and_available(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: object() if is_installed else None
    )
    _, choice = choose_engine(EngineConfig(), KEY)
    reason = "ANTHROPIC_API_KEY is set"
    missing = (
        "rules",
        f"{reason}, but the package anthropic is not installed",
        "memory-ci[anthropic]",
    )
    assert choice == (("anthropic", reason, "") if is_installed else missing)


@pytest.mark.parametrize("name", ["command", "replay"])
def test_an_engine_that_lacks_its_variable_is_a_usage_error(name: EngineName) -> None:
    with pytest.raises(UsageError) as caught:
        choose_engine(EngineConfig(name=name), KEY)
    assert caught.value.slug == "engine-not-configured"
