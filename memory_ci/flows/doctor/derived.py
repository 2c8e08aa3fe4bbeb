"""Doctor on what is derived: the index, the vectors, the cache of CI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_ci.flows.doctor.case import Case
from memory_ci.flows.index import index_key, index_path
from memory_ci.flows.serve.vector_status import LaneNote, load_note
from memory_ci.flows.workspace import readable_path
from memory_ci.index.embedders.choose import EmbedderChoice, choose_embedder
from memory_ci.index.glance import Glance, glance
from memory_ci.index.vectors import LEAST_COVERAGE
from memory_ci.records.health import Probe
from memory_ci.text import plural

REBUILD = "memory-ci index"
EMBED = "memory-ci index --vectors"
CHOOSE = "Give it what it lacks (docs/embedders.md), or set retrieve.embedder to none."


def check_index(case: Case) -> Iterator[Probe]:
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


def _behind(case: Case, oids: Mapping[str, str]) -> set[str]:
    """The paths of which the index has another version than the work tree, or one that is gone."""
    files = {readable_path(file): file.oid for file in case.files}
    gone = oids.keys() - files.keys() - {case.workspace.config.global_.path}
    return gone | {path for path, oid in files.items() if oids.get(path) != oid}


def _is_writable(path: Path) -> bool:
    """Whether an index can be kept there; the nearest directory that exists decides."""
    folder = next(parent for parent in path.parents if parent.exists())
    return folder.is_dir() and os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


# -- the vectors


def check_vectors(case: Case) -> Iterator[Probe]:
    """Whether words alone are asked, or vectors too, and if not why and since when."""
    choice = choose_embedder(case.workspace.config.retrieve, case.environ)
    note = load_note(case.workspace)
    if choice.mode == "lexical":
        yield Probe("vectors", "ok", f"lexical, words alone: {choice.reason}")
    elif choice.embedder is None:
        yield Probe("vectors", "fail", f"degraded to words alone: {choice.reason}; {_last_seen(note)}", CHOOSE)
    else:
        if case.is_online:
            choice.embedder.embed(["memory"], "query")  # raises what is amiss
        yield _judge_vectors(choice, note, glance(index_path(case.workspace)))


def _judge_vectors(choice: EmbedderChoice, note: LaneNote, found: Glance | None) -> Probe:
    have = found.vectors.get(choice.reason, 0) if found else 0
    texts = found.texts if found else 0
    if note.failed_on is not None:
        what = f"degraded since {note.failed_on}: {note.reason}; {_last_seen(note)}"
        return Probe("vectors", "fail", what, f"{EMBED} (it says what is amiss)")
    if have < LEAST_COVERAGE * texts:
        what = f"degraded: {have} of {texts} entries have vectors of {choice.reason}; {_last_seen(note)}"
        return Probe("vectors", "warn", what, EMBED)
    return Probe("vectors", "ok", f"hybrid, {choice.reason}: {plural(have, 'vector')}; {_last_seen(note)}")


def _last_seen(note: LaneNote) -> str:
    return f"last seen working on {note.worked_on}" if note.worked_on else "not seen working in this clone yet"


# -- the cache of CI


def check_cache(case: Case) -> Iterator[Probe]:
    """What a job of CI would look for; which index a job restored stands in its own log alone."""
    if case.head is None:
        yield Probe("cache", "skip", "nothing is committed yet")
        return
    key = index_key(case.workspace, case.head)
    yield Probe("cache", "skip", f"a job restores {key}; whether it was there, its log says")
