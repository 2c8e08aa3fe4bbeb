"""Checks that a text may be written to a memory file: no secret, hidden character or injection."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from memory_ci.extraction.injection import find_injection
from memory_ci.regex import Regex
from memory_ci.secrets import find_secrets, lower_case

if TYPE_CHECKING:
    from memory_ci.records.candidate import Candidate
    from memory_ci.records.event import Evidence

TITLE_WIDTH = 200
"""Maximum number of characters of a title that is cut, or that a model makes."""

MARKED_TITLE_WIDTH = 400
"""Maximum number of characters of any title: a sentence of a person is not cut in the middle."""

BODY_WIDTH = 600
"""Maximum number of characters of a body."""

SELECTORS = frozenset(chr(code) for code in range(0xFE00, 0xFE10))
"""Variation selectors: after an emoji they choose its look, elsewhere they can hide text."""

GRAPHEME_JOINER = "\N{COMBINING GRAPHEME JOINER}"
JOINERS = "\u200c\u200d"
"""ZWNJ and ZWJ: they are part of Persian and of Indic scripts, and they join emoji."""

IMPORT_LINE = (
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
URL = (
    r"(?i)\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>\"'`)\]]+"
    r"|\bdata:\w+/[\w.+-]+[;,]\S+|\b(?:javascript|mailto):\S+"
    r"|(?<=\]\()[^\s)]+"
)
"""An address with or without a scheme, or the target of a Markdown link or image."""

LOOK_ALIKE = (
    "[\u0400-\u04ff\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5"
    "\u03a7\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5]"
)
MIXED_SCRIPT = f"[A-Za-z]{LOOK_ALIKE}|{LOOK_ALIKE}[A-Za-z]"
"""Latin letters beside Cyrillic ones, or beside Greek ones that look Latin (not `Δt` or `μs`)."""

CODE_SPAN = Regex(r"`[^`\n]*`")
HTML_TAG = (
    r"(?i)(?<![\w<])</?(?:a|abbr|audio|b|base|body|br|button|code|details|div|em|embed|font|form"
    r"|h[1-6]|head|hr|html|i|iframe|img|input|kbd|li|link|meta|object|ol|p|pre|q|s|script|section"
    r"|select|small|source|span|strong|style|sub|summary|sup|svg|table|tbody|td|template|textarea"
    r"|th|thead|title|tr|u|ul|video)(?:\s[^<>\n]*)?/?>"
)
OWN_NAME = r"(?i)\bmemory[-_ ]ci\b"
URL_PUNCTUATION = ".,;:!?\u3002"
URL_TRUST = ("T0", "T1")
"""Levels of trust of evidence whose addresses a learning may have (`memory_ci.evidence.trust`)."""


class Form(msgspec.Struct, frozen=True):
    """A form of text that is refused.

    Attributes:
        reason: the reason to refuse it.
        required_groups: groups of strings; a text that matches holds at least one string of each
            group, in lower case. This is cheaper to test than the regular expression.
        regex: the form as a regular expression.
    """

    reason: str
    required_groups: tuple[tuple[str, ...], ...]
    regex: str


FORMS: tuple[Form, ...] = (
    Form("html-comment", (("<!--", "-->"),), "<!--|-->"),
    Form("import-line", (("@",),), IMPORT_LINE),
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
"""Forms that are refused in every text."""

UNMARKED_FORMS: tuple[Form, ...] = (
    Form("heading", (("#", "=", "-"),), r"^\s{0,3}#{1,6}\s|^\s{0,3}(?:=+|--+)\s*$"),
    Form("code-fence", (("```", "~~~"),), r"^\s*(?:[-*+>]\s+)*(?:```|~~~)"),
    Form("table", (("|",),), r"^\s*\|.*\|\s*$|^[\s|:-]*-\|[\s|:-]*$"),
    Form("html", (("<",),), HTML_TAG),
    Form("speaks-of-memory-ci", (("memory",),), OWN_NAME),
)
"""Forms that only a marked learning may have: more than plain paragraphs and lists, or our name."""


def check_candidate(candidate: Candidate, evidence: Sequence[Evidence]) -> str | None:
    """Return the reasons (slugs) why a candidate must not be written, or None if there are none.

    Its quotes are checked as well, because they are written with it.

    Args:
        candidate: the candidate, a learning that an engine found.
        evidence: the evidence of its change. An address (URL) of the candidate must be in evidence
            whose level of trust is in URL_TRUST.

    Returns:
        The reasons in one string, separated by commas.
    """
    reasons = check_text(candidate.title, candidate.body)
    for quote in candidate.quotes:
        reasons += check_words(quote.text)
    for field in (candidate.instead, candidate.marker):
        if field:
            reasons += check_words(field)

    if candidate.engine != "rules" and len(candidate.title) > TITLE_WIDTH:
        reasons.append("title-too-long")

    text = "\n".join([candidate.title, candidate.body, candidate.instead or ""])
    if not candidate.is_marked:
        reasons += _check_plain(text)
    if _has_new_url(text, evidence):
        reasons.append("url-not-in-evidence")
    return ", ".join(dict.fromkeys(reasons)) or None


def is_plain(text: str) -> bool:
    """Return whether a text is plain paragraphs and lists, without our own name."""
    return not _check_plain(text)


def _check_plain(text: str) -> list[str]:
    """Return the reasons, in a fixed order, why a text is not plain paragraphs and lists.

    Code spans may hold anything.
    """
    prose = CODE_SPAN.sub("``", text)
    lowered = lower_case(prose)
    return [form.reason for form in UNMARKED_FORMS if has_form(form, prose, lowered)]


def _has_new_url(text: str, evidence: Sequence[Evidence]) -> bool:
    """Return whether a text has an address that no trusted evidence has."""
    new_urls = set(find_urls(text))
    if not new_urls:
        return False
    for piece in evidence:
        if piece.trust in URL_TRUST:
            new_urls -= find_urls(piece.text)
    return bool(new_urls)


def find_urls(text: str) -> frozenset[str]:
    """Return the addresses in a text, without the punctuation of the sentence around them."""
    urls = re.findall(URL, unicodedata.normalize("NFKC", text))
    return frozenset(url.rstrip(URL_PUNCTUATION) for url in urls)


def check_text(title: str, body: str) -> list[str]:
    """Return the reasons, in a fixed order, why a title and body must not be written."""
    reasons = []
    if not title.strip() or "\n" in title:
        reasons.append("title-not-one-line")
    if len(title) > MARKED_TITLE_WIDTH:
        reasons.append("title-too-long")
    if len(body) > BODY_WIDTH:
        reasons.append("body-too-long")
    reasons += check_words(f"{title}\n{body}")
    return list(dict.fromkeys(reasons))


def check_words(text: str, *, credentials: bool = True) -> list[str]:
    """Return the reasons (slugs) why a text must not be part of a memory file.

    Compatibility forms (full-width letters, ligatures) are read as the plain letters.

    Args:
        text: the text.
        credentials: check for credentials; False if the caller has done so.
    """
    reasons: list[str] = []
    if has_hidden_characters(text):
        reasons.append("hidden-characters")

    text = unicodedata.normalize("NFKC", text)
    lowered = lower_case(text)
    reasons += [form.reason for form in FORMS if has_form(form, text, lowered)]
    if not text.isascii() and re.search(MIXED_SCRIPT, text):
        reasons.append("mixed-script")
    if credentials and find_secrets(text):
        reasons.append("credential")
    reasons += [injection.reason for injection in find_injection(text)]
    return reasons


def has_form(form: Form, text: str, lowered: str) -> bool:
    """Return whether a text has a form that is refused, such as an HTML comment.

    Args:
        form: the regular expression of the form, and strings without which it cannot match.
        text: the text.
        lowered: the text in lower case, in which these strings are searched first.
    """
    if not has_required_strings(form, lowered):
        return False
    return re.search(form.regex, text, re.MULTILINE) is not None


def has_required_strings(form: Form, lowered: str) -> bool:
    """Return whether a text in lower case has a string of each group that a form requires."""
    # A plain loop without generators: it runs for every form and every text.
    for group in form.required_groups:
        for string in group:
            if string in lowered:
                break
        else:
            return False
    return True


# -- hidden characters


def has_hidden_characters(text: str) -> bool:
    """Return whether a text has characters that a person does not see.

    These are controls, bidi marks and tags, and joiners or selectors where they have no effect.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return False
    suspects = {char for char in set(text) if _may_hide(char)}
    if not suspects:
        return False
    for index, char in enumerate(text):
        if char in suspects and not _has_visible_effect(text, index):
            return True
    return False


