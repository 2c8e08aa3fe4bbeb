"""The part of a run that proposes checks of later changes, each tried on past changes.

A check is a test of a change, such as "if X.py changes, docs/X.md changes as well". Checks come
from requests that people repeated, from rules of memory and documents, and from habits in history.
A check is proposed only if it is about some merged changes, and few of them violate it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.checks.backtest import BacktestResult, PastChange, PastViolation, backtest
from memory_ci.checks.habits import Habit, MergedFiles, find_habits
from memory_ci.checks.repository import RepositoryFiles, has_glob, list_repository_files
from memory_ci.checks.templates import ATTRIBUTION_CHECK, derive_check
from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.commands.record.model_checks import is_about_changes, write_checks
from memory_ci.errors import EngineError
from memory_ci.extraction.entries import candidate_key, entry_id, to_entry
from memory_ci.gitrepo.edits import BlamedRange, blame_lines
from memory_ci.gitrepo.past import plan_newest
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.memory.eligible import is_work, merged_on
from memory_ci.memory.forgotten import read_rejected
from memory_ci.memory.known_hooks import (
    find_hook,
    is_linted,
    is_lock_tested,
    read_hook_settings,
)
from memory_ci.memory.model import Asker
from memory_ci.memory.past_changes import iter_past_changes
from memory_ci.memory.rules import make_rule
from memory_ci.memory.screening import is_unsafe
from memory_ci.memory.written_checks import WrittenChecks
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
MOST_VIOLATED = 0.2  # The greatest share of them that violate it.
MAX_ASKED = 30  # Rules that a model is asked about in a run.
MAX_PROPOSED = 5  # Checks that are proposed, beside habits.
MAX_SUBJECT = 80  # Characters of the title of a change.
IMPORTANCE = 0.7


EMPHASIS = Regex(r"\*\*|__")
"""Markdown's signs of emphasis."""


SENTENCE = Regex(r"[A-Z`]")
"""The beginning of a line that is no row of a table, and does not go on from the line before."""


class CheckableRule(NamedTuple):
    """A rule that a check may test.

    Attributes:
        title: the rule.
        source: the kind of place that holds it.
        place: the entry whose rule it is, or the document and line; "" for none.
        since: the day after which changes count; None for all.
        words: the words of a document.
        candidate: the candidate of the rule itself, None if there is none.
    """

    title: str
    source: CheckSource
    place: str = ""
    since: date | None = None
    words: str = ""
    candidate: Candidate | None = None


class DraftedCheck(NamedTuple):
    """A check of a rule that may be proposed to a person.

    Attributes:
        rule: the rule that it tests.
        check: the check.
        is_by_model: whether a model wrote it.
    """

    rule: CheckableRule
    check: ChangeCheck
    is_by_model: bool = False


def judge_checks(
    run: RecordRun,
    repeated: Sequence[Judged],
    accepted: Collection[str],
    problems: list[str],
) -> list[Judged]:
    """Return the checks to propose, and those that a person accepted, which are to be written.

    Each is tried on the merged changes of the last year.

    Args:
        run: the run.
        repeated: the repeated requests and failures.
        accepted: keys of candidates that a person accepted.
        problems: gets a line if the model cannot be asked.

    Raises:
        RepositoryError: git-failed.
    """
    if run.workspace.config.extraction.repeated == "off":
        return []
    files = list_repository_files(run.base.tree.files)
    settings = read_hook_settings(run.base)
    rules = _list_untested(run, repeated, settings)
    drafted = _drop_existing(run, _draft_checks(run, rules, files, problems))
    drafted = _date_documents(run, drafted)
    checks = _make_rule_checks(drafted)
    read_changes: list[PastChange] = []
    history = _collect_without_lines(_iter_history(run, checks), read_changes)
    results = backtest(checks, history, [draft.rule.since for draft in drafted])
    tested = list(zip(drafted, results, strict=True))

    habits = _drop_existing(run, _draft_habits(run, read_changes, drafted, files, settings))
    results = backtest(_make_rule_checks(habits), read_changes)
    tested += zip(habits, results, strict=True)
    return _judge_all(run, tested, accepted)


