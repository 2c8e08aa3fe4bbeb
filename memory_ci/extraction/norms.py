"""Whether an unmarked sentence is a rule that lasts, and not about the work at hand.

Set on the sessions of thirteen repositories, and tried on four others
(benchmarks/results/extraction.md). A sentence must have the form of an order or a rule, and speak
of the work process or give a reason.
Descriptions of code, guesses, printed errors, and sentences whose subject is in another sentence
are left out: a maintainer who reads them alone cannot agree to them.
"""

from __future__ import annotations

import re

from memory_ci.checks.name_rules import find_name_rules
from memory_ci.regex import Regex
from memory_ci.text import spell_negations

LASTING_RULE_WEIGHT = 2.0
"""The weight of a rule whose words say that it lasts, or where it is to be written.

These weights only sort suggestions, and 0 drops a sentence. Their order was set by reading.
"""

PROCESS_RULE_WEIGHT = 1.0
"""The weight of any other rule about the work process."""

REASONED_RULE_WEIGHT = 0.5
"""The weight of a rule about anything, with its reason."""

BARE_ORDER_WEIGHT = 0.1
"""The weight of an order without a reason; it counts where several changes give it."""

RULE_WORD = Regex(r"(?i)\b(?:always|never|must|should(?:n't)?|do not|don't|avoid|prefer|only)\b")
"""A word of an order or a rule."""

CLAUSE_START = (
    r"(?:^|[,;:.!?\u2013\u2014-]\s+)"
    r"(?:(?:and|but|so|also|then|please|no|yes|ok|oh)[,\s]+)*"
)
"""The start of a clause, after words such as `and` or `please`."""

ALL_TIMES_WORD = Regex(r"(?i)\b(?:always|never|from now on|going forward|moving forward)\b")
"""Words of what holds at all times."""

FROM_NOW_ON = Regex(
    r"(?i)\b(?:from now on|going forward|next time|(?:do not|don't) forget to)\b"
    r"|\bas a (?:general |global )?rule\b"
)
"""Words that make a rule of any order."""

LASTING_WORDS = Regex(
    rf"(?i)\bin (?:the )?future(?=,|[.!]?$)|\bremember (?:to|that)\b|{CLAUSE_START}keep in mind\b"
)
"""Words that make a rule of an order with words such as `always` or `must`."""

NEVER_ORDER = Regex(rf"(?i){CLAUSE_START}never (?!mind\b)\w+(?<!ed)\b")
"""An imperative of what is never done: nobody says so of the work at hand alone."""

NEVER_ORDER_AT_START = Regex(r"(?i)^(?:[\w ]{1,20}: )?never \w+(?<!ed)\b")
"""The same at the start of a sentence: behind a comma, a commit message tells what code does."""

ORDER_FORM = Regex(
    rf"(?i){CLAUSE_START}(?:always|never|do not ever|don't ever|must|make sure|ensure|prefer|avoid"
    r"|only|use\b.{1,60}\b(?:not|instead of|rather than))\b"
    r"|\b(?:we|you|i|agents?|everyone|cursor|claude|codex|gemini|copilot)"
    r" (?:really |also |still |code |ai |cli )?"
    r"(?:must|should(?:n't)?|always|never|need to|have to|prefer|only)\b"
    r"|\bthat (?:we|you) (?:always|never)\b"
)
"""An order or a rule of conduct: of all times, or of those who work."""

PROHIBITION = Regex(rf"(?i){CLAUSE_START}(?:do not|don't)\b|\b(?:we|you) (?:do not|don't)\b")
"""An order not to do something. Most are of the work at hand: a reason or a range must follow."""

REASON_OR_RANGE = Regex(
    r"(?i)\b(?:because|otherwise|since|unless|ever|any(?:where|body|one)|again|rather than"
    r"|instead of|so that|as (?:is )?specified|as i (?:said|told))\b"
    r"|\s[-\u2013\u2014]+ (?:it|they)\b"
)
"""A reason of a prohibition, or how far it reaches."""

