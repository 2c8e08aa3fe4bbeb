"""Tests of the text of a memory pull request: new entries, questions to people, and the number of episodes."""

from __future__ import annotations

import re

import msgspec

from memory_ci.commands.publish.pull_request import (
    MAX_KEYS,
    BuiltBranch,
    RequestState,
    find_decline,
    list_keys,
)
from memory_ci.commands.publish.text import MAX_BYTES, Effect, Links, Proposed, render_pull_request
from memory_ci.forge.proposals import Proposal
from memory_ci.records.plan import EpisodeFile, Plan, Unwritten
from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import format_entry
from tests.commands.publish.requests_at_work import click, merge_held_out, titles_on
from tests.make import make_entry
from tests.project import Project
from tests.remote import UPDATE, GitHubDouble, Publisher, Remote


def test_a_pull_request_shows_the_new_entries(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    before = project.sha("main")
    published = publish("pr")
    assert remote.sha("main") == project.sha("main") == before, "nothing but the branch moved"
    assert remote.sha(f"refs/heads/{UPDATE}") == published.tip
    (pull,) = forge.pulls
    assert published.url == pull["html_url"]
    assert (pull["head"], pull["base"], pull["state"]) == (UPDATE, "main", "open")
    assert "### Added: 2 entries" in pull["body"]
    assert "[pull request 128](https://github.com/acme/shop/pull/128)" in pull["body"]
    assert "0 active entries become 2" in pull["body"]


def test_a_ticked_candidate_is_written_by_the_next_run_and_stays(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    rule = "Two locks must never be held at the same time, because `charge` takes both."
    project.commit(f"feat: lock\n\n{rule}", {"src/lock.py": "x\n"})
    project.git("push", "-q", "origin", "main")
    publish("pr")
    (pull,) = forge.pulls
    assert f"- [ ] ``{rule[:-1]}``" in pull["body"]
    assert rule[:30] not in remote.show(UPDATE, "MEMORY.md")
    pull["body"] = pull["body"].replace("- [ ]", "- [x]").replace("\n", "\r\n")
    for _ in range(2):  # the branch is made anew by each run
        publish("pr")
        entries = parse_memory_file("MEMORY.md", remote.show(UPDATE, "MEMORY.md").encode()).entries
        (entry,) = [entry for entry in entries if entry.title.startswith("Two")]
        assert (entry.evidence[-1], entry.importance) == (
            "accepted in the memory pull request",
            0.5,
        )
        assert "- [x]" in pull["body"]
    pull["body"] = pull["body"].replace("- [x]", "- [ ]")
    publish("pr")
    assert rule[:30] not in remote.show(UPDATE, "MEMORY.md")


def test_the_request_asks_at_most_five_questions_and_the_branch_records_them(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    sha = project.commit("Write", {"src/pay.py": "one()\ntwo()\n"})[:12]
    entry = make_entry(1, title="Pay once", importance=1.0, cites=(f"src/pay.py:1@{sha}",))
    project.commit("Remember", {"MEMORY.md": format_entry(entry)})
    project.commit("Edit", {"src/pay.py": "other()\ntwo()\n"})
    for name in ("red", "green", "blue", "amber", "violet", "ivory"):
        text = (
            f"Never call `{name}_pay` before `{name}_lock`, because the {name} gateway books twice."
        )
        project.commit(f"feat: {name}\n\n{text}", {"src/lock.py": name})
    project.git("push", "-q", "origin", "main")
    for _ in range(2):  # the branch is made anew by each run, and asks nothing else
        publish("pr")
        (pull,) = forge.pulls
        waiting = pull["body"].partition("### Waiting for you")[2]
        assert (waiting.count("<!-- candidate "), waiting.count("<!-- entry ")) == (4, 1)
        assert "asked:" not in waiting
        assert remote.show(UPDATE, ".memory/rejected.txt").count("asked:") == 5
    click(pull, "Pay once", " ")
    publish("pr")
    assert "Pay once" not in remote.show(UPDATE, "MEMORY.md")


def test_the_request_shows_served_entries_before_and_after_and_the_cost(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    published = publish("pr")
    body, title = forge.pulls[0]["body"], forge.pulls[0]["title"]
    assert (
        title
        == "memory: the client retried a POST after a timeout although the gateway had…, and 1 more"
    )
    comparison = body.partition("### Entries served to agents: before and after")[2].partition(
        "\n\nBudget"
    )[0]
    assert re.search(
        r"- `[^`]+` \(\[#128\]\(https://github.com/acme/shop/pull/128\)\): nothing before\n  - also served: `",
        comparison,
    )
    added = set(re.findall(r"also served: `(.+)`", comparison))
    assert added
    assert added <= titles_on(remote, published.tip)
    assert "\nCost: `rules`, no model was asked.\n" in body


def hold_episodes(plan: Plan, count: int) -> BuiltBranch:
    files = tuple(
        EpisodeFile(f".memory/episodes/2026-11/pr-{number}.md", "") for number in range(count)
    )
    held = msgspec.structs.replace(plan, steps=(), episodes=files, unwritten=Unwritten())
    return BuiltBranch(plan.base, plan.base, held, ())


def test_the_text_of_a_pull_request_has_room_for_the_keys_of_any_number(project: Project) -> None:
    plan = project.plan()
    for count, width in ((MAX_KEYS, MAX_KEYS), (MAX_KEYS + 100, MAX_KEYS + 1)):
        held = list_keys(hold_episodes(plan, count))
        assert len(held) == width
        body = render_pull_request(
            Proposed(plan, (), (), Effect(0, 0, 0, 0, 0), Links(), tuple(held))
        )
        assert len(body) < MAX_BYTES / 2
        open_request = RequestState(None, None, Proposal(7, "", body))
        assert "pull request 7 was closed" in find_decline(hold_episodes(plan, count), open_request)
        assert find_decline(hold_episodes(plan, count + 1), open_request) == ""


def test_a_subset_of_a_closed_request_is_not_proposed_again(project: Project) -> None:
    plan = project.plan()
    held = tuple(list_keys(hold_episodes(plan, 1_000)))
    body = render_pull_request(Proposed(plan, (), (), Effect(0, 0, 0, 0, 0), Links(), held))
    fewer = hold_episodes(plan, 999)
    assert "pull request 7 was closed" in find_decline(
        fewer, RequestState(None, None, Proposal(7, "", body))
    )


def test_a_pull_request_with_only_episodes_has_a_title_about_outcomes(
    forge: GitHubDouble, publish: Publisher
) -> None:
    publish("push")
    merge_held_out(publish.project)
    publish.project.git("push", "-q", "origin", "main")
    publish("pr")
    (pull,) = forge.pulls
    assert pull["title"] == "memory: what became of pr-131"
    assert "### Episodes: 1\n\n- `.memory/episodes/" in pull["body"]


def test_a_pull_request_with_only_a_range_has_a_title_about_reading(
    forge: GitHubDouble, publish: Publisher
) -> None:
    project = publish.project
    publish("push")
    project.merge_work("chore: tidy up", "tidy", 130, "src/tidy.py")
    project.git("push", "-q", "origin", "main")
    publish("pr")
    (pull,) = forge.pulls
    assert pull["title"] == "memory: read 1 merged change"
    assert "1 merged change that git's history fully describes" in pull["body"]