def plan_new_rules(run: RecordRun, judged: Iterable[Judged]) -> Iterator[Change]:
    """Yield the additions of new entries for accepted checks of rules that no entry has yet."""
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
    """Yield the updates of existing entries, to each of which an accepted check is added."""
    for item in judged:
        proposal = item.candidate.proposal
        if item.verdict != "written" or proposal is None or proposal.source != "entry":
            continue
        place = run.draft.by_id.get(proposal.place)
        if place is not None and place.entry.check is None:
            entry = replace(place.entry, check=proposal.check)
            yield Change(step="consolidate", kind="update", path=place.path, entry=entry, why=WHY)


# -- where checks come from


def _make_rule_checks(drafted: Iterable[DraftedCheck]) -> list[RuleCheck]:
    """Return the drafted checks in the form in which changes are tested."""
    return [make_rule(draft.check, draft.rule.title) for draft in drafted]


def _list_untested(
    run: RecordRun, repeated: Iterable[Judged], settings: str
) -> list[CheckableRule]:
    """Return the rules that no linter or hook of the repository tests, nor could test better.

    Args:
        run: the run.
        repeated: the repeated requests and failures.
        settings: the text of the files that configure linters and hooks.
    """
    untested: list[CheckableRule] = []
    for rule in _list_rules(run, repeated):
        could_be_hook = find_hook(rule.title) is not None
        if not could_be_hook and not is_linted(rule.title, settings):
            untested.append(rule)
    return untested


def _draft_checks(
    run: RecordRun, rules: Iterable[CheckableRule], files: RepositoryFiles, problems: list[str]
) -> list[DraftedCheck]:
    """Return the checks of rules: first those of templates, then those that a model writes.

    Args:
        run: the run.
        rules: the rules as sentences.
        files: the files that a check may name.
        problems: gets a line if the model cannot be asked.
    """
    drafted: list[DraftedCheck] = []
    for_model: list[CheckableRule] = []
    for rule in rules:
        check = derive_check(rule.title, files)
        if check is None:
            for_model.append(rule)
        else:
            drafted.append(DraftedCheck(rule, check))
    return drafted + _list_written(run, for_model, files, problems)


def _list_written(
    run: RecordRun, rules: Iterable[CheckableRule], files: RepositoryFiles, problems: list[str]
) -> list[DraftedCheck]:
    """Return the checks that a model wrote in earlier runs, and those that it writes now.

    Those of earlier runs are in a cache. Args as in `_draft_checks`.
    """
    cache = WrittenChecks(run.workspace)
    drafted: list[DraftedCheck] = []
    unwritten: list[CheckableRule] = []
    for rule in rules:
        check = cache.find(rule.title)
        if check is None:
            unwritten.append(rule)
        else:
            drafted.append(DraftedCheck(rule, check, is_by_model=True))
    if run.asker is None:
        return drafted
    try:
        new_checks = list(_ask_for_checks(run, run.asker, unwritten, files))
    except EngineError as error:
        problems.append(f"checks of rules: {error.message} [{error.slug}]")
        return drafted
    if new_checks:
        cache.add({draft.rule.title: draft.check for draft in new_checks})
    return drafted + new_checks


def _list_rules(run: RecordRun, repeated: Iterable[Judged]) -> Iterator[CheckableRule]:
    """Yield the rules that people repeated, that entries of memory hold, and that documents say."""
    for item in repeated:
        candidate = item.candidate
        repetition = candidate.repetition
        if repetition is not None and repetition.kind == "request":
            place = repetition.written_in
            yield CheckableRule(
                candidate.title, "request", place, repetition.first, candidate=candidate
            )
    for located in run.draft.kept:
        entry = located.entry
        # The title of a rejected choice names the thing alone, which is no rule.
        is_rule = entry.type == "directive" and entry.adoption != "rejected"
        if is_rule and entry.check is None and is_in_force(entry, run.today):
            yield CheckableRule(entry.title, "entry", entry.id, entry.created_at)
    seen_texts: set[str] = set()
    for written in list_written_rules(run.base):
        text = EMPHASIS.sub("", written.text)
        if SENTENCE.match(text) and text not in seen_texts and not written.is_forbidden_example:
            seen_texts.add(text)  # CLAUDE.md is often a copy of AGENTS.md
            yield CheckableRule(text, "document", written.place, words=written.text)


