"""The command line of `memory-ci sessions`: list, capture and purge agent sessions."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import change_options, flag, option, refuse_other_parameters, show
from memory_ci.cli.plain import now, open_current_workspace, progress, say, shorten_path
from memory_ci.findings import printable
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.sessions.capture import Captured

MAX_INPUT = 1024 * 1024  # bytes of a hook's input, which only names a transcript


@click.command("sessions")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@flag("--human", "with_words", help="Print people's messages, with file and line.")
@flag("--captured", "is_captured", help="List the sessions that are stored in this repository.")
@flag("--purge", "is_purge", help="Delete captured sessions, which PATH names by id, or all.")
@option("--remote", default="", metavar="NAME", help="Purge them on this remote, too.")
@flag("--capture", "is_capture", help="Keep a digest of a session in this repository.")
@flag("--hook", "is_hook", help="Captured by an agent's hook: print nothing, and never fail.")
@change_options
@click.pass_context
def sessions_command(
    ctx: click.Context,
    *,
    paths: tuple[Path, ...],
    with_words: bool,
    is_captured: bool,
    is_purge: bool,
    remote: str,
    is_capture: bool,
    is_hook: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """List agent sessions and their contents in figures, or store a digest of one.

    Without PATH, it lists the sessions of this directory that Claude Code, Codex, Gemini CLI,
    Copilot CLI, opencode, Cursor, SpecStory and Aider have stored.

    --capture stores a digest of one session under refs/memory-ci/sessions/. PATH is then a
    transcript; `-` takes the JSON that agents give their hooks on standard input; without it, the
    newest transcript of this project is taken. Secrets are masked, the output of tools is left out,
    and no file of the work tree changes. A session captured twice is stored once.

    \b
    Example:
      memory-ci sessions
      memory-ci sessions ~/.claude/projects/-home-ada-shop --human
      memory-ci sessions --capture ~/.claude/projects/-shop/79e9becd.jsonl
      memory-ci sessions --purge 79e9becd --remote origin
    """
    if is_hook and not is_capture:
        raise click.UsageError("--hook goes with --capture.")
    if is_capture:
        refuse_other_parameters(ctx, "is_capture", ("paths", "is_hook", "dry_run", "as_json"))
        if len(paths) > 1:
            raise click.UsageError("--capture takes one PATH.")
        path = str(paths[0]) if paths else None
        _capture_session(path, is_hook, dry_run, as_json)
    elif is_purge:
        ids = [str(path) for path in paths]
        if not ids:
            raise click.UsageError('--purge needs the ids of sessions, or "all".')
        is_every = ids == ["all"]
        _purge_sessions([] if is_every else ids, is_every, remote, dry_run, as_json)
    elif remote or dry_run:
        raise click.UsageError("--remote goes with --purge, --dry-run with that or --capture.")
    elif is_captured:
        _print_captured(as_json)
    else:
        _print_sessions(paths, with_words, as_json)


def _say_no_session(searched_places: Iterable[str]) -> None:
    """Print on stderr that no session was found; stdout holds results alone."""
    names = [
        printable(shorten_path(searched_place, Path.cwd())) for searched_place in searched_places
    ]
    say(f"No session found in {', '.join(names)}", err=True)


def _purge_sessions(
    ids: list[str], is_every: bool, remote: str, dry_run: bool, as_json: bool
) -> None:
    """Delete captured sessions, and print their names.

    Args:
        ids: the ids of the sessions; none if all are deleted.
        is_every: delete all sessions.
        remote: the remote on which they are deleted as well, "" for none.
        dry_run: delete nothing.
        as_json: print JSON.
    """
    from memory_ci.sessions.capture import describe_places, purge_sessions

    refs = purge_sessions(
        open_current_workspace(), ids, every=is_every, remote=remote, dry_run=dry_run
    )
    if not refs:
        _say_no_session(describe_places(remote))
    verb = "Would delete" if dry_run else "Deleted"
    # The ref `refs/memory-ci/sessions/codex/0198c1f2` has the name `codex:0198c1f2`.
    names = [":".join(ref.split("/")[-2:]) for ref in refs]
    show({"dry_run": dry_run, "refs": refs}, [f"{verb} {name}" for name in names], as_json)


def _print_captured(as_json: bool) -> None:
    """Print the captured sessions of this repository."""
    from memory_ci.sessions.capture import describe_places, list_captured

    stored_sessions = list_captured(open_current_workspace())
    if not stored_sessions:
        _say_no_session(describe_places())
    lines = [
        printable(f"{session.ended_at:%Y-%m-%d %H:%M}  {session.key}")
        for session in stored_sessions
    ]
    show(stored_sessions, lines, as_json)


def _print_sessions(paths: tuple[Path, ...], with_words: bool, as_json: bool) -> None:
    """Print the sessions of some transcripts, or of this directory."""
    from memory_ci.commands.agents.text import render_human, render_sessions
    from memory_ci.sessions.transcripts import list_sessions

    with progress("Reading sessions"):
        listing = list_sessions(paths, Path.home(), Path.cwd())
    for path in listing.skipped:
        say(f"Skipped: {printable(path)} is no transcript of a known format", err=True)
    if not listing.sessions and not listing.skipped:
        _say_no_session(listing.places)
    render = render_human if with_words else render_sessions
    show(listing, render(listing.sessions), as_json)


def _capture_session(path: str | None, is_hook: bool, dry_run: bool, as_json: bool) -> None:
    """Capture a transcript; started by an agent's hook, print nothing and never fail."""
    if not is_hook:
        _capture_transcript(path, dry_run, as_json)
        return
    try:
        _capture_transcript(path, dry_run, as_json=False, is_silent=True)
    except Exception as error:  # noqa: BLE001 - the session of the agent has to end well
        say(f"memory-ci: session not captured: {printable(str(error))}", err=True)


def _capture_transcript(
    path: str | None, dry_run: bool, as_json: bool, is_silent: bool = False
) -> None:
    """Store a digest of a transcript, and print the session's id, size and ref.

    Args:
        path: the transcript, `-` for a hook's input that names it, None for the newest one.
        dry_run: store nothing.
        as_json: print JSON.
        is_silent: print nothing.
    """
    from memory_ci.sessions.capture import capture, find_newest_transcript, parse_hook_input

    session_directory = ""
    transcript = Path(path) if path else None
    if path == "-":
        transcript, session_directory = parse_hook_input(sys.stdin.buffer.read(MAX_INPUT))
    workspace = open_current_workspace()
    if transcript is None:
        transcript = find_newest_transcript(workspace, Path.home())
    sessions = capture(workspace, transcript, now(), cwd=session_directory, dry_run=dry_run)
    if is_silent:
        return
    lines: list[str] = []
    for session in sessions:
        lines += _describe_captured(session, dry_run)
    result = {"dry_run": dry_run, "captured": sessions}
    show(result, [printable(line) for line in lines], as_json)


def _describe_captured(session: Captured, dry_run: bool) -> list[str]:
    """Return the lines that report a stored session: the result with id and size, and the ref.

    With `--dry-run` they describe the session that would be stored.
    """
    if session.is_expired:
        return [f"Not kept: {session.session} is older than sessions.keep_days allows"]
    result = "Kept" if session.is_new else "Known already:"
    if dry_run:
        result = "Would keep"
    size = f"{plural(session.human_turns, 'human turn')}, {plural(session.bytes, 'byte')}"
    return [f"{result} {session.session}: {size}", session.ref]
