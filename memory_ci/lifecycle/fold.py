"""Folding: notes of the inbox become entries in the files of their scopes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta

from msgspec.structs import replace

from memory_ci.records.entry import NEW_IMPORTANCE, PROJECT, Entry, Located, ScopeOf, create_entry
from memory_ci.records.plan import Change
from memory_ci.records.report import Finding
from memory_ci.text import content_words

CLAIMED = "claimed:"
"""Precedes an address in `source` and `evidence` that could not be looked up."""

CHECKED_ADDRESSES = ("commit:", "pr:", "review:", "session:")
"""Addresses of words and of work.

Anything else in a source, such as `teaparty:MEMORY.md`, proves nothing.
"""

MAX_CLOCK_ERROR = timedelta(days=365)
"""A note's date that is later by more than this was set by hand, and not by a wrong clock."""

HARMLESS_FIELDS = frozenset(
    {
        "id",
        "type",
        "title",
        "body",
        "scope",
        "domain",
        "phase",
        "importance",
        "last_reinforced",
        "created_at",
    }
)
"""Fields that give a note no weight of its own, or that are checked separately."""


def strip_claims(note: Located, day: date) -> Located:
    """Return a stranger's note with its title, body and type; everything else is that of a new one.

    Its scope is kept if it is a team or the project.
    """
    old = note.entry
    entry = create_entry(old.id, old.title, old.body, (old.type, "task", NEW_IMPORTANCE), day)
    scope = note.scope if note.scope.name in ("team", "project") else PROJECT
    return Located(entry, note.path, note.line, scope)


def list_claims(note: Located, day: date) -> list[str]:
    """Return the fields by which a note claims a weight, past or place that strangers cannot."""
    entry = note.entry
    stripped = strip_claims(note, day)
    claims: list[str] = []
    if entry.importance > NEW_IMPORTANCE:
        claims.append("importance")
    for name in ("last_reinforced", "created_at"):
        if (getattr(entry, name) or day) - day > MAX_CLOCK_ERROR:
            claims.append(name)
    for name in Entry.__struct_fields__:
        is_new = getattr(entry, name) == getattr(stripped.entry, name)
        if name not in HARMLESS_FIELDS and not is_new:
            claims.append(name)
    if note.scope != stripped.scope:
        claims.append("scope")
    return claims


def mark_claimed(entry: Entry, is_found: Callable[[str, str], bool]) -> Entry:
    """Return an entry with a mark on each address that is not found.

    Args:
        entry: the entry.
        is_found: returns whether an address exists, and whether words are there.
    """

    def mark(line: str) -> str:
        address, _, words = line.partition(" ")
        is_proved = not line.startswith(CHECKED_ADDRESSES) or is_found(address, words)
        return line if is_proved else f"{CLAIMED}{line}"

    source = None
    if entry.source:
        source = " ".join(mark(address) for address in entry.source.split())
    return replace(entry, source=source, evidence=tuple(mark(line) for line in entry.evidence))


def is_proved(entry: Entry) -> bool:
    """Return whether an entry has evidence that was looked up."""
    return any(line.startswith(CHECKED_ADDRESSES) for line in entry.evidence)


def plan_fold(
    fragments: Iterable[Located],
    kept: Sequence[Located],
    targets: Mapping[str, str | None],
    strangers: Collection[str] = (),
) -> tuple[tuple[Change, ...], tuple[Finding, ...]]:
    """Plan how notes become entries.

    A note is moved to the file of its scope, or dropped if an entry there says the same word for
    word. A note waits, with a finding, if its scope has no file or if its id belongs to an entry
    with other words. Of notes that share id or words the first counts, and strangers come last.

    Args:
        fragments: the notes.
        kept: the entries.
        targets: by the note's path the file of its scope, or None if it has none.
        strangers: paths of notes that strangers brought.

    Returns:
        The changes and the findings.
    """
    place_by_id = {place.entry.id: place for place in reversed(kept)}
    places_by_words: defaultdict[object, list[Located]] = defaultdict(list)
    for place in kept:
        places_by_words[_words(place.entry)].append(place)
    changes: list[Change] = []
    findings: list[Finding] = []
    for note in sorted(
        fragments, key=lambda note: (note.path in strangers, note.entry.id, note.path)
    ):
        target = targets[note.path]
        same_words = places_by_words[_words(note.entry)]
        twin = next((place for place in same_words if is_kept(note, place)), None)
        if twin is not None:
            changes.append(_drop(note, twin))
        elif note.entry.id in place_by_id:
            findings.append(_report_taken_id(note, place_by_id[note.entry.id]))
        elif target is None:
            findings.append(_report_no_file(note))
        else:
            change = _move(note, target)
            changes.append(change)
            moved = Located(change.entry, target, 0, note.scope)
            place_by_id[change.entry.id] = moved
            places_by_words[_words(change.entry)].append(moved)
    return tuple(changes), tuple(findings)


def _move(note: Located, target: str) -> Change:
    return Change(
        step="fold",
        kind="move",
        path=target,
        entry=replace(note.entry, scope=None),
        why="from the inbox",
        moved_from=note.path,
    )


def _drop(note: Located, twin: Located) -> Change:
    return Change(
        step="fold",
        kind="drop",
        path=twin.path,
        entry=twin.entry,
        why=f"is kept already as {twin.entry.id[:8]}",
        moved_from=note.path,
    )


def _report_taken_id(note: Located, place: Located) -> Finding:
    message = f"its id is that of an entry in {place.path}, which does not say this where it is for"
    hint = "Give the note an id of its own (`uuidgen`); it waits in the inbox until then."
    return Finding(note.path, note.line, "taken-id", message, hint, "notice")


def _report_no_file(note: Located) -> Finding:
    scope = note.entry.scope or "project"
    message = f"the scope {scope!r} has no file that could be written here"
    hint = "Give the entry another `scope:`; it waits in the inbox until then."
    return Finding(note.path, note.line, "no-scope-file", message, hint, "warning")


def is_kept(new: Located, other: Located) -> bool:
    """Return whether an entry says a note's words to everybody whom the note is for.

    A retired entry does so only for its own id.
    """
    is_in_force = new.entry.id == other.entry.id or other.entry.status != "retired"
    has_same_words = _words(new.entry) == _words(other.entry)
    return is_in_force and has_same_words and is_covered(new.scope, other.scope)


def is_covered(wanted: ScopeOf, scope: ScopeOf) -> bool:
    """Return whether everybody in the wanted scope is served the entries of a scope.

    Entries of a session are served to that session alone, those of a team to work in its directory.

    >>> is_covered(ScopeOf("team", "src/api"), ScopeOf("team", "src"))
    True
    >>> is_covered(ScopeOf("project"), ScopeOf("team", "src"))
    False
    """
    if scope.name == "session":
        return wanted == scope
    if scope.name == "team" and scope.where:
        return wanted.name == "team" and f"{wanted.where}/".startswith(f"{scope.where}/")
    return True


def is_same_learning(one: Entry, other: Entry) -> bool:
    """Return whether two entries have the same id, or the same words in any spacing and case."""
    return one.id == other.id or _words(one) == _words(other)


def _words(entry: Entry) -> tuple[str, frozenset[str], str]:
    return entry.type, content_words(entry.title), " ".join(entry.body.lower().split())
