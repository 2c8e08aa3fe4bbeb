"""Drafts of checks of later changes: from rules that people wrote, and from habits in history.

A check is a test of a change, such as "if X.py changes, docs/X.md changes as well".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from memory_ci.checks.backtest import PastChange
from memory_ci.checks.habits import Habit, MergedFiles, find_habits
from memory_ci.checks.repository import RepositoryFiles, has_glob
from memory_ci.checks.templates import derive_check
from memory_ci.commands.record.gatherer import RecordRun
from memory_ci.commands.record.model_checks import is_about_changes, write_checks
from memory_ci.errors import EngineError
from memory_ci.gitrepo.edits import BlamedRange, blame_lines
from memory_ci.lifecycle.prominence import is_in_force
from memory_ci.memory.eligible import find_merge_day
from memory_ci.memory.forgotten import read_rejected
from memory_ci.memory.known_hooks import find_hook, is_linted, is_lock_tested
from memory_ci.memory.model import ModelClient
from memory_ci.memory.screening import is_unsafe
from memory_ci.memory.written_checks import WrittenChecks
from memory_ci.records.candidate import Candidate, CheckSource, Judged
from memory_ci.records.check import ChangeCheck, WithCheck
from memory_ci.regex import Regex
from memory_ci.sessions.repetitions import list_written_rules

MAX_ASKED = 30  # Rules that a model is asked about in a run.

EMPHASIS = Regex(r"\*\*|__")
"""Markdown's signs of emphasis."""

SENTENCE = Regex(r"[A-Z`]")
"""The beginning of a line that is no row of a table, and does not go on from the line before."""


class CheckableRule(NamedTuple):
    """A rule that a check may test.

    Attributes:
        title: the rule.
        source: the kind of place that holds it.
        location: the id of the entry whose rule it is, or `PATH:LINE` of a document; "" for none.
        since: the day after which changes count; None for all.
        quoted_words: the words of a document.
        candidate: the candidate of the rule itself, None if the rule is no candidate.
    """

    title: str
    source: CheckSource
    location: str = ""
    since: date | None = None
    quoted_words: str = ""
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


def draft_rule_checks(
    run: RecordRun,
    judged_requests: Sequence[Judged],
    files: RepositoryFiles,
    settings: str,
    problems: list[str],
) -> list[DraftedCheck]:
    """Return checks that test the rules people wrote, without checks that an entry has already.

    Args:
        run: the run.
        judged_requests: the requests and failures that recur in sessions.
        files: the files of the repository, which a check may name.
        settings: the text of the files that configure linters and hooks.
        problems: gets a line if the model cannot be asked.
    """
    rules = _list_untested_rules(run, judged_requests, settings)
    drafted = _drop_checks_of_entries(run, _draft_checks(run, rules, files, problems))
    return _date_documents(run, drafted)


def draft_habit_checks(
    run: RecordRun,
    history: Sequence[PastChange],
    drafted: Sequence[DraftedCheck],
    files: RepositoryFiles,
    settings: str,
) -> list[DraftedCheck]:
    """Return checks that test habits: past changes that changed two kinds of files together.

    Args:
        run: the run.
        history: the past changes.
        drafted: the checks of rules, which habits must not repeat.
        files: the files of the repository, which must have both kinds.
        settings: the text of the files that configure linters and hooks.
    """
    habits: list[DraftedCheck] = []
    for habit in _find_habits(run, history):
        # The habit: if files of the kind `when` change, files of the kind `also` change as well.
        is_tested = is_lock_tested((habit.also,), settings) or _repeats_rule(habit, drafted)
        # History knows files that the repository no longer has.
        has_both_kinds = has_glob(habit.when, files) and has_glob(habit.also, files)
        if has_both_kinds and not is_tested:
            habits.append(_draft_habit(habit))
    return _drop_checks_of_entries(run, habits)


def _draft_checks(
    run: RecordRun, rules: Iterable[CheckableRule], files: RepositoryFiles, problems: list[str]
) -> list[DraftedCheck]:
    """Return the checks of rules: those that match a template, then those that a model writes.

    Args:
        run: the run.
        rules: the rules as sentences.
        files: the files that a check may name.
        problems: gets a line if the model cannot be asked.
    """
    drafted: list[DraftedCheck] = []
    rules_for_model: list[CheckableRule] = []
    for rule in rules:
        check = derive_check(rule.title, files)
        if check is None:
            rules_for_model.append(rule)
        else:
            drafted.append(DraftedCheck(rule, check))
    return drafted + _draft_by_model(run, rules_for_model, files, problems)


def _draft_by_model(
    run: RecordRun, rules: Iterable[CheckableRule], files: RepositoryFiles, problems: list[str]
) -> list[DraftedCheck]:
    """Return the checks that a model wrote in earlier runs or writes now.

    Checks of earlier runs are read from a cache. The arguments are those of `_draft_checks`.
    """
    cache = WrittenChecks(run.workspace)
    drafted: list[DraftedCheck] = []
    rules_without_check: list[CheckableRule] = []
    for rule in rules:
        check = cache.find(rule.title)
        if check is None:
            rules_without_check.append(rule)
        else:
            drafted.append(DraftedCheck(rule, check, is_by_model=True))
    if run.client is None:
        return drafted
    try:
        new_checks = list(_ask_for_checks(run, run.client, rules_without_check, files))
    except EngineError as error:
        problems.append(f"checks of rules: {error.message} [{error.slug}]")
        return drafted
    if new_checks:
        cache.add({draft.rule.title: draft.check for draft in new_checks})
    return drafted + new_checks


