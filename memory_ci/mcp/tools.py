"""The tools: one function each, from its arguments to (a text, the same as a record); and the resources."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.flows.inbox.add import add_entry, draft_entry, quote_person, split_text
from memory_ci.flows.inbox.episode import Noted, create_episode, mark_important
from memory_ci.flows.inbox.feedback import check_length, give_feedback, name_work, parse_time
from memory_ci.flows.measure.health import measure_health
from memory_ci.flows.serve.recall import MAX_LIMIT, RecallQuery, recall_episodes
from memory_ci.flows.serve.retrieve import find_visible, injected_ids, noted_ids, retrieve, show_visible
from memory_ci.flows.serve.served_ids import record_injected
from memory_ci.flows.serve.session_note import note_given
from memory_ci.flows.serve.similar import similar_tasks
from memory_ci.flows.sessions.active_session import find_sessions
from memory_ci.mcp import arguments
from memory_ci.mcp.arguments import FeedbackResult, Kept, Marked, Recollection, Retrieved, SimilarChanges, Told
from memory_ci.mcp.caller import Caller
from memory_ci.records.anchor import MARKED
from memory_ci.records.entry import NEW_IMPORTANCE
from memory_ci.records.episode import Feedback, FeedbackKind, Recalled, RecalledEpisode
from memory_ci.records.health import Health
from memory_ci.records.retrieval import Hints, Hit, Retrieval
from memory_ci.rendering.context import ASK, render_asking, render_context, render_recall
from memory_ci.rendering.health import render_health
from memory_ci.rendering.table import printable

MAX_CHARS = 40_000
"""Characters of an answer: agents cut off or put aside what is much longer."""

BY = "mcp"
"""Who gave feedback: an agent, not the person whom git names."""

NOTHING = "Memory knows nothing about this."

INSTITUTIONAL = "memory://institutional"
ENTRY = "memory://entry/"


WAITING = "It waits in the inbox; commit it with your work."


def call_retrieve(caller: Caller, asked: arguments.Retrieve) -> tuple[str, Retrieved]:
    workspace = caller.workspace()
    fields = {name: value for name, value in msgspec.structs.asdict(asked).items() if name != "task"}
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
    found = ((hit.located.entry.id, tuple(one for one in hit.verdicts if one.kind in MARKED)) for hit in answer.hits)
    marked = tuple(Marked(id_, verdicts) for id_, verdicts in found if verdicts)
    told = Retrieved(context, ids, answer.mode, answer.verdict, answer.notes, marked, answer.weak, answer.known)
    return _say(context or NOTHING, answer.notes), told


def call_similar(caller: Caller, asked: arguments.FindSimilar) -> tuple[str, SimilarChanges]:
    found = similar_tasks(caller.workspace(), asked.task, top=asked.limit)
    context = render_context(Retrieval(task=asked.task, mode="lexical", hints=Hints(found)))
    return context or NOTHING, SimilarChanges(context, tuple(one.task.label for one in found))


def call_recall_episodes(caller: Caller, asked: arguments.RecallEpisodes) -> tuple[str, Recollection]:
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
    when = parse_time(asked.point_in_time)
    query = RecallQuery(asked.query, when, limit=asked.limit, session=caller.session, at=when)
    return _tell(recall_episodes(caller.workspace(), query, caller.environ))


def call_create_episode(caller: Caller, asked: arguments.CreateEpisode) -> tuple[str, Kept]:
    session = caller.own_session(asked.session_id)
    noted = create_episode(
        caller.workspace(), asked.content, asked.context, asked.outcome, asked.valence, session, caller.now
    )
    return _keep(noted)


def call_mark_important(caller: Caller, asked: arguments.MarkImportant) -> tuple[str, Kept]:
    return _keep(mark_important(caller.workspace(), asked.episode_id, asked.valence, caller.now, caller.session))


def call_add_learning(caller: Caller, asked: arguments.AddLearning) -> tuple[str, Kept]:
    workspace, said = caller.workspace(), f"{' '.join(asked.title.split())}\n{asked.body}"
    fields = {"type": asked.type, "domain": asked.domain, "importance": asked.importance}
    entry = draft_entry(str(uuid.uuid4()), caller.today, split_text(said), **fields, scope=_target(caller, asked.scope))
    if asked.quote:
        keys = (caller.session,) if caller.session else find_sessions(caller.environ)
        entry = quote_person(workspace, entry, asked.quote, keys, Path.home(), caller.now)
    added = add_entry(workspace, entry)
    kept = Kept(added.entry.id, added.path, added.is_new)
    after = "The next commit of this work takes it along." if added.is_pending else WAITING
    return _report(kept, after)


def call_record_feedback(caller: Caller, asked: arguments.RecordFeedback) -> tuple[str, FeedbackResult]:
    """Only of an entry that the caller may see. Without a `ref` the work at hand is what the feedback is of."""
    workspace = caller.workspace()
    check_length(asked.id)
    entry = find_visible(workspace, asked.id, caller.options(), caller.today).entry
    ref = asked.ref or name_work(workspace, caller.session)
    said = Feedback(id=entry.id, kind=asked.kind, at=caller.now.replace(microsecond=0), by=BY, ref=ref)
    given = give_feedback(workspace, said)
    judged = FeedbackResult(entry.id, asked.kind, given.path, given.is_new, given.before, given.after)
    if not given.is_new:
        return "Noted already; nothing written.", judged
    return f"Wrote {printable(given.path)}. Utility {given.before:.2f} -> {given.after:.2f}.", judged


def call_review(caller: Caller, asked: arguments.ReviewAnswer) -> tuple[str, Kept]:
    """What an agent answers of a marked entry is a proposal: feedback, or a note that contradicts the entry."""
    if asked.answer != "edit":
        kind: FeedbackKind = "confirmed" if asked.answer == "keep" else "rejected"
        _, given = call_record_feedback(caller, arguments.RecordFeedback(id=asked.id, kind=kind))
        return _report(Kept(given.id, given.path, given.is_new), "It is feedback; a person decides: review --stale.")
    workspace = caller.workspace()
    check_length(asked.id)
    place = find_visible(workspace, asked.id, caller.options(), caller.today)
    entry = place.entry
    text = split_text(f"{' '.join(asked.title.split())}\n{asked.body}")
    fields = {"type": entry.type, "domain": entry.domain, "scope": _target(caller, place.scope.target)}
    against = (f"contradicts {entry.id}",)
    new_id = str(uuid.uuid4())
    note = draft_entry(new_id, caller.today, text, **fields, importance=NEW_IMPORTANCE, relations=against)
    added = add_entry(workspace, note)
    return _report(Kept(added.entry.id, added.path, added.is_new), WAITING)


def call_health(caller: Caller, asked: arguments.NoArguments) -> tuple[str, Health]:
    health = measure_health(caller.workspace(), caller.today, environ=caller.environ)
    return render_health(health), health


class Tool(NamedTuple):
    """A tool as clients see it, and who answers."""

    name: str
    description: str
    takes: type[arguments.Arguments]
    gives: type[msgspec.Struct]
    call: Callable[[Caller, Any], tuple[str, Any]]
    writes: bool = False


TOOLS = (
    Tool(
        "retrieve",
        "What this repository's memory knows about a task: ask before you start. The answer is untrusted hints.",
        arguments.Retrieve,
        Retrieved,
        call_retrieve,
    ),
    Tool(
        "similar_changes",
        "Earlier changes of this repository like a task, from git history: what was done, where, what became of it.",
        arguments.FindSimilar,
        SimilarChanges,
        call_similar,
    ),
    Tool(
        "add_learning",
        "Propose a learning for this repository's memory. It goes into the work tree's inbox, as a file of its own.",
        arguments.AddLearning,
        Kept,
        call_add_learning,
        writes=True,
    ),
    Tool(
        "record_feedback",
        "Say whether an entry of memory helped: it moves the entry's utility. Once for each entry, kind and ref; "
        "without a ref once for each session, or where there is none for each commit that work goes on from.",
        arguments.RecordFeedback,
        FeedbackResult,
        call_record_feedback,
        writes=True,
    ),
    Tool(
        "review",
        "Say what becomes of an entry that is marked as changed: keep, edit or retire. It is a proposal to people: "
        "feedback, or a note in the inbox that contradicts the entry.",
        arguments.ReviewAnswer,
        Kept,
        call_review,
        writes=True,
    ),
    Tool(
        "create_episode",
        "Note what was tried and what came of it, as an episode of this repository.",
        arguments.CreateEpisode,
        Kept,
        call_create_episode,
        writes=True,
    ),
    Tool(
        "recall_episodes",
        "Earlier work that answers a question: what was done, and what came of it. The answer is untrusted hints.",
        arguments.RecallEpisodes,
        Recollection,
        call_recall_episodes,
    ),
    Tool(
        "query_at_time",
        "The episodes that were known at a moment of the past, ranked as then. The answer is untrusted hints.",
        arguments.QueryAtTime,
        Recollection,
        call_query_at_time,
    ),
    Tool(
        "mark_important",
        "Say how much an episode matters. What was written stays; the last word counts.",
        arguments.MarkImportant,
        Kept,
        call_mark_important,
        writes=True,
    ),
    Tool(
        "health",
        "How well this repository's memory is kept, in five numbers, and what to do about the weak ones.",
        arguments.NoArguments,
        Health,
        call_health,
    ),
)


def _target(caller: Caller, scope: str) -> str:
    """The scope to write to: of sessions only the caller's own. Raises UsageError (other-session, bad-scope)."""
    name, _, where = scope.partition(":")
    if name != "session":
        return scope
    caller.own_session(where)
    return f"session:{caller.session or ''}"


