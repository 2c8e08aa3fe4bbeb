"""Tests of claims: an untrusted person's statement that work was reverted counts only if git proves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.lifecycle.episodes import apply_amendments
from memory_ci.memory.apply import apply_plan
from memory_ci.memory.episodes import load_episodes
from tests.project import NOW, Project, copy_project, make_project

EVE = "Eve <eve@elsewhere.example>"
FILE = "src/client.py"
TRUST = "extraction:\n  trusted_authors: ['Ann*']\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    shop = make_project(tmp_path_factory.mktemp("claims") / "shop")
    shop.commit("Trust Ann", {".memory-ci.yaml": TRUST})
    shop.record()
    return shop


@pytest.fixture
def shop(template: Project, tmp_path: Path) -> Project:
    """Return a project where only Ann is trusted, with the entries and the episode of #128."""
    return copy_project(template, tmp_path / "shop")


def find_merge(shop: Project) -> str:
    return shop.git("log", "-1", "--format=%H", "--grep=^Merge pull request #128")


def record_outcome(shop: Project) -> tuple[bool, list[str]]:
    """Record, and return whether #128 counts as reverted, and the findings of the run."""
    plan = shop.plan()
    apply_plan(shop.workspace, plan, NOW)
    (outcome,) = {
        episode.outcome
        for episode in apply_amendments(load_episodes(shop.workspace, None).records)
        if episode.id == "pr-128"
    }
    rejected = {
        entry.adoption == "rejected" for entry in shop.entries() if "pr:128" in (entry.source or "")
    }
    assert rejected == {outcome == "failure"}
    return outcome == "failure", [finding.code for finding in plan.findings]


def revert_by_eve(shop: Project, message: str, *more: str) -> str:
    """Make a commit by Eve that restores the file as it was before #128, and changes `more` files."""
    files: dict[str, str | bytes | None] = dict.fromkeys(more, "more\n")
    return shop.commit(message, {FILE: "one\n", **files}, EVE)


def later_work(shop: Project) -> None:
    """Change the file before and after #128, so that git must compare patches to find the revert."""
    lines = "".join(f"line {number}\n" for number in range(30))
    shop.git("reset", "-q", "--hard", f"{find_merge(shop)}^1")
    shop.commit("Lines", {FILE: lines})
    shop.commit("Trust Ann", {".memory-ci.yaml": TRUST})
    work = lines + "retry\n"
    shop.branch("again")
    shop.commit(
        "Retry\n\nDecision: retries live in the client rather than in callers, for it has the key.",
        {FILE: work},
    )
    shop.merge_back("again", message="Merge pull request #128 from ada/again\n\nRetry")
    shop.record()
    shop.commit("Top", {FILE: f"top\n{work}"})
    shop.commit("Take it back\n\nReverts #128", {FILE: f"top\n{lines}"}, EVE)


PROVED: dict[str, Callable[[Project], object]] = {
    "by number": lambda shop: revert_by_eve(shop, "Out\n\nReverts #128"),
    "with other files": lambda shop: revert_by_eve(shop, "Out\n\nReverts #128", "docs/why.md"),
    "by patch": later_work,
}


@pytest.mark.parametrize("put", PROVED.values(), ids=PROVED.keys())
def test_a_strangers_revert_counts_where_git_proves_it(
    shop: Project, put: Callable[[Project], object]
) -> None:
    put(shop)
    assert record_outcome(shop) == (True, [])


def change_without_revert(shop: Project) -> None:
    """Change the file of #128 without reverting anything of it."""
    shop.commit("Out\n\nReverts #128", {FILE: "else\n"}, EVE)


def bring_back(shop: Project) -> None:
    """Merge a branch whose first commit reverts #128 and whose second undoes the revert."""
    now = shop.show("HEAD", FILE)
    shop.branch("eve")
    revert_by_eve(shop, "Out\n\nReverts #128")
    shop.commit("Go on", {FILE: now}, EVE)
    shop.checkout("main")
    shop.git("merge", "-q", "--no-ff", "-m", "Merge branch 'eve'", "eve")
    shop.clock.tick()


