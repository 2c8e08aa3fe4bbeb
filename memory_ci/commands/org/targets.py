"""The repositories of an organisation, who may read each, and the entries that each shares.

Repositories are named by lists, by directories and by the listings of forges.
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

from memory_ci.commands.org.records import MAX_SHARED_CHARS, OrgHead, OrgRepository
from memory_ci.config import CONFIG_FILE, parse_config
from memory_ci.errors import EngineError, MemoryCIError, UsageError
from memory_ci.extraction.gate import check_words
from memory_ci.files import read_regular
from memory_ci.gitrepo.addresses import normalize_address
from memory_ci.gitrepo.blobs import Tree, TreeFile, tree_at
from memory_ci.gitrepo.network import Remote, ask_default_tip, connect, fetch_files, fetch_tree
from memory_ci.gitrepo.repo import Repository, find_repository, find_setting, resolve_commit
from memory_ci.memory.screening import find_unsafe_entry
from memory_ci.memory.workspace import readable_path
from memory_ci.records.config import Config, ScopePatterns
from memory_ci.records.entry import Located
from memory_ci.records.names import AUDIENCE
from memory_ci.store.layout import classify_scope, memory_pathspecs
from memory_ci.store.memory_files import load_file

if TYPE_CHECKING:
    from memory_ci.forge.selection import ForgeRepository, OrgForge

MAX_LIST = 20_000_000  # Bytes of a list of repositories.
RESTRICTION_LEVELS = {"public": 0, "internal": 1, "private": 2}
"""How restricted an audience is: no entry is shared with more readers than its forge allows."""

PRIVATE_REASON = (
    "is private at its forge: it enters no shared index"
    " unless a line of the list names its group (group-NAME)"
)
MAX_BYTES = 4_000_000  # Bytes of a memory file; a larger file is counted, and not shared.
MAX_ENTRIES = 5_000  # Entries of a repository; further ones are counted, and not shared.
SHARED_SCOPES = frozenset({"project", "team", "institutional"})
"""The scopes that are shared: those that apply beyond one job and one machine."""


class OrgTarget(msgspec.Struct, frozen=True):
    """A repository to read.

    Attributes:
        repository: the repository as readers of the index see it.
        address: a directory or a URL, for git.
        push_stamp: a value of the forge that changes with every push; "" for none.
        is_listed: whether its forge says that it exists.
        is_gone: whether its forge says that it does not exist.
        problem: why it cannot be read now.
    """

    repository: OrgRepository
    address: str
    push_stamp: str = ""
    is_listed: bool = False
    is_gone: bool = False
    problem: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the address is a directory."""
        return not normalize_address(self.address) and "://" not in self.address


class OrgTargets(msgspec.Struct, frozen=True):
    """The repositories of an organisation.

    Attributes:
        targets: those to read, by name.
        refused: those that may not be shared as wanted, as (name, reason).
        unnamed_private: names of private ones in a listing that no line of a list names.
        problem: why a listing is incomplete; with it, a missing repository may still exist.
        excluded_ids: ids of those that are refused or left out.
    """

    targets: tuple[OrgTarget, ...]
    refused: tuple[tuple[str, str], ...] = ()
    unnamed_private: tuple[str, ...] = ()
    problem: str = ""
    excluded_ids: tuple[str, ...] = ()


class OrgReading(msgspec.Struct, frozen=True):
    """The result of reading a repository: its entries, or that it is gone, or a problem.

    Attributes:
        head: the commit that was read; "" in an empty repository.
        entries: the entries that may be shared; None if they are those of the index.
        unsafe_count: how many entries are not shared because they must not be shown to others.
        excess_count: how many entries are not shared because they are too many or too long, or
            files because they are too large.
        repository: the repository, if its directory names it otherwise than the target.
    """

    target: OrgTarget
    head: str = ""
    entries: tuple[Located, ...] | None = None
    unsafe_count: int = 0
    excess_count: int = 0
    is_gone: bool = False
    problem: str = ""
    repository: OrgRepository | None = None


