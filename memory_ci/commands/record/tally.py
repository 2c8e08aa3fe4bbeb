"""The counts and findings of a record run, for its report and later steps."""

from __future__ import annotations

from collections import Counter

import msgspec

from memory_ci.errors import EngineError
from memory_ci.lifecycle.reinforcement import Use
from memory_ci.records.candidate import Judged
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.plan import Join
from memory_ci.records.report import Finding


class Tally(msgspec.Struct):
    """The findings of a run, for its report and for the steps that follow.

    Attributes:
        history: the commits of the range, without their files.
        outsiders: commits of outsiders by shortened id, each with the tips before and after the
            merged change that it came in with.
        uses: what each merged change used of memory.
        judged: the candidates with their outcome.
        joins: sessions and requests that were joined to changes.
        windows: notes about evidence that a model was not shown.
        findings: remarks on files.
        problems: what could not be read or asked.
        dropped: why learnings of replies could not be read, counted.
        left_out: why events were left out of the evidence, counted.
        redactions: how many secrets were masked.
        declined: how many declined requests were read.
        has_uses: whether a commit names entries that it was served or used.
        failure: why the model stopped the run.
        covered: the last change before the failure.
    """

    history: list[Commit] = []
    outsiders: dict[str, tuple[str, str]] = {}
    uses: list[tuple[MergedChange, Use]] = []
    judged: list[Judged] = []
    joins: list[Join] = []
    windows: list[str] = []
    findings: list[Finding] = []
    problems: list[str] = []
    dropped: Counter[str] = msgspec.field(default_factory=Counter)
    left_out: Counter[str] = msgspec.field(default_factory=Counter)
    redactions: int = 0
    declined: int = 0
    has_uses: bool = False
    failure: EngineError | None = None
    covered: str | None = None
