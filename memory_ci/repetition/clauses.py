"""The clauses that people type to agents: their terms, and whether they are orders or complaints.

Pasted text is left out. A clause is at most a sentence: people put a wish inside an order, or at
its end, so whole turns cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from memory_ci.regex import Regex
from memory_ci.repetition.vocabulary import FILLER_WORDS, NEGATIONS, VERBS
from memory_ci.text import STOP_WORDS, spell_negations, stem, unfenced_lines, unquoted_lines, words

MIN_CHARS = 6  # Characters of a clause; shorter ones only answer.
MAX_CHARS = 200  # Characters of a clause; longer ones describe the work.
MAX_TERMS = 9  # Terms of a clause that is compared.
MAX_BLOCK = 1_200  # Characters of a paragraph; nobody types more at once.
MAX_TURN = 20_000  # Characters of a turn that are read.
LISTED_ITEMS = 5  # Items of a list from which a long turn is a plan or a template.
PLAN_CHARS = 600  # Characters from which a turn with such a list is one.
MIN_PROSE = 0.6  # The share of a paragraph's lines that must be prose.
PROSE_LINES = 4  # Lines from which a paragraph may be a paste.

OUTPUT = Regex(
    r"^\s*(?:[>|$\u276f%+#{}\[\]<]|\d+[:|]|at \S+ ?\(|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[-=*]{3,}"
    r"|\S+@\S+[:~]|(?:error|warning|note|hint|info|fatal|debug)\b ?[:\[])"
    r"|[{};]\s*$|^\s*\"|[\u2190-\u21ff\x1b\u2500-\u257f\u23bf\u23fa\u2713\u2717\u2714]|\S\(.*\S=\S",
    re.IGNORECASE,
)
"""A line of a program's output or of code: prompts, logs, stack traces, tables, boxes."""

FORWARDED = Regex(
    r"\s*(?:On .{4,200} wrote:|-{3,} ?(?:Original|Forwarded) message ?-*"
    r"|Begin forwarded message:)\s*",
    re.IGNORECASE,
)
"""The line above a mail that somebody else wrote."""

CHAT_HEADER = Regex(
    r"\W{0,3}\w[\w .'-]{0,40}[\s,(|\u2013\u2014-]*(?:(?:today|yesterday)(?: at)? )?"
    r"\d{1,2}:\d\d(?::\d\d)?\s?(?:[ap]m)?\W{0,3}",
    re.IGNORECASE,
)
"""The line above a message of a chat: a name and a time."""

INDENTED = Regex(r" {4}|\t")
"""The beginning of a line of code in Markdown."""

ITEM = Regex(r"^\s*(?:[-*\u2022]|\d+[.)])\s+")
"""The mark of an item in a list."""

CLAUSE_BREAK = Regex(
    r"(?<=[.!?;])\s+|\s+[\u2013\u2014-]+\s+|, (?:and|but|then|so) |(?:,| and)? then ", re.IGNORECASE
)
"""Where one clause ends and another begins."""

WORDS_BEFORE_ORDER = Regex(
    r"(?:(?:please|pls|ok(?:ay)?|yes|yeah|yep|no|sure|great|good|nice|perfect|thanks|thank you"
    r"|cool|now|well|hey|hi|hmm|also|and|then|but|so|again|first|next|actually|maybe|just"
    r"|let'?s|let us|go ahead and|(?:can|could|would|will) (?:you|we)"
    r"|(?:you|we) (?:should|need to|must|have to|can)"
    r"|i (?:want|need|would like) (?:you|us) to|i'd like you to|make sure (?:that )?(?:to|you|we)"
    r"|be sure to|remember to|try to|don't forget to|always|from now on"
    r"|(?:when(?:ever)?|before|after|once|if) [^,]{3,60},|@\w+)[\s,:!-]+)*",
    re.IGNORECASE,
)
"""Words in front of an order: politeness, assent, "can you", a condition."""

FIRST_WORD = Regex(r"[a-z][a-z'-]*")
AGAIN_PREFIX = Regex(r"\Are-?(?=[a-z]{2})")
"""The prefix of a verb that says to do it again: `rerun`, `re-check`."""

PROHIBITIONS = frozenset(("don't", "dont", "never"))
POLITE_QUESTION = Regex(r"\W*(?:\w+[ ,]+){0,3}(?:can|could|would|will) (?:you|we)\b", re.IGNORECASE)
"""A question that is an order."""