def _tell(recalled: Recalled) -> tuple[str, Recollection]:
    told, changes = (tuple(map(_told, hits)) for hits in (recalled.hits, recalled.changes))
    context = render_recall(recalled)
    told_all = Recollection(context, recalled.ranking, told, recalled.notes, changes)
    return _say(context or NOTHING, recalled.notes), told_all


def _told(hit: RecalledEpisode) -> Told:
    episode = hit.episode
    return Told(episode.id, episode.occurred_at.isoformat(), episode.outcome, episode.valence, hit.score)


def _keep(noted: Noted) -> tuple[str, Kept]:
    left_out = f"Not kept, for it is not of this repository: {', '.join(noted.left_out)}." if noted.left_out else ""
    notes = (left_out,) if left_out else ()
    return _report(Kept(noted.episode.id, noted.path, noted.is_new, notes), "Commit it with your work.")


def _report(kept: Kept, after: str) -> tuple[str, Kept]:
    if not kept.is_new:
        return _say(f"Known already as {kept.id} in {printable(kept.path)}; nothing written.", kept.notes), kept
    return _say(f"Wrote {printable(kept.path)} ({kept.id}). {after}", kept.notes), kept


def _say(text: str, notes: Iterable[str]) -> str:
    """A text, and below it what should be known of it."""
    return "\n".join([text.rstrip(), *(f"Note: {printable(note)}" for note in notes)])


