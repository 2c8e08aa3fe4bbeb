"""How much of MemoryCode's instructions memory holds, keyless and with a model's replies.

    python -m benchmarks memorycode --data DIR [--parity even|odd|all] [--replies FILE]

MemoryCode (Cohere-Labs-Community/MemoryCode, Rakotonirina et al., arXiv 2502.13791) has dialogues of
a mentor and a new engineer in up to a hundred sessions. The mentor gives coding instructions, updates
them later, and talks of other things. DIR holds its `dialogue_N.json`.

The mentor's turns are read as the words of a person to an agent, session by session, as a run of
`record` reads them. Whoever reviews the proposals is taken to accept all of them. Printed are three
shares with their 95 % intervals:

- of the instructions in force at the end, those that an entry in force says;
- of the superseded instructions, those that an entry in force says still;
- of the expressions, those with which the check derived from the instruction's words agrees.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.memorycode_checks import (
    Checks,
    ExpressionResult,
    compare_expression,
    find_checks,
)
from benchmarks.memorycode_data import Dialogue, Instruction, read_dialogues, says, says_filler
from benchmarks.memorycode_memory import KeptEntry, remember
from memory_ci.errors import EngineError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.replay import ReplayEngine
from memory_ci.records.proportion import compute_share


class Counts(NamedTuple):
    """The counts of one or more dialogues.

    Attributes:
        in_force: instructions in force at the end.
        held: of these, those that an entry in force says.
        superseded: instructions that were superseded.
        noticed: of these, those that an entry said at any time.
        served: of these, those that an entry in force says still.
        flagged: of these, those that only entries with a contradiction say.
        entries: entries in force at the end.
        right: of these, those that say an instruction of the data set, of whatever kind.
        expressible: instructions that an entry in force says and that a line of code shows.
        checked: of these, those with an entry whose title gives a check.
        equal: of these, those whose check agrees with the expression on all examples.
    """

    in_force: int = 0
    held: int = 0
    superseded: int = 0
    noticed: int = 0
    served: int = 0
    flagged: int = 0
    entries: int = 0
    right: int = 0
    expressible: int = 0
    checked: int = 0
    equal: int = 0

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        """Return the sums."""
        return Counts(*(left + right for left, right in zip(self, other, strict=True)))


def count(dialogue: Dialogue, entries: Sequence[KeptEntry], checks: Checks) -> Counts:
    """Return the counts of a dialogue after its last session.

    Args:
        dialogue: the dialogue.
        entries: the entries after it.
        checks: the checks of their titles.
    """
    current_entries = [entry for entry in entries if entry.is_in_force]
    latest = _map_latest(dialogue)
    superseded = _list_superseded(dialogue, latest)
    noticed = [item for item in superseded if _list_entries_saying_old(item, entries, latest)]
    stale_entries_by_item = [
        _list_entries_saying_old(item, current_entries, latest) for item in noticed
    ]
    served = [stale_entries for stale_entries in stale_entries_by_item if stale_entries]
    results = [_compare_best(item, current_entries, checks) for item in latest.values()]
    expressible = [result for result in results if result is not None and result.is_expressible]
    return Counts(
        in_force=len(latest),
        held=sum(_is_said(item, current_entries) for item in latest.values()),
        superseded=len(superseded),
        noticed=len(noticed),
        served=len(served),
        flagged=sum(_are_all_contradicted(stale_entries) for stale_entries in served),
        entries=len(current_entries),
        right=sum(_is_right(entry.text, dialogue) for entry in current_entries),
        expressible=len(expressible),
        checked=sum(result.is_understood for result in expressible),
        equal=sum(result.is_equal for result in expressible),
    )


def _map_latest(dialogue: Dialogue) -> dict[int, Instruction]:
    """Return the last instruction on each topic, by the number of the topic, its pivot."""
    return {item.pivot: item for item in dialogue.instructions}


def _list_superseded(dialogue: Dialogue, latest: Mapping[int, Instruction]) -> list[Instruction]:
    """Return the instructions that a later one replaced, without those that it only repeated."""
    latest_texts = {(item.pivot, item.text) for item in latest.values()}
    superseded = []
    for item in dialogue.instructions:
        if latest[item.pivot] is not item and (item.pivot, item.text) not in latest_texts:
            superseded.append(item)
    return superseded


def _list_entries_saying_old(
    item: Instruction, entries: Iterable[KeptEntry], latest: Mapping[int, Instruction]
) -> list[KeptEntry]:
    """Return the entries that say a superseded instruction, and not the one that replaced it."""
    successor = latest[item.pivot]
    return [
        entry for entry in entries if says(entry.text, item) and not says(entry.text, successor)
    ]


def _is_said(item: Instruction, entries: Iterable[KeptEntry]) -> bool:
    return any(says(entry.text, item) for entry in entries)


def _are_all_contradicted(entries: Iterable[KeptEntry]) -> bool:
    return all(entry.is_contradicted for entry in entries)


def _compare_best(
    item: Instruction, entries: Iterable[KeptEntry], checks: Checks
) -> ExpressionResult | None:
    """Return the best result of a check of the entries that say an instruction; None without one.

    Args:
        item: the instruction, with the expression that shows whether code follows it.
        entries: the entries.
        checks: the checks that were derived from the titles of entries.
    """
    saying_entries = [entry for entry in entries if says(entry.text, item)]
    results = [compare_expression(item, checks[entry.title]) for entry in saying_entries]
    return max(results, key=lambda result: (result.is_equal, result.is_understood), default=None)


def _is_right(text: str, dialogue: Dialogue) -> bool:
    """Return whether an entry says an instruction of the dialogue, on code or on another topic."""
    is_coding = any(says(text, item) for item in dialogue.instructions)
    return is_coding or any(says_filler(text, topic) for topic in dialogue.fillers)


def main(arguments: Sequence[str]) -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks memorycode")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parity", choices=("even", "odd", "all"), default="even")
    parser.add_argument("--replies", type=Path)
    parser.add_argument("--show", action="store_true", help="print what was missed")
    options = parser.parse_args(arguments)
    dialogues = read_dialogues(options.data, options.parity)
    if not dialogues:
        sys.exit(f"no dialogue_N.json in {options.data}")
    _print_memory("keyless", dialogues, None, is_shown=options.show)
    if options.replies:
        replies = ReplayEngine(options.replies)
        _print_memory("with replies", dialogues, replies, is_shown=options.show)
    _print_checks("templates", dialogues, None)
    if options.replies:
        _print_checks("templates and replies", dialogues, replies)


def _print_memory(
    name: str, dialogues: Sequence[Dialogue], engine: Engine | None, *, is_shown: bool
) -> None:
    """Print the counts of all dialogues, by the number of their sessions and together.

    Args:
        name: the name of the run.
        dialogues: the dialogues.
        engine: the engine with a model's replies; a dialogue without replies does not count. None:
            the rules alone.
        is_shown: whether each missed and each wrong entry is printed.
    """
    groups: dict[str, Counts] = {}
    total = Counts()
    read_count = 0
    for dialogue in dialogues:
        try:
            entries = remember(dialogue, engine)
            titles = {entry.title: None for entry in entries if entry.is_in_force}
            checks = find_checks(titles, engine)
        except EngineError as error:
            if error.slug != "replay-miss":
                raise
            continue
        if is_shown:
            for line in _list_faults(dialogue, entries):
                print(line)
        counts = count(dialogue, entries, checks)
        group = _name_group(len(dialogue.sessions))
        groups[group] = groups.get(group, Counts()) + counts
        total += counts
        read_count += 1
    print(f"{name}, {read_count} dialogues")
    for group, counts in groups.items():
        _print_counts(f"  {group}", counts)
    _print_counts("  all", total)


def _name_group(sessions: int) -> str:
    if sessions <= 5:
        return "1 to 5 sessions"
    if sessions <= 20:
        return "10 to 20 sessions"
    return "30 to 100 sessions"


def _print_counts(name: str, counts: Counts) -> None:
    print(f"{name}: in force and in memory {_format_share(counts.held, counts.in_force)}")
    print(f"{name}: superseded and served {_format_share(counts.served, counts.superseded)}")
    print(
        f"{name}: superseded, once in memory, and served {_format_share(counts.served, counts.noticed)}"
    )
    print(
        f"{name}: of the served, marked as contradicted {_format_share(counts.flagged, counts.served)}"
    )
    print(
        f"{name}: checks from titles of entries {_format_share(counts.checked, counts.expressible)}"
    )
    print(f"{name}: of these checks, equal {_format_share(counts.equal, counts.checked)}")
    print(f"{name}: entries that say an instruction {_format_share(counts.right, counts.entries)}")


def _list_faults(dialogue: Dialogue, entries: Sequence[KeptEntry]) -> Iterator[str]:
    """Yield a line for each instruction that memory misses, and for each wrong entry.

    Missing are instructions in force that no entry says. Wrong are entries that say a superseded
    instruction or none.
    """
    current_entries = [entry for entry in entries if entry.is_in_force]
    latest = _map_latest(dialogue)
    for item in latest.values():
        if not _is_said(item, current_entries):
            yield f"missing, dialogue {dialogue.number} session {item.session}: {item.text}"
    for item in dialogue.instructions:
        if item.text != latest[item.pivot].text:
            for entry in _list_entries_saying_old(item, current_entries, latest):
                yield f"served, dialogue {dialogue.number}: {item.text}: {entry.text[:160]}"
    for entry in current_entries:
        if not _is_right(entry.text, dialogue):
            yield f"no instruction, dialogue {dialogue.number}: {entry.text[:160]}"


def _print_checks(source: str, dialogues: Iterable[Dialogue], engine: Engine | None) -> None:
    """Print how many checks that are made of instructions agree with the data set's expressions.

    Args:
        source: the name of what makes the checks.
        dialogues: the dialogues, whose instructions have expressions.
        engine: the engine with a model's replies; None: the templates alone.
    """
    instructions: list[Instruction] = []
    for dialogue in dialogues:
        instructions += dialogue.instructions
    by_text = {item.text: item for item in instructions}
    try:
        checks = find_checks(by_text, engine)
    except EngineError as error:
        print(f"checks by {source}: {error.message}")
        return
    results = {text: compare_expression(item, checks[text]) for text, item in by_text.items()}
    print(f"checks by {source}")
    _print_results("expressions, each once", list(results.values()))
    all_results = [results[item.text] for item in instructions]
    _print_results("expressions, each time they are said", all_results)
    for text, result in sorted(results.items()):
        if result.is_expressible and not result.is_equal:
            print(f"  differs: {text}: {'; '.join(result.differences) or 'not understood'}")


def _print_results(name: str, results: Sequence[ExpressionResult]) -> None:
    """Print shares of results: expressible in a line of code, with a check, and with an equal one."""
    expressible = [result for result in results if result.is_expressible]
    understood = sum(result.is_understood for result in expressible)
    equal = sum(result.is_equal for result in expressible)
    needless = sum(result.is_understood and not result.is_expressible for result in results)
    print(f"{name}: expressible in a line {_format_share(len(expressible), len(results))}")
    print(f"{name}: of these, understood {_format_share(understood, len(expressible))}")
    print(f"{name}: of these, equal on all examples {_format_share(equal, len(expressible))}")
    print(f"{name}: not expressible, and yet a check {_format_share(needless, len(results))}")


def _format_share(hits: int, total: int) -> str:
    share = compute_share(hits, total)
    if share.value is None:
        return f"{hits} of {total}"
    return f"{hits} of {total} = {share.value:.2f} [{share.low:.2f}, {share.high:.2f}]"
