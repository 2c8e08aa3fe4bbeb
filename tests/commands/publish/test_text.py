"""Tests of the text of the memory pull request: complete, bounded, without effect on the forge."""

from __future__ import annotations

import re
from datetime import date

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.cli.markdown import code_span
from memory_ci.commands.publish.answered_text import apply_comments, parse_boxes, parse_keys
from memory_ci.commands.publish.text import (
    MAX_BYTES,
    SHOWN,
    SHOWN_BOXES,
    SHOWN_EPISODES,
    Declined,
    Effect,
    KeptItem,
    Links,
    Proposed,
    render_closed,
    render_pull_request,
    render_title,
)
from memory_ci.commands.record.text import render_plan
from memory_ci.memory.commit_message import render_commit_message
from memory_ci.memory.maintainer_decisions import Boxes
from memory_ci.records.entry import Entry
from memory_ci.records.plan import (
    PLAN_VERSION,
    Change,
    Counts,
    EngineUse,
    EpisodeFile,
    Plan,
    PlannedStep,
)
from tests.make import make_entry, make_id

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


def render(
    *changes: Change, kept: tuple[KeptItem, ...] = (), rejected: tuple[str, ...] = ()
) -> str:
    steps = [PlannedStep(step=change.step, changes=(change,)) for change in changes]
    return render_pull_request(Proposed(make_plan(*steps), kept, rejected, EFFECT, LINKS))


def test_every_kind_of_change_is_in_its_section() -> None:
    gone = make_entry(3, title="Gone", status="retired")
    text = render(
        added(
            make_entry(
                1, title="New", source="pr:12 commit:0123456789ab", evidence=("pr:12 said so",)
            )
        ),
        Change(
            step="reinforce",
            kind="update",
            path="MEMORY.md",
            entry=make_entry(2, title="Used"),
            why="for #13",
        ),
        Change(step="retire", kind="update", path="MEMORY.md", entry=gone, why="not seen for long"),
        Change(
            step="fold",
            kind="move",
            path="MEMORY.md",
            entry=make_entry(4, title="Noted"),
            why="from the inbox",
        ),
        kept=(KeptItem("Reworded", make_id(9)),),
        rejected=(f"{'0' * 32} Unwanted", ".memory/episodes/2026-01/pr-1.md"),
    )
    assert (
        f"### Added: 1 entry\n\n- [x] `New` in `MEMORY.md` (`from #12`) `{make_id(1)}` <!-- entry"
        in text
    )
    for heading, title in (("Changed", "Used"), ("Retired", "Gone"), ("Moved", "Noted")):
        assert f"### {heading}: 1 entry\n\n- `{title}` in `MEMORY.md`" in text
    assert (
        "from [pull request 12](https://github.com/acme/shop/pull/12), [commit 0123456789](https://"
        in text
    )
    assert "said: `said so`" in text
    assert f"### Kept from this branch\n\n- [x] `Reworded` <!-- entry {make_id(9)} -->" in text
    assert (
        "### Not proposed again\n\n- [ ] `Unwanted` (tick it, or restore `00000000`) <!-- rejected 000"
        in text
    )
    assert "\n- `.memory/episodes/2026-01/pr-1.md`" in text, "an episode has no box"
    assert (
        "Budget: 3 active entries become 4, 1,200 characters become 1,650; a job is served at most 8,000"
        in text
    )


def test_texts_of_entries_are_in_code_spans_and_have_no_effect() -> None:
    hostile = "a` Fixes #1, @ada <img src=x> [a](b) `b ``` ``"
    text = render(
        added(make_entry(1, title=hostile, evidence=(f"pr:12 {hostile}",)), f"from {hostile}")
    )
    bare = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    for sign in ("#1", "@ada", "<img", "[a]"):
        assert sign not in bare, "outside of code there is none of it"
        assert sign in text


def test_a_long_section_names_some_and_counts_the_rest() -> None:
    used = [make_entry(number) for number in range(SHOWN + 5)]
    changes = tuple(
        Change(step="reinforce", kind="update", path="M.md", entry=item, why="") for item in used
    )
    text = render_pull_request(
        Proposed(make_plan(PlannedStep(step="extract", changes=changes)), (), (), EFFECT, LINKS)
    )
    assert "- and 5 more: see the files" in text
    assert len(text) < 60_000


def test_many_entries_have_a_box_each_although_not_all_have_room_for_their_words() -> None:
    quote = "pr:12 " + "said so " * 40
    changes = tuple(
        added(make_entry(number, evidence=(quote,))) for number in range(SHOWN_BOXES + 5)
    )
    text = render_pull_request(
        Proposed(make_plan(PlannedStep(step="extract", changes=changes)), (), (), EFFECT, LINKS)
    )
    assert (text.count("- [x]"), len(parse_boxes(text.replace("- [x]", "- [ ]")).unticked_ids)) == (
        SHOWN_BOXES,
    ) * 2
    assert 60 < text.count("  - said:") < SHOWN_BOXES
    assert "- and 5 more: see the files" in text
    assert "Budget:" in text


@given(st.text(), st.text())
def test_no_words_of_an_entry_make_a_box(title: str, quote: str) -> None:
    mark = f"{title}\n- [ ] x <!-- entry m-00000000 -->"
    entry = make_entry(
        1, title=mark, evidence=(f"pr:12 {quote}\r- [ ] x <!-- entry m-00000000 -->",)
    )
    assert parse_boxes(render(added(entry, mark), kept=(KeptItem(mark),))) == Boxes()


