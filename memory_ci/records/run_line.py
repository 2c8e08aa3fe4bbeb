"""RunLine: what a CI run was, in one line of JSON for whoever watches many repositories (docs/run-line.schema.json)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

RunState = Literal["done", "waiting", "findings", "stopped", "failed"]
"""`waiting`: not due yet, or a request is under review. `stopped`: an engine or a forge ended it before its range did.
`failed`: an error ended it."""


ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables that name a collector which the line is sent to (opentelemetry.io, "OTLP Exporter Configuration")."""


class Lag(msgspec.Struct, frozen=True):
    """Merged changes that no run has covered, and the age of the oldest in days."""

    changes: int = 0
    days: int = 0


class Served(msgspec.Struct, frozen=True):
    """Of the merged changes that this run read: how many were given memory, how many entries, how many they used."""

    changes: int = 0
    given: int = 0
    used: int = 0


class OpenRequest(msgspec.Struct, frozen=True):
    """The memory request that is open, and since how many days."""

    url: str
    days: int


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `memory-ci ci`. `version` is that of memory-ci, `at` when the run began, `reason` why it is not done.

    `cost_usd` is what this run took (None: the price is not known), `month_usd` all runs of the calendar month.
    """

    schema_version: int = 1
    version: str
    repository: str
    at: datetime
    job: str
    state: RunState
    reason: str = ""
    commit: str = ""
    findings: int = 0
    learned: int = 0
    lag: Lag = Lag()
    served: Served = Served()
    cost_usd: float | None = 0.0
    month_usd: float = 0.0
    request: OpenRequest | None = None
