"""What `doctor` looked at, as values."""

from __future__ import annotations

from typing import Literal

import msgspec

ProbeState = Literal["ok", "warn", "fail", "skip", "out"]


class Probe(msgspec.Struct, frozen=True):
    """One thing that was looked at. `remedy` is what to do, and is never empty for `warn` and `fail`. `warn`: not set
    up, or it will matter. `fail`: set up, and does not work. `skip`: it cannot be told here. `out`: it leaves this
    machine, as it is set up to."""

    name: str
    state: ProbeState
    what: str
    remedy: str = ""


class Diagnosis(msgspec.Struct, frozen=True):
    """All probes, in the order of the table of checks."""

    probes: tuple[Probe, ...]

    @property
    def exit_status(self) -> int:
        """0: all is well, 1: something to do, 2: something is broken."""
        states = {probe.state for probe in self.probes}
        return 2 if "fail" in states else 1 if "warn" in states else 0
