"""The command lines of `memory-ci check`, `verify` and `resolve`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from memory_ci.cli.common import (
    change_options,
    flag,
    option,
    refuse_other_parameters,
    show,
    table_options,
)
from memory_ci.cli.plain import (
    echo,
    echo_json,
    now,
    open_committed_workspace,
    open_current_workspace,
    progress,
    say,
    today,
)
from memory_ci.commands.check import shortcut as check
from memory_ci.findings import printable

if TYPE_CHECKING:
    from memory_ci.commands.check.check import CheckReport
    from memory_ci.commands.check.fix import MovedEntry
    from memory_ci.memory.workspace import Workspace
    from memory_ci.store.manual_notes import AdoptedNote

ALL_CHECKS = ""  # The value of `--backtest` without a name.
NEWEST_FORMAT = 0  # The value of `--migrate` without a format.


@click.command("check")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, readable=False))
@table_options(check.OPTIONS)
@option(
    "--range",
    "range_text",
    metavar="A..B",
    help="Check these commits, too: entries whose cited code they touch, and who set a priority.",
)
@flag(
    "--fix",
    help="First make entries of text written by hand, move entries that this branch added into the "
    "inbox, and write the files in canonical form. With PATHS only the last, for these files.",
)
@option(
    "--base",
    metavar="REV",
    help="With --fix: where this branch started from; default: the default branch.",
)
@option(
    "--migrate",
    "new_format",
    type=click.IntRange(min=0),
    is_flag=False,
    flag_value=NEWEST_FORMAT,
    metavar="[FORMAT]",
    help="Bring the memory files of the branch to the newest format, or to this one, by a commit.",
)
@option(
    "--backtest",
    is_flag=False,
    flag_value=ALL_CHECKS,
    metavar="[ID|FILE]",
    help="Judge the merged changes of the past by the checks of all entries, of one, or of a file.",
)
@option(
    "--since",
    metavar="AGE|REV",
    help="With --backtest: begin so long ago (90d, 1y), or after this revision.",
)
@change_options
@click.pass_context
def check_command(
    ctx: click.Context,
    *,
    paths: tuple[Path, ...],
    staged: bool,
    range_text: str | None,
    fix: bool,
    base: str | None,
    new_format: int | None,
    backtest: str | None,
    since: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Check memory files, or correct them.

    Findings are printed as FILE:LINE. Files are read, and rewritten only by --fix and --migrate.
    Exit status 1 means that there are errors, or that --fix --dry-run would rewrite a file; with
    warnings alone it is 0.

    In canonical form keys have one order and one style of quotes, with one blank line between
    entries. Prose, comments, unknown keys and line endings stay. Parts that cannot be read are not
    changed, nor by --migrate those of a newer version: `memory-ci help upgrading`.

    --backtest prints how often the checks of entries would have failed: `memory-ci help checks`.

    \b
    Example:
      memory-ci check
      memory-ci check --staged
      memory-ci check --range origin/main..HEAD
      memory-ci check --fix --dry-run
      memory-ci check --migrate --dry-run
      memory-ci check --backtest --since 1y
    """
    from memory_ci.api import Memory
    from memory_ci.memory.workspace import STAGED

    if new_format is not None:
        refuse_other_parameters(ctx, "new_format", ("dry_run", "as_json"))
        _migrate_branch(None if new_format == NEWEST_FORMAT else new_format, dry_run, as_json)
        return
    if backtest is not None:
        refuse_other_parameters(ctx, "backtest", ("since", "as_json"))
        _backtest_checks(None if backtest == ALL_CHECKS else backtest, since, as_json)
        return
    if since is not None:
        raise click.UsageError("--since belongs to --backtest.")
    if (base or dry_run) and not fix:
        raise click.UsageError("--base belongs to --fix, --dry-run to --fix and --migrate.")
    if fix:
        # Entries of named files stay in them, so `--base` means nothing with PATHS.
        extra_parameter = "paths" if paths else "base"
        refuse_other_parameters(ctx, "fix", ("range_text", "dry_run", "as_json", extra_parameter))

    current_workspace = open_current_workspace(is_quiet=True)  # its warnings are findings here
    fixes = _fix_files(current_workspace, paths, base, dry_run) if fix else None
    checked_view = STAGED if staged else None
    report = Memory(current_workspace, checked_view).check(paths)
    if range_text is not None:
        from memory_ci.commands.check.range_findings import add_range_findings

        report = add_range_findings(current_workspace, report, range_text)
    if as_json:
        result = _to_json(report)
        if fixes is not None:
            result |= {**fixes._asdict(), "dry_run": dry_run}
        echo_json(result)
    else:
        if fixes is not None:
            _show_fixes(fixes, dry_run)
        check.show_findings(report, current_workspace, checked_view)
    would_fix = dry_run and fixes is not None and any(fixes)
    is_in_order = report.is_ok and not would_fix
    raise SystemExit(0 if is_in_order else 1)


