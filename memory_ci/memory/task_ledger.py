"""Tasks of the past: merged and declined changes, how they ended, and habits in the newest ones.

`past_tasks` caches them (docs/serving.md#hints).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import islice

import msgspec
from msgspec.structs import replace

from memory_ci import progress
from memory_ci.gitrepo.blobs import TreeFile, read_files, tree_at
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import HistoryRange, iter_merged_changes
from memory_ci.gitrepo.log import follow_renames, list_renames
from memory_ci.lifecycle.episodes import OUTCOMES_BY_SEVERITY, combine
from memory_ci.lifecycle.reverts import (
    FIXUP_WINDOW,
    find_fixups,
    find_reverts,
    is_revert,
    judge_outcome,
    list_undone,
)
from memory_ci.memory.eligible import (
    is_routine,
    is_work,
    list_paragraphs,
    list_prose,
    merged_on,
    own_commits,
    prose_of,
    title_of,
)
from memory_ci.memory.episodes import list_episode_files
from memory_ci.memory.screening import is_unsafe
from memory_ci.memory.workspace import Workspace, readable_path
from memory_ci.records.episode import Amendment, Episode
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import MIN_SHA_WIDTH, SHA_WIDTH
from memory_ci.records.retrieval import Outcome, Task
from memory_ci.search.similar_tasks import (
    PromptIndex,
    build_prompt_index,
    count_terms,
)
from memory_ci.secrets import find_secrets, mask_secrets
from memory_ci.store.episodes import MAX_FILE_BYTES, parse_episode_file
from memory_ci.text import shorten

PROSE = (".md", ".rst", ".txt", ".lock", ".json", ".yml", ".yaml", ".toml", ".cfg")
"""Endings of files that are not code."""

TOUCHED = 3  # Number of files that are named of a change.
QUOTED = 200  # Length of a quote of a message in characters.
LEAST_QUOTED = 60  # Length of the shortest paragraph that is quoted, in characters.
MAX_PATHS = 50  # Number of files of a change whose names count as words.
MAX_FILES = 200  # Number of files that are kept of a change.
MAX_TERMS = 200  # Number of distinct terms of a prompt that count; people write fewer.


class EpisodeFileRecords(msgspec.Struct, frozen=True):
    """The episodes (records of merged work) and amendments to them in one episode file.

    They are cached by object id, under which a file never changes.
    """

    episodes: tuple[Episode, ...] = ()
    amendments: tuple[Amendment, ...] = ()


class EpisodeOutcomes:
    """The outcomes of requests and of commits according to episodes.

    Commits are looked up by their first seven digits.

    Attributes:
        by_number: the episodes by the number of their request.
    """

    def __init__(self, episode_files: Iterable[EpisodeFileRecords]) -> None:
        """Combine episodes with their amendments, and sort them by request and by commit."""
        amendments: list[Amendment] = []
        unamended: list[Episode] = []
        for file in episode_files:
            amendments += file.amendments
            unamended += file.episodes
        episodes = combine([*amendments, *unamended])

        self._by_commit = {}
        self.by_number = {}
        for episode in episodes:
            if len(episode.action.commit) >= MIN_SHA_WIDTH:
                self._by_commit[episode.action.commit[:MIN_SHA_WIDTH]] = episode
            if episode.action.pr:
                self.by_number[episode.action.pr] = episode

        stating = [amendment for amendment in amendments if amendment.outcome is not None]
        self._amended_ids = {amendment.amends for amendment in stating}
        written_ids = {episode.id for episode in episodes}
        self._amended_outcomes = _list_amended_outcomes(stating, written_ids)

    def judge(self, task: Task, change: FinishedChange) -> Task:
        """Return a task with the outcome of its episode.

        A worse outcome that git shows (a later revert, a fix-up) takes precedence, unless an
        amendment states the outcome.

        Args:
            task: the task, with the outcome that git shows.
            change: the change that the task was made from.
        """
        episode = self._find_episode(task, change.shas)
        if episode is None:
            return self._judge_unwritten(task, change)
        if episode.outcome == task.outcome:
            return task
        severity = OUTCOMES_BY_SEVERITY.index
        is_worse = severity(episode.outcome) > severity(task.outcome)
        if (is_worse and not _is_declined(episode)) or episode.id in self._amended_ids:
            return replace(task, outcome=episode.outcome, why="")
        return task

    def _judge_unwritten(self, task: Task, change: FinishedChange) -> Task:
        """Return a task whose episode has no file with the outcome of its last amendment.

        Without an amendment, a change that touched no file is neutral.
        """
        ids = [f"commit-{task.sha[:SHA_WIDTH]}"]
        if task.number:
            ids += [f"pr-{task.number}-{task.sha[:SHA_WIDTH]}", f"pr-{task.number}"]
        for episode_id in ids:
            if episode_id in self._amended_outcomes:
                outcome = self._amended_outcomes[episode_id]
                return task if outcome == task.outcome else replace(task, outcome=outcome, why="")
        if change.is_empty and task.outcome == "success":
            return replace(task, outcome="neutral")
        return task

    def _find_episode(self, task: Task, shas: Iterable[str]) -> Episode | None:
        """Return the episode of a task, by its request or by one of its commits."""
        episode = self.by_number.get(task.number or 0)
        if episode:
            return episode
        for sha in shas:
            episode = self._by_commit.get(sha[:MIN_SHA_WIDTH])
            if episode and sha.startswith(episode.action.commit):
                return episode
        return None


def _list_amended_outcomes(
    amendments: Iterable[Amendment], written_ids: Collection[str]
) -> dict[str, Outcome]:
    """Return the outcomes that amendments state of episodes without a file, by episode id.

    The last amendment counts; of several at one time, the one with the worst outcome.

    Args:
        amendments: the amendments that state an outcome.
        written_ids: the ids of episodes that have a file.
    """

    def rank(amendment: Amendment) -> tuple[datetime, int]:
        severity = 0 if amendment.outcome is None else OUTCOMES_BY_SEVERITY.index(amendment.outcome)
        return amendment.at, severity

    outcomes: dict[str, Outcome] = {}
    for amendment in sorted(amendments, key=rank):
        if amendment.outcome is not None and amendment.amends not in written_ids:
            outcomes[amendment.amends] = amendment.outcome
    return outcomes


def _is_declined(episode: Episode) -> bool:
    """Return whether an episode is about a pull request that was closed unmerged.

    The request may have been merged later.
    """
    if episode.outcome != "failure" or episode.action.commit:
        return False
    return episode.action.pr is not None


class FinishedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A merged or declined change.

    Attributes:
        shas: its commits; none if it was declined.
        files: the files that it left, by the names they had then.
        terms: the weight of each term.
        quote: a paragraph of its messages.
        is_empty: it changed no file.
        mended_in: the label of the change that mended it soon after, or "".
    """

    title: str
    merged_on: date
    shas: tuple[str, ...]
    number: int | None
    branch: str
    files: tuple[str, ...]
    terms: dict[str, float]
    quote: str = ""
    is_empty: bool = False
    mended_in: str = ""


