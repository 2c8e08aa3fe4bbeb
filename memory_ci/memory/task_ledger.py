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
from memory_ci.lifecycle.episodes import OUTCOMES_BY_SEVERITY, apply_amendments
from memory_ci.lifecycle.reverts import (
    FIXUP_WINDOW,
    find_fixups,
    find_reverts,
    is_revert,
    judge_outcome,
    label_reverted_work,
)
from memory_ci.memory.eligible import (
    clean_message,
    find_merge_day,
    find_title,
    is_routine,
    is_work,
    list_paragraphs,
    list_prose,
    list_work_commits,
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

NOT_CODE_ENDINGS = (".md", ".rst", ".txt", ".lock", ".json", ".yml", ".yaml", ".toml", ".cfg")
"""Endings of files that are not code."""

MAX_TOUCHED = 3  # Number of files that are named of a change.
MAX_QUOTE = 200  # Length of a quote of a message in characters.
MIN_PARAGRAPH = 60  # Length of the shortest paragraph that is quoted, in characters.
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
        """Combine episodes with their amendments, and index them by request number and commit.

        An amendment is a later note to an episode, which may state another outcome.

        Args:
            episode_files: the content of all episode files.
        """
        amendments: list[Amendment] = []
        episodes_as_written: list[Episode] = []
        for file in episode_files:
            amendments += file.amendments
            episodes_as_written += file.episodes
        episodes = apply_amendments([*amendments, *episodes_as_written])

        self._by_commit = {}
        self.by_number = {}
        for episode in episodes:
            if len(episode.action.commit) >= MIN_SHA_WIDTH:
                self._by_commit[episode.action.commit[:MIN_SHA_WIDTH]] = episode
            if episode.action.pr:
                self.by_number[episode.action.pr] = episode

        with_outcome = [amendment for amendment in amendments if amendment.outcome is not None]
        self._ids_with_amended_outcome = {amendment.amends for amendment in with_outcome}
        ids_with_file = {episode.id for episode in episodes}
        self._outcomes_without_file = _list_outcomes_without_file(with_outcome, ids_with_file)

    def add_outcome(self, task: Task, change: FinishedChange) -> Task:
        """Return a task with the outcome that episodes and their amendments state.

        A worse outcome that git shows (a later revert, a fix-up) takes precedence, unless an
        amendment states the outcome.

        Args:
            task: the task, with the outcome that git shows.
            change: the change that the task was made from.
        """
        episode = self._find_episode(task, change.shas)
        if episode is None:
            return self._add_outcome_without_file(task, change)
        if episode.id in self._ids_with_amended_outcome:
            return _set_outcome(task, episode.outcome)

        severity = OUTCOMES_BY_SEVERITY.index
        is_worse_than_in_git = severity(episode.outcome) > severity(task.outcome)
        if is_worse_than_in_git and not _is_declined(episode):
            return _set_outcome(task, episode.outcome)
        return task

    def _add_outcome_without_file(self, task: Task, change: FinishedChange) -> Task:
        """Return a task without an episode file, with the outcome of the last amendment for it.

        An amendment names its episode by an id of one of three forms: `commit-1a2b3c4d5e6f`,
        `pr-12`, or `pr-12-1a2b3c4d5e6f` if several changes have the number. Without an amendment,
        a change that touched no file is neutral.
        """
        short_sha = task.sha[:SHA_WIDTH]
        episode_ids = [f"commit-{short_sha}"]
        if task.number:
            episode_ids += [f"pr-{task.number}-{short_sha}", f"pr-{task.number}"]
        for episode_id in episode_ids:
            if episode_id in self._outcomes_without_file:
                return _set_outcome(task, self._outcomes_without_file[episode_id])
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


def _set_outcome(task: Task, outcome: Outcome) -> Task:
    """Return a task with another outcome, without the reason for the old one."""
    if outcome == task.outcome:
        return task
    return replace(task, outcome=outcome, why="")


def _list_outcomes_without_file(
    amendments: Iterable[Amendment], ids_with_file: Collection[str]
) -> dict[str, Outcome]:
    """Return the outcomes that amendments state of episodes without a file, by episode id.

    The last amendment counts; of several at one time, the one with the worst outcome.

    Args:
        amendments: the amendments that state an outcome.
        ids_with_file: the ids of episodes that have a file.
    """

    def rank(amendment: Amendment) -> tuple[datetime, int]:
        severity = 0 if amendment.outcome is None else OUTCOMES_BY_SEVERITY.index(amendment.outcome)
        return amendment.at, severity

    outcomes: dict[str, Outcome] = {}
    for amendment in sorted(amendments, key=rank):
        if amendment.outcome is not None and amendment.amends not in ids_with_file:
            outcomes[amendment.amends] = amendment.outcome
    return outcomes


def _is_declined(episode: Episode) -> bool:
    """Return whether an episode says that a pull request was closed without a merge.

    Such an episode has no commit. It is not changed if the request is merged after all, so callers
    have to look for a merge themselves.
    """
    if episode.outcome != "failure" or episode.action.commit:
        return False
    return episode.action.pr is not None


class FinishedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A merged change, or a pull request that was declined.

    Attributes:
        merged_on: the day of the merge, or on which it was declined.
        shas: its commits; none if it was declined.
        number: the number of its pull request.
        files: the files that it left, by the names they had then.
        terms: the weight of each word by which similar changes are searched.
        quote: a paragraph of its messages.
        is_empty: it changed no file.
        mended_in: the label of the fix-up: the change that corrected it soon after; "" for none.
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
    """The data of past changes that tasks are made from. It is cached and extended by new changes.

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


def extend_ledger(workspace: Workspace, ledger: Ledger, new_range: HistoryRange) -> Ledger:
    """Return a new ledger that has the changes of a range of history, too.

    Args:
        workspace: the repository.
        ledger: the data of the changes before the range; it is not changed.
        new_range: the range, which begins where the ledger ends.

    Raises:
        RepositoryError: git-failed.
    """
    merged_changes = iter_merged_changes(workspace.repo, new_range)
    new_changes = list(
        progress.count("Reading the tasks of merged work", merged_changes, new_range.change_count)
    )
    all_commits = [*ledger.commits]
    for change in new_changes:
        all_commits += change.commits
    revert_shas = {revert.sha for revert in find_reverts(all_commits)}

    all_changes = [*ledger.changes]
    for change in new_changes:
        if _is_task(workspace, change, revert_shas):
            all_changes.append(_summarise_change(change))
    return Ledger(
        changes=tuple(_add_fixup_labels(all_changes, new_changes)),
        commits=tuple(_shorten_commit(commit, revert_shas) for commit in all_commits),
        renames=ledger.renames | _list_new_renames(workspace, new_range),
        episode_files=_read_episode_files(workspace, ledger, new_range.until),
    )


def _add_fixup_labels(
    changes: Iterable[FinishedChange], new_changes: Sequence[MergedChange]
) -> list[FinishedChange]:
    """Set `mended_in` of each change that a new change corrected soon after its merge.

    Args:
        changes: all changes.
        new_changes: the new changes, some of which say that they correct an earlier request.
    """
    fixups = list(find_fixups(new_changes))
    labelled_changes = []
    for change in changes:
        label = "" if change.mended_in else _find_fixup_label(change, fixups)
        if label:
            change = replace(change, mended_in=label)
        labelled_changes.append(change)
    return labelled_changes


def _find_fixup_label(change: FinishedChange, fixups: Iterable[tuple[int, MergedChange]]) -> str:
    """Return the label of the first fix-up of a change within FIXUP_WINDOW, "" if there is none.

    Args:
        change: the change.
        fixups: changes that correct others, each with the number of the request that it corrects.
    """
    for number, fixup in fixups:
        age = find_merge_day(fixup) - change.merged_on
        if number == change.number and timedelta(0) <= age <= FIXUP_WINDOW:
            return fixup.label
    return ""


def _list_new_renames(workspace: Workspace, new_range: HistoryRange) -> dict[str, str]:
    """Return the renames in a range of history, new paths by old paths.

    New paths that hold a credential are left out. A range from the beginning of history starts at
    the merge commit of its oldest change.
    """
    start = new_range.since
    if not start and new_range.groups:
        commits_of_oldest_change = new_range.groups[0]
        start = commits_of_oldest_change[-1]  # the last commit is the one on the first-parent line

    renames = {}
    starts = [start] if start else []
    for old_path, new_path in list_renames(workspace.repo, starts, new_range.until).items():
        if not find_secrets(new_path):
            renames[_format_path(old_path)] = _format_path(new_path)
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


def _shorten_commit(commit: Commit, revert_shas: Collection[str]) -> Commit:
    """Remove parts of a commit that are not used here, and mask credentials.

    Of a revert the whole message is used, else the subject and the first line of the body.

    Args:
        commit: the commit.
        revert_shas: the shortened ids of reverts.
    """
    message = commit.message
    if commit.sha[:SHA_WIDTH] not in revert_shas:
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
    """Return the merged and declined changes as tasks of the past, and an index to search them.

    A task is a change with its outcome: whether it was reverted, corrected soon after, or
    declined. The index has the words of the tasks, in the same order.

    Args:
        workspace: the repository.
        ledger: the changes.
        tip: the commit whose tree says which of their files are still there.
    """
    revert_by_name = label_reverted_work(find_reverts(ledger.commits))
    files = tree_at(workspace.repo, tip).files.values()
    present_paths = frozenset(readable_path(file) for file in files)
    outcomes = EpisodeOutcomes(ledger.episode_files.values())

    tasks = []
    for change in ledger.changes:
        task = _build_task(change, revert_by_name, present_paths, ledger.renames)
        tasks.append(outcomes.add_outcome(task, change))
    declined_changes = list(_list_declined(ledger, outcomes.by_number))
    for change in declined_changes:
        tasks.append(_build_task(change, revert_by_name, present_paths, ledger.renames))

    index = build_prompt_index([change.terms for change in (*ledger.changes, *declined_changes)])
    return tuple(tasks), index


def _list_declined(
    ledger: Ledger, episode_by_number: Mapping[int, Episode]
) -> Iterator[FinishedChange]:
    """Yield the pull requests that were closed without a merge.

    Those with texts that must not be served are left out. So are those that are known from one
    agent session alone, because tasks are shown to everybody.

    Args:
        ledger: the merged changes.
        episode_by_number: the episodes by the number of their request.
    """
    merged_numbers = {change.number for change in ledger.changes}
    for number, episode in episode_by_number.items():
        is_from_session = bool(episode.context.get("session"))
        if not _is_declined(episode) or number in merged_numbers or is_from_session:
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
    revert_by_name: Mapping[str, str],
    present_paths: Collection[str],
    renames: Mapping[str, str],
) -> Task:
    """Return a change as a task of the past, with the outcome that git shows.

    Args:
        change: the change.
        revert_by_name: the label of the revert that undid some work, by the name of the work: a
            commit or a pull request.
        present_paths: all paths of the tree.
        renames: new paths by old paths, to follow the files of the change into the tree.
    """
    is_merged = bool(change.shas)
    outcome: Outcome = "failure"
    why = ""  # a declined change needs no further reason
    if is_merged:
        outcome, why = judge_outcome(change.shas, change.number, change.mended_in, revert_by_name)

    remaining_paths = []
    for old_path in change.files:
        path: str | None = old_path
        if old_path not in present_paths:
            path = follow_renames(old_path, renames, present_paths)
        if path is not None:
            remaining_paths.append(path)
    # Files of code come before tests, and both before other files.
    touched_paths = sorted(remaining_paths, key=_rank_touched_path)[:MAX_TOUCHED]
    return Task(
        sha=change.shas[-1] if is_merged else "",
        title=change.title,
        merged_on=change.merged_on,
        number=change.number,
        branch=change.branch,
        files=len(change.files),
        remaining_count=len(remaining_paths),
        outcome=outcome,
        why=why,
        is_merged=is_merged,
        quote=change.quote,
        touched=tuple(touched_paths),
    )


def _rank_touched_path(path: str) -> tuple[bool, bool]:
    return path.endswith(NOT_CODE_ENDINGS), "test" in path


def _is_task(workspace: Workspace, change: MergedChange, revert_shas: Collection[str]) -> bool:
    """Return whether a change is work that somebody may do again, with a text safe to be served.

    Reverts, changes of bots and of memory-ci (`is_work`), routine changes such as releases, and
    merges of a whole branch by git are not.

    Args:
        workspace: the repository.
        change: the change.
        revert_shas: the shortened ids of reverts.
    """
    title = find_title(change)
    commits = list_work_commits(change)
    # `git merge` gives the merge of a branch no title of its own, so the title was taken from the
    # first commit. If there are several commits, that does not describe all of the work.
    is_branch_merge = title != change.title and len(commits) > 1
    if title == "" or is_branch_merge:
        return False
    if is_revert([commit.sha for commit in commits], revert_shas):
        return False
    if not is_work(workspace, change) or is_routine(title):
        return False
    return not is_unsafe(f"{title}\n{find_branch(change.tip.message)}")


def _summarise_change(change: MergedChange) -> FinishedChange:
    """Return the data of a merged change from which a task is made, with credentials masked."""
    title = find_title(change)
    prose = mask_secrets("\n\n".join(clean_message(commit) for commit in change.commits))
    files = _list_remaining_files(change)
    return FinishedChange(
        title=title,
        merged_on=find_merge_day(change),
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
        if len(paragraph) >= MIN_PARAGRAPH and paragraph != change.title:
            quote = shorten(paragraph, MAX_QUOTE)
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
    """Return the files that a change wrote and that existed after it, by their paths at the time.

    Deleted files are left out, and paths that hold a credential. At most MAX_FILES are returned.
    """
    commits = (change.tip,) if change.kind == "merge" else change.commits
    exists_by_path: dict[str, bool] = {}
    for commit in commits:
        for file in commit.files:
            if file.status == "R" and file.old_path:
                exists_by_path[file.old_path] = False
            exists_by_path[file.path] = file.status != "D"
    existing_paths = [path for path, exists in exists_by_path.items() if exists]
    safe_paths = [_format_path(path) for path in existing_paths if not find_secrets(path)]
    return tuple(sorted(safe_paths)[:MAX_FILES])


def _format_path(path: str) -> str:
    return readable_path(TreeFile(path, ""))
