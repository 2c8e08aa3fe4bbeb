"""The text that `doctor` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from memory_ci.commands.doctor.records import Diagnosis, Probe, ProbeState
from memory_ci.findings import printable

COUNTED: tuple[tuple[ProbeState, str], ...] = (
    ("ok", "ok"),
    ("warn", "to do"),
    ("fail", "broken"),
    ("out", "leaving this machine"),
    ("skip", "skipped"),
)


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """Return a line for each probe, its remedy on a line below, and the counts at the end."""
    width = max((len(probe.name) for probe in diagnosis.probes), default=0)
    lines: list[str] = []
    for probe in diagnosis.probes:
        lines += _probe_lines(probe, width)
    states = Counter(probe.state for probe in diagnosis.probes)
    counts = ", ".join(f"{states[state]} {word}" for state, word in COUNTED if states[state])
    lines.append(counts or "nothing was looked at")
    return "".join(f"{printable(line)}\n" for line in lines)


def _probe_lines(probe: Probe, width: int) -> Iterator[str]:
    lines = probe.what.splitlines() or [""]
    indent = " " * (width + 8)
    yield f"{probe.state:4}  {probe.name:{width}}  {lines[0]}".rstrip()
    for line in lines[1:]:
        yield f"{indent}{line}"
    if probe.remedy:
        yield f"{indent}-> {probe.remedy}"
