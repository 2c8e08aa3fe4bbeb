"""The commands review and candidates: one list of what memory asks of people, and their answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from memory_ci.cli.common import change_options, complete_id, flag, option, range_options, show
from memory_ci.cli.plain import has_input, now, progress, say, utf8, workspace
from memory_ci.errors import UsageError
from memory_ci.findings import printable
from memory_ci.records.candidate import MAX_SUGGESTIONS
from memory_ci.records.names import short_branch
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.commands.review.review import AnsweredReview
    from memory_ci.records.candidate import Answer, Question, QuestionKind

CHANGES = 3  # Changes that are named.
entries = partial(option, multiple=True, metavar="N|ID", shell_complete=complete_id)
KEYS: Mapping[str, Answer] = {"a": "accept", "k": "keep", "r": "retire", "n": "never"}


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What both commands have in common."""
    accept = option(
        "--accept", multiple=True, metavar="N", help="Put it into the inbox. Repeatable."
    )
    edit = flag("--edit", help="Reword in your editor what you accept or keep.")
    never = option("--never", multiple=True, metavar="N", help="Do not ask it again. Repeatable.")
    return range_options(accept(edit(never(change_options(command)))))


@click.command("review")
@flag("--stale", help="All entries whose code has changed or is gone, and nothing else.")
@flag("--all", "show_all", help="All that could be asked, not the questions of this week alone.")
@entries("--keep", help="It holds: anchor it in the code as it is. Repeatable.")
@entries("--retire", help="It does not hold any more: retire it. Repeatable.")
@_options
def review_command(**arguments: Any) -> None:  # noqa: ANN401 - those of `_run`, each as its option makes it
    """Answer what memory asks of people: a few questions a week, the most useful first.

    Candidates, what was quarantined, entries whose code has changed or is gone, that contradict another, that are given
    and never used, or that hold in any repository. Your answers are one commit by you; what is retired is another. What
    nobody answers is not asked again for 90 days. With an answer or --json, and where nobody can answer, you are asked
    nothing.

    \b
    Example:
      memory-ci review
      memory-ci review --accept 1 --never 2 --keep 3
      memory-ci review --stale --keep 3f2ab91c --retire 9d0c3f2a --dry-run
    """
    _run(**arguments)


@click.command("candidates")
@flag("--all", "show_all", help=f"List all, not the best {MAX_SUGGESTIONS} alone.")
@_options
def candidates_command(**arguments: Any) -> None:  # noqa: ANN401 - those of `_run`, each as its option makes it
    """List what may be worth learning, to accept or to decline: what is new in `review`, whatever was asked before.

    These are sentences of merged work that nobody marked, found again in the work of the last record run and after it,
    or since --since. What was said in several changes comes first. What you accept becomes a note in the inbox with its
    quote and your name; what you decline becomes a line of .memory/rejected.txt: one commit by you. With
    --edit, leave the editor without saving, or save nothing, and nothing is accepted.

    \b
    Example:
      memory-ci candidates
      memory-ci candidates --since 90d --all
      memory-ci candidates --accept 2 --edit --never 1
    """
    _run(kinds={"candidate"}, **arguments)


def _run(
    *,
    kinds: set[QuestionKind] | None = None,
    stale: bool = False,
    show_all: bool,
    accept: tuple[str, ...],
    keep: tuple[str, ...] = (),
    retire: tuple[str, ...] = (),
    never: tuple[str, ...],
    edit: bool,
    fetch: bool,
    dry_run: bool,
    as_json: bool,
    **arguments: Any,  # noqa: ANN401 - the fields of RecordOptions
) -> None:
    from memory_ci.commands.record.run import RecordOptions, fetch_sessions
    from memory_ci.commands.review.queue import KEPT, PROPOSED, STALE, find_last_range, list_queue
    from memory_ci.commands.review.review import Answers, answer

    where, is_view = workspace(), stale or kinds is not None
    asked = STALE if stale else kinds or PROPOSED | KEPT
    is_ranged = arguments["since"] is not None
    if kinds and arguments["since"] is None:
        arguments["since"] = find_last_range(where, arguments["ref"])
    with progress("Reading merged work") as advance:
        problems = (
            fetch_sessions(where, arguments["ref"], os.environ) if fetch and not stale else ()
        )
        queue = list_queue(
            where, RecordOptions(**arguments, problems=problems), now(), os.environ, asked, advance
        )
    listed = queue.found if is_view or show_all else queue.week.shown
    words: dict[Answer, tuple[str, ...]] = {
        "accept": accept,
        "keep": keep,
        "retire": retire,
        "never": never,
    }
    said = {
        verb: [_choose(listed, word) for word in given] for verb, given in words.items() if given
    }
    skipped: list[Question] = []
    texts = (
        {one.key: _edit(one) for verb in ("accept", "keep") for one in said.get(verb, ())}
        if edit
        else {}
    )
    if not (said or as_json or kinds) and not has_input():
        said, texts, skipped = _ask(listed)
    answers = Answers(said, texts, skipped)
    done = answer(
        where, queue, answers, now(), dry_run=dry_run, in_actions="GITHUB_ACTIONS" in os.environ
    )
    lines = list(_say_done(done, dry_run=dry_run))
    if not (said or skipped):
        count = MAX_SUGGESTIONS if kinds and not show_all else len(listed)
        later = (
            max(len(listed) - count, 0)
            if kinds
            else 0
            if is_view or show_all
            else queue.week.waiting
        )
        lines = list(render_questions(listed[:count], later))
        if not listed and kinds:
            since = f" after {queue.since[:10]}" if queue.since else ""
            lines = [
                f"No candidates in the work{since}.{'' if is_ranged else ' `--since 90d` looks further back.'}"
            ]
        elif not listed:
            lines = ["No entry is stale." if stale else "Nothing waits for you this week."]
    shown: dict[str, object] = {"since": queue.since, "base": queue.base, "notes": done.notes}
    shown |= {"applied": None if dry_run else done.applied}
    if kinds:
        shown |= {"candidates": [one.suggestion for one in listed]}
    else:
        shown |= {
            "stale" if stale else "questions": listed,
            "waiting": queue.week.waiting,
            "plan": done.plan,
        }
    show(shown, map(printable, lines), as_json)