def _may_hide(char: str) -> bool:
    """Return whether a character may have no shape of its own, as controls and selectors."""
    if char in "\n\t" or (char.isascii() and char.isprintable()):
        return False
    if "\U000e0100" <= char <= "\U000e01ef" or char in SELECTORS or char == GRAPHEME_JOINER:
        return True
    return unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")


def _has_visible_effect(text: str, index: int) -> bool:
    """Return whether a character without a shape of its own changes how the text around it looks.

    A variation selector may choose how the character before it looks, and a joiner may join the
    characters beside it. All others have no effect.

    Args:
        text: the text.
        index: the index of a character for which `_may_hide` is true.
    """
    char = text[index]
    previous = text[index - 1 : index]
    following = text[index + 1 : index + 2]
    if char in SELECTORS:
        return _has_variants(previous)
    if char in JOINERS:
        return _is_joinable(previous) and _is_joinable(following)
    return False


def _has_variants(char: str) -> bool:
    """Return whether a variation selector can change how a character looks, as that of an emoji."""
    if not char:
        return False
    return char in "#*0123456789" or unicodedata.category(char) in ("So", "Sm", "Po", "Pd")


def _is_joinable(char: str) -> bool:
    """Return whether a character is a letter outside ASCII, a vowel sign, or part of an emoji."""
    return bool(char) and not char.isascii() and unicodedata.category(char)[0] in "LMS"
