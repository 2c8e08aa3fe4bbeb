"""What was merged or declined, and what episodes say came of it; what the newest changes have in common.

`past_tasks` keeps it (docs/similar.md).
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date, timedelta
from itertools import islice

import msgspec
from msgspec.structs import replace

from memory_ci.gitrepo.blobs import TreeFile, read_files, tree_at
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import HistoryRange, iter_merged_changes
from memory_ci.gitrepo.log import find_lines, follow_renames, list_renames
from memory_ci.lifecycle.episodes import WORSE, combine
from memory_ci.lifecycle.reverts import (
    SOON,
    find_mends,
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
from memory_ci.records.names import LEAST_WIDTH, SHA_WIDTH
from memory_ci.records.retrieval import Habits, Outcome, Task
from memory_ci.search.similar_tasks import CLASSES, Prompts, build_prompts, class_of, count_terms
from memory_ci.secrets import find_secrets, mask_secrets
from memory_ci.store.episodes import MAX_FILE_BYTES, parse_episode_file
from memory_ci.text import shorten

LAST_CHANGES, LEAST_CHANGES, LAST_TITLES = 100, 20, 50
"""A habit is counted in the last changes of a class, if there are so many at least, and in the last titles."""

FRAGMENTS = re.compile(
    r"(?i)\.?(?:changelog|changes?|news|newsfragments|changesets?)(?:\.d)?|unreleased|next"
)
CHANGELOG = re.compile(r"(?i)(?:change(?:s|log)|history|news|whatsnew)\b")
CONVENTIONAL = re.compile(r"[a-z]+(?:\([^)]*\))?!?: ")
IN_SYNC = r"(keep|kept|stay|update|must be).{0,40} in (sync|step) with"
PATH = re.compile(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*\.\w{1,10}\b")
COMMENT = re.compile(r"\s*(?:#|//|/?\*|--|;|<!--|\.\. )|.*\s(?:#|//)\s")
PROSE = (
    ".md",
    ".rst",
    ".txt",
    ".lock",
    ".json",
    ".yml",
    ".yaml",
    ".toml",
    ".cfg",
)  # Endings of what is no code.
MAX_COMMENTS = 200
TOUCHED = 3  # Files that are named of a change.
QUOTED, LEAST_QUOTED = (
    200,
    60,
)  # Characters of what is quoted of a message: at most, and of a paragraph at least.
MAX_PATHS = 50  # Files of a change whose names count as words.
MAX_FILES = 200  # Of a change that touched more, these stand for all.
MAX_TERMS = 200  # Different terms of a prompt that count; people write fewer.


class FileTellings(msgspec.Struct, frozen=True):
    """The tellings of one file, kept from run to run: an episode file never changes under its object id."""

    episodes: tuple[Episode, ...] = ()
    amendments: tuple[Amendment, ...] = ()


class EpisodeOutcomes:
    """What episodes say of the outcome of requests and of commits, which are known by their first seven digits."""

    def __init__(self, heard: Iterable[FileTellings]) -> None:
        told = list(heard)
        amendments = [one for file in told for one in file.amendments]
        episodes = combine([*amendments, *(one for file in told for one in file.episodes)])
        self._by_commit = {
            one.action.commit[:LEAST_WIDTH]: one
            for one in episodes
            if len(one.action.commit) >= LEAST_WIDTH
        }
        self._amended = {one.amends for one in amendments if one.outcome is not None}
        self.by_number = {episode.action.pr: episode for episode in episodes if episode.action.pr}

    def judge(self, task: Task, shas: Iterable[str]) -> Task:
        """The task with the outcome of its episode. If git shows a worse one (a later revert, a fix-up), that holds,
        unless an amendment says otherwise."""
        named = ((sha, self._by_commit.get(sha[:LEAST_WIDTH])) for sha in shas)
        fits = (one for sha, one in named if one and sha.startswith(one.action.commit))
        episode = self.by_number.get(task.number or 0) or next(fits, None)
        if episode is None or episode.outcome == task.outcome:
            return task
        is_worse = WORSE.index(episode.outcome) > WORSE.index(task.outcome) and not _is_declined(
            episode
        )
        is_said = is_worse or episode.id in self._amended
        return replace(task, outcome=episode.outcome, why="") if is_said else task


def _is_declined(episode: Episode) -> bool:
    """Whether an episode tells of a request that was closed unmerged; it may have been merged after all."""
    return (
        episode.outcome == "failure" and not episode.action.commit and episode.action.pr is not None
    )


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A merged change as it was, and by whom it was mended soon after, if it was. What was declined has no commits."""

    title: str
    merged_on: date
    shas: tuple[str, ...]
    number: int | None
    branch: str
    files: tuple[str, ...]
    terms: dict[str, float]
    quote: str = ""
    mended_in: str = ""


