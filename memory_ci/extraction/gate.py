"""The gate: what may be written. A learning says nothing but prose."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from memory_ci.extraction.injection import find_injection
from memory_ci.secrets import find_secrets, lower_case

if TYPE_CHECKING:
    from memory_ci.records.candidate import Candidate
    from memory_ci.records.event import Evidence

TITLE_WIDTH = 120
BODY_WIDTH = 600
# Variation selectors: behind an emoji they choose its look, elsewhere they can carry text that nobody sees.
SELECTORS = frozenset(chr(code) for code in range(0xFE00, 0xFE10))
JOINERS = (
    "\u200c\u200d"  # ZWNJ and ZWJ: letters of Persian and of Indic scripts, and the glue of emoji.
)
IMPORT = (
    r"^[^\S\n]*(?:[-*]\s+)?@(?:~/|\.{0,2}/|[\w.-]+(?:/[\w.-]+)*\.(?:md|mdc|txt|json|ya?ml|toml)\b)"
)
FETCH = r"\b(?:curl|wget|iwr|irm|invoke-webrequest|fetch)\b"
SHELL = (
    r"(?:sudo\s+)?(?:/[\w./-]{0,60}/)?(?:env\s+)?"
    r"(?:(?:ba|z|da|k|fi|a)?sh|python[\d.]*|perl|ruby|node|iex|invoke-expression)\b"
)
PIPELINE = (
    rf"(?i){FETCH}\s+[^\n|\s][^\n|]*\|\s*(?:[^\n|]*\|\s*)?{SHELL}"
    rf"|(?:{SHELL}|\beval|\bsource|(?:^|\s)\.)\s+(?:-c\s*)?[\"']?(?:<\(|\$\(|`)\s*{FETCH}"
    rf"|\bbase64\s+(?:-d|-D|--decode)[^\n|]*\|\s*{SHELL}"
)
# An address, with a scheme or without, or whatever a Markdown link or image leads to.
URL = (
    r"(?i)\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>\"'`)\]]+|\bdata:\w+/[\w.+-]+[;,]\S+|\b(?:javascript|mailto):\S+"
    r"|(?<=\]\()[^\s)]+"
)
LOOK_ALIKE = (
    "[\u0400-\u04ff\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5]"
)
# A word of Latin and Cyrillic letters, or of Greek ones that look Latin; `Δt` and `μs` are none.
MIXED_SCRIPT = f"[A-Za-z]{LOOK_ALIKE}|{LOOK_ALIKE}[A-Za-z]"
CODE_SPAN = re.compile(r"`[^`\n]*`")
TAG = (
    r"(?i)(?<![\w<])</?(?:a|abbr|audio|b|base|body|br|button|code|details|div|em|embed|font|form|h[1-6]|head|hr|html|i"
    r"|iframe|img|input|kbd|li|link|meta|object|ol|p|pre|q|s|script|section|select|small|source|span|strong|style|sub"
    r"|summary|sup|svg|table|tbody|td|template|textarea|th|thead|title|tr|u|ul|video)(?:\s[^<>\n]*)?/?>"
)
OURSELVES = r"(?i)\bmemory[-_ ]ci\b"


class Form(NamedTuple):
    """A shape of text and its reason; of each group in `needs`, a text in lower case must hold one for it."""

    reason: str
    needs: tuple[tuple[str, ...], ...]
    regex: str


FORM: tuple[Form, ...] = (
    Form("html-comment", (("<!--", "-->"),), "<!--|-->"),
    Form("import-line", (("@",),), IMPORT),
    Form("front-matter", (("---",),), r"^\s{0,3}---+\s*$"),
    Form(
        "network-pipeline",
        (
            ("|", "`", "<(", "$("),
            ("curl", "wget", "iwr", "irm", "invoke-webrequest", "fetch", "base64"),
        ),
        PIPELINE,
    ),
)

# What nobody may write but the author of a mark: all but plain paragraphs and lists, and claims about this tool.
PLAIN: tuple[Form, ...] = (
    Form("heading", (("#", "=", "-"),), r"^\s{0,3}#{1,6}\s|^\s{0,3}(?:=+|--+)\s*$"),
    Form("code-fence", (("```", "~~~"),), r"^\s*(?:[-*+>]\s+)*(?:```|~~~)"),
    Form("table", (("|",),), r"^\s*\|.*\|\s*$|^[\s|:-]*-\|[\s|:-]*$"),
    Form("html", (("<",),), TAG),
    Form("speaks-of-memory-ci", (("memory",),), OURSELVES),
)


def check_candidate(candidate: Candidate, evidence: Sequence[Evidence]) -> str | None:
    """Why `candidate` must not be written, as one line of reasons, or None. Its quotes are written as well."""
    reasons = check_text(candidate.title, candidate.body)
    for quote in candidate.quotes:
        reasons += check_words(quote.text)
    for text in filter(None, (candidate.instead, candidate.marker)):
        reasons += check_words(text)
    said = "\n".join([candidate.title, candidate.body, candidate.instead or ""])
    if not candidate.is_marked:
        # Reasons, in a fixed order, why `text` is more than plain paragraphs and lists; code spans may hold anything.
        outside = CODE_SPAN.sub("``", said)
        lowered = lower_case(outside)
        reasons += [form.reason for form in PLAIN if _has_form(form, outside, lowered)]
    if urls := find_urls(said):
        quotable = (find_urls(piece.text) for piece in evidence if piece.trust in ("T0", "T1"))
        reasons += [] if urls <= set().union(*quotable) else ["url-not-in-evidence"]
    return ", ".join(dict.fromkeys(reasons)) or None


def find_urls(text: str) -> frozenset[str]:
    """The addresses in `text`, without the punctuation of the sentence around them."""
    return frozenset(
        url.rstrip(".,;:!?\u3002") for url in re.findall(URL, unicodedata.normalize("NFKC", text))
    )


def check_text(title: str, body: str) -> list[str]:
    """Every reason, in a fixed order, why an entry with this title and body must not be written."""
    reasons = []
    if not title.strip() or "\n" in title:
        reasons.append("title-not-one-line")
    if len(title) > TITLE_WIDTH:
        reasons.append("title-too-long")
    if len(body) > BODY_WIDTH:
        reasons.append("body-too-long")
    return list(dict.fromkeys(reasons + check_words(f"{title}\n{body}")))


def check_words(text: str, *, credentials: bool = True) -> list[str]:
    """Reasons that hold for any text that ends up in a memory file; without `credentials`, where those are known.
    Compatibility forms (full-width letters, ligatures) are read as what they stand for."""
    reasons = ["hidden-characters"] if has_hidden(text) else []
    text = unicodedata.normalize("NFKC", text)
    lowered = lower_case(text)
    reasons += [form.reason for form in FORM if _has_form(form, text, lowered)]
    reasons += ["mixed-script"] if not text.isascii() and re.search(MIXED_SCRIPT, text) else []
    reasons += ["credential"] if credentials and find_secrets(text) else []
    return reasons + [injection.reason for injection in find_injection(text)]


def _has_form(form: Form, text: str, lowered: str) -> bool:
    may_have = all(any(need in lowered for need in group) for group in form.needs)
    return may_have and re.search(form.regex, text, re.MULTILINE) is not None


def has_hidden(text: str) -> bool:
    """Whether `text` holds what a person does not see: controls, bidi marks, tags, joiners where they join nothing."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return False
    suspects = {char for char in set(text) if _may_hide(char)}
    return bool(suspects) and any(
        _is_hidden(text, at, char) for at, char in enumerate(text) if char in suspects
    )


def _may_hide(char: str) -> bool:
    if char in "\n\t" or (char.isascii() and char.isprintable()):
        return False
    is_variation = "\U000e0100" <= char <= "\U000e01ef" or char in SELECTORS or char == "\u034f"
    return is_variation or unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")


def _is_hidden(text: str, at: int, char: str) -> bool:
    """Of a character that may hide: a joiner does not between what it joins, nor a selector behind what it selects."""
    if char in SELECTORS:
        before = text[at - 1 : at]
        return not before or (
            before not in "#*0123456789"
            and unicodedata.category(before) not in ("So", "Sm", "Po", "Pd")
        )
    return char not in JOINERS or not (_joins(text[at - 1 : at]) and _joins(text[at + 1 : at + 2]))


def _joins(char: str) -> bool:
    """A letter outside ASCII, a vowel sign, or (part of) an emoji."""
    return bool(char) and not char.isascii() and unicodedata.category(char)[0] in "LMS"
