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


class Place(NamedTuple):
    """A file, and the name of a definition in it, "" for none."""

    path: str
    symbol: str = ""


class _Names(NamedTuple):
    """The names in the text of an entry.

    Attributes:
        cites: the files that it names, each with the lines that it gives, as a cite.
        mentions: the definitions that it names as code.
    """

    cites: dict[str, str]
    mentions: Sequence[str]


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
    """The code files of a commit, and the definitions in them that entries name."""

    def __init__(self, workspace: Workspace, sha: str) -> None:
        """List the code files of a commit; none is read yet."""
        self._repo = workspace.repo
        self._sha = sha
        self._files: dict[str, TreeFile] = {}
        self._paths_by_base: dict[str, list[str]] = defaultdict(list)
        self._texts: dict[str, str] = {}
        self._definitions: dict[str, set[Place]] = defaultdict(set)

        is_memory = build_memory_test(workspace)
        for path, file in tree_at(workspace.repo, sha).files.items():
            if not is_memory(path) and not NOT_CODE.fullmatch(path):
                self._files[path] = file
                self._paths_by_base[_base_name(path)].append(path)

    def find_cites(self, entries: Iterable[Entry]) -> dict[Entry, list[str]]:
        """Return the cites of each entry."""
        names_by_entry = {entry: self._find_names(entry.text) for entry in entries}
        self._read_named_files(names_by_entry.values())
        return {entry: self._choose_cites(names) for entry, names in names_by_entry.items()}

    def _find_names(self, prose: str) -> _Names:
        """Return the files of the commit and the definitions that a text names."""
        candidates: list[str] = []
        for token in dict.fromkeys(TOKEN.findall(prose)):
            candidates += self._paths_by_base.get(token, ())
        places = find_named_places(prose, candidates)
        cites = {path: cite for path, cite in places.items() if path.isprintable()}
        return _Names(cites, list_mentions(prose, include_weak=False))

    def _read_named_files(self, all_names: Collection[_Names]) -> None:
        """Read the files that texts name, and those with definitions of the names in them.

        Args:
            all_names: the names in each text.
        """
        paths: dict[str, None] = {}
        last_parts: set[str] = set()
        for names in all_names:
            paths |= dict.fromkeys(names.cites)
            last_parts.update(_last_part(mention) for mention in names.mentions)

        mentioning = find_mentions(self._repo, self._sha, last_parts)
        code_paths = [path for path in mentioning if path in self._files and is_code(path)]
        paths |= dict.fromkeys(code_paths)
        texts = read_texts(self._repo, [self._files[path] for path in paths])
        self._texts = {file.path: text for file, text in texts.items()}
        for name in last_parts:
            self._find_definitions(name, code_paths)

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
                if _last_part(definition.name) == name:
                    self._definitions[name].add(Place(path, definition.name))

    def _choose_cites(self, names: _Names) -> list[str]:
        """Return cites for the names in a text: definitions that it must mean, then other files."""
        places: dict[Place, None] = {}  # without duplicates, in order
        for mention in names.mentions:
            place = self._resolve(mention, names.cites)
            if place is not None:
                places[place] = None
        paths_with_symbol = {place.path for place in places}
        for path in names.cites:
            if path not in paths_with_symbol:
                places[Place(path)] = None

        cites = []
        for place in list(places)[:MAX_CITES]:
            cite = self._format_cite(place, names)
            if not check_words(cite):
                cites.append(cite)
        return cites

    def _resolve(self, mention: str, named_paths: Collection[str]) -> Place | None:
        """Return the only definition that a mention can mean, None if there are several or none.

        If files that the text names have such definitions, only these count.
        """
        definitions = self._definitions.get(_last_part(mention), ())
        places = [place for place in definitions if matches_name(mention, place.symbol)]
        places = [place for place in places if place.path in named_paths] or places
        return places[0] if len(places) == 1 else None

    def _format_cite(self, place: Place, names: _Names) -> str:
        """Return a cite of a file or definition, as an anchor if the text of the file was read."""
        commit = self._sha[:SHA_WIDTH]
        if not place.symbol:
            return f"{names.cites[place.path]}@{commit}"
        text = self._texts.get(place.path)
        if text is None:
            return f"{place.path}@{commit}"
        return format_anchor(make_anchor(place.path, text, commit, symbol=place.symbol))


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

    Args:
        workspace: the repository.
        written: PATH, PATH::SYMBOL or PATH:A-B.

    Raises:
        UsageError: unknown-cite.
    """
    sha = find_commit(workspace.repo, "HEAD")
    files = tree_at(workspace.repo, sha).files if sha else {}
    match = CITE.fullmatch(written)
    path = match["path"] if match else ""
    if written in files:
        path = written  # the name of a file may look like a path with lines
    is_unusable = not is_citable(path) or check_words(written)
    if path not in files or match is None or sha is None or is_unusable:
        raise _unknown_cite(
            f"HEAD has no file {path or written}",
            "Name it as git does; commit it first if it is new.",
        )

    text = read_texts(workspace.repo, [files[path]]).get(files[path], "")
    symbol = None
    lines = None
    if path != written:
        symbol = match["symbol"]
        lines = _parse_lines(match)
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


def _last_part(name: str) -> str:
    """Return a name without its owners: `post` for `Client.post`."""
    return name.rpartition(".")[2]


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]
