"""Commits that tests write without git are those that git makes."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from tests.gitfiles import GitFiles, NotPlain, Signatures
from tests.repos import AUTHOR, COMMITTER, START, RepoBuilder, make_repo

SIGNATURES = Signatures(AUTHOR, COMMITTER, START)


class GitBuilder(RepoBuilder):
    """A builder whose commits git makes."""

    def commit(self, message: str | bytes, files: object = None, author: str | None = None) -> str:
        texts = dict(files or {})  # type: ignore[call-overload] # as RepoBuilder.commit takes them
        written = [self.write(path, text) for path, text in texts.items()]
        data = message if isinstance(message, bytes) else message.encode()
        return self.commit_with_git(data, written, author or AUTHOR)

    def branch(self, name: str, start: str | None = None) -> None:
        self.git("checkout", "-q", "-b", name)

    def merge_back(self, branch: str, message: str | None = None) -> str:
        self.checkout("main")
        return self.merge(branch, message=message)


def make_files_in_folders(repo: RepoBuilder) -> None:
    repo.commit("One", {"b/c/d.txt": "d\n", "b.txt": "b\n", "b-c": "", "a": b"\xff\0"})
    repo.commit("Two", {"b/c/d.txt": "more\n", "b/e.txt": "e\n", "ü/ö x": "y"})


def make_staged_changes(repo: RepoBuilder) -> None:
    repo.commit("Begin", {"kept": "1", "gone": "2", "moved/to": "3"})
    repo.write("kept", "4")
    repo.write("new", "5")
    repo.git("add", "new")
    repo.git("rm", "-q", "gone")
    repo.commit("Stage", {"moved/to": "6"})


def make_program(repo: RepoBuilder) -> None:
    repo.write("run", "#!/bin/sh\n").chmod(0o755)
    repo.commit("Add a program", {"run": "#!/bin/sh\necho\n", "plain": ""})


def messages(repo: RepoBuilder) -> None:
    repo.commit("\n\n  Indented \t\n# no comment\n\n\n\nlast\r\n \n\n")
    repo.commit("Ünïcode → ok", author="Zoë O'Neil-Smith <zoe+x@example.com>")
    repo.commit(
        "A bot", author="dependabot[bot] <49699333+dependabot[bot]@users.noreply.github.com>"
    )


def branches(repo: RepoBuilder) -> None:
    """Make commits on branches, a merge, packed refs, a detached HEAD and another time zone."""
    repo.commit("Begin", {"a": "1"})
    repo.branch("topic/one")
    repo.commit("Work", {"b": "2"})
    repo.checkout("main")
    repo.commit("Meanwhile", {"c": "3"})
    repo.merge("topic/one")
    repo.commit("After", {"d": "4"})
    repo.git("pack-refs", "--all")
    repo.git("gc", "-q")
    repo.commit("Packed", {"e": "5"})
    repo.git("checkout", "-q", "--detach")
    repo.at(datetime.fromisoformat("2026-03-01T12:00:00+02:00"))
    repo.commit("No branch", {"f": "6"})


def merges(repo: RepoBuilder) -> None:
    repo.commit("Begin", {"a": "1"})
    repo.branch("topic/one")
    repo.commit("Work", {"b": "2"})
    repo.commit("More", {"a": "3"}, author="Eve <eve@example.com>")
    repo.merge_back("topic/one", "Merge topic/one\n\nWork ")
    repo.branch("topic/two")
    repo.commit("Other", {"c": "4"})
    repo.merge_back("topic/two", "Merge topic/two")


HISTORIES = [merges, make_files_in_folders, make_staged_changes, make_program, messages, branches]


def build(repo: RepoBuilder, make_history: Callable[[RepoBuilder], None]) -> str:
    """Return git's output for a repository with a history."""
    make_history(repo)
    repo.git("fsck", "--strict")
    commands = (
        ("log", "--all", "--format=raw", "--raw", "--no-abbrev"),
        ("ls-files", "--stage"),
        ("status", "--porcelain=v2", "--branch"),
        ("diff-files", "--name-status"),
        ("reflog", "--date=raw"),
        ("reflog", "--date=raw", "main"),
    )
    return "\n".join(repo.git(*command) for command in commands)


@pytest.mark.parametrize("make_history", HISTORIES)
def test_a_commit_equals_the_one_that_git_makes(
    make_history: Callable[[RepoBuilder], None], tmp_path: Path
) -> None:
    ours = make_repo(tmp_path / "ours")
    theirs = GitBuilder(make_repo(tmp_path / "theirs").path)
    assert build(ours, make_history) == build(theirs, make_history)


