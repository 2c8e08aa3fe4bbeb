"""The pip command that installs an optional extra of memory-ci, for hints in messages."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from typing import NamedTuple


def how_to_install(extra: str) -> str:
    """Return the pip command that adds an optional extra to the installed memory-ci.

    It installs from the directory or git repository that memory-ci itself was installed from, else
    from the package index.

    Args:
        extra: the name of the extra: `report`.
    """
    origin = _find_origin()
    if origin.url.startswith("file://"):
        folder = origin.url.removeprefix("file://")
        return f"pip install '{folder}[{extra}]'"
    if origin.url:
        at_revision = f"@{origin.revision}" if origin.revision else ""
        return f"pip install 'memory-ci[{extra}] @ git+{origin.url}{at_revision}'"
    return f"pip install 'memory-ci[{extra}]'"


class _Origin(NamedTuple):
    """The address of the directory or git repository of an installation, and the git revision."""

    url: str = ""
    revision: str = ""


def _find_origin() -> _Origin:
    """Return from which directory or git repository memory-ci was installed.

    pip keeps that in the file `direct_url.json` of the installation (PEP 610). After an
    installation from the package index or from an archive, url and revision are "".
    """
    try:
        text = distribution("memory-ci").read_text("direct_url.json")
        record = json.loads(text or "{}")
        url = str(record.get("url", ""))
        vcs_info = record.get("vcs_info", {})
        if vcs_info.get("vcs") == "git":
            return _Origin(url, str(vcs_info.get("requested_revision", "")))
    except (PackageNotFoundError, ValueError, AttributeError):
        return _Origin()
    if url.startswith("file://") and "archive_info" not in record:
        return _Origin(url)
    return _Origin()
