"""CODEOWNERS: which team owns a path, as GitHub and GitLab read the file, sections included.

The last line that matches counts, in GitLab's sections, too, where the forge would ask the owners of each. A line
without owners has those of its section, or none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Where the forges look, first to last; GitHub does not know the last of them, nor GitLab the first.
PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
SECTION = re.compile(r"\^?\[[^\]]+\](?:\[\d+\])?(?P<owners>(?:\s+\S+)*)\s*")
WORD = re.compile(r"(?:\\.|[^\s\\])+")
OWNER = re.compile(r"@[\w./-]+|[^\s@]+@[^\s@]+")


class OwnedPath(NamedTuple):
    """A line of the file: what it matches, and the first of its owners as a branch can be named ("": none)."""

    path: re.Pattern[str]
    team: str


def parse_owners(text: str) -> tuple[OwnedPath, ...]:
    """The lines of a CODEOWNERS file, in order; what is none is passed over.

    >>> [line.team for line in parse_owners("* @acme/core\\n/docs/ a@b.example # words")]
    ['core', 'a']
    """
    found: list[OwnedPath] = []
    default: list[str] = []
    for raw in text.splitlines():
        line = re.sub(r"(?:^|\s)#.*", "", raw).strip()
        if section := SECTION.fullmatch(line):
            default = OWNER.findall(section["owners"])
        elif words := WORD.findall(line):
            owners = [word for word in words[1:] if OWNER.fullmatch(word)] or default
            found.append(
                OwnedPath(
                    _compile(re.sub(r"\\(.)", r"\1", words[0])), _team(owners[0]) if owners else ""
                )
            )
    return tuple(found)


def find_team(owners: tuple[OwnedPath, ...], path: str) -> str:
    """The team that owns a path, "" where none does."""
    return next((line.team for line in reversed(owners) if line.path.fullmatch(path)), "")


def _team(owner: str) -> str:
    """`@acme/billing` is billing; of an address what stands before the @."""
    name = owner.rpartition("/")[2].lstrip("@").partition("@")[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60].lower()


def _compile(pattern: str) -> re.Pattern[str]:
    """As in .gitignore, without negation: a slash before the end anchors it, a directory holds all below it."""
    bare = pattern.strip("/")
    start = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    parts = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(
        parts.get(part) or re.escape(part)
        for part in re.findall(r"\*\*/|/\*\*$|\*\*|[*?]|[^*?/]+|/", bare)
    )
    is_flat = bare.endswith("/*")  # docs/* holds the files of docs, not those below
    return re.compile(f"{start}{body}{'' if is_flat else '(?:/.*)?'}")