def _ask_for_checks(
    run: RecordRun, asker: Asker, rules: Iterable[CheckableRule], files: RepositoryFiles
) -> Iterator[DraftedCheck]:
    """Yield the checks that a model writes for the first `MAX_ASKED` rules.

    It is not asked about a rule whose check a person declined: it might write it in other words.

    Raises:
        EngineError: as the engine does.
    """
    # A line of the file of declined candidates is a key and a title.
    declined_titles = {line.partition(" ")[2] for line in read_rejected(run.base)}
    asked: list[CheckableRule] = []
    for rule in rules:
        is_testable = rule.source != "document" or is_about_changes(rule.title)
        if is_testable and rule.title not in declined_titles and not is_unsafe(rule.title):
            asked.append(rule)
    asked = asked[:MAX_ASKED]
    if not asked:
        return
    checks = write_checks(asker, [rule.title for rule in asked], files)
    for rule, check in zip(asked, checks, strict=True):
        if check is not None:
            yield DraftedCheck(rule, check, is_by_model=True)


def _date_documents(run: RecordRun, drafted: Iterable[DraftedCheck]) -> list[DraftedCheck]:
    """Return the checks; those of documents count from the day when their line was committed."""
    blamed: dict[str, tuple[BlamedRange, ...]] = {}
    dated: list[DraftedCheck] = []
    for draft in drafted:
        rule = draft.rule
        if rule.source != "document":
            dated.append(draft)
            continue
        path, _, line_number = rule.place.rpartition(":")
        if path not in blamed:
            blamed[path] = blame_lines(run.workspace.repo, path, None, run.base.sha)
        day = _find_day(blamed[path], int(line_number))
        dated.append(draft._replace(rule=rule._replace(since=day)))
    return dated


def _find_day(blamed: Iterable[BlamedRange], line_number: int) -> date | None:
    """Return the day when a line was committed; None if `git blame` does not reach the line."""
    for part in blamed:
        if part.last >= line_number:
            return part.day
    return None


def _draft_habits(
    run: RecordRun,
    history: Sequence[PastChange],
    drafted: Sequence[DraftedCheck],
    files: RepositoryFiles,
    settings: str,
) -> Iterator[DraftedCheck]:
    """Yield the checks of habits: of two kinds of files that past changes changed together.

    Args:
        run: the run.
        history: the past changes.
        drafted: the checks of rules, which habits must not repeat.
        files: the files of the repository, which must have both kinds.
        settings: the text of the files that configure linters and hooks.
    """
    for habit in _find_habits(run, history):
        is_known = is_lock_tested((habit.also,), settings) or _is_demanded(habit, drafted)
        if not is_known and has_glob(habit.when, files) and has_glob(habit.also, files):
            yield _draft_habit(habit)


def _find_habits(run: RecordRun, history: Sequence[PastChange]) -> list[Habit]:
    """Return the habits of past changes: which kinds of files they changed together."""
    changes = [
        MergedFiles(
            merged_on(past.merged),
            tuple(file.path for file in past.change.files),
            past.merged.title,
        )
        for past in history
    ]
    return find_habits(changes, run.today)


def _is_demanded(habit: Habit, drafted: Iterable[DraftedCheck]) -> bool:
    """Return whether a rule demands that the two kinds of a habit change together."""
    checks = [draft.check for draft in drafted if isinstance(draft.check, WithCheck)]
    return any(
        _names_kind(check.when, habit.when) and _names_kind(check.also, habit.also)
        for check in checks
    )


def _names_kind(globs: Iterable[str], kind: str) -> bool:
    """Return whether a kind of files is among some globs, wherever in the repository it is."""
    return kind in {glob.removeprefix("/") for glob in globs}


def _draft_habit(habit: Habit) -> DraftedCheck:
    check = WithCheck((habit.when,), (habit.also,))
    title = f"When {habit.when} changes, {habit.also} changes as well"
    return DraftedCheck(CheckableRule(title, "habit"), check)


def _drop_existing(run: RecordRun, drafted: Iterable[DraftedCheck]) -> list[DraftedCheck]:
    """Return the drafted checks that no entry of memory has, each once."""
    known_checks = [place.entry.check for place in run.draft.kept]
    new_checks: list[DraftedCheck] = []
    for draft in drafted:
        if draft.check not in known_checks:
            known_checks.append(draft.check)
            new_checks.append(draft)
    return new_checks


# -- the back-test


