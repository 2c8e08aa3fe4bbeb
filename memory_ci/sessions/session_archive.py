"""What people typed, and which commands failed, in all sessions that a repository has.

Other readers join sessions with merged changes, each once. Whoever counts repetitions needs every
session, joined or not: captured ones, Entire's checkpoints, git-ai's notes, transcripts that were
ever committed, and prompts in commit messages. A transcript is parsed once: what was found in it
is cached in the git directory under the id of its blob.
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
from memory_ci.evidence.trust import AGENTS, classify_trust, is_author
from memory_ci.files import read_regular, save_if_changed
from memory_ci.gitrepo.blobs import Tree, TreeFile, read_files
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
from memory_ci.sessions.session_join import COMMITTED, ENTIRE, MAX_TRANSCRIPT, NOTES
from memory_ci.sources.commits import author_of
from memory_ci.sources.entire import list_metadata
from memory_ci.sources.transcripts.prose import typed_words
from memory_ci.sources.transcripts.registry import read_stream
from memory_ci.sources.transcripts.repetition import MAX_TYPED_LINES
from memory_ci.sources.transcripts.shell import is_shell, list_shell_runs, read_command
from memory_ci.text import plural

CACHE_VERSION = 6
MAX_CACHE = 500_000_000  # Bytes of the cache that are read.
MAX_BYTES = 1_000_000_000  # Bytes of transcripts that one run parses.
MAX_PARTS = 4 * MAX_TRANSCRIPT  # Bytes of the parts of one long transcript.
MAX_TURN = 20_000  # Characters of a turn that are kept.
MAX_OUTPUT = 2_000  # Characters kept of a command's output.
MASKED = 3  # How many times the kept characters are masked: a mask is shorter than a secret.

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
PROMPTED = ("--extended-regexp", r"--grep=^\[Prompt[^]]*\]")

MOMENTS: Mapping[tuple[str, ...], str] = {
    ("git", "commit"): "before:commit",
    ("git", "push"): "before:push",
    ("gh", "pr", "create"): "before:pull-request",
    ("glab", "mr", "create"): "before:pull-request",
}
"""Moments by the beginning of a command's form."""

SPOKEN = ("text", "rejection", "intervention")
"""Kinds of events that hold words of a person."""


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
    """Return what all sessions of a repository hold.

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
    scan = _scan_history(repo, base, cache.scan)
    stored = list_stored(repo) if captured is None else captured
    sources = [*_list_captured(stored), *_list_in_refs(repo), *_list_committed(scan)]

    new_sources = [source for source in sources if source.key not in cache.parsed]
    parsed = {
        source.key: cache.parsed[source.key] for source in sources if source.key in cache.parsed
    }
    problems: list[str] = []
    transcripts = _parse_all(workspace, new_sources, problems)
    for source, transcript in progress.count("Reading sessions", transcripts, len(new_sources)):
        parsed[source.key] = transcript
    if parsed.keys() != cache.parsed.keys() or scan != cache.scan:
        _save_cache(workspace, replace(cache, parsed=parsed, scan=scan))

    # A message that an agent wrote proves no words of a person.
    prompts = [turn for turn in scan.prompts if not is_author(turn.person, AGENTS)]
    turns = [*prompts, *cache.reviews]
    for source in sources:
        if source.key in parsed:
            turns += _attribute(parsed[source.key].turns, source)
    all_parsed = list(parsed.values())
    return SessionArchive(
        turns=tuple(_keep_trusted(workspace, turns)),
        failed=tuple(_each_once(all_parsed)),
        succeeded=tuple(forms for item in all_parsed for forms in item.succeeded.values()),
        problems=tuple(problems),
    )


def add_reviews(
    workspace: Workspace, archive: SessionArchive, reviews: Iterable[PersonTurn]
) -> SessionArchive:
    """Return an archive with what members wrote in reviews, which the next runs remember.

    A clone that has forgotten them counts only the reviews that its own runs have read.

    Args:
        workspace: the repository.
        archive: the sessions.
        reviews: the texts of reviews; the request is their session.
    """
    cache = _load_cache(workspace)
    cached_reviews = frozenset(cache.reviews)
    new = [turn for turn in dict.fromkeys(reviews) if turn not in cached_reviews]
    if not new:
        return archive
    _save_cache(workspace, replace(cache, reviews=(*cache.reviews, *new)))
    turns = _keep_trusted(workspace, [*archive.turns, *new])
    return replace(archive, turns=tuple(turns))


# -- where transcripts are


def _list_captured(captured: Iterable[StoredSession]) -> Iterator[Source]:
    """Yield the sessions that were captured into refs, which have no author."""
    for stored in captured:
        file = TreeFile(stored.ref, f"{stored.oid}:{DIGEST}")
        yield Source((file,), "", stored.at)


def _list_in_refs(repo: Repository) -> Iterator[Source]:
    """Yield the transcripts that tools keep in branches and notes of their own."""
    refs = [f"{ref}^{{commit}}" for ref in (*ENTIRE, *NOTES)]
    local, remote, notes, remote_notes = find_objects(repo, refs)
    if checkpoints := local or remote:
        yield from _list_checkpoints(Tree(repo, checkpoints))
    if noted := notes or remote_notes:
        for file in Tree(repo, noted).files.values():
            yield Source((file,), "", UNKNOWN_TIME)


def _list_committed(scan: HistoryScan) -> Iterator[Source]:
    for transcript in scan.committed:
        file = TreeFile(transcript.path, transcript.oid)
        yield Source((file,), transcript.author, transcript.at)


def _list_checkpoints(tree: Tree) -> Iterator[Source]:
    """Yield the transcripts of Entire's checkpoints, with who committed each first."""
    brought: dict[str, Commit] = {}
    # The log is newest first, so that the first commit of a checkpoint comes last.
    for commit, _ in read_log(tree.repo, *FILE_OPTIONS, "--end-of-options", tree.oid, "--"):
        for checkpoint in list_metadata(file.path for file in commit.files):
            brought[checkpoint] = commit
    for path, file in tree.files.items():
        match = TRANSCRIPT.fullmatch(path)
        if match is None or not path.endswith("full.jsonl"):
            continue
        first = brought.get(match[1] + match[2])
        author = author_of(first) if first is not None else ""
        at = first.committed_at if first is not None else UNKNOWN_TIME
        yield Source((file, *_list_parts(tree, path)), author, at)


