"""The removal of an entry, words or a person by one commit, rewritten refs and steps for people."""

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
from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.record_commits import STEP
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
from memory_ci.regex import Regex
from memory_ci.store.files import write_file
from memory_ci.text import plural

What = Literal["entry", "words", "person"]
ID = Regex(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.IGNORECASE)
MAIL = Regex(r"[^\s<>@]+@[^\s<>@]+")
PERSON = Regex(r"\s*(?P<name>[^<>]*?)\s*<(?P<mail>[^<>\s]+@[^<>\s]+)>\s*")

HISTORY = (
    "Old commits still hold it. In a fresh clone, write what is to go into ../expressions.txt "
    "with an editor, a line each: `WORDS==>[redacted:forgotten]`",
    "git filter-repo --sensitive-data-removal --replace-text ../expressions.txt "
    "--replace-message ../expressions.txt",
)
MAILMAP = (
    "Authors of commits: write `Somebody <somebody@invalid> <their@mail>` into ../mailmap, then: "
    "git filter-repo --mailmap ../mailmap"
)
FORGES = (
    "git push --force --mirror origin, and everybody else clones anew: an old clone brings it back",
    "GitHub: edit pull requests, issues and comments by hand (gh pr edit N, delete the old "
    "revision of an edited comment); refs/pull/* and cached views go when support.github.com is "
    "asked; forks keep what they have",
    "GitLab: edit merge requests by hand; Settings > Repository > Repository maintenance removes "
    "the old objects",
    "CI caches: gh cache list --key memory-ci-index- --limit 1000 --json id --jq '.[].id' "
    "| xargs -n1 gh cache delete",
    "CI artifacts: gh api --paginate 'repos/{owner}/{repo}/actions/artifacts' --jq "
    "'.artifacts[] | select(.name | startswith(\"memory-ci\")) | .id' | "
    "xargs -I% gh api -X DELETE 'repos/{owner}/{repo}/actions/artifacts/%'",
    "GitLab keeps caches and artifacts under Build > Artifacts and CI/CD > Clear runner caches",
    "A model's provider and an embedder keep what they were sent as their terms say: "
    "`memory-ci doctor --privacy`",
    "Agents keep their own transcripts outside of this repository: "
    "`memory-ci sessions` lists where",
)
DELETED = "deleted, and made again by the next run"
UNREACHABLE = (
    "git reflog expire --expire=now --all && git gc --prune=now  # old objects of this clone"
)


class ForgetPlan(msgspec.Struct, frozen=True):
    """The work of `forget`, planned or done.

    Attributes:
        what: the kind of the subject.
        places: the places that hold it.
        steps: the steps for a person.
        is_done: the plan was applied.
        commit: the commit that was made, "" for none.
    """

    what: What
    places: tuple[HeldPlace, ...]
    steps: tuple[str, ...]
    is_done: bool = False
    commit: str = ""

    @property
    def left(self) -> tuple[HeldPlace, ...]:
        """The places that a person has to look at.

        Messages of old commits do not count: they are history, which the steps are for.
        """
        return tuple(place for place in self.places if place.is_left and place.kind != "message")


class ForgetSubject(msgspec.Struct, frozen=True):
    """The subject to forget: an entry, words or a person.

    Attributes:
        what: its kind.
        texts: its texts, each with the kind of its tombstone.
        entry_id: the id of the entry, "" for none.
    """

    what: What
    texts: tuple[tuple[tombstones.Kind, str], ...]
    entry_id: str = ""


def find_subject(workspace: Workspace, text: str, wanted: What | None) -> ForgetSubject:
    """Return the meaning of a text: an id of an entry, a person, or words.

    A person is a mail address or an author of commits. A text that looks like an id is never taken
    for words.

    Args:
        workspace: the repository and its configuration.
        text: the text.
        wanted: the required meaning, None for any.

    Raises:
        UsageError: nothing-to-forget, unknown-entry, and the errors of `find_entry`.
    """
    text = text.strip()
    if wanted == "entry" or (wanted is None and ID.fullmatch(text)):
        return _find_entry(workspace, text, is_certain=wanted == "entry")
    if wanted != "words":
        names = _list_names(workspace, text, is_certain=wanted == "person")
        if names:
            return ForgetSubject("person", tuple(("name", name) for name in names))
    if not re.search(tombstones.WORD, text):
        hint = "Give an id, words or a person."
        raise UsageError("there is no word in it", slug="nothing-to-forget", hint=hint)
    return ForgetSubject("words", (("words", text),))