class ListLine(NamedTuple):
    """A repository in a list: its address, and its audience if the line has one."""

    address: str
    audience: str | None


# -- gather targets


def gather_targets(
    places: Sequence[Path],
    github: Sequence[str],
    gitlab: Sequence[str],
    environ: Mapping[str, str],
    cache_dir: Path,
) -> OrgTargets:
    """Return the repositories that lists, directories and forges name.

    Args:
        places: lists of repositories, and directories of repositories.
        github: organisations whose repositories GitHub lists.
        gitlab: groups whose projects GitLab lists.
        environ: the environment, which has the tokens.
        cache_dir: where replies of forges are cached.

    Raises:
        UsageError: bad-list.
        EngineError: `forge-…` where a forge lists nothing at all.
    """
    lines: list[ListLine] = []
    for place in places:
        lines += _read_list(place)
    if not lines and not (github or gitlab):
        hint = "Name a list of repositories, their directories, --github ORG or --gitlab GROUP."
        raise UsageError("no repository is named", slug="bad-list", hint=hint)

    forges: tuple[OrgForge, ...] = ()
    if github or gitlab or any(normalize_address(line.address) for line in lines):
        from memory_ci.forge.selection import open_forges  # Directories alone need no forge.

        forges = open_forges(environ, cache_dir)
    repositories_by_address: dict[str, ForgeRepository] = {}
    problems: list[str] = []
    # `open_forges` returns GitHub and GitLab in this order; without any owner there is no forge.
    for forge, owners in zip(forges, (github, gitlab), strict=False):
        for owner in owners:
            listing = forge.list_repositories(owner)
            for repository in listing.items:
                repositories_by_address[normalize_address(repository.link)] = repository
            if listing.problem:
                problems.append(listing.problem)

    gatherer = _TargetGatherer(forges, repositories_by_address)
    for line in lines:
        gatherer.add_line(line)
    gatherer.add_unnamed()
    return gatherer.build_targets("; ".join(problems))


