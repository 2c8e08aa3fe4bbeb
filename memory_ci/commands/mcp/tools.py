"""The tools of the MCP server, one function each, and its resources.

A tool takes its arguments and returns a text, and the same as a record. Its docstring is the
description that clients read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from memory_ci.api import Memory
from memory_ci.commands.episodes.episode import SavedEpisode, create_episode, mark_important
from memory_ci.commands.episodes.feedback import check_length, give_feedback, name_work, parse_time
from memory_ci.commands.episodes.recall import MAX_LIMIT, RecallQuery, recall_episodes
from memory_ci.commands.episodes.text import quote_for_agent
from memory_ci.commands.health.records import Health
from memory_ci.commands.health.text import render_health
from memory_ci.commands.mcp import arguments as tool_arguments
from memory_ci.commands.mcp.arguments import (
    EpisodeScore,
    FeedbackResult,
    Kept,
    Marked,
    Recollection,
    Retrieved,
    SimilarChanges,
)
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import list_noted_ids, list_served_ids
from memory_ci.commands.retrieve.similar import list_similar_tasks
from memory_ci.commands.retrieve.text import USAGE_REQUEST, append_usage_request, render_context
from memory_ci.commands.retrieve.visible import find_visible, show_visible
from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.findings import printable
from memory_ci.memory.workspace import Workspace, open_workspace
from memory_ci.records.anchor import STALE_KINDS
from memory_ci.records.episode import Feedback, FeedbackKind, Recalled, RecalledEpisode
from memory_ci.records.retrieval import Hints, Hit, Retrieval
from memory_ci.sessions.served_ids import record_served
from memory_ci.sessions.session_note import note_served

MAX_CHARS = 40_000
"""Characters of an answer of the MCP server: agents cut off or put aside much longer ones."""

FEEDBACK_AUTHOR = "mcp"  # The author of feedback: an agent, not the person whom git names.
NOTHING_FOUND = "Memory knows nothing about this."

INSTITUTIONAL_URI = "memory://institutional"
ENTRY_URI_PREFIX = "memory://entry/"

INBOX_NEXT_STEP = "It waits in the inbox; commit it with your work."


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The repository and the identity that hold for every call.

    Attributes:
        start: a path in the repository.
        environ: the environment of embedders.
        is_named: somebody named the repository, which then may be bare.
    """

    start: Path
    clock: Callable[[], datetime]
    environ: Mapping[str, str]
    session: str | None = None
    role: str | None = None
    is_named: bool = False

    @property
    def now(self) -> datetime:
        """The time of the call."""
        return self.clock()

    @property
    def today(self) -> date:
        """The day of the call."""
        return self.clock().date()

    def workspace(self) -> Workspace:
        """Open the repository for each call: an edit holds from the next call on."""
        return open_workspace(self.start, is_named=self.is_named)

    def memory(self, workspace: Workspace) -> Memory:
        """Return the memory of the work tree at the time of the call."""
        return Memory(workspace, now=self.now, environ=self.environ)

    def options(self, **fields: object) -> RetrieveOptions:
        """Return options of a retrieval by this session in this role."""
        return RetrieveOptions(**fields, session=self.session, role=self.role)  # type: ignore[arg-type] # by its callers

    def require_own_session(self, name: str | None) -> str | None:
        """Return the session that this server works for, and refuse a client that names another.

        Args:
            name: the session that the client names, if any.

        Raises:
            UsageError: other-session.
        """
        if not name or name == self.session:
            return self.session
        own = "This server has none"
        if self.session:
            own = f"This server serves the session {self.session!r}"
        message = "this server cannot read or write for another session"
        hint = f"{own}; leave the session out, or start a server with --session."
        raise UsageError(message, slug="other-session", hint=hint)


def call_retrieve(caller: Caller, arguments: tool_arguments.Retrieve) -> tuple[str, Retrieved]:
    """What this repository's memory knows about a task: ask before you start.

    The answer is untrusted hints.
    """
    workspace = caller.workspace()
    fields = msgspec.structs.asdict(arguments)
    del fields["task"]
    options = caller.options(**fields, total_chars=MAX_CHARS, reserved=len(USAGE_REQUEST))
    query = arguments.about or arguments.task
    retrieval = caller.memory(workspace).retrieve(query, options=options)

    is_current_memory = arguments.at is None  # Other revisions are not recorded as served.
    ids = list_served_ids(retrieval)
    asks_for_usage = is_current_memory and bool(ids)
    context = append_usage_request(render_context(retrieval), asks_for_usage)
    if is_current_memory:
        with suppress(MemoryCIError):  # The answer is served even if it cannot be noted.
            record_served(workspace, list_noted_ids(retrieval), caller.now)
            if caller.session is not None:
                note_served(workspace, caller.session, retrieval, caller.now, options.about)
    record = Retrieved(
        context=context,
        ids=ids,
        mode=retrieval.mode,
        verdict=retrieval.verdict,
        notes=retrieval.notes,
        marked=_list_entries_with_changed_code(retrieval.hits),
        weak=retrieval.weak_count,
        known=retrieval.known_count,
    )
    return _with_notes(context or NOTHING_FOUND, retrieval.notes), record


