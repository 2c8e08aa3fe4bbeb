"""Measure how many repeated requests and repeated failures memory would have named before.

    python -m benchmarks never_twice --turns FILE --gold FILE [--lines 10]
    python -m benchmarks never_twice --failures FILE

Turns are JSON lines {repo, session, at, text}, gold rows {repo, request, pattern}: a regular
expression over a turn that makes the request. A repetition is a session that makes a request which
two earlier sessions made. At the start of each such session the detector sees the sessions that
began before, and lists its lines; the repetition is prevented if a line makes the request. A line
is right if it makes any request of the gold set.

Failures are JSON lines {repo, session, at, command, output, ok}. A repetition is a session in which
a command is misused as in two earlier ones. A listed failure is right if it comes again.

Beside the detector stands a baseline: the most frequent wordings, without terms and forms.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from memory_ci.records.proportion import Share, compute_share
from memory_ci.records.repetition import CommandRun, PersonTurn
from memory_ci.repetition.clauses import list_clauses
from memory_ci.repetition.failures import find_known_failures, list_failed, list_succeeded
from memory_ci.repetition.requests import find_standing_requests

LINES = 10

Lister = Callable[[Sequence[PersonTurn], int], list[str]]


class Result(NamedTuple):
    """The counts of one repository.

    Attributes:
        prevented: repetitions that a line named before.
        repetitions: all repetitions.
        right: listed lines that make a request of the gold set.
        listed: all listed lines.
    """

    prevented: int
    repetitions: int
    right: int
    listed: int


def list_requests(turns: Sequence[PersonTurn], lines: int) -> list[str]:
    """Return the wordings that the detector lists."""
    return [request.text for request in find_standing_requests(turns, lines)]


def list_frequent(turns: Sequence[PersonTurn], lines: int) -> list[str]:
    """Return the wordings that most sessions have, as a baseline."""
    sessions: defaultdict[str, set[str]] = defaultdict(set)
    for turn in turns:
        for clause in list_clauses(turn.text):
            sessions[clause.text.casefold()].add(turn.session)
    ranked = sorted(sessions, key=lambda wording: (-len(sessions[wording]), wording))
    return [wording for wording in ranked if len(sessions[wording]) > 1][:lines]


def replay_requests(
    turns: Sequence[PersonTurn], gold: Mapping[str, re.Pattern[str]], lines: int, lister: Lister
) -> Result:
    """Replay the sessions of one repository, and count the repeated requests that were listed.

    Args:
        turns: the texts of people.
        gold: for each request a pattern of the texts that make it.
        lines: how many wordings may be listed at the start of a session.
        lister: lists wordings of the turns before a session.
    """
    turns_by_session = _group_by_session(turns)
    session_counts: Counter[str] = Counter()  # In how many sessions each request was made.
    prevented = 0
    repetitions = 0
    right = 0
    listed = 0
    for session, session_turns in turns_by_session.items():
        requests = _find_requests(session_turns, gold)
        repeated_requests = [request for request in requests if session_counts[request] > 1]
        if repeated_requests:
            earlier_turns = _list_turns_before(turns_by_session, session)
            wordings = lister(earlier_turns, lines)
            listed += len(wordings)
            right += sum(_makes_any(wording, gold.values()) for wording in wordings)
            repetitions += len(repeated_requests)
            for request in repeated_requests:
                prevented += any(gold[request].search(wording) for wording in wordings)
        session_counts.update(requests)
    return Result(prevented, repetitions, right, listed)


def _find_requests(turns: Sequence[PersonTurn], gold: Mapping[str, re.Pattern[str]]) -> set[str]:
    """Return the requests of the gold set that any of the turns makes."""
    requests = set()
    for request, pattern in gold.items():
        if any(pattern.search(turn.text) for turn in turns):
            requests.add(request)
    return requests


def _list_turns_before(
    turns_by_session: Mapping[str, Sequence[PersonTurn]], session: str
) -> list[PersonTurn]:
    """Return the turns before a session began, of the sessions that began earlier."""
    start = turns_by_session[session][0].at
    earlier_turns: list[PersonTurn] = []
    for other_session, turns in turns_by_session.items():
        if other_session != session:
            earlier_turns += [turn for turn in turns if turn.at < start]
    return earlier_turns


FailureKey = tuple[str, str]  # The form of a command and its error.


def replay_failures(runs: Sequence[CommandRun]) -> Result:
    """Replay the commands of one repository, and count the repeated failures that were listed.

    Before each session the detector lists the known failures of the sessions before it.
    """
    runs_by_session: defaultdict[str, list[CommandRun]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.at):
        runs_by_session[run.session].append(run)
    failed = {session: list_failed(items) for session, items in runs_by_session.items()}
    succeeded = {session: list_succeeded(items) for session, items in runs_by_session.items()}
    sessions = list(runs_by_session)
    session_counts: Counter[FailureKey] = Counter()  # In how many sessions each failure was.
    all_listed: set[FailureKey] = set()
    came_again: set[FailureKey] = set()
    prevented = 0
    repetitions = 0
    for number, session in enumerate(sessions):
        earlier_failures = []
        for earlier_session in sessions[:number]:
            earlier_failures += failed[earlier_session]
        earlier_successes = [succeeded[earlier_session] for earlier_session in sessions[:number]]
        known_failures = find_known_failures(earlier_failures, earlier_successes)
        listed = {(failure.form, failure.error) for failure in known_failures}
        all_listed |= listed
        for failure_key in {(run.form, run.error) for run in failed[session]}:
            if session_counts[failure_key] > 1:
                repetitions += 1
                prevented += failure_key in listed
            if failure_key in all_listed:
                came_again.add(failure_key)
            session_counts[failure_key] += 1
    return Result(prevented, repetitions, len(came_again), len(all_listed))


def main(arguments: Sequence[str]) -> None:
    """Print a row for each repository, and one for all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks never_twice")
    parser.add_argument("--turns", type=Path)
    parser.add_argument("--gold", type=Path)
    parser.add_argument("--failures", type=Path)
    parser.add_argument("--lines", type=int, default=LINES)
    options = parser.parse_args(arguments)
    if options.turns and options.gold:
        turns = _read_turns(options.turns)
        gold = _read_gold(options.gold)
        repos = [repo for repo in sorted(gold) if repo in turns]
        for name, lister in (("detector", list_requests), ("most frequent", list_frequent)):
            results = {}
            for repo in repos:
                results[repo] = replay_requests(turns[repo], gold[repo], options.lines, lister)
            _print_all(name, results)
    if options.failures:
        runs = _read_runs(options.failures)
        _print_all("failures", {repo: replay_failures(runs[repo]) for repo in sorted(runs)})


