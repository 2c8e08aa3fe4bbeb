"""Words of a person that are quoted as evidence: found in a session, and compared with a title."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from memory_ci.errors import UsageError
from memory_ci.evidence.content import redact
from memory_ci.extraction.stance import is_opposite
from memory_ci.extraction.support import find_sentences
from memory_ci.extraction.wording import find_steering
from memory_ci.gitrepo.sessionrefs import StoredSession, read_stored, session_ref
from memory_ci.memory.workspace import Workspace
from memory_ci.records.event import Event, Session
from memory_ci.sources.transcripts.digest import read
from memory_ci.sources.transcripts.prose import is_output
from memory_ci.text import plural, unfenced_lines

MAX_TURN = 2_000  # Characters of a turn that is quoted: a longer one was not typed.


MAX_LINES = 10  # Lines without a blank one between them that a person may have typed.


PASTED = re.compile(r" {4}|\t| {0,3}>")
PROGRAM_TEXT = re.compile(
    r"(?m)[{\[,][ \t]*[\"'][\w. -]{1,80}[\"'][ \t]*:|^[ \t]*\"[\w. -]{1,80}\"[ \t]*:"
    r"|&lt;/?[a-z]|^(?:Traceback \(most recent|diff --git |@@ -|\|)"
)
"""A key of JSON or of a Python dict, an escaped tag, a traceback, a diff, a row of a table."""
EVENT_FIELD = re.compile(r"[ \t]*[a-z]+_[a-z_]+:\s")
"""How a line of a program's event begins that is written as YAML: two of them are no person's."""
LINE_NUMBER = re.compile(r"(?m)^[ \t]*\d+\u2192")
"""What an agent's tool puts in front of each line of a file that it shows."""
FORGEABLE = frozenset({"aider-md", "cursor-text", "specstory-md"})
"""Formats in which replies stand in the same text as what was typed: a reply can hold what looks like a turn."""
TEXT_SUFFIXES = (".md", ".txt")
"""How the files of these formats end: a session may be joined of several files."""
QUESTION_TOOL = "AskUserQuestion"
"""Its call holds the options that an agent worded for a person to choose from."""
CURLY = str.maketrans("\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb", '\'\'\'"""""')


# Notes with a quote that one session may add: whatever an agent is told to do, a person can read that many.
MAX_MARKS = 3


MAX_EDITED = 3


# The line of an entry's evidence, and the files that the session edited because of those words.
FoundQuote = tuple[str, tuple[str, ...]]


MIN_WORDS, MIN_CHARS, MAX_CHARS = (
    3,
    15,
    500,
)  # What is shorter stands in any talk; what is longer is no rule.
# Tools that change the files that they name; of a shell a transcript names those of a patch alone.
EDITS = re.compile(r"edit|write|patch|replace|create|exec|shell", re.IGNORECASE)


# A digest may be that many times as large as `sessions.max_bytes` here: who captured it may have set another limit.
TOLERANCE = 2


def find_quote(session: Session, words: str) -> FoundQuote:
    """The last turn of a person in which these words stand. Raises UsageError: bad-quote, quote-not-said."""
    wanted = _fold(words)
    if not _is_long_enough(wanted) or len(wanted) > MAX_CHARS:
        message = f"a quote has at least {MIN_WORDS} words and {MIN_CHARS} characters, and {MAX_CHARS} at most"
        raise UsageError(message, slug="bad-quote", hint="Quote the sentence that says the rule.")
    turns = (turn for turn in reversed(_list_proving(session)) if _is_said(turn, wanted))
    if turn := next((turn for turn in turns if not _was_shown_before(session, turn, wanted)), None):
        return _quote(session, turn, wanted)
    message = f"no person said these words in the session {session.key}"
    hint = "Quote what a person typed, word for word; what was pasted, quoted or fenced does not count."
    raise UsageError(message, slug="quote-not-said", hint=hint)


def find_turn(session: Session, number: int) -> FoundQuote:
    """What steers in a person's turn, counted from 1 (0: the last), else its first paragraph. Raises UsageError
    (bad-quote)."""
    turns = _list_proving(session)
    turn = turns[number - 1] if 0 <= number <= len(turns) and turns else None
    passages = list(_list_passages(turn.text)) if turn else []
    steering = [_fold(found.text) for passage in passages for found in find_steering(passage)]
    words = next((one for one in (*steering, *map(_fold, passages)) if _is_long_enough(one)), "")
    if turn is None or not 0 < len(words) <= MAX_CHARS:
        message = f"turn {number} of {session.key} has nothing to quote: people typed {plural(len(turns), 'turn')}"
        raise UsageError(message, slug="bad-quote", hint="Give the words: --quote WORDS.")
    return _quote(session, turn, words)


def check_title(session: Session, title: str, evidence: str) -> None:
    """Raise UsageError (opposite-of-the-quotes) if a title says the opposite of what a line of evidence quotes."""
    address, _, words = evidence.partition(" ")
    turns = [
        turn
        for turn in _list_proving(session)
        if str(turn.origin.line) == address.rpartition("#")[2]
    ]
    if sentences := _find_contradicted(title, turns, words):
        message = f"the title says the opposite of what was said: {sentences[0]}"
        hint = "Say in the title what the person said."
        raise UsageError(message, slug="opposite-of-the-quotes", hint=hint)


