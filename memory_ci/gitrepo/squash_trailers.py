"""Trailers that a squash or a rebase dropped, found in the original commits.

A squash with a message of its own drops the trailers of the commits it joins. Where the repository
still holds these commits, a merged change is matched with them by the list of its pull request, by
its tree or by its patch. A forged match would change the utility of entries. Therefore a ref that
anybody may push to (refs/pull/7/head) counts only for the change with its number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import IO, Literal, NamedTuple

import msgspec

from memory_ci.gitrepo.log import FILE_OPTIONS, LOG_SETTINGS, read_log
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
from memory_ci.records.names import FULL_ID, HOLDOUT_TRAILER, SERVED_TRAILER, USED_TRAILER
from memory_ci.regex import Regex

KEYS = (SERVED_TRAILER, USED_TRAILER, "Memory-Session", HOLDOUT_TRAILER)
REQUEST_PREFIXES = ("refs/pull", "refs/merge-requests")
REF_PREFIXES = ("refs/heads", "refs/remotes", *REQUEST_PREFIXES)
UNMERGED = (
    "--ignore-missing",
    "--branches",
    "--remotes",
    *(f"--glob={prefix}" for prefix in REQUEST_PREFIXES),
)
"""Skips a ref whose commit is missing. The first option only affects the options after it."""

REQUEST = Regex(r"refs/(?:remotes/(?:[^/]+/)?)?(?:pull|pr|merge-requests)/(\d{1,9})(?:/.*)?")
"""A ref of a pull or merge request.

Either as a forge keeps it, or as people and CI fetch it (`refs/remotes/origin/pr/7`).
"""

MAX_CARRIERS = 2_000  # Unmerged commits with trailers that are compared with merged work.
MAX_BRANCHES = 200  # Branches that are compared with one merged change.
MAX_WALK = 20_000  # Unmerged commits, the newest first; older ones are ignored.
MAX_PATCH = 8_000_000
"""Bytes: a longer patch gets no id, and patches of that size together are in memory at once."""

MAX_PATHS = 1_000
"""Files of a commit that git compares: that a larger one was reverted is not proved."""

# fmt: off
PATCH = (
    "-r", "-p", "-U3", "--full-index", "--no-renames", "--no-color", "--no-ext-diff",
    "--no-textconv", "--diff-algorithm=myers", "--src-prefix=a/", "--dst-prefix=b/",
    "--no-relative", "-O/dev/null", "--inter-hunk-context=0", "--ignore-submodules=none",
    "--submodule=short",
)
# fmt: on
"""The form of a patch, whatever the user's preferences."""

BLANK_CONTEXT = ("-c", "diff.suppressBlankEmpty=false")
"""Empty context lines keep their blank: without it patch ids would differ."""

BINARY = b"Binary files "
How = Literal["commit", "pull request", "tree", "patch-id"]
Pair = tuple[str, str]  # A commit, and the commit that it is compared with.


class BuriedCommit(msgspec.Struct, frozen=True):
    """A commit with trailers that belongs to a merged change, and how it was matched."""

    sha: str
    how: How
    trailers: tuple[tuple[str, str], ...]


class _Carrier(NamedTuple):
    """An unmerged commit with trailers; `parent` is "" for a root or a merge."""

    sha: str
    parent: str
    paths: frozenset[str]
    trailers: tuple[tuple[str, str], ...]

    @property
    def pair(self) -> Pair:
        return self.sha, self.parent


class _Node(NamedTuple):
    tree: str
    parents: tuple[str, ...]


