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
    CHANGE_PROBABILITY,
    PAUSE_DAYS,
    Week,
    choose_week,
    estimate_acceptance,
    estimate_use,
    record_questions,
)
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import MemoryCIError
from memory_ci.extraction.entries import compute_candidate_key
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.gitrepo.history import find_addition
from memory_ci.gitrepo.record_commits import find_cursor
from memory_ci.gitrepo.repo import find_commit
from memory_ci.lifecycle.consolidation import find_contradictions
from memory_ci.lifecycle.episodes import apply_amendments, count_usage
from memory_ci.lifecycle.prominence import effective_importance, is_in_force
from memory_ci.lifecycle.promotion import plan_promotion
from memory_ci.lifecycle.utility import is_idle
from memory_ci.memory.check_outcomes import RECENT_COUNT, count_check_outcomes
from memory_ci.memory.draft import Draft
from memory_ci.memory.edits import add_last_edits
from memory_ci.memory.episodes import load_written
from memory_ci.memory.forgotten import HEADER, REJECTED_FILE, read_rejected
from memory_ci.memory.workspace import Workspace, build_memory_test, find_branch_tip, workspace_at
from memory_ci.records.anchor import STALE_KINDS
from memory_ci.records.candidate import LISTED, Judged, Question, QuestionKind, Suggestion
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import UseCount
from memory_ci.sessions.ended_rules import MAX_TIME_UNASKED, find_withdrawal, is_unasked
from memory_ci.sessions.repetitions import REPETITION_ENGINE
from memory_ci.sessions.session_archive import read_archive
from memory_ci.text import plural, shorten

MAX_IGNORED_SHARE = (
    0.3  # The share of ignored and skipped changes above which a check is asked about.
)
MIN_JUDGED_CHANGES = 5  # Changes that a check must have been about.
MAX_QUOTED = 120  # Characters of words that a question quotes.

CANDIDATE_KINDS: frozenset[QuestionKind] = LISTED | {"quarantined"}
"""Questions about candidates that were not written."""

STALE_CODE_KINDS: frozenset[QuestionKind] = frozenset({"changed", "gone"})
"""Questions about entries whose code has changed."""

DOUBTED_KINDS: frozenset[QuestionKind] = frozenset({"contradiction", "unused"})
"""Questions about entries that people contradict or nobody needs."""

ENTRY_KINDS: frozenset[QuestionKind] = STALE_CODE_KINDS | {"contradiction", "unused", "promotion"}
"""Questions about entries."""


class Queue(msgspec.Struct, frozen=True):
    """The questions of one commit of a branch.

    Attributes:
        ref: the branch.
        base: the commit.
        since: where the work begins that was read for candidates; None for the first commit.
        questions: all questions.
        week: the questions of this week.
    """

    ref: str
    base: str
    since: str | None
    questions: tuple[Question, ...]
    week: Week


