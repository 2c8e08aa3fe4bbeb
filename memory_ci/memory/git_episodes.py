"""Episodes (records of merged work) that are derived from git's history, and their cache.

`record` writes an episode only for what git does not have. All other changes of the ranges that it
has read get their episode here (docs/episodes.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci import progress
from memory_ci.errors import RepositoryError
from memory_ci.evidence.trust import classify_trust
from memory_ci.extraction.tombstones import Tombstones
from memory_ci.files import read_regular
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import iter_merged_changes, list_first_parents, plan_range
from memory_ci.gitrepo.repo import (
    Repository,
    find_commit,
    is_ancestor,
    is_shallow,
    list_outside_history,
)
from memory_ci.lifecycle.episodes import derive_situation
from memory_ci.lifecycle.reverts import find_reverts
from memory_ci.memory.eligible import find_title, is_routine, is_work, list_prose, list_work_commits
from memory_ci.memory.episode_texts import (
    MERGED_AS,
    list_paths,
    list_safe_names,
    make_safe,
    name_branch,
    render_episode_text,
)
from memory_ci.memory.screening import is_unsafe
from memory_ci.memory.workspace import Workspace
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.episode import Action, Episode, EpisodeRecord, Outcome
from memory_ci.records.event import Event
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import SHA_WIDTH
from memory_ci.secrets import find_secrets
from memory_ci.sources.commits import make_commit_events
from memory_ci.store.episodes import list_texts
from memory_ci.store.files import write_file
from memory_ci.store.ranges import Recorded, RecordedRange

ROUTINE_VALENCE = 0.4
"""How much an episode of everyday work matters (the rubric of importance)."""

FORMAT = b"memory-ci episodes 1\n"
"""The first bytes of the cache; a SHA-256 and the payload follow.