class Ledger(msgspec.Struct, frozen=True):
    """All that tasks are made from, so that only new changes need to be read again. `commits` are without files, and
    with as much of their messages as later reverts may speak of. `heard` is what the episode files tell, by object
    id."""

    done: tuple[Done, ...] = ()
    commits: tuple[Commit, ...] = ()
    renames: dict[str, str] = {}
    heard: dict[str, FileTellings] = {}


def extend(workspace: Workspace, ledger: Ledger, new: HistoryRange) -> Ledger:
    """The ledger with the changes of a range that begins where it ends. Raises RepositoryError (git-failed)."""
    changes = list(iter_merged_changes(workspace.repo, new))
    commits = (*ledger.commits, *(commit for change in changes for commit in change.commits))
    reverting = {revert.sha for revert in find_reverts(commits)}
    done = [
        *ledger.done,
        *(_done(change) for change in changes if _is_task(workspace, change, reverting)),
    ]
    starts = [new.since] if new.since else [group[-1] for group in new.groups[:1]]
    renames = list_renames(workspace.repo, starts, new.until)
    mends = list(find_mends(changes))
    for at, one in enumerate(done):  # what one of the changes mended soon after has its label
        soon = (
            change.label
            for number, change in mends
            if number == one.number and timedelta(0) <= merged_on(change) - one.merged_on <= SOON
        )
        done[at] = replace(one, mended_in=one.mended_in or next(soon, ""))
    listed = list_episode_files(workspace, new.until)
    heard = {file.oid: ledger.heard[file.oid] for file in listed if file.oid in ledger.heard}
    fresh = [file for file in listed if file.oid not in heard]
    for content in read_files(workspace.repo, fresh, MAX_FILE_BYTES):
        tellings = parse_episode_file(readable_path(content.file), content.data or b"").tellings
        heard[content.file.oid] = FileTellings(
            tuple(told for told in tellings if isinstance(told, Episode)),
            tuple(told for told in tellings if isinstance(told, Amendment)),
        )
    shortened: list[Commit] = []
    for commit in commits:
        message = commit.message
        if commit.sha[:SHA_WIDTH] not in reverting:  # its subject, and the first line of its body
            subject, _, body = message.partition("\n")
            message = f"{subject}\n\n{body.strip().partition(chr(10))[0]}".strip()
        author, email = mask_secrets(commit.author), mask_secrets(commit.email)
        bare = replace(
            commit, message=mask_secrets(message), author=author, email=email, files=(), trailers=()
        )
        shortened.append(bare)
    return Ledger(
        tuple(done),
        tuple(shortened),
        ledger.renames
        | {
            _readable(old): _readable(path)
            for old, path in renames.items()
            if not find_secrets(path)
        },
        heard,
    )


def count_habits(workspace: Workspace, ledger: Ledger, tip: str) -> Habits:
    """What the newest changes have in common, and the comments of a tree that tell to change two files together."""
    fragments = {}
    for name in CLASSES:
        last = [done for done in ledger.done if class_of(done.title) == name][-LAST_CHANGES:]
        places = Counter(
            place
            for done in last
            for place in {_changelog_of(path) for path in done.files}
            if place
        )
        if len(last) >= LEAST_CHANGES and places:
            place, count = places.most_common(1)[0]
            fragments[name] = (count, len(last), place)
    titles = [done.title for done in ledger.done[-LAST_TITLES:]]
    conventional = sum(CONVENTIONAL.match(title) is not None for title in titles)
    in_sync: list[tuple[str, str, str]] = []
    files = set(map(readable_path, tree_at(workspace.repo, tip).files.values()))
    for path, line in find_lines(workspace.repo, tip, IN_SYNC)[:MAX_COMMENTS]:
        for other in (
            PATH.findall(line)
            if COMMENT.match(line) and path in files and not is_unsafe(line)
            else ()
        ):
            near = posixpath.normpath(posixpath.join(posixpath.dirname(path), other))
            found = next((one for one in (other, near) if one in files and one != path), None)
            if found is not None:
                in_sync.append((path, found, shorten(line.strip(" \t#/*-;"), QUOTED)))
                break
    return Habits(fragments, (conventional, len(titles)), tuple(in_sync))


def _changelog_of(path: str) -> str:
    """The file of a changelog that a path is, or the directory of its fragments; "" for another file."""
    directory, _, name = path.rpartition("/")
    if FRAGMENTS.fullmatch(directory.rpartition("/")[2]):
        return f"{directory}/"
    return path if CHANGELOG.match(name) else ""


