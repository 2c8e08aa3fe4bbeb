"""Files that a job writes to compare with its result: a pre-mortem, and assumptions."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memory_ci.commands.episodes.text import render_premortem
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import retrieve
from memory_ci.errors import EngineError, FindingsError, RepositoryError, UsageError
from memory_ci.evidence.content import redact
from memory_ci.extraction import reply
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.gate import check_words
from memory_ci.files import hold_lock, read_regular
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.records.candidate import Request
from memory_ci.records.episode import Assumption, Risk
from memory_ci.records.event import UNKNOWN_TIME, Evidence, Origin
from memory_ci.sources.commits import ASSUMPTIONS, PREMORTEM
from memory_ci.store.files import write_file
from memory_ci.text import plural

MAX_RISKS = 10
MAX_ASSUMPTION = 2_000  # Characters of an assumption with its milestone and reason.
MAX_LOG_BYTES = 10_000_000
MAX_PLAN_BYTES = 10_000_000


class JobFile(msgspec.Struct, frozen=True):
    """A file of a job and the text that was written.

    Attributes:
        warning: a message on risks that an engine could not add.
        is_new: the file did not hold the text before.
    """

    path: str
    text: str
    warning: str = ""
    is_new: bool = True


def write_premortem(
    workspace: Workspace,
    directory: Path,
    plan: str,
    today: date,
    engine: Engine | None,
    *,
    dry_run: bool,
) -> JobFile:
    """Write `.premortem.md` from a plan: risks from memory, and risks that a model expects.

    A model that fails leaves the risks from memory.

    Raises:
        RepositoryError: bare-repository, outside-repository, write-failed.
        UsageError: empty-plan, premortem-exists.
    """
    plan = redact(plan).text.strip()
    if not plan:
        hint = "Name a file with the plan, or pipe one in."
        raise UsageError("the plan is empty", slug="empty-plan", hint=hint)
    path = directory / PREMORTEM
    if path.exists():
        hint = "Read it first, and remove it for another."
        raise UsageError(f"{path} is there already", slug="premortem-exists", hint=hint)

    risks = _list_remembered(workspace, plan, today)
    warning = ""
    if engine:
        expected, warning = _ask_model(engine, plan)
        risks += expected
    text = render_premortem(plan, risks)
    if not dry_run:
        write_file(path, text.encode(), work_tree(workspace))
    return JobFile(str(path), text, warning)


def _list_remembered(workspace: Workspace, plan: str, today: date) -> list[Risk]:
    """List the risks of such work that memory has entries on."""
    options = RetrieveOptions(types=("corrective", "declarative"), limit=MAX_RISKS)
    risks = []
    for hit in retrieve(workspace, plan, options, today).hits:
        entry = hit.located.entry
        risks.append(
            Risk(
                title=entry.title,
                why=entry.body,
                mitigation=entry.instead or "",
                source=f"memory {entry.id[:8]}",
            )
        )
    return risks


def read_plan(path: Path) -> str:
    """Read a plan from a file.

    Raises:
        RepositoryError: not-a-file.
    """
    return _read_file(path, MAX_PLAN_BYTES).decode("utf-8", "replace")


def _ask_model(engine: Engine, plan: str) -> tuple[list[Risk], str]:
    """Ask a model for the risks of a plan.

    Returns:
        The risks that may be written, and a warning about the others or about a failure.
    """
    evidence = Evidence(
        id="e1",
        kind="intent",
        text=plan,
        trust="T1",
        origin=Origin(kind="file", id="plan"),
        at=UNKNOWN_TIME,
    )
    try:
        answer = engine.extract(Request(change="a plan", evidence=(evidence,), task="premortem"))
        risks, unreadable = reply.parse_risks(answer.text)
    except EngineError as error:
        return [], f"{error.message} [{error.slug}]"

    accepted = []
    for risk in risks:
        words = "\n".join((risk.title, risk.why, risk.signal, risk.mitigation))
        if not check_words(words):
            accepted.append(
                Risk(
                    title=risk.title,
                    why=risk.why,
                    signal=risk.signal,
                    mitigation=risk.mitigation,
                    source="a model",
                )
            )
    warnings = []
    if len(accepted) < len(risks):
        count = plural(len(risks) - len(accepted), "risk")
        warnings.append(f"{count} of the model left out: refused by the gate")
    if unreadable:
        count = plural(len(unreadable), "risk")
        reasons = ", ".join(dict.fromkeys(unreadable))
        warnings.append(f"{count} of the model left out: not readable ({reasons})")
    return accepted[:MAX_RISKS], "; ".join(warnings)


def append_assumption(
    workspace: Workspace, directory: Path, assumption: Assumption, *, dry_run: bool
) -> JobFile:
    """Add one line to `.assumptions.jsonl`, unless the last line says the same.

    Other lines stay unchanged, byte by byte.

    Raises:
        FindingsError: refused-text, for text that must not be committed.
        RepositoryError: bare-repository, outside-repository, not-a-file, write-failed.
        UsageError: empty-assumption, long-assumption.
    """
    _check_assumption(assumption)
    path = directory / ASSUMPTIONS
    if path.is_symlink():  # The content of its target would be copied into a committed file.
        hint = "Replace it by a file."
        raise RepositoryError(f"{path} is a symbolic link", slug="outside-repository", hint=hint)
    if dry_run:
        return _append_line(workspace, path, assumption, dry_run=True)
    try:
        # Two agents may note at the same time: each must see the line of the other.
        with hold_lock(workspace.repo.common_dir / "memory-ci" / "assumptions"):
            return _append_line(workspace, path, assumption, dry_run=False)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        hint = "Make the repository writable."
        raise RepositoryError(message, slug="write-failed", hint=hint) from error


def _append_line(
    workspace: Workspace, path: Path, assumption: Assumption, *, dry_run: bool
) -> JobFile:
    """Add a line to the file of assumptions, unless its last line says the same."""
    before = _read_file(path, MAX_LOG_BYTES) if path.exists() else b""
    line = msgspec.json.encode(assumption) + b"\n"
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        last = msgspec.json.decode(before.rstrip().rpartition(b"\n")[2], type=Assumption)
        if replace(last, at=assumption.at) == assumption:
            return JobFile(str(path), line.decode(), is_new=False)
    separator = b"" if not before or before.endswith(b"\n") else b"\n"
    if not dry_run:
        write_file(path, before + separator + line, work_tree(workspace))
    return JobFile(str(path), line.decode())


def _check_assumption(assumption: Assumption) -> None:
    text = "\n".join((assumption.assumption, assumption.because, assumption.milestone))
    if not assumption.assumption.strip():
        hint = "Say in a sentence what is taken for granted."
        raise UsageError("the assumption is empty", slug="empty-assumption", hint=hint)
    if len(text) > MAX_ASSUMPTION:
        message = f"the assumption has {len(text)} characters, over the limit of {MAX_ASSUMPTION}"
        raise UsageError(message, slug="long-assumption", hint="Say it in a sentence or two.")
    for reason in check_words(text):
        message = f"not added: the text is refused ({reason})"
        hint = "Say it in plain words, without credentials or instructions to agents."
        raise FindingsError(message, slug="refused-text", hint=hint)


def _read_file(path: Path, limit: int) -> bytes:
    try:
        return read_regular(path, limit)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        hint = "Put a regular file in its place."
        raise RepositoryError(message, slug="not-a-file", hint=hint) from error
