"""Tests of globs: they match as in gitignore, and hostile globs take no long time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_ci.checks.globs import GlobError, Globs
from tests.make import examples

NAMES = ("a", "b", "ab", "aab", "abb", "b.c", "c", "*", "]")
SEGMENTS = (
    *("a", "b", "ab", "*", "?", "**", "a*", "*b", "a*b", "[ab]", "[!a]", "[^b]", "*a*b*", "\\a"),
    *("a?", "[]a]", "[a-b]*", "b.c", "*.c", "\\*"),
)
PATHS = sorted(
    {"/".join(parts) for a in NAMES for b in NAMES for parts in ((a,), (a, b), (b, a, b, a))}
)


@st.composite
def globs(draw: st.DrawFn) -> str:
    """Draw a glob of the signs that gitignore knows."""
    segments = draw(st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=4))
    affixes = [draw(st.sampled_from(pair)) for pair in (("", "", "!"), ("", "/"), ("", "", "/"))]
    return f"{affixes[0]}{affixes[1]}{'/'.join(segments)}{affixes[2]}"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ignore")
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    return path


@settings(examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(listed=st.lists(globs(), min_size=1, max_size=3))
def test_globs_match_the_files_that_git_ignores(repository: Path, listed: list[str]) -> None:
    try:
        compiled = Globs(listed)
    except GlobError:
        return
    named: set[str] = set()
    for glob in listed:
        ignored = list_ignored(repository, glob.removeprefix("!"))
        named = named - ignored if glob.startswith("!") else named | ignored
    assert compiled.select(PATHS) == sorted(named)


def list_ignored(repository: Path, glob: str) -> set[str]:
    """Return the files that git ignores by a glob."""
    (repository / ".git/info/exclude").write_text(f"{glob}\n")
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=repository,
        input="\0".join(PATHS).encode(),
        capture_output=True,
        check=False,
    )
    return set(ignored.stdout.decode().split("\0")[:-1])


def test_a_negated_glob_takes_files_out_below_a_directory() -> None:
    listed = Globs(["packages/**/src/**", "!*.test.*"])
    paths = ["packages/ai/src/read/a.ts", "packages/ai/src/read/a.test.ts"]
    assert listed.select(paths) == paths[:1]


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ([], "at least one"),
        (["!a"], "negated"),
        (["/"], "names no file"),
        (["a" * 301], "300 characters"),
        (["a"] * 51, "50 globs"),
        (["#a"], "comment"),
        (["a "], "blank"),
        (["a[b"], "unclosed"),
        (["a\\"], "unclosed"),
        (["[[:alpha:]]"], "class"),
        (["[z-a]"], "range"),
        (["a**"], "stands alone"),
        (["a\nb"], "no path"),
    ],
)
def test_a_glob_that_can_match_nothing_is_refused(listed: list[str], reason: str) -> None:
    with pytest.raises(GlobError, match=reason):
        Globs(listed)


def test_globs_are_case_sensitive() -> None:
    assert Globs(["Src/**"]).select(["src/a", "Src/a"]) == ["Src/a"]


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*a" * 40 + "b", "a" * 4_000),
        ("**/a/" * 40 + "b", "a/" * 1_000 + "c"),
        ("**/*a*a*a*a*a*b/" * 8 + "c", ("a" * 60 + "/") * 40),
        ("[a-z]" * 50 + "*x", "a" * 4_000),
    ],
)
def test_a_hostile_glob_is_matched_in_linear_time(glob: str, path: str) -> None:
    """A matcher that backtracks would need exponential time."""
    assert not Globs([glob]).matches(path)
    assert not Globs([glob, "!x"]).matches(path)
