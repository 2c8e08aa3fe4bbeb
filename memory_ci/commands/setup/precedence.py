"""Whether the setup for every repository has an effect in this one.

Hooks in the home and plugins run everywhere. They do nothing where no memory is kept, and leave the
work to what the project's own settings set up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from memory_ci.commands.setup.agents import list_parts
from memory_ci.commands.setup.clients import PartName, Place
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.repo import find_repository
from memory_ci.gitrepo.sessionrefs import SAFE
from memory_ci.regex import Regex
from memory_ci.sources.agent_events import find_directory
from memory_ci.store.steps import read_text

MEMORY_FILES = (CONFIG_FILE, "MEMORY.md", "institutional.md")

COPILOT_CWD = Regex(r"""^cwd: ["']?(.+?)["']?$""", re.MULTILINE)
"""The directory of a session of Copilot CLI, in the file `workspace.yaml` of the session."""

PREFIXING = "claude-code"
"""The agent that runs a plugin's server beside the project's own: it puts a prefix to its name."""


def answers_event(data: bytes, agent: str, *, is_plugin: bool = False) -> bool:
    """Return whether a hook in the home, or of a plugin, answers an event of an agent.

    It answers in repositories with memory whose own settings do not hook this agent in. A plugin
    also leaves the event to a hook in the home.

    Args:
        data: the event.
        agent: the name of the agent.
        is_plugin: the hook is of a plugin.

    Raises:
        ValueError: the event is no JSON.
    """
    event = json.loads(data.decode("utf-8-sig", "replace"))
    directory = find_directory(event) if isinstance(event, dict) else ""
    root = _find_root_with_memory(Path(directory or Path.cwd()))
    if root is None or _has_part("hooks", agent, root, "file"):
        return False
    return not (is_plugin and _has_part("hooks", agent, Path.home(), "user"))


def find_served_directory(agent: str, environ: Mapping[str, str]) -> Path | None:
    """Return the directory whose memory the MCP server of an agent's plugin serves.

    Of two servers of one name every agent but one starts the one that its settings name.

    Args:
        agent: the name of the agent.
        environ: the environment of the server.

    Returns:
        None if the server offers nothing: no memory is kept there, or the project's own settings
        start a server beside this one.
    """
    start = _find_copilot_directory(environ) if agent == "copilot" else Path.cwd()
    root = _find_root_with_memory(start) if start else None
    if root is None or (agent == PREFIXING and _has_part("mcp", agent, root, "file")):
        return None
    return start


def _find_copilot_directory(environ: Mapping[str, str]) -> Path | None:
    """Return the directory of the Copilot CLI session that started a server, None if unknown.

    Copilot CLI starts the server of a plugin in the plugin's directory, and does not say where the
    session is (github/copilot-cli issue 4234). It names the session, whose file says it.
    """
    session = environ.get("COPILOT_AGENT_SESSION_ID", "")
    if not SAFE.fullmatch(session):
        return None
    text = read_text(Path.home() / ".copilot/session-state" / session / "workspace.yaml")
    cwd = COPILOT_CWD.search(text)
    return Path(cwd[1]) if cwd else None


def _find_root_with_memory(start: Path) -> Path | None:
    """Return the top of the work tree around a directory, None if it keeps no memory."""
    try:
        root = find_repository(start).root
    except RepositoryError:
        return None
    has_memory = root is not None and any((root / file).exists() for file in MEMORY_FILES)
    return root if has_memory else None


def _has_part(name: PartName, agent: str, root: Path, place: Place) -> bool:
    return any(
        found.part.name == name and found.agent.name == agent for found in list_parts(root, place)
    )
