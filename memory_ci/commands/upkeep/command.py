"""The command lines of upkeep, which keeps memory entries in shape, and of the search index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import (
    FILE,
    change_options,
    flag,
    option,
    show,
    view_options,
)
from memory_ci.cli.plain import (
    now,
    open_committed_workspace,
    open_current_workspace,
    progress,
    say,
    today,
)
from memory_ci.commands.upkeep import shortcut
from memory_ci.findings import render_finding
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.records.plan import Step

STALE_DAYS = 90

STEPS: tuple[Step, ...] = ("promote", "retire", "compact")
"""The steps of upkeep, in the order of `record`."""


@click.command("upkeep")
@click.argument("step", type=click.Choice(STEPS), required=False)
@flag(
    "--global",
    "to_global",
    help="promote: copy what holds in any repository into the checkout of `global.path`.",
)
@flag("--stale", help=f"retire: also entries whose code has been gone for {STALE_DAYS} days.")
@change_options
def upkeep_command(
    step: Step | None,
    to_global: bool,
    stale: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Keep memory in shape: promote, retire or compact, by one commit if anything changes.

    Without a step, it prints the changes that are due in all three steps, and changes nothing.
    `record` runs all three at its end, without --global and --stale.

    promote moves entries that recur up one scope, from a team or session to the project: entries
    found in three or more sessions or merged changes. With --global, project entries that recur and
    name nothing of this repository are copied into the global memory, as a commit there; where a
    model is configured, only the entries that it accepts.

    retire ends entries of a project stage that has ended. They are no longer served to agents, and
    the next compaction removes them. Pinned entries stay.

    compact merges duplicate entries, and removes retired entries. The id of a merged entry is in
    `supersedes` of the remaining entry, and `show` still finds it; retired entries are in git's
    history: `memory-ci show ID --at REV`.

    \b
    Example:
      memory-ci upkeep
      memory-ci upkeep compact --dry-run
      memory-ci upkeep retire --stale
      memory-ci upkeep promote --global
    """
    if to_global and step != "promote":
        raise click.UsageError("--global belongs to promote.")
    if stale and step in ("promote", "compact"):
        raise click.UsageError("--stale belongs to retire.")
    if to_global:
        _promote_globally(dry_run, as_json)
        return
    steps = STEPS if step is None else (step,)
    is_dry = dry_run or step is None
    _run_steps(steps, is_dry, as_json, STALE_DAYS if stale else None)


def _run_steps(
    steps: Sequence[Step],
    dry_run: bool,
    as_json: bool,
    stale_after: int | None,
) -> None:
    """Plan upkeep steps on the tip of the branch, print the plan, and commit it unless dry.

    Args:
        steps: the steps.
        dry_run: commit nothing.
        as_json: print JSON.
        stale_after: retire also entries whose code has been gone for this number of days; None
            retires no entry for its code.
    """
    from memory_ci.api import Memory
    from memory_ci.commands.record.text import render_plan
    from memory_ci.commands.record.upkeep import plan_upkeep_alone

    current_workspace = open_committed_workspace()
    with progress("Reading memory"):
        plan = plan_upkeep_alone(current_workspace, steps, None, today(), stale_after)
    applied = None if dry_run else Memory(current_workspace).apply(plan)
    text = render_plan(plan).lstrip("\n")
    branch = plan.ref.removeprefix("refs/heads/")
    for subject in applied.subjects if applied else ():
        text += f"\nCommitted on {branch}: {subject}\n"
    show({"plan": plan, "applied": applied}, text, as_json)


def _promote_globally(dry_run: bool, as_json: bool) -> None:
    """Copy entries that hold in any repository into the global memory, one's own repository.

    If a model is configured, only the entries are copied that it agrees on.
    """
    from memory_ci.commands.record.global_promotion import promote_globally, propose_globally
    from memory_ci.commands.record.upkeep import select_agreed
    from memory_ci.memory.model import choose_model

    current_workspace = open_current_workspace()
    config = current_workspace.config
    model = choose_model(config.engine, None, os.environ)
    proposed = propose_globally(current_workspace, None, today())
    agreed_entries = select_agreed(proposed, model.engine)
    promoted_entries = promote_globally(config.global_.path, agreed_entries, now(), dry_run=dry_run)
    heading = "Nothing to promote."
    if promoted_entries:
        heading = "Would promote:" if dry_run else "Promoted:"
    lines = [heading, *(f"  {entry.id[:8]}  {entry.title}" for entry in promoted_entries)]
    show({"dry_run": dry_run, "promoted": promoted_entries}, lines, as_json)


@click.command("index")
@flag("--key", "only_key", help="Print the cache key of HEAD (or the view), and build nothing.")
@flag("--verify", help="Prove that the index is equal to the tree; exit 1 with what differs.")
@flag("--vectors", help="Embed what has no vector yet: `memory-ci help models#embedders`.")
@option("--db", type=FILE, help="This file, not the one in the git directory.")
@view_options
def index_command(
    *,
    only_key: bool,
    verify: bool,
    vectors: bool,
    db: Path | None,
    view: str | None,
    as_json: bool,
) -> None:
    """Build the search index, prove it, or print its cache key.

    The index is derived: `retrieve` opens, checks and repairs it by itself. Building it ahead saves
    the first retrieval that work. A file written with --db is the same, byte for byte, wherever its
    tree is the same.

    \b
    Example:
      memory-ci index
      memory-ci index --key
      memory-ci index --verify
      memory-ci index --db memory.db --at HEAD
    """
    from memory_ci.memory.index import index_key, verify_index

    chosen_count = [only_key, verify, vectors].count(True)
    if chosen_count > 1:
        raise click.UsageError("--key, --verify and --vectors are three things to do: choose one.")
    if vectors and (db or view):
        raise click.UsageError("--vectors are those of the work tree: give no --db and no --at.")
    if only_key:
        key = index_key(open_current_workspace(), view or "HEAD")
        show({"key": key}, [key], as_json)
    elif verify:
        with progress("Comparing the index with the files"):
            findings = verify_index(open_current_workspace(), view, db)
        show(findings, map(render_finding, findings), as_json)
        is_equal = not findings
        if is_equal and not as_json:
            say("The index equals the files.", err=True)
        raise SystemExit(0 if is_equal else 1)
    elif vectors:
        from memory_ci.memory.embedding import build_vectors

        with progress("Embedding") as advance:
            built = build_vectors(open_current_workspace(), os.environ, advance, today())
        show(built, [f"{plural(built.embedded, 'entry')} embedded by {built.model_id}"], as_json)
    else:  # Build the index.
        shortcut.run(view, db, as_json=as_json)
