"""memory-ci capture"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from memory_ci.cli.common import dry_run_option, echo_json, json_option, now, workspace
from memory_ci.rendering.table import printable
from memory_ci.text import plural

MAX_INPUT = 1024 * 1024
"""Bytes read of a hook's input, which names a transcript and holds none."""

AGENTS = ("claude-code", "codex", "gemini", "cursor", "aider", "openhands", "swe-agent")
"""As the readers of transcripts name them."""


@click.command()
@click.argument("path", required=False)
@click.option("--agent", type=click.Choice(AGENTS), help="Only sessions of this agent.")
@click.option("--hook", "is_hook", is_flag=True, help="Run by an agent: print nothing, and never fail.")
@dry_run_option
@json_option
def command(path: str | None, agent: str | None, is_hook: bool, dry_run: bool, as_json: bool) -> None:
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
        click.echo(f"memory-ci: session not captured: {printable(str(error))}", err=True)


def _capture(path: str | None, agent: str, dry_run: bool, as_json: bool, is_silent: bool = False) -> None:
    from memory_ci.flows.sessions.capture import capture, find_newest, parse_hook_input

    cwd = ""
    if path == "-":
        file, cwd = parse_hook_input(sys.stdin.buffer.read(MAX_INPUT))
    where = workspace()
    if path != "-":
        file = Path(path) if path else find_newest(where, Path.home(), agent)
    captured = capture(where, file, now(), agent=agent, cwd=cwd, dry_run=dry_run)
    if is_silent:
        return
    if as_json:
        echo_json({"dry_run": dry_run, "captured": captured})
        return
    for one in captured:
        if one.is_expired:
            click.echo(f"Not kept: {printable(one.session)} is older than sessions.keep_days allows")
            continue
        did = "Would keep" if dry_run else "Kept" if one.is_new else "Known already:"
        full = ", with the transcript" if one.has_full else ""
        turns = plural(one.human_turns, "human turn")
        click.echo(f"{did} {printable(one.session)}: {turns}, {plural(one.bytes, 'byte')}{full}\n{one.ref}")