REASON_OF_RULE = Regex(
    r"(?i)\b(?:must|never|cannot|do not|don't)\b.* or (?:the|it|they|we|you)\b"
    r"|\((?:it )?(?:loses|breaks|causes|would|fails|hides|skips)\b"
    r"|\b(?:because|otherwise(?! \w+ed)|since|so that|lest"
    r"|so (?:it|they|we|you) (?:must|should|cannot|never))\b"
)
"""The reason of a rule: `because …`, `never X, or it breaks`, `(it loses jobs)`."""

MODAL_VERB = Regex(
    r"(?i)\b(?:must|cannot|can't|should(?:n't)?|never|needs? to|required|necessary|may not)\b"
)
"""A verb of obligation, which makes a rule together with a reason."""

PROCESS_TERMS = (
    # commits, branches and requests
    r"commit\w*|amend\w*|push\w*|pull request|prs?|merg\w+|rebas\w+|branch\w*|worktrees?",
    r"workspaces?|stash\w*",
    # tests, documents and reviews
    r"tests?|testing|lint\w*|formatt?\w*|changelog|docs?|documentation|readme|comments?",
    r"review\w*|ask\w*|questions?|plans?|outline|specs?",
    # code, packages and releases
    r"rules?|coding|code|mock\w*|dependenc\w+|librar\w+|packages?|install\w*|migrations?",
    r"deploy\w*|releases?|versions?|ci|commands?|tools?|scripts?",
    # tasks, conventions and the rest
    r"issues?|tickets?|tasks?|todos?|prompts?|errors?|secrets?|naming|conventions?|files?|edit\w*",
    r"json|types?|backwards?|compatibility|approv\w+|permission|mcp|cli|env\w*",
)
PROCESS_WORD = Regex(rf"(?i)\b(?:{'|'.join(PROCESS_TERMS)})\b")
"""A word of the work process."""

CODING_WORD = Regex(
    r"(?i)\b(?:functions|methods|classes|variables|attributes|arguments|parameters|identifiers"
    r"|names|decorators?|docstrings?|annotations?|type hints?|assert(?:ion)?s?|assert statements?"
    r"|try statements?|imports?|(?:snake|camel|pascal)[ _-]?case)\b"
)
"""Parts of code in general, which a rule may be about: `always use docstrings in functions`."""

CHOICE_FORM = Regex(
    r"(?i)^\W*(?:always |please )?use (?!only|the\b|an? )\S+(?: \S+){0,2}?,? "
    r"(?:instead of|rather than|over|not) \S"
)
"""The choice of one thing over another, whatever it is."""

PROCESS_RULE = Regex(
    r"(?i)\b(?:commits?|prs?|pull requests?|branch(?:es)?|tests?|docs?|documentation|changelog"
    r"|comments?|rules?|tasks?|specs?|migrations?|code|reviews?|findings)"
    r"(?: [^\s,;:]+){0,3}? (?:must|should|need to)\b"
)
"""A rule of which a part of the work process is the subject: `tests must …`."""

INVARIANT_WORDS = Regex(r"(?i)\bmust (?:never|always|not)\b")
"""What holds of the code for ever. A person who says so to an agent mostly orders the next step."""

THAT_CONJUNCTION = Regex(
    r"(?i)\b(sure|rules?|note|remember|mention|specif\w+|so|ensure|mind|stat\w+|says?|document)"
    r" that\b"
)
"""A conjunction `that`, as in `make sure that`; elsewhere `that` points to another sentence."""

CONTEXT_REFERENCE = Regex(
    r"(?i)^\W*(?:[\w']+\W+){0,3}(?:it|its|this|these|those|they|them)\b"
    r"(?! (?:repo|repository|project|codebase|package)\b)"
    r"|^\W*that\b|\b(?:this|that|these|those|so)[.!?]*$|^(?:\S+\s+){0,7}(?:it|them)[.!?]*$"
    r"|\bthe (?:first|second|last|other)\b|\bsuch\b|\b(?:yet|for now|right now|this time)\b"
    r"|\b(?:do|does|doing|did|avoid|handle|make|fix|change|add|remove)"
    r" (?:this|that|it|these|those|them)\b"
    r"|\b(?:this|that|these|those|the (?:above|following|current|existing|new|old)) "
    r"(?:\w+ )?(?:change|fix|commit|pr|branch|function|method|test|file|error|issue|bug|line|code"
    r"|part|section|one|case|plan|task|spec|session|step|page|button|option|comment|warning|message"
    r"|problem|approach|conversation|document|idea|feature|implementation|check|field|script"
    r"|command|class|component|value|thing|scenario|state|point|format|directory|way|kind)s?\b"
)
"""A sentence whose subject stands elsewhere, or that points at the work at hand."""

