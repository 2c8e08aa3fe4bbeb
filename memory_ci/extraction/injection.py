"""Injection: phrases that speak to an agent to change whom it obeys, what it hides, or which guard it drops.

A table of patterns over folded text (NFKC, invisible characters and emphasis removed, white space as one blank). The
same words in honest engineering text ("ignore the previous value", "skip tests that need docker") must pass, so a
pattern asks for the object as well as the verb, and patterns about guards pass where the sentence forbids them.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple


class Injection(NamedTuple):
    """Why a text is refused, and the words of it (folded) that made it so."""

    reason: str
    words: str


class Phrase(NamedTuple):
    """`may_be_forbidden`: "never …" in front makes the phrase good advice."""

    reason: str
    regex: re.Pattern[str]
    may_be_forbidden: bool = False


def _any(words: str) -> str:
    """Alternatives, separated by ` | ` for the reader; each is a pattern of its own."""
    return "(?:" + "|".join(part.strip() for part in words.split(" | ")) + ")"


OBEY = _any(
    "ignore | disregard | forget | override | overrule | bypass | neglect | discard | drop | abandon"
    " | stop (?:following|obeying) | (?:do not|don't) (?:follow|obey|heed) | pay no attention to | set aside"
)
FORMER = _any(
    "previous | prior | above | earlier | preceding | foregoing | former | past | initial | original | existing"
    " | system | developer | safety | your | given"
)
ORDERS = _any(
    "instructions? | prompts? | directives? | guidelines? | guardrails? | orders | programming | training"
    " | (?:rules|policies|policy|constraints|commands) you"
)
PEOPLE = r"(?:the |your |any |a )?" + _any(
    "users? | humans? | operator | developer | reviewers? | maintainers? | owner | anyone | anybody | them"
)
CREDENTIALS = _any(
    r"secrets? | credentials? | api[- ]keys? | access tokens? | env(?:ironment)? (?:variables|vars)"
    r" | \.env(?: files?)? | private keys? | ssh keys? | passwords?"
)
ELSEWHERE = r"(?:to|at|into|in|via) " + _any(
    r"https?: | an? (?:external|remote|public) | the attacker | this (?:url|address|server|endpoint) | a? ?webhook"
    r" | pastebin | the (?:commit message|pull request|pr) | \S+@"
)
GUARD = _any(
    "code[- ]review | (?:peer|human|security) review | reviews? | approvals? | review process | branch protections?"
    " | signature verification | commit signing | signing | permission (?:checks?|prompts?) | permissions"
    " | safety (?:checks?|rules?) | guardrails | security (?:checks?|scans?|policies|policy) | validation"
    " | pre-?commit(?: hooks?)? | hooks | test suite | tests | ci(?: checks?)? | checks | linters? | sandbox(?:ing)?"
)
WEAKEN = _any(
    "skip | bypass | disable | ignore | turn off | circumvent | evade | suppress | omit | never run | never wait for"
    " | (?:do not|don't) (?:run|wait for|ask for|request)"
)
TOLD = (
    r"(?:^|[.;:,!] ?|\b"
    + _any(
        "always | just | simply | then | and | please | should | must | can | may"
        " | (?:free|okay|ok|fine|safe|allowed|permitted|authori[sz]ed|encouraged|instructed|required) to"
    ).removesuffix(")")
    + r") )"
)
"""What makes a verb an order or a leave: the start of a clause, a modal, `it is fine to`."""

WHOLLY = (
    r"(?=\s*"
    + _any(
        r"$ | [.,;:!)] | and\b | or\b | to\b | before\b | entirely | altogether | completely | always | anyway | so\b"
        r" | because\b | whenever\b | from now on | (?:if|when) (?:they|it|the|any|tests)\b | for (?:every|all|any)\b"
    )
    + ")"
)
"""What follows when a guard is dropped as such; "tests that need docker" and "checks in CI" go on differently."""


def _phrase(reason: str, regex: str, may_be_forbidden: bool = False) -> Phrase:
    return Phrase(reason, re.compile(regex, re.IGNORECASE), may_be_forbidden)


def _guard(regex: str) -> Phrase:
    return _phrase("weakens-guards", regex, may_be_forbidden=True)


PHRASES: tuple[Phrase, ...] = (
    _phrase("overrides-instructions", rf"\b{OBEY} (?:\w+ ){{0,3}}?{FORMER} (?:\w+ ){{0,2}}?{ORDERS}\b"),
    _phrase(
        "overrides-instructions",
        rf"\b{OBEY} (?:all|any|every|each)(?: of)?(?: (?:the|these|those|other|my|our))* {ORDERS}\b",
    ),
    _phrase(
        "overrides-instructions",
        rf"\b{OBEY} (?:everything|anything|all|what) (?:that )?"
        r"(?:you (?:were|have been|are|know)|(?:was |is )?(?:said |written )?(?:above|before this))",
    ),
    _phrase(
        "overrides-instructions",
        r"\b(?:previous|prior|earlier|other) (?:instructions|directives|guidelines)"
        r" (?:are|is|should be|must be|no longer|do not|have been)\b",
    ),
    _phrase(
        "overrides-instructions",
        r"\b(?:new|real|actual|updated) (?:instructions|orders|objective|mission|system prompt)\s*(?:are\b|is\b|:)",
    ),
    _phrase(
        "overrides-instructions",
        r"\b(?:takes?|has|have) (?:precedence|priority) over (?:\w+ ){0,3}?"
        r"(?:instructions|system prompt|guidelines|directives)\b",
    ),
    _phrase("changes-role", r"\byou are now (?:a|an|in|no longer|free|unrestricted|root|admin|acting)\b"),
    _phrase("changes-role", r"\b(?:from now on|henceforth),? (?:you|the agent|the assistant|always respond|act)\b"),
    _phrase(
        "changes-role",
        r"\bpretend (?:to be|that you|you)\b|\b(?:act as|roleplay as) (?:an? )?(?:unrestricted|root|admin)",
    ),
    _phrase(
        "changes-role",
        r"\b(?:jailbreak|do anything now|developer mode (?:is )?(?:on|enabled)|enter (?:god|admin) mode)\b",
    ),
    _phrase(
        "hides-from-people",
        rf"\b(?:do not|don't|never|without|avoid) (?:tell|inform|alert|notify)(?:ing)? {PEOPLE}"
        r"(?: (?:about|of|that you|what you|this)\b|\s*(?:$|[.,;!]))",
    ),
    _phrase(
        "hides-from-people",
        r"\b(?:do not|don't|never) (?:mention|disclose|reveal|discuss|talk about) (?:this|these|that you|it)\b",
    ),
    _phrase(
        "hides-from-people", rf"\b(?:hide|conceal|keep) (?:this|these|it|your \w+|the fact)\b.{{0,40}}\bfrom {PEOPLE}\b"
    ),
    _phrase("hides-from-people", r"\bsecretly\b|\bkeep (?:this|it) (?:secret|hidden|quiet|between us)\b"),
    _phrase(
        "leaks-secrets",
        r"\b(?:send|post|upload|exfiltrate|leak|transmit|e-?mail|forward|copy|submit|push|include|paste)\b"
        rf" (?:\w+ ){{0,4}}?{CREDENTIALS}(?!\w).{{0,60}}?\b{ELSEWHERE}",
        may_be_forbidden=True,
    ),
    _phrase(
        "leaks-secrets",
        r"\b(?:print|echo|reveal|output|show|repeat|dump) (?:me )?(?:your|the) (?:full |entire |hidden )?"
        r"(?:system prompt|instructions|hidden prompt)\b",
    ),
    _guard(
        rf"{TOLD}{WEAKEN} (?:(?:the|all|any|every|your|our|required|failing|further) )*{GUARD}{WHOLLY}",
    ),
    _guard(
        r"\b(?:delete|remove|comment out|weaken|loosen|relax|disable|skip|xfail|edit|change|rewrite)\b"
        r" (?:\w+ ){0,4}?(?:tests?|assertions?|checks?)\b (?:\w+ ){0,5}?(?:pass(?:es)?|green|succeeds?)\b",
    ),
    _guard(
        r"\bmake (?:\w+ ){0,2}?(?:tests?|ci|checks?|the build) (?:pass|green) by"
        r" (?:delet|remov|skipp|weaken|edit|disabl|loosen|comment)",
    ),
    _guard(
        rf"{TOLD}(?:use|pass|add|append|set|(?:commit|push|run|merge) (?:\w+ )?with) (?:the )?"
        r"(?:--no-verify|--no-gpg-sign|--dangerously[\w-]*|--yolo)",
    ),
    _guard(
        r"\b(?:merge|push|commit|deploy|release|approve|execute|proceed)\b (?:\w+ ){0,5}?without (?:\w+ )?"
        r"(?:asking|permission|confirmation|approval|review|reviewing|waiting|verification|signing)\b",
    ),
    _guard(
        r"\b(?:auto-?)?(?:approve|accept|grant|allow) (?:all|every|any)"
        r" (?:tool calls?|permissions?|permission requests?|requests?|prs?|pull requests?|commands?)\b",
    ),
    _guard(r"\bgrant (?:yourself|the agent|the assistant|everyone)\b"),
    _guard(rf"{TOLD}force[- ]push (?:\w+ ){{0,3}}?(?:main|master|default branch)\b"),
    _phrase(
        "speaks-for-memory",
        r"\bmemory[- ]ci\b.{0,40}?\b(?:verified|approved|trusts?|trusted|guarantees?|authori[sz]\w+|certif\w+"
        r"|instructs?|orders|recommends|permits|wants|endorses?|says)\b",
    ),
    _phrase(
        "speaks-for-memory",
        r"\b(?:this|these) (?:memory|memories|entry|entries|learnings?) (?:\w+ ){0,3}?"
        r"(?:overrides?|outranks?|takes? precedence|must be (?:obeyed|followed)|ha(?:s|ve) priority"
        r"|(?:is|are) (?:authoritative|verified|trusted|mandatory))\b",
    ),
)

LINE_PHRASES: tuple[Phrase, ...] = (
    _phrase("changes-role", r"(?m)^\s*(?:system|assistant|developer)\s*:\s*\S"),
    _phrase("tool-call-syntax", r"<\|[\w ]{2,30}\|>|\[/?INST\]|\[TOOL_CALLS\]"),
    _phrase(
        "tool-call-syntax",
        r"(?<!\w)</?(?:antml:)?(?:function_calls?|invoke|tool_use|tool_call|tool_result|system|assistant|user|instructions?"
        r"|system-reminder|parameter name)\b[^>\n]{0,80}>",
    ),
    _phrase(
        "tool-call-syntax",
        r"[\"']type[\"']\s*:\s*[\"']tool_(?:use|result)[\"']|[\"'](?:tool_calls|function_call)[\"']\s*:",
    ),
)
"""Phrases that are about the shape of the text, so they are sought in it as it stands."""

EMPHASIS = re.compile(r"[*`\"\u201c\u201d]|(?<!\w)_|_(?!\w)|(?<!\w)'|'(?!\w)")
LEAD = re.compile(r"^[\s#>*+\u2022.)\d-]+")
"""Bullets, numbers and heading marks in front of a clause."""

FORBIDDING = re.compile(
    r"\b(?:never|not|don't|doesn't|cannot|can't|mustn't|shouldn't|won't|nobody|no one|avoid|instead of|rather than"
    r"|forbid\w*|refuse[sd]? to|reject\w*)(?: \w+){0,2}$",
    re.IGNORECASE,
)


def find_injection(text: str) -> list[Injection]:
    """Every phrase of the tables that `text` holds, one each, with the words that match.

    The text is read as a whole, since a phrase may be wrapped, and line by line, since a line begins a clause.
    """
    lines = unicodedata.normalize("NFKC", text)
    clauses = [_fold(text), *(_fold(LEAD.sub("", line)) for line in text.splitlines())]
    found = [Injection(phrase.reason, words) for phrase in PHRASES if (words := _match(phrase, clauses))]
    return found + [Injection(phrase.reason, words) for phrase in LINE_PHRASES if (words := _match(phrase, [lines]))]


def _match(phrase: Phrase, texts: list[str]) -> str | None:
    for text in texts:
        for match in phrase.regex.finditer(text):
            before = text[max(match.start() - 40, 0) : match.start()].rstrip()
            if not (phrase.may_be_forbidden and FORBIDDING.search(before)):
                return match.group().strip()
    return None


def _fold(text: str) -> str:
    visible = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    return " ".join(EMPHASIS.sub("", visible.replace("\u2019", "'")).split())
