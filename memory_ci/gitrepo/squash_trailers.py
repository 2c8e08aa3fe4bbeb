"""Find the original commits of squashed or rebased changes, whose trailers were dropped.

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

TRAILER_KEYS = (SERVED_TRAILER, USED_TRAILER, "Memory-Session", HOLDOUT_TRAILER)
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

MAX_CANDIDATES = 2_000  # Unmerged commits with trailers that are compared with merged changes.
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

BINARY_DIFFERS = b"Binary files "
MatchKind = Literal["commit", "pull request", "tree", "patch-id"]
CommitPair = tuple[str, str]
"""The ids of a newer and an older commit, between which a patch is compared."""


class OriginalCommit(msgspec.Struct, frozen=True):
    """A commit with trailers that belongs to a merged change, and how it was matched."""

    sha: str
    how: MatchKind
    trailers: tuple[tuple[str, str], ...]


class _Candidate(NamedTuple):
    """An unmerged commit with trailers of TRAILER_KEYS: perhaps the original of a squashed commit.

    Attributes:
        parent: its parent; "" for a commit without parents and for a merge.
        paths: the files that it touched.
    """

    sha: str
    parent: str
    paths: frozenset[str]
    trailers: tuple[tuple[str, str], ...]

    @property
    def pair(self) -> CommitPair:
        return self.sha, self.parent


class _Node(NamedTuple):
    """The tree and the parents of an unmerged commit."""

    tree: str
    parents: tuple[str, ...]


class BuriedTrailers:
    """Finds the original commits of merged changes, with the trailers that a squash dropped.

    Changes are passed oldest first: a commit that was matched with a change is matched with no
    later one. Git is first called when a change lacks `Memory-Retrieved`. It is not called again if
    no unmerged commit has trailers and no request lists any.
    """

    def __init__(self, repo: Repository, base: str) -> None:
        """`base` is a commit whose history holds all of the changes."""
        self._repo = repo
        self._unmerged = _UnmergedCommits(repo, base)
        self._matched: set[str] = set()
        self._patch_ids: dict[CommitPair, str] = {}

    def find(
        self, merged_change: MergedChange, request_shas: Collection[str] = ()
    ) -> tuple[OriginalCommit, ...]:
        """Return the commits with trailers that a merged change was made from, oldest first.

        Commits of the change itself come first. If none of them has `Memory-Retrieved`, a squash or
        rebase may have dropped it. Then the original commits follow, found by the first of these
        ways that finds any:

        1. the commits that its pull request lists;
        2. the commits of the newest branch with the same files as after the change;
        3. the commits of a branch with the same patch as the change;
        4. the commits that each have the same patch as one commit of the change.

        Args:
            merged_change: the change.
            request_shas: the commits that its pull request lists.
        """
        own_commits: list[OriginalCommit] = []
        for commit in merged_change.commits:
            trailers = find_trailers(commit.message, TRAILER_KEYS)
            if trailers:
                own_commits.append(OriginalCommit(commit.sha, "commit", trailers))
        if any(SERVED_TRAILER in dict(commit.trailers) for commit in own_commits):
            return tuple(own_commits)

        original_commits = self._match_by_request(merged_change, request_shas)
        if not original_commits:
            original_commits = self._match_by_content(merged_change)
        return (*own_commits, *original_commits)

    def _match_by_request(
        self, merged_change: MergedChange, request_shas: Collection[str]
    ) -> tuple[OriginalCommit, ...]:
        """Match a change with the commits that its pull request lists.

        The repository may have them though no branch holds them any more.

        Args:
            merged_change: the change.
            request_shas: the commits that the pull request lists; anything but a full id is
                ignored.
        """
        own_shas = {commit.sha for commit in merged_change.commits}
        other_shas: list[str] = []
        for sha in dict.fromkeys(request_shas):
            if re.fullmatch(FULL_ID, sha) and sha not in own_shas:
                other_shas.append(sha)
        if not other_shas:
            return ()
        candidates: Mapping[str, _Candidate] = self._unmerged.candidates
        if candidates.keys().isdisjoint(other_shas):
            candidates = self._unmerged.read_candidates(other_shas)
        return self._mark_matched(
            "pull request", [candidates[sha] for sha in other_shas if sha in candidates]
        )

    def _match_by_content(self, merged_change: MergedChange) -> tuple[OriginalCommit, ...]:
        """Match a change with unmerged commits by its tree, or else by its patch.

        A merge commit is not searched for: it has its original commits.
        """
        start = next(iter(merged_change.commits[0].parents), None)
        if merged_change.kind == "merge" or start is None or not self._unmerged.candidates:
            return ()
        tips = self._list_candidate_tips(merged_change.number)
        by_tree = self._match_by_tree(merged_change, start, tips)
        return by_tree or self._match_by_patch(merged_change, start, tips)

    def _list_candidate_tips(self, number: int | None) -> list[str]:
        """Return the tips of branches that a change may come from, newest first.

        Those are ordinary branches and the refs of the pull request `number`. Branches on which
        all commits with trailers are matched already are left out.
        """
        tips: list[str] = []
        for tip, request_numbers in self._unmerged.tips.items():
            is_of_other_request = request_numbers.isdisjoint((None, number))
            if is_of_other_request:
                continue
            if any(
                self._is_unmatched(candidate) for candidate in self._unmerged.list_candidates(tip)
            ):
                tips.append(tip)
            if len(tips) == MAX_BRANCHES:
                break
        return tips

    def _match_by_tree(
        self, merged_change: MergedChange, start: str, tips: Sequence[str]
    ) -> tuple[OriginalCommit, ...]:
        """Match a change with the newest branch whose files are the same as after the change.

        Args:
            merged_change: the change.
            start: the commit before the change.
            tips: the tips of the branches to compare, newest first.
        """
        if not tips:
            return ()
        names = (f"{merged_change.tip.sha}^{{tree}}", f"{start}^{{tree}}")
        tree, tree_before = find_objects(self._repo, names)
        if tree == tree_before:
            return ()  # The change is empty: any other empty change has the same tree.
        for tip in tips:
            if tree != self._unmerged.nodes[tip].tree:
                continue
            is_empty_branch = tree == self._unmerged.find_start_tree(tip)
            if not is_empty_branch:
                return self._mark_matched("tree", self._list_unmatched([tip]))
        return ()

    def _match_by_patch(
        self, merged_change: MergedChange, start: str, tips: Sequence[str]
    ) -> tuple[OriginalCommit, ...]:
        """Match a change with a branch of the same patch, or else its commits one by one.

        Only branches and commits that touch the same files are compared.

        Args:
            merged_change: the change.
            start: the commit before the change.
            tips: the tips of the branches to compare, newest first.
        """
        paths_by_commit = [_list_paths(commit) for commit in merged_change.commits]
        branches = self._list_branches_touching(tips, frozenset().union(*paths_by_commit))
        candidates: list[_Candidate] = []  # Oldest first.
        for candidate in self._list_unmatched(tips):
            if candidate.parent and candidate.paths in paths_by_commit:
                candidates.append(candidate)
        if not branches and not candidates:
            return ()

        change = (merged_change.tip.sha, start)
        commits = [(commit.sha, commit.parents[0]) for commit in merged_change.commits]
        candidate_pairs = [candidate.pair for candidate in candidates]
        self._read_patch_ids([change, *commits, *branches, *candidate_pairs])

        same_branch = self._find_same_patch(change, branches)
        if same_branch is not None:
            branch_tip, _ = same_branch
            return self._mark_matched("patch-id", self._list_unmatched([branch_tip]))

        newest_first = candidate_pairs[::-1]  # Of several with one patch the newest is matched.
        same_pairs = {self._find_same_patch(commit, newest_first) for commit in commits}
        matched = [candidate for candidate in candidates if candidate.pair in same_pairs]
        return self._mark_matched("patch-id", matched)

    def _list_branches_touching(
        self, tips: Sequence[str], paths: frozenset[str]
    ) -> list[CommitPair]:
        """Return (tip, fork point) of the branches that may have the patch of a change.

        They have a commit with trailers that touches one of the paths of the change, and is not
        matched yet.
        """
        branches: list[CommitPair] = []
        for tip in tips:
            candidates = self._list_unmatched([tip])
            if any(paths & candidate.paths for candidate in candidates):
                fork = self._unmerged.find_fork(tip)
                if fork:
                    branches.append((tip, fork))
        return branches

    def _list_unmatched(self, tips: Iterable[str]) -> list[_Candidate]:
        """Return the commits with trailers that lead to the tips, oldest first.

        Only unmerged commits that are matched with no change yet are returned.
        """
        unmatched: dict[str, _Candidate] = {}
        for tip in tips:
            for candidate in self._unmerged.list_candidates(tip):
                if self._is_unmatched(candidate):
                    unmatched[candidate.sha] = candidate
        positions = self._unmerged.positions  # The newest commit has the first.
        return sorted(
            unmatched.values(), key=lambda candidate: positions[candidate.sha], reverse=True
        )

    def _is_unmatched(self, candidate: _Candidate) -> bool:
        """Return whether a commit was matched with no change so far."""
        return candidate.sha not in self._matched

    def _mark_matched(
        self, how: MatchKind, candidates: Iterable[_Candidate]
    ) -> tuple[OriginalCommit, ...]:
        """Match the commits that were not matched before, and return them."""
        unmatched = [candidate for candidate in candidates if self._is_unmatched(candidate)]
        self._matched.update(candidate.sha for candidate in unmatched)
        return tuple(
            OriginalCommit(candidate.sha, how, candidate.trailers) for candidate in unmatched
        )

    def _read_patch_ids(self, pairs: Iterable[CommitPair]) -> None:
        """Add the patch ids that `_patch_ids` lacks; "" for an empty patch."""
        missing_pairs = [pair for pair in dict.fromkeys(pairs) if pair not in self._patch_ids]
        self._patch_ids |= dict.fromkeys(missing_pairs, "") | list_patch_ids(
            self._repo, missing_pairs
        )

    def _find_same_patch(
        self, pair: CommitPair, candidates: Iterable[CommitPair]
    ) -> CommitPair | None:
        """Return the first candidate with the same patch; an empty patch equals no other."""
        patch_id = self._patch_ids[pair]
        if not patch_id:
            return None
        for candidate in candidates:
            if self._patch_ids[candidate] == patch_id:
                return candidate
        return None


class _UnmergedCommits:
    """The commits of all refs that `base` does not hold; each part is read once, when needed."""

    def __init__(self, repo: Repository, base: str) -> None:
        self._repo = repo
        self._base = base
        self._candidates_by_tip: dict[str, tuple[_Candidate, ...]] = {}
        self._forks: dict[str, str | None] = {}

    @cached_property
    def candidates(self) -> dict[str, _Candidate]:
        return self._read_candidates(UNMERGED)

    @cached_property
    def nodes(self) -> dict[str, _Node]:
        """The commits by id, newest first, children before parents."""
        options = ("--date-order", f"-n{MAX_WALK}", "--format=%H %T %P", *UNMERGED)
        args = ("log", *options, f"^{self._base}", "--")
        listing = run_git(self._repo.cwd, *LOG_SETTINGS, *args)
        nodes: dict[str, _Node] = {}
        for line in listing.decode().splitlines():
            sha, tree, *parents = line.split()
            nodes[sha] = _Node(tree, tuple(parents))
        return nodes

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each commit; the newest has the first."""
        return {sha: position for position, sha in enumerate(self.nodes)}

    @cached_property
    def tips(self) -> Mapping[str, frozenset[int | None]]:
        """The commits to which refs point and that lead to a candidate, newest first.

        A candidate is an unmerged commit with trailers. Each commit is mapped to the numbers of the
        pull requests whose refs point to it; a branch that points to it adds None.
        """
        request_numbers = self._read_request_numbers()
        # Children come before parents in `nodes`, so here a commit comes after its ancestors.
        leading_to_candidates: set[str] = set()
        for sha in reversed(self.nodes):
            has_leading_parent = not leading_to_candidates.isdisjoint(self.nodes[sha].parents)
            if sha in self.candidates or has_leading_parent:
                leading_to_candidates.add(sha)

        tips: dict[str, frozenset[int | None]] = {}
        for sha in self.nodes:
            if sha in request_numbers and sha in leading_to_candidates:
                tips[sha] = frozenset(request_numbers[sha])
        return tips

    def _read_request_numbers(self) -> dict[str, set[int | None]]:
        """Return by commit the numbers of the pull requests whose refs point to it.

        A branch that points to the commit adds None.
        """
        format_ = "--format=%(objectname) %(refname)"
        listing = decode_path(run_git(self._repo.cwd, "for-each-ref", format_, *REF_PREFIXES))
        numbers: dict[str, set[int | None]] = {}
        for line in listing.splitlines():
            sha, _, ref = line.partition(" ")
            request = REQUEST.fullmatch(ref)
            number = int(request[1]) if request else None
            numbers.setdefault(sha, set()).add(number)
        return numbers

    def read_candidates(self, shas: Collection[str]) -> dict[str, _Candidate]:
        """Return the unmerged commits with trailers among these and their ancestors, by id.

        Commits that the repository lacks are skipped.
        """
        lines = "".join(f"{sha}\n" for sha in shas).encode()
        return self._read_candidates(("--ignore-missing", "--stdin"), lines)

    def list_candidates(self, tip: str) -> tuple[_Candidate, ...]:
        """Return the commits with trailers among a tip and its unmerged ancestors."""
        if tip not in self._candidates_by_tip:
            ancestors = self._list_ancestors(tip)
            candidates = (
                candidate for sha, candidate in self.candidates.items() if sha in ancestors
            )
            self._candidates_by_tip[tip] = tuple(candidates)
        return self._candidates_by_tip[tip]

    def find_fork(self, tip: str) -> str | None:
        """Return the commit on which a branch began; None if a shallow clone lacks it."""
        if tip not in self._forks:
            self._forks[tip] = self._read_fork(tip)
        return self._forks[tip]

    def _read_fork(self, tip: str) -> str | None:
        """Return the merged commit on which a branch is based: the parent of its first commit.

        A branch may have several such parents, for example after a merge of the main branch into
        it. Then the merge base of the tip and the main branch is returned.
        """
        all_parents: set[str] = set()  # Of the unmerged commits of the branch.
        for sha in self._list_ancestors(tip):
            all_parents.update(self.nodes[sha].parents)
        merged_parents = all_parents - self.nodes.keys()
        if len(merged_parents) > 1:
            return find_merge_base(self._repo, self._base, tip)
        return next(iter(merged_parents), None)

    def find_start_tree(self, tip: str) -> str | None:
        """Return the id of the tree that a branch began with.

        Where that is unknown, it is the tree of the tip, as if the branch changed nothing.
        """
        fork = self.find_fork(tip)
        if fork is None:
            return self.nodes[tip].tree
        return find_objects(self._repo, (f"{fork}^{{tree}}",))[0]

    def _read_candidates(
        self, revisions: Sequence[str], input: bytes | None = None
    ) -> dict[str, _Candidate]:
        """Return the unmerged commits with our trailers that revisions reach, newest first.

        Args:
            revisions: revisions or options of `git log` that name them.
            input: the standard input of git, for the option `--stdin`.
        """
        greps = [f"--grep={key}" for key in TRAILER_KEYS]
        grep_options = ("--fixed-strings", "--regexp-ignore-case", *greps)
        options = (*grep_options, f"-n{MAX_CANDIDATES}", *FILE_OPTIONS)
        log = read_log(self._repo, *revisions, *options, f"^{self._base}", "--", input=input)

        candidates: dict[str, _Candidate] = {}
        for commit, _ in log:
            trailers = find_trailers(commit.message, TRAILER_KEYS)
            if trailers:
                parent = commit.parents[0] if len(commit.parents) == 1 else ""
                candidates[commit.sha] = _Candidate(
                    commit.sha, parent, _list_paths(commit), trailers
                )
        return candidates

    def _list_ancestors(self, tip: str) -> set[str]:
        """Return a tip and its unmerged ancestors."""
        ancestors: set[str] = set()
        pending_shas = [tip]
        while pending_shas:
            sha = pending_shas.pop()
            if sha in self.nodes and sha not in ancestors:
                ancestors.add(sha)
                pending_shas.extend(self.nodes[sha].parents)
        return ancestors


