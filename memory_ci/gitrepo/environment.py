"""Which variables a git that we start may see.

A hook is started by git with GIT_DIR, GIT_INDEX_FILE and the author of the commit in its environment. Passed on, they
would make us read the wrong repository, or stage files in the index of the user (docs/architecture.md, gitrepo).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

PASSED = frozenset(
    """GIT_ALLOW_PROTOCOL GIT_ASKPASS GIT_CEILING_DIRECTORIES GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_CONFIG_SYSTEM
    GIT_CURL_VERBOSE GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_EXEC_PATH GIT_HTTP_LOW_SPEED_LIMIT GIT_HTTP_LOW_SPEED_TIME
    GIT_HTTP_PROXY_AUTHMETHOD GIT_PROTOCOL_FROM_USER GIT_PROXY_SSL_CAINFO GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT
    GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_SSL_CERT GIT_SSL_KEY GIT_SSL_NO_VERIFY""".split()
)
"""How git is found, configured and connected; nothing here says which repository, index or identity."""

PASSED_PREFIXES = ("GIT_TRACE", "GIT_PYTHON_")

SETTINGS = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}
"""English messages, no index refreshed behind the user's back, never a prompt or a pager."""


def may_pass(name: str) -> bool:
    """Whether git may inherit the variable `name`."""
    return not name.startswith("GIT_") or name in PASSED or name.startswith(PASSED_PREFIXES)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a git process: ours without what points at a repository, our settings, then `extra`."""
    inherited = {name: value for name, value in os.environ.items() if may_pass(name)}
    return inherited | SETTINGS | dict(extra or {})


@contextmanager
def without_hook_variables() -> Iterator[None]:
    """Take the variables that may not pass out of `os.environ` for a while.

    GitPython gives `os.environ` to every git that it starts and can add to it but leave nothing out.
    """
    removed = {name: os.environ.pop(name) for name in list(os.environ) if not may_pass(name)}
    try:
        yield
    finally:
        os.environ.update(removed)