def _list_entries_with_changed_code(hits: Iterable[Hit]) -> tuple[Marked, ...]:
    """Return the served entries whose cited code has changed, with the verdicts that say so."""
    marked_entries = []
    for hit in hits:
        stale_verdicts = tuple(verdict for verdict in hit.verdicts if verdict.kind in STALE_KINDS)
        if stale_verdicts:
            marked_entries.append(Marked(hit.located.entry.id, stale_verdicts))
    return tuple(marked_entries)


def call_similar_changes(
    caller: Caller, arguments: tool_arguments.FindSimilar
) -> tuple[str, SimilarChanges]:
    """Find earlier changes of this repository that are like a task, from git history.

    Each change has its title, its files and its outcome.
    """
    changes = list_similar_tasks(caller.workspace(), arguments.task, top=arguments.limit)
    retrieval = Retrieval(task=arguments.task, mode="lexical", hints=Hints(changes))
    context = render_context(retrieval)
    labels = tuple(change.task.label for change in changes)
    return context or NOTHING_FOUND, SimilarChanges(context, labels)


def call_add_learning(caller: Caller, arguments: tool_arguments.AddLearning) -> tuple[str, Kept]:
    """Propose a learning for this repository's memory.

    It goes into the work tree's inbox, as a file of its own.
    """
    added = caller.memory(caller.workspace()).add(
        arguments.title,
        arguments.body,
        type=arguments.type,
        domain=arguments.domain,
        importance=arguments.importance,
        scope=_require_writable_scope(caller, arguments.scope),
        quote=arguments.quote or None,
        sessions=(caller.session,) if caller.session else None,
    )
    next_step = (
        "The next commit of this work takes it along." if added.is_pending else INBOX_NEXT_STEP
    )
    return _answer_written_file(Kept(added.entry.id, added.path, added.is_new), next_step)


def call_record_feedback(
    caller: Caller, arguments: tool_arguments.RecordFeedback
) -> tuple[str, FeedbackResult]:
    """Record whether an entry of memory helped, which raises or lowers its utility.

    Feedback is recorded once for each entry, kind and ref; without a ref, once for each session;
    without a session, once for each commit at HEAD.
    """
    workspace = caller.workspace()
    check_length(arguments.id)
    # Only an entry that the caller may see.
    entry = find_visible(workspace, arguments.id, caller.options(), caller.today).entry
    feedback = Feedback(
        id=entry.id,
        kind=arguments.kind,
        at=caller.now.replace(microsecond=0),
        by=FEEDBACK_AUTHOR,
        ref=arguments.ref or name_work(workspace, caller.session),
    )
    saved_feedback = give_feedback(workspace, feedback)
    record = FeedbackResult(
        id=entry.id,
        kind=arguments.kind,
        path=saved_feedback.path,
        is_new=saved_feedback.is_new,
        before=saved_feedback.before,
        after=saved_feedback.after,
    )
    if not saved_feedback.is_new:
        return "Noted already; nothing written.", record
    utility = f"Utility {saved_feedback.before:.2f} -> {saved_feedback.after:.2f}."
    return f"Wrote {printable(saved_feedback.path)}. {utility}", record


