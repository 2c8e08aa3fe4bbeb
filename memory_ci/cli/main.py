"""The group of commands; each is imported when it is called, so that `retrieve` does not pay for `record`."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from memory_ci import __version__
from memory_ci.cli.plain import COLORS, choose_color, echo, reported, say, terminal_width
from memory_ci.errors import UsageError

COMMANDS = {
    "init": ("setup", "Set up memory in a repository, with hooks, CI and agents."),
    "uninit": ("setup", "Take out what init wrote."),
    "add": ("inbox", "Put a learning into the inbox."),
    "check": ("guard", "Check that every memory file is in order."),
    "doctor": ("setup", "Say what is set up, what works, and what to do about the rest."),
    "verify": ("guard", "Check what a change does to memory, before it is merged."),
    "ci": ("ci", "Do what a CI job is for: verify a change, or record what was merged."),
    "install": ("setup", "Set up the merge driver and the hooks in this clone."),
    "policy": ("setup", "Pin the policy of a platform, which narrows the configuration."),
    "uninstall": ("setup", "Take out what install put into this clone."),
    "resolve": ("guard", "Merge the base into a branch, memory files entry by entry."),
    "list": ("lookup", "List the entries."),
    "show": ("lookup", "Show one entry."),
    "graph": ("lookup", "Show what an entry is related to."),
    "log": ("lookup", "Show what commits did to one entry."),
    "record": ("record", "Turn merged work into committed memory."),
    "learn": ("record", "Let a model read older work; says what it costs first."),
    "candidates": ("review", "List what may be worth learning, to accept or to decline."),
    "extract": ("record", "Write the plan of a record run, and change nothing."),
    "apply": ("record", "Perform a plan."),
    "feedback": ("inbox", "Say whether an entry helped."),
    "blame": ("lookup", "Say which work brought each line, what it was given, and what was learned of it."),
    "why": ("lookup", "Say what an entry counts, and what made it so."),
    "premortem": ("inbox", "Write down what may go wrong with a plan."),
    "checkpoint": ("inbox", "Note an assumption, or what became of it."),
    "compact": ("upkeep", "Unite entries that say the same, and take retired ones out."),
    "promote": ("upkeep", "Move entries that recur up one scope."),
    "retire": ("upkeep", "Retire entries of a stage that has ended, or whose code is gone."),
    "forget": ("upkeep", "Forget an entry, words or a person, here and for later runs."),
    "review": ("review", "Answer what memory asks of people, the most useful first."),
    "index": ("upkeep", "Build the search index, or print its cache key."),
    "retrieve": ("lookup", "Print what memory knows about a task."),
    "export": ("setup", "Write what memory holds into AGENTS.md, for agents that have nothing installed."),
    "similar": ("lookup", "Print earlier tasks that are like a task."),
    "recall": ("lookup", "Print the episodes that answer a question."),
    "episode": ("inbox", "Note what was tried and what came of it."),
    "bisect": ("lookup", "Find the commit that lost an entry from the answer to a query."),
    "mcp": ("sessions", "Serve memory to agents by the Model Context Protocol."),
    "health": ("measure", "Say how well memory is kept, and what to do about what is weak."),
    "report": ("measure", "Write one HTML page of what memory learned, gave and missed."),
    "sessions": ("sessions", "List agent sessions, and what was found in each."),
    "stage": ("lookup", "Print the stage each project is in."),
    "eval": ("measure", "Judge an engine on labelled data."),
    "import": ("inbox", "Take over what another memory holds."),
    "migrate": ("upkeep", "Bring memory files to the newest format, or back."),
    "fmt": ("guard", "Write memory files in their canonical form."),
    "help": ("main", "Show a page of the manual, or what an error means."),
    "completion": ("setup", "Print a shell completion script."),
    "capture": ("sessions", "Keep a digest of an agent's session in this repository."),
    "org": ("org", "Share what all repositories of an organisation remember."),
    "hook": ("hook", "Run a git hook's work."),
}
"""Every command with its module and its one line of help, so that the overview needs no import."""

GROUPS = {
    "Everyday": "record review add retrieve list",
    "Set up": "init uninit doctor install uninstall policy sessions capture mcp export completion help",
    "Learn": "learn candidates import feedback episode premortem checkpoint",
    "Understand": "show why blame log graph similar recall health report bisect stage eval",
    "Check and repair": "check fmt resolve migrate compact promote retire forget index",
    "CI": "ci verify extract apply",
    "Organisation": "org",
}
"""The commands in the order of the overview; `hook` is git's to call."""


