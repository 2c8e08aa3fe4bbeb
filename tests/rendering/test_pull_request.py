"""The text of the memory pull request: complete, bounded, and nothing in it acts on the forge."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from memory_ci.records.change import Change
from memory_ci.records.entry import Entry
from memory_ci.records.plan import PLAN_VERSION, Counts, EngineUse, Plan, PlannedStep
from memory_ci.rendering.pull_request import SHOWN, Effect, Links, Proposed, code, render_pull_request
from tests.make import make_entry

LINKS = Links("https://github.com/acme/shop/pull/", "https://github.com/acme/shop/commit/")
EFFECT = Effect(3, 1_200, 4, 1_650, 8_000)


def make_plan(*steps: PlannedStep) -> Plan:
    return Plan(
        schema_version=PLAN_VERSION,
        ref="refs/heads/main",
        base="a" * 40,
        since=None,
        until=None,
        engine=EngineUse("rules", ""),
        counts=Counts(),
        steps=steps,
    )


def added(entry: Entry, why: str = "from #12") -> Change:
    return Change(step="extract", kind="add", path="MEMORY.md", entry=entry, why=why)


def render(*changes: Change, kept: tuple[str, ...] = (), rejected: tuple[str, ...] = ()) -> str:
    steps = [PlannedStep(step=change.step, changes=(change,)) for change in changes]
    return render_pull_request(Proposed(make_plan(*steps), kept, rejected, EFFECT, LINKS))


def test_every_kind_of_change_stands_in_its_section() -> None:
    gone = make_entry(3, title="Gone", status="retired")
    text = render(
        added(make_entry(1, title="New", source="pr:12 commit:0123456789ab", evidence=("pr:12 said so",))),
        Change(step="reinforce", kind="update", path="MEMORY.md", entry=make_entry(2, title="Used"), why="used by #13"),
        Change(step="retire", kind="update", path="MEMORY.md", entry=gone, why="not seen for long"),
        Change(step="fold", kind="move", path="MEMORY.md", entry=make_entry(4, title="Noted"), why="from the inbox"),
        kept=("Reworded",),
        rejected=("Unwanted",),
    )
    for heading, title in (("Added", "New"), ("Changed", "Used"), ("Retired", "Gone"), ("Moved", "Noted")):
        assert f"### {heading}: 1 entry\n\n- `{title}` in `MEMORY.md`" in text
    assert "from [pull request 12](https://github.com/acme/shop/pull/12), [commit 0123456789](https://" in text
    assert "said: `said so`" in text
    assert "### Kept as maintainers wrote it\n\n- `Reworded`" in text
    assert "### Not proposed again\n\n- `Unwanted`" in text
    assert "Budget: 3 active entries become 4, 1,200 characters become 1,650; a job is given at most 8,000" in text


def test_what_entries_say_stands_in_code_and_acts_on_nothing() -> None:
    hostile = "a` Fixes #1, @ada <img src=x> [a](b) `b ``` ``"
    text = render(added(make_entry(1, title=hostile, evidence=(f"pr:12 {hostile}",)), f"from {hostile}"))
    bare = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    for sign in ("#1", "@ada", "<img", "[a]"):
        assert sign not in bare, "outside of code there is none of it"
        assert sign in text


def test_a_long_section_names_some_and_counts_the_rest() -> None:
    changes = tuple(added(make_entry(number)) for number in range(SHOWN + 5))
    text = render_pull_request(Proposed(make_plan(PlannedStep(step="extract", changes=changes)), (), (), EFFECT, LINKS))
    assert "- and 5 more: see the files" in text
    assert len(text) < 60_000


def test_a_credential_is_masked() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    assert token[4:20] not in render(added(make_entry(1, title=f"Use {token[:40]}")))


@given(st.text(alphabet="`a #@<\n") | st.text())
def test_no_text_leaves_its_code_span(text: str) -> None:
    span = code(text)
    if not span:
        return
    fence = re.match("`+", span)
    assert fence is not None
    inner = span[len(fence[0]) : -len(fence[0])]
    assert span.endswith(fence[0])
    assert "\n" not in span
    assert all(len(run) < len(fence[0]) for run in re.findall("`+", inner))
