"""memory-ci sessions"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from memory_ci.cli.common import dry_run_option, echo_json, json_option, workspace
from memory_ci.rendering.sessions import render_human, render_sessions
from memory_ci.rendering.table import printable


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option("--human", "with_words", is_flag=True, help="Print what people said, with file and line.")
@click.option("--captured", "is_captured", is_flag=True, help="List the sessions that are kept in this repository.")
@click.option("--purge", "is_purge", is_flag=True, help="Delete captured sessions, which PATH then names by id.")
@click.option("--all", "is_every", is_flag=True, help="Purge all captured sessions.")
@click.option("--remote", default="", metavar="NAME", help="Purge them on this remote, too.")
@dry_run_option
@json_option
def command(
    paths: tuple[Path, ...],
    with_words: bool,
    is_captured: bool,
    is_purge: bool,
    is_every: bool,
    remote: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """List agent sessions, and what was found in each.

    Without PATH: the sessions that Claude Code, Codex, Gemini CLI, SpecStory and Aider keep of this directory.

    \b
    Example:
      memory-ci sessions
      memory-ci sessions ~/.claude/projects/-home-ada-shop --human
      memory-ci sessions --purge 79e9becd --remote origin
    """
    if is_purge:
        _purge([str(path) for path in paths], is_every, remote, dry_run, as_json)
    elif is_every or remote or dry_run:
        raise click.UsageError("--all, --remote and --dry-run go with --purge.")
    elif is_captured:
        _list_captured(as_json)
    else:
        _list(paths, with_words, as_json)


def _purge(ids: list[str], is_every: bool, remote: str, dry_run: bool, as_json: bool) -> None:
    from memory_ci.flows.sessions.purge import places_of, purge

    if bool(ids) == is_every:
        raise click.UsageError("--purge needs the ids of sessions, or --all.")
    refs = purge(workspace(), ids, every=is_every, remote=remote, dry_run=dry_run)
    if not refs:
        _say_none(places_of(remote))
    if as_json:
        echo_json({"dry_run": dry_run, "refs": refs})
        return
    for ref in refs:
        click.echo(f"{'Would delete' if dry_run else 'Deleted'} {':'.join(ref.split('/')[-2:])}")


def _say_none(places: Iterable[str]) -> None:
    """On stderr, so that nothing found is told from nothing done, and stdout stays what was found."""
    click.echo(f"No session found in {printable(', '.join(places))}", err=True)


def _list_captured(as_json: bool) -> None:
    from memory_ci.flows.sessions.purge import list_captured, places_of

    stored = list_captured(workspace())
    if not stored:
        _say_none(places_of())
    if as_json:
        echo_json(stored)
        return
    for one in stored:
        click.echo(printable(f"{one.at:%Y-%m-%d %H:%M}  {one.key}"))


def _list(paths: tuple[Path, ...], with_words: bool, as_json: bool) -> None:
    from memory_ci.flows.sessions.transcripts import list_sessions

    found = list_sessions(paths, Path.home(), Path.cwd())
    for path in found.skipped:
        click.echo(f"Skipped: {printable(path)} is no transcript of a known format", err=True)
    if not found.sessions and not found.skipped:
        _say_none(found.places)
    if as_json:
        echo_json(found)
    else:
        click.echo((render_human if with_words else render_sessions)(found.sessions), nl=False)
