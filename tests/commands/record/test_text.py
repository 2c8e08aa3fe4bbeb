"""Tests of the page of a job: learnings with their reasons, all text escaped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.cli.markdown import escape_markdown
from memory_ci.commands.record.text import CUT_NOTE, MAX_BYTES, render_findings, render_summary
from memory_ci.records.candidate import Candidate, Judged, Quote
from memory_ci.records.plan import Change, Counts, EngineUse, Join, Plan, PlannedStep, Published
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import IndexUse
from tests.make import make_entry

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2


def make_plan(*changes: Change, **fields: Any) -> Plan:
    steps = (PlannedStep(step="extract", changes=changes),) if changes else ()
    known_values: dict[str, Any] = {
        "schema_version": 1,
        "ref": "refs/heads/main",
        "base": "a" * 40,
        "since": None,
        "until": "b" * 40,
        "engine": EngineUse("rules", "needs no key"),
        "counts": Counts(merged_changes=1, commits=2),
        "steps": steps,
    }
    return Plan(**known_values | fields)


def make_addition(title: str = "Retry with a key", why: str = "from #128", *quotes: str) -> Change:
    entry = make_entry(1, title=title, evidence=quotes)
    return Change(step="extract", kind="add", path="MEMORY.md", entry=entry, why=why)


def make_quarantined(title: str) -> Judged:
    candidate = Candidate(
        title=title,
        body="",
        type="procedural",
        domain="task",
        importance=0.5,
        scope="project",
        extraction_scope="task_learnings",
        quotes=(Quote("E1", "words"),),
        is_marked=False,
    )
    return Judged(
        candidate=candidate, verdict="quarantined", reason="quote-not-found", change="#91"
    )


def test_a_page_has_each_learning_with_source_and_quotes() -> None:
    text = render_summary(
        make_plan(make_addition("Retry with a key", "from #128", "send a key")),
        Published("push", "c" * 40, subjects=("memory: extract",)),
    )
    assert "## Memory: 1 learning\n" in text
    assert "1 merged change, 2 commits read." in text
    assert (
        "- **Retry with a key** (procedural, 00000001 in MEMORY\\.md; from \\#&#8203;128)\n  > send a key\n"
        in text
    )
    assert "- memory\\: extract" in text


def test_a_page_names_omitted_learnings_read_changes_and_the_cost() -> None:
    use = EngineUse(
        "anthropic",
        "a key",
        model="m1",
        answers=2,
        tries=3,
        input_tokens=10,
        output_tokens=4,
        cost_usd=0.5,
    )
    plan = make_plan(
        judged=(make_quarantined("Agents live in one package"),),
        joins=(Join("#70", "session", "s1", "trailer", 5),),
        problems=("the forge was not asked",),
        findings=(Finding("MEMORY.md", 3, "bad-value", "importance 7"),),
        engine=use,
    )
    text = render_summary(plan, None, IndexUse("memory-ci-index-v2-abc", 4096, True))
    assert "### Quarantined, not written: 1" in text
    assert "| \\#&#8203;91 | Agents live in one package | quote\\-not\\-found |" in text
    assert "session s1" in text
    assert "0.5000 USD; `anthropic m1`, 2 answers in 3 calls, 10 tokens in, 4 out" in text
    assert "the forge was not asked" in text
    assert "importance 7" in text
    assert "rebuilt, 4096 bytes, key `memory-ci-index-v2-abc`" in text


def test_a_run_that_learned_nothing_says_so() -> None:
    assert render_summary(make_plan(), None).startswith("## Memory: nothing new\n")


def test_the_reason_of_a_stopped_run_is_shown() -> None:
    text = render_summary(
        make_plan(engine=EngineUse("anthropic", "key", failure="over the limit")), None
    )
    assert "**The run stopped:** over the limit" in text


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>x</script>",
        "<!-- gone",
        "@octocat see #12",
        "![x](https://evil.example/p.png)",
        "[x](javascript:1)",
        "a | b",
        "`code` **bold** ~~x~~ $x$",
        "https://evil.example www.evil.example",
    ],
)
def test_nothing_in_a_title_a_reason_or_a_quote_breaks_out(hostile: str) -> None:
    plan = make_plan(make_addition(hostile, hostile, hostile), judged=(make_quarantined(hostile),))
    text = render_summary(
        plan, Published("pr", "", hostile, 1, hostile, subjects=(hostile,))
    ) + render_findings("x", [Finding(hostile, 1, "bad-value", hostile)])
    assert hostile not in text
    for sign in ("<", "@octocat", "#12", "](", "://", "www.", " `code"):
        assert sign not in text


@given(st.text())
def test_escaped_text_stays_in_its_cell(text: str) -> None:
    escaped = escape_markdown(text, 10_000)
    assert "\n" not in escaped
    assert "<" not in escaped
    for place, char in enumerate(escaped):
        if char in "|`[]*":
            before = escaped[:place]
            assert (len(before) - len(before.rstrip("\\"))) % 2 == 1


def test_a_credential_is_masked() -> None:
    assert KEY not in render_summary(make_plan(make_addition(f"Use {KEY}")), None)


def test_a_page_is_never_larger_than_a_forge_takes() -> None:
    many = [make_addition("é" * 180, "from #128", "w" * 500) for _ in range(1500)]
    text = render_summary(make_plan(*many), None)
    assert len(text.encode()) <= MAX_BYTES
    assert text.endswith(f"{CUT_NOTE}\n")
    assert render_summary(make_plan(many[0]), None).count(CUT_NOTE) == 0


def test_findings_are_a_table_and_none_is_a_sentence() -> None:
    text = render_findings(
        "Memory", [Finding("MEMORY.md", 3, "bad-value", "importance 7", "Mend it.")]
    )
    assert "| MEMORY\\.md\\:3 | error | bad\\-value | importance 7\\. Mend it\\. |\n" in text
    assert render_findings("Memory", []) == "## Memory\n\nNothing found.\n"
