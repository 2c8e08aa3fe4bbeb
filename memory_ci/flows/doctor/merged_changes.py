"""Doctor on what was merged: whether sessions are recorded for it, and whether memory has kept up with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError
from memory_ci.flows.doctor.case import Surroundings, peek_text
from memory_ci.flows.eligible import is_setup, is_work
from memory_ci.flows.sessions.session_join import SessionFinder
from memory_ci.flows.setup.agents import list_parts
from memory_ci.flows.setup.install import MADE
from memory_ci.flows.workspace import memory_test
from memory_ci.gitrepo.history import (
    Cursor,
    find_addition,
    find_cursor,
    find_lost_cursor,
    iter_merged_changes,
    plan_range,
)
from memory_ci.gitrepo.repo import find_commit, is_shallow
from memory_ci.gitrepo.sessionrefs import StoredSession
from memory_ci.records.health import Probe
from memory_ci.records.history import MergedChange
from memory_ci.text import plural

LAST = 10
"""Merged changes that are asked for their sessions."""

LOOK_BACK = 60
"""First-parent commits in which they are looked for: some are our own."""

MAX_LAG = 20
MAX_READ = 2_000
"""Merged changes that are read to count them; of more, all count."""

CUT = "history is cut off too early to tell"


def check_history(case: Surroundings) -> Iterator[Probe]:
    """Whether all of history is here."""
    if is_shallow(case.workspace.repo):
        what = "this clone is shallow: nothing older can be recorded, and its code is not judged"
        yield Probe("history", "warn", what, "git fetch --unshallow (in CI: fetch-depth: 0)")
    else:
        yield Probe("history", "ok", "all of it is here")


# -- sessions


def check_sessions(case: Surroundings) -> Iterator[Probe]:
    """Whether capture is alive: which of the last merged changes have a session."""
    if not case.workspace.config.sessions.read:
        yield Probe("sessions", "skip", "the configuration says sessions.read: false")
        return
    changes = _last_changes(case)
    if changes is None:
        yield Probe("sessions", "skip", CUT)
        return
    finder = SessionFinder(case.workspace)
    joined = sum(any(True for _ in finder.find(change, None)) for change in changes)
    since = _find_capture(case)
    if since is not None and changes and not joined and not _merged_since(case, changes, since):
        yield Probe("sessions", "skip", "nothing was merged since capture was set up")
    else:
        yield _judge_sessions(finder.captured.stored, joined, len(changes), is_capturing=since is not None)
    for missed in finder.tell_missed():
        remedy = "Name the session in the commit, by our hook or by hand: Memory-Session: <agent>:<id>."
        yield Probe("joining", "warn", missed, remedy)
    for problem in dict.fromkeys(finder.problems):
        yield Probe("sessions", "warn", problem, "Where sessions are kept and fetched from: `memory-ci help sessions`.")


def _judge_sessions(stored: Sequence[StoredSession], joined: int, count: int, *, is_capturing: bool) -> Probe:
    newest = max((one.at for one in stored), default=None)
    kept = f"{plural(len(stored), 'session')} kept, the newest of {newest.astimezone(UTC).date()}" if newest else ""
    if not count:
        return Probe("sessions", "skip", "nothing was merged yet" + (f"; {kept}" if kept else ""))
    of = f"of the last {plural(count, 'merged change')}"
    if joined:
        return Probe(
            "sessions", "ok", f"{joined} {of} {'has' if joined == 1 else 'have'} a session; {kept or 'none kept here'}"
        )
    if not stored and not is_capturing:
        return Probe("sessions", "skip", f"none {of} has a session, and nothing captures any (see agents)")
    remedy = (
        "Is the agent's hook run, are its commits on these branches? `memory-ci sessions` lists what agents keep here; "
        "`memory-ci capture FILE` keeps one by hand."
    )
    return Probe(
        "sessions", "warn", f"none {of} has a session, though sessions are captured; {kept or 'none kept here'}", remedy
    )


def _find_capture(case: Surroundings) -> datetime | None:
    """Since when an agent's hook captures sessions, as far as files tell; None where none does.

    Agents write their settings again and again: where `install` made them, its note of that is as old as the hook.
    """
    repo = case.workspace.repo
    if repo.root is None:
        return None
    note = repo.git_dir / MADE
    made = peek_text(note).splitlines()
    hooked = [found.path for found in list_parts(repo.root) if found.part.name == "hooks"]
    files = [*hooked, *([note] if any(str(path) in made for path in hooked) else [])]
    return min((datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in files), default=None)


def _merged_since(case: Surroundings, changes: Sequence[MergedChange], since: datetime) -> bool:
    """Whether there was work since then; to commit the set-up itself is none."""
    return any(one.tip.committed_at >= since and not is_setup(case.workspace, one) for one in changes)


def _last_changes(case: Surroundings) -> Sequence[MergedChange] | None:
    """The newest merged changes that are work; None where a shallow clone does not hold enough history."""
    repo, tip = case.workspace.repo, case.tip
    if tip is None:
        return ()
    try:
        recent = plan_range(repo, find_commit(repo, f"{tip}~{LOOK_BACK}"), tip)
    except RepositoryError as error:
        if error.slug == "shallow-clone":
            return None
        raise
    return [change for change in iter_merged_changes(repo, recent) if is_work(case.workspace, change)][-LAST:]


# -- the cursor


def check_cursor(case: Surroundings) -> Iterator[Probe]:
    """How many merged changes wait to be recorded, and whether the place where the last run ended is still there."""
    repo, tip = case.workspace.repo, case.tip
    if tip is None:
        yield Probe("recorded", "skip", "nothing is committed yet")
        return
    is_memory = memory_test(case.workspace)
    cursor = find_cursor(repo, tip, is_memory)
    # Of a shallow clone the source may be before its begin.
    lost = None if is_shallow(repo) else find_lost_cursor(repo, tip, cursor, is_memory)
    if lost:
        what = f"the last run ended at {lost.source[:12]}, which the branch does not hold: it was rewritten"
        yield Probe("recorded", "fail", what, f"memory-ci record --since {lost.commit[:12]}")
    else:
        yield _find_lag(case, tip, cursor)


def _find_lag(case: Surroundings, tip: str, cursor: Cursor | None) -> Probe:
    repo = case.workspace.repo
    if cursor is None and is_shallow(repo):  # its oldest commit seems to add everything
        return Probe("recorded", "skip", CUT)
    since = cursor.source if cursor else find_addition(repo, tip, CONFIG_FILE)
    if since is None:
        return Probe("recorded", "skip", "no commit holds a configuration yet, so there is nothing to record from")
    try:
        return _judge_lag(_count_waiting(case, since, tip), has_run=cursor is not None)
    except RepositoryError as error:
        if error.slug != "shallow-clone":
            raise
        return Probe("recorded", "skip", CUT)


def _judge_lag(waiting: int, *, has_run: bool) -> Probe:
    waits = f"{plural(waiting, 'merged change')} {'waits' if waiting == 1 else 'wait'}"
    if not has_run and waiting:
        return Probe("recorded", "warn", f"nothing was recorded yet, and {waits}", "memory-ci record")
    if waiting > MAX_LAG:
        return Probe("recorded", "warn", f"{waits} since the last record", "memory-ci record (or mend the job of CI)")
    return Probe("recorded", "ok", f"{waits} to be recorded" if waiting else "everything that was merged is recorded")


def _count_waiting(case: Surroundings, since: str, tip: str) -> int:
    waiting = plan_range(case.workspace.repo, since, tip)
    if waiting.change_count > MAX_READ:
        return waiting.change_count
    return sum(is_work(case.workspace, change) for change in iter_merged_changes(case.workspace.repo, waiting))
