"""What a job writes down for the merge to be held against: a pre-mortem before, assumptions on the way."""

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
from memory_ci.files import read_regular
from memory_ci.memory.workspace import Workspace, work_tree
from memory_ci.records.candidate import Request
from memory_ci.records.episode import Assumption, Risk
from memory_ci.records.event import UNKNOWN_TIME, Evidence, Origin
from memory_ci.sources.commits import ASSUMPTIONS, PREMORTEM
from memory_ci.store.files import write_file
from memory_ci.text import plural

MAX_RISKS = 10
MAX_SAID = 2_000  # Characters of an assumption with its milestone and what became of it.
MAX_LOG_BYTES = 10_000_000
MAX_PLAN_BYTES = 10_000_000


class JobFile(msgspec.Struct, frozen=True):
    """A job file and the text that was put there; `warning` says what an engine could not add. `is_new`: the file did
    not say so already."""

    path: str
    text: str
    warning: str = ""
    is_new: bool = True


def write_premortem(
    workspace: Workspace,
    where: Path,
    plan: str,
    today: date,
    engine: Engine | None,
    *,
    force: bool,
    dry_run: bool,
) -> JobFile:
    """Write `.premortem.md` from a plan: what memory knows to have gone wrong, and what a model expects to.

    A model that fails leaves what memory knows. Raises UsageError (empty-plan, premortem-exists), RepositoryError
    (bare-repository, outside-repository, write-failed).
    """
    plan = redact(plan).text.strip()
    if not plan:
        raise UsageError(
            "the plan is empty",
            slug="empty-plan",
            hint="Name a file with the plan, or pipe one in.",
        )
    path = where / PREMORTEM
    if path.exists() and not force:
        hint = "Read it first; --force replaces it."
        raise UsageError(f"{path} is there already", slug="premortem-exists", hint=hint)
    known = retrieve(
        workspace,
        plan,
        RetrieveOptions(types=("corrective", "declarative"), limit=MAX_RISKS),
        today,
    )
    remembered = [
        Risk(
            title=one.title,
            why=one.body,
            mitigation=one.instead or "",
            source=f"memory {one.id[:8]}",
        )
        for one in (hit.located.entry for hit in known.hits)
    ]
    expected, warning = _ask_model(engine, plan) if engine else ([], "")
    text = render_premortem(plan, (*remembered, *expected))
    if not dry_run:
        write_file(path, text.encode(), work_tree(workspace))
    return JobFile(str(path), text, warning)


def read_plan(path: Path) -> str:
    """The plan in a file. Raises RepositoryError (not-a-file)."""
    return _read(path, MAX_PLAN_BYTES).decode("utf-8", "replace")


def _ask_model(engine: Engine, plan: str) -> tuple[list[Risk], str]:
    """What a model expects to go wrong, less what must not be written; and which risks are not written, and why."""
    piece = Evidence(
        id="e1",
        kind="intent",
        text=plan,
        trust="T1",
        origin=Origin(kind="file", id="plan"),
        at=UNKNOWN_TIME,
    )
    try:
        answer = engine.extract(Request(change="a plan", evidence=(piece,), task="premortem"))
        risks, reasons = reply.parse_risks(answer.text)
    except EngineError as error:
        return [], f"{error.message} [{error.slug}]"
    kept = [
        one
        for one in risks
        if not check_words("\n".join((one.title, one.why, one.signal, one.mitigation)))
    ]
    warnings = []
    if refused := len(risks) - len(kept):
        warnings.append(f"{plural(refused, 'risk')} of the model left out: refused by the gate")
    if reasons:
        told = ", ".join(dict.fromkeys(reasons))
        warnings.append(
            f"{plural(len(reasons), 'risk')} of the model left out: not readable ({told})"
        )
    written = [
        Risk(
            title=one.title,
            why=one.why,
            signal=one.signal,
            mitigation=one.mitigation,
            source="a model",
        )
        for one in kept[:MAX_RISKS]
    ]
    return written, "; ".join(warnings)


def append_assumption(
    workspace: Workspace, where: Path, assumption: Assumption, *, dry_run: bool
) -> JobFile:
    """Add one line to `.assumptions.jsonl`, if the last says something else; what stands there is kept byte by byte.

    Raises UsageError (empty-assumption, long-assumption), FindingsError (refused-text) for what must not be in a
    committed file, RepositoryError (bare-repository, outside-repository, not-a-file, write-failed).
    """
    _refuse_unfit(assumption)
    path = where / ASSUMPTIONS
    if path.is_symlink():  # what it leads to would be copied into a file that is committed
        hint = "Replace it by a file."
        raise RepositoryError(f"{path} is a symbolic link", slug="outside-repository", hint=hint)
    before = _read(path, MAX_LOG_BYTES) if path.exists() else b""
    line = msgspec.json.encode(assumption) + b"\n"
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        last = msgspec.json.decode(before.rstrip().rpartition(b"\n")[2], type=Assumption)
        if replace(last, at=assumption.at) == assumption:
            return JobFile(str(path), line.decode(), is_new=False)
    separator = b"" if not before or before.endswith(b"\n") else b"\n"
    if not dry_run:
        write_file(path, before + separator + line, work_tree(workspace))
    return JobFile(str(path), line.decode())


def _refuse_unfit(assumption: Assumption) -> None:
    said = "\n".join((assumption.assumption, assumption.because, assumption.milestone))
    if not assumption.assumption.strip():
        hint = "Say in a sentence what is taken for granted."
        raise UsageError("the assumption is empty", slug="empty-assumption", hint=hint)
    if len(said) > MAX_SAID:
        message = f"the assumption has {len(said)} characters, over the limit of {MAX_SAID}"
        raise UsageError(message, slug="long-assumption", hint="Say it in a sentence or two.")
    for reason in check_words(said):
        hint = "Say it in plain words, without credentials or instructions to agents."
        raise FindingsError(
            f"not added: the text is refused ({reason})", slug="refused-text", hint=hint
        )


def _read(path: Path, limit: int) -> bytes:
    try:
        return read_regular(path, limit)
    except OSError as error:
        message, hint = (
            f"{path} cannot be read: {error.strerror}",
            "Put a regular file in its place.",
        )
        raise RepositoryError(message, slug="not-a-file", hint=hint) from error
