"""Cites of the code that the texts of memory entries name: files and definitions of a commit."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.anchors import format_anchor, is_citable, make_anchor
from memory_ci.anchors.subjects import MAX_CITES, matches_name
from memory_ci.anchors.symbols import find_definition, is_code, list_definitions, list_mentions
from memory_ci.errors import UsageError
from memory_ci.extraction.cites import NOT_CODE, SHA_WIDTH, find_named_places
from memory_ci.extraction.gate import check_words
from memory_ci.gitrepo.blobs import TreeFile, tree_at
from memory_ci.gitrepo.log import find_mentions
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.cite_verdicts import MAX_MENTIONS
from memory_ci.memory.cites import anchor_entries, read_texts
from memory_ci.memory.workspace import Workspace, build_memory_test
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file
from memory_ci.text import plural

TOKEN = Regex(r"[\w.-]*\w")
"""A word of a text that may be the name of a file, as `client.py`."""
CITE = Regex(
    r"(?P<path>.+?)(?:::(?P<symbol>[^\s:@][^\s@]*)|:(?P<first>[1-9]\d*)(?:-(?P<last>[1-9]\d*))?)?"
)
"""A cite as people write it: `src/client.py`, `src/client.py::Client.post`, `src/client.py:3-9`."""


class CodeLocation(NamedTuple):
    """A file, and the name of a definition in it; the name is "" for the whole file."""

    path: str
    symbol: str = ""


class _NamedCode(NamedTuple):
    """The files and definitions that the text of an entry names.

    Attributes:
        file_cites: a cite of each named file, with the lines that the text gives (`src/a.py:3-9`),
            by path.
        definition_names: the names of definitions, as the text writes them (`Client.post`).
    """

    file_cites: dict[str, str]
    definition_names: Sequence[str]


def cite_named(workspace: Workspace, entries: Sequence[Entry], rev: str) -> tuple[Entry, ...]:
    """Anchor the cites of entries, and add cites of the code they name to those without any.

    An added cite is a file or a definition of a commit that the text names as code, MAX_CITES at
    most. A name that several definitions have is cited only if the text names a path too. Rejected
    and retired entries get no cites. The commit is searched once for all entries.

    Args:
        workspace: the repository.
        entries: the entries.
        rev: the commit.
    """
    entries = anchor_entries(workspace, entries)
    uncited = [entry for entry in entries if _needs_cites(entry)]
    sha = find_commit(workspace.repo, rev) if uncited else None
    if sha is None:
        return entries

    cites_by_entry = _CommitCode(workspace, sha).find_cites(uncited)
    cited_entries = []
    for entry in entries:
        cites = cites_by_entry.get(entry)
        cited_entries.append(replace(entry, cites=tuple(cites)) if cites else entry)
    return anchor_entries(workspace, cited_entries)


def _needs_cites(entry: Entry) -> bool:
    return not entry.cites and entry.status == "active" and entry.adoption != "rejected"


class _CommitCode:
    """The code files of a commit, in which the files and definitions that entries name are found.

    The files are listed at once. Those that entries name are read by `find_cites`.
    """

    def __init__(self, workspace: Workspace, sha: str) -> None:
        """List the code files of a commit; memory files are no code."""
        self._repo = workspace.repo
        self._sha = sha
        self._files: dict[str, TreeFile] = {}  # by path
        self._paths_by_base_name: dict[str, list[str]] = defaultdict(list)
        self._texts: dict[str, str] = {}  # of files that were read, by path
        self._definitions: dict[str, set[CodeLocation]] = defaultdict(set)  # by their last name

        is_memory = build_memory_test(workspace)
        for path, file in tree_at(workspace.repo, sha).files.items():
            if not is_memory(path) and not NOT_CODE.fullmatch(path):
                self._files[path] = file
                self._paths_by_base_name[_base_name(path)].append(path)

    def find_cites(self, entries: Iterable[Entry]) -> dict[Entry, list[str]]:
        """Return the cites of each entry."""
        named_code = {entry: self._find_named_code(entry.text) for entry in entries}
        self._read_named_files(named_code.values())
        return {entry: self._choose_cites(named) for entry, named in named_code.items()}

    def _find_named_code(self, prose: str) -> _NamedCode:
        """Return the files of the commit and the definitions that a text names.

        Names that may as well be ordinary words (weak ones) are left out.
        """
        candidate_paths: list[str] = []
        for token in dict.fromkeys(TOKEN.findall(prose)):
            candidate_paths += self._paths_by_base_name.get(token, ())
        cite_by_path = find_named_places(prose, candidate_paths)
        file_cites = {path: cite for path, cite in cite_by_path.items() if path.isprintable()}
        return _NamedCode(file_cites, list_mentions(prose, include_weak=False))

    def _read_named_files(self, named_code: Collection[_NamedCode]) -> None:
        """Read the files that texts name, and find the definitions that they name.

        A definition is found in any code file that holds its name without owners: `post` for
        `Client.post`. These files are read, too.

        Args:
            named_code: the named files and definitions of each text.
        """
        paths: dict[str, None] = {}  # without duplicates, in order
        short_names: set[str] = set()
        for named in named_code:
            paths |= dict.fromkeys(named.file_cites)
            short_names.update(_drop_owners(name) for name in named.definition_names)

        paths_with_names = find_mentions(self._repo, self._sha, short_names)
        code_paths = [path for path in paths_with_names if path in self._files and is_code(path)]
        paths |= dict.fromkeys(code_paths)
        texts = read_texts(self._repo, [self._files[path] for path in paths])
        self._texts = {file.path: text for file, text in texts.items()}
        for short_name in short_names:
            self._find_definitions(short_name, code_paths)

    def _find_definitions(self, name: str, code_paths: Iterable[str]) -> None:
        """Find the definitions of a name, unless more than MAX_MENTIONS files hold it.

        Args:
            name: the name without owners: `post` for `Client.post`.
            code_paths: the files to search.
        """
        paths = [path for path in code_paths if name in self._texts.get(path, "")]
        if len(paths) > MAX_MENTIONS:
            return
        for path in paths:
            for definition in list_definitions(path, self._texts[path]):
                if _drop_owners(definition.name) == name:
                    self._definitions[name].add(CodeLocation(path, definition.name))

    def _choose_cites(self, named: _NamedCode) -> list[str]:
        """Return cites of the code that a text names, at most MAX_CITES.

        First come the definitions whose names are not ambiguous. Then come the named files without
        such a definition, which are cited whole. Cites with forbidden words are left out.
        """
        locations: dict[CodeLocation, None] = {}  # without duplicates, in order
        for name in named.definition_names:
            definition = self._find_only_definition(name, named.file_cites)
            if definition is not None:
                locations[definition] = None
        paths_with_definition = {location.path for location in locations}
        for path in named.file_cites:
            if path not in paths_with_definition:
                locations[CodeLocation(path)] = None

        cites = []
        for location in list(locations)[:MAX_CITES]:
            cite = self._format_cite(location, named.file_cites)
            if not check_words(cite):
                cites.append(cite)
        return cites

    def _find_only_definition(self, name: str, named_paths: Collection[str]) -> CodeLocation | None:
        """Return the only definition that a name can mean, None if there are several or none.

        If files that the text names have such definitions, only these count.
        """
        locations = []
        for definition in self._definitions.get(_drop_owners(name), ()):
            if matches_name(name, definition.symbol):
                locations.append(definition)
        in_named_files = [location for location in locations if location.path in named_paths]
        candidates = in_named_files or locations
        return candidates[0] if len(candidates) == 1 else None

    def _format_cite(self, location: CodeLocation, file_cites: Mapping[str, str]) -> str:
        """Return a cite of a file or definition at the commit.

        A file is cited with the lines that the text gives. A definition is cited with its lines and
        the hash of its text (an anchor), or as a whole file if the file could not be read.

        Args:
            location: the file or definition.
            file_cites: the cite of each file that the text names, by path.
        """
        commit = self._sha[:SHA_WIDTH]
        if not location.symbol:
            return f"{file_cites[location.path]}@{commit}"
        text = self._texts.get(location.path)
        if text is None:
            return f"{location.path}@{commit}"
        return format_anchor(make_anchor(location.path, text, commit, symbol=location.symbol))


def cite_files(workspace: Workspace, texts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Add cites of the code of HEAD to the entries of memory files.

    Args:
        workspace: the repository.
        texts: the content of the files by path.

    Returns:
        The new content of the files that changed, by path.

    Raises:
        UnreadableMemoryError: unsafe-rewrite.
    """
    files = {path: parse_memory_file(path, data) for path, data in texts.items()}
    paths = []  # of the file of each entry
    entries: list[Entry] = []
    for path, file in files.items():
        entries += file.entries
        paths += [path] * len(file.entries)

    updated_by_path: dict[str, list[Entry]] = defaultdict(list)
    cited_entries = cite_named(workspace, entries, "HEAD")
    for path, before, after in zip(paths, entries, cited_entries, strict=True):
        if after != before:
            updated_by_path[path].append(after)

    rendered = {}
    for path, updated in updated_by_path.items():
        rendered[path] = render_memory_file(edit_file(files[path], updated=updated))
    return rendered


