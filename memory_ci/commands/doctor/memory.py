"""Checks of `memory-ci doctor` on memory files, their index, captured sessions, recorded work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from memory_ci.commands.check.check import check_memory
from memory_ci.commands.doctor.context import DoctorContext, peek_text
from memory_ci.commands.doctor.records import Probe, ProbeState
from memory_ci.commands.setup.agents import list_parts
from memory_ci.commands.setup.install import MADE_FILE
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.gitrepo import history, record_commits
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.journal import find_unfinished
from memory_ci.gitrepo.repo import find_commit, is_shallow
from memory_ci.memory.eligible import is_setup, is_work
from memory_ci.memory.embedding import load_embedder_note
from memory_ci.memory.index import index_key
from memory_ci.memory.screening import screen_file
from memory_ci.memory.workspace import MAX_FILE_BYTES, build_memory_test, index_path, readable_path
from memory_ci.records.history import MergedChange
from memory_ci.records.report import Finding
from memory_ci.search.embedders import choose_embedder
from memory_ci.search.glance import Glance, glance
from memory_ci.search.vectors import MIN_COVERAGE
from memory_ci.sessions import checkpoints, session_join
from memory_ci.sessions.session_join import SessionFinder
from memory_ci.store.memory_files import load_file
from memory_ci.text import plural

MAX_NAMED_FINDINGS = 3  # findings that are named; `memory-ci check` names all
REBUILD_COMMAND = "memory-ci index"
EMBED_COMMAND = "memory-ci index --vectors"
EMBEDDER_REMEDY = (
    "Give it what it lacks (`memory-ci help models#embedders`), or set retrieve.embedder to none."
)


# -- memory files


def check_files(context: DoctorContext) -> Iterator[Probe]:
    """Check that there is memory, that it can be read and served, and that it is committed."""
    repo = context.workspace.repo
    report = check_memory(context.workspace, view_files=context.files)
    if not report.files:
        remedy = "memory-ci init"
        if repo.root is None:
            remedy += " in a clone that has a work tree, then commit and push"
        yield Probe("memory", "warn", "there are no memory files", remedy)
        return
    count = f"{plural(report.entries, 'entry')} in {plural(report.files, 'file')}"
    yield _judge_findings("memory", report.findings, count, "memory-ci check")

    # Other clones and CI do not have files that are not committed.
    patterns = context.workspace.config.scopes
    paths = [CONFIG_FILE, *patterns.project, *patterns.institutional]
    committed_paths = tree_at(repo, context.head).files if context.head else ()
    uncommitted_paths = []
    for path in paths:
        if repo.root and (repo.root / path).is_file() and path not in committed_paths:
            uncommitted_paths.append(path)
    if uncommitted_paths:
        remedy = f"git add {' '.join(uncommitted_paths)} && git commit -m 'Add memory'"
        yield Probe("memory", "warn", f"not committed: {', '.join(uncommitted_paths)}", remedy)


def check_interrupted(context: DoctorContext) -> Iterator[Probe]:
    """Check whether a run was killed after it wrote files and before it moved its branch.

    The files of such a run are in the work tree, and in no commit.
    """
    move = find_unfinished(context.workspace.repo)
    if move is None:
        yield Probe("interrupted", "ok", "no run was cut short")
        return
    message = (
        f"a run was killed while it committed to {move.ref}: "
        "files may be written that no commit has"
    )
    remedy = (
        "memory-ci check takes them back, and names those that you changed since; then run again"
    )
    yield Probe("interrupted", "warn", message, remedy)


def check_global(context: DoctorContext) -> Iterator[Probe]:
    """Check the memory of this machine, which is served in every repository."""
    configured_path = context.workspace.config.global_.path
    if not configured_path:
        yield Probe("global-memory", "skip", "the configuration reads none (global.path is empty)")
        return
    path = Path(configured_path).expanduser()
    if path.is_dir():
        path /= "MEMORY.md"
    if not path.exists():
        yield Probe("global-memory", "skip", f"none at {configured_path}")
        return
    try:
        data = read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        message = f"{configured_path} cannot be read: {error.strerror}"
        remedy = (
            f"Make {configured_path} a regular file that you may read, or set global.path to ''."
        )
        yield Probe("global-memory", "fail", message, remedy)
        return

    file = screen_file(load_file(configured_path, data, context.workspace.config.scopes))
    errors = [finding for finding in file.findings if finding.level == "error"]
    message = f"{plural(len(file.entries), 'entry')} in {configured_path}"
    remedy = f"Mend these lines of {configured_path}; what they hold is not served."
    yield _judge_findings("global-memory", errors, message, remedy)


def _judge_findings(name: str, findings: Iterable[Finding], message: str, remedy: str) -> Probe:
    """Return a probe that names the first errors among findings, else the first warnings.

    Args:
        name: the name of the check.
        findings: the findings.
        message: the words of the probe if there is neither.
        remedy: the remedy for errors and warnings.
    """
    levels: dict[str, ProbeState] = {"error": "fail", "warning": "warn"}
    for level, state in levels.items():
        lines = []
        for finding in findings:
            if finding.level == level:
                place = f"{finding.path}:{finding.line}"
                lines.append(f"{place}: {finding.message} [{finding.code}]")
        if not lines:
            continue
        text = "\n".join(lines[:MAX_NAMED_FINDINGS])
        if len(lines) > MAX_NAMED_FINDINGS:
            text += f"\nand {len(lines) - MAX_NAMED_FINDINGS} more"
        return Probe(name, state, f"{plural(len(lines), level)}: {text}", remedy)
    return Probe(name, "ok", message)


# -- derived data


def check_index(context: DoctorContext) -> Iterator[Probe]:
    """Check that the search index can be read and written, and count the files it lacks.

    An index that is missing or cannot be used is no failure: a retrieval builds one.
    """
    path = index_path(context.workspace)
    index = glance(path)
    if not _is_file_writable(path):
        message = f"{path} cannot be written: every retrieval builds its own"
        yield Probe("index", "warn", message, f"Make {path.parent} writable.")
    elif index is None:
        yield Probe("index", "skip", "not built yet: the first retrieval builds it")
    elif not path.is_file():
        message = f"{path} is in the way: every retrieval builds its own"
        yield Probe("index", "warn", message, f"Remove {path}.")
    elif index.fault:
        message = f"cannot be used, and is built again by the next call: {index.fault}"
        yield Probe("index", "warn", message, REBUILD_COMMAND)
    else:
        changed_count = _count_changed_files(context, index)
        difference = "equals the files"
        if changed_count:
            difference = (
                f"{plural(changed_count, 'file')} changed since; the next retrieval reads them"
            )
        indexed_files = plural(len(index.oids), "file")  # the index has an object id of each
        yield Probe("index", "ok", f"{indexed_files}; {difference}")


def _is_file_writable(path: Path) -> bool:
    """Return whether a file can be written, or created in the nearest directory that exists."""
    folder = next(parent for parent in path.parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return False
    return not path.exists() or os.access(path, os.W_OK)


def _count_changed_files(context: DoctorContext, index: Glance) -> int:
    """Return the number of memory files that differ from those in the index, or are gone."""
    oid_by_path = {readable_path(file): file.oid for file in context.files}
    global_path = context.workspace.config.global_.path  # in the index, and not in the work tree
    gone_paths = index.oids.keys() - oid_by_path.keys() - {global_path}
    changed_paths = [path for path, oid in oid_by_path.items() if index.oids.get(path) != oid]
    return len(gone_paths) + len(changed_paths)


def check_vectors(context: DoctorContext) -> Iterator[Probe]:
    """Check whether the search uses vectors and, if not, why and since when."""
    choice = choose_embedder(context.workspace.config.retrieve, context.environ)
    if choice.mode == "lexical":
        message = f"no vectors are asked for; words are searched: {choice.reason}"
        yield Probe("vectors", "ok", message)
        return
    note = load_embedder_note(context.workspace)
    last_use = "not seen working in this clone yet"
    if note.worked_on:
        last_use = f"last seen working on {note.worked_on}"
    if choice.embedder is None:
        message = f"words alone are searched: {choice.reason}; {last_use}"
        yield Probe("vectors", "fail", message, EMBEDDER_REMEDY)
        return

    if context.is_online:
        choice.embedder.embed(["memory"], "query")  # raises a MemoryCIError if it fails
    index = glance(index_path(context.workspace))
    embedder_name = choice.reason  # The index has its vectors under this name.
    vector_count = index.vectors.get(embedder_name, 0) if index else 0
    entry_count = index.texts if index else 0
    if note.failed_on is not None:
        message = f"they fail since {note.failed_on}: {note.reason}; {last_use}"
        yield Probe("vectors", "fail", message, f"{EMBED_COMMAND} (it says what is amiss)")
    elif vector_count < MIN_COVERAGE * entry_count:
        count = f"{vector_count} of {entry_count} entries"
        message = f"{count} have vectors of {embedder_name}; {last_use}"
        yield Probe("vectors", "warn", message, EMBED_COMMAND)
    else:
        message = f"{plural(vector_count, 'vector')} of {embedder_name}; {last_use}"
        yield Probe("vectors", "ok", message)


def check_cache(context: DoctorContext) -> Iterator[Probe]:
    """Report the cache key that a job of CI would restore."""
    if context.head is None:
        yield Probe("cache", "skip", "nothing is committed yet")
        return
    key = index_key(context.workspace, context.head)
    yield Probe("cache", "skip", f"a job restores {key}; whether it was there, its log says")


# -- merged changes: their sessions, and how far memory is behind them

MAX_CHANGES = 10  # merged changes whose sessions are looked for
MAX_SEARCHED_COMMITS = 60  # first-parent commits that are searched for them: some are our own
MAX_LAG = 20  # merged changes
MAX_COUNTED_CHANGES = 2_000  # merged changes that are read to count the work; of more, all count
CUT_HISTORY = "history is cut off too early to tell"
CAPTURE_REMEDY = (
    "Is the agent's hook run, are its commits on these branches? "
    "`memory-ci sessions` lists what agents keep here; "
    "`memory-ci sessions --capture FILE` keeps one by hand."
)


def check_history(context: DoctorContext) -> Iterator[Probe]:
    """Check that the clone is not shallow."""
    if is_shallow(context.workspace.repo):
        message = "this clone is shallow: nothing older can be recorded, and its code is not judged"
        yield Probe("history", "warn", message, "git fetch --unshallow (in CI: fetch-depth: 0)")
    else:
        yield Probe("history", "ok", "all of it is here")


def check_sessions(context: DoctorContext) -> Iterator[Probe]:
    """Check that sessions are captured, and which of the last merged changes have one."""
    if not context.workspace.config.sessions.read:
        yield Probe("sessions", "skip", "the configuration says sessions.read: false")
        return
    changes = _list_last_changes(context)
    if changes is None:
        yield Probe("sessions", "skip", CUT_HISTORY)
        return

    finder = SessionFinder(context.workspace, base=context.tip or "HEAD")
    joined_count = 0
    for change in changes:
        has_session = any(True for _ in finder.find_sessions(change, None))
        joined_count += has_session
    yield _judge_session_capture(context, finder, changes, joined_count)
    yield from _report_unjoined_sessions(finder)


def _judge_session_capture(
    context: DoctorContext,
    finder: SessionFinder,
    changes: Sequence[MergedChange],
    joined_count: int,
) -> Probe:
    """Return how many merged changes have a captured session.

    That none has one is a fault only if capture was set up, and work was merged since.

    Args:
        context: the repository and the machine.
        finder: the captured sessions.
        changes: the last merged changes.
        joined_count: the number of these changes that have a session.
    """
    capture_start = _find_capture_start(context)
    sessions = finder.captured.stored
    stored_note = "none kept here"
    if sessions:
        newest_day = max(session.ended_at for session in sessions).astimezone(UTC).date()
        stored_note = f"{plural(len(sessions), 'session')} kept, the newest of {newest_day}"
    if not changes:
        message = "nothing was merged yet"
        if sessions:
            message += f"; {stored_note}"
        return Probe("sessions", "skip", message)

    of_changes = f"of the last {plural(len(changes), 'merged change')}"
    if joined_count:
        has = "has" if joined_count == 1 else "have"
        message = f"{joined_count} {of_changes} {has} a session; {stored_note}"
        return Probe("sessions", "ok", message)

    if capture_start is not None and not _has_work_since(context, changes, capture_start):
        return Probe("sessions", "skip", "nothing was merged since capture was set up")
    if not sessions and capture_start is None:
        message = f"none {of_changes} has a session, and nothing captures any (see agents)"
        return Probe("sessions", "skip", message)
    message = f"none {of_changes} has a session, though sessions are captured; {stored_note}"
    return Probe("sessions", "warn", message, CAPTURE_REMEDY)


def _has_work_since(
    context: DoctorContext, changes: Sequence[MergedChange], since: datetime
) -> bool:
    """Return whether work was merged since a time.

    The commit that set memory-ci up does not count as work.
    """
    return any(
        change.tip.committed_at >= since and not is_setup(context.workspace, change)
        for change in changes
    )


def _report_unjoined_sessions(finder: SessionFinder) -> Iterator[Probe]:
    """Report captured sessions that could not be read, or that belong to no merged change.

    A session is joined with the merged change that holds its work. A session whose branch is not
    merged yet is no fault.
    """
    yield from _report_unnamed_checkpoints(finder)
    for unjoined_message in finder.describe_unjoined():
        yield Probe("joining", "warn", unjoined_message, session_join.HINT)
    unmerged_message = finder.describe_unmerged_sessions()
    if unmerged_message:
        yield Probe("unmerged", "ok", unmerged_message)
    for problem in dict.fromkeys(finder.problems):
        remedy = "Where sessions are kept and fetched from: `memory-ci help agents`."
        yield Probe("sessions", "warn", problem, remedy)


def _report_unnamed_checkpoints(finder: SessionFinder) -> Iterator[Probe]:
    """Report the checkpoints of Entire that no commit names."""
    if not (finder.unnamed_checkpoints and finder.unnamed_checkpoints.summaries):
        return
    summary = finder.unnamed_checkpoints.join_whole_history()
    if summary:
        yield Probe("checkpoints", "warn", summary, checkpoints.HINT)


def _find_capture_start(context: DoctorContext) -> datetime | None:
    """Return since when a hook of an agent captures sessions, None if no hook does.

    It is the time of the oldest settings file with such a hook. An agent may write its settings
    often, which makes their time too late. So the file in which `init --clone` lists its results
    counts, too, if it names one of the settings files.
    """
    repo = context.workspace.repo
    if repo.root is None:
        return None
    install_note = repo.git_dir / MADE_FILE
    noted_paths = peek_text(install_note).splitlines()
    files = [found.path for found in list_parts(repo.root) if found.part.name == "hooks"]
    if any(str(path) in noted_paths for path in files):
        files.append(install_note)
    times = [datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in files]
    return min(times, default=None)


def _list_last_changes(context: DoctorContext) -> Sequence[MergedChange] | None:
    """Return the newest merged changes of people and agents, oldest first.

    Returns:
        The changes; None if a shallow clone lacks them.
    """
    repo = context.workspace.repo
    if context.tip is None:
        return ()
    try:
        base = find_commit(repo, f"{context.tip}~{MAX_SEARCHED_COMMITS}")
        commit_range = history.plan_range(repo, base, context.tip)
    except RepositoryError as error:
        if error.slug == "shallow-clone":
            return None
        raise
    changes = history.iter_merged_changes(repo, commit_range)
    work = [change for change in changes if is_work(context.workspace, change)]
    return work[-MAX_CHANGES:]


def check_cursor(context: DoctorContext) -> Iterator[Probe]:
    """Count the merged changes that `record` has not read yet.

    The cursor is the commit up to which the last run has read.
    """
    repo = context.workspace.repo
    tip = context.tip
    if tip is None:
        yield Probe("recorded", "skip", "nothing is committed yet")
        return
    is_memory = build_memory_test(context.workspace)
    is_clone_shallow = is_shallow(repo)
    search = record_commits.search_cursors(repo, tip, is_memory)
    cursor = search.cursor
    start = cursor.source if cursor else None

    # Not in a shallow clone: it may lack the cursor, and its oldest commit seems to add every file.
    if not is_clone_shallow:
        lost_cursor = search.lost
        if lost_cursor:
            message = (
                f"the last run ended at {lost_cursor.source[:12]}, which the branch does not hold: "
                "it was rewritten"
            )
            remedy = f"memory-ci record --since {lost_cursor.commit[:12]}"
            yield Probe("recorded", "fail", message, remedy)
            return
        if cursor is None:
            start = history.find_addition(repo, tip, CONFIG_FILE)

    if start is None and not is_clone_shallow:
        message = "no commit holds a configuration yet, so there is nothing to record from"
        yield Probe("recorded", "skip", message)
        return
    waiting_count = _count_waiting_changes(context, start, tip) if start else None
    if waiting_count is None:
        yield Probe("recorded", "skip", CUT_HISTORY)
    else:
        yield _judge_lag(waiting_count, has_run=cursor is not None)


def _judge_lag(waiting_count: int, *, has_run: bool) -> Probe:
    """Return whether too many merged changes wait to be recorded.

    Args:
        waiting_count: the number of the changes.
        has_run: `record` was run before.
    """
    verb = "waits" if waiting_count == 1 else "wait"
    waits = f"{plural(waiting_count, 'merged change')} {verb}"
    if not has_run and waiting_count:
        message = f"nothing was recorded yet, and {waits}"
        return Probe("recorded", "warn", message, "memory-ci record")
    if waiting_count > MAX_LAG:
        remedy = "memory-ci record (or mend the job of CI)"
        return Probe("recorded", "warn", f"{waits} since the last record", remedy)
    if waiting_count:
        return Probe("recorded", "ok", f"{waits} to be recorded")
    return Probe("recorded", "ok", "everything that was merged is recorded")


def _count_waiting_changes(context: DoctorContext, start: str, tip: str) -> int | None:
    """Return the number of merged changes of people and agents between two commits.

    Returns:
        The number; None if a shallow clone lacks some of the commits.
    """
    try:
        commit_range = history.plan_range(context.workspace.repo, start, tip)
        if commit_range.change_count > MAX_COUNTED_CHANGES:
            return commit_range.change_count
        changes = history.iter_merged_changes(context.workspace.repo, commit_range)
        return sum(is_work(context.workspace, change) for change in changes)
    except RepositoryError as error:
        if error.slug == "shallow-clone":
            return None
        raise
