"""Tests of finding when files and lines were added, changed and removed."""

from __future__ import annotations

import os

import pytest

from memory_ci.gitrepo.history import find_addition, list_added_lines, list_versions
from memory_ci.gitrepo.repo import Repository
from tests.repos import RepoBuilder


@pytest.mark.parametrize(
    "path", ["MEMORY.md", "a*[b]/x.md", 'quo"te\n.md', os.fsdecode(b"\xff.md")]
)
def test_the_addition_of_a_file_is_the_first_one_on_the_main_line(
    builder: RepoBuilder, repo: Repository, path: str
) -> None:
    builder.commit("Another that a glob would mean", {"axb/x.md": "other"})
    assert find_addition(repo, "HEAD", path) is None
    builder.branch("topic")
    builder.commit("Add on a branch", {path: "1"})
    merged = builder.merge_back("topic")
    builder.commit("Change", {path: "2"})
    builder.commit("Delete", {path: None})
    builder.commit("Add again", {path: "3"})
    assert find_addition(repo, "HEAD", path) == merged


def test_the_versions_of_files_are_listed_newest_first(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Add", {"MEMORY.md": "1", "other.txt": "x"})
    builder.branch("topic")
    builder.commit("Change on a branch", {"a/MEMORY.md": "2"})
    builder.checkout("main")
    builder.commit("Elsewhere", {"other.txt": "y"})
    builder.merge("topic", message="Merge topic")
    builder.commit("Delete", {"MEMORY.md": None})
    versions = [
        (v.commit.subject, v.path, v.oid)
        for v in list_versions(repo, "HEAD", ["MEMORY.md", "*/MEMORY.md"])
    ]
    assert versions == [
        ("Delete", "MEMORY.md", None),
        ("Merge topic", "a/MEMORY.md", builder.sha("HEAD:a/MEMORY.md")),
        ("Add", "MEMORY.md", builder.sha("HEAD~1:MEMORY.md")),
    ]


def test_a_renamed_file_is_deleted_and_added(builder: RepoBuilder, repo: Repository) -> None:
    builder.commit("Add", {"MEMORY.md": "some words\n"})
    builder.git("mv", "MEMORY.md", "b.md")
    builder.commit("Move")
    oid = builder.sha("HEAD:b.md")
    moved = [
        (version.path, version.oid)
        for version in list_versions(repo, "HEAD", ["MEMORY.md", "b.md"])
    ]
    assert moved == [("MEMORY.md", None), ("b.md", oid), ("MEMORY.md", oid)]


def test_all_lines_that_were_ever_added_are_listed(builder: RepoBuilder, repo: Repository) -> None:
    builder.commit("Add", {"MEMORY.md": "id: 1\nother: x\n", "x.md": "id: 9\n"})
    builder.branch("side")
    builder.commit("More", {"src/MEMORY.md": "id: 2\n"})
    builder.merge_back("side")
    builder.commit("Remove", {"MEMORY.md": "", "src/MEMORY.md": None})
    pathspecs = ("MEMORY.md", "*/MEMORY.md")
    assert list_added_lines(repo, "HEAD", pathspecs, "id: ") == {"id: 1", "id: 2"}


@pytest.mark.parametrize("attribute", ["-diff", "binary", "diff=lfs"])
def test_no_attribute_of_the_repository_hides_an_added_line(
    builder: RepoBuilder, repo: Repository, attribute: str
) -> None:
    builder.git("config", "diff.lfs.binary", "true")
    builder.commit("Hide", {".gitattributes": f"MEMORY.md {attribute}\n"})
    builder.commit("Add", {"MEMORY.md": "id: 1\n"})
    builder.commit("Remove", {"MEMORY.md": ""})
    assert list_added_lines(repo, "HEAD", ("MEMORY.md",), "id: ") == {"id: 1"}