class Ledger(msgspec.Struct, frozen=True):
    """The data that tasks are made from, so that only new changes need to be read.

    Attributes:
        changes: the merged changes, oldest first.
        commits: their commits without files, and with the part of the message that reverts quote.
        renames: new paths by old paths.
        episode_files: the content of the episode files by object id.
    """

    changes: tuple[FinishedChange, ...] = ()
    commits: tuple[Commit, ...] = ()
    renames: dict[str, str] = {}
    episode_files: dict[str, EpisodeFileRecords] = {}


def extend(workspace: Workspace, ledger: Ledger, new: HistoryRange) -> Ledger:
    """Return the ledger with the changes of a range of history.

    Args:
        workspace: the repository.
        ledger: the ledger.
        new: the range, which begins where the ledger ends.

    Raises:
        RepositoryError: git-failed.
    """
    merged = iter_merged_changes(workspace.repo, new)
    new_changes = list(progress.count("Reading the tasks of merged work", merged, new.change_count))
    commits = [*ledger.commits]
    for change in new_changes:
        commits += change.commits
    reverting_shas = {revert.sha for revert in find_reverts(commits)}

    finished = [*ledger.changes]
    for change in new_changes:
        if _is_task(workspace, change, reverting_shas):
            finished.append(_summarise_change(change))
    return Ledger(
        changes=tuple(_mark_mended(finished, new_changes)),
        commits=tuple(_shorten_commit(commit, reverting_shas) for commit in commits),
        renames=ledger.renames | _list_new_renames(workspace, new),
        episode_files=_read_episode_files(workspace, ledger, new.until),
    )


def _mark_mended(
    changes: Iterable[FinishedChange], new_changes: Sequence[MergedChange]
) -> list[FinishedChange]:
    """Note for each change the label of the new change that mended it soon after.

    Args:
        changes: all changes.
        new_changes: the changes that may mend others.
    """
    fixups = list(find_fixups(new_changes))
    marked = []
    for change in changes:
        label = "" if change.mended_in else _find_fixup_label(change, fixups)
        if label:
            change = replace(change, mended_in=label)
        marked.append(change)
    return marked