class BuriedTrailers:
    """Finder of the original trailers of merged changes.

    Changes are passed oldest first: a commit that was matched with a change is matched with no
    later one. Git is first called when a change lacks `Memory-Retrieved`. It is not called again if
    no unmerged commit has trailers and no request lists any.
    """

    def __init__(self, repo: Repository, base: str) -> None:
        """`base` is a commit whose history holds all of the changes."""
        self._repo = repo
        self._unmerged = _UnmergedCommits(repo, base)
        self._matched: set[str] = set()
        self._patch_ids: dict[Pair, str] = {}

    def find(
        self, merged: MergedChange, request_shas: Collection[str] = ()
    ) -> tuple[BuriedCommit, ...]:
        """Return the commits with trailers that a change was made from, oldest first.

        Its own commits come before those that were dropped. The latter are matched by the first way
        that finds any: the pull request; a branch with the same tree, the newest of several; a
        branch with the same patch; single commits with the same patch.

        Args:
            merged: the change.
            request_shas: the commits that its pull request lists.
        """
        own: list[BuriedCommit] = []
        for commit in merged.commits:
            trailers = find_trailers(commit.message, KEYS)
            if trailers:
                own.append(BuriedCommit(commit.sha, "commit", trailers))
        if any(SERVED_TRAILER in dict(commit.trailers) for commit in own):
            return tuple(own)

        buried = self._find_listed(merged, request_shas) or self._search(merged)
        return (*own, *buried)

    def _find_listed(self, merged: MergedChange, shas: Collection[str]) -> tuple[BuriedCommit, ...]:
        """Match the commits that the request lists, though no branch may hold them any more."""
        own = {commit.sha for commit in merged.commits}
        listed = [
            sha for sha in dict.fromkeys(shas) if re.fullmatch(FULL_ID, sha) and sha not in own
        ]
        if not listed:
            return ()
        carriers: Mapping[str, _Carrier] = self._unmerged.carriers
        if carriers.keys().isdisjoint(listed):
            carriers = self._unmerged.read_carriers(listed)
        return self._match("pull request", [carriers[sha] for sha in listed if sha in carriers])

    def _search(self, merged: MergedChange) -> tuple[BuriedCommit, ...]:
        start = next(iter(merged.commits[0].parents), None)
        if merged.kind == "merge" or start is None or not self._unmerged.carriers:
            return ()
        tips = self._list_candidate_tips(merged.number)
        return self._find_by_tree(merged, start, tips) or self._find_by_patch(merged, start, tips)

    def _list_candidate_tips(self, number: int | None) -> list[str]:
        """Return the tips of branches that a change may come from, newest first.

        Those are ordinary branches and the refs of the request `number`. Branches without a free
        carrier are left out.
        """
        tips: list[str] = []
        for tip, owners in self._unmerged.tips.items():
            if owners.isdisjoint((None, number)):
                continue
            if any(self._is_free(carrier) for carrier in self._unmerged.list_carriers(tip)):
                tips.append(tip)
            if len(tips) == MAX_BRANCHES:
                break
        return tips

    def _find_by_tree(
        self, merged: MergedChange, start: str, tips: Sequence[str]
    ) -> tuple[BuriedCommit, ...]:
        if not tips:
            return ()
        tree, tree_before = find_objects(
            self._repo, (f"{merged.tip.sha}^{{tree}}", f"{start}^{{tree}}")
        )
        if tree == tree_before:
            return ()  # The change is empty: its tree is that of any other empty change, too.
        for tip in tips:
            if tree != self._unmerged.nodes[tip].tree:
                continue
            is_empty_branch = tree == self._unmerged.find_start_tree(tip)
            if not is_empty_branch:
                return self._match("tree", self._list_free_carriers([tip]))
        return ()

    def _find_by_patch(
        self, merged: MergedChange, start: str, tips: Sequence[str]
    ) -> tuple[BuriedCommit, ...]:
        """Match a branch with the same patch, else single commits; their paths must agree."""
        paths_of_commits = [_list_paths(commit) for commit in merged.commits]
        branches = self._list_branches(tips, frozenset().union(*paths_of_commits))
        carriers = [
            carrier
            for carrier in self._list_free_carriers(tips)
            if carrier.parent and carrier.paths in paths_of_commits
        ]
        if not branches and not carriers:
            return ()

        change = (merged.tip.sha, start)
        commits = [(commit.sha, commit.parents[0]) for commit in merged.commits]
        oldest_first = [carrier.pair for carrier in carriers]
        self._read_patch_ids([change, *commits, *branches, *oldest_first])

        branch = self._find_same_patch(change, branches)
        if branch is not None:
            return self._match("patch-id", self._list_free_carriers([branch[0]]))
        newest_first = oldest_first[::-1]
        same = {self._find_same_patch(commit, newest_first) for commit in commits}
        return self._match("patch-id", [carrier for carrier in carriers if carrier.pair in same])

    def _list_branches(self, tips: Sequence[str], paths: frozenset[str]) -> list[Pair]:
        """Return tip and fork point of the branches whose free carriers touch one of `paths`."""
        branches: list[Pair] = []
        for tip in tips:
            carriers = self._list_free_carriers([tip])
            if any(paths & carrier.paths for carrier in carriers):
                fork = self._unmerged.find_fork(tip)
                if fork:
                    branches.append((tip, fork))
        return branches

    def _list_free_carriers(self, tips: Iterable[str]) -> list[_Carrier]:
        """Return the unmatched carriers in the history of the tips, oldest first."""
        free: dict[str, _Carrier] = {}
        for tip in tips:
            for carrier in self._unmerged.list_carriers(tip):
                if self._is_free(carrier):
                    free[carrier.sha] = carrier
        positions = self._unmerged.positions
        return sorted(free.values(), key=lambda carrier: positions[carrier.sha], reverse=True)

    def _is_free(self, carrier: _Carrier) -> bool:
        return carrier.sha not in self._matched

    def _match(self, how: How, carriers: Iterable[_Carrier]) -> tuple[BuriedCommit, ...]:
        """Return the carriers that were not matched before, and note that they are now."""
        free = [carrier for carrier in carriers if self._is_free(carrier)]
        self._matched.update(carrier.sha for carrier in free)
        return tuple(BuriedCommit(carrier.sha, how, carrier.trailers) for carrier in free)

    def _read_patch_ids(self, pairs: Iterable[Pair]) -> None:
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self._patch_ids]
        self._patch_ids |= dict.fromkeys(missing, "") | list_patch_ids(self._repo, missing)

    def _find_same_patch(self, pair: Pair, candidates: Iterable[Pair]) -> Pair | None:
        """Return the first candidate with the same patch; an empty patch equals no other."""
        patch_id = self._patch_ids[pair]
        if not patch_id:
            return None
        return next((other for other in candidates if self._patch_ids[other] == patch_id), None)


