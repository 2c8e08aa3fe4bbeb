"""Doctor on memory files, here and on this machine, and on what is derived: index, vectors, the cache of CI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_ci.config import CONFIG_FILE
from memory_ci.files import read_regular
from memory_ci.flows.doctor.case import Surroundings
from memory_ci.flows.guard.check import check_memory
from memory_ci.flows.index import index_key
from memory_ci.flows.screening import screen
from memory_ci.flows.serve.embedding import LaneNote, load_note
from memory_ci.flows.workspace import MAX_FILE_BYTES, index_path, readable_path
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.journal import find_unfinished
from memory_ci.index.embedders import EmbedderChoice, choose_embedder
from memory_ci.index.glance import Glance, glance
from memory_ci.index.vectors import LEAST_COVERAGE
from memory_ci.records.health import Probe
from memory_ci.records.report import Finding
from memory_ci.store.document import load_file
from memory_ci.text import plural

SHOWN = 3
"""Findings that are named; `memory-ci check` names all."""

REBUILD = "memory-ci index"
EMBED = "memory-ci index --vectors"
CHOOSE = "Give it what it lacks (`memory-ci help embedders`), or set retrieve.embedder to none."


def check_files(case: Surroundings) -> Iterator[Probe]:
    """Whether there is memory, whether it is committed, and whether all of it can be read and served."""
    report = check_memory(case.workspace, known=case.files)
    if not report.files:
        place = "" if case.workspace.repo.root else " in a clone that has a work tree, then commit and push"
        yield Probe("memory", "warn", "there are no memory files", f"memory-ci init{place}")
        return
    counted = f"{plural(report.entries, 'entry')} in {plural(report.files, 'file')}"
    errors = [finding for finding in report.findings if finding.level == "error"]
    warnings = [finding for finding in report.findings if finding.level == "warning"]
    if errors:
        yield Probe("memory", "fail", f"{plural(len(errors), 'error')}: {_name(errors)}", "memory-ci check")
    elif warnings:
        yield Probe("memory", "warn", f"{plural(len(warnings), 'warning')}: {_name(warnings)}", "memory-ci check")
    else:
        yield Probe("memory", "ok", counted)
    if missing := _uncommitted(case):
        remedy = f"git add {' '.join(missing)} && git commit -m 'Add memory'"
        yield Probe("memory", "warn", f"not committed: {', '.join(missing)}", remedy)


def check_interrupted(case: Surroundings) -> Iterator[Probe]:
    """Whether a run was ended after it moved a branch and before the files of its work tree followed."""
    move = find_unfinished(case.workspace.repo)
    if move is None:
        yield Probe("interrupted", "ok", "no run was cut short")
        return
    what = f"a run was cut short: {move.ref} is at {move.new[:12]}, and files of its work trees are not"
    yield Probe(
        "interrupted", "warn", what, "memory-ci check brings them along, and names those that you changed since"
    )


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
    if errors:
        remedy = f"Mend these lines of {written}; what they hold is not served."
        yield Probe("global-memory", "fail", f"{plural(len(errors), 'error')}: {_name(errors)}", remedy)
    else:
        yield Probe("global-memory", "ok", f"{plural(len(file.entries), 'entry')} in {written}")


def _name(findings: list[Finding]) -> str:
    named = [f"{finding.path}:{finding.line}: {finding.message} [{finding.code}]" for finding in findings[:SHOWN]]
    return "\n".join([*named, *([f"and {len(findings) - SHOWN} more"] if len(findings) > SHOWN else [])])


def _uncommitted(case: Surroundings) -> list[str]:
    """What `init` wrote and no commit has: other clones and CI know nothing of it."""
    repo, patterns = case.workspace.repo, case.workspace.config.scopes
    if repo.root is None:
        return []
    wanted = [CONFIG_FILE, *patterns.project, *patterns.institutional]
    here = [path for path in wanted if (repo.root / path).is_file()]
    return [path for path in here if case.head is None or path not in tree_at(repo, case.head).files]


def check_index(case: Surroundings) -> Iterator[Probe]:
    """Whether the index can be used and kept, and how far it is behind the memory files."""
    path = index_path(case.workspace)
    found = glance(path)
    if not _is_writable(path):
        remedy = f"Make {path.parent} writable."
        yield Probe("index", "warn", f"{path} cannot be written: every retrieval builds its own", remedy)
    elif found is None:
        yield Probe("index", "skip", "not built yet: the first retrieval builds it")
    elif not path.is_file():
        remedy = f"Remove {path}."
        yield Probe("index", "warn", f"{path} is in the way: every retrieval builds its own", remedy)
    elif found.fault:
        yield Probe("index", "warn", f"cannot be used, and is built again by the next call: {found.fault}", REBUILD)
    else:
        behind = len(_behind(case, found.oids))
        what = (
            f"{plural(behind, 'file')} changed since; the next retrieval reads them" if behind else "equals the files"
        )
        yield Probe("index", "ok", f"{plural(len(found.oids), 'file')}; {what}")


def _behind(case: Surroundings, oids: Mapping[str, str]) -> set[str]:
    """The paths of which the index has another version than the work tree, or one that is gone."""
    files = {readable_path(file): file.oid for file in case.files}
    gone = oids.keys() - files.keys() - {case.workspace.config.global_.path}
    return gone | {path for path, oid in files.items() if oids.get(path) != oid}


def _is_writable(path: Path) -> bool:
    """Whether an index can be kept there; the nearest directory that exists decides."""
    folder = next(parent for parent in path.parents if parent.exists())
    return folder.is_dir() and os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


# -- the vectors


def check_vectors(case: Surroundings) -> Iterator[Probe]:
    """Whether words alone are asked, or vectors too, and if not why and since when."""
    choice = choose_embedder(case.workspace.config.retrieve, case.environ)
    note = load_note(case.workspace)
    if choice.mode == "lexical":
        yield Probe("vectors", "ok", f"no vectors are asked for; words are searched: {choice.reason}")
    elif choice.embedder is None:
        yield Probe("vectors", "fail", f"words alone are searched: {choice.reason}; {_last_seen(note)}", CHOOSE)
    else:
        if case.is_online:
            choice.embedder.embed(["memory"], "query")  # raises what is amiss
        yield _judge_vectors(choice, note, glance(index_path(case.workspace)))


def _judge_vectors(choice: EmbedderChoice, note: LaneNote, found: Glance | None) -> Probe:
    have = found.vectors.get(choice.reason, 0) if found else 0
    texts = found.texts if found else 0
    if note.failed_on is not None:
        what = f"they fail since {note.failed_on}: {note.reason}; {_last_seen(note)}"
        return Probe("vectors", "fail", what, f"{EMBED} (it says what is amiss)")
    if have < LEAST_COVERAGE * texts:
        what = f"{have} of {texts} entries have vectors of {choice.reason}; {_last_seen(note)}"
        return Probe("vectors", "warn", what, EMBED)
    return Probe("vectors", "ok", f"{plural(have, 'vector')} of {choice.reason}; {_last_seen(note)}")


def _last_seen(note: LaneNote) -> str:
    return f"last seen working on {note.worked_on}" if note.worked_on else "not seen working in this clone yet"


# -- the cache of CI


def check_cache(case: Surroundings) -> Iterator[Probe]:
    """The key that a job of CI would look for; whether a job found it is in its own log."""
    if case.head is None:
        yield Probe("cache", "skip", "nothing is committed yet")
        return
    key = index_key(case.workspace, case.head)
    yield Probe("cache", "skip", f"a job restores {key}; whether it was there, its log says")