FACT_STATEMENT = Regex(
    r"(?i)\b(?:is|are|was|were|gets?|does|did|has|had)(?: not|n't)? (?:always|never)\b"
    r"|\b(?:always|never) (?!\w+ss\b)[a-z]{3,}(?:s|ed)\b|\bno longer\b"
    r"|^\W*(?!need|feed|seed|embed)(?:\w{3,}ed|made|kept|wrote)\b"
)
"""A statement of what the code does, or of what was done."""

GUESS_WORD = Regex(
    r"(?i)\b(?:possibly|maybe|perhaps|i (?:think|guess|believe|wonder|suppose|see|do not see"
    r"|don't see)|wondering|ideally|might|could be|not sure|seems?|(?<!should )probably)\b"
)
"""Words of somebody who is not sure."""

PRINTED_OUTPUT = Regex(
    r"\b\w*(?:Error|Exception)\b|\bUncaught\b|\bFAIL\b|\w\.\w+:\d|(?i:\bcannot (?:use|read|find)\b)"
    r"|^[+>|]|=>|\{\{|;\s*$|</?\w+>"
)
"""A printed error, or a line of code."""

QUESTION_FORM = Regex(
    r"(?i)\?|^\W*(?:can|could|would|will) (?:you|we)\b|^\W*(?:why|how|question)\b"
)
"""A question, or a request in the form of one."""

WRITE_DOWN = Regex(
    r"(?i)\b(?:updates?|add|create|improve|record|mention|put|write|document)\b.*"
    r"\b(?:(?:CLAUDE|AGENTS|GEMINI)\.md|rules?|guidelines?|[\w-]+\.mdc)\b"
)
"""A wish to have a rule written down, which may have the form of a question."""

WRITE_DOWN_REQUEST = Regex(
    r"(?i)^\W*"
    r"(?:(?:(?:can|could|would) (?:you|we)|please|also|and|is there a way (?:we|you) can)\s+)*"
    r"(?:(?:updates?|add|create|make|improve)\b[^.?!]*?"
    r"\b(?:(?:CLAUDE|AGENTS|GEMINI)\.md|[\w-]+\.mdc|rules?|guidelines?)\b[^.?!]*?"
    r"|(?:mention|document|record|note))\s+"
    r"(?:that specif\w+ that|that"
    r"|to (?:explicitly )?(?:state|say|specify|make sure|ensure)(?: that)?)\s+"
    r"(?=.*\b(?:always|never|must|should)\b)"
)
"""The request to write a rule down, before the rule."""

DESTINATION = Regex(r"(?i)\s+(?:in|into|to) (?:the )?(?:CLAUDE|AGENTS|GEMINI)\.md\W*$")
"""The file at the end of such a request: `… to AGENTS.md`."""

PAST_ACTION = Regex(r"(?i)\b(?:you|it|he|she|they)(?:'ve| have| had|'s| has)?(?: already)? \w+ed\b")
"""What somebody did, in which no rule is stated."""

HABIT_WORD = Regex(
    r"(?i)\bhabit\b|\bconsistent(?:ly)?\b|\bimportance of \w+ing\b"
    r"|\b(?:start|begin) (?:us|add|includ|incorporat|writ|import)ing\b"
    r"|\b(?:conventions?|practices?|standards?|rules?) (?:that )?(?:we|i)\b.{0,60} (?:is|are)\b"
)
"""Words by which an order is one of all times: it is to be done from then on."""

FIRST_PERSON = Regex(r"\b[iI](?:'\w+)?\b")
"""A person who speaks of themselves."""

OFFER_OF_HELP = Regex(
    r"(?i)\b(?:do not|don't|never) (?:hesitate|worry|be (?:afraid|shy|discouraged))\b"
    r"|\b(?:reach out|feel free|keep (?:up|that)|(?:don't|do not) forget to (?:ask|reach))\b"
)
"""An offer of help, which has the form of an order."""

