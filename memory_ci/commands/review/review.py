"""Commits of people's answers to questions about memory entries and candidates for entries."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.anchors import format_anchor, parse_anchor
from memory_ci.commands.add.add import Added, add_entry, draft_entry, split_text
from memory_ci.commands.record.global_promotion import promote_globally
from memory_ci.commands.review.queue import STALE_CODE_KINDS, Queue, record_asked
from memory_ci.errors import UsageError
from memory_ci.extraction.entries import entry_id, to_entry
from memory_ci.gitrepo.repo import find_setting
from memory_ci.memory.apply import Applied, ExtraFiles, apply_plan, preview_plan
from memory_ci.memory.cites import anchor_entries
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.memory.maintainer_decisions import TITLE_WIDTH
from memory_ci.memory.workspace import Snapshot, Workspace, workspace_at
from memory_ci.records.anchor import STALE_KINDS, Anchor
from memory_ci.records.candidate import Answer, Question
from memory_ci.records.entry import Entry
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.plan import (
    PLAN_VERSION,
    STEPS,
    Change,
    Counts,
    EngineUse,
    Plan,
    PlannedStep,
    Step,
)
from memory_ci.sessions.repetitions import REPETITION_ENGINE
from memory_ci.store.edits import format_entry
from memory_ci.store.manual_notes import demote_headings
from memory_ci.text import plural, shorten

NOTED_ANSWERS: tuple[Answer, ...] = ("accept", "keep")
"""Answers that may be written as a note in the inbox."""

KEPT_REASON = "kept in a review: it holds for the code as it is"
CHECK_REASON = "a check that was accepted in a review"
RETIRED_REASON = "retired in a review: it does not hold any more"


class Answers(msgspec.Struct, frozen=True):
    """The answers of a person.

    Attributes:
        by_verb: the questions with each answer.
        texts: other words for accepted or kept texts, by the question's key. They become a note,
            which replaces the entry once it is folded.
        skipped: questions that are not asked again for 90 days.
    """

    by_verb: Mapping[Answer, Sequence[Question]]
    texts: Mapping[str, str] = {}
    skipped: Sequence[Question] = ()

    def to(self, verb: Answer) -> Sequence[Question]:
        """Return the questions with an answer."""
        return self.by_verb.get(verb, ())

    @property
    def answered(self) -> list[Question]:
        """The questions with any answer."""
        return [question for questions in self.by_verb.values() for question in questions]


class AnsweredReview(msgspec.Struct, frozen=True):
    """The result of answers.

    Attributes:
        plan: the plan for entries.
        applied: the commits.
        notes: notes in the inbox.
        promoted: entries that were copied to the global memory.
    """

    plan: Plan
    applied: Applied
    notes: tuple[Added, ...]
    promoted: tuple[Entry, ...]


def answer(
    workspace: Workspace,
    queue: Queue,
    answers: Answers,
    now: datetime,
    *,
    dry_run: bool,
    in_actions: bool,
) -> AnsweredReview:
    """Commit answers: one commit, and another for retired entries.

    The first holds notes in the inbox, entries that are anchored again, and the lines of
    REJECTED_FILE that record the questions of the week and those declined for good.

    Args:
        workspace: the repository.
        queue: the questions.
        answers: the answers.
        now: the time of the commits.
        dry_run: commit nothing.
        in_actions: whether a job of GitHub Actions commits.

    Raises:
        UsageError: wrong-answer, empty-entry.
        MemoryCIError: as `add_entry`, `promote_globally` and `apply_plan`.
    """
    _refuse_wrong_answers(answers)
    today = now.date()
    notes = _list_notes(workspace, answers, today)
    plan = plan_review(workspace, queue, _select_entries(answers), today)
    promoted_entries = _promote_entries(workspace, answers, now, dry_run=dry_run)
    files = {note.path: format_entry(note.entry).encode() for note in notes if note.is_new}
    if answers.answered or answers.skipped:
        files[REJECTED_FILE] = _render_rejected_file(workspace, queue, answers, today)
    extra_files = ExtraFiles(_make_message(answers), files, _find_author(workspace))
    if dry_run:
        applied = preview_plan(workspace, plan, now, extra_files)
    else:
        applied = apply_plan(workspace, plan, now, in_actions=in_actions, extra_files=extra_files)
    return AnsweredReview(plan, applied, notes, promoted_entries)


def _list_notes(workspace: Workspace, answers: Answers, today: date) -> tuple[Added, ...]:
    """Return the notes that answers make: accepted candidates, then reworded entries."""
    notes: list[Added] = []
    for verb in NOTED_ANSWERS:
        for question in answers.to(verb):
            text = answers.texts.get(question.key)
            if _is_written_as_note(question, verb, text):
                notes.append(_prepare_note(workspace, question, text, today))
    return tuple(notes)


def _select_entries(answers: Answers) -> AnsweredEntries:
    """Return the answered questions that change an existing entry in its file.

    These are confirmed entries, retired entries, and entries that get an accepted check. A reworded
    entry is not changed: a note replaces it.
    """
    to_confirm: list[Question] = []
    for question in answers.to("keep"):
        is_reworded = question.key in answers.texts
        if not is_reworded and _confirms_entry(question):
            to_confirm.append(question)
    with_check = [
        question for question in answers.to("accept") if _find_id_of_checked_entry(question)
    ]
    return AnsweredEntries(to_confirm, answers.to("retire"), with_check)


def try_answer(
    workspace: Workspace, today: date, question: Question, verb: Answer, text: str | None
) -> None:
    """Raise the error that writing an answer would raise; nothing is written.

    Args:
        workspace: the repository.
        today: the day.
        question: the question.
        verb: the answer.
        text: the text as the person reworded it, None if it is unchanged.

    Raises:
        UsageError: empty-entry.
        MemoryCIError: as `add_entry`.
    """
    if _is_written_as_note(question, verb, text):
        _prepare_note(workspace, question, text, today)  # For its errors.


def _is_written_as_note(question: Question, verb: Answer, text: str | None) -> bool:
    """Return whether an answer is written as a note in the inbox.

    The next record run moves notes into memory files. An accepted candidate and a reworded entry
    become notes. An accepted check of an existing entry does not: the entry itself gets the check.

    Args:
        question: the question.
        verb: the answer.
        text: the text as the person reworded it, None if it is unchanged.
    """
    if verb == "keep":
        is_reworded = text is not None
        return is_reworded
    is_candidate = question.suggestion is not None
    return verb == "accept" and is_candidate and not _find_id_of_checked_entry(question)


def _prepare_note(workspace: Workspace, question: Question, text: str | None, today: date) -> Added:
    """Return the note of an answer as a file of the inbox, which is not written yet."""
    return add_entry(workspace, _draft_note_entry(workspace, question, text, today), dry_run=True)


def _confirms_entry(question: Question) -> bool:
    """Return whether the answer `keep` to a question updates its entry, which holds as of today.

    It does for questions about changed code: the cites are renewed. It also does for any question
    about a rule that people repeated in sessions, so that nobody is asked about it for a year.
    """
    is_repeated_rule = (
        question.located is not None and question.located.entry.engine == REPETITION_ENGINE
    )
    return is_repeated_rule or question.kind in STALE_CODE_KINDS


def _refuse_wrong_answers(answers: Answers) -> None:
    """Refuse an answer that a question does not take.

    Raises:
        UsageError: wrong-answer.
    """
    for verb, questions in answers.by_verb.items():
        for question in questions:
            if verb not in question.answers:
                message = (
                    f'--{verb} is no answer to "{question.title}", a question of this kind: '
                    f"{question.kind}"
                )
                hint = f"Say {' or '.join(f'--{word}' for word in question.answers)}."
                raise UsageError(message, slug="wrong-answer", hint=hint)


def _promote_entries(
    workspace: Workspace, answers: Answers, now: datetime, *, dry_run: bool
) -> tuple[Entry, ...]:
    """Copy entries to the global memory, if a person agreed that they hold in any repository."""
    accepted_entries = [question.located for question in answers.to("accept") if question.located]
    if not accepted_entries:
        return ()
    entries = tuple(located.entry for located in accepted_entries)
    return promote_globally(workspace.config.global_.path, entries, now, dry_run=dry_run)


def _render_rejected_file(
    workspace: Workspace, queue: Queue, answers: Answers, today: date
) -> bytes:
    """Return the content of REJECTED_FILE with new lines.

    They record the questions that were asked, with those that were answered, so that they are not
    repeated soon. Questions that were answered by "never" get a line with key and title.
    """
    asked_questions = (*queue.week.questions, *answers.skipped)
    never_lines = [
        f"{question.key} {shorten(question.title, TITLE_WIDTH)}" for question in answers.to("never")
    ]
    return record_asked(
        workspace, queue.base, asked_questions, answers.answered, today, more_lines=never_lines
    )


def _make_message(answers: Answers) -> str:
    """Return the message of the commit: `memory: accept 2 questions, never 1 question`."""
    counts: list[str] = []
    for verb, questions in answers.by_verb.items():
        if questions:
            counts.append(f"{verb} {plural(len(questions), 'question')}")
    return f"memory: {', '.join(counts) or 'postpone questions'}\n"


def _find_author(workspace: Workspace) -> str:
    """Return the person whom git's configuration names (`Ann <ann@example.org>`), or ""."""
    name = find_setting(workspace.repo, "user.name")
    mail = find_setting(workspace.repo, "user.email")
    return f"{name} <{mail}>" if name and mail else ""


