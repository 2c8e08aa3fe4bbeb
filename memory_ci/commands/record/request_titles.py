"""A model's judgement of repeated requests: which are rules of conduct, and in which words.

The model is asked about each request by itself, with its first wordings alone. So its answer stays
the same when further sessions repeat the request, and a request that a person accepted or declined
keeps its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from memory_ci.extraction.entries import compute_content_key
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.extraction.stance import is_opposite
from memory_ci.extraction.support import find_ungrounded
from memory_ci.memory.model import ModelClient
from memory_ci.memory.screening import is_unsafe
from memory_ci.records.candidate import Request
from memory_ci.records.event import UNKNOWN_TIME, Evidence, Origin
from memory_ci.repetition.clauses import read_clause
from memory_ci.sessions.repetitions import Repeated

MAX_WORDINGS = 3  # Wordings that a model is shown.
MAX_TITLE = 150  # Characters of a request in the words of a model.
MIN_SHARED_TERMS = 0.6  # The share of a title's terms that people have said.


def title_requests(client: ModelClient, repetitions: Iterable[Repeated]) -> Iterator[Repeated]:
    """Yield the requests that a model takes for rules of conduct, with its words as their titles.

    Commands that fail again and again are in the list as well, and are yielded unchanged.

    Args:
        client: asks the model.
        repetitions: the repeated requests and the failing commands.

    Raises:
        EngineError: as the engine does.
    """
    for item in repetitions:
        repetition = item.candidate.repetition
        if repetition is None or repetition.kind != "request":
            yield item
            continue
        titled = _title_request(client, item)
        if titled is not None:
            yield titled


def _title_request(client: ModelClient, item: Repeated) -> Repeated | None:
    """Return a repeated request as a model words it, None if it was about one piece of work alone.

    The model is shown the first wordings, and answers with a learning that quotes them if they are
    a rule of conduct.
    """
    wordings = [occurrence.text for occurrence in item.occurrences[:MAX_WORDINGS]]
    piece = Evidence(
        id="e1",
        kind="text",
        text="\n".join(wordings),
        trust="T0",  # The highest trust: what members wrote.
        origin=Origin(kind="session", id=item.occurrences[0].session),
        at=UNKNOWN_TIME,
    )
    reply = client.extract(Request(change="requests", evidence=(piece,), task="requests"))
    for learning in parse_reply(reply.text).learnings:
        quotes_piece = find_ungrounded(learning, {piece.id: piece}) is None
        if quotes_piece:
            return _set_title(item, learning, wordings)
    return None


def _set_title(item: Repeated, learning: Learning, wordings: list[str]) -> Repeated:
    """Return a request with a model's title, or unchanged if the title says anything else.

    Args:
        item: the request.
        learning: the model's reply.
        wordings: the request in people's words.
    """
    title = " ".join(learning.title.split())
    peoples_terms: set[str] = set()
    for wording in wordings:
        peoples_terms |= read_clause(wording).terms
    title_terms = read_clause(title).terms
    shared_count = len(title_terms & peoples_terms)
    is_faithful = bool(title_terms) and shared_count >= MIN_SHARED_TERMS * len(title_terms)
    if not is_faithful or len(title) > MAX_TITLE or is_opposite(title, wordings):
        return item
    if is_unsafe(title):
        return item
    candidate = replace(item.candidate, title=title[:1].upper() + title[1:])
    keys = item.keys | {compute_content_key(candidate.title, candidate.body)}
    return item._replace(candidate=candidate, keys=keys)
