"""Fold: inbox fragments become entries of their scope's file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta

from msgspec.structs import replace

from memory_ci.records.entry import NEW_IMPORTANCE, PROJECT, Entry, Located, ScopeOf, new_entry
from memory_ci.records.plan import Change
from memory_ci.records.report import Finding
from memory_ci.text import content_words

CLAIMED = (
    "claimed:"  # Stands before an address in `source` and `evidence` that nobody could look up.
)
# Addresses of words and of work; what else a source says (`teaparty:MEMORY.md`) proves nothing, and claims nothing.
OURS = ("commit:", "pr:", "review:", "session:")
AHEAD = timedelta(
    days=365
)  # So much later than it was brought a note's date is by hand, and not of a wrong clock.
# What a note has that says nothing of its own weight, or is looked at by itself.
OWN_FIELDS = frozenset(
    {"id", "type", "title", "body", "scope", "domain", "phase", "importance", "last_reinforced"}
)


def strip_claims(note: Located, day: date) -> Located:
    """A stranger's note: title, body and type are his; that it is for a team or the project; all else is as if new."""
    old = note.entry
    entry = new_entry(old.id, old.title, old.body, (old.type, "task", NEW_IMPORTANCE), day)
    return Located(
        entry,
        note.path,
        note.line,
        note.scope if note.scope.name in ("team", "project") else PROJECT,
    )


def list_claims(note: Located, day: date) -> list[str]:
    """The fields by which a note gives itself a weight, a past or a place that a stranger cannot give."""
    entry, new = note.entry, strip_claims(note, day)
    dates = [
        name
        for name in ("last_reinforced", "created_at")
        if (getattr(entry, name) or day) - day > AHEAD
    ]
    others = [
        name for name in Entry.__struct_fields__ if name not in OWN_FIELDS and name != "created_at"
    ]
    found = [name for name in others if getattr(entry, name) != getattr(new.entry, name)]
    weight = ["importance"] if entry.importance > NEW_IMPORTANCE else []
    return [*weight, *dates, *found, *(["scope"] if note.scope != new.scope else [])]


def mark_claimed(entry: Entry, is_found: Callable[[str, str], bool]) -> Entry:
    """The entry with a mark on each address of its source, and of its evidence with the words, that is not found."""

    def mark(line: str) -> str:
        address, _, words = line.partition(" ")
        return line if not line.startswith(OURS) or is_found(address, words) else f"{CLAIMED}{line}"

    source = " ".join(map(mark, entry.source.split())) if entry.source else None
    return replace(entry, source=source, evidence=tuple(map(mark, entry.evidence)))


def is_proved(entry: Entry) -> bool:
    """Whether words of somebody stand behind an entry, and were looked up."""
    return any(line.startswith(OURS) for line in entry.evidence)


def plan_fold(
    fragments: Iterable[Located],
    kept: Sequence[Located],
    targets: Mapping[str, str | None],
    strangers: Collection[str] = (),
) -> tuple[tuple[Change, ...], tuple[Finding, ...]]:
    """A move for each fragment, a drop for one that is kept already, word for word, where it is for. `targets` gives,
    by fragment path, the file of its scope; None leaves the fragment where it is, with a finding. So does an id that an
    entry of other words has: what nobody kept must not go. Of notes that share id or words the first counts: the
    `strangers` (paths) come last."""
    known = {place.entry.id: place for place in reversed(kept)}
    said: defaultdict[object, list[Located]] = defaultdict(list)
    for place in kept:
        said[_words(place.entry)].append(place)
    changes: list[Change] = []
    findings: list[Finding] = []
    for place in sorted(
        fragments, key=lambda place: (place.path in strangers, place.entry.id, place.path)
    ):
        target = targets[place.path]
        twin = next((other for other in said[_words(place.entry)] if is_kept(place, other)), None)
        if twin is not None:
            why = f"is kept already as {twin.entry.id[:8]}"
            changes.append(
                Change(
                    step="fold",
                    kind="drop",
                    path=twin.path,
                    entry=twin.entry,
                    why=why,
                    moved_from=place.path,
                )
            )
        elif place.entry.id in known:
            other = known[place.entry.id].path
            message = (
                f"its id is that of an entry in {other}, which does not say this where it is for"
            )
            hint = "Give the note an id of its own (`uuidgen`); it waits in the inbox until then."
            findings.append(Finding(place.path, place.line, "taken-id", message, hint, "notice"))
        elif target is None:
            message = f"the scope {place.entry.scope or 'project'!r} has no file that could be written here"
            hint = "Give the entry another `scope:`; it waits in the inbox until then."
            findings.append(
                Finding(place.path, place.line, "no-scope-file", message, hint, "warning")
            )
        else:
            entry = replace(place.entry, scope=None)
            moved = Located(entry, target, 0, place.scope)
            known[entry.id] = moved
            said[_words(entry)].append(moved)
            changes.append(
                Change(
                    step="fold",
                    kind="move",
                    path=target,
                    entry=entry,
                    why="from the inbox",
                    moved_from=place.path,
                )
            )
    return tuple(changes), tuple(findings)


def is_kept(new: Located, other: Located) -> bool:
    """Whether `other` keeps what `new` says: the same words, for all that it is for. What is retired keeps nothing but
    itself."""
    is_held = new.entry.id == other.entry.id or other.entry.status != "retired"
    return (
        is_held and _words(new.entry) == _words(other.entry) and is_covered(new.scope, other.scope)
    )


def is_covered(wanted: ScopeOf, scope: ScopeOf) -> bool:
    """Whether all that `wanted` is for are given what stands in `scope`.

    A session's entries are given to that session alone, a team's to those who work in its directory.

    >>> [is_covered(wanted, ScopeOf("team", "src")) for wanted in (ScopeOf("team", "src/api"), ScopeOf("project"))]
    [True, False]
    """
    if scope.name == "session":
        return wanted == scope
    if scope.name == "team" and scope.where:
        return wanted.name == "team" and f"{wanted.where}/".startswith(f"{scope.where}/")
    return True


def is_same_learning(one: Entry, other: Entry) -> bool:
    """Whether two entries are one learning: the same id, or the same words, whatever their spacing and case."""
    return one.id == other.id or _words(one) == _words(other)


def _words(entry: Entry) -> tuple[str, frozenset[str], str]:
    return entry.type, content_words(entry.title), " ".join(entry.body.lower().split())
