"""The engine of rules: it finds statements that authors marked, and sentences like learnings.

It needs no key and no network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from memory_ci.extraction import decisions, norms, suspects, weakness, wording
from memory_ci.extraction.entries import base_importance
from memory_ci.extraction.gate import BODY_WIDTH
from memory_ci.extraction.markers import MARKERS, Mark, find_marks, find_remembered
from memory_ci.extraction.reply import QUOTE_WIDTH, Learning, RawQuote, format_reply
from memory_ci.extraction.support import QUOTABLE
from memory_ci.records.candidate import EngineReply, Request
from memory_ci.records.event import Evidence

SUSPECT_IMPORTANCE = 0.4
MESSAGES = frozenset({"commit", "pr", "adr"})
"""Kinds whose first line is a subject."""

UNWORDED = frozenset({"diff", "check", "tool_call", "tool_result", "compaction"})
"""Kinds whose text nobody wrote to be understood."""


class RulesEngine:
    """Finds learnings by rules; the same request gives the same reply."""

    def extract(self, request: Request) -> EngineReply:
        """Return all marks and suspects of the evidence, in its order."""
        learnings: list[Learning] = []
        for piece in request.evidence:
            learnings += _find_learnings(piece)
        reply = format_reply(tuple(learnings))
        return EngineReply(text=reply, stop_reason="end_turn", model="rules")


def has_learning_signs(text: str) -> bool:
    """Return whether a rule matches a message or turn, so that a model should read it."""
    return suspects.is_suspicious(text) or bool(suspects.find_steering(text))


def _find_learnings(piece: Evidence) -> Iterator[Learning]:
    """Yield the learnings of a piece of evidence.

    These are the decision of a decision record, and the statements that the author marked. If the
    author is trusted enough to be quoted, they are also the suspects: unmarked sentences that look
    like learnings.
    """
    if piece.kind == "adr":
        decision = decisions.find_decision(piece.text)
        if decision:
            yield _make_learning_of_mark(decision, piece, doubt=None)
        return
    if piece.kind in UNWORDED:
        return

    marks = [*find_marks(piece.text), *find_remembered(piece.text)]
    for mark in marks:
        yield _make_learning_of_mark(mark, piece, doubt=weakness.find_weakness(mark))
    if piece.trust in QUOTABLE:
        for suspect in _find_suspects(piece, marks):
            yield _make_learning_of_suspect(suspect, piece)


def _make_learning_of_mark(mark: Mark, piece: Evidence, *, doubt: str | None) -> Learning:
    """Return the learning of a marked statement.

    Its importance is that of its marker (`Decision:`, `Learning:` …). A fix is at least as
    important as the event that it is from.

    Args:
        mark: the statement.
        piece: the piece of evidence that has it.
        doubt: why it is only proposed to a person; None if it is written.
    """
    marker = MARKERS[mark.marker]
    importance = marker.importance
    if marker.kind == "fix":
        importance = max(importance, base_importance([piece]))
    title, body = wording.compose(mark)
    return Learning(
        title=title,
        body=body,
        kind=marker.kind,
        importance=importance,
        scope=marker.scope,
        quotes=(_quote(piece, mark.quote),),
        marker=mark.marker,
        is_marked=doubt is None,
        doubt=doubt or "",
        adoption=marker.adoption,
    )


def _find_suspects(piece: Evidence, marks: Sequence[Mark]) -> list[suspects.Suspect]:
    if piece.kind in MESSAGES:
        return suspects.find_suspects(piece.text)
    return _find_unmarked_steering(piece.text, marks)


def _find_unmarked_steering(turn: str, marks: Iterable[Mark]) -> list[suspects.Suspect]:
    """Return the sentences by which a person's turn steers an agent, without its marked lines."""
    marked_lines: list[str] = []
    for mark in marks:
        marked_lines += [line.strip() for line in mark.quote.splitlines()]
    if marked_lines and len(turn) <= suspects.MAX_LENGTH:
        ends = tuple(marked_lines)
        lines = [line for line in turn.splitlines() if not line.rstrip().endswith(ends)]
        turn = "\n".join(lines)
    return suspects.find_steering(turn)


def _make_learning_of_suspect(suspect: suspects.Suspect, piece: Evidence) -> Learning:
    """Return the learning of an unmarked sentence, which is only proposed to a person.

    What a person said to an agent is stated as a rule: `I want you to always use docstrings`
    becomes `Always use docstrings`.

    Args:
        suspect: the sentence.
        piece: the piece of evidence that has it.
    """
    is_spoken = piece.kind not in MESSAGES
    statement = norms.strip_errand(wording.fold_space(suspect.text))
    if is_spoken and norms.weigh_norm(statement, is_spoken=True):
        statement = norms.strip_lead(statement)
        statement = statement[:1].upper() + statement[1:]
    title = wording.make_title(statement)
    body = wording.fold_space(suspect.reason) or wording.make_body(title, statement)
    quoted = [text for text in (suspect.text, suspect.reason) if text]
    return Learning(
        title=title,
        body=wording.cut_at_sentence(body, BODY_WIDTH),
        importance=SUSPECT_IMPORTANCE,
        kind="fix" if suspect.adoption else "convention",
        quotes=tuple(_quote(piece, text) for text in quoted),
        doubt=suspect.doubt,
        adoption=suspect.adoption,
    )


def _quote(piece: Evidence, text: str) -> RawQuote:
    return RawQuote(piece.id, wording.cut(text, QUOTE_WIDTH))
