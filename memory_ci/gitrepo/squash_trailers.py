"""Trailers that a squash or a rebase buried: the commits that a merged change was made from, on branches still here.

A squash with a message of its own drops the trailers of the commits it joins. Where these are still to be had, the
change is known again by what its pull request lists, by its tree or by its patch. A forged join would move the utility
of entries, so refs that anybody may push to (refs/pull/7/head) count only for the change that bears their number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import IO, Literal, NamedTuple

import msgspec

from memory_ci.gitrepo.log import FILES, SETTINGS, read_log
from memory_ci.gitrepo.process import ask_git, decode_path, run_git, stream_git
from memory_ci.gitrepo.repo import (
    Repository,
    find_commit,
    find_merge_base,
    find_objects,
    is_ancestor,
)
from memory_ci.gitrepo.trailers import find_trailers
from memory_ci.records.history import Commit, MergedChange
from memory_ci.records.names import FULL_ID, HOLDOUT, SERVED, USED

KEYS = (
    SERVED,
    USED,
    "Memory-Session",
    HOLDOUT,
)  # The first is the one whose absence starts a search.
PLACES = ("refs/heads", "refs/remotes", "refs/pull", "refs/merge-requests")
UNMERGED = (
    "--ignore-missing",
    "--branches",
    "--remotes",
    *(f"--glob={place}" for place in PLACES[2:]),
)
"""A ref whose commit is not here is passed over: the first option holds for what comes after it."""

REQUEST = re.compile(r"refs/(?:remotes/(?:[^/]+/)?)?(?:pull|pr|merge-requests)/(\d{1,9})(?:/.*)?")
"""A ref of a pull or merge request: as a forge keeps it, or as people and CI fetch it (`refs/remotes/origin/pr/7`)."""

MAX_CARRIERS = 2_000
MAX_BRANCHES = 200
MAX_WALK = 20_000  # Unmerged commits, the newest first; what lies beyond is not looked at.
MAX_PATCH = 8_000_000  # Bytes: a longer patch has no id here. As many are held in memory at once.
PATCH = (
    *(
        "-r",
        "-p",
        "-U3",
        "--full-index",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
    ),
    *(
        "--diff-algorithm=myers",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--no-relative",
        "-O/dev/null",
    ),
    *("--inter-hunk-context=0", "--ignore-submodules=none", "--submodule=short"),
)
"""The form of a patch: nothing of the user's taste. Empty context lines keep their blank (`PLAIN`), or ids go wrong."""

PLAIN = ("-c", "diff.suppressBlankEmpty=false")
BINARY = b"Binary files "
How = Literal["commit", "pull request", "tree", "patch-id"]
Pair = tuple[str, str]  # A commit, and the one that it is compared with.


class Buried(msgspec.Struct, frozen=True):
    """A commit with trailers that belongs to a merged change, and how that is known."""

    sha: str
    how: How
    trailers: tuple[tuple[str, str], ...]


class _Carrier(NamedTuple):
    """A commit that is not merged and has trailers; `parent` is "" where it has none, or several."""

    sha: str
    parent: str
    paths: frozenset[str]
    trailers: tuple[tuple[str, str], ...]


class _Node(NamedTuple):
    tree: str
    parents: tuple[str, ...]