def _draft_note_entry(
    workspace: Workspace, question: Question, text: str | None, today: date
) -> Entry:
    """Return the entry of the note for an accepted candidate or for a reworded entry.

    Args:
        workspace: the repository.
        question: the question.
        text: the text as the person reworded it, title first; None if it is unchanged.
        today: the day.

    Raises:
        UsageError: empty-entry.
    """
    if question.suggestion is None:  # The question is about an entry.
        return _draft_replacement(question, text or "", today)
    name = find_setting(workspace.repo, "user.name") or "a person"
    candidate = replace(question.suggestion.candidate, accepted=f"by {name}")
    entry = to_entry(candidate, entry_id=entry_id(candidate), today=today, merged_on=today)
    if text is not None:
        title, body = split_text(text)
        entry = replace(entry, title=title, body=demote_headings(body))
    # A note of the inbox names its scope; entries in memory files have the scope of their file.
    return replace(entry, scope=candidate.scope)


def _draft_replacement(question: Question, text: str, today: date) -> Entry:
    """Return a note that rewords an entry and supersedes it.

    Its id is derived from the entry and the text, so that the same answer makes the same note.
    """
    entry = _entry_of(question)
    digest = hashlib.sha256(f"{entry.id} {text}".encode()).digest()
    note_id = uuid.UUID(bytes=digest[:16], version=4)
    return draft_entry(
        str(note_id),
        today,
        split_text(text),
        type=entry.type,
        domain=entry.domain,
        importance=entry.importance,
        supersedes=(entry.id,),
        scope=question.located.scope.target if question.located else "project",
    )


