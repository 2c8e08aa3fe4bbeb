"""The text that `doctor` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from memory_ci.commands.doctor.records import Diagnosis, Probe, ProbeState
from memory_ci.findings import printable

STATE_LABELS: tuple[tuple[ProbeState, str], ...] = (
    ("ok", "ok"),
    ("warn", "to do"),
    ("fail", "broken"),
    ("out", "leaving this machine"),
    ("skip", "skipped"),
)


MAX_OF_GROUP = 3
"""Probes in a row with one name and one remedy that are shown."""


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """Return a line for each probe, its remedy on a line below, and the counts at the end.

    Of several probes in a row with the same remedy the first three are shown, and the remedy once.
    """
    width = max((len(probe.name) for probe in diagnosis.probes), default=0)
    lines: list[str] = []
    for _, group in groupby(diagnosis.probes, key=_group_key):
        lines += _render_group(list(group), width)
    states = Counter(probe.state for probe in diagnosis.probes)
    counts = ", ".join(f"{states[state]} {label}" for state, label in STATE_LABELS if states[state])
    lines.append(counts or "nothing was looked at")
    return "".join(f"{printable(line)}\n" for line in lines)


def _group_key(probe: Probe) -> tuple[str, str, str]:
    return probe.name, probe.state, probe.remedy


def _render_group(group: Sequence[Probe], width: int) -> Iterator[str]:
    """Yield the lines of probes with the same name and remedy, and then the remedy.

    Args:
        group: the probes.
        width: the width of the column of names.
    """
    indent = " " * (width + 8)  # the widths of the state and of two gaps
    for probe in group[:MAX_OF_GROUP]:
        first_line, *other_lines = probe.message.splitlines() or [""]
        yield f"{probe.state:4}  {probe.name:{width}}  {first_line}".rstrip()
        for line in other_lines:
            yield f"{indent}{line}"
    if len(group) > MAX_OF_GROUP:
        yield f"{indent}and {len(group) - MAX_OF_GROUP} more of the kind: --json lists them"
    remedy = group[0].remedy
    if remedy:
        yield f"{indent}-> {remedy}"
