"""Commits of the answers of people to the questions of the review queue."""

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
from memory_ci.commands.record.upkeep import promote_globally
from memory_ci.commands.review.queue import STALE, Queue, note_asked
from memory_ci.errors import UsageError
from memory_ci.extraction.entries import entry_id, to_entry
from memory_ci.gitrepo.repo import find_setting
from memory_ci.memory.apply import Applied, ExtraFiles, apply_plan, preview_plan
from memory_ci.memory.cites import anchor_entries
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.memory.maintainer_decisions import TITLE_WIDTH
from memory_ci.memory.workspace import Workspace, workspace_at
from memory_ci.records.anchor import STALE_KINDS, Anchor
from memory_ci.records.candidate import Answer, Question
from memory_ci.records.entry import Entry
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.plan import PLAN_VERSION, Change, Counts, EngineUse, Plan, PlannedStep, Step
from memory_ci.sessions.repetitions import REPETITION
from memory_ci.store.edits import format_entry
from memory_ci.store.manual_notes import demote_headings
from memory_ci.text import plural, shorten

KEPT = "kept in a review: it holds for the code as it is"
CHECKED = "a check that was accepted in a review"
RETIRED = "retired in a review: it does not hold any more"


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
    reworded = [question for question in answers.to("keep") if question.key in answers.texts]
    checked = [question for question in answers.to("accept") if _find_checked(question)]
    accepted_candidates = [
        question for question in answers.to("accept") if _makes_note(question, "accept", None)
    ]
    notes = tuple(
        _make_note(workspace, question, answers.texts.get(question.key), today)
        for question in (*accepted_candidates, *reworded)
    )
    kept = [
        question
        for question in answers.to("keep")
        if _confirms(question) and question not in reworded
    ]
    answered = AnsweredEntries(kept, answers.to("retire"), checked)
    plan = plan_review(workspace, queue, answered, today)
    promoted = _promote(workspace, answers, now, dry_run=dry_run)
    files = {note.path: format_entry(note.entry).encode() for note in notes if note.is_new}
    if answers.answered or answers.skipped:
        files[REJECTED_FILE] = _note_answers(workspace, queue, answers, today)
    extra_files = ExtraFiles(_describe(answers), files, _find_author(workspace))
    if dry_run:
        applied = preview_plan(workspace, plan, now, extra_files)
    else:
        applied = apply_plan(workspace, plan, now, in_actions=in_actions, extra_files=extra_files)
    return AnsweredReview(plan, applied, notes, promoted)


def try_answer(
    workspace: Workspace, today: date, question: Question, verb: Answer, text: str | None
) -> None:
    """Raise the error that an answer would lead to; nothing is written.

    Args:
        workspace: the repository.
        today: the day.
        question: the question.
        verb: the answer.
        text: other words, None for none.

    Raises:
        UsageError: empty-entry.
        MemoryCIError: as `add_entry`.
    """
    if _makes_note(question, verb, text):
        _make_note(workspace, question, text, today)


def _makes_note(question: Question, verb: Answer, text: str | None) -> bool:
    """Return whether an answer is written as a note in the inbox."""
    if verb == "keep":
        return text is not None
    return verb == "accept" and question.suggestion is not None and not _find_checked(question)


def _make_note(workspace: Workspace, question: Question, text: str | None, today: date) -> Added:
    return add_entry(workspace, _draft_note(workspace, question, text, today), dry_run=True)


def _confirms(question: Question) -> bool:
    """Return whether a question that is answered by `keep` confirms an entry as of today.

    That is one about its code, and any about a rule that was counted in sessions: its year begins
    anew.
    """
    is_rule = question.located is not None and question.located.entry.engine == REPETITION
    return is_rule or question.kind in STALE


def _refuse_wrong_answers(answers: Answers) -> None:
    """Refuse an answer that a question does not take.

    Raises:
        UsageError: wrong-answer.
    """
    for verb, questions in answers.by_verb.items():
        for question in questions:
            if verb not in question.answers:
                message = (
                    f'--{verb} is no answer to "{question.title}", which is asked for this: '
                    f"{question.kind}"
                )
                hint = f"Say {' or '.join(f'--{word}' for word in question.answers)}."
                raise UsageError(message, slug="wrong-answer", hint=hint)


def _promote(
    workspace: Workspace, answers: Answers, now: datetime, *, dry_run: bool
) -> tuple[Entry, ...]:
    """Copy accepted entries to the global memory."""
    accepted = [question.located for question in answers.to("accept") if question.located]
    if not accepted:
        return ()
    entries = tuple(place.entry for place in accepted)
    return promote_globally(workspace.config.global_.path, entries, now, dry_run=dry_run)


def _note_answers(workspace: Workspace, queue: Queue, answers: Answers, today: date) -> bytes:
    """Return REJECTED_FILE with the questions asked, answered and declined for good."""
    asked = (*queue.week.shown, *answers.skipped)
    declined = [
        f"{question.key} {shorten(question.title, TITLE_WIDTH)}" for question in answers.to("never")
    ]
    return note_asked(workspace, queue.base, asked, answers.answered, today, more=declined)


