"""Tests of edits and removals by maintainers on the memory branch: they are carried over."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.gitrepo.writer import MEMORY_CI
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.records.entry import Entry
from memory_ci.records.plan import Plan
from memory_ci.store.document import parse_memory_file
from memory_ci.store.edits import format_entry
from tests.commands.publish.requests_at_work import (
    do_more_work,
    edit_branch,
    merge_held_out,
    squash,
    take_out,
)
from tests.make import make_entry, make_id
from tests.project import Project
from tests.remote import UPDATE, GitHubDouble, Publisher, Remote, SavedRequest, open_request


def test_an_entry_that_a_maintainer_removes_is_never_proposed_again(
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


@pytest.mark.usefixtures("opened")
def test_an_entry_reworded_by_a_maintainer_stays_as_written(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
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
def used(
    saved_use: SavedRequest, publish: Publisher, remote: Remote, forge: GitHubDouble
) -> Publisher:
    """Return `publish` after a run that reinforced an entry of the base, "Known before"."""
    saved_use.restore(publish.project, remote, forge)
    return publish


@pytest.fixture(scope="module")
def saved_episode(
    project_template: Project, tmp_path_factory: pytest.TempPathFactory
) -> SavedRequest:
    return open_request(project_template, tmp_path_factory.mktemp("episode"), merge_held_out)


@pytest.fixture
def episode_path(
    saved_episode: SavedRequest, publish: Publisher, remote: Remote, forge: GitHubDouble
) -> str:
    """Return the path of the one episode file on the memory branch, after the first run."""
    saved_episode.restore(publish.project, remote, forge)
    (path,) = find_episode_paths(remote)
    return path


def known(remote: Remote) -> Entry:
    """Return the entry that the run reinforces, as the memory branch has it."""
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


def test_two_edits_of_one_entry_at_different_times_are_both_kept(
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


def test_words_that_the_run_wrote_and_a_maintainer_changed_again_are_the_maintainers(
    remote: Remote, used: Publisher, tmp_path: Path
) -> None:
    clone = remote.clone(tmp_path / "run", "--branch", UPDATE)
    text = clone.show("HEAD", "MEMORY.md")
    clone.write("MEMORY.md", text.replace("Known before", "Known to the run"))
    amend = f"!GIT_COMMITTER_EMAIL={MEMORY_CI.email} git commit -q --amend --no-edit MEMORY.md"
    clone.git("-c", f"alias.amend-as-run={amend}", "amend-as-run")
    clone.git("push", "-q", "--force", "origin", UPDATE)
    edit_branch(remote, tmp_path / "one", {"MEMORY.md": ("Known to the run", "Known better")})
    do_more_work(used)
    used("pr")
    assert known(remote).title == "Known better"


def test_a_field_that_the_base_changed_differently_is_left_and_reported(
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
    assert "decided otherwise\n\n- `Known on the branch`" in forge.pulls[0]["body"]
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
    remaining_entries = [format_entry(entry) for entry in clone.entries() if entry.id != make_id(7)]
    clone.commit(
        "Of the team",
        {"MEMORY.md": "\n".join(remaining_entries), "src/MEMORY.md": format_entry(entry)},
    )
    clone.git("push", "-q", "origin", UPDATE)
    do_more_work(used)
    used("pr")
    assert "Known before" in remote.show(UPDATE, "src/MEMORY.md")
    assert "Known before" not in remote.show(UPDATE, "MEMORY.md")


def test_a_note_of_the_inbox_that_a_maintainer_removes_is_removed_with_its_file(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    do_more_work(publish)
    publish("pr")
    take_out(remote, tmp_path / "one", "Look at the gateway's dashboard first")
    for _ in range(2):
        publish("pr")
        assert "dashboard" not in remote.show(UPDATE, "MEMORY.md")
    assert ".memory/inbox" not in remote.git("ls-tree", "-r", "--name-only", UPDATE)


def test_a_rejected_entry_whose_line_a_maintainer_removes_is_proposed_again(
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


def test_a_line_of_the_base_that_a_maintainer_removes_from_the_rejected_file_is_removed(
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


def find_episode_paths(remote: Remote) -> list[str]:
    """Return the paths of the episode files on the memory branch."""
    return [
        path
        for path in remote.git("ls-tree", "-r", "--name-only", UPDATE).splitlines()
        if "/episodes/2" in path
    ]


def test_an_episode_that_a_maintainer_deletes_is_not_proposed_again(
    remote: Remote, forge: GitHubDouble, publish: Publisher, episode_path: str, tmp_path: Path
) -> None:
    clone = remote.clone(tmp_path / "one", "--branch", UPDATE)
    clone.commit("Not this one", {episode_path: None})
    clone.git("push", "-q", "origin", UPDATE)
    for _ in range(2):
        publish("pr")
        assert find_episode_paths(remote) == []
    assert f"### Not proposed again\n\n- `{episode_path}`" in forge.pulls[0]["body"]


def test_an_episode_that_a_maintainer_changes_is_carried_over_as_it_is(
    remote: Remote, forge: GitHubDouble, publish: Publisher, episode_path: str, tmp_path: Path
) -> None:
    edit_branch(remote, tmp_path / "one", {episode_path: ("charge a card once", "[redacted]")})
    for number in range(2):
        publish.project.put_fragment(make_entry(7 + number, title=f"Note {number}"))
        publish.project.git("push", "-q", "origin", "main")
        publish("pr")
        assert "[redacted]" in remote.show(UPDATE, episode_path)
    assert f"### Kept from this branch\n\n- `{episode_path}`" in forge.pulls[0]["body"]


def test_an_episode_that_a_maintainer_broke_leaves_the_branch_as_it_is(
    remote: Remote, publish: Publisher, episode_path: str, tmp_path: Path
) -> None:
    edit_branch(remote, tmp_path / "one", {episode_path: ("occurred_at: ", "occurred_at: oops ")})
    tip = remote.sha(f"refs/heads/{UPDATE}")
    assert f"{episode_path}:" in publish("pr").reason
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


@pytest.mark.usefixtures("opened")
def test_prose_beside_the_entries_stays_as_a_maintainer_left_it(
    remote: Remote, forge: GitHubDouble, publish: Publisher, tmp_path: Path
) -> None:
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


@pytest.mark.usefixtures("opened")
def test_words_beside_the_entries_that_the_base_changed_too_leave_the_branch_as_it_is(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    edit_branch(remote, tmp_path / "one", {"MEMORY.md": ("# Memory\n", "# Our memory\n")})
    text = publish.project.show("HEAD", "MEMORY.md").replace("# Memory\n", "# Memories\n")
    publish.project.commit("Another heading", {"MEMORY.md": text})
    publish.project.git("push", "-q", "origin", "main")
    tip = remote.sha(f"refs/heads/{UPDATE}")
    assert "MEMORY.md was changed there" in publish("pr").reason
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


@pytest.mark.usefixtures("opened")
def test_prose_changed_on_the_base_alone_does_not_stop_the_run(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
    edit_branch(
        remote, tmp_path / "one", {"MEMORY.md": ("send an idempotency key", "send a nonce")}
    )
    text = publish.project.show("HEAD", "MEMORY.md").replace("# Memory\n", "# Memories\n")
    publish.project.commit("Another heading", {"MEMORY.md": text})
    publish.project.git("push", "-q", "origin", "main")
    publish("pr")
    assert remote.show(UPDATE, "MEMORY.md").startswith("# Memories\n")
    assert "send a nonce" in remote.show(UPDATE, "MEMORY.md")


def test_a_plan_that_conflicts_with_maintainers_edits_leaves_the_branch_as_it_is(
    remote: Remote, used: Publisher, tmp_path: Path
) -> None:
    edit_branch(remote, tmp_path / "one", {"MEMORY.md": ("Known before", "Known better")})
    tip = remote.sha(f"refs/heads/{UPDATE}")

    def refuse(plan: Plan) -> Plan:
        raise RepositoryError("the plan does not fit", slug="ref-moved", hint="")

    used.failure = refuse
    assert used("pr").reason == "the branch is left as it is: the plan does not fit"
    assert remote.sha(f"refs/heads/{UPDATE}") == tip


@pytest.mark.usefixtures("opened")
def test_a_commit_amended_by_a_maintainer_is_kept_despite_our_message(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
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


@pytest.mark.usefixtures("opened")
def test_an_old_branch_does_not_restore_entries_changed_since_their_merge(
    remote: Remote, publish: Publisher, tmp_path: Path
) -> None:
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


def test_an_entry_that_a_maintainer_removes_from_the_base_is_removed_from_the_request(
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