def _list_rules(run: RecordRun, judged_requests: Iterable[Judged]) -> Iterator[CheckableRule]:
    """Yield the rules that people repeated, that entries of memory hold, and that documents say.

    Args:
        run: the run.
        judged_requests: the repeated requests and the failing commands; failures are no rules.
    """
    for judged in judged_requests:
        candidate = judged.candidate
        repetition = candidate.repetition
        if repetition is not None and repetition.kind == "request":
            yield CheckableRule(
                title=candidate.title,
                source="request",
                location=repetition.written_in,
                since=repetition.first,
                candidate=candidate,
            )

    for located in run.draft.located:
        entry = located.entry
        # An entry on a rejected choice has the choice as its title ("Redux"), which is no rule.
        is_rule = entry.type == "directive" and entry.adoption != "rejected"
        if is_rule and entry.check is None and is_in_force(entry, run.today):
            yield CheckableRule(
                title=entry.title, source="entry", location=entry.id, since=entry.created_at
            )

    seen_texts: set[str] = set()
    for written_rule in list_written_rules(run.base):
        text = EMPHASIS.sub("", written_rule.text)
        if not SENTENCE.match(text) or written_rule.is_forbidden_example:
            continue
        if text not in seen_texts:
            seen_texts.add(text)  # CLAUDE.md is often a copy of AGENTS.md.
            yield CheckableRule(
                title=text,
                source="document",
                location=written_rule.place,
                quoted_words=written_rule.text,
            )


def _list_untested_rules(
    run: RecordRun, judged_requests: Iterable[Judged], settings: str
) -> list[CheckableRule]:
    """Return the rules that neither a linter of the repository nor a well-known hook tests.

    Args:
        run: the run.
        judged_requests: the requests and failures that recur in sessions.
        settings: the text of the files that configure linters and hooks.
    """
    untested_rules: list[CheckableRule] = []
    for rule in _list_rules(run, judged_requests):
        # A hook that people can add tests the rule better than a check.
        has_hook = find_hook(rule.title) is not None
        if not has_hook and not is_linted(rule.title, settings):
            untested_rules.append(rule)
    return untested_rules


def _ask_for_checks(
    run: RecordRun, client: ModelClient, rules: Iterable[CheckableRule], files: RepositoryFiles
) -> Iterator[DraftedCheck]:
    """Yield the checks that a model writes for the first `MAX_ASKED` rules.

    It is not asked about a rule whose check a person declined: it might write it in other words.

    Raises:
        EngineError: as the engine does.
    """
    # A line of the file of declined candidates is a key and a title.
    declined_titles = {line.partition(" ")[2] for line in read_rejected(run.base)}
    rules_to_ask: list[CheckableRule] = []
    for rule in rules:
        is_testable = rule.source != "document" or is_about_changes(rule.title)
        if is_testable and rule.title not in declined_titles and not is_unsafe(rule.title):
            rules_to_ask.append(rule)
    rules_to_ask = rules_to_ask[:MAX_ASKED]
    if not rules_to_ask:
        return
    checks = write_checks(client, [rule.title for rule in rules_to_ask], files)
    for rule, check in zip(rules_to_ask, checks, strict=True):
        if check is not None:
            yield DraftedCheck(rule, check, is_by_model=True)


def _date_documents(run: RecordRun, drafted: Iterable[DraftedCheck]) -> list[DraftedCheck]:
    """Return the checks, each rule of a document with the day on which it was written (`since`).

    The place of such a rule is `PATH:LINE`. The day is when the line was committed, by `git blame`.
    """
    blamed_lines_by_path: dict[str, tuple[BlamedRange, ...]] = {}
    dated_drafts: list[DraftedCheck] = []
    for draft in drafted:
        rule = draft.rule
        if rule.source != "document":
            dated_drafts.append(draft)
            continue
        path, _, line_number = rule.location.rpartition(":")
        if path not in blamed_lines_by_path:
            blamed_lines_by_path[path] = blame_lines(run.workspace.repo, path, None, run.base.sha)
        day = _find_day(blamed_lines_by_path[path], int(line_number))
        dated_drafts.append(draft._replace(rule=rule._replace(since=day)))
    return dated_drafts


def _find_day(blamed_ranges: Iterable[BlamedRange], line_number: int) -> date | None:
    """Return the day when a line was committed; None if `git blame` does not reach the line."""
    for blamed_range in blamed_ranges:
        if blamed_range.last >= line_number:
            return blamed_range.day
    return None


def _find_habits(run: RecordRun, history: Sequence[PastChange]) -> list[Habit]:
    """Return the habits of past changes: which kinds of files they changed together."""
    changes = [
        MergedFiles(
            find_merge_day(past.merged),
            tuple(file.path for file in past.change.files),
            past.merged.title,
        )
        for past in history
    ]
    return find_habits(changes, run.today)


def _repeats_rule(habit: Habit, drafted: Iterable[DraftedCheck]) -> bool:
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


def _drop_checks_of_entries(run: RecordRun, drafted: Iterable[DraftedCheck]) -> list[DraftedCheck]:
    """Return the drafted checks that no entry of memory has, each once."""
    known_checks = [located.entry.check for located in run.draft.located]
    new_checks: list[DraftedCheck] = []
    for draft in drafted:
        if draft.check not in known_checks:
            known_checks.append(draft.check)
            new_checks.append(draft)
    return new_checks