def _find_fixup_label(change: FinishedChange, fixups: Iterable[tuple[int, MergedChange]]) -> str:
    """Return the label of the first change that mended another one within FIXUP_WINDOW, or "".

    Args:
        change: the mended change.
        fixups: changes that mend others, each with the number of the request that it mends.
    """
    for number, fixup in fixups:
        age = merged_on(fixup) - change.merged_on
        if number == change.number and timedelta(0) <= age <= FIXUP_WINDOW:
            return fixup.label
    return ""


def _list_new_renames(workspace: Workspace, new: HistoryRange) -> dict[str, str]:
    """Return the renames in a range of history, new paths by old paths.

    New paths that hold a credential are left out.
    """
    starts = []
    if new.since:
        starts.append(new.since)
    elif new.groups:
        oldest_change = new.groups[0]
        starts.append(oldest_change[-1])  # its commit on the first-parent line

    renames = {}
    for old_path, new_path in list_renames(workspace.repo, starts, new.until).items():
        if not find_secrets(new_path):
            renames[_readable(old_path)] = _readable(new_path)
    return renames


def _read_episode_files(
    workspace: Workspace, ledger: Ledger, rev: str
) -> dict[str, EpisodeFileRecords]:
    """Return the content of the episode files of a commit by object id.

    Only files that the ledger does not have are read.
    """
    files = list_episode_files(workspace, rev)
    content_by_oid = {}
    new_files = []
    for file in files:
        if file.oid in ledger.episode_files:
            content_by_oid[file.oid] = ledger.episode_files[file.oid]
        else:
            new_files.append(file)

    for content in read_files(workspace.repo, new_files, MAX_FILE_BYTES):
        parsed = parse_episode_file(readable_path(content.file), content.data or b"")
        content_by_oid[content.file.oid] = EpisodeFileRecords(
            tuple(record for record in parsed.records if isinstance(record, Episode)),
            tuple(record for record in parsed.records if isinstance(record, Amendment)),
        )
    return content_by_oid


def _shorten_commit(commit: Commit, reverting_shas: Collection[str]) -> Commit:
    """Remove parts of a commit that are not used here, and mask credentials.

    Of a revert the whole message is used, else the subject and the first line of the body.

    Args:
        commit: the commit.
        reverting_shas: the shortened ids of reverts.
    """
    message = commit.message
    if commit.sha[:SHA_WIDTH] not in reverting_shas:
        subject, _, body = message.partition("\n")
        first_line = body.strip().partition("\n")[0]
        message = f"{subject}\n\n{first_line}".strip()
    return replace(
        commit,
        message=mask_secrets(message),
        author=mask_secrets(commit.author),
        email=mask_secrets(commit.email),
        files=(),
        trailers=(),
    )


def list_tasks(
    workspace: Workspace, ledger: Ledger, tip: str
) -> tuple[tuple[Task, ...], PromptIndex]:
    """Return the merged and declined changes as tasks, and an index of their terms.

    The index has the tasks in the same order.

    Args:
        workspace: the repository.
        ledger: the changes.
        tip: the commit whose tree says which of their files are still there.
    """
    undone = list_undone(find_reverts(ledger.commits))
    files = tree_at(workspace.repo, tip).files.values()
    present_paths = frozenset(readable_path(file) for file in files)
    outcomes = EpisodeOutcomes(ledger.episode_files.values())

    tasks = []
    for change in ledger.changes:
        task = _build_task(change, undone, present_paths, ledger.renames)
        tasks.append(outcomes.judge(task, change))
    declined = list(_list_declined(ledger, outcomes.by_number))
    for change in declined:
        tasks.append(_build_task(change, undone, present_paths, ledger.renames))

    prompts = build_prompt_index([change.terms for change in (*ledger.changes, *declined)])
    return tuple(tasks), prompts


def _list_declined(ledger: Ledger, episodes: Mapping[int, Episode]) -> Iterator[FinishedChange]:
    """Yield the requests that were closed unmerged, without texts that must not be served.

    Episodes of one session alone are left out, because tasks are shown to everybody.

    Args:
        ledger: the merged changes.
        episodes: the episodes by the number of their request.
    """
    merged_numbers = {change.number for change in ledger.changes}
    for number, episode in episodes.items():
        is_private = bool(episode.context.get("session"))
        if not _is_declined(episode) or number in merged_numbers or is_private:
            continue
        title = episode.situation.summary or episode.text
        branch = episode.context.get("branch", "")
        if title and not is_unsafe(f"{title}\n{branch}"):
            yield FinishedChange(
                title=title,
                merged_on=episode.occurred_at.date(),
                shas=(),
                number=number,
                branch=branch,
                files=episode.action.files[:MAX_FILES],
                terms=_weigh_terms(title, episode.text, episode.action.files),
            )


