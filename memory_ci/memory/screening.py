"""Screening: text that must not be in memory is reported by `check` and never served, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from memory_ci.extraction.gate import check_words
from memory_ci.records.entry import Located
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.secrets import find_secrets, mask_secrets

UNSAFE = {
    "hidden-characters": "holds characters that a person does not see",
    "html-comment": "holds a comment, which a rendered page hides and an agent reads",
    "network-pipeline": "pipes something from the network into a shell",
    "overrides-instructions": "tells an agent to disregard its instructions",
    "changes-role": "tells an agent to be something else",
    "hides-from-people": "tells an agent to hide something from people",
    "weakens-guards": "tells an agent to pass over tests, review, signing or permissions",
    "leaks-secrets": "tells an agent to give secrets away",
    "tool-call-syntax": "holds the syntax of a tool call",
    "speaks-for-memory": "makes claims about memory-ci itself",
}
"""What an agent must not be given. Of the gate's other rules, which are about form, people are free."""

UNSAFE_HINT = "Reword or remove it; it is not given to agents as it stands."
CREDENTIAL_HINT = "Revoke it, remove it here, and rewrite the commits that hold it."


def screen(file: LoadedFile, *, credentials: bool = True) -> LoadedFile:
    """The file without the entries and the prose that must not be served, and with a finding for each. Without
    `credentials` they are not looked for: `find_credentials` names them, wherever in a file they stand."""
    entry_findings = {
        place.line: tuple(find_unsafe(place, credentials=credentials)) for place in file.entries
    }
    entries = tuple(place for place in file.entries if not entry_findings[place.line])
    # Prose may hold comments, such as the introduction that `init` writes: they are not served.
    prose_findings = {
        line: tuple(
            one for one in _unsafe(file.path, line, text, credentials) if one.code != "html-comment"
        )
        for line, text in file.prose
    }
    prose = tuple((line, text) for line, text in file.prose if not prose_findings[line])
    found = [
        finding
        for group in (*entry_findings.values(), *prose_findings.values())
        for finding in group
    ]
    return replace(file, entries=entries, prose=prose, findings=(*file.findings, *found))


def find_unsafe(place: Located, *, credentials: bool = True) -> Iterator[Finding]:
    """Why this entry must not be served; nothing for almost every entry."""
    entry = place.entry
    kept = (
        entry.instead,
        entry.source,
        entry.session,
        entry.engine,
        *entry.evidence,
        *entry.cites,
        *entry.relations,
    )
    unknown = (f"{key}:{raw}" for key, raw in entry.extra)
    texts = (entry.title, entry.body, *(text for text in kept if text), *unknown, place.path)
    return _unsafe(place.path, place.line, "\n".join(texts), credentials)


def is_unsafe(text: str) -> bool:
    """Whether a text of somebody's must not be given to an agent, by the rules that hold for entries."""
    return any(_unsafe("", 1, text, credentials=True))


def find_unsafe_text(path: str, line: int, text: str) -> Iterator[Finding]:
    """Why a text at a line of a file must not be served, except for credentials, which have a finding of their own."""
    return _unsafe(path, line, text, credentials=False)


def find_credentials(path: str, data: bytes) -> Iterator[Finding]:
    """Credentials anywhere in a file or in its name, each with its line; the finding does not repeat them."""
    if find_secrets(path):
        message = "the file's name holds what looks like a credential"
        yield Finding(mask_secrets(path), 1, "credential", message, CREDENTIAL_HINT)
    text, shown = data.decode("utf-8", "replace"), mask_secrets(path)
    line, seen = 1, 0
    for secret in find_secrets(text):
        line, seen = line + text.count("\n", seen, secret.start), secret.start
        yield Finding(
            shown, line, "credential", f"looks like a credential: {secret.kind}", CREDENTIAL_HINT
        )


def _unsafe(path: str, line: int, text: str, credentials: bool) -> Iterator[Finding]:
    text = text.replace("\r\n", "\n")
    for reason in check_words(text, credentials=credentials):
        if reason == "credential":
            yield Finding(
                path, line, "credential", "holds what looks like a credential", CREDENTIAL_HINT
            )
        elif reason in UNSAFE:
            yield Finding(path, line, reason, UNSAFE[reason], UNSAFE_HINT)
