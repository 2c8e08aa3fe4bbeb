"""CODEOWNERS: the team that owns a path, as GitHub and GitLab read the file, sections included.

The last line that matches counts, also in GitLab's sections, where the forge would ask the owners
of each. A line without owners has those of its section, or none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
"""Where the forges look, first to last; GitHub ignores the last of them, GitLab the first."""

COMMENT = re.compile(r"(?:^|\s)#.*")
SECTION = re.compile(r"\^?\[[^\]]+\](?:\[\d+\])?(?P<owners>(?:\s+\S+)*)\s*")
WORD = re.compile(r"(?:\\.|[^\s\\])+")
OWNER = re.compile(r"@[\w./-]+|[^\s@]+@[^\s@]+")

GLOB_TOKEN = re.compile(r"\*\*/|/\*\*$|\*\*|[*?]|[^*?/]+|/")
GLOB_PATTERNS = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class OwnedPath(NamedTuple):
    """A line of the file.

    Attributes:
        path: the pattern of paths that it matches.
        team: the first of its owners, in a form that a branch can have; "" for none.
    """

    path: re.Pattern[str]
    team: str


def parse_owners(text: str) -> tuple[OwnedPath, ...]:
    r"""Parse the lines of a CODEOWNERS file, in order; others are skipped.

    >>> [line.team for line in parse_owners("* @acme/core\n/docs/ a@b.example # words")]
    ['core', 'a']
    """
    lines: list[OwnedPath] = []
    section_owners: list[str] = []
    for raw_line in text.splitlines():
        line = COMMENT.sub("", raw_line).strip()
        section = SECTION.fullmatch(line)
        if section:
            section_owners = OWNER.findall(section["owners"])
            continue
        words = WORD.findall(line)
        if words:
            owners = [word for word in words[1:] if OWNER.fullmatch(word)] or section_owners
            pattern = re.sub(r"\\(.)", r"\1", words[0])
            team = _team_name(owners[0]) if owners else ""
            lines.append(OwnedPath(_compile_pattern(pattern), team))
    return tuple(lines)


def find_team(owners: tuple[OwnedPath, ...], path: str) -> str:
    """Return the team that owns a path, "" where none does."""
    for line in reversed(owners):
        if line.path.fullmatch(path):
            return line.team
    return ""


def _team_name(owner: str) -> str:
    """Return `billing` for `@acme/billing`; for an address the part before the @."""
    name = owner.rpartition("/")[2].lstrip("@").partition("@")[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60].lower()


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern as of .gitignore, without negation.

    A slash before its end anchors it, and a directory matches all files below it.
    """
    glob = pattern.strip("/")
    is_anchored = "/" in pattern.rstrip("/")
    start = "" if is_anchored else "(?:.*/)?"
    tokens = GLOB_TOKEN.findall(glob)
    body = "".join(GLOB_PATTERNS.get(token) or re.escape(token) for token in tokens)
    is_flat = glob.endswith("/*")  # docs/* has the files of docs, not those of its directories.
    end = "" if is_flat else "(?:/.*)?"
    return re.compile(f"{start}{body}{end}")
