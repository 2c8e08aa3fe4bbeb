"""The dialogues of MemoryCode: their sessions, their instructions, and what says an instruction."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from memory_ci.text import STOP_WORDS, stem, words

Parity = Literal["even", "odd", "all"]
Expression = str | bool | tuple[str, bool]
"""A pattern of names, whether a thing must be there, or what must be there (MemoryCode's README)."""

FILLER_SHARE = 2 / 3  # The share of the content words of a filler that an entry must have.
NO_CONTENT = frozenset("always never use using prefer preferred main work".split())


class Turn(NamedTuple):
    """What one speaker says.

    Attributes:
        is_mentor: whether the mentor says it, who gives the instructions.
    """

    is_mentor: bool
    text: str


class Instruction(NamedTuple):
    """A coding instruction.

    Attributes:
        pivot: the number of the thing that it sets; a later one with the same number replaces it.
        session: the session that gives it, from 0.
        text: its words in the template.
        object: what it is about: `function argument`.
        expression: what the object must be like.
    """

    pivot: int
    session: int
    text: str
    object: str
    expression: Expression


class Dialogue(NamedTuple):
    """A dialogue.

    Attributes:
        fillers: instructions that are not about code, as `always use a linter`.
    """

    number: int
    sessions: tuple[tuple[Turn, ...], ...]
    instructions: tuple[Instruction, ...]
    fillers: tuple[str, ...]


def read_dialogues(directory: Path, parity: Parity = "even") -> list[Dialogue]:
    """Return the dialogues of a directory in the order of their numbers."""
    numbered: list[tuple[int, Path]] = []
    for path in directory.glob("dialogue_*.json"):
        number = path.stem.removeprefix("dialogue_")
        if number.isdecimal() and parity in ("all", ("even", "odd")[int(number) % 2]):
            numbered.append((int(number), path))
    return [
        parse_dialogue(number, json.loads(path.read_text(encoding="utf-8")))
        for number, path in sorted(numbered)
    ]


def parse_dialogue(number: int, data: dict[str, Any]) -> Dialogue:
    """Return a dialogue of the data set."""
    names = (data["context"]["mentor"], data["context"]["mentee"])
    fillers = [
        topic
        for session in data["sessions"]
        for kind, topic in zip(session["type"], session["topic"], strict=True)
        if kind.startswith("filler-instruction")
    ]
    return Dialogue(
        number=number,
        sessions=tuple(tuple(split_turns(session["text"], *names)) for session in data["sessions"]),
        instructions=tuple(_list_instructions(data)),
        fillers=tuple(dict.fromkeys(fillers)),
    )


def _list_instructions(data: dict[str, Any]) -> Iterator[Instruction]:
    for number, session in enumerate(data["sessions"]):
        topics = [
            topic
            for kind, topic in zip(session["type"], session["topic"], strict=True)
            if kind.startswith("instruction-")
        ]
        pivots = [pair for pair in data["instructions"][number] if pair != -1]
        for topic, (kind, wanted), (pivot, _) in zip(
            topics, session["session_regex"], pivots, strict=True
        ):
            expression = (wanted[0], wanted[1]) if isinstance(wanted, list) else wanted
            yield Instruction(pivot, number, topic, kind, expression)


def split_turns(text: str, mentor: str, mentee: str) -> Iterator[Turn]:
    """Yield the turns of a session; a text before the first name belongs to nobody.

    >>> [turn.text for turn in split_turns('Al: "Hi."\\n\\nBo: Hello.\\nWell.', "Al", "Bo")]
    ['Hi.', 'Hello.\\nWell.']
    """
    own_names = [mentor, _initials(mentor)]
    names = "|".join(re.escape(name) for name in (*own_names, mentee, _initials(mentee)))
    speaker = re.compile(rf"^\s*\**({names})\**\s*(?:\([^)\n]*\))?\s*:\**\s*", re.MULTILINE)
    starts = list(speaker.finditer(text))
    for number, match in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        words_of_turn = text[match.end() : end].strip()
        if words_of_turn.startswith('"') and words_of_turn.endswith('"'):
            words_of_turn = words_of_turn[1:-1].strip()
        yield Turn(match[1] in own_names, words_of_turn)


def _initials(name: str) -> str:
    """Return a name as some dialogues shorten it: `E` of Ethan, `Y.S.` of Yoon-Seo."""
    letters = [part[:1] for part in re.split(r"[ -]", name)]
    return letters[0] if len(letters) == 1 else "".join(f"{letter}." for letter in letters)


# -- what says an instruction

OBJECTS = {
    "function": r"functions?",
    "method": r"methods?",
    "class": r"class(?:es)?",
    "variable": r"variables?",
    "attribute": r"attributes?",
    "function argument": r"(?:arguments?|parameters?|args)",
}
CONSTRUCTS = {
    "docstring": r"doc-?strings?",
    "try": r"try(?:[/ -]|\b)|exception[ -]handling",
    "assert": r"assert(?:ions?|s)?\b",
    "annotation": r"annotat\w+|type hints?",
}
STYLES = {
    "snake_case": r"snake[ _-]?case",
    "CamelCase": r"camel[ _-]?case|pascal[ _-]?case",
    "UPPERCASE": r"upper[ _-]?case|all[ -]caps|capital letters",
}


def says(text: str, instruction: Instruction) -> bool:
    """Return whether a text names the object of an instruction and what it must be like."""
    return all(re.search(rf"(?i){pattern}", text) for pattern in list_activities(instruction))


def list_activities(instruction: Instruction) -> list[str]:
    """Return the patterns of words that say an instruction, all of which must be there.

    >>> list_activities(Instruction(1, 0, "start function names with 'f_'", "function", "^f_.*"))
    ["(?<![\\\\w])f_(?![\\\\w])", '\\\\bfunctions?\\\\b']
    """
    kind, expression = instruction.object, instruction.expression
    if kind == "comment":
        return [r"\bcomment(?:s|ed|ing)?\b"]
    if kind == "import":
        module = expression[0] if isinstance(expression, tuple) else ""
        return [rf"(?<!\w){re.escape(module)}(?!\w)", r"\b(?:import\w*|modules?|librar\w+)\b"]
    thing, _, construct = kind.partition(" ")
    if isinstance(expression, tuple):
        return [rf"\b{re.escape(expression[0])}(?!\w)", rf"\b{OBJECTS[thing]}\b"]
    if isinstance(expression, bool):
        return [rf"\b(?:{CONSTRUCTS[construct]})", rf"\b{OBJECTS[thing]}\b"]
    named = rf"\b{OBJECTS[kind]}\b"
    quoted = re.search(r"'(\w+)'", instruction.text)
    if quoted:
        return [rf"(?<!\w){re.escape(quoted[1])}(?!\w)", named]
    for style, pattern in STYLES.items():
        if style in instruction.text:
            return [pattern, named]
    return [r"\b(?:digit|number|numeral)s?\b", named]


def says_filler(text: str, topic: str) -> bool:
    """Return whether a text has most words of an instruction that is not about code."""
    wanted = set(_stems(topic))
    return len(wanted & set(_stems(text))) >= FILLER_SHARE * len(wanted)


def _stems(text: str) -> Sequence[str]:
    return [stem(word) for word in words(text) if word not in STOP_WORDS and word not in NO_CONTENT]
