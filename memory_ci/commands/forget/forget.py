"""`memory-ci forget`: removes an entry, words or a person from files, refs and derived data.

Files are changed by one commit. Places that it cannot change, such as old commits, are listed for a
person.
"""

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
from memory_ci.commands.forget.contents import ForgetTarget
from memory_ci.commands.forget.places import HeldPlace, MaskedFile
from memory_ci.errors import UsageError
from memory_ci.extraction import tombstones
from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.record_commits import STEP
from memory_ci.gitrepo.repo import Repository
from memory_ci.gitrepo.sessionrefs import list_pushed, rewrite
from memory_ci.memory.forgotten import (
    HEADER,
    REJECTED_FILE,
    copy_path,
    parse_rejected,
    read_rejected,
)
from memory_ci.memory.lookup import find_entry
from memory_ci.memory.workspace import Workspace, find_branch_tip, load_memory
from memory_ci.regex import Regex
from memory_ci.store.files import write_file
from memory_ci.text import plural

SubjectKind = Literal["entry", "words", "person"]
UNSTORED_SALT = "0" * 32
"""The salt of hashes that only a search compares with; nothing stores them."""

ENTRY_ID = Regex(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.IGNORECASE)  # 4f2a91c0, or the whole UUID
MAIL_ADDRESS = Regex(r"[^\s<>@]+@[^\s<>@]+")  # ada@example.com
SIGNATURE = Regex(
    r"\s*(?P<name>[^<>]*?)\s*<(?P<mail>[^<>\s]+@[^<>\s]+)>\s*"
)  # Ada <ada@example.com>

