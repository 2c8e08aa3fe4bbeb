"""The embedded engine: no key, no network, no guessing. It finds what authors marked and proposes what it suspects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memory_ci.extraction.entries import base_importance
from memory_ci.extraction.gate import BODY_WIDTH
from memory_ci.extraction.markers import MARKERS, Mark, find_marks, find_remembered
from memory_ci.extraction.reply import QUOTE_WIDTH, Learning, RawQuote, format_reply
from memory_ci.extraction.support import QUOTABLE
from memory_ci.extraction.wording import (
    MAX_LENGTH,
    Suspect,
    compose,
    cut,
    cut_at_sentence,
    find_decision,
    find_steering,
    find_suspects,
    find_weakness,
    fold_space,
    is_suspicious,
    make_body,
    make_title,
)
from memory_ci.records.candidate import EngineReply, Request
from memory_ci.records.event import Evidence

SUSPECT_IMPORTANCE = 0.4
MESSAGES = frozenset({"commit", "pr", "adr"})  # Kinds whose first line is a subject.
# Kinds that nobody worded to be understood.
UNWORDED = frozenset({"diff", "check", "tool_call", "tool_result", "compaction"})


class RulesEngine:
    """Reads marks by rule. The same request gives the same reply."""

    def extract(self, request: Request) -> EngineReply:
        """Every mark and every suspect of the evidence, in its order."""
        learnings = tuple(learning for piece in request.evidence for learning in _learnings(piece))
        return EngineReply(text=format_reply(learnings), stop_reason="end_turn", model="rules")


def _learnings(piece: Evidence) -> Iterator[Learning]:
    if piece.kind == "adr":
        if decision := find_decision(piece.text):
            yield _marked(decision, piece, None)
        return
    if piece.kind in UNWORDED:
        return
    marks = (*find_marks(piece.text), *find_remembered(piece.text))
    for mark in marks:
        yield _marked(mark, piece, find_weakness(mark))
    if piece.trust in QUOTABLE:
        suspects = (
            find_suspects(piece.text)
            if piece.kind in MESSAGES
            else _steering_beside(marks, piece.text)
        )
        for suspect in suspects:
            statement, reason = fold_space(suspect.text), fold_space(suspect.reason)
            title = make_title(statement)
            said = (suspect.text, suspect.reason)
            yield Learning(
                title=title,
                body=cut_at_sentence(reason or make_body(title, statement), BODY_WIDTH),
                importance=SUSPECT_IMPORTANCE,
                kind="fix" if suspect.adoption else "convention",
                quotes=tuple(RawQuote(piece.id, cut(one, QUOTE_WIDTH)) for one in said if one),
                doubt=suspect.doubt,
                adoption=suspect.adoption,
            )


def _steering_beside(marks: Iterable[Mark], turn: str) -> list[Suspect]:
    """What steers in a turn, without the lines in which a mark was found: those are told of already."""
    taken = tuple(line.strip() for mark in marks for line in mark.quote.splitlines())
    if not taken or len(turn) > MAX_LENGTH:
        return find_steering(turn)
    return find_steering(
        "\n".join(line for line in turn.splitlines() if not line.rstrip().endswith(taken))
    )


def is_telling(text: str) -> bool:
    """Whether a rule would look at a text, be it a message or a turn: where a model should look as well."""
    return is_suspicious(text) or bool(find_steering(text))


def _marked(mark: Mark, piece: Evidence, doubt: str | None) -> Learning:
    """A mark's weight is that of its row; what tells of an error weighs no less than the event that it was."""
    row = MARKERS[mark.marker]
    weight = max(row.importance, base_importance([piece])) if row.kind == "fix" else row.importance
    title, body = compose(mark)
    return Learning(
        title=title,
        body=body,
        kind=row.kind,
        importance=weight,
        scope=row.scope,
        quotes=(RawQuote(piece.id, cut(mark.quote, QUOTE_WIDTH)),),
        marker=mark.marker,
        is_marked=doubt is None,
        doubt=doubt or "",
        adoption=row.adoption,
    )
