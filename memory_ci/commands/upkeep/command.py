"""Commands for the upkeep of memory: compact, promote, retire, index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_ci.cli.common import (
    FILE,
    branch_option,
    change_options,
    engine_option,
    flag,
    option,
    show,
    view_options,
)
from memory_ci.cli.plain import committed_workspace, now, progress, today, workspace
from memory_ci.findings import render_finding
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.memory.index import IndexReport
    from memory_ci.records.config import EngineName
    from memory_ci.records.plan import Step
    from memory_ci.records.retrieval import IndexStats


def upkeep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that compact, promote and retire share."""
    return branch_option(change_options(command))


def run_upkeep(
    step: Step, branch: str | None, dry_run: bool, as_json: bool, stale_after: int | None = None
) -> None:
    """Run one step on the tip of a branch, and commit it if it changes something.

    Args:
        step: the step.
        branch: the branch; None for the one that is checked out.
        dry_run: commit nothing.
        as_json: print JSON.
        stale_after: for `retire`, how many days code must have been gone; None not to look at code.
    """
    from memory_ci.commands.record.text import render_plan
    from memory_ci.commands.record.upkeep import plan_upkeep_alone
    from memory_ci.memory.apply import apply_plan

    repository = committed_workspace()
    with progress("Reading memory"):
        plan = plan_upkeep_alone(repository, (step,), branch, today(), stale_after)
    applied = None
    if not dry_run:
        applied = apply_plan(repository, plan, now(), in_actions="GITHUB_ACTIONS" in os.environ)

    text = render_plan(plan).lstrip("\n")
    if applied is not None:
        branch_name = plan.ref.removeprefix("refs/heads/")
        for subject in applied.subjects:
            text += f"\nCommitted on {branch_name}: {subject}\n"
    show({"plan": plan, "applied": applied}, text, as_json)


@click.command("compact")
@upkeep_options
def compact_command(branch: str | None, dry_run: bool, as_json: bool) -> None:
    """Unite entries that say the same, and take retired ones out.

    One commit, if anything changes. An id that is merged away stands in `supersedes` of the entry
    that stays, and is still found by `show` and `log`; what was retired is in git's history:
    `memory-ci show ID --at REV`. `record` does the same at its end.

    \b
    Example:
      memory-ci compact --dry-run
    """
    run_upkeep("compact", branch, dry_run, as_json)


@click.command("promote")
@flag(
    "--global",
    "to_global",
    help="Copy what holds in any repository into the checkout of `global.path`.",
)
@engine_option
@upkeep_options
def promote_command(
    to_global: bool, engine: EngineName | None, branch: str | None, dry_run: bool, as_json: bool
) -> None:
    """Move entries that recur up one scope: from a team or session to the project.

    An entry recurs when three or more sessions or merged changes brought it. One commit, if
    anything changes; `record` does the same at its end. With --global, project entries that recur
    and name nothing of this repository are copied into the global memory, as a commit there; where
    a model is configured, only those that it agrees on.

    \b
    Example:
      memory-ci promote --dry-run
      memory-ci promote --global
    """
    if not to_global:
        run_upkeep("promote", branch, dry_run, as_json)
        return
    from memory_ci.commands.record.upkeep import agreed_by_model, promote_globally, propose_globally
    from memory_ci.memory.model import choose_model

    repository = workspace()
    config = repository.config
    model = choose_model(config.engine, engine, os.environ)
    proposed = agreed_by_model(propose_globally(repository, branch, today()), model.engine)
    promoted = promote_globally(config.global_.path, proposed, now(), dry_run=dry_run)
    lines = ["Nothing to promote."]
    if promoted:
        lines = ["Would promote:" if dry_run else "Promoted:"]
        lines += [f"  {entry.id[:8]}  {entry.title}" for entry in promoted]
    show({"dry_run": dry_run, "promoted": promoted}, lines, as_json)


@click.command("retire")
@flag("--stale", help="Also retire entries whose code has been gone for long.")
@option(
    "--after",
    type=click.IntRange(min=0),
    default=90,
    metavar="DAYS",
    help="With --stale: how long their code must have been gone.",
)
@upkeep_options
def retire_command(
    stale: bool, after: int, branch: str | None, dry_run: bool, as_json: bool
) -> None:
    """Retire entries of a project stage that has ended, or whose code is gone.

    A retired entry is no longer given to agents, and the next compaction takes it out. Pinned
    entries stay.

    \b
    Example:
      memory-ci retire --dry-run
      memory-ci retire --stale --after 180
    """
    run_upkeep("retire", branch, dry_run, as_json, after if stale else None)


@click.command("index")
@flag("--key", help="Print the cache key of HEAD (or the view), and build nothing.")
@flag("--verify", help="Prove that the index is equal to the tree; exit 1 with what differs.")
@flag("--stats", help="Count what the index of the work tree holds.")
@flag("--vectors", help="Embed what has no vector yet: `memory-ci help embedders`.")
@option("--db", type=FILE, help="This file, not the one in the git directory.")
@flag("--staged", help="Look at what the next commit would hold.")
@view_options
def index_command(
    key: bool,
    verify: bool,
    stats: bool,
    vectors: bool,
    db: Path | None,
    staged: bool,
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
    from memory_ci.memory.index import build_index, index_key, index_stats, verify_index
    from memory_ci.memory.workspace import STAGED

    if key + verify + stats + vectors > 1:
        raise click.UsageError(
            "--key, --verify, --stats and --vectors are four things to do: choose one."
        )
    if staged and view:
        raise click.UsageError("--staged and --at are two views: choose one.")
    if (stats or vectors) and (db or staged or view):
        raise click.UsageError(
            "--stats and --vectors are about the index of the work tree: give no --db and no view."
        )
    view = STAGED if staged else view
    if key:
        cache_key = index_key(workspace(), view or "HEAD")
        show({"key": cache_key}, [cache_key], as_json)
    elif verify:
        with progress("Comparing the index with the files"):
            findings = verify_index(workspace(), view, db)
        show(findings, [render_finding(finding) for finding in findings], as_json)
        raise SystemExit(1 if findings else 0)
    elif vectors:
        from memory_ci.memory.embedding import build_vectors

        with progress("Embedding") as advance:
            built = build_vectors(workspace(), os.environ, advance, today())
        show(built, [f"{plural(built.embedded, 'entry')} embedded by {built.model_id}"], as_json)
    elif stats:
        counts = index_stats(workspace())
        show(counts, _list_counts(counts), as_json)
    else:
        with progress("Building the index"):
            report = build_index(workspace(), view, db)
        show(report, [_describe_build(report), report.path, report.key], as_json)


def _describe_build(report: IndexReport) -> str:
    outcome = "updated" if report.files_read else "up to date"
    if report.was_rebuilt:
        outcome = "rebuilt"
    entries = plural(report.entries, "entry")
    files = plural(report.files, "file")
    return f"{outcome}: {entries} of {files}, {report.files_read} read"


def _list_counts(counts: IndexStats) -> Iterator[str]:
    """Yield one line for each group of counts."""
    entries = plural(counts.entries, "entry")
    files = plural(counts.files, "file")
    yield f"{entries} of {files}, {counts.size} bytes"
    groups = {
        "scopes": counts.scopes,
        "types": counts.types,
        "statuses": counts.statuses,
        "vectors": counts.vectors,
    }
    for name, group in groups.items():
        group_counts = ", ".join(f"{label} {count}" for label, count in group.items())
        yield f"{name}: {group_counts or 'none'}"
    yield f"terms: {counts.terms}, in {counts.occurrences} places"
    yield f"schema {counts.schema}, SQLite {counts.sqlite}"
