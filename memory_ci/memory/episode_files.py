"""The episode files of a plan: what they say, which months become one file, and whether a plan may write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta

from memory_ci.errors import UsageError
from memory_ci.gitrepo.blobs import find_obstacle
from memory_ci.gitrepo.history import STEP
from memory_ci.gitrepo.log import FILES, read_log
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.lifecycle.episodes import BY_FACTS
from memory_ci.memory.episodes import list_episode_files, load_episodes
from memory_ci.memory.screening import find_credentials, is_unsafe
from memory_ci.memory.workspace import Snapshot, Workspace
from memory_ci.records.episode import Action, Episode, Telling
from memory_ci.records.names import SHA_WIDTH, work_ref
from memory_ci.records.plan import EpisodeFile, Plan
from memory_ci.store.episodes import (
    MAX_FILE_BYTES,
    find_month,
    fold_months,
    format_telling,
    has_ended,
    is_episode_path,
    list_texts,
    month_path,
    parse_episode_file,
    telling_path,
)
from memory_ci.store.layout import EPISODES


def list_deleted(workspace: Workspace, rev: str) -> frozenset[str]:
    """The ids of tellings whose file a person deleted: a commit removed it, and not to fold a month."""
    asked = (
        "--first-parent",
        *FILES,
        "--no-renames",
        "--diff-filter=D",
        "--end-of-options",
        rev,
        "--",
        f"{EPISODES}/",
    )
    return frozenset(
        file.path.rpartition("/")[2].removesuffix(".md")
        for commit, _ in read_log(workspace.repo, *asked)
        if not find_trailers(commit.message, (STEP,))
        for file in commit.files
        if is_episode_path(file.path)
    )


def plan_files(base: Snapshot, tellings: Iterable[Telling]) -> tuple[list[EpisodeFile], list[str]]:
    """(the files of these tellings, why some are not written). One that cannot be written does not stop the run."""
    files, problems = [], []
    for telling in tellings:
        try:
            file = EpisodeFile(telling_path(telling), format_telling(telling).decode())
        except UsageError as error:
            problems.append(f"the episode {telling.id}: {error.message}")
            continue
        if reasons := [*_objections(file, base.tree.modes)]:
            problems.append(f"the episode {telling.id} {', '.join(reasons)}")
        else:
            files.append(file)
    return files, problems


def find_fold_day(base: Snapshot, new: Iterable[EpisodeFile], today: date) -> date | None:
    """The day before which a month must have ended for its files to become one; None where nothing is to be folded."""
    try:
        before = today - timedelta(days=base.workspace.config.episodes.fold_after_days)
    except OverflowError:  # before the calendar begins: never
        return None
    return before if _fold(base, new, before) else None


def list_changes(workspace: Workspace, plan: Plan) -> dict[str, bytes | None]:
    """What the plan does to episode files (None: taken away, for it is part of another now)."""
    new: dict[str, bytes | None] = {file.path: file.text.encode() for file in plan.episodes}
    if plan.fold_before is None:
        return new
    folded = _fold(workspace.at(plan.base), plan.episodes, plan.fold_before)
    # A file that is new and folded at once has never been in the tree.
    return {
        path: data for path, data in (new | folded).items() if data is not None or path not in new
    }


def list_written(workspace: Workspace, plan: Plan) -> tuple[str, ...]:
    """The episode files that the plan writes and that stand there afterwards."""
    return tuple(path for path, data in list_changes(workspace, plan).items() if data is not None)


def _fold(base: Snapshot, new: Iterable[EpisodeFile], before: date) -> dict[str, bytes | None]:
    """What folding does to the files of a tree and new ones. What cannot be read, or is no file, stays as it is."""
    there = [
        (find_month(file.path) or "", file) for file in list_episode_files(base.workspace, base.sha)
    ]
    added: dict[str, bytes | None] = {file.path: file.text.encode() for file in new}
    paths = [*(file.path for _, file in there), *added]
    loose = {month for path in paths if (month := find_month(path)) and path != month_path(month)}
    ended = {month for month in loose if has_ended(month, before)}
    if not ended:
        return {}
    wanted = [file.path for month, file in there if month in ended]
    files = {content.file.path: content.data for content in base.tree.read(wanted, MAX_FILE_BYTES)}
    blocked = dict.fromkeys(
        path for path in map(month_path, ended) if find_obstacle(path, base.tree.modes)
    )
    return fold_months(added | files | blocked, before)


def find_objections(workspace: Workspace, plan: Plan, today: date) -> Iterator[str]:
    """Why the plan may not write its episodes: only new files, each what its path says, and safe to be read."""
    if plan.fold_before is not None and plan.fold_before > today:
        yield f"months are not over before {plan.fold_before}"
    if not plan.episodes:
        return
    modes = workspace.at(plan.base).tree.modes
    told = [
        telling
        for file in plan.episodes
        for telling in parse_episode_file(file.path, file.text.encode()).tellings
    ]
    for file in plan.episodes:
        for reason in _objections(file, modes):
            yield f"episode {file.path!r}: {reason}"
    if len({file.path for file in plan.episodes}) < len(plan.episodes):
        yield "it writes an episode twice"
    for telling in told:
        if isinstance(telling, Episode) and telling.id not in _list_ids(telling.action):
            yield f"episode {telling.id!r}: is not named after what it tells of"
        by_facts = {said.ref for said in telling.feedback if said.by == BY_FACTS}
        if by_facts and by_facts != {_ref_of(workspace, plan, telling, told)}:
            yield f"episode {telling.id!r}: speaks for another piece of work"


def _objections(file: EpisodeFile, modes: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with one file; `modes` is what stands in the tree."""
    if file.path in modes:
        yield "is there already"
    elif (obstacle := find_obstacle(file.path, modes)) is not None:
        yield f"cannot be written: {obstacle} is no directory"
    read = parse_episode_file(file.path, file.text.encode())
    if not is_episode_path(file.path) or [telling_path(told) for told in read.tellings] != [
        file.path
    ]:
        yield "is not the file of one episode"
    elif read.findings or format_telling(read.tellings[0]) != file.text.encode():
        yield "is not as episodes are written"
    said = [
        text for told in read.tellings for text in list_texts(told)
    ]  # YAML escapes hide nothing here
    if any(map(is_unsafe, said)) or any(
        find_credentials(file.path, "\n".join([*said, file.text]).encode())
    ):
        yield "holds what must not be given to an agent"


def _list_ids(action: Action) -> set[str]:
    """What the episode of a piece of work may be called: by its request, where two have its number by both, else by
    its commit."""
    sha = action.commit[:SHA_WIDTH]
    if action.pr is None:
        return {f"commit-{sha}"} if sha else set()
    return {f"pr-{action.pr}", *([f"pr-{action.pr}-{sha}"] if sha else [])}


def _ref_of(
    workspace: Workspace, plan: Plan, telling: Telling, told: Sequence[Telling]
) -> str | None:
    """The reference of the work that a telling is about; an amendment is about the work of its episode."""
    if isinstance(telling, Episode):
        return work_ref(telling.action.pr, telling.action.commit)
    known = (*told, *load_episodes(workspace, plan.base).tellings)
    actions = (one.action for one in known if isinstance(one, Episode) and one.id == telling.amends)
    return next((work_ref(action.pr, action.commit) for action in actions), None)
