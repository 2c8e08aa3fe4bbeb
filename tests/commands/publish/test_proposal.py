"""Publishing by pull request or through the forge: one branch, made anew; maintainers have the last word on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from memory_ci.commands.publish.pull_request import (
    MAX_KEYS,
    Built,
    RequestState,
    find_answer,
    list_keys,
)
from memory_ci.commands.publish.text import (
    MAX_BYTES,
    Effect,
    Links,
    Proposed,
    parse_keys,
    render_pull_request,
)
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.forge.proposals import Proposal
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.records.entry import Entry
from memory_ci.records.plan import EpisodeFile, Plan, Unwritten
from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import MARKED, Project
from tests.remote import UPDATE, GitHubDouble, GitLabDouble, Publisher, Remote
from tests.servers import Answer, Asked, Server, json_answer, serve

GH013 = "remote: error: GH013: Repository rule violations found for refs/heads/main."


def edit_branch(
    remote: Remote, path: Path, edits: dict[str, tuple[str, str]], message: str = "Mend it"
) -> None:
    """A maintainer's commit on the memory branch: in each file one text for another."""
    clone = remote.clone(path, "--branch", UPDATE)
    files = {name: clone.show("HEAD", name).replace(*edit) for name, edit in edits.items()}
    clone.commit(message, files)
    clone.git("push", "-q", "origin", UPDATE)


def take_out(remote: Remote, path: Path, title: str) -> None:
    """A maintainer's commit on the memory branch that takes out one entry."""
    clone = remote.clone(path, "--branch", UPDATE)
    kept = [format_entry(entry) for entry in clone.entries() if entry.title != title]
    clone.commit("Not this one", {"MEMORY.md": "\n".join(kept)})
    clone.git("push", "-q", "origin", UPDATE)


def squash(remote: Remote, path: Path) -> Project:
    """Merge the memory branch by squash, as the button does, and remove it."""
    clone = remote.clone(path)
    clone.git("merge", "-q", "--squash", f"origin/{UPDATE}")
    bodies = clone.git("log", "--reverse", "--format=* %B", f"HEAD..origin/{UPDATE}")
    clone.commit(f"memory: what recent work taught (#7)\n\n{bodies}\n")
    clone.git("push", "-q", "origin", "main", f":refs/heads/{UPDATE}")
    return clone


