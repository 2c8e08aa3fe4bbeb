"""CODEOWNERS as GitHub and GitLab read it: the last line that matches, sections with owners of their own."""

from __future__ import annotations

import pytest

from memory_ci.forge.owners import find_team, parse_owners

TEXT = """
# who looks at what
*                     @acme/core
/docs/                docs@acme.example   # an address
apps/*                @acme/apps
services/billing      @acme/billing @ann
**/generated/**       @robot
/with\\ space/        @acme/space
/nobody/

[Database][2] @group/sub/dba
db/
^[Optional]
db/own.sql            @Ben.Smith
"""


@pytest.mark.parametrize(
    ("path", "team"),
    [
        ("MEMORY.md", "core"),
        ("docs/a/MEMORY.md", "docs"),
        ("x/docs/MEMORY.md", "core"),
        ("apps/MEMORY.md", "apps"),
        ("apps/shop/MEMORY.md", "core"),
        ("services/billing/MEMORY.md", "billing"),
        ("x/services/billing/MEMORY.md", "core"),
        ("a/b/generated/c/MEMORY.md", "robot"),
        ("with space/MEMORY.md", "space"),
        ("nobody/MEMORY.md", ""),
        ("db/MEMORY.md", "dba"),
        ("x/db/MEMORY.md", "dba"),
        ("db/own.sql", "ben-smith"),
    ],
)
def test_the_team_of_a_path(path: str, team: str) -> None:
    assert find_team(parse_owners(TEXT), path) == team


def test_a_file_of_any_words_owns_nothing() -> None:
    assert find_team(parse_owners("[unclosed @a\n\\\n!x @b\n***/[ @c"), "x/MEMORY.md") == ""