def _list_parts(tree: Tree, path: str) -> list[TreeFile]:
    """Return the further parts of a long transcript."""
    parts: list[TreeFile] = []
    while part := tree.files.get(f"{path}.{len(parts) + 1:03d}"):
        parts.append(part)
    return parts


def _scan_history(repo: Repository, base: str, earlier: HistoryScan) -> HistoryScan:
    """Scan the history up to a commit; only commits after an earlier scan are read.

    What commits held that history has lost since is kept: somebody typed it.
    """
    until = find_commit(repo, earlier.until) if earlier.until else None
    if until == find_commit(repo, base):
        return earlier
    revisions = [base, f"^{until}"] if until else [base]
    committed: dict[str, CommittedTranscript] = {}
    for transcript in _find_committed(repo, revisions):
        committed[transcript.path] = transcript
    for transcript in earlier.committed:
        committed.setdefault(transcript.path, transcript)
    prompts = (*_find_prompts(repo, revisions), *earlier.prompts)
    return HistoryScan(find_commit(repo, base) or "", tuple(committed.values()), prompts)


def _find_committed(repo: Repository, revisions: Sequence[str]) -> Iterator[CommittedTranscript]:
    """Yield the newest version of each transcript that commits added or changed."""
    seen: set[str] = set()
    log = read_log(repo, *FILE_OPTIONS, "--end-of-options", *revisions, "--", *TRANSCRIPT_PATHS)
    for commit, oids in log:
        for file, oid in zip(commit.files, oids, strict=True):
            if file.old_path is not None:
                seen.add(file.old_path)  # the newer name of the transcript was listed already
            if file.path in seen or not COMMITTED.fullmatch(file.path) or not oid.strip("0"):
                continue
            seen.add(file.path)
            yield CommittedTranscript(file.path, oid, author_of(commit), commit.authored_at)


def _find_prompts(repo: Repository, revisions: Sequence[str]) -> Iterator[PersonTurn]:
    """Yield the prompts that commit messages repeat."""
    for commit, _ in read_log(repo, *PROMPTED, "--end-of-options", *revisions, "--"):
        for match in PROMPT.finditer(commit.message):
            text = _mask(typed_words(match["text"].strip()), MAX_TURN)
            if text:
                session = f"commit:{commit.sha[:12]}"
                yield PersonTurn(session, commit.authored_at, author_of(commit), text)


# -- what a transcript holds


