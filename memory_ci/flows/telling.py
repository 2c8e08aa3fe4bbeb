"""The episode files of a plan: what they say, which months become one file, and whether a plan may write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta

from memory_ci.errors import UsageError
from memory_ci.flows.episodes import list_episode_files, load_episodes
from memory_ci.flows.screening import find_credentials, is_unsafe
from memory_ci.flows.workspace import Workspace, read_bytes
from memory_ci.records.episode import Telling
from memory_ci.records.plan import EpisodeFile, Plan
from memory_ci.store.episodes import fold_months, format_telling, is_episode_path, parse_episode_file, telling_path


def plan_files(tellings: Iterable[Telling]) -> tuple[list[EpisodeFile], list[str]]:
    """(the files of these tellings, why some of them cannot be written)."""
    files, problems = [], []
    for telling in tellings:
        try:
            files.append(EpisodeFile(telling_path(telling), format_telling(telling).decode()))
        except UsageError as error:
            problems.append(f"the episode {telling.id}: {error.message}")
    return files, problems


def find_fold_day(workspace: Workspace, base: str, new: Iterable[EpisodeFile], today: date) -> date | None:
    """The day before which a month must have ended for its files to become one; None where nothing is to be folded."""
    before = today - timedelta(days=workspace.config.episodes.fold_after_days)
    paths = [*(file.path for file in list_episode_files(workspace, base)), *(file.path for file in new)]
    is_old = (path.count("/") > 2 and path.split("/")[2] < before.isoformat()[:7] for path in paths)
    return before if any(is_old) else None


def list_changes(workspace: Workspace, plan: Plan) -> dict[str, bytes | None]:
    """What the plan does to episode files (None: taken away, for it is part of another now)."""
    new: dict[str, bytes | None] = {file.path: file.text.encode() for file in plan.episodes}
    if plan.fold_before is None:
        return new
    month = plan.fold_before.isoformat()[:7]
    old = [file.path for file in list_episode_files(workspace, plan.base) if _month_of(file.path) < month]
    files = read_bytes(workspace, plan.base, old) | {file.path: file.text.encode() for file in plan.episodes}
    folded = fold_months(files, plan.fold_before)
    # A file that is new and folded at once has never been in the tree.
    return {path: data for path, data in (new | folded).items() if data is not None or path not in new}


def find_objections(workspace: Workspace, plan: Plan, today: date) -> Iterator[str]:
    """Why the plan may not write its episodes: only new files, each what its path says, and safe to be read."""
    if plan.fold_before is not None and plan.fold_before > today:
        yield f"months are not over before {plan.fold_before}"
    there = {told.id for told in load_episodes(workspace, plan.base).tellings} if plan.episodes else set()
    for file in plan.episodes:
        for reason in _objections(file, there):
            yield f"episode {file.path!r}: {reason}"


def _objections(file: EpisodeFile, there: set[str]) -> Iterator[str]:
    read = parse_episode_file(file.path, file.text.encode())
    ids = {told.id for told in read.tellings}
    if not ids.isdisjoint(there):
        yield "is there already"
    there |= ids
    if not is_episode_path(file.path) or [telling_path(told) for told in read.tellings] != [file.path]:
        yield "is not the file of one episode"
    elif read.findings or format_telling(read.tellings[0]) != file.text.encode():
        yield "is not as episodes are written"
    if is_unsafe(file.text) or any(find_credentials(file.path, file.text.encode())):
        yield "holds what must not be given to an agent"


def _month_of(path: str) -> str:
    return path.split("/")[2].removesuffix(".md")
