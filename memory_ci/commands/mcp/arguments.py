"""Records of the arguments and the results of each tool of the MCP server.

Session and role belong to the server, not to a call.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from memory_ci.records.anchor import Verdict
from memory_ci.records.entry import Domain, EntryType
from memory_ci.records.episode import FeedbackKind, Outcome, Ranking
from memory_ci.records.retrieval import Mode, Strength

Text = Annotated[str, Meta(max_length=100_000)]
Word = Annotated[str, Meta(max_length=1_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
Words = Annotated[tuple[Word, ...], Meta(max_length=100)]
Types = Annotated[tuple[EntryType, ...], Meta(max_length=10)]
Count = Annotated[int, Meta(ge=1, le=50)]


def doc(text: str) -> Meta:
    """Return the description of a field in the schema."""
    return Meta(description=text)


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one tool; the schema for clients documents each field."""


class NoArguments(Arguments, frozen=True):
    """No arguments."""


class CreateEpisode(Arguments, frozen=True):
    """Arguments of `create_episode`."""

    content: Annotated[Text, doc("What happened, in a sentence or a few.")]
    context: Annotated[
        dict[str, Word],
        doc("Where: project, file, tool, git_branch. Paths are those of the repository."),
    ] = {}
    outcome: Annotated[Outcome, doc("What came of it.")] = "neutral"
    valence: Annotated[Share, doc("How much it matters: 0.9 remember this, 0.4 routine.")] = 0.5
    session_id: Annotated[Word | None, doc("This server's own session, which is the default.")] = (
        None
    )


class RecallEpisodes(Arguments, frozen=True):
    """Arguments of `recall_episodes`."""

    query: Annotated[Text, doc("The question.")]
    limit: Annotated[Count, doc("At most this many episodes.")] = 10
    session_filter: Annotated[
        Word | None,
        doc("This server's own session: then only its episodes, and none that all share."),
    ] = None
    current_time: Annotated[Word | None, doc("ISO 8601; what counts as now. Default: now.")] = None
    ranking: Annotated[Ranking | None, doc("Default: what the repository configures.")] = None


class QueryAtTime(Arguments, frozen=True):
    """Arguments of `query_at_time`."""

    query: Annotated[Text, doc("The question.")]
    point_in_time: Annotated[Word, doc("ISO 8601, such as 2026-11-20T15:00:00+00:00, or a day.")]
    limit: Annotated[Count, doc("At most this many episodes.")] = 10


class MarkImportant(Arguments, frozen=True):
    """Arguments of `mark_important`."""

    episode_id: Annotated[Word, doc("The id of an episode, such as pr-128.")]
    valence: Annotated[Share, doc("How much it matters, 0 to 1.")] = 0.9


class Retrieve(Arguments, frozen=True):
    """Arguments of `retrieve`."""

    task: Annotated[Text, doc("The task, in the person's words.")]
    paths: Annotated[Words | None, doc("Files or directories that the work touches.")] = None
    types: Annotated[Types, doc("Only these types.")] = ()
    limit: Annotated[Count, doc("At most this many entries.")] = 20
    max_chars: Annotated[
        Annotated[int, Meta(ge=0, le=32_000)] | None, doc("Characters at most, everything counted.")
    ] = None
    at: Annotated[Word | None, doc("Memory as it was at a revision, or at the end of a day.")] = (
        None
    )
    walk: Annotated[
        Annotated[int, Meta(ge=0, le=1)] | None,
        doc("1: also entries that are related to the matches."),
    ] = None
    about: Annotated[
        Word | None, doc("A file: entries about it are returned, and no task is needed.")
    ] = None
    all_matches: Annotated[
        bool, doc("Also weak matches, and entries that this session was served before.")
    ] = False


class FindSimilar(Arguments, frozen=True):
    """Arguments of `similar_changes`."""

    task: Annotated[Text, doc("The task, in the person's words, or `#128`.")]
    limit: Annotated[Count, doc("At most this many changes.")] = 2


class AddLearning(Arguments, frozen=True):
    """Arguments of `add_learning`."""

    title: Annotated[Word, doc("One sentence that says the learning by itself.")]
    body: Annotated[Annotated[str, Meta(max_length=20_000)], doc("Why, when, and what to do.")] = ""
    type: Annotated[EntryType, doc("What kind of learning.")] = "procedural"
    scope: Annotated[
        Word,
        doc("project, institutional, team:<directory>, or session for this server's own session."),
    ] = "project"
    domain: Annotated[Domain, doc("task, or team for what outlives it.")] = "task"
    importance: Annotated[Share, doc("0 to 1.")] = 0.5
    quote: Annotated[
        Word,
        doc("What a person said in this session that taught it, word for word; it is looked up."),
    ] = ""


class RecordFeedback(Arguments, frozen=True):
    """Arguments of `record_feedback`."""

    id: Annotated[Word, doc("The id of an entry, or the start of it, 4 characters or more.")]
    kind: Annotated[FeedbackKind, doc("How the entry's advice turned out.")]
    ref: Annotated[
        Word, doc("The work it is about: pr:128, or commit:9d0c3f2. Default: the work at hand.")
    ] = ""


class ReviewAnswer(Arguments, frozen=True):
    """Arguments of `review`."""

    id: Annotated[
        Word,
        doc("The id of an entry whose code changed, or the start of it, 4 characters or more."),
    ]
    answer: Annotated[
        Literal["keep", "edit", "retire"],
        doc(
            "It holds for the code as it is; it holds in the words of title and body; "
            "it does not hold."
        ),
    ]
    title: Annotated[Word, doc("For edit: the new title.")] = ""
    body: Annotated[Annotated[str, Meta(max_length=20_000)], doc("For edit: the new body.")] = ""


class Marked(msgspec.Struct, frozen=True):
    """An entry whose cited code has changed, with a verdict on each place."""

    id: str
    verdicts: tuple[Verdict, ...]


class Retrieved(msgspec.Struct, frozen=True):
    """The memory that is served for a task."""

    context: str
    ids: tuple[str, ...]
    mode: Mode
    verdict: Strength | None
    notes: tuple[str, ...] = ()
    marked: tuple[Marked, ...] = ()
    weak: int = 0
    known: int = 0


class SimilarChanges(msgspec.Struct, frozen=True):
    """Merged and declined changes like a task, best first; their words are in the context."""

    context: str
    changes: tuple[str, ...]


class EpisodeScore(msgspec.Struct, frozen=True):
    """One episode; its words are in the context of the answer, under its id."""

    id: str
    occurred_at: str
    outcome: Outcome
    valence: float
    score: float


class Recollection(msgspec.Struct, frozen=True):
    """Episodes, best first, and the merged changes that answer too."""

    context: str
    ranking: Ranking
    episodes: tuple[EpisodeScore, ...]
    notes: tuple[str, ...] = ()
    changes: tuple[EpisodeScore, ...] = ()


class Kept(msgspec.Struct, frozen=True):
    """A file that was written; if `is_new` is false, memory had it and nothing was written."""

    id: str
    path: str
    is_new: bool
    notes: tuple[str, ...] = ()


class FeedbackResult(msgspec.Struct, frozen=True):
    """Feedback, and the utility of the entry before and after it."""

    id: str
    kind: FeedbackKind
    path: str
    is_new: bool
    before: float
    after: float


class Failure(msgspec.Struct, frozen=True):
    """An error, with its slug in docs/errors.md and a hint."""

    slug: str
    message: str
    hint: str
