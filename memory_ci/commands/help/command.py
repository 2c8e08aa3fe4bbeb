"""The command line of `memory-ci help`, which shows pages of the manual."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

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
    """Show a page of the manual, the meaning of an error or a key, or the options of a command.

    Other words are searched for: the sections of the manual that contain all of them are listed.
    `completion` with bash, zsh or fish prints the completion script of that shell.

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
    from memory_ci.cli.manual import list_topics

    is_about_completion = len(topic) <= 2 and topic[:1] == ("completion",)  # and a shell
    if is_about_completion:
        _print_completion(*topic[1:])
        return
    pages = list_topics()
    if not topic:
        _print_page_list(pages)
        return

    name = " ".join(topic).strip("[]")  # as in `[push-refused]`, the end of an error's message
    command = main.get_command(ctx, name) if name in COMMANDS else None
    if command is None:
        _print_topic_or_sections(name)
        return
    with click.Context(command, info_name=f"memory-ci {name}") as command_ctx:
        if name not in pages:
            echo(f"{command.get_help(command_ctx)}\n")
            return
        # A page of the manual has the name of the command, too. It explains more than the options,
        # so it is printed, and the usage of the command before it.
        usage = command.get_usage(command_ctx)
    options = f"Options: `memory-ci {name} --help`."
    _print_topic_or_sections(name, f"{usage}\n\n{COMMANDS[name].summary} {options}\n\n")


def _print_page_list(pages: Mapping[str, str]) -> None:
    """Print the names and titles of the pages of the manual, and what else `help` explains.

    That is the meaning of an error (each message ends with a word in brackets), a key of the
    configuration, and the options of a command. Other words are searched for.
    """
    width = max(map(len, pages), default=0)
    say("".join(f"{name:<{width}}  {title}\n" for name, title in pages.items()))
    say(
        "\nAlso: the word in brackets of an error, a key, the name of a command, "
        "words to search for.",
        err=True,
    )


def _print_topic_or_sections(name: str, usage: str = "") -> None:
    """Print a page or section of the manual in a pager, or the sections that contain words.

    Args:
        name: the name of a page, an error or a key, or words to search for.
        usage: a text to print before the page.

    Raises:
        UsageError: nothing has this name, and no section has all the words.
    """
    from memory_ci.cli.manual import find_sections, read_topic
    from memory_ci.cli.terminal import fold_markdown, render_rows

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
    """Print the completion script of a shell. Raises click.UsageError for an unknown shell."""
    if shell not in SHELLS:
        raise click.UsageError(f"Name the shell: {', '.join(SHELLS)}.")
    completion = get_completion_class(shell)
    if completion is None:  # pragma: no cover - click ships all three
        raise click.UsageError(f"click knows no completion for {shell}")
    echo(completion(main, {}, "memory-ci", "_MEMORY_CI_COMPLETE").source() + "\n")
