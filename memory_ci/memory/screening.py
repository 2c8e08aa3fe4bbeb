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


def screen_file(file: LoadedFile, *, with_credentials: bool = True) -> LoadedFile:
    """Remove entries and prose that must not be served from a file, and add findings for them.

    Args:
        file: the file.
        with_credentials: whether to look for credentials as well. A caller that searches the whole
            file by `find_credentials` does not need it.
    """
    from memory_ci.extraction.text_batch import check_each  # a note alone does not need it

    # The texts of all entries, then all prose, are checked by one call, which is faster.
    entry_texts = [_join_texts(located) for located in file.entries]
    prose_texts = [text for _, text in file.prose]
    texts = [text.replace("\r\n", "\n") for text in (*entry_texts, *prose_texts)]
    reasons = check_each(texts, credentials=with_credentials)
    entry_reasons = reasons[: len(entry_texts)]
    prose_reasons = reasons[len(entry_texts) :]

    all_findings = [*file.findings]
    safe_entries = []
    for located, reasons_of_entry in zip(file.entries, entry_reasons, strict=True):
        findings = list(_list_findings(located.path, located.line, reasons_of_entry))
        all_findings += findings
        if not findings:
            safe_entries.append(located)

    safe_prose = []
    for (line, text), reasons_of_text in zip(file.prose, prose_reasons, strict=True):
        findings = list(_list_findings(file.path, line, reasons_of_text))
        # Comments in prose, such as the introduction that `init` writes, are not served anyway.
        findings = [finding for finding in findings if finding.code != "html-comment"]
        all_findings += findings
        if not findings:
            safe_prose.append((line, text))
    return replace(
        file,
        entries=tuple(safe_entries),
        prose=tuple(safe_prose),
        findings=tuple(all_findings),
    )


def find_unsafe_entry(located: Located) -> Iterator[Finding]:
    """Return the findings that forbid to serve an entry; almost every entry has none.

    Args:
        located: the entry with its path and line.
    """
    return _find_unsafe(located.path, located.line, _join_texts(located), with_credentials=True)


def _join_texts(located: Located) -> str:
    """Return all that an entry may bring before an agent, one text below the other."""
    entry = located.entry
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
    texts.append(located.path)
    return "\n".join(texts)


def is_unsafe(text: str) -> bool:
    """Return whether a text must not be served to agents, by the rules for entries."""
    findings = _find_unsafe("", 1, text, with_credentials=True)
    return any(findings)


def is_unfit(text: str) -> bool:
    """Return whether a text from a session must not be in memory unless a person agrees to it.

    Nobody reviewed it, so the rules are stricter than those for entries: no web address, no markup,
    no claim about memory-ci, and no private data, such as a telephone number or an IP address.
    """
    from memory_ci.evidence.content import (
        redact,  # entries, which all commands screen_file, need it not
    )

    has_private_data = PRIVATE.search(text) is not None or redact(text).text != text
    return has_private_data or bool(find_urls(text)) or not is_plain(text) or is_unsafe(text)


def find_unsafe_text(path: str, line: int, text: str) -> Iterator[Finding]:
    """Return the findings that forbid to serve a text, without those on credentials.

    A caller that searches the whole file for credentials uses `find_credentials`.
    """
    return _find_unsafe(path, line, text, with_credentials=False)


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


def _find_unsafe(path: str, line: int, text: str, *, with_credentials: bool) -> Iterator[Finding]:
    """Yield a finding, at a line of a file, for each reason why a text must not be served.

    Args:
        path: the path of the file.
        line: the line.
        text: the text.
        with_credentials: whether to look for credentials as well.
    """
    reasons = check_words(text.replace("\r\n", "\n"), credentials=with_credentials)
    return _list_findings(path, line, reasons)


def _list_findings(path: str, line: int, reasons: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for each of the gate's reasons for which a text is not served."""
    for reason in reasons:
        if reason == "credential":
            message = "holds what looks like a credential"
            yield Finding(path, line, "credential", message, CREDENTIAL_HINT)
        elif reason in UNSAFE:
            yield Finding(path, line, reason, UNSAFE[reason], UNSAFE_HINT)
