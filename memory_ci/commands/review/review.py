"""Review: what people answer to the questions of the queue, as commits of what they said."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import date, datetime

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.anchors import format_anchor, parse_anchor
from memory_ci.commands.add.add import Added, add_entry, draft_entry, split_text
from memory_ci.commands.record.upkeep import promote_globally
from memory_ci.commands.review.queue import STALE, Queue, note_asked
from memory_ci.errors import UsageError
from memory_ci.extraction.entries import entry_id, to_entry
from memory_ci.gitrepo.repo import find_setting
from memory_ci.memory.apply import Applied, Beside, apply_plan, preview_plan
from memory_ci.memory.cites import anchor_entries
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.memory.maintainer_decisions import TITLE_WIDTH
from memory_ci.memory.workspace import Workspace, workspace_at
from memory_ci.records.anchor import MARKED, Anchor
from memory_ci.records.candidate import Answer, Question
from memory_ci.records.entry import Entry
from memory_ci.records.names import SHA_WIDTH
from memory_ci.records.plan import PLAN_VERSION, Change, Counts, EngineUse, Plan, PlannedStep, Step
from memory_ci.store.edits import format_entry
from memory_ci.store.manual_notes import demote_headings
from memory_ci.text import plural, shorten

KEPT, RETIRED = (
    "kept in a review: it holds for the code as it is",
    "retired in a review: it does not hold any more",
)


class Answers(msgspec.Struct, frozen=True):
    """What a person says to which questions. `texts` are other words for what is accepted or kept, by key: a note then,
    which takes the place of an entry once it is folded. `skipped` are not asked again for 90 days."""

    said: Mapping[Answer, Sequence[Question]]
    texts: Mapping[str, str] = {}
    skipped: Sequence[Question] = ()

    def to(self, verb: Answer) -> Sequence[Question]:
        """The questions that were answered so."""
        return self.said.get(verb, ())


class AnsweredReview(msgspec.Struct, frozen=True):
    """What became of answers: the plan for what stands in memory, the commits, notes for the inbox, what was copied
    into global memory."""

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
    """One commit, and another for what is retired: notes in the inbox, entries anchored anew, and the lines of
    REJECTED_FILE that say what the week asked, and what is never to be asked again.

    Raises UsageError (wrong-answer, empty-entry), and what `add_entry`, `promote_globally` and `apply_plan` raise.
    """
    for verb, one in (
        (verb, one)
        for verb, ones in answers.said.items()
        for one in ones
        if verb not in one.answers
    ):
        message = f'--{verb} is no answer to "{one.title}", which is asked for this: {one.kind}'
        hint = f"Say {' or '.join(f'--{word}' for word in one.answers)}."
        raise UsageError(message, slug="wrong-answer", hint=hint)
    today, accepted = now.date(), answers.to("accept")
    worded = [
        *(one for one in accepted if one.suggestion),
        *(o for o in answers.to("keep") if o.key in answers.texts),
    ]
    drafts = [_note(workspace, one, answers.texts.get(one.key), today) for one in worded]
    notes = tuple(add_entry(workspace, draft, dry_run=True) for draft in drafts)
    kept = [one for one in answers.to("keep") if one.kind in STALE and one not in worded]
    plan = plan_review(workspace, queue, kept, answers.to("retire"), today)
    raised = tuple(one.located.entry for one in accepted if one.located)
    promoted = (
        promote_globally(workspace.config.global_.path, raised, now, dry_run=dry_run)
        if raised
        else ()
    )
    files = {note.path: format_entry(note.entry).encode() for note in notes if note.is_new}
    done = [one for ones in answers.said.values() for one in ones]
    if done or answers.skipped:
        asked = (*queue.week.shown, *answers.skipped)
        over = [f"{one.key} {shorten(one.title, TITLE_WIDTH)}" for one in answers.to("never")]
        files[REJECTED_FILE] = note_asked(workspace, queue.base, asked, done, today, over)
    told = ", ".join(
        f"{verb} {plural(len(ones), 'question')}" for verb, ones in answers.said.items() if ones
    )
    name, mail = (find_setting(workspace.repo, f"user.{key}") for key in ("name", "email"))
    beside = Beside(
        f"memory: {told or 'put off what was asked'}\n",
        files,
        f"{name} <{mail}>" if name and mail else "",
    )
    if dry_run:
        applied = preview_plan(workspace, plan, now, beside)
    else:
        applied = apply_plan(workspace, plan, now, in_actions=in_actions, beside=beside)
    return AnsweredReview(plan, applied, notes, promoted)


def _note(workspace: Workspace, one: Question, text: str | None, today: date) -> Entry:
    """What is accepted, with its quotes and who accepted it, or what holds now in the place of an entry. Raises
    UsageError (empty-entry)."""
    if one.suggestion is None:
        entry, words = _entry_of(one), text or ""
        new_id = str(
            uuid.UUID(bytes=hashlib.sha256(f"{entry.id} {words}".encode()).digest()[:16], version=4)
        )
        fields = {
            "type": entry.type,
            "domain": entry.domain,
            "importance": entry.importance,
            "supersedes": (entry.id,),
        }
        scope = one.located.scope.target if one.located else "project"
        return draft_entry(new_id, today, split_text(words), **fields, scope=scope)
    name = find_setting(workspace.repo, "user.name") or "a person"
    candidate = replace(one.suggestion.candidate, accepted=f"by {name}")
    entry = to_entry(candidate, entry_id=entry_id(candidate), today=today, merged_on=today)
    if text is not None:
        title, body = split_text(text)
        entry = replace(entry, title=title, body=demote_headings(body))
    return replace(entry, scope=candidate.scope)


def _entry_of(one: Question) -> Entry:
    if one.located is None:
        raise ValueError(f"{one.kind} is no question about an entry")
    return one.located.entry


def plan_review(
    workspace: Workspace,
    queue: Queue,
    kept: Sequence[Question],
    ended: Sequence[Question],
    today: date,
) -> Plan:
    """The entries that hold, anchored anew in the code as it is, and those that do not, retired. A cite whose code is
    gone is taken out. What has no cites is confirmed `today`: names that are dead by then say nothing against it."""
    there = workspace_at(workspace.repo, queue.base)
    paths = there.at(queue.base).tree.files.keys()
    bare = [replace(_entry_of(one), cites=tuple(_recite(one, queue.base, paths))) for one in kept]
    changes: dict[Step, list[Change]] = {"reinforce": [], "consolidate": [], "retire": []}

    def update(step: Step, one: Question, entry: Entry, why: str) -> None:
        path = one.located.path if one.located else ""
        changes[step].append(Change(step=step, kind="update", path=path, entry=entry, why=why))

    for one, anchored in zip(kept, anchor_entries(there, bare), strict=True):
        entry = _entry_of(one)
        if anchored != entry:
            update("consolidate", one, anchored, KEPT)
        else:
            update(
                "reinforce",
                one,
                replace(entry, last_reinforced=max(today, entry.last_reinforced)),
                KEPT,
            )
    for one in ended:
        update("retire", one, replace(_entry_of(one), status="retired"), RETIRED)
    return Plan(
        schema_version=PLAN_VERSION,
        ref=queue.ref,
        base=queue.base,
        since=None,
        until=None,
        engine=EngineUse("none", "a person answered"),
        counts=Counts(),
        steps=tuple(
            PlannedStep(step=name, changes=tuple(done)) for name, done in changes.items() if done
        ),
    )


def _recite(one: Question, commit: str, paths: Container[str]) -> Iterator[str]:
    """The cites of an entry that is kept: those that stand as they are, the others bare at the commit."""
    found = iter(one.verdicts)
    for cite in _entry_of(one).cites:
        verdict = next(found, None) if parse_anchor(cite) else None
        if verdict is None or verdict.kind not in MARKED:
            yield cite
        elif verdict.path in paths and not (verdict.edit and verdict.edit.is_removal):
            anchor = Anchor(
                path=verdict.path, commit=commit[:SHA_WIDTH], first=verdict.first, last=verdict.last
            )
            yield format_anchor(anchor)
