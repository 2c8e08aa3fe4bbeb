"""Question: something in memory, or proposed for it, that a person may answer (docs/reviewing.md)."""

from __future__ import annotations

from typing import Literal

import msgspec

from memory_ci.records.anchor import Verdict
from memory_ci.records.candidate import Suggestion
from memory_ci.records.entry import Located

QuestionKind = Literal["candidate", "quarantined", "changed", "gone", "contradiction", "unused", "promotion"]
Answer = Literal["accept", "keep", "retire", "never"]


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked: of a candidate (`suggestion`) whether to write it, of an entry (`located`) whether it holds.

    `key` is what the file of answers calls it; `use` how much agents would be given it, `doubt` how likely an answer
    changes that.
    """

    kind: QuestionKind
    key: str
    title: str
    why: str
    use: float
    doubt: float
    suggestion: Suggestion | None = None
    located: Located | None = None
    verdicts: tuple[Verdict, ...] = ()

    @property
    def score(self) -> float:
        """Expected use x doubt: what comes first."""
        return self.use * self.doubt

    @property
    def answers(self) -> tuple[Answer, ...]:
        """What a person may say to it."""
        is_new = self.suggestion is not None or self.kind == "promotion"
        return ("accept", "never") if is_new else ("keep", "retire", "never")