class _TargetGatherer:
    """Collects targets by id; of two lines for one repository the first counts."""

    def __init__(self, forges: Sequence[OrgForge], listed: Mapping[str, ForgeRepository]) -> None:
        """Start without targets.

        Args:
            forges: the forges that can be asked for a repository.
            listed: the repositories in the listings of forges, by address (host/owner/name).
        """
        self._forges = forges
        self._listed = listed
        self._targets: dict[str, OrgTarget] = {}  # by id
        # The name of each that may not be shared with its audience, and the reason.
        self._refused: list[tuple[str, str]] = []
        # The names of private ones in a listing that no line of a list names.
        self._unnamed_private: list[str] = []
        # The ids of both.
        self._excluded_ids: list[str] = []
        self._named_addresses: set[str] = set()

    def add_line(self, line: ListLine) -> None:
        """Add a repository that a list or the command line names.

        What its forge knows of it counts: from a listing, or from a question if there is a token.
        """
        address = normalize_address(line.address)  # host/owner/name, "" for a directory
        audience = line.audience or "internal"
        if not address:
            self._add_directory(line.address, audience)
            return

        self._named_addresses.add(address)
        _, _, name = address.partition("/")
        forge_repository = self._listed.get(address)
        forge = self._find_forge(address)
        is_gone = False
        problem = ""
        if forge_repository is None and forge is not None:
            try:
                forge_repository = forge.find_repository(name)
                is_gone = forge_repository is None
            except EngineError as error:
                problem = error.message
        if forge_repository is not None:
            self._add_forge_repository(forge_repository, line)
            return
        repository = OrgRepository(address, name, f"https://{address}", audience)
        self._add_target(OrgTarget(repository, line.address, is_gone=is_gone, problem=problem))

    def add_unnamed(self) -> None:
        """Add the repositories of listings that no line names."""
        for address, forge_repository in self._listed.items():
            if address not in self._named_addresses:
                self._add_forge_repository(forge_repository, None)

    def build_targets(self, problem: str) -> OrgTargets:
        """Return the targets that were added, and the repositories that are no targets.

        These are refused because their audience is too wide, or private and named by no line.

        Args:
            problem: why a listing of a forge is incomplete, "" if all are complete.
        """
        targets = sorted(
            self._targets.values(),
            key=lambda target: (target.repository.name, target.repository.id),
        )
        return OrgTargets(
            targets=tuple(targets),
            refused=tuple(self._refused),
            unnamed_private=tuple(self._unnamed_private),
            problem=problem,
            excluded_ids=tuple(self._excluded_ids),
        )

    def _add_directory(self, address: str, audience: str) -> None:
        """Add a directory, with its `file:` URL as id and link."""
        path = address.rstrip(os.sep) or address
        name = Path(path).name.removesuffix(".git")
        link = Path(path).as_uri() if Path(path).is_absolute() else path
        self._add_target(OrgTarget(OrgRepository(link, name, link, audience), path))

    def _find_forge(self, address: str) -> OrgForge | None:
        """Return the forge of an address, if there is a token for it."""
        for forge in self._forges:
            if forge.has_token and address.startswith(f"{forge.host}/"):
                return forge
        return None

    def _add_forge_repository(
        self, forge_repository: ForgeRepository, line: ListLine | None
    ) -> None:
        """Add a repository that its forge knows, or exclude it.

        Its audience, those who may read its entries, is that of the line, else the visibility at
        the forge. The repository is excluded if no line names it and it is private; and it is
        refused if the audience is wider than the visibility, or `private`: nobody could read it, so
        a line has to name a group.

        Args:
            forge_repository: the repository at its forge.
            line: the line of a list that names it, None if no list does.
        """
        visibility = forge_repository.visibility
        if line is None and visibility == "private":
            self._unnamed_private.append(forge_repository.name)
            self._excluded_ids.append(forge_repository.id)
            return

        audience: str = visibility
        if line is not None and line.audience:
            audience = line.audience
        # A group has no level of its own: it is as restricted as a private repository.
        audience_level = RESTRICTION_LEVELS.get(audience, RESTRICTION_LEVELS["private"])
        is_too_wide = audience_level < RESTRICTION_LEVELS[visibility]
        if is_too_wide or audience == "private":
            reason = f"is {visibility} at its forge, not {audience}"
            if visibility == "private":
                reason = PRIVATE_REASON
            self._refused.append((forge_repository.name, reason))
            self._excluded_ids.append(forge_repository.id)
            return

        # The listing of a forge has the address to clone; otherwise that of the line is used.
        is_in_listing = normalize_address(forge_repository.link) in self._listed
        address = forge_repository.address
        if line is not None and not is_in_listing:
            address = line.address
        repository = OrgRepository(
            forge_repository.id, forge_repository.name, forge_repository.link, audience
        )
        self._add_target(OrgTarget(repository, address, forge_repository.stamp, is_listed=True))

    def _add_target(self, target: OrgTarget) -> None:
        self._targets.setdefault(target.repository.id, target)


def _read_list(place: Path) -> list[ListLine]:
    """Read a list of repositories; a directory is a repository itself.

    Raises:
        UsageError: bad-list.
    """
    if place.is_dir():
        if not ((place / ".git").exists() or (place / "HEAD").is_file()):
            hint = (
                "Name the top of a repository, or a list with one a line: PATH-OR-URL [audience]."
            )
            raise UsageError(f"{place} is no repository", slug="bad-list", hint=hint)
        return [ListLine(str(place.resolve()), None)]

    try:
        text = read_regular(place, MAX_LIST).decode()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{place} is no list of repositories: {error}"
        hint = "Name a directory, or a text file with a repository a line: PATH-OR-URL [audience]."
        raise UsageError(message, slug="bad-list", hint=hint) from error
    lines = []
    for number, raw_line in enumerate(text.splitlines(), start=1):
        without_comment, _, _ = raw_line.partition(" #")
        line = without_comment.strip()
        if line and not line.startswith("#"):
            lines.append(_parse_line(line, place, number))
    return lines


