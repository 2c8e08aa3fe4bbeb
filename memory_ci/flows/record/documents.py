"""Documents: what prose and help text at the tip say already, read when a learning of a model is first held to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from memory_ci.extraction.support import DOCUMENT, Paragraph, find_told, is_document, list_paragraphs
from memory_ci.flows.workspace import Snapshot, memory_test
from memory_ci.records.candidate import Candidate

MAX_DOCUMENTS = 300  # And as many files of code.
MAX_BYTES = 200_000  # Of one file: what is longer was generated.


class Documents:
    """Those of one commit."""

    def __init__(self, base: Snapshot) -> None:
        self._base = base
        self._is_memory = memory_test(base.workspace)

    def find(self, candidate: Candidate, changed: Iterable[str]) -> str | None:
        """The document that says what a candidate says, or the one of the `changed` files whose help text does."""
        code = [path for path in changed if not DOCUMENT.fullmatch(path)][:MAX_DOCUMENTS]
        return find_told(candidate.title, self._documents) or find_told(candidate.title, self._read(code))

    @cached_property
    def _documents(self) -> tuple[Paragraph, ...]:
        return tuple(self._read(sorted(filter(is_document, self._base.tree.files))[:MAX_DOCUMENTS]))

    def _read(self, paths: Iterable[str]) -> Iterator[Paragraph]:
        here = {path for path in paths if not self._is_memory(path)}
        for content in self._base.tree.read(here, MAX_BYTES):
            if content.data is not None:
                yield from list_paragraphs(content.file.path, content.data.decode("utf-8", "replace"))