def _find_entry(workspace: Workspace, entry_id: str, *, is_certain: bool) -> ForgetSubject:
    """Return the texts of an entry: its title, its body and the quotes of its evidence."""
    located = load_memory(workspace, None).located
    is_known = any(place.entry.id.startswith(entry_id.lower()) for place in located)
    if not is_certain and not is_known:
        raise _unknown_entry(workspace, entry_id)
    entry = find_entry(located, entry_id).entry
    evidence = [line for line in entry.evidence if not line.startswith("accepted ")]
    quotes = [line.partition(" ")[2] for line in evidence]
    texts = [entry.title, entry.body, *quotes]
    return ForgetSubject("entry", tuple(tombstones.choose_kinds(texts)), entry.id)


def _unknown_entry(workspace: Workspace, entry_id: str) -> UsageError:
    """Return the error for an id that no entry has, with the commit that removed it, if any."""
    search = f"-S{entry_id.lower()}"
    command = ("log", "-1", "--format=%h (%s)", search, "--end-of-options", "HEAD", "--")
    output = run_git(workspace.repo.cwd, *command, ok=(0, 128))
    commit = output.decode("utf-8", "replace").strip()
    message = f"no entry has an id that starts with {entry_id!r}"
    if commit:
        message += f"; the last commit that wrote or removed it is {commit}"
    hint = "`memory-ci list` shows the ids. If these are words to forget: `--as words`."
    return UsageError(message, slug="unknown-entry", hint=hint)


def _list_names(workspace: Workspace, text: str, *, is_certain: bool) -> tuple[str, ...]:
    """Return the names and addresses of a person, () if a text is neither author nor address.

    Args:
        workspace: the repository.
        text: `Name <mail>`, a mail address or a name.
        is_certain: the text names a person, whom git need not know.
    """
    signature = PERSON.fullmatch(text)
    names = {signature["name"], signature["mail"]} if signature else {text}
    folded_names = {name.casefold() for name in names if name}

    log = run_git(workspace.repo.cwd, "log", "--all", "--format=%an%x00%ae%n%cn%x00%ce")
    lines = log.decode("utf-8", "replace").splitlines()
    people = {tuple(line.split("\0")) for line in lines if "\0" in line}
    matching = [person for person in people if folded_names & {part.casefold() for part in person}]
    if not matching and not (is_certain or signature or MAIL.fullmatch(text)):
        return ()
    names = names.union(*matching)
    return tuple(sorted(name for name in names if re.search(tombstones.WORD, name)))


def plan_forget(workspace: Workspace, subject: ForgetSubject, home: Path) -> ForgetPlan:
    """Find every place that holds the subject, and what to do there; nothing is written.

    Args:
        workspace: the repository and its configuration.
        subject: what to forget.
        home: the home of the user.
    """
    target = _build_target(subject, "0" * 32)
    _, tip = branch_tip(workspace, None)
    files, tree_places = places.rewrite_tree(workspace, target, tip)
    needles: dict[str, None] = {}  # the longest word of each text, for git to search for
    for _, text in subject.texts:
        needles[max(re.findall(tombstones.WORD, text), key=len, default="")] = None
    needles.pop("", None)

    found_places = [*tree_places]
    found_places += [place for place, *_ in places.rewrite_loose(workspace, target)]
    found_places += [place for place, *_ in places.rewrite_sessions(workspace, target)]
    found_places += [place for place, *_ in places.list_derived(workspace, target)]
    found_places += [HeldPlace("ref", ref, DELETED) for ref in places.list_private(workspace.repo)]
    found_places += places.list_left(workspace, target, tip, list(needles), files)
    found_places += places.find_global(target, workspace.config.global_.path, home)
    return ForgetPlan(
        subject.what, tuple(found_places), tuple(_list_steps(workspace, subject, found_places))
    )


