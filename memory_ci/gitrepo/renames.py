"""What became of files between two commits: what they were, what they are called now, when they were last touched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date

from memory_ci.gitrepo.log import FILES, read_log
from memory_ci.gitrepo.process import decode_path, encode_path, run_git
from memory_ci.gitrepo.repo import Repository, find_commit

MAX_WALK = 5_000
"""Renames are looked for in this many commits along the first parents; older ones are not followed."""

SIMILAR = ("-M", "-l400")
"""Renames of files that are half alike or more, but not where 400 new files would be compared with 400 removed ones."""

MAX_WORDS = 100


def find_objects(repo: Repository, names: Sequence[str]) -> tuple[str | None, ...]:
    """The object ids that names (`<commit>:<path>`, `<commit>^{tree}`) stand for, by one process; None for no object.

    A name must not hold a line break, nor its path begin with `./` or `../`: git ends at those.
    """
    if not names:
        return ()
    asked = encode_path("".join(f"{name}\n" for name in names))
    answer = run_git(repo.cwd, "-c", "core.warnAmbiguousRefs=false", "cat-file", "--batch-check", input=asked)
    return tuple(map(_parse_object, answer.splitlines()))


def list_renames(repo: Repository, since: Iterable[str], until: str) -> dict[str, str]:
    """What files were last renamed to, along the first parents of `until`, after the oldest of the commits `since`.

    Commit by commit: a file that was renamed and then rewritten little by little is followed all the same.
    """
    met = run_git(repo.cwd, "merge-base", "--octopus", *dict.fromkeys(since), until, ok=(0, 1)).decode().split()
    asked = ("--first-parent", "--raw", "--no-abbrev", "--diff-merges=first-parent", *SIMILAR, "--diff-filter=R")
    renames: dict[str, str] = {}
    for commit, _ in read_log(repo, *asked, f"-n{MAX_WALK}", until, *(f"^{base}" for base in met), "--"):
        for file in commit.files:
            renames.setdefault(file.old_path or "", file.path)
    return renames


def list_pending_renames(repo: Repository) -> dict[str, str]:
    """What tracked files of HEAD were renamed to in the work tree."""
    if repo.root is None or find_commit(repo, "HEAD") is None:
        return {}
    shown = ("--name-status", "-z", "--no-ext-diff", "--no-textconv", "--diff-filter=R")
    fields = decode_path(run_git(repo.cwd, "diff", *shown, *SIMILAR, "HEAD", "--")).split("\0")[:-1]
    return dict(zip(fields[1::3], fields[2::3], strict=True))


def follow_renames(path: str, renames: Mapping[str, str], present: Collection[str]) -> str | None:
    """The path of a view that a file came to have, or None when the trail ends elsewhere."""
    seen = {path}
    while (path := renames.get(path, "")) and path not in seen:
        if path in present:
            return path
        seen.add(path)
    return None


def find_mentions(repo: Repository, rev: str | None, words: Collection[str]) -> tuple[str, ...]:
    """The files of a commit, or tracked in the work tree (None), that hold one of `words` as a word: by one process."""
    if not words:
        return ()
    patterns = [part for word in sorted(words)[:MAX_WORDS] for part in ("-e", word)]
    asked = ("grep", "-l", "-z", "-I", "-w", "--fixed-strings", "--full-name", "--no-color", *patterns)
    found = decode_path(run_git(repo.cwd, *asked, *([rev] if rev else []), "--", ok=(0, 1))).split("\0")[:-1]
    return tuple(name.removeprefix(f"{rev}:") if rev else name for name in found)


def find_last_touches(repo: Repository, rev: str, paths: Collection[str]) -> dict[str, date]:
    """The day (UTC) of the newest first-parent commit that touched each path: for one that is gone, its removal."""
    if not paths:
        return {}
    touched: dict[str, date] = {}
    literal = [f":(top,literal){path}" for path in sorted(paths)]
    for commit, _ in read_log(repo, "--first-parent", *FILES, "--no-renames", "--end-of-options", rev, "--", *literal):
        for file in commit.files:
            touched.setdefault(file.path, commit.committed_at.astimezone(UTC).date())
        if len(touched) == len(paths):
            break
    return touched


def _parse_object(line: bytes) -> str | None:
    """An answer of `cat-file --batch-check`: `<id> <type> <size>`, else `<name> missing` or `<name> ambiguous`."""
    fields = line.split(b" ")
    return fields[0].decode() if len(fields) == 3 and fields[2].isdigit() else None
