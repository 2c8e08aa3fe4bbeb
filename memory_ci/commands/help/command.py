"""The command line of `memory-ci help`."""

from __future__ import annotations

import os
import sys

import click
from click.shell_completion import get_completion_class

from memory_ci.cli.plain import echo, say, terminal_width
from memory_ci.commands.root import main
from memory_ci.commands.table import COMMANDS
from memory_ci.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


@click.command("help")
@click.argument("topic", nargs=-1)
@click.pass_context
def help_command(ctx: click.Context, topic: tuple[str, ...]) -> None:
    """Show a page of the manual, what an error or a key means, or the options of a command.

    What is none of these is searched for: the sections of the manual that hold all the words are
    listed. `completion` with bash, zsh or fish prints the completion script of that shell.

    \b
    Example:
      memory-ci help                # the pages
      memory-ci help platform
      memory-ci help platform#who-commits
      memory-ci help push-refused   # the word in brackets of an error
      memory-ci help publish.mode   # a key of the configuration
      memory-ci help record
      memory-ci help protected branch
      memory-ci help completion bash >> ~/.bashrc
    """
    from memory_ci.cli.manual import find_sections, list_topics, read_topic
    from memory_ci.cli.terminal import fold_markdown, render_rows

    if topic[:1] == ("completion",) and len(topic) <= 2:
        _print_completion(*topic[1:])
        return
    topics = list_topics()
    if not topic:
        width = max(map(len, topics), default=0)
        say("".join(f"{name:<{width}}  {title}\n" for name, title in topics.items()))
        say(
            "\nAlso: the word in brackets of an error, a key, the name of a command, "
            "words to search for.",
            err=True,
        )
        return

    name = " ".join(topic).strip("[]")
    usage = ""
    command = main.get_command(ctx, name) if name in COMMANDS else None
    if command is not None:
        with click.Context(command, info_name=f"memory-ci {name}") as command_ctx:
            if name not in topics:
                echo(f"{command.get_help(command_ctx)}\n")
                return
            options = f"Options: `memory-ci {name} --help`."
            usage = f"{command.get_usage(command_ctx)}\n\n{COMMANDS[name].summary} {options}\n\n"
    try:
        text = f"{usage}{read_topic(name)}"
    except UsageError:
        sections = find_sections(name) if "#" not in name else []
        if not sections:
            raise
        say(render_rows([(f"memory-ci help {section}", title) for section, title in sections]))
        return
    width = terminal_width(sys.stdout, os.environ)
    if width:
        text = fold_markdown(text, width)
    click.echo_via_pager(text.removesuffix("\n"))  # it ends the last line itself


def _print_completion(shell: str = "") -> None:
    """Print the completion script of a shell."""
    if shell not in SHELLS:
        raise click.UsageError(f"Name the shell: {', '.join(SHELLS)}.")
    completion = get_completion_class(shell)
    if completion is None:  # pragma: no cover - click ships all three
        raise click.UsageError(f"click knows no completion for {shell}")
    echo(completion(main, {}, "memory-ci", "_MEMORY_CI_COMPLETE").source() + "\n")
