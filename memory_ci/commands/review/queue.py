"""The review queue: everything in memory, and proposed for it, that a person may answer (docs/reviewing.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.text import say_verdict
from memory_ci.anchors.verdicts import judge_entry
from memory_ci.commands.record.learner import OnProgress
from memory_ci.commands.record.run import RecordOptions, plan_record
from memory_ci.commands.record.upkeep import names_of, promote_globally
from memory_ci.commands.retrieve.anchor_verdicts import judge_located
from memory_ci.commands.review.priority import (
    DOUBT,
    PAUSE_DAYS,
    Week,
    choose_week,
    doubt_of,
    expected_use,
    note_week,
)
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import MemoryCIError
from memory_ci.extraction.entries import content_key
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.gitrepo.history import find_addition, find_cursor
from memory_ci.gitrepo.repo import find_commit
from memory_ci.lifecycle.consolidation import find_contradictions
from memory_ci.lifecycle.episodes import combine, count_usage
from memory_ci.lifecycle.prominence import effective_importance, is_in_force
from memory_ci.lifecycle.promotion import plan_promotion
from memory_ci.lifecycle.utility import is_idle
from memory_ci.memory.draft import Draft
from memory_ci.memory.edits import name_edits
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.forgotten import HEADER, REJECTED_FILE, read_rejected
from memory_ci.memory.workspace import Workspace, branch_tip, memory_test, workspace_at
from memory_ci.records.anchor import MARKED
from memory_ci.records.candidate import Judged, Question, QuestionKind, Suggestion
from memory_ci.records.entry import Located
from memory_ci.text import plural

PROPOSED: frozenset[QuestionKind] = frozenset({"candidate", "quarantined"})
STALE: frozenset[QuestionKind] = frozenset({"changed", "gone"})
KEPT: frozenset[QuestionKind] = STALE | {"contradiction", "unused", "promotion"}


class Queue(msgspec.Struct, frozen=True):
    """The questions of a branch as one commit has them, and those of the week; `since` is where the work that was read
    for candidates begins (None: at the root)."""

    ref: str
    base: str
    since: str | None
    found: tuple[Question, ...]
    week: Week


def list_queue(
    workspace: Workspace,
    options: RecordOptions,
    now: datetime,
    environ: Mapping[str, str],
    kinds: Collection[QuestionKind] = PROPOSED | KEPT,
    progress: OnProgress = lambda done, count: None,
) -> Queue:
    """The questions of these kinds on the tip of a branch; candidates are those of the last 90 days, unless the options
    name a range. Nothing is kept between calls. Raises what `plan_record` raises."""
    ref, base = branch_tip(workspace, options.ref, options.base)
    since: str | None = None
    judged: tuple[Judged, ...] = ()
    if not PROPOSED.isdisjoint(kinds):
        asked = replace(options, ref=ref, base=base, engine=options.engine or "rules")
        asked = replace(
            asked, since=options.since if options.since is not None else f"{PAUSE_DAYS}d"
        )
        plan = plan_record(workspace, asked, now.date(), progress, environ)
        since, judged = plan.since, plan.judged
    found = tuple(list_questions(workspace, base, judged, now, kinds))
    here = workspace_at(workspace.repo, base)
    is_whole = (
        set(kinds) == PROPOSED | KEPT
    )  # a view shows what it is asked for, whatever week it is
    return Queue(
        ref, base, since, found, find_week(here, base, found, now.date()) if is_whole else Week()
    )


def find_last_range(workspace: Workspace, ref: str | None) -> str | None:
    """Where the range of the last record run began: where the run before it ended, or memory-ci came in."""
    base = branch_tip(workspace, ref)[1]
    is_memory = memory_test(workspace_at(workspace.repo, base))
    last = find_cursor(workspace.repo, base, is_memory)
    start = find_commit(workspace.repo, f"{last.commit}^") if last else None
    before = find_cursor(workspace.repo, start, is_memory) if start else None
    return before.source if before else find_addition(workspace.repo, base, CONFIG_FILE)


def list_questions(
    workspace: Workspace,
    base: str,
    judged: Iterable[Judged],
    now: datetime,
    kinds: Collection[QuestionKind] = PROPOSED | KEPT,
) -> Iterator[Question]:
    """The questions of a commit and of what a run judged; not those that a person never wants to see again. Of an entry
    there is one, the most urgent."""
    there = workspace_at(workspace.repo, base)
    draft = Draft(there.at(base))
    never = {line.split()[0] for line in read_rejected(draft.base)}
    if not PROPOSED.isdisjoint(kinds):
        entries = [*draft.entries, *(place.entry for place in draft.inbox)]
        yield from (one for one in _proposed(tuple(judged), never, entries) if one.kind in kinds)
    best: dict[str, Question] = {}
    for one in _kept(there, draft, now, kinds):
        if one.located and one.kind in kinds and one.key not in never:
            known = best.setdefault(one.located.entry.id, one)
            best[one.located.entry.id] = max(known, one, key=lambda question: question.score)
    yield from best.values()


def find_week(
    workspace: Workspace,
    base: str,
    found: Iterable[Question],
    today: date,
    lines: Iterable[str] = (),
) -> Week:
    """Those of the questions that this week asks, by what the commit and more lines say was asked."""
    per_week = workspace.config.review.per_week
    return choose_week(found, (*read_rejected(workspace.at(base)), *lines), today, per_week)


def note_asked(
    workspace: Workspace,
    base: str,
    asked: Sequence[Question],
    answered: Sequence[Question],
    today: date,
    more: Iterable[str] = (),
) -> bytes:
    """REJECTED_FILE of a commit, with the lines of what was asked and what was answered, and with more lines."""
    text = (
        workspace.at(base)
        .read([REJECTED_FILE])
        .get(REJECTED_FILE, HEADER.encode())
        .decode("utf-8", "replace")
    )
    noted = note_week(
        dict.fromkeys((*text.splitlines(), *more)),
        (*asked, *answered),
        {one.key for one in answered},
        today,
    )
    return "\n".join((*noted, "")).encode()


def _proposed(
    judged: Sequence[Judged], never: Collection[str], entries: Sequence[object]
) -> Iterator[Question]:
    """What was not written: suspected, the best first, and quarantined."""
    found = [one for one in list_suggestions(judged, never, entries) if not one.is_accepted]  # type: ignore[arg-type]
    for one in judged:
        key = content_key(one.candidate.title, one.candidate.body)
        if one.verdict == "quarantined" and key not in never:
            found.append(Suggestion(key, one.candidate, one.reason, (one.change,)))
    for suggestion in {one.key: one for one in found}.values():
        kind: QuestionKind = "candidate" if suggestion.weight else "quarantined"
        yield Question(
            kind=kind,
            key=suggestion.key,
            title=suggestion.candidate.title,
            why=suggestion.reason,
            use=expected_use(suggestion.candidate.importance, len(suggestion.changes) - 1),
            doubt=doubt_of(suggestion.weight) if suggestion.weight else DOUBT[kind],
            suggestion=suggestion,
        )


def _kept(
    workspace: Workspace, draft: Draft, now: datetime, kinds: Collection[QuestionKind]
) -> Iterator[Question]:
    """What stands in memory and may not hold, or not only here."""
    base, today = draft.base.sha, now.date()
    usage = (
        count_usage(combine(load_episodes(workspace, base).tellings))
        if not STALE.issuperset(kinds)
        else {}
    )

    def question(kind: QuestionKind, place: Located, why: str, other: str = "") -> Question:
        entry = place.entry
        key = hashlib.sha256(f"{kind} {entry.id} {other}".encode()).hexdigest()[:32]
        given = usage[entry.id].given if entry.id in usage else 0
        use = expected_use(effective_importance(entry), given)
        return Question(
            kind=kind,
            key=key,
            title=entry.title,
            why=why,
            use=use,
            doubt=DOUBT[kind],
            located=place,
        )

    kept = [place for place in draft.kept if place.entry.status != "retired"]
    if not STALE.isdisjoint(kinds):
        truth = judge_located(workspace, kept, base)
        marked = [
            (place, found)
            for place in kept
            if judge_entry(found := truth.get(place.entry, ())) in MARKED
        ]
        named = name_edits(workspace, [(place.entry, found) for place, found in marked], base)
        for (place, _), edited in zip(marked, named, strict=True):
            kind: QuestionKind = "gone" if judge_entry(edited) == "gone" else "changed"
            why = "; ".join(say_verdict(verdict) for verdict in edited if verdict.kind in MARKED)
            yield replace(question(kind, place, why, " ".join(place.entry.cites)), verdicts=edited)
    active = [place for place in kept if is_in_force(place.entry, today)]
    for one, other, reason in find_contradictions(active) if "contradiction" in kinds else ():
        older, newer = sorted((one, other), key=lambda place: place.entry.created_at or date.min)
        why = f"contradicts {newer.entry.id[:8]} {newer.entry.title}: {reason}"
        yield question("contradiction", older, why, newer.entry.id)
    for place in active if "unused" in kinds else ():
        if is_idle(count := usage.get(place.entry.id)) and count:
            yield question("unused", place, f"given {plural(count.given, 'time')}, and never used")
    with suppress(MemoryCIError):  # no global memory, or none that could be written
        if "promotion" in kinds:
            promotion = plan_promotion(draft.kept, today, draft.path_of, names_of(draft.base))
            proposed = tuple(one.entry for one in promotion.proposals)
            fresh = (
                promote_globally(workspace.config.global_.path, proposed, now, dry_run=True)
                if proposed
                else ()
            )
            for entry in fresh:
                yield question("promotion", draft.by_id[entry.id], "holds in any repository")