def _list_paths(commit: Commit) -> frozenset[str]:
    """Return the paths that a commit touched, old ones of renamed files included."""
    paths = {file.path for file in commit.files}
    old_paths = {file.old_path for file in commit.files if file.old_path}
    return frozenset(paths | old_paths)


def list_patch_ids(
    repo: Repository,
    pairs: Sequence[CommitPair],
    limit: int = MAX_PATCH,
    pathspecs: Sequence[str] = (),
) -> dict[CommitPair, str]:
    """Return the ids of the patches between pairs of commits (git-patch-id(1)).

    Two patches with the same changes have the same id, whatever their line numbers and commits.

    Args:
        repo: the repository.
        pairs: pairs of a newer and an older commit.
        limit: bytes; a longer patch gets no id, nor does an empty one.
        pathspecs: only changes of these files count; all if empty.

    Returns:
        The patch id by pair.
    """
    ids: dict[CommitPair, str] = {}
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


def _compute_patch_ids(
    repo: Repository, pairs: Sequence[CommitPair], patches: bytes
) -> dict[CommitPair, str]:
    """Compute patch ids with `git patch-id`.

    Args:
        repo: the repository.
        pairs: the pairs that the patches are of.
        patches: patches, each after a line `commit <index of its pair>`.
    """
    if not patches:
        return {}
    ids: dict[CommitPair, str] = {}
    for line in run_git(repo.cwd, "patch-id", "--stable", input=patches).decode().splitlines():
        patch_id, number = line.split()
        ids[pairs[int(number)]] = patch_id
    return ids