class BuriedTrailers:
    """Finds the trailers of merged changes, given oldest first: what one change was given, no later one gets.

    `base` is the commit that holds all of them. Git is first asked when a change lacks `Memory-Retrieved`, and for the
    last time then if no unmerged commit has trailers and no request lists any.
    """

    def __init__(self, repo: Repository, base: str) -> None:
        self._repo = repo
        self._unmerged = _Unmerged(repo, base)
        self._given: set[str] = set()
        self._patch_ids: dict[Pair, str] = {}

    def find(self, merged: MergedChange, request_shas: Collection[str] = ()) -> tuple[Buried, ...]:
        """The commits with trailers that a change was made from, oldest first, its own before those that were buried.

        `request_shas` are the commits that its pull request lists. The first way that leads to any is taken: the
        request; a branch with the same tree, the newest of several; a branch with the same patch; single commits.
        """
        found = ((commit.sha, find_trailers(commit.message, KEYS)) for commit in merged.commits)
        own = tuple(Buried(sha, "commit", trailers) for sha, trailers in found if trailers)
        if any(key == KEYS[0] for one in own for key, _ in one.trailers):
            return own
        return (*own, *(self._find_listed(merged, request_shas) or self._search(merged)))

    def _find_listed(self, merged: MergedChange, shas: Collection[str]) -> tuple[Buried, ...]:
        """Those that the request lists, though no branch may hold them any more."""
        own = {commit.sha for commit in merged.commits}
        wanted = [
            sha for sha in dict.fromkeys(shas) if re.fullmatch(FULL_ID, sha) and sha not in own
        ]
        if not wanted:
            return ()
        here: Mapping[str, _Carrier] = self._unmerged.carriers
        if here.keys().isdisjoint(wanted):
            here = self._unmerged.read_carriers(wanted)
        return self._give("pull request", [here[sha] for sha in wanted if sha in here])

    def _search(self, merged: MergedChange) -> tuple[Buried, ...]:
        start = next(iter(merged.commits[0].parents), None)
        if merged.kind == "merge" or start is None or not self._unmerged.carriers:
            return ()
        # The tips that may be its branch, newest first, without those given away.
        owners = {None, merged.number}
        allowed = (tip for tip, of in self._unmerged.tips.items() if not owners.isdisjoint(of))
        free = (tip for tip in allowed if any(map(self._is_free, self._unmerged.hold(tip))))
        tips = tuple(islice(free, MAX_BRANCHES))
        return self._find_by_tree(merged, start, tips) or self._find_by_patch(merged, start, tips)

    def _find_by_tree(
        self, merged: MergedChange, start: str, tips: Sequence[str]
    ) -> tuple[Buried, ...]:
        if not tips:
            return ()
        tree, before = find_objects(self._repo, (f"{merged.tip.sha}^{{tree}}", f"{start}^{{tree}}"))
        for tip in tips:
            # What changes nothing ends like everything that stands there: neither side may be such.
            if tree == self._unmerged.nodes[tip].tree and tree not in (
                before,
                self._unmerged.find_start_tree(tip),
            ):
                return self._give("tree", self._list_carried([tip]))
        return ()

    def _find_by_patch(
        self, merged: MergedChange, start: str, tips: Sequence[str]
    ) -> tuple[Buried, ...]:
        """By the patch of a branch as a whole, else by those of single commits; only where the paths agree."""
        paths = [_paths_of(commit) for commit in merged.commits]
        touched = frozenset().union(*paths)
        branches = [
            tip for tip in tips if any(touched & one.paths for one in self._list_carried([tip]))
        ]
        wholes = [(tip, fork) for tip in branches if (fork := self._unmerged.find_fork(tip))]
        singles = [one for one in self._list_carried(tips) if one.parent and one.paths in paths]
        if not wholes and not singles:
            return ()
        whole = (merged.tip.sha, start)
        commits = [(commit.sha, commit.parents[0]) for commit in merged.commits]
        pairs = dict.fromkeys([whole, *commits, *wholes, *map(_pair_of, singles)])
        missing = [pair for pair in pairs if pair not in self._patch_ids]
        self._patch_ids |= dict.fromkeys(missing, "") | list_patch_ids(self._repo, missing)
        branch = next(self._alike([whole], wholes), None)
        if branch:
            return self._give("patch-id", self._list_carried([branch[0]]))
        alike = set(self._alike(commits, [_pair_of(one) for one in reversed(singles)]))
        return self._give("patch-id", [one for one in singles if _pair_of(one) in alike])

    # -- parts

    def _list_carried(self, tips: Iterable[str]) -> list[_Carrier]:
        """The carriers that the tips hold and no change was given, oldest first."""
        free = {
            one.sha: one for tip in tips for one in self._unmerged.hold(tip) if self._is_free(one)
        }
        return sorted(free.values(), key=lambda one: -self._unmerged.places[one.sha])

    def _is_free(self, carrier: _Carrier) -> bool:
        return carrier.sha not in self._given

    def _give(self, how: How, carriers: Iterable[_Carrier]) -> tuple[Buried, ...]:
        found = tuple(Buried(one.sha, how, one.trailers) for one in carriers if self._is_free(one))
        self._given.update(one.sha for one in found)
        return found

    def _alike(self, wanted: Iterable[Pair], found: Sequence[Pair]) -> Iterator[Pair]:
        """For each wanted patch the first of `found` that is the same; an empty patch is like no other."""
        for pair in wanted:
            patch_id = self._patch_ids[pair]
            yield from islice(
                (one for one in found if patch_id and self._patch_ids[one] == patch_id), 1
            )