def _entry_of(question: Question) -> Entry:
    """Return the entry that a question is about."""
    if question.located is None:
        raise ValueError(f"{question.kind} is no question about an entry")
    return question.located.entry


def _find_id_of_checked_entry(question: Question) -> str:
    """Return the id of the existing entry to which the proposed check belongs, "" for none."""
    proposal = question.suggestion.candidate.proposal if question.suggestion else None
    return proposal.place if proposal is not None and proposal.source == "entry" else ""


class AnsweredEntries(NamedTuple):
    """The answered questions that change an existing entry.

    Attributes:
        to_confirm: questions about entries that hold.
        to_retire: questions about entries that do not hold any more.
        with_check: questions about checks of entries, which were accepted.
    """

    to_confirm: Sequence[Question] = ()
    to_retire: Sequence[Question] = ()
    with_check: Sequence[Question] = ()


def plan_review(
    workspace: Workspace, queue: Queue, answered_entries: AnsweredEntries, today: date
) -> Plan:
    """Return the plan that changes entries as people answered.

    Entries that hold are confirmed, entries that do not hold are retired, and entries whose check
    was accepted get it.

    Args:
        workspace: the repository.
        queue: the questions.
        answered_entries: the questions with their answers.
        today: the day.
    """
    base = workspace_at(workspace.repo, queue.base).at(queue.base)
    changes = [
        *_confirm_entries(base, answered_entries.to_confirm, today),
        *_add_checks(base, answered_entries.with_check),
        *_retire_entries(answered_entries.to_retire),
    ]
    steps: list[PlannedStep] = []
    for step in STEPS:
        step_changes = tuple(change for change in changes if change.step == step)
        if step_changes:
            steps.append(PlannedStep(step=step, changes=step_changes))
    return Plan(
        schema_version=PLAN_VERSION,
        ref=queue.ref,
        base=queue.base,
        since=None,
        until=None,
        engine=EngineUse("none", "a person answered"),
        counts=Counts(),
        steps=tuple(steps),
    )


