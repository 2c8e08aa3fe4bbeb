"""Claims: what people who may not write say of other work counts where git proves it, and else is a remark."""

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
    """A project in which only Ann is trusted, with the entries and the episode of #128."""
    return copy_project(template, tmp_path / "shop")


def merged(shop: Project) -> str:
    return shop.git("log", "-1", "--format=%H", "--grep=^Merge pull request #128")


def run(shop: Project) -> tuple[bool, list[str]]:
    """(whether the run takes #128 for taken back: episode and entries agree, the findings of the run)."""
    plan = shop.plan()
    apply_plan(shop.workspace, plan, NOW)
    (outcome,) = {
        one.outcome
        for one in apply_amendments(load_episodes(shop.workspace, None).records)
        if one.id == "pr-128"
    }
    rejected = {
        entry.adoption == "rejected" for entry in shop.entries() if "pr:128" in (entry.source or "")
    }
    assert rejected == {outcome == "failure"}
    return outcome == "failure", [finding.code for finding in plan.findings]


def take_back(shop: Project, message: str, *more: str) -> str:
    """A commit of Eve's that leaves the file as it was before #128, with `more` files."""
    files: dict[str, str | bytes | None] = dict.fromkeys(more, "more\n")
    return shop.commit(message, {FILE: "one\n", **files}, EVE)


def later_work(shop: Project) -> None:
    """Git has to compare patches: what stands in the file now was never there before."""
    lines = "".join(f"line {number}\n" for number in range(30))
    shop.git("reset", "-q", "--hard", f"{merged(shop)}^1")
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
    "by number": lambda shop: take_back(shop, "Out\n\nReverts #128"),
    "with other files": lambda shop: take_back(shop, "Out\n\nReverts #128", "docs/why.md"),
    "by patch": later_work,
}


@pytest.mark.parametrize("put", PROVED.values(), ids=PROVED.keys())
def test_a_strangers_revert_counts_where_git_proves_it(
    shop: Project, put: Callable[[Project], object]
) -> None:
    put(shop)
    assert run(shop) == (True, [])


def half(shop: Project) -> None:
    """It changes the file of #128, and takes nothing of it back."""
    shop.commit("Out\n\nReverts #128", {FILE: "else\n"}, EVE)


def bring_back(shop: Project) -> None:
    """A branch whose first commit takes #128 back, and whose second undoes that."""
    now = shop.show("HEAD", FILE)
    shop.branch("eve")
    take_back(shop, "Out\n\nReverts #128")
    shop.commit("Go on", {FILE: now}, EVE)
    shop.checkout("main")
    shop.git("merge", "-q", "--no-ff", "-m", "Merge branch 'eve'", "eve")
    shop.clock.tick()


def forge_number(shop: Project) -> None:
    """Eve's own work bears the number of another's, and she takes hers back."""
    own = shop.commit("docs: note (#128)", {"docs/note.md": "x\n"}, EVE)
    shop.record()
    shop.commit(f"Out\n\nThis reverts commit {own}.\n\nReverts #128", {"docs/note.md": None}, EVE)


UNPROVED: dict[str, Callable[[Project], object]] = {
    "nothing is taken back": lambda shop: shop.commit(
        "docs: typo\n\nReverts #128", {"docs/a.md": "x\n"}, EVE
    ),
    "by sha": lambda shop: shop.commit(
        f"Typo\n\nThis reverts commit {merged(shop)}.", {"docs/a.md": "x\n"}, EVE
    ),
    "an empty change": lambda shop: shop.commit("Nothing\n\nReverts #128", {}, EVE),
    "the file is changed otherwise": half,
    "and brought back": bring_back,
    "a borrowed number": forge_number,
}


def merge_of_all(shop: Project, says: str) -> None:
    """Eve's branch from the root merges main, and takes that merge back: all of main came with it."""
    shop.git("reset", "-q", "--hard", ":/^Trust Ann")  # one run reads all
    root = shop.git("rev-list", "--max-parents=0", "HEAD")
    shop.branch("eve", root)
    shop.commit("Begin", {"docs/a.md": "x\n"}, EVE)
    shop.git("merge", "-q", "--no-ff", "-m", "Merge branch 'main' into eve", "main")
    shop.clock.tick()
    shop.commit(
        f"Tidy\n\nThis reverts commit {shop.sha()}{says.format(root)}.", {"docs/a.md": "y\n"}, EVE
    )
    shop.merge_back("eve")


def whole_history(shop: Project) -> None:
    """Of #129, which she does take back, Eve says that it brought all that there was before."""
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
    assert run(shop) == (False, ["unproved-claim"])


def test_a_claim_that_was_refused_is_not_brought_to_life_by_taking_it_back(shop: Project) -> None:
    """#128 is taken back by Ann; Eve claims the same, and then reverts her own claim: #128 stays gone."""
    shop.commit("Out\n\nReverts #128", {FILE: "one\n"})
    assert run(shop)[0]
    shop.commit("docs: typo\n\nReverts #128", {"docs/a.md": "x\n"}, EVE)
    claim = shop.sha()
    shop.record()
    shop.commit(f"Typo after all\n\nThis reverts commit {claim}.", {"docs/a.md": None}, EVE)
    assert run(shop)[0]


def test_without_a_forge_the_report_says_whose_word_counts(shop: Project) -> None:
    shop.commit("Trust all", {".memory-ci.yaml": TRUST.replace("Ann*", "*")})
    shop.commit("Go on")
    assert shop.plan().findings == ()
    shop.commit("Out\n\nReverts #128", {"docs/a.md": "x\n"}, EVE)
    (finding,) = shop.plan().findings
    assert "extraction.trusted_authors" in finding.message
    assert run(shop)[0], "the default names everybody"
