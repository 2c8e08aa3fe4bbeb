"""Tests of merging branches with episodes by git, where one or both branches folded a month."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec
import pytest

from memory_ci.commands.check.resolve import resolve_branch
from memory_ci.commands.setup.install import install
from memory_ci.memory.episodes import list_episode_files, load_episodes, save_episode_record
from memory_ci.records.episode import Action, Episode, Situation
from memory_ci.store.episode_months import join_months
from memory_ci.store.episodes import (
    episode_record_path,
    format_episode_record,
)
from tests.project import Project, copy_project, make_project

BEFORE = date(2026, 11, 1)
MONTH = ".memory/episodes/2026-01"
ALL = f"{MONTH}/_all.md"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("template") / "shop")
    install(project.workspace, sys.executable, with_hooks=False)
    project.git("config", "user.name", "Ann")
    project.git("config", "user.email", "ann@example.com")
    project.git("add", ".gitattributes")
    project.commit("Merge memory by entries")
    return project


@pytest.fixture
def shop(template: Project, tmp_path: Path) -> Project:
    return copy_project(template, tmp_path / "shop")


def make_episode(number: int, size: int = 1, text: str = "Done") -> Episode:
    """Return an episode of January, whose size depends on its number of files."""
    files = tuple(f"src/{number}/{n}/module.py" for n in range(size))
    return Episode(
        id=f"pr-{number}",
        occurred_at=datetime(2026, 1, number, tzinfo=UTC),
        situation=Situation(domain="payments", summary=f"Change {number}"),
        action=Action(pr=number, files=files),
        text=text,
    )


def commit_record(project: Project, *record: Episode) -> None:
    for episode in record:
        save_episode_record(project.workspace, episode)
    project.git("add", ".memory")
    project.commit("Tell")


def fold(project: Project) -> None:
    paths = [file.path for file in list_episode_files(project.workspace, "HEAD")]
    files = {path: project.show("HEAD", path).encode() for path in paths}
    project.commit("Fold", join_months(files, BEFORE))


def list_paths(project: Project) -> list[str]:
    return [
        file.path.removeprefix(f"{MONTH}/")
        for file in list_episode_files(project.workspace, "HEAD")
    ]


def list_ids(project: Project) -> list[str]:
    episodes = load_episodes(project.workspace, "HEAD")
    assert episodes.findings == ()
    return [record.id for record in episodes.records]


def make_branches(project: Project, sizes: Sequence[int]) -> None:
    """Make two branches, `side` and `main` (checked out), that both contain episodes of these sizes."""
    commit_record(project, *(make_episode(number, size) for number, size in enumerate(sizes, 1)))
    project.git("branch", "side")


@pytest.mark.parametrize(
    "sizes", [[1] * 12, [40, 1], [40, 30, 20], [1]], ids=["many", "two", "large", "single"]
)
def test_a_branch_that_adds_to_a_folded_month_is_merged_and_folded_later(
    shop: Project, sizes: list[int]
) -> None:
    make_branches(shop, sizes)
    fold(shop)
    shop.checkout("side")
    commit_record(shop, make_episode(20))
    shop.merge_back("side")
    expected = [f"pr-{number}" for number in [*range(1, len(sizes) + 1), 20]]
    assert sorted(list_ids(shop)) == sorted(expected)
    if len(sizes) > 2:
        assert list_paths(shop) == ["_all.md", "pr-20.md"]
        fold(shop)
        assert list_paths(shop) == ["_all.md"]
        assert list_ids(shop) == expected


@pytest.mark.parametrize("late", [1, 200], ids=["small", "large"])
@pytest.mark.parametrize(
    "sizes", [[1] * 12, [40, 1], [40, 30, 20], [1]], ids=["many", "two", "large", "single"]
)
def test_a_month_that_both_branches_folded_merges_to_all_documents(
    shop: Project, sizes: list[int], late: int
) -> None:
    make_branches(shop, sizes)
    fold(shop)
    shop.checkout("side")
    commit_record(shop, make_episode(20, late), make_episode(21))
    fold(shop)
    shop.merge_back("side")
    assert sorted(list_ids(shop)) == sorted(
        f"pr-{number}" for number in [*range(1, len(sizes) + 1), 20, 21]
    )


def test_a_document_that_both_branches_folded_is_there_once_and_in_order(shop: Project) -> None:
    make_branches(shop, [1] * 4)
    fold(shop)
    commit_record(shop, make_episode(9), make_episode(12))
    fold(shop)
    shop.checkout("side")
    commit_record(shop, make_episode(7), make_episode(9))
    fold(shop)
    shop.merge_back("side")
    assert list_paths(shop) == ["_all.md"]
    assert shop.show("HEAD", ALL) == "\n".join(
        format_episode_record(make_episode(number)).decode() for number in (1, 2, 3, 4, 7, 9, 12)
    )


def test_two_documents_of_an_id_conflict_within_the_file(shop: Project) -> None:
    make_branches(shop, [1] * 4)
    commit_record(shop, make_episode(9, text="Ours"), make_episode(10))
    fold(shop)
    shop.checkout("side")
    commit_record(shop, make_episode(9, text="Theirs"), make_episode(11))
    fold(shop)
    shop.checkout("main")
    with pytest.raises(AssertionError, match=f"1 conflict left in {ALL}"):
        shop.merge("side")
    text = (shop.path / ALL).read_text()
    ours, theirs = (
        format_episode_record(make_episode(9, text=text)).decode() for text in ("Ours", "Theirs")
    )
    assert f"\n<<<<<<< ours\n{ours}=======\n{theirs}>>>>>>> theirs\n\n" in text
    assert text.endswith(
        "\n".join(format_episode_record(make_episode(number)).decode() for number in (10, 11))
    )


def test_new_episodes_similar_to_folded_ones_merge_if_only_exact_renames_are_detected(
    shop: Project,
) -> None:
    like = [
        msgspec.structs.replace(make_episode(1, 40), id=f"pr-{number}") for number in range(1, 13)
    ]
    commit_record(shop, *like[:6])
    shop.git("branch", "side")
    for branch, new in (("main", like[6:9]), ("side", like[9:])):
        shop.checkout(branch)
        fold(shop)
        commit_record(
            shop,
            *(
                msgspec.structs.replace(episode, occurred_at=datetime(2026, 11, 3, tzinfo=UTC))
                for episode in new
            ),
        )
    shop.git("merge", "-q", "--no-edit", "-X", "find-renames=100%", "main")
    assert sorted(list_ids(shop)) == sorted(episode.id for episode in like)


def test_resolve_merges_episodes_without_an_installed_driver(shop: Project) -> None:
    shop.git("config", "--remove-section", "merge.memory-ci")
    shop.commit("Without", {".gitattributes": None})
    make_branches(shop, [1] * 4)
    for branch, number in (("main", 9), ("side", 7)):
        shop.checkout(branch)
        commit_record(shop, make_episode(number))
        fold(shop)
    resolve_branch(shop.workspace, sys.executable, "side", "main")
    assert list_ids(shop) == ["pr-1", "pr-2", "pr-3", "pr-4", "pr-7", "pr-9"]


def test_an_episode_that_both_branches_changed_conflicts_in_its_own_file(
    shop: Project,
) -> None:
    shop.git("branch", "side")
    commit_record(shop, make_episode(9, text="Ours"))
    shop.checkout("side")
    commit_record(shop, make_episode(9, text="Theirs"))
    with pytest.raises(AssertionError, match="1 conflict left in"):
        shop.merge("main")
    assert (
        (shop.path / episode_record_path(make_episode(9)))
        .read_text()
        .startswith("<<<<<<< ours\n---\nid: pr-9\n")
    )


def test_two_branches_that_recorded_merge_without_a_conflict(shop: Project) -> None:
    shop.record()
    shop.branch("other")
    shop.merge_work("Charge twice", "twice", 151)
    shop.checkout("other")
    shop.commit("Charge once (#150)", {"src/once.py": "once\n"})
    shop.record(ref="other")
    shop.checkout("main")
    shop.record()
    shop.git("merge", "-q", "--no-edit", "other")
    ids = {record.id for record in load_episodes(shop.workspace, "HEAD").records}
    assert {"pr-128", "pr-150", "pr-151"} <= ids
