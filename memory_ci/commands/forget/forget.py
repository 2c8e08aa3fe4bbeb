"""Forget: what is meant, where it stands, one commit and rewritten refs without it, and what is left to people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from memory_ci.commands.forget import places
from memory_ci.commands.forget.places import HeldPlace, Target
from memory_ci.errors import UsageError
from memory_ci.extraction import tombstones
from memory_ci.gitrepo.history import STEP
from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.sessionrefs import list_pushed, rewrite
from memory_ci.memory.forgotten import (
    HEADER,
    REJECTED_FILE,
    copy_path,
    parse_rejected,
    read_rejected,
)
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.workspace import Workspace, branch_tip, load_memory
from memory_ci.store.files import write_file
from memory_ci.text import plural

What = Literal["entry", "words", "person"]
ID = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.IGNORECASE)
MAIL = re.compile(r"[^\s<>@]+@[^\s<>@]+")
PERSON = re.compile(r"\s*(?P<name>[^<>]*?)\s*<(?P<mail>[^<>\s]+@[^<>\s]+)>\s*")

HISTORY = (
    "Old commits still hold it. In a fresh clone, write what is to go into ../expressions.txt with an editor, a line "
    "each: `WORDS==>[redacted:forgotten]`",
    "git filter-repo --sensitive-data-removal --replace-text ../expressions.txt --replace-message ../expressions.txt",
)
MAILMAP = (
    "Authors of commits: write `Somebody <somebody@invalid> <their@mail>` into ../mailmap, then: "
    "git filter-repo --mailmap ../mailmap"
)
FORGES = (
    "git push --force --mirror origin, and everybody else clones anew: an old clone brings it back",
    "GitHub: edit pull requests, issues and comments by hand (gh pr edit N, delete the old revision of an edited "
    "comment); refs/pull/* and cached views go when support.github.com is asked; forks keep what they have",
    "GitLab: edit merge requests by hand; Settings > Repository > Repository maintenance removes the old objects",
    "CI caches: gh cache list --key memory-ci-index- --limit 1000 --json id --jq '.[].id' | xargs -n1 gh cache delete",
    "CI artifacts: gh api --paginate 'repos/{owner}/{repo}/actions/artifacts' --jq "
    "'.artifacts[] | select(.name | startswith(\"memory-ci\")) | .id' | "
    "xargs -I% gh api -X DELETE 'repos/{owner}/{repo}/actions/artifacts/%'",
    "GitLab keeps caches and artifacts under Build > Artifacts and CI/CD > Clear runner caches",
    "A model's provider and an embedder keep what they were sent as their terms say: `memory-ci doctor --privacy`",
    "Agents keep their own transcripts outside of this repository: `memory-ci sessions` lists where",
)
DELETED = "deleted, and made again by the next run"
UNREACHABLE = (
    "git reflog expire --expire=now --all && git gc --prune=now  # old objects of this clone"
)


class ForgetPlan(msgspec.Struct, frozen=True):
    """What was meant, where it stands, the steps that are left, and the commit that was made, "" for none."""

    what: What
    places: tuple[HeldPlace, ...]
    steps: tuple[str, ...]
    is_done: bool = False
    commit: str = ""

    @property
    def left(self) -> tuple[HeldPlace, ...]:
        """What a person has to look at; messages of old commits are history, for which the steps are."""
        return tuple(place for place in self.places if place.is_left and place.kind != "message")


class Meant(msgspec.Struct, frozen=True):
    """What is to be forgotten: its texts and how each is, and an entry's id."""

    what: What
    texts: tuple[tuple[tombstones.Kind, str], ...]
    entry_id: str = ""


