"""Tests of support: a learning that its quotes do not support is proposed, not written."""

from __future__ import annotations

from typing import Any

import pytest

from memory_ci.extraction.judge import JudgedCase, judge_reply
from memory_ci.extraction.reply import Learning, RawQuote, format_reply
from memory_ci.extraction.support import (
    find_restating_document,
    find_unsupported,
    is_document,
    list_paragraphs,
)
from memory_ci.records.candidate import Judged
from tests.extraction.make import make_piece

AMEND = "please don't amend commits - it messes with the checkpoints"
UNCARRIED = [
    (
        "Every job first rewrites history to one commit",
        "what is the difference",
        None,
        "not-in-the-quotes",
    ),
    (
        "Agents may install packages from any registry",
        "you have my approval",
        None,
        "not-in-the-quotes",
    ),
    ("Use gRPC between the services", "could we use gRPC here?", None, "quoted-question"),
    (
        "Use gRPC between the services",
        "could we use gRPC here",
        "could we use gRPC here? Or not?",
        "quoted-question",
    ),
    (
        "Use gRPC between the services",
        "\u53ef\u4ee5\u7528 gRPC \u5417\uff1f",
        None,
        "quoted-question",
    ),
    ("Always amend commits", "amend commits - it messes with", AMEND, "opposite-of-the-quotes"),
    ("Always amend commits", "amend commits - it\nmesses with", AMEND, "opposite-of-the-quotes"),
    ("Use npm", "use pnpm instead of npm", None, "opposite-of-the-quotes"),
    ("Never use npm", "use npm in this repo", None, "opposite-of-the-quotes"),
    ("Push to main", "push to main", "don't push to main", "opposite-of-the-quotes"),
    ("Always run the linter", "run the linter on this file", None, "broader-than-the-quotes"),
    ("Give every prompt a flag", "give this prompt a flag", None, "broader-than-the-quotes"),
    (
        "Never link a commit by hand",
        "linking commits by hand took an hour",
        None,
        "broader-than-the-quotes",
    ),
]


def find_reason(title: str, quote: str, text: str | None = None, **fields: Any) -> str | None:
    """Return why a title is not supported by its quote, or None."""
    piece = make_piece(text or quote, kind="text")
    return find_unsupported(
        Learning(title=title, quotes=(RawQuote("e1", quote),), **fields), {"e1": piece}
    )


@pytest.mark.parametrize(("title", "quote", "text", "reason"), UNCARRIED)
def test_an_unsupported_title_has_a_reason(
    title: str, quote: str, text: str | None, reason: str
) -> None:
    assert find_reason(title, quote, text) == reason


@pytest.mark.parametrize(
    ("title", "quote"),
    [
        ("Never amend commits", AMEND),
        ("Use pnpm, not npm", "use pnpm instead of npm"),
        ("Run make lint before each commit", "never commit without running make lint"),
        ("Run make lint", "don't forget to run make lint"),
        ("Do not open connections; use the pool", "use the pool, don't open connections yourself"),
        (
            "Leave columns that a release reads",
            "A migration never renames a column that a release still reads.",
        ),
        (
            "Close the client in the fixture",
            "the client was never closed, so close it in the fixture",
        ),
        ("Ask getHTTPClient, never open one", "use get_http_client, not just any client"),
        ("Rebase from main before pushing", "rebase from main first"),
        ("Never use npm", "using npm broke the lock file, don't"),
        ("Advance only active sessions", "idle sessions should not be advanced"),
        (
            "\u63d0\u4ea4\u524d\u8fd0\u884c\u6d4b\u8bd5",
            "\u6bcf\u6b21\u63d0\u4ea4\u524d\u90fd\u8981\u8fd0\u884c\u6d4b\u8bd5",
        ),
    ],
)
def test_a_title_supported_by_its_quotes_is_kept(title: str, quote: str) -> None:
    assert find_reason(title, quote) is None


