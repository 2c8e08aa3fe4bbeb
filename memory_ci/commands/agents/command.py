"""Commands for agents: their sessions, sessions and capture, and the server that they ask, mcp."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from memory_ci.cli.common import change_options, flag, option, show
from memory_ci.cli.plain import now, progress, say, workspace
from memory_ci.findings import printable
from memory_ci.text import plural

MAX_INPUT = 1024 * 1024  # Bytes read of a hook's input, which names a transcript and holds none.
AGENTS = (
    "claude-code",
    "codex",
    "gemini",
    "copilot",
    "opencode",
    "cursor",
    "aider",
    "openhands",
    "swe-agent",
)
"""As the readers of transcripts name them."""


@click.command("sessions")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@flag("--human", "with_words", help="Print what people said, with file and line.")
@flag("--captured", "is_captured", help="List the sessions that are kept in this repository.")
@flag("--purge", "is_purge", help="Delete captured sessions, which PATH then names by id.")
@flag("--all", "is_every", help="Purge all captured sessions.")
@option("--remote", default="", metavar="NAME", help="Purge them on this remote, too.")
@change_options
def sessions_command(
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

    Without PATH: the sessions that Claude Code, Codex, Gemini CLI, Copilot CLI, opencode, Cursor, SpecStory and Aider
    keep of this directory.

    \b
    Example:
      memory-ci sessions
      memory-ci sessions ~/.claude/projects/-home-ada-shop --human
      memory-ci sessions --purge 79e9becd --remote origin
    """
    if is_purge:
        from memory_ci.sessions.capture import places_of, purge

        if bool(paths) == is_every:
            raise click.UsageError("--purge needs the ids of sessions, or --all.")
        refs = purge(
            workspace(),
            [str(path) for path in paths],
            every=is_every,
            remote=remote,
            dry_run=dry_run,
        )
        if not refs:
            _say_none(places_of(remote))
        did = "Would delete" if dry_run else "Deleted"
        show(
            {"dry_run": dry_run, "refs": refs},
            (f"{did} {':'.join(ref.split('/')[-2:])}" for ref in refs),
            as_json,
        )
    elif is_every or remote or dry_run:
        raise click.UsageError("--all, --remote and --dry-run go with --purge.")
    elif is_captured:
        from memory_ci.sessions.capture import list_captured, places_of

        stored = list_captured(workspace())
        if not stored:
            _say_none(places_of())
        show(stored, (printable(f"{one.at:%Y-%m-%d %H:%M}  {one.key}") for one in stored), as_json)
    else:
        _list(paths, with_words, as_json)


def _say_none(places: Iterable[str]) -> None:
    """Say on stderr that nothing was found, so that stdout holds results alone."""
    say(f"No session found in {printable(', '.join(places))}", err=True)


def _list(paths: tuple[Path, ...], with_words: bool, as_json: bool) -> None:
    from memory_ci.commands.agents.text import render_human, render_sessions
    from memory_ci.sessions.transcripts import list_sessions

    with progress("Reading sessions"):
        found = list_sessions(paths, Path.home(), Path.cwd())
    for path in found.skipped:
        say(f"Skipped: {printable(path)} is no transcript of a known format", err=True)
    if not found.sessions and not found.skipped:
        _say_none(found.places)
    show(found, (render_human if with_words else render_sessions)(found.sessions), as_json)


@click.command("capture")
@click.argument("path", required=False)
@option(
    "--agent",
    choices=AGENTS,
    metavar="AGENT",
    help=f"Only sessions of this agent: {', '.join(AGENTS)}.",
)
@flag("--hook", "is_hook", help="Run by an agent: print nothing, and never fail.")
@change_options
def capture_command(
    path: str | None, agent: str | None, is_hook: bool, dry_run: bool, as_json: bool
) -> None:
    """Keep a digest of an agent's session in this repository, under refs/memory-ci/sessions/.

    PATH is a transcript; `-` takes the JSON that agents give their hooks on standard input; without it, the newest
    transcript of this project is taken. Secrets are masked, what tools answered is left out, and nothing of it enters
    the work tree. A session captured twice is stored once.

    \b
    Example:
      memory-ci capture
      memory-ci capture ~/.claude/projects/-home-ada-shop/79e9becd.jsonl
    """
    if not is_hook:
        _capture(path, agent or "", dry_run, as_json)
        return
    try:
        _capture(path, agent or "", dry_run, as_json=False, is_silent=True)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here, the agent's session has to end well
        say(f"memory-ci: session not captured: {printable(str(error))}", err=True)


def _capture(
    path: str | None, agent: str, dry_run: bool, as_json: bool, is_silent: bool = False
) -> None:
    from memory_ci.sessions.capture import capture, find_newest, parse_hook_input

    cwd = ""
    if path == "-":
        file, cwd = parse_hook_input(sys.stdin.buffer.read(MAX_INPUT))
    where = workspace()
    if path != "-":
        file = Path(path) if path else find_newest(where, Path.home(), agent)
    captured = capture(where, file, now(), agent=agent, cwd=cwd, dry_run=dry_run)
    lines = []
    for one in captured:
        did = "Would keep" if dry_run else "Kept" if one.is_new else "Known already:"
        counted = f"{plural(one.human_turns, 'human turn')}, {plural(one.bytes, 'byte')}"
        told = f"{did} {one.session}: {counted}{', with the transcript' if one.has_full else ''}"
        expired = f"Not kept: {one.session} is older than sessions.keep_days allows"
        lines += [expired] if one.is_expired else [told, one.ref]
    if not is_silent:
        show({"dry_run": dry_run, "captured": captured}, map(printable, lines), as_json)
