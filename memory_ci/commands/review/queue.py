"""The review queue: questions to people about memory entries and candidates for entries.

A candidate is a learning that nobody has agreed to yet (docs/reviewing.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from itertools import chain

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.text import format_verdict
from memory_ci.anchors.verdicts import judge_entry
from memory_ci.commands.record.global_promotion import promote_globally
from memory_ci.commands.record.learner import OnProgress, ignore_progress
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.record.upkeep import list_own_names
from memory_ci.commands.retrieve.anchor_verdicts import judge_cites
from memory_ci.commands.review.priority import (
    DOUBT,
    PAUSE_DAYS,
    Week,
    choose_week,
    doubt_of,
    expected_use,
    record_week,
)
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import MemoryCIError
from memory_ci.extraction.entries import candidate_key
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.gitrepo.history import find_addition
from memory_ci.gitrepo.record_commits import find_cursor
from memory_ci.gitrepo.repo import find_commit
from memory_ci.lifecycle.consolidation import find_contradictions
from memory_ci.lifecycle.episodes import combine, count_usage
from memory_ci.lifecycle.prominence import effective_importance, is_in_force
from memory_ci.lifecycle.promotion import plan_promotion
from memory_ci.lifecycle.utility import is_idle
from memory_ci.memory.check_outcomes import RECENT_COUNT, count_check_outcomes
from memory_ci.memory.draft import Draft
from memory_ci.memory.edits import add_last_edits
from memory_ci.memory.episodes import load_written
from memory_ci.memory.forgotten import HEADER, REJECTED_FILE, read_rejected
from memory_ci.memory.workspace import Workspace, branch_tip, build_memory_test, workspace_at
from memory_ci.records.anchor import STALE_KINDS
from memory_ci.records.candidate import LISTED, Judged, Question, QuestionKind, Suggestion
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import UseCount
from memory_ci.sessions.ended_rules import QUIET, find_withdrawal, is_unasked
from memory_ci.sessions.repetitions import REPETITION
from memory_ci.sessions.session_archive import read_archive
from memory_ci.text import plural, shorten

MOST_PASSED = 0.3  # The share of ignored and skipped changes above which a check is asked about.
LEAST_JUDGED = 5  # Changes that a check must have been about.
MAX_QUOTED = 120  # Characters of words that a question quotes.

PROPOSED: frozenset[QuestionKind] = LISTED | {"quarantined"}
"""Questions about candidates that were not written."""

STALE: frozenset[QuestionKind] = frozenset({"changed", "gone"})
"""Questions about entries whose code has changed."""

DOUBTED: frozenset[QuestionKind] = frozenset({"contradiction", "unused"})
"""Questions about entries that people contradict or nobody needs."""

KEPT: frozenset[QuestionKind] = STALE | {"contradiction", "unused", "promotion"}
"""Questions about entries."""


class Queue(msgspec.Struct, frozen=True):
    """The questions of one commit of a branch.

    Attributes:
        ref: the branch.
        base: the commit.
        since: where the work begins that was read for candidates; None for the first commit.
        found: all questions.
        week: the questions of this week.
    """

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
    *,
    progress: OnProgress = ignore_progress,
) -> Queue:
    """Return the questions of some kinds at the tip of a branch.

    Questions about candidates need the plan of a record run, which reads the work of the last 90
    days, or of the range of the options. Nothing is saved between calls.

    Args:
        workspace: the repository.
        options: the branch and the range.
        now: the time of the review.
        environ: the environment, which names the forge.
        kinds: the kinds of questions.
        progress: called as merged changes are read.

    Returns:
        The questions; those of this week only if all kinds were requested.

    Raises:
        Everything that `plan_record` raises.
    """
    ref, base = branch_tip(workspace, options.ref, options.base)
    since: str | None = None
    candidates: tuple[Judged, ...] = ()
    if not PROPOSED.isdisjoint(kinds):
        run_options = _choose_range(replace(options, ref=ref, base=base))
        plan = plan_record(workspace, run_options, now.date(), progress, environ)
        since = plan.since
        candidates = plan.judged

    questions = tuple(list_questions(workspace, base, candidates, now, kinds))
    week = Week()
    if set(kinds) == PROPOSED | KEPT:
        committed = workspace_at(workspace.repo, base)
        week = find_week(committed, base, questions, now.date())
    return Queue(ref=ref, base=base, since=since, found=questions, week=week)


def _choose_range(options: RecordOptions) -> RecordOptions:
    """Return the options with a range of 90 days and without a model, unless they name others."""
    since = f"{PAUSE_DAYS}d" if options.since is None else options.since
    return replace(options, since=since, engine=options.engine or "rules")


def find_last_start(workspace: Workspace, ref: str | None) -> str | None:
    """Return the commit after which the range of the last record run began, None if unknown.

    That is where the run before it ended, or else the commit that set memory-ci up.
    """
    _, base = branch_tip(workspace, ref)
    is_memory = build_memory_test(workspace_at(workspace.repo, base))
    last_run = find_cursor(workspace.repo, base, is_memory)
    start = find_commit(workspace.repo, f"{last_run.commit}^") if last_run else None
    run_before = find_cursor(workspace.repo, start, is_memory) if start else None
    if run_before:
        return run_before.source
    return find_addition(workspace.repo, base, CONFIG_FILE)


def list_questions(
    workspace: Workspace,
    base: str,
    judged: Iterable[Judged],
    now: datetime,
    kinds: Collection[QuestionKind] = PROPOSED | KEPT,
) -> Iterator[Question]:
    """Yield questions about the entries of a commit and the candidates of a run.

    Questions that a person declined for good are left out. An entry has one question, the most
    urgent.

    Args:
        workspace: the repository.
        base: the commit.
        judged: the candidates that a run judged.
        now: the time of the review.
        kinds: the kinds of questions.
    """
    committed = workspace_at(workspace.repo, base)
    draft = Draft(committed.at(base))
    declined_keys = {line.split()[0] for line in read_rejected(draft.base)}
    if not PROPOSED.isdisjoint(kinds):
        entries = [*draft.entries, *(place.entry for place in draft.inbox)]
        for question in _list_proposed(tuple(judged), declined_keys, entries):
            if question.kind in kinds:
                yield question

    most_urgent: dict[str, Question] = {}
    for question in _list_kept(committed, draft, now, kinds):
        if question.located is None or question.key in declined_keys:
            continue
        entry_id = question.located.entry.id
        current = most_urgent.get(entry_id)
        if current is None or question.score > current.score:
            most_urgent[entry_id] = question
    yield from most_urgent.values()


def find_week(
    workspace: Workspace,
    base: str,
    questions: Iterable[Question],
    today: date,
    lines: Iterable[str] = (),
) -> Week:
    """Return the few questions of this week, chosen by the records of earlier questions.

    Args:
        workspace: the repository, with the configuration at the commit.
        base: the commit, whose file records earlier questions.
        questions: all questions.
        today: the day.
        lines: more records of earlier questions.
    """
    asked_lines = (*read_rejected(workspace.at(base)), *lines)
    return choose_week(questions, asked_lines, today, workspace.config.review.per_week)


def note_asked(
    workspace: Workspace,
    base: str,
    asked: Sequence[Question],
    answered: Sequence[Question],
    today: date,
    *,
    more: Iterable[str] = (),
) -> bytes:
    """Return the content of REJECTED_FILE with records of the questions asked and answered.

    Args:
        workspace: the repository.
        base: the commit whose file is continued.
        asked: the questions that were asked.
        answered: the questions that somebody answered.
        today: the day.
        more: more lines for the file.
    """
    content = workspace.at(base).read([REJECTED_FILE]).get(REJECTED_FILE, HEADER.encode())
    text = content.decode("utf-8", "replace")
    lines = dict.fromkeys((*text.splitlines(), *more))
    answered_keys = {question.key for question in answered}
    noted = record_week(lines, (*asked, *answered), answered_keys, today)
    return "\n".join((*noted, "")).encode()


def _list_proposed(
    judged: Sequence[Judged], declined_keys: Collection[str], entries: Sequence[Entry]
) -> Iterator[Question]:
    """Yield questions about candidates: suspected ones, the best first, and quarantined ones.

    A quarantined candidate was withheld because its words may instruct a model.

    Args:
        judged: the candidates with their verdicts.
        declined_keys: keys of candidates that a person declined for good.
        entries: the entries that memory has, which are not proposed again.
    """
    suggestions: dict[str, Suggestion] = {}
    for suggestion in list_suggestions(judged, declined_keys, entries):
        if not suggestion.is_accepted:
            suggestions[suggestion.key] = suggestion
    for outcome in judged:
        key = candidate_key(outcome.candidate)
        if outcome.verdict == "quarantined" and key not in declined_keys:
            suggestions[key] = Suggestion(
                key=key,
                candidate=outcome.candidate,
                reason=outcome.reason,
                changes=(outcome.change,),
            )
    for suggestion in suggestions.values():
        yield _ask_about_candidate(suggestion)


def _ask_about_candidate(suggestion: Suggestion) -> Question:
    """Return the question whether to write a candidate as an entry.

    The questions with the highest product of use and doubt are asked first. Use is how often agents
    would be shown the entry; doubt is the probability that a person accepts the candidate.
    """
    candidate = suggestion.candidate
    # The weight measures the evidence for a candidate; a quarantined one has none.
    kind: QuestionKind = "candidate" if suggestion.weight else "quarantined"
    doubt = doubt_of(suggestion.weight) if suggestion.weight else DOUBT[kind]
    repetitions = len(suggestion.changes) - 1
    if candidate.repetition is not None:
        kind = candidate.repetition.kind
        repetitions = candidate.repetition.sessions - 1
    if candidate.proposal is not None:
        kind = "check"
    return Question(
        kind=kind,
        key=suggestion.key,
        title=candidate.title,
        why=suggestion.reason,
        use=expected_use(candidate.importance, repetitions),
        doubt=doubt,
        suggestion=suggestion,
    )


def _list_kept(
    workspace: Workspace, draft: Draft, now: datetime, kinds: Collection[QuestionKind]
) -> Iterator[Question]:
    """Yield questions about entries that may not hold, or not only in this repository.

    Args:
        workspace: the repository.
        draft: the entries.
        now: the time of the review.
        kinds: the kinds of questions.
    """
    base, today = draft.base.sha, now.date()
    usage: Mapping[str, UseCount] = {}
    if not STALE.issuperset(kinds):
        usage = count_usage(combine(load_written(workspace, base).records))
    places = [place for place in draft.located if place.entry.status != "retired"]
    active = [place for place in places if is_in_force(place.entry, today)]

    if not STALE.isdisjoint(kinds):
        for question in _list_stale(workspace, places, base, usage):
            if question.kind in kinds:
                yield question
    if "contradiction" in kinds:
        yield from _list_contradictions(active, usage)
    if "unused" in kinds:
        yield from _list_unused(active, usage)
    if not DOUBTED.isdisjoint(kinds):
        rules = _list_doubted_rules(workspace, active, base, today, usage)
        checks = _list_doubted_checks(workspace, active, base, today, usage)
        yield from (question for question in chain(rules, checks) if question.kind in kinds)
    if "promotion" in kinds:
        with suppress(MemoryCIError):  # there is no global memory that could be written
            yield from _list_promotions(workspace, draft, now, usage)


def _build_question(
    kind: QuestionKind,
    place: Located,
    why: str,
    usage: Mapping[str, UseCount],
    subject: str = "",
) -> Question:
    """Return a question about an entry.

    Args:
        kind: the kind of question.
        place: the entry.
        why: the reason to ask, for people.
        usage: how often each entry was served and used.
        subject: more words to distinguish it from others of its kind about the entry.
    """
    entry = place.entry
    count = usage.get(entry.id)
    use = expected_use(effective_importance(entry), count.given if count else 0)
    return Question(
        kind=kind,
        key=hashlib.sha256(f"{kind} {entry.id} {subject}".encode()).hexdigest()[:32],
        title=entry.title,
        why=why,
        use=use,
        doubt=DOUBT[kind],
        located=place,
    )


def _list_stale(
    workspace: Workspace, places: Sequence[Located], base: str, usage: Mapping[str, UseCount]
) -> Iterator[Question]:
    """Yield questions about entries whose code has changed or is gone.

    Args:
        workspace: the repository.
        places: the entries with their places.
        base: the commit whose code is compared with the cites of entries.
        usage: how often each entry was served and used.
    """
    verdicts_of = judge_cites(workspace, places, base)
    stale: list[Located] = []
    for place in places:
        if judge_entry(verdicts_of.get(place.entry, ())) in STALE_KINDS:
            stale.append(place)
    entries = [(place.entry, verdicts_of[place.entry]) for place in stale]
    for place, verdicts in zip(stale, add_last_edits(workspace, entries, base), strict=True):
        kind: QuestionKind = "gone" if judge_entry(verdicts) == "gone" else "changed"
        why = "; ".join(
            format_verdict(verdict) for verdict in verdicts if verdict.kind in STALE_KINDS
        )
        cites = " ".join(place.entry.cites)
        yield replace(_build_question(kind, place, why, usage, cites), verdicts=verdicts)


def _list_contradictions(
    active: Sequence[Located], usage: Mapping[str, UseCount]
) -> Iterator[Question]:
    """Yield questions about the older entry of each pair whose entries contradict each other."""
    for first, second, reason in find_contradictions(active):
        pair = sorted((first, second), key=lambda place: place.entry.created_at or date.min)
        older, newer = pair
        why = f"contradicts {newer.entry.id[:8]} {newer.entry.title}: {reason}"
        yield _build_question("contradiction", older, why, usage, newer.entry.id)


def _list_unused(active: Sequence[Located], usage: Mapping[str, UseCount]) -> Iterator[Question]:
    """Yield questions about entries that agents were often shown and never used."""
    for place in active:
        count = usage.get(place.entry.id)
        if count and is_idle(count):
            why = f"given {plural(count.given, 'time')}, and never used"
            yield _build_question("unused", place, why, usage)


def _list_doubted_rules(
    workspace: Workspace,
    active: Sequence[Located],
    base: str,
    today: date,
    usage: Mapping[str, UseCount],
) -> Iterator[Question]:
    """Yield questions about rules that people repeated in sessions, if they may not hold any more.

    A person said the opposite since, or nobody repeated the rule for a year. Silence alone proves
    nothing against a rule, so a person is asked.

    Args:
        workspace: the repository.
        active: the entries that are in force.
        base: the commit whose sessions are read.
        today: the day.
        usage: how often each entry was served and used.
    """
    rules: list[Located] = []
    for place in active:
        if place.entry.type == "directive" and place.entry.engine == REPETITION:
            rules.append(place)
    if not rules:
        return
    turns = read_archive(workspace, base).turns
    for place in rules:
        withdrawal = find_withdrawal(place.entry, turns)
        if withdrawal is not None:
            why = f'a person said on {withdrawal.day}: "{shorten(withdrawal.text, MAX_QUOTED)}"'
            yield _build_question("contradiction", place, why, usage, withdrawal.text)
        elif is_unasked(place.entry, turns, today):
            yield _build_question("unused", place, "nobody asked for it in a year", usage)


def _list_doubted_checks(
    workspace: Workspace,
    active: Sequence[Located],
    base: str,
    today: date,
    usage: Mapping[str, UseCount],
) -> Iterator[Question]:
    """Yield questions about entries whose check is often ignored or skipped, or never applies.

    Args as in `_list_doubted_rules`; the outcomes of checks are read from history.
    """
    by_id = {place.entry.id: place for place in active if place.entry.check is not None}
    if not by_id:
        return
    for outcome in count_check_outcomes(workspace.at(base), today):
        place = by_id.get(outcome.id)
        if place is None:
            continue
        # Of the changes that the check is about, the outcome counts the last ones.
        counted_changes = min(outcome.applicable, RECENT_COUNT)
        is_often_ignored = outcome.last_passed > MOST_PASSED * counted_changes
        if counted_changes >= LEAST_JUDGED and is_often_ignored:
            why = (
                f"its check was ignored or skipped in {outcome.last_passed} of the last "
                f"{counted_changes}"
            )
            yield _build_question("unused", place, why, usage, "check")
        elif not outcome.applicable and outcome.since and today - outcome.since >= QUIET:
            why = "its check was about no merged change in a year"
            yield _build_question("unused", place, why, usage, "check")


def _list_promotions(
    workspace: Workspace, draft: Draft, now: datetime, usage: Mapping[str, UseCount]
) -> Iterator[Question]:
    """Yield questions whether to copy entries to the global memory, a repository of one's own.

    Only entries that recur and that the global memory lacks are asked about.

    Raises:
        MemoryCIError: if there is no global memory.
    """
    promotion = plan_promotion(draft.located, now.date(), draft.path_of, list_own_names(draft.base))
    proposed = tuple(proposal.entry for proposal in promotion.proposals)
    if proposed:
        checkout = workspace.config.global_.path
        for entry in promote_globally(checkout, proposed, now, dry_run=True):
            place = draft.by_id[entry.id]
            yield _build_question("promotion", place, "holds in any repository", usage)
