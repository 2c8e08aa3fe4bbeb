"""Make untrusted text harmless between the tags that wrap what agents read (`recalled-memory`)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from memory_ci.regex import Regex

ENTITY = Regex(r"&(?:lt|gt|#0*6[02]|#x0*3[ce])(?:;|(?![0-9a-z]))", re.IGNORECASE)
"""An angle bracket as an HTML entity, which a reader may take for one."""

INVISIBLE = Regex(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but not tab and newline
    # no width, or a change of direction
    r"\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    # formats, tags, surrogates
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)

USELESS_JOINER = Regex(
    r"(?<![^\x00-\x7f\s\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\s\u200c\u200d])"
)
"""Zero-width joiners, except between two letters or signs beyond ASCII.

Persian and emoji are spelled with the latter.
"""

LOOK_ALIKES = {
    look_alike: letter
    for letter, look_alikes in {
        "a": "\u0251\u03b1\u0430\u13aa\u1d00\ua4ee@",
        "c": "\u03f2\u0441\u13df\u1d04\ua4da",
        "d": "\u0111\u0501\u13a0\u1d05\ua4d3",
        "e": "\u03b5\u0435\u0454\u13ac\u1d07\ua4f03",
        "l": "\u0131\u0142\u0269\u029f\u03b9\u0406\u0456\u04cf\u13de\ua4e1i1|",
        "m": "\u043c\u13b7\u1d0d\ua4df",
        "o": "\xf8\u03bf\u043e\u0585\u1d0f\ua4f30",
        "r": "\u0280\u027e\u0433\u13a1\ua4e3",
        "y": "\u028f\u03b3\u03c5\u0443\u04af\u13a9\ua4ec",
        " ": "\u115f\u1160",
    }.items()
    for look_alike in look_alikes
}
"""Signs that look like a letter of the wrapper's name (Unicode UTS 39 confusables, lower case)."""

WRAPPER_NAME = Regex(r"[\W_]{0,4}".join("recalledmemory"))
"""The wrapper's name, with up to four other signs between its letters."""

SURELY_NO_BRACKETS = frozenset(" \t\n.,;:!?'\"`/-_*()[]#")
"""Signs next to the wrapper's name that stay. Any other may look like an angle bracket."""

# Letters in Unicode that look like an angle bracket.
LETTER_BRACKETS = frozenset("\u1433\u1438\u16b2\U00016f3f")

ASCII_LOOK_ALIKES = str.maketrans(
    {sign: letter for sign, letter in LOOK_ALIKES.items() if sign.isascii()}
)

MAX_BRACKET_DISTANCE = 16  # Characters between the name and a bracket of its tag. Chosen by hand.


def neutralise(text: str) -> str:
    """Return text without invisible characters, and without tags that look like the wrapper's.

    All that agents are served is between the tags of the wrapper, and untrusted text must not close
    it. A tag is recognised by its name, whatever its case, spacing, script or accents. The brackets
    around the name become round ones, so that it is no tag any more. HTML entities of brackets
    count as brackets in a text with the name.
    """
    visible = INVISIBLE.sub("", "\n".join(text.splitlines()))
    if visible.isascii():
        folded = visible.lower().translate(ASCII_LOOK_ALIKES)
    else:
        visible = USELESS_JOINER.sub("", visible)
        folded = "".join(map(_fold_character, visible))
    if not WRAPPER_NAME.search(folded):
        return visible

    characters = list(ENTITY.sub("<", visible))
    letters_by_index = [_fold_character(character) for character in characters]
    # A character may be folded to several letters: `㎈` looks like `cal`.
    origins: list[int] = []  # The index of the character of each folded letter.
    for index, letters in enumerate(letters_by_index):
        origins += [index] * len(letters)
    for match in WRAPPER_NAME.finditer("".join(letters_by_index)):
        first = origins[match.start()]
        last = origins[match.end() - 1]
        farthest_before = max(first - MAX_BRACKET_DISTANCE, 0)
        farthest_after = min(last + MAX_BRACKET_DISTANCE, len(characters) - 1)
        _replace_brackets(characters, range(first - 1, farthest_before - 1, -1), "(")
        _replace_brackets(characters, range(last + 1, farthest_after + 1), ")")
    return "".join(characters)


def _replace_brackets(characters: list[str], indices: Iterable[int], replacement: str) -> None:
    """Replace characters next to the wrapper's name that may be taken for an angle bracket.

    All are replaced up to the next letter or digit, apart from SURELY_NO_BRACKETS. Some letters
    look like a bracket, too (LETTER_BRACKETS).

    Args:
        characters: the characters of a text, changed in place.
        indices: the indices to look at, away from the name.
        replacement: the round bracket to put there.
    """
    for index in indices:
        character = characters[index]
        if character.isalnum() and character not in LETTER_BRACKETS:
            return
        if character not in SURELY_NO_BRACKETS:
            characters[index] = replacement


@lru_cache(maxsize=4096)
def _fold_character(char: str) -> str:
    """Return the letters that a character looks like: r for `Ⓡ` and `Ř`, `cal` for `㎈`."""
    decomposed = unicodedata.normalize("NFKD", char).casefold()
    return "".join(LOOK_ALIKES.get(letter, letter) for letter in decomposed)
