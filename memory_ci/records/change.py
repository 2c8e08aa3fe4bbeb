"""Change: a decision, not yet done."""

from __future__ import annotations

from typing import Literal

import msgspec

from memory_ci.records.entry import Entry

Step = Literal["fold", "extract", "reinforce", "consolidate", "promote", "compact", "retire"]
STEPS: tuple[Step, ...] = ("fold", "extract", "reinforce", "consolidate", "promote", "retire", "compact")
"""In the order of a run. Compaction is last: it takes out what was retired, so that a second run has nothing to do."""


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry added, updated, moved or taken out.

    add     `entry` goes into `path`
    update  the entry of that id in `path` becomes `entry`
    move    the file `moved_from` goes away and its `entry` stands in `path` (an inbox fragment folded)
    remove  `entry` is taken out of `path`; of several copies the last
    drop    the file `moved_from` goes away: its entry restates `entry`, which stands in `path`
    """

    step: Step
    kind: Literal["add", "update", "move", "drop", "remove"]
    path: str
    entry: Entry
    why: str
    moved_from: str | None = None
