"""Text that must not be in memory files: `check` reports it, and agents are never served it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from memory_ci.extraction.gate import check_words, find_urls, is_plain
from memory_ci.records.entry import Located
from memory_ci.records.report import Finding, LoadedFile
from memory_ci.regex import Regex
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
"""Texts that must not be served to agents, by the rule of the gate that finds them.

The other rules of the gate are about form, and people need not keep them.
"""

PRIVATE = Regex(
    r"\[redacted|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}\b|(?<![\w.])\+?\d(?:[ ()./-]{0,2}\d){6,}(?!\w)"
)
"""A masked part, an IP address, or a long number: of a telephone, an account, or a date."""
"""A masked part, an address of the internet, or a number as of a telephone, an account or a day."""

UNSAFE_HINT = "Reword or remove it; it is not given to agents as it stands."
CREDENTIAL_HINT = "Revoke it, remove it here, and rewrite the commits that hold it."


def screen(file: LoadedFile, *, credentials: bool = True) -> LoadedFile:
    """Remove entries and prose that must not be served from a file, and add findings for them.

    Args:
        file: the file.
        credentials: whether to look for credentials too. `find_credentials` finds them anywhere in
            a file.
    """
    from memory_ci.extraction.text_batch import check_each  # a note alone does not need it

    entry_texts = [_join_texts(place) for place in file.entries]
    texts = [*entry_texts, *(text for _, text in file.prose)]
    reasons = check_each([text.replace("\r\n", "\n") for text in texts], credentials=credentials)

    all_findings = [*file.findings]
    entries = []
    for place, entry_reasons in zip(file.entries, reasons, strict=False):
        findings = list(_list_findings(place.path, place.line, entry_reasons))
        all_findings += findings
        if not findings:
            entries.append(place)

    prose = []
    prose_reasons = reasons[len(entry_texts) :]
    for (line, text), part_reasons in zip(file.prose, prose_reasons, strict=True):
        findings = list(_list_findings(file.path, line, part_reasons))
        # Comments in prose, such as the introduction that `init` writes, are not served anyway.
        findings = [finding for finding in findings if finding.code != "html-comment"]
        all_findings += findings
        if not findings:
            prose.append((line, text))
    return replace(file, entries=tuple(entries), prose=tuple(prose), findings=tuple(all_findings))


def find_unsafe(place: Located, *, credentials: bool = True) -> Iterator[Finding]:
    """Return the findings that forbid to serve an entry; almost every entry has none.

    Args:
        place: the entry and where it is.
        credentials: whether to look for credentials too.
    """
    return _find_unsafe(place.path, place.line, _join_texts(place), credentials)


def _join_texts(place: Located) -> str:
    """Return all that an entry may bring before an agent, one text below the other."""
    entry = place.entry
    optional_texts = (
        entry.instead,
        entry.source,
        entry.session,
        entry.engine,
        *entry.evidence,
        *entry.cites,
        *entry.relations,
    )
    texts = [entry.title, entry.body]
    texts += [text for text in optional_texts if text]
    texts += [f"{key}:{raw}" for key, raw in entry.extra]
    texts.append(place.path)
    return "\n".join(texts)


def is_unsafe(text: str) -> bool:
    """Return whether a text must not be served to agents, by the rules for entries."""
    return any(_find_unsafe("", 1, text, credentials=True))


def is_unfit(text: str) -> bool:
    """Return whether a text from a session must not be in memory unless a person agrees to it.

    Nobody reviewed it, so the rules are stricter than those for entries: no web address, no markup,
    no claim about memory-ci, and no private data, such as a telephone number or an IP address.
    """
    from memory_ci.evidence.content import redact  # entries, which all commands screen, need it not

    has_private_data = PRIVATE.search(text) is not None or redact(text).text != text
    return has_private_data or bool(find_urls(text)) or not is_plain(text) or is_unsafe(text)


def find_unsafe_text(path: str, line: int, text: str) -> Iterator[Finding]:
    """Return the findings that forbid to serve a text, but for credentials.

    `find_credentials` finds those.
    """
    return _find_unsafe(path, line, text, credentials=False)


def find_credentials(path: str, data: bytes) -> Iterator[Finding]:
    """Yield a finding for each credential in a file or in its name, without the credential itself.

    Args:
        path: the path of the file.
        data: its content.
    """
    masked_path = mask_secrets(path)
    if find_secrets(path):
        message = "the file's name holds what looks like a credential"
        yield Finding(masked_path, 1, "credential", message, CREDENTIAL_HINT)

    text = data.decode("utf-8", "replace")
    line = 1
    counted_until = 0  # the position up to which line breaks were counted
    for secret in find_secrets(text):
        line += text.count("\n", counted_until, secret.start)
        counted_until = secret.start
        message = f"looks like a credential: {secret.kind}"
        yield Finding(masked_path, line, "credential", message, CREDENTIAL_HINT)


def _find_unsafe(path: str, line: int, text: str, credentials: bool) -> Iterator[Finding]:
    """Yield a finding, at a line of a file, for each reason why a text must not be served.

    Args:
        path: the path of the file.
        line: the line.
        text: the text.
        credentials: whether to look for credentials too.
    """
    reasons = check_words(text.replace("\r\n", "\n"), credentials=credentials)
    return _list_findings(path, line, reasons)


def _list_findings(path: str, line: int, reasons: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for each of the gate's reasons for which a text is not served."""
    for reason in reasons:
        if reason == "credential":
            message = "holds what looks like a credential"
            yield Finding(path, line, "credential", message, CREDENTIAL_HINT)
        elif reason in UNSAFE:
            yield Finding(path, line, reason, UNSAFE[reason], UNSAFE_HINT)
