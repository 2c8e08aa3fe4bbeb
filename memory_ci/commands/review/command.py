"""The command line of review: one list of what memory asks of people, and their answers."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from memory_ci.cli.common import change_options, complete_id, flag, option, show, since_option
from memory_ci.cli.plain import (
    decode_argument,
    has_input,
    now,
    open_current_workspace,
    progress,
)
from memory_ci.errors import UsageError
from memory_ci.findings import printable
from memory_ci.records.candidate import LISTED, MAX_SUGGESTIONS
from memory_ci.records.names import short_branch
from memory_ci.text import plural

if TYPE_CHECKING:
    from memory_ci.commands.review.queue import Queue
    from memory_ci.commands.review.review import AnsweredReview, Answers
    from memory_ci.memory.workspace import Workspace
    from memory_ci.records.candidate import Answer, Question, QuestionKind

entries = partial(option, multiple=True, metavar="N|ID", shell_complete=complete_id)


@click.command("review")
@flag("--candidates", help="What may be worth learning alone, whatever was asked before.")
@flag("--stale", help="All entries whose code has changed or is gone, and nothing else.")
@flag(
    "--all",
    "show_all",
    help=f"All questions, not those of this week alone, or the best {MAX_SUGGESTIONS} candidates.",
)
@option("--accept", multiple=True, metavar="N", help="Put it into the inbox. Repeatable.")
@entries("--keep", help="It holds: anchor it in the code as it is. Repeatable.")
@entries("--retire", help="It does not hold any more: retire it. Repeatable.")
@option("--never", multiple=True, metavar="N", help="Do not ask it again. Repeatable.")
@flag("--edit", help="Reword in your editor what you accept or keep.")
@since_option
@change_options
def review_command(candidates: bool, stale: bool, **arguments: Any) -> None:  # noqa: ANN401 - those of `_run`, each as its option makes it
    """Answer what memory asks of people: a few questions a week, the most useful first.

    Candidates, what was quarantined, entries whose code has changed or is gone, that contradict
    another, that are given and never used, or that hold in any repository. Your answers are one
    commit by you; what is retired is another. What nobody answers is not asked again for 90 days.
    A terminal asks one at a time, with the keys of `git add -p` (? explains them); with an answer
    or --json, and where nobody can answer, you are asked nothing.

    --candidates lists sentences of merged work that nobody marked, found again in the work of the
    last record run and after it, or since --since. What was said in several changes comes first.
    What you accept becomes a note in the inbox with its quote and your name; what you decline
    becomes a line of .memory/rejected.txt. With --edit, leave the editor without saving, or save
    nothing, and nothing is accepted.

    \b
    Example:
      memory-ci review
      memory-ci review --accept 1 --never 2 --keep 3
      memory-ci review --stale --keep 3f2ab91c --retire 9d0c3f2a --dry-run
      memory-ci review --candidates --since 90d --all
      memory-ci review --candidates --accept 2 --edit --never 1
    """
    if candidates and stale:
        raise click.UsageError("--candidates and --stale are two views: choose one.")
    _run(kinds=LISTED if candidates else None, stale=stale, **arguments)


def _run(
    *,
    kinds: Collection[QuestionKind] | None,
    stale: bool,
    show_all: bool,
    accept: tuple[str, ...],
    keep: tuple[str, ...],
    retire: tuple[str, ...],
    never: tuple[str, ...],
    edit: bool,
    since: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """List questions, or commit the answers to them.

    Args:
        kinds: show these kinds of questions alone; None for a review.
        stale: show entries whose code has changed alone.
        show_all: show more than the questions of this week, or than the best candidates.
        accept: numbers of questions whose candidate is accepted.
        keep: numbers or ids of entries that hold.
        retire: numbers or ids of entries that do not hold.
        never: numbers of questions that are not asked again.
        edit: reword in an editor what is accepted or kept.
        since: read the work after this revision or age.
        dry_run: commit nothing.
        as_json: print JSON.
    """
    from memory_ci.commands.review.dialog import ask_each
    from memory_ci.commands.review.review import answer

    repository = open_current_workspace()
    is_range_named = since is not None
    queue = _read_queue(repository, kinds, since, stale=stale)
    is_view = stale or kinds is not None or show_all
    listed = queue.found if is_view else queue.week.shown
    words: dict[Answer, tuple[str, ...]] = {
        "accept": accept,
        "keep": keep,
        "retire": retire,
        "never": never,
    }
    answers = _parse_answers(listed, words, edit=edit)
    is_asked = not (answers.by_verb or as_json or kinds) and not has_input()
    if is_asked:
        answers = ask_each(listed, _edit)
    in_actions = "GITHUB_ACTIONS" in os.environ
    done = answer(repository, queue, answers, now(), dry_run=dry_run, in_actions=in_actions)

    if answers.by_verb or answers.skipped:
        lines = list(_render_done(done, dry_run=dry_run))
    elif listed and is_asked:
        lines = ["Nothing was answered."]
    elif listed and kinds:
        count = len(listed) if show_all else MAX_SUGGESTIONS
        lines = list(render_questions(listed[:count], max(len(listed) - count, 0)))
    elif listed:
        lines = list(render_questions(listed, 0 if is_view else queue.week.waiting))
    else:
        lines = [_render_none(queue, kinds, stale=stale, is_range_named=is_range_named)]

    result: dict[str, object] = {"since": queue.since, "base": queue.base, "notes": done.notes}
    result["applied"] = None if dry_run else done.applied
    if kinds:
        result["candidates"] = [_row_of(question) for question in listed]
    else:
        result["stale" if stale else "questions"] = listed
        result["waiting"] = queue.week.waiting
        result["plan"] = done.plan
    show(result, map(printable, lines), as_json)


def _row_of(question: Question) -> dict[str, object]:
    """Return the JSON row of a candidate, with its kind, and how often it was asked or failed."""
    row: dict[str, object] = {"kind": question.kind, **msgspec.to_builtins(question.suggestion)}
    if question.suggestion is None:
        return row
    candidate = question.suggestion.candidate
    for details in (candidate.repetition, candidate.proposal):
        if details is not None:
            row |= msgspec.to_builtins(details)
    row["kind"] = question.kind
    return row


def _parse_answers(
    listed: Sequence[Question], words: Mapping[Answer, Sequence[str]], *, edit: bool
) -> Answers:
    """Return the answers that options give, with other words from an editor if `edit` is set.

    Raises:
        UsageError: unknown-candidate, unsaved-edit.
    """
    from memory_ci.commands.review.review import Answers

    by_verb: dict[Answer, list[Question]] = {}
    for verb, names in words.items():
        if names:
            by_verb[verb] = [_choose(listed, name) for name in names]
    texts: dict[str, str] = {}
    if edit:
        for question in (*by_verb.get("accept", ()), *by_verb.get("keep", ())):
            texts[question.key] = _edit(question)
    return Answers(by_verb, texts)


def _read_queue(
    repository: Workspace,
    kinds: Collection[QuestionKind] | None,
    since: str | None,
    *,
    stale: bool,
) -> Queue:
    """Return the questions of some kinds; candidates are those since the last record run."""
    from memory_ci.commands.record.run import RecordOptions, fetch_sessions
    from memory_ci.commands.review.queue import KEPT, PROPOSED, STALE, find_last_range, list_queue

    wanted = STALE if stale else kinds or PROPOSED | KEPT
    if kinds and since is None:
        since = find_last_range(repository, None)
    with progress("Reading merged work") as advance:
        problems: tuple[str, ...] = ()
        if not stale:
            problems = fetch_sessions(repository, None, os.environ)
        options = RecordOptions(since=since, problems=problems)
        return list_queue(repository, options, now(), os.environ, wanted, progress=advance)


def _render_none(
    queue: Queue, kinds: Collection[QuestionKind] | None, *, stale: bool, is_range_named: bool
) -> str:
    """Return the line that says that nothing is asked."""
    if stale:
        return "No entry is stale."
    if not kinds:
        return _render_no_questions(queue.week.waiting)
    since = f" after {queue.since[:10]}" if queue.since else ""
    advice = "" if is_range_named else " `--since 90d` looks further back."
    return f"No candidates in the work{since}.{advice}"


def _render_no_questions(waiting: int) -> str:
    """Return the line for a week without questions; `waiting` are left for later weeks."""
    if not waiting:
        return "Nothing waits for you this week."
    later = f"{plural(waiting, 'question')} for later: --all lists them."
    return f"Nothing more waits for you this week. {later}"


def _render_done(done: AnsweredReview, *, dry_run: bool) -> Iterator[str]:
    """Yield lines on the effects of answers."""
    wrote = "Would write" if dry_run else "Wrote"
    promoted = "Would promote" if dry_run else "Promoted"
    committed = "Would commit" if dry_run else "Committed"
    branch = short_branch(done.plan.ref)
    yield from (f"{wrote} {note.path}" for note in done.notes)
    yield from (f"{promoted} {entry.id[:8]} {entry.title}" for entry in done.promoted)
    yield from (f"{committed} on {branch}: {subject}" for subject in done.applied.subjects)


def _choose(listed: Sequence[Question], word: str) -> Question:
    """Return the question with a number of the list, or about the entry whose id starts so.

    Raises:
        UsageError: unknown-candidate.
    """
    if word.isdecimal() and 0 < int(word) <= len(listed):
        return listed[int(word) - 1]
    matching: list[Question] = []
    if len(word) > 3:
        for question in listed:
            if question.located and question.located.entry.id.startswith(word.lower()):
                matching.append(question)
    if len(matching) != 1:
        count = plural(len(listed), "question")
        message = f"there is no question {printable(word)} here: {count} found"
        hint = "Look again: the numbers are those of the same list."
        raise UsageError(message, slug="unknown-candidate", hint=hint)
    return matching[0]


def _text_of(question: Question) -> tuple[str, str]:
    """Return the title and the body of the candidate or entry of a question."""
    if question.suggestion:
        return question.title, question.suggestion.candidate.body
    return question.title, question.located.entry.body if question.located else ""


def _edit(question: Question) -> str:
    """Return the text as saved in the editor, even if unchanged.

    Raises:
        UsageError: unsaved-edit if nothing was saved, as `git commit -t`.
    """
    text = click.edit("{}\n\n{}\n".format(*_text_of(question)), extension=".md")
    if text is None or not text.strip():
        message = f'the editor saved no text, so "{question.title}" is not accepted'
        hint = "Nothing was written. Save it, if only as it is."
        raise UsageError(message, slug="unsaved-edit", hint=hint)
    return decode_argument(text)


def render_questions(listed: Sequence[Question], later: int) -> Iterator[str]:
    """Yield the lines of questions.

    Args:
        listed: the questions, numbered from 1.
        later: how many wait for another week.
    """
    for number, question in enumerate(listed, start=1):
        yield from _render_question(number, question)
    if not listed:
        return
    verbs = {verb for question in listed for verb in question.answers}
    advice: list[str] = []
    if "accept" in verbs:
        advice.append("Accept with --accept N")
    if "keep" in verbs:
        advice.append("keep or retire an entry with --keep N or --retire N")
    advice.append("decline for good with --never N")
    more = f"{later} more with --all. " if later else ""
    yield from ("", f"{more}{', '.join(advice)}.")


def _render_question(number: int, question: Question) -> Iterator[str]:
    """Yield the lines of a question, with the number by which options name it."""
    first, *others = _describe_question(question)
    yield f"{number:>2}. {first}"
    yield from (f"    {line}" for line in others)


def _describe_question(question: Question) -> Iterator[str]:
    """Yield the subject of a question, then its reason and its source."""
    from memory_ci.commands.review.dialog import describe_repetition, name_changes

    if question.located:
        place = question.located
        yield f"{place.entry.id[:8]} {question.title} ({place.path}:{place.line})"
        yield question.why if question.verdicts else f"{question.kind}: {question.why}"
    elif question.suggestion:
        candidate, changes = question.suggestion.candidate, question.suggestion.changes
        yield question.title
        if candidate.proposal is not None:
            from memory_ci.sessions.backtest_text import describe_proposal

            yield from describe_proposal(candidate.proposal)
            return
        if candidate.repetition is not None:
            yield from describe_repetition(question.why, candidate.repetition)
            return
        quote = " ".join(candidate.quotes[0].text.split()) if candidate.quotes else ""
        if quote.rstrip(".") != question.title:
            yield f'"{quote}"'
        yield f"in {name_changes(changes)}; {question.why}; {candidate.source}"
