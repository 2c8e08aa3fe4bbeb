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

IDLE_JOINER = Regex(
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

NAME = Regex(r"[\W_]{0,4}".join("recalledmemory"))

HARMLESS = frozenset(" \t\n.,;:!?'\"`/-_*()[]#")
"""Signs that may be next to the wrapper's name; brackets of any script may not."""

# Letters in Unicode that look like an angle bracket.
LETTER_BRACKETS = frozenset("\u1433\u1438\u16b2\U00016f3f")

ASCII_LOOK_ALIKES = str.maketrans(
    {sign: letter for sign, letter in LOOK_ALIKES.items() if sign.isascii()}
)

REACH = 16  # Signs next to the name that are replaced at most.


def neutralise(text: str) -> str:
    """Return text without invisible characters, and without tags that look like the wrapper's.

    All that agents are served is between the tags of the wrapper, and untrusted text must not close
    it. A tag is recognised by its name, whatever its case, spacing, script or accents; its brackets
    become round ones. HTML entities of brackets count as brackets in a text with the name.
    """
    visible = INVISIBLE.sub("", "\n".join(text.splitlines()))
    if visible.isascii():
        plain = visible.lower().translate(ASCII_LOOK_ALIKES)
    else:
        visible = IDLE_JOINER.sub("", visible)
        plain = "".join(map(_fold, visible))
    if not NAME.search(plain):
        return visible

    chars = list(ENTITY.sub("<", visible))
    folded = [_fold(char) for char in chars]
    origins: list[int] = []  # The index in `chars` of each folded letter.
    for index, letters in enumerate(folded):
        origins += [index] * len(letters)
    for match in NAME.finditer("".join(folded)):
        first = origins[match.start()]
        last = origins[match.end() - 1]
        _round_brackets(chars, range(first - 1, max(first - 1 - REACH, -1), -1), "(")
        _round_brackets(chars, range(last + 1, min(last + 1 + REACH, len(chars))), ")")
    return "".join(chars)


def _round_brackets(chars: list[str], indices: Iterable[int], bracket: str) -> None:
    """Replace characters that may be brackets, up to the next letter or digit.

    Args:
        chars: the characters of a text, which are changed.
        indices: the places to look at, in order.
        bracket: the round bracket to put there.
    """
    for index in indices:
        if chars[index].isalnum() and chars[index] not in LETTER_BRACKETS:
            return
        if chars[index] not in HARMLESS:
            chars[index] = bracket


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    """Return the letters that a character looks like: r for `Ⓡ` and `Ř`, `cal` for `㎈`."""
    plain = unicodedata.normalize("NFKD", char).casefold()
    return "".join(LOOK_ALIKES.get(letter, letter) for letter in plain)