ANNOUNCEMENT = Regex(
    r"(?i)\b(?:the following|a few|a couple of|some|several|specific|certain|particular|the same"
    r"|the other|those|these|this) (?:\w+ ){0,2}?"
    r"(?:guidelines?|conventions?|practices?|standards?|rules?|instructions?|updates?|topics?"
    r"|expectations?|approach(?:es)?)\b"
    r"|\b(?:implement|apply|follow|adopt|incorporate|practi[cs]e)(?:ing)? "
    r"(?:this|that|these|those|it|them)\b"
)
"""A sentence that only announces a rule, or points back to one."""

LEAD_WORDS = Regex(
    r"(?i)^\W*(?:(?:now|also|so|then|ok(?:ay)?|first|firstly|second|secondly|third|thirdly|finally"
    r"|lastly|next|additionally|moreover|furthermore|similarly|likewise|in addition"
    r"|first and foremost|great|perfect|alright|and|but|(?-i:[A-Z])[a-z]+(?:-[A-Z][a-z]+)?"
    r"(?=, (?:i|i'd|please|always|never|from now on|going forward|when|for|make sure|we|you|do not"
    r"|don't|remember)\b)),\s+|(?:also|and|so|but)\s+(?=(?:i|always|never|please|for|when|make)\b))+"
)
"""What links a sentence to the one before it, and the name of the person who is spoken to."""

CONDITION_PHRASE = (
    r"(?P<condition>(?:for|when|whenever|in|with|regarding|as for|from now on|going forward"
    r"|moving forward)\b[^,]{0,60}, )?"
)
"""What comes before the words of a wish: `When you write tests, I want you to …`."""

WISH_PREFIX = Regex(
    rf"(?i)^{CONDITION_PHRASE}(?:please )?(?:"
    r"(?:i|we)(?:'d| would)?(?: really| also| now| just)?"
    r" (?:want|need|like|love|expect|ask|prefer)"
    r" (?:for )?(?:you|us|everyone|everybody|all of you) to"
    r"|it(?:'s| is) (?:also |very |really )?"
    r"(?:important|crucial|essential|vital|best|key|necessary)"
    r" (?:to|that (?:you|we)|for (?:you|us) to)"
    r"|(?:one|another)\b[^.;:]{0,40}?"
    r"\b(?:conventions?|practices?|rules?|standards?|guidelines?|instructions?)"
    r"(?: [\w']+){0,9}? is to"
    r")\s+(?:(?:please|also|now|make sure to)\s+)*"
)
"""The words of a wish, or of what matters, before the order itself."""

PROMPT_NUMBER = Regex(r"^\[Prompt \d+\]\s*")
"""The number that some programs of agents put before a turn."""


def weigh_rule(text: str, *, is_spoken: bool) -> float:
    """Return the weight of a sentence as a rule for later work; 0 if it is about the work at hand.

    Args:
        text: the sentence.
        is_spoken: whether a person said it to an agent. Other sentences are from commit messages,
            and most of these describe the code.

    Returns:
        `LASTING_RULE_WEIGHT` if the sentence says that it lasts, `PROCESS_RULE_WEIGHT` if it is a
        rule about how to work or how things are named, `REASONED_RULE_WEIGHT` if it gives a reason,
        and `BARE_ORDER_WEIGHT` for an order that counts only if several changes give it.
    """
    plain = spell_negations(PROMPT_NUMBER.sub("", text))
    if is_spoken:
        plain = strip_wish_prefix(plain)
        if states_naming_rule(plain):
            return PROCESS_RULE_WEIGHT

    states_no_rule = OFFER_OF_HELP.search(plain) or ANNOUNCEMENT.search(plain)
    if states_no_rule or not _can_be_understood_alone(plain):
        return 0
    if _says_it_lasts(plain):
        return LASTING_RULE_WEIGHT
    if QUESTION_FORM.search(plain) or FIRST_PERSON.search(plain):
        return 0
    if _is_rule_of_work(plain, is_spoken=is_spoken):
        return PROCESS_RULE_WEIGHT
    return _weigh_reasoned_rule(plain) if is_spoken else _weigh_message_sentence(plain)


