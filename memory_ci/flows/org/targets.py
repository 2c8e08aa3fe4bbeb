"""Which repositories an organisation has, and who may read each: from lists, directories and the forges' listings."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from memory_ci.errors import EngineError, UsageError
from memory_ci.files import read_regular
from memory_ci.gitrepo.addresses import address_of
from memory_ci.records.names import AUDIENCE
from memory_ci.records.org import OrgRepository

if TYPE_CHECKING:
    from memory_ci.forge.selection import ForgeRepository, OrgForge

MAX_LIST = 20_000_000  # Bytes of a list of repositories.
WIDTH = {"public": 0, "internal": 1, "private": 2}
"""How few may read: nothing is put before more people than its forge lets read it."""

PRIVATE = "is private at its forge: it enters no shared index unless a line of the list names its group (group-NAME)"


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


class _Line(msgspec.Struct, frozen=True):
    address: str
    audience: str | None


def gather_targets(
    places: Sequence[Path],
    github: Sequence[str],
    gitlab: Sequence[str],
    environ: Mapping[str, str],
    cache_dir: Path,
) -> OrgTargets:
    """What the lists and directories at `places` and the organisations and groups of the forges name.

    Raises UsageError (bad-list), EngineError (`forge-…`) where a forge does not list at all.
    """
    lines = [line for place in places for line in _read(place)]
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
    targets = sorted(found.targets.values(), key=lambda target: (target.repository.name, target.repository.id))
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
        address = address_of(line.address)
        if not address:
            path = line.address.rstrip(os.sep) or line.address
            name = path.rpartition(os.sep)[2].removesuffix(".git")
            link = Path(path).as_uri() if Path(path).is_absolute() else path
            self._add(OrgTarget(OrgRepository(link, name, link, line.audience or "internal"), path))
            return
        self.named.add(address)
        known = self._listed.get(address)
        target = OrgTarget(
            OrgRepository(address, address.partition("/")[2], f"https://{address}", line.audience or "internal"),
            line.address,
        )
        if known is None:
            forge = next((one for one in self._forges if one.has_token and address.startswith(f"{one.host}/")), None)
            try:
                known = forge.find_repository(target.repository.name) if forge else None
            except EngineError as error:
                self._add(replace(target, problem=error.message))
                return
            if forge is not None and known is None:
                self._add(replace(target, is_gone=True))
                return
        if known is None:
            self._add(target)
        else:
            self.add_listed(known, line)

    def add_listed(self, one: ForgeRepository, line: _Line | None) -> None:
        """A repository that its forge knows; a line may name who reads it, but not more than the forge lets read."""
        asked = line.audience if line else None
        audience = asked or one.visibility if one.visibility != "private" or asked else "private"
        if line is None and one.visibility == "private":
            self.left_out.append(one.name)
            self.shut.append(one.id)
        elif WIDTH.get(audience, WIDTH["private"]) < WIDTH[one.visibility] or audience == "private":
            why = PRIVATE if one.visibility == "private" else f"is {one.visibility} at its forge, not {audience}"
            self.refused.append((one.name, why))
            self.shut.append(one.id)
        else:
            address = one.address if line is None or address_of(one.link) in self._listed else line.address
            repository = OrgRepository(one.id, one.name, one.link, audience)
            self._add(OrgTarget(repository, address, one.stamp, is_listed=True))

    def _add(self, target: OrgTarget) -> None:
        self.targets.setdefault(target.repository.id, target)


def _read(place: Path) -> list[_Line]:
    """A directory is a repository; a file is a list of them. Raises UsageError (bad-list)."""
    if place.is_dir():
        if not ((place / ".git").exists() or (place / "HEAD").is_file()):
            hint = "Name the top of a repository, or a list with one a line: PATH-OR-URL [audience]."
            raise UsageError(f"{place} is no repository", slug="bad-list", hint=hint)
        return [_Line(str(place.resolve()), None)]
    try:
        text = read_regular(place, MAX_LIST).decode()
    except (OSError, UnicodeDecodeError) as error:
        hint = "Name a directory, or a text file with a repository a line: PATH-OR-URL [audience]."
        raise UsageError(f"{place} is no list of repositories: {error}", slug="bad-list", hint=hint) from error
    numbered = ((at, line.partition(" #")[0].strip()) for at, line in enumerate(text.splitlines(), 1))
    return [_parse(line, place, at) for at, line in numbered if line and not line.startswith("#")]


def _parse(line: str, place: Path, at: int) -> _Line:
    *words, audience = line.rsplit(maxsplit=1)
    address = words[0] if words else ""
    if not address or not re.fullmatch(AUDIENCE, audience):
        if address and not os.path.exists(place.parent / Path(line).expanduser()):  # noqa: PTH110 - long names
            hint = "An audience is public, internal or group-NAME, in small letters, digits, `.`, `_` and `-`."
            raise UsageError(f"{place}:{at}: {audience!r} is no audience", slug="bad-list", hint=hint)
        address, audience = line, ""
    address = address.strip()
    if re.match(r"https?://[^/@]*@|\w+://[^/@]*:[^/@]*@", address, re.I):
        hint = "Tokens come from the environment: GITHUB_TOKEN, GITLAB_TOKEN, or git's own credential helper."
        raise UsageError(f"{place}:{at}: the address holds a user, a token or a password", slug="bad-list", hint=hint)
    if address.startswith("-"):
        raise UsageError(f"{place}:{at}: {address!r} is no address", slug="bad-list", hint="See docs/organisation.md.")
    if not address_of(address) and "://" not in address:
        address = str((place.absolute().parent / Path(address).expanduser()).resolve())
    return _Line(address, audience or None)
