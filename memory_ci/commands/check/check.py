"""Check: is every memory file in order? Files are read, never written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from memory_ci.errors import UsageError
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.repo import find_commit
from memory_ci.lifecycle.relations import find_dangling, list_dangling
from memory_ci.memory.screening import find_credentials, screen
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    STAGED,
    LoadedMemory,
    Workspace,
    is_told,
    list_indexed_files,
    list_view,
    read_memory,
    readable_path,
    repository_path,
)
from memory_ci.records.entry import Located
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.store.layout import serves_prose
from memory_ci.store.manual_notes import find_remarks

HINT = "`memory-ci why` says what was said of it. Mend it, retire it, or say that it helped; nothing is done on its own."


class CheckReport(msgspec.Struct, frozen=True):
    """What was checked and what was found, in the order of files and lines."""

    files: int
    entries: int
    findings: tuple[Finding, ...]

    @property
    def is_ok(self) -> bool:
        return all(finding.level != "error" for finding in self.findings)


def check_memory(
    workspace: Workspace,
    view: str | None = None,
    paths: Sequence[Path] = (),
    known: Sequence[TreeFile] | None = None,
) -> CheckReport:
    """Findings in the memory and episode files of a view (work tree, STAGED or a revision); only in `paths` if given.

    `known` are the files of that view, where they were listed already.
    Raises UsageError (not-a-memory-file) for a path that no scope claims.
    """
    listed = list_indexed_files(workspace, view) if known is None else known
    files = [file for file in listed if not is_told(file)]
    if episodes := [file for file in listed if is_told(file)]:
        from memory_ci.store.episodes import (
            is_episode_path,
        )  # only where there are any: a commit waits for this

        episodes = [file for file in episodes if is_episode_path(file.path)]
    wanted = {repository_path(workspace, path) for path in paths}
    for path in sorted(wanted - {readable_path(file) for file in (*files, *episodes)}):
        hint = "MEMORY.md, institutional.md and .memory/inbox/*.md are; `scopes:` in the configuration adds others."
        raise UsageError(
            f"{path} is not a memory file of this view", slug="not-a-memory-file", hint=hint
        )
    loaded: list[LoadedFile] = []
    findings: list[Finding] = []
    for data, parsed, file in read_memory(workspace, files):
        loaded.append(file)
        # What must not be in memory: credentials, injections, hidden characters.
        findings += find_credentials(file.path, data)
        findings += find_remarks(
            parsed, serves_prose=serves_prose(file.path, workspace.config.scopes)
        )
        findings += screen(file, credentials=False).findings
    memory = LoadedMemory(tuple(loaded))
    root = workspace.repo.root
    if not paths and root is not None and (root / workspace.config.export.path).is_file():
        from memory_ci.memory.agents_block import find_stale  # likewise

        findings += find_stale(workspace, view, memory.files)
    findings += _check_episodes(workspace, view, episodes, memory)
    first: dict[str, Located] = {}
    for place in memory.located:
        if (other := first.setdefault(place.entry.id, place)) is not place:
            message = f"the id {place.entry.id[:8]} stands at {other.path}:{other.line} already"
            hint = "Remove one, or give one a new id."
            findings.append(Finding(place.path, place.line, "duplicate-id", message, hint))
    found = {
        *findings,
        *memory.findings,
        *_find_dangling(workspace, view, memory),
        *workspace.findings,
    }
    shown = [finding for finding in found if not wanted or finding.path in wanted]
    shown.sort(key=lambda finding: (finding.path, finding.line, finding.code, finding.message))
    return CheckReport(len(wanted or (*files, *episodes)), len(memory.located), tuple(shown))


def _find_dangling(
    workspace: Workspace, view: str | None, memory: LoadedMemory
) -> Iterator[Finding]:
    """Return the warnings for relations to an id that no entry has; history is asked only if there is one."""
    ids = {relation.id for _, relation in list_dangling(memory.located)}
    if not ids:
        return
    from memory_ci.memory.lookup import list_retired_ids  # only then: a commit waits for this

    rev = "HEAD" if view in (None, STAGED) else view
    head = find_commit(workspace.repo, rev)
    retired = list_retired_ids(workspace, head, ids) if head else frozenset[str]()
    yield from find_dangling(memory.located, retired)


def list_sources(
    workspace: Workspace, view: str | None, findings: Iterable[Finding]
) -> dict[tuple[str, int], str]:
    """The lines that findings are about, by path and number, as a view has them."""
    wanted = {(finding.path, finding.line) for finding in findings}
    files = list_view(workspace, view, sorted({path for path, _ in wanted}))
    return {
        (content.file.path, number): line
        for content in read_files(workspace.repo, files, MAX_FILE_BYTES)
        for number, line in enumerate(
            (content.data or b"").decode("utf-8", "replace").splitlines(), start=1
        )
        if (content.file.path, number) in wanted
    }


def _check_episodes(
    workspace: Workspace, view: str | None, files: Sequence[TreeFile], memory: LoadedMemory
) -> Iterator[Finding]:
    """What is not in order in episodes, and a notice for each entry in use that they speak ill of. Of the stage only
    what the next commit changes is read: there may be thousands, and a commit waits for this."""
    if not files:
        return
    from memory_ci.memory.episodes import (
        find_episode_findings,
        list_episode_files,
        read_episode_files,
    )

    if view == STAGED:
        head = find_commit(workspace.repo, "HEAD")
        committed = list_episode_files(workspace, head) if head else ()
        known = {(file.path, file.oid) for file in committed}
        new = [file for file in files if (file.path, file.oid) not in known]
        yield from find_episode_findings(read_episode_files(workspace, new))
        return
    read = read_episode_files(workspace, files)
    yield from find_episode_findings(read)
    from memory_ci.lifecycle.episodes import find_heirs_among, list_feedback
    from memory_ci.lifecycle.utility import replay

    feedback = list_feedback(telling for _, file in read for telling in file.tellings)
    heirs = find_heirs_among(place.entry for place in memory.located)
    utilities = replay(feedback, workspace.config.episodes.ignored_policy, heirs=heirs)
    for place in memory.located:
        utility = utilities.get(place.entry.id)
        if utility is not None and utility.is_low and place.entry.status != "retired":
            message = f"utility {utility.value:.2f} after {utility.events} events of feedback"
            yield Finding(place.path, place.line, "low-utility", message, HINT, "notice")
