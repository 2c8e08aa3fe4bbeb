"""Credentials: patterns that more than one room needs (evidence masks them, extraction refuses them).

Each pattern is tried only where one of its literal keywords stands, so a long text costs one scan. A match is the
group `secret` where a pattern names one, else the whole. Text already masked (`[redacted:kind]`) never matches.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import NamedTuple

MASK = re.compile(r"\[redacted:[a-z-]+\]")
FILLER = "\0"
"""Stands for masked text while searching: no pattern accepts it."""


class Secret(NamedTuple):
    """A credential found: its kind, and text[start:end]."""

    kind: str
    start: int
    end: int


class Pattern(NamedTuple):
    """`keywords` in lower case; `needs_entropy`: the value must look random, the key alone proves nothing."""

    kind: str
    keywords: tuple[str, ...]
    regex: re.Pattern[str]
    needs_entropy: bool = False


def _pattern(kind: str, keywords: str, regex: str, needs_entropy: bool = False) -> Pattern:
    return Pattern(kind, tuple(keywords.split()), re.compile(regex), needs_entropy)


PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "private-key",
        "private key",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^\0]*?-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)",
    ),
    _pattern("aws-access-key", "akia asia abia acca", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    _pattern(
        "aws-secret-key",
        "aws",
        r"(?i:aws[\w-]{0,20}secret[\w-]{0,20}(?:key|token)?)[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
        r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    _pattern("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9_]{20,255}"),
    _pattern("github-token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,255}"),
    _pattern(
        "gitlab-token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- glimt- gloas- glffct-",
        r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas|ffct)-[A-Za-z0-9_.-]{20,}",
    ),
    _pattern("anthropic-key", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    _pattern("openai-key", "sk-", r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|\bsk-[A-Za-z0-9]{32,}\b"),
    _pattern("google-key", "aiza gocspx- ya29.", r"\bAIza[A-Za-z0-9_-]{35}|\bGOCSPX-[\w-]{20,}|\bya29\.[\w-]{20,}"),
    _pattern("slack-token", "xox xapp-", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{10,}"),
    _pattern(
        "slack-webhook", "hooks.slack.com", r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{20,}"
    ),
    _pattern("stripe-key", "sk_ rk_ whsec_", r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{20,}"),
    _pattern("npm-token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    _pattern("pypi-token", "pypi-", r"\bpypi-[A-Za-z0-9_-]{50,}"),
    _pattern(
        "huggingface-token", "hf_ api_org_", r"\bhf_[A-Za-z]{30,}\b|\bhf_[A-Za-z0-9]{34,}\b|\bapi_org_[A-Za-z]{34}\b"
    ),
    _pattern("jwt", "eyj", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    _pattern(
        "url-password",
        "://",
        r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://[^\s/:@\0\"'<>]{0,100}:(?P<secret>[^\s/@\0\"'<>]{3,200})@(?=[\w\[])",
    ),
    _pattern("netrc-password", "machine", r"\bmachine\s+\S+\s+login\s+[^\s\0]+\s+password\s+(?P<secret>[^\s\0]+)"),
    _pattern("connection-string", "accountkey", r"\bAccountKey=(?P<secret>[A-Za-z0-9+/=]{40,})"),
    _pattern(
        "connection-string",
        "pwd= password=",
        r"(?i:\b(?:server|data source|host|uid|user id)=[^;\s\0]+;(?:[^;\n\0]*;){0,6}\s*(?:pwd|password)=)"
        r"(?P<secret>[^;\s\0\"'${<]{3,})",
    ),
    _pattern(
        "authorization",
        "authorization bearer",
        r"(?i:\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:basic|bearer|token)|\bbearer)\s{1,3}"
        r"(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        needs_entropy=True,
    ),
    _pattern(
        "password",
        "password passwd pwd secret token api_key apikey api-key access_key private_key",
        r"(?i:[\w-]{0,40}(?:password|passwd|pwd|secret|token|api[_-]?key|access_key|private_key)[\w-]{0,20})"
        r"[\"']?\s{0,3}(?:=|:|:=|=>)\s{0,3}[\"']?(?P<secret>[A-Za-z0-9+/=_.~!@#%^&*-]{10,})",
        needs_entropy=True,
    ),
)

WORDY = re.compile(r"[A-Za-z]+\d{0,2}(?:[._/:-]+[A-Za-z]*\d{0,2})*")
"""A name made of words (`settings.oauth_token_v2`): what a key is called, not what it is."""

EXAMPLES = frozenset("password passwd pass secret user token changeme example placeholder pwd".split())


def find_secrets(text: str) -> list[Secret]:
    """Credentials in `text`, in order, not overlapping: the earliest and then the longest wins."""
    masked = MASK.sub(lambda match: FILLER * len(match.group()), text)
    lowered = masked.lower()
    found = [
        secret
        for pattern in PATTERNS
        if any(keyword in lowered for keyword in pattern.keywords)
        for secret in _matches(pattern, masked)
    ]
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
    return kept


def _matches(pattern: Pattern, text: str) -> list[Secret]:
    group = "secret" if "secret" in pattern.regex.groupindex else 0
    return [
        Secret(pattern.kind, match.start(group), match.end(group))
        for match in pattern.regex.finditer(text)
        if not _is_example(match.group(group)) and (not pattern.needs_entropy or _is_random(match.group(group)))
    ]


def _is_example(value: str) -> bool:
    """A variable or a stand-in (`$TOKEN`, `<token>`, `***`, `password`), not a credential."""
    return value[0] in "${<%" or len(set(value)) < 3 or value.lower() in EXAMPLES


def _is_random(value: str) -> bool:
    """Letters and digits with at least three bits a character (Shannon), and not a name made of words."""
    if WORDY.fullmatch(value) or not (re.search(r"\d", value) and re.search(r"[A-Za-z]", value)):
        return False
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values()) >= 3.0
