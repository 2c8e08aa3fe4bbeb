"""Precedence of the settings of a repository over hooks and plugins that run in every repository.

Hooks in the home and plugins of an agent do nothing in a repository without memory, nor in one
whose own settings start memory-ci.
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
from memory_ci.gitrepo.sessionrefs import REF_PART
from memory_ci.regex import Regex
from memory_ci.sources.agent_events import find_directory
from memory_ci.store.steps import read_text

MEMORY_FILES = (CONFIG_FILE, "MEMORY.md", "institutional.md")

COPILOT_CWD = Regex(r"""^cwd: ["']?(?P<directory>.+?)["']?$""", re.MULTILINE)
"""The directory of a session of Copilot CLI, in the file `workspace.yaml` of the session."""

PREFIXING_AGENT = "claude-code"
"""The agent that starts a plugin's server and a project's of the same name, with a prefix."""


def answers_event(data: bytes, agent: str, *, is_plugin: bool = False) -> bool:
    """Return whether a hook in the home, or of a plugin, has to answer an event of an agent.

    It has to in a repository with memory whose own settings have no hook for the agent. A hook of
    a plugin also leaves the event to a hook in the home.

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
    is_left_to_home = is_plugin and _has_part("hooks", agent, Path.home(), "user")
    return not is_left_to_home


def find_served_directory(agent: str, environ: Mapping[str, str]) -> Path | None:
    """Return the directory from which the MCP server of an agent's plugin reads memory.

    Args:
        agent: the name of the agent.
        environ: the environment of the server.

    Returns:
        The directory; None if the server must offer nothing. That is if the repository has no
        memory, or if the settings of the repository start a second server, which then serves it.
        The latter happens only with PREFIXING_AGENT: other agents start one server of a name.
    """
    start: Path | None = Path.cwd()
    if agent == "copilot":
        start = _find_copilot_directory(environ)
    root = _find_root_with_memory(start) if start else None
    if root is None:
        return None
    has_second_server = agent == PREFIXING_AGENT and _has_part("mcp", agent, root, "file")
    return None if has_second_server else start


def _find_copilot_directory(environ: Mapping[str, str]) -> Path | None:
    """Return the directory of the Copilot CLI session that started a server, None if unknown.

    Copilot CLI starts the server of a plugin in the plugin's directory, and does not pass the
    directory of the session (github/copilot-cli issue 4234). It passes the id of the session, whose
    state file names the directory.
    """
    session_id = environ.get("COPILOT_AGENT_SESSION_ID", "")
    if not REF_PART.fullmatch(session_id):
        return None
    text = read_text(Path.home() / ".copilot/session-state" / session_id / "workspace.yaml")
    match = COPILOT_CWD.search(text)
    return Path(match["directory"]) if match else None


def _find_root_with_memory(start: Path) -> Path | None:
    """Return the top of the work tree around a directory, None if it keeps no memory."""
    try:
        root = find_repository(start).root
    except RepositoryError:
        return None
    has_memory = root is not None and any((root / file).exists() for file in MEMORY_FILES)
    return root if has_memory else None


def _has_part(name: PartName, agent: str, root: Path, place: Place) -> bool:
    """Return whether the settings of an agent in a directory have a part of ours.

    Args:
        name: the part, such as "hooks" or "mcp".
        agent: the name of the agent.
        root: the top of a work tree, or the home.
        place: the settings to look in.
    """
    for found in list_parts(root, place):
        if found.part.name == name and found.agent.name == agent:
            return True
    return False