def _confirm_entries(
    base: Snapshot, kept_questions: Sequence[Question], today: date
) -> Iterator[Change]:
    """Yield the updates of entries that hold.

    Cites of changed code are renewed: they name the code at the commit. Cites whose code is gone
    are removed. An entry whose cites do not change is dated as of today instead. After that day,
    names in its text that the code has lost before are no reason to ask again.

    Args:
        base: the commit.
        kept_questions: the questions that were answered by `keep`.
        today: the day.
    """
    paths = base.tree.files.keys()
    entries_to_anchor: list[Entry] = []
    for question in kept_questions:
        cites = tuple(_list_renewed_cites(question, base.sha, paths))
        entries_to_anchor.append(replace(_entry_of(question), cites=cites))
    anchored_entries = anchor_entries(base.workspace, entries_to_anchor)
    for question, anchored_entry in zip(kept_questions, anchored_entries, strict=True):
        entry = _entry_of(question)
        if anchored_entry != entry:
            yield _make_update("consolidate", question, anchored_entry, KEPT_REASON)
        else:
            dated_entry = replace(entry, last_reinforced=max(today, entry.last_reinforced))
            yield _make_update("reinforce", question, dated_entry, KEPT_REASON)


def _add_checks(base: Snapshot, questions: Sequence[Question]) -> Iterator[Change]:
    """Yield the updates of entries that get the check that a person accepted.

    They belong to the step `consolidate`, as in a record run.
    """
    for question in questions:
        located = base.entries_by_id.get(_find_id_of_checked_entry(question))
        proposal = question.suggestion.candidate.proposal if question.suggestion else None
        if located is not None and proposal is not None:
            entry = replace(located.entry, check=proposal.check)
            yield Change(
                step="consolidate", kind="update", path=located.path, entry=entry, why=CHECK_REASON
            )


def _retire_entries(questions: Sequence[Question]) -> Iterator[Change]:
    """Yield the updates that retire entries: agents are not shown them any more."""
    for question in questions:
        retired = replace(_entry_of(question), status="retired")
        yield _make_update("retire", question, retired, RETIRED_REASON)


def _make_update(step: Step, question: Question, entry: Entry, why: str) -> Change:
    """Return the change that writes an entry in place of that of a question."""
    path = question.located.path if question.located else ""
    return Change(step=step, kind="update", path=path, entry=entry, why=why)


def _list_renewed_cites(question: Question, commit: str, paths: Container[str]) -> Iterator[str]:
    """Yield the cites of an entry that holds, renewed where the cited code has changed.

    A cite (`src/a.py:10-20@3f2ab91c`) of unchanged code stays. A cite of changed code gets the
    lines where the code is now, and the commit. A cite whose code is gone is left out.

    Args:
        question: the question about the entry, with a verdict on each of its cites.
        commit: the commit.
        paths: the files of the commit.
    """
    # The verdicts have the order of the cites. A cite that is no anchor (a plain path) has none.
    verdicts = iter(question.verdicts)
    for cite in _entry_of(question).cites:
        is_anchor = parse_anchor(cite) is not None
        verdict = next(verdicts, None) if is_anchor else None
        if verdict is None or verdict.kind not in STALE_KINDS:
            yield cite
            continue
        is_removed = verdict.edit is not None and verdict.edit.is_removal
        if verdict.path in paths and not is_removed:
            anchor = Anchor(
                path=verdict.path, commit=commit[:SHA_WIDTH], first=verdict.first, last=verdict.last
            )
            yield format_anchor(anchor)