def _parse_line(line: str, place: Path, number: int) -> ListLine:
    """Parse a line of a list; the path of a directory is relative to the list.

    Args:
        line: the line without its comment.
        place: the file of the list.
        number: the number of the line, from 1.

    Raises:
        UsageError: bad-list.
    """
    address, audience = _split_line(line, place, number)
    # `https://token@host` and `ssh://user:password@host`; a user alone is normal for ssh.
    if re.match(r"https?://[^/@]*@|\w+://[^/@]*:[^/@]*@", address, re.I):
        message = f"{place}:{number}: the address holds a user, a token or a password"
        hint = (
            "Tokens come from the environment: GITHUB_TOKEN, GITLAB_TOKEN,"
            " or git's own credential helper."
        )
        raise UsageError(message, slug="bad-list", hint=hint)
    if address.startswith("-"):
        message = f"{place}:{number}: {address!r} is no address"
        raise UsageError(message, slug="bad-list", hint="See `memory-ci help platform`.")
    if not normalize_address(address) and "://" not in address:
        address = str((place.absolute().parent / Path(address).expanduser()).resolve())
    return ListLine(address, audience or None)


def _split_line(line: str, place: Path, number: int) -> tuple[str, str]:
    """Split a line into address and audience.

    A path may have blanks. So a last word that is no audience belongs to the path, if a directory
    has this path.

    Returns:
        The address, and the audience, "" for none.

    Raises:
        UsageError: bad-list.
    """
    *words_before, last_word = line.rsplit(maxsplit=1)
    if not words_before:
        return line.strip(), ""
    if re.fullmatch(AUDIENCE, last_word):
        return words_before[0].strip(), last_word
    # Unlike Path.exists(), this is False for a name that is too long.
    if not os.path.exists(place.parent / Path(line).expanduser()):  # noqa: PTH110
        message = f"{place}:{number}: {last_word!r} is no audience"
        hint = (
            "An audience is public, internal or group-NAME,"
            " in small letters, digits, `.`, `_` and `-`."
        )
        raise UsageError(message, slug="bad-list", hint=hint)
    return line.strip(), ""


# -- read a target


def read_target(
    target: OrgTarget,
    indexed_head: OrgHead | None,
    stamp: str,
    environ: Mapping[str, str],
    seconds: float,
    *,
    scratch: Path | None = None,
) -> OrgReading:
    """Read the entries of a repository at the tip of its default branch.

    They are not read if the tip, or the stamp of the forge, is that of the last sync. An exception
    becomes a problem in the result: one repository must not stop the others.

    Args:
        target: the repository.
        indexed_head: its head in the index, None if it is not there.
        stamp: the stamp of the target at the last sync, "" if unknown; a forge changes it with
            every push.
        environ: the environment, which has the tokens.
        seconds: how long each git process may take.
        scratch: a directory for fetched files; None for the system's.
    """
    if target.is_gone or target.problem:
        return OrgReading(target, is_gone=target.is_gone, problem=target.problem)
    if indexed_head is not None and stamp and stamp == target.push_stamp:
        return OrgReading(target, indexed_head.commit)
    try:
        if target.is_local and not Path(target.address).is_dir():
            return OrgReading(target, is_gone=True)
        remote = connect(target.address, environ)
        tip = ask_default_tip(remote, seconds)
        if tip is None:
            return _report_missing(target)
        if indexed_head is not None and tip == indexed_head.commit:
            return OrgReading(target, tip)
        if not tip:  # an empty repository
            return OrgReading(target, tip, ())
        if target.is_local:
            return _read_local(target, tip)
        return _read_remote(target, remote, seconds, scratch)
    except MemoryCIError as error:
        return OrgReading(target, problem=error.message)
    except Exception as error:  # noqa: BLE001 - named with its repository, whatever is in there
        return OrgReading(target, problem=f"{type(error).__name__}: {error}")


def _report_missing(target: OrgTarget) -> OrgReading:
    """Return the result for an address where git finds no repository.

    If its forge lists it, the token may only lack the right to read it.
    """
    if target.is_listed:
        problem = "its forge lists it, but git cannot find it: may the token read it?"
        return OrgReading(target, problem=problem)
    return OrgReading(target, is_gone=True)


