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
    list_history_heads,
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
from memory_ci.search.neighbours import MIN_JACCARD
from memory_ci.search.strength import drop_weak
from memory_ci.text import plural

MAX_NAMED = 50  # Titles that find nothing, entries and norms that are named in a basis.
NO_COMMIT = "0" * 40
"""The id of no commit. An anchor at it is judged by the text hash in the anchor, if it has one."""

# A history compares the same entries from one month to the next.
_score_coherence = lru_cache(maxsize=1)(metrics.score_coherence)


def measure_git(inputs: HealthInputs) -> dict[MetricName, Measurement]:
    """Return the measurement of each metric of the profile `git`, before they are weighed."""
    evidence = _find_source_evidence(inputs)
    kind_by_id = {
        entry.id: evidence.verdict_kinds.get(entry.id)
        for entry in sort_newest_first(inputs.entries)
    }
    return {
        "truth": metrics.score_truth(kind_by_id),
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
        reached_ids |= metrics.find_similar_entries(inputs.entries, MIN_JACCARD, unreached_ids)
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
        len(inputs.unserved_places),
        inputs.history_error,
    )
    return coverage._replace(basis=coverage.basis + inputs.describe_unserved_places())


def _measure_efficiency(inputs: HealthInputs) -> Measurement:
    """Measure how much of the entries that jobs were served they used.

    In words the result also has, as hints on what to improve: merged changes whose titles find no
    entry when they are searched as tasks, entries that are often served and never used, and norms
    (institutional entries) that do not fit into their budget.
    """
    # Institutional entries are served to every job, and not ranked by a task.
    ranked_ids = [
        located.entry.id for located in inputs.active if located.scope.name != "institutional"
    ]
    searched_changes: list[MergedChange] = []
    no_data_reason = "there is no entry that would be ranked"
    if ranked_ids:
        searched_changes = inputs.list_questions()
        no_data_reason = NO_QUESTION
    changes_without_hit = _list_changes_without_hit(inputs, searched_changes)
    efficiency = metrics.score_efficiency(
        len(searched_changes),
        len(changes_without_hit),
        _count_job_usage(inputs),
        inputs.history_error or no_data_reason,
    )
    missing_titles = [eligible.name_question(change) for change in changes_without_hit[:MAX_NAMED]]
    hints = _describe_unused_entries(inputs, ranked_ids) + _describe_dropped_norms(inputs)
    return efficiency._replace(basis=efficiency.basis + hints, missing=tuple(missing_titles))


def _list_changes_without_hit(
    inputs: HealthInputs, changes: Sequence[MergedChange]
) -> list[MergedChange]:
    """Return the merged changes whose titles, searched as tasks, find no entry, newest first.

    An entry that was learned from the change itself does not count as found.

    Args:
        inputs: the memory and history.
        changes: the merged changes to search for, oldest first.
    """
    options = RetrieveOptions()
    request = bound_options(options, inputs.workspace.config, inputs.today)
    changes_without_hit = []
    for change in reversed(changes):
        title = eligible.find_title(change)
        ranked = rank_task(inputs.index, title, request, options, inputs.today)
        is_near = ranked.margin >= 0  # else the best match is below what is served
        strong_hits = drop_weak(ranked.hits, is_near=is_near)

        change_names = eligible.list_names(change)
        hits_of_others = []
        for hit in strong_hits:
            source_names = metrics.parse_source_names(hit.located.entry)
            if source_names.isdisjoint(change_names):
                hits_of_others.append(hit)
        if not hits_of_others:
            changes_without_hit.append(change)
    return changes_without_hit


def _count_job_usage(inputs: HealthInputs) -> JobUsage:
    """Count the entries that jobs of the last 90 days were served and used."""
    start = eligible.window_start(inputs.today)
    job_count = 0
    served_count = 0
    used_count = 0
    for episode in inputs.episodes:
        is_recent = start < episode.occurred_at.date() <= inputs.today
        if episode.retrieved and is_recent:
            served_ids = {retrieved.id for retrieved in episode.retrieved}
            job_count += 1
            served_count += len(served_ids)
            used_count += len(served_ids.intersection(episode.used))
    return JobUsage(job_count, served_count, used_count)


