"""The part of a run that proposes checks of later changes, each tried on past changes.

A check is a test of a change, such as "if X.py changes, docs/X.md changes as well". Checks come
from requests that people repeated, from rules of memory and documents, and from habits in history.
A check is proposed only if it is about some merged changes, and few of them violate it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from memory_ci.checks.backtest import BacktestResult, PastChange, PastViolation, backtest
from memory_ci.checks.repository import list_repository_files
from memory_ci.checks.templates import ATTRIBUTION_CHECK
from memory_ci.commands.record.drafted_checks import (
    DraftedCheck,
    draft_habit_checks,
    draft_rule_checks,
)
from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.extraction.entries import compute_candidate_key, entry_id, to_entry
from memory_ci.gitrepo.past import plan_newest
from memory_ci.memory.eligible import is_work
from memory_ci.memory.forgotten import read_rejected
from memory_ci.memory.known_hooks import (
    read_hook_settings,
)
from memory_ci.memory.past_changes import iter_past_changes
from memory_ci.memory.rules import make_rule
from memory_ci.records.candidate import (
    ACCEPTED_IN_REQUEST,
    Candidate,
    CheckProposal,
    Judged,
    Quote,
)
from memory_ci.records.check import RuleCheck
from memory_ci.records.plan import Change
from memory_ci.sessions.backtests import join_sessions
from memory_ci.store.layout import parse_target

HISTORY_LABEL = "the history"
"""The label of what the history shows, in place of a merged change."""

ENGINE = "check"
"""The engine of candidates that propose a check."""

ACCEPTED_REASON = f"a check that was accepted {ACCEPTED_IN_REQUEST}"

MAX_AGE = "1y"
"""The age of the oldest merged change that checks are tried on."""

# Chosen by hand, as the least that lets a person judge a check by its examples:
MAX_CHANGES = 1_000  # Merged changes that checks are tried on, the newest ones.
MIN_APPLICABLE = 3  # Changes that a check must be about.
MAX_VIOLATED_SHARE = 0.2  # The greatest share of them that may violate it.
MAX_PROPOSED = 5  # Checks that are proposed, beside habits.
MAX_SUBJECT = 80  # Characters of the title of a change.
CHECK_IMPORTANCE = 0.7  # Of an entry with a check; chosen by hand.


def judge_checks(
    run: RecordRun,
    judged_requests: Sequence[Judged],
    accepted_keys: Collection[str],
    problems: list[str],
) -> list[Judged]:
    """Return the checks to propose, and the checks that a person accepted, with verdicts.

    Checks of rules are tried on the merged changes of the last year. Then habits (kinds of files
    that these changes touch together) give further checks, which are tried on the same changes.

    Args:
        run: the run.
        judged_requests: the requests and failures that recur in sessions.
        accepted_keys: keys of candidates that a person accepted.
        problems: gets a line if the model cannot be asked.

    Raises:
        RepositoryError: git-failed.
    """
    if run.workspace.config.extraction.repeated == "off":
        return []
    files = list_repository_files(run.base.tree.files)
    settings = read_hook_settings(run.base)
    rule_drafts = draft_rule_checks(run, judged_requests, files, settings, problems)
    rule_checks = _make_rule_checks(rule_drafts)
    read_changes: list[PastChange] = []
    # The history is read once; each change is kept without its lines, which habits do not need.
    history = _collect_without_lines(_iter_history(run, rule_checks), read_changes)
    rule_results = backtest(rule_checks, history, [draft.rule.since for draft in rule_drafts])
    tested_drafts = list(zip(rule_drafts, rule_results, strict=True))

    habit_drafts = draft_habit_checks(run, read_changes, rule_drafts, files, settings)
    habit_results = backtest(_make_rule_checks(habit_drafts), read_changes)
    tested_drafts += zip(habit_drafts, habit_results, strict=True)
    return _select_judged(run, tested_drafts, accepted_keys)


def plan_new_rules(run: RecordRun, judged_checks: Iterable[Judged]) -> Iterator[Change]:
    """Yield the additions of new entries for accepted checks of rules that no entry has yet."""
    for judged in judged_checks:
        candidate = judged.candidate
        proposal = candidate.proposal
        if judged.verdict != "written" or proposal is None or proposal.source == "entry":
            continue
        path = run.draft.path_of(parse_target(candidate.scope))
        if path is not None:
            entry = to_entry(
                candidate, entry_id=entry_id(candidate), today=run.today, merged_on=run.today
            )
            yield Change(step="extract", kind="add", path=path, entry=entry, why=ACCEPTED_REASON)


def plan_checks_of_entries(run: RecordRun, judged_checks: Iterable[Judged]) -> Iterator[Change]:
    """Yield the updates of existing entries that add an accepted check to them."""
    for judged in judged_checks:
        proposal = judged.candidate.proposal
        if judged.verdict != "written" or proposal is None or proposal.source != "entry":
            continue
        # For a rule of an entry, the place is the entry's id.
        located = run.draft.by_id.get(proposal.place)
        if located is not None and located.entry.check is None:
            yield Change(
                step="consolidate",
                kind="update",
                path=located.path,
                entry=replace(located.entry, check=proposal.check),
                why=ACCEPTED_REASON,
            )


def _make_rule_checks(drafted: Iterable[DraftedCheck]) -> list[RuleCheck]:
    """Return the drafted checks in the form in which changes are tested."""
    return [make_rule(draft.check, draft.rule.title) for draft in drafted]


def _iter_history(run: RecordRun, rules: Sequence[RuleCheck]) -> Iterator[PastChange]:
    """Yield the merged changes of the last year by people and their agents, the oldest first.

    At most `MAX_CHANGES` are read, the newest.

    Args:
        run: the run.
        rules: the checks, which determine the data to read for each change.
    """
    repo = run.workspace.repo
    history = run.newest or plan_newest(repo, run.base.sha, MAX_AGE, run.today, MAX_CHANGES)
    for past in iter_past_changes(run.workspace, history, rules):
        if is_work(run.workspace, past.merged):
            yield past


def _collect_without_lines(
    history: Iterable[PastChange], collected: list[PastChange]
) -> Iterator[PastChange]:
    """Yield changes, and add each to a list without its added lines, which may be megabytes."""
    for past in history:
        yield past
        collected.append(replace(past, change=replace(past.change, added=())))


def _select_judged(
    run: RecordRun,
    tested_drafts: Iterable[tuple[DraftedCheck, BacktestResult]],
    accepted_keys: Collection[str],
) -> list[Judged]:
    """Return the checks that a person accepted, and the first that are worth proposing.

    At most `MAX_PROPOSED` are proposed, and any number of habits. Checks that a person declined do
    not count towards the limit.

    Args:
        run: the run.
        tested_drafts: the checks with their results on past changes.
        accepted_keys: keys of candidates that a person accepted.
    """
    declined_keys = {line.split()[0] for line in read_rejected(run.base)}
    chosen_drafts: list[tuple[DraftedCheck, BacktestResult]] = []
    proposed_count = 0
    for draft, result in tested_drafts:
        key = compute_candidate_key(_make_candidate(draft, result))
        is_accepted = key in accepted_keys
        if key in declined_keys or not (is_accepted or _is_worth_proposing(draft, result)):
            continue
        if not is_accepted and draft.rule.source != "habit":
            proposed_count += 1
            if proposed_count > MAX_PROPOSED:
                continue
        chosen_drafts.append((draft, result))
    joined_results = join_sessions(
        run.workspace, run.base.sha, [result for _, result in chosen_drafts]
    )
    return [
        _judge_check(draft, result, accepted_keys)
        for (draft, _), result in zip(chosen_drafts, joined_results, strict=True)
    ]


def _is_worth_proposing(draft: DraftedCheck, result: BacktestResult) -> bool:
    """Return whether a check is about enough past changes, and few of them violate it.

    A rule of a document must have been violated: if nobody broke it since it was written, it needs
    no check. Other checks are worth proposing without violations, too. A request that people repeat
    was violated, but corrected before the merge. So were signatures of agents in commits
    (`ATTRIBUTION_CHECK`).
    """
    is_about_enough_changes = result.applicable >= MIN_APPLICABLE
    is_seldom_violated = result.share <= MAX_VIOLATED_SHARE and not result.unjudged
    must_have_violations = draft.rule.source == "document" and draft.check != ATTRIBUTION_CHECK
    if must_have_violations and not result.violations:
        return False
    return is_about_enough_changes and is_seldom_violated


def _judge_check(
    draft: DraftedCheck, result: BacktestResult, accepted_keys: Collection[str]
) -> Judged:
    """Return a check as a candidate with its verdict.

    The verdict is "written" if a person accepted the check, else "suspected": a person is asked.
    The reason says how often the check would have warned.

    Args:
        draft: the check.
        result: its result on past changes.
        accepted_keys: keys of candidates that a person accepted.
    """
    candidate = _make_candidate(draft, result)
    reason = f"would have spoken {len(result.violations)} times in {result.applicable} changes"
    if compute_candidate_key(candidate) not in accepted_keys:
        return Judged(candidate=candidate, verdict="suspected", reason=reason, change=HISTORY_LABEL)
    candidate = replace(candidate, accepted=ACCEPTED_IN_REQUEST)
    is_of_entry = draft.rule.source == "entry"
    return Judged(
        candidate=candidate,
        verdict="written",
        reason=reason,
        change=HISTORY_LABEL,
        # For a rule of an entry, the place is the entry's id.
        entry_id=draft.rule.location if is_of_entry else entry_id(candidate),
    )


def _make_candidate(draft: DraftedCheck, result: BacktestResult) -> Candidate:
    """Return a check as a candidate for an entry, with its result on past changes.

    For a request that people repeated it is their request as a candidate, with the check. For any
    other rule it is a new directive for the whole institution.
    """
    rule = draft.rule
    proposal = CheckProposal(
        check=draft.check,
        source=rule.source,
        is_by_model=draft.is_by_model,
        place=rule.location,
        applicable=result.applicable,
        violations=len(result.violations),
        examples=tuple(_describe_violation(violation) for violation in result.violations),
        with_session=result.with_session,
        asked_for=result.asked_for,
    )
    if rule.candidate is not None:
        return replace(rule.candidate, proposal=proposal, repetition=None, engine=ENGINE)
    quotes: tuple[Quote, ...] = ()
    if rule.source == "document":
        quotes = (Quote("", rule.quoted_words, f"file:{rule.location}"),)
    return Candidate(
        title=rule.title,
        body="",
        type="directive",
        domain="team",
        importance=CHECK_IMPORTANCE,
        scope="institutional",
        extraction_scope="institutional",
        quotes=quotes,
        is_marked=False,
        engine=ENGINE,
        proposal=proposal,
    )


def _describe_violation(violation: PastViolation) -> str:
    merged = violation.merged
    return f"{merged.tip.committed_at:%Y-%m-%d} {merged.label} {merged.title[:MAX_SUBJECT]}".strip()
