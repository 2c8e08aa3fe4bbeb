"""Folding: notes that people put into the inbox become entries in the files of their scopes."""

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


def keep_note_text(note: Located, day: date) -> Located:
    """Return a note of somebody without write access, reduced to what such a note may say.

    It keeps its id, title, body and type; all other fields are those of a new entry. Its scope is
    kept if it is a team or the project.

    Args:
        note: the note.
        day: the day on which the entry is created.
    """
    old = note.entry
    new_entry = create_entry(
        old.id, old.title, old.body, day, type_=old.type, domain="task", importance=NEW_IMPORTANCE
    )
    scope = note.scope if note.scope.name in ("team", "project") else PROJECT
    return Located(new_entry, note.path, note.line, scope)


def list_restricted_fields(note: Located, day: date) -> list[str]:
    """Return the fields of a note that only people with write access may set.

    Anyone may open a request with a note. Such a field would make the note rank higher, look older
    or proved, or be served to more people.

    Args:
        note: the note.
        day: the day on which the note is read.
    """
    entry = note.entry
    text_only_note = keep_note_text(note, day)
    restricted_fields: list[str] = []
    if entry.importance > NEW_IMPORTANCE:
        restricted_fields.append("importance")
    for name in ("last_reinforced", "created_at"):
        stated_day = getattr(entry, name) or day
        if stated_day - day > MAX_CLOCK_ERROR:
            restricted_fields.append(name)
    for name in Entry.__struct_fields__:
        is_default = getattr(entry, name) == getattr(text_only_note.entry, name)
        if name not in HARMLESS_FIELDS and not is_default:
            restricted_fields.append(name)
    if note.scope != text_only_note.scope:
        restricted_fields.append("scope")
    return restricted_fields


def mark_unproved_addresses(entry: Entry, is_found: Callable[[str, str], bool]) -> Entry:
    """Mark each address in the source and the evidence of an entry that cannot be looked up.

    The mark is `claimed:` in front of the address: `claimed:pr:128`.

    Args:
        entry: the entry.
        is_found: takes an address (`pr:128`) and the words quoted from it; returns whether the
            address exists and has the words.
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
    notes: Iterable[Located],
    located: Sequence[Located],
    targets: Mapping[str, str | None],
    outsiders_paths: Collection[str] = (),
) -> tuple[tuple[Change, ...], tuple[Finding, ...]]:
    """Plan how notes of the inbox become entries.

    A note is moved to the file of its scope, or dropped if an entry there says the same word for
    word. A note stays in the inbox, with a finding, if its scope has no file or if its id belongs
    to an entry with other words. Of notes that share id or words only the first becomes an entry;
    notes of people without write access come last, so that they replace no other note.

    Args:
        notes: the notes.
        located: the entries that memory has already.
        targets: by the note's path the file of its scope, or None if it has none.
        outsiders_paths: paths of the notes of people without write access.

    Returns:
        The changes and the findings.
    """
    entry_by_id = {existing.entry.id: existing for existing in reversed(located)}
    entries_by_words: defaultdict[object, list[Located]] = defaultdict(list)
    for existing in located:
        entries_by_words[_wording_key(existing.entry)].append(existing)

    def outsiders_last(note: Located) -> tuple[bool, str, str]:
        return note.path in outsiders_paths, note.entry.id, note.path

    changes: list[Change] = []
    findings: list[Finding] = []
    for note in sorted(notes, key=outsiders_last):
        target_path = targets[note.path]
        same_words = entries_by_words[_wording_key(note.entry)]
        restating = [existing for existing in same_words if is_restated_by(note, existing)]
        if restating:
            changes.append(_plan_drop(note, restating[0]))
        elif note.entry.id in entry_by_id:
            findings.append(_report_taken_id(note, entry_by_id[note.entry.id]))
        elif target_path is None:
            findings.append(_report_no_file(note))
        else:
            change = _plan_move(note, target_path)
            changes.append(change)
            # Later notes are compared with the new entry as well.
            new_entry = Located(change.entry, target_path, line=0, scope=note.scope)
            entry_by_id[change.entry.id] = new_entry
            entries_by_words[_wording_key(change.entry)].append(new_entry)
    return tuple(changes), tuple(findings)


def _plan_move(note: Located, target: str) -> Change:
    """Return the change that moves a note from the inbox to the file of its scope."""
    return Change(
        step="fold",
        kind="move",
        path=target,
        entry=replace(note.entry, scope=None),
        why="from the inbox",
        moved_from=note.path,
    )


def _plan_drop(note: Located, existing: Located) -> Change:
    """Return the change that deletes a note which an entry repeats word for word."""
    return Change(
        step="fold",
        kind="drop",
        path=existing.path,
        entry=existing.entry,
        why=f"is in memory already as {existing.entry.id[:8]}",
        moved_from=note.path,
    )


def _report_taken_id(note: Located, located_entry: Located) -> Finding:
    path = located_entry.path
    message = f"its id is that of an entry in {path}, which does not say this where it is for"
    hint = "Give the note an id of its own (`uuidgen`); it waits in the inbox until then."
    return Finding(note.path, note.line, "taken-id", message, hint, "notice")


def _report_no_file(note: Located) -> Finding:
    scope = note.entry.scope or "project"
    message = f"the scope {scope!r} has no file that could be written here"
    hint = "Give the entry another `scope:`; it waits in the inbox until then."
    return Finding(note.path, note.line, "no-scope-file", message, hint, "warning")


def is_restated_by(note: Located, existing: Located) -> bool:
    """Return whether an existing entry makes a note superfluous.

    The entry must have the same words, and its scope must include the scope of the note. A retired
    entry counts only for a note with the same id.

    Args:
        note: the note.
        existing: the entry.
    """
    is_in_force = note.entry.id == existing.entry.id or existing.entry.status != "retired"
    has_same_words = _wording_key(note.entry) == _wording_key(existing.entry)
    return is_in_force and has_same_words and is_covered(note.scope, existing.scope)


def is_covered(scope: ScopeOf, wider: ScopeOf) -> bool:
    """Return whether work in one scope is served all entries of another, such as a wider one.

    Entries of a session are served to that session alone, those of a team to work in its directory,
    all others to everybody.

    >>> is_covered(ScopeOf("team", "src/api"), ScopeOf("team", "src"))
    True
    >>> is_covered(ScopeOf("project"), ScopeOf("team", "src"))
    False
    """
    if wider.name == "session":
        return scope == wider
    if wider.name == "team" and wider.where:
        return scope.name == "team" and f"{scope.where}/".startswith(f"{wider.where}/")
    return True


def is_same_learning(one: Entry, other: Entry) -> bool:
    """Return whether two entries have the same id, or the same words in any spacing and case."""
    return one.id == other.id or _wording_key(one) == _wording_key(other)


def _wording_key(entry: Entry) -> tuple[str, frozenset[str], str]:
    """Return what two entries that say the same word for word have in common."""
    return entry.type, content_words(entry.title), " ".join(entry.body.lower().split())
