"""Tests of handwritten notes without the form of an entry: check reports them, and they become entries."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_ci.store.document import parse_memory_file
from memory_ci.store.manual_notes import adopt_notes, list_note_findings
from tests.make import format_all_keys, make_entry

TODAY = date(2026, 11, 21)
ENTRY = format_all_keys(make_entry(1, body="Because of this."))
HEADING = "## Always run tox -e mypy\n\nBecause CI does.\n"
UNDERLINED = "Always run tox -e mypy\n-----\n\nBecause CI does.\n"


def list_remarks(text: str, *, may_have_prose: bool = False) -> list[tuple[int, str]]:
    findings = list_note_findings(
        parse_memory_file("MEMORY.md", text.encode()), may_have_prose=may_have_prose
    )
    return [(finding.line, finding.code) for finding in findings]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"# Memory\n\n{HEADING}\n{ENTRY}", 3),
        (f"{ENTRY}\n{HEADING}", 14),
        (f"{ENTRY}\n{HEADING}\n{format_all_keys(make_entry(2))}", 14),
        (f"{ENTRY}{HEADING}".replace("\n", "\r\n"), 13),
        (f"{ENTRY}\n   {HEADING}", 14),
        (f"{ENTRY}\n{UNDERLINED}\n{format_all_keys(make_entry(2))}", 14),
        (f"{ENTRY}\n{UNDERLINED}".replace("-----", "---").replace("\n", "\r\n"), 14),
    ],
)
def test_a_heading_becomes_an_entry_with_all_text_below_it(text: str, line: int) -> None:
    assert list_remarks(text) == [(line, "loose-heading")]
    data, adopted = adopt_notes("MEMORY.md", text.encode(), TODAY, may_have_prose=False)
    assert [(entry.line, entry.title) for entry in adopted] == [(line, "Always run tox -e mypy")]
    file = parse_memory_file("MEMORY.md", data)
    new = next(entry for entry in file.entries if entry.title == "Always run tox -e mypy")
    assert (new.body, new.type, new.created_at) == ("Because CI does.", "directive", TODAY)
    assert len(file.entries) == 1 + text.count("id: ")
    assert not file.findings
    assert not list_remarks(data.decode())
    lines_after = iter(data.decode().split("\n"))
    assert all(old in lines_after for old in text.split("\n")), "lines are added, none is changed"
    assert adopt_notes("MEMORY.md", data, TODAY, may_have_prose=False) == (data, ())


def test_a_title_below_a_comment_is_not_a_loose_heading() -> None:
    assert list_remarks(ENTRY.replace("\n## ", "\n<!-- Why -->\n## ")) == []


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Words,\nthen a rule\n---\n",
            "Words\n\n---\n",
            "- item\n---\n",
            "| a |\n|---|\n",
            "```\nFenced\n---\n```\n",
        ),
        *("* * *\n---\n", "> quote\n---\n", "\n    ## Code\n", "\n    Code\n---\n", "Words\n--\n"),
        "<!--\n\nWords\n---\n-->\n",
        "### Smaller\n",
        "```\n## Fenced\n```\n",
        "<!--\n## In a comment\n-->\n",
        "##No blank\n",
        "## \n",
    ],
)
def test_other_headings_are_unchanged(text: str) -> None:
    assert list_remarks(f"{ENTRY}\n{text}") == list_remarks(f"# Memory\n{text}") == []


@pytest.mark.parametrize("end", ["---\n", "owner: ada\n---\n\n"])
def test_a_field_that_a_person_wrote_is_kept(end: str) -> None:
    text = f"{ENTRY}\n---\ntype: corrective\n{end}## Always run tox\n"
    data, (adopted,) = adopt_notes("MEMORY.md", text.encode(), TODAY, may_have_prose=False)
    first, entry = parse_memory_file("MEMORY.md", data).entries
    assert (first.body, entry.type, entry.title) == (
        "Because of this.",
        "corrective",
        "Always run tox",
    )
    assert "type" not in adopted.fields


@pytest.mark.parametrize("text", ["title: a document", "Source: Ada", "source: Ada\nwho said it"])
def test_lines_between_two_rules_that_are_not_our_fields_stay_text(text: str) -> None:
    assert list_remarks(f"{ENTRY}\n---\n{text}\n---\n{HEADING}") == [
        (17 + text.count("\n"), "loose-heading")
    ]


def test_headings_in_served_prose_are_allowed_but_not_in_its_entries() -> None:
    assert list_remarks(f"# Norms\n\n{HEADING}", may_have_prose=True) == []
    assert list_remarks(f"{ENTRY}\n{HEADING}", may_have_prose=True) == [(14, "loose-heading")]


def test_missing_fields_are_filled_but_not_those_whose_name_is_misspelt() -> None:
    text = "---\ntype: corrective\nimportance: 0.7\nstats: active\n---\n## Retry once\n"
    (remark,) = list_note_findings(
        parse_memory_file("MEMORY.md", text.encode()), may_have_prose=False
    )
    assert (remark.line, remark.code, remark.level) == (4, "unknown-key", "warning")
    assert "did you mean 'status'?" in remark.message
    data, (adopted,) = adopt_notes("MEMORY.md", text.encode(), TODAY, may_have_prose=False)
    assert adopted.fields == ("id", "created_at")
    assert [f.code for f in parse_memory_file("MEMORY.md", data).findings] == ["missing-field"]
    (entry,) = parse_memory_file("MEMORY.md", data.replace(b"stats", b"status")).entries
    assert (entry.type, entry.importance, entry.title) == ("corrective", 0.7, "Retry once")


COMMENTED_FENCE = "<!-- a\n```\n-->\n"


def test_a_heading_inside_a_fence_is_unchanged() -> None:
    text = f"{ENTRY}\n{COMMENTED_FENCE}\n{HEADING}\n{COMMENTED_FENCE}"
    assert list_remarks(text) == []
    assert adopt_notes("MEMORY.md", text.encode(), TODAY, may_have_prose=False) == (
        text.encode(),
        (),
    )


def test_headings_of_the_same_words_get_ids_of_their_own() -> None:
    data, _ = adopt_notes(
        "MEMORY.md", f"{HEADING}\n{HEADING}".encode(), TODAY, may_have_prose=False
    )
    adopted_again, _ = adopt_notes(
        "MEMORY.md", data + HEADING.encode(), TODAY, may_have_prose=False
    )
    first = adopt_notes("MEMORY.md", HEADING.encode(), TODAY, may_have_prose=False)[0]
    entries = parse_memory_file("MEMORY.md", adopted_again).entries
    assert len({entry.id for entry in entries}) == len(entries) == 3
    assert entries[0].id == parse_memory_file("MEMORY.md", first).entries[0].id, (
        "two clones give it the same"
    )


PARTS = st.sampled_from(
    [
        *(
            HEADING,
            "## Use uv",
            "  ## Use nox",
            "Use uv\n---",
            "# Section",
            "### Part",
            "words",
            "",
            "---",
            "```",
            "~~~",
            "<!--",
            "-->",
            "<!-- a -->",
        ),
        *(
            COMMENTED_FENCE,
            ENTRY,
            "---\ntype: directive\ndomain: team\n---\n## Run tox",
            "- item",
            "| a |\n|---|",
        ),
    ]
)


@example([HEADING, "<!--", HEADING, "# Section", "-->"], False, "\n")
@example([ENTRY, COMMENTED_FENCE, HEADING, COMMENTED_FENCE], False, "\n")
@given(st.lists(PARTS, max_size=12), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_adopting_handwritten_notes_is_idempotent(
    parts: list[str], may_have_prose: bool, newline: str
) -> None:
    text = "\n".join(parts).replace("\n", newline)
    once, _ = adopt_notes("MEMORY.md", text.encode(), TODAY, may_have_prose=may_have_prose)
    assert adopt_notes("MEMORY.md", once, TODAY, may_have_prose=may_have_prose) == (once, ())
