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
from memory_ci.commands.episodes.episode import Noted, create_episode, mark_important
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

BY = "mcp"  # The author of feedback: an agent, not the person whom git names.
NOTHING = "Memory knows nothing about this."

INSTITUTIONAL = "memory://institutional"
ENTRY = "memory://entry/"

WAITING = "It waits in the inbox; commit it with your work."


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

    def own_session(self, name: str | None) -> str | None:
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

    is_noted = arguments.at is None  # Memory of another revision is not noted as served.
    ids = list_served_ids(retrieval)
    context = append_usage_request(render_context(retrieval), is_noted and bool(ids))
    if is_noted:
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
        marked=_list_marked(retrieval.hits),
        weak=retrieval.weak,
        known=retrieval.known,
    )
    return _with_notes(context or NOTHING, retrieval.notes), record


def _list_marked(hits: Iterable[Hit]) -> tuple[Marked, ...]:
    """Return the served entries whose cited code has changed, with the verdicts that say so."""
    marked = []
    for hit in hits:
        verdicts = tuple(verdict for verdict in hit.verdicts if verdict.kind in STALE_KINDS)
        if verdicts:
            marked.append(Marked(hit.located.entry.id, verdicts))
    return tuple(marked)


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
    return context or NOTHING, SimilarChanges(context, labels)


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
        scope=_check_scope(caller, arguments.scope),
        quote=arguments.quote or None,
        sessions=(caller.session,) if caller.session else None,
    )
    next_step = "The next commit of this work takes it along." if added.is_pending else WAITING
    return _report(Kept(added.entry.id, added.path, added.is_new), next_step)


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
        by=BY,
        ref=arguments.ref or name_work(workspace, caller.session),
    )
    noted = give_feedback(workspace, feedback)
    record = FeedbackResult(
        id=entry.id,
        kind=arguments.kind,
        path=noted.path,
        is_new=noted.is_new,
        before=noted.before,
        after=noted.after,
    )
    if not noted.is_new:
        return "Noted already; nothing written.", record
    utility = f"Utility {noted.before:.2f} -> {noted.after:.2f}."
    return f"Wrote {printable(noted.path)}. {utility}", record


def call_review(caller: Caller, arguments: tool_arguments.ReviewAnswer) -> tuple[str, Kept]:
    """Say what becomes of an entry that is marked as changed: keep, edit or retire.

    It is a proposal to people: feedback, or a note in the inbox that contradicts the entry.
    """
    if arguments.answer != "edit":
        kind: FeedbackKind = "confirmed" if arguments.answer == "keep" else "rejected"
        _, feedback = call_record_feedback(
            caller, tool_arguments.RecordFeedback(id=arguments.id, kind=kind)
        )
        kept = Kept(feedback.id, feedback.path, feedback.is_new)
        return _report(kept, "It is feedback; a person decides: review --stale.")

    workspace = caller.workspace()
    check_length(arguments.id)
    located = find_visible(workspace, arguments.id, caller.options(), caller.today)
    added = caller.memory(workspace).add(
        arguments.title,
        arguments.body,
        type=located.entry.type,
        domain=located.entry.domain,
        scope=_check_scope(caller, located.scope.target),
        relations=(f"contradicts {located.entry.id}",),
    )
    return _report(Kept(added.entry.id, added.path, added.is_new), WAITING)


def call_create_episode(
    caller: Caller, arguments: tool_arguments.CreateEpisode
) -> tuple[str, Kept]:
    """Record an attempt and its outcome as an episode of this repository."""
    session = caller.own_session(arguments.session_id)
    noted = create_episode(
        caller.workspace(),
        arguments.content,
        arguments.context,
        outcome=arguments.outcome,
        valence=arguments.valence,
        session=session,
        now=caller.now,
    )
    return _report_noted(noted)


def call_recall_episodes(
    caller: Caller, arguments: tool_arguments.RecallEpisodes
) -> tuple[str, Recollection]:
    """Return episodes, which are earlier work with its outcome, that answer a question.

    The answer is untrusted hints.
    """
    session = caller.own_session(arguments.session_filter)
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
        own = [hit for hit in recalled.hits if hit.episode.context.get("session") == session]
        recalled = replace(recalled, hits=tuple(own[: arguments.limit]), changes=())
    return _report_recalled(recalled)


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
    return _report_recalled(recall_episodes(caller.workspace(), query, caller.environ))


def call_mark_important(
    caller: Caller, arguments: tool_arguments.MarkImportant
) -> tuple[str, Kept]:
    """Set how important an episode is. Earlier settings stay recorded; the last setting counts."""
    workspace = caller.workspace()
    noted = mark_important(
        workspace, arguments.episode_id, arguments.valence, caller.now, caller.session
    )
    return _report_noted(noted)


def call_health(
    caller: Caller,
    arguments: tool_arguments.NoArguments,  # noqa: ARG001 - each tool takes some
) -> tuple[str, Health]:
    """Say how well this repository's memory is kept, in five numbers.

    Weak ones come with what to do about them.
    """
    health = caller.memory(caller.workspace()).health()
    return render_health(health), health


