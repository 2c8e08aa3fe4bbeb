"""memory-ci help"""

from __future__ import annotations

import click

from memory_ci.cli.main import COMMANDS, main
from memory_ci.cli.plain import echo, say


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def help_command(ctx: click.Context, topic: str | None) -> None:
    """Show a page of the manual, what an error means, or the options of a command.

    \b
    Example:
      memory-ci help                # the pages
      memory-ci help publishing
      memory-ci help push-refused   # the word in brackets of an error
      memory-ci help record
    """
    from memory_ci.flows.setup.manual import list_topics, read_topic

    if topic is None:
        topics = list_topics()
        width = max(map(len, topics), default=0)
        say("".join(f"{name:<{width}}  {title}\n" for name, title in topics.items()))
        say("\nAlso: the word in brackets of an error, and the name of a command.", err=True)
        return
    topic = topic.strip("[]")
    command = main.get_command(ctx, topic) if topic in COMMANDS else None
    if command is not None:
        with click.Context(command, info_name=f"memory-ci {topic}") as inner:
            echo(f"{command.get_help(inner)}\n")
        return
    click.echo_via_pager(read_topic(topic))