def _says_it_lasts(plain: str) -> bool:
    """Return whether a rule says that it holds from now on, or that it is to be written down."""
    if FROM_NOW_ON.search(plain):
        return True
    has_lasting_words = LASTING_WORDS.search(plain) or WRITE_DOWN.search(plain)
    return bool(RULE_WORD.search(plain) and has_lasting_words)


def _weigh_reasoned_rule(plain: str) -> float:
    """Return the weight of a spoken sentence that counts only as a rule with its reason."""
    has_reason = MODAL_VERB.search(plain) and REASON_OF_RULE.search(plain)
    return REASONED_RULE_WEIGHT if has_reason else 0


def _weigh_message_sentence(plain: str) -> float:
    """Return the weight of a sentence of a commit message that is not about how to work.

    It counts if it states what always holds, or gives the reason of an order. An order without a
    reason counts only if several changes repeat it.
    """
    if INVARIANT_WORDS.search(plain):
        return REASONED_RULE_WEIGHT
    is_prohibition = PROHIBITION.search(plain) is not None
    has_obligation = is_prohibition or MODAL_VERB.search(plain)
    if has_obligation and REASON_OF_RULE.search(plain):
        return REASONED_RULE_WEIGHT
    if is_prohibition or ORDER_FORM.search(plain):
        return BARE_ORDER_WEIGHT
    return 0


def strip_write_down_request(text: str) -> str:
    """Return a sentence without the request to write it down, which an entry has fulfilled.

    >>> strip_write_down_request("can you update CLAUDE.md that we should always run fmt?")
    'We should always run fmt'
    """
    rule = WRITE_DOWN_REQUEST.sub("", text, count=1)
    if rule == text:
        return text
    rule = DESTINATION.sub("", rule).rstrip(" ?")
    return rule[:1].upper() + rule[1:]


def strip_wish_prefix(text: str) -> str:
    """Return the order in a spoken sentence, without linking words and `I want you to` before it.

    A condition before these words stays: `When you write tests, …`.

    >>> strip_wish_prefix("Additionally, I want you to always use docstrings")
    'always use docstrings'
    """
    sentence = LEAD_WORDS.sub("", text, count=1)
    prefix = WISH_PREFIX.match(sentence)
    if prefix is None:
        return sentence
    order = sentence[prefix.end() :]
    condition = prefix["condition"] or ""
    return condition + order if order else sentence


def states_naming_rule(plain: str) -> bool:
    """Return whether a sentence says how things in code are named; a question or story does not.

    Args:
        plain: the sentence, as `spell_negations` returns it.
    """
    if QUESTION_FORM.search(plain) or GUESS_WORD.search(plain) or FIRST_PERSON.search(plain):
        return False
    return PAST_ACTION.search(plain) is None and bool(find_name_rules(plain))


def _is_rule_of_work(plain: str, *, is_spoken: bool) -> bool:
    """Return whether a sentence chooses, forbids, or orders something about the work process.

    Args:
        plain: the sentence, as `spell_negations` returns it.
        is_spoken: whether a person said it to an agent.
    """
    prohibition = NEVER_ORDER if is_spoken else NEVER_ORDER_AT_START
    if CHOICE_FORM.search(plain) or prohibition.search(plain):
        return True
    if is_spoken and HABIT_WORD.search(plain) and CODING_WORD.search(plain):
        return True
    return _has_form_of_order(plain) and _is_about_process(plain, is_spoken=is_spoken)


def is_coding_rule(text: str) -> bool:
    """Return whether a person states a rule for all code, such as `always use docstrings`.

    How things are named is such a rule. Any other must say that it holds at all times, and name a
    part of code (functions, imports …).
    """
    plain = strip_wish_prefix(spell_negations(text))
    if states_naming_rule(plain):
        return True
    holds_at_all_times = ALL_TIMES_WORD.search(plain) or HABIT_WORD.search(plain)
    if not holds_at_all_times or not CODING_WORD.search(plain):
        return False
    return weigh_rule(text, is_spoken=True) > 0


