"""The part of a run that proposes checks, each with its back-test.

They come from what people ask again, from rules that memory and documents hold, and from habits of
the history. A check is proposed only if it is about changes that there are, and would seldom have
spoken in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.checks.backtest import BacktestResult, PastChange, SpokenChange, backtest
from memory_ci.checks.habits import Habit, MergedFiles, find_habits
from memory_ci.checks.repository import RepositoryFiles, list_repository_files
from memory_ci.checks.templates import derive_check
from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.extraction.entries import candidate_key, entry_id, to_entry
from memory_ci.gitrepo.history import find_range_start, plan_range
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.memory.eligible import is_work, merged_on
from memory_ci.memory.forgotten import read_rejected
from memory_ci.memory.known_hooks import find_hook, is_linted, read_hook_settings
from memory_ci.memory.past_changes import iter_past_changes
from memory_ci.memory.rules import make_rule
from memory_ci.records.candidate import (
    ACCEPTED_IN_REQUEST,
    Candidate,
    CheckProposal,
    CheckSource,
    Judged,
    Quote,
)
from memory_ci.records.check import ChangeCheck, RuleCheck, WithCheck
from memory_ci.records.plan import Change
from memory_ci.regex import Regex
from memory_ci.sessions.backtests import join_sessions
from memory_ci.sessions.repetitions import list_written_rules
from memory_ci.store.layout import parse_target

SOURCE = "the history"
"""The label of what the history shows, in place of a merged change."""

ENGINE = "check"
"""The engine of candidates that propose a check."""

WHY = f"a check that was accepted {ACCEPTED_IN_REQUEST}"

MAX_AGE = "1y"
"""The age of the oldest merged change that checks are tried on."""

MAX_CHANGES = 1_000  # Merged changes that checks are tried on, the newest ones.
LEAST_APPLICABLE = 3  # Changes that a check is about.
MOST_SPOKEN = 0.2  # The greatest share of them in which it speaks.
MAX_PROPOSED = 5  # Checks that are proposed, beside habits.
MAX_SUBJECT = 80  # Characters of the title of a change.
IMPORTANCE = 0.7


EMPHASIS = Regex(r"\*\*|__")
"""Markdown's signs of emphasis."""


SENTENCE = Regex(r"[A-Z`]")
"""The beginning of a line that is no row of a table, and does not go on from the line before."""


class DraftedCheck(NamedTuple):
    """A check that may be proposed.

    Attributes:
        check: the check.
        title: the rule.
        source: what it was derived from.
        place: the entry whose rule it is, or the document and line; "" for none.
        since: the day after which changes count; None for all.
        words: the words of a document.
        candidate: the candidate of the rule itself, None if there is none.
    """

    check: ChangeCheck
    title: str
    source: CheckSource
    place: str = ""
    since: date | None = None
    words: str = ""
    candidate: Candidate | None = None


def judge_checks(
    run: RecordRun, repeated: Sequence[Judged], accepted: Collection[str]
) -> list[Judged]:
    """Return the checks that are proposed, and those that a person accepted, to be written.

    Args:
        run: the run.
        repeated: what is asked again or fails again.
        accepted: keys of candidates that a person accepted.

    Raises:
        RepositoryError: git-failed.
    """
    if run.workspace.config.extraction.repeated == "off":
        return []
    drafted = _without_known(run, list(_list_drafted(run, repeated)))
    rules = [make_rule(draft.check, draft.title) for draft in drafted]
    read: list[PastChange] = []
    history = _without_lines(_iter_history(run, rules), read)
    results = backtest(rules, history, [draft.since for draft in drafted])
    tested = list(zip(drafted, results, strict=True))

    habits = _without_known(run, map(_draft_habit, _find_habits(run, read)))
    results = backtest([make_rule(draft.check, draft.title) for draft in habits], read)
    tested += zip(habits, results, strict=True)
    return _judge_all(run, tested, accepted)


def plan_new_rules(run: RecordRun, judged: Iterable[Judged]) -> Iterator[Change]:
    """Yield the additions of entries with an accepted check."""
    for item in judged:
        proposal = item.candidate.proposal
        if item.verdict != "written" or proposal is None or proposal.source == "entry":
            continue
        path = run.draft.path_of(parse_target(item.candidate.scope))
        if path is not None:
            id_ = entry_id(item.candidate)
            entry = to_entry(item.candidate, entry_id=id_, today=run.today, merged_on=run.today)
            yield Change(step="extract", kind="add", path=path, entry=entry, why=WHY)


def plan_checks_of_entries(run: RecordRun, judged: Iterable[Judged]) -> Iterator[Change]:
    """Yield the updates of entries that get an accepted check."""
    for item in judged:
        proposal = item.candidate.proposal
        if item.verdict != "written" or proposal is None or proposal.source != "entry":
            continue
        place = run.draft.by_id.get(proposal.place)
        if place is not None and place.entry.check is None:
            entry = replace(place.entry, check=proposal.check)
            yield Change(step="consolidate", kind="update", path=place.path, entry=entry, why=WHY)


# -- where checks come from


def _list_drafted(run: RecordRun, repeated: Iterable[Judged]) -> Iterator[DraftedCheck]:
    """Yield the checks of rules that a template understands, each rule once."""
    files = list_repository_files(run.base.tree.files)
    settings = read_hook_settings(run.base)
    for item in repeated:
        repetition = item.candidate.repetition
        if repetition is None or repetition.kind != "request":
            continue
        check = _derive(item.candidate.title, files, settings)
        if check is not None:
            yield DraftedCheck(
                check,
                item.candidate.title,
                "request",
                repetition.written_in,
                repetition.first,
                candidate=item.candidate,
            )
    for place in run.draft.kept:
        entry = place.entry
        if entry.type != "directive" or entry.check is not None:
            continue
        check = _derive(entry.title, files, settings)
        if check is not None and is_in_force(entry, run.today):
            yield DraftedCheck(check, entry.title, "entry", entry.id, entry.created_at)
    for rule in list_written_rules(run.base):
        text = EMPHASIS.sub("", rule.text)
        check = _derive(text, files, settings) if SENTENCE.match(text) else None
        if check is not None:
            yield DraftedCheck(check, text, "document", rule.place, words=rule.text)


