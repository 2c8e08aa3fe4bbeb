"""Questions at a terminal, one after another, with the keys of `git add -p`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from memory_ci.cli.common import ask_text
from memory_ci.cli.plain import say
from memory_ci.commands.review.review import Answers
from memory_ci.errors import MemoryCIError
from memory_ci.findings import printable
from memory_ci.records.candidate import Answer, Question, QuestionKind, Repetition

MAX_CHANGES = 3
"""Changes that a question names."""

ASKED: dict[QuestionKind, str] = {
    "request": "Make it a rule?",
    "failure": "Warn agents before they run it?",
    "check": "Remind agents of it before they commit?",
    "promotion": "Keep it for all repositories?",
}
"""What is asked about a proposal that is not just a sentence to keep."""

Edit = Callable[[Question], str]
"""Returns the text of a question as a person rewords it."""

Try = Callable[[Question, Answer, str | None], None]
"""Raises the error that an answer, with other words or None, would lead to when it is written."""


class _Reply(NamedTuple):
    """The answer of a person to one question.

    Attributes:
        key: the key.
        text: other words, None for none.
    """

    key: str
    text: str | None = None


def ask_each(listed: Sequence[Question], edit: Edit, attempt: Try) -> Answers:
    """Ask a person each question in turn, until there is none left or the person stops.

    A question whose answer cannot be written is asked again, so that no other answer is lost.

    Args:
        listed: the questions.
        edit: lets the person reword the text of a question.
        attempt: tries an answer.
    """
    by_verb: dict[Answer, list[Question]] = {}
    texts: dict[str, str] = {}
    skipped: list[Question] = []
    key_for_rest = ""
    for number, question in enumerate(listed, start=1):
        reply = _find_reply(question, key_for_rest, attempt)
        if reply is None:
            say(f"{number} of {len(listed)}\n\n{_describe(question)}\n")
            reply = _ask(question, edit, attempt)
            key_for_rest = reply.key if reply.key in "ad" else key_for_rest
        if reply.key == "q":
            break
        if reply.key in "sd":
            skipped.append(question)
            continue
        if reply.text is not None:
            texts[question.key] = reply.text
        by_verb.setdefault(_verb_of(question, reply.key), []).append(question)
    return Answers(by_verb, texts, skipped)


def _find_reply(question: Question, key: str, attempt: Try) -> _Reply | None:
    """Return the answer that a person gave to all that follow, None if the question is asked.

    Nobody agrees unseen to what was withheld, or to what cannot be written.
    """
    if key != "a":
        return _Reply(key) if key else None
    if question.kind == "quarantined":
        return None
    try:
        attempt(question, _verb_of(question, key), None)
    except MemoryCIError:
        return None
    return _Reply(key)


def _ask(question: Question, edit: Edit, attempt: Try) -> _Reply:
    """Return an answer that can be written."""
    while True:
        key = _ask_key(question)
        if key in "sdq":
            return _Reply(key)
        try:
            text = edit(question) if key == "e" else None
            attempt(question, _verb_of(question, key), text)
        except MemoryCIError as error:
            hint = f" {error.hint}" if error.hint else ""
            say(printable(f"{error.message}.{hint}"), err=True)
        else:
            return _Reply(key, text)


def _verb_of(question: Question, key: str) -> Answer:
    """Return the answer that a key gives."""
    if key == "x":
        return "never"
    if key == "n":
        return question.answers[1]
    return question.answers[0]


def _ask_key(question: Question) -> str:
    """Return the key that a person chooses.

    An empty answer leaves the question for later; the end of the input quits, as in git.
    """
    keys = _list_keys(question)
    asked = "Does it still hold?"
    if question.answers[0] == "accept":
        asked = ASKED.get(question.kind, "Keep it as a learning?")
    while True:
        key = ask_text(f"{asked} [{','.join(keys)},?]", at_end="q").lower() or "s"
        if key in keys:
            return key
        say("".join(f"{name} - {meaning}\n" for name, meaning in keys.items()), err=True)


def _list_keys(question: Question) -> dict[str, str]:
    """Return the keys of a question with their meanings."""
    if question.answers[0] == "accept":
        keys = {
            "y": "yes, write it into memory",
            "n": "no, and never ask it again",
        }
    else:
        keys = {
            "y": "yes, keep it: it holds for the code as it is",
            "n": "no, retire it: agents are no longer given it",
            "x": "leave it as it is, and never ask it again",
        }
    if _takes_words(question):
        keys["e"] = "edit it first; what you save is written"
    return {
        **keys,
        "s": "skip it for 90 days",
        "a": "yes to this one and to all that follow, but to what was withheld",
        "d": "skip this one and all that follow",
        "q": "quit: what you answered is written, the rest is asked again",
    }


def _takes_words(question: Question) -> bool:
    """Return whether an answer may have other words: not where an entry is kept as it is."""
    proposal = question.suggestion.candidate.proposal if question.suggestion else None
    is_of_entry = proposal is not None and proposal.source == "entry"
    return question.kind != "promotion" and not is_of_entry


def _describe(question: Question) -> str:
    """Return what is asked, why, and the proof, with an empty line between them."""
    paragraphs = [[question.title], *_describe_reason(question)]
    return "\n".join(
        "".join(f"  {printable(line)}\n" for line in lines) for lines in paragraphs if lines
    )


def _describe_reason(question: Question) -> Iterator[list[str]]:
    """Yield the lines of the reason, and those of the proof."""
    if question.located:
        place = question.located
        yield [question.why if question.verdicts else f"{question.kind}: {question.why}"]
        yield place.entry.body.splitlines()
        yield [f"{place.entry.id[:8]} in {place.path}:{place.line}"]
    elif question.suggestion:
        candidate = question.suggestion.candidate
        if candidate.proposal is not None:
            from memory_ci.sessions.backtest_text import describe_proposal

            yield list(describe_proposal(candidate.proposal))
        elif candidate.repetition is not None:
            reason, *proof = describe_repetition(question.why, candidate.repetition)
            yield [reason]
            yield proof
        else:
            yield [f"{question.why}; in {name_changes(question.suggestion.changes)}"]
            yield [f'"{" ".join(quote.text.split())}"' for quote in candidate.quotes]
        yield candidate.body.splitlines()


def name_changes(changes: Sequence[str]) -> str:
    """Return the first changes, and how many others there are."""
    names = ", ".join(changes[:MAX_CHANGES])
    others = f" and {len(changes) - MAX_CHANGES} more" if len(changes) > MAX_CHANGES else ""
    return names + others


def describe_repetition(why: str, repetition: Repetition) -> Iterator[str]:
    """Yield the reason and the moment of serving it, then the words of people with their days."""
    moment = "" if repetition.when == "start" else f"; to be told {repetition.when}"
    yield f"{repetition.kind}: {why}{moment}"
    for quotation in repetition.quotes:
        yield f'"{quotation.text}" ({quotation.day}, {quotation.session})'
    if repetition.hook:
        yield "a hook checks it: add to .pre-commit-config.yaml"
        yield from repetition.hook.splitlines()