class Fixes(NamedTuple):
    """What `check --fix` changed, or would change.

    Attributes:
        adopted: the headings of hand-written text that became entries.
        moved: the entries that were moved into the inbox.
        formatted: the paths of files that were written in canonical form.
    """

    adopted: tuple[AdoptedNote, ...]
    moved: tuple[MovedEntry, ...]
    formatted: tuple[str, ...]


def _fix_files(
    current_workspace: Workspace, paths: Sequence[Path], base: str | None, dry_run: bool
) -> Fixes:
    """Rewrite memory files of the work tree for `check --fix`.

    Files that `paths` names are written in canonical form, and not changed otherwise.
    """
    from memory_ci.commands.check.fix import adopt_by_hand, format_memory, move_to_inbox

    adopted: tuple[AdoptedNote, ...] = ()
    moved: tuple[MovedEntry, ...] = ()
    if not paths:
        adopted = adopt_by_hand(current_workspace, today(), dry_run=dry_run)
        moved = move_to_inbox(current_workspace, base, dry_run=dry_run)
    formatted = format_memory(current_workspace, paths, dry_run=dry_run).changed
    return Fixes(adopted, moved, formatted)


def _to_json(report: CheckReport) -> dict[str, Any]:
    """Return the JSON object of a report, without `checks` if none judged the change."""
    result: dict[str, Any] = {
        "ok": report.is_ok,
        "files": report.files,
        "entries": report.entries,
        "findings": report.findings,
    }
    if report.checks:
        result["checks"] = report.checks
    return result


def _show_fixes(fixes: Fixes, dry_run: bool) -> None:
    """Print what `check --fix` did, or would do, one line for each change."""
    gave, moved, formatted = "gave", "moved", "formatted"
    if dry_run:
        gave, moved, formatted = "would give", "would move", "would format"
    for note in fixes.adopted:
        fields = ", ".join(note.fields) or "a front matter"
        say(printable(f"{gave} {note.title!r} at {note.path}:{note.line} {fields}"))
    for entry in fixes.moved:
        say(f"{moved} {entry.title!r} from {entry.source} to {entry.path}")
    for path in fixes.formatted:
        say(printable(f"{formatted} {path}"))


@click.command("verify")
@option(
    "--base",
    metavar="REV",
    help="The branch to merge the change into; default: the default branch.",
)
@option("--head", metavar="REV", default="HEAD", help="The newest commit of the change.")
@flag("--fork", "is_fork", help="The change comes from a fork, which may only add to the inbox.")
@option(
    "--format",
    "output_format",
    choices=["text", "github", "json"],
    default="text",
    help="Lines, annotations of GitHub Actions, or JSON.",
)
def verify_command(base: str | None, head: str, is_fork: bool, output_format: str) -> None:
    """Check the effect of a change on memory, before it is merged.

    It reports the findings of `check`, and: removed entries that come back, entries that a merge
    dropped, files that a fork may not change, priorities that no person set, entries whose cited
    code the change touches, and an index that cannot be built. The change itself is judged by the
    checks of the base's entries: `memory-ci help checks`. Only commits are read; nothing is
    written, and no secret is needed. Exit status 1 means that there are errors.

    \b
    Example:
      memory-ci verify
      memory-ci verify --base origin/main --head HEAD --format github
    """
    from memory_ci.commands.check.verify import verify_change

    current_workspace = open_committed_workspace()
    with progress("Checking"):
        report = verify_change(current_workspace, base, head, is_fork=is_fork)
    show_report(report, output_format, current_workspace, head)
    if not report.is_ok:
        raise SystemExit(1)


