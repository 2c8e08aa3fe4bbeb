"""Quotes of people as evidence of memory entries: found in agent sessions, compared with titles."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from memory_ci.errors import UsageError
from memory_ci.evidence.content import redact
from memory_ci.extraction.stance import is_opposite
from memory_ci.extraction.support import expand_to_sentences
from memory_ci.extraction.suspects import find_steering
from memory_ci.gitrepo.sessionrefs import DIGEST_SIZE, StoredSession, read_stored, session_ref
from memory_ci.memory.workspace import Workspace
from memory_ci.records.event import Event, Session
from memory_ci.regex import Regex
from memory_ci.sources.transcripts.digest import read
from memory_ci.sources.transcripts.prose import is_output
from memory_ci.text import plural, unfenced_lines

MAX_TURN = 2_000
"""Length of a quotable turn in characters; a longer turn was not typed."""

MAX_LINES = 10
"""Number of lines without a blank line between them that a person may have typed."""

PASTED = Regex(r" {4}|\t| {0,3}>")
"""The start of a line of indented code or of a quotation."""
PROGRAM_TEXT = Regex(
    r"(?m)[{\[,][ \t]*[\"'][\w. -]{1,80}[\"'][ \t]*:|^[ \t]*\"[\w. -]{1,80}\"[ \t]*:"
    r"|&lt;/?[a-z]|^(?:Traceback \(most recent|diff --git |@@ -|\|)"
)
"""A key of JSON or of a Python dict, an escaped tag, a traceback, a diff, a row of a table."""

EVENT_FIELD = Regex(r"[ \t]*[a-z]+_[a-z_]+:\s")
"""The start of a line of a program's event in YAML; a person types no two of them."""

LINE_NUMBER = Regex(r"(?m)^[ \t]*\d+\u2192")
"""The number that an agent's tool puts before each line of a file that it shows."""

FORGEABLE = frozenset({"aider-md", "cursor-text", "specstory-md"})
"""Formats that store replies and turns in one text, where a reply can imitate a turn."""

TEXT_SUFFIXES = (".md", ".txt")
"""Suffixes of the files of these formats: a session may be joined of several files."""

QUESTION_TOOL = "AskUserQuestion"
"""The tool with which an agent lets a person choose among options that the agent worded."""

CURLY = str.maketrans("\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb", '\'\'\'"""""')

MAX_QUOTES_PER_SESSION = 3
"""Notes with a quote that one session may add.

A person can read that many, whatever an agent was made to write.
"""

MAX_EDITED = 3
"""Number of edited files that are returned with a quote."""

MIN_WORDS = 3
MIN_CHARS = 15
"""Length of the shortest quote; shorter ones occur in any session."""

MAX_CHARS = 500
"""Characters of a quote of `add --quote`; a longer one is no rule."""

EDITING_TOOLS = Regex(r"edit|write|patch|replace|create|exec|shell", re.IGNORECASE)
"""Names of tools that change files. For a shell a transcript has only the files of a patch."""

MAX_DIGEST_FACTOR = 2
"""Factor of `DIGEST_SIZE` up to which the digest of a captured session is read: in version 0.2 its
size could be configured, so older ones may be larger."""


class FoundQuote(NamedTuple):
    """A quote of a person.

    Attributes:
        evidence: the line of evidence, `session:<agent>:<id>#<line> <words>`.
        edited: the files that the session edited because of the words.
    """

    evidence: str
    edited: tuple[str, ...]


def find_quote(session: Session, words: str) -> FoundQuote:
    """Find the last turn of a session in which a person typed these words.

    Raises:
        UsageError: bad-quote, quote-not-said.
    """
    normalised_words = _normalise(words)
    if not _is_long_enough(normalised_words) or len(normalised_words) > MAX_CHARS:
        raise UsageError(
            f"a quote has at least {MIN_WORDS} words and {MIN_CHARS} characters, "
            f"and {MAX_CHARS} at most",
            slug="bad-quote",
            hint="Quote the sentence that says the rule.",
        )

    for turn in reversed(_list_unforgeable_turns(session)):
        if not _contains(turn, normalised_words):
            continue
        if not _was_shown_before(session, turn, normalised_words):
            return _build_quote(session, turn, normalised_words)
    raise UsageError(
        f"no person said these words in the session {session.key}",
        slug="quote-not-said",
        hint="Quote what a person typed, word for word; "
        "what was pasted, quoted or fenced does not count.",
    )


