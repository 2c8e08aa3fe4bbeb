"""The results of `doctor` as records."""

from __future__ import annotations

from typing import Literal

import msgspec

ProbeState = Literal["ok", "warn", "fail", "skip", "out"]


class Probe(msgspec.Struct, frozen=True):
    """The result of a check for one thing.

    Attributes:
        name: the name of the check.
        state: `warn` is not set up, or will matter later; `fail` is set up and does not work;
            `skip` cannot be checked here; `out` leaves this machine, as it is set up to.
        message: the result in words; `what` in JSON.
        remedy: what to do; never empty for `warn` and `fail`.
    """

    name: str
    state: ProbeState
    message: str = msgspec.field(name="what")
    remedy: str = ""


class Diagnosis(msgspec.Struct, frozen=True):
    """All probes, in the order of the table of checks."""

    probes: tuple[Probe, ...]

    @property
    def exit_status(self) -> int:
        """The exit status: 0 all is well, 1 something to do, 2 something is broken."""
        states = {probe.state for probe in self.probes}
        if "fail" in states:
            return 2
        return 1 if "warn" in states else 0
