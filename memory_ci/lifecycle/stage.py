"""The phase of work (design, review, …) that a project's intent file says it is in.

Unclear or contradictory words state none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from memory_ci.records.entry import Phase
from memory_ci.regex import Regex
from memory_ci.text import unfenced_lines

Progress = Literal["done", "current", "open"]

PHASE_WORDS: tuple[tuple[Phase, str], ...] = (
    ("specification", "specification specifications specifying spec specs requirements discovery"),
    ("planning", "planning plan"),
    ("design", "design designing architecture"),
    (
        "implementation",
        "implementation implementing build building coding development developing execution",
    ),
    ("review", "review reviewing verification validation testing test qa acceptance"),
    ("maintenance", "maintenance maintaining operation operations production support"),
)
"""The phases, and the words that name them."""

PROGRESS_WORDS: tuple[tuple[Progress, str], ...] = (
    ("open", "not no never todo open planned pending next later upcoming blocked - ☐ ⬜ ❌"),
    ("current", "progress current active ongoing started wip now / ~ 🚧"),
    ("done", "x done complete completed finished closed yes ✓ ✔ ✅ ☑"),
)
"""The words for the progress of a milestone. The first row that fits counts: `not done` is open."""

STAGE_NAME_FILLERS = frozenset(
    "a active are current currently in is it now ongoing phase project stage the this under "
    "we".split()
)
"""Words that the name of a stage may have; others, such as `not`, make it unclear."""

PHASE_BY_WORD: Mapping[str, Phase] = {
    word: phase for phase, words in PHASE_WORDS for word in words.split()
}

STATEMENT = Regex(
    r"[ \t]*(?:[-*+][ \t]+|>[ \t]*|#{1,6}[ \t]+)?[*_]{0,2}(?:(?:current|project)[ \t]+)?"
    r"(?P<label>stage|phase|status)[*_]{0,2}[ \t]*:[*_]{0,2}[ \t]*(?P<value>.*)",
    re.IGNORECASE,
)
"""A line that states the phase: `stage: design`, `**Status:** in review`."""

HEADING = Regex(r"#{1,6}[ \t]+(?:(?:current|project)[ \t]+)?(?:stage|phase)[ \t]*#*", re.IGNORECASE)
"""A heading above the phase: `## Current stage`."""

CHECK_BOX = Regex(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]+\[(?P<mark>.)\][ \t]+(?P<text>.*)")
"""A check box of a list: `- [x] Design`."""

TABLE_ROW = Regex(r"[ \t]*\|(?P<cells>.*)\|[ \t]*")
"""A row of a table."""

WORD = Regex(r"[^\W_]+")
NUMBER = Regex(r"^[\s\"'>*_+-]*(?:\d+[.)]\s*)?")
"""Marks and a number before a name: `2. `."""

REMARK = Regex(r"[(,;:.|\u2013\u2014]|\s[-#]")
"""The end of the name of a stage, where a remark begins."""

WORDS_OF_PAST_STAGES = frozenset("not done complete completed finished ended over closed".split())
"""Words of a remark that say that a stage is not the current one."""


class StatedPhase(msgspec.Struct, frozen=True):
    """The phase of work that an intent file states.

    Attributes:
        phase: the phase.
        line: the number of the line that states it, from 1.
    """

    phase: Phase
    line: int


def find_stage(text: str) -> StatedPhase | None:
    """Return the present phase of work that an intent file states for its project, or None.

    Statements such as `stage: design`, in front matter, a line or a heading, come first, and must
    all agree. Without a statement, milestones count: the milestone in progress, else the first open
    milestone after all that are done.
    """
    lines = list(unfenced_lines(text.splitlines()))
    statements = list(_list_statements(lines))
    if not statements:
        return _find_current_milestone(lines)
    phases = {stated.phase if stated else None for stated in statements}
    return statements[0] if len(phases) == 1 else None


def parse_phase(name: str) -> Phase | None:
    """Return the phase of work that a short text names, or None.

    The text must be the name of one phase, and perhaps a remark that does not say otherwise.

    >>> parse_phase("**In implementation** (since March)"), parse_phase("design complete")
    ('implementation', None)
    """
    without_number = NUMBER.sub("", name.lower())
    stage_name, *remarks = REMARK.split(without_number, maxsplit=1)
    words = [word for word in WORD.findall(stage_name) if word not in STAGE_NAME_FILLERS]
    if len(words) != 1 or words[0] not in PHASE_BY_WORD:
        return None
    phase = PHASE_BY_WORD[words[0]]
    for word in WORD.findall("".join(remarks)):
        if word in WORDS_OF_PAST_STAGES or PHASE_BY_WORD.get(word, phase) != phase:
            return None
    return phase


def _list_statements(lines: Sequence[str]) -> Iterator[StatedPhase | None]:
    """Yield the phase of each explicit statement; None for a statement without a known phase.

    A statement is a line `stage: design`, or a heading `## Stage` with the phase in the next line.
    The label `status` may be about anything, so it counts only if a phase follows.
    """
    for index, line in enumerate(lines):
        statement = STATEMENT.fullmatch(line)
        if statement:
            phase = parse_phase(statement["value"])
            if phase or statement["label"].lower() != "status":
                yield StatedPhase(phase, index + 1) if phase else None
        elif HEADING.fullmatch(line):
            text_index = _find_text(lines, index + 1)
            if text_index is not None:
                phase = parse_phase(lines[text_index])
                yield StatedPhase(phase, text_index + 1) if phase else None


def _find_text(lines: Sequence[str], start: int) -> int | None:
    """Return the index of the next line with text, None if there is none.

    It is None as well if that line is a check box or the row of a table: such a line names one of
    several milestones, and states nothing about the project.
    """
    for index in range(start, len(lines)):
        line = lines[index]
        if line.strip():
            is_milestone = CHECK_BOX.fullmatch(line) or TABLE_ROW.fullmatch(line)
            return None if is_milestone else index
    return None


class _Milestone(NamedTuple):
    """A check box or table row that is named like a phase of work.

    Attributes:
        phase: the phase, and the line of the milestone.
        progress: whether it is done, current or open; None if no known word says so.
    """

    phase: StatedPhase
    progress: Progress | None


def _find_current_milestone(lines: Sequence[str]) -> StatedPhase | None:
    """Return the phase of the first milestone that is not done, which the project is in.

    It counts only if the list of milestones is clear:

    - a milestone before it is done, or it is marked as current itself;
    - all milestones after it are open;
    - the milestones name two phases or more: a single task may just be called "review".
    """
    milestones = list(_list_milestones(lines))
    done_count = 0
    while done_count < len(milestones) and milestones[done_count].progress == "done":
        done_count += 1
    phases = {milestone.phase.phase for milestone in milestones}
    if done_count == len(milestones) or len(phases) < 2:
        return None

    current, *later = milestones[done_count:]
    if current.progress is None:
        return None
    has_work_begun = done_count > 0 or current.progress == "current"
    is_later_open = all(milestone.progress == "open" for milestone in later)
    return current.phase if has_work_begun and is_later_open else None


def _list_milestones(lines: Sequence[str]) -> Iterator[_Milestone]:
    """Yield the check boxes and table rows that are named like one phase.

    Examples are `- [x] Design` and `| Review | open |`.
    """
    for number, line in enumerate(lines, start=1):
        cells: list[str] = []
        box = CHECK_BOX.fullmatch(line)
        row = TABLE_ROW.fullmatch(line)
        if box:
            name = REMARK.split(box["text"])[0]
            cells = [name, box["mark"]]
        elif row:
            cells = row["cells"].split("|")
        phases = [phase for phase in map(parse_phase, cells) if phase is not None]
        if len(phases) == 1:
            yield _Milestone(StatedPhase(phases[0], number), _parse_progress(cells))


def _parse_progress(cells: Sequence[str]) -> Progress | None:
    """Return the progress that the cells of a milestone name; an empty cell means open."""
    # Words, and single characters such as `✓`.
    signs = set(re.findall(r"[^\W_]+|[^\w\s]", " ".join(cells).lower()))
    for progress, words in PROGRESS_WORDS:
        if signs & set(words.split()):
            return progress
    has_empty_cell = any(not cell.strip() for cell in cells)
    return "open" if has_empty_cell else None
