"""Tests of `org plan`: repositories with merged work that no run has read."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_ci.commands.org import plan as planning
from memory_ci.commands.org.plan import OrgPlan, plan_org
from memory_ci.commands.org.targets import gather_targets
from memory_ci.commands.root import main
from memory_ci.errors import EngineError
from tests.commands.org.organisation import as_remote
from tests.project import Project, make_project
from tests.repos import RepoBuilder


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    return make_project(tmp_path / "shop")


def ask(tmp_path: Path, *lines: str, **options: object) -> OrgPlan:
    (tmp_path / "list.txt").write_text("".join(f"{line}\n" for line in lines))
    gather = partial(gather_targets, [tmp_path / "list.txt"], (), (), os.environ)
    return plan_org(gather, os.environ, jobs=2, **options)  # type: ignore[arg-type]


def waiting(plan: OrgPlan) -> dict[str, int | None]:
    return {item.name: item.waiting for part in plan.batches for item in part}


@pytest.mark.parametrize("is_remote", [False, True])
def test_unread_work_is_due_and_memory_commits_are_not(
    tmp_path: Path, shop: Project, is_remote: bool
) -> None:
    address = as_remote(RepoBuilder(shop.path)) if is_remote else str(shop.path)
    assert waiting(ask(tmp_path, address)) == {"shop": None}, "no run ever came"
    shop.record()
    assert ask(tmp_path, address) == OrgPlan((), 1)
    shop.merge_work("feat: refund", "refund", 129, "src/refund.py")
    shop.merge_work("feat: void", "void", 130, "src/void.py")
    assert list(waiting(ask(tmp_path, address)).values()) == [2]


def test_work_in_an_open_memory_request_counts_as_read(tmp_path: Path, shop: Project) -> None:
    shop.record()
    shop.merge_work("feat: refund", "refund", 129, "src/refund.py")
    shop.git("checkout", "-q", "-b", "memory-ci/update")
    shop.record(ref="refs/heads/memory-ci/update")
    shop.git("checkout", "-q", "main")
    assert waiting(ask(tmp_path, str(shop.path))) == {}


def test_only_the_tips_of_unchanged_repositories_are_read(
    tmp_path: Path, shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(tmp_path, str(shop.path), state=tmp_path / "state")
    monkeypatch.setattr(planning, "find_cursor", lambda *_: pytest.fail("nothing moved"))
    assert ask(tmp_path, str(shop.path), state=tmp_path / "state") == first


def test_a_broken_one_is_named_and_the_others_come_in_batches(
    tmp_path: Path, shop: Project
) -> None:
    for name in ("a", "b", "c"):
        make_project(tmp_path / name)
    plan = ask(tmp_path, *(str(tmp_path / name) for name in ("a", "b", "c", "gone")), batch=2)
    assert [[item.name for item in part] for part in plan.batches] == [["a", "b"], ["c"]]
    assert [name for name, _ in plan.failed] == ["gone"]
    with pytest.raises(EngineError, match="none of 1 repositories can be reached") as raised:
        ask(tmp_path, str(tmp_path / "gone"))
    assert raised.value.slug == "org-unreachable"


def test_after_the_deadline_nobody_is_asked(tmp_path: Path, shop: Project) -> None:
    assert ask(tmp_path, str(shop.path), deadline=0.0) == OrgPlan((), 0, (), ("shop",))


def test_the_command_prints_an_address_a_line_and_its_status_says_partly(
    tmp_path: Path, shop: Project
) -> None:
    (tmp_path / "list.txt").write_text(f"{shop.path}\n{tmp_path / 'gone'}\n")
    done = CliRunner().invoke(
        main, ["org", "plan", str(tmp_path / "list.txt")], prog_name="memory-ci"
    )
    assert done.exit_code == 1
    assert done.stdout == f"{shop.path}\n"
    assert "1 of 2 repositories have unread work" in done.stderr