def _say_done(done: AnsweredReview, *, dry_run: bool) -> Iterator[str]:
    yield from (f"{'Would write' if dry_run else 'Wrote'} {note.path}" for note in done.notes)
    yield from (
        f"{'Would promote' if dry_run else 'Promoted'} {entry.id[:8]} {entry.title}"
        for entry in done.promoted
    )
    did, branch = "Would commit" if dry_run else "Committed", short_branch(done.plan.ref)
    yield from (f"{did} on {branch}: {subject}" for subject in done.applied.subjects)


def _choose(listed: Sequence[Question], word: str) -> Question:
    """The question of a number of the list, or of the start of the id of an entry."""
    if word.isdecimal() and 0 < int(word) <= len(listed):
        return listed[int(word) - 1]
    found = [
        one
        for one in listed
        if one.located and len(word) > 3 and one.located.entry.id.startswith(word.lower())
    ]
    if len(found) != 1:
        message = (
            f"there is no question {printable(word)} here: {plural(len(listed), 'question')} found"
        )
        raise UsageError(
            message,
            slug="unknown-candidate",
            hint="Look again: the numbers are those of the same list.",
        )
    return found[0]


def _text_of(one: Question) -> tuple[str, str]:
    said = (
        one.suggestion.candidate if one.suggestion else one.located.entry if one.located else None
    )
    return one.title, said.body if said else ""


def _edit(one: Question) -> str:
    """The text as saved in the editor, if only as it was. Raises UsageError (unsaved-edit), as `git commit -t`."""
    text = click.edit("{}\n\n{}\n".format(*_text_of(one)), extension=".md")
    if text is None or not text.strip():
        message = f'the editor saved no text, so "{one.title}" is not accepted'
        raise UsageError(
            message, slug="unsaved-edit", hint="Nothing was written. Save it, if only as it is."
        )
    return utf8(text)


def render_questions(listed: Sequence[Question], later: int) -> Iterator[str]:
    """The lines of questions, numbered from 1; `later` is how many wait for another week."""
    for number, one in enumerate(listed, start=1):
        yield from _render_question(number, one)
    if listed:
        verbs = {verb for one in listed for verb in one.answers}
        said = {
            "accept": "Accept with --accept N",
            "keep": "keep or retire an entry with --keep N or --retire N",
        }
        more = f"{later} more with --all. " if later else ""
        told = [text for verb, text in said.items() if verb in verbs]
        yield from ("", f"{more}{', '.join((*told, 'decline for good with --never N'))}.")


def _render_question(number: int, question: Question) -> Iterator[str]:
    """Return the lines of a question below its number, by which options of the command name it."""
    first, *rest = _tell(question)
    yield f"{number:>2}. {first}"
    yield from (f"    {line}" for line in rest)


def _tell(one: Question) -> Iterator[str]:
    """What is asked, in lines: first what it says, then why it is asked and where it stands."""
    if one.located:
        yield f"{one.located.entry.id[:8]} {one.title} ({one.located.path}:{one.located.line})"
        yield one.why if one.verdicts else f"{one.kind}: {one.why}"
    elif one.suggestion:
        candidate, changes = one.suggestion.candidate, one.suggestion.changes
        yield one.title
        quote = " ".join(candidate.quotes[0].text.split()) if candidate.quotes else ""
        if quote.rstrip(".") != one.title:
            yield f'"{quote}"'
        others = f" and {len(changes) - CHANGES} more" if len(changes) > CHANGES else ""
        yield f"in {', '.join(changes[:CHANGES])}{others}; {one.why}; {candidate.source}"


def _ask(
    listed: Sequence[Question],
) -> tuple[dict[Answer, list[Question]], dict[str, str], list[Question]]:
    """What a person answers to each in turn, with other words for what they edit, and what they skip."""
    said: dict[Answer, list[Question]] = {}
    texts: dict[str, str] = {}
    skipped: list[Question] = []
    for number, one in enumerate(listed, start=1):
        body = indent(_text_of(one)[1], "    ").splitlines()
        say("".join(f"{printable(line)}\n" for line in (*_render_question(number, one), *body)))
        keys = [key for key, verb in KEYS.items() if verb in one.answers]
        asked = f"{', '.join((*(KEYS[key] for key in keys), 'edit, skip, quit'))}"
        reply = click.prompt(asked, type=click.Choice([*keys, *"esq"]), default="s")
        if reply == "q":
            break
        if reply == "s":
            skipped.append(one)
            continue
        if reply == "e":
            texts[one.key] = _edit(one)
        said.setdefault(one.answers[0] if reply == "e" else KEYS[reply], []).append(one)
    return said, texts, skipped
