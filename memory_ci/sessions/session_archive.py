"""Collect what people typed and which commands failed in all agent sessions of a repository.

`session_join` reads only sessions of merged changes. To count repetitions, every session is needed:
captured ones, Entire's checkpoints, git-ai's notes, transcripts that were ever committed, and
prompts in commit messages. A transcript is parsed once: its turns and commands are cached in the
git directory under the id of its blob.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci import progress
from memory_ci.evidence.content import redact
from memory_ci.evidence.trust import AGENT_PATTERNS, classify_trust, is_author
from memory_ci.files import read_regular, save_if_changed
from memory_ci.gitrepo.blobs import Tree, TreeFile, read_files
from memory_ci.gitrepo.history import find_cached_commits
from memory_ci.gitrepo.log import FILE_OPTIONS, read_log
from memory_ci.gitrepo.repo import Repository, find_commit, find_objects
from memory_ci.gitrepo.sessionrefs import DIGEST, StoredSession, list_stored
from memory_ci.memory.workspace import Workspace
from memory_ci.records.event import UNKNOWN_TIME, Event, Origin, Session
from memory_ci.records.history import Commit
from memory_ci.records.repetition import AwareTime, CommandRun, PersonTurn
from memory_ci.regex import Regex
from memory_ci.repetition.commands import MAX_COMMAND, list_forms
from memory_ci.repetition.failures import FailedRun, list_failed, list_succeeded
from memory_ci.sessions.session_join import (
    COMMITTED_TRANSCRIPT,
    ENTIRE_REFS,
    GIT_AI_REFS,
    MAX_TRANSCRIPT,
)
from memory_ci.sources.commits import format_author
from memory_ci.sources.entire import list_metadata
from memory_ci.sources.transcripts.prose import extract_typed_words
from memory_ci.sources.transcripts.registry import read_stream
from memory_ci.sources.transcripts.repetition import MAX_TYPED_LINES
from memory_ci.sources.transcripts.shell import is_shell, list_shell_runs, read_command
from memory_ci.text import plural

CACHE_VERSION = 6
MAX_CACHE = 500_000_000  # Bytes of the cache that are read.
MAX_BYTES = 1_000_000_000  # Bytes of transcripts that one run parses.
MAX_JOINED_BYTES = 4 * MAX_TRANSCRIPT  # Bytes of the parts of one long transcript.
MAX_TURN = 20_000  # Characters of a turn that are kept.
MAX_OUTPUT = 2_000  # Characters kept of a command's output.
MASKING_FACTOR = (
    3  # How many times the kept characters are masked: a mask is shorter than a secret.
)

TRANSCRIPT = Regex(r"([0-9a-f]{2})/([0-9a-f]{10})/(?:\d{1,9}/)?full\.jsonl(?:\.\d{3})?")
"""The path of a checkpoint's transcript, or of a further part of it."""

