"""Tests of episodes of pull requests: facts that the forge adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from memory_ci.commands.record.run import format_plan, plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.memory.apply import apply_plan, parse_plan
from memory_ci.records.plan import Plan
from tests.commands.record.episodes_at_work import GIVEN, episodes, said
from tests.forge.make import (
    TOKEN,
    make_comment,
    make_pull,
    make_pull_commit,
    make_review,
    make_user,
)
from tests.make import make_id
from tests.project import NOW, TODAY, Project
from tests.servers import Answer, HttpRequest, json_answer, serve

# -- what the forge knows


class Forge:
    """GitHub's `acme/shop`: requests by number, with their reviews and comments; Eve may only read."""

    def __init__(self) -> None:
        self.pulls: dict[int, dict[str, Any]] = {}
        self.parts: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
        self.of_commit: dict[str, int] = {}

    def add(
        self,
        number: int,
        *,
        merged: str = "",
        by: str = "ann",
        body: str = "",
        **parts: Any,
    ) -> None:
        end = "2026-11-20T12:00:00Z"
        times = {"updated_at": end, "closed_at": end, "merged_at": end if merged else None}
        who = {"user": make_user(by), "author_association": "NONE" if by == "eve" else "MEMBER"}
        self.pulls[number] = make_pull(
            number, merge_commit_sha=merged or None, **times, **who, body=body
        )
        self.parts |= {(number, name): items for name, items in parts.items()}

    def __call__(self, request: HttpRequest) -> Answer:
        _, *path = request.path.removeprefix("/repos/acme/shop").split("/")
        match path:
            case ["pulls"]:
                return json_answer(
                    [pull for pull in self.pulls.values() if pull["merged_at"] is None]
                )
            case ["pulls", number]:
                pull = self.pulls.get(int(number))
                return json_answer(pull) if pull else json_answer({"message": "Not Found"}, 404)
            case [("pulls" | "issues") as kind, number, part]:
                name = "talk" if (kind, part) == ("issues", "comments") else part
                return json_answer(self.parts.get((int(number), name), []))
            case ["commits", sha, "pulls"] if sha in self.of_commit:
                return json_answer([self.pulls[self.of_commit[sha]]])
            case ["collaborators", login, "permission"]:
                return json_answer({"permission": "read" if login == "eve" else "write"})
        return json_answer([])


class Hub(NamedTuple):
    forge: Forge
    plan: Callable[[Project], Plan]

    def record(self, project: Project) -> Plan:
        plan = self.plan(project)
        apply_plan(project.workspace, parse_plan(format_plan(plan)), NOW)
        return plan


@pytest.fixture
def hub() -> Iterator[Hub]:
    forge = Forge()
    with serve(forge) as server:
        environ = {
            "GITHUB_API_URL": server.url,
            "GITHUB_REPOSITORY": "acme/shop",
            "GITHUB_TOKEN": TOKEN,
        }
        yield Hub(
            forge,
            lambda project: plan_record(
                project.workspace, RecordOptions(), TODAY, lambda done, total: None, environ
            ),
        )


def requested(path: str) -> dict[str, Any]:
    """Return a review that requests a change in a file, and a commit after it."""
    return {
        "reviews": [make_review(199)],
        "comments": [make_comment(17, path=path)],
        "commits": [make_pull_commit("1" * 40, "2026-09-01T12:00:00Z")],
    }


def test_a_requested_change_in_cited_code_corrects_the_entry(
    recorded_project: Project, hub: Hub
) -> None:
    hub.forge.add(
        150,
        merged=recorded_project.merge_work(f"Charge once\n\n{GIVEN}", "once", 150),
        **requested("src/client.py"),
    )
    hub.record(recorded_project)
    assert said(recorded_project) == [("corrected", "pr:150")]
    assert episodes(recorded_project)["pr-150"].outcome == "partial"


@pytest.mark.parametrize(
    ("by", "body"), [("ann", "A gateway forgets its keys. Once is enough. "), ("eve", "")]
)
def test_an_episode_has_the_description_and_requested_changes_of_members(
    recorded_project: Project, hub: Hub, by: str, body: str
) -> None:
    eve: dict[str, Any] = {"user": make_user("eve"), "author_association": "NONE"}
    parts = requested("README.md") | {
        "reviews": [make_review(199), make_review(200, body="Give Eve the key.", **eve)]
    }
    text = f"<!-- Describe it -->\n## What\n\nA gateway forgets its keys.\n\n{GIVEN}"
    merged = recorded_project.merge_work("Charge once\n\nOnce is enough.", "once", 150)
    hub.forge.add(150, merged=merged, by=by, body=text, **parts)
    hub.record(recorded_project)
    question = "Asked in review: Send the key with each try.; "
    assert episodes(recorded_project)["pr-150"].text.startswith(f"{body}{question}")
    assert episodes(recorded_project)["pr-150"].text.endswith("Merged after requested changes.")
    assert "Eve" not in episodes(recorded_project)["pr-150"].text


