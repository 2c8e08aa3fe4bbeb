"""Credentials: patterns that more than one room needs (evidence masks them, extraction refuses them).

A pattern is tried only where one of its literal keywords stands, and compiled when the first of them is met; a keyword
is sought only in a text that holds its word. A match is the group `secret` where a pattern names one, else the whole.
Text already masked (`[redacted:kind]`) never matches.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MASK = re.compile(r"\[redacted:[a-z-]+\]")
ESCAPED = re.compile(r"\\[nrt]")
"""White space as JSON and source code spell it: what follows begins a word."""

FILLER = "\0"
"""Stands for masked text while searching: no pattern accepts it."""


class Secret(NamedTuple):
    """A credential found: its kind, and text[start:end]."""

    kind: str
    start: int
    end: int


class Pattern(NamedTuple):
    """A match begins with one of `keywords` (in lower case), or at most `reach` characters before it.

    A keyword that ends in no letter is sought where its last letters are a word: `ghp_` where `ghp` is one.
    `needs_entropy`: the value must look random, the key alone proves nothing.
    """

    kind: str
    keywords: tuple[str, ...]
    regex: str
    needs_entropy: bool = False
    reach: int = 0


def _pattern(kind: str, keywords: str, regex: str, needs_entropy: bool = False, reach: int = 0) -> Pattern:
    return Pattern(kind, tuple(keywords.split()), regex, needs_entropy, reach)


# What a pattern reads before it can fail is bounded, or a text of nothing but beginnings costs its square.
PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "private-key",
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        # Up to the next beginning at most: a text of nothing but beginnings is gone through once.
        r"(?:(?:(?!-----BEGIN)[^\0]){0,40000}?-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)",
    ),
    _pattern("aws-access-key", "akia asia abia acca", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    _pattern(
        "aws-secret-key",
        "aws",
        r"(?i:aws[\w-]{0,20}secret[\w-]{0,20}(?:key|token)?)\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?"
        r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    _pattern("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9_]{20,255}"),
    _pattern("github-token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,255}"),
    _pattern(
        "gitlab-token",
        "glpat- gldt- glrt- glrtr- glwt- glcbt- glptt- glft- glsoat- glagent- glimt- gloas- glffct-",
        r"\bgl(?:pat|dt|rtr?|wt|cbt|ptt|ft|soat|agent|imt|oas|ffct)-[A-Za-z0-9_.-]{20,}",
    ),
    _pattern("anthropic-key", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    _pattern("openai-key", "sk-", r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|\bsk-[A-Za-z0-9]{32,}\b"),
    _pattern("google-key", "aiza gocspx- ya29.", r"\bAIza[A-Za-z0-9_-]{35}|\bGOCSPX-[\w-]{20,}|\bya29\.[\w-]{20,}"),
    _pattern(
        "slack-token",
        "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{10,}",
    ),
    _pattern(
        "slack-webhook",
        "https://hooks.slack.com/",
        r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{20,}",
    ),
    _pattern(
        "stripe-key",
        "sk_ rk_ whsec_",
        r"\b[sr]k_(?:org_)?(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{20,}",
    ),
    _pattern("npm-token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    _pattern("pypi-token", "pypi-", r"\bpypi-[A-Za-z0-9_-]{50,}"),
    _pattern(
        "huggingface-token", "hf_ api_org_", r"\bhf_[A-Za-z]{30,}\b|\bhf_[A-Za-z0-9]{34,}\b|\bapi_org_[A-Za-z]{34}\b"
    ),
    _pattern("jwt", "eyj", r"\beyJ[A-Za-z0-9_-]{10,8000}+\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    _pattern(
        "url-password",
        "://",
        r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://[^\s/:@\0\"'<>]{0,100}:(?P<secret>[^\s/@\0\"'<>]{3,200})@(?=[\w\[])",
        reach=31,
    ),
    _pattern(
        "netrc-password",
        "machine default",
        r"(?:\bmachine\s+\S+|(?m:^)default)\s+login\s+[^\s\0]+\s+(?:account\s+[^\s\0]+\s+)?password\s+"
        r"(?P<secret>[^\s\0]+)",
    ),
    _pattern(
        "connection-string",
        "accountkey sharedaccesskey",
        r"\b(?:Account|SharedAccess)Key=(?P<secret>[A-Za-z0-9+/=]{40,})",
    ),
    _pattern(
        "connection-string", "password= pwd=", r"[?&](?i:password|pwd)=(?P<secret>[^&\s\0\"'`${<%*]{3,200})", reach=1
    ),
    _pattern(
        "connection-string",
        "host= dbname= user=",
        r"\b(?:host|dbname|user)=[^\s\0]{1,100} (?:[a-z_]{1,20}=[^\s\0]{1,100} ){0,6}password="
        r"(?P<secret>[^\s\0\"'`${<%*]{3,})",
    ),
    _pattern(
        "connection-string",
        "server= host= uid= data user",
        r"\b(?i:(?:server|data source|host|uid|user id)=[^;\s\0]{1,300};(?:[^;\n\0]*;){0,6}\s*(?:pwd|password)=)"
        r"(?P<secret>[^;\s\0\"'${<]{3,})",
    ),
    _pattern(
        "authorization",
        "authorization bearer",
        r"(?i:\bauthorization\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?(?:basic|bearer|token)|\bbearer)\s{1,3}"
        r"(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        needs_entropy=True,
    ),
    _pattern(
        "password",
        "passw pwd secret token api access_key private_key",
        r"(?i:(?:password|passwd|pwd|secret|token|api[_-]?key|access_key|private_key)[\w-]{0,20})"
        r"\\?[\"']?\s{0,3}(?:=|:|:=|=>)\s{0,3}\\?[\"']?(?P<secret>[A-Za-z0-9+/=_.~!@#%^&*-]{10,})",
        needs_entropy=True,
    ),
)


def _by_word(keywords: Iterable[tuple[int, str]]) -> dict[str, list[tuple[int, str]]]:
    table: dict[str, list[tuple[int, str]]] = {}
    for number, keyword in keywords:
        table.setdefault(re.findall("[a-z]+", keyword)[-1], []).append((number, keyword))
    return table


KEYWORDS = [(number, keyword) for number, pattern in enumerate(PATTERNS) for keyword in pattern.keywords]
WITHIN_WORDS = [(number, keyword) for number, keyword in KEYWORDS if keyword[-1].isalpha() or keyword == "://"]
BY_WORD = _by_word(place for place in KEYWORDS if place not in WITHIN_WORDS)

LETTERS = bytes(byte if chr(byte) in "abcdefghijklmnopqrstuvwxyz" else ord(" ") for byte in range(256))
"""A table for bytes.translate: all but a-z becomes a blank."""

NAME_OR_QUANTITY = re.compile(r"[A-Za-z]+\d{0,2}(?:[._/:-]+[A-Za-z]*\d{0,2})*|\d[\d.,]*[A-Za-z]{1,3}")
"""A name made of words (`settings.oauth_token_v2`): what a key is called, not what it is. Or a number with its unit
(`2.119834ms`): what logs say of tokens."""

EXAMPLES = frozenset("password passwd pass secret user token changeme example placeholder pwd".split())


def find_secrets(text: str) -> list[Secret]:
    """Credentials in `text`, in order, not overlapping: the earliest and then the longest wins."""
    masked = ESCAPED.sub(" \n", MASK.sub(lambda match: FILLER * len(match.group()), text))
    lowered = lower_case(masked)
    near = _near_keywords(lowered).items()
    found = [secret for number, keywords in near for secret in _matches(PATTERNS[number], keywords, masked, lowered)]
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
    return kept


def mask_secrets(text: str) -> str:
    """`text` with every credential in it replaced."""
    for secret in reversed(find_secrets(text)):
        text = f"{text[: secret.start]}[redacted:{secret.kind}]{text[secret.end :]}"
    return text


def lower_case(text: str) -> str:
    """`text` in lower case, character for character: what a pattern that ignores case takes for a-z becomes a-z.

    `re.IGNORECASE` takes three characters for letters that `str.lower` leaves, or turns into two.
    """
    if not text.isascii():
        text = text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s")
    return text.lower()


def letter_words(lowered: str) -> list[str]:
    """The runs of a-z in a text of `lower_case`, in order."""
    return lowered.encode("ascii", "replace").translate(LETTERS).decode("ascii").split()


def _near_keywords(lowered: str) -> dict[int, list[str]]:
    """Of each pattern, by its number, the keywords that a text may hold; most texts hold none of any."""
    held = [place for word in BY_WORD.keys() & letter_words(lowered) for place in BY_WORD[word]]
    near: dict[int, list[str]] = {}
    for number, keyword in sorted(held + [place for place in WITHIN_WORDS if place[1] in lowered]):
        near.setdefault(number, []).append(keyword)
    return near


def _matches(pattern: Pattern, keywords: list[str], text: str, lowered: str) -> Iterator[Secret]:
    regex = re.compile(pattern.regex)
    group = "secret" if "secret" in regex.groupindex else 0
    free = 0
    for start in _starts(keywords, pattern.reach, lowered):
        if start >= free and (match := regex.match(text, start)):
            free = match.end()
            value = match.group(group)
            if not _is_example(value) and (not pattern.needs_entropy or _is_random(value)):
                yield Secret(pattern.kind, match.start(group), match.end(group))


def _starts(keywords: list[str], reach: int, lowered: str) -> Iterator[int]:
    """Where a match may begin, each place once, ascending."""
    tried = 0
    for at in sorted(at for keyword in keywords for at in _places(keyword, lowered)):
        yield from range(max(tried, at - reach), at + 1)
        tried = at + 1


def _places(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _is_example(value: str) -> bool:
    """A variable or a stand-in (`$TOKEN`, `<token>`, `***`, `password`), not a credential."""
    return value[0] in "${<%" or len(set(value)) < 3 or value.lower() in EXAMPLES


def _is_random(value: str) -> bool:
    """Letters and digits with at least three bits a character (Shannon), and no name made of words, nor a quantity."""
    if NAME_OR_QUANTITY.fullmatch(value) or not (re.search(r"\d", value) and re.search(r"[A-Za-z]", value)):
        return False
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values()) >= 3.0
