"""Words: pure functions on text that more than one room needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

WORD = re.compile(r"[^\W_]+(?:[._/:\-']?[^\W_]+|_+[^\W_]+)*_*", re.UNICODE)
"""A word with its identifier glue: `snake_case`, `a.b.c`, `src/app.py`, `don't`."""

CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""The parts of an ASCII identifier: `HTTPServer2` gives HTTP, Server, 2."""

GLUE = re.compile(r"[\W_]+")
"""Where an identifier in any other script is split: `Überprüfung` is one word, `über_name` two."""

UNSPACED = re.compile(
    "([\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff\uac00-\ud7a3\u0e01-\u0e4e\u0e80-\u0ece\u1000-\u104f\u1780-\u17d3]+)"
)
"""Runs of scripts that set no blanks between words (Han, kana, Thai, Lao, Myanmar, Khmer), and of Hangul, whose words
have particles: their words are pairs of neighbouring letters, as Lucene's CJKBigramFilter has them."""

PUNCTUATION = ".,;:!?()[]{}<>\"'`*"  # What prose puts around a word.
FENCE = re.compile(r"[ \t]*(?:[-*+][ \t]+)?(`{3,}|~{3,})(.*)")
VOWEL = re.compile(r"[aeiouy]")
STOP_WORDS = frozenset(
    """a about after all also an and any are as at be because been before but by can could did do does doing for from
    get had has have how i if in into is it its just like me my no not of on or our out over should so some such than
    that the their them then there these they this those to too up us use using was we were what when where which
    while who why will with would you your""".split()
)
"""English words too common to tell one entry from another; `not` and `no` carry no BM25 signal either."""


def words(text: str) -> Iterator[str]:
    r"""Lower-case words of `text` in order, identifiers whole, scripts without blanks as pairs of letters.

    >>> list(words("Don't retry Client.post in src/api/client.py!"))
    ["don't", 'retry', 'client.post', 'in', 'src/api/client.py']
    >>> list(words("Docker\u5bb9\u5668\u91cd\u542f"))
    ['docker', '\u5bb9\u5668', '\u5668\u91cd', '\u91cd\u542f']
    """
    if text.isascii() or not UNSPACED.search(text):
        return map(str.lower, WORD.findall(text))
    return _mixed_words(text)


def count_words(text: str) -> int:
    """How many words there are between blanks; in scripts without blanks, of `words`."""
    return sum(1 for _ in words(text)) if UNSPACED.search(text) else len(text.split())


def _mixed_words(text: str) -> Iterator[str]:
    for place, piece in enumerate(UNSPACED.split(text)):
        letters = [
            char for char in piece if char.isalnum()
        ]  # no vowel signs: the index ends words there
        if place % 2 == 0:
            yield from map(str.lower, WORD.findall(piece))
        else:
            yield from map("".join, pairwise(letters)) if len(letters) > 1 else letters


def identifier_parts(text: str) -> Iterator[str]:
    """Lower-case parts of the identifiers in `text` (camelCase, snake_case, dotted, paths).

    Words that have a single part are not repeated here: `words` gives them already. A contraction is no identifier.

    >>> list(identifier_parts("call getUserName's http_client.py, don't wait"))
    ['get', 'user', 'name', 'http', 'client', 'py']
    """
    for token in (text if text.isascii() else UNSPACED.sub(" ", text)).split():
        bare = token.strip(PUNCTUATION)
        if bare.isalpha() and bare[1:].islower():
            continue  # a plain word, as most are: told apart several times faster than by the patterns
        for word in WORD.findall(bare):
            name = word.partition("'")[0]
            parts = (
                CAMEL.findall(name)
                if name.isascii()
                else [part for part in GLUE.split(name) if part]
            )
            if len(parts) > 1:
                yield from map(str.lower, parts)


CITED = re.compile(r"(?P<path>[^@\n]+?)(?:\.\w+)?(?::\d[\d-]*)?@\S+(?:\s+symbol:(?P<symbol>\S+))?")


def cited_words(cites: Iterable[str], aka: str | None = None) -> str:
    """The words of what an entry cites, paths without their endings and names, and those that it goes by besides.

    >>> cited_words(["src/http_client.py:3-9@3f2ab91aa5a1 symbol:Client.getUser words:0f"], "timeout")
    'src/http_client Client.getUser src http client client get user timeout'
    """
    found = [
        part for cite in cites if (match := CITED.match(cite)) for part in match.groups() if part
    ]
    return " ".join(
        [
            *found,
            *(part for one in found for part in identifier_parts(one)),
            *([aka] if aka else []),
        ]
    )


def content_words(text: str) -> frozenset[str]:
    """The distinct words of `text` without stop words: what two texts are compared by."""
    return frozenset(words(text)) - STOP_WORDS


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """A word without its ending: `retries`, `retried` and `retrying` are one; an identifier stays as it is.

    >>> [stem(word) for word in ("caches", "running", "string", "http_client")]
    ['cach', 'run', 'string', 'http_client']
    """
    if not word.isalpha():
        return word
    word = re.sub(r"i(?:es|ed)\Z", "y", word) if len(word) > 4 else word
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-2] if word.endswith(("shes", "ches", "sses", "xes")) else word[:-1]
    base = re.sub(r"(?:ing|ed)\Z", "", word)
    if base != word and len(base) > 2 and VOWEL.search(base):
        word = base[:-1] if re.search(r"([bgmnprt])\1\Z", base) else base
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def jaccard(left: Set[str], right: Set[str]) -> float:
    """Shared share of two sets, in [0, 1]; two empty sets share nothing.

    >>> jaccard({"a", "b"}, {"b", "c"})
    0.3333333333333333
    """
    shared = len(left & right)
    union = len(left) + len(right) - shared
    return shared / union if union else 0.0


