"""Templates that make a check from the words of a rule, without a model.

A template makes a check only if the files that the rule names are in the repository, because
otherwise the check could never apply. The back-test later finds out whether the check is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from memory_ci.checks.code_rules import (
    check_annotations,
    check_comments,
    check_import,
    check_names,
)
from memory_ci.checks.repository import (
    RepositoryFiles,
    has_glob,
    list_code,
    list_tests,
)
from memory_ci.records.check import (
    AbsentCheck,
    ChangeCheck,
    MessageCheck,
    PresentCheck,
    UntouchedCheck,
    WithCheck,
)
from memory_ci.regex import Regex

MAX_RULE = 300  # Characters of a rule that is read.

CHANGELOGS = (
    "CHANGELOG.md", "CHANGELOG.rst", "CHANGES.md", "CHANGES.rst", "CHANGELOG", "HISTORY.md",
    "NEWS.md", "changelog.d/**", "changelog/**", "newsfragments/**", "news/**", ".changeset/**",
)  # fmt: skip

NEVER = r"(?:never|do not|don't|must not|should not|shouldn't|no)"
CHANGE = r"(?:touch|edit|change|modify|alter|commit|update|write to|overwrite)"
QUOTED = Regex(r"`(?P<code>[^`\n]{2,80})`")
"""Code in a rule, between backticks."""

WORD = Regex(r"(?<![\w`])[\w./@-]*[\w/](?![\w`])")
"""A word that may be a path."""

POSITIVE_NEGATION = Regex(r"\b(?:do not|don't|never) (?:forget|hesitate|fail) to ", re.IGNORECASE)
"""Negations by which something is to be done."""

RESTRICTING_WORDS = Regex(
    r"\b(?:without|unless|before|until|except|if|when|only|other than)\b", re.IGNORECASE
)
"""Words by which files are left alone in some cases alone."""

LEAVE_ALONE = Regex(
    rf"\b{NEVER}(?: ever)?(?: \w+){{0,2}} {CHANGE}\b(?P<what>.*)"
    r"|\b(?:leave|keep)\b(?P<left>.*)\b(?:alone|untouched|unchanged|as (?:it is|they are))\b"
    rf"|^(?P<subject>.*) (?:must|should)(?: not|n't) be {CHANGE}",
    re.IGNORECASE,
)
"""A rule that leaves files alone."""

UPDATE_VERB = Regex(
    r"\b(?:update|add|write|document|mention|put|note|extend|adjust|include|keep|bump|regenerate)\b",
    re.IGNORECASE,
)
"""The verb of what is to change as well."""

CHANGED_FILES = Regex(
    r"\b(?:when(?:ever)?|if|each time|every time)\b[^,.;]*?"
    r"\b(?:change|changes|changing|edit|editing|touch|touching|add|adding|modify|modifying|update)"
    r"\b(?P<what>[^,;]*)",
    re.IGNORECASE,
)
"""What the change of some files asks for: `whenever you change the schema`."""

WORDS_FOR_ALL_CHANGES = Regex(
    r"\b(?:every|each|all|any) (?:\w+ )?(?:change|commit|pr|pull request|feature|fix)s?\b"
    r"|\b(?:with|before) (?:the|a|you|each|every)? ?(?:commit|push)\w*\b|\b(?:commit|push) and\b"
    r"|\balways\b",
    re.IGNORECASE,
)
"""Words by which a rule is about changes of any kind."""

ARTICLES = frozenset("the a an our your any all other others in of folder directory".split())
MAX_BARE = 2  # Words in which one may name a directory without a sign of a path.
MIN_BARE = 3  # Characters that such a word exceeds.

ABOUT_MESSAGES = Regex(r"\b(?:commit )?(?:messages?|titles?|subjects?)\b", re.IGNORECASE)
"""A rule that is about commit messages."""

ATTRIBUTION = Regex(
    r"\b(?:co-?author(?:ed)?(?:-by)?|attribution|generated (?:by|with)|claude|codex|copilot|ai)\b",
    re.IGNORECASE,
)
"""A rule that is about the name of an agent in a message."""

ATTRIBUTION_PATTERN = (
    r"(?im)^co-authored-by:.*\b(?:claude|codex|copilot|cursor|gemini|aider|anthropic|openai)\b"
    r"|\bgenerated with \[?claude code"
)
ATTRIBUTION_CHECK = MessageCheck(ATTRIBUTION_PATTERN, is_forbidden=True)
EMOJI = Regex(r"\bemojis?\b", re.IGNORECASE)
EMOJI_PATTERN = "[\u2600-\u27bf\U0001f300-\U0001faff]"
ISSUE_RULE = Regex(
    r"\b(?:include|reference|mention|add|put|start with|name)s?\b[^.]{0,30}\b(?:issue|ticket)"
    r"(?: number| id| key)?\b[^.]{0,20}\b(?:commit|message|title|subject)"
    r"|\b(?:commit|message|title|subject)s?\b[^.]{0,30}\b(?:include|reference|mention|name)s?\b"
    r"[^.]{0,20}\b(?:issue|ticket) (?:number|id|key)",
    re.IGNORECASE,
)
"""A rule that wants the number of an issue in a message."""

ISSUE_PATTERN = r"#\d+|\b[A-Z][A-Z0-9]+-\d+\b"

FORBIDDEN_TEXT = Regex(
    rf"(?:^|[.;:!,] |\b(?:we|you|please|and|must|should) )(?:{NEVER}|avoid)(?: \w+){{0,2}}"
    r" (?:use|using|add|adding|call|calling|leave|leaving|write|import|importing|introduce|put)\b"
    r"|^avoid\b",
    re.IGNORECASE,
)
"""The verb before the code that a rule forbids: `never use`, `avoid`."""

WORDS_OF_PLACE = Regex(
    r"[^.;]*?\b(?!in (?:the |our |your |new |all |any )*"
    r"(?:code|codebase|repo(?:sitory)?|project)\b)"
    r"(?:in|on|at|inside|within|outside|under|for|from|when|where|while|during|with)\b",
    re.IGNORECASE,
)
"""Words behind the forbidden code that say where alone it is forbidden."""

MAX_GAP = 20  # Characters between the verb and the code that it forbids.
CODE_LIKE = Regex(r"[\w$]+(?:[.:]{1,2}[\w$]+)+(?:\(\))?|[\w$]+\(\)|@[\w.-]+|[A-Z]{3,}")
"""Code that is no plain word: `os.system`, `print()`, `@decorator`, `TODO`."""

TODO_RULE = Regex(r"\b(?i:no|never|don't|do not)\b.*\b(?P<mark>TODO|FIXME|XXX)s?\b")
"""A rule against marks of open work: `no TODOs`."""

HEADER_RULE = Regex(
    r"\b(?:every|each|all|new) (?:new )?(?:\w+ )?files?\b.*\b(?P<what>SPDX|licen[cs]e header"
    r"|copyright)\b",
    re.IGNORECASE,
)
"""A rule that wants a licence in new files."""

HEADER_PATTERN = r"SPDX-License-Identifier|(?i:copyright|licen[cs]ed? under)"


def derive_check(rule: str, repository: RepositoryFiles) -> ChangeCheck | None:
    """Return the check of a rule that a template understands, None for any other.

    Args:
        rule: a sentence: `Never touch db/seeds`.
        repository: the files that the rule may name.

    >>> from memory_ci.checks.repository import list_repository_files
    >>> derive_check("Never touch db/seeds", list_repository_files(["db/seeds/a.sql"]))
    UntouchedCheck(paths=('db/seeds/**',))
    """
    text = rule[:MAX_RULE].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    text = POSITIVE_NEGATION.sub("", text)
    for template in TEMPLATES:
        check = template(text, repository)
        if check is not None:
            return check
    return None


def _derive_message_check(text: str, repository: RepositoryFiles) -> ChangeCheck | None:
    """Return the check of a rule about commit messages: emojis, attribution, numbers of issues."""
    del repository  # a message is the same everywhere
    if not re.search(r"\bcommit|\bmessage|\btitle", text, re.IGNORECASE):
        return None
    is_forbidding = re.search(rf"\b{NEVER}\b|\bwithout\b", text, re.IGNORECASE) is not None
    if is_forbidding and EMOJI.search(text):
        return MessageCheck(EMOJI_PATTERN, is_forbidden=True)
    if is_forbidding and ATTRIBUTION.search(text):
        return ATTRIBUTION_CHECK
    if ABOUT_MESSAGES.search(text) and ISSUE_RULE.search(text) and not is_forbidding:
        return MessageCheck(ISSUE_PATTERN)
    return None


def _derive_untouched_check(text: str, repository: RepositoryFiles) -> ChangeCheck | None:
    """Return the check of a rule that leaves files alone: `never touch db/seeds`."""
    match = LEAVE_ALONE.search(text)
    if match is None or RESTRICTING_WORDS.search(text):
        return None
    named_files = match["what"] or match["left"] or match["subject"] or ""
    globs = _list_globs(named_files, repository)
    return UntouchedCheck(tuple(globs)) if globs else None


def _derive_with_check(text: str, repository: RepositoryFiles) -> ChangeCheck | None:
    """Return the check of a rule by which files change together.

    `Update the docs whenever you change src/api` names the first files. `Always update the
    changelog` means all code without its tests: a change of tests alone needs no entry. Rules by
    which tests are to be changed with the code are checked for tests as well.
    """
    if not UPDATE_VERB.search(text):
        return None
    changed_files = CHANGED_FILES.search(text)
    text_on_updates = text.replace(changed_files[0], " ") if changed_files else text
    also_globs = _list_globs_to_update(text_on_updates, repository)
    if not also_globs:
        return None

    when_globs: list[str] = []
    if changed_files:
        when_globs = _list_globs(changed_files["what"], repository)
    elif WORDS_FOR_ALL_CHANGES.search(text):
        when_globs = list(list_code(repository))
    if not when_globs or set(when_globs) & set(also_globs):
        return None

    test_globs = list_tests(repository)
    is_about_tests = bool(set(test_globs) & set(also_globs))
    if not changed_files and not is_about_tests:
        when_globs += [f"!{glob}" for glob in test_globs]
    return WithCheck(tuple(when_globs), tuple(also_globs))


def _list_globs_to_update(text: str, repository: RepositoryFiles) -> list[str]:
    """Return the globs of the files that a rule wants changed as well."""
    if re.search(r"\bchange ?logs?\b|\bnewsfragments?\b|\bchangesets?\b", text, re.IGNORECASE):
        return [glob for glob in CHANGELOGS if has_glob(glob, repository)]
    named = _list_globs(text, repository)
    if named:
        return named
    if re.search(r"\btests?\b", text, re.IGNORECASE):
        return list(list_tests(repository))
    if re.search(r"\b(?:docs|documentation)\b", text, re.IGNORECASE):
        return [glob for glob in ("docs/**", "README.md") if has_glob(glob, repository)]
    return []


def _derive_absent_check(text: str, repository: RepositoryFiles) -> ChangeCheck | None:
    """Return the check of a rule by which code must not have a text: "never use `print()`".

    The text must be marked as code, look like code, and be forbidden everywhere.
    """
    code_globs = list_code(repository)
    if not code_globs:
        return None
    todo = TODO_RULE.search(text)
    if todo:
        return AbsentCheck(code_globs, rf"\b{todo['mark']}\b")
    verb = FORBIDDEN_TEXT.search(text)
    if verb is None:
        return None
    quoted = QUOTED.search(text, verb.end())
    if quoted is None or quoted.start() - verb.end() > MAX_GAP:
        return None
    code = quoted["code"]
    if not CODE_LIKE.fullmatch(code) or _list_globs(quoted[0], repository):
        return None
    if WORDS_OF_PLACE.match(text, quoted.end()):
        return None
    name = code.removesuffix("()")
    end = r"\(" if code.endswith("()") else r"(?![\w$])"
    return AbsentCheck(code_globs, rf"(?<![\w$.]){re.escape(name)}{end}")


def _derive_header_check(text: str, repository: RepositoryFiles) -> ChangeCheck | None:
    """Return the check of a rule by which new files of code state their licence."""
    code_globs = list_code(repository)
    if not code_globs or not HEADER_RULE.search(text):
        return None
    return PresentCheck(code_globs, HEADER_PATTERN)


Template = Callable[[str, RepositoryFiles], ChangeCheck | None]
TEMPLATES: tuple[Template, ...] = (
    _derive_message_check,
    _derive_untouched_check,
    check_names,
    check_annotations,
    check_import,
    check_comments,
    _derive_absent_check,
    _derive_header_check,
    _derive_with_check,
)
"""The templates in the order in which they are tried."""


def _list_globs(text: str, repository: RepositoryFiles) -> list[str]:
    """Return the globs of the files and directories that a text names and the repository has."""
    globs: dict[str, None] = {}
    for word in _list_words(text):
        for glob in _find_glob_of_word(word, repository):
            globs[glob] = None
    return list(globs)


def _list_words(text: str) -> Iterator[str]:
    """Yield the words that may name files: those in code, then those with signs of a path.

    A bare word may name a directory if little else is said: `the seeds`, not a sentence on seeds.
    """
    for code in QUOTED.findall(text):
        yield code.strip().strip("@")
    words = [match[0].strip(".@") for match in WORD.finditer(QUOTED.sub(" ", text))]
    for word in words:
        if "/" in word or "." in word:
            yield word
    bare_words = [word for word in words if word.isalpha() and word not in ARTICLES]
    if len(bare_words) <= MAX_BARE:
        for word in bare_words:
            if word.islower() and len(word) > MIN_BARE:
                yield f"{word}/"


def _find_glob_of_word(word: str, repository: RepositoryFiles) -> list[str]:
    """Return the glob that a word names, as a list; empty if the repository has no such file.

    A word names a path, a file name, a directory, or is a glob itself. The end of a directory's
    path is enough if no other directory has the same end.
    """
    path = word.removeprefix("./").strip("/")
    is_directory = word.endswith("/")
    if not path or any(sign in path for sign in " !\\#"):
        return []
    if "*" in path:
        return [path] if has_glob(path, repository) else []
    if path in repository.paths and not is_directory:
        return [path if "/" in path else f"/{path}"]
    if path in repository.directories:
        return [f"{path}/**"]
    if "/" in path or is_directory:
        matching = [name for name in repository.directories if name.endswith(f"/{path}")]
        return [f"{matching[0]}/**"] if len(matching) == 1 else []
    is_file_name = any(name.endswith(f"/{path}") for name in repository.paths)
    return [path] if is_file_name else []
