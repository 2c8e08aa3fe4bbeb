"""The tools: one function each, from its arguments to (a text, the same as a record); and the resources."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from memory_ci.commands.add.add import add_entry, draft_entry, quote_person, split_text
from memory_ci.commands.episodes.episode import Noted, create_episode, mark_important
from memory_ci.commands.episodes.feedback import check_length, give_feedback, name_work, parse_time
from memory_ci.commands.episodes.recall import MAX_LIMIT, RecallQuery, recall_episodes
from memory_ci.commands.episodes.text import render_recall
from memory_ci.commands.health.health import measure_health
from memory_ci.commands.health.records import Health
from memory_ci.commands.health.text import render_health
from memory_ci.commands.mcp import arguments
from memory_ci.commands.mcp.arguments import (
    FeedbackResult,
    Kept,
    Marked,
    Recollection,
    Retrieved,
    SimilarChanges,
    Told,
)
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import injected_ids, noted_ids, retrieve
from memory_ci.commands.retrieve.similar import similar_tasks
from memory_ci.commands.retrieve.text import ASK, render_asking, render_context
from memory_ci.commands.retrieve.visible import find_visible, show_visible
from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.findings import printable
from memory_ci.memory.workspace import Workspace, open_workspace
from memory_ci.records.anchor import MARKED
from memory_ci.records.entry import NEW_IMPORTANCE
from memory_ci.records.episode import Feedback, FeedbackKind, Recalled, RecalledEpisode
from memory_ci.records.retrieval import Hints, Hit, Retrieval
from memory_ci.sessions.active_session import find_sessions
from memory_ci.sessions.served_ids import record_injected
from memory_ci.sessions.session_note import note_given

MAX_CHARS = 40_000  # Characters of an answer: agents cut off or put aside what is much longer.
BY = "mcp"  # Who gave feedback: an agent, not the person whom git names.
NOTHING = "Memory knows nothing about this."

INSTITUTIONAL = "memory://institutional"
ENTRY = "memory://entry/"

WAITING = "It waits in the inbox; commit it with your work."


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The repository, the session and the role that hold for every call; a clock, and the environment of embedders."""

    start: Path
    clock: Callable[[], datetime]
    environ: Mapping[str, str]
    session: str | None = None
    role: str | None = None
    is_named: bool = False  # whether somebody named the repository, which then may be bare

    @property
    def now(self) -> datetime:
        return self.clock()

    @property
    def today(self) -> date:
        return self.clock().date()

    def workspace(self) -> Workspace:
        """Opened for each call: what somebody edits holds from the next call on."""
        return open_workspace(self.start, is_named=self.is_named)

    def options(self, **asked: object) -> RetrieveOptions:
        """What is asked of entries, by this session in this role."""
        return RetrieveOptions(**asked, session=self.session, role=self.role)  # type: ignore[arg-type] # by its callers

    def own_session(self, named: str | None) -> str | None:
        """The server's own session, which a client may name and may not change. Raises UsageError (other-session)."""
        if named and named != self.session:
            mine = (
                f"This server speaks for the session {self.session!r}"
                if self.session
                else "This server has none"
            )
            hint = f"{mine}; leave the session out, or start a server with --session."
            raise UsageError(
                "another session cannot be asked or written for", slug="other-session", hint=hint
            )
        return self.session


def call_retrieve(caller: Caller, asked: arguments.Retrieve) -> tuple[str, Retrieved]:
    """What this repository's memory knows about a task: ask before you start. The answer is untrusted hints."""
    workspace = caller.workspace()
    fields = {
        name: value for name, value in msgspec.structs.asdict(asked).items() if name != "task"
    }
    options = caller.options(**fields, total_chars=MAX_CHARS, reserved=len(ASK))
    answer = retrieve(workspace, asked.about or asked.task, options, caller.today, caller.environ)
    is_noted = asked.at is None  # the work at hand is given memory as it is now
    ids = injected_ids(answer)
    context = render_asking(render_context(answer), is_noted and bool(ids))
    if is_noted:
        with suppress(MemoryCIError):  # what was asked for is given, also where it cannot be noted
            record_injected(workspace, noted_ids(answer), caller.now)
            if caller.session is not None:
                note_given(workspace, caller.session, answer, caller.now, options.about)
    found = (
        (hit.located.entry.id, tuple(one for one in hit.verdicts if one.kind in MARKED))
        for hit in answer.hits
    )
    marked = tuple(Marked(id_, verdicts) for id_, verdicts in found if verdicts)
    told = Retrieved(
        context, ids, answer.mode, answer.verdict, answer.notes, marked, answer.weak, answer.known
    )
    return _say(context or NOTHING, answer.notes), told


