"""Stage: which phase a project says it is in. What is unclear or contradicts itself is no statement at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from memory_ci.records.entry import Phase
from memory_ci.text import unfenced_lines

Progress = Literal["done", "current", "open"]

NAMES: tuple[tuple[Phase, str], ...] = (
    ("specification", "specification specifications specifying spec specs requirements discovery"),
    ("planning", "planning plan"),
    ("design", "design designing architecture"),
    (
        "implementation",
        "implementation implementing build building coding development developing execution",
    ),
    ("review", "review reviewing verification validation testing test qa acceptance"),
    ("maintenance", "maintenance maintaining operation operations production support"),
)  # What people call the phases.
SIGNS: tuple[tuple[Progress, str], ...] = (
    ("open", "not no never todo open planned pending next later upcoming blocked - ☐ ⬜ ❌"),
    ("current", "progress current active ongoing started wip now / ~ 🚧"),
    ("done", "x done complete completed finished closed yes ✓ ✔ ✅ ☑"),
)  # What people write beside a milestone. The first that fits counts: `not done` is open.
# Words that change nothing about a stage's name; any other word makes it unclear (`not`, `after`, `complete`).
FILLERS = frozenset(
    "a active are current currently in is it now ongoing phase project stage the this under we".split()
)
PHASES: Mapping[str, Phase] = {word: phase for phase, said in NAMES for word in said.split()}

STATEMENT = re.compile(
    r"[ \t]*(?:[-*+][ \t]+|>[ \t]*|#{1,6}[ \t]+)?[*_]{0,2}(?:(?:current|project)[ \t]+)?"
    r"(stage|phase|status)[*_]{0,2}[ \t]*:[*_]{0,2}[ \t]*(.*)",
    re.IGNORECASE,
)
HEADING = re.compile(
    r"#{1,6}[ \t]+(?:(?:current|project)[ \t]+)?(?:stage|phase)[ \t]*#*", re.IGNORECASE
)
BOX = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]+\[(.)\][ \t]+(.*)")
ROW = re.compile(r"[ \t]*\|(.*)\|[ \t]*")
WORD = re.compile(r"[^\W_]+")
NUMBER = re.compile(r"^[\s\"'>*_+-]*(?:\d+[.)]\s*)?")
REMARK = re.compile(
    r"[(,;:.|\u2013\u2014]|\s[-#]"
)  # Where a stage's name ends and a remark begins.
OVER = frozenset(
    "not done complete completed finished ended over closed".split()
)  # Not said of a current stage.


class Reading(msgspec.Struct, frozen=True):
    """A phase, and the 1-based line that says it."""

    phase: Phase
    line: int


def find_stage(text: str) -> Reading | None:
    """What an intent file states: by `stage:` in front matter, line or heading, else by its milestones. Explicit
    statements must all agree. Of milestones the one in progress counts, else the first that is open behind those that
    are done."""
    lines = list(unfenced_lines(text.splitlines()))
    said = tuple(_statements(lines))
    if not said:
        return _find_milestone(lines)
    phases = {reading.phase if reading else None for reading in said}
    return said[0] if len(phases) == 1 else None


def parse_phase(name: str) -> Phase | None:
    """The phase that a stage's name means; None unless it is that name, with at most a remark behind it.

    >>> parse_phase("**In implementation** (since March)"), parse_phase("design complete")
    ('implementation', None)
    """
    spoken, *remarks = REMARK.split(NUMBER.sub("", name.lower()), maxsplit=1)
    said = [word for word in WORD.findall(spoken) if word not in FILLERS]
    phase = PHASES.get(said[0]) if len(said) == 1 else None
    doubts = (
        word in OVER or PHASES.get(word, phase) != phase for word in WORD.findall("".join(remarks))
    )
    return None if any(doubts) else phase


def _statements(lines: Sequence[str]) -> Iterator[Reading | None]:
    """Each explicit statement; None for one that names no stage. A status may be of anything: only a phase counts."""
    for number, line in enumerate(lines):
        if stated := STATEMENT.fullmatch(line):
            phase = parse_phase(stated.group(2))
            if phase or stated.group(1).lower() != "status":
                yield Reading(phase, number + 1) if phase else None
        elif HEADING.fullmatch(line):
            below = next((n for n in range(number + 1, len(lines)) if lines[n].strip()), None)
            if (
                below is not None
                and not BOX.fullmatch(lines[below])
                and not ROW.fullmatch(lines[below])
            ):
                phase = parse_phase(lines[below])
                yield Reading(phase, below + 1) if phase else None


def _find_milestone(lines: Sequence[str]) -> Reading | None:
    """The first milestone that is not done, if work has begun and those behind it are all open. A milestone is a box or
    a table row that is named like one stage; its progress is None when its state is in no words of ours."""
    found: list[tuple[Reading, Progress | None]] = []
    for number, line in enumerate(lines):
        box, row = BOX.fullmatch(line), ROW.fullmatch(line)
        cells = (
            [REMARK.split(box.group(2))[0], box.group(1)]
            if box
            else row.group(1).split("|")
            if row
            else []
        )
        phases = [phase for cell in cells if (phase := parse_phase(cell))]
        if len(phases) == 1:
            found.append((Reading(phases[0], number + 1), _progress(cells)))
    done = next((at for at, (_, progress) in enumerate(found) if progress != "done"), len(found))
    if done == len(found) or len({reading.phase for reading, _ in found}) < 2:
        return None  # all over, or a task named "review" and no list of stages
    reading, current = found[done]
    has_begun = done > 0 or current == "current"
    is_clear = current is not None and all(progress == "open" for _, progress in found[done + 1 :])
    return reading if has_begun and is_clear else None


def _progress(cells: Sequence[str]) -> Progress | None:
    """The state that the cells of a milestone name; an empty one is open."""
    signs = set(re.findall(r"[^\W_]+|[^\w\s]", " ".join(cells).lower()))
    found: Progress | None = next(
        (progress for progress, said in SIGNS if signs & set(said.split())), None
    )
    return found or ("open" if any(not cell.strip() for cell in cells) else None)
