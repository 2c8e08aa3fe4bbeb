"""Untrusted text, made harmless inside the block that agents read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


ENTITY = re.compile(r"&(?:lt|gt|#0*6[02]|#x0*3[ce])(?:;|(?![0-9a-z]))", re.IGNORECASE)
"""An angle bracket as HTML writes it, which a reader may take for one."""


INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but not tab and newline
    r"\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # no width, or turning the line
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"  # formats, tags, half characters
)


IDLE_JOINER = re.compile(
    r"(?<![^\x00-\x7f\s\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\s\u200c\u200d])"
)
"""Zero-width joiners, except between two letters or signs beyond ASCII: Persian and emoji are spelled with them."""


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
"""Signs that pass for a letter of the wrapper's name, or for nothing (Unicode UTS 39 confusables, lower case)."""


NAME = re.compile(r"[\W_]{0,4}".join("recalledmemory"))


HARMLESS = frozenset(" \t\n.,;:!?'\"`/-_*()[]#")
"""What may stand beside the wrapper's name in a text that speaks of it; brackets of any script may not."""


LETTER_BRACKETS = frozenset(
    "\u1433\u1438\u16b2\U00016f3f"
)  # Letters, for Unicode, that look like an angle bracket.


ASCII_LOOK_ALIKES = str.maketrans(
    {sign: letter for sign, letter in LOOK_ALIKES.items() if sign.isascii()}
)


REACH = 16  # How many signs beside the name are looked at.


def neutralise(text: str) -> str:
    """`text` without what cannot be seen, and without any tag that could be taken for the wrapper's.

    A tag is known by its name, whatever its case, spacing, script or accents; its brackets become round ones. Brackets
    written as HTML entities are brackets in a text that has the name.
    """
    seen = INVISIBLE.sub("", "\n".join(text.splitlines()))
    seen = seen if seen.isascii() else IDLE_JOINER.sub("", seen)
    # What `text` looks like in plain lower-case letters.
    if not NAME.search(
        seen.lower().translate(ASCII_LOOK_ALIKES) if seen.isascii() else "".join(map(_fold, seen))
    ):
        return seen
    seen = ENTITY.sub("<", seen)
    folded = [_fold(char) for char in seen]
    origins = [
        place for place, letters in enumerate(folded) for _ in letters
    ]  # where each letter comes from
    chars = list(seen)
    for name in NAME.finditer("".join(folded)):
        first, last = origins[name.start()], origins[name.end() - 1]
        _round(chars, range(first - 1, max(first - 1 - REACH, -1), -1), "(")
        _round(chars, range(last + 1, min(last + 1 + REACH, len(chars))), ")")
    return "".join(chars)


def _round(chars: list[str], places: Iterable[int], bracket: str) -> None:
    """Replace in place what is not harmless, up to the next letter or digit."""
    for place in places:
        if chars[place].isalnum() and chars[place] not in LETTER_BRACKETS:
            return
        if chars[place] not in HARMLESS:
            chars[place] = bracket


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    """The letters that `char` passes for: `Ⓡ` and `Ř` are r, one square sign is `cal`."""
    plain = unicodedata.normalize("NFKD", char).casefold()
    return "".join(LOOK_ALIKES.get(letter, letter) for letter in plain)