def quote_turn(session: Session, number: int) -> FoundQuote:
    """Quote the sentence of a turn that tells the agent how to work, or its first paragraph.

    Args:
        session: the session.
        number: the number of a person's turn, counted from 1; 0 for the last.

    Raises:
        UsageError: bad-quote.
    """
    turns = _list_unforgeable_turns(session)
    turn = None
    if turns and 0 <= number <= len(turns):
        turn = turns[number - 1]  # index -1, the last turn, for 0
    words = _choose_quotable_words(turn) if turn else ""
    if turn is None or not 0 < len(words) <= MAX_CHARS:
        raise UsageError(
            f"turn {number} of {session.key} has nothing to quote: "
            f"people typed {plural(len(turns), 'turn')}",
            slug="bad-quote",
            hint="Give the words: --quote WORDS.",
        )
    return _build_quote(session, turn, words)


def _choose_quotable_words(turn: Event) -> str:
    """Return the words of a turn that are worth quoting, or "".

    These are the first sentence that tells the agent how to work, else the first paragraph.
    """
    passages = list(_list_passages(turn.text))
    steering_sentences = []
    for passage in passages:
        steering_sentences += [steering.text for steering in find_steering(passage)]
    for text in (*steering_sentences, *passages):
        words = _normalise(text)
        if _is_long_enough(words):
            return words
    return ""


def check_title(session: Session, title: str, evidence: str) -> None:
    """Refuse a title of an entry that says the opposite of the words that it quotes.

    Args:
        session: the session that was quoted.
        title: the title of the entry.
        evidence: its line of evidence, `session:<agent>:<id>#<line> <words>`.

    Raises:
        UsageError: opposite-of-the-quotes.
    """
    address, _, words = evidence.partition(" ")
    line = address.rpartition("#")[2]
    sentences = _find_contradicted(title, _list_turns_at(session, line), words)
    if sentences:
        raise UsageError(
            f"the title says the opposite of what was said: {sentences[0]}",
            slug="opposite-of-the-quotes",
            hint="Say in the title what the person said.",
        )


def is_quote_captured(
    workspace: Workspace,
    sessions: Sequence[StoredSession],
    address: str,
    words: str,
    title: str = "",
) -> bool:
    """Return whether a captured session has these words of a person at a line.

    False if the title of the entry says the opposite of the words.

    Args:
        workspace: the repository.
        sessions: all captured sessions.
        address: the session and the line, `<agent>:<id>#<line>`.
        words: the words.
        title: the title of the entry that quotes them.
    """
    key, _, line = address.rpartition("#")
    normalised_words = _normalise(words)
    session = _read_captured(workspace, sessions, key)
    if session is None or session.key != key or not _is_long_enough(normalised_words):
        return False
    return _has_quote(session, line, normalised_words, title)


def _read_captured(
    workspace: Workspace, sessions: Sequence[StoredSession], key: str
) -> Session | None:
    """Read the captured session with a key (`<agent>:<id>`), None if it is not captured."""
    agent, colon, session_id = key.partition(":")
    ref = session_ref(agent, session_id) if colon else ""
    candidates = [session for session in sessions if session.ref == ref]
    max_bytes = DIGEST_SIZE * MAX_DIGEST_FACTOR
    for stored, data in read_stored(workspace.repo, candidates, max_bytes):
        for session in read(io.BytesIO(data), stored.id):
            return session
    return None


def _has_quote(session: Session, line: str, normalised_words: str, title: str) -> bool:
    """Return whether a person said words at a line first, and a title does not contradict them."""
    turns = [turn for turn in _list_turns_at(session, line) if _contains(turn, normalised_words)]
    if all(_was_shown_before(session, turn, normalised_words) for turn in turns):
        return False
    return not _find_contradicted(title, turns, normalised_words)


def list_turns(session: Session) -> list[Event]:
    """Return what people typed in a session, including their reasons to reject a tool call."""
    turns = []
    for event in session.events:
        is_of_person = event.actor == "human" and event.kind in ("text", "rejection")
        if is_of_person and event.origin.line and event.text:
            turns.append(event)
    return turns


def _list_turns_at(session: Session, line: str) -> list[Event]:
    turns = _list_unforgeable_turns(session)
    return [turn for turn in turns if str(turn.origin.line) == line]