ARGUMENTS = "memory_ci.arguments"  # Of the context: the command with what stands behind it.


class LazyGroup(click.Group):
    """A group that imports the module of a command when that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in GROUPS.values() for name in names.split()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"memory_ci.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called; of one that there is not, those of a like name are named."""
        ctx.meta[ARGUMENTS] = args
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            close = get_close_matches(args[0], self.list_commands(ctx))
            if not close:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(close)}?", ctx) from error

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run the command; where `--color` stands behind it, it is said that it goes before."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.option_name != "--color" or error.ctx is None:
                raise
            said = " ".join(ctx.meta[ARGUMENTS])
            wanted = next((color for color in COLORS if re.search(rf"--color[ =]{color}\b", said)), "WHEN")
            called = error.ctx.command_path.replace("memory-ci", f"memory-ci --color {wanted}", 1)
            raise click.UsageError(f"{error.message} It goes before the command: `{called}`.", error.ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for group, names in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), COMMANDS[name][1]) for name in names.split()])

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:  # noqa: ANN401 - click's own
        """Errors a user can act on are reported; others keep their traceback."""
        return reported(super().main, args, *rest, **extra)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="memory-ci")
@click.option("--color", type=click.Choice(COLORS), default="auto", help="Colour in text for people.")
@click.pass_context
def main(ctx: click.Context, color: str) -> None:
    """Git-native memory for coding agents.

    Merged work becomes learnings in MEMORY.md, committed; an agent's next job is given those that fit its task.

    \b
    Example:
      memory-ci init && git add . && git commit -m "Add memory"
      memory-ci record
      memory-ci retrieve "retry failed payments"

    Exit status: 0 done, 1 findings, 2 usage or configuration, 3 a memory file cannot be read or rewritten,
    4 repository, 5 engine or network, 130 interrupted.
    """
    choose_color(color, os.environ)
    if ctx.invoked_subcommand is None:
        names = GROUPS["Everyday"].split()
        say("".join(f"memory-ci {name:<9} {COMMANDS[name][1]}\n" for name in names))
        say("\nAll commands: memory-ci --help. The manual: memory-ci help.")


# -- memory-ci help


@click.command("help")
@click.argument("topic", nargs=-1)
@click.pass_context
def help_command(ctx: click.Context, topic: tuple[str, ...]) -> None:
    """Show a page of the manual, what an error or a key means, or the options of a command.

    What is none of these is searched for: the sections of the manual that hold all the words are listed.

    \b
    Example:
      memory-ci help                # the pages
      memory-ci help publishing
      memory-ci help publishing#who-commits
      memory-ci help push-refused   # the word in brackets of an error
      memory-ci help publish.mode   # a key of the configuration
      memory-ci help record
      memory-ci help protected branch
    """
    from memory_ci.flows.setup.manual import find_sections, list_topics, read_topic
    from memory_ci.rendering.terminal import fold_markdown, render_rows

    topics = list_topics()
    if not topic:
        width = max(map(len, topics), default=0)
        say("".join(f"{name:<{width}}  {title}\n" for name, title in topics.items()))
        say("\nAlso: the word in brackets of an error, a key, the name of a command, words to search for.", err=True)
        return
    name = " ".join(topic).strip("[]")
    usage, command = "", main.get_command(ctx, name) if name in COMMANDS else None
    if command is not None:
        with click.Context(command, info_name=f"memory-ci {name}") as inner:
            if name not in topics:
                echo(f"{command.get_help(inner)}\n")
                return
            usage = f"{command.get_usage(inner)}\n\n{COMMANDS[name][1]} Options: `memory-ci {name} --help`.\n\n"
    try:
        text = f"{usage}{read_topic(name)}"
    except UsageError:
        found = find_sections(name) if "#" not in name else []
        if not found:
            raise
        say(render_rows([(f"memory-ci help {one}", title) for one, title in found]))
        return
    width = terminal_width(sys.stdout, os.environ)
    shown = fold_markdown(text, width) if width else text
    click.echo_via_pager(shown.removesuffix("\n"))  # it ends the last line itself
