"""Files of episodes (records of merged work) that a plan writes, and the checks before that.

Files of a month that ended are folded into one file of that month.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import date, timedelta
from functools import cached_property

from memory_ci.errors import UsageError
from memory_ci.gitrepo.blobs import find_obstacle
from memory_ci.gitrepo.history import find_cached_first_parents
from memory_ci.gitrepo.log import FILE_OPTIONS, read_log
from memory_ci.gitrepo.record_commits import STEP
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.lifecycle.episodes import BY_FACTS
from memory_ci.memory.episodes import list_episode_files, load_episodes
from memory_ci.memory.screening import find_credentials, is_unsafe
from memory_ci.memory.workspace import Snapshot, Workspace
from memory_ci.records.episode import Action, Amendment, Episode, EpisodeRecord
from memory_ci.records.history import Commit
from memory_ci.records.names import SHA_WIDTH, format_work_ref
from memory_ci.records.plan import EpisodeFile, Plan
from memory_ci.store.episode_months import join_months
from memory_ci.store.episodes import (
    MAX_FILE_BYTES,
    RUN_PREFIX,
    episode_record_path,
    find_month,
    format_episode_record,
    format_episode_records,
    has_ended,
    is_episode_path,
    list_ids,
    list_texts,
    month_path,
    parse_episode_file,
    run_file_path,
)
from memory_ci.store.layout import EPISODES
from memory_ci.store.ranges import Recorded, RecordedRange, format_recorded, parse_recorded

MAX_SINGLE = 3  # Episodes of one run that are a file each.
FOLD_AFTER_DAYS = 180  # Days after a month when the files of its episodes become one.


class DeletedEpisodes:
    """The ids of episodes and amendments that people deleted, searched for in history on demand."""

    def __init__(self, base: Snapshot, since: str | None, rejected: Set[str]) -> None:
        """Prepare the search; nothing is read yet.

        Args:
            base: the commit whose history is searched.
            since: where the range of a run begins; None for the beginning of history.
            rejected: ids that people rejected before they were written; they count as deleted.
        """
        self._base = base
        self._since = since
        self._rejected = frozenset(rejected)

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids that were deleted anywhere in history."""
        return self._rejected | _list_deleted(self._base, None)

    @cached_property
    def ids_deleted_in_range(self) -> frozenset[str]:
        """The ids that were deleted by commits of the run's range.

        For the episodes of changes in the range these are all deletions, as an episode cannot be
        deleted before its change. To search the range alone is faster than to search all history.
        """
        if self._since is None:
            return self.ids
        return self._rejected | _list_deleted(self._base, self._since)


def _list_deleted(base: Snapshot, since: str | None) -> frozenset[str]:
    """Return the ids of episodes and amendments whose file a person deleted after `since`.

    Commits of memory-ci that fold a month into one file delete files as well. They name their step
    in a trailer, and are left out.
    """
    deleted_ids: set[str] = set()
    for commit in _iter_deleting_commits(base, since):
        if find_trailers(commit.message, (STEP,)):
            continue
        for path in _list_removed_paths(commit):
            if is_episode_path(path):
                deleted_ids.update(_list_former_ids(base.workspace, commit, path))
    return frozenset(deleted_ids)


def _iter_deleting_commits(base: Snapshot, since: str | None) -> Iterator[Commit]:
    """Yield the first-parent commits after `since`, with at least those that deleted episode files.

    A run has read the commits of its range before, and then no git process reads them again.
    """
    repo = base.workspace.repo
    cached_commits = find_cached_first_parents(repo, since, base.sha)
    if cached_commits is not None:
        yield from cached_commits
        return
    exclusions = [f"^{since}"] if since else []
    arguments = (
        "--first-parent",
        *FILE_OPTIONS,
        "--no-renames",
        "--diff-filter=D",
        *exclusions,
        "--end-of-options",
        base.sha,
        "--",
        f"{EPISODES}/",
    )
    for commit, _ in read_log(repo, *arguments):
        yield commit


def _list_removed_paths(commit: Commit) -> list[str]:
    """Return the paths of the files that a commit deleted or renamed, as they were before."""
    removed_paths: list[str] = []
    for file in commit.files:
        if file.status == "D":
            removed_paths.append(file.path)
        elif file.status == "R" and file.old_path is not None:
            removed_paths.append(file.old_path)
    return removed_paths


def _list_former_ids(workspace: Workspace, commit: Commit, path: str) -> tuple[str, ...]:
    """Return the ids of the episodes in a file that a commit deleted.

    A file with several episodes of a run is read from the commit's parent. The name of any other
    file is the id, so that no content is needed.
    """
    file_name = path.rpartition("/")[2]
    content = b""
    has_several_episodes = file_name.startswith(RUN_PREFIX)
    if has_several_episodes and commit.parents:
        content = workspace.at(commit.parents[0]).read([path]).get(path) or b""
    return list_ids(path, content)


