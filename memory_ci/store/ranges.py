"""Parse, format and merge the file that lists the ranges of commits which `record` has read.

A line of it that cannot be read, such as a conflict marker of a merge, has no effect.
"""

from __future__ import annotations

import msgspec

from memory_ci.regex import Regex

MAX_RECORDED_BYTES = 1_000_000

HEADER = (
    "<!-- record has read the changes of these ranges. What git says of them is in no file: "
    "memory-ci help episodes -->\n"
)

ROOT = "root"
"""The start of a range that begins with the first commit."""

# A line for a range that was read: `- <sha>..<sha> design`.
RANGE = Regex(
    r"- (?P<since>root|[0-9a-f]{40,64})\.\.(?P<until>[0-9a-f]{40,64})(?: (?P<stage>[a-z]{1,30}))?"
)
# A line for an episode that a person removed: `- without pr-1`.
REMOVED_EPISODE = Regex(r"- without (?P<id>[a-z0-9][a-z0-9.+-]{0,80})")


class RecordedRange(msgspec.Struct, frozen=True):
    """A range of history that runs have read.

    Attributes:
        since: the commit before the range; None where it begins with the first commit.
        until: the last commit.
        stage: the stage that the project was in; "" if it was unknown.
    """

    since: str | None
    until: str
    stage: str = ""


class Recorded(msgspec.Struct, frozen=True):
    """The content of the file.

    Attributes:
        ranges: the ranges, in the order in which runs read them.
        removed_ids: ids of episodes that a person removed, and that are not shown again.
    """

    ranges: tuple[RecordedRange, ...] = ()
    removed_ids: tuple[str, ...] = ()


def parse_recorded(data: bytes) -> Recorded:
    """Parse the file of recorded ranges; a line that cannot be read is left out."""
    ranges: list[RecordedRange] = []
    removed_ids: list[str] = []
    for raw_line in data[:MAX_RECORDED_BYTES].decode("utf-8", "replace").splitlines():
        line = raw_line.rstrip()
        range_match = RANGE.fullmatch(line)
        if range_match:
            since = None if range_match["since"] == ROOT else range_match["since"]
            stage = range_match["stage"] or ""
            ranges.append(RecordedRange(since, range_match["until"], stage))
            continue
        removed_match = REMOVED_EPISODE.fullmatch(line)
        if removed_match:
            removed_ids.append(removed_match["id"])
    return Recorded(tuple(dict.fromkeys(ranges)), tuple(dict.fromkeys(removed_ids)))


def format_recorded(recorded: Recorded) -> bytes:
    """Format the file of recorded ranges.

    >>> one = RecordedRange(None, "a" * 40, "design")
    >>> parse_recorded(format_recorded(Recorded((one,), ("pr-1",)))).ranges == (one,)
    True
    """
    lines = [HEADER]
    for recorded_range in recorded.ranges:
        stage = f" {recorded_range.stage}" if recorded_range.stage else ""
        lines.append(f"- {recorded_range.since or ROOT}..{recorded_range.until}{stage}\n")
    lines += [f"- without {episode_id}\n" for episode_id in recorded.removed_ids]
    return "".join(lines).encode()


def merge_recorded(ours: bytes, theirs: bytes) -> bytes:
    """Merge two versions of the file: the result has each line that either of them has.

    A range of one side that the other side has extended remains as well; its changes count once.
    """
    our_side = parse_recorded(ours)
    their_side = parse_recorded(theirs)
    ranges = dict.fromkeys((*our_side.ranges, *their_side.ranges))
    removed_ids = dict.fromkeys((*our_side.removed_ids, *their_side.removed_ids))
    return format_recorded(Recorded(tuple(ranges), tuple(removed_ids)))