def test_a_requested_change_in_other_code_corrects_no_entry(
    recorded_project: Project, hub: Hub
) -> None:
    hub.forge.add(
        150,
        merged=recorded_project.merge_work(f"Charge once\n\n{GIVEN}", "once", 150),
        **requested("README.md"),
    )
    hub.record(recorded_project)
    assert said(recorded_project) == [("confirmed", "pr:150")]


def test_an_entry_used_in_declined_work_is_rejected(recorded_project: Project, hub: Hub) -> None:
    hub.forge.add(160, body=f"Another way.\n\n{GIVEN}", commits=[make_pull_commit("1" * 40)])
    hub.record(recorded_project)
    assert said(recorded_project) == [("rejected", "pr:160")]
    assert said(recorded_project, 2) == [("ignored", "pr:160")]
    assert episodes(recorded_project)["pr-160"].outcome == "failure"


def test_a_declined_request_of_a_stranger_gives_no_feedback_and_no_episode(
    recorded_project: Project, hub: Hub
) -> None:
    hub.forge.add(
        160, by="eve", body=f"Another way.\n\n{GIVEN}", commits=[make_pull_commit("1" * 40)]
    )
    hub.record(recorded_project)
    assert said(recorded_project) == []
    assert "pr-160" not in episodes(recorded_project)


def test_a_declined_request_that_is_merged_later_gets_an_amendment(
    recorded_project: Project, hub: Hub
) -> None:
    hub.forge.add(160, body=f"Another way.\n\n{GIVEN}", commits=[make_pull_commit("1" * 40)])
    hub.record(recorded_project)
    merged = recorded_project.merge_work(f"Charge once\n\n{GIVEN}", "once", 160)
    hub.forge.add(160, merged=merged)
    hub.record(recorded_project)
    assert episodes(recorded_project)["pr-160"].outcome == "success"
    assert {kind for kind, _ in said(recorded_project)} == {"rejected", "confirmed"}
    recorded_project.git("revert", "--no-edit", "-m", "1", merged)
    recorded_project.clock.tick()
    hub.record(recorded_project)
    assert "undone" in {kind for kind, _ in said(recorded_project)}, (
        "it can be reverted like any other"
    )


@pytest.mark.parametrize(
    ("by", "kinds"), [("bob", ["confirmed", "rejected"]), ("eve", ["confirmed"])]
)
def test_a_comment_command_counts_by_who_may_write(
    recorded_project: Project, hub: Hub, by: str, kinds: list[str]
) -> None:
    words = f"/memory reject {make_id(1)[:8]}"
    talk = make_comment(
        71, body=words, user=make_user(by), author_association="NONE" if by == "eve" else "MEMBER"
    )
    hub.forge.add(
        150, merged=recorded_project.merge_work(f"Charge once\n\n{GIVEN}", "once", 150), talk=[talk]
    )
    hub.record(recorded_project)
    assert sorted(kind for kind, _ in said(recorded_project)) == kinds


def test_the_forge_s_request_number_overrides_the_one_in_the_message(
    recorded_project: Project, hub: Hub
) -> None:
    merged = recorded_project.merge_work(f"Charge once (#99)\n\n{GIVEN}", "once", 150)
    hub.forge.add(201, merged=merged)
    hub.forge.of_commit[merged] = 201
    hub.record(recorded_project)
    assert said(recorded_project) == [("confirmed", "pr:201")]
    assert "pr-201" in episodes(recorded_project)


def test_a_commit_that_names_a_declined_request_does_not_merge_it(
    recorded_project: Project, hub: Hub
) -> None:
    hub.forge.add(160, body=f"Another way.\n\n{GIVEN}", commits=[make_pull_commit("1" * 40)])
    hub.record(recorded_project)
    recorded_project.merge_work("Fix a typo", "typo", 160)
    hub.record(recorded_project)
    assert episodes(recorded_project)["pr-160"].outcome == "failure"


def test_trailers_of_a_stranger_count_for_nothing(recorded_project: Project, hub: Hub) -> None:
    hub.forge.add(
        150, merged=recorded_project.merge_work(f"Charge once\n\n{GIVEN}", "once", 150), by="eve"
    )
    hub.record(recorded_project)
    assert said(recorded_project) == []


def test_a_command_of_ours_on_a_strangers_declined_request_counts(
    recorded_project: Project, hub: Hub
) -> None:
    talk = make_comment(71, body=f"/memory reject {make_id(1)[:8]}", user=make_user("bob"))
    hub.forge.add(160, by="eve", talk=[talk], commits=[make_pull_commit("1" * 40)])
    hub.record(recorded_project)
    assert [kind for kind, _ in said(recorded_project)] == ["rejected"]


# -- plans


def test_a_label_of_the_forge_sets_the_domain_of_an_episode(
    recorded_project: Project, hub: Hub
) -> None:
    merged = recorded_project.merge_work(f"Charge once\n\n{GIVEN}", "once", 150)
    hub.forge.add(150, merged=merged)
    hub.forge.pulls[150]["labels"] = [{"name": "bug"}, {"name": "area: payments"}]
    hub.record(recorded_project)
    assert episodes(recorded_project)["pr-150"].situation.domain == "payments"