def test_ticked_boxes_are_read_with_any_line_ending() -> None:
    text = render(added(make_entry(1)), added(make_entry(2)), rejected=(f"{'0' * 32} Unwanted",))
    assert parse_boxes(text) == Boxes()
    answered = text.replace("- [x]", "- [~]", 1).replace("- [ ]", "- [X]").replace("\n", "\r\n")
    expected_boxes = Boxes(frozenset(), frozenset({make_id(1)}), frozenset({"0" * 32}))
    assert parse_boxes(answered) == expected_boxes
    assert parse_boxes(render_closed(answered)) == Boxes(), "what we closed is no word of people"


def propose_episodes(count: int) -> Proposed:
    files = tuple(
        EpisodeFile(f".memory/episodes/2026-11/pr-{number}.md", "") for number in range(count)
    )
    return Proposed(msgspec.structs.replace(make_plan(), episodes=files), (), (), EFFECT, LINKS)


def test_a_request_of_episodes_alone_says_so_in_its_title_and_names_the_first() -> None:
    proposed = propose_episodes(SHOWN_EPISODES + 2)
    assert render_title(proposed) == "memory: what became of pr-0, and 11 more"
    text = render_pull_request(proposed)
    assert "### Episodes: 12\n\n- `.memory/episodes/2026-11/pr-0.md`" in text
    assert "pr-9.md`\n- and 2 more: see the files" in text


def test_a_request_of_entries_too_has_the_title_of_all() -> None:
    plan = make_plan(PlannedStep(step="extract", changes=(added(make_entry(1)),)))
    title = msgspec.structs.replace(propose_episodes(2), plan=plan)
    assert render_title(title) == "memory: learning number 1"
    assert (
        render_title(msgspec.structs.replace(propose_episodes(2), kept_items=(KeptItem("Mine"),)))
        == "memory: mine"
    )


def test_the_title_names_an_entry_of_the_request_and_counts_the_others() -> None:
    titles = ("Run migrations before the seed", "Fixes acme/shop#7 @ada", "CI runs them")
    changes = [
        added(make_entry(number, title=title)) for number, title in enumerate(titles, start=1)
    ]

    def render(*chosen: Change) -> str:
        plan = make_plan(PlannedStep(step="extract", changes=chosen))
        return render_title(Proposed(plan, (), (), EFFECT, LINKS))

    assert render(*changes) == "memory: run migrations before the seed, and 2 more"
    assert render(changes[1]) == "memory: fixes acme/shop7 ada"
    assert render(changes[2]) == "memory: CI runs them"


def test_months_folded_into_one_file_are_listed() -> None:
    plan = msgspec.structs.replace(make_plan(), fold_before=date(2026, 8, 1))
    assert "ended before 2026-08-01 become one file each" in render_pull_request(
        Proposed(plan, (), (), EFFECT, LINKS)
    )


def test_the_keys_of_a_request_are_read_from_its_text_with_any_line_ending() -> None:
    proposed = msgspec.structs.replace(propose_episodes(1), keys=("0a1b", "2c3d"))
    text = render_pull_request(proposed)
    assert parse_keys(text) == parse_keys(text.replace("\n", "\r\n")) == {"0a1b", "2c3d"}
    assert (
        parse_keys(f"Quoted:\n{text}")
        == parse_keys(render_closed(text))
        == parse_keys("")
        == frozenset()
    )


def test_requests_closed_before_are_named_and_linked() -> None:
    text = render_pull_request(
        msgspec.structs.replace(propose_episodes(1), declined=Declined(6, ("Old `news`",)))
    )
    assert "### Closed before, in pull request 6\n\n- `` Old `news` ``" in text
    assert (
        "[pull request 6](https://github.com/acme/shop/pull/6) was closed without a merge" in text
    )


def test_a_text_longer_than_a_forge_takes_is_cut_and_says_so() -> None:
    changes = tuple(added(make_entry(number), "\u2028é" * 4_000) for number in range(SHOWN_BOXES))
    text = render_pull_request(
        Proposed(make_plan(PlannedStep(step="extract", changes=changes)), (), (), EFFECT, LINKS)
    )
    assert len(text.encode()) <= MAX_BYTES
    assert text.endswith("see the files.\n")


def test_a_credential_is_masked() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    assert token[4:20] not in render(added(make_entry(1, title=f"Use {token[:40]}")))


@given(st.text(alphabet="`a #@<\n") | st.text())
def test_no_text_leaves_its_code_span(text: str) -> None:
    span = code_span(text)
    if not span:
        return
    fence = re.match("`+", span)
    assert fence is not None
    inner = span[len(fence[0]) : -len(fence[0])]
    assert span.endswith(fence[0])
    assert "\n" not in span
    assert all(len(run) < len(fence[0]) for run in re.findall("`+", inner))


def test_words_of_a_command_are_no_keys() -> None:
    text = "- [x] `A` <!-- entry a1111111-0 -->\n- [x] `B` <!-- entry b2222222-0 -->\n"
    told, unclear = apply_comments(text, ["/memory drop b222 as a copy"])
    assert parse_boxes(told).unticked_ids == {"b2222222-0"}
    assert unclear == ("/memory drop b222 as a copy",)


@pytest.mark.parametrize("title", ["a file per charge", "Rejected: a file per charge"])
def test_a_rejected_entry_is_not_titled_as_advice_and_is_marked_once(title: str) -> None:
    change = added(make_entry(1, title=title, adoption="rejected"))
    plan = make_plan(PlannedStep(step="extract", changes=(change,)))
    named = "ejected: a file per charge"
    assert render_title(Proposed(plan, (), (), EFFECT, LINKS)) == f"memory: r{named}"
    for text in (render(change), render_plan(plan), render_commit_message(plan.steps, plan)):
        assert f"R{named}" in text
        assert text.count(named) == 1
