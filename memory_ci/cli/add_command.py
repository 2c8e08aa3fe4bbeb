"""memory-ci add"""

from __future__ import annotations

import uuid
from typing import get_args

import click

from memory_ci.cli.common import dry_run_option, echo_json, has_input, json_option, read_input, today, utf8, workspace
from memory_ci.records.entry import NEW_IMPORTANCE, Domain, EntryType
from memory_ci.rendering.table import printable

TEMPLATE = """

# The first line is the title, the rest the body (Markdown). Lines that start with # are left out;
# an empty text adds nothing.
"""


@click.command()
@click.argument("text", required=False)
@click.option("--title", help="One sentence that says the learning by itself.")
@click.option("--body", default=None, help="Why, when, and what to do: a short paragraph.")
@click.option(
    "--type",
    "type_",
    type=click.Choice(get_args(EntryType)),
    default="procedural",
    show_default=True,
    help="What kind of learning.",
)
@click.option(
    "--domain",
    type=click.Choice(get_args(Domain)),
    default="task",
    show_default=True,
    help="task, or team for what outlives it.",
)
@click.option(
    "--scope",
    default="project",
    show_default=True,
    metavar="SCOPE",
    help="project, institutional, team:<directory> or session:<job>.",
)
@click.option("--importance", type=click.FloatRange(0, 1), default=NEW_IMPORTANCE, show_default=True, help="0 to 1.")
@click.option("--source", metavar="TEXT", help="Where it comes from: commit:3f2ab91, pr:128, or an address.")
@dry_run_option
@json_option
def command(
    text: str | None,
    title: str | None,
    body: str | None,
    type_: str,
    domain: str,
    scope: str,
    importance: float,
    source: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Put a learning into the inbox.

    It becomes a file of its own under .memory/inbox/, so that two branches never conflict; `record` folds it into
    its scope's file. TEXT is the same as --title. Without either the text is read from standard input, or written in
    your editor: first line the title, then the body.

    \b
    Example:
      memory-ci add "Retry a POST only with an idempotency key" --type corrective --source pr:128
      echo "Builds need Node 20" | memory-ci add --scope team:web
    """
    from memory_ci.flows.inbox.add import add_entry, draft_entry, split_text

    if text is not None and title is not None:
        raise click.UsageError("TEXT is the title: give it once, as an argument or with --title.")
    title = title if text is None else text
    if body is not None and title is None:
        raise click.UsageError("--body needs a title.")
    learning = split_text(_read_text() if title is None else utf8(f"{' '.join(title.split())}\n{body or ''}"))
    fields = {"type": type_, "domain": domain, "scope": scope, "importance": importance}
    fields["source"] = " ".join(utf8(source or "").split()) or None
    added = add_entry(workspace(), draft_entry(str(uuid.uuid4()), today(), learning, **fields), dry_run=dry_run)
    if as_json:
        echo_json(added)
    elif not added.is_new:
        click.echo(f"Known already as {added.entry.id} in {printable(added.path)}; nothing written.")
    else:
        click.echo(f"{'Would add' if dry_run else 'Added'} {printable(added.path)}\n{added.entry.id}")
        if not dry_run:
            click.echo("Commit it with your work; `memory-ci record` folds it once it is on the branch.", err=True)


def _read_text() -> str:
    """Standard input if something is piped in, else what is written in the editor."""
    if has_input():
        return read_input()
    written = click.edit(TEMPLATE, extension=".md") or ""
    return "\n".join(line for line in written.splitlines() if not line.startswith("# "))
