"""The health metrics of the profile `git`, measured from entries, cites and merged changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.anchors import format_anchor, parse_anchor
from memory_ci.anchors.verdicts import judge_entry
from memory_ci.commands.health import metrics
from memory_ci.commands.health.inputs import (
    NO_QUESTION,
    HealthInputs,
    list_heads,
    sort_newest_first,
)
from memory_ci.commands.health.metrics import JobUsage, Measurement
from memory_ci.commands.health.records import MetricName
from memory_ci.commands.retrieve.anchor_verdicts import soften_verdicts
from memory_ci.commands.retrieve.norms import MAX_NORM_CHARS, list_dropped_norms
from memory_ci.commands.retrieve.options import RetrieveOptions, bound_options
from memory_ci.commands.retrieve.ranking import rank_task
from memory_ci.gitrepo.repo import find_objects, list_outside_history
from memory_ci.lifecycle.episodes import count_usage
from memory_ci.lifecycle.utility import OFTEN, is_idle
from memory_ci.memory import eligible
from memory_ci.memory.cite_verdicts import judge_anchors
from memory_ci.records.anchor import VerdictKind
from memory_ci.records.entry import Entry
from memory_ci.records.history import MergedChange
from memory_ci.records.names import COMMIT_ORIGIN
from memory_ci.search.neighbours import LEAST_JACCARD
from memory_ci.search.strength import drop_weak
from memory_ci.text import plural

MAX_NAMED = 50  # Titles that find nothing, entries and norms that are named in a basis.
NO_COMMIT = "0" * 40
"""The id of no commit. An anchor at it is judged by the text hash in the anchor, if it has one."""

# A history compares the same entries from one month to the next.
_score_coherence = lru_cache(maxsize=1)(metrics.score_coherence)


def measure_git(inputs: HealthInputs) -> dict[MetricName, Measurement]:
    """Return the measurement of each metric of the profile `git`, before they are weighed."""
    evidence = _judge_sources(inputs)
    kinds = {entry.id: evidence.kinds.get(entry.id) for entry in sort_newest_first(inputs.entries)}
    return {
        "truth": metrics.score_truth(kinds),
        "recency": metrics.score_recency(inputs.entries, inputs.today),
        "coverage": _measure_coverage(inputs),
        "coherence": _score_coherence(inputs.active),
        "efficiency": _measure_efficiency(inputs),
        "reachability": _measure_reachability(inputs, evidence.evident_ids),
    }


def _measure_reachability(inputs: HealthInputs, evident_ids: Set[str]) -> Measurement:
    """Measure how many entries have a relation, a similar entry, or evidence in the history.

    Args:
        inputs: the memory and history.
        evident_ids: ids of the entries with evidence.
    """
    reached_ids = metrics.find_related(inputs.entries, inputs.known_ids) | evident_ids
    # To compare words is slow, so only entries that are not reached otherwise are compared.
    unreached_ids = frozenset(entry.id for entry in inputs.entries) - reached_ids
    if unreached_ids:
        reached_ids |= metrics.find_similar_entries(inputs.entries, LEAST_JACCARD, unreached_ids)
    missing_ids = inputs.list_unreached_ids(reached_ids)
    total = len(inputs.active)
    reachability = metrics.score_reachability(total - len(missing_ids), total)
    return reachability._replace(missing=missing_ids)


def _measure_coverage(inputs: HealthInputs) -> Measurement:
    """Measure how many merged changes a run of `record` has read and decided on.

    Entries and episodes name the changes that they come from.
    """
    change_names: set[str] = set()
    for entry in inputs.entries:
        change_names |= metrics.parse_source_names(entry)
    for episode in inputs.episodes:
        change_names |= eligible.list_episode_names(episode)

    judged_count = 0
    if inputs.view.tip and inputs.changes:
        judged_count = eligible.count_processed(
            inputs.workspace, inputs.view.tip, inputs.changes, change_names
        )
    coverage = metrics.score_coverage(
        judged_count,
        len(inputs.changes),
        len(inputs.active),
        len(inputs.lost),
        inputs.history_error,
    )
    return coverage._replace(basis=coverage.basis + inputs.describe_lost())


def _measure_efficiency(inputs: HealthInputs) -> Measurement:
    """Measure how many titles of merged changes find an entry, and how entries are used.

    An entry that was learned from a change does not count for the title of that change.
    """
    # Institutional entries are served to every job, and not ranked by a task.
    ranked_ids = [
        located.entry.id for located in inputs.active if located.scope.name != "institutional"
    ]
    questions: list[MergedChange] = []
    no_data_reason = "there is no entry that would be ranked"
    if ranked_ids:
        questions = inputs.list_questions()
        no_data_reason = NO_QUESTION
    unanswered = _list_unanswered(inputs, questions)
    efficiency = metrics.score_efficiency(
        len(questions),
        len(unanswered),
        _count_job_usage(inputs),
        inputs.history_error or no_data_reason,
    )
    missing_titles = [eligible.name_question(change) for change in unanswered[:MAX_NAMED]]
    basis = efficiency.basis + _describe_idle(inputs, ranked_ids) + _describe_overflow(inputs)
    return efficiency._replace(basis=basis, missing=tuple(missing_titles))


def _list_unanswered(inputs: HealthInputs, questions: Sequence[MergedChange]) -> list[MergedChange]:
    """Return the merged changes whose titles, searched as tasks, find no entry, newest first.

    An entry that was learned from the change itself does not count as found.
    """
    options = RetrieveOptions()
    request = bound_options(options, inputs.workspace.config, inputs.today)
    unanswered = []
    for change in reversed(questions):
        title = eligible.title_of(change)
        ranked = rank_task(inputs.index, title, request, options, inputs.today)
        hits = drop_weak(ranked.hits, is_near=ranked.margin >= 0, is_exempt=lambda _: False)
        change_names = eligible.list_names(change)
        entries_of_others = [
            hit for hit in hits if not change_names & metrics.parse_source_names(hit.located.entry)
        ]
        if not entries_of_others:
            unanswered.append(change)
    return unanswered


def _count_job_usage(inputs: HealthInputs) -> JobUsage:
    """Count the entries that jobs of the last 90 days were served and used."""
    start = eligible.window_start(inputs.today)
    jobs = 0
    served = 0
    used = 0
    for episode in inputs.episodes:
        is_recent = start < episode.occurred_at.date() <= inputs.today
        if episode.retrieved and is_recent:
            served_ids = {retrieved.id for retrieved in episode.retrieved}
            jobs += 1
            served += len(served_ids)
            used += len(served_ids.intersection(episode.used))
    return JobUsage(jobs, served, used)


def _describe_idle(inputs: HealthInputs, entry_ids: Iterable[str]) -> str:
    """Return the end of a sentence that names the entries often served and never used, or ""."""
    usage = count_usage(inputs.episodes)
    idle_ids = [entry_id[:8] for entry_id in entry_ids if is_idle(usage.get(entry_id))]
    if not idle_ids:
        return ""
    names = ", ".join(idle_ids[:MAX_NAMED])
    return f"; given {OFTEN} times or more and never used, to review: {names}"


def _describe_overflow(inputs: HealthInputs) -> str:
    """Return the end of a sentence that names the norms over their budget, or "".

    Norms are the entries that every job is served, whatever its task.
    """
    config = inputs.workspace.config
    dropped_norms = list_dropped_norms(inputs.index, config, inputs.today)
    if not dropped_norms:
        return ""
    names = ", ".join(norm.entry_id[:8] for norm in dropped_norms[:MAX_NAMED] if norm.entry_id)
    budget = f"{MAX_NORM_CHARS} characters that every job is given"
    return f"; {plural(len(dropped_norms), 'norm')} over the {budget}: {names}"


# -- evidence in the history


class SourceEvidence(NamedTuple):
    """The evidence of entries in a history.

    Attributes:
        evident_ids: ids of entries that name a commit of this history, or cite code that exists.
        kinds: the verdict of each entry's cites together, by id.
    """

    evident_ids: frozenset[str]
    kinds: Mapping[str, VerdictKind]


def _judge_sources(inputs: HealthInputs) -> SourceEvidence:
    """Compare the commits that entries name, and the code that they cite, with the history.

    A commit that only this clone still has, say of a deleted branch, is no evidence: health
    is the same on every clone.
    """
    if inputs.view.tip is None:
        return SourceEvidence(frozenset(), {})

    origin_shas = {entry.id: _list_origin_shas(entry) for entry in inputs.entries}
    named_shas = set().union(*origin_shas.values())
    for entry in inputs.entries:
        named_shas |= _list_anchor_shas(entry)
    merged_shas = _list_merged(inputs, named_shas)

    # A cite at a commit outside the history is judged without that commit.
    judged_entries = []
    for located in inputs.active:
        cites = tuple(_detach_cite(cite, merged_shas) for cite in located.entry.cites)
        judged_entries.append(replace(located, entry=replace(located.entry, cites=cites)))
    verdicts = judge_anchors(inputs.workspace, judged_entries, inputs.view.tree)

    evident_ids = set()
    for entry_id, shas in origin_shas.items():
        if not shas.isdisjoint(merged_shas):
            evident_ids.add(entry_id)
    for (entry_id, _cite), verdict in verdicts.items():
        if verdict.kind not in ("gone", "unverifiable"):
            evident_ids.add(entry_id)

    softened = {
        located.entry.id: soften_verdicts(located.entry, verdicts) for located in judged_entries
    }
    kinds = {
        entry_id: judge_entry(entry_verdicts)
        for entry_id, entry_verdicts in softened.items()
        if entry_verdicts
    }
    return SourceEvidence(frozenset(evident_ids), kinds)


def _list_origin_shas(entry: Entry) -> frozenset[str]:
    """Return the commits in the source of an entry and in the origins of its quotes."""
    origins = [entry.source or ""]
    origins += [quote.partition(" ")[0] for quote in entry.evidence]
    shas: set[str] = set()
    for origin in origins:
        shas.update(re.findall(COMMIT_ORIGIN, origin))
    return frozenset(shas)


def _list_anchor_shas(entry: Entry) -> set[str]:
    anchors = [parse_anchor(cite) for cite in entry.cites]
    return {anchor.commit for anchor in anchors if anchor is not None}


def _detach_cite(cite: str, merged_shas: Set[str]) -> str:
    """Return a cite with `NO_COMMIT` for its commit if that is not in the history."""
    anchor = parse_anchor(cite)
    if anchor is None or anchor.commit in merged_shas:
        return cite
    return format_anchor(replace(anchor, commit=NO_COMMIT))


def _list_merged(inputs: HealthInputs, shas: Set[str]) -> frozenset[str]:
    """Return those of some commits that are merged: in the history of HEAD or its branch.

    Args:
        inputs: the memory and history.
        shas: ids of commits, whole or abbreviated; the result has them in the same form.
    """
    repo = inputs.workspace.repo
    given_shas = sorted(shas)
    # Git resolves `sha^{commit}` if the object is a commit, and to nothing otherwise.
    objects = find_objects(repo, [f"{sha}^{{commit}}" for sha in given_shas])
    full_shas = {sha: full for sha, full in zip(given_shas, objects, strict=True) if full}

    unmerged = set(full_shas.values())
    for head in list_heads(inputs.view):
        unmerged &= list_outside_history(repo, full_shas.values(), head)
    return frozenset(sha for sha, full_sha in full_shas.items() if full_sha not in unmerged)
