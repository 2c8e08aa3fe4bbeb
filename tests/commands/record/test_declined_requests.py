"""Tests of pull requests that were closed without a merge: what was declined is recorded once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_ci.commands.record.gatherer import (
    MAX_DECLINED,
    DeclinedWindow,
    choose_declined,
    find_declined_window,
)
from memory_ci.commands.record.run import format_plan, plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.record.text import render_plan
from memory_ci.memory.apply import apply_plan, parse_plan
from memory_ci.memory.episodes import load_episodes
from memory_ci.records.episode import Action, Episode, Situation
from memory_ci.records.history import PullRequest
from memory_ci.records.plan import Plan
from tests.forge.make import TOKEN, make_pull, make_user
from tests.project import NOW, TODAY, Project, copy_project
from tests.servers import Answer, HttpRequest, json_answer, serve
from tests.standin import StandIn, make_learning

REASON = "Rejected: retrying in each caller, because only the client knows the idempotency key."
PROPOSAL = "Each caller retries its own POST with a growing pause."


class Forge:
    """GitHub's `acme/shop` with a request that was closed without a merge; Eve may only read."""

    def __init__(self, comment: str = "", by: str = "bob", **pull: Any) -> None:
        author = "NONE" if by == "eve" else "MEMBER"
        self.comments = [
            {"id": 71, "body": comment, "user": make_user(by), "author_association": author}
        ]
        self.comments[0] |= {
            "created_at": "2026-11-20T10:00:00Z",
            "updated_at": "2026-11-20T10:00:00Z",
        }
        times = {
            "updated_at": "2026-11-20T11:00:00Z",
            "closed_at": "2026-11-20T11:00:00Z",
            "merged_at": None,
        }
        self.pull = make_pull(
            150, **{"title": "Retry in each caller", "body": PROPOSAL, **times, **pull}
        )
        self.status = 200
        self.paths: list[str] = []

    def __call__(self, request: HttpRequest) -> Answer:
        self.paths.append(request.path)
        root = "/repos/acme/shop"
        if request.path == f"{root}/pulls":
            return json_answer(
                [self.pull] if self.status == 200 else {"message": "no"}, self.status
            )
        if request.path.startswith(f"{root}/collaborators/"):
            return json_answer({"permission": "read" if "/eve/" in request.path else "write"})
        if request.path.startswith(f"{root}/pulls/") and request.path.count("/") == 5:
            return json_answer({"message": "Not Found"}, 404)
        return json_answer(self.comments if request.path == f"{root}/issues/150/comments" else [])


@contextmanager
def environ(forge: Forge) -> Iterator[dict[str, str]]:
    with serve(forge) as server:
        yield {
            "GITHUB_API_URL": server.url,
            "GITHUB_REPOSITORY": "acme/shop",
            "GITHUB_TOKEN": TOKEN,
        }


def plan(project: Project, forge: Forge, model: StandIn | None = None) -> Plan:
    options = RecordOptions(engine="command" if model else None)
    with environ(forge) as known:
        return plan_record(
            project.workspace,
            options,
            TODAY,
            lambda done, total: None,
            known | (model.environ if model else {}),
        )


def record(project: Project, forge: Forge, model: StandIn | None = None) -> Plan:
    done = plan(project, forge, model)
    apply_plan(project.workspace, parse_plan(format_plan(done)), NOW)
    return done


