"""The gate for many texts at once: what `check_words` returns for each, in less time.

A pattern cannot match without one of its words. Most words of the patterns are in none of the texts
of a file. So each is looked for once in all texts, and in a single text only if that found it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memory_ci.extraction.gate import FORMS, check_words, has_form, has_hidden_characters
from memory_ci.extraction.injection import PhraseClues, find_injection, find_phrase_clues, fold
from memory_ci.secrets import SecretClues, find_secret_clues, find_secrets, split_words

SEPARATOR = " \0 "
"""Separates joined texts: no word, escape or emphasis can begin before it and end after it."""


class TextBatch(msgspec.Struct, frozen=True):
    """Texts in ASCII, and the parts of patterns that some of them hold.

    Attributes:
        texts: the texts.
        lowered: the texts in lower case.
        folded: the texts as phrases are matched, in lower case.
        folded_words: the words of each folded text.
        is_printable: whether no text has a control character but the line feed.
        secrets: which patterns of credentials may match one of the texts.
        phrases: which phrases of injected instructions may match one of the texts.
    """

    texts: Sequence[str]
    lowered: Sequence[str]
    folded: Sequence[str]
    folded_words: Sequence[Sequence[bytes]]
    is_printable: bool
    secrets: SecretClues
    phrases: PhraseClues


def check_each(texts: Sequence[str], *, credentials: bool = True) -> list[list[str]]:
    """Return for each text the reasons why it must not be part of a memory file.

    Args:
        texts: the texts.
        credentials: check for credentials; False if the caller has done so.

    Returns:
        What `check_words` returns for each text.
    """
    # Other scripts have to be normalised first, and have rules of their own.
    batched = [text for text in texts if _can_be_batched(text)]
    batched_reasons = iter(_check_batch(_make_batch(batched), credentials=credentials))

    reasons = []
    for text in texts:
        if _can_be_batched(text):
            reasons.append(next(batched_reasons))
        else:
            reasons.append(check_words(text, credentials=credentials))
    return reasons


def _can_be_batched(text: str) -> bool:
    return text.isascii() and "\0" not in text


def _make_batch(texts: Sequence[str]) -> TextBatch:
    """Return what the check of each text needs, found once in all texts joined by SEPARATOR.

    `fold` is the form in which injected instructions are matched. If it changes no text, the words
    need not be split a second time.
    """
    joined = SEPARATOR.join(texts)
    lowered = joined.lower()
    words = [split_words(text) for text in lowered.split(SEPARATOR)]
    vocabulary = set().union(*words)

    folded = fold(joined).lower()
    folded_words = words
    folded_vocabulary = vocabulary
    if folded != lowered:
        folded_words = [split_words(text) for text in folded.split(SEPARATOR)]
        folded_vocabulary = set().union(*folded_words)
    return TextBatch(
        texts=texts,
        lowered=lowered.split(SEPARATOR),
        folded=folded.split(SEPARATOR),
        folded_words=folded_words,
        is_printable=joined.replace("\n", "").replace("\0", "").isprintable(),
        secrets=find_secret_clues(joined, lowered, vocabulary),
        phrases=find_phrase_clues(folded, folded_vocabulary),
    )


def _check_batch(batch: TextBatch, *, credentials: bool) -> list[list[str]]:
    """Return for each text of a batch what `check_words` returns.

    The texts are in ASCII, so their normal form is the text itself, and none mixes scripts.
    """
    all_reasons = []
    for index, text in enumerate(batch.texts):
        lowered = batch.lowered[index]
        reasons = []
        if not batch.is_printable and has_hidden_characters(text):
            reasons.append("hidden-characters")
        reasons += [form.reason for form in FORMS if has_form(form, text, lowered)]
        if credentials and batch.secrets.may_be_in(text, lowered) and find_secrets(text):
            reasons.append("credential")
        if batch.phrases.may_be_in(batch.folded[index], batch.folded_words[index]):
            reasons += [injection.reason for injection in find_injection(text)]
        all_reasons.append(reasons)
    return all_reasons