class _UnmergedCommits:
    """The commits of all refs that `base` does not hold; each part is read once, when needed."""

    def __init__(self, repo: Repository, base: str) -> None:
        self._repo = repo
        self._base = base
        self._carriers_by_tip: dict[str, tuple[_Carrier, ...]] = {}
        self._forks: dict[str, str | None] = {}

    @cached_property
    def carriers(self) -> dict[str, _Carrier]:
        return self._read_carriers(UNMERGED)

    @cached_property
    def nodes(self) -> dict[str, _Node]:
        """The commits newest first, children before parents."""
        options = ("--date-order", f"-n{MAX_WALK}", "--format=%H %T %P", *UNMERGED)
        listing = run_git(
            self._repo.cwd, *LOG_SETTINGS, "log", *options, f"^{self._base}", "--"
        ).decode()
        nodes: dict[str, _Node] = {}
        for line in listing.splitlines():
            sha, tree, *parents = line.split()
            nodes[sha] = _Node(tree, tuple(parents))
        return nodes

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each commit; the newest has the first."""
        return {sha: position for position, sha in enumerate(self.nodes)}

    @cached_property
    def tips(self) -> Mapping[str, frozenset[int | None]]:
        """The tips with carriers in their history, newest first, with the requests they belong to.

        The number of a branch is None.
        """
        owners = self._read_owners()
        carrying: set[str] = set()  # Carriers, and nodes that have one among their ancestors.
        for sha in reversed(self.nodes):
            if sha in self.carriers or not carrying.isdisjoint(self.nodes[sha].parents):
                carrying.add(sha)
        return {
            sha: frozenset(owners[sha]) for sha in self.nodes if sha in owners and sha in carrying
        }

    def _read_owners(self) -> dict[str, set[int | None]]:
        """Return the numbers of requests by the commit of their refs; None for a branch."""
        format_ = "--format=%(objectname) %(refname)"
        listing = decode_path(run_git(self._repo.cwd, "for-each-ref", format_, *REF_PREFIXES))
        owners: dict[str, set[int | None]] = {}
        for line in listing.splitlines():
            sha, _, ref = line.partition(" ")
            request = REQUEST.fullmatch(ref)
            owners.setdefault(sha, set()).add(int(request[1]) if request else None)
        return owners

    def read_carriers(self, shas: Collection[str]) -> dict[str, _Carrier]:
        """Return the carriers among these commits and their ancestors; missing ones are skipped."""
        lines = "".join(f"{sha}\n" for sha in shas).encode()
        return self._read_carriers(("--ignore-missing", "--stdin"), lines)

    def list_carriers(self, tip: str) -> tuple[_Carrier, ...]:
        """Return the carriers among a tip and its ancestors."""
        if tip not in self._carriers_by_tip:
            ancestors = self._list_ancestors(tip)
            carriers = (carrier for sha, carrier in self.carriers.items() if sha in ancestors)
            self._carriers_by_tip[tip] = tuple(carriers)
        return self._carriers_by_tip[tip]

    def find_fork(self, tip: str) -> str | None:
        """Return the commit on which a branch began; None if a shallow clone lacks it."""
        if tip not in self._forks:
            self._forks[tip] = self._read_fork(tip)
        return self._forks[tip]

    def _read_fork(self, tip: str) -> str | None:
        merged_parents: set[str] = set()
        for sha in self._list_ancestors(tip):
            merged_parents.update(self.nodes[sha].parents)
        merged_parents -= self.nodes.keys()
        if len(merged_parents) > 1:
            return find_merge_base(self._repo, self._base, tip)
        return next(iter(merged_parents), None)

    def find_start_tree(self, tip: str) -> str | None:
        """Return the tree that a branch began with.

        Where that is unknown, return its own tree, as if it changed nothing.
        """
        fork = self.find_fork(tip)
        if fork is None:
            return self.nodes[tip].tree
        return find_objects(self._repo, (f"{fork}^{{tree}}",))[0]

    def _read_carriers(
        self, revisions: Sequence[str], input: bytes | None = None
    ) -> dict[str, _Carrier]:
        greps = [f"--grep={key}" for key in KEYS]
        options = (
            "--fixed-strings",
            "--regexp-ignore-case",
            *greps,
            f"-n{MAX_CARRIERS}",
            *FILE_OPTIONS,
        )
        log = read_log(self._repo, *revisions, *options, f"^{self._base}", "--", input=input)

        carriers: dict[str, _Carrier] = {}
        for commit, _ in log:
            trailers = find_trailers(commit.message, KEYS)
            if trailers:
                parent = commit.parents[0] if len(commit.parents) == 1 else ""
                carriers[commit.sha] = _Carrier(commit.sha, parent, _list_paths(commit), trailers)
        return carriers

    def _list_ancestors(self, tip: str) -> set[str]:
        """Return a tip and its unmerged ancestors."""
        ancestors: set[str] = set()
        pending = [tip]
        while pending:
            sha = pending.pop()
            if sha in self.nodes and sha not in ancestors:
                ancestors.add(sha)
                pending.extend(self.nodes[sha].parents)
        return ancestors


def _list_paths(commit: Commit) -> frozenset[str]:
    """Return the paths that a commit touched, old ones of renamed files included."""
    paths = {file.path for file in commit.files}
    old_paths = {file.old_path for file in commit.files if file.old_path}
    return frozenset(paths | old_paths)


def list_patch_ids(
    repo: Repository, pairs: Sequence[Pair], limit: int = MAX_PATCH, pathspecs: Sequence[str] = ()
) -> dict[Pair, str]:
    """Return the ids of the patches between commits (git-patch-id(1)).

    Args:
        repo: the repository.
        pairs: pairs of a newer and an older commit.
        limit: bytes; a longer patch gets no id, nor does an empty one.
        pathspecs: only changes of these files count; all if empty.
    """
    ids: dict[Pair, str] = {}
    batch: list[bytes] = []
    size = 0
    for number, patch in _read_patches(repo, pairs, limit, pathspecs):
        if batch and size + len(patch) > limit:
            ids |= _compute_patch_ids(repo, pairs, b"".join(batch))
            batch = []
            size = 0
        # The number takes the place of the commit id, which git only returns.
        batch.append(b"commit %0*d\n%b" % (len(pairs[number][0]), number, patch))
        size += len(patch)
    return ids | _compute_patch_ids(repo, pairs, b"".join(batch))


def _compute_patch_ids(repo: Repository, pairs: Sequence[Pair], patches: bytes) -> dict[Pair, str]:
    if not patches:
        return {}
    ids: dict[Pair, str] = {}
    for line in run_git(repo.cwd, "patch-id", "--stable", input=patches).decode().splitlines():
        patch_id, number = line.split()
        ids[pairs[int(number)]] = patch_id
    return ids


def _read_patches(
    repo: Repository, pairs: Sequence[Pair], limit: int, pathspecs: Sequence[str]
) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each pair with a patch, and that patch.

    Git prints the commit before each patch, also before an empty one.
    """
    if not pairs:
        return
    lines = "".join(f"{new} {old}\n" for new, old in pairs).encode()
    args = ("diff-tree", "--stdin", "--always", *PATCH, "--", *pathspecs)
    with stream_git(repo.cwd, *BLANK_CONTEXT, *args, input=lines) as stream:
        next(stream, None)  # The line of the first commit.
        for number in range(len(pairs)):
            is_last = number + 1 == len(pairs)
            next_commit = None if is_last else pairs[number + 1][0].encode()
            patch = _read_patch(stream, next_commit, limit)
            if patch:
                yield number, patch