def call_similar_changes(
    caller: Caller, asked: arguments.FindSimilar
) -> tuple[str, SimilarChanges]:
    """Earlier changes of this repository like a task, from git history: what was done, where, what became of it."""
    found = similar_tasks(caller.workspace(), asked.task, top=asked.limit)
    context = render_context(Retrieval(task=asked.task, mode="lexical", hints=Hints(found)))
    return context or NOTHING, SimilarChanges(context, tuple(one.task.label for one in found))


def call_add_learning(caller: Caller, asked: arguments.AddLearning) -> tuple[str, Kept]:
    """Propose a learning for this repository's memory. It goes into the work tree's inbox, as a file of its own."""
    workspace, said = caller.workspace(), f"{' '.join(asked.title.split())}\n{asked.body}"
    fields = {"type": asked.type, "domain": asked.domain, "importance": asked.importance}
    entry = draft_entry(
        str(uuid.uuid4()),
        caller.today,
        split_text(said),
        **fields,
        scope=_target(caller, asked.scope),
    )
    if asked.quote:
        keys = (caller.session,) if caller.session else find_sessions(caller.environ)
        entry = quote_person(workspace, entry, asked.quote, keys, Path.home(), caller.now)
    added = add_entry(workspace, entry)
    after = "The next commit of this work takes it along." if added.is_pending else WAITING
    return _report(Kept(added.entry.id, added.path, added.is_new), after)


def call_record_feedback(
    caller: Caller, asked: arguments.RecordFeedback
) -> tuple[str, FeedbackResult]:
    """Say whether an entry of memory helped: it moves the entry's utility. Once for each entry, kind and ref; without
    a ref once for each session, or where there is none for each commit that work goes on from."""
    # Only of an entry that the caller may see. Without a `ref` the work at hand is what the feedback is of.
    workspace = caller.workspace()
    check_length(asked.id)
    entry = find_visible(workspace, asked.id, caller.options(), caller.today).entry
    ref = asked.ref or name_work(workspace, caller.session)
    said = Feedback(
        id=entry.id, kind=asked.kind, at=caller.now.replace(microsecond=0), by=BY, ref=ref
    )
    given = give_feedback(workspace, said)
    judged = FeedbackResult(
        entry.id, asked.kind, given.path, given.is_new, given.before, given.after
    )
    if not given.is_new:
        return "Noted already; nothing written.", judged
    return (
        f"Wrote {printable(given.path)}. Utility {given.before:.2f} -> {given.after:.2f}.",
        judged,
    )


def call_review(caller: Caller, asked: arguments.ReviewAnswer) -> tuple[str, Kept]:
    """Say what becomes of an entry that is marked as changed: keep, edit or retire. It is a proposal to people:
    feedback, or a note in the inbox that contradicts the entry."""
    if asked.answer != "edit":
        kind: FeedbackKind = "confirmed" if asked.answer == "keep" else "rejected"
        _, given = call_record_feedback(caller, arguments.RecordFeedback(id=asked.id, kind=kind))
        return _report(
            Kept(given.id, given.path, given.is_new),
            "It is feedback; a person decides: review --stale.",
        )
    workspace = caller.workspace()
    check_length(asked.id)
    place = find_visible(workspace, asked.id, caller.options(), caller.today)
    entry = place.entry
    text = split_text(f"{' '.join(asked.title.split())}\n{asked.body}")
    fields: dict[str, object] = {
        "type": entry.type,
        "domain": entry.domain,
        "scope": _target(caller, place.scope.target),
    }
    fields |= {"importance": NEW_IMPORTANCE, "relations": (f"contradicts {entry.id}",)}
    note = draft_entry(str(uuid.uuid4()), caller.today, text, **fields)
    added = add_entry(workspace, note)
    return _report(Kept(added.entry.id, added.path, added.is_new), WAITING)


def call_create_episode(caller: Caller, asked: arguments.CreateEpisode) -> tuple[str, Kept]:
    """Note what was tried and what came of it, as an episode of this repository."""
    session = caller.own_session(asked.session_id)
    said = (asked.content, asked.context, asked.outcome, asked.valence)
    return _keep(create_episode(caller.workspace(), *said, session, caller.now))


def call_recall_episodes(
    caller: Caller, asked: arguments.RecallEpisodes
) -> tuple[str, Recollection]:
    """Earlier work that answers a question: what was done, and what came of it. The answer is untrusted hints."""
    session = caller.own_session(asked.session_filter)
    now = parse_time(asked.current_time) if asked.current_time else caller.now
    limit = MAX_LIMIT if asked.session_filter else asked.limit
    query = RecallQuery(asked.query, now, asked.ranking, limit, session)
    recalled = recall_episodes(caller.workspace(), query, caller.environ)
    if asked.session_filter:
        mine = (hit for hit in recalled.hits if hit.episode.context.get("session") == session)
        recalled = replace(recalled, hits=tuple(mine)[: asked.limit], changes=())
    return _tell(recalled)