def find_meant(workspace: Workspace, text: str, wanted: What | None) -> Meant:
    """What a text stands for: the id of an entry, a person that git knows or a mail address, else words. Raises
    UsageError: nothing-to-forget, unknown-entry (what looks like an id is never taken for words), and what `find_entry`
    raises."""
    text = text.strip()
    if wanted == "entry" or (wanted is None and ID.fullmatch(text)):
        located = load_memory(workspace, None).located
        if wanted == "entry" or any(place.entry.id.startswith(text.lower()) for place in located):
            entry = find_entry(located, text).entry
            quotes = (
                line.partition(" ")[2]
                for line in entry.evidence
                if not line.startswith("accepted ")
            )
            return Meant(
                "entry", tuple(tombstones.long_enough([entry.title, entry.body, *quotes])), entry.id
            )
        raise _refuse_unknown(workspace, text)
    if wanted != "words" and (names := _names_of(workspace, text, is_asked=wanted == "person")):
        return Meant("person", tuple(("name", name) for name in names))
    if not re.search(tombstones.WORD, text):
        raise UsageError(
            "there is no word in it",
            slug="nothing-to-forget",
            hint="Give an id, words or a person.",
        )
    return Meant("words", (("words", text),))


def _refuse_unknown(workspace: Workspace, entry_id: str) -> UsageError:
    """Return the error for an id that no entry has, with the commit that removed it if there is one."""
    words = (
        "log",
        "-1",
        "--format=%h (%s)",
        f"-S{entry_id.lower()}",
        "--end-of-options",
        "HEAD",
        "--",
    )
    removed = run_git(workspace.repo.cwd, *words, ok=(0, 128)).decode("utf-8", "replace").strip()
    message = f"no entry has an id that starts with {entry_id!r}"
    if removed:
        message += f"; the last commit that wrote or removed it is {removed}"
    hint = "`memory-ci list` shows the ids. If these are words to forget: `--as words`."
    return UsageError(message, slug="unknown-entry", hint=hint)


def _names_of(workspace: Workspace, text: str, *, is_asked: bool) -> tuple[str, ...]:
    """The names and addresses of a person; () where the text names none that is known."""
    asked = PERSON.fullmatch(text)
    given = {asked["name"], asked["mail"]} if asked else {text}
    said = run_git(workspace.repo.cwd, "log", "--all", "--format=%an%x00%ae%n%cn%x00%ce").decode(
        "utf-8", "replace"
    )
    people = {tuple(line.split("\0")) for line in said.splitlines() if "\0" in line}
    folded = {one.casefold() for one in given if one}
    known = [person for person in people if folded & {part.casefold() for part in person}]
    if not (known or is_asked or asked or MAIL.fullmatch(text)):
        return ()
    return tuple(sorted(part for part in given.union(*known) if re.search(tombstones.WORD, part)))


def plan_forget(workspace: Workspace, meant: Meant, home: Path) -> ForgetPlan:
    """Every place that holds it, and what would be done. Writes nothing."""
    target, tip = _target(meant, "0" * 32), branch_tip(workspace, None)[1]
    files, found = places.rewrite_tree(workspace, target, tip)
    longest = (
        max(re.findall(tombstones.WORD, text), key=len, default="") for _, text in meant.texts
    )
    held = (
        *found,
        *(place for place, *_ in places.rewrite_loose(workspace, target, tip)),
        *(place for place, *_ in places.rewrite_sessions(workspace, target)),
        *(place for place, *_ in places.list_derived(workspace, target)),
        *(HeldPlace("ref", ref, DELETED) for ref in places.list_private(workspace.repo)),
        *places.list_left(
            workspace, target, tip, list(dict.fromkeys(filter(None, longest))), files
        ),
        *places.find_global(target, workspace.config.global_.path, home),
    )
    return ForgetPlan(meant.what, held, tuple(_list_steps(workspace, meant, held)))