def _read_patch(stream: IO[bytes], next_commit: bytes | None, limit: int) -> bytes:
    """Read the lines before the id of the next commit, with which no line of a patch begins.

    Empty if they have more than `limit` bytes.
    """
    lines: list[bytes] = []
    size = 0
    index_line = b""
    for line in stream:
        if line.rstrip(b"\n") == next_commit:
            break
        if line.startswith(b"index "):
            index_line = line
        size += len(line)
        if size <= limit:
            # Older versions of git ignore the content of binary files. The ids of their objects
            # take its place.
            lines.append(b"Binary " + index_line if line.startswith(BINARY) else line)
    return b"".join(lines) if size <= limit else b""


def is_inverse(repo: Repository, sha: str, start: str, tip: str) -> bool:
    """Return whether the change from `start` to `tip` reverts a commit of its history.

    On the paths of that commit either the patches are inverse, or the change restored the content
    before it. Of a merge the difference to its first parent counts.

    Args:
        repo: the repository.
        sha: the commit, or the beginning of its id.
        start: the commit before the change.
        tip: the last commit of the change.
    """
    commit = find_commit(repo, sha)
    before = find_commit(repo, f"{sha}^1")
    if commit is None or before is None or not is_ancestor(repo, commit, start):
        return False

    names = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")
    listing = run_git(repo.cwd, *names, before, commit)
    paths = [f":(top,literal){path}" for path in decode_path(listing).split("\0")[:-1]]
    if not 0 < len(paths) <= MAX_PATHS:
        return False

    inverse, change = (before, commit), (tip, start)
    ids = list_patch_ids(repo, [inverse, change], pathspecs=paths)
    if inverse in ids and ids[inverse] == ids.get(change):
        return True
    compare = ("diff-tree", "--quiet", "-r")
    is_restored = ask_git(repo.cwd, *compare, before, tip, "--", *paths)
    return is_restored and not ask_git(repo.cwd, *compare, start, tip, "--", *paths)