def call_query_at_time(caller: Caller, asked: arguments.QueryAtTime) -> tuple[str, Recollection]:
    """The episodes that were known at a moment of the past, ranked as then. The answer is untrusted hints."""
    when = parse_time(asked.point_in_time)
    query = RecallQuery(asked.query, when, limit=asked.limit, session=caller.session, at=when)
    return _tell(recall_episodes(caller.workspace(), query, caller.environ))


def call_mark_important(caller: Caller, asked: arguments.MarkImportant) -> tuple[str, Kept]:
    """Say how much an episode matters. What was written stays; the last word counts."""
    return _keep(
        mark_important(
            caller.workspace(), asked.episode_id, asked.valence, caller.now, caller.session
        )
    )


def call_health(caller: Caller, asked: arguments.NoArguments) -> tuple[str, Health]:
    """How well this repository's memory is kept, in five numbers, and what to do about the weak ones."""
    health = measure_health(caller.workspace(), caller.today, environ=caller.environ)
    return render_health(health), health


Call = Callable[[Caller, Any], tuple[str, Any]]


class Tool(NamedTuple):
    """A tool as clients see it, and who answers."""

    name: str
    description: str
    takes: type[arguments.Arguments]
    gives: type[msgspec.Struct]
    call: Call

    @property
    def writes(self) -> bool:
        return self.gives in (Kept, FeedbackResult)


def _as_tool(call: Call) -> Tool:
    """A function by its own name, docstring and types."""
    types = get_type_hints(call)
    said = " ".join((call.__doc__ or "").split())
    return Tool(
        call.__name__.removeprefix("call_"),
        said,
        types["asked"],
        get_args(types["return"])[1],
        call,
    )


CALLS: tuple[Call, ...] = (
    call_retrieve, call_similar_changes, call_add_learning, call_record_feedback, call_review, call_create_episode,
    call_recall_episodes, call_query_at_time, call_mark_important, call_health,
)  # fmt: skip
TOOLS = tuple(map(_as_tool, CALLS))


def _target(caller: Caller, scope: str) -> str:
    """The scope to write to: of sessions only the caller's own. Raises UsageError (other-session, bad-scope)."""
    name, _, where = scope.partition(":")
    if name != "session":
        return scope
    caller.own_session(where)
    return f"session:{caller.session or ''}"


def _tell(recalled: Recalled) -> tuple[str, Recollection]:
    def list_told(hits: Iterable[RecalledEpisode]) -> tuple[Told, ...]:
        found = ((hit.episode, hit.score) for hit in hits)
        return tuple(
            Told(one.id, one.occurred_at.isoformat(), one.outcome, one.valence, score)
            for one, score in found
        )

    context = render_recall(recalled)
    told, changes = list_told(recalled.hits), list_told(recalled.changes)
    answer = Recollection(context, recalled.ranking, told, recalled.notes, changes)
    return _say(context or NOTHING, recalled.notes), answer


def _keep(noted: Noted) -> tuple[str, Kept]:
    notes = (
        (f"Not kept, for it is not of this repository: {', '.join(noted.left_out)}.",)
        if noted.left_out
        else ()
    )
    return _report(
        Kept(noted.episode.id, noted.path, noted.is_new, notes), "Commit it with your work."
    )


def _report(kept: Kept, after: str) -> tuple[str, Kept]:
    known = f"Known already as {kept.id} in {printable(kept.path)}; nothing written."
    return _say(
        f"Wrote {printable(kept.path)} ({kept.id}). {after}" if kept.is_new else known, kept.notes
    ), kept


def _say(text: str, notes: Iterable[str]) -> str:
    """A text, and below it what should be known of it."""
    return "\n".join([text.rstrip(), *(f"Note: {printable(note)}" for note in notes)])


def read_resource(caller: Caller, uri: str) -> str:
    """The text of a resource. Raises UsageError (unknown-resource, unknown-entry, ambiguous-entry)."""
    workspace = caller.workspace()
    if uri == INSTITUTIONAL:  # what always applies, alone, for no word is asked for
        return render_context(
            retrieve(workspace, "", caller.options(total_chars=MAX_CHARS), caller.today)
        )
    if uri.startswith(ENTRY):
        answer = show_visible(
            workspace, unquote(uri.removeprefix(ENTRY)), caller.options(), caller.today
        )
        return render_context(replace(answer, hits=tuple(map(_bounded, answer.hits))))
    hint = f"There are {INSTITUTIONAL} and {ENTRY}<id>."
    raise UsageError("there is no such resource", slug="unknown-resource", hint=hint)


def _bounded(hit: Hit) -> Hit:
    """The hit with the first part of a body that is too long."""
    entry = hit.located.entry
    if len(entry.body) <= MAX_CHARS // 2:
        return hit
    shortened = replace(entry, body=f"{entry.body[: MAX_CHARS // 2]}\n[the rest is left out]")
    return replace(hit, located=replace(hit.located, entry=shortened))
