"""Doctor on the memory files: those of the repository, and the one of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from memory_ci.config import CONFIG_FILE
from memory_ci.files import read_regular
from memory_ci.flows.doctor.case import Case
from memory_ci.flows.guard.check import check_memory
from memory_ci.flows.screening import screen
from memory_ci.flows.workspace import MAX_FILE_BYTES
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.journal import find_unfinished
from memory_ci.records.health import Probe
from memory_ci.records.report import Finding
from memory_ci.store.document import load_file
from memory_ci.text import plural

SHOWN = 3
"""Findings that are named; `memory-ci check` names all."""


def check_files(case: Case) -> Iterator[Probe]:
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


def check_interrupted(case: Case) -> Iterator[Probe]:
    """Whether a run was ended after it moved a branch and before the files of its work tree followed."""
    move = find_unfinished(case.workspace.repo)
    if move is None:
        yield Probe("interrupted", "ok", "no run was cut short")
        return
    what = f"a run was cut short: {move.ref} is at {move.new[:12]}, and files of its work trees are not"
    yield Probe(
        "interrupted", "warn", what, "memory-ci check brings them along, and names those that you changed since"
    )


def check_global(case: Case) -> Iterator[Probe]:
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


def _uncommitted(case: Case) -> list[str]:
    """What `init` wrote and no commit has: other clones and CI know nothing of it."""
    repo, patterns = case.workspace.repo, case.workspace.config.scopes
    if repo.root is None:
        return []
    wanted = [CONFIG_FILE, *patterns.project, *patterns.institutional]
    here = [path for path in wanted if (repo.root / path).is_file()]
    return [path for path in here if case.head is None or path not in tree_at(repo, case.head).files]
