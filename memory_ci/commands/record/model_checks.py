"""Checks of changes that a model writes for rules, where no template understands the rule.

The reply of a model is not trusted. Each check is parsed as one of a person is, and must name files
of the repository. It is then tried on past changes, and a person agrees to it, as to any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from memory_ci.checks.repository import RepositoryFiles, has_glob
from memory_ci.errors import UsageError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.reply import parse_reply
from memory_ci.extraction.support import find_ungrounded
from memory_ci.findings import printable
from memory_ci.records.candidate import Request
from memory_ci.records.check import (
    AbsentCheck,
    BeforeCheck,
    ChangeCheck,
    PresentCheck,
    UntouchedCheck,
    WithCheck,
)
from memory_ci.records.event import UNKNOWN_TIME, Evidence, Origin
from memory_ci.regex import Regex
from memory_ci.store.checkfield import parse_check_text

MAX_DIRECTORIES = 80  # Directories that a model is shown.
MAX_DEPTH = 2  # Their depth.
MAX_CHECK = 1_000  # Characters of a check that are read.

RULE_WORDS = Regex(
    r"\b(?:must|should|shall|never|always|do not|don't|cannot|avoid|forbidden|prefer|ensure"
    r"|make sure|instead of|rather than|only|required?|needs?)\b"
    r"|^(?:use|add|keep|put|place|write|update|include|follow|import|name|prefix|start)\b",
    re.IGNORECASE,
)
"""Words of a sentence that says what is to be done."""

CODE_WORDS = Regex(
    r"`|\b[\w-]+/[\w-]|\.\w{1,4}\b"
    r"|\b(?:files?|folders?|director(?:y|ies)|tests?|docs|documentation|docstrings?|comments?|headers?"
    r"|licen[cs]es?|imports?|names?|named|types?|annotations?|commits?|messages?|titles?|changelogs?"
    r"|changesets?|functions?|methods?|class(?:es)?|variables?|migrations?|dependenc(?:y|ies)"
    r"|snapshots?|fixtures?|code)\b",
    re.IGNORECASE,
)
"""What paths, added lines or commit messages show."""


def write_checks(
    engine: Engine, rules: Sequence[str], repository: RepositoryFiles
) -> list[ChangeCheck | None]:
    """Return for each rule the check that a model writes, or None without a usable check.

    All rules are in one request, because each run of `record` asks again. The model answers as it
    does about merged changes: with learnings, each of which quotes the evidence that it is about.
    Here each rule is a piece of evidence, so the quote says which rule a check is for.

    Args:
        engine: the model, or a client that asks it.
        rules: sentences: `Each public function needs a docstring`.
        repository: the files that the checks may name.

    Raises:
        EngineError: as the engine; unreadable-reply.
    """
    rules_as_evidence = [_make_evidence(number, rule) for number, rule in enumerate(rules, 1)]
    evidence_by_id = {evidence.id: evidence for evidence in rules_as_evidence}
    request = Request(
        change="checks",
        evidence=tuple(rules_as_evidence),
        about=describe_files(repository),
        task="checks",
    )
    reply = engine.extract(request)
    check_by_evidence_id: dict[str, ChangeCheck] = {}
    for learning in parse_reply(reply.text).learnings:
        quoted_ids = {quote.evidence for quote in learning.quotes}
        if len(quoted_ids) != 1 or find_ungrounded(learning, evidence_by_id) is not None:
            continue  # It is not about one rule, or quotes words that no rule has.
        check = _parse_check(learning.check)
        if check is not None and _has_files(check, repository):
            check_by_evidence_id.setdefault(quoted_ids.pop(), check)
    return [check_by_evidence_id.get(evidence.id) for evidence in rules_as_evidence]


def _make_evidence(number: int, rule: str) -> Evidence:
    """Return a rule as a piece of evidence that the model can quote by number."""
    return Evidence(
        id=f"e{number}",
        kind="text",
        text=rule,
        trust="T0",  # The highest trust: what members wrote.
        origin=Origin(kind="file", id="rule"),
        at=UNKNOWN_TIME,
    )


def is_about_changes(sentence: str) -> bool:
    """Return whether a sentence of a document is a rule that a change can be tested by.

    It says what to do, and names files, code or commits. Documents have many sentences, and a model
    is asked about few.

    >>> is_about_changes("Never import from `internal` in tests")
    True
    >>> is_about_changes("The server has three parts")
    False
    """
    is_heading = sentence.endswith(":")
    return not is_heading and bool(RULE_WORDS.search(sentence) and CODE_WORDS.search(sentence))


def describe_files(repository: RepositoryFiles) -> str:
    """Return the upper directories of a repository, each with the kinds of files in it.

    It has no counts and no single files, so that it seldom changes: a cached reply stays usable.

    >>> from memory_ci.checks.repository import list_repository_files
    >>> print(describe_files(list_repository_files(["setup.py", "src/app/main.py", "src/a.sql"])))
    /: *.py
    src/: *.sql
    src/app/: *.py
    """
    kinds_by_directory: dict[str, set[str]] = {}
    for path in repository.paths:
        *directories, name = path.split("/")
        directory = "/".join(directories[:MAX_DEPTH]) + "/"
        has_suffix = "." in name[1:] and not name.endswith(".")  # `.gitignore` has none.
        kind = f"*.{name.rpartition('.')[2]}" if has_suffix else name
        kinds_by_directory.setdefault(directory, set()).add(kind)
    lines: list[str] = []
    for directory, kinds in islice(sorted(kinds_by_directory.items()), MAX_DIRECTORIES):
        lines.append(printable(f"{directory}: {_list_kinds(kinds)}"))
    return "\n".join(lines)


def _list_kinds(kinds: Iterable[str]) -> str:
    """Return the suffixes of a directory's files (`*.py *.sql`), and five files without one."""
    suffixes = sorted(kind for kind in kinds if kind.startswith("*"))
    names = sorted(kind for kind in kinds if not kind.startswith("*"))
    return " ".join([*suffixes, *names[:5]])


def _parse_check(text: str) -> ChangeCheck | None:
    """Return the check of a text; None if it cannot be parsed, or cannot be tried on history."""
    if not text or len(text) > MAX_CHECK:
        return None
    try:
        check = parse_check_text(text)
    except UsageError:
        return None
    return None if isinstance(check, BeforeCheck) else check


def _has_files(check: ChangeCheck, repository: RepositoryFiles) -> bool:
    """Return whether the repository has files for each list of globs of a check."""
    match check:
        case WithCheck(when, also):
            return _has_any(when, repository) and _has_any(also, repository)
        case UntouchedCheck(paths) | AbsentCheck(paths) | PresentCheck(paths):
            return _has_any(paths, repository)
    return True


def _has_any(globs: Iterable[str], repository: RepositoryFiles) -> bool:
    return any(has_glob(glob, repository) for glob in globs if not glob.startswith("!"))