def list_tasks(workspace: Workspace, ledger: Ledger, tip: str) -> tuple[tuple[Task, ...], Prompts]:
    """The tasks of a ledger as they stand at the commit `tip`, and their prompts in the same order."""
    undone = list_undone(find_reverts(ledger.commits))
    present = frozenset(map(readable_path, tree_at(workspace.repo, tip).files.values()))
    verdicts = EpisodeOutcomes(ledger.heard.values())
    merged = [
        verdicts.judge(_task(done, undone, present, ledger.renames), done.shas)
        for done in ledger.done
    ]
    declined = tuple(_list_declined(ledger, verdicts.by_number))
    tasks = (*merged, *(_task(done, undone, present, ledger.renames) for done in declined))
    return tasks, build_prompts([done.terms for done in (*ledger.done, *declined)])


def _list_declined(ledger: Ledger, episodes: Mapping[int, Episode]) -> Iterator[Done]:
    """The requests that were closed unmerged, as tasks; texts that must not be served are left out. Not those of one
    session alone, for tasks are everybody's."""
    merged = {done.number for done in ledger.done}
    for number, episode in episodes.items():
        if not _is_declined(episode) or number in merged or episode.context.get("session"):
            continue
        title, branch = episode.situation.summary or episode.text, episode.context.get("branch", "")
        if title and not is_unsafe(f"{title}\n{branch}"):
            yield Done(
                title=title,
                merged_on=episode.occurred_at.date(),
                shas=(),
                number=number,
                branch=branch,
                files=episode.action.files[:MAX_FILES],
                terms=_weigh_terms(title, episode.text, episode.action.files),
            )


def _task(
    done: Done, undone: Mapping[str, str], present: Collection[str], renames: Mapping[str, str]
) -> Task:
    is_merged = bool(done.shas)
    outcome: Outcome = "failure"
    why = ""  # of what was not merged that it was declined says why
    if is_merged:
        outcome, why = judge_outcome(done.shas, done.number, done.mended_in, undone)
    names = (
        path if path in present else follow_renames(path, renames, present) for path in done.files
    )
    there = tuple(name for name in names if name is not None)
    return Task(
        sha=done.shas[-1] if is_merged else "",
        title=done.title,
        merged_on=done.merged_on,
        number=done.number,
        branch=done.branch,
        files=len(done.files),
        still=len(there),
        outcome=outcome,
        why=why,
        is_merged=is_merged,
        quote=done.quote,
        # Files of code before tests, and these before all else.
        touched=tuple(
            sorted(there, key=lambda path: (path.endswith(PROSE), "test" in path))[:TOUCHED]
        ),
    )


def _is_task(workspace: Workspace, change: MergedChange, reverting: Collection[str]) -> bool:
    """Whether a change is work that somebody may do again: no revert, no bot's, none of ours, nothing unsafe."""
    title = title_of(change)
    return (
        title != ""
        and not (
            title != change.title and len(own_commits(change)) > 1
        )  # git's merge of a whole branch
        and not is_revert([commit.sha for commit in own_commits(change)], reverting)
        and is_work(workspace, change)
        and not is_routine(title)
        and not is_unsafe(f"{title}\n{find_branch(change.tip.message)}")
    )


def _done(change: MergedChange) -> Done:
    title = title_of(change)
    prose, files = mask_secrets("\n\n".join(map(prose_of, change.commits))), _files(change)
    # The first paragraph of prose that the messages hold below their subjects, cut at a word.
    paragraphs = list_paragraphs(list_prose((change.tip, *change.commits)))
    long = (
        shorten(one, QUOTED)
        for one in paragraphs
        if len(one) >= LEAST_QUOTED and one != change.title
    )
    quote = next(long, "")
    return Done(
        title=title,
        merged_on=merged_on(change),
        shas=tuple(commit.sha for commit in change.commits),
        number=change.number,
        branch=find_branch(change.tip.message),
        files=files,
        terms=_weigh_terms(title, prose, files),
        quote="" if is_unsafe(quote) else quote,
    )


def _weigh_terms(title: str, prose: str, files: Iterable[str]) -> dict[str, float]:
    """How often each term occurs: those of the title count twice, words of paths half and once."""
    counts: dict[str, float] = {}
    paths = dict.fromkeys(
        count_terms(" ".join(path.replace("/", " ") for path in islice(files, MAX_PATHS))), 1
    )
    for terms, weight in ((count_terms(title), 2.0), (count_terms(prose), 1.0), (paths, 0.5)):
        for term, count in terms.items():
            counts[term] = counts.get(term, 0.0) + weight * count
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:MAX_TERMS])


def _files(change: MergedChange) -> tuple[str, ...]:
    """The files that a change left behind, by the names they had then; none whose name holds a credential."""
    left: dict[str, bool] = {}
    for commit in (change.tip,) if change.kind == "merge" else change.commits:
        for file in commit.files:
            if file.status == "R" and file.old_path:
                left[file.old_path] = False
            left[file.path] = file.status != "D"
    there = [path for path, is_there in left.items() if is_there and not find_secrets(path)]
    return tuple(sorted(map(_readable, there))[:MAX_FILES])


def _readable(path: str) -> str:
    return readable_path(TreeFile(path, ""))