def plan_files(
    base: Snapshot, records: Iterable[EpisodeRecord]
) -> tuple[list[EpisodeFile], list[str]]:
    """Return the files for new episodes and amendments, and why some cannot be written.

    Up to MAX_SINGLE episodes have a file each. If there are more, all are in one file, and so are
    amendments if there are several. Otherwise the first run on a long history would add very many
    files, which people have to review.

    Args:
        base: the commit that the files are added to.
        records: the episodes and amendments.
    """
    files: list[EpisodeFile] = []
    episodes: list[Episode] = []
    amendments: list[Amendment] = []
    problems: list[str] = []
    for record in records:
        try:
            file = EpisodeFile(episode_record_path(record), format_episode_record(record).decode())
        except UsageError as error:
            problems.append(f"the episode {record.id}: {error.message}")
            continue
        objections = [*_find_file_objections(file, base.tree.modes)]
        if objections:
            problems.append(f"the episode {record.id} {', '.join(objections)}")
            continue
        files.append(file)
        if isinstance(record, Amendment):
            amendments.append(record)
        else:
            episodes.append(record)
    files = _join_files(base, files, amendments, max_single=1)
    return _join_files(base, files, episodes, max_single=MAX_SINGLE), problems


def _join_files(
    base: Snapshot, files: list[EpisodeFile], records: Sequence[EpisodeRecord], max_single: int
) -> list[EpisodeFile]:
    """Replace the files of some episodes by one file for all of them, if they are too many.

    If that file cannot be written, each episode keeps its own.

    Args:
        base: the commit that the files are added to.
        files: all files.
        records: the episodes, or the amendments, whose files are replaced.
        max_single: the largest number of records that have a file each.
    """
    if len(records) <= max_single:
        return files
    joined_file = EpisodeFile(run_file_path(records), format_episode_records(records).decode())
    if list(_find_file_objections(joined_file, base.tree.modes)):
        return files
    replaced_paths = {episode_record_path(record) for record in records}
    remaining_files = [file for file in files if file.path not in replaced_paths]
    return [*remaining_files, joined_file]


def find_fold_day(base: Snapshot, new: Iterable[EpisodeFile], today: date) -> date | None:
    """Return the day up to which a run folds months, None if there is nothing to fold.

    To fold a month is to join its episode files into one file. A month is folded FOLD_AFTER_DAYS
    after its end: months that ended before the returned day are.

    Args:
        base: the commit with the older files.
        new: the files that are added.
        today: the day.
    """
    try:
        fold_day = today - timedelta(days=FOLD_AFTER_DAYS)
    except OverflowError:
        return None  # the day is before the calendar begins
    return fold_day if _fold_ended_months(base, new, fold_day) else None


def list_changes(workspace: Workspace, plan: Plan) -> dict[str, bytes | None]:
    """Return the content of the episode files that a plan changes, by path.

    It is None for a file that the plan folds into the file of its month, and so deletes.
    """
    changes: dict[str, bytes | None] = {file.path: file.text.encode() for file in plan.episodes}
    if plan.fold_before is None:
        return changes

    base = workspace.at(plan.base)
    for path, data in _fold_ended_months(base, plan.episodes, plan.fold_before).items():
        if data is None and path in changes:
            del changes[path]  # new and folded at once: it has never been in the tree
        else:
            changes[path] = data
    return changes


def list_written(workspace: Workspace, plan: Plan) -> tuple[str, ...]:
    """Return the paths of the episode files that a plan writes."""
    return tuple(path for path, data in list_changes(workspace, plan).items() if data is not None)


def _fold_ended_months(
    base: Snapshot, new: Iterable[EpisodeFile], before: date
) -> dict[str, bytes | None]:
    """Return the edits that fold the episode files of each month that has ended into one file.

    A file that cannot be read remains unchanged.

    Args:
        base: the commit with the older files.
        new: the files that are added.
        before: the day before which the month must have ended.

    Returns:
        The content by path; None for a file that is deleted.
    """
    tree_files = list_episode_files(base.workspace, base.sha)
    new_files: dict[str, bytes | None] = {file.path: file.text.encode() for file in new}

    ended_months = set()
    for path in (*(file.path for file in tree_files), *new_files):
        month = find_month(path)
        if month and path != month_path(month) and has_ended(month, before):
            ended_months.add(month)
    if not ended_months:
        return {}

    paths = [file.path for file in tree_files if find_month(file.path) in ended_months]
    contents = base.tree.read(paths, MAX_FILE_BYTES)
    old_files = {content.file.path: content.data for content in contents}

    # None stands for a file that cannot be read: its month is left as it is.
    blocked_files: dict[str, bytes | None] = {}
    for month in ended_months:
        path = month_path(month)
        if find_obstacle(path, base.tree.modes):
            blocked_files[path] = None
    return join_months(new_files | old_files | blocked_files, before)


