"""memory-ci completion"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a shell completion script.

    \b
    Example:
      memory-ci completion bash > ~/.local/share/bash-completion/completions/memory-ci
    """
    from memory_ci.cli.main import main

    completion = get_completion_class(shell)
    if completion is None:  # pragma: no cover - click ships all three
        raise click.UsageError(f"click knows no completion for {shell}")
    click.echo(completion(main, {}, "memory-ci", "_MEMORY_CI_COMPLETE").source())