def is_captured(
    workspace: Workspace,
    sessions: Sequence[StoredSession],
    address: str,
    words: str,
    title: str = "",
) -> bool:
    """Return whether in a captured session a person says these words at `<agent>:<id>#<line>`.

    A title that says the opposite of them is not proved by them.
    """
    key, _, line = address.rpartition("#")
    ref = session_ref(*key.split(":", 1)) if ":" in key else ""
    wanted, limit = _fold(words), workspace.config.sessions.max_bytes * TOLERANCE
    for stored, data in read_stored(
        workspace.repo, [one for one in sessions if one.ref == ref], limit
    ):
        for session in read(io.BytesIO(data), stored.id):
            turns = [turn for turn in _list_proving(session) if str(turn.origin.line) == line]
            said = [turn for turn in turns if _is_said(turn, wanted)]
            is_theirs = any(not _was_shown_before(session, turn, wanted) for turn in said)
            is_quote = session.key == key and _is_long_enough(wanted) and is_theirs
            return is_quote and not _find_contradicted(title, said, wanted)
    return False


def list_turns(session: Session) -> list[Event]:
    """What people said, reasons of rejections among it."""
    said = (
        event
        for event in session.events
        if event.actor == "human" and event.kind in ("text", "rejection")
    )
    return [event for event in said if event.origin.line and event.text]


def _list_proving(session: Session) -> list[Event]:
    """Return the turns of people that no reply of the agent can have forged."""
    if session.format in FORGEABLE:
        return []
    return [
        turn for turn in list_turns(session) if not (turn.origin.path or "").endswith(TEXT_SUFFIXES)
    ]


def list_edited(session: Session) -> tuple[str, ...]:
    """The files that were edited since a person last said something."""
    last = max((turn.seq for turn in list_turns(session)), default=-1)
    return tuple(
        dict.fromkeys(
            path for edit in _list_edits(session) if edit.seq > last for path in edit.paths
        )
    )


def _list_edits(session: Session) -> list[Event]:
    return [
        event
        for event in session.events
        if event.kind == "tool_call" and EDITS.search(event.tool or "")
    ]


def _list_passages(text: str) -> Iterator[str]:
    """The paragraphs that were typed: no fences, quotations, indented code, long blocks, nothing of a long turn."""
    lines = unfenced_lines(text.splitlines()) if len(text) <= MAX_TURN else ()
    for is_typed, group in groupby(
        lines, lambda line: bool(line.strip()) and not PASTED.match(line)
    ):
        passage = list(group)
        if (
            is_typed
            and len(passage) <= MAX_LINES
            and not (is_output(passage) or _is_of_program(passage))
        ):
            yield "\n".join(passage)


def _is_of_program(lines: Sequence[str]) -> bool:
    """Whether lines have the form of a program's data: people paste them, but nothing shows that they typed them."""
    return (
        bool(PROGRAM_TEXT.search("\n".join(lines)))
        or sum(1 for line in lines if EVENT_FIELD.match(line)) >= 2
    )


def _is_said(turn: Event, wanted: str) -> bool:
    whole = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)")
    return any(whole.search(_fold(passage)) for passage in _list_passages(turn.text))


def _find_contradicted(title: str, turns: Sequence[Event], words: str) -> list[str]:
    """Return the sentences around quoted words if a title says the opposite of them, else none."""
    wanted = _fold(words)
    passages = [_fold(passage) for turn in turns for passage in _list_passages(turn.text)]
    sentences = [find_sentences(wanted, passage) for passage in passages if wanted in passage]
    return sentences if is_opposite(title, sentences) else []


def _was_shown_before(session: Session, turn: Event, wanted: str) -> bool:
    """Whether the quoted words were in the same session before: shown by a program, or as an option of the agent."""
    earlier = (event for event in session.events if event.seq < turn.seq)
    return any(
        wanted in _fold(LINE_NUMBER.sub("", event.text)) for event in earlier if _is_shown(event)
    )


def _is_shown(event: Event) -> bool:
    is_question = event.kind == "tool_call" and event.tool == QUESTION_TOOL
    return event.actor == "injected" or event.kind == "tool_result" or is_question


def _is_long_enough(words: str) -> bool:
    return len(words.split()) >= MIN_WORDS and len(words) >= MIN_CHARS


def _fold(text: str) -> str:
    """As the digest has it, without secrets; quotes straight, white space single."""
    return " ".join(redact(text).text.translate(CURLY).split())


def _quote(session: Session, turn: Event, words: str) -> FoundQuote:
    """With the first files that were edited after the turn; where there are none, with the last before it."""
    edits = _list_edits(session)
    after = dict.fromkeys(path for event in edits if event.seq > turn.seq for path in event.paths)
    before = dict.fromkeys(
        path for event in reversed(edits) if event.seq < turn.seq for path in event.paths
    )
    return f"session:{session.key}#{turn.origin.line} {words}", tuple(after or before)[:MAX_EDITED]
