"""Tasks of the past: merged and declined changes, their outcomes, and habits of the newest ones.

`past_tasks` caches them (docs/serving.md#hints).
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import islice

import msgspec
from msgspec.structs import replace

from memory_ci import progress
from memory_ci.gitrepo.blobs import TreeFile, read_files, tree_at
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import HistoryRange, iter_merged_changes
from memory_ci.gitrepo.log import find_lines, follow_renames, list_renames
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
from memory_ci.records.retrieval import Habits, Outcome, Task
from memory_ci.regex import Regex
from memory_ci.search.similar_tasks import (
    CLASSES,
    PromptIndex,
    build_prompts,
    classify_title,
    count_terms,
)
from memory_ci.secrets import find_secrets, mask_secrets
from memory_ci.store.episodes import MAX_FILE_BYTES, parse_episode_file
from memory_ci.text import shorten

LAST_CHANGES = 100
"""Number of changes of a class in which a habit is counted."""

LEAST_CHANGES = 20
"""Number of changes of a class below which no habit is counted."""

LAST_TITLES = 50
"""Number of titles in which conventional commits are counted."""

FRAGMENTS = Regex(
    r"(?i)\.?(?:changelog|changes?|news|newsfragments|changesets?)(?:\.d)?|unreleased|next"
)
CHANGELOG = Regex(r"(?i)(?:change(?:s|log)|history|news|whatsnew)\b")
CONVENTIONAL = Regex(r"[a-z]+(?:\([^)]*\))?!?: ")
IN_SYNC = r"(keep|kept|stay|update|must be).{0,40} in (sync|step) with"
PATH = Regex(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*\.\w{1,10}\b")
COMMENT = Regex(r"\s*(?:#|//|/?\*|--|;|<!--|\.\. )|.*\s(?:#|//)\s")
PROSE = (".md", ".rst", ".txt", ".lock", ".json", ".yml", ".yaml", ".toml", ".cfg")
"""Endings of files that are not code."""

MAX_COMMENTS = 200
TOUCHED = 3  # Number of files that are named of a change.
QUOTED = 200  # Length of a quote of a message in characters.
LEAST_QUOTED = 60  # Length of the shortest paragraph that is quoted, in characters.
MAX_PATHS = 50  # Number of files of a change whose names count as words.
MAX_FILES = 200  # Number of files that are kept of a change.
MAX_TERMS = 200  # Number of distinct terms of a prompt that count; people write fewer.


class FileTellings(msgspec.Struct, frozen=True):
    """The tellings of one episode file.

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

    def __init__(self, heard: Iterable[FileTellings]) -> None:
        amendments: list[Amendment] = []
        unamended: list[Episode] = []
        for file in heard:
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
        self._amended_ids = {
            amendment.amends for amendment in amendments if amendment.outcome is not None
        }
        self._amended_outcomes = _list_amended_outcomes(
            amendments, {episode.id for episode in episodes}
        )

    def judge(self, task: Task, done: Done) -> Task:
        """Return a task with the outcome of its episode.

        A worse outcome that git shows (a later revert, a fix-up) takes precedence, unless an
        amendment states the outcome.
        """
        episode = self._find_episode(task, done.shas)
        if episode is None:
            return self._judge_unwritten(task, done)
        if episode.outcome == task.outcome:
            return task
        severity = OUTCOMES_BY_SEVERITY.index
        is_worse = severity(episode.outcome) > severity(task.outcome)
        if (is_worse and not _is_declined(episode)) or episode.id in self._amended_ids:
            return replace(task, outcome=episode.outcome, why="")
        return task

    def _judge_unwritten(self, task: Task, done: Done) -> Task:
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
        if done.is_empty and task.outcome == "success":
            return replace(task, outcome="neutral")
        return task

    def _find_episode(self, task: Task, shas: Iterable[str]) -> Episode | None:
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
    """Return the outcomes of episodes without a file, which their last amendment states, by id."""
    stated = [
        (amendment.at, OUTCOMES_BY_SEVERITY.index(amendment.outcome), amendment)
        for amendment in amendments
        if amendment.outcome is not None and amendment.amends not in written_ids
    ]
    stated.sort(key=lambda item: item[:2])
    return {amendment.amends: OUTCOMES_BY_SEVERITY[severity] for _, severity, amendment in stated}