def _is_about_process(plain: str, *, is_spoken: bool) -> bool:
    """Return whether a sentence is about the work process, or, if spoken, about code in general.

    In a commit message fewer words count (CONDUCT_WORD): most messages name code and commands.

    Args:
        plain: the sentence, as `spell_negations` returns it.
        is_spoken: whether a person said it to an agent; else it is from a commit message.
    """
    if not is_spoken:
        return CONDUCT_WORD.search(plain) is not None
    if PROCESS_WORD.search(plain):
        return True
    holds_at_all_times = ALL_TIMES_WORD.search(plain) or re.search(r"(?i)\bmust\b", plain)
    return bool(holds_at_all_times and CODING_WORD.search(plain))


def _can_be_understood_alone(plain: str) -> bool:
    """Return whether a sentence can be understood and agreed to without its context."""
    if GUESS_WORD.search(plain) or PRINTED_OUTPUT.search(plain) or FACT_STATEMENT.search(plain):
        return False
    if QUESTION_FORM.search(plain) and not WRITE_DOWN.search(plain):
        return False
    without_conjunction = THAT_CONJUNCTION.sub(r"\1", plain)  # `make sure that`
    return CONTEXT_REFERENCE.search(without_conjunction) is None


def _has_form_of_order(plain: str) -> bool:
    """Return whether a sentence is an order; a prohibition needs a reason or a range."""
    if ORDER_FORM.search(plain) or PROCESS_RULE.search(plain):
        return True
    return PROHIBITION.search(plain) is not None and REASON_OR_RANGE.search(plain) is not None


# -- requests of several sessions

CONDUCT_WORD = Regex(
    r"(?i)\b(?:commit\w*|push\w*|pull|prs?|merg\w+|rebas\w+|branch\w*|main|worktrees?|workspaces?"
    r"|tests?|lint\w*|fmt|format|changelog|docs?|documentation|comments?|ask\w*|questions?|unclear"
    r"|outline|before|specs?|markdown|message|review\w*|prompts?|todos?|issues?|summar\w+"
    r"|skills?|workers?|sub-?agents?|(?:put|save|write) the plan"
    r"|(?:write|writing) (?:any )?code|as \w+ as possible)\b"
)
"""A word of how agents work: commits, tests, documents, questions, plans."""

CONDUCT_OPENING = Regex(r"(?i)^(?:(?:please|also)[, ]+)*(?:use|do not|don't|never|always|keep)\b")
"""The beginning of an order: `please use …`, `never …`."""

PASSING_REQUEST = Regex(
    r"(?i)^(?:please |now |ok,? |just |also,? )*(?:fix\w*|lint\b|do (?:all|the)|check|is|are|what"
    r"|how|where|remove|implement|plan|can you (?:check|fix|see|explain)"
    r"|let's (?:implement|continue|fix|adjust|check|remove))\b"
)
"""The beginning of a request for the work at hand: `fix …`, `can you check …`."""

BARE_COMMIT = Regex(
    r"(?i)^(?:(?:please|now|ok|okay|then|also|and|can you|go ahead and)[, ]+)*commit(?: and push)?"
    r"(?: (?:the|these|this|all|my)? ?(?:\w+ ){0,2}(?:changes?|fix(?:es)?|work)\b.*)?[.?!]?$"
)
"""The order to commit: given in most sessions, it must not become the rule to commit by oneself."""

NAMED_FILE = Regex(r"~/\w|[\w/-]+\.(?!md\b|mdc\b)[a-z]{2,4}\b")
"""The name of a file that is no document: the request is about that file."""


def is_conduct_request(request: str, *, is_about_agent: bool = False) -> bool:
    """Return whether a request is about how an agent works: its commits, tests, questions, plans.

    Such a request, made in several sessions, may become a rule. Requests for the work itself are
    made as often (`fix lint errors`), and are no rules.

    Args:
        request: the request.
        is_about_agent: whether its form shows that it is about the agent: a complaint, or a
            request that names a document of rules or says that it lasts.
    """
    if PASSING_REQUEST.match(request) or BARE_COMMIT.match(request):
        return False
    if NAMED_FILE.search(request):
        return False
    plain = spell_negations(request)
    if OFFER_OF_HELP.search(plain):
        return False
    return bool(is_about_agent or CONDUCT_WORD.search(plain) or CONDUCT_OPENING.match(plain))
