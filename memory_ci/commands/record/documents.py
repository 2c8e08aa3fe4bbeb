"""The documents and code of a repository, which may already state a candidate's rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from memory_ci.extraction.support import (
    DOCUMENT_PATH,
    Paragraph,
    find_restating_document,
    is_document,
    list_paragraphs,
)
from memory_ci.memory.workspace import Snapshot, build_memory_test

MAX_DOCUMENTS = 300
"""Documents that are read for what they say already, and as many files of code."""

MAX_DOCUMENT_BYTES = 200_000
"""A longer document was generated and is not read."""


class Documents:
    """The documents of a commit, which are read when the first candidate is compared with them."""

    def __init__(self, base: Snapshot) -> None:
        """Create the documents of a commit; nothing is read yet."""
        self._base = base

    def find_restating(self, title: str, changed_paths: Iterable[str]) -> str | None:
        """Return the path of a document or changed file that says the same as a title, or None.

        Args:
            title: the title of a candidate.
            changed_paths: the files of the change that the candidate was found in.
        """
        document = find_restating_document(title, self._paragraphs)
        if document:
            return document
        code_paths = [path for path in changed_paths if not DOCUMENT_PATH.fullmatch(path)]
        return find_restating_document(title, self._read_prose(code_paths[:MAX_DOCUMENTS]))

    @cached_property
    def _paragraphs(self) -> tuple[Paragraph, ...]:
        """The paragraphs of the documents."""
        documents = sorted(filter(is_document, self._base.tree.files))
        return tuple(self._read_prose(documents[:MAX_DOCUMENTS]))

    def _read_prose(self, paths: Iterable[str]) -> Iterator[Paragraph]:
        """Yield the paragraphs of files, but not of memory's own files."""
        is_memory = build_memory_test(self._base.workspace)
        document_paths = {path for path in paths if not is_memory(path)}
        for content in self._base.tree.read(document_paths, MAX_DOCUMENT_BYTES):
            if content.data is not None:
                text = content.data.decode("utf-8", "replace")
                yield from list_paragraphs(content.file.path, text)
