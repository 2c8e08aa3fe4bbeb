"""The root command; a command is imported only when it is called."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from memory_ci import __version__
from memory_ci.cli.plain import (
    COLORS,
    choose_color,
    is_colored_for,
    run_reported,
    say,
    terminal_width,
)
from memory_ci.commands import former
from memory_ci.commands.table import COMMANDS, group_commands

ARGUMENTS_KEY = "memory_ci.arguments"  # Key of the context for the command and its arguments.


class HelpFormatter(click.HelpFormatter):
    """click's formatter of `--help`, with colours where text for people has colours."""

    def getvalue(self) -> str:
        """Return the formatted help text, in colour if standard output is a terminal."""
        help_text = super().getvalue()
        if not is_colored_for(sys.stdout, os.environ):
            return help_text
        from memory_ci.cli.terminal import paint_help

        return paint_help(help_text)


class HelpContext(click.Context):
    """A context whose help is in colour where text for people is."""

    formatter_class = HelpFormatter

    def __init__(self, *args: Any, **settings: Any) -> None:  # noqa: ANN401 - click's
        """Create the context, and let click print colours where we do."""
        super().__init__(*args, **settings)
        self.color = is_colored_for(sys.stdout, os.environ)


def _color_help(command: click.Command) -> None:
    """Let the help of a command and of its sub-commands be in colour."""
    command.context_class = HelpContext
    if isinstance(command, click.Group):
        for part in command.commands.values():
            _color_help(part)


class LazyGroup(click.Group):
    """A group that imports the module of a command when the command is called."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """List the commands that `--help` shows."""
        return [name for name, command in COMMANDS.items() if command.group]

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's
        cmd_name: str,
    ) -> click.Command | None:
        """Import a command; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"memory_ci.commands.{COMMANDS[cmd_name].module}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        _color_help(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; the error for an unknown one names similar ones.

        Version 0.2 had other names of commands, which version 0.3 translates. Options that 0.3
        removed are dropped with a notice.
        """
        is_former_hook = args[0] == "retrieve" and "--hook" in args
        if args[0] in former.COMMANDS or is_former_hook:
            args = _translate_former(ctx, args)
        args, notices = former.drop_ignored_options(args)
        for notice in notices:
            say(f"{notice}; it is ignored until 0.4", err=True)
        ctx.meta[ARGUMENTS_KEY] = args
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            similar_names = get_close_matches(args[0], self.list_commands(ctx))
            if not similar_names:
                raise
            message = f"{error.message} Did you mean {' or '.join(similar_names)}?"
            raise click.UsageError(message, ctx) from error

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run the command.

        At a terminal, the lines of the error of a wrong command line are folded to its width.
        """
        try:
            return self._invoke_explained(ctx)
        except click.UsageError as error:
            width = terminal_width(sys.stderr, os.environ)
            # A group that is called without a command shows its help: click raises a subclass of
            # the error for that, which prints itself.
            prints_itself = type(error).show is not click.UsageError.show
            if not width or prints_itself:
                raise
            from memory_ci.cli.terminal import fold

            lead = "Error: "  # click prints it before the message
            text = fold(f"{lead}{error.format_message()}", width)
            message = text.removeprefix(lead).removesuffix("\n")
            raise click.UsageError(message, error.ctx) from error

    def _invoke_explained(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run the command; explain options that go before it, and options that were removed."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.ctx is None:
                raise
            name = _command_name(error.ctx)
            advice = former.REMOVED_OPTIONS.get(name, {}).get(error.option_name)
            if advice is not None:
                message = f"{error.option_name} was removed: {advice}."
                raise click.UsageError(message, error.ctx) from error
            if error.option_name != "--color":
                raise
            arguments = " ".join(ctx.meta[ARGUMENTS_KEY])
            colors = (color for color in COLORS if re.search(rf"--color[ =]{color}\b", arguments))
            color = next(colors, "WHEN")
            path = error.ctx.command_path.replace("memory-ci", f"memory-ci --color {color}", 1)
            message = f"{error.message} It goes before the command: `{path}`."
            raise click.UsageError(message, error.ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview of commands by group, without importing any, then the options."""
        width = max(map(len, COMMANDS))
        for group, names in group_commands().items():
            rows: list[tuple[str, str]] = []
            for name in names:
                command = COMMANDS[name]
                rows.append((name.ljust(width), command.summary))
                if command.example:
                    rows.append(("", f"$ memory-ci {command.example}"))
            with formatter.section(group):
                formatter.write_dl(rows)
        click.Command.format_options(self, ctx, formatter)

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:  # noqa: ANN401 - click's
        """Run the command line; errors that a user can act on are printed without a traceback."""
        return run_reported(super().main, args, *others, **options)


def _command_name(ctx: click.Context) -> str:
    """Return the name of a command with those of its groups, without the program's."""
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return " ".join(names)


def _translate_former(ctx: click.Context, args: list[str]) -> list[str]:
    """Return the new form of a command line of 0.2, and say on stderr which one it is.

    Raises:
        click.UsageError: nothing but a person calls this form.
    """
    name, *arguments = args
    if name == "retrieve":
        form = " ".join(former.RETRIEVE_HOOK)
        if any(word.partition("=")[0] == "--role" for word in arguments):
            # It would serve what the role must not see.
            raise click.UsageError(
                f"memory-ci {form} takes no --role, as retrieve --hook did.", ctx
            )
        say(
            f"memory-ci retrieve --hook is now `memory-ci {form}`; the old form goes in 0.4",
            err=True,
        )
        return list(former.RETRIEVE_HOOK)
    message = former.explain_command(name)
    if not former.COMMANDS[name].words:
        raise click.UsageError(f"{message}.", ctx)
    say(f"{message}; the old form goes in 0.4", err=True)
    return former.translate(name, arguments)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="memory-ci")
@click.option(
    "--color", type=click.Choice(COLORS), default="auto", help="Colour in text for people."
)
@click.pass_context
def main(ctx: click.Context, color: str) -> None:
    """Git-native memory for coding agents.

    Merged work becomes learnings in MEMORY.md, committed; an agent's next job is given those that
    fit its task.

    \b
    Example:
      memory-ci init && git add . && git commit -m "Add memory"

    Exit status: 0 done, 1 findings, 2 usage or configuration, 3 a memory file cannot be read or
    rewritten, 4 repository, 5 engine or network, 130 interrupted.
    """
    choose_color(color, os.environ)
    if ctx.invoked_subcommand is None:
        names = group_commands()["Everyday"]
        lines = [f"memory-ci {name:<9} {COMMANDS[name].summary}\n" for name in names]
        say("".join(lines))
        say("\nAll commands: memory-ci --help. The manual: memory-ci help.")