Raise the number when a record in the payload, or the derivation, changes.
"""

SEAL = len(FORMAT) + hashlib.sha256().digest_size
MAX_CACHED_BYTES = 200_000_000
"""Size above which the cache is not read."""

MAX_RANGES = 16
"""Ranges that the cache holds: those of the branch, and of a few others."""


# -- the episode of one change


def is_derived(workspace: Workspace, merged: MergedChange) -> bool:
    """Return whether a merged change gets an episode that is derived from git's history.

    Changes of bots, of memory files alone, and routine changes that revert nothing get none.
    """
    if not is_work(workspace, merged):
        return False
    return not is_routine(find_title(merged)) or any(find_reverts(merged.commits))


def derive_episode(config: ExtractionConfig, merged: MergedChange, stage: str) -> Episode:
    """Return the episode of a merged change: its record, made from git's history alone.

    Its id is the number of its request. Another change may have the same number; `distinguish_id`
    makes the ids different.

    Args:
        config: says whose words are trusted.
        merged: the change.
        stage: the stage that the project was in; "" if it was unknown.
    """
    title = make_safe(find_title(merged))
    paths = list_paths(merged, list_work_commits(merged))
    safe_paths = list_safe_names(paths)
    outcome: Outcome = "success" if paths else "neutral"
    trusted_commits = list_trusted_commits(config, merged, make_commit_events(merged))
    last_sentence = MERGED_AS[outcome]
    text = render_episode_text(title, list_prose(trusted_commits), None, last_sentence)

    context = {}
    branch = name_branch(find_branch(merged.tip.message))
    if branch:
        context["branch"] = branch
    if stage:
        context["stage"] = stage
    return Episode(
        id=name_change(merged.number, merged.tip.sha),
        occurred_at=merged.tip.committed_at.astimezone(UTC),
        situation=derive_situation(title, safe_paths, labels=()),
        context=context,
        action=Action(pr=merged.number, commit=merged.tip.sha, files=tuple(safe_paths)),
        outcome=outcome,
        valence=ROUTINE_VALENCE,
        text=text,
    )


def list_trusted_commits(
    config: ExtractionConfig, merged: MergedChange, events: Iterable[Event]
) -> list[Commit]:
    """Return the commits of a change whose authors are trusted, the last commit first.

    Args:
        config: says who is trusted.
        merged: the change.
        events: its events, with those of its commits.
    """
    trusted_shas = set()
    for event in events:
        if event.kind == "commit":
            tier = classify_trust(event, config.trusted_authors, config.bot_authors)
            if tier == "T0":
                trusted_shas.add(event.origin.id)
    return [commit for commit in (merged.tip, *merged.commits) if commit.sha in trusted_shas]


def name_change(number: int | None, sha: str) -> str:
    """Return the id of the episode of a change: `pr-128`, else `commit-<12 digits>`."""
    return f"commit-{sha[:SHA_WIDTH]}" if number is None else f"pr-{number}"


def distinguish_id(episode: Episode, same_id: Episode | None) -> Episode:
    """Add the commit to the id of an episode if the episode of another change has the same id.

    Args:
        episode: the episode, named by `name_change`.
        same_id: the stored episode with the same id; None without one.
    """
    if same_id is None or same_id.action.commit == episode.action.commit:
        return episode
    return replace(episode, id=f"{episode.id}-{episode.action.commit[:SHA_WIDTH]}")


# -- the episodes of ranges


class DerivedEpisodes(NamedTuple):
    """The derived episodes of ranges.

    Attributes:
        episodes: the episodes.
        problem: why those of a range are missing, such as a history that is cut off; "" if none.
    """

    episodes: list[Episode]
    problem: str


def load_derived(
    workspace: Workspace,
    recorded: Recorded,
    written: Iterable[EpisodeRecord],
    tombstones: Tombstones,
) -> DerivedEpisodes:
    """Return the episodes of merged changes that have no episode file.

    They are the changes in the ranges of history that runs have read. A range that the clone lacks
    is left out, with the reason as `problem`.

    Args:
        workspace: the repository.
        recorded: the ranges that runs have read, and the ids of episodes that a person removed.
        written: the content of the episode files.
        tombstones: hashes of the text to mask, in the cache as well.
    """
    episodes_by_id = {record.id: record for record in written if isinstance(record, Episode)}
    commits_with_episode = {episode.action.commit for episode in episodes_by_id.values()}
    removed_ids = frozenset(recorded.removed_ids)
    new_episodes: list[Episode] = []
    derived = _read_ranges(workspace, recorded.ranges, tombstones)
    for derived_episode in derived.episodes:
        if derived_episode.action.commit in commits_with_episode:
            continue
        commits_with_episode.add(derived_episode.action.commit)
        # If the episode of another change has the same request number, this one gets another id.
        same_id = episodes_by_id.get(derived_episode.id)
        episode = distinguish_id(derived_episode, same_id)
        if episode.id not in removed_ids:
            episodes_by_id[episode.id] = episode
            new_episodes.append(tombstones.mask_all(episode))
    return DerivedEpisodes(new_episodes, derived.problem)


class DerivedRange(msgspec.Struct, frozen=True):
    """A range with its derived episodes, oldest first."""

    range: RecordedRange
    episodes: tuple[Episode, ...]


class CachedEpisodes(msgspec.Struct, frozen=True):
    """The cache.

    Attributes:
        key: a hash of the settings that the episodes depend on.
        ranges: the ranges that were read last.
    """

    key: str
    ranges: tuple[DerivedRange, ...] = ()


def cache_path(workspace: Workspace) -> Path:
    """Return the path of the cache, which all work trees share and none contains."""
    return workspace.repo.common_dir / "memory-ci" / "episodes.mpk"


def cache_range(
    workspace: Workspace, new_range: RecordedRange, episodes: Sequence[Episode]
) -> None:
    """Add to the cache a range that a run has read, so that later commands do not read it again.

    It is joined with a cached range of the same stage of the project that ends where it begins. No
    cached range begins where it ends, because runs read history forwards.

    Args:
        workspace: the repository.
        new_range: the range.
        episodes: the derived episodes of its changes. Those that agents must not be served are not
            cached.
    """
    cache = _load_cache(workspace)
    servable_episodes = [episode for episode in episodes if _is_servable(episode)]
    derived_range = DerivedRange(new_range, tuple(servable_episodes))
    other_ranges: list[DerivedRange] = []
    for cached in cache.ranges:
        ends_at_start = cached.range.until == new_range.since
        if ends_at_start and cached.range.stage == new_range.stage:
            joined_range = replace(new_range, since=cached.range.since)
            derived_range = DerivedRange(joined_range, (*cached.episodes, *derived_range.episodes))
        else:
            other_ranges.append(cached)
    _save_cache(workspace, cache, [derived_range, *other_ranges])


def _read_ranges(
    workspace: Workspace, ranges: Sequence[RecordedRange], tombstones: Tombstones
) -> DerivedEpisodes:
    """Return the derived episodes of ranges of history, from the cache and from new commits.

    The cache may hold a range itself, a longer one with the same beginning, of which the first part
    is used, or a shorter one, of which the commits after its end are read.

    A range that the clone lacks is left out, with the reason as `problem`.

    Args:
        workspace: the repository.
        ranges: the ranges.
        tombstones: hashes of the text to mask before it is cached.
    """
    cache = _load_cache(workspace)
    derived_by_range = {derived.range: derived for derived in cache.ranges}
    problem = ""
    has_new_commits = False
    for recorded_range in ranges:
        if recorded_range in derived_by_range:
            continue
        try:
            longer_range = _find_longer_range(workspace.repo, cache.ranges, recorded_range)
            if longer_range is not None:
                derived = _shorten_range(workspace.repo, longer_range, recorded_range)
            else:
                derived = _derive_range(workspace, cache.ranges, recorded_range)
                derived = tombstones.mask_all(derived)
                has_new_commits = True
        except RepositoryError as error:
            # In a shallow clone git reports an unknown commit, which is no helpful reason.
            reason = "this clone is shallow" if is_shallow(workspace.repo) else error.message
            problem = problem or reason.splitlines()[0]
        else:
            derived_by_range[recorded_range] = derived

    derived_ranges = []
    for recorded_range in ranges:
        if recorded_range in derived_by_range:
            derived_ranges.append(derived_by_range[recorded_range])
    if has_new_commits:
        other_ranges = [derived for derived in cache.ranges if derived.range not in ranges]
        _save_cache(workspace, cache, [*derived_ranges, *other_ranges])
    episodes: list[Episode] = []
    for derived in derived_ranges:
        episodes += derived.episodes
    return DerivedEpisodes(episodes, problem)


def _find_longer_range(
    repo: Repository, cached_ranges: Iterable[DerivedRange], wanted: RecordedRange
) -> DerivedRange | None:
    """Return a cached range that begins at the same commit as the wanted one and ends later."""
    same_start = [cached for cached in cached_ranges if _has_same_start(cached.range, wanted)]
    if not same_start or find_commit(repo, wanted.until) is None:
        return None
    # A range that ends in the history of the wanted one is shorter. One process finds all of these.
    ends = [cached.range.until for cached in same_start]
    not_shorter_ends = list_outside_history(repo, ends, wanted.until)
    for cached in same_start:
        if cached.range.until not in not_shorter_ends:
            continue
        if is_ancestor(repo, wanted.until, cached.range.until):
            return cached
    return None


def _has_same_start(first: RecordedRange, second: RecordedRange) -> bool:
    """Return whether two ranges begin at one commit, in one stage of the project."""
    return (first.since, first.stage) == (second.since, second.stage)


def _shorten_range(repo: Repository, longer: DerivedRange, wanted: RecordedRange) -> DerivedRange:
    """Return the wanted range with its episodes, which are among those of a longer range."""
    commits = frozenset(list_first_parents(repo, wanted.since, wanted.until))
    episodes = [episode for episode in longer.episodes if episode.action.commit in commits]
    return DerivedRange(wanted, tuple(episodes))


def _derive_range(
    workspace: Workspace, cached_ranges: Iterable[DerivedRange], wanted: RecordedRange
) -> DerivedRange:
    """Return the wanted range with its episodes, derived from git's history.

    If a cached range begins at the same commit and ends earlier, only the commits after its end are
    read.
    """
    start = wanted.since
    episodes: list[Episode] = []
    for cached in cached_ranges:
        if not _has_same_start(cached.range, wanted):
            continue
        if is_ancestor(workspace.repo, cached.range.until, wanted.until):
            start = cached.range.until
            episodes = [*cached.episodes]
            break

    config = workspace.config.extraction
    history = plan_range(workspace.repo, start, wanted.until)
    changes = iter_merged_changes(workspace.repo, history)
    label = "Reading the episodes of merged work"
    for merged in progress.count(label, changes, history.change_count):
        if not is_derived(workspace, merged):
            continue
        episode = derive_episode(config, merged, wanted.stage)
        if _is_servable(episode):
            episodes.append(episode)
    return DerivedRange(wanted, tuple(episodes))


def _is_servable(episode: Episode) -> bool:
    """Return whether agents may read an episode; its other texts were screened one by one."""
    situation = episode.situation
    if is_unsafe(situation.domain) or is_unsafe(situation.topic):
        return False
    return not find_secrets("\n".join(list_texts(episode)))


# -- the cache


def _cache_key(workspace: Workspace) -> str:
    """Return the hash of the settings that derived episodes depend on."""
    config = workspace.config
    extraction = config.extraction
    settings = (extraction.trusted_authors, extraction.bot_authors, config.scopes, config.export)
    return hashlib.sha256(msgspec.json.encode(settings)).hexdigest()


def _load_cache(workspace: Workspace) -> CachedEpisodes:
    """Return the cache, or an empty one if it is missing, damaged, or of other settings."""
    empty = CachedEpisodes(_cache_key(workspace))
    try:
        data = read_regular(cache_path(workspace), MAX_CACHED_BYTES)
        seal = data[:SEAL]
        payload = data[SEAL:]
        if seal != _seal(payload):
            return empty
        cached = msgspec.msgpack.decode(payload, type=CachedEpisodes)
    except (OSError, ValueError):
        return empty
    return cached if cached.key == empty.key else empty


def _save_cache(
    workspace: Workspace, cache: CachedEpisodes, new_ranges: Sequence[DerivedRange]
) -> None:
    """Write the cache with new ranges in place of all its ranges, MAX_RANGES of them at most."""
    new_cache = replace(cache, ranges=tuple(new_ranges[:MAX_RANGES]))
    payload = msgspec.msgpack.encode(new_cache)
    with suppress(RepositoryError):  # without a cache the episodes are derived again
        write_file(cache_path(workspace), _seal(payload) + payload)


def _seal(payload: bytes) -> bytes:
    """Return the first bytes of the cache: its format, and a SHA-256 of its payload."""
    return FORMAT + hashlib.sha256(payload).digest()
