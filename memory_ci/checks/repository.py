"""The files and directories of a repository, where templates look up the paths that rules name."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from memory_ci.checks.globs import compile_globs

CODE_GLOBS = (
    "*.c", "*.cc", "*.cpp", "*.cs", "*.dart", "*.ex", "*.go", "*.java", "*.js", "*.jsx", "*.kt",
    "*.lua", "*.mjs", "*.php", "*.py", "*.rb", "*.rs", "*.scala", "*.sh", "*.sql", "*.swift",
    "*.ts", "*.tsx", "*.vue",
)  # fmt: skip
"""Files of code, as far as the repository has them."""

TEST_GLOBS = (
    "tests/**", "test/**", "**/tests/**", "**/test/**", "**/__tests__/**", "spec/**", "*_test.*",
    "test_*", "*.test.*", "*.spec.*",
)  # fmt: skip


class RepositoryFiles(NamedTuple):
    """The files of a repository.

    Attributes:
        paths: all files.
        directories: all directories.
    """

    paths: frozenset[str]
    directories: frozenset[str]


def list_repository_files(paths: Collection[str]) -> RepositoryFiles:
    """Return the files and directories of a repository, from the paths of its files."""
    directories: set[str] = set()
    for path in paths:
        names = path.split("/")
        for depth in range(1, len(names)):
            directories.add("/".join(names[:depth]))
    return RepositoryFiles(frozenset(paths), frozenset(directories))


@lru_cache(maxsize=4)
def list_code(repository: RepositoryFiles) -> tuple[str, ...]:
    """Return the globs of the code that a repository has."""
    return tuple(glob for glob in CODE_GLOBS if has_glob(glob, repository))


@lru_cache(maxsize=4)
def list_tests(repository: RepositoryFiles) -> tuple[str, ...]:
    """Return the globs of the tests that a repository has."""
    return tuple(glob for glob in TEST_GLOBS if has_glob(glob, repository))


def has_glob(glob: str, repository: RepositoryFiles) -> bool:
    """Return whether a repository has a file of a glob."""
    globs = compile_globs((glob,))
    return any(globs.matches(path) for path in repository.paths)
