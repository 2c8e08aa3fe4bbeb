"""What several repositories say is proposed to the organisation's own memory repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.commands.org.promote import BRANCH, OrgPromotion, promote_shared
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.memory.workspace import open_workspace
from memory_ci.store.document import parse_memory_file
from tests.commands.org.organisation import NOW, Organisation
from tests.project import Project
from tests.remote import GitHubDouble, Remote
from tests.servers import Server

SAID = "Retry a payment only with the idempotency key that it was first sent with"


@pytest.fixture
def org(tmp_path: Path) -> Organisation:
    org = Organisation(tmp_path / "org")
    for name in ("pay", "shop", "billing"):
        org.add(name, SAID, f"A note of {name} alone about its own tables")
    org.add("secret", SAID, "Never say zanzibar aloud in any channel at all")
    org.write("pay", "shop public", "billing", "secret group-x")
    org.sync()
    return org


def promote(
    project: Project, org: Organisation, environ: dict[str, str] | None = None, **options: object
) -> OrgPromotion:
    workspace = open_workspace(project.path)
    return promote_shared(
        workspace,
        str(org.index),
        ("public", "internal"),
        NOW,
        environ or {},
        **options,  # type: ignore[arg-type]
    )


def titles(text: str) -> list[str]:
    return [one.title for one in parse_memory_file("MEMORY.md", text.encode()).entries]


def test_what_three_repositories_say_becomes_one_entry_that_names_them(
    project: Project, org: Organisation
) -> None:
    (one,) = promote(project, org).proposed
    assert (one.entry.title, one.said_in) == (SAID, "billing, pay, shop")
    (entry,) = parse_memory_file("", (project.path / "MEMORY.md").read_bytes()).entries
    assert [line.partition("@")[0] for line in entry.occurrences] == ["billing", "pay", "shop"]
    assert (
        project.git("log", "-1", "--format=%an %s")
        == "memory-ci memory: what several repositories say"
    )
    assert promote(project, org).proposed == (), "it is known now"


def test_two_are_too_few_and_another_audience_is_not_asked(
    project: Project, org: Organisation
) -> None:
    org.add("billing", "A note of billing alone about its own tables")
    org.sync()
    assert promote(project, org, dry_run=True).proposed == ()
    assert [one.said_in for one in promote(project, org, dry_run=True, least=2).proposed] == [
        "pay, shop"
    ]


def test_what_is_rejected_here_is_not_proposed(project: Project, org: Organisation) -> None:
    from memory_ci.memory.maintainer_decisions import format_rejected_line

    (one,) = promote(project, org, dry_run=True).proposed
    project.commit("No", {REJECTED_FILE: f"{format_rejected_line(one.entry)}\n"})
    assert promote(project, org, dry_run=True).proposed == ()


def test_a_request_is_opened_once_brought_up_to_date_and_left_to_people(
    project: Project,
    remote: Remote,
    forge: GitHubDouble,
    server: Server,
    org: Organisation,
    tmp_path: Path,
) -> None:
    environ = forge.environ(server.url)
    for _ in range(2):
        done = promote(project, org, environ, push="pr")
        (pull,) = forge.pulls
        assert (done.url, pull["head"], pull["state"]) == (pull["html_url"], BRANCH, "open")
        assert titles(remote.show(BRANCH, "MEMORY.md"))[-1] == SAID
    assert f"### `{SAID}`" in pull["body"]
    assert "zanzibar" not in pull["body"]
    clone = remote.clone(tmp_path / "maintainer", "--branch", BRANCH)
    tip = clone.commit("Reword it", {"README.md": "x\n"})
    clone.git("push", "-q", "origin", BRANCH)
    assert "it stays as it is" in promote(project, org, environ, push="pr").reason
    assert remote.sha(f"refs/heads/{BRANCH}") == tip
    pull["state"] = "closed"
    assert promote(project, org, environ, push="pr", dry_run=True).proposed == (), (
        "what is shown is what is done"
    )
    assert promote(project, org, environ, push="pr").proposed == (), "people said no"
