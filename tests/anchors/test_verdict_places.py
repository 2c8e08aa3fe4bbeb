"""Tests of verdicts: where cited lines are searched, and which parts of a file are compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.anchors.anchors import make_anchor
from memory_ci.anchors.verdicts import (
    FILE_LOST,
    judge_anchor,
    judge_entry,
    judge_parts,
    truth_factor,
)
from memory_ci.records.anchor import Anchor, Verdict
from tests.anchors.anchored_code import CLIENT, COMMIT, WHOLE, judge_text

LIMITED = """import os

@retry(times=3)
def limited(job):
    \"\"\"Run a job.\"\"\"
    limit = 30
    for part in job.parts:
        if part.is_done:
            continue
        part.run(limit)
    return job
"""


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("    return job\n", "    return job\n\n\n# the end\nx = 1\n", "fresh"),
        ("Run a job.", "Run all parts of a job.", "fresh"),
        ("    limit = 30", "    # in seconds\n    limit = 30", "fresh"),
        ("import os\n", "", "moved"),
        ("    return job\n", "    return job\n\n    job.close()\n", "changed"),
        ("times=3", "times=9", "changed"),
        ("@retry", "@log\n@retry", "changed"),
        ("        part.run(limit)", "            part.run(limit)", "changed"),
        ("def limited", "def bounded", "moved"),
    ],
)
@pytest.mark.parametrize("then", [LIMITED, None])
def test_exactly_the_lines_of_a_definition_are_compared(
    old: str, new: str, kind: str, then: str | None
) -> None:
    anchor = make_anchor("a.py", LIMITED, COMMIT, symbol="limited")
    verdict_kind = judge_anchor(anchor, then, {"a.py": LIMITED.replace(old, new)}, "a.py").kind
    assert verdict_kind == (kind if then or old != "def limited" else "gone")
    lines = make_anchor("a.py", LIMITED, COMMIT, lines=(4, 11))
    assert (lines.symbol, lines.digest) == (anchor.symbol, anchor.digest), (
        "lines that are all of it cite the definition"
    )


@pytest.mark.parametrize(
    ("lines", "old", "new", "kind"),
    [
        ((6, 6), "import os", "import os\nlimit = 30\nimport re", "moved"),
        ((6, 6), "limit = 30", "limit = 60", "changed"),
        ((6, 6), "def limited", "limit = 30\ndef limited", "moved"),
        ((6, 6), "    limit = 30\n", "", "changed"),
        ((8, 9), "            continue", "            continue\n            log(part)", "changed"),
        (
            (8, 9),
            "            continue",
            "            continue\n        else:\n            log(part)",
            "changed",
        ),
        ((7, 10), "    return job", "    log(job)\n    return job", "fresh"),
        (
            (7, 10),
            "        part.run(limit)",
            "        part.run(limit)\n        log(part)",
            "changed",
        ),
    ],
)
def test_cited_lines_are_searched_in_the_definition_that_held_them(
    lines: tuple[int, int], old: str, new: str, kind: str
) -> None:
    anchor = make_anchor("a.py", LIMITED, COMMIT, lines=lines)
    assert judge_anchor(anchor, LIMITED, {"a.py": LIMITED.replace(old, new)}, "a.py").kind == kind


def test_lines_outside_of_definitions_are_mapped_by_a_diff() -> None:
    text = "a: 1\nb: 1\nc:\n  a: 1\n"
    anchor = make_anchor("a.yml", text, COMMIT, lines=(1, 1))
    assert (
        judge_anchor(anchor, text, {"a.yml": "z: 2\na: 1\nc:\n  b: 1\n"}, "a.yml").kind == "moved"
    )
    assert judge_anchor(anchor, text, {"a.yml": "b: 1\nc:\n  a: 1\n"}, "a.yml").kind == "changed"


def test_code_that_moved_and_changed_is_changed_and_not_found_in_an_older_copy() -> None:
    anchor = make_anchor("a.py", LIMITED, COMMIT, symbol="limited")
    moved = LIMITED.replace("limit = 30", "limit = 60")
    files = {"a.py": "import os\n", "b.py": moved}
    assert judge_anchor(anchor, LIMITED, files, "a.py") == Verdict(
        "changed", "b.py", 3, 11, "was a.py"
    )
    assert judge_anchor(anchor, LIMITED, files, "a.py", {"b.py": moved}).kind == "gone"
    assert (
        judge_anchor(anchor, LIMITED, files | {"b.py": LIMITED}, "a.py", {"b.py": moved}).kind
        == "moved"
    )
    assert judge_anchor(anchor, LIMITED, files | {"b.py": LIMITED}, "a.py").kind == "moved"
    assert (
        judge_anchor(anchor, LIMITED, files | {"b.py": LIMITED}, "a.py", {"b.py": LIMITED}).kind
        == "gone"
    )


def test_the_verdict_on_a_whole_file_names_the_changed_share() -> None:
    edited = judge_text(WHOLE, CLIENT.replace("RETRIES = 3", "RETRIES = 4"))
    assert (edited.kind, edited.edited, edited.note) == (
        "changed",
        0.05,
        "edited since: 5% of its words",
    )
    assert (
        judge_text(WHOLE, CLIENT.replace("RETRIES = 3", "# so often\nRETRIES = 3")).kind == "fresh"
    )
    assert truth_factor([Verdict("fresh", "a.py", edited=0.2)]) == 0.8
    assert truth_factor([Verdict("fresh", "a.py", edited=0.9)]) == 0.5


@pytest.mark.parametrize(
    "text",
    [
        CLIENT + "\n\ndef close():\n    return None\n",
        CLIENT.replace(
            "    def post", "    def put(self, url):\n        return None\n\n    def post"
        ),
        CLIENT.replace("import time\n", "import os\nimport time\n"),
        CLIENT.replace("import time\n", ""),
    ],
)
def test_additions_and_imports_leave_a_whole_file_cite_fresh(text: str) -> None:
    assert judge_text(WHOLE, text).kind == "fresh"


def test_a_whole_file_with_two_percent_edited_is_fresh() -> None:
    then = "".join(f"x{number} = 1\n" for number in range(100))
    anchor = make_anchor("data.py", then, COMMIT)
    edits = [
        then.replace("x7 = 1\n", "x7 = 2\n"),
        then.replace("x7 = 1\nx8 = 1\nx9 = 1\n", "y = 2\n"),
    ]
    assert [judge_anchor(anchor, then, {"data.py": text}, "data.py").kind for text in edits] == [
        "fresh",
        "changed",
    ]


def test_a_cite_of_a_whole_file_is_judged_by_the_parts_that_the_entry_names() -> None:
    fresh, changed = Verdict("fresh", "client.py", 7, 10), Verdict("changed", "client.py", 1, 2)
    moved, gone = Verdict("moved", "net.py", 3, 6), Verdict("gone", "client.py", note=FILE_LOST)
    unread = Verdict("unverifiable", "client.py", 1, 2, "the file cannot be read")
    assert judge_parts(WHOLE, [fresh, fresh]) == Verdict("fresh", "client.py")
    assert judge_parts(WHOLE, [moved, moved]) == Verdict("moved", "net.py", note="was client.py")
    assert judge_parts(WHOLE, [fresh, changed]) == changed
    assert judge_parts(WHOLE, [gone, gone]) == Verdict("gone", "client.py", note=FILE_LOST)
    assert judge_parts(WHOLE, [fresh, gone]).kind == "changed"
    assert judge_parts(WHOLE, [fresh, unread]).kind == "unverifiable"


def test_an_entry_that_names_many_places_loses_weight_with_the_share_that_was_edited() -> None:
    fresh, changed = Verdict("fresh", "client.py", 7, 10), Verdict("changed", "client.py", 1, 2)
    verdict = judge_parts(WHOLE, [fresh, fresh, changed, fresh])
    assert (verdict.kind, verdict.edited) == ("changed", 0.25)
    assert verdict.note == "edited since: 1 of 4 places that it names"


def test_an_empty_file_is_not_found_in_every_other_empty_file() -> None:
    anchor = Anchor(path="a/__init__.py", commit=COMMIT)
    assert judge_anchor(anchor, "", {"b/__init__.py": ""}, None).kind == "gone"


@given(st.lists(st.sampled_from(["", " ", "\t", "\n", "  \n"]), min_size=9, max_size=9))
def test_no_spacing_between_tokens_makes_a_text_stale(gaps: list[str]) -> None:
    tokens = "total = price ( order , 2 ) ;".split()
    text = "".join(gap + token for gap, token in zip(gaps, tokens, strict=True))
    plain = " ".join(tokens)
    assert (
        judge_anchor(make_anchor("a.c", plain, COMMIT), plain, {"a.c": text}, "a.c").kind == "fresh"
    )


@pytest.mark.parametrize(
    ("kinds", "together", "factor"),
    [
        ([], "fresh", 1.0),
        (["fresh", "moved"], "moved", 1.0),
        (["fresh", "gone"], "changed", 0.5),
        (["changed", "fresh"], "changed", 0.5),
        (["gone", "gone"], "gone", 0.0),
        (["unverifiable"], "unverifiable", 1.0),
    ],
)
def test_the_verdict_on_an_entry_combines_its_anchors(
    kinds: list[str], together: str, factor: float
) -> None:
    verdicts = [Verdict(kind, "a.py") for kind in kinds]  # type: ignore[arg-type] # kinds as written above
    assert (judge_entry(verdicts), truth_factor(verdicts)) == (together, factor)
