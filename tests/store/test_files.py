"""Tests of writing files of the work tree: never outside of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from memory_ci.errors import RepositoryError
from memory_ci.store.files import remove_file, write_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the directory of a repository that contains links to a directory outside."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "repo" / ".git" / "hooks").mkdir(parents=True)
    return tmp_path / "repo"


@pytest.mark.parametrize(
    ("link", "target"), [("src", "../outside"), ("src", ".git/hooks"), (".memory", "..")]
)
def test_a_linked_directory_outside_the_repository_is_refused(
    root: Path, link: str, target: str
) -> None:
    (root / link).symlink_to(target)
    before = sorted(root.parent.rglob("*"))
    with pytest.raises(RepositoryError) as raised:
        write_file(root / link / "new" / "MEMORY.md", b"x", root)
    assert raised.value.slug == "outside-repository"
    assert sorted(root.parent.rglob("*")) == before


def test_a_path_with_parent_directories_out_of_the_repository_is_refused(root: Path) -> None:
    with pytest.raises(RepositoryError) as raised:
        write_file(root / "../outside/MEMORY.md", b"x", root)
    assert raised.value.slug == "outside-repository"


def test_links_inside_the_repository_and_to_it_are_followed(root: Path) -> None:
    (root / "src").mkdir()
    (root / "lib").symlink_to("src")
    (root.parent / "alias").symlink_to("repo")
    write_file(root.parent / "alias" / "lib" / "api" / "MEMORY.md", b"x", root)
    assert (root / "src" / "api" / "MEMORY.md").read_bytes() == b"x"


def test_a_linked_file_is_replaced_and_its_target_is_unchanged(root: Path) -> None:
    (root.parent / "outside" / "notes").write_bytes(b"theirs")
    (root / "MEMORY.md").symlink_to("../outside/notes")
    write_file(root / "MEMORY.md", b"ours", root)
    assert (root.parent / "outside" / "notes").read_bytes() == b"theirs"
    assert (root / "MEMORY.md").read_bytes() == b"ours"


def test_a_device_or_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(pipe, b"plan")
        assert os.read(reader, 10) == b"plan"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_the_error_for_a_file_that_cannot_be_removed_names_it(root: Path) -> None:
    with pytest.raises(RepositoryError, match="cannot remove") as caught:
        remove_file(root / "missing" / "file")
    assert caught.value.slug == "write-failed"
