"""The command candidates: what may be worth learning, listed, accepted or declined."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from memory_ci.cli.common import RangeArguments, dry_run_option, json_option, range_options, show
from memory_ci.cli.plain import today, utf8, workspace
from memory_ci.errors import UsageError
from memory_ci.records.candidate import MAX_SUGGESTIONS
from memory_ci.rendering.table import printable
from memory_ci.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_ci.flows.inbox.candidates import Candidates
    from memory_ci.records.candidate import Suggestion


SHOWN = 3  # Changes that are named.


@click.command("candidates")
@range_options
@click.option("--all", "show_all", is_flag=True, help=f"List all, not the best {MAX_SUGGESTIONS} alone.")
@click.option("--accept", type=click.IntRange(min=1), multiple=True, metavar="N", help="Put it into the inbox.")
@click.option("--edit", is_flag=True, help="With --accept: reword it in your editor first.")
@click.option("--never", type=click.IntRange(min=1), multiple=True, metavar="N", help="Do not propose it again.")
@dry_run_option
@json_option
def candidates_command(
    show_all: bool,
    accept: tuple[int, ...],
    edit: bool,
    never: tuple[int, ...],
    fetch: bool,
    dry_run: bool,
    as_json: bool,
    **arguments: RangeArguments,
) -> None:
    """List what may be worth learning, to accept or to decline.

    These are sentences of merged work that nobody marked, found again in the work of the last record run and after it,
    or since --since. What was said in several changes comes first. What you accept becomes a note in the inbox with its
    quote and your name; what you decline becomes a line of .memory/rejected.txt. Commit either with your work. With
    --edit, leave the editor without saving, or save nothing, and nothing is accepted.

    \b
    Example:
      memory-ci candidates
      memory-ci candidates --since 90d --all
      memory-ci candidates --accept 2 --edit --never 1
    """
    from memory_ci.flows.inbox.candidates import accept as put
    from memory_ci.flows.inbox.candidates import decline, list_candidates
    from memory_ci.flows.record.run import RecordOptions, fetch_sessions

    where = workspace()
    ref = arguments["ref"] if isinstance(arguments["ref"], str) else None
    problems = fetch_sessions(where, ref, os.environ) if fetch else ()
    options = RecordOptions(**arguments, problems=problems)  # type: ignore[arg-type] # click's own types
    known = list_candidates(where, options, today(), os.environ)
    chosen, declined = [_choose(known, number) for number in accept], [_choose(known, number) for number in never]
    texts = [_edit(one) if edit else None for one in chosen]
    notes = [put(where, one, today(), text, dry_run=dry_run) for one, text in zip(chosen, texts, strict=True)]
    path = decline(where, declined, dry_run=dry_run) if declined else ""
    if notes or path:
        paths = filter(None, (*(note.path for note in notes), path))
        lines = [f"{'Would write' if dry_run else 'Wrote'} {one}" for one in paths]
        lines += [] if dry_run else ["Commit it with your work."]
    else:
        lines = list(_tell(known, len(known.found) if show_all else MAX_SUGGESTIONS))
    shown = {"since": known.since, "base": known.base, "candidates": known.found, "notes": notes, "declined": path}
    show(shown, map(printable, lines), as_json)


def _edit(one: Suggestion) -> str:
    """The candidate as saved in the editor, if only as it was. Raises UsageError (unsaved-edit), as `git commit -t`."""
    text = click.edit(f"{one.candidate.title}\n\n{one.candidate.body}\n", extension=".md")
    if text is None or not text.strip():
        message = f'the editor saved no text, so "{one.candidate.title}" is not accepted'
        raise UsageError(message, slug="unsaved-edit", hint="Nothing was written. Save it, if only as it is.")
    return utf8(text)


def _choose(known: Candidates, number: int) -> Suggestion:
    if number > len(known.found):
        message = f"there is no candidate {number}: {plural(len(known.found), 'candidate')} found"
        raise UsageError(message, slug="unknown-candidate", hint="`memory-ci candidates --all` numbers them.")
    return known.found[number - 1]


def _tell(known: Candidates, count: int) -> Iterator[str]:
    since = f" after {known.since[:10]}" if known.since else ""
    if not known.found:
        yield f"No candidates in the work{since}. `--since 90d` looks further back."
        return
    for number, one in enumerate(known.found[:count], start=1):
        candidate = one.candidate
        others = f" and {len(one.changes) - SHOWN} more" if len(one.changes) > SHOWN else ""
        yield f"{number:>2}. {candidate.title}"
        quote = candidate.quotes[0].text if candidate.quotes else ""
        if " ".join(quote.split()).rstrip(".") != candidate.title:
            yield f'    "{" ".join(quote.split())}"'
        yield f"    in {', '.join(one.changes[:SHOWN])}{others}; {one.reason}; {candidate.source}"
    rest = len(known.found) - count
    yield ""
    more = f"{rest} more with --all. " if rest > 0 else ""
    yield f"{more}Accept with --accept N, decline for good with --never N."
