"""Cites for code that entries name: files and definitions of a commit."""

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
from memory_ci.memory.cites import MAX_MENTIONS, anchor_entries, read_texts
from memory_ci.memory.workspace import Workspace, build_memory_test
from memory_ci.records.entry import Entry
from memory_ci.regex import Regex
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file
from memory_ci.text import plural

TOKEN = Regex(r"[\w.-]*\w")
CITE = Regex(
    r"(?P<path>.+?)(?:::(?P<symbol>[^\s:@][^\s@]*)|:(?P<first>[1-9]\d*)(?:-(?P<last>[1-9]\d*))?)?"
)
Place = tuple[str, str]  # A path and the name of a definition in it, "" for none.


class _Names(NamedTuple):
    """The names in the text of an entry.

    Attributes:
        cites: the files that it names, each with the lines that it gives, as a cite.
        mentions: the definitions that it names as code.
    """

    cites: dict[str, str]
    mentions: Sequence[str]


def cite_named(workspace: Workspace, entries: Sequence[Entry], rev: str) -> tuple[Entry, ...]:
    """Anchor the cites of entries, and add cites to those that have none.

    An added cite is a file or a definition of a commit that the text names as code, MAX_CITES at
    most. A name that several definitions have is cited only if the text names a path too. Rejected
    and retired entries get no cites. The commit is searched once for all entries.
    """
    entries = anchor_entries(workspace, entries)
    uncited = [entry for entry in entries if _needs_cites(entry)]
    sha = find_commit(workspace.repo, rev) if uncited else None
    if sha is None:
        return entries

    cites_by_entry = _Commit(workspace, sha).find_cites(uncited)
    cited_entries = []
    for entry in entries:
        cites = cites_by_entry.get(entry)
        cited_entries.append(replace(entry, cites=tuple(cites)) if cites else entry)
    return anchor_entries(workspace, cited_entries)


def _needs_cites(entry: Entry) -> bool:
    return not entry.cites and entry.status == "active" and entry.adoption != "rejected"


class _Commit:
    """The code files of a commit, and the definitions in them that entries name."""

    def __init__(self, workspace: Workspace, sha: str) -> None:
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
        self._read_named(names_by_entry.values())
        return {entry: self._choose_cites(names) for entry, names in names_by_entry.items()}

    def _find_names(self, prose: str) -> _Names:
        candidates: list[str] = []
        for token in dict.fromkeys(TOKEN.findall(prose)):
            candidates += self._paths_by_base.get(token, ())
        places = find_named_places(prose, candidates)
        cites = {path: cite for path, cite in places.items() if path.isprintable()}
        return _Names(cites, list_mentions(prose, plain=False))

    def _read_named(self, all_names: Collection[_Names]) -> None:
        """Read the named files, and the files with definitions of the mentioned names."""
        paths: dict[str, None] = {}
        tails: set[str] = set()
        for names in all_names:
            paths |= dict.fromkeys(names.cites)
            tails.update(map(_tail, names.mentions))

        mentioning = find_mentions(self._repo, self._sha, tails)
        code_paths = [path for path in mentioning if path in self._files and is_code(path)]
        paths |= dict.fromkeys(code_paths)
        texts = read_texts(self._repo, [self._files[path] for path in paths])
        self._texts = {file.path: text for file, text in texts.items()}
        for tail in tails:
            self._find_definitions(tail, code_paths)

    def _find_definitions(self, tail: str, code_paths: Iterable[str]) -> None:
        """Find the definitions of a name, unless more than MAX_MENTIONS files hold it."""
        paths = [path for path in code_paths if tail in self._texts.get(path, "")]
        if len(paths) > MAX_MENTIONS:
            return
        for path in paths:
            for definition in list_definitions(path, self._texts[path]):
                if _tail(definition.name) == tail:
                    self._definitions[tail].add((path, definition.name))

    def _choose_cites(self, names: _Names) -> list[str]:
        """Return the cites for names: definitions that are the only match, then other files."""
        places: dict[Place, None] = {}
        for mention in names.mentions:
            place = self._resolve(mention, names.cites)
            if place is not None:
                places[place] = None
        paths_with_symbol = {path for path, _ in places}
        for path in names.cites:
            if path not in paths_with_symbol:
                places[path, ""] = None

        cites = []
        for path, symbol in list(places)[:MAX_CITES]:
            cite = self._format_cite(path, symbol, names)
            if not check_words(cite):
                cites.append(cite)
        return cites

    def _resolve(self, mention: str, named_paths: Collection[str]) -> Place | None:
        """Return the only definition that a mention can mean, those in named files first."""
        definitions = self._definitions.get(_tail(mention), ())
        places = [place for place in definitions if matches_name(mention, place[1])]
        places = [place for place in places if place[0] in named_paths] or places
        return places[0] if len(places) == 1 else None

    def _format_cite(self, path: str, symbol: str, names: _Names) -> str:
        commit = self._sha[:SHA_WIDTH]
        if not symbol:
            return f"{names.cites[path]}@{commit}"
        text = self._texts.get(path)
        if text is None:
            return f"{path}@{commit}"
        return format_anchor(make_anchor(path, text, commit, symbol=symbol))


def cite_files(workspace: Workspace, texts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Cite the code of HEAD in the entries of memory files.

    Returns:
        The files that changed, by path.

    Raises:
        UnreadableMemoryError: unsafe-rewrite.
    """
    files = {path: parse_memory_file(path, data) for path, data in texts.items()}
    paths = []
    entries: list[Entry] = []
    for path, file in files.items():
        entries += file.entries
        paths += [path] * len(file.entries)

    updates: dict[str, list[Entry]] = defaultdict(list)
    cited_entries = cite_named(workspace, entries, "HEAD")
    for path, before, after in zip(paths, entries, cited_entries, strict=True):
        if after != before:
            updates[path].append(after)

    rendered = {}
    for path, updated in updates.items():
        rendered[path] = render_memory_file(edit_file(files[path], updated=updated))
    return rendered


def read_cite(workspace: Workspace, written: str) -> str:
    """Return the anchor in HEAD for PATH, PATH::SYMBOL or PATH:A-B.

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
    return format_anchor(make_anchor(path, text, sha[:SHA_WIDTH], lines, symbol))


def _parse_lines(match: re.Match[str]) -> tuple[int, int] | None:
    if not match["first"]:
        return None
    return int(match["first"]), int(match["last"] or match["first"])


def _unknown_cite(message: str, hint: str) -> UsageError:
    return UsageError(message, slug="unknown-cite", hint=hint)


def _tail(name: str) -> str:
    return name.rpartition(".")[2]


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]
