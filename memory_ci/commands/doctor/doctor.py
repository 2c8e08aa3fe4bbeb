"""`memory-ci doctor`: the list of its checks of the set-up, and their run.

Nothing is written, and the network is used only if the user asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from memory_ci import progress
from memory_ci.commands.doctor import agents, machine, memory, setup
from memory_ci.commands.doctor.context import DoctorCheck, DoctorContext
from memory_ci.commands.doctor.records import Diagnosis, Probe
from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.gitrepo.repo import find_repository
from memory_ci.memory.workspace import Workspace, configure_from_work_tree
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
    ("agents", agents.check_agents),
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
"""The checks in their order; a check gives any number of probes."""

RUN_AGAIN = "Do what the message says, then run `memory-ci doctor` again."
REPORT_BUG = "This is a fault of memory-ci: report it with this line."
MISSING_OBJECT_TEXT = "promisor remote"
"""Words of git's message on an object that a partial clone would have to fetch."""


def diagnose(
    start: Path,
    environ: Mapping[str, str],
    now: datetime,
    python: str,
    *,
    is_online: bool = False,
    checks: Iterable[tuple[str, DoctorCheck]] = CHECKS,
) -> Diagnosis:
    """Run every check in the repository around `start`.

    A check that crashes is a failure of its own, and the others go on.

    Args:
        start: a directory of the repository.
        environ: the environment.
        now: the time.
        python: the interpreter that runs.
        is_online: checks may use the network.
        checks: the checks and their names.

    Raises:
        RepositoryError: not-a-repository.
    """
    workspace, configuration = _open_workspace(start)
    context = DoctorContext(workspace, environ, now, python, is_online)
    probes = [configuration]
    for name, check in progress.count("Looking", tuple(checks)):
        probes += _run_check(name, check, context)
    return Diagnosis(tuple(_mask_credentials(probe) for probe in probes))


def _mask_credentials(probe: Probe) -> Probe:
    return replace(probe, message=mask_secrets(probe.message), remedy=mask_secrets(probe.remedy))


def _open_workspace(start: Path) -> tuple[Workspace, Probe]:
    """Return the workspace around a directory, and a probe of its configuration.

    If the configuration cannot be read, the workspace has the defaults.

    Raises:
        RepositoryError: not-a-repository.
    """
    repo = find_repository(start)
    try:
        workspace = configure_from_work_tree(repo)
    except UsageError as error:
        remedy = f"{error.hint} Until then the defaults are looked at."
        return Workspace(repo, Config()), Probe("configuration", "fail", error.message, remedy)
    findings = workspace.findings
    if not findings:
        return workspace, Probe("configuration", "ok", "can be read")
    messages = "; ".join(finding.message for finding in findings)
    return workspace, Probe("configuration", "warn", messages, findings[0].hint)


def _run_check(name: str, check: DoctorCheck, context: DoctorContext) -> tuple[Probe, ...]:
    """Return the probes of a check, or one probe for the error that it raises."""
    try:
        return tuple(check(context))
    except MemoryCIError as error:
        if MISSING_OBJECT_TEXT in error.message:
            message = (
                "this partial clone lacks the objects for this check; "
                "`git fetch --refetch --no-filter` gets them"
            )
            return (Probe(name, "skip", message),)
        return (Probe(name, "fail", f"{error.message} [{error.slug}]", error.hint or RUN_AGAIN),)
    except Exception as error:  # noqa: BLE001 - a bug of one check must not stop the others
        message = f"the check itself failed: {type(error).__name__}: {error}"
        return (Probe(name, "fail", message, REPORT_BUG),)
