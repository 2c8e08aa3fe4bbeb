"""Which variables a git that we start may see.

A hook is started by git with GIT_DIR, GIT_INDEX_FILE and the author of the commit in its environment. Passed on, they
would make us read the wrong repository, or stage files in the index of the user (docs/architecture.md, gitrepo).
Of configuration in the environment only `safe.directory` passes: without it no container could use a mounted clone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

PASSED = frozenset(
    """GIT_ALLOW_PROTOCOL GIT_ASKPASS GIT_CEILING_DIRECTORIES GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM
    GIT_CONFIG_SYSTEM GIT_CURL_VERBOSE GIT_DISCOVERY_ACROSS_FILESYSTEM GIT_EXEC_PATH GIT_HTTP_LOW_SPEED_LIMIT
    GIT_HTTP_LOW_SPEED_TIME GIT_HTTP_PROXY_AUTHMETHOD GIT_NO_LAZY_FETCH GIT_PROTOCOL_FROM_USER
    GIT_PROXY_SSL_CAINFO GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_SSL_CERT
    GIT_SSL_KEY GIT_SSL_NO_VERIFY""".split()
)
"""How git is found, configured and connected; nothing here says which repository, index or identity."""

PASSED_PREFIXES = ("GIT_TRACE", "GIT_PYTHON_")

SETTINGS = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"}
"""English messages, no index refreshed behind the user's back, never a prompt or a pager."""


NO_PROGRAMS = (("core.fsmonitor", "false"), ("core.hooksPath", os.devnull))
"""Programs that a configuration names and that git would start even to list files."""


OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
"""In a partial clone git fetches what it lacks by itself, unless it may not (git before 2.45 knows the second only)."""


ONE_AT_A_TIME = threading.Lock()


def may_pass(name: str) -> bool:
    """Whether git may inherit the variable `name`."""
    return not name.startswith("GIT_") or name in PASSED or name.startswith(PASSED_PREFIXES)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a git process: ours without what points at a repository, our settings, then `extra`."""
    inherited = {name: value for name, value in os.environ.items() if may_pass(name)}
    return inherited | SETTINGS | config_variables(*NO_PROGRAMS) | dict(extra or {})


def config_variables(*pairs: tuple[str, str]) -> dict[str, str]:
    """GIT_CONFIG_COUNT and its companions (git(1)) for the `safe.directory` pairs that we inherit, and for `pairs`."""
    numbered = list(enumerate((*_safe_directories(), *pairs)))
    keys = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in numbered}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in numbered}
    return {"GIT_CONFIG_COUNT": str(len(numbered))} | keys | values


def _safe_directories() -> Iterator[tuple[str, str]]:
    """In order, for an empty value takes back what stands before it."""
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    for number in range(int(count) if count.isdecimal() and len(count) < 10 else 0):
        key = os.environ.get(f"GIT_CONFIG_KEY_{number}")
        if key is None:
            return  # git refuses such a list: nothing of it counts after this
        if key.lower() == "safe.directory":
            yield key, os.environ.get(f"GIT_CONFIG_VALUE_{number}", "")


@contextmanager
def without_hook_variables() -> Iterator[None]:
    """Take the variables that may not pass out of `os.environ` for a while; of the settings there, safe ones stay.

    GitPython gives `os.environ` to every git that it starts and can add to it but leave nothing out. The environment
    belongs to the whole process, so threads take turns: one would otherwise give back what the other took out.
    """
    with ONE_AT_A_TIME:
        kept = config_variables()
        removed = {name: os.environ.pop(name) for name in list(os.environ) if not may_pass(name)}
        os.environ.update(kept)
        try:
            yield
        finally:
            for name in kept:
                os.environ.pop(name, None)
            os.environ.update(removed)


@contextmanager
def offline() -> Iterator[None]:
    """No git that is started meanwhile asks anybody over the network: what a partial clone lacks is an error."""
    before = {name: os.environ[name] for name in OFFLINE if name in os.environ}
    os.environ.update(OFFLINE)
    try:
        yield
    finally:
        for name in OFFLINE:
            os.environ.pop(name, None)
        os.environ.update(before)
