"""How an extra of memory-ci is installed, from where memory-ci itself was installed."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra beside what is installed.

    The record of pip (PEP 610) says from which folder or repository memory-ci came. Without it, as
    for an installation from a registry, the name alone does.

    Args:
        extra: the name of the extra: `report`.
    """
    url, revision = _find_origin()
    if url.startswith("file://"):
        return f"pip install '{url.removeprefix('file://')}[{extra}]'"
    if url:
        at = f"@{revision}" if revision else ""
        return f"pip install 'memory-ci[{extra}] @ git+{url}{at}'"
    return f"pip install 'memory-ci[{extra}]'"


def _find_origin() -> tuple[str, str]:
    """Return the address and the revision of what was installed, "" where they are not known."""
    try:
        text = distribution("memory-ci").read_text("direct_url.json")
        origin = json.loads(text or "{}")
        is_git = origin.get("vcs_info", {}).get("vcs") == "git"
        url = str(origin.get("url", ""))
        revision = str(origin.get("vcs_info", {}).get("requested_revision", ""))
    except (PackageNotFoundError, ValueError, AttributeError):
        return "", ""
    is_folder = url.startswith("file://") and "archive_info" not in origin
    return (url, revision) if is_git or is_folder else ("", "")
