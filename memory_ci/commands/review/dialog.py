"""Questions at a terminal, one after another, with the keys of `git add -p`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from memory_ci.cli.common import ask_text
from memory_ci.cli.plain import say
from memory_ci.commands.review.review import Answers
from memory_ci.findings import printable
from memory_ci.records.candidate import Answer, Question, Repetition

MAX_CHANGES = 3
"""Changes that a question names."""

Edit = Callable[[Question], str]
"""Returns the text of a question as a person rewords it."""


def ask_each(listed: Sequence[Question], edit: Edit) -> Answers:
    """Ask a person each question in turn, until there is none left or the person stops.

    Args:
        listed: the questions.
        edit: lets the person reword the text of a question.

    Raises:
        click.Abort: the person interrupts.
        UsageError: whatever `edit` raises.
    """
    by_verb: dict[Answer, list[Question]] = {}
    texts: dict[str, str] = {}
    skipped: list[Question] = []
    key_for_rest = ""
    for number, question in enumerate(listed, start=1):
        key = key_for_rest
        if not key:
            say(f"{number} of {len(listed)}\n\n{_describe(question)}\n")
            key = _ask_key(question)
        if key == "q":
            break
        if key in "ad":
            key_for_rest = key
        if key in "sd":
            skipped.append(question)
            continue
        if key == "e":
            texts[question.key] = edit(question)
        by_verb.setdefault(_verb_of(question, key), []).append(question)
    return Answers(by_verb, texts, skipped)


def _verb_of(question: Question, key: str) -> Answer:
    """Return the answer that a key gives."""
    if key == "x":
        return "never"
    if key == "n":
        return question.answers[1]
    return question.answers[0]


def _ask_key(question: Question) -> str:
    """Return the key that a person chooses; an empty answer leaves the question for later."""
    keys = _list_keys(question)
    asked = "Keep it as a learning?" if question.answers[0] == "accept" else "Does it still hold?"
    while True:
        key = ask_text(f"{asked} [{','.join(keys)},?]").lower() or "s"
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
    return {
        **keys,
        "e": "edit it first; what you save is written",
        "s": "skip it for 90 days",
        "a": "yes to this one and to all that follow",
        "d": "skip this one and all that follow",
        "q": "quit: what you answered is written, the rest is asked again",
    }


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