Call = Callable[[Caller, Any], tuple[str, Any]]


class Tool(NamedTuple):
    """A tool as clients see it, and the function that answers.

    Attributes:
        takes: the record of its arguments.
        gives: the record that it returns.
    """

    name: str
    description: str
    takes: type[tool_arguments.Arguments]
    gives: type[msgspec.Struct]
    call: Call

    @property
    def writes(self) -> bool:
        """Tell whether it writes files."""
        return self.gives in (Kept, FeedbackResult)


def _as_tool(call: Call) -> Tool:
    """Return the tool of a function: its name, docstring and types become the tool's description.

    The function returns a text and a record; `gives` is the type of the record.
    """
    types = get_type_hints(call)
    _, record_type = get_args(types["return"])
    return Tool(
        name=call.__name__.removeprefix("call_"),
        description=" ".join((call.__doc__ or "").split()),
        takes=types["arguments"],
        gives=record_type,
        call=call,
    )


CALLS: tuple[Call, ...] = (
    call_retrieve, call_similar_changes, call_add_learning, call_record_feedback, call_review,
    call_create_episode, call_recall_episodes, call_query_at_time, call_mark_important, call_health,
)  # fmt: skip
TOOLS = tuple(_as_tool(call) for call in CALLS)


def _check_scope(caller: Caller, scope: str) -> str:
    """Return the scope that a client may write to: any but that of another session.

    `session` alone is the scope of the server's own session.

    Raises:
        UsageError: other-session.
    """
    name, _, session = scope.partition(":")
    if name != "session":
        return scope
    caller.own_session(session)
    return f"session:{caller.session or ''}"


def _report_recalled(recalled: Recalled) -> tuple[str, Recollection]:
    """Return the answer on recalled episodes: a text, and the same as a record."""
    context = quote_for_agent(recalled)
    record = Recollection(
        context=context,
        ranking=recalled.ranking,
        episodes=_list_scores(recalled.hits),
        notes=recalled.notes,
        changes=_list_scores(recalled.changes),
    )
    return _with_notes(context or NOTHING, recalled.notes), record


def _list_scores(hits: Iterable[RecalledEpisode]) -> tuple[EpisodeScore, ...]:
    records = []
    for hit in hits:
        episode = hit.episode
        time = episode.occurred_at.isoformat()
        records.append(EpisodeScore(episode.id, time, episode.outcome, episode.valence, hit.score))
    return tuple(records)


def _report_noted(noted: Noted) -> tuple[str, Kept]:
    """Return the answer on an episode that was written, with a note on keys that were left out."""
    notes: tuple[str, ...] = ()
    if noted.left_out:
        keys = ", ".join(noted.left_out)
        notes = (f"Left out, because it is not in this repository: {keys}.",)
    kept = Kept(noted.episode.id, noted.path, noted.is_new, notes)
    return _report(kept, "Commit it with your work.")


def _report(kept: Kept, next_step: str) -> tuple[str, Kept]:
    """Return the answer on a file: that it was written and what comes next, or that it existed."""
    path = printable(kept.path)
    text = f"Known already as {kept.id} in {path}; nothing written."
    if kept.is_new:
        text = f"Wrote {path} ({kept.id}). {next_step}"
    return _with_notes(text, kept.notes), kept


def _with_notes(text: str, notes: Iterable[str]) -> str:
    """Return a text with notes below it."""
    return "\n".join([text.rstrip(), *(f"Note: {printable(note)}" for note in notes)])


def read_resource(caller: Caller, uri: str) -> str:
    """Return the text of the resource at an address: the institutional norms, or one entry.

    Raises:
        UsageError: unknown-resource, unknown-entry, ambiguous-entry.
    """
    workspace = caller.workspace()
    if uri == INSTITUTIONAL:
        # For an empty task only norms are served; no embedder is needed.
        memory = Memory(workspace, now=caller.now, environ={"MEMORY_CI_EMBEDDER": "none"})
        options = caller.options(total_chars=MAX_CHARS)
        return render_context(memory.retrieve("", options=options))
    if uri.startswith(ENTRY):
        prefix = unquote(uri.removeprefix(ENTRY))
        retrieval = show_visible(workspace, prefix, caller.options(), caller.today)
        hits = tuple(_cut_body(hit) for hit in retrieval.hits)
        return render_context(replace(retrieval, hits=hits))
    hint = f"There are {INSTITUTIONAL} and {ENTRY}<id>."
    raise UsageError("there is no such resource", slug="unknown-resource", hint=hint)


def _cut_body(hit: Hit) -> Hit:
    """Return the hit with the first part of a body that is too long."""
    entry = hit.located.entry
    if len(entry.body) <= MAX_CHARS // 2:
        return hit
    body = f"{entry.body[: MAX_CHARS // 2]}\n[the rest is left out]"
    return replace(hit, located=replace(hit.located, entry=replace(entry, body=body)))
