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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    current = [entry for entry in entries if entry.is_in_force]
    latest = {item.pivot: item for item in dialogue.instructions}
    older = [item for item in dialogue.instructions if latest[item.pivot] is not item]
    repeated = {(item.pivot, item.text) for item in latest.values()}
    older = [item for item in older if (item.pivot, item.text) not in repeated]
    noticed = [item for item in older if _find_saying(item, entries, latest)]
    serving = [saying for item in noticed if (saying := _find_saying(item, current, latest))]
    results = [_compare_best(item, current, checks) for item in latest.values()]
    expressible = [result for result in results if result is not None and result.is_expressible]
    return Counts(
        in_force=len(latest),
        held=sum(any(says(entry.text, item) for entry in current) for item in latest.values()),
        superseded=len(older),
        noticed=len(noticed),
        served=len(serving),
        flagged=sum(all(entry.is_contradicted for entry in saying) for saying in serving),
        entries=len(current),
        right=sum(_is_right(entry.text, dialogue) for entry in current),
        expressible=len(expressible),
        checked=sum(result.is_understood for result in expressible),
        equal=sum(result.is_equal for result in expressible),
    )


def _find_saying(
    item: Instruction, entries: Iterable[KeptEntry], latest: Mapping[int, Instruction]
) -> list[KeptEntry]:
    """Return the entries that say a superseded instruction, and not the one that replaced it."""
    successor = latest[item.pivot]
    return [
        entry for entry in entries if says(entry.text, item) and not says(entry.text, successor)
    ]


def _compare_best(
    item: Instruction, entries: Iterable[KeptEntry], checks: Checks
) -> ExpressionResult | None:
    """Return how the best check of the entries that say an instruction compares."""
    saying = [entry for entry in entries if says(entry.text, item)]
    results = [compare_expression(item, checks[entry.title]) for entry in saying]
    return max(results, key=lambda result: (result.is_equal, result.is_understood), default=None)


def _is_right(text: str, dialogue: Dialogue) -> bool:
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
    """Print the counts of all dialogues; with replies, only of those that have them."""
    groups: dict[str, Counts] = {}
    total, read = Counts(), 0
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
        read += 1
    print(f"{name}, {read} dialogues")
    for group, counts in groups.items():
        _print_counts(f"  {group}", counts)
    _print_counts("  all", total)


def _name_group(sessions: int) -> str:
    if sessions <= 5:
        return "1 to 5 sessions"
    return "10 to 20 sessions" if sessions <= 20 else "30 to 100 sessions"


def _print_counts(name: str, counts: Counts) -> None:
    print(f"{name}: in force and in memory {_say(counts.held, counts.in_force)}")
    print(f"{name}: superseded and served {_say(counts.served, counts.superseded)}")
    print(f"{name}: superseded, once in memory, and served {_say(counts.served, counts.noticed)}")
    print(f"{name}: of the served, marked as contradicted {_say(counts.flagged, counts.served)}")
    print(f"{name}: checks from titles of entries {_say(counts.checked, counts.expressible)}")
    print(f"{name}: of these checks, equal {_say(counts.equal, counts.checked)}")
    print(f"{name}: entries that say an instruction {_say(counts.right, counts.entries)}")


def _list_faults(dialogue: Dialogue, entries: Sequence[KeptEntry]) -> Iterator[str]:
    """Yield a line for each instruction in force that no entry says, and each that is served."""
    current = [entry for entry in entries if entry.is_in_force]
    latest = {item.pivot: item for item in dialogue.instructions}
    for item in latest.values():
        if not any(says(entry.text, item) for entry in current):
            yield f"missing, dialogue {dialogue.number} session {item.session}: {item.text}"
    for item in dialogue.instructions:
        if item.text != latest[item.pivot].text:
            for entry in _find_saying(item, current, latest):
                yield f"served, dialogue {dialogue.number}: {item.text}: {entry.text[:160]}"
    for entry in current:
        if not _is_right(entry.text, dialogue):
            yield f"no instruction, dialogue {dialogue.number}: {entry.text[:160]}"


def _print_checks(source: str, dialogues: Iterable[Dialogue], engine: Engine | None) -> None:
    """Print how many expressions a check agrees with, by instruction and by wording."""
    wordings = {item.text: item for dialogue in dialogues for item in dialogue.instructions}
    try:
        checks = find_checks(wordings, engine)
    except EngineError as error:
        print(f"checks by {source}: {error.message}")
        return
    results = {text: compare_expression(item, checks[text]) for text, item in wordings.items()}
    print(f"checks by {source}")
    uses = [item.text for dialogue in dialogues for item in dialogue.instructions]

    def tell(name: str, texts: Sequence[str], kind: Callable[[ExpressionResult], str]) -> None:
        expressible = [text for text in texts if results[text].is_expressible]
        equal = [text for text in expressible if results[text].is_equal]
        understood = [text for text in expressible if results[text].is_understood]
        print(f"{name}: expressible in a line {_say(len(expressible), len(texts))}")
        print(f"{name}: of these, understood {_say(len(understood), len(expressible))}")
        print(f"{name}: of these, equal on all examples {_say(len(equal), len(expressible))}")
        overdone = [text for text in texts if kind(results[text]) == "overdone"]
        print(f"{name}: not expressible, and yet a check {_say(len(overdone), len(texts))}")

    def find_kind(result: ExpressionResult) -> str:
        return "overdone" if result.is_understood and not result.is_expressible else ""

    tell("expressions, each once", list(wordings), find_kind)
    tell("expressions, each time they are said", uses, find_kind)
    for wording, result in sorted(results.items()):
        if result.is_expressible and not result.is_equal:
            print(f"  differs: {wording}: {'; '.join(result.differences) or 'not understood'}")


def _say(hits: int, total: int) -> str:
    share = compute_share(hits, total)
    if share.value is None:
        return f"{hits} of {total}"
    return f"{hits} of {total} = {share.value:.2f} [{share.low:.2f}, {share.high:.2f}]"
