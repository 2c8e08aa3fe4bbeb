"""Functions on the words, lines and Markdown of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from typing import Any

from memory_ci.regex import Regex

WORD = Regex(r"[^\W_]+(?:[._/:\-']?[^\W_]+|_+[^\W_]+)*_*", re.UNICODE)
"""A word with its identifier glue: `snake_case`, `a.b.c`, `src/app.py`, `don't`."""

CAMEL = Regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
"""The parts of an ASCII identifier: `HTTPServer2` gives HTTP, Server, 2."""

GLUE = Regex(r"[\W_]+")
"""Where an identifier in any other script is split: `Überprüfung` is one word, `über_name` two."""

UNSPACED = Regex(
    "([\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\uac00-\ud7a3"
    "\u0e01-\u0e4e\u0e80-\u0ece\u1000-\u104f\u1780-\u17d3]+)"
)
"""Runs of scripts without blanks (Han, kana, Thai, Lao, Myanmar, Khmer), and of Hangul.

Hangul words have particles. The words of all these are pairs of neighbouring letters, as in
Lucene's CJKBigramFilter.
"""

BARE_STEMS = (
    "aren|can|couldn|didn|doesn|don|hadn|hasn|haven|isn|mustn|needn|shouldn|wasn|weren|won|wouldn"
)
BARE_NEGATION = Regex(rf"\b({BARE_STEMS})(?:\u2019|\u00b4)?t\b", re.IGNORECASE)
"""A negation without its apostrophe, or with a typographic one."""

BARE_STEM = Regex(rf"\b(?:{BARE_STEMS})\Z", re.IGNORECASE)
MAX_STEM = 8  # Characters of the longest of them.
BARE_ENDING = Regex("[nN][\u2019\u00b4]?[tT](?!\\w)")
"""The end of a BARE_NEGATION. It begins with a set of characters, which `re` finds quickly."""

PUNCTUATION = ".,;:!?()[]{}<>\"'`*"  # Signs around a word in prose.
FENCE = Regex(r"[ \t]*(?:[-*+][ \t]+)?(`{3,}|~{3,})(.*)")
VOWEL = Regex(r"[aeiouy]")
STOP_WORDS = frozenset(
    """a about after all also an and any are as at be because been before but by can could did do
    does doing for from get had has have how i if in into is it its just like me my no not of on or
    our out over should so some such than that the their them then there these they this those to
    too up us use using was we were what when where which while who why will with would you
    your""".split()
)
"""English words too common to distinguish entries; `not` and `no` have no BM25 signal either."""


def words(text: str) -> Iterator[str]:
    r"""Yield lower-case words; identifiers stay whole, scripts without blanks become letter pairs.

    >>> list(words("Don't retry Client.post in src/api/client.py!"))
    ["don't", 'retry', 'client.post', 'in', 'src/api/client.py']
    >>> list(words("Docker\u5bb9\u5668\u91cd\u542f"))
    ['docker', '\u5bb9\u5668', '\u5668\u91cd', '\u91cd\u542f']
    """
    if text.isascii() or not UNSPACED.search(text):
        return map(str.lower, WORD.findall(text))
    return _mixed_words(text)


def spell_negations(text: str) -> str:
    """Return a text with the apostrophes that its negations lack.

    >>> spell_negations("dont do it, it Doesn\u2019t work")
    "don't do it, it Doesn't work"
    """
    return BARE_ENDING.sub(_spell_negation, text)


def _spell_negation(ending: re.Match[str]) -> str:
    """Return the end of a negation with its apostrophe; the end of any other word unchanged."""
    start = max(0, ending.start() - MAX_STEM)
    is_bare = BARE_STEM.search(ending.string, start, ending.start() + 1)
    return f"{ending[0][0]}'t" if is_bare else ending[0]


def count_words(text: str) -> int:
    """Count the words between blanks; in scripts without blanks, as `words` splits them."""
    if not text.isascii() and UNSPACED.search(text):
        return sum(1 for _ in words(text))
    return len(text.split())


def _mixed_words(text: str) -> Iterator[str]:
    """Yield the words of a text, in scripts without blanks the pairs of neighbouring letters."""
    for index, piece in enumerate(UNSPACED.split(text)):
        is_unspaced = index % 2 == 1  # split puts the matches of a group between the other pieces
        if not is_unspaced:
            yield from map(str.lower, WORD.findall(piece))
            continue
        # The index of entries ends words at vowel signs, which are not alphanumeric.
        letters = [char for char in piece if char.isalnum()]
        if len(letters) > 1:
            yield from map("".join, pairwise(letters))
        else:
            yield from letters


def identifier_parts(text: str) -> Iterator[str]:
    """Yield the lower-case parts of identifiers (camelCase, snake_case, dotted, paths).

    Words with a single part are left out: `words` has them. A contraction is no identifier.

    >>> list(identifier_parts("call getUserName's http_client.py, don't wait"))
    ['get', 'user', 'name', 'http', 'client', 'py']
    """
    if not text.isascii():
        text = UNSPACED.sub(" ", text)
    for token in text.split():
        bare = token.strip(PUNCTUATION)
        if bare.isalpha() and bare[1:].islower():
            continue  # A plain word, as most are; the patterns are several times slower.
        for word in WORD.findall(bare):
            parts = _split_identifier(word.partition("'")[0])
            if len(parts) > 1:
                yield from map(str.lower, parts)


def _split_identifier(name: str) -> list[str]:
    if name.isascii():
        return CAMEL.findall(name)
    return [part for part in GLUE.split(name) if part]


CITED = Regex(r"(?P<path>[^@\n]+?)(?:\.\w+)?(?::\d[\d-]*)?@\S+(?:\s+symbol:(?P<symbol>\S+))?")


def cited_words(cites: Iterable[str], aka: str | None = None) -> str:
    """Return the words in the cites of an entry (places of code that it names), for the index.

    These are paths without their endings, names of symbols, and the parts of both.

    Args:
        cites: the cites, as an entry has them.
        aka: other words that the entry is to be found by, if any.

    >>> cite = "src/http_client.py:3-9@3f2ab91aa5a1 symbol:Client.getUser words:0f"
    >>> cited_words([cite], "timeout")
    'src/http_client Client.getUser src http client client get user timeout'
    """
    names: list[str] = []
    for cite in cites:
        if match := CITED.match(cite):
            names += [name for name in match.groups() if name]
    parts: list[str] = []
    for name in names:
        parts += identifier_parts(name)
    aliases = [aka] if aka else []
    return " ".join([*names, *parts, *aliases])


def content_words(text: str) -> frozenset[str]:
    """Return the distinct words of a text without stop words, to compare it with another."""
    return frozenset(words(text)) - STOP_WORDS


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """Return a word without its English ending, so that `retries` and `retrying` become equal.

    An identifier stays unchanged.

    >>> [stem(word) for word in ("caches", "running", "string", "http_client")]
    ['cach', 'run', 'string', 'http_client']
    """
    if not word.isalpha():
        return word
    if len(word) > 4:
        word = re.sub(r"i(?:es|ed)\Z", "y", word)
    is_plural = word.endswith("s") and not word.endswith(("ss", "us", "is"))
    if is_plural and len(word) > 3:
        ending = "es" if word.endswith(("shes", "ches", "sses", "xes")) else "s"
        word = word.removesuffix(ending)
    base = re.sub(r"(?:ing|ed)\Z", "", word)
    if base != word and len(base) > 2 and VOWEL.search(base):
        has_double_letter = re.search(r"([bgmnprt])\1\Z", base) is not None  # `running`
        word = base[:-1] if has_double_letter else base
    if len(word) > 3:
        word = word.removesuffix("e")
    return word


def jaccard(left: Set[str], right: Set[str]) -> float:
    """Return the Jaccard index of two sets, in [0, 1]; two empty sets share nothing.

    >>> jaccard({"a", "b"}, {"b", "c"})
    0.3333333333333333
    """
    shared = len(left & right)
    union = len(left) + len(right) - shared
    return shared / union if union else 0.0


def unfenced_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of Markdown, with those in fenced code blocks replaced by "".

    A fence that is not closed runs to the end.

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
    """Yield lines of Markdown, with those in HTML block quotations replaced by "".

    A quotation that is not closed is text.

    >>> list(unquoted_lines(["one", "<blockquote>", "two", "</blockquote>", "three"]))
    ['one', '', '', '', 'three']
    """
    folded = [line.casefold() for line in lines]
    last_close = -1
    for number, line in enumerate(folded):
        if "</blockquote" in line:
            last_close = number
    depth = 0
    for number, line in enumerate(folded):
        is_opening = number <= last_close and line.lstrip().startswith("<blockquote")
        if depth or is_opening:
            depth = max(0, depth + line.count("<blockquote") - line.count("</blockquote"))
            yield ""
        else:
            yield lines[number]


def strip_comments(text: str, *, keeps_lines: bool = False) -> str:
    """Return text without HTML comments; a comment that is not closed is text.

    It takes linear time; a lazy regular expression would search for each end again.

    Args:
        text: the text.
        keeps_lines: keep the line breaks of comments, so that lines keep their numbers.

    >>> strip_comments("a <!-- b --> c <!-- d")
    'a  c <!-- d'
    """
    pieces = []
    position = 0
    while True:
        start = text.find("<!--", position)
        end = text.find("-->", start + 4) if start >= 0 else -1
        if end < 0:
            break
        pieces.append(text[position:start])
        if keeps_lines:
            pieces.append("\n" * text.count("\n", start, end))
        position = end + 3
    return "".join(pieces) + text[position:]


OWN_BLOCK = Regex(
    r"^[^\n]*\bmemory-ci(?: \w+)?: begin\b.*?(?:^[^\n]*\bmemory-ci(?: \w+)?: end\b[^\n]*\n?|\Z)",
    re.MULTILINE | re.DOTALL,
)


def strip_own_blocks(text: str) -> str:
    """Return text without the blocks that memory-ci wrote into it, by `init --clone` and `export`.

    >>> block = "<!-- memory-ci export: begin (x) -->\\nb\\n<!-- memory-ci export: end -->\\n"
    >>> strip_own_blocks(f"a\\n{block}c\\n")
    'a\\nc\\n'
    """
    return OWN_BLOCK.sub("", text) if ": begin" in text else text


def shorten(text: str, width: int) -> str:
    """Return text in one line of at most `width` characters, cut at a word with an ellipsis.

    >>> shorten("never retry a POST without a key", 20)
    'never retry a POST…'
    """
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    head = line[: width - 1]
    last_blank = head.rfind(" ")
    if last_blank > width // 2:
        head = head[:last_blank]
    return head.rstrip(" ,;:") + "…"


def plural(count: int, noun: str) -> str:
    """Return a count and its noun.

    >>> plural(1, "entry"), plural(2, "entry"), plural(0, "learning")
    ('1 entry', '2 entries', '0 learnings')
    """
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}s"


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has for a language model, rather too many.

    Three ASCII characters count as a token (English prose has about four to a token, code about
    three), and each other character.

    >>> estimate_tokens("retry once"), estimate_tokens("\u518d\u8bd5")
    (4, 2)
    """
    ascii_count = len(text.encode("ascii", "ignore"))
    rounded_third = (ascii_count + 2) // 3
    return rounded_third + len(text) - ascii_count


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return `; did you mean 'OPTION'?` with the option most similar to a word, "" if none is.

    >>> did_you_mean("typ", ("type", "domain")), did_you_mean("owner", ("type", "domain"))
    ("; did you mean 'type'?", '')
    """
    from difflib import get_close_matches

    close = get_close_matches(word, list(options), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def plain_host(host_and_port: str) -> str:
    """Return one spelling of a host: without a port, a final dot, and prefixes of forges.

    >>> [plain_host(host) for host in ("GitHub.com.", "ssh.github.com:443", "altssh.gitlab.com")]
    ['github.com', 'github.com', 'gitlab.com']
    >>> plain_host("www.github.com")
    'github.com'
    """
    host = host_and_port.lower().partition(":")[0].rstrip(".")
    return re.sub(r"^(?:www|(?:alt)?ssh)\.(?=[^.]+\.[^.]+$)", "", host)


UNCLOSED = (
    "did not find expected ',' or",
    "could not find expected ':'",
    "found unexpected end of stream",
)
"""Messages of PyYAML on an unclosed list, key or quotation; its mark is where the file ends."""


def locate_yaml_error(error: Any) -> tuple[int, str]:  # noqa: ANN401 - PyYAML is not imported here
    """Return the line (from 0) and the reason of an error of PyYAML.

    For an unclosed list, key or quotation the line is its first one, and not the end of the file,
    where PyYAML notices it.
    """
    reason: str = getattr(error, "problem", None) or str(error).partition("\n")[0]
    mark = getattr(error, "problem_mark", None)
    start_mark = getattr(error, "context_mark", None)
    if start_mark and reason.startswith(UNCLOSED):
        mark = start_mark
    return (mark.line if mark else 0), reason


NAMES_CODE = Regex(r"\w_\w|[a-z\d][A-Z]|`[A-Z]|\w\(|\w[./]\w|\w::")
"""A sign that a text names code."""


def escape_undecoded(path: str) -> str:
    """Return the path of a file with escapes in place of bytes that are not UTF-8.

    >>> escape_undecoded("a\\udcff.py")
    'a\\\\xff.py'
    """
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
