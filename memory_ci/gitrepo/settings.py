"""Git's configuration of a repository, and the places it points at. Only the repository's own file is ever written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from memory_ci.gitrepo.environment import config_variables
from memory_ci.gitrepo.process import decode_path, run_git
from memory_ci.gitrepo.repo import Repository

COMMENT_SETTING = "^core\\.comment(char|string)$"
AUTO_COMMENT = "#;@!$%^&|:"
"""The characters among which git chooses by itself with `auto` (builtin/commit.c, adjust_comment_line_char)."""


def find_setting(repo: Repository, name: str, *scope: str) -> str | None:
    """The value in force, from whatever file; only from the repository's own with the scope `--local`."""
    asked = ("config", *scope, "--get", "-z", name)
    # Without the settings of our own making, which would be what is found.
    answer = decode_path(run_git(repo.cwd, *asked, env=config_variables(), ok=(0, 1)))
    return answer.removesuffix("\0") if answer else None


def find_comment_prefixes(repo: Repository) -> tuple[str, ...]:
    """How a line begins that git takes for a comment in a commit message (core.commentChar, core.commentString)."""
    found = decode_path(run_git(repo.cwd, "config", "-z", "--get-regexp", COMMENT_SETTING, ok=(0, 1)))
    value = found.split("\0")[-2].partition("\n")[2] if found else ""
    return tuple(AUTO_COMMENT) if value == "auto" else (value or AUTO_COMMENT[0],)


def set_setting(repo: Repository, name: str, value: str) -> None:
    """Write a value into the repository's own configuration. Raises RepositoryError (git-failed)."""
    run_git(repo.cwd, "config", "--local", name, value)


def remove_section(repo: Repository, section: str) -> None:
    """Take a section out of the repository's own configuration."""
    run_git(repo.cwd, "config", "--local", "--remove-section", section)


def read_user_attributes(repo: Repository) -> bytes:
    """The attributes that the user has for all repositories (gitattributes(5)); empty if there are none."""
    named = decode_path(run_git(repo.cwd, "config", "--type=path", "--get", "-z", "core.attributesFile", ok=(0, 1)))
    usual = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "git", "attributes")
    with suppress(OSError):
        return Path(named.removesuffix("\0") if named else usual).read_bytes()
    return b""