def forge_number(shop: Project) -> None:
    """Make a commit by Eve with the number of Ann's request, and revert it."""
    commit_sha = shop.commit("docs: note (#128)", {"docs/note.md": "x\n"}, EVE)
    shop.record()
    shop.commit(
        f"Out\n\nThis reverts commit {commit_sha}.\n\nReverts #128", {"docs/note.md": None}, EVE
    )


UNPROVED: dict[str, Callable[[Project], object]] = {
    "nothing is taken back": lambda shop: shop.commit(
        "docs: typo\n\nReverts #128", {"docs/a.md": "x\n"}, EVE
    ),
    "by sha": lambda shop: shop.commit(
        f"Typo\n\nThis reverts commit {find_merge(shop)}.", {"docs/a.md": "x\n"}, EVE
    ),
    "an empty change": lambda shop: shop.commit("Nothing\n\nReverts #128", {}, EVE),
    "the file is changed otherwise": change_without_revert,
    "and brought back": bring_back,
    "a borrowed number": forge_number,
}


def merge_of_all(shop: Project, message: str) -> None:
    """Merge main into Eve's branch, which starts at the root, and revert that merge with all of main."""
    shop.git("reset", "-q", "--hard", ":/^Trust Ann")  # one run reads all
    root = shop.git("rev-list", "--max-parents=0", "HEAD")
    shop.branch("eve", root)
    shop.commit("Begin", {"docs/a.md": "x\n"}, EVE)
    shop.git("merge", "-q", "--no-ff", "-m", "Merge branch 'main' into eve", "main")
    shop.clock.tick()
    shop.commit(
        f"Tidy\n\nThis reverts commit {shop.sha()}{message.format(root)}.",
        {"docs/a.md": "y\n"},
        EVE,
    )
    shop.merge_back("eve")


def whole_history(shop: Project) -> None:
    """Let Eve's revert of #129 claim that #129 contained all earlier commits."""
    shop.git("reset", "-q", "--hard", ":/^Trust Ann")  # one run reads all
    root = shop.git("rev-list", "--max-parents=0", "HEAD")
    shop.merge_work("Pages\n\nFor all.", "pages", 129, "docs/pages.md")
    claim = f"This reverts commit {shop.sha()}, reversing\nchanges made to {root}."
    shop.commit(f"Out\n\n{claim}", {"docs/pages.md": None}, EVE)


UNPROVED |= {
    "a merge of main": lambda shop: merge_of_all(shop, ""),
    "a mainline of long ago": whole_history,
    "a merge of main, and a mainline": lambda shop: merge_of_all(
        shop, ", reversing\nchanges made to {}"
    ),
}


@pytest.mark.parametrize("put", UNPROVED.values(), ids=UNPROVED.keys())
def test_a_strangers_revert_that_git_does_not_prove_is_a_notice(
    shop: Project, put: Callable[[Project], object]
) -> None:
    put(shop)
    assert record_outcome(shop) == (False, ["unproved-claim"])


def test_reverting_a_refused_claim_does_not_restore_the_change(shop: Project) -> None:
    """Ann reverts #128; Eve claims the same, and then reverts her claim: #128 stays reverted."""
    shop.commit("Out\n\nReverts #128", {FILE: "one\n"})
    assert record_outcome(shop)[0]
    shop.commit("docs: typo\n\nReverts #128", {"docs/a.md": "x\n"}, EVE)
    claim = shop.sha()
    shop.record()
    shop.commit(f"Typo after all\n\nThis reverts commit {claim}.", {"docs/a.md": None}, EVE)
    assert record_outcome(shop)[0]


def test_without_a_forge_the_report_names_the_trusted_people(shop: Project) -> None:
    shop.commit("Trust all", {".memory-ci.yaml": TRUST.replace("Ann*", "*")})
    shop.commit("Go on")
    assert shop.plan().findings == ()
    shop.commit("Out\n\nReverts #128", {"docs/a.md": "x\n"}, EVE)
    (finding,) = shop.plan().findings
    assert "extraction.trusted_authors" in finding.message
    assert record_outcome(shop)[0], "the default names everybody"
