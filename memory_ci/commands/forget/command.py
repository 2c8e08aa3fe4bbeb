"""The command line of `memory-ci forget`, which removes an entry, words or a person."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import complete_id, confirm, flag, json_option, option, show
from memory_ci.cli.plain import (
    decode_argument,
    now,
    open_current_workspace,
    progress,
    read_input,
    say,
)
from memory_ci.errors import UsageError
from memory_ci.findings import printable
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.commands.forget.forget import ForgetPlan

HEADING_BY_KIND = {
    "memory": "Memory",
    "export": "Exports",
    "session": "Captured sessions",
    "note": "Notes that wait",
    "derived": "Derived data",
    "ref": "Refs",
    "file": "Files that are yours",
    "branch": "Other branches and tags",
    "message": "Commit messages",
    "global": "Global memory",
}
"""The heading of each kind of place, in the order of the output."""

SUBJECT_NOUNS = {"entry": "an entry", "words": "words", "person": "a person"}


@click.command("forget")
@click.argument("what", metavar="ID|WORDS|PERSON", shell_complete=complete_id)
@option(
    "--as", "wanted", choices=["entry", "words", "person"], help="What it is, if that is unclear."
)
@flag("--plan", "--dry-run", "is_plan", help="Name the places, and change nothing.")
@flag("--yes", help="Do not ask.")
@json_option
def forget_command(what: str, wanted: str | None, is_plan: bool, yes: bool, as_json: bool) -> None:
    """Remove an entry, words or a person from memory, and keep later runs from learning them again.

    An entry is named by its id. Words are removed or masked in all files of memory. A person (`Name
    <mail>`, a mail address, or the name of an author) is masked. `-` reads WORDS from standard
    input, so that no history of a shell keeps them. One commit changes memory, captured sessions
    are rewritten, derived data is deleted, and a salted hash is added to .memory/rejected.txt. Then
    the steps for old commits and the forge are printed.

    \b
    Example:
      memory-ci forget 4f2a91c0 --plan
      memory-ci forget - --yes < secret.txt
      memory-ci forget "Ada Lovelace <ada@example.com>" --yes

    Exit status: 0 nothing is left at the tip, 1 a person has to check the listed places, 2 usage, 4
    repository.
    """
    import secrets

    from memory_ci.commands.forget.forget import apply_forget, find_subject, plan_forget

    current_workspace = open_current_workspace()
    text = read_input() if what == "-" else decode_argument(what)
    # click restricts the value of --as.
    subject = find_subject(current_workspace, text, wanted)  # type: ignore[arg-type]
    with progress("Looking for it"):
        plan = plan_forget(current_workspace, subject, Path.home())
    if not is_plan:
        if not yes:
            _confirm_plan(plan, can_ask=what != "-" and sys.stdin.isatty())
        plan = apply_forget(current_workspace, subject, Path.home(), secrets.token_hex(16), now())

    lines = [*_describe_plan(plan), "", "What no commit can do:"]
    lines += [f"  {step}" for step in plan.steps]
    show(plan, [printable(line) for line in lines], as_json)
    raise SystemExit(1 if plan.places_for_person else 0)


def _confirm_plan(plan: ForgetPlan, *, can_ask: bool) -> None:
    """Show a plan and ask a person to confirm it.

    Raises:
        UsageError: nobody can be asked (not-confirmed).
        click.Abort: the person refuses.
    """
    if not can_ask:
        message = "there is no terminal to confirm that it is to be forgotten"
        hint = "Check the places with --plan first, then pass --yes."
        raise UsageError(message, slug="not-confirmed", hint=hint)
    say("".join(f"{printable(line)}\n" for line in _describe_plan(plan)), err=True)
    if not confirm("Do it?", default=False):
        raise click.Abort


def _describe_plan(plan: ForgetPlan) -> Iterator[str]:
    """Yield the lines about a plan: the places that hold the subject by kind, and its commit.

    `!` marks a place that `forget` cannot change, and a person has to.
    """
    verb = "Forgot" if plan.is_done else "Would forget"
    noun = SUBJECT_NOUNS[plan.subject_kind]
    changed_count = sum(not place.needs_person for place in plan.places)
    person_count = len(plan.places_for_person)
    yield f"{verb} {noun}: {plural(changed_count, 'place')}, {person_count} for you"
    for kind, heading in HEADING_BY_KIND.items():
        places = [place for place in plan.places if place.kind == kind]
        if places:
            yield f"{heading}:"
        for place in places:
            mark = "! " if place.needs_person else ""
            yield f"  {mark}{place.location}: {place.action}"
    if plan.commit:
        commit = plan.commit[:12]
        yield f"Committed as {commit}, with a hash in .memory/rejected.txt that keeps it out"
