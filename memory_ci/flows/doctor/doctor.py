"""Doctor: is everything in place, and does it work? Nothing is written, and nobody is asked over the network unless
that is wished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.flows.doctor.case import DoctorCheck, Surroundings
from memory_ci.flows.doctor.machine import (
    check_clock,
    check_engine,
    check_forge,
    check_guard,
    check_identity,
    check_versions,
)
from memory_ci.flows.doctor.memory import (
    check_cache,
    check_cursor,
    check_files,
    check_global,
    check_history,
    check_index,
    check_interrupted,
    check_sessions,
    check_vectors,
)
from memory_ci.flows.doctor.setup import check_agents, check_ci, check_hooks, check_merge_driver, check_pre_commit
from memory_ci.flows.workspace import Workspace, workspace_here
from memory_ci.gitrepo.process import offline
from memory_ci.gitrepo.repo import find_repository
from memory_ci.records.config import Config
from memory_ci.records.health import Diagnosis, Probe
from memory_ci.secrets import mask_secrets

CHECKS: tuple[tuple[str, DoctorCheck], ...] = (
    ("versions", check_versions),
    ("clock", check_clock),
    ("identity", check_identity),
    ("memory", check_files),
    ("interrupted", check_interrupted),
    ("global-memory", check_global),
    ("merge-driver", check_merge_driver),
    ("hooks", check_hooks),
    ("pre-commit", check_pre_commit),
    ("agents", check_agents),
    ("sessions", check_sessions),
    ("history", check_history),
    ("recorded", check_cursor),
    ("ci", check_ci),
    ("forge", check_forge),
    ("engine", check_engine),
    ("index", check_index),
    ("vectors", check_vectors),
    ("cache", check_cache),
    ("safety", check_guard),
)
"""What is looked at, in this order; each check is free to give no probe, one or several."""

LOOK = "Do what the message says, then run `memory-ci doctor` again."
LACKING = "promisor remote"
"""What git says of an object that a partial clone would have to fetch."""

BUG = "This is a fault of memory-ci: report it with this line."


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

    Raises RepositoryError (not-a-repository).
    """
    with nullcontext() if is_online else offline():
        workspace, configuration = _open(start)
        case = Surroundings(workspace, environ, now, python, is_online)
        probes = (probe for name, check in checks for probe in _run(name, check, case))
        return Diagnosis((configuration, *map(_sound, probes)))


def _open(start: Path) -> tuple[Workspace, Probe]:
    """The workspace, with the defaults where its configuration cannot be read."""
    repo = find_repository(start)
    try:
        found = workspace_here(repo)
    except UsageError as error:
        fault = Probe("configuration", "fail", error.message, f"{error.hint} Until then the defaults are looked at.")
        return Workspace(repo, Config()), _sound(fault)
    if not found.findings:
        return found, Probe("configuration", "ok", "can be read")
    unknown = "; ".join(finding.message for finding in found.findings)
    return found, _sound(Probe("configuration", "warn", unknown, found.findings[0].hint))


def _run(name: str, check: DoctorCheck, case: Surroundings) -> tuple[Probe, ...]:
    try:
        return tuple(check(case))
    except MemoryCIError as error:
        if not case.is_online and LACKING in error.message:
            return (Probe(name, "skip", "this partial clone lacks what is needed to tell; `--online` fetches it"),)
        return (Probe(name, "fail", f"{error.message} [{error.slug}]", error.hint or LOOK),)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks must be heard
        return (Probe(name, "fail", f"the check itself failed: {type(error).__name__}: {error}", BUG),)


def _sound(probe: Probe) -> Probe:
    """The probe without credentials, wherever its words come from."""
    return replace(probe, what=mask_secrets(probe.what), remedy=mask_secrets(probe.remedy))