def find_objections(workspace: Workspace, plan: Plan, today: date) -> Iterator[str]:
    """Yield why a plan may not write its episodes.

    Each must be a new file, fit its path, and be safe to be read by agents. Feedback by BY_FACTS,
    which memory-ci derived from git, may only be about the work of its own episode. The months that
    the plan joins into one file (`fold_before`) must be over.
    """
    if plan.fold_before is not None and plan.fold_before > today:
        yield f"months are not over before {plan.fold_before}"
    yield from _check_unwritten(plan)
    if not plan.episodes:
        return

    modes = workspace.at(plan.base).tree.modes
    for file in plan.episodes:
        for objection in _find_file_objections(file, modes):
            yield f"episode {file.path!r}: {objection}"
    if len({file.path for file in plan.episodes}) < len(plan.episodes):
        yield "it writes an episode twice"

    new_records: list[EpisodeRecord] = []
    for file in plan.episodes:
        new_records += parse_episode_file(file.path, file.text.encode()).records
    for record in new_records:
        if isinstance(record, Episode) and record.id not in _list_valid_ids(record.action):
            yield f"episode {record.id!r}: its id does not name the work that it is about"
        refs = {feedback.ref for feedback in record.feedback if feedback.by == BY_FACTS}
        if refs and refs != {_find_work_ref(workspace, plan, record, new_records)}:
            yield f"episode {record.id!r}: has feedback on other work than its own"


def _check_unwritten(plan: Plan) -> Iterator[str]:
    """Yield why the file of recorded ranges cannot hold a plan's unwritten episodes."""
    unwritten = plan.unwritten
    recorded_range = RecordedRange(None, plan.base, unwritten.stage)
    recorded = Recorded((recorded_range,), unwritten.removed)
    if parse_recorded(format_recorded(recorded)) != recorded:
        yield "its stage, or the id of a removed episode, cannot be written"


def _find_file_objections(file: EpisodeFile, modes: Mapping[str, str]) -> Iterator[str]:
    """Yield why a file of new episodes must not be written.

    A file holds one episode or amendment, or several of one run. It must have exactly the path and
    the text that a run would write for what it holds.

    Args:
        file: the file.
        modes: the modes of all paths in the tree.
    """
    obstacle = find_obstacle(file.path, modes)
    if file.path in modes:
        yield "is there already"
    elif obstacle is not None:
        yield f"cannot be written: {obstacle} is no directory"

    data = file.text.encode()
    parsed = parse_episode_file(file.path, data)
    expected_file = _format_expected_file(parsed.records)
    has_expected_path = expected_file is not None and expected_file.path == file.path
    if expected_file is None or not has_expected_path or not is_episode_path(file.path):
        yield "is not the file of one episode, or of several of a run"
    elif parsed.findings or expected_file.text.encode() != data:
        yield "does not have the form in which episodes are written"

    texts: list[str] = []
    for record in parsed.records:
        texts += list_texts(record)  # parsed texts, so that YAML escapes hide nothing
    all_text = "\n".join([*texts, file.text])
    if any(map(is_unsafe, texts)) or any(find_credentials(file.path, all_text.encode())):
        yield "has text that agents must not be served"


def _format_expected_file(records: Sequence[EpisodeRecord]) -> EpisodeFile | None:
    """Return the file that a run would write for some episodes or amendments.

    Returns:
        The file; None if a run would not write exactly one file, because `records` is empty or has
        both episodes and amendments.
    """
    if len(records) == 1:
        return EpisodeFile(
            episode_record_path(records[0]), format_episode_record(records[0]).decode()
        )
    kinds = {type(record) for record in records}
    if len(kinds) != 1:
        return None
    return EpisodeFile(run_file_path(records), format_episode_records(records).decode())


def _list_valid_ids(action: Action) -> set[str]:
    """Return the ids that the episode of a piece of work may have: `pr-128`, `commit-<sha>`.

    They are made of the number of its request, or of its commit if it has no number. Where two
    episodes have the same number, the id has both.
    """
    sha = action.commit[:SHA_WIDTH]
    if action.pr is None:
        return {f"commit-{sha}"} if sha else set()
    ids = {f"pr-{action.pr}"}
    if sha:
        ids.add(f"pr-{action.pr}-{sha}")
    return ids


def _find_work_ref(
    workspace: Workspace, plan: Plan, record: EpisodeRecord, new_records: Sequence[EpisodeRecord]
) -> str | None:
    """Return the reference of the work that an episode is about: its request, or its commit.

    An amendment has the reference of its episode.

    Args:
        workspace: the repository.
        plan: the plan that writes the episode.
        record: the episode or amendment.
        new_records: all those that the plan writes.
    """
    if isinstance(record, Episode):
        return format_work_ref(record.action.pr, record.action.commit)
    for episode in (*new_records, *load_episodes(workspace, plan.base).records):
        if isinstance(episode, Episode) and episode.id == record.amends:
            return format_work_ref(episode.action.pr, episode.action.commit)
    return None