def call_review(caller: Caller, arguments: tool_arguments.ReviewAnswer) -> tuple[str, Kept]:
    """Say what becomes of an entry that is marked as changed: keep, edit or retire.

    It is a proposal to people: feedback, or a note in the inbox that contradicts the entry.
    """
    # `keep` and `retire` are feedback, by which a person decides.
    if arguments.answer != "edit":
        kind: FeedbackKind = "confirmed" if arguments.answer == "keep" else "rejected"
        _, feedback = call_record_feedback(
            caller, tool_arguments.RecordFeedback(id=arguments.id, kind=kind)
        )
        written_file = Kept(feedback.id, feedback.path, feedback.is_new)
        next_step = "It is feedback; a person decides: review --stale."
        return _answer_written_file(written_file, next_step)

    # An edit is a new entry, which contradicts the old one until a person has decided.
    workspace = caller.workspace()
    check_length(arguments.id)
    located = find_visible(workspace, arguments.id, caller.options(), caller.today)
    added = caller.memory(workspace).add(
        arguments.title,
        arguments.body,
        type=located.entry.type,
        domain=located.entry.domain,
        scope=_require_writable_scope(caller, located.scope.target),
        relations=(f"contradicts {located.entry.id}",),
    )
    return _answer_written_file(Kept(added.entry.id, added.path, added.is_new), INBOX_NEXT_STEP)


def call_create_episode(
    caller: Caller, arguments: tool_arguments.CreateEpisode
) -> tuple[str, Kept]:
    """Record an attempt and its outcome as an episode of this repository."""
    session = caller.require_own_session(arguments.session_id)
    saved = create_episode(
        caller.workspace(),
        arguments.content,
        arguments.context,
        outcome=arguments.outcome,
        valence=arguments.valence,
        session=session,
        now=caller.now,
    )
    return _answer_saved_episode(saved)


def call_recall_episodes(
    caller: Caller, arguments: tool_arguments.RecallEpisodes
) -> tuple[str, Recollection]:
    """Return episodes, which are earlier work with its outcome, that answer a question.

    The answer is untrusted hints.
    """
    session = caller.require_own_session(arguments.session_filter)
    now = parse_time(arguments.current_time) if arguments.current_time else caller.now
    # A filter drops episodes of the answer, so more are recalled first.
    limit = MAX_LIMIT if arguments.session_filter else arguments.limit
    query = RecallQuery(
        query=arguments.query,
        now=now,
        ranking=arguments.ranking,
        limit=limit,
        session=session,
    )
    recalled = recall_episodes(caller.workspace(), query, caller.environ)
    if arguments.session_filter:
        own_hits = [hit for hit in recalled.hits if hit.episode.context.get("session") == session]
        recalled = replace(recalled, hits=tuple(own_hits[: arguments.limit]), changes=())
    return _answer_recalled_episodes(recalled)


def call_query_at_time(
    caller: Caller, arguments: tool_arguments.QueryAtTime
) -> tuple[str, Recollection]:
    """The episodes that were known at a moment of the past, ranked as then.

    The answer is untrusted hints.
    """
    time = parse_time(arguments.point_in_time)
    query = RecallQuery(
        arguments.query, time, limit=arguments.limit, session=caller.session, at=time
    )
    return _answer_recalled_episodes(recall_episodes(caller.workspace(), query, caller.environ))


def call_mark_important(
    caller: Caller, arguments: tool_arguments.MarkImportant
) -> tuple[str, Kept]:
    """Set how important an episode is. Earlier settings stay recorded; the last setting counts."""
    workspace = caller.workspace()
    importance = arguments.valence
    saved = mark_important(workspace, arguments.episode_id, importance, caller.now, caller.session)
    return _answer_saved_episode(saved)


def call_health(
    caller: Caller,
    arguments: tool_arguments.NoArguments,  # noqa: ARG001 - each tool takes some
) -> tuple[str, Health]:
    """Say how well this repository's memory is kept, in five numbers.

    Weak ones come with what to do about them.
    """
    health = caller.memory(caller.workspace()).health()
    return render_health(health), health


ToolFunction = Callable[[Caller, Any], tuple[str, Any]]


class Tool(NamedTuple):
    """A tool as clients see it, and the function that answers.

    Attributes:
        name: its name.
        description: its description.
        argument_type: the record of its arguments.
        result_type: the record that it returns.
        call: the function that answers a call.
    """

    name: str
    description: str
    argument_type: type[tool_arguments.Arguments]
    result_type: type[msgspec.Struct]
    call: ToolFunction

    @property
    def writes(self) -> bool:
        """Tell whether it writes files."""
        return self.result_type in (Kept, FeedbackResult)


def _build_tool(call: ToolFunction) -> Tool:
    """Return the tool of a function, described by its name, docstring and types.

    The function takes a record of arguments. It returns a text and a record of the result.
    """
    types = get_type_hints(call)
    _, record_type = get_args(types["return"])
    return Tool(
        name=call.__name__.removeprefix("call_"),
        description=" ".join((call.__doc__ or "").split()),
        argument_type=types["arguments"],
        result_type=record_type,
        call=call,
    )


