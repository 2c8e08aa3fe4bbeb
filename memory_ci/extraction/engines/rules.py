"""The engine of rules: it finds statements that authors marked, and sentences like learnings.

It needs no key and no network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from memory_ci.extraction import decisions, norms, suspects, weakness, wording
from memory_ci.extraction.entries import compute_base_importance
from memory_ci.extraction.gate import BODY_WIDTH
from memory_ci.extraction.markers import (
    MARKERS,
    MarkedStatement,
    find_marked_statements,
    find_remember_requests,
)
from memory_ci.extraction.reply import QUOTE_WIDTH, Learning, RawQuote, format_reply
from memory_ci.extraction.support import QUOTABLE_TRUST
from memory_ci.records.candidate import EngineReply, Request
from memory_ci.records.event import Evidence

SUSPECT_IMPORTANCE = 0.4
MESSAGE_KINDS = frozenset({"commit", "pr", "adr"})
"""Kinds of evidence whose first line is a subject; the others are turns of people."""

KINDS_WITHOUT_PROSE = frozenset({"diff", "check", "tool_call", "tool_result", "compaction"})
"""Kinds of evidence whose text nobody wrote to be understood."""


class RulesEngine:
    """Finds learnings by rules; the same request gives the same reply."""

    def extract(self, request: Request) -> EngineReply:
        """Return the marked statements and the suspects of the evidence, in its order."""
        learnings: list[Learning] = []
        for piece in request.evidence:
            learnings += _find_learnings(piece)
        reply = format_reply(tuple(learnings))
        return EngineReply(text=reply, stop_reason="end_turn", model="rules")


def has_learning_signs(text: str) -> bool:
    """Return whether a rule matches a message or turn, so that a model should read it."""
    return suspects.is_suspicious(text) or bool(suspects.find_steering(text))


def _find_learnings(evidence: Evidence) -> Iterator[Learning]:
    """Yield the learnings in one piece of evidence, such as a commit message or a person's turn.

    These are the decision of a decision record, and the statements that the author marked
    (`Learning: …`). If the author is trusted enough to be quoted, there are also suspects: unmarked
    sentences that look like learnings, which are only proposed to a person.
    """
    if evidence.kind == "adr":
        decision = decisions.find_decision(evidence.text)
        if decision:
            yield _make_learning_of_statement(decision, evidence, weakness_found=None)
        return
    if evidence.kind in KINDS_WITHOUT_PROSE:
        return

    statements = [*find_marked_statements(evidence.text), *find_remember_requests(evidence.text)]
    for statement in statements:
        weakness_found = weakness.find_weakness(statement)
        yield _make_learning_of_statement(statement, evidence, weakness_found=weakness_found)
    if evidence.trust in QUOTABLE_TRUST:
        for suspect in _find_suspects(evidence, statements):
            yield _make_learning_of_suspect(suspect, evidence)


def _make_learning_of_statement(
    statement: MarkedStatement, evidence: Evidence, *, weakness_found: str | None
) -> Learning:
    """Return the learning of a statement that its author marked (`Decision: …`).

    Its marker gives its kind, scope and importance. A fix is at least as important as the
    event that it is from.

    Args:
        statement: the statement.
        evidence: the piece of evidence that has it.
        weakness_found: why the statement is only proposed to a person; None if it is written to
            memory, as its author asked.
    """
    properties = MARKERS[statement.marker]
    importance = properties.importance
    if properties.kind == "fix":
        importance = max(importance, compute_base_importance([evidence]))
    title, body = wording.compose_wording(statement)
    return Learning(
        title=title,
        body=body,
        kind=properties.kind,
        importance=importance,
        scope=properties.scope,
        quotes=(_quote(evidence, statement.quote),),
        marker=statement.marker,
        is_marked=weakness_found is None,
        doubt=weakness_found or "",
        adoption=properties.adoption,
    )


def _find_suspects(
    evidence: Evidence, statements: Sequence[MarkedStatement]
) -> list[suspects.Suspect]:
    """Return the unmarked sentences of a message, or of a person's turn, that look like learnings.

    Args:
        evidence: the message or turn.
        statements: the marked statements in it.
    """
    if evidence.kind in MESSAGE_KINDS:
        return suspects.find_suspects(evidence.text)
    return _find_unmarked_steering(evidence.text, statements)


def _find_unmarked_steering(
    turn: str, statements: Iterable[MarkedStatement]
) -> list[suspects.Suspect]:
    """Return the sentences by which a person's turn corrects or instructs an agent.

    The lines of its marked statements are left out: these are learnings already. A quote has no
    marker (`Learning: `) or bullet, so a line is recognised by its end.

    Args:
        turn: the text of the turn.
        statements: the marked statements in it.
    """
    quoted_lines: list[str] = []
    for statement in statements:
        quoted_lines += [line.strip() for line in statement.quote.splitlines()]
    if quoted_lines and len(turn) <= suspects.MAX_LENGTH:
        line_ends = tuple(quoted_lines)
        other_lines = [line for line in turn.splitlines() if not line.rstrip().endswith(line_ends)]
        turn = "\n".join(other_lines)
    return suspects.find_steering(turn)


def _make_learning_of_suspect(suspect: suspects.Suspect, evidence: Evidence) -> Learning:
    """Return the learning of a suspect, an unmarked sentence that is only proposed to a person.

    What a person said to an agent is stated as a rule: `I want you to always use docstrings`
    becomes `Always use docstrings`.

    Args:
        suspect: the sentence.
        evidence: the piece of evidence that has it.
    """
    is_spoken = evidence.kind not in MESSAGE_KINDS
    statement = norms.strip_write_down_request(wording.fold_space(suspect.text))
    if is_spoken and norms.weigh_rule(statement, is_spoken=True):
        statement = norms.strip_wish_prefix(statement)
        statement = statement[:1].upper() + statement[1:]
    title = wording.make_title(statement)
    body = wording.fold_space(suspect.reason) or wording.make_body(title, statement)
    quoted_texts = [text for text in (suspect.text, suspect.reason) if text]
    return Learning(
        title=title,
        body=wording.cut_at_sentence(body, BODY_WIDTH),
        importance=SUSPECT_IMPORTANCE,
        kind="fix" if suspect.adoption else "convention",
        quotes=tuple(_quote(evidence, text) for text in quoted_texts),
        doubt=suspect.doubt,
        adoption=suspect.adoption,
    )


def _quote(evidence: Evidence, text: str) -> RawQuote:
    return RawQuote(evidence.id, wording.cut(text, QUOTE_WIDTH))