def unfenced_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines with those of Markdown fences blanked; a fence that nothing closes runs to the end.

    >>> list(unfenced_lines(["one", "~~~", "two", "~~~", "three"]))
    ['one', '', '', '', 'three']
    """
    fence = ""
    for line in lines:
        mark = FENCE.fullmatch(line)
        yield "" if fence or mark else line
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""


def unquoted_lines(lines: Sequence[str]) -> Iterator[str]:
    """The lines with those of HTML block quotations blanked; one that nothing closes is text.

    >>> list(unquoted_lines(["one", "<blockquote>", "two", "</blockquote>", "three"]))
    ['one', '', '', '', 'three']
    """
    folded = [line.casefold() for line in lines]
    last_close = max(
        (number for number, line in enumerate(folded) if "</blockquote" in line), default=-1
    )
    depth = 0
    for number, line in enumerate(folded):
        is_opening = number <= last_close and line.lstrip().startswith("<blockquote")
        if depth or is_opening:
            depth = max(0, depth + line.count("<blockquote") - line.count("</blockquote"))
            yield ""
        else:
            yield lines[number]


def strip_comments(text: str, *, keeps_lines: bool = False) -> str:
    """`text` without HTML comments; one that nothing closes is text. Linear, where a lazy pattern looks for each end.

    >>> strip_comments("a <!-- b --> c <!-- d")
    'a  c <!-- d'
    """
    kept, at = [], 0
    while (first := text.find("<!--", at)) >= 0 and (last := text.find("-->", first + 4)) >= 0:
        kept += [text[at:first], "\n" * text.count("\n", first, last) * keeps_lines]
        at = last + 3
    return "".join(kept) + text[at:]


OWN_BLOCK = re.compile(
    r"^[^\n]*\bmemory-ci(?: \w+)?: begin\b.*?(?:^[^\n]*\bmemory-ci(?: \w+)?: end\b[^\n]*\n?|\Z)",
    re.MULTILINE | re.DOTALL,
)


def strip_own_blocks(text: str) -> str:
    """`text` without what memory-ci wrote into it: the fenced blocks of `install` and `export`.

    >>> strip_own_blocks("a\\n<!-- memory-ci export: begin (x) -->\\nb\\n<!-- memory-ci export: end -->\\nc\\n")
    'a\\nc\\n'
    """
    return OWN_BLOCK.sub("", text) if ": begin" in text else text


def shorten(text: str, width: int) -> str:
    """`text` in one line of at most `width` characters, cut at a word with an ellipsis.

    >>> shorten("never retry a POST without a key", 20)
    'never retry a POST…'
    """
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    head = line[: width - 1]
    cut = head.rfind(" ")
    return (head[:cut] if cut > width // 2 else head).rstrip(" ,;:") + "…"


def plural(count: int, noun: str) -> str:
    """`count` and its noun.

    >>> plural(1, "entry"), plural(2, "entry"), plural(0, "learning")
    ('1 entry', '2 entries', '0 learnings')
    """
    if count == 1:
        return f"1 {noun}"
    return (
        f"{count} {noun[:-1]}ies"
        if noun.endswith("y") and noun[-2] not in "aeiou"
        else f"{count} {noun}s"
    )


def estimate_tokens(text: str) -> int:
    """Tokens of `text` for a language model, rather too many than too few (no tokenizer is at hand, nor wanted).

    A third of its ASCII characters (English prose has about four to a token, code about three), and one for each other.

    >>> estimate_tokens("retry once"), estimate_tokens("\u518d\u8bd5")
    (4, 2)
    """
    ascii_count = len(text.encode("ascii", "ignore"))
    return -(-ascii_count // 3) + len(text) - ascii_count


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: which of the known ones it looks like, if any.

    >>> did_you_mean("typ", ("type", "domain")), did_you_mean("owner", ("type", "domain"))
    ("; did you mean 'type'?", '')
    """
    from difflib import get_close_matches

    near = get_close_matches(word, list(options), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def plain_host(place: str) -> str:
    """One spelling of a host: without a port, a dot at its end, and the names under which forges answer besides.

    >>> [plain_host(one) for one in ("GitHub.com.", "ssh.github.com:443", "www.github.com", "altssh.gitlab.com")]
    ['github.com', 'github.com', 'github.com', 'gitlab.com']
    """
    return re.sub(
        r"^(?:www|(?:alt)?ssh)\.(?=[^.]+\.[^.]+$)", "", place.lower().partition(":")[0].rstrip(".")
    )


UNCLOSED = (
    "did not find expected ',' or",
    "could not find expected ':'",
    "found unexpected end of stream",
)
"""What PyYAML says of a list, a key or a quotation that nothing ends: of the line where it gave up, not of that one."""


def yaml_fault(error: Any) -> tuple[int, str]:  # noqa: ANN401 - PyYAML's errors, which have one owner
    """The line, from 0, where what PyYAML could not read begins, and what it says of it."""
    reason: str = getattr(error, "problem", None) or str(error).partition("\n")[0]
    began, found = (getattr(error, name, None) for name in ("context_mark", "problem_mark"))
    mark = began if began and reason.startswith(UNCLOSED) else found
    return (mark.line if mark else 0), reason


NAMES_CODE = re.compile(r"\w_\w|[a-z\d][A-Z]|`[A-Z]|\w\(|\w[./]\w|\w::")
