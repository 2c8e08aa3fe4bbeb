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
    """Write `.premortem.md`: a plan, and what may go wrong with it.

    The risks are entries of memory on such work, and risks that a model expects. If the model
    fails, those of memory are written, and the result has a warning.

    Args:
        workspace: the repository and its configuration.
        directory: the directory of the file.
        plan: the text of the plan.
        today: the day that counts as today.
        engine: the model; None: no model is asked.
        dry_run: write nothing.

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

    risks = _list_remembered_risks(workspace, plan, today)
    warning = ""
    if engine:
        expected_risks, warning = _ask_model_for_risks(engine, plan)
        risks += expected_risks
    text = render_premortem(plan, risks)
    if not dry_run:
        write_file(path, text.encode(), work_tree(workspace))
    return JobFile(str(path), text, warning)


def _list_remembered_risks(workspace: Workspace, plan: str, today: date) -> list[Risk]:
    """Return the entries of memory that a search for the plan finds, as risks."""
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


def _ask_model_for_risks(engine: Engine, plan: str) -> tuple[list[Risk], str]:
    """Ask a model for the risks of a plan.

    Risks are left out whose words must not be in memory, such as a credential or a prompt
    injection, or that cannot be read.

    Returns:
        The risks that may be written, and a warning on risks that were left out or on a failure of
            the model, "" for no warning.
    """
    evidence = Evidence(
        id="e1",
        kind="intent",
        text=plan,
        trust="T1",  # the words of a person
        origin=Origin(kind="file", id="plan"),
        at=UNKNOWN_TIME,
    )
    try:
        answer = engine.extract(Request(change="a plan", evidence=(evidence,), task="premortem"))
        risks, unreadable = reply.parse_risks(answer.text)
    except EngineError as error:
        return [], f"{error.message} [{error.slug}]"

    accepted_risks = []
    for risk in risks:
        text = "\n".join((risk.title, risk.why, risk.signal, risk.mitigation))
        reasons_to_refuse = check_words(text)
        if reasons_to_refuse:
            continue
        accepted_risks.append(
            Risk(
                title=risk.title,
                why=risk.why,
                signal=risk.signal,
                mitigation=risk.mitigation,
                source="a model",
            )
        )
    warnings = []
    if len(accepted_risks) < len(risks):
        count = plural(len(risks) - len(accepted_risks), "risk")
        warnings.append(f"{count} of the model left out: refused by the gate")
    if unreadable:
        count = plural(len(unreadable), "risk")
        reasons = ", ".join(dict.fromkeys(unreadable))
        warnings.append(f"{count} of the model left out: not readable ({reasons})")
    return accepted_risks[:MAX_RISKS], "; ".join(warnings)


def append_assumption(
    workspace: Workspace, directory: Path, assumption: Assumption, *, dry_run: bool
) -> JobFile:
    """Add an assumption of the work as a line to `.assumptions.jsonl`, unless the last is the same.

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
    """Add a line to the file of assumptions, unless its last line is the same but for the time."""
    old_lines = b""
    if path.exists():
        old_lines = _read_file(path, MAX_LOG_BYTES)
    new_line = msgspec.json.encode(assumption) + b"\n"
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        last_line = old_lines.rstrip().rpartition(b"\n")[2]
        last_assumption = msgspec.json.decode(last_line, type=Assumption)
        if replace(last_assumption, at=assumption.at) == assumption:
            return JobFile(str(path), new_line.decode(), is_new=False)
    if old_lines and not old_lines.endswith(b"\n"):
        old_lines += b"\n"
    if not dry_run:
        write_file(path, old_lines + new_line, work_tree(workspace))
    return JobFile(str(path), new_line.decode())


def _check_assumption(assumption: Assumption) -> None:
    """Refuse an assumption that is empty, too long, or has text that must not be committed.

    Raises:
        FindingsError: refused-text.
        UsageError: empty-assumption, long-assumption.
    """
    text = "\n".join((assumption.assumption, assumption.because, assumption.milestone))
    if not assumption.assumption.strip():
        hint = "Write the assumption as one sentence."
        raise UsageError("the assumption is empty", slug="empty-assumption", hint=hint)
    if len(text) > MAX_ASSUMPTION:
        message = f"the assumption has {len(text)} characters, over the limit of {MAX_ASSUMPTION}"
        raise UsageError(message, slug="long-assumption", hint="Say it in a sentence or two.")
    for reason in check_words(text):
        message = f"not added: the text is refused ({reason})"
        hint = "Say it in plain words, without credentials or instructions to agents."
        raise FindingsError(message, slug="refused-text", hint=hint)


def _read_file(path: Path, limit: int) -> bytes:
    """Read a file of at most `limit` bytes.

    Raises:
        RepositoryError: not-a-file.
    """
    try:
        return read_regular(path, limit)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        hint = "Put a regular file in its place."
        raise RepositoryError(message, slug="not-a-file", hint=hint) from error