def _describe_unused_entries(inputs: HealthInputs, entry_ids: Iterable[str]) -> str:
    """Return words on the entries that were often served and never used, "" if there are none.

    They follow other words in a sentence, so they begin with a semicolon.
    """
    usage = count_usage(inputs.episodes)
    unused_ids = [entry_id[:8] for entry_id in entry_ids if is_idle(usage.get(entry_id))]
    if not unused_ids:
        return ""
    names = ", ".join(unused_ids[:MAX_NAMED])
    return f"; given {OFTEN} times or more and never used, to review: {names}"


def _describe_dropped_norms(inputs: HealthInputs) -> str:
    """Return words on the norms that do not fit into their budget, "" if all fit.

    Norms are the entries that every job is served, whatever its task. The words follow others in a
    sentence, so they begin with a semicolon.
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
        verdict_kinds: by the id of an entry, whether the code that it cites is unchanged (the
            verdict of all its cites together); without entries that cite nothing.
    """

    evident_ids: frozenset[str]
    verdict_kinds: Mapping[str, VerdictKind]


def _find_source_evidence(inputs: HealthInputs) -> SourceEvidence:
    """Find which entries have evidence: a merged commit that they name, or code that they cite.

    A commit that only this clone still has, say of a deleted branch, is no evidence: health
    is the same on every clone. A cite at such a commit is judged by the text hash that it holds.
    """
    if inputs.view.tip is None:
        return SourceEvidence(frozenset(), {})

    origin_shas = {entry.id: _list_origin_shas(entry) for entry in inputs.entries}
    named_shas = set().union(*origin_shas.values())
    for entry in inputs.entries:
        named_shas |= _list_anchor_shas(entry)
    merged_shas = _list_merged_shas(inputs, named_shas)

    entries_to_judge = []
    for located in inputs.active:
        cites = tuple(_without_unmerged_commit(cite, merged_shas) for cite in located.entry.cites)
        entries_to_judge.append(replace(located, entry=replace(located.entry, cites=cites)))
    verdicts = judge_anchors(inputs.workspace, entries_to_judge, inputs.view.commit)

    evident_ids = set()
    for entry_id, shas in origin_shas.items():
        if not shas.isdisjoint(merged_shas):
            evident_ids.add(entry_id)
    for (entry_id, _cite), verdict in verdicts.items():
        if verdict.kind not in ("gone", "unverifiable"):
            evident_ids.add(entry_id)

    verdict_kinds = {}
    for located in entries_to_judge:
        entry_verdicts = soften_verdicts(located.entry, verdicts)
        if entry_verdicts:
            verdict_kinds[located.entry.id] = judge_entry(entry_verdicts)
    return SourceEvidence(frozenset(evident_ids), verdict_kinds)


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


def _without_unmerged_commit(cite: str, merged_shas: Set[str]) -> str:
    """Return a cite with `NO_COMMIT` for its commit if that is not in the history."""
    anchor = parse_anchor(cite)
    if anchor is None or anchor.commit in merged_shas:
        return cite
    return format_anchor(replace(anchor, commit=NO_COMMIT))


def _list_merged_shas(inputs: HealthInputs, shas: Set[str]) -> frozenset[str]:
    """Return those of some commits that are merged: in the history of HEAD or its branch.

    Args:
        inputs: the memory and history.
        shas: ids of commits, whole or abbreviated; the result has them in the same form.
    """
    repo = inputs.workspace.repo
    sorted_shas = sorted(shas)
    # Git resolves `sha^{commit}` if the object is a commit, and to nothing otherwise.
    objects = find_objects(repo, [f"{sha}^{{commit}}" for sha in sorted_shas])
    full_shas = {sha: full for sha, full in zip(sorted_shas, objects, strict=True) if full}

    unmerged_shas = set(full_shas.values())
    for head in list_history_heads(inputs.view):
        unmerged_shas &= list_outside_history(repo, full_shas.values(), head)
    return frozenset(sha for sha, full_sha in full_shas.items() if full_sha not in unmerged_shas)
