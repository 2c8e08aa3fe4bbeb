"""Requests that were closed without a merge: what was declined is remembered as declined, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memory_ci.flows.apply import apply_plan, parse_plan
from memory_ci.flows.record import RecordOptions, format_plan, plan_record
from memory_ci.records.plan import Plan
from memory_ci.rendering.plan import render_plan
from tests.flows.project import NOW, TODAY, Project
from tests.flows.standin import StandIn, make_learning
from tests.forge.make import TOKEN, make_pull, make_user
from tests.servers import Answer, Asked, json_answer, serve

REASON = "Rejected: retrying in each caller, because only the client knows the idempotency key."
PROPOSAL = "Each caller retries its own POST with a growing pause."


class Forge:
    """GitHub's `acme/shop` with one request that was closed and not merged; Eve may only read."""

    def __init__(self, comment: str = "", by: str = "bob", **pull: Any) -> None:  # noqa: ANN401 - any field of a request
        author = "NONE" if by == "eve" else "MEMBER"
        self.comments = [{"id": 71, "body": comment, "user": make_user(by), "author_association": author}]
        self.comments[0] |= {"created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-20T10:00:00Z"}
        times = {"updated_at": "2026-11-20T11:00:00Z", "closed_at": "2026-11-20T11:00:00Z", "merged_at": None}
        self.pull = make_pull(150, **{"title": "Retry in each caller", "body": PROPOSAL, **times, **pull})
        self.status = 200

    def __call__(self, asked: Asked) -> Answer:
        root = "/repos/acme/shop"
        if asked.path == f"{root}/pulls":
            return json_answer([self.pull] if self.status == 200 else {"message": "no"}, self.status)
        if asked.path.startswith(f"{root}/collaborators/"):
            return json_answer({"permission": "read" if "/eve/" in asked.path else "write"})
        if asked.path == f"{root}/pulls/128":
            return json_answer({"message": "Not Found"}, 404)
        return json_answer(self.comments if asked.path == f"{root}/issues/150/comments" else [])


@contextmanager
def environ(forge: Forge) -> Iterator[dict[str, str]]:
    with serve(forge) as server:
        yield {"GITHUB_API_URL": server.url, "GITHUB_REPOSITORY": "acme/shop", "GITHUB_TOKEN": TOKEN}


def plan(project: Project, forge: Forge, model: StandIn | None = None) -> Plan:
    options = RecordOptions(engine="command" if model else None)
    with environ(forge) as known:
        return plan_record(
            project.workspace, options, TODAY, lambda done, total: None, known | (model.environ if model else {})
        )


def record(project: Project, forge: Forge, model: StandIn | None = None) -> Plan:
    done = plan(project, forge, model)
    apply_plan(project.workspace, parse_plan(format_plan(done)), NOW)
    return done


def declined(project: Project) -> list[tuple[str, str | None]]:
    return [(entry.source or "", entry.adoption) for entry in project.entries() if entry.source == "pr:150"]


def test_why_a_request_was_declined_becomes_negative_knowledge(project: Project) -> None:
    done = record(project, Forge(REASON))
    (entry,) = (entry for entry in project.entries() if entry.source == "pr:150")
    assert (entry.adoption, entry.cites, entry.last_reinforced.isoformat()) == ("rejected", (), "2026-11-20")
    assert entry.evidence == (f"review:150#i71 {REASON.removeprefix('Rejected: ')}",)
    assert "1 merged change (2 commits), 1 declined request from" in render_plan(done)


def test_it_is_shown_as_something_not_to_do(project: Project) -> None:
    record(project, Forge(REASON))
    (hit,) = project.retrieve("retrying in each caller", limit=1).hits
    assert hit.located.entry.adoption == "rejected"


def test_a_second_run_adds_nothing_and_reinforces_nothing(project: Project) -> None:
    record(project, Forge(REASON))
    before = project.show("HEAD", "MEMORY.md")
    project.merge_work("Add pages", "pages", 151)
    record(project, Forge(REASON))
    assert project.show("HEAD", "MEMORY.md") == before


def test_what_a_person_took_out_does_not_come_back(project: Project) -> None:
    record(project, Forge(REASON))
    project.commit("Start over", {"MEMORY.md": "# Memory\n"})
    record(project, Forge(REASON))
    assert declined(project) == []


@pytest.mark.parametrize(
    "forge",
    [
        Forge(REASON, by="eve"),
        Forge(REASON, merged_at="2026-11-20T11:00:00Z"),
        Forge(REASON, closed_at="2026-01-01T11:00:00Z"),
        Forge(REASON, head={"ref": "memory-ci/update", "sha": "1" * 40, "repo": {"id": 1, "full_name": "acme/shop"}}),
        Forge(REASON, user=make_user("dependabot[bot]", "Bot")),
        Forge(),
    ],
    ids=["said by an outsider", "merged after all", "closed long before", "our own", "a bot's", "nothing said"],
)
def test_nothing_is_learned_from_what_is_none_or_was_said_by_nobody_of_us(project: Project, forge: Forge) -> None:
    record(project, forge)
    assert declined(project) == []


def test_what_a_model_finds_in_the_proposal_itself_is_marked_as_rejected(project: Project, tmp_path: Path) -> None:
    model = StandIn(tmp_path / "model")
    model.will_find(make_learning(PROPOSAL, title="Callers retry by themselves"))
    record(project, Forge(), model)
    assert declined(project) == [("pr:150", "rejected")]


def test_what_a_reviewer_said_of_it_stays_advice(project: Project, tmp_path: Path) -> None:
    model = StandIn(tmp_path / "model")
    said = "Put retries into the client, where the key is known."
    model.will_find(make_learning(said, title="Retries belong to the client"))
    record(project, Forge(said), model)
    assert declined(project) == [("pr:150", None)]


def test_where_the_list_cannot_be_read_nothing_is_covered_and_the_next_run_asks_again(project: Project) -> None:
    forge = Forge(REASON)
    forge.status = 403
    refused = plan(project, forge)
    assert (refused.until, refused.steps) == (None, ())
    assert refused.engine.failure
    forge.status = 200
    record(project, forge)
    assert declined(project) == [("pr:150", "rejected")]
