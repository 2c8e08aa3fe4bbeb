"""The check of memory files (notes for coding agents) and of files of episodes (recorded work).

Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain
from pathlib import Path

import msgspec

from memory_ci.errors import UsageError
from memory_ci.gitrepo.blobs import TreeFile, read_files
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.screening import find_credentials, screen_file
from memory_ci.memory.workspace import (
    MAX_FILE_BYTES,
    STAGED,
    LoadedMemory,
    Workspace,
    is_below_episodes,
    list_indexed_files,
    list_view,
    read_memory_files,
    readable_path,
    repository_path,
)
from memory_ci.records.check import CheckOutcome
from memory_ci.records.entry import Located
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.store.layout import may_have_prose
from memory_ci.store.manual_notes import list_note_findings

LOW_UTILITY_HINT = (
    "`memory-ci show ID --why` lists its feedback. Correct it, retire it, or confirm it by "
    "feedback; nothing happens automatically."
)


class CheckReport(msgspec.Struct, frozen=True):
    """The result of a check.

    Attributes:
        files: the number of checked files.
        entries: the number of entries in them.
        findings: the findings, in the order of files and lines.
        checks: the checks of the base that judged a change; none where memory alone is checked.
    """

    files: int
    entries: int
    findings: tuple[Finding, ...]
    checks: tuple[CheckOutcome, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.level != "error" for finding in self.findings)


def check_memory(
    workspace: Workspace,
    view: str | None = None,
    paths: Sequence[Path] = (),
    view_files: Sequence[TreeFile] | None = None,
) -> CheckReport:
    """Check the memory and episode files of a view: a commit, the staged files or the work tree.

    Args:
        workspace: the repository and its configuration.
        view: a revision, STAGED, or None for the work tree.
        paths: the files to report on, none for all.
        view_files: the files of the view, if they were listed already.

    Raises:
        UsageError: no scope claims a path (not-a-memory-file).
    """
    listed = list_indexed_files(workspace, view) if view_files is None else view_files
    memory_files = [file for file in listed if not is_below_episodes(file)]
    episode_files = _select_episode_files(listed)
    wanted_paths = {repository_path(workspace, path) for path in paths}
    _refuse_unknown_paths(wanted_paths, [*memory_files, *episode_files])

    memory, findings = _check_memory_files(workspace, memory_files)
    if not paths:
        findings.update(_find_stale_export(workspace, view, memory))
    findings.update(_check_episode_files(workspace, view, episode_files, memory))
    findings.update(_find_duplicate_ids(memory))
    findings.update(_find_dangling_relations(workspace, view, memory))

    file_count = len(memory_files) + len(episode_files)
    if wanted_paths:
        findings = {finding for finding in findings if finding.path in wanted_paths}
        file_count = len(wanted_paths)
    sorted_findings = sorted(
        findings, key=lambda finding: (finding.path, finding.line, finding.code, finding.message)
    )
    return CheckReport(file_count, len(memory.located), tuple(sorted_findings))


def _check_memory_files(
    workspace: Workspace, files: Iterable[TreeFile]
) -> tuple[LoadedMemory, set[Finding]]:
    """Load memory files, and return them with the findings on each and on the configuration."""
    loaded_files: list[LoadedFile] = []
    findings: set[Finding] = {*workspace.findings}
    for content in read_memory_files(workspace, files):
        loaded_file = content.loaded
        path = loaded_file.path
        loaded_files.append(loaded_file)
        # Entries that cannot be read.
        findings.update(loaded_file.findings)
        # Text outside of entries, or in a form that is not canonical.
        is_prose_allowed = may_have_prose(path, workspace.config.scopes)
        findings.update(list_note_findings(content.parsed, may_have_prose=is_prose_allowed))
        # Credentials, injections and hidden characters, which must not be in memory.
        findings.update(find_credentials(path, content.data))
        findings.update(screen_file(loaded_file, with_credentials=False).findings)
    return LoadedMemory(tuple(loaded_files)), findings


def _find_stale_export(
    workspace: Workspace, view: str | None, memory: LoadedMemory
) -> Iterator[Finding]:
    """Find that the file into which memory is exported, such as AGENTS.md, is out of date."""
    root = workspace.repo.root
    if root is not None and (root / workspace.config.export.path).is_file():
        # Imported only here: git's pre-commit hook runs this, and each import delays the commit.
        from memory_ci.memory.agents_block import find_stale

        yield from find_stale(workspace, view, memory.files)


def _select_episode_files(files: Sequence[TreeFile]) -> list[TreeFile]:
    """Return the files of episodes among the files of a view."""
    files_below_episodes = [file for file in files if is_below_episodes(file)]
    if not files_below_episodes:
        return []
    # Imported only here: git's pre-commit hook runs this, and each import delays the commit.
    from memory_ci.store.episodes import is_episode_path

    return [file for file in files_below_episodes if is_episode_path(file.path)]


def _refuse_unknown_paths(wanted_paths: Set[str], files: Iterable[TreeFile]) -> None:
    """Raise UsageError (not-a-memory-file) if a path is not a file of the view."""
    unknown_paths = wanted_paths - {readable_path(file) for file in files}
    if unknown_paths:
        message = f"{min(unknown_paths)} is not a memory file of this view"
        hint = (
            "MEMORY.md, institutional.md and .memory/inbox/*.md are; "
            "`scopes:` in the configuration adds others."
        )
        raise UsageError(message, slug="not-a-memory-file", hint=hint)


def _find_duplicate_ids(memory: LoadedMemory) -> Iterator[Finding]:
    """Find entries with the id of an entry before them."""
    first_by_id: dict[str, Located] = {}
    for located in memory.located:
        first_located = first_by_id.setdefault(located.entry.id, located)
        if first_located is not located:
            first_place = f"{first_located.path}:{first_located.line}"
            message = f"the id {located.entry.id[:8]} is already at {first_place}"
            hint = "Remove one, or give one a new id."
            yield Finding(located.path, located.line, "duplicate-id", message, hint)


def _find_dangling_relations(
    workspace: Workspace, view: str | None, memory: LoadedMemory
) -> Iterator[Finding]:
    """Find relations of entries (such as `supersedes`) to an id that no entry has or had.

    History is read only if an id is missing in the view.
    """
    if not any(located.entry.relations for located in memory.located):
        return
    # Imported only here: git's pre-commit hook runs this, and few entries have relations.
    from memory_ci.lifecycle.relations import find_dangling, list_dangling

    missing_ids = {relation.id for _, relation in list_dangling(memory.located)}
    if not missing_ids:
        return
    from memory_ci.memory.lookup import list_retired_ids

    revision = "HEAD" if view in (None, STAGED) else view
    head = find_commit(workspace.repo, revision)
    retired_ids = frozenset[str]()
    if head:
        retired_ids = list_retired_ids(workspace, head, missing_ids)
    yield from find_dangling(memory.located, retired_ids)


def list_source_lines(
    workspace: Workspace, view: str | None, findings: Iterable[Finding]
) -> dict[tuple[str, int], str]:
    """Return the text of the line that each finding is about, by path and line number.

    Args:
        workspace: the repository.
        view: a revision, STAGED, or None for the work tree.
        findings: the findings.
    """
    wanted_lines = {(finding.path, finding.line) for finding in findings}
    files = list_view(workspace, view, sorted({path for path, _ in wanted_lines}))
    sources: dict[tuple[str, int], str] = {}
    for content in read_files(workspace.repo, files, MAX_FILE_BYTES):
        text = (content.data or b"").decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if (content.file.path, number) in wanted_lines:
                sources[content.file.path, number] = line
    return sources


def _check_episode_files(
    workspace: Workspace, view: str | None, files: Sequence[TreeFile], memory: LoadedMemory
) -> Iterator[Finding]:
    """Check files of episodes, and find entries of low utility: much feedback is negative.

    Episodes are records of work, and hold the feedback on entries. Of staged files only those that
    the next commit changes are read: there may be thousands, and a commit waits for this. Without
    the other files feedback cannot be counted.

    Args:
        workspace: the repository.
        view: a revision, STAGED, or None for the work tree.
        files: the files of episodes.
        memory: the memory files of the view.
    """
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
        committed_blobs = {(file.path, file.oid) for file in committed}
        changed_files = [file for file in files if (file.path, file.oid) not in committed_blobs]
        yield from find_episode_findings(read_episode_files(workspace, changed_files))
        return

    episode_files = read_episode_files(workspace, files)
    yield from find_episode_findings(episode_files)
    from memory_ci.lifecycle.episodes import find_successors_among, list_feedback
    from memory_ci.lifecycle.utility import compute_utilities

    records = chain.from_iterable(file.records for _, file in episode_files)
    # Feedback on a superseded entry counts for the entries that replaced it, its successors.
    successors = find_successors_among(located.entry for located in memory.located)
    utilities = compute_utilities(list_feedback(records), successors=successors)
    for located in memory.located:
        utility = utilities.get(located.entry.id)
        if utility is not None and utility.is_low and located.entry.status != "retired":
            message = f"utility {utility.value:.2f} after {utility.events} events of feedback"
            yield Finding(
                located.path, located.line, "low-utility", message, LOW_UTILITY_HINT, "notice"
            )