def _describe(answers: Answers) -> str:
    """Return the message of the commit."""
    counts = [
        f"{verb} {plural(len(questions), 'question')}"
        for verb, questions in answers.by_verb.items()
        if questions
    ]
    return f"memory: {', '.join(counts) or 'put off what was asked'}\n"


def _find_author(workspace: Workspace) -> str:
    """Return the person whom git's configuration names, or ""."""
    name = find_setting(workspace.repo, "user.name")
    mail = find_setting(workspace.repo, "user.email")
    return f"{name} <{mail}>" if name and mail else ""


def _draft_note(workspace: Workspace, question: Question, text: str | None, today: date) -> Entry:
    """Return the note of an accepted candidate, or the note that replaces an entry.

    Args:
        workspace: the repository.
        question: the question.
        text: other words, title first.
        today: the day.

    Raises:
        UsageError: empty-entry.
    """
    if question.suggestion is None:
        return _draft_replacement(question, text or "", today)
    name = find_setting(workspace.repo, "user.name") or "a person"
    candidate = replace(question.suggestion.candidate, accepted=f"by {name}")
    entry = to_entry(candidate, entry_id=entry_id(candidate), today=today, merged_on=today)
    if text is not None:
        title, body = split_text(text)
        entry = replace(entry, title=title, body=demote_headings(body))
    return replace(entry, scope=candidate.scope)


def _draft_replacement(question: Question, text: str, today: date) -> Entry:
    """Return a note that rewords an entry and supersedes it."""
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
    if question.located is None:
        raise ValueError(f"{question.kind} is no question about an entry")
    return question.located.entry


def _find_checked(question: Question) -> str:
    """Return the id of the entry that gets the check of a question, "" for none."""
    proposal = question.suggestion.candidate.proposal if question.suggestion else None
    return proposal.place if proposal is not None and proposal.source == "entry" else ""


class AnsweredEntries(NamedTuple):
    """Questions about entries with their answers.

    Attributes:
        kept: questions about entries that hold.
        ended: questions about entries that do not hold any more.
        checked: questions about checks of entries, which were accepted.
    """

    kept: Sequence[Question] = ()
    ended: Sequence[Question] = ()
    checked: Sequence[Question] = ()


def plan_review(workspace: Workspace, queue: Queue, answered: AnsweredEntries, today: date) -> Plan:
    """Return the plan that anchors the entries that hold, and retires those that do not.

    An entry whose check was accepted gets it.

    A cite whose code is gone is taken out. An entry without cites is confirmed today: names that no
    longer exist by then say nothing against it.

    Args:
        workspace: the repository.
        queue: the questions.
        answered: the questions with their answers.
        today: the day.
    """
    kept, ended, checked = answered
    committed = workspace_at(workspace.repo, queue.base)
    paths = committed.at(queue.base).tree.files.keys()
    recited = [
        replace(_entry_of(question), cites=tuple(_cite_again(question, queue.base, paths)))
        for question in kept
    ]
    changes: dict[Step, list[Change]] = {"reinforce": [], "consolidate": [], "retire": []}
    for question, anchored in zip(kept, anchor_entries(committed, recited), strict=True):
        entry = _entry_of(question)
        if anchored != entry:
            changes["consolidate"].append(_update("consolidate", question, anchored, KEPT))
        else:
            confirmed = replace(entry, last_reinforced=max(today, entry.last_reinforced))
            changes["reinforce"].append(_update("reinforce", question, confirmed, KEPT))
    by_id = {place.entry.id: place for place in committed.at(queue.base).memory.located}
    for question in checked:
        place = by_id.get(_find_checked(question))
        proposal = question.suggestion.candidate.proposal if question.suggestion else None
        if place is not None and proposal is not None:
            entry = replace(place.entry, check=proposal.check)
            changes["consolidate"].append(
                Change(step="consolidate", kind="update", path=place.path, entry=entry, why=CHECKED)
            )
    for question in ended:
        retired = replace(_entry_of(question), status="retired")
        changes["retire"].append(_update("retire", question, retired, RETIRED))
    steps = [
        PlannedStep(step=step, changes=tuple(planned))
        for step, planned in changes.items()
        if planned
    ]
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


def _update(step: Step, question: Question, entry: Entry, why: str) -> Change:
    path = question.located.path if question.located else ""
    return Change(step=step, kind="update", path=path, entry=entry, why=why)


def _cite_again(question: Question, commit: str, paths: Container[str]) -> Iterator[str]:
    """Yield the cites of a kept entry: valid ones unchanged, the others at the commit."""
    verdicts = iter(question.verdicts)
    for cite in _entry_of(question).cites:
        verdict = next(verdicts, None) if parse_anchor(cite) else None
        if verdict is None or verdict.kind not in STALE_KINDS:
            yield cite
            continue
        is_removed = verdict.edit is not None and verdict.edit.is_removal
        if verdict.path in paths and not is_removed:
            anchor = Anchor(
                path=verdict.path, commit=commit[:SHA_WIDTH], first=verdict.first, last=verdict.last
            )
            yield format_anchor(anchor)
