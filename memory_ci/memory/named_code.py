"""Code that entries name: the paths and definitions of their words that a commit has become cites."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress

from msgspec.structs import replace

from memory_ci.anchors.anchors import format_anchor, is_citable, make_anchor
from memory_ci.anchors.subjects import MAX_CITES, is_meant
from memory_ci.anchors.symbols import find_definition, is_code, list_definitions, list_mentions
from memory_ci.errors import UsageError
from memory_ci.extraction.cites import NO_CODE, SHA_WIDTH, name_places
from memory_ci.extraction.gate import check_words
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.log import find_mentions
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.cites import MAX_MENTIONS, anchor_entries, read_texts
from memory_ci.memory.workspace import Workspace, memory_test
from memory_ci.records.entry import Entry
from memory_ci.store.document import parse_memory_file, render_memory_file
from memory_ci.store.edits import edit_file
from memory_ci.text import plural

TOKEN = re.compile(r"[\w.-]*\w")
CITE = re.compile(
    r"(?P<path>.+?)(?:::(?P<symbol>[^\s:@][^\s@]*)|:(?P<first>[1-9]\d*)(?:-(?P<last>[1-9]\d*))?)?"
)
Place = tuple[str, str]  # A path and the name of a definition in it, "" for none.


def cite_named(workspace: Workspace, entries: Sequence[Entry], rev: str) -> tuple[Entry, ...]:
    """The entries with their cites anchored; those that have none cite the files and definitions that their words name
    as code and that a commit holds, three at most. A name that several definitions have is cited only if a path is
    named too. What was rejected or is retired gets none. One search through the commit for all."""
    entries = anchor_entries(workspace, entries)
    is_open = [
        not one.cites and one.status == "active" and one.adoption != "rejected" for one in entries
    ]
    asked = {entry: entry.text for entry in compress(entries, is_open)}
    sha = find_commit(workspace.repo, rev) if asked else None
    if sha is None:
        return entries
    is_memory, here = memory_test(workspace), tree_at(workspace.repo, sha).files
    files = {
        path: file
        for path, file in here.items()
        if not is_memory(path) and not NO_CODE.fullmatch(path)
    }
    by_base: dict[str, list[str]] = defaultdict(list)
    for path in files:
        by_base[path.rpartition("/")[2]].append(path)
    paths: dict[
        Entry, dict[str, str]
    ] = {}  # the files that a text names, each with the lines that it gives
    for entry, prose in asked.items():
        near = [
            path for token in dict.fromkeys(TOKEN.findall(prose)) for path in by_base.get(token, ())
        ]
        paths[entry] = {
            path: place for path, place in name_places(prose, near).items() if path.isprintable()
        }
    names = {entry: list_mentions(prose, plain=False) for entry, prose in asked.items()}
    tails = {_tail(name) for own in names.values() for name in own}
    holding = [
        path
        for path in find_mentions(workspace.repo, sha, tails)
        if path in files and is_code(path)
    ]
    wanted = dict.fromkeys([*(path for own in paths.values() for path in own), *holding])
    texts = {
        file.path: text
        for file, text in read_texts(workspace.repo, map(files.__getitem__, wanted)).items()
    }
    definitions: dict[str, set[Place]] = defaultdict(set)
    for tail in tails:
        held = [path for path in holding if tail in texts.get(path, "")]
        for path in (
            held if len(held) <= MAX_MENTIONS else ()
        ):  # of a name that very many hold nothing is known
            found = (
                one.name for one in list_definitions(path, texts[path]) if _tail(one.name) == tail
            )
            definitions[tail] |= {(path, name) for name in found}
    cited = {
        entry: tuple(_cite(sha, paths[entry], names[entry], texts, definitions)) for entry in asked
    }
    return anchor_entries(
        workspace, [replace(one, cites=cited[one]) if cited.get(one) else one for one in entries]
    )


def _cite(
    sha: str,
    paths: Mapping[str, str],
    names: Iterable[str],
    texts: Mapping[str, str],
    definitions: Mapping[str, set[Place]],
) -> Iterator[str]:
    """What an entry cites that names these: the only definition that a mention can mean, of the files that are named if
    one of them has it, and the other files whole."""
    meant: dict[Place, None] = {}
    for mention in names:
        found = {
            place for place in definitions.get(_tail(mention), ()) if is_meant(mention, place[1])
        }
        likely = {place for place in found if place[0] in paths} or found
        meant |= dict.fromkeys(likely) if len(likely) == 1 else {}
    has_symbol = {path for path, _ in meant}
    whole = [(path, "") for path in paths if path not in has_symbol]
    for path, name in [*meant, *whole][:MAX_CITES]:
        cite, text = f"{path if name else paths[path]}@{sha[:SHA_WIDTH]}", texts.get(path)
        if name and text is not None:
            cite = format_anchor(make_anchor(path, text, sha[:SHA_WIDTH], symbol=name))
        if not check_words(cite):
            yield cite


def cite_files(workspace: Workspace, texts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Memory files with their entries cited against HEAD. Raises UnreadableMemoryError (unsafe-rewrite)."""
    files = {path: parse_memory_file(path, data) for path, data in texts.items()}
    entries = [(path, entry) for path, file in files.items() for entry in file.entries]
    updates: dict[str, list[Entry]] = defaultdict(list)
    for (path, old), new in zip(
        entries, cite_named(workspace, [one for _, one in entries], "HEAD"), strict=True
    ):
        if new != old:
            updates[path].append(new)
    return {
        path: render_memory_file(edit_file(files[path], updated=own))
        for path, own in updates.items()
    }


def read_cite(workspace: Workspace, written: str) -> str:
    """The anchor in HEAD that a person means by PATH, PATH::SYMBOL or PATH:A-B. Raises UsageError (unknown-cite)."""
    sha = find_commit(workspace.repo, "HEAD")
    files = tree_at(workspace.repo, sha).files if sha else {}
    match = CITE.fullmatch(written)
    path = written if written in files else match["path"] if match else ""
    if (
        path not in files
        or match is None
        or sha is None
        or not is_citable(path)
        or check_words(written)
    ):
        raise _unknown(
            f"HEAD has no file {path or written}",
            "Name it as git does; commit it first if it is new.",
        )
    text = read_texts(workspace.repo, [files[path]]).get(files[path], "")
    symbol = match["symbol"] if path != written else None
    lines: tuple[int, int] | None = None
    if symbol and find_definition(path, text, symbol) is None:
        raise _unknown(
            f"{path} has no definition {symbol}, or several of it",
            "Name its class too, or cite lines.",
        )
    if path != written and match["first"]:
        first, last = int(match["first"]), int(match["last"] or match["first"])
        lines, count = (first, last), len(text.splitlines())
        if not first <= last <= count:
            raise _unknown(
                f"{path} has no lines {first}-{last}: it has {plural(count, 'line')}", "Write A-B."
            )
    return format_anchor(make_anchor(path, text, sha[:SHA_WIDTH], lines, symbol))


def _unknown(message: str, hint: str) -> UsageError:
    return UsageError(message, slug="unknown-cite", hint=hint)


def _tail(name: str) -> str:
    return name.rpartition(".")[2]