def _read_patches(
    repo: Repository, pairs: Sequence[CommitPair], limit: int, pathspecs: Sequence[str]
) -> Iterator[tuple[int, bytes]]:
    """Yield the patch between each pair of commits, with the index of the pair, by one process.

    A pair without a patch is left out. Git prints the newer commit before each patch, also before
    an empty one.
    """
    if not pairs:
        return
    lines = "".join(f"{new} {old}\n" for new, old in pairs).encode()
    args = ("diff-tree", "--stdin", "--always", *PATCH, "--", *pathspecs)
    with stream_git(repo.cwd, *BLANK_CONTEXT, *args, input=lines) as stream:
        next(stream, None)  # The line of the first commit.
        newer_commits = [new.encode() for new, _ in pairs]
        next_commits = [*newer_commits[1:], None]
        for number, next_commit in enumerate(next_commits):
            patch = _read_patch(stream, next_commit, limit)
            if patch:
                yield number, patch


def _read_patch(stream: IO[bytes], next_commit: bytes | None, limit: int) -> bytes:
    """Read a patch: the lines before the id of the next commit, which no line of a patch can be.

    It is empty if it has more than `limit` bytes.

    Args:
        stream: the output of git.
        next_commit: the id; None for the last patch.
        limit: bytes.
    """
    lines: list[bytes] = []
    size = 0
    index_line = b""
    for line in stream:
        if line.rstrip(b"\n") == next_commit:
            break
        if line.startswith(b"index "):  # `index <old id>..<new id> <mode>` of the next file.
            index_line = line
        size += len(line)
        if size <= limit:
            # Older versions of git ignore the content of binary files. The ids of their objects
            # take its place.
            is_binary = line.startswith(BINARY_DIFFERS)
            lines.append(b"Binary " + index_line if is_binary else line)
    return b"".join(lines) if size <= limit else b""


def is_revert_of(repo: Repository, sha: str, start: str, tip: str) -> bool:
    """Return whether the change from `start` to `tip` reverts an earlier commit.

    On the paths of that commit either the patches are inverse, or the change restored the content
    before it. If the commit is a merge, its difference to its first parent counts.

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

    inverse_of_commit = (before, commit)
    change = (tip, start)
    patch_ids = list_patch_ids(repo, [inverse_of_commit, change], pathspecs=paths)
    if inverse_of_commit in patch_ids and patch_ids[inverse_of_commit] == patch_ids.get(change):
        return True
    compare = ("diff-tree", "--quiet", "-r")
    is_restored = ask_git(repo.cwd, *compare, before, tip, "--", *paths)
    return is_restored and not ask_git(repo.cwd, *compare, start, tip, "--", *paths)
