"""Doctor on memory files, here and on this machine, and on what is derived: index, vectors, the cache of CI."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from memory_ci.commands.check.check import check_memory
from memory_ci.commands.doctor.case import Surroundings, peek_text
from memory_ci.commands.doctor.records import Probe, ProbeState
from memory_ci.commands.setup.agents import list_parts
from memory_ci.commands.setup.install import MADE
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import RepositoryError
from memory_ci.files import read_regular
from memory_ci.gitrepo import history
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.journal import find_unfinished
from memory_ci.gitrepo.repo import find_commit, is_shallow
from memory_ci.memory.eligible import is_setup, is_work
from memory_ci.memory.embedding import load_note
from memory_ci.memory.index import index_key
from memory_ci.memory.screening import screen
from memory_ci.memory.workspace import MAX_FILE_BYTES, index_path, memory_test, readable_path
from memory_ci.records.history import MergedChange
from memory_ci.records.report import Finding
from memory_ci.search.embedders import choose_embedder
from memory_ci.search.glance import glance
from memory_ci.search.vectors import LEAST_COVERAGE
from memory_ci.sessions import checkpoints
from memory_ci.sessions.session_join import SessionFinder
from memory_ci.store.document import load_file
from memory_ci.text import plural

SHOWN = 3  # findings that are named; `memory-ci check` names all
REBUILD = "memory-ci index"
EMBED = "memory-ci index --vectors"
CHOOSE = "Give it what it lacks (`memory-ci help embedders`), or set retrieve.embedder to none."


def check_files(case: Surroundings) -> Iterator[Probe]:
    """Whether there is memory, whether it is committed, and whether all of it can be read and served."""
    report = check_memory(case.workspace, known=case.files)
    if not report.files:
        place = (
            ""
            if case.workspace.repo.root
            else " in a clone that has a work tree, then commit and push"
        )
        yield Probe("memory", "warn", "there are no memory files", f"memory-ci init{place}")
        return
    counted = f"{plural(report.entries, 'entry')} in {plural(report.files, 'file')}"
    yield _judge_findings("memory", report.findings, counted, "memory-ci check")
    # What `init` wrote and no commit has: other clones and CI know nothing of it.
    root, patterns = case.workspace.repo.root, case.workspace.config.scopes
    wanted = [CONFIG_FILE, *patterns.project, *patterns.institutional]
    here = [path for path in wanted if root and (root / path).is_file()]
    committed = tree_at(case.workspace.repo, case.head).files if case.head else ()
    if missing := [path for path in here if path not in committed]:
        remedy = f"git add {' '.join(missing)} && git commit -m 'Add memory'"
        yield Probe("memory", "warn", f"not committed: {', '.join(missing)}", remedy)


def check_interrupted(case: Surroundings) -> Iterator[Probe]:
    """Whether a run was killed after it wrote the files of a work tree and before their branch moved."""
    move = find_unfinished(case.workspace.repo)
    if move is None:
        yield Probe("interrupted", "ok", "no run was cut short")
        return
    what = f"a run was killed while it committed to {move.ref}: files may be written that no commit has"
    remedy = (
        "memory-ci check takes them back, and names those that you changed since; then run again"
    )
    yield Probe("interrupted", "warn", what, remedy)


def check_global(case: Surroundings) -> Iterator[Probe]:
    """The memory of this machine, which every repository is served."""
    written = case.workspace.config.global_.path
    if not written:
        yield Probe("global-memory", "skip", "the configuration reads none (global.path is empty)")
        return
    path = Path(written).expanduser()
    path = path / "MEMORY.md" if path.is_dir() else path
    if not path.exists():
        yield Probe("global-memory", "skip", f"none at {written}")
        return
    try:
        data = read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        remedy = f"Make {written} a regular file that you may read, or set global.path to ''."
        yield Probe("global-memory", "fail", f"{written} cannot be read: {error.strerror}", remedy)
        return
    file = screen(load_file(written, data, case.workspace.config.scopes))
    errors = [finding for finding in file.findings if finding.level == "error"]
    remedy = f"Mend these lines of {written}; what they hold is not served."
    yield _judge_findings(
        "global-memory", errors, f"{plural(len(file.entries), 'entry')} in {written}", remedy
    )


def _judge_findings(name: str, findings: Iterable[Finding], what: str, remedy: str) -> Probe:
    """`what` there is if nothing is amiss; else the errors, or else the warnings."""
    levels: dict[str, ProbeState] = {"error": "fail", "warning": "warn"}
    for level, state in levels.items():
        found = [
            f"{one.path}:{one.line}: {one.message} [{one.code}]"
            for one in findings
            if one.level == level
        ]
        if found:
            more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
            named = "\n".join([*found[:SHOWN], *more])
            return Probe(name, state, f"{plural(len(found), level)}: {named}", remedy)
    return Probe(name, "ok", what)


def check_index(case: Surroundings) -> Iterator[Probe]:
    """Whether the index can be used and kept, and how far it is behind the memory files."""
    path = index_path(case.workspace)
    found, folder = glance(path), next(parent for parent in path.parents if parent.exists())
    is_writable = (
        folder.is_dir()
        and os.access(folder, os.W_OK)
        and (not path.exists() or os.access(path, os.W_OK))
    )
    if not is_writable:
        remedy = f"Make {path.parent} writable."
        yield Probe(
            "index", "warn", f"{path} cannot be written: every retrieval builds its own", remedy
        )
    elif found is None:
        yield Probe("index", "skip", "not built yet: the first retrieval builds it")
    elif not path.is_file():
        what = f"{path} is in the way: every retrieval builds its own"
        yield Probe("index", "warn", what, f"Remove {path}.")
    elif found.fault:
        yield Probe(
            "index",
            "warn",
            f"cannot be used, and is built again by the next call: {found.fault}",
            REBUILD,
        )
    else:
        files = {readable_path(file): file.oid for file in case.files}
        gone = found.oids.keys() - files.keys() - {case.workspace.config.global_.path}
        behind = len(gone) + sum(found.oids.get(path) != oid for path, oid in files.items())
        changed = f"{plural(behind, 'file')} changed since; the next retrieval reads them"
        yield Probe(
            "index",
            "ok",
            f"{plural(len(found.oids), 'file')}; {changed if behind else 'equals the files'}",
        )


def check_vectors(case: Surroundings) -> Iterator[Probe]:
    """Whether words alone are asked, or vectors too, and if not why and since when."""
    choice = choose_embedder(case.workspace.config.retrieve, case.environ)
    if choice.mode == "lexical":
        yield Probe(
            "vectors", "ok", f"no vectors are asked for; words are searched: {choice.reason}"
        )
        return
    note = load_note(case.workspace)
    seen = (
        f"last seen working on {note.worked_on}"
        if note.worked_on
        else "not seen working in this clone yet"
    )
    if choice.embedder is None:
        yield Probe("vectors", "fail", f"words alone are searched: {choice.reason}; {seen}", CHOOSE)
        return
    if case.is_online:
        choice.embedder.embed(["memory"], "query")  # raises what is amiss
    found = glance(index_path(case.workspace))
    have, texts = (found.vectors.get(choice.reason, 0), found.texts) if found else (0, 0)
    if note.failed_on is not None:
        what = f"they fail since {note.failed_on}: {note.reason}; {seen}"
        yield Probe("vectors", "fail", what, f"{EMBED} (it says what is amiss)")
    elif have < LEAST_COVERAGE * texts:
        yield Probe(
            "vectors",
            "warn",
            f"{have} of {texts} entries have vectors of {choice.reason}; {seen}",
            EMBED,
        )
    else:
        yield Probe("vectors", "ok", f"{plural(have, 'vector')} of {choice.reason}; {seen}")


def check_cache(case: Surroundings) -> Iterator[Probe]:
    """The key that a job of CI would look for; whether a job found it is in its own log."""
    if case.head is None:
        yield Probe("cache", "skip", "nothing is committed yet")
        return
    key = index_key(case.workspace, case.head)
    yield Probe("cache", "skip", f"a job restores {key}; whether it was there, its log says")


# -- what was merged: whether sessions are recorded for it, and whether memory has kept up with it

LAST = 10  # merged changes that are asked for their sessions
LOOK_BACK = 60  # first-parent commits in which they are looked for: some are our own
MAX_LAG = 20
MAX_READ = 2_000  # merged changes that are read to count them; of more, all count
CUT = "history is cut off too early to tell"
CAPTURE = (
    "Is the agent's hook run, are its commits on these branches? `memory-ci sessions` lists what agents keep here; "
    "`memory-ci capture FILE` keeps one by hand."
)


def check_history(case: Surroundings) -> Iterator[Probe]:
    """Whether all of history is here."""
    if is_shallow(case.workspace.repo):
        what = "this clone is shallow: nothing older can be recorded, and its code is not judged"
        yield Probe("history", "warn", what, "git fetch --unshallow (in CI: fetch-depth: 0)")
    else:
        yield Probe("history", "ok", "all of it is here")


def check_sessions(case: Surroundings) -> Iterator[Probe]:
    """Whether capture is alive: which of the last merged changes have a session."""
    if not case.workspace.config.sessions.read:
        yield Probe("sessions", "skip", "the configuration says sessions.read: false")
        return
    changes = _last_changes(case)
    if changes is None:
        yield Probe("sessions", "skip", CUT)
        return
    finder = SessionFinder(case.workspace, base=case.tip or "HEAD")
    joined = sum(any(True for _ in finder.find(change, None)) for change in changes)
    stored, since = finder.captured.stored, _find_capture(case)
    newest = max((one.at for one in stored), default=None)
    kept = (
        f"{plural(len(stored), 'session')} kept, the newest of {newest.astimezone(UTC).date()}"
        if newest
        else ""
    )
    of = f"of the last {plural(len(changes), 'merged change')}"
    # To commit the set-up itself is no work.
    late = [
        one
        for one in changes
        if since and one.tip.committed_at >= since and not is_setup(case.workspace, one)
    ]
    if not changes:
        yield Probe("sessions", "skip", "nothing was merged yet" + (f"; {kept}" if kept else ""))
    elif joined:
        has = "has" if joined == 1 else "have"
        yield Probe("sessions", "ok", f"{joined} {of} {has} a session; {kept or 'none kept here'}")
    elif since is not None and not late:
        yield Probe("sessions", "skip", "nothing was merged since capture was set up")
    elif not stored and since is None:
        yield Probe(
            "sessions", "skip", f"none {of} has a session, and nothing captures any (see agents)"
        )
    else:
        what = f"none {of} has a session, though sessions are captured; {kept or 'none kept here'}"
        yield Probe("sessions", "warn", what, CAPTURE)
    yield from _judge_checkpoints(finder)
    for missed in finder.tell_missed():
        remedy = (
            "Name the session in the commit, by our hook or by hand: Memory-Session: <agent>:<id>."
        )
        yield Probe("joining", "warn", missed, remedy)
    for problem in dict.fromkeys(finder.problems):
        yield Probe(
            "sessions",
            "warn",
            problem,
            "Where sessions are kept and fetched from: `memory-ci help sessions`.",
        )


def _judge_checkpoints(finder: SessionFinder) -> Iterator[Probe]:
    """Say what becomes of the checkpoints of Entire that no commit names, if there are any."""
    if finder.unnamed and finder.unnamed.unnamed and (what := finder.unnamed.survey()):
        yield Probe("checkpoints", "warn", what, checkpoints.HINT)


def _find_capture(case: Surroundings) -> datetime | None:
    """Since when an agent's hook captures sessions, as far as files tell; None where none does. Agents write their
    settings again and again: where `install` made them, its note of that is as old as the hook."""
    repo = case.workspace.repo
    if repo.root is None:
        return None
    note = repo.git_dir / MADE
    made = peek_text(note).splitlines()
    hooked = [found.path for found in list_parts(repo.root) if found.part.name == "hooks"]
    files = [*hooked, *([note] if any(str(path) in made for path in hooked) else [])]
    return min((datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in files), default=None)


def _last_changes(case: Surroundings) -> Sequence[MergedChange] | None:
    """The newest merged changes that are work; None where a shallow clone does not hold enough history."""
    repo, tip = case.workspace.repo, case.tip
    if tip is None:
        return ()
    try:
        recent = history.plan_range(repo, find_commit(repo, f"{tip}~{LOOK_BACK}"), tip)
    except RepositoryError as error:
        if error.slug == "shallow-clone":
            return None
        raise
    return [
        change
        for change in history.iter_merged_changes(repo, recent)
        if is_work(case.workspace, change)
    ][-LAST:]


def check_cursor(case: Surroundings) -> Iterator[Probe]:
    """How many merged changes wait to be recorded, and whether the place where the last run ended is still there."""
    repo, tip = case.workspace.repo, case.tip
    if tip is None:
        yield Probe("recorded", "skip", "nothing is committed yet")
        return
    is_memory, is_cut, waiting = memory_test(case.workspace), is_shallow(repo), 0
    cursor = history.find_cursor(repo, tip, is_memory)
    # Of a shallow clone the source may be before its begin, and its oldest commit seems to add everything.
    if not is_cut and (lost := history.find_lost_cursor(repo, tip, cursor, is_memory)):
        what = f"the last run ended at {lost.source[:12]}, which the branch does not hold: it was rewritten"
        yield Probe("recorded", "fail", what, f"memory-ci record --since {lost.commit[:12]}")
        return
    since = (
        cursor.source
        if cursor
        else None
        if is_cut
        else history.find_addition(repo, tip, CONFIG_FILE)
    )
    try:
        waiting = _count_waiting(case, since, tip) if since else 0
    except RepositoryError as error:
        if error.slug != "shallow-clone":
            raise
        is_cut, since = True, None
    if since is None:
        nothing = "no commit holds a configuration yet, so there is nothing to record from"
        yield Probe("recorded", "skip", CUT if is_cut else nothing)
    else:
        yield _judge_lag(waiting, has_run=cursor is not None)


def _judge_lag(waiting: int, *, has_run: bool) -> Probe:
    waits = f"{plural(waiting, 'merged change')} {'waits' if waiting == 1 else 'wait'}"
    if not has_run and waiting:
        return Probe(
            "recorded", "warn", f"nothing was recorded yet, and {waits}", "memory-ci record"
        )
    if waiting > MAX_LAG:
        return Probe(
            "recorded",
            "warn",
            f"{waits} since the last record",
            "memory-ci record (or mend the job of CI)",
        )
    return Probe(
        "recorded",
        "ok",
        f"{waits} to be recorded" if waiting else "everything that was merged is recorded",
    )


def _count_waiting(case: Surroundings, since: str, tip: str) -> int:
    waiting = history.plan_range(case.workspace.repo, since, tip)
    if waiting.change_count > MAX_READ:
        return waiting.change_count
    return sum(
        is_work(case.workspace, change)
        for change in history.iter_merged_changes(case.workspace.repo, waiting)
    )
