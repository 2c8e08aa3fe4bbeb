"""`publish.split: codeowners`: a request for each team with the memory of its directories, one cursor for all."""

from __future__ import annotations

import pytest

from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.store.document import parse_memory_file
from tests.make import make_entry
from tests.project import DECIDED, Project
from tests.remote import UPDATE, GitHubDouble, Publisher, Remote
from tests.servers import Asked, Server

BILLING = f"{UPDATE}-billing"
FILE = "services/billing/MEMORY.md"


@pytest.fixture
def publish(project: Project, forge: GitHubDouble, server: Server) -> Publisher:
    """Split by owners: work of the whole project, and a note that is billing's."""
    files = {
        ".memory-ci.yaml": "publish: {mode: pr, split: codeowners}\n",
        ".github/CODEOWNERS": "*  @acme/core\n/services/billing/  @acme/billing\n",
        "services/billing/bill.py": "one\n",
        FILE: "# Memory of billing\n",
    }
    project.commit("Split", files)
    note(project, 201)
    return Publisher(project, forge.environ(server.url))


def note(project: Project, number: int, where: str = "services/billing") -> None:
    project.put_fragment(make_entry(number, title=f"Note {number}", scope=f"team:{where}"))
    project.git("push", "-q", "origin", "main")


def titles(remote: Remote, branch: str, path: str = FILE) -> set[str]:
    return {
        entry.title for entry in parse_memory_file(path, remote.show(branch, path).encode()).entries
    }


def changed(remote: Remote, branch: str) -> set[str]:
    return set(remote.git("diff", "--name-only", "main", branch).splitlines())


def merge(remote: Remote, forge: GitHubDouble, branch: str) -> None:
    """Squash a request into the branch, as the button does, and remove its branch."""
    clone = remote.clone(
        remote.path.parent / f"merge-{len(forge.pulls)}-{branch.rpartition('/')[2]}"
    )
    clone.git("merge", "-q", "--squash", f"origin/{branch}")
    bodies = clone.git("log", "--reverse", "--format=* %B", f"HEAD..origin/{branch}")
    clone.commit(f"memory: learned (#7)\n\n{bodies}\n")
    clone.git("push", "-q", "origin", "main", f":refs/heads/{branch}")
    for pull in forge.pulls:
        if pull["head"] == branch:
            pull |= {"state": "closed", "merged_at": "2026-11-21T12:00:00Z"}


def tips(remote: Remote) -> str:
    return remote.git("for-each-ref", "refs/heads/memory-ci")


def test_the_forge_is_asked_once_for_each_request(
    remote: Remote, forge: GitHubDouble, publish: Publisher, server: Server
) -> None:
    for states in (["closed", "open"], ["open"]):  # none was ever open; both are
        server.asked.clear()
        publish()
        listed = [
            (one.query["head"], one.query["state"]) for one in server.asked if _is_listing(one)
        ]
        branches = (f"acme:{BILLING}", f"acme:{UPDATE}")
        assert sorted(listed) == sorted((branch, state) for branch in branches for state in states)


def _is_listing(asked: Asked) -> bool:
    return (asked.method, asked.path) == ("GET", "/repos/acme/shop/pulls")


