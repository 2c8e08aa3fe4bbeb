"""Tests of finding the tools of a repository that test a rule already."""

from __future__ import annotations

import pytest

from memory_ci.memory.known_hooks import is_linted, is_lock_tested

CHANGELOG = "Add each change to the changelog"
LICENCE = "Every file needs a license header"


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        (CHANGELOG, "uses: dangoslen/changelog-enforcer@v3"),
        (CHANGELOG, "run: bundle exec danger --dangerfile=ci/Dangerfile"),
        (CHANGELOG, "uses: danger/danger-js@11"),
        (LICENCE, "repo: https://github.com/fsfe/reuse-tool"),
        ("Name the SPDX identifier in each file", "- id: insert-license"),
        ("Leave no TODOs behind", "select = ['TD003']"),
        ("Add type annotations everywhere", "[tool.mypy]\nstrict = true"),
        ("Each PR needs a changeset", "run: pnpm changeset status --since=main"),
        ("Each PR needs a changeset", "run: node .github/scripts/changeset-validation-lite.mjs"),
        ("Never discard an error: it fails `errcheck`", ""),
        ("Names are lower case, which is enforced by the linter", ""),
        ("Leave no FIXME behind", "no-warning-comments"),
    ],
)
def test_a_tool_that_tests_a_rule_is_found(rule: str, settings: str) -> None:
    assert is_linted(rule, settings)


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        (CHANGELOG, "'react/no-danger': dangerouslySetInnerHTML"),
        (CHANGELOG, "# a dangerous step"),
        (LICENCE, "# reuse the cache of the last run"),
        ("Keep TODOLIST.md up to date", "select = ['TD003']"),
        ("Use the macro XFIXME", "select = ['FIX001']"),
        ("Read the license headerless files", "insert-license"),
    ],
)
def test_a_word_that_is_part_of_another_is_no_sign_of_a_tool(rule: str, settings: str) -> None:
    assert not is_linted(rule, settings)


@pytest.mark.parametrize(
    ("glob", "settings", "expected"),
    [
        ("uv.lock", "run: uv sync --locked", True),
        ("package-lock.json", "run: npm ci", True),
        ("go.sum", "run: go mod tidy && git diff --exit-code", True),
        ("uv.lock", "run: pytest", False),
        ("docs/**", "run: npm ci", False),
    ],
)
def test_a_lock_file_is_tested_where_ci_installs_from_it(
    glob: str, settings: str, expected: bool
) -> None:
    assert is_lock_tested([glob], settings) is expected
