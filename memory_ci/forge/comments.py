"""Comments: what memory-ci says on a pull or merge request, one comment that it brings up to date."""

from __future__ import annotations

from typing import Protocol, TypeVar
from urllib.parse import quote

import msgspec

from memory_ci.forge.requests import require
from memory_ci.forge.rest import Client, Listing

T = TypeVar("T")

TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Whose comments may be ours, where a person's token writes them (docs.github.com, `author_association`)."""


class Comment(msgspec.Struct, frozen=True):
    """A comment of ours."""

    id: int
    body: str


class Comments(Protocol):
    """The comments of a repository's requests. All raise EngineError (forge-refused, `forge-…`)."""

    def find(self, number: int, marker: str) -> Comment | None:
        """The first comment on a request that begins with `marker`, and that no stranger can have written."""
        ...

    def add(self, number: int, body: str) -> None:
        """A new comment."""
        ...

    def update(self, number: int, comment: Comment, body: str) -> None:
        """Give a comment another text."""
        ...


class CommentAuthor(msgspec.Struct, frozen=True):
    """Who wrote a comment: `type` on GitHub, `id` on GitLab."""

    id: int = 0
    type: str = ""


class GitHubComment(msgspec.Struct, frozen=True):
    """What GitHub says of a comment (docs.github.com, "REST API endpoints for issue comments")."""

    id: int
    body: str | None = None
    user: CommentAuthor | None = None
    author_association: str = ""

    @property
    def is_trusted(self) -> bool:
        """Whether an app of the repository or one of its people wrote it."""
        return (self.user is not None and self.user.type == "Bot") or self.author_association in TRUSTED


class GitHubComments:
    """Comments on the pull requests of `repository` (`owner/name`)."""

    def __init__(self, client: Client, repository: str) -> None:
        self._client, self._path = client, f"/repos/{quote(repository)}/issues"

    def find(self, number: int, marker: str) -> Comment | None:
        """As in Comments."""
        listed = _whole(self._client.list_all(f"{self._path}/{number}/comments", GitHubComment))
        own = (one for one in listed if one.is_trusted and (one.body or "").startswith(marker))
        return next((Comment(one.id, one.body or "") for one in own), None)

    def add(self, number: int, body: str) -> None:
        """As in Comments."""
        self._client.write("POST", f"{self._path}/{number}/comments", {"body": body}, GitHubComment)

    def update(self, number: int, comment: Comment, body: str) -> None:
        """As in Comments."""
        self._client.write("PATCH", f"{self._path}/comments/{comment.id}", {"body": body}, GitHubComment)


class GitLabNote(msgspec.Struct, frozen=True):
    """What GitLab says of a comment (docs.gitlab.com, "Notes API")."""

    id: int
    body: str = ""
    author: CommentAuthor | None = None


class GitLabComments:
    """Comments on the merge requests of `project`, its number or its path."""

    def __init__(self, client: Client, project: str) -> None:
        self._client, self._path = client, f"/projects/{quote(project, safe='')}/merge_requests"

    def find(self, number: int, marker: str) -> Comment | None:
        """As in Comments; who asks is known, and alone can have written it."""
        listed = _whole(self._client.list_all(f"{self._path}/{number}/notes", GitLabNote))
        marked = [one for one in listed if one.body.startswith(marker)]
        me = self._client.find("/user", CommentAuthor) if marked else None
        own = (one for one in marked if me is not None and one.author is not None and one.author.id == me.id)
        return next((Comment(one.id, one.body) for one in own), None)

    def add(self, number: int, body: str) -> None:
        """As in Comments."""
        self._client.write("POST", f"{self._path}/{number}/notes", {"body": body}, GitLabNote)

    def update(self, number: int, comment: Comment, body: str) -> None:
        """As in Comments."""
        self._client.write("PUT", f"{self._path}/{number}/notes/{comment.id}", {"body": body}, GitLabNote)


def _whole(listing: Listing[T]) -> tuple[T, ...]:
    """All items. Raises EngineError where some could not be read: ours may be among them, and it is to be one."""
    return require(listing._replace(items=()) if listing.problem else listing).items