def test_the_name_of_a_rejected_option_is_not_an_order() -> None:
    title, quote = "Amending commits", "don't amend commits, it breaks the link"
    assert find_reason(title, quote, adoption="rejected") is None
    assert find_reason("Amend commits", quote) == "opposite-of-the-quotes"


def test_a_question_is_ignored_if_another_text_is_quoted() -> None:
    pieces = {"e1": make_piece("why is there no link?", 1), "e2": make_piece("link the request", 2)}
    quotes = (RawQuote("e1", "why is there no link?"), RawQuote("e2", "link the request"))
    assert find_unsupported(Learning(title="Link the request", quotes=quotes), pieces) is None


@pytest.mark.parametrize(
    ("paths", "kind", "is_known"),
    [
        (("docs/limits.md",), "commit", True),
        (("docs/limits.md", "a.py"), "commit", False),
        ((), "commit", False),
    ],
)
def test_learnings_of_a_documentation_change_are_documented(
    paths: tuple[str, ...], kind: Any, is_known: bool
) -> None:
    statement = "Amending a commit drops its trailer"
    piece = make_piece(statement, kind=kind, paths=paths)
    reason = find_unsupported(
        Learning(title=statement, quotes=(RawQuote("e1", statement),)), {"e1": piece}
    )
    assert (reason or "").startswith("restates-document") is is_known


def judge(title: str, quote: str, document: str | None = None) -> Judged:
    case = JudgedCase(
        label="#1", pieces=(make_piece(quote),), find_document=lambda candidate: document
    )
    return judge_reply(
        case, format_reply((Learning(title=title, quotes=(RawQuote("e1", quote),)),)), "model"
    ).judged[0]


def test_unsupported_and_documented_learnings_are_proposed_with_a_reason() -> None:
    existing_text = "Send a key with each charge."
    assert (judge("Use gRPC", existing_text).verdict, judge("Use gRPC", existing_text).reason) == (
        "suspected",
        "not-in-the-quotes",
    )
    assert judge("Send a key with a charge", existing_text).verdict == "written"
    judgement = judge("Send a key with a charge", existing_text, "README.md")
    assert (judgement.verdict, judgement.reason) == ("suspected", "restates-document: README.md")


DOCUMENT = """# Shop

An online shop.

## Branching

Rebase, never merge.

Releases
--------

Tag them on Tuesday.

## Tests

Every test must

- use the in-memory gateway
- freeze the clock,
  also in fixtures

| command | what it does |
|---|---|
| make seed | loads the demo catalogue |

```
+---------+    +-------+
| gateway |--->| queue |   charges wait for the gateway
+---------+    +-------+
```

```
make lint   # checks names and types
```
"""


@pytest.mark.parametrize(
    "title",
    [
        "Branching: rebase, never merge",
        "Tag releases on Tuesday",
        "Every test must freeze the clock",
        "Freeze the clock in fixtures",
        "The command make seed loads the demo catalogue",
        "make lint checks names and types",
    ],
)
def test_headings_items_and_rows_of_a_document_count_together_with_their_parents(
    title: str,
) -> None:
    assert find_restating_document(title, list_paragraphs("README.md", DOCUMENT)) == "README.md"


@pytest.mark.parametrize(
    "title",
    [
        "Charges wait in the queue for the gateway",
        "Merge tests after branching, command by command",
        "Tests of branching load the catalogue",
        "Branching tests must use releases",
    ],
)
def test_labels_of_drawings_and_single_headings_document_nothing(title: str) -> None:
    assert find_restating_document(title, list_paragraphs("README.md", DOCUMENT)) is None


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        ("README.md", True),
        ("docs/queue.md", True),
        ("packages/api/README.md", True),
        (".claude/skills/writing/README.md", False),
        ("third_party/zlib/README.md", False),
        ("web/node_modules/left-pad/README.md", False),
    ],
)
def test_the_readme_of_vendored_code_is_not_a_document_of_the_project(
    path: str, is_read: bool
) -> None:
    assert is_document(path) is is_read