def _iter_history(run: RecordRun, rules: Sequence[RuleCheck]) -> Iterator[PastChange]:
    """Yield the merged changes of the last year by people and their agents, the oldest first.

    At most `MAX_CHANGES` are read, the newest.

    Args:
        run: the run.
        rules: the checks, which say what has to be read of each change.
    """
    repo = run.workspace.repo
    history = plan_newest(repo, run.base.sha, MAX_AGE, run.today, MAX_CHANGES)
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


def _judge_all(
    run: RecordRun,
    tested: Iterable[tuple[DraftedCheck, BacktestResult]],
    accepted: Collection[str],
) -> list[Judged]:
    """Return the checks that a person accepted, and the first that are worth proposing.

    At most `MAX_PROPOSED` are proposed, and any number of habits. What a person declined does not
    count among them.

    Args:
        run: the run.
        tested: the checks with their results on past changes.
        accepted: keys of candidates that a person accepted.
    """
    declined_keys = {line.split()[0] for line in read_rejected(run.base)}
    chosen: list[tuple[DraftedCheck, BacktestResult]] = []
    proposed_count = 0
    for draft, result in tested:
        key = candidate_key(_make_candidate(draft, result))
        is_accepted = key in accepted
        if key in declined_keys or not (is_accepted or _is_worth_proposing(draft, result)):
            continue
        if not is_accepted and draft.rule.source != "habit":
            proposed_count += 1
            if proposed_count > MAX_PROPOSED:
                continue
        chosen.append((draft, result))
    joined = join_sessions(run.workspace, run.base.sha, [result for _, result in chosen])
    return [
        _judge(draft, result, accepted) for (draft, _), result in zip(chosen, joined, strict=True)
    ]


def _is_worth_proposing(draft: DraftedCheck, result: BacktestResult) -> bool:
    """Return whether a check is about enough past changes, and few of them violate it.

    A rule of a document that nobody broke since it was written needs no reminder. A request that
    people repeat had to be corrected before the merge, so it needs one without violations, and so
    do signatures of agents.
    """
    is_about_changes = result.applicable >= LEAST_APPLICABLE
    is_seldom_violated = result.share <= MOST_VIOLATED and not result.unjudged
    needs_violations = draft.rule.source == "document" and draft.check != ATTRIBUTION_CHECK
    is_needed = bool(result.violations) or not needs_violations
    return is_about_changes and is_seldom_violated and is_needed


def _judge(draft: DraftedCheck, result: BacktestResult, accepted: Collection[str]) -> Judged:
    """Return a check with its verdict: to be proposed, or to be written if a person accepted it.

    Args:
        draft: the check.
        result: its result on past changes.
        accepted: keys of candidates that a person accepted.
    """
    candidate = _make_candidate(draft, result)
    reason = f"would have spoken {len(result.violations)} times in {result.applicable} changes"
    if candidate_key(candidate) not in accepted:
        return Judged(candidate=candidate, verdict="suspected", reason=reason, change=SOURCE)
    candidate = replace(candidate, accepted=ACCEPTED_IN_REQUEST)
    is_of_entry = draft.rule.source == "entry"
    return Judged(
        candidate=candidate,
        verdict="written",
        reason=reason,
        change=SOURCE,
        entry_id=draft.rule.place if is_of_entry else entry_id(candidate),
    )


def _make_candidate(draft: DraftedCheck, result: BacktestResult) -> Candidate:
    """Return a check as a candidate for an entry, with its result on past changes."""
    rule = draft.rule
    proposal = CheckProposal(
        check=draft.check,
        source=rule.source,
        is_by_model=draft.is_by_model,
        place=rule.place,
        applicable=result.applicable,
        violations=len(result.violations),
        examples=tuple(_describe_violation(violation) for violation in result.violations),
        with_session=result.with_session,
        asked_for=result.asked_for,
    )
    if rule.candidate is not None:
        return replace(rule.candidate, proposal=proposal, repetition=None, engine=ENGINE)
    quotes = (Quote("", rule.words, f"file:{rule.place}"),) if rule.source == "document" else ()
    return Candidate(
        title=rule.title,
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


def _describe_violation(violation: PastViolation) -> str:
    merged = violation.merged
    return f"{merged.tip.committed_at:%Y-%m-%d} {merged.label} {merged.title[:MAX_SUBJECT]}".strip()
