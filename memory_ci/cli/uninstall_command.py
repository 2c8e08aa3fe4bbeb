"""memory-ci uninstall"""

from __future__ import annotations

import click

from memory_ci.cli.common import dry_run_option, json_option, workspace
from memory_ci.cli.install_command import show_steps


@click.command()
@dry_run_option
@json_option
def command(dry_run: bool, as_json: bool) -> None:
    """Take out what install put into this clone.

    Hooks that were there before are put back, and a hook of ours that you changed is renamed, not lost; .gitattributes,
    git's configuration and the settings of agents are as they were. If others merge with memory-ci, restore
    .gitattributes: without the driver its lines do nothing. Lines that you added for lefthook or husky are yours to
    take out.

    \b
    Example:
      memory-ci uninstall
      git restore .gitattributes
    """
    from memory_ci.flows.setup.install import uninstall

    show_steps(uninstall(workspace(), dry_run=dry_run), dry_run=dry_run, as_json=as_json)