PROMPT = Regex(
    r"^\[Prompt[^\]\n]*\][ \t]*\n(?P<text>.*?)(?=^\[\w[^\]\n]*\]:?[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
"""A prompt that a commit message repeats, up to the next heading in brackets."""

TRANSCRIPT_PATHS = (
    ":(top,glob)**/.specstory/history/*.md",
    ":(top,glob)**/.aider.chat.history.md",
)
PROMPT_LOG_OPTIONS = ("--extended-regexp", r"--grep=^\[Prompt[^]]*\]")

MOMENT_BY_COMMAND: Mapping[tuple[str, ...], str] = {
    ("git", "commit"): "before:commit",
    ("git", "push"): "before:push",
    ("gh", "pr", "create"): "before:pull-request",
    ("glab", "mr", "create"): "before:pull-request",
}
"""Moments by the beginning of a command's form."""

SPOKEN_KINDS = ("text", "rejection", "intervention")
"""Kinds of events that hold words of a person."""

TRUSTED_TIERS = ("T0", "T1")
"""Tiers of trust (`memory_ci.evidence.trust`) of people whose requests count."""


class ParsedTranscript(msgspec.Struct, frozen=True):
    """The turns of people and the runs of commands in one transcript.

    Attributes:
        turns: the turns of people, without their author.
        failed: the commands that failed by misuse.
        succeeded: when forms of commands last succeeded, by session.
    """

    turns: tuple[PersonTurn, ...] = ()
    failed: tuple[FailedRun, ...] = ()
    succeeded: dict[str, dict[str, AwareTime]] = {}


class CommittedTranscript(msgspec.Struct, frozen=True):
    """The newest version of a transcript that was committed.

    Attributes:
        path: its path.
        oid: its blob.
        author: the author of the commit, as `Name <e-mail>`.
        at: when the commit was made.
    """

    path: str
    oid: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{40,64}\Z")]
    author: str
    at: AwareTime


class HistoryScan(msgspec.Struct, frozen=True):
    """The sessions in the history of a commit.

    Attributes:
        until: the commit, "" for none.
        committed: the transcripts that were ever committed, also those that were removed since.
        prompts: the prompts that commit messages repeat; the commit is their session.
    """

    until: Annotated[str, msgspec.Meta(pattern=r"\A(?:[0-9a-f]{40,64})?\Z")] = ""
    committed: tuple[CommittedTranscript, ...] = ()
    prompts: tuple[PersonTurn, ...] = ()


class ArchiveCache(msgspec.Struct, frozen=True):
    """What earlier runs have read.

    Attributes:
        version: the version of the format.
        parsed: the transcripts, by the id of their first blob.
        scan: the sessions in the history.
        reviews: what members wrote in reviews, which no history holds.
    """

    version: int = CACHE_VERSION
    parsed: dict[str, ParsedTranscript] = {}
    scan: HistoryScan = HistoryScan()
    reviews: tuple[PersonTurn, ...] = ()


class SessionArchive(msgspec.Struct, frozen=True):
    """What people typed, and which commands failed, in all sessions.

    Attributes:
        turns: turns of people whose words count, each once, the earliest first.
        failed: the commands that failed by misuse.
        succeeded: when forms of commands last succeeded, by session.
        problems: messages on transcripts that were not read.
    """

    turns: tuple[PersonTurn, ...] = ()
    failed: tuple[FailedRun, ...] = ()
    succeeded: tuple[dict[str, datetime], ...] = ()
    problems: tuple[str, ...] = ()


class Source(NamedTuple):
    """A transcript in the repository.

    Attributes:
        files: its blobs, in order; a long transcript has several.
        author: the author of its commit, as `Name <e-mail>`; "" without a commit.
        at: the time of turns whose transcript has none.
    """

    files: tuple[TreeFile, ...]
    author: str
    at: datetime

    @property
    def key(self) -> str:
        """The id under which it is cached."""
        return self.files[0].oid


def read_archive(
    workspace: Workspace,
    base: str,
    captured: Sequence[StoredSession] | None = None,
) -> SessionArchive:
    """Return the turns of people and the failed commands in all sessions of a repository.

    Transcripts are read once: a cache has what earlier runs found in them, and the reviews that
    earlier runs read from the forge.

    Args:
        workspace: the repository, with the configuration that says whose words count.
        base: the commit whose history is searched for committed transcripts and prompts.
        captured: the captured sessions, if the caller knows them.

    Raises:
        RepositoryError: git-failed.
    """
    if not workspace.config.sessions.read:
        return SessionArchive()
    repo = workspace.repo
    cache = _load_cache(workspace)
    history = _scan_history(repo, base, cache.scan)
    stored = list_stored(repo) if captured is None else captured
    sources = [*_list_captured(stored), *_list_in_refs(repo), *_list_committed(history)]

    problems: list[str] = []
    transcript_by_key = _parse_uncached(workspace, sources, cache.parsed, problems)
    if transcript_by_key.keys() != cache.parsed.keys() or history != cache.scan:
        _save_cache(workspace, replace(cache, parsed=transcript_by_key, scan=history))

    # A commit message that an agent wrote does not prove that a person typed the prompts in it.
    prompts = [turn for turn in history.prompts if not is_author(turn.person, AGENT_PATTERNS)]
    turns = [*prompts, *cache.reviews]
    for source in sources:
        transcript = transcript_by_key.get(source.key)
        if transcript is not None:
            turns += _add_author(transcript.turns, source)
    failed: dict[FailedRun, None] = {}  # copies of a session hold the same runs
    succeeded: list[dict[str, datetime]] = []
    for transcript in transcript_by_key.values():
        failed.update(dict.fromkeys(transcript.failed))
        succeeded += transcript.succeeded.values()
    return SessionArchive(
        turns=tuple(_select_trusted_turns(workspace, turns)),
        failed=tuple(failed),
        succeeded=tuple(succeeded),
        problems=tuple(problems),
    )


def _parse_uncached(
    workspace: Workspace,
    sources: Sequence[Source],
    cached: Mapping[str, ParsedTranscript],
    problems: list[str],
) -> dict[str, ParsedTranscript]:
    """Return the transcripts of some sources by their keys: cached ones, and the others parsed.

    Args:
        workspace: the repository.
        sources: the sources.
        cached: the transcripts that earlier runs parsed, by key.
        problems: receives a message if transcripts were not read.
    """
    parsed = {source.key: cached[source.key] for source in sources if source.key in cached}
    new_sources = [source for source in sources if source.key not in cached]
    transcripts = _parse_all(workspace, new_sources, problems)
    for source, transcript in progress.count("Reading sessions", transcripts, len(new_sources)):
        parsed[source.key] = transcript
    return parsed


def add_reviews(
    workspace: Workspace, archive: SessionArchive, reviews: Iterable[PersonTurn]
) -> SessionArchive:
    """Return an archive with texts of reviews in addition, and keep these in the cache.

    They are in no transcript, so a clone without the cache has only the reviews of its next runs.

    Args:
        workspace: the repository.
        archive: the sessions.
        reviews: the texts of reviews; the request is their session.
    """
    cache = _load_cache(workspace)
    cached_reviews = frozenset(cache.reviews)
    new_reviews = [turn for turn in dict.fromkeys(reviews) if turn not in cached_reviews]
    if not new_reviews:
        return archive
    _save_cache(workspace, replace(cache, reviews=(*cache.reviews, *new_reviews)))
    turns = _select_trusted_turns(workspace, [*archive.turns, *new_reviews])
    return replace(archive, turns=tuple(turns))


# -- where transcripts are


def _list_captured(captured: Iterable[StoredSession]) -> Iterator[Source]:
    """Yield the sessions that were captured into refs, which have no author."""
    for stored in captured:
        file = TreeFile(stored.ref, f"{stored.oid}:{DIGEST}")
        yield Source((file,), "", stored.ended_at)


def _list_in_refs(repo: Repository) -> Iterator[Source]:
    """Yield the transcripts on Entire's branch of checkpoints and in git-ai's notes.

    Of each the local ref is read, or the one of the remote if there is none.
    """
    refs = [f"{ref}^{{commit}}" for ref in (*ENTIRE_REFS, *GIT_AI_REFS)]
    local_branch, remote_branch, local_notes, remote_notes = find_objects(repo, refs)
    if branch := local_branch or remote_branch:
        yield from _list_checkpoints(Tree(repo, branch))
    if notes := local_notes or remote_notes:
        for file in Tree(repo, notes).files.values():
            yield Source((file,), "", UNKNOWN_TIME)


def _list_committed(scan: HistoryScan) -> Iterator[Source]:
    for transcript in scan.committed:
        file = TreeFile(transcript.path, transcript.oid)
        yield Source((file,), transcript.author, transcript.at)


def _list_checkpoints(tree: Tree) -> Iterator[Source]:
    """Yield the transcripts of Entire's checkpoints, with author and time of their first commit."""
    first_commits: dict[str, Commit] = {}
    # The log is newest first, so that the first commit of a checkpoint comes last.
    for commit, _ in read_log(tree.repo, *FILE_OPTIONS, "--end-of-options", tree.oid, "--"):
        for checkpoint_id in list_metadata(file.path for file in commit.files):
            first_commits[checkpoint_id] = commit
    for path, file in tree.files.items():
        match = TRANSCRIPT.fullmatch(path)
        if match is None or not path.endswith("full.jsonl"):
            continue
        files = (file, *_list_parts(tree, path))
        first_commit = first_commits.get(match[1] + match[2])
        if first_commit is None:
            yield Source(files, "", UNKNOWN_TIME)
        else:
            yield Source(files, format_author(first_commit), first_commit.committed_at)


def _list_parts(tree: Tree, path: str) -> list[TreeFile]:
    """Return the further parts of a long transcript, `PATH.001` and so on."""
    parts: list[TreeFile] = []
    while part := tree.files.get(f"{path}.{len(parts) + 1:03d}"):
        parts.append(part)
    return parts


def _scan_history(repo: Repository, base: str, earlier: HistoryScan) -> HistoryScan:
    """Return the transcripts and prompts in the history up to a commit.

    Only commits after the earlier scan are read. The results of that scan are kept, even of commits
    that are not in the history any more: somebody typed those texts.
    """
    until = find_commit(repo, earlier.until) if earlier.until else None
    if until == find_commit(repo, base):
        return earlier
    revisions = [base, f"^{until}"] if until else [base]
    cached_commits = find_cached_commits(repo, until, base)
    committed: dict[str, CommittedTranscript] = {}
    if cached_commits is None or _has_transcripts(cached_commits):
        for transcript in _find_committed(repo, revisions):
            committed[transcript.path] = transcript
    for transcript in earlier.committed:
        committed.setdefault(transcript.path, transcript)
    prompts = earlier.prompts
    if cached_commits is None or any(PROMPT.search(commit.message) for commit in cached_commits):
        prompts = (*_find_prompts(repo, revisions), *prompts)
    return HistoryScan(find_commit(repo, base) or "", tuple(committed.values()), prompts)


def _has_transcripts(commits: Iterable[Commit]) -> bool:
    """Return whether one of some commits changed a file at the path of a transcript."""
    for commit in commits:
        for file in commit.files:
            if COMMITTED_TRANSCRIPT.fullmatch(file.path):
                return True
    return False


def _find_committed(repo: Repository, revisions: Sequence[str]) -> Iterator[CommittedTranscript]:
    """Yield the newest version of each transcript that commits added or changed.

    The log is newest first, so that further versions of a path are left out.
    """
    seen: set[str] = set()
    log = read_log(repo, *FILE_OPTIONS, "--end-of-options", *revisions, "--", *TRANSCRIPT_PATHS)
    for commit, oids in log:
        for file, oid in zip(commit.files, oids, strict=True):
            if file.old_path is not None:
                seen.add(file.old_path)  # the newer name of the transcript was listed already
            is_deleted = not oid.strip("0")
            if is_deleted or file.path in seen or not COMMITTED_TRANSCRIPT.fullmatch(file.path):
                continue
            seen.add(file.path)
            yield CommittedTranscript(file.path, oid, format_author(commit), commit.authored_at)


def _find_prompts(repo: Repository, revisions: Sequence[str]) -> Iterator[PersonTurn]:
    """Yield the prompts of people that commit messages quote; the commit counts as the session."""
    for commit, _ in read_log(repo, *PROMPT_LOG_OPTIONS, "--end-of-options", *revisions, "--"):
        for match in PROMPT.finditer(commit.message):
            text = _mask(extract_typed_words(match["text"].strip()), MAX_TURN)
            if text:
                session = f"commit:{commit.sha[:12]}"
                yield PersonTurn(session, commit.authored_at, format_author(commit), text)


# -- what a transcript holds


def _parse_all(
    workspace: Workspace, sources: Sequence[Source], problems: list[str]
) -> Iterator[tuple[Source, ParsedTranscript]]:
    """Yield each source with its parsed transcript; only one transcript is in memory at a time.

    After `MAX_BYTES`, no more are read. A message in `problems` says how many were not read.
    """
    unread_count = 0
    total_bytes = 0
    for source in sources:
        data = None
        if total_bytes < MAX_BYTES:
            data = _read_source(workspace.repo, source)
        if data is None:
            unread_count += 1
            continue
        total_bytes += len(data)
        yield source, _parse(data, source)
    if unread_count:
        problems.append(f"{plural(unread_count, 'transcript')} not read for what people ask again")


def _read_source(repo: Repository, source: Source) -> bytes | None:
    """Return the content of a transcript, its parts joined by line breaks.

    Return None if a part is missing or over `MAX_TRANSCRIPT` bytes, or if the parts before the last
    one have more than `MAX_JOINED_BYTES` together.
    """
    parts: list[bytes] = []
    size = 0
    for file in source.files:
        (content,) = read_files(repo, [file], MAX_TRANSCRIPT)
        if content.data is None or size > MAX_JOINED_BYTES:
            return None
        parts.append(content.data)
        size += len(content.data)
    return b"\n".join(parts)


def _parse(data: bytes, source: Source) -> ParsedTranscript:
    """Return the turns and the commands in a transcript; none if no reader knows its format."""
    turns: list[PersonTurn] = []
    failed: list[FailedRun] = []
    succeeded: dict[str, dict[str, datetime]] = {}
    for session in read_stream(io.BytesIO(data), source.files[0].path):
        turns += _list_turns(session, source.at)
        runs = list_command_runs(session)
        failed += list_failed(runs)
        if forms := list_succeeded(runs):
            succeeded[session.key] = forms
    return ParsedTranscript(tuple(turns), tuple(failed), succeeded)


def _list_turns(session: Session, at: datetime) -> list[PersonTurn]:
    """Return the turns of people in a session.

    A turn without a time gets that of the event before it, the first ones the start of the session
    or `at`. A commit, push or pull request that follows a turn is noted in its `then`.
    """
    turns: list[PersonTurn] = []
    latest = session.started or at
    for event in session.events:
        if event.at != UNKNOWN_TIME:
            latest = event.at
        if event.actor == "human" and event.kind in SPOKEN_KINDS and event.text.strip():
            text = _mask(event.text, MAX_TURN)
            turns.append(PersonTurn(session.key, latest, "", text))
        elif turns and not turns[-1].then:
            turns[-1] = replace(turns[-1], then=_find_moment(event))
    return turns


def _mask(text: str, limit: int) -> str:
    """Return the first `limit` characters of a text, with credentials masked.

    It is masked before it is cut, because no pattern recognises half a credential.
    """
    return redact(text[: MASKING_FACTOR * limit]).text[:limit]


def _find_moment(event: Event) -> str:
    """Return the moment of memory that an event is, such as `before:commit`; "" for others.

    Moments are commits, pushes and new pull requests, run as shell commands.
    """
    if event.kind != "tool_call" or not is_shell(event):
        return ""
    for form in list_forms(read_command(event.text)):
        for length in (2, 1):  # `gh pr create` has two subcommands, `git commit` one
            moment = MOMENT_BY_COMMAND.get((form.program, *form.subcommands[:length]))
            if moment:
                return moment
    return ""


def list_command_runs(session: Session) -> list[CommandRun]:
    """Return the shell commands of a session with their output, credentials masked, in order."""
    runs = []
    for call, result in list_shell_runs(session.events):
        command = _mask(read_command(call.text), MAX_COMMAND)
        output = _mask(result.text, MAX_OUTPUT)
        runs.append(CommandRun(session.key, result.at, command, output, result.ok is not False))
    return runs


# -- whose words count


def _add_author(turns: Iterable[PersonTurn], source: Source) -> Iterator[PersonTurn]:
    """Yield the turns of a transcript with the author of its commit, each with a time."""
    for turn in turns:
        at = source.at if turn.at == UNKNOWN_TIME else turn.at
        yield replace(turn, at=at, person=source.author)


def _select_trusted_turns(workspace: Workspace, turns: Sequence[PersonTurn]) -> list[PersonTurn]:
    """Return the turns of people whom the configuration trusts, the earliest first.

    These are trusted authors, and people who may write to the repository. Long texts that occur
    twice are left out, as a program wrote them. Of copies of a turn, the first with an author is
    kept.
    """
    policy = workspace.config.extraction
    trusted: dict[tuple[str, str, datetime], PersonTurn] = {}
    for turn in _remove_templates(turns):
        tier = classify_trust(_as_event(turn), policy.trusted_authors, policy.bot_authors)
        if tier not in TRUSTED_TIERS:
            continue
        key = turn.session, turn.text, turn.at
        if key not in trusted or not trusted[key].person:
            trusted[key] = turn
    return sorted(trusted.values(), key=lambda turn: turn.at)


def _remove_templates(turns: Sequence[PersonTurn]) -> Iterator[PersonTurn]:
    """Yield the turns without long texts that occur twice word for word: a program wrote them.

    Copies of one turn, which a resumed session has, are no second occurrence: their time is the
    same.
    """
    times_by_text: defaultdict[str, set[datetime]] = defaultdict(set)
    for turn in turns:
        if _is_long(turn.text):
            times_by_text[" ".join(turn.text.split())].add(turn.at)
    for turn in turns:
        if not _is_long(turn.text) or len(times_by_text[" ".join(turn.text.split())]) == 1:
            yield turn


def _is_long(text: str) -> bool:
    return len(text.strip().splitlines()) > MAX_TYPED_LINES


def _as_event(turn: PersonTurn) -> Event:
    """Return a turn as an event, for `classify_trust`."""
    origin = Origin(kind="session", id=turn.session)
    return Event(
        seq=0,
        at=turn.at,
        actor="human",
        kind="text",
        text=turn.text,
        origin=origin,
        author=turn.person,
        session=turn.session,
    )


# -- the cache


def _load_cache(workspace: Workspace) -> ArchiveCache:
    """Return the cache of earlier runs, empty if it is missing, broken or of another version."""
    with suppress(OSError, ValueError, RecursionError, msgspec.DecodeError):
        data = read_regular(_cache_path(workspace), MAX_CACHE)
        cache = msgspec.msgpack.decode(data, type=ArchiveCache)
        if cache.version == CACHE_VERSION:
            return cache
    return ArchiveCache()


def _save_cache(workspace: Workspace, cache: ArchiveCache) -> None:
    """Write the cache; without it the next run parses again."""
    save_if_changed(_cache_path(workspace), msgspec.msgpack.encode(cache))


def _cache_path(workspace: Workspace) -> Path:
    return workspace.repo.common_dir / "memory-ci" / "session-archive"