def _derive(text: str, files: RepositoryFiles, settings: str) -> ChangeCheck | None:
    """Return the check of a rule, None where a tool checks it already or does so better."""
    if find_hook(text) is not None or is_linted(text, settings):
        return None
    return derive_check(text, files)


def _find_habits(run: RecordRun, history: Sequence[PastChange]) -> list[Habit]:
    """Return the habits of the merged changes of people and their agents."""
    changes = [
        MergedFiles(
            merged_on(past.merged),
            tuple(file.path for file in past.change.files),
            past.merged.title,
        )
        for past in history
        if is_work(run.workspace, past.merged)
    ]
    return find_habits(changes, run.today)


def _draft_habit(habit: Habit) -> DraftedCheck:
    check = WithCheck((habit.when,), (habit.also,))
    title = f"When {habit.when} changes, {habit.also} changes as well"
    return DraftedCheck(check, title, "habit")


def _without_known(run: RecordRun, drafted: Iterable[DraftedCheck]) -> list[DraftedCheck]:
    """Return the checks that no entry has, each once."""
    known = [place.entry.check for place in run.draft.kept]
    wanted: list[DraftedCheck] = []
    for draft in drafted:
        if draft.check not in known:
            known.append(draft.check)
            wanted.append(draft)
    return wanted


# -- the back-test


def _iter_history(run: RecordRun, rules: Sequence[RuleCheck]) -> Iterator[PastChange]:
    """Yield the newest merged changes of a year, oldest first."""
    repo = run.workspace.repo
    start = find_range_start(repo, MAX_AGE, run.base.sha, run.today)
    history = plan_range(repo, start, run.base.sha)
    newest = replace(history, groups=history.groups[-MAX_CHANGES:])
    return iter_past_changes(run.workspace, newest, rules)


def _without_lines(history: Iterable[PastChange], read: list[PastChange]) -> Iterator[PastChange]:
    """Yield changes, and add each to a list without its lines, which may be megabytes."""
    for past in history:
        yield past
        read.append(replace(past, change=replace(past.change, added=())))


def _judge_all(
    run: RecordRun,
    tested: Iterable[tuple[DraftedCheck, BacktestResult]],
    accepted: Collection[str],
) -> list[Judged]:
    """Return the checks that a person accepted, and the first of those that are worth proposing.

    What a person declined takes no place among them.
    """
    declined = {line.split()[0] for line in read_rejected(run.base)}
    kept: list[tuple[DraftedCheck, BacktestResult]] = []
    proposed = 0
    for draft, result in tested:
        key = candidate_key(_make_candidate(draft, result))
        if key in declined or not _is_worth_proposing(result):
            continue
        if key not in accepted and draft.source != "habit":
            proposed += 1
            if proposed > MAX_PROPOSED:
                continue
        kept.append((draft, result))
    joined = join_sessions(run.workspace, run.base.sha, [result for _, result in kept])
    return [
        _judge(draft, result, accepted) for (draft, _), result in zip(kept, joined, strict=True)
    ]


def _is_worth_proposing(result: BacktestResult) -> bool:
    """Return whether a check applies, speaks seldom, and could be judged."""
    is_about_changes = result.applicable >= LEAST_APPLICABLE
    return is_about_changes and result.share <= MOST_SPOKEN and not result.unjudged


def _judge(draft: DraftedCheck, result: BacktestResult, accepted: Collection[str]) -> Judged:
    """Return the proposal of a check, or the check to be written if a person accepted it."""
    candidate = _make_candidate(draft, result)
    reason = f"would have spoken {len(result.spoken)} times in {result.applicable} changes"
    if candidate_key(candidate) not in accepted:
        return Judged(candidate=candidate, verdict="suspected", reason=reason, change=SOURCE)
    candidate = replace(candidate, accepted=ACCEPTED_IN_REQUEST)
    id_ = draft.place if draft.source == "entry" else entry_id(candidate)
    return Judged(
        candidate=candidate, verdict="written", reason=reason, change=SOURCE, entry_id=id_
    )


def _make_candidate(draft: DraftedCheck, result: BacktestResult) -> Candidate:
    proposal = CheckProposal(
        check=draft.check,
        source=draft.source,
        place=draft.place,
        applicable=result.applicable,
        spoken=len(result.spoken),
        examples=tuple(_describe_change(spoken) for spoken in result.spoken),
        known=result.known,
        asked=result.asked,
    )
    if draft.candidate is not None:
        return replace(draft.candidate, proposal=proposal, repetition=None, engine=ENGINE)
    quotes = (Quote("", draft.words, f"file:{draft.place}"),) if draft.source == "document" else ()
    return Candidate(
        title=draft.title,
        body="",
        type="directive",
        domain="team",
        importance=IMPORTANCE,
        scope="institutional",
        extraction_scope="institutional",
        quotes=quotes,
        is_marked=False,
        engine=ENGINE,
        proposal=proposal,
    )


def _describe_change(spoken: SpokenChange) -> str:
    merged = spoken.merged
    return f"{merged.tip.committed_at:%Y-%m-%d} {merged.label} {merged.title[:MAX_SUBJECT]}".strip()