@pytest.mark.parametrize("make_history", HISTORIES)
def test_these_commits_need_no_git(
    make_history: Callable[[RepoBuilder], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(RepoBuilder, "commit_with_git")
    if make_history is merges:
        monkeypatch.delattr(RepoBuilder, "merge")
    make_history(make_repo(tmp_path / "repo"))


def test_a_change_after_the_commit_is_detected(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    repo.commit("Begin", {"a": "1\n", "b": "1\n"})
    repo.write("a", "2\n")  # as long, and within the second of the commit
    repo.commit("Go on", {"c": "3\n"})
    assert repo.git("status", "--porcelain") == " M a"


def test_a_copy_has_nothing_to_commit(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    repo.commit("Begin", {"a": "1\n"})
    copy = repo.copy(tmp_path / "copy")
    copy.commit("Go on", {"b": "2\n"})
    assert copy.git("diff-files") == ""


def test_a_bare_copy_equals_the_one_that_git_makes(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    repo.commit("Begin", {"a": "1\n"})
    repo.branch("topic/one")
    repo.git("tag", "-a", "-m", "One", "v1")
    repo.git("update-ref", "refs/other/one", "HEAD")
    GitFiles(repo.path).copy_bare(tmp_path / "ours.git")
    repo.git("clone", "-q", "--bare", str(repo.path), "../theirs.git")
    ours, theirs = RepoBuilder(tmp_path / "ours.git"), RepoBuilder(tmp_path / "theirs.git")
    for question in ("show-ref", "symbolic-ref HEAD", "config --list --local", "fsck --strict"):
        assert ours.git(*question.split()) == theirs.git(*question.split())


def diverged(repo: RepoBuilder) -> None:
    repo.checkout("main")
    repo.commit("Meanwhile", {"c": "3"})
    repo.checkout("topic")


def staged(repo: RepoBuilder) -> None:
    repo.write("c", "3")
    repo.git("add", "c")


def elsewhere(repo: RepoBuilder) -> None:
    repo.branch("other")


@pytest.mark.parametrize("change", [diverged, staged, elsewhere])
def test_another_merge_is_left_to_git(
    change: Callable[[RepoBuilder], None], tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "repo")
    repo.commit("Begin", {"a": "1\n"})
    repo.branch("topic")
    repo.commit("Work", {"b": "2\n"})
    change(repo)
    with pytest.raises(NotPlain):
        GitFiles(repo.path).merge_back("topic", "main", b"Merge", SIGNATURES)


def unmerged(repo: RepoBuilder) -> None:
    repo.branch("other")
    repo.commit("Theirs", {"a": "theirs\n"})
    repo.checkout("main")
    repo.commit("Ours", {"a": "ours\n"})
    with pytest.raises(AssertionError, match="git merge"):
        repo.git("merge", "-q", "other")


RARE = {
    "a merge that is not finished": unmerged,
    "a hook": lambda repo: repo.write(".git/hooks/pre-commit", ""),
    "attributes": lambda repo: repo.write(".gitattributes", "* text\n"),
    "a setting": lambda repo: repo.git("config", "core.autocrlf", "true"),
    "another version of the index": lambda repo: repo.git("update-index", "--index-version=4"),
    "a split index": lambda repo: repo.git("update-index", "--split-index"),
    "a file of the index with a flag": lambda repo: repo.git(
        "update-index", "--skip-worktree", "a"
    ),
    "a symbolic link": lambda repo: (repo.path / "link").symlink_to("a"),
    "a folder in the place of a file": lambda repo: (
        (repo.path / "a").unlink(),
        repo.write("a/link", ""),
        (repo.path / "link").touch(),
    ),
}


@pytest.mark.parametrize("make_rare", RARE.values(), ids=RARE)
def test_git_commits_in_an_unusual_state(
    make_rare: Callable[[RepoBuilder], object], tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "repo")
    repo.commit("Begin", {"a": "1\n"})
    make_rare(repo)
    paths = [path for path in ("link", "a/link") if os.path.lexists(repo.path / path)]
    with pytest.raises(NotPlain):
        GitFiles(repo.path).commit(b"Go on", paths, SIGNATURES)


def test_git_commits_in_a_linked_work_tree(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    repo.commit("Begin", {"a": "1\n"})
    with pytest.raises(NotPlain):
        GitFiles(repo.worktree(tmp_path / "linked", "other").path)


@pytest.mark.parametrize("message", [b"", b" \n", b"a\0b", b"caf\xe9"])
def test_git_commits_an_unusual_message(message: bytes, tmp_path: Path) -> None:
    with pytest.raises(NotPlain):
        GitFiles(make_repo(tmp_path / "repo").path).commit(message, [], SIGNATURES)


@pytest.mark.parametrize("author", ["Ann", "Ann <a>b>", "Ann Jr. <ann@example.com>", " <a@b>"])
def test_git_commits_for_an_unusual_author(author: str, tmp_path: Path) -> None:
    signatures = SIGNATURES._replace(author=author)
    with pytest.raises(NotPlain):
        GitFiles(make_repo(tmp_path / "repo").path).commit(b"Go on", [], signatures)