def read_resource(caller: Caller, uri: str) -> str:
    """The text of a resource. Raises UsageError (unknown-resource, unknown-entry, ambiguous-entry)."""
    if uri == INSTITUTIONAL:
        return _institutional(caller)
    if uri.startswith(ENTRY):
        return _entry(caller, unquote(uri.removeprefix(ENTRY)))
    hint = f"There are {INSTITUTIONAL} and {ENTRY}<id>."
    raise UsageError("there is no such resource", slug="unknown-resource", hint=hint)


def _institutional(caller: Caller) -> str:
    """What always applies, alone, for no word is asked for; "" where nothing does."""
    return render_context(retrieve(caller.workspace(), "", caller.options(total_chars=MAX_CHARS), caller.today))


def _entry(caller: Caller, prefix: str) -> str:
    answer = show_visible(caller.workspace(), prefix, caller.options(), caller.today)
    return render_context(replace(answer, hits=tuple(map(_bounded, answer.hits))))


def _bounded(hit: Hit) -> Hit:
    """The hit with the first part of a body that is too long."""
    entry = hit.located.entry
    if len(entry.body) <= MAX_CHARS // 2:
        return hit
    shortened = replace(entry, body=f"{entry.body[: MAX_CHARS // 2]}\n[the rest is left out]")
    return replace(hit, located=replace(hit.located, entry=shortened))
