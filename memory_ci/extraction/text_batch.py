"""The gate for many texts at once: what `check_words` returns for each, in less time.

A pattern cannot match without one of its words. Most words of the patterns are in none of the texts
of a file. So each is looked for once in all texts, and in a single text only if that found it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memory_ci.extraction.gate import (
    FORMS,
    Form,
    check_words,
    has_form,
    has_hidden_characters,
    has_required_strings,
)
from memory_ci.extraction.injection import (
    PhraseClues,
    find_injection,
    find_phrase_clues,
    fold_lowered,
)
from memory_ci.secrets import SecretClues, find_secret_clues, find_secrets, split_words

SEPARATOR = " \0 "
"""Separates joined texts: no word, escape or emphasis can begin before it and end after it."""


VISIBLE = bytes(range(0x20, 0x7F)) + b"\n\0"
"""The characters of ASCII without control characters, but with the line feed and SEPARATOR's."""


class TextBatch(msgspec.Struct, frozen=True):
    """Texts in ASCII, and the parts of patterns that some of them hold.

    Attributes:
        texts: the texts.
        lowered: the texts in lower case.
        folded: the texts as phrases are matched, in lower case.
        is_printable: whether no text has a control character but the line feed.
        forms: the forms that may be in one of the texts.
        secrets: which patterns of credentials may match one of the texts.
        phrases: which phrases of injected instructions may match one of the texts.
    """

    texts: Sequence[str]
    lowered: Sequence[str]
    folded: Sequence[str]
    is_printable: bool
    forms: Sequence[Form]
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
    """Return what the check of each text needs, found once in all texts joined by SEPARATOR."""
    joined = SEPARATOR.join(texts)
    lowered = joined.lower()
    vocabulary = set(split_words(lowered))
    # The form in which injected instructions are matched. It is often the text itself.
    folded = fold_lowered(lowered, vocabulary)
    folded_vocabulary = vocabulary if folded == lowered else set(split_words(folded))
    return TextBatch(
        texts=texts,
        lowered=lowered.split(SEPARATOR),
        folded=folded.split(SEPARATOR),
        is_printable=not joined.encode("ascii").translate(None, VISIBLE),
        forms=[form for form in FORMS if has_required_strings(form, lowered)],
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
        reasons += [form.reason for form in batch.forms if has_form(form, text, lowered)]
        if credentials and batch.secrets.may_be_in(text, lowered) and find_secrets(text):
            reasons.append("credential")
        if batch.phrases.may_be_in(batch.folded[index]):
            reasons += [injection.reason for injection in find_injection(text)]
        all_reasons.append(reasons)
    return all_reasons