COMPLAINT = Regex(
    r"(?:\W*(?:no|but|and|so|ok|hey|again|hmm|wait),? )*"
    r"(?:(?:why|how come) (?:did|do|are|were|have|was|is|would)(?:n'?t)? (?:we|you|this|the)\b"
    r"|you(?:'re| are) (?:not|still|\w+ing|in)\b"
    r"|you (?:didn'?t|did not|forgot|should(?:n'?t| have| not)|must|were supposed|never|need"
    r"|have to|keep|always)\b"
    r"|(?:i|we) (?:(?:don'?t|do not) (?:want|need|like|use)|never|always|want|prefer|asked|told"
    r"|said)\b"
    r"|(?:did|have) you\b|(?:we|it) should (?:always|never|not)\b"
    r"|i (?:really )?(?:want|need|prefer)\b"
    r"|(?:is|are|do|does|have|has) (?:all|everything|we|the)\b)",
    re.IGNORECASE,
)
"""The beginning of a clause that says what the agent should have done, or asks whether it did."""

LASTING_WORDS = Regex(
    r"\b(?:again|always|never|every time|from now on|in (?:the )?future|as (?:always|usual)"
    r"|i (?:already )?(?:told|asked|said)|remember|each time|once more|don'?t ever|stop)\b",
    re.IGNORECASE,
)
"""Words which say that a request was made before, or holds from now on."""

REFERENCE = Regex(
    r"(?<![\w./-])(?:@[\w./-]{3,}|/[a-z][\w:-]{3,}(?![\w/])|[A-Za-z]\w*(?:-\w+)+"
    r"|[A-Z][A-Z_]{3,}(?:\.md)?|[\w-]+\.(?:mdc?|json|toml|ya?ml))(?![\w/])"
)
"""The name of a document, a skill, a command or a tool: one such word makes a request."""

FILE_ENDING = Regex(r"\.\w{1,4}\Z")
"""The ending of a file's name, as `.md`."""
SPECIFIC_THING = Regex(
    r"#?\b\d[\w.]*\b|\b[A-Z]{2,}-\d+\b|\b[0-9a-f]{7,}\b"
    r"|\"[^\"]+\"|\b\w+_\w+|\b[a-z]+[A-Z]\w*|\b[A-Z][a-z]+[A-Z]\w*|--\w|\w\.(?:py|[jt]sx?|go|rs|java|rb|c|cpp|h)\b"
)
"""What names a thing of the work in hand: a number, the key of an issue, a hash, a text in quotes,
an identifier or a file of code.
"""

OPINION = Regex(r"\bi (?:(?:don'?t|do not) )?(?:think|guess|believe|know)\b", re.IGNORECASE)
AGENT_ADDRESS = Regex(r"@\w+\s+(?=\w)")
"""The name of the agent in front of an order, as `@claude fix it`."""


class TypedClause(NamedTuple):
    """A clause that a person wrote.

    Attributes:
        text: the clause as written.
        terms: the stems of its content words; the name of a document or tool begins with `@`.
        is_negated: whether it says what not to do.
        is_order: whether it tells the agent what to do.
        is_complaint: whether it blames the agent for something not done.
        is_lasting: whether its words say that it holds beyond this session.
        specifics: how many things of the work in hand it names.
    """

    text: str
    terms: frozenset[str]
    is_negated: bool
    is_order: bool
    is_complaint: bool
    is_lasting: bool
    specifics: int

    @property
    def is_request(self) -> bool:
        """Whether it says how the agent is to work, or should have worked."""
        return self.is_order or self.is_complaint


def list_clauses(text: str) -> list[TypedClause]:
    """Return the clauses that a person typed in a turn, without pasted text.

    >>> [clause.text for clause in list_clauses("Looks good. Please pull first, then fix it")]
    ['Looks good', 'Please pull first', 'fix it']
    """
    clauses = []
    for line in _list_typed_lines(text[:MAX_TURN]):
        for part in CLAUSE_BREAK.split(line):
            clause_text = part.strip(" ,.!;")
            has_several_words = " " in clause_text
            if MIN_CHARS <= len(clause_text) <= MAX_CHARS and has_several_words:
                clauses.append(read_clause(clause_text))
    return clauses