def _build_task(
    change: FinishedChange,
    undone: Mapping[str, str],
    present_paths: Collection[str],
    renames: Mapping[str, str],
) -> Task:
    """Return a change as a task of the past, with the outcome that git shows.

    Args:
        change: the change.
        undone: for the names of reverted work, the revert.
        present_paths: all paths of the tree.
        renames: new paths by old paths, to follow the files of the change into the tree.
    """
    is_merged = bool(change.shas)
    outcome: Outcome = "failure"
    why = ""  # a declined change needs no further reason
    if is_merged:
        outcome, why = judge_outcome(change.shas, change.number, change.mended_in, undone)

    paths = []
    for old_path in change.files:
        path: str | None = old_path
        if old_path not in present_paths:
            path = follow_renames(old_path, renames, present_paths)
        if path is not None:
            paths.append(path)
    return Task(
        sha=change.shas[-1] if is_merged else "",
        title=change.title,
        merged_on=change.merged_on,
        number=change.number,
        branch=change.branch,
        files=len(change.files),
        remaining_count=len(paths),
        outcome=outcome,
        why=why,
        is_merged=is_merged,
        quote=change.quote,
        # Files of code come before tests, and both before other files.
        touched=tuple(sorted(paths, key=_touched_key)[:TOUCHED]),
    )


def _touched_key(path: str) -> tuple[bool, bool]:
    return path.endswith(PROSE), "test" in path


def _is_task(workspace: Workspace, change: MergedChange, reverting_shas: Collection[str]) -> bool:
    """Return whether a change is work that somebody may do again, with a text safe to be served.

    Reverts, changes of bots and of memory-ci, and merges of a whole branch by git are not.

    Args:
        workspace: the repository.
        change: the change.
        reverting_shas: the shortened ids of reverts.
    """
    title = title_of(change)
    commits = own_commits(change)
    # The merge of a branch without a title of its own: its first subject does not say all of it.
    is_branch_merge = title != change.title and len(commits) > 1
    if title == "" or is_branch_merge:
        return False
    if is_revert([commit.sha for commit in commits], reverting_shas):
        return False
    if not is_work(workspace, change) or is_routine(title):
        return False
    return not is_unsafe(f"{title}\n{find_branch(change.tip.message)}")


def _summarise_change(change: MergedChange) -> FinishedChange:
    """Return the record of a merged change for the ledger, with credentials masked."""
    title = title_of(change)
    prose = mask_secrets("\n\n".join(prose_of(commit) for commit in change.commits))
    files = _list_remaining_files(change)
    return FinishedChange(
        title=title,
        merged_on=merged_on(change),
        shas=tuple(commit.sha for commit in change.commits),
        number=change.number,
        branch=find_branch(change.tip.message),
        files=files,
        terms=_weigh_terms(title, prose, files),
        quote=_choose_quote(change),
        is_empty=not any(commit.files for commit in change.commits),
    )


def _choose_quote(change: MergedChange) -> str:
    """Return the first long paragraph in the bodies of commit messages, shortened at a word."""
    for paragraph in list_paragraphs(list_prose((change.tip, *change.commits))):
        if len(paragraph) >= LEAST_QUOTED and paragraph != change.title:
            quote = shorten(paragraph, QUOTED)
            return "" if is_unsafe(quote) else quote
    return ""


def _weigh_terms(title: str, prose: str, files: Iterable[str]) -> dict[str, float]:
    """Return the terms of a change with weights, the MAX_TERMS heaviest.

    The weight is how often a term occurs. Terms of the title count twice. Each term of the paths
    counts half, and once only.
    """
    path_text = " ".join(path.replace("/", " ") for path in islice(files, MAX_PATHS))
    path_counts = dict.fromkeys(count_terms(path_text), 1)
    weighted_counts = ((count_terms(title), 2.0), (count_terms(prose), 1.0), (path_counts, 0.5))
    weights: dict[str, float] = {}
    for counts, factor in weighted_counts:
        for term, count in counts.items():
            weights[term] = weights.get(term, 0.0) + factor * count
    heaviest = sorted(weights.items(), key=lambda item: -item[1])[:MAX_TERMS]
    return dict(heaviest)


def _list_remaining_files(change: MergedChange) -> tuple[str, ...]:
    """Return the files that a change touched and left, by the names they had then.

    Names that hold a credential are left out.
    """
    commits = (change.tip,) if change.kind == "merge" else change.commits
    exists_by_path: dict[str, bool] = {}
    for commit in commits:
        for file in commit.files:
            if file.status == "R" and file.old_path:
                exists_by_path[file.old_path] = False
            exists_by_path[file.path] = file.status != "D"
    existing_paths = [path for path, exists in exists_by_path.items() if exists]
    safe_paths = [_readable(path) for path in existing_paths if not find_secrets(path)]
    return tuple(sorted(safe_paths)[:MAX_FILES])


def _readable(path: str) -> str:
    return readable_path(TreeFile(path, ""))