HISTORY_STEPS = (
    "Old commits still hold it. In a fresh clone, write what is to go into ../expressions.txt "
    "with an editor, a line each: `WORDS==>[redacted:forgotten]`",
    "git filter-repo --sensitive-data-removal --replace-text ../expressions.txt "
    "--replace-message ../expressions.txt",
)
MAILMAP_STEP = (
    "Authors of commits: write `Somebody <somebody@invalid> <their@mail>` into ../mailmap, then: "
    "git filter-repo --mailmap ../mailmap"
)
FORGE_STEPS = (
    "git push --force --mirror origin, and everybody else clones again: "
    "a push from an old clone restores it",
    "GitHub: edit pull requests, issues and comments by hand (gh pr edit N, delete the old "
    "revision of an edited comment); ask support.github.com to remove "
    "refs/pull/* and cached views; forks keep their copies",
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
DELETED_REF_ACTION = "deleted, and made again by the next run"
OLD_OBJECTS_STEP = (
    "git reflog expire --expire=now --all && git gc --prune=now  # old objects of this clone"
)


class ForgetPlan(msgspec.Struct, frozen=True):
    """The work of `forget`, planned or done.

    Attributes:
        subject_kind: what is forgotten; `what` in JSON.
        places: the places that hold it.
        steps: the steps for a person.
        is_done: the plan was applied.
        commit: the commit that was made, "" for none.
    """

    subject_kind: SubjectKind = msgspec.field(name="what")
    places: tuple[HeldPlace, ...]
    steps: tuple[str, ...]
    is_done: bool = False
    commit: str = ""

    @property
    def places_for_person(self) -> tuple[HeldPlace, ...]:
        """The places that a person has to look at.

        Messages of old commits do not count: they are history, which the steps are for.
        """
        return tuple(
            place for place in self.places if place.needs_person and place.kind != "message"
        )


class ForgetSubject(msgspec.Struct, frozen=True):
    """The subject to forget: an entry, words or a person.

    Attributes:
        kind: whether it is an entry, words or a person.
        texts: its texts, each with the kind of its tombstone.
        entry_id: the id of the entry, "" for none.
    """

    kind: SubjectKind
    texts: tuple[tuple[tombstones.Kind, str], ...]
    entry_id: str = ""


def find_subject(workspace: Workspace, text: str, wanted_kind: SubjectKind | None) -> ForgetSubject:
    """Return the subject that a command-line text names: an entry by its id, a person, or words.

    A person is a mail address or an author of commits. A text that looks like an id is never taken
    for words.

    Args:
        workspace: the repository and its configuration.
        text: the text.
        wanted_kind: the kind that the user named, None to decide by the text.

    Raises:
        UsageError: nothing-to-forget, unknown-entry, and the errors of `find_entry`.
    """
    text = text.strip()
    if wanted_kind == "entry" or (wanted_kind is None and ENTRY_ID.fullmatch(text)):
        return _find_entry_subject(workspace, text, is_surely_id=wanted_kind == "entry")
    if wanted_kind != "words":
        names = _list_names_of_person(workspace, text, is_surely_person=wanted_kind == "person")
        if names:
            return ForgetSubject("person", tuple(("name", name) for name in names))
    if not re.search(tombstones.WORD, text):
        hint = "Give an id, words or a person."
        raise UsageError("there is no word in it", slug="nothing-to-forget", hint=hint)
    return ForgetSubject("words", (("words", text),))


def _find_entry_subject(
    workspace: Workspace, entry_id: str, *, is_surely_id: bool
) -> ForgetSubject:
    """Return an entry with its texts: its title, its body and the quotes of its evidence.

    Args:
        workspace: the repository.
        entry_id: the id, or its start.
        is_surely_id: the user said that it is an id. Otherwise it may be words to forget, and the
            error for an unknown id says so.

    Raises:
        UsageError: unknown-entry, ambiguous-entry.
    """
    all_located = load_memory(workspace, None).located
    is_known = any(located.entry.id.startswith(entry_id.lower()) for located in all_located)
    if not is_known and not is_surely_id:
        raise _make_unknown_entry_error(workspace, entry_id)
    entry = find_entry(all_located, entry_id).entry
    texts = [entry.title, entry.body]
    for line in entry.evidence:
        if not line.startswith("accepted "):
            _, _, quote = line.partition(" ")  # The first word is the address of the quote.
            texts.append(quote)
    return ForgetSubject("entry", tuple(tombstones.choose_kinds(texts)), entry.id)


def _make_unknown_entry_error(workspace: Workspace, entry_id: str) -> UsageError:
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


def _list_names_of_person(
    workspace: Workspace, text: str, *, is_surely_person: bool
) -> tuple[str, ...]:
    """Return all names and mail addresses of the person that a text names.

    They are those of the text, and those of the commits whose author or committer has one of them.

    Args:
        workspace: the repository.
        text: `Name <mail>`, a mail address or a name.
        is_surely_person: the user said that the text names a person. Otherwise it has to be a mail
            address, or the name of an author.

    Returns:
        The names and addresses, () if the text names no person.
    """
    signature = SIGNATURE.fullmatch(text)
    names = {signature["name"], signature["mail"]} if signature else {text}
    folded_names = {name.casefold() for name in names if name}

    is_author = False
    for name, mail in _list_authors(workspace.repo):
        if name.casefold() in folded_names or mail.casefold() in folded_names:
            is_author = True
            names |= {name, mail}
    is_address = signature is not None or MAIL_ADDRESS.fullmatch(text) is not None
    if not (is_author or is_address or is_surely_person):
        return ()
    return tuple(sorted(name for name in names if re.search(tombstones.WORD, name)))


def _list_authors(repo: Repository) -> set[tuple[str, str]]:
    """Return the names and mail addresses of all authors and committers of a repository."""
    # Two lines for each commit: its author and its committer, as `name\0mail`.
    log = run_git(repo.cwd, "log", "--all", "--format=%an%x00%ae%n%cn%x00%ce")
    authors: set[tuple[str, str]] = set()
    for line in log.decode("utf-8", "replace").splitlines():
        name, separator, mail = line.partition("\0")
        if separator:
            authors.add((name, mail))
    return authors


def plan_forget(workspace: Workspace, subject: ForgetSubject, home: Path) -> ForgetPlan:
    """Find all places with the texts of a subject, and what to do there; nothing is written.

    Args:
        workspace: the repository and its configuration.
        subject: what to forget.
        home: the home of the user.
    """
    target = _build_target(subject, UNSTORED_SALT)
    _, tip = find_branch_tip(workspace, None)
    new_texts, tree_places = places.plan_tree(workspace, target, tip)

    found_places = [*tree_places]
    found_places += [file.place for file in places.plan_untracked_files(workspace, target)]
    found_places += [session.place for session in places.plan_sessions(workspace, target)]
    found_places += [file.place for file in places.plan_derived_files(workspace, target)]
    for ref in places.list_publish_refs(workspace.repo):
        found_places.append(HeldPlace("ref", ref, DELETED_REF_ACTION))
    search_words = _choose_search_words(subject)
    found_places += places.find_places_for_person(workspace, target, tip, search_words, new_texts)
    found_places += places.find_global_memory(target, workspace.config.global_.path, home)
    steps = _list_steps(workspace, subject, found_places)
    return ForgetPlan(subject.kind, tuple(found_places), tuple(steps))


def _choose_search_words(subject: ForgetSubject) -> list[str]:
    """Return the longest word of each text to forget, each once.

    By these words git finds the files that may hold a text. A text itself may be broken over
    lines, or spelled with other blanks. Few files hold the longest word.
    """
    search_words: dict[str, None] = {}
    for _, text in subject.texts:
        words = re.findall(tombstones.WORD, text)
        if words:
            search_words[max(words, key=len)] = None
    return list(search_words)


def apply_forget(
    workspace: Workspace, subject: ForgetSubject, home: Path, salt: str, now: datetime
) -> ForgetPlan:
    """Rewrite refs, delete derived data, and commit the changed files.

    The file .memory/rejected.txt gets a tombstone for each text: a salted hash, by which later
    runs recognise it. The commit comes last: until it is made the entry can be found, so that the
    same command continues after an error.

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
    ref, tip = find_branch_tip(workspace, None)
    stored_lines = [*read_rejected(workspace.at(tip)), *_read_copy(workspace)]
    salt = tombstones.find_salt(stored_lines) or salt
    target = _build_target(subject, salt)
    lines = _format_lines(subject, salt)

    files = _plan_files(workspace, target, tip, lines)
    summary = f"{plural(len(files) - 1, 'file')} changed, and a hash that keeps it out."
    message = f"memory: forget ({subject.kind})\n\n{summary}\n\n{STEP}: forget\n"
    identity = writer.choose_identity(workspace.config.publish, in_actions=False)
    commits = [writer.PlannedCommit(files, message)]

    _store_copy(workspace, lines)
    for change in places.plan_sessions(workspace, target):
        rewrite(repo, change.session, change.new_files)
    for private_ref in places.list_publish_refs(repo):
        run_git(repo.cwd, "update-ref", "-d", "--end-of-options", private_ref)
    untracked_files = list(places.plan_untracked_files(workspace, target))
    _write_files([*untracked_files, *places.plan_derived_files(workspace, target)])
    tip = writer.commit_series(
        repo, ref=ref, expected=tip, commits=commits, identity=identity, when=now
    )
    # A hook of the commit may have built the index again.
    _write_files(places.plan_derived_files(workspace, target))
    return replace(plan, is_done=True, commit=tip)


def _plan_files(
    workspace: Workspace, target: ForgetTarget, tip: str, lines: Sequence[str]
) -> dict[str, bytes | None]:
    """Return the files of the commit: memory without the words, and the file of tombstones.

    Args:
        workspace: the repository.
        target: the words to forget.
        tip: the commit that is rewritten.
        lines: the tombstones to add.

    Returns:
        The new text of each file by its path, None to remove it.
    """
    files, _ = places.plan_tree(workspace, target, tip)
    rejected = files.get(REJECTED_FILE)
    if rejected is None:
        rejected = workspace.at(tip).read([REJECTED_FILE]).get(REJECTED_FILE)
    files[REJECTED_FILE] = _add_lines(rejected, lines)
    return files


def _store_copy(workspace: Workspace, lines: Sequence[str]) -> None:
    """Add tombstones to those that are stored in the git directory."""
    all_lines = dict.fromkeys([*_read_copy(workspace), *lines])
    write_file(copy_path(workspace), "".join(f"{line}\n" for line in all_lines).encode())


def _add_lines(old_data: bytes | None, lines: Sequence[str]) -> bytes:
    """Return the file of tombstones with more lines; `old_data` is None for no file."""
    data = HEADER.encode() if old_data is None else old_data
    text = data.decode("utf-8", "surrogateescape")
    present_lines = parse_rejected(text)
    if text and not text.endswith("\n"):
        text += "\n"
    text += "".join(f"{line}\n" for line in lines if line not in present_lines)
    return text.encode("utf-8", "surrogateescape")


def _write_files(changes: Iterable[MaskedFile]) -> None:
    """Write or remove files, except for those that `forget` cannot change: they need a person."""
    for change in changes:
        if change.place.needs_person:
            continue
        if change.new_data is None:
            change.path.unlink(missing_ok=True)
        else:
            write_file(change.path, change.new_data)


def _build_target(subject: ForgetSubject, salt: str) -> ForgetTarget:
    lines = _format_lines(subject, salt)
    return ForgetTarget(tombstones.parse_tombstones(lines), subject.entry_id)


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
    """Yield commands and advice for a person: for remotes, old commits and forges.

    Args:
        workspace: the repository.
        subject: the entry, person or words to forget.
        found_places: the places that hold the subject.
    """
    changed_refs = {place.location for place in found_places if place.kind == "session"}
    for remote, pushed_sessions in list_pushed(workspace.repo).items():
        refspecs = []
        for session in pushed_sessions:
            # `refs/memory-ci/pushed/REMOTE/…` is what was pushed of `refs/memory-ci/sessions/…`.
            ref = f"refs/memory-ci/sessions/{session.ref.split('/', 4)[4]}"
            if ref in changed_refs:
                refspecs.append(f"+{ref}")
        if refspecs:
            specs = " ".join(refspecs)
            yield f"git push --no-verify {remote} {specs}  # it was sent there as it was"
    yield OLD_OBJECTS_STEP
    yield from HISTORY_STEPS
    if subject.kind == "person":
        yield MAILMAP_STEP
    yield from FORGE_STEPS