def test_a_pull_request_shows_what_memory_would_gain(
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
        (entry,) = [one for one in entries if one.title.startswith("Two")]
        assert (entry.evidence[-1], entry.importance) == (
            "accepted in the memory pull request",
            0.5,
        )
        assert "- [x]" in pull["body"]
    pull["body"] = pull["body"].replace("- [x]", "- [ ]")
    publish("pr")
    assert rule[:30] not in remote.show(UPDATE, "MEMORY.md")


def test_what_waits_for_people_is_five_questions_and_the_branch_says_that_they_were_asked(
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


def click(pull: dict[str, Any], title: str, mark: str) -> None:
    """Click on the box before `title`, as a person does on the page of the request."""
    (line,) = [
        line for line in pull["body"].splitlines() if line.startswith("- [") and title in line
    ]
    pull["body"] = pull["body"].replace(line, f"- [{mark}]{line[5:]}").replace("\n", "\r\n")


def titles_on(remote: Remote, rev: str) -> set[str]:
    return {
        one.title
        for one in parse_memory_file("MEMORY.md", remote.show(rev, "MEMORY.md").encode()).entries
    }


class Waiting(NamedTuple):
    """A request of two entries, by title: the one that somebody takes out, and the one that stays."""

    forge: GitHubDouble
    publish: Publisher
    pull: dict[str, Any]
    gone: str
    kept: str


@pytest.fixture(params=[GitHubDouble, GitLabDouble])
def proposed(
    project: Project, remote: Remote, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Waiting]:
    forge: GitHubDouble = request.param(remote, tmp_path / "forge")
    with serve(forge) as server:
        publish = Publisher(project, forge.environ(server.url))
        publish("pr")
        (pull,) = forge.pulls
        yield Waiting(forge, publish, pull, *sorted(titles_on(remote, UPDATE)))


def test_an_entry_that_is_unticked_is_taken_out_until_its_line_is_ticked(
    remote: Remote, proposed: Waiting
) -> None:
    forge, publish, pull, gone, kept = proposed
    click(pull, gone, " ")
    for _ in range(2):  # the second finds it in the file alone
        publish("pr")
        assert titles_on(remote, UPDATE) == {kept}
        assert gone[:40] in remote.show(UPDATE, REJECTED_FILE)
    assert "### Added: 1 entry" in pull["body"]
    click(pull, gone[:40], "x")
    for _ in range(2):
        publish("pr")
        assert titles_on(remote, UPDATE) == {gone, kept}
    assert REJECTED_FILE not in remote.git("ls-tree", "-r", "--name-only", UPDATE)
    assert len(forge.pulls) == 1


def test_a_comment_says_what_a_click_says_once_and_not_by_strangers(
    remote: Remote, proposed: Waiting
) -> None:
    forge, publish, pull, gone, kept = proposed
    keys = {
        one.title: one.id
        for one in parse_memory_file("", remote.show(UPDATE, "MEMORY.md").encode()).entries
    }
    forge.comment(f"/memory drop {keys[kept]}", is_stranger=True)
    if not isinstance(forge, GitLabDouble):  # a member who may not write
        forge.comment(f"/memory drop {keys[kept]}", login="reader")
    forge.comment(f"```\n/memory drop {keys[kept]}\n```\n<!--\n/memory drop {keys[kept]}\n-->")
    forge.comment(
        f"No.\r\n`/memory drop {keys[gone][:8]}`\r\n> /memory drop {keys[kept]}\n/memory forget it"
    )
    for is_new in (True, False):
        publish("pr")
        assert titles_on(remote, UPDATE) == {kept}
        assert ("`/memory forget it`" in pull["body"]) is is_new
    click(pull, gone[:40], "x")
    publish("pr")
    assert titles_on(remote, UPDATE) == {gone, kept}, (
        "a comment is obeyed once: the click came after it"
    )


def test_the_request_says_what_agents_are_told_before_and_after_and_what_it_cost(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    published = publish("pr")
    body, title = forge.pulls[0]["body"], forge.pulls[0]["title"]
    assert (
        title
        == "memory: the client retried a POST after a timeout although the gateway had…, and 1 more"
    )
    told = body.partition("### What agents are told: before and after")[2].partition("\n\nBudget")[
        0
    ]
    assert re.search(
        r"- `[^`]+` \(\[#128\]\(https://github.com/acme/shop/pull/128\)\): nothing before\n  - also given: `",
        told,
    )
    given = set(re.findall(r"also given: `(.+)`", told))
    assert given
    assert given <= titles_on(remote, published.tip)
    assert "\nCost: `rules`, no model was asked.\n" in body


def test_an_entry_that_a_maintainer_reworded_is_gone_when_it_is_unticked_too(
    remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    gone, kept = sorted(titles_on(remote, UPDATE))
    click(forge.pulls[0], gone, " ")
    edit_branch(remote, tmp_path / "maintainer", {"MEMORY.md": (f"## {gone}", f"## Well, {gone}")})
    publish("pr")
    assert titles_on(remote, UPDATE) == {kept}
    assert len(remote.show(UPDATE, REJECTED_FILE).splitlines()) == 3, (
        "as it was proposed, and as it was reworded"
    )


@pytest.mark.parametrize("is_job_of_the_push", [True, False])
def test_what_was_unticked_and_merged_all_the_same_is_taken_out_by_the_next_run(
    remote: Remote,
    forge: GitHubDouble,
    publish: Publisher,
    tmp_path: Path,
    is_job_of_the_push: bool,
) -> None:
    publish("pr")
    gone, kept = sorted(titles_on(remote, UPDATE))
    click(forge.pulls[0], gone, " ")
    squash(remote, tmp_path / "merged")
    forge.pulls[0] |= {"state": "closed", "merged_at": "2026-11-21T12:00:00Z"}
    publish.environ |= {"GITHUB_EVENT_NAME": "push"} if is_job_of_the_push else {}
    publish("pr")
    assert (len(forge.pulls), titles_on(remote, "main"), titles_on(remote, UPDATE)) == (
        2,
        {gone, kept},
        {kept},
    )
    assert gone[:40] in forge.pulls[1]["body"]
    decline(forge)
    assert "pull request 2 was closed" in publish("pr").reason or is_job_of_the_push
    assert titles_on(remote, "main") == {gone, kept}, "people said no to taking it out"


def test_the_forge_is_asked_once_for_the_request(
    forge: GitHubDouble, publish: Publisher, server: Server
) -> None:
    publish("pr")
    server.asked.clear()
    publish("pr")
    asked = [(one.method, one.path.rpartition("/")[2]) for one in server.asked]
    review = ("GET", "reviews")  # before the run is planned, and before its branch moves
    assert asked == [("GET", "pulls"), ("GET", "comments"), review, review, ("PATCH", "1")]


def test_a_second_run_leaves_the_branch_and_updates_the_same_pull_request(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    first = publish("pr")
    publish.now += timedelta(hours=1)
    assert publish("pr").tip == first.tip == remote.sha(f"refs/heads/{UPDATE}")
    assert len(forge.pulls) == 1


def test_the_branch_is_made_anew_on_a_newer_base(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    publish("pr")
    project.merge_work(MARKED.replace("charge", "refund"), "refund", 129, "src/refund.py")
    project.git("push", "-q", "origin", "main")
    publish("pr")
    assert remote.git("merge-base", "main", UPDATE) == remote.sha("main")
    assert "#129" in remote.git("log", "--format=%s", f"main..{UPDATE}")
    assert len(forge.pulls) == 1


def test_a_merged_pull_request_leaves_nothing_and_a_stale_one_is_closed(
    remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    clone = remote.clone(tmp_path / "clone")
    clone.git("merge", "-q", "--ff-only", f"origin/{UPDATE}")
    clone.git("push", "-q", "origin", "main")
    published = publish("pr")
    assert published.reason == "nothing to propose"
    assert UPDATE not in remote.branches()
    assert forge.pulls[0]["state"] == "closed"


def test_an_entry_that_a_maintainer_takes_out_is_never_proposed_again(
    remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    publish.project.commit("No episodes", {".memory-ci.yaml": "episodes: {write: false}\n"})
    publish.project.git("push", "-q", "origin", "main")
    publish("pr")
    clone = remote.clone(tmp_path / "first", "--branch", UPDATE)
    gone, kept = (entry.title for entry in clone.entries())
    take_out(remote, tmp_path / "maintainer", gone)
    for number in range(2):
        publish("pr")
        branch = remote.clone(tmp_path / f"after{number}", "--branch", UPDATE)
        assert branch.titles() == {kept}
        assert gone[:40] in branch.show("HEAD", REJECTED_FILE)
    assert "### Not proposed again" in forge.pulls[0]["body"]
    trailers = remote.git("log", "-1", "--format=%(trailers:only,unfold)", UPDATE).splitlines()
    assert f"Memory-CI-Source: {remote.sha('main')}" in trailers, (
        "a squash keeps no commit of the branch"
    )
    merged = squash(remote, tmp_path / "merged")
    root = merged.git("rev-list", "--max-parents=0", "HEAD")
    published = publish("pr", since=root)
    assert published.reason == "nothing to propose"
    assert Publisher(merged)("push", since=root).subjects == ()


def test_what_a_maintainer_rewords_on_the_branch_stays_as_they_wrote_it(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    edit_branch(
        remote,
        tmp_path / "maintainer",
        {"MEMORY.md": ("send an idempotency key", "always send a key of one use")},
    )
    publish.project.commit("More work", {"other.txt": "x"})
    publish.project.git("push", "-q", "origin", "main")
    publish("pr")
    branch = remote.clone(tmp_path / "after", "--branch", UPDATE)
    assert "always send a key of one use" in branch.show("HEAD", "MEMORY.md")
    assert len(branch.entries()) == 2
    assert remote.git("merge-base", "main", UPDATE) == remote.sha("main")


@pytest.fixture
def used(publish: Publisher) -> Publisher:
    """A run that reinforces an entry of the base, "Known before"."""
    publish.project.commit("Keep", {"MEMORY.md": format_entry(make_entry(7, title="Known before"))})
    publish.project.commit(f"Use it\n\nMemory-Used: {make_id(7)}\n", {"a.txt": "a"})
    publish.project.git("push", "-q", "origin", "main")
    publish("pr")
    return publish


def known(remote: Remote) -> Entry:
    """The entry that the run reinforces, as it stands on the memory branch."""
    entries = parse_memory_file("", remote.show(UPDATE, "MEMORY.md").encode()).entries
    return next(entry for entry in entries if entry.id == make_id(7))


def test_an_entry_that_the_run_reinforces_keeps_the_words_of_maintainers_and_counts_once(
    remote: Remote, forge: GitHubDouble, used: Publisher, tmp_path: Path
) -> None:
    assert known(remote).reinforcement_count == 1
    edit_branch(remote, tmp_path / "one", {"MEMORY.md": ("Known before", "Known better")})
    for number in range(2):
        used.project.merge_work("chore: tidy up", f"tidy{number}", 130 + number, "src/tidy.py")
        used.project.git("push", "-q", "origin", "main")
        used("pr")
        assert (known(remote).title, known(remote).reinforcement_count) == ("Known better", 1)
    assert "### Kept from this branch\n\n- [x] `Known better`" in forge.pulls[0]["body"]


def test_two_edits_of_one_entry_at_different_times_both_stay(
    remote: Remote, used: Publisher, tmp_path: Path
) -> None:
    edit_branch(remote, tmp_path / "one", {"MEMORY.md": ("Known before", "Known better")})
    used("pr")
    edit_branch(remote, tmp_path / "two", {"MEMORY.md": ("type: procedural", "type: directive")})
    do_more_work(used)
    used("pr")
    assert (known(remote).title, known(remote).type, known(remote).reinforcement_count) == (
        "Known better", "directive", 1
    )  # fmt: skip


def test_a_field_that_the_base_decided_otherwise_is_left_and_the_text_says_so(
    remote: Remote, forge: GitHubDouble, used: Publisher, tmp_path: Path
) -> None:
    edit_branch(remote, tmp_path / "one", {"MEMORY.md": ("Known before", "Known on the branch")})
    used.project.commit(
        "Say it here", {"MEMORY.md": format_entry(make_entry(7, title="Known in the base"))}
    )
    used.project.git("push", "-q", "origin", "main")
    published = used("pr")
    assert known(remote).title == "Known in the base"
    assert "1 edit of the branch could not be kept" in published.reason
    assert "decides otherwise\n\n- `Known on the branch`" in forge.pulls[0]["body"]
    assert "Kept from this branch" not in forge.pulls[0]["body"]


def test_an_entry_reworded_and_then_taken_out_is_gone_from_the_base_too(
    remote: Remote, used: Publisher, tmp_path: Path
) -> None:
    edit_branch(remote, tmp_path / "one", {"MEMORY.md": ("Known before", "Known better")})
    take_out(remote, tmp_path / "two", "Known better")
    used("pr")
    assert "Known" not in remote.show(UPDATE, "MEMORY.md")


def test_an_entry_that_a_maintainer_moves_to_another_file_stays_there(
    remote: Remote, used: Publisher, tmp_path: Path
) -> None:
    clone = remote.clone(tmp_path / "one", "--branch", UPDATE)
    (entry,) = (entry for entry in clone.entries() if entry.id == make_id(7))
    rest = [format_entry(entry) for entry in clone.entries() if entry.id != make_id(7)]
    clone.commit(
        "Of the team", {"MEMORY.md": "\n".join(rest), "src/MEMORY.md": format_entry(entry)}
    )
    clone.git("push", "-q", "origin", UPDATE)
    do_more_work(used)
    used("pr")
    assert "Known before" in remote.show(UPDATE, "src/MEMORY.md")
    assert "Known before" not in remote.show(UPDATE, "MEMORY.md")


def test_a_note_of_the_inbox_that_a_maintainer_takes_out_goes_with_its_file(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    do_more_work(publish)
    publish("pr")
    take_out(remote, tmp_path / "one", "Look at the gateway's dashboard first")
    for _ in range(2):
        publish("pr")
        assert "dashboard" not in remote.show(UPDATE, "MEMORY.md")
    assert ".memory/inbox" not in remote.git("ls-tree", "-r", "--name-only", UPDATE)


def test_a_line_that_a_maintainer_takes_out_of_the_rejected_there_is_proposed_again(
    remote: Remote, used: Publisher, tmp_path: Path
) -> None:
    take_out(remote, tmp_path / "one", "Known before")
    used("pr")
    clone = remote.clone(tmp_path / "two", "--branch", UPDATE)
    clone.commit("Changed my mind", {REJECTED_FILE: "# none\n"})
    clone.git("push", "-q", "origin", UPDATE)
    for _ in range(2):
        used("pr")
        assert known(remote).title == "Known before"


def test_a_line_of_the_base_that_a_maintainer_takes_out_of_the_rejected_goes(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish.project.commit(
        "Never", {REJECTED_FILE: "# Not these\n0123456789ab Old news\nba9876543210 Older news\n"}
    )
    publish.project.git("push", "-q", "origin", "main")
    publish("pr")
    edit_branch(remote, tmp_path / "one", {REJECTED_FILE: ("0123456789ab Old news\n", "")})
    do_more_work(publish)
    publish("pr")
    assert remote.show(UPDATE, REJECTED_FILE) == "# Not these\nba9876543210 Older news\n"


def find_told(remote: Remote) -> list[str]:
    """The episode files on the memory branch."""
    return [
        path
        for path in remote.git("ls-tree", "-r", "--name-only", UPDATE).splitlines()
        if "/episodes/2" in path
    ]


def merge_held_out(project: Project, number: int = 131) -> None:
    """Merge work whose session was held out, so that its episode has a file."""
    message = "fix: charge a card once\n\nMemory-Holdout: ab12"
    project.merge_work(message, f"held-{number}", number, "src/held.py")
    project.git("push", "-q", "origin", "main")


def test_an_episode_that_a_maintainer_deletes_is_not_proposed_again(
    remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    merge_held_out(publish.project)
    publish("pr")
    (told,) = find_told(remote)
    clone = remote.clone(tmp_path / "one", "--branch", UPDATE)
    clone.commit("Not this one", {told: None})
    clone.git("push", "-q", "origin", UPDATE)
    for _ in range(2):
        publish("pr")
        assert find_told(remote) == []
    assert f"### Not proposed again\n\n- `{told}`" in forge.pulls[0]["body"]


def test_an_episode_that_a_maintainer_changes_is_carried_over_as_it_is(
    remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    merge_held_out(publish.project)
    publish("pr")
    (told,) = find_told(remote)
    edit_branch(remote, tmp_path / "one", {told: ("charge a card once", "[redacted]")})
    for number in range(2):
        publish.project.put_fragment(make_entry(7 + number, title=f"Note {number}"))
        publish.project.git("push", "-q", "origin", "main")
        publish("pr")
        assert "[redacted]" in remote.show(UPDATE, told)
    assert f"### Kept from this branch\n\n- `{told}`" in forge.pulls[0]["body"]


def test_an_episode_that_a_maintainer_broke_leaves_the_branch_as_it_is(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    merge_held_out(publish.project)
    publish("pr")
    (told,) = find_told(remote)
    edit_branch(remote, tmp_path / "one", {told: ("occurred_at: ", "occurred_at: oops ")})
    tip = remote.sha(f"refs/heads/{UPDATE}")
    assert f"{told}:" in publish("pr").reason
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


def test_words_beside_the_entries_stay_as_a_maintainer_left_them(
    remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    edit_branch(
        remote,
        tmp_path / "one",
        {"MEMORY.md": ("# Memory\n", "# Our memory\n\nRead this first.\n")},
    )
    for number in range(2):
        publish.project.put_fragment(make_entry(7 + number, title=f"Note {number}"))
        publish.project.git("push", "-q", "origin", "main")
        publish("pr")
        text = remote.show(UPDATE, "MEMORY.md")
        assert text.startswith("# Our memory\n\nRead this first.\n")
        assert len(parse_memory_file("", text.encode()).entries) == 3 + number
    assert "### Kept from this branch\n\n- `MEMORY.md`" in forge.pulls[0]["body"]


def test_words_beside_the_entries_that_the_base_changed_too_leave_the_branch_as_it_is(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    edit_branch(remote, tmp_path / "one", {"MEMORY.md": ("# Memory\n", "# Our memory\n")})
    text = publish.project.show("HEAD", "MEMORY.md").replace("# Memory\n", "# Memories\n")
    publish.project.commit("Another heading", {"MEMORY.md": text})
    publish.project.git("push", "-q", "origin", "main")
    tip = remote.sha(f"refs/heads/{UPDATE}")
    assert "MEMORY.md was changed there" in publish("pr").reason
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


def test_words_that_the_base_alone_changed_are_no_hindrance(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    edit_branch(
        remote, tmp_path / "one", {"MEMORY.md": ("send an idempotency key", "send a nonce")}
    )
    text = publish.project.show("HEAD", "MEMORY.md").replace("# Memory\n", "# Memories\n")
    publish.project.commit("Another heading", {"MEMORY.md": text})
    publish.project.git("push", "-q", "origin", "main")
    publish("pr")
    assert remote.show(UPDATE, "MEMORY.md").startswith("# Memories\n")
    assert "send a nonce" in remote.show(UPDATE, "MEMORY.md")


def test_a_plan_of_another_job_that_does_not_fit_their_words_leaves_the_branch_as_it_is(
    remote: Remote, used: Publisher, tmp_path: Path
) -> None:
    edit_branch(remote, tmp_path / "one", {"MEMORY.md": ("Known before", "Known better")})
    tip = remote.sha(f"refs/heads/{UPDATE}")

    def refuse(plan: Plan) -> Plan:
        raise RepositoryError("the plan does not fit", slug="ref-moved", hint="")

    used.failure = refuse
    assert used("pr").reason == "the branch is left as it is: the plan does not fit"
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


def test_what_a_maintainer_amends_stays_although_the_message_is_ours(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    clone = remote.clone(tmp_path / "maintainer", "--branch", UPDATE)
    clone.write(
        "MEMORY.md",
        clone.show("HEAD", "MEMORY.md").replace("send an idempotency key", "send a nonce"),
    )
    clone.git("commit", "-q", "--amend", "--no-edit", "MEMORY.md")
    clone.git("push", "-q", "--force", "origin", UPDATE)
    publish.project.commit("More work", {"other.txt": "x"})
    publish.project.git("push", "-q", "origin", "main")
    publish("pr")
    assert "send a nonce" in remote.show(UPDATE, "MEMORY.md")


def test_what_was_merged_and_changed_since_is_not_brought_back_by_an_old_branch(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    edit_branch(
        remote, tmp_path / "maintainer", {"MEMORY.md": ("send an idempotency key", "send a nonce")}
    )
    old = remote.sha(f"refs/heads/{UPDATE}")
    merged = squash(remote, tmp_path / "merged")
    merged.commit("Forget all", {"MEMORY.md": ""})
    merged.git("push", "-q", "origin", "main", f"{old}:refs/heads/{UPDATE}")
    publish("pr")
    assert "send a nonce" not in remote.show("main", "MEMORY.md")
    assert UPDATE not in remote.branches() or "send a nonce" not in remote.show(UPDATE, "MEMORY.md")


def test_a_merge_commit_of_the_pull_request_makes_nothing_count_twice(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish.project.commit("Keep", {"MEMORY.md": format_entry(make_entry(7, title="Known before"))})
    publish.project.commit(f"Use it\n\nMemory-Used: {make_id(7)}\n", {"a.txt": "a"})
    publish.project.git("push", "-q", "origin", "main")
    publish("pr")
    merged = remote.clone(tmp_path / "merged")
    merged.merge(f"origin/{UPDATE}", message=f"Merge pull request #7 from acme/{UPDATE}")
    merged.git("push", "-q", "origin", "main", f":refs/heads/{UPDATE}")
    assert {entry.id: entry.reinforcement_count for entry in merged.entries()}[make_id(7)] == 1
    assert publish("pr").reason == "nothing to propose"


def merge_by(how: str, remote: Remote, path: Path) -> None:
    """Merge the memory branch as one of GitHub's three buttons does, and remove it."""
    if how == "squash":
        squash(remote, path)
        return
    clone = remote.clone(path)
    if how == "merge":
        clone.merge(f"origin/{UPDATE}", message=f"Merge pull request #7 from acme/{UPDATE}")
    else:
        clone.git("checkout", "-q", "--detach", f"origin/{UPDATE}")
        clone.git("rebase", "-q", "--force-rebase", "main")
        clone.git("checkout", "-q", "-B", "main")
    clone.git("push", "-q", "origin", "main", f":refs/heads/{UPDATE}")


@pytest.mark.parametrize("how", ["squash", "merge", "rebase"])
def test_however_the_pull_request_is_merged_the_next_run_reads_nothing_again(
    remote: Remote, publish: Publisher, tmp_path: Path, how: str
) -> None:
    tip = publish("pr").tip
    merge_by(how, remote, tmp_path / "merged")
    assert remote.sha("main") != tip
    published = publish("pr")
    assert published.reason == "nothing to propose"
    assert UPDATE not in remote.branches()
    assert published.plan is not None
    assert published.plan.since == publish.project.sha("main"), (
        "the branch is where the first run read it"
    )
    assert published.plan.judged == ()


def decline(forge: GitHubDouble) -> None:
    """Close the newest pull request without a merge, as a person does."""
    forge.pulls[-1]["state"] = "closed"


def do_more_work(publish: Publisher) -> None:
    note = make_entry(7, title="Look at the gateway's dashboard first")
    publish.project.put_fragment(note)
    publish.project.git("push", "-q", "origin", "main")


@pytest.mark.parametrize("is_branch_kept", [True, False])
def test_a_pull_request_that_a_person_closed_is_not_opened_again(
    remote: Remote, forge: GitHubDouble, publish: Publisher, is_branch_kept: bool
) -> None:
    publish("pr")
    decline(forge)
    if not is_branch_kept:
        remote.git("branch", "-q", "-D", UPDATE)
    before = remote.git("for-each-ref")
    published = publish("pr")
    assert "pull request 1 was closed without a merge" in published.reason
    assert (len(forge.pulls), remote.git("for-each-ref")) == (1, before)


def test_another_is_opened_for_what_is_new_and_tells_of_the_closed_one(
    forge: GitHubDouble, publish: Publisher
) -> None:
    publish("pr")
    decline(forge)
    do_more_work(publish)
    assert publish("pr").url == forge.pulls[-1]["html_url"]
    first, second = forge.pulls
    assert (first["state"], second["state"]) == ("closed", "open")
    assert (
        "[pull request 1](https://github.com/acme/shop/pull/1) was closed without a merge"
        in second["body"]
    )
    assert "### Closed before, in pull request 1\n\n- `" in second["body"]
    assert second["body"].count("dashboard") == 1
    decline(forge)
    assert "pull request 2 was closed" in publish("pr").reason


def test_what_a_person_closed_and_opens_again_is_brought_up_to_date(
    forge: GitHubDouble, publish: Publisher
) -> None:
    publish("pr")
    decline(forge)
    publish("pr")
    forge.pulls[0]["state"] = "open"
    do_more_work(publish)
    publish("pr")
    assert "dashboard" in forge.pulls[0]["body"]
    assert len(forge.pulls) == 1


def test_a_pull_request_that_was_merged_or_that_we_closed_is_no_answer(
    remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    tip = publish("pr").tip
    base = remote.sha("main")
    remote.git("update-ref", "refs/heads/main", tip)
    assert publish("pr").reason == "nothing to propose"
    assert forge.pulls[0]["state"] == "closed"
    remote.git("update-ref", "refs/heads/main", base)
    publish("pr")
    assert forge.pulls[1]["state"] == "open"
    forge.pulls[1] |= {"state": "closed", "merged_at": "2026-11-21T12:00:00Z"}
    publish("pr")
    assert forge.pulls[2]["state"] == "open"


def test_a_request_is_closed_in_our_words_before_its_branch_goes_away(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    tip = publish("pr").tip
    remote.git("update-ref", "refs/heads/main", tip)
    written: list[set[str]] = []

    def answer(asked: Asked) -> Answer:
        written.extend([remote.branches()] if asked.method == "PATCH" else [])
        is_down = asked.method == "PATCH" and len(written) == 1
        return json_answer({"message": "Server Error"}, 502) if is_down else forge(asked)

    with serve(answer) as flaky:
        again = Publisher(publish.project, forge.environ(flaky.url))
        with pytest.raises(EngineError):
            again("pr")
        assert again("pr").url == forge.pulls[0]["html_url"]
    assert all(UPDATE in branches for branches in written)
    assert len(written) == 3
    assert UPDATE not in remote.branches()
    assert (forge.pulls[0]["state"], parse_keys(forge.pulls[0]["body"])) == ("closed", frozenset())


def hold_episodes(plan: Plan, count: int) -> Built:
    files = tuple(
        EpisodeFile(f".memory/episodes/2026-11/pr-{number}.md", "") for number in range(count)
    )
    held = msgspec.structs.replace(plan, steps=(), episodes=files, unwritten=Unwritten())
    return Built(plan.base, plan.base, held, ())


def test_the_text_of_a_pull_request_has_room_for_the_keys_of_any_number(project: Project) -> None:
    plan = project.plan()
    for count, width in ((MAX_KEYS, MAX_KEYS), (MAX_KEYS + 100, MAX_KEYS + 1)):
        held = list_keys(hold_episodes(plan, count))
        assert len(held) == width
        body = render_pull_request(
            Proposed(plan, (), (), Effect(0, 0, 0, 0, 0), Links(), tuple(held))
        )
        assert len(body) < MAX_BYTES / 2
        standing = RequestState(None, None, Proposal(7, "", body))
        assert "pull request 7 was closed" in find_answer(hold_episodes(plan, count), standing)
        assert find_answer(hold_episodes(plan, count + 1), standing) == ""


def test_less_than_a_closed_pull_request_held_is_nothing_new(project: Project) -> None:
    plan = project.plan()
    held = tuple(list_keys(hold_episodes(plan, 1_000)))
    body = render_pull_request(Proposed(plan, (), (), Effect(0, 0, 0, 0, 0), Links(), held))
    fewer = hold_episodes(plan, 999)
    assert "pull request 7 was closed" in find_answer(
        fewer, RequestState(None, None, Proposal(7, "", body))
    )


def test_a_pull_request_of_episodes_alone_says_so(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    publish("push")
    merge_held_out(publish.project)
    publish("pr")
    (pull,) = forge.pulls
    assert pull["title"] == "memory: what became of pr-131"
    assert "### Episodes: 1\n\n- `.memory/episodes/" in pull["body"]


def test_a_pull_request_of_what_was_read_alone_says_so(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    project = publish.project
    publish("push")
    project.merge_work("chore: tidy up", "tidy", 130, "src/tidy.py")
    project.git("push", "-q", "origin", "main")
    publish("pr")
    (pull,) = forge.pulls
    assert pull["title"] == "memory: read 1 merged change"
    assert "1 merged change of which git's history says all" in pull["body"]
    assert find_told(remote) == []


def test_a_run_that_stopped_takes_nothing_out_of_the_pull_request(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    tip = publish("pr").tip

    def stop(plan: Plan) -> Plan:
        engine = msgspec.structs.replace(plan.engine, failure="the model is overloaded")
        return msgspec.structs.replace(plan, engine=engine, until=None, steps=())

    publish.failure = stop
    published = publish("pr")
    assert "left as it is" in published.reason
    assert published.plan is not None
    assert remote.sha(f"refs/heads/{UPDATE}") == published.tip == tip
    assert forge.pulls[0]["state"] == "open"


def test_a_branch_on_which_others_changed_code_is_left_as_it_is(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    edit_branch(remote, tmp_path / "maintainer", {"src/client.py": ("retry", "RETRY")})
    tip = remote.sha(f"refs/heads/{UPDATE}")
    assert "left as it is" in publish("pr").reason
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


def test_a_branch_whose_memory_a_maintainer_broke_is_left_to_be_mended(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    edit_branch(
        remote, tmp_path / "maintainer", {"MEMORY.md": ("importance: ", "importance: oops ")}
    )
    tip = remote.sha(f"refs/heads/{UPDATE}")
    assert "MEMORY.md:" in publish("pr").reason
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


def test_an_entry_of_the_base_that_a_maintainer_takes_out_there_goes_with_the_pull_request(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish.project.commit(
        "Keep", {"MEMORY.md": format_entry(make_entry(7, title="Held for years"))}
    )
    publish.project.git("push", "-q", "origin", "main")
    publish("pr")
    take_out(remote, tmp_path / "maintainer", "Held for years")
    for number in range(2):
        publish("pr")
        titles = remote.clone(tmp_path / f"after{number}", "--branch", UPDATE).titles()
        assert len(titles) == 2
        assert "Held for years" not in titles


def test_a_maintainer_who_pushes_while_the_run_works_is_not_overwritten(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    publish("pr")
    publish.project.put_fragment(make_entry(7, title="One more"))
    publish.project.git("push", "-q", "origin", "main")
    publish.before = [
        lambda: edit_branch(
            remote,
            tmp_path / "maintainer",
            {"MEMORY.md": ("send an idempotency key", "send a nonce")},
        )
    ]
    assert publish("pr").tries == 2
    assert "send a nonce" in remote.show(UPDATE, "MEMORY.md")
    assert "One more" in remote.show(UPDATE, "MEMORY.md")


def test_auto_turns_to_a_pull_request_where_the_branch_is_protected(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    remote.refuse("refs/heads/main", GH013)
    published = publish("auto")
    assert published.mode == "pr"
    assert "GH013" in published.reason
    assert len(forge.pulls) == 1


def test_auto_pushes_where_it_may(remote: Remote, forge: GitHubDouble, publish: Publisher) -> None:
    assert publish("auto").mode == "push"
    assert forge.pulls == []


def test_without_a_forge_the_branch_is_pushed_and_the_reason_says_what_is_left(
    project: Project, remote: Remote
) -> None:
    published = Publisher(project)("pr")
    assert UPDATE in remote.branches()
    assert "open its pull request by hand" in published.reason


def test_a_memory_branch_that_may_not_be_pushed_is_an_error(
    remote: Remote, publish: Publisher
) -> None:
    remote.refuse(f"refs/heads/{UPDATE}", GH013)
    with pytest.raises(RepositoryError) as caught:
        publish("pr")
    assert caught.value.slug == "push-refused"


def test_the_api_makes_the_commits_and_the_local_branch_follows(
    project: Project, remote: Remote, publish: Publisher
) -> None:
    project.put_fragment(make_entry(7, title="Waits in the inbox"))
    project.git("push", "-q", "origin", "main")
    published = publish("api")
    assert published.mode == "api"
    assert remote.git("log", "-1", "--format=%s", "main").splitlines() == [
        "memory: fold 1 entry from the inbox, extract 2 learnings from #128",
    ]
    assert remote.sha("main") == published.tip == project.sha("main")
    assert project.status() == ""
    assert ".memory/inbox" not in remote.git("ls-tree", "-r", "--name-only", "main")
    assert publish("api").subjects == ()


def test_a_branch_that_moves_between_two_commits_of_the_api_loses_nothing(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
    project.put_fragment(make_entry(7, title="Waits in the inbox"))
    retired = format_entry(
        make_entry(9, title="Long gone", status="retired")
    )  # compaction is a commit of its own
    project.commit("Retire", {"MEMORY.md": f"{project.show('HEAD', 'MEMORY.md')}\n{retired}"})
    project.git("push", "-q", "origin", "main")

    def push_other() -> None:
        other = remote.clone(tmp_path / "other")
        other.commit("More", {"other.txt": "x"})
        other.git("push", "-q", "origin", "main")

    forge.stale = [lambda: None, push_other]
    assert publish("api").tries == 2
    merged = remote.clone(tmp_path / "merged")
    assert "Waits in the inbox" in merged.titles()
    assert len(merged.entries()) == 3
    assert publish("api").subjects == ()


def test_the_api_turns_to_a_pull_request_when_it_is_refused(
    project: Project, forge: GitHubDouble, publish: Publisher
) -> None:
    forge.refusal = "Changes must be made through a pull request."
    published = publish("api")
    assert published.mode == "pr"
    assert "through a pull request" in published.reason
    assert len(forge.pulls) == 1


def test_the_api_turns_to_a_pull_request_when_the_token_has_not_the_right(
    forge: GitHubDouble, publish: Publisher
) -> None:
    forge.graphql_answer = json_answer({"message": "Resource not accessible by integration"}, 403)
    assert publish("api").mode == "pr"
    assert len(forge.pulls) == 1


def test_the_api_without_a_token_turns_to_a_pull_request(project: Project, remote: Remote) -> None:
    published = Publisher(project)("api")
    assert published.mode == "pr"
    assert UPDATE in remote.branches()


def test_what_was_learned_of_older_work_stays_when_the_next_run_makes_the_branch_anew(
    project: Project, remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    start = project.sha()
    project.commit("Trust nobody", {".memory-ci.yaml": "extraction: {trusted_authors: [nobody]}\n"})
    because = "because two people who count one drawer never agree."
    project.merge_work(
        f"Drawers\n\nDecision: one clerk a drawer rather than two, {because}",
        "drawer",
        129,
        "src/b.py",
    )
    project.git("push", "-q", "origin", "main")
    publish("push")
    project.git("pull", "-q", "origin", "main")
    project.commit("Trust again", {".memory-ci.yaml": ""})
    project.commit("Go on, with settings that hold now", {"src/c.py": ""})
    project.git("push", "-q", "origin", "main")
    publish("pr", since=start)
    older = [entry.title for entry in read_entries(remote, UPDATE) if "clerk" in entry.title]
    assert older
    assert "Memory-CI-Range: asked" in remote.git("log", "--format=%B", f"main..{UPDATE}")
    project.merge_work(
        "Voids\n\nDecision: a void is a row rather than a delete, because auditors ask.",
        "void",
        130,
    )
    project.git("push", "-q", "origin", "main")
    for _ in range(2):
        publish("pr")
        found = {entry.title: entry for entry in read_entries(remote, UPDATE)}
        assert {*older} < {*found}
        assert [found[title].reinforcement_count for title in older] == [0] * len(older)
        assert all(f"[x] `{title}" in forge.pulls[0]["body"] for title in older)
    publish("pr", since=start)
    assert {entry.title for entry in read_entries(remote, UPDATE)} == {*found}


def read_entries(remote: Remote, branch: str) -> tuple[Entry, ...]:
    return parse_memory_file("MEMORY.md", remote.show(branch, "MEMORY.md").encode()).entries
