"""memory-ci resolve"""

from __future__ import annotations

import sys

import click

from memory_ci.cli.common import dry_run_option, echo_json, json_option, workspace


@click.command()
@click.option("--branch", metavar="NAME", help="The branch to merge into; default: the one checked out.")
@click.option("--base", metavar="REV", help="What to merge; default: the remote's default branch, else main or master.")
@click.option("--push", is_flag=True, help="Push the branch afterwards.")
@dry_run_option
@json_option
def command(branch: str | None, base: str | None, push: bool, dry_run: bool, as_json: bool) -> None:
    """Merge the base into a branch, memory files entry by entry.

    For a pull request that a forge reports as conflicting: forges merge lines, and know no merge driver. It works
    without `memory-ci install`. Where anything conflicts, nothing is merged. Fetch first; this does not.

    \b
    Example:
      git fetch && memory-ci resolve --push
      memory-ci resolve --branch feat/retry --base origin/main
    """
    from memory_ci.flows.guard.resolve import resolve_branch

    done = resolve_branch(workspace(), sys.executable, branch, base, push=push, dry_run=dry_run)
    if as_json:
        echo_json(done)
    elif dry_run:
        click.echo(f"{done.base} merges into {done.branch} without a conflict; nothing was changed.")
    elif done.before == done.after:
        click.echo(f"{done.branch} holds {done.base} already.")
    else:
        click.echo(f"Merged {done.base} into {done.branch}: {done.before[:12]} is now {done.after[:12]}.")
    if done.pushed_to and not as_json:
        click.echo(f"Pushed to {done.pushed_to}.")
