"""The text that `doctor` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from memory_ci.commands.doctor.records import Diagnosis, Probe, ProbeState
from memory_ci.findings import printable

COUNTED: tuple[tuple[ProbeState, str], ...] = (
    ("ok", "ok"), ("warn", "to do"), ("fail", "broken"), ("out", "leaving this machine"), ("skip", "skipped")
)  # fmt: skip


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """`state  name  what`, the remedy on a line of its own, and the counts at the end."""
    width = max((len(probe.name) for probe in diagnosis.probes), default=0)
    lines = [line for probe in diagnosis.probes for line in _probe_lines(probe, width)]
    states = Counter(probe.state for probe in diagnosis.probes)
    counts = ", ".join(f"{states[state]} {word}" for state, word in COUNTED if states[state])
    return "".join(f"{printable(line)}\n" for line in (*lines, counts or "nothing was looked at"))


def _probe_lines(probe: Probe, width: int) -> Iterator[str]:
    first, *rest = probe.what.splitlines() or [""]
    yield f"{probe.state:4}  {probe.name:{width}}  {first}".rstrip()
    indent = " " * (width + 8)
    yield from (f"{indent}{line}" for line in rest)
    if probe.remedy:
        yield f"{indent}-> {probe.remedy}"