def _list_unforgeable_turns(session: Session) -> list[Event]:
    """Return the turns of people that no reply of the agent can have imitated."""
    if session.format in FORGEABLE:
        return []
    turns = list_turns(session)
    return [turn for turn in turns if not (turn.origin.path or "").endswith(TEXT_SUFFIXES)]


def list_edited(session: Session) -> tuple[str, ...]:
    """Return the files that were edited since the last turn of a person."""
    last_seq = max((turn.seq for turn in list_turns(session)), default=-1)
    return _list_edited_paths(edit for edit in _list_edits(session) if edit.seq > last_seq)


def _list_edits(session: Session) -> list[Event]:
    tool_calls = [event for event in session.events if event.kind == "tool_call"]
    return [event for event in tool_calls if EDITING_TOOLS.search(event.tool or "")]


def _list_edited_paths(edits: Iterable[Event]) -> tuple[str, ...]:
    """Return the paths of edits, each once, in order."""
    paths: dict[str, None] = {}
    for edit in edits:
        paths |= dict.fromkeys(edit.paths)
    return tuple(paths)


def _list_passages(text: str) -> Iterator[str]:
    """Yield the paragraphs of a turn that a person typed.

    Fences, quotations, indented code, long blocks, output of programs and all of a long turn are
    left out.
    """
    if len(text) > MAX_TURN:
        return
    for is_typed, group in groupby(unfenced_lines(text.splitlines()), _is_typed_line):
        lines = list(group)
        if not is_typed or len(lines) > MAX_LINES:
            continue
        if not is_output(lines) and not _is_program_data(lines):
            yield "\n".join(lines)


def _is_program_data(lines: Sequence[str]) -> bool:
    """Return whether lines look like a program's data, which people paste rather than type."""
    if PROGRAM_TEXT.search("\n".join(lines)):
        return True
    return sum(1 for line in lines if EVENT_FIELD.match(line)) >= 2


def _is_typed_line(line: str) -> bool:
    """Return whether a line is neither blank nor indented code or a quotation."""
    return bool(line.strip()) and not PASTED.match(line)


def _contains(turn: Event, normalised_words: str) -> bool:
    """Return whether a person typed these words, as whole words, in a turn."""
    pattern = re.compile(rf"(?<!\w){re.escape(normalised_words)}(?!\w)")
    return any(pattern.search(_normalise(passage)) for passage in _list_passages(turn.text))


def _find_contradicted(title: str, turns: Sequence[Event], words: str) -> list[str]:
    """Return the sentences with quoted words if a title says the opposite of them, else none.

    Args:
        title: the title.
        turns: the turns that hold the words.
        words: the words.
    """
    normalised_words = _normalise(words)
    sentences = []
    for turn in turns:
        for passage in _list_passages(turn.text):
            normalised_passage = _normalise(passage)
            if normalised_words in normalised_passage:
                sentences.append(expand_to_sentences(normalised_words, normalised_passage))
    return sentences if is_opposite(title, sentences) else []


def _was_shown_before(session: Session, turn: Event, normalised_words: str) -> bool:
    """Return whether a program or the agent showed words before a person's turn.

    Then the person may have pasted them.
    """
    for event in session.events:
        if event.seq >= turn.seq or not _is_shown(event):
            continue
        if normalised_words in _normalise(LINE_NUMBER.sub("", event.text)):
            return True
    return False


def _is_shown(event: Event) -> bool:
    """Return whether an event shows text to a person: of a program, or the agent's options."""
    is_question = event.kind == "tool_call" and event.tool == QUESTION_TOOL
    return event.actor == "injected" or event.kind == "tool_result" or is_question


def _is_long_enough(words: str) -> bool:
    return len(words.split()) >= MIN_WORDS and len(words) >= MIN_CHARS


def _normalise(text: str) -> str:
    """Make a text comparable: redacted as sessions are, with plain quotation marks and blanks."""
    return " ".join(redact(text).text.translate(CURLY).split())


def _build_quote(session: Session, turn: Event, words: str) -> FoundQuote:
    """Return the line of evidence for words of a turn, and the files that were edited.

    The files are the first that were edited after the turn, or the last before it.
    """
    edits = _list_edits(session)
    paths = _list_edited_paths(edit for edit in edits if edit.seq > turn.seq)
    if not paths:
        paths = _list_edited_paths(edit for edit in reversed(edits) if edit.seq < turn.seq)
    evidence = f"session:{session.key}#{turn.origin.line} {words}"
    return FoundQuote(evidence, paths[:MAX_EDITED])
