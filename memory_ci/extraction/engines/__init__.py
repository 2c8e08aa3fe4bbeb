"""Engines: request in, reply text out. Parsing, salvage, grounding and gating are outside, and the same for all."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from memory_ci.errors import UsageError
from memory_ci.records.candidate import EngineReply, Request
from memory_ci.records.config import EngineConfig


class Engine(Protocol):
    """Anything that answers a request. Raises EngineError when it cannot."""

    def extract(self, request: Request) -> EngineReply:
        """The reply to `request`."""


REPLAY = "MEMORY_CI_REPLAY"  # Names the recordings that the replay engine answers with.
EXTRA = "memory-ci[anthropic]"


class EngineChoice(NamedTuple):
    """Which engine runs, and why that one, for the report. `lacks` is what would have to be installed for a better."""

    name: str
    reason: str
    lacks: str = ""


def choose_engine(
    settings: EngineConfig, environ: Mapping[str, str]
) -> tuple[Engine, EngineChoice]:
    """The engine of a run, and the choice. Nothing is asked of a model: configured is not working. Raises UsageError
    (engine-not-configured) when an engine is named that needs a variable which is not set."""
    choice = _choose(settings, environ)
    return _make(choice.name, settings, environ), choice


def _choose(settings: EngineConfig, environ: Mapping[str, str]) -> EngineChoice:
    """What the settings name, or for `auto` the model that is configured, else the rules."""
    if settings.name != "auto":
        return EngineChoice(settings.name, f"engine.name is {settings.name}")
    from memory_ci.extraction.engines.anthropic_api import is_configured

    reason = is_configured(environ, settings)
    if reason is None:
        return EngineChoice("rules", "no model is configured")
    if importlib.util.find_spec("anthropic") is None:
        return EngineChoice("rules", f"{reason}, but the package anthropic is not installed", EXTRA)
    return EngineChoice("anthropic", reason)


def _make(name: str, settings: EngineConfig, environ: Mapping[str, str]) -> Engine:
    """Only the engine that runs is imported."""
    match name:
        case "anthropic":
            from memory_ci.extraction.engines.anthropic_api import AnthropicEngine

            return AnthropicEngine(settings, environ)
        case "claude-cli":
            from memory_ci.extraction.engines.program import ClaudeCliEngine

            return ClaudeCliEngine(settings, environ)
        case "command":
            from memory_ci.extraction.engines.program import CommandEngine

            return CommandEngine(settings, environ)
        case "replay":
            from memory_ci.extraction.engines.replay import ReplayEngine

            if not environ.get(REPLAY):
                told = f"the engine `replay` needs recorded replies, and {REPLAY} is not set"
                hint = f"set {REPLAY} to a directory of recordings or to a JSON Lines file of them"
                raise UsageError(told, slug="engine-not-configured", hint=hint)
            return ReplayEngine(Path(environ[REPLAY]))
        case _:
            from memory_ci.extraction.engines.rules import RulesEngine

            return RulesEngine()
