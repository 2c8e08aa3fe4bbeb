"""The command line of review, which asks people questions about memory entries and candidates."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from memory_ci.records.candidate import Answer, Question, Suggestion

entries = partial(option, multiple=True, metavar="N|ID", shell_complete=complete_id)


@click.command("review")
@flag("--candidates", help="List only possible learnings, also those that were asked about before.")
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
def review_command(
    candidates: bool,
    stale: bool,
    show_all: bool,
    since: str | None,
    **arguments: Any,  # noqa: ANN401 - the other options, with the names of `_run_review`'s parameters
) -> None:
    """Answer questions about entries of memory: a few a week, the most useful first.

    The questions are about candidates, also quarantined ones, and about entries: their cited code
    changed or is gone, they contradict another entry, they were served often but never used, or
    they hold in any repository. Your answers become one commit by you; retirements become another.
    An unanswered question is not repeated for 90 days. A terminal shows one question at a time,
    with the keys of `git add -p` (? explains them). With an answer as an option, with --json, and
    without a terminal, the command does not prompt.

    --candidates lists sentences of merged work that nobody marked, found again in the work of the
    last record run and after it, or since --since. Sentences found in several changes come first.
    An accepted sentence becomes a note in the inbox with its quote and your name; a declined
    sentence becomes a line of .memory/rejected.txt. With --edit, leaving the editor without saving,
    or saving an empty text, accepts nothing.

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
    view = _View(only_candidates=candidates, only_stale=stale, show_all=show_all, since=since)
    _run_review(view, **arguments)


class _View(NamedTuple):
    """A selection of questions.

    Attributes:
        only_candidates: list only candidates, found in merged work (`--candidates`).
        only_stale: list only entries whose code has changed (`--stale`).
        show_all: list all questions, or all candidates, not the first few.
        since: read the work after this revision or age for candidates; None for the last run's.
    """

    only_candidates: bool
    only_stale: bool
    show_all: bool
    since: str | None

    @property
    def is_week(self) -> bool:
        """Whether the questions of this week are listed, a few of all kinds."""
        return not (self.only_stale or self.only_candidates or self.show_all)

    def select(self, queue: Queue) -> Sequence[Question]:
        """Return the questions that are listed, in the order of their numbers."""
        return queue.week.questions if self.is_week else queue.questions