def apply_forget(
    workspace: Workspace, meant: Meant, home: Path, salt: str, now: datetime
) -> ForgetPlan:
    """Do it: rewrite refs, delete derived data, and commit the files with the tombstones, last. `salt` is 32
    hexadecimal digits, for a repository that has none. Raises what the writer raises."""
    from memory_ci.gitrepo import writer  # GitPython: 75 ms, only to write

    plan = plan_forget(workspace, meant, home)
    ref, tip = branch_tip(workspace, None)
    salt = tombstones.find_salt([*read_rejected(workspace.at(tip)), *_copied(workspace)]) or salt
    target, lines = _target(meant, salt), _lines(meant, salt)
    files, _ = places.rewrite_tree(workspace, target, tip)
    before = files.get(REJECTED_FILE)
    if before is None:
        before = workspace.at(tip).read([REJECTED_FILE]).get(REJECTED_FILE)
    text = (before if before is not None else HEADER.encode()).decode("utf-8", "surrogateescape")
    known = parse_rejected(text)
    added = "".join(f"{line}\n" for line in lines if line not in known)
    gap = "" if text.endswith("\n") or not text else "\n"
    files[REJECTED_FILE] = f"{text}{gap}{added}".encode("utf-8", "surrogateescape")
    told = f"{plural(len(files) - 1, 'file')} changed, and a hash that keeps it out."
    message = f"memory: forget ({meant.what})\n\n{told}\n\n{STEP}: forget\n"
    identity = writer.choose_identity(workspace.config.publish, in_actions=False)
    commits = [writer.PlannedCommit(files, message)]
    # The commit comes last: until it stands the entry is known, and the same command goes on where this one ended.
    copied = dict.fromkeys([*_copied(workspace), *lines])
    write_file(copy_path(workspace), "".join(f"{line}\n" for line in copied).encode())
    for _, stored, own in places.rewrite_sessions(workspace, target):
        rewrite(workspace.repo, stored, own)
    for private in places.list_private(workspace.repo):
        run_git(workspace.repo.cwd, "update-ref", "-d", "--end-of-options", private)
    _write_files(
        (*places.rewrite_loose(workspace, target, tip), *places.list_derived(workspace, target))
    )
    tip = writer.commit_series(
        workspace.repo, ref=ref, expected=tip, commits=commits, identity=identity, when=now
    )
    _write_files(
        places.list_derived(workspace, target)
    )  # a hook may have built the index meanwhile
    return replace(plan, is_done=True, commit=tip)


def _write_files(changes: Iterable[tuple[HeldPlace, Path, bytes | None]]) -> None:
    """Write each file as it will be, and remove those that go; what is left to a person stays."""
    for place, path, data in changes:
        if place.is_left:
            continue
        if data is None:
            path.unlink(missing_ok=True)
        else:
            write_file(path, data)


def _target(meant: Meant, salt: str) -> Target:
    return Target(tombstones.parse_tombstones(_lines(meant, salt)), meant.entry_id)


def _lines(meant: Meant, salt: str) -> list[str]:
    return list(
        dict.fromkeys(
            line
            for kind, text in meant.texts
            for line in tombstones.format_tombstones(kind, text, salt)
        )
    )


def _copied(workspace: Workspace) -> list[str]:
    with suppress(OSError):
        return parse_rejected(copy_path(workspace).read_text("utf-8", "replace"))
    return []


def _list_steps(workspace: Workspace, meant: Meant, held: Sequence[HeldPlace]) -> Iterator[str]:
    """What no commit and no ref of this clone can do, as commands."""
    sessions = {place.where for place in held if place.kind == "session"}
    for remote, sent in list_pushed(workspace.repo).items():
        refs = [one.ref.split("/", 4)[4] for one in sent]
        there = [name for name in refs if f"refs/memory-ci/sessions/{name}" in sessions]
        specs = " ".join(f"+refs/memory-ci/sessions/{name}" for name in there)
        if there:
            yield f"git push --no-verify {remote} {specs}  # it was sent there as it was"
    yield UNREACHABLE
    yield from HISTORY
    if meant.what == "person":
        yield MAILMAP
    yield from FORGES