@pytest.fixture(scope="module")
def told_template(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = copy_project(project_template, tmp_path_factory.mktemp("told") / "shop")
    record(project, Forge(REASON))
    return project


@pytest.fixture
def told(told_template: Project, tmp_path: Path) -> Project:
    """Return a project after a run that was told why a request was declined."""
    return copy_project(told_template, tmp_path / "shop")


def declined(project: Project) -> list[tuple[str, str | None]]:
    return [
        (entry.source or "", entry.adoption)
        for entry in project.entries()
        if entry.source == "pr:150"
    ]


def test_why_a_request_was_declined_becomes_negative_knowledge(project: Project) -> None:
    done = record(project, Forge(REASON))
    (entry,) = (entry for entry in project.entries() if entry.source == "pr:150")
    assert (entry.adoption, entry.cites, entry.last_reinforced.isoformat()) == (
        "rejected",
        (),
        "2026-11-20",
    )
    assert entry.evidence == (f"review:150#i71 {REASON.removeprefix('Rejected: ')}",)
    assert "1 merged change (2 commits), 1 declined request from" in render_plan(done)


def test_it_is_shown_as_something_not_to_do(told: Project) -> None:
    (hit,) = told.retrieve("retrying in each caller", limit=1).hits
    assert hit.located.entry.adoption == "rejected"


def test_a_second_run_adds_nothing_and_reinforces_nothing(told: Project) -> None:
    before = told.show("HEAD", "MEMORY.md")
    told.merge_work("Add pages", "pages", 151)
    record(told, Forge(REASON))
    assert told.show("HEAD", "MEMORY.md") == before


def test_an_entry_that_a_person_removed_is_not_added_again(told: Project) -> None:
    told.commit("Start over", {"MEMORY.md": "# Memory\n"})
    record(told, Forge(REASON))
    assert declined(told) == []


@pytest.mark.parametrize(
    "forge",
    [
        Forge(REASON, by="eve"),
        Forge(REASON, merged_at="2026-11-20T11:00:00Z"),
        Forge(REASON, closed_at="2026-01-01T11:00:00Z"),
        Forge(
            REASON,
            head={
                "ref": "memory-ci/update",
                "sha": "1" * 40,
                "repo": {"id": 1, "full_name": "acme/shop"},
            },
        ),
        Forge(REASON, user=make_user("dependabot[bot]", "Bot")),
        Forge(),
    ],
    ids=[
        "said by an outsider",
        "merged after all",
        "closed long before",
        "our own",
        "a bot's",
        "nothing said",
    ],
)
def test_requests_without_a_decline_by_a_maintainer_teach_nothing(
    project: Project, forge: Forge
) -> None:
    record(project, forge)
    assert declined(project) == []


def test_a_model_s_learning_from_the_proposal_is_marked_as_rejected(
    project: Project, tmp_path: Path
) -> None:
    model = StandIn(tmp_path / "model")
    model.will_find(make_learning(PROPOSAL, title="Callers retry by themselves"))
    record(project, Forge(), model)
    assert declined(project) == [("pr:150", "rejected")]


def test_a_learning_from_a_reviewer_s_comment_stays_advice(
    project: Project, tmp_path: Path
) -> None:
    model = StandIn(tmp_path / "model")
    text = "Put retries into the client, where the key is known."
    model.will_find(make_learning(text, title="Retries belong to the client"))
    record(project, Forge(text), model)
    assert declined(project) == [("pr:150", None)]


def test_where_the_list_cannot_be_read_nothing_is_covered_and_the_next_run_asks_again(
    project: Project,
) -> None:
    forge = Forge(REASON)
    forge.status = 403
    refused = plan(project, forge)
    assert (refused.until, refused.steps) == (None, ())
    assert refused.engine.failure
    forge.status = 200
    record(project, forge)
    assert declined(project) == [("pr:150", "rejected")]


def test_bots_and_our_own_request_are_not_asked_about(project: Project) -> None:
    ours = {"ref": "memory-ci/update", "sha": "1" * 40, "repo": {"id": 1, "full_name": "acme/shop"}}
    for forge in (Forge(head=ours), Forge(user=make_user("dependabot[bot]", "Bot"))):
        plan(project, forge)
        assert [path for path in forge.paths if "/150/" in path] == []


# -- many at once


class Heap(Forge):
    """Many closed requests, one for each minute."""

    def __init__(
        self, count: int, at: datetime = datetime(2026, 11, 20, tzinfo=UTC), **pull: Any
    ) -> None:
        super().__init__()
        ends = [f"{at + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}" for minute in range(count)]
        times = [{"closed_at": end, "updated_at": end, "merged_at": None} for end in ends]
        self.pulls = [make_pull(300 + place, **one, **pull) for place, one in enumerate(times)][
            ::-1
        ]

    def __call__(self, request: HttpRequest) -> Answer:
        if request.path == "/repos/acme/shop/pulls":
            self.paths.append(request.path)
            return json_answer(self.pulls)
        return super().__call__(request)


def list_declined(project: Project) -> list[int]:
    tellings = load_episodes(project.workspace, "HEAD").records
    return sorted(int(episode.id[3:]) for episode in tellings if episode.id.startswith("pr-3"))


def test_of_a_heap_the_oldest_are_read_first_and_the_rest_by_the_next_runs(
    project: Project,
) -> None:
    heap = Heap(MAX_DECLINED + 3)
    first = record(project, heap)
    assert list_declined(project) == list(range(300, 300 + MAX_DECLINED))
    assert "3 closed requests not read (#340, #341, #342): a run reads 40" in first.problems
    assert first.until == first.base
    project.at(
        datetime(2026, 11, 21, tzinfo=UTC)
    )  # the cursor moves on, beyond all that was closed
    project.merge_work("Add pages", "pages", 151)
    project.record()
    project.merge_work("Add sizes", "sizes", 152)
    record(project, heap)
    assert len(list_declined(project)) == MAX_DECLINED + 3


def test_strangers_with_a_heap_of_requests_do_not_stop_a_run(project: Project) -> None:
    heap = Heap(2 * MAX_DECLINED, user=make_user("eve"), author_association="NONE")
    done = plan(project, heap)
    assert done.until == done.base
    assert [path for path in heap.paths if path.endswith("/commits")] == []


def test_requests_closed_before_memory_was_set_up_are_not_read(project: Project) -> None:
    record(project, Forge())
    project.merge_work("Add pages", "pages", 151)
    before = datetime(2025, 12, 31, tzinfo=UTC)
    record(project, Heap(2, at=before))
    assert list_declined(project) == []


JUNE = datetime(2026, 6, 1, tzinfo=UTC)


def make_closed(number: int, day: int, **fields: Any) -> PullRequest:
    known_values = {
        "title": "Retry",
        "body": "",
        "author": "ann",
        "permission": "unknown",
        "state": "closed",
        **fields,
    }
    return PullRequest(
        number=number, created_at=JUNE, closed_at=JUNE + timedelta(days=day), **known_values
    )


@pytest.mark.parametrize(
    ("request_", "told_before", "expected"),
    [
        (make_closed(1, 20), (), [1]),
        (make_closed(1, 20), ("pr-1",), [1]),
        (make_closed(1, 20, is_fork=True, permission="read"), (), [1]),
        (make_closed(1, 5), (), [1]),
        (make_closed(1, 5), ("pr-1",), []),
        (make_closed(1, 5, is_fork=True), (), [1]),
        (make_closed(1, 5, permission="read"), (), [1]),
        (make_closed(1, 5, is_fork=True, permission="read"), (), []),
        (make_closed(1, -1), (), []),
    ],
    ids=[
        "new", "new and told", "new of a stranger", "left", "told", "left from a fork of a member",
        "left on a branch of ours", "left of a stranger", "long ago",
    ],
)  # fmt: skip
def test_only_new_or_remaining_requests_of_the_repository_are_read(
    request_: PullRequest, told_before: tuple[str, ...], expected: list[int]
) -> None:
    window = DeclinedWindow(
        last_run_at=JUNE + timedelta(days=10), start=JUNE, episode_ids=frozenset(told_before)
    )
    assert [item.number for item in choose_declined([request_], window)] == expected


def make_told(number: int, day: int, commit: str = "") -> Episode:
    action = Action(pr=number, commit=commit)
    return Episode(
        id=f"pr-{number}",
        occurred_at=JUNE + timedelta(days=day),
        situation=Situation(),
        action=action,
    )


def test_a_run_reads_back_to_the_newest_recorded_declined_request(project: Project) -> None:
    project.at(JUNE + timedelta(days=10))
    base = project.workspace.at(project.commit("Add pages", {"pages.py": "1"}))
    episodes = [make_told(1, 2), make_told(2, 4), make_told(3, 8, "f" * 40)]
    known_ids = frozenset(episode.id for episode in episodes)
    window = find_declined_window(base, JUNE + timedelta(days=10), known_ids, episodes)
    assert (window.start, window.episode_ids) == (
        JUNE + timedelta(days=4),
        frozenset({"pr-1", "pr-2", "pr-3"}),
    )
    early = JUNE + timedelta(days=1)
    assert find_declined_window(base, early, frozenset(), episodes).start == early


def test_without_a_recorded_one_a_run_reads_back_ninety_days_and_without_episodes_not_at_all(
    project: Project,
) -> None:
    project.at(JUNE)
    base = project.commit("Add pages", {"pages.py": "1"})
    assert find_declined_window(
        project.workspace.at(base), JUNE, frozenset(), []
    ).start == JUNE - timedelta(days=90)
    project.commit("Tell nothing", {".memory-ci.yaml": "episodes: {write: false}\n"})
    assert find_declined_window(project.workspace.at(base), JUNE, frozenset(), []).start == JUNE


def test_the_oldest_requests_come_first_and_recorded_ones_last() -> None:
    closed_requests = [make_closed(3, 14), make_closed(1, 12), make_closed(2, 13)]
    window = DeclinedWindow(last_run_at=JUNE, start=JUNE, episode_ids=frozenset({"pr-1"}))
    assert [item.number for item in choose_declined(closed_requests, window)] == [2, 3, 1]


def test_a_model_failure_at_declined_requests_keeps_learnings_of_merged_work(
    project: Project, tmp_path: Path
) -> None:
    model = StandIn(tmp_path / "model")
    model.will_find(fail_on=PROPOSAL)
    done = record(project, Forge(), model)
    assert done.until == done.base
    assert project.entries()
    assert any(problem.startswith("#150, closed without a merge: ") for problem in done.problems)
    model.will_find(make_learning(PROPOSAL, title="Callers retry by themselves"))
    record(project, Forge(), model)
    assert declined(project) == [("pr:150", "rejected")]


def test_an_episode_that_a_person_deleted_stays_out(told: Project) -> None:
    paths = [
        path for path in told.git("ls-files", ".memory/episodes").splitlines() if "pr-150" in path
    ]
    told.commit("Not this one", dict.fromkeys(paths))
    told.merge_work("Add pages", "pages", 151)
    record(told, Forge(REASON))
    assert "pr-150" not in told.git("ls-files", ".memory/episodes")