def _is_declined(episode: Episode) -> bool:
    """Return whether the request of an episode was closed unmerged.

    It may have been merged later.
    """
    if episode.outcome != "failure" or episode.action.commit:
        return False
    return episode.action.pr is not None


class Done(msgspec.Struct, frozen=True, kw_only=True):
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
        done: the merged changes, oldest first.
        commits: their commits without files, and with the part of the message that reverts quote.
        renames: new paths by old paths.
        heard: the tellings of the episode files by object id.
    """

    done: tuple[Done, ...] = ()
    commits: tuple[Commit, ...] = ()
    renames: dict[str, str] = {}
    heard: dict[str, FileTellings] = {}


def extend(workspace: Workspace, ledger: Ledger, new: HistoryRange) -> Ledger:
    """Return the ledger with the changes of a range that begins where the ledger ends.

    Raises:
        RepositoryError: git-failed.
    """
    merged = iter_merged_changes(workspace.repo, new)
    changes = list(progress.count("Reading the tasks of merged work", merged, new.change_count))
    commits = [*ledger.commits]
    for change in changes:
        commits += change.commits
    reverting = {revert.sha for revert in find_reverts(commits)}

    new_tasks = [change for change in changes if _is_task(workspace, change, reverting)]
    done = [*ledger.done, *map(_build_done, new_tasks)]
    return Ledger(
        done=tuple(_mark_mended(done, changes)),
        commits=tuple(_shorten_commit(commit, reverting) for commit in commits),
        renames=ledger.renames | _list_new_renames(workspace, new),
        heard=_read_tellings(workspace, ledger, new.until),
    )


def _mark_mended(done: Iterable[Done], changes: Sequence[MergedChange]) -> list[Done]:
    """Note for each change the label of the change that mended it soon after."""
    fixups = list(find_fixups(changes))
    marked = []
    for task in done:
        labels = []
        for number, change in fixups:
            age = merged_on(change) - task.merged_on
            if number == task.number and timedelta(0) <= age <= FIXUP_WINDOW:
                labels.append(change.label)
        if labels and not task.mended_in:
            task = replace(task, mended_in=labels[0])
        marked.append(task)
    return marked


def _list_new_renames(workspace: Workspace, new: HistoryRange) -> dict[str, str]:
    """Return the renames of a range, without paths that hold a credential."""
    starts = [group[-1] for group in new.groups[:1]]
    if new.since:
        starts = [new.since]
    renames = {}
    for old, path in list_renames(workspace.repo, starts, new.until).items():
        if not find_secrets(path):
            renames[_readable(old)] = _readable(path)
    return renames


def _read_tellings(workspace: Workspace, ledger: Ledger, rev: str) -> dict[str, FileTellings]:
    """Return the tellings of the episode files of a commit by object id, reading new files only."""
    files = list_episode_files(workspace, rev)
    tellings_by_oid = {
        file.oid: ledger.heard[file.oid] for file in files if file.oid in ledger.heard
    }
    new_files = [file for file in files if file.oid not in tellings_by_oid]
    for content in read_files(workspace.repo, new_files, MAX_FILE_BYTES):
        parsed = parse_episode_file(readable_path(content.file), content.data or b"")
        tellings_by_oid[content.file.oid] = FileTellings(
            tuple(telling for telling in parsed.records if isinstance(telling, Episode)),
            tuple(telling for telling in parsed.records if isinstance(telling, Amendment)),
        )
    return tellings_by_oid


def _shorten_commit(commit: Commit, reverting: Collection[str]) -> Commit:
    """Remove unused parts of a commit, and mask credentials.

    Of a revert the whole message is used, else the subject and the first line of the body.
    """
    message = commit.message
    if commit.sha[:SHA_WIDTH] not in reverting:
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


def count_habits(workspace: Workspace, ledger: Ledger, tip: str) -> Habits:
    """Count the habits of the newest changes.

    They include comments in a tree that ask to change two files together.
    """
    fragments = {}
    for name in CLASSES:
        tasks = [task for task in ledger.done if classify_title(task.title) == name][-LAST_CHANGES:]
        places = _count_changelogs(tasks)
        if len(tasks) >= LEAST_CHANGES and places:
            place, count = places.most_common(1)[0]
            fragments[name] = (count, len(tasks), place)

    titles = [task.title for task in ledger.done[-LAST_TITLES:]]
    conventional = [title for title in titles if CONVENTIONAL.match(title)]
    in_sync = _list_files_in_sync(workspace, tip)
    return Habits(fragments, (len(conventional), len(titles)), tuple(in_sync))


def _count_changelogs(tasks: Iterable[Done]) -> Counter[str]:
    """Count the changes that touched each changelog, or directory of fragments."""
    counts: Counter[str] = Counter()
    for task in tasks:
        counts.update({_changelog_of(path) for path in task.files} - {""})
    return counts


def _list_files_in_sync(workspace: Workspace, tip: str) -> list[tuple[str, str, str]]:
    """Return two paths and a comment in the first that asks to keep the second in sync."""
    paths = {readable_path(file) for file in tree_at(workspace.repo, tip).files.values()}
    in_sync = []
    for path, line in find_lines(workspace.repo, tip, IN_SYNC)[:MAX_COMMENTS]:
        if path not in paths or not COMMENT.match(line) or is_unsafe(line):
            continue
        partner = _find_named_file(path, line, paths)
        if partner is not None:
            in_sync.append((path, partner, shorten(line.strip(" \t#/*-;"), QUOTED)))
    return in_sync


def _find_named_file(path: str, line: str, paths: Collection[str]) -> str | None:
    """Return the first other file that a line names, from the root or relative to its own file."""
    for name in PATH.findall(line):
        relative_path = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        for candidate in (name, relative_path):
            if candidate in paths and candidate != path:
                return candidate
    return None


def _changelog_of(path: str) -> str:
    """Return the changelog that a path is, or the directory of its fragments; else ""."""
    directory, _, name = path.rpartition("/")
    if FRAGMENTS.fullmatch(directory.rpartition("/")[2]):
        return f"{directory}/"
    return path if CHANGELOG.match(name) else ""


def list_tasks(
    workspace: Workspace, ledger: Ledger, tip: str
) -> tuple[tuple[Task, ...], PromptIndex]:
    """Return the tasks of a ledger as of a commit, and their prompts in the same order."""
    undone = list_undone(find_reverts(ledger.commits))
    files = tree_at(workspace.repo, tip).files.values()
    present = frozenset(readable_path(file) for file in files)
    outcomes = EpisodeOutcomes(ledger.heard.values())

    tasks = []
    for done in ledger.done:
        task = _build_task(done, undone, present, ledger.renames)
        tasks.append(outcomes.judge(task, done))
    declined = list(_list_declined(ledger, outcomes.by_number))
    tasks += [_build_task(done, undone, present, ledger.renames) for done in declined]
    return tuple(tasks), build_prompts([done.terms for done in (*ledger.done, *declined)])


def _list_declined(ledger: Ledger, episodes: Mapping[int, Episode]) -> Iterator[Done]:
    """Yield the requests that were closed unmerged, without texts that must not be served.

    Episodes of one session alone are left out, because tasks are shown to everybody.
    """
    merged_numbers = {done.number for done in ledger.done}
    for number, episode in episodes.items():
        is_private = bool(episode.context.get("session"))
        if not _is_declined(episode) or number in merged_numbers or is_private:
            continue
        title = episode.situation.summary or episode.text
        branch = episode.context.get("branch", "")
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


def _build_task(
    done: Done, undone: Mapping[str, str], present: Collection[str], renames: Mapping[str, str]
) -> Task:
    is_merged = bool(done.shas)
    outcome: Outcome = "failure"
    why = ""  # a declined change needs no further reason
    if is_merged:
        outcome, why = judge_outcome(done.shas, done.number, done.mended_in, undone)

    paths = []
    for path in done.files:
        present_path = path if path in present else follow_renames(path, renames, present)
        if present_path is not None:
            paths.append(present_path)
    return Task(
        sha=done.shas[-1] if is_merged else "",
        title=done.title,
        merged_on=done.merged_on,
        number=done.number,
        branch=done.branch,
        files=len(done.files),
        still=len(paths),
        outcome=outcome,
        why=why,
        is_merged=is_merged,
        quote=done.quote,
        # Files of code come before tests, and both before other files.
        touched=tuple(sorted(paths, key=_touched_key)[:TOUCHED]),
    )


def _touched_key(path: str) -> tuple[bool, bool]:
    return path.endswith(PROSE), "test" in path


def _is_task(workspace: Workspace, change: MergedChange, reverting: Collection[str]) -> bool:
    """Return whether a change is work that somebody may do again.

    Reverts, and changes of bots and of memory-ci are not, and unsafe texts are left out.
    """
    title = title_of(change)
    commits = own_commits(change)
    is_branch_merge = title != change.title and len(commits) > 1  # git's merge of a whole branch
    if title == "" or is_branch_merge or is_revert([commit.sha for commit in commits], reverting):
        return False
    if not is_work(workspace, change) or is_routine(title):
        return False
    return not is_unsafe(f"{title}\n{find_branch(change.tip.message)}")


def _build_done(change: MergedChange) -> Done:
    title = title_of(change)
    prose = mask_secrets("\n\n".join(prose_of(commit) for commit in change.commits))
    files = _list_remaining_files(change)
    return Done(
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
    """Return the first long paragraph below the subjects of a change, cut at a word."""
    for paragraph in list_paragraphs(list_prose((change.tip, *change.commits))):
        if len(paragraph) >= LEAST_QUOTED and paragraph != change.title:
            quote = shorten(paragraph, QUOTED)
            return "" if is_unsafe(quote) else quote
    return ""


def _weigh_terms(title: str, prose: str, files: Iterable[str]) -> dict[str, float]:
    """Weigh terms by how often they occur.

    Terms of the title count twice. Each term of the paths counts half, and once only.
    """
    path_text = " ".join(path.replace("/", " ") for path in islice(files, MAX_PATHS))
    path_terms = dict.fromkeys(count_terms(path_text), 1)
    weights: dict[str, float] = {}
    for terms, weight in ((count_terms(title), 2.0), (count_terms(prose), 1.0), (path_terms, 0.5)):
        for term, count in terms.items():
            weights[term] = weights.get(term, 0.0) + weight * count
    return dict(sorted(weights.items(), key=lambda item: -item[1])[:MAX_TERMS])


def _list_remaining_files(change: MergedChange) -> tuple[str, ...]:
    """Return the files that a change left, by the names they had then.

    Names that hold a credential are left out.
    """
    exists_by_path: dict[str, bool] = {}
    for commit in (change.tip,) if change.kind == "merge" else change.commits:
        for file in commit.files:
            if file.status == "R" and file.old_path:
                exists_by_path[file.old_path] = False
            exists_by_path[file.path] = file.status != "D"
    existing_paths = [path for path, exists in exists_by_path.items() if exists]
    safe_paths = [_readable(path) for path in existing_paths if not find_secrets(path)]
    return tuple(sorted(safe_paths)[:MAX_FILES])


def _readable(path: str) -> str:
    return readable_path(TreeFile(path, ""))