def apply_forget(
    workspace: Workspace, subject: ForgetSubject, home: Path, salt: str, now: datetime
) -> ForgetPlan:
    """Rewrite refs, delete derived data, and commit the files with the tombstones.

    The commit comes last: until it is made the entry can be found, so that the same command
    continues after an error.

    Args:
        workspace: the repository and its configuration.
        subject: what to forget.
        home: the home of the user.
        salt: 32 hexadecimal digits, for a repository that has no salt.
        now: the time of the commit.

    Raises:
        RepositoryError: the commit cannot be made.
    """
    from memory_ci.gitrepo import writer  # GitPython: 75 ms, only to write

    repo = workspace.repo
    plan = plan_forget(workspace, subject, home)
    ref, tip = branch_tip(workspace, None)
    stored_lines = [*read_rejected(workspace.at(tip)), *_read_copy(workspace)]
    salt = tombstones.find_salt(stored_lines) or salt
    target = _build_target(subject, salt)
    lines = _format_lines(subject, salt)

    files = _plan_files(workspace, target, tip, lines)
    summary = f"{plural(len(files) - 1, 'file')} changed, and a hash that keeps it out."
    message = f"memory: forget ({subject.what})\n\n{summary}\n\n{STEP}: forget\n"
    identity = writer.choose_identity(workspace.config.publish, in_actions=False)
    commits = [writer.PlannedCommit(files, message)]

    _store_copy(workspace, lines)
    for _, session, session_files in places.rewrite_sessions(workspace, target):
        rewrite(repo, session, session_files)
    for private_ref in places.list_private(repo):
        run_git(repo.cwd, "update-ref", "-d", "--end-of-options", private_ref)
    loose_files = list(places.rewrite_loose(workspace, target))
    _write_files([*loose_files, *places.list_derived(workspace, target)])
    tip = writer.commit_series(
        repo, ref=ref, expected=tip, commits=commits, identity=identity, when=now
    )
    # A hook of the commit may have built the index again.
    _write_files(places.list_derived(workspace, target))
    return replace(plan, is_done=True, commit=tip)


def _plan_files(
    workspace: Workspace, target: Target, tip: str, lines: Sequence[str]
) -> dict[str, bytes | None]:
    """Return the files of the commit: memory without the words, and the tombstones."""
    files, _ = places.rewrite_tree(workspace, target, tip)
    before = files.get(REJECTED_FILE)
    if before is None:
        before = workspace.at(tip).read([REJECTED_FILE]).get(REJECTED_FILE)
    files[REJECTED_FILE] = _add_lines(before, lines)
    return files


def _store_copy(workspace: Workspace, lines: Sequence[str]) -> None:
    """Add tombstones to those that are stored in the git directory."""
    all_lines = dict.fromkeys([*_read_copy(workspace), *lines])
    write_file(copy_path(workspace), "".join(f"{line}\n" for line in all_lines).encode())


def _add_lines(before: bytes | None, lines: Sequence[str]) -> bytes:
    """Return the file of tombstones with more lines; `before` is None for no file."""
    text = (HEADER.encode() if before is None else before).decode("utf-8", "surrogateescape")
    present = parse_rejected(text)
    if text and not text.endswith("\n"):
        text += "\n"
    text += "".join(f"{line}\n" for line in lines if line not in present)
    return text.encode("utf-8", "surrogateescape")


def _write_files(changes: Iterable[tuple[HeldPlace, Path, bytes | None]]) -> None:
    """Write or remove files, except for those that are left to a person."""
    for place, path, data in changes:
        if place.is_left:
            continue
        if data is None:
            path.unlink(missing_ok=True)
        else:
            write_file(path, data)


def _build_target(subject: ForgetSubject, salt: str) -> Target:
    lines = _format_lines(subject, salt)
    return Target(tombstones.parse_tombstones(lines), subject.entry_id)


def _format_lines(subject: ForgetSubject, salt: str) -> list[str]:
    """Return the tombstones of the texts, each once."""
    lines: dict[str, None] = {}
    for kind, text in subject.texts:
        lines |= dict.fromkeys(tombstones.format_tombstones(kind, text, salt))
    return list(lines)


def _read_copy(workspace: Workspace) -> list[str]:
    """Return the tombstones that are stored in the git directory."""
    with suppress(OSError):
        return parse_rejected(copy_path(workspace).read_text("utf-8", "replace"))
    return []


def _list_steps(
    workspace: Workspace, subject: ForgetSubject, found_places: Sequence[HeldPlace]
) -> Iterator[str]:
    """Yield the commands for old commits, remotes and forges."""
    sessions = {place.where for place in found_places if place.kind == "session"}
    for remote, pushed in list_pushed(workspace.repo).items():
        refs = [f"refs/memory-ci/sessions/{session.ref.split('/', 4)[4]}" for session in pushed]
        specs = " ".join(f"+{ref}" for ref in refs if ref in sessions)
        if specs:
            yield f"git push --no-verify {remote} {specs}  # it was sent there as it was"
    yield UNREACHABLE
    yield from HISTORY
    if subject.what == "person":
        yield MAILMAP
    yield from FORGES