def read_cite(workspace: Workspace, written: str) -> str:
    """Return the anchor in HEAD for a cite that a person wrote.

    The anchor is the cite with the commit and the hash of the cited text.

    Args:
        workspace: the repository.
        written: PATH, PATH::SYMBOL or PATH:A-B. If this is the path of a file as it is, such as
            `notes:3`, it means that file.

    Raises:
        UsageError: unknown-cite.
    """
    sha = find_commit(workspace.repo, "HEAD")
    files = tree_at(workspace.repo, sha).files if sha else {}
    match = CITE.fullmatch(written)
    is_path_only = written in files
    path = match["path"] if match and not is_path_only else written
    is_citable_file = path in files and is_citable(path) and not check_words(written)
    if match is None or sha is None or not is_citable_file:
        raise _unknown_cite(
            f"HEAD has no file {path}",
            "Name it as git does; commit it first if it is new.",
        )

    text = read_texts(workspace.repo, [files[path]]).get(files[path], "")
    symbol = None if is_path_only else match["symbol"]
    lines = None if is_path_only else _parse_lines(match)
    _require_code(path, text, symbol, lines)
    return format_anchor(make_anchor(path, text, sha[:SHA_WIDTH], lines, symbol))


def _require_code(path: str, text: str, symbol: str | None, lines: tuple[int, int] | None) -> None:
    """Refuse a cite if its file has no such definition or lines.

    Args:
        path: the path of the file.
        text: its text.
        symbol: the name of the definition, if the cite has one.
        lines: the first and the last line, if the cite has them.
    """
    if symbol and find_definition(path, text, symbol) is None:
        raise _unknown_cite(
            f"{path} has no definition {symbol}, or several of it",
            "Name its class too, or cite lines.",
        )
    if lines:
        first, last = lines
        count = len(text.splitlines())
        if not first <= last <= count:
            message = f"{path} has no lines {first}-{last}: it has {plural(count, 'line')}"
            raise _unknown_cite(message, "Write A-B.")


def _parse_lines(match: re.Match[str]) -> tuple[int, int] | None:
    if not match["first"]:
        return None
    return int(match["first"]), int(match["last"] or match["first"])


def _unknown_cite(message: str, hint: str) -> UsageError:
    return UsageError(message, slug="unknown-cite", hint=hint)


def _drop_owners(name: str) -> str:
    """Return a name without its owners: `post` for `Client.post`."""
    return name.rpartition(".")[2]


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]