def show_report(
    report: CheckReport,
    output_format: str,
    checked_workspace: Workspace | None = None,
    view: str | None = None,
) -> None:
    """Print findings on stdout, and their counts on stderr.

    Args:
        report: the findings.
        output_format: `text`, `github` (annotations of GitHub Actions), or `json`.
        checked_workspace: the workspace to read lines from.
        view: the view of the workspace that was checked.
    """
    if output_format == "json":
        echo_json(_to_json(report))
    elif output_format == "github":
        # Imported only here: they take 3 ms, and a commit waits for `check`, which does not.
        import secrets

        from memory_ci.findings import render_annotations

        echo(render_annotations(report.findings, secrets.token_hex(16)))
        check.say_counts(report)
    else:
        check.show_findings(report, checked_workspace, view)


@click.command("resolve")
@option(
    "--base",
    metavar="REV",
    help="What to merge; default: the remote's default branch, else main or master.",
)
@flag("--push", help="Push the branch afterwards.")
@change_options
def resolve_command(base: str | None, push: bool, dry_run: bool, as_json: bool) -> None:
    """Merge the base into a branch, memory files entry by entry.

    Use it for a pull request that a forge reports as conflicting: forges merge lines, and run no
    merge driver. It works without `memory-ci init --clone`. If a file still conflicts, nothing is
    merged. Fetch before: this command does not.

    \b
    Example:
      git fetch && memory-ci resolve --push
      memory-ci resolve --base origin/main
    """
    from memory_ci.commands.check.resolve import resolve_branch

    merged = resolve_branch(
        open_current_workspace(), sys.executable, None, base, push=push, dry_run=dry_run
    )
    if dry_run:
        line = f"{merged.base} merges into {merged.branch} without a conflict; nothing was changed."
    elif merged.before == merged.after:
        line = f"{merged.branch} holds {merged.base} already."
    else:
        line = (
            f"Merged {merged.base} into {merged.branch}: "
            f"{merged.before[:12]} is now {merged.after[:12]}."
        )
    lines = [line]
    if merged.pushed_to:
        lines.append(f"Pushed to {merged.pushed_to}.")
    show(merged, lines, as_json)


def _migrate_branch(new_format: int | None, dry_run: bool, as_json: bool) -> None:
    """Rewrite the memory files of a branch in a format, None for the newest, by one commit."""
    from memory_ci.commands.check.migrate import migrate

    current_workspace = open_committed_workspace()
    in_actions = "GITHUB_ACTIONS" in os.environ
    migration = migrate(
        current_workspace, None, new_format, now(), dry_run=dry_run, in_actions=in_actions
    )
    if migration.files:
        migrated = "Would migrate" if dry_run else "Migrated"
        lines = [f"{migrated} from format {migration.before} to {migration.after}:"]
        lines += [f"  {printable(path)}" for path in migration.files]
    else:
        lines = [f"Nothing to do: the files are of format {migration.after}."]
    show(migration, lines, as_json)


def _backtest_checks(name: str | None, since: str | None, as_json: bool) -> None:
    """Print how checks judge the past merged changes of the default branch.

    Args:
        name: the start of an entry's id, or a file; None for the checks of all entries.
        since: an age such as `90d`, or a revision; None for all of history.
        as_json: print JSON.
    """
    from memory_ci.commands.check.tested_rules import list_tested_checks
    from memory_ci.sessions.backtest_text import export_backtests, find_address, render_backtests
    from memory_ci.sessions.backtests import run_backtest

    current_workspace = open_current_workspace()
    rules = list_tested_checks(current_workspace, name, today())
    with progress("Judging history"):
        results = run_backtest(current_workspace, rules, since, today())
    address = find_address(current_workspace.repo)
    result = {"since": since, "checks": export_backtests(results, address)}
    show(result, render_backtests(results, address), as_json)