class _Unmerged:
    """The commits that `base` does not hold: each thing is read when it is first asked for, and once."""

    def __init__(self, repo: Repository, base: str) -> None:
        self._repo, self._base = repo, base
        self._held: dict[str, tuple[_Carrier, ...]] = {}
        self._forks: dict[str, str | None] = {}

    @cached_property
    def carriers(self) -> dict[str, _Carrier]:
        return self._read_carriers(UNMERGED)

    @cached_property
    def nodes(self) -> dict[str, _Node]:
        """Newest first, children before parents."""
        asked = (
            "log",
            "--date-order",
            f"-n{MAX_WALK}",
            "--format=%H %T %P",
            *UNMERGED,
            f"^{self._base}",
            "--",
        )
        rows = (
            line.split()
            for line in run_git(self._repo.cwd, *SETTINGS, *asked).decode().splitlines()
        )
        return {sha: _Node(tree, tuple(parents)) for sha, tree, *parents in rows}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each node: the newest has the first."""
        return {sha: place for place, sha in enumerate(self.nodes)}

    @cached_property
    def tips(self) -> Mapping[str, frozenset[int | None]]:
        """The tips of branches that have carriers, newest first, with the requests they are of; None: of a branch."""
        owners: dict[str, set[int | None]] = {}
        listing = run_git(
            self._repo.cwd, "for-each-ref", "--format=%(objectname) %(refname)", *PLACES
        )
        for line in decode_path(listing).splitlines():
            sha, _, ref = line.partition(" ")
            request = REQUEST.fullmatch(ref)
            owners.setdefault(sha, set()).add(int(request[1]) if request else None)
        carrying: set[str] = set()  # The nodes that are carriers or have one among their ancestors.
        for sha in reversed(self.nodes):
            if sha in self.carriers or not carrying.isdisjoint(self.nodes[sha].parents):
                carrying.add(sha)
        return {
            sha: frozenset(owners[sha]) for sha in self.nodes if sha in owners and sha in carrying
        }

    def read_carriers(self, shas: Collection[str]) -> dict[str, _Carrier]:
        """The carriers among these commits and their ancestors; what is not here is passed over."""
        asked = "".join(f"{sha}\n" for sha in shas).encode()
        return self._read_carriers(("--ignore-missing", "--stdin"), asked)

    def hold(self, tip: str) -> tuple[_Carrier, ...]:
        """The carriers that a tip is or has behind it."""
        if tip not in self._held:
            reached = self._reach(tip)
            self._held[tip] = tuple(one for sha, one in self.carriers.items() if sha in reached)
        return self._held[tip]

    def find_fork(self, tip: str) -> str | None:
        """Where a branch left what is merged; None in a clone too shallow to hold that."""
        if tip not in self._forks:
            outside = {
                old
                for sha in self._reach(tip)
                for old in self.nodes[sha].parents
                if old not in self.nodes
            }
            several = len(outside) > 1
            self._forks[tip] = (
                find_merge_base(self._repo, self._base, tip)
                if several
                else next(iter(outside), None)
            )
        return self._forks[tip]

    def find_start_tree(self, tip: str) -> str | None:
        """The tree that a branch began with; its own, as if it changed nothing, where that is not known."""
        fork = self.find_fork(tip)
        return find_objects(self._repo, (f"{fork}^{{tree}}",))[0] if fork else self.nodes[tip].tree

    def _read_carriers(
        self, which: Sequence[str], input: bytes | None = None
    ) -> dict[str, _Carrier]:
        grep = (
            "--fixed-strings",
            "--regexp-ignore-case",
            *(f"--grep={key}" for key in KEYS),
            f"-n{MAX_CARRIERS}",
        )
        log = read_log(self._repo, *which, *grep, *FILES, f"^{self._base}", "--", input=input)
        found = ((commit, find_trailers(commit.message, KEYS)) for commit, _ in log)
        return {
            one.sha: _Carrier(
                one.sha, one.parents[0] if len(one.parents) == 1 else "", _paths_of(one), trailers
            )
            for one, trailers in found
            if trailers
        }

    def _reach(self, tip: str) -> set[str]:
        reached: set[str] = set()
        waiting = [tip]
        while waiting:
            sha = waiting.pop()
            if sha in self.nodes and sha not in reached:
                reached.add(sha)
                waiting.extend(self.nodes[sha].parents)
        return reached


def list_patch_ids(
    repo: Repository, pairs: Sequence[Pair], limit: int = MAX_PATCH, pathspecs: Sequence[str] = ()
) -> dict[Pair, str]:
    """The ids of the patches that lead to commits from others, without those of empty and of very long patches."""
    ids: dict[Pair, str] = {}
    batch: list[bytes] = []
    size = 0
    for number, patch in _read_patches(repo, pairs, limit, pathspecs):
        if batch and size + len(patch) > limit:
            ids |= _ask_patch_ids(repo, pairs, b"".join(batch))
            batch, size = [], 0
        # Of what it is told to be the commit git says only the number back.
        batch.append(b"commit %0*d\n%b" % (len(pairs[number][0]), number, patch))
        size += len(patch)
    return ids | _ask_patch_ids(repo, pairs, b"".join(batch))


def _ask_patch_ids(repo: Repository, pairs: Sequence[Pair], patches: bytes) -> dict[Pair, str]:
    answer = run_git(repo.cwd, "patch-id", "--stable", input=patches).decode() if patches else ""
    return {
        pairs[int(number)]: patch_id for patch_id, number in map(str.split, answer.splitlines())
    }


def _read_patches(
    repo: Repository, pairs: Sequence[Pair], limit: int, pathspecs: Sequence[str]
) -> Iterator[tuple[int, bytes]]:
    """The patch of each pair, by its place. Git says the commit before each of them, also before an empty one."""
    if not pairs:
        return
    wanted = "".join(f"{new} {old}\n" for new, old in pairs).encode()
    asked = ("diff-tree", "--stdin", "--always", *PATCH, "--", *pathspecs)
    with stream_git(repo.cwd, *PLAIN, *asked, input=wanted) as stream:
        next(stream, None)
        for number in range(len(pairs)):
            following = pairs[number + 1][0].encode() if number + 1 < len(pairs) else None
            patch = _read_patch(stream, following, limit)
            if patch:
                yield number, patch


def _read_patch(stream: IO[bytes], following: bytes | None, limit: int) -> bytes:
    """The lines before the id `following`, with which no line of a patch can begin; nothing if they are too many."""
    lines: list[bytes] = []
    size, objects = 0, b""
    for line in stream:
        if line.rstrip(b"\n") == following:
            break
        objects = line if line.startswith(b"index ") else objects
        size += len(line)
        if size <= limit:
            # Older versions of git take no notice of what a binary file holds: here the ids of its contents say so.
            lines.append(b"Binary " + objects if line.startswith(BINARY) else line)
    return b"".join(lines) if size <= limit else b""


def _pair_of(carrier: _Carrier) -> Pair:
    return carrier.sha, carrier.parent


def _paths_of(commit: Commit) -> frozenset[str]:
    return frozenset(path for file in commit.files for path in (file.path, file.old_path) if path)


MAX_PATHS = 1_000  # Files of a commit that git is asked about; that a longer one was taken back is not proved.


def is_inverse(repo: Repository, sha: str, start: str, tip: str) -> bool:
    """Whether the change from `start` to `tip` is the inverse of the commit `sha` (or a beginning) of its history.

    On the paths of that commit either the patches are inverse, or the change left what stood there before. A merge is
    what it brought to its first parent.
    """
    work, before = find_commit(repo, sha), find_commit(repo, f"{sha}^1")
    if work is None or before is None or not is_ancestor(repo, work, start):
        return False
    listing = run_git(
        repo.cwd, "diff-tree", "-r", "-z", "--name-only", "--no-renames", before, work
    )
    paths = [f":(top,literal){path}" for path in decode_path(listing).split("\0")[:-1]]
    if not 0 < len(paths) <= MAX_PATHS:
        return False
    undo, done = (before, work), (tip, start)
    ids = list_patch_ids(repo, [undo, done], pathspecs=paths)
    if undo in ids and ids[undo] == ids.get(done):
        return True
    same = ("diff-tree", "--quiet", "-r")
    is_as_before = ask_git(repo.cwd, *same, before, tip, "--", *paths)
    return is_as_before and not ask_git(repo.cwd, *same, start, tip, "--", *paths)