def _read_local(target: OrgTarget, tip: str) -> OrgReading:
    """Read a local repository; it gets the name and link of the remote it was cloned from."""
    repo = find_repository(Path(target.address), is_named=True)
    if find_setting(repo, "extensions.partialClone") is not None:
        # Git would fetch missing objects, by commands that the settings of the clone may name.
        problem = "is a partial clone: name its address instead of the directory"
        return OrgReading(target, problem=problem)

    repository = target.repository
    address = normalize_address(find_setting(repo, "remote.origin.url") or "")
    if address:
        _, _, name = address.partition("/")
        repository = replace(repository, name=name, link=f"https://{address}")
    return read_entries(target, repo, tip, repository)


def _read_remote(
    target: OrgTarget, remote: Remote, seconds: float, scratch: Path | None
) -> OrgReading:
    """Fetch the configuration and memory files of a remote, and read them.

    The trees are fetched first, without files. The files at the default places are fetched with
    the configuration, and those that it names otherwise after it.
    """
    with tempfile.TemporaryDirectory(prefix="memory-ci-org-", dir=scratch) as directory:
        repo = fetch_tree(remote, Path(directory) / "repository", seconds)
        tip = resolve_commit(repo, "HEAD")
        tree = tree_at(repo, tip)
        default_patterns = ScopePatterns()
        default_oids = (file.oid for file in _iter_files(tree, default_patterns))
        fetch_files(repo, remote, default_oids, seconds)
        patterns = _read_patterns(tree)
        if patterns != default_patterns:
            configured_oids = (file.oid for file in _iter_files(tree, patterns))
            fetch_files(repo, remote, configured_oids, seconds)
        return read_entries(target, repo, tip, target.repository)


def _iter_files(tree: Tree, patterns: ScopePatterns) -> Iterator[TreeFile]:
    """Yield the configuration and the memory files of a tree."""
    for file in tree.select((*memory_pathspecs(patterns), CONFIG_FILE)):
        if file.path == CONFIG_FILE or classify_scope(file.path, patterns):
            yield file


def _read_patterns(tree: Tree) -> ScopePatterns:
    """Return the patterns of memory files that the configuration of a tree has.

    Raises:
        UsageError: bad-config.
    """
    for content in tree.read([CONFIG_FILE], MAX_BYTES):
        if content.data:
            return parse_config(content.data.decode("utf-8", "replace")).scopes
    return Config().scopes


def read_entries(
    target: OrgTarget, repo: Repository, tip: str, repository: OrgRepository
) -> OrgReading:
    """Read the entries of a commit that may be shared, and count the others.

    Args:
        target: the repository to read, which the result names.
        repo: a clone of it.
        tip: the commit.
        repository: the repository as readers of the index see it: its name, link and audience.
    """
    tree = tree_at(repo, tip)
    patterns = _read_patterns(tree)
    paths = [file.path for file in _iter_files(tree, patterns) if file.path != CONFIG_FILE]
    shared_entries: list[Located] = []
    unsafe_count = 0
    excess_count = 0
    for content in tree.read(paths, MAX_BYTES):
        if content.data is None:  # The file is larger than MAX_BYTES.
            excess_count += 1
            continue
        memory_file = load_file(readable_path(content.file), content.data, patterns)
        for located in memory_file.entries:
            if located.scope.name not in SHARED_SCOPES or located.entry.status == "retired":
                continue
            size = len(located.entry.title) + len(located.entry.body)
            if not is_safe(located):
                unsafe_count += 1
            elif len(shared_entries) < MAX_ENTRIES and size <= MAX_SHARED_CHARS:
                shared_entries.append(located)
            else:
                excess_count += 1
    return OrgReading(
        target,
        head=tip,
        entries=tuple(shared_entries),
        unsafe_count=unsafe_count,
        excess_count=excess_count,
        repository=repository,
    )


def is_safe(located: Located) -> bool:
    """Return whether an entry may be shown to others.

    It must pass the gate for generated entries, and the screening of served text.
    """
    return not check_words(located.entry.text) and not any(find_unsafe_entry(located))