def _parse_all(
    workspace: Workspace, sources: Sequence[Source], problems: list[str]
) -> Iterator[tuple[Source, ParsedTranscript]]:
    """Yield each transcript parsed; one is in memory at a time."""
    unread = 0
    total = 0
    for source in sources:
        data = _read_source(workspace.repo, source) if total < MAX_BYTES else None
        if data is None:
            unread += 1
            continue
        total += len(data)
        yield source, _parse(data, source)
    if unread:
        problems.append(f"{plural(unread, 'transcript')} not read for what people ask again")


def _read_source(repo: Repository, source: Source) -> bytes | None:
    """Return a transcript, None if it is missing or too large."""
    parts: list[bytes] = []
    for file in source.files:
        (content,) = read_files(repo, [file], MAX_TRANSCRIPT)
        if content.data is None or sum(map(len, parts)) > MAX_PARTS:
            return None
        parts.append(content.data)
    return b"\n".join(parts)


def _parse(data: bytes, source: Source) -> ParsedTranscript:
    """Parse a transcript; return an empty result if no reader recognises it."""
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
    """Return the turns of people, each with a time: its own, or that of the turn before it."""
    turns: list[PersonTurn] = []
    latest = session.started or at
    for event in session.events:
        if event.at != UNKNOWN_TIME:
            latest = event.at
        if event.actor == "human" and event.kind in SPOKEN and event.text.strip():
            text = _mask(event.text, MAX_TURN)
            turns.append(PersonTurn(session.key, latest, "", text))
        elif turns and not turns[-1].then:
            turns[-1] = replace(turns[-1], then=_find_moment(event))
    return turns


def _mask(text: str, limit: int) -> str:
    """Return the beginning of a text without secrets.

    It is masked before it is cut, for no pattern recognises half a credential.
    """
    return redact(text[: MASKED * limit]).text[:limit]


def _find_moment(event: Event) -> str:
    """Return the moment of a commit, a push or a pull request that a tool made, else ""."""
    if event.kind != "tool_call" or not is_shell(event):
        return ""
    for form in list_forms(read_command(event.text)):
        moment = MOMENTS.get((form.program, *form.subcommands[:2]))
        moment = moment or MOMENTS.get((form.program, *form.subcommands[:1]))
        if moment:
            return moment
    return ""


def list_command_runs(session: Session) -> list[CommandRun]:
    """Return the shell commands of a session with their output, in its order."""
    runs = []
    for call, result in list_shell_runs(session.events):
        command = _mask(read_command(call.text), MAX_COMMAND)
        output = _mask(result.text, MAX_OUTPUT)
        runs.append(CommandRun(session.key, result.at, command, output, result.ok is not False))
    return runs


# -- whose words count


def _attribute(turns: Iterable[PersonTurn], source: Source) -> Iterator[PersonTurn]:
    for turn in turns:
        at = source.at if turn.at == UNKNOWN_TIME else turn.at
        yield replace(turn, at=at, person=source.author)


def _keep_trusted(workspace: Workspace, turns: Sequence[PersonTurn]) -> list[PersonTurn]:
    """Return the turns of trusted people, copies once, the earliest first."""
    policy = workspace.config.extraction
    trusted: dict[tuple[str, str, datetime], PersonTurn] = {}
    for turn in _without_templates(turns):
        event = _as_event(turn)
        if classify_trust(event, policy.trusted_authors, policy.bot_authors) in ("T0", "T1"):
            key = turn.session, turn.text, turn.at
            if key not in trusted or not trusted[key].person:
                trusted[key] = turn
    return sorted(trusted.values(), key=lambda turn: turn.at)


def _without_templates(turns: Sequence[PersonTurn]) -> Iterator[PersonTurn]:
    """Yield the turns, but for long texts that come twice word for word: they are a program's.

    Copies of one turn, as a resumed session has them, have the same time.
    """
    times: defaultdict[str, set[datetime]] = defaultdict(set)
    for turn in turns:
        if _is_long(turn.text):
            times[" ".join(turn.text.split())].add(turn.at)
    for turn in turns:
        if not _is_long(turn.text) or len(times[" ".join(turn.text.split())]) == 1:
            yield turn


def _is_long(text: str) -> bool:
    return len(text.strip().splitlines()) > MAX_TYPED_LINES


def _as_event(turn: PersonTurn) -> Event:
    """Return a turn as the event that rules of trust judge."""
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


def _each_once(transcripts: Iterable[ParsedTranscript]) -> dict[FailedRun, None]:
    """Return the failed commands, copies once."""
    return dict.fromkeys(run for transcript in transcripts for run in transcript.failed)


# -- the cache


def _load_cache(workspace: Workspace) -> ArchiveCache:
    """Return what earlier runs read; nothing if it is missing, broken or of another version."""
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
