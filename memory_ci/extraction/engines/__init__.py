"""Engines that find learnings: each answers a request with a text, which others parse and check."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from memory_ci.errors import UsageError
from memory_ci.records.candidate import EngineReply, Request
from memory_ci.records.config import EngineConfig


class Engine(Protocol):
    """Anything that answers a request."""

    def extract(self, request: Request) -> EngineReply:
        """Return the reply to a request.

        Raises:
            EngineError: if there is no reply.
        """


REPLAY = "MEMORY_CI_REPLAY"
"""The environment variable with the path of the recordings for the replay engine."""

EXTRA = "memory-ci[anthropic]"


class EngineChoice(NamedTuple):
    """The engine of a run.

    Attributes:
        name: the name of the engine.
        reason: why it was chosen, for the report.
        lacks: what must be installed for a better engine, "" if nothing.
    """

    name: str
    reason: str
    lacks: str = ""


def choose_engine(
    settings: EngineConfig, environ: Mapping[str, str]
) -> tuple[Engine, EngineChoice]:
    """Return the engine of a run, and its name with the reason why it was chosen.

    No model is called here: whether its key and its address are right shows at the first request.

    Raises:
        UsageError: engine-not-configured, if the named engine needs a variable that is not set.
    """
    choice = _choose_by_settings(settings, environ)
    return _make_engine(choice.name, settings, environ), choice


def _choose_by_settings(settings: EngineConfig, environ: Mapping[str, str]) -> EngineChoice:
    """Choose the named engine; for `auto` the configured model, or else the rules."""
    if settings.name != "auto":
        return EngineChoice(settings.name, f"engine.name is {settings.name}")
    from memory_ci.extraction.engines.anthropic_api import is_configured

    reason = is_configured(environ, settings)
    if reason is None:
        return EngineChoice("rules", "no model is configured")
    if importlib.util.find_spec("anthropic") is None:
        return EngineChoice("rules", f"{reason}, but the package anthropic is not installed", EXTRA)
    return EngineChoice("anthropic", reason)


def _make_engine(name: str, settings: EngineConfig, environ: Mapping[str, str]) -> Engine:
    """Make an engine; only its module is imported."""
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
            return _make_replay_engine(environ)
        case _:
            from memory_ci.extraction.engines.rules import RulesEngine

            return RulesEngine()


def _make_replay_engine(environ: Mapping[str, str]) -> Engine:
    """Make the engine that answers with recorded replies.

    Raises:
        UsageError: engine-not-configured, if the environment names no recordings.
    """
    from memory_ci.extraction.engines.replay import ReplayEngine

    path = environ.get(REPLAY)
    if not path:
        message = f"the engine `replay` needs recorded replies, and {REPLAY} is not set"
        hint = f"set {REPLAY} to a directory of recordings or to a JSON Lines file of them"
        raise UsageError(message, slug="engine-not-configured", hint=hint)
    return ReplayEngine(Path(path))