def read_clause(text: str) -> TypedClause:
    """Return a clause with its terms (stems of content words) and its kind.

    Left out of the comparison are the name of an agent in front (`@claude fix it`), and words of
    opinion such as "I think".

    Args:
        text: the clause as a person wrote it.
    """
    plain_text = spell_negations(text.replace("\u2019", "'"))
    if address := AGENT_ADDRESS.match(plain_text):
        plain_text = plain_text[address.end() :]
    terms, is_negated = _find_terms(OPINION.sub(" ", plain_text))
    return TypedClause(
        text=text,
        terms=terms,
        is_negated=is_negated,
        is_order=_is_order(plain_text),
        is_complaint=COMPLAINT.match(plain_text) is not None,
        is_lasting=LASTING_WORDS.search(plain_text) is not None,
        specifics=len(SPECIFIC_THING.findall(plain_text)),
    )


def _list_typed_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text that a person typed.

    Left out are fenced code, quotations, and what follows the header of a forwarded mail. The items
    of a long list are left out, because such a list is a plan or a template. Of the paragraphs, too
    long ones, indented code, pasted chats and paragraphs with much output of programs are left out.
    """
    unfenced = list(unfenced_lines(text.splitlines()))
    own_lines = takewhile(lambda line: not FORWARDED.fullmatch(line), unquoted_lines(unfenced))
    own_text = "\n".join(own_lines)
    item_count = sum(1 for line in own_text.splitlines() if ITEM.match(line))
    is_plan = len(own_text) > PLAN_CHARS and item_count >= LISTED_ITEMS

    for paragraph in re.split(r"\n\s*\n", own_text):
        if len(paragraph) > MAX_BLOCK:  # first: the patterns below take quadratic time
            continue
        lines = [line for line in paragraph.splitlines() if line.strip()]
        lines = _drop_code_and_chat(lines)
        prose_lines = [line for line in lines if not OUTPUT.search(line)]
        is_paste = len(lines) >= PROSE_LINES and len(prose_lines) < MIN_PROSE * len(lines)
        if is_paste:
            continue
        for line in prose_lines:
            is_item = ITEM.match(line) is not None
            if not (is_plan and is_item):
                yield ITEM.sub("", line).strip()


def _drop_code_and_chat(lines: Sequence[str]) -> list[str]:
    """Return the lines of a paragraph up to a pasted chat message; none if it is indented code."""
    if all(INDENTED.match(line) and not ITEM.match(line) for line in lines):
        return []
    return list(takewhile(lambda line: not CHAT_HEADER.fullmatch(line), lines))


def _find_terms(wording: str) -> tuple[frozenset[str], bool]:
    """Return the terms of a clause, and whether it is negated.

    A term is the stem of a content word, or the name of a document or tool with `@` in front.
    """
    references = {_name_reference(match) for match in REFERENCE.findall(wording)}
    terms: set[str] = set()
    is_negated = False
    for word in words(wording):
        if word in NEGATIONS or word.endswith("n't"):
            is_negated = True
            continue
        if word in FILLER_WORDS or word in STOP_WORDS:
            continue
        name = word
        if "/" in word or "." in word:
            name = FILE_ENDING.sub("", word.rsplit("/", 1)[-1])  # `docs/style.md` is `style`
        if len(name) < 2 or name[0].isdigit():
            continue
        reference = f"@{name}"
        terms.add(reference if reference in references else stem(name))
    return frozenset(terms | references), is_negated


def _name_reference(reference: str) -> str:
    """Return the term of a document or tool: `@` and its name without folder and ending."""
    name = reference.strip("@/").rsplit("/", 1)[-1]
    return f"@{FILE_ENDING.sub('', name).lower()}"


def _is_order(wording: str) -> bool:
    """Return whether a clause begins with an imperative, after words such as "can you please"."""
    if wording.rstrip().endswith("?") and not POLITE_QUESTION.match(wording):
        return False
    lead = WORDS_BEFORE_ORDER.match(wording)
    order = wording[lead.end() :].lower() if lead else wording.lower()
    first_word = FIRST_WORD.match(order)
    if first_word is None:
        return False
    verb = first_word[0]
    return verb in VERBS or AGAIN_PREFIX.sub("", verb, 1) in VERBS or verb in PROHIBITIONS
