"""Whether a change took a commit back: what git can say of a revert, whatever its message says."""

from __future__ import annotations

from memory_ci.gitrepo.buried import list_patch_ids
from memory_ci.gitrepo.process import ask_git, decode_path, run_git
from memory_ci.gitrepo.repo import Repository, find_commit, is_ancestor

MAX_PATHS = 1_000
"""Files of a commit that git is asked about; that a longer one was taken back is not proved."""


def is_inverse(repo: Repository, sha: str, start: str, tip: str) -> bool:
    """Whether the change from `start` to `tip` is the inverse of the commit `sha` (or a beginning) of its history.

    On the paths of that commit either the patches are inverse, or the change left what stood there before. A merge is
    what it brought to its first parent.
    """
    work, before = find_commit(repo, sha), find_commit(repo, f"{sha}^1")
    if work is None or before is None or not is_ancestor(repo, work, start):
        return False
    listing = run_git(repo.cwd, "diff-tree", "-r", "-z", "--name-only", "--no-renames", before, work)
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
