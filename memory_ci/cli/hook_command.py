"""memory-ci hook: what git calls, hooks and the merge driver. Hidden; a hook never stands in the way of a commit."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click

from memory_ci.cli.common import workspace
from memory_ci.errors import MemoryCIError
from memory_ci.text import plural


@click.group(hidden=True)
def command() -> None:
    """Run a git hook's work.

    \b
    Example:
      memory-ci hook prepare-commit-msg .git/COMMIT_EDITMSG
    """


@command.command("prepare-commit-msg", hidden=True)
@click.argument("message_file", type=click.Path(path_type=Path))
@click.argument("rest", nargs=-1)
def prepare_commit_msg(message_file: Path, rest: tuple[str, ...]) -> None:
    """Add trailers: what the work since the last commit was given, and the agent's session that makes the commit.

    \b
    Example:
      memory-ci hook prepare-commit-msg .git/COMMIT_EDITMSG
    """
    from memory_ci.flows.injected import add_retrieved_trailer
    from memory_ci.flows.underway import add_session_trailer

    try:
        where = workspace()
        add_retrieved_trailer(where, message_file)
        add_session_trailer(where, message_file, os.environ)
    except (MemoryCIError, OSError) as error:
        click.echo(f"memory-ci: no trailer added: {error}", err=True)


@command.command("pre-push", hidden=True)
@click.argument("remote", required=False, envvar="PRE_COMMIT_REMOTE_NAME", default="origin")
@click.argument("rest", nargs=-1)
def pre_push(remote: str, rest: tuple[str, ...]) -> None:
    """Send the captured sessions that a remote lacks, if `sessions.push` is on. pre-commit names it by a variable.

    \b
    Example:
      memory-ci hook pre-push origin git@example.com:shop.git
    """
    from memory_ci.flows.underway import push_sessions

    try:
        if sent := push_sessions(workspace(), remote):
            click.echo(f"memory-ci: {plural(sent, 'session')} sent to {remote} (refs/memory-ci/sessions/)", err=True)
    except (MemoryCIError, OSError) as error:
        click.echo(f"memory-ci: sessions not pushed: {error}", err=True)


@command.command("sync", hidden=True)
@click.argument("rest", nargs=-1)
def sync(rest: tuple[str, ...]) -> None:
    """Bring the index up to the work tree after git moved it. Says nothing and never fails: retrieval can do the same.

    \b
    Example:
      memory-ci hook sync
    """
    from memory_ci.flows.index import build_index

    with suppress(MemoryCIError, OSError):
        build_index(workspace(), None)


@command.command("merge", hidden=True)
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("ours", type=click.Path(path_type=Path))
@click.argument("theirs", type=click.Path(path_type=Path))
@click.argument("path")
def merge(base: Path, ours: Path, theirs: Path, path: str) -> None:
    """Merge a memory file entry by entry into OURS, as git asks its merge drivers to; exit status 1 on a conflict.

    \b
    Example:
      memory-ci hook merge %O %A %B %P
    """
    from memory_ci.flows.merge import merge_files

    try:
        conflicts = merge_files(base, ours, theirs)
    except (MemoryCIError, OSError) as error:
        click.echo(f"memory-ci: {path} is not merged, it stays as ours: {error}", err=True)
        raise SystemExit(1) from error
    if conflicts:
        click.echo(f"memory-ci: {plural(conflicts, 'conflict')} left in {path}", err=True)
    raise SystemExit(1 if conflicts else 0)