def _run_review(
    view: _View,
    *,
    accept: tuple[str, ...],
    keep: tuple[str, ...],
    retire: tuple[str, ...],
    never: tuple[str, ...],
    edit: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """List questions, or commit the answers to them.

    Answers come from the options. If there are none, a person at a terminal is asked, unless only
    candidates or JSON were requested.

    Args:
        view: the questions to list.
        accept: numbers of questions whose candidate is accepted.
        keep: numbers or ids of entries that hold.
        retire: numbers or ids of entries that do not hold.
        never: numbers of questions that are not asked again.
        edit: open accepted or kept texts in an editor.
        dry_run: commit nothing.
        as_json: print JSON.
    """
    from memory_ci.commands.review.dialog import ask_each
    from memory_ci.commands.review.review import answer, try_answer

    workspace = open_current_workspace()
    queue = _read_queue(workspace, view)
    listed = view.select(queue)
    names_by_verb: dict[Answer, tuple[str, ...]] = {
        "accept": accept,
        "keep": keep,
        "retire": retire,
        "never": never,
    }
    answers = _parse_answers(listed, names_by_verb, edit=edit)
    is_answered_by_options = bool(answers.by_verb)
    is_person_at_terminal = not has_input()
    asks_person = (
        is_person_at_terminal
        and not is_answered_by_options
        and not as_json
        and not view.only_candidates
    )
    if asks_person:
        answers = ask_each(listed, _edit_text, partial(try_answer, workspace, now().date()))
    in_actions = "GITHUB_ACTIONS" in os.environ
    review = answer(workspace, queue, answers, now(), dry_run=dry_run, in_actions=in_actions)

    if answers.by_verb or answers.skipped:
        lines = list(_render_effects(review, dry_run=dry_run))
    elif listed and asks_person:
        lines = ["Nothing was answered."]
    else:
        lines = list(_render_list(queue, view, listed))

    show(_list_fields(queue, view, review, dry_run=dry_run), map(printable, lines), as_json)


def _list_fields(
    queue: Queue, view: _View, review: AnsweredReview, *, dry_run: bool
) -> dict[str, object]:
    """Return the JSON fields of a review.

    - always: the range of work that was read, the notes and commits that the answers made;
    - with `--candidates`: a row for each candidate;
    - else: the questions (`stale` or `questions`), how many wait for later weeks, and the plan.
    """
    fields: dict[str, object] = {"since": queue.since, "base": queue.base, "notes": review.notes}
    fields["applied"] = None if dry_run else review.applied
    listed = view.select(queue)
    if view.only_candidates:
        fields["candidates"] = [_make_candidate_row(question) for question in listed]
    else:
        fields["stale" if view.only_stale else "questions"] = listed
        fields["waiting"] = queue.week.waiting_count
        fields["plan"] = review.plan
    return fields


def _make_candidate_row(question: Question) -> dict[str, object]:
    """Return the JSON row of a question about a candidate.

    It has the fields of the suggestion, and those of the candidate's repetition or proposed check,
    if there is one.
    """
    if question.suggestion is None:
        raise ValueError(f"{question.kind} is no question about a candidate")
    row: dict[str, object] = {"kind": question.kind, **msgspec.to_builtins(question.suggestion)}
    candidate = question.suggestion.candidate
    for details in (candidate.repetition, candidate.proposal):
        if details is not None:
            row |= msgspec.to_builtins(details)
    row["kind"] = question.kind  # The details may have a kind of their own.
    return row


def _parse_answers(
    listed: Sequence[Question], names_by_verb: Mapping[Answer, Sequence[str]], *, edit: bool
) -> Answers:
    """Return the answers that the options of the command line give.

    Args:
        listed: the listed questions.
        names_by_verb: for each answer the numbers and ids that its option names.
        edit: let the person reword accepted and kept texts in an editor.

    Raises:
        UsageError: unknown-candidate, unsaved-edit.
    """
    from memory_ci.commands.review.review import Answers

    by_verb: dict[Answer, list[Question]] = {}
    for verb, names in names_by_verb.items():
        if names:
            by_verb[verb] = [_find_question(listed, name) for name in names]
    texts: dict[str, str] = {}
    if edit:
        for question in (*by_verb.get("accept", ()), *by_verb.get("keep", ())):
            texts[question.key] = _edit_text(question)
    return Answers(by_verb, texts)


def _read_queue(workspace: Workspace, view: _View) -> Queue:
    """Return the questions of a view.

    Without `--since`, `--candidates` looks at the work of the last record run and after it, and the
    view of all kinds at the work of the last 90 days.
    """
    from memory_ci.commands.record.run import fetch_sessions
    from memory_ci.commands.record.run_options import RecordOptions
    from memory_ci.commands.review.queue import (
        CANDIDATE_KINDS,
        ENTRY_KINDS,
        STALE_CODE_KINDS,
        find_last_start,
        list_queue,
    )

    kinds = CANDIDATE_KINDS | ENTRY_KINDS
    since = view.since
    if view.only_stale:
        kinds = STALE_CODE_KINDS
    elif view.only_candidates:
        kinds = LISTED
        if since is None:
            since = find_last_start(workspace, None)
    with progress("Reading merged work") as advance:
        problems: tuple[str, ...] = ()
        if not view.only_stale:
            problems = fetch_sessions(workspace, None, os.environ)
        options = RecordOptions(since=since, problems=problems)
        return list_queue(workspace, options, now(), os.environ, kinds, progress=advance)


def _render_list(queue: Queue, view: _View, listed: Sequence[Question]) -> Iterator[str]:
    """Yield the lines of the listed questions, or one line if the list is empty.

    Of candidates the best are printed, unless all are requested. The list of a week ends with the
    number of questions that wait for later weeks.
    """
    if not listed:
        yield _render_empty_list(queue, view)
    elif view.only_candidates:
        printed_count = len(listed) if view.show_all else MAX_SUGGESTIONS
        hidden_count = max(len(listed) - printed_count, 0)
        yield from render_questions(listed[:printed_count], hidden_count)
    else:
        waiting_count = queue.week.waiting_count if view.is_week else 0
        yield from render_questions(listed, waiting_count)


def _render_empty_list(queue: Queue, view: _View) -> str:
    """Return the line that is printed if a view has no questions.

    Args:
        queue: the questions of the view, which are none, how many wait for later weeks, and the
            range of work that was read.
        view: the options of the command.
    """
    if view.only_stale:
        return "No entry is stale."
    if not view.only_candidates:
        return _render_no_questions(queue.week.waiting_count)
    since = f" after {queue.since[:10]}" if queue.since else ""
    advice = " `--since 90d` looks further back." if view.since is None else ""
    return f"No candidates in the work{since}.{advice}"


def _render_no_questions(waiting_count: int) -> str:
    """Return the line for a week without questions; `waiting_count` are left for later weeks."""
    if not waiting_count:
        return "Nothing waits for you this week."
    later = f"{plural(waiting_count, 'question')} for later: --all lists them."
    return f"Nothing more waits for you this week. {later}"


def _render_effects(review: AnsweredReview, *, dry_run: bool) -> Iterator[str]:
    """Yield lines on what answers wrote, promoted and committed, or would with `dry_run`."""
    wrote, promoted, committed = "Wrote", "Promoted", "Committed"
    if dry_run:
        wrote, promoted, committed = "Would write", "Would promote", "Would commit"
    branch = short_branch(review.plan.ref)
    for note in review.notes:
        yield f"{wrote} {note.path}"
    for entry in review.promoted:
        yield f"{promoted} {entry.id[:8]} {entry.title}"
    for subject in review.applied.subjects:
        yield f"{committed} on {branch}: {subject}"


def _find_question(listed: Sequence[Question], name: str) -> Question:
    """Return the question that a word names: by its number, or by the start of its entry's id.

    The start of an id has at least 4 characters.

    Raises:
        UsageError: unknown-candidate.
    """
    if name.isdecimal() and 0 < int(name) <= len(listed):
        return listed[int(name) - 1]
    matching_questions: list[Question] = []
    is_id = len(name) > 3
    for question in listed:
        if is_id and question.located and question.located.entry.id.startswith(name.lower()):
            matching_questions.append(question)
    if len(matching_questions) != 1:
        count = plural(len(listed), "question")
        message = f"there is no question {printable(name)} here: {count} found"
        hint = "Look again: the numbers are those of the same list."
        raise UsageError(message, slug="unknown-candidate", hint=hint)
    return matching_questions[0]


def _format_editable_text(question: Question) -> str:
    """Return the text that a person edits: the title, an empty line, and the body."""
    body = ""
    if question.suggestion:
        body = question.suggestion.candidate.body
    elif question.located:
        body = question.located.entry.body
    return f"{question.title}\n\n{body}\n"


def _edit_text(question: Question) -> str:
    """Open the text of a question in the person's editor, and return it as saved.

    Raises:
        UsageError: unsaved-edit if nothing was saved, or no editor was found.
    """
    text: str | None = None
    with suppress(click.ClickException):
        text = click.edit(_format_editable_text(question), extension=".md")
    if text is None or not text.strip():
        message = f'the editor saved no text, so "{question.title}" is not accepted'
        hint = "Nothing was written. Save it, if only as it is."
        raise UsageError(message, slug="unsaved-edit", hint=hint)
    return decode_argument(text)


def render_questions(listed: Sequence[Question], later_count: int) -> Iterator[str]:
    """Yield the lines of numbered questions, and a line on the options that answer them.

    Args:
        listed: the questions, numbered from 1.
        later_count: how many more there are that are not listed.
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
    more = f"{later_count} more with --all. " if later_count else ""
    yield from ("", f"{more}{', '.join(advice)}.")


def _render_question(number: int, question: Question) -> Iterator[str]:
    """Yield the lines of a question, with the number by which options name it."""
    first, *others = _describe_question(question)
    yield f"{number:>2}. {first}"
    yield from (f"    {line}" for line in others)


def _describe_question(question: Question) -> Iterator[str]:
    """Yield the lines of a question: its title, the reason to ask, and where it comes from."""
    if question.located:
        located = question.located
        yield f"{located.entry.id[:8]} {question.title} ({located.path}:{located.line})"
        yield question.why if question.verdicts else f"{question.kind}: {question.why}"
    elif question.suggestion:
        yield question.title
        yield from _describe_suggestion(question.suggestion, question)


def _describe_suggestion(suggestion: Suggestion, question: Question) -> Iterator[str]:
    """Yield the lines on a suggested candidate.

    - A check of later changes: what it tests, and past changes that violate it.
    - A request that people repeated: in which sessions, with quotes.
    - Any other candidate: the sentence that it quotes, if its title is another, and its source.
    """
    from memory_ci.commands.review.dialog import describe_repetition, name_changes

    candidate = suggestion.candidate
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
    yield f"in {name_changes(suggestion.changes)}; {question.why}; {candidate.source}"
