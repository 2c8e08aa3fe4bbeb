"""Questions to a person at a terminal, one after another, answered by keys as in `git add -p`."""

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

PROMPT_BY_KIND: dict[QuestionKind, str] = {
    "request": "Make it a rule?",
    "failure": "Warn agents before they run it?",
    "check": "Remind agents of it before they commit?",
    "promotion": "Keep it for all repositories?",
}
"""What is asked about a proposal that is not just a sentence to keep."""

KEYS_FOR_REST = "ad"
"""Keys that answer all questions that follow as well: yes, and skip."""

SKIPPING_KEYS = "sd"
"""Keys that leave a question for later."""

Edit = Callable[[Question], str]
"""Returns the text of a question as a person rewords it."""

TryAnswer = Callable[[Question, Answer, str | None], None]
"""Raises the error that an answer, with other words or None, would lead to when it is written."""


class _Reply(NamedTuple):
    """The reply of a person to one question.

    Attributes:
        key: the key that the person typed.
        text: the text as the person reworded it, None if it is unchanged.
    """

    key: str
    text: str | None = None


def ask_each(listed: Sequence[Question], edit: Edit, try_answer: TryAnswer) -> Answers:
    """Ask a person each question in turn, until none is left or the person stops.

    A question whose answer cannot be written is asked again, so that no other answer is lost.

    Args:
        listed: the questions.
        edit: lets the person reword the text of a question.
        try_answer: raises the error that writing an answer would raise.
    """
    by_verb: dict[Answer, list[Question]] = {}
    texts: dict[str, str] = {}
    skipped_questions: list[Question] = []
    key_for_rest = ""
    for number, question in enumerate(listed, start=1):
        reply = _find_reply(question, key_for_rest, try_answer)
        if reply is None:
            say(f"{number} of {len(listed)}\n\n{_describe_question(question)}\n")
            reply = _ask_question(question, edit, try_answer)
            if reply.key in KEYS_FOR_REST:
                key_for_rest = reply.key
        if reply.key == "q":
            break
        if reply.key in SKIPPING_KEYS:
            skipped_questions.append(question)
            continue
        if reply.text is not None:
            texts[question.key] = reply.text
        by_verb.setdefault(_choose_verb(question, reply.key), []).append(question)
    return Answers(by_verb, texts, skipped_questions)


def _find_reply(question: Question, key_for_rest: str, try_answer: TryAnswer) -> _Reply | None:
    """Return the reply to a question that a person has given in advance, None to ask it.

    The person may have typed "yes" or "skip" for all questions that follow. "Yes" does not cover a
    candidate that was withheld, because its words may instruct a model: a person must see them. A
    question whose answer cannot be written is asked as well, which is tried here.

    Args:
        question: the question.
        key_for_rest: the key for all that follow: `a` (yes) or `d` (skip), "" for none.
        try_answer: raises the error that writing an answer would raise.
    """
    if not key_for_rest:
        return None
    is_skip = key_for_rest == "d"
    if is_skip:
        return _Reply(key_for_rest)
    if question.kind == "quarantined":
        return None
    try:
        try_answer(question, _choose_verb(question, key_for_rest), None)
    except MemoryCIError:
        return None
    return _Reply(key_for_rest)


def _ask_question(question: Question, edit: Edit, try_answer: TryAnswer) -> _Reply:
    """Ask a question until the answer can be written; errors are printed."""
    while True:
        key = _ask_key(question)
        if key in SKIPPING_KEYS or key == "q":
            return _Reply(key)
        try:
            text = edit(question) if key == "e" else None
            try_answer(question, _choose_verb(question, key), text)
        except MemoryCIError as error:
            hint = f" {error.hint}" if error.hint else ""
            say(printable(f"{error.message}.{hint}"), err=True)
        else:
            return _Reply(key, text)


def _choose_verb(question: Question, key: str) -> Answer:
    """Return the answer that a key gives to a question.

    The answers of a question are a yes (accept or keep), then a no (never or retire), and for an
    entry also `never`, by the key `x`. The keys `y`, `e` and `a` mean yes.
    """
    answer_yes, answer_no = question.answers[:2]
    if key == "x":
        return "never"
    return answer_no if key == "n" else answer_yes


