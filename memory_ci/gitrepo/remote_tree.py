"""A repository elsewhere: which commit its default branch is at, the tree of that, and a few of its files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from memory_ci.gitrepo.network import Remote, ask_remote_git, remote_failure, run_remote_git
from memory_ci.gitrepo.repo import Repository, find_repository

ABSENT = re.compile(r"repository '?[^\n]*'? not found|Repository not found|not appear to be a git repository", re.I)
"""What git and the forges say where there is no such repository, or none for who asks."""


def find_default_tip(remote: Remote, seconds: float) -> str | None:
    """The commit of the default branch, "" in an empty repository; None where there is no such repository.

    Raises EngineError (remote-failed).
    """
    asked = ("ls-remote", "--quiet", "--", remote.name, "HEAD")
    answer = ask_remote_git(Path(os.sep), *asked, env=remote.env, seconds=seconds)
    if answer.status and ABSENT.search(answer.errors):
        return None
    if answer.status:
        raise remote_failure(asked, answer)
    return answer.output.decode("utf-8", "replace").partition("\t")[0].strip()


def fetch_tree(remote: Remote, place: Path, seconds: float) -> Repository:
    """The newest commit of the default branch in a new bare repository at `place`, without the content of files where
    the server can leave that out. Raises EngineError (remote-failed)."""
    options = ("--quiet", "--bare", "--depth=1", "--single-branch", "--no-tags", "--filter=blob:none", "--template=")
    run_remote_git(place.parent, "clone", *options, "--", remote.name, str(place), env=remote.env, seconds=seconds)
    return find_repository(place)


def fetch_files(repo: Repository, remote: Remote, oids: Iterable[str], seconds: float) -> None:
    """The content of files of that tree, in one request. Raises EngineError (remote-failed)."""
    if wanted := "".join(f"{oid}\n" for oid in sorted(set(oids))).encode():
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin")
        # Told of the commit that is here, the server would take the content of its files for known.
        noop = ("-c", "fetch.negotiationAlgorithm=noop")
        run_remote_git(
            repo.cwd, *noop, "fetch", *options, "--", "origin", input=wanted, env=remote.env, seconds=seconds
        )