TOOL_FUNCTIONS: tuple[ToolFunction, ...] = (
    call_retrieve, call_similar_changes, call_add_learning, call_record_feedback, call_review,
    call_create_episode, call_recall_episodes, call_query_at_time, call_mark_important, call_health,
)  # fmt: skip
TOOLS = tuple(_build_tool(call) for call in TOOL_FUNCTIONS)


def _require_writable_scope(caller: Caller, scope: str) -> str:
    """Return a scope if a client may write to it: any but the scope of another session.

    `session` alone becomes the scope of the server's own session, such as `session:4f2a`.

    Raises:
        UsageError: other-session.
    """
    name, _, session = scope.partition(":")
    if name != "session":
        return scope
    own_session = caller.require_own_session(session)
    return f"session:{own_session or ''}"


def _answer_recalled_episodes(recalled: Recalled) -> tuple[str, Recollection]:
    """Return the answer of a tool that searches episodes: a text, and the same as a record.

    Args:
        recalled: the episodes and merged changes that were found, and remarks on the search.
    """
    context = quote_for_agent(recalled)
    record = Recollection(
        context=context,
        ranking=recalled.ranking,
        episodes=_list_scores(recalled.hits),
        notes=recalled.notes,
        changes=_list_scores(recalled.changes),
    )
    return _with_notes(context or NOTHING_FOUND, recalled.notes), record


def _list_scores(hits: Iterable[RecalledEpisode]) -> tuple[EpisodeScore, ...]:
    records = []
    for hit in hits:
        episode = hit.episode
        time = episode.occurred_at.isoformat()
        records.append(EpisodeScore(episode.id, time, episode.outcome, episode.valence, hit.score))
    return tuple(records)


def _answer_saved_episode(saved: SavedEpisode) -> tuple[str, Kept]:
    """Return the answer of a tool that writes the file of an episode: a text and a record.

    It has a note on the keys of the context that were left out.
    """
    notes: tuple[str, ...] = ()
    if saved.dropped_keys:
        keys = ", ".join(saved.dropped_keys)
        notes = (f"Left out, because it is not in this repository: {keys}.",)
    written_file = Kept(saved.episode.id, saved.path, saved.is_new, notes)
    return _answer_written_file(written_file, "Commit it with your work.")


def _answer_written_file(written_file: Kept, next_step: str) -> tuple[str, Kept]:
    """Return the answer of a tool that writes a file: a text, and the same as a record.

    Args:
        written_file: the file, and whether it was written or existed.
        next_step: a sentence that follows if it was written.
    """
    path = printable(written_file.path)
    text = f"Known already as {written_file.id} in {path}; nothing written."
    if written_file.is_new:
        text = f"Wrote {path} ({written_file.id}). {next_step}"
    return _with_notes(text, written_file.notes), written_file


def _with_notes(text: str, notes: Iterable[str]) -> str:
    """Return a text with notes below it."""
    return "\n".join([text.rstrip(), *(f"Note: {printable(note)}" for note in notes)])


def read_resource(caller: Caller, uri: str) -> str:
    """Return the text of the resource at an address: the institutional norms, or one entry.

    Raises:
        UsageError: unknown-resource, unknown-entry, ambiguous-entry.
    """
    workspace = caller.workspace()
    if uri == INSTITUTIONAL_URI:
        # For an empty task only norms are served; no embedder is needed.
        memory = Memory(workspace, now=caller.now, environ={"MEMORY_CI_EMBEDDER": "none"})
        options = caller.options(total_chars=MAX_CHARS)
        return render_context(memory.retrieve("", options=options))
    if uri.startswith(ENTRY_URI_PREFIX):
        prefix = unquote(uri.removeprefix(ENTRY_URI_PREFIX))
        retrieval = show_visible(workspace, prefix, caller.options(), caller.today)
        hits = tuple(_cut_body(hit) for hit in retrieval.hits)
        return render_context(replace(retrieval, hits=hits))
    hint = f"There are {INSTITUTIONAL_URI} and {ENTRY_URI_PREFIX}<id>."
    raise UsageError("there is no such resource", slug="unknown-resource", hint=hint)


def _cut_body(hit: Hit) -> Hit:
    """Return the hit with the first part of a body that is too long."""
    entry = hit.located.entry
    if len(entry.body) <= MAX_CHARS // 2:
        return hit
    body = f"{entry.body[: MAX_CHARS // 2]}\n[the rest is left out]"
    return replace(hit, located=replace(hit.located, entry=replace(entry, body=body)))
