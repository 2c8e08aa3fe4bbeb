"""Tests of the resources of the MCP server."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.commands.mcp.mcp_client import OPENING, ask, in_process, read
from tests.make import make_id
from tests.project import Project


def test_institutional_memory_is_a_resource_and_holds_nothing_else(zoo: Project) -> None:
    text = read(zoo, "memory://institutional")
    assert text.startswith(OPENING)
    assert "Money is an integer number of cents" in text
    assert "Zebra" not in text


def test_an_entry_is_a_resource_by_the_start_of_its_id(zoo: Project) -> None:
    text = read(zoo, f"memory://entry/{make_id(2)[:8]}")
    assert text.startswith(OPENING)
    assert "## Zebra crossings need a light" in text


@pytest.mark.parametrize(
    ("uri", "slug"),
    [
        ("memory://entry/ffff", "unknown-entry"),
        ("memory://entry/", "unknown-entry"),
        ("file:///etc/passwd", "unknown-resource"),
    ],
)
def test_a_resource_that_is_not_there_is_an_error_with_its_slug(
    zoo: Project, uri: str, slug: str
) -> None:
    async def refused(client: Client) -> Any:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        return caught.value.data

    assert ask(in_process(zoo), refused)["slug"] == slug


def test_resources_and_their_template_are_listed(zoo: Project) -> None:
    async def listed(client: Client) -> list[str]:
        known, templates = await client.list_resources(), await client.list_resource_templates()
        return [
            *(resource.uri for resource in known.resources),
            *(resource.uri_template for resource in templates.resource_templates),
        ]

    assert ask(in_process(zoo), listed) == ["memory://institutional", "memory://entry/{id}"]