def test_each_team_gets_a_request_with_its_directories_alone(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    published = publish()
    assert {pull["head"] for pull in forge.pulls} == {UPDATE, BILLING}
    assert "billing: https://github.com/acme/shop/pull/1" in published.reason
    assert {path for path in changed(remote, BILLING) if not path.startswith(".memory/inbox/")} == {
        FILE
    }
    assert FILE not in changed(remote, UPDATE)
    assert "MEMORY.md" in changed(remote, UPDATE)
    assert titles(remote, BILLING) == {"Note 201"}
    assert "### Added" in forge.pulls[1]["body"]
    assert "Note 201" in forge.pulls[0]["body"]
    assert "Note 201" not in forge.pulls[1]["body"]
    assert "Memory-CI-Source" in remote.git("log", "--format=%B", f"main..{UPDATE}")
    assert "Memory-CI-Source" not in remote.git("log", "--format=%B", f"main..{BILLING}")
    before = tips(remote)
    publish()
    assert (tips(remote), len(forge.pulls)) == (before, 2)


def test_what_a_team_has_not_merged_stays_proposed_when_the_plain_request_is_merged(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    publish()
    merge(remote, forge, UPDATE)
    publish()
    assert UPDATE not in remote.branches()
    note(Project(remote.clone(remote.path.parent / "more").path, publish.project.clock), 202)
    publish()
    assert titles(remote, BILLING) == {"Note 201", "Note 202"}
    assert "Note 201" in forge.pulls[0]["body"]
    merge(remote, forge, BILLING)
    published = publish()
    assert titles(remote, "main") == {"Note 201", "Note 202"}
    assert BILLING not in remote.branches()
    assert published.reason.startswith("nothing to propose")


def test_a_request_under_review_holds_still_and_the_cursor_waits_for_what_it_would_get(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    publish()
    forge.review("APPROVED", pull=1)
    tip = remote.sha(f"refs/heads/{BILLING}")
    note(publish.project, 202)
    assert "billing: request 1 is approved" in publish().reason
    assert remote.sha(f"refs/heads/{BILLING}") == tip
    assert "Memory-CI-Source" not in remote.git("log", "--format=%B", f"main..{UPDATE}")
    merge(remote, forge, UPDATE)
    merge(remote, forge, BILLING)
    publish()
    assert titles(remote, BILLING) == {"Note 201", "Note 202"}
    assert [pull["head"] for pull in forge.pulls if pull["state"] == "open"] == [BILLING]


def test_what_a_team_takes_out_is_not_proposed_again_and_the_plain_request_says_so(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    publish()
    clone = remote.clone(remote.path.parent / "team", "--branch", BILLING)
    clone.commit("Not this one", {FILE: "# Memory of billing\n"})
    clone.git("push", "-q", "origin", BILLING)
    for _ in range(2):
        publish()
        assert "Note 201" in remote.show(UPDATE, REJECTED_FILE)
        assert BILLING not in remote.branches() or "Note 201" not in remote.show(BILLING, FILE)


def test_without_the_key_all_is_one_request(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    publish.project.commit("One", {".memory-ci.yaml": "publish: {mode: pr}\n"})
    publish.project.git("push", "-q", "origin", "main")
    publish()
    assert [pull["head"] for pull in forge.pulls] == [UPDATE]
    assert titles(remote, UPDATE) == {"Note 201"}


def test_what_a_change_of_a_team_taught_goes_to_the_team_with_its_evidence(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    project, place = publish.project, "projects/ship"
    owners = project.show("HEAD", ".github/CODEOWNERS") + f"\n/{place}/ @acme/ship\n"
    project.commit(
        "A project",
        {f"{place}/INTENT.md": "Ship.\n", f"{place}/MEMORY.md": "", ".github/CODEOWNERS": owners},
    )
    said = DECIDED.format(name="ship").replace("src/", f"{place}/")
    project.merge_work(said, "ship", 129, f"{place}/ship.py")
    project.git("push", "-q", "origin", "main")
    publish()
    (title,) = titles(remote, f"{UPDATE}-ship", f"{place}/MEMORY.md")
    assert "ship" in title
    assert [pull["head"] for pull in forge.pulls] == [BILLING, f"{UPDATE}-ship", UPDATE]
    merge(remote, forge, UPDATE)
    publish()
    assert titles(remote, f"{UPDATE}-ship", f"{place}/MEMORY.md") == {title}


def test_a_branch_of_a_team_with_more_than_memory_is_left_and_the_others_are_brought(
    remote: Remote, forge: GitHubDouble, publish: Publisher
) -> None:
    publish()
    clone = remote.clone(remote.path.parent / "team", "--branch", BILLING)
    tip = clone.commit("Code", {"services/billing/bill.py": "two\n"})
    clone.git("push", "-q", "origin", BILLING)
    publish.project.merge_work(DECIDED.format(name="void"), "void", 130, "src/void.py")
    publish.project.git("push", "-q", "origin", "main")
    assert "billing: others changed more than memory there" in publish().reason
    assert remote.sha(f"refs/heads/{BILLING}") == tip
    assert "#130" in remote.git("log", "--format=%s", f"main..{UPDATE}")
    assert "Memory-CI-Source" not in remote.git("log", "--format=%B", f"main..{UPDATE}")
