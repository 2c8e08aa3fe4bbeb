"""Doctor: is everything in place, and does it work? Nothing is written, and nobody is asked over the network unless
that is wished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from memory_ci.commands.doctor import machine, memory, setup
from memory_ci.commands.doctor.case import DoctorCheck, Surroundings
from memory_ci.commands.doctor.records import Diagnosis, Probe
from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.gitrepo.repo import find_repository
from memory_ci.memory.workspace import Workspace, workspace_here
from memory_ci.records.config import Config
from memory_ci.secrets import mask_secrets

CHECKS: tuple[tuple[str, DoctorCheck], ...] = (
    ("versions", machine.check_versions),
    ("clock", machine.check_clock),
    ("identity", machine.check_identity),
    ("memory", memory.check_files),
    ("interrupted", memory.check_interrupted),
    ("global-memory", memory.check_global),
    ("merge-driver", setup.check_merge_driver),
    ("hooks", setup.check_hooks),
    ("pre-commit", setup.check_pre_commit),
    ("agents", setup.check_agents),
    ("sessions", memory.check_sessions),
    ("history", memory.check_history),
    ("recorded", memory.check_cursor),
    ("ci", setup.check_ci),
    ("forge", machine.check_forge),
    ("engine", machine.check_engine),
    ("index", memory.check_index),
    ("vectors", memory.check_vectors),
    ("cache", memory.check_cache),
    ("safety", machine.check_guard),
)
"""What is looked at, in this order; each check is free to give no probe, one or several."""

LOOK = "Do what the message says, then run `memory-ci doctor` again."
BUG = "This is a fault of memory-ci: report it with this line."
LACKING = "promisor remote"  # git's words for an object that a partial clone would have to fetch


def diagnose(
    start: Path,
    environ: Mapping[str, str],
    now: datetime,
    python: str,
    *,
    is_online: bool = False,
    checks: Iterable[tuple[str, DoctorCheck]] = CHECKS,
) -> Diagnosis:
    """Every check in the repository around `start`; one that crashes is a failure of its own, and the others go on.
    Raises RepositoryError (not-a-repository)."""
    workspace, configuration = _open(start)
    case = Surroundings(workspace, environ, now, python, is_online)
    probes = [
        configuration,
        *(probe for name, check in checks for probe in _run(name, check, case)),
    ]
    # Without credentials, wherever its words come from.
    masked = (
        replace(one, what=mask_secrets(one.what), remedy=mask_secrets(one.remedy)) for one in probes
    )
    return Diagnosis(tuple(masked))


def _open(start: Path) -> tuple[Workspace, Probe]:
    """The workspace, with the defaults where its configuration cannot be read."""
    repo = find_repository(start)
    try:
        found = workspace_here(repo)
    except UsageError as error:
        remedy = f"{error.hint} Until then the defaults are looked at."
        return Workspace(repo, Config()), Probe("configuration", "fail", error.message, remedy)
    if not found.findings:
        return found, Probe("configuration", "ok", "can be read")
    unknown = "; ".join(finding.message for finding in found.findings)
    return found, Probe("configuration", "warn", unknown, found.findings[0].hint)


def _run(name: str, check: DoctorCheck, case: Surroundings) -> tuple[Probe, ...]:
    try:
        return tuple(check(case))
    except MemoryCIError as error:
        if LACKING in error.message:
            return (
                Probe(
                    name,
                    "skip",
                    "this partial clone lacks what is needed to tell; `git fetch --refetch --no-filter` gets it",
                ),
            )
        return (Probe(name, "fail", f"{error.message} [{error.slug}]", error.hint or LOOK),)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks must be heard
        return (
            Probe(name, "fail", f"the check itself failed: {type(error).__name__}: {error}", BUG),
        )
