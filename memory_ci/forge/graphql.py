"""GitHub's GraphQL API: commits that GitHub makes, and its replies.

A commit made by GitHub itself is signed: `createCommitOnBranch` with `expectedHeadOid` (docs.github.com, "GraphQL
mutations"). It knows files and their content, no modes: an executable memory file would lose its bit.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from memory_ci.forge.rest import Client

MAX_BYTES = 256 * 1024
"""Of the new contents of one commit: above that the request is slow, or refused, and a push does better."""

MUTATION = "mutation($input: CreateCommitOnBranchInput!) { createCommitOnBranch(input: $input) { commit { oid } } }"
STALE = "STALE_DATA"
STALE_WORDS = "expected branch to point to"
"""Type and message of the error when the branch is not at `expectedHeadOid`."""


class Created(NamedTuple):
    """The id of the new commit; "" with `is_stale` when the branch had moved, or else with why it was refused."""

    oid: str
    is_stale: bool = False
    reason: str = ""


class GraphQLError(msgspec.Struct, frozen=True):
    """One error of a GraphQL reply."""

    type: str = ""
    message: str = ""


class Oid(msgspec.Struct, frozen=True):
    """A commit of a reply."""

    oid: str


class Payload(msgspec.Struct, frozen=True):
    """What the mutation gives."""

    commit: Oid | None = None


class Data(msgspec.Struct, frozen=True, rename="camel"):
    """The `data` of a reply."""

    create_commit_on_branch: Payload | None = None


class Response(msgspec.Struct, frozen=True):
    """A GraphQL reply: status 200 also for errors."""

    data: Data | None = None
    errors: tuple[GraphQLError, ...] = ()


class GitHubCommitter:
    """Makes commits on the branches of `repository` (`owner/name`) through the GraphQL API at `address`."""

    def __init__(self, client: Client, address: str, repository: str) -> None:
        self._client, self._address, self._repository = client, address, repository

    def commit(self, branch: str, expected: str, files: Mapping[str, bytes | None], message: str) -> Created:
        """One commit on top of `expected`, with files to write (None: to delete). Raises EngineError (`forge-…`)."""
        if sum(len(data) for data in files.values() if data) > MAX_BYTES:
            return Created("", reason=f"more than {MAX_BYTES // 1024} KB in one commit")
        headline, _, body = message.partition("\n")
        changes = {
            "additions": [
                {"path": path, "contents": b64encode(data).decode()} for path, data in files.items() if data is not None
            ],
            "deletions": [{"path": path} for path, data in files.items() if data is None],
        }
        asked = {
            "branch": {"repositoryNameWithOwner": self._repository, "branchName": branch},
            "expectedHeadOid": expected,
            "message": {"headline": headline, "body": body.strip("\n")},
            "fileChanges": changes,
        }
        return _read(
            self._client.write("POST", self._address, {"query": MUTATION, "variables": {"input": asked}}, Response)
        )


def _read(response: Response) -> Created:
    payload = response.data.create_commit_on_branch if response.data else None
    if payload and payload.commit and not response.errors:
        return Created(payload.commit.oid)
    first = response.errors[0] if response.errors else GraphQLError()
    is_stale = first.type == STALE or STALE_WORDS in first.message.lower()
    return Created("", is_stale, first.message or "no reason was given")