def list_queue(
    workspace: Workspace,
    options: RecordOptions,
    now: datetime,
    environ: Mapping[str, str],
    kinds: Collection[QuestionKind] = CANDIDATE_KINDS | ENTRY_KINDS,
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
    ref, base = find_branch_tip(workspace, options.ref, options.base)
    since: str | None = None
    candidates: tuple[Judged, ...] = ()
    if not CANDIDATE_KINDS.isdisjoint(kinds):
        run_options = _choose_range(replace(options, ref=ref, base=base))
        plan = plan_record(workspace, run_options, now.date(), progress, environ)
        since = plan.since
        candidates = plan.judged

    questions = tuple(list_questions(workspace, base, candidates, now, kinds))
    week = Week()
    if set(kinds) == CANDIDATE_KINDS | ENTRY_KINDS:
        committed = workspace_at(workspace.repo, base)
        week = find_week(committed, base, questions, now.date())
    return Queue(ref=ref, base=base, since=since, questions=questions, week=week)


def _choose_range(options: RecordOptions) -> RecordOptions:
    """Return the options with a range of 90 days and without a model, unless they name others."""
    since = f"{PAUSE_DAYS}d" if options.since is None else options.since
    return replace(options, since=since, engine=options.engine or "rules")


def find_last_start(workspace: Workspace, ref: str | None) -> str | None:
    """Return the commit after which the range of the last record run began, None if unknown.

    That is where the run before it ended, or else the commit that set memory-ci up.
    """
    _, base = find_branch_tip(workspace, ref)
    is_memory = build_memory_test(workspace_at(workspace.repo, base))
    last_run = find_cursor(workspace.repo, base, is_memory)
    if last_run:
        parent_sha = find_commit(workspace.repo, f"{last_run.commit}^")
        run_before = find_cursor(workspace.repo, parent_sha, is_memory) if parent_sha else None
        if run_before:
            return run_before.source
    return find_addition(workspace.repo, base, CONFIG_FILE)


def list_questions(
    workspace: Workspace,
    base: str,
    judged: Iterable[Judged],
    now: datetime,
    kinds: Collection[QuestionKind] = CANDIDATE_KINDS | ENTRY_KINDS,
) -> Iterator[Question]:
    """Yield questions about the candidates of a run, then about the entries of a commit.

    Questions that a person declined for good are left out. An entry has one question, the most
    urgent.

    Args:
        workspace: the repository.
        base: the commit.
        judged: the candidates that a run judged, with their verdicts.
        now: the time of the review.
        kinds: the kinds of questions.
    """
    committed = workspace_at(workspace.repo, base)
    draft = Draft(committed.at(base))
    declined_keys = {line.split()[0] for line in read_rejected(draft.base)}
    if not CANDIDATE_KINDS.isdisjoint(kinds):
        entries = [*draft.entries, *(located.entry for located in draft.inbox)]
        for question in _list_candidate_questions(tuple(judged), declined_keys, entries):
            if question.kind in kinds:
                yield question

    most_urgent: dict[str, Question] = {}  # By the id of the entry.
    for question in _list_entry_questions(committed, draft, now, kinds):
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


def record_asked(
    workspace: Workspace,
    base: str,
    asked_questions: Sequence[Question],
    answered_questions: Sequence[Question],
    today: date,
    *,
    more_lines: Iterable[str] = (),
) -> bytes:
    """Return the content of REJECTED_FILE with records of the questions asked and answered.

    The file lists what must not be proposed again. A question that was asked must not be repeated
    for a while, so its record is in the same file. Nothing is written here.

    Args:
        workspace: the repository.
        base: the commit whose file is continued.
        asked_questions: the questions that were asked.
        answered_questions: the questions that somebody answered.
        today: the day.
        more_lines: more lines for the file.
    """
    content = workspace.at(base).read([REJECTED_FILE]).get(REJECTED_FILE, HEADER.encode())
    text = content.decode("utf-8", "replace")
    lines = dict.fromkeys((*text.splitlines(), *more_lines))
    answered_keys = {question.key for question in answered_questions}
    new_lines = record_questions(
        lines, (*asked_questions, *answered_questions), answered_keys, today
    )
    return "\n".join((*new_lines, "")).encode()


def _list_candidate_questions(
    judged: Sequence[Judged], declined_keys: Collection[str], entries: Sequence[Entry]
) -> Iterator[Question]:
    """Yield questions whether to write candidates as entries.

    First come the candidates with the verdict "suspected", which a person is to decide about, the
    best of them first. Then come those with the verdict "quarantined", which were withheld because
    their words may instruct a model.

    Args:
        judged: the candidates with their verdicts.
        declined_keys: keys of candidates that a person declined for good.
        entries: the entries that memory has, which are not proposed again.
    """
    suggestion_by_key: dict[str, Suggestion] = {}
    for suggestion in list_suggestions(judged, declined_keys, entries):
        if not suggestion.is_accepted:
            suggestion_by_key[suggestion.key] = suggestion
    for judged_candidate in judged:
        key = compute_candidate_key(judged_candidate.candidate)
        if judged_candidate.verdict == "quarantined" and key not in declined_keys:
            suggestion_by_key[key] = Suggestion(
                key=key,
                candidate=judged_candidate.candidate,
                reason=judged_candidate.reason,
                changes=(judged_candidate.change,),
            )
    for suggestion in suggestion_by_key.values():
        yield _make_candidate_question(suggestion)


def _make_candidate_question(suggestion: Suggestion) -> Question:
    """Return the question whether to write a candidate as an entry.

    The questions with the highest product of two numbers are asked first: `use` is how often agents
    would be shown the entry, `doubt` is the probability that the answer changes something, which is
    that a person accepts the candidate.
    """
    candidate = suggestion.candidate
    kind: QuestionKind = "candidate"
    probability = estimate_acceptance(suggestion.weight)
    has_evidence = bool(suggestion.weight)
    if not has_evidence:
        kind = "quarantined"
        probability = CHANGE_PROBABILITY[kind]
    repetition_count = len(suggestion.changes) - 1
    if candidate.repetition is not None:
        kind = candidate.repetition.kind
        repetition_count = candidate.repetition.sessions - 1
    if candidate.proposal is not None:
        kind = "check"
    return Question(
        kind=kind,
        key=suggestion.key,
        title=candidate.title,
        why=suggestion.reason,
        use=estimate_use(candidate.importance, repetition_count),
        doubt=probability,
        suggestion=suggestion,
    )


def _list_entry_questions(
    workspace: Workspace, draft: Draft, now: datetime, kinds: Collection[QuestionKind]
) -> Iterator[Question]:
    """Yield questions about entries that may be outdated or unused, or of use in all repositories.

    How often entries were served orders the questions. It is not counted if only questions about
    changed code were requested, which saves reading the episodes.

    Args:
        workspace: the repository.
        draft: the entries.
        now: the time of the review.
        kinds: the kinds of questions to yield.
    """
    base, today = draft.base.sha, now.date()
    usage: Mapping[str, UseCount] = {}
    only_stale_code = STALE_CODE_KINDS.issuperset(kinds)
    if not only_stale_code:
        usage = count_usage(apply_amendments(load_written(workspace, base).records))
    located_entries = [located for located in draft.located if located.entry.status != "retired"]
    active_entries = [located for located in located_entries if is_in_force(located.entry, today)]

    if not STALE_CODE_KINDS.isdisjoint(kinds):
        for question in _list_stale(workspace, located_entries, base, usage):
            if question.kind in kinds:
                yield question
    if "contradiction" in kinds:
        yield from _list_contradictions(active_entries, usage)
    if "unused" in kinds:
        yield from _list_unused(active_entries, usage)
    if not DOUBTED_KINDS.isdisjoint(kinds):
        rules = _list_doubted_rules(workspace, active_entries, base, today, usage)
        checks = _list_doubted_checks(workspace, active_entries, base, today, usage)
        yield from (question for question in chain(rules, checks) if question.kind in kinds)
    if "promotion" in kinds:
        with suppress(MemoryCIError):  # there is no global memory that could be written
            yield from _list_promotions(workspace, draft, now, usage)


def _make_entry_question(
    kind: QuestionKind,
    located: Located,
    why: str,
    usage: Mapping[str, UseCount],
    subject: str = "",
) -> Question:
    """Return a question about an entry.

    The product of its `use` (how often agents are shown the entry) and its `doubt` (the probability
    that the answer changes that) says how urgent it is.

    Args:
        kind: the kind of question.
        located: the entry.
        why: the reason to ask, for people.
        usage: how often each entry was served and used.
        subject: more words to distinguish it from others of its kind about the entry.
    """
    entry = located.entry
    use_count = usage.get(entry.id)
    served_count = use_count.served_count if use_count else 0
    use = estimate_use(effective_importance(entry), served_count)
    return Question(
        kind=kind,
        key=hashlib.sha256(f"{kind} {entry.id} {subject}".encode()).hexdigest()[:32],
        title=entry.title,
        why=why,
        use=use,
        doubt=CHANGE_PROBABILITY[kind],
        located=located,
    )


def _list_stale(
    workspace: Workspace,
    located_entries: Sequence[Located],
    base: str,
    usage: Mapping[str, UseCount],
) -> Iterator[Question]:
    """Yield questions about entries whose code has changed or is gone.

    Args:
        workspace: the repository.
        located_entries: the entries with their places.
        base: the commit whose code is compared with the cites of entries.
        usage: how often each entry was served and used.
    """
    verdicts_of = judge_cites(workspace, located_entries, base)
    stale_entries: list[Located] = []
    for located in located_entries:
        if judge_entry(verdicts_of.get(located.entry, ())) in STALE_KINDS:
            stale_entries.append(located)
    entries = [(located.entry, verdicts_of[located.entry]) for located in stale_entries]
    for located, verdicts in zip(
        stale_entries, add_last_edits(workspace, entries, base), strict=True
    ):
        kind: QuestionKind = "gone" if judge_entry(verdicts) == "gone" else "changed"
        why = "; ".join(
            format_verdict(verdict) for verdict in verdicts if verdict.kind in STALE_KINDS
        )
        cites = " ".join(located.entry.cites)
        yield replace(_make_entry_question(kind, located, why, usage, cites), verdicts=verdicts)


def _list_contradictions(
    active_entries: Sequence[Located], usage: Mapping[str, UseCount]
) -> Iterator[Question]:
    """Yield questions about the older entry of each pair whose entries contradict each other."""
    for first, second, reason in find_contradictions(active_entries):
        pair = sorted((first, second), key=lambda located: located.entry.created_at or date.min)
        older, newer = pair
        why = f"contradicts {newer.entry.id[:8]} {newer.entry.title}: {reason}"
        yield _make_entry_question("contradiction", older, why, usage, newer.entry.id)


def _list_unused(
    active_entries: Sequence[Located], usage: Mapping[str, UseCount]
) -> Iterator[Question]:
    """Yield questions about entries that agents were often shown and never used."""
    for located in active_entries:
        count = usage.get(located.entry.id)
        if count and is_idle(count):
            why = f"served {plural(count.served_count, 'time')}, and never used"
            yield _make_entry_question("unused", located, why, usage)


def _list_doubted_rules(
    workspace: Workspace,
    active_entries: Sequence[Located],
    base: str,
    today: date,
    usage: Mapping[str, UseCount],
) -> Iterator[Question]:
    """Yield questions about rules that people repeated in sessions, if they may not hold any more.

    A person said the opposite since, or nobody repeated the rule for a year. Silence alone proves
    nothing against a rule, so a person is asked.

    Args:
        workspace: the repository.
        active_entries: the entries that are in force.
        base: the commit whose sessions are read.
        today: the day.
        usage: how often each entry was served and used.
    """
    rules: list[Located] = []
    for located in active_entries:
        if located.entry.type == "directive" and located.entry.engine == REPETITION_ENGINE:
            rules.append(located)
    if not rules:
        return
    turns = read_archive(workspace, base).turns
    for located in rules:
        withdrawal = find_withdrawal(located.entry, turns)
        if withdrawal is not None:
            why = f'a person said on {withdrawal.day}: "{shorten(withdrawal.text, MAX_QUOTED)}"'
            yield _make_entry_question("contradiction", located, why, usage, withdrawal.text)
        elif is_unasked(located.entry, turns, today):
            yield _make_entry_question("unused", located, "nobody asked for it in a year", usage)


def _list_doubted_checks(
    workspace: Workspace,
    active_entries: Sequence[Located],
    base: str,
    today: date,
    usage: Mapping[str, UseCount],
) -> Iterator[Question]:
    """Yield questions about entries whose check is often ignored or skipped, or never applies.

    A check warns of merged changes that violate it. How changes reacted to the warnings is read
    from history. The arguments are those of `_list_doubted_rules`.
    """
    checked_by_id = {
        located.entry.id: located for located in active_entries if located.entry.check is not None
    }
    if not checked_by_id:
        return
    for outcome in count_check_outcomes(workspace.at(base), today):
        located = checked_by_id.get(outcome.id)
        if located is None:
            continue
        # `last_passed` counts changes that ignored or skipped the check, among the last ones only.
        counted_changes = min(outcome.applicable, RECENT_COUNT)
        is_often_ignored = outcome.last_passed > MAX_IGNORED_SHARE * counted_changes
        if counted_changes >= MIN_JUDGED_CHANGES and is_often_ignored:
            why = (
                f"its check was ignored or skipped in {outcome.last_passed} of the last "
                f"{counted_changes}"
            )
            yield _make_entry_question("unused", located, why, usage, "check")
        elif not outcome.applicable and outcome.since and today - outcome.since >= MAX_TIME_UNASKED:
            why = "its check was about no merged change in a year"
            yield _make_entry_question("unused", located, why, usage, "check")


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
            located = draft.by_id[entry.id]
            yield _make_entry_question("promotion", located, "holds in any repository", usage)
