"""Masking: secrets, e-mail addresses and home directories leave the text before anything reads it."""

from __future__ import annotations

import re

import msgspec

from memory_ci.secrets import find_secrets

EMAIL = re.compile(r"(?<![\w.+%/${-])(?!git@)[\w.+%-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}(?![\w-])")
"""`git@host:path` is a clone address, no mailbox."""

HOME = re.compile(r"(?<![\w.~/-])(?:/home/|/Users/|[A-Za-z]:\\{1,2}Users\\{1,2})[^\s/\\:;,'\"`<>()\[\]]+")
"""A home directory with its user's name; `https://host/home/x` is none, so nothing may stand before it."""


class Redacted(msgspec.Struct, frozen=True):
    """Text without secrets, how many spans were masked and how many of them were credentials, and the kinds, sorted."""

    text: str
    count: int
    kinds: tuple[str, ...]

    credentials: int = 0


def redact(text: str) -> Redacted:
    """Mask what must not be read or kept. Idempotent: rounds repeat until nothing is found any more.

    A round only shortens the unmasked text, so the rounds end; nearly always the second finds nothing.
    """
    kinds: list[str] = []
    while found := _find(text):
        text = _masked(text, found)
        kinds += (kind for kind, *_ in found)
    credentials = sum(kind not in ("email", "home") for kind in kinds)
    return Redacted(text, len(kinds), tuple(sorted(set(kinds))), credentials)


def _masked(text: str, found: list[tuple[str, int, int, str]]) -> str:
    """`text` with every span replaced, in one pass: they are in order, and do not overlap."""
    pieces, seen = [], 0
    for _, start, end, mask in found:
        pieces += [text[seen:start], mask]
        seen = end
    return "".join([*pieces, text[seen:]])


def _find(text: str) -> list[tuple[str, int, int, str]]:
    """Spans to mask of the first kind of finding there is: secrets, else addresses, else homes."""
    secrets = [(kind, start, end, f"[redacted:{kind}]") for kind, start, end in find_secrets(text)]
    emails = [("email", *match.span(), "[redacted:email]") for match in EMAIL.finditer(text)]
    return secrets or emails or [("home", *match.span(), "~") for match in HOME.finditer(text)]
