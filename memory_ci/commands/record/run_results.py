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


class RunResults(msgspec.Struct):
    """What a run has read, judged and found so far; each step of the run adds to it.

    Attributes:
        range_commits: the commits of the range, without their files.
        outsider_commits: commits of people without write access, by shortened id. The values are
            the tips of the branch before and after the merged change that brought the commit.
        counted_uses: the merged changes of the range, each with the entries that it used.
        judged_candidates: the candidates with their outcome.
        joined_sources: the sessions and pull requests from which events of changes come.
        evidence_gaps: notes about evidence that a model was not shown.
        findings: remarks on files.
        problems: what could not be read or asked.
        unread_learnings: the number of learnings in replies that could not be read, by reason.
        left_out_events: the number of events that were left out of the evidence, by reason.
        redaction_count: how many secrets were masked.
        declined_count: how many declined requests were read.
        has_use_trailers: whether a commit names entries that it was served or used.
        model_failure: why the model stopped the run.
        last_change_sha: the tip of the last change that was read, None before the first.
    """

    range_commits: list[Commit] = []
    outsider_commits: dict[str, tuple[str, str]] = {}
    counted_uses: list[tuple[MergedChange, Use]] = []
    judged_candidates: list[Judged] = []
    joined_sources: list[Join] = []
    evidence_gaps: list[str] = []
    findings: list[Finding] = []
    problems: list[str] = []
    unread_learnings: Counter[str] = msgspec.field(default_factory=Counter)
    left_out_events: Counter[str] = msgspec.field(default_factory=Counter)
    redaction_count: int = 0
    declined_count: int = 0
    has_use_trailers: bool = False
    model_failure: EngineError | None = None
    last_change_sha: str | None = None