def _group_by_session(turns: Iterable[PersonTurn]) -> dict[str, list[PersonTurn]]:
    """Return the turns of each session, in the order in which the sessions began."""
    by_session: defaultdict[str, list[PersonTurn]] = defaultdict(list)
    for turn in sorted(turns, key=lambda turn: turn.at):
        by_session[turn.session].append(turn)
    return dict(by_session)


def _makes_any(wording: str, patterns: Iterable[re.Pattern[str]]) -> bool:
    return any(pattern.search(wording) for pattern in patterns)


def _print_all(name: str, results: Mapping[str, Result]) -> None:
    """Print a row for each repository, and one with the sums if there are several."""
    for repo, result in results.items():
        _print_row(f"{name}, {repo}", result)
    if len(results) > 1:
        total = Result(*(sum(values) for values in zip(*results.values(), strict=True)))
        _print_row(f"{name}, all", total)


def _print_row(name: str, result: Result) -> None:
    recall = compute_share(result.prevented, result.repetitions)
    precision = compute_share(result.right, result.listed)
    print(
        f"{name}: prevented {result.prevented} of {result.repetitions}{_say(recall)}, "
        f"listed right {result.right} of {result.listed}{_say(precision)}"
    )


def _say(proportion: Share) -> str:
    if proportion.value is None:
        return ""
    return f" = {proportion.value:.2f} [{proportion.low:.2f}, {proportion.high:.2f}]"


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _read_time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _read_turns(path: Path) -> dict[str, list[PersonTurn]]:
    turns: defaultdict[str, list[PersonTurn]] = defaultdict(list)
    for row in _read_rows(path):
        turn = PersonTurn(row["session"], _read_time(row["at"]), row.get("person", ""), row["text"])
        turns[row["repo"]].append(turn)
    return turns


def _read_gold(path: Path) -> dict[str, dict[str, re.Pattern[str]]]:
    gold: defaultdict[str, dict[str, re.Pattern[str]]] = defaultdict(dict)
    for row in _read_rows(path):
        gold[row["repo"]][row["request"]] = re.compile(row["pattern"], re.IGNORECASE | re.DOTALL)
    return gold


def _read_runs(path: Path) -> dict[str, list[CommandRun]]:
    runs: defaultdict[str, list[CommandRun]] = defaultdict(list)
    for row in _read_rows(path):
        run = CommandRun(
            row["session"], _read_time(row["at"]), row["command"], row["output"], row["ok"]
        )
        runs[row["repo"]].append(run)
    return runs
