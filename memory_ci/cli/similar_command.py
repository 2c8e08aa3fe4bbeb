"""memory-ci similar"""

from __future__ import annotations

import click

from memory_ci.cli.common import echo_json, has_input, json_option, read_input, utf8, workspace


@click.command()
@click.argument("task", nargs=-1)
@click.option(
    "--top", type=click.IntRange(1, 100), default=2, show_default=True, metavar="K", help="At most this many tasks."
)
@click.option("--all-history", is_flag=True, help="Look at all merged changes, not only at the last 2,000.")
@click.option("--explain", is_flag=True, help="Print the factors of each score.")
@json_option
def command(task: tuple[str, ...], top: int, all_history: bool, explain: bool, as_json: bool) -> None:
    """Print earlier tasks that are like a task, and what became of them.

    The tasks are the changes that were merged into the default branch. TASK is a text, or the number of one of them
    ("#128"); without it the text is read from standard input. Nothing like it: nothing printed.

    \b
    Example:
      memory-ci similar "retry failed payments"
      gh issue view 128 | memory-ci similar --top 5 --explain
    """
    from memory_ci.flows.serve.similar import similar_tasks
    from memory_ci.rendering.context import render_similar

    if not task and not has_input():
        raise click.UsageError('Say what the task is: memory-ci similar "…", or pipe it in.')
    text = utf8(" ".join(task)) if task else read_input()
    found = similar_tasks(workspace(), text, top=top, all_history=all_history)
    if as_json:
        echo_json(found)
    else:
        click.echo(render_similar(found, explain=explain), nl=False)
