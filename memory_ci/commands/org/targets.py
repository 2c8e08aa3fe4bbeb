"""Which repositories an organisation has, who may read each, and what each gives.

They are named by lists, directories and the forges' listings. What one gives are the entries of its memory at one
commit that may be shown to others.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.commands.org.records import LONGEST, OrgHead, OrgRepository
from memory_ci.config import CONFIG_FILE, parse_config
from memory_ci.errors import EngineError, MemoryCIError, UsageError
from memory_ci.extraction.gate import check_words
from memory_ci.files import read_regular
from memory_ci.gitrepo.addresses import address_of
from memory_ci.gitrepo.blobs import Tree, TreeFile, tree_at
from memory_ci.gitrepo.network import Remote, connect, fetch_files, fetch_tree, find_default_tip
from memory_ci.gitrepo.repo import Repository, find_repository, find_setting, resolve_commit
from memory_ci.memory.screening import find_unsafe
from memory_ci.memory.workspace import readable_path
from memory_ci.records.config import Config, ScopePatterns
from memory_ci.records.entry import Located
from memory_ci.records.names import AUDIENCE
from memory_ci.store.document import load_file
from memory_ci.store.layout import classify_scope, memory_pathspecs

if TYPE_CHECKING:
    from memory_ci.forge.selection import ForgeRepository, OrgForge

MAX_LIST = 20_000_000  # Bytes of a list of repositories.
# How few may read: nothing is put before more people than its forge lets read it.
WIDTH = {"public": 0, "internal": 1, "private": 2}
PRIVATE = "is private at its forge: it enters no shared index unless a line of the list names its group (group-NAME)"
MAX_BYTES, MAX_ENTRIES = 4_000_000, 5_000
"""Of one memory file, and of one repository: what is beyond is not shared, and counted."""

SHARED = frozenset(
    {"project", "team", "institutional"}
)  # What holds beyond one job and one machine.


class OrgTarget(msgspec.Struct, frozen=True):
    """A repository to look at. `address`: what git is asked, a directory or a URL.

    `stamp` changes with every push, "" where nobody says so. `is_listed`: its forge says that it is there. `problem`:
    why it cannot be looked at now; `is_gone`: its forge says that there is none.
    """

    repository: OrgRepository
    address: str
    stamp: str = ""
    is_listed: bool = False
    is_gone: bool = False
    problem: str = ""

    @property
    def is_local(self) -> bool:
        return not address_of(self.address) and "://" not in self.address


class OrgTargets(msgspec.Struct, frozen=True):
    """All of them, by name; those that are refused, each with the reason; private ones of a listing that no line names.

    `problem`: why a listing is not whole, so that nothing may be taken for gone that it does not name. `shut`: the ids
    of those that are refused or left out.
    """

    targets: tuple[OrgTarget, ...]
    refused: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()
    problem: str = ""
    shut: tuple[str, ...] = ()


class OrgLook(msgspec.Struct, frozen=True):
    """What looking at a repository gave: its entries at `head`, None where they are known; or that it is gone, or why
    it failed. `gated` entries must not be shown to others, `cut` ones were too many or too long, or their file was."""

    target: OrgTarget
    head: str = ""
    entries: tuple[Located, ...] | None = None
    gated: int = 0
    cut: int = 0
    is_gone: bool = False
    problem: str = ""
    repository: OrgRepository | None = None


class _Line(NamedTuple):
    address: str
    audience: str | None


def gather_targets(
    places: Sequence[Path],
    github: Sequence[str],
    gitlab: Sequence[str],
    environ: Mapping[str, str],
    cache_dir: Path,
) -> OrgTargets:
    """What the lists and directories at `places` and the organisations and groups of the forges name. Raises UsageError
    (bad-list), EngineError (`forge-…`) where a forge does not list at all."""
    lines = [line for place in places for line in _read_list(place)]
    if not lines and not (github or gitlab):
        hint = "Name a list of repositories, their directories, --github ORG or --gitlab GROUP."
        raise UsageError("no repository is named", slug="bad-list", hint=hint)
    forges: tuple[OrgForge, ...] = ()
    if github or gitlab or any(address_of(line.address) for line in lines):
        from memory_ci.forge.selection import open_forges  # lists of directories ask nobody

        forges = open_forges(environ, cache_dir)
    listed: dict[str, ForgeRepository] = {}
    problems = []
    for forge, owners in zip(forges, (github, gitlab), strict=False):
        for owner in owners:
            listing = forge.list_repositories(owner)
            listed |= {address_of(one.link): one for one in listing.items}
            problems += [listing.problem] if listing.problem else []
    found = _Gatherer(forges, listed)
    for line in lines:
        found.add_line(line)
    for address, one in listed.items():
        if address not in found.named:
            found.add_listed(one, None)
    targets = sorted(
        found.targets.values(), key=lambda target: (target.repository.name, target.repository.id)
    )
    told = (tuple(found.refused), tuple(found.left_out), "; ".join(problems), tuple(found.shut))
    return OrgTargets(tuple(targets), *told)


class _Gatherer:
    """Targets by id; of two lines for one repository the first counts."""

    def __init__(self, forges: Sequence[OrgForge], listed: Mapping[str, ForgeRepository]) -> None:
        self._forges, self._listed = forges, listed
        self.targets: dict[str, OrgTarget] = {}
        self.refused: list[tuple[str, str]] = []
        self.left_out: list[str] = []
        self.shut: list[str] = []
        self.named: set[str] = set()

    def add_line(self, line: _Line) -> None:
        """A repository that a list or the command line names."""
        address, audience = address_of(line.address), line.audience or "internal"
        if not address:
            path = line.address.rstrip(os.sep) or line.address
            name = path.rpartition(os.sep)[2].removesuffix(".git")
            link = Path(path).as_uri() if Path(path).is_absolute() else path
            self._add(OrgTarget(OrgRepository(link, name, link, audience), path))
            return
        self.named.add(address)
        name, known = address.partition("/")[2], self._listed.get(address)
        target = OrgTarget(
            OrgRepository(address, name, f"https://{address}", audience), line.address
        )
        forges = (
            one for one in self._forges if one.has_token and address.startswith(f"{one.host}/")
        )
        if known is None and (forge := next(forges, None)):
            try:
                known = forge.find_repository(name)
                target = replace(target, is_gone=known is None)
            except EngineError as error:
                target = replace(target, problem=error.message)
        if known is None:
            self._add(target)
        else:
            self.add_listed(known, line)

    def add_listed(self, one: ForgeRepository, line: _Line | None) -> None:
        """A repository that its forge knows; a line may name who reads it, but not more than the forge lets read."""
        audience = (line.audience if line else None) or one.visibility
        if line is None and one.visibility == "private":
            self.left_out.append(one.name)
            self.shut.append(one.id)
        elif WIDTH.get(audience, WIDTH["private"]) < WIDTH[one.visibility] or audience == "private":
            why = (
                PRIVATE
                if one.visibility == "private"
                else f"is {one.visibility} at its forge, not {audience}"
            )
            self.refused.append((one.name, why))
            self.shut.append(one.id)
        else:
            address = (
                one.address
                if line is None or address_of(one.link) in self._listed
                else line.address
            )
            repository = OrgRepository(one.id, one.name, one.link, audience)
            self._add(OrgTarget(repository, address, one.stamp, is_listed=True))

    def _add(self, target: OrgTarget) -> None:
        self.targets.setdefault(target.repository.id, target)


def _read_list(place: Path) -> list[_Line]:
    """A directory is a repository; a file is a list of them. Raises UsageError (bad-list)."""
    if place.is_dir():
        if not ((place / ".git").exists() or (place / "HEAD").is_file()):
            hint = (
                "Name the top of a repository, or a list with one a line: PATH-OR-URL [audience]."
            )
            raise UsageError(f"{place} is no repository", slug="bad-list", hint=hint)
        return [_Line(str(place.resolve()), None)]
    try:
        text = read_regular(place, MAX_LIST).decode()
    except (OSError, UnicodeDecodeError) as error:
        hint = "Name a directory, or a text file with a repository a line: PATH-OR-URL [audience]."
        raise UsageError(
            f"{place} is no list of repositories: {error}", slug="bad-list", hint=hint
        ) from error
    numbered = (
        (at, line.partition(" #")[0].strip()) for at, line in enumerate(text.splitlines(), 1)
    )
    return [_parse(line, place, at) for at, line in numbered if line and not line.startswith("#")]


def _parse(line: str, place: Path, at: int) -> _Line:
    *words, audience = line.rsplit(maxsplit=1)
    address = words[0] if words else ""
    if not address or not re.fullmatch(AUDIENCE, audience):
        if address and not os.path.exists(place.parent / Path(line).expanduser()):  # noqa: PTH110 - long names
            hint = "An audience is public, internal or group-NAME, in small letters, digits, `.`, `_` and `-`."
            raise UsageError(
                f"{place}:{at}: {audience!r} is no audience", slug="bad-list", hint=hint
            )
        address, audience = line, ""
    address = address.strip()
    if re.match(r"https?://[^/@]*@|\w+://[^/@]*:[^/@]*@", address, re.I):
        hint = "Tokens come from the environment: GITHUB_TOKEN, GITLAB_TOKEN, or git's own credential helper."
        raise UsageError(
            f"{place}:{at}: the address holds a user, a token or a password",
            slug="bad-list",
            hint=hint,
        )
    if address.startswith("-"):
        raise UsageError(
            f"{place}:{at}: {address!r} is no address",
            slug="bad-list",
            hint="See docs/organisation.md.",
        )
    if not address_of(address) and "://" not in address:
        address = str((place.absolute().parent / Path(address).expanduser()).resolve())
    return _Line(address, audience or None)


def look(
    target: OrgTarget,
    known: OrgHead | None,
    stamp: str,
    environ: Mapping[str, str],
    seconds: float,
    scratch: Path | None = None,
) -> OrgLook:
    """The repository as it is now. `known`: what the index holds of it already, as of `stamp`. `scratch` is where what
    is fetched may lie meanwhile. Raises nothing: one repository must not stop the others."""
    if target.is_gone or target.problem:
        return OrgLook(target, is_gone=target.is_gone, problem=target.problem)
    if known is not None and stamp and stamp == target.stamp:
        return OrgLook(target, known.head)
    try:
        if target.is_local and not Path(target.address).is_dir():
            return OrgLook(target, is_gone=True)
        remote = connect(target.address, environ)
        tip = find_default_tip(remote, seconds)
        if tip is None:
            problem = (
                "its forge lists it, and git is told that there is none: may the token read it?"
            )
            return (
                OrgLook(target, problem=problem)
                if target.is_listed
                else OrgLook(target, is_gone=True)
            )
        if known is not None and tip == known.head:
            return OrgLook(target, tip)
        if not tip:
            return OrgLook(target, tip, ())
        return (
            _read_local(target, tip)
            if target.is_local
            else _read_remote(target, remote, seconds, scratch)
        )
    except MemoryCIError as error:
        return OrgLook(target, problem=error.message)
    except Exception as error:  # noqa: BLE001 - named with its repository, whatever is in there
        return OrgLook(target, problem=f"{type(error).__name__}: {error}")


def _read_local(target: OrgTarget, tip: str) -> OrgLook:
    """A directory, by the name and address of the remote that it was cloned from."""
    repo, repository = find_repository(Path(target.address), is_named=True), target.repository
    if (
        find_setting(repo, "extensions.partialClone") is not None
    ):  # git would fetch what it lacks, by its own settings
        return OrgLook(
            target, problem="is a partial clone: name its address instead of the directory"
        )
    if address := address_of(find_setting(repo, "remote.origin.url") or ""):
        repository = replace(repository, name=address.partition("/")[2], link=f"https://{address}")
    return _read(target, repo, tip, repository)


def _read_remote(
    target: OrgTarget, remote: Remote, seconds: float, scratch: Path | None
) -> OrgLook:
    with tempfile.TemporaryDirectory(prefix="memory-ci-org-", dir=scratch) as place:
        repo = fetch_tree(remote, Path(place) / "repository", seconds)
        tip = resolve_commit(repo, "HEAD")
        tree, usual = tree_at(repo, tip), ScopePatterns()
        fetch_files(repo, remote, (file.oid for file in _memory(tree, usual)), seconds)
        if (patterns := _patterns(tree)) != usual:
            fetch_files(repo, remote, (file.oid for file in _memory(tree, patterns)), seconds)
        return _read(target, repo, tip, target.repository)


def _memory(tree: Tree, patterns: ScopePatterns) -> Iterator[TreeFile]:
    """The configuration and the memory files of a tree."""
    for file in tree.select((*memory_pathspecs(patterns), CONFIG_FILE)):
        if file.path == CONFIG_FILE or classify_scope(file.path, patterns):
            yield file


def _patterns(tree: Tree) -> ScopePatterns:
    """Raises UsageError (bad-config)."""
    text = next((one.data or b"" for one in tree.read([CONFIG_FILE], MAX_BYTES)), b"")
    return (parse_config(text.decode("utf-8", "replace")) if text else Config()).scopes


def _read(target: OrgTarget, repo: Repository, tip: str, repository: OrgRepository) -> OrgLook:
    tree = tree_at(repo, tip)
    patterns = _patterns(tree)
    wanted = [file.path for file in _memory(tree, patterns) if file.path != CONFIG_FILE]
    kept: list[Located] = []
    gated = cut = 0
    for content in tree.read(wanted, MAX_BYTES):
        if content.data is None:
            cut += 1
            continue
        for place in load_file(readable_path(content.file), content.data, patterns).entries:
            if place.scope.name not in SHARED or place.entry.status == "retired":
                continue
            if not is_safe(place):
                gated += 1
            elif (
                len(kept) < MAX_ENTRIES
                and len(place.entry.title) + len(place.entry.body) <= LONGEST
            ):
                kept.append(place)
            else:
                cut += 1
    return OrgLook(target, tip, tuple(kept), gated, cut, repository=repository)


def is_safe(place: Located) -> bool:
    """Whether an entry may be shown to others: it passes the gate of what machines write, and the screening of what is
    served."""
    entry = place.entry
    return not (check_words(entry.text) or any(find_unsafe(place)))
