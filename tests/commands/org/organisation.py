"""An organisation for tests: real repositories with memory, and a sync of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from memory_ci.commands.org.index import open_engine
from memory_ci.commands.org.records import OrgFilters
from memory_ci.commands.org.sync import OrgReport, sync_org
from memory_ci.commands.org.targets import gather_targets
from memory_ci.records.entry import Entry
from memory_ci.store.edits import format_entry
from tests.make import make_entry
from tests.repos import RepoBuilder, make_repo
from tests.servers import Answer, HttpRequest, json_answer

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


class Organisation:
    """Repositories below one directory, a list of them, and an index."""

    def __init__(self, root: Path, environ: Mapping[str, str] | None = None) -> None:
        self.root, self.index = root, root / "index"
        self.address = str(self.index)
        self.list = root / "repositories.txt"
        self.environ = dict(environ or os.environ)
        self.repositories: dict[str, RepoBuilder] = {}

    def add(self, name: str, *entries: Entry | str) -> RepoBuilder:
        """Make a repository, or commit its whole memory anew."""
        if name not in self.repositories:
            self.repositories[name] = make_repo(self.root / name)
        made = [
            make_entry(hash_of(f"{name}{entry}"), title=entry) if isinstance(entry, str) else entry
            for entry in entries
        ]
        self.repositories[name].commit(
            "Memory", {"MEMORY.md": "\n".join(map(format_entry, made)), "code.py": "pass\n"}
        )
        return self.repositories[name]

    def write(self, *lines: str) -> None:
        self.list.write_text("".join(f"{line}\n" for line in lines))

    def sync(
        self,
        places: Sequence[Path] | None = None,
        github: Sequence[str] = (),
        gitlab: Sequence[str] = (),
        *,
        dry_run: bool = False,
    ) -> OrgReport:
        chosen = [self.list] if places is None else places
        gather = partial(gather_targets, chosen, github, gitlab, self.environ)
        return sync_org(
            self.address, gather, self.environ, NOW, jobs=2, seconds=600, dry_run=dry_run
        )

    def titles(self, *audiences: str) -> list[str]:
        """Return all titles that readers of these audiences find by the word `note`."""
        with closing(open_engine(self.address)) as engine:
            matches = engine.search(
                ["note"], OrgFilters(), audiences or ("public", "internal"), 100
            )
        return sorted(match.located.entry.title for match in matches)


def hash_of(text: str) -> int:
    return sum(ord(char) * (at + 1) for at, char in enumerate(text)) + 1


def as_remote(repository: RepoBuilder) -> str:
    """Return the address of a repository as of a remote one, which serves partial clones."""
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.git("config", "uploadpack.allowAnySHA1InWant", "true")
    return repository.path.as_uri()


class GitHubListing:
    """GitHub's list of the repositories of acme, by name; each is cloned from its `place`."""

    def __init__(self, org: Organisation) -> None:
        self.org = org
        self.listed: dict[str, dict[str, Any]] = {}
        self.is_down = False

    def put(
        self,
        number: int,
        name: str,
        visibility: str = "public",
        place: str = "",
        stamp: str | None = None,
    ) -> None:
        address = as_remote(self.org.repositories[place or name])
        self.listed[name] = {
            "id": number,
            "full_name": f"acme/{name}",
            "html_url": f"https://github.com/acme/{name}",
            "clone_url": address,
            "private": visibility != "public",
            "visibility": visibility,
            "pushed_at": stamp,
            "default_branch": "main",
        }

    def __call__(self, request: HttpRequest) -> Answer:
        if self.is_down:
            return json_answer({"message": "no"}, 500)
        if request.path == "/orgs/acme/repos":
            return json_answer(list(self.listed.values()))
        name = request.path.removeprefix("/repos/acme/")
        return (
            json_answer(self.listed[name])
            if name in self.listed
            else json_answer({"message": "Not Found"}, 404)
        )