def _ask_key(question: Question) -> str:
    """Ask for a key until the person chooses one of the question's keys, and return it.

    An empty answer means `s`, which leaves the question for later. The end of the input means `q`,
    which quits, as in git. Any other key prints what the keys mean.
    """
    keys = _list_keys(question)
    prompt = "Does it still hold?"
    if question.answers[0] == "accept":
        prompt = PROMPT_BY_KIND.get(question.kind, "Keep it as a learning?")
    while True:
        key = ask_text(f"{prompt} [{','.join(keys)},?]", at_end="q").lower() or "s"
        if key in keys:
            return key
        say("".join(f"{name} - {meaning}\n" for name, meaning in keys.items()), err=True)


def _list_keys(question: Question) -> dict[str, str]:
    """Return the keys by which a person can answer a question, each with its meaning."""
    keys = {
        "y": "yes, keep it: it holds for the code as it is",
        "n": "no, retire it: agents are no longer given it",
        "x": "leave it as it is, and never ask it again",
    }
    is_proposal = question.answers[0] == "accept"
    if is_proposal:
        keys = {
            "y": "yes, write it into memory",
            "n": "no, and never ask it again",
        }
    if _may_be_reworded(question):
        keys["e"] = "edit it first; what you save is written"
    return {
        **keys,
        "s": "skip it for 90 days",
        "a": "yes to this and all following questions, except withheld ones",
        "d": "skip this one and all that follow",
        "q": "quit: your answers are written, the other questions are asked again",
    }


def _may_be_reworded(question: Question) -> bool:
    """Return whether a person may reword the text of a question before it is written.

    They may reword a candidate and an entry that still holds. But two questions are about an entry
    whose text does not change: whether to copy it to the global memory, and whether to add a
    proposed check to it (`source == "entry"`).
    """
    proposal = question.suggestion.candidate.proposal if question.suggestion else None
    is_of_entry = proposal is not None and proposal.source == "entry"
    return question.kind != "promotion" and not is_of_entry


def _describe_question(question: Question) -> str:
    """Return the text of a question, its reason, and the quotes or the code behind it."""
    paragraphs = [[question.title], *_describe_reason(question)]
    texts: list[str] = []
    for lines in paragraphs:
        if lines:
            texts.append("".join(f"  {printable(line)}\n" for line in lines))
    return "\n".join(texts)


def _describe_reason(question: Question) -> Iterator[list[str]]:
    """Yield the paragraphs of a question as lists of lines: the reason to ask, then the proof."""
    if question.located:
        located = question.located
        # Verdicts on cited code say by themselves what is wrong; other reasons need their kind.
        is_about_code = bool(question.verdicts)
        yield [question.why if is_about_code else f"{question.kind}: {question.why}"]
        yield located.entry.body.splitlines()
        yield [f"{located.entry.id[:8]} in {located.path}:{located.line}"]
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
    """Return the names of the first changes, and how many more there are: `#1, #2 and 3 more`."""
    names = ", ".join(changes[:MAX_CHANGES])
    others = f" and {len(changes) - MAX_CHANGES} more" if len(changes) > MAX_CHANGES else ""
    return names + others


def describe_repetition(why: str, repetition: Repetition) -> Iterator[str]:
    """Yield lines on a repeated request: the reason to ask, then the quotes from sessions.

    If agents would be served the rule later than at the start of their work, the first line says
    when, such as `before:commit`.

    Args:
        why: the reason to ask.
        repetition: the sessions in which people repeated the request.
    """
    moment = "" if repetition.when == "start" else f"; served at {repetition.when}"
    yield f"{repetition.kind}: {why}{moment}"
    for quotation in repetition.quotes:
        yield f'"{quotation.text}" ({quotation.day}, {quotation.session})'
    if repetition.hook:
        yield "a hook checks it: add to .pre-commit-config.yaml"
        yield from repetition.hook.splitlines()
