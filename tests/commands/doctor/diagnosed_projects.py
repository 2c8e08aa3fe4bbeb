"""Helpers that return doctor's results for a project, all or those of one check."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta

from memory_ci.commands.doctor.doctor import CHECKS, diagnose
from memory_ci.commands.doctor.records import Diagnosis, Probe
from tests.project import NOW, Project
from tests.repos import RepoBuilder

NOBODY = "/nowhere/bin/python3"


WITHOUT_EMBEDDER = {"MEMORY_CI_EMBEDDER": "none"}


def look(repo: RepoBuilder, environ: Mapping[str, str] = WITHOUT_EMBEDDER) -> Diagnosis:
    return diagnose(repo.path, environ, NOW, sys.executable)


def probes(
    repo: RepoBuilder,
    name: str,
    environ: Mapping[str, str] = WITHOUT_EMBEDDER,
    *,
    is_online: bool = False,
) -> list[Probe]:
    """Return the results of one check."""
    checks = [check for check in CHECKS if check[0] == name]
    diagnosis = diagnose(
        repo.path, environ, NOW, sys.executable, is_online=is_online, checks=checks
    )
    return [probe for probe in diagnosis.probes if probe.name == name]


def one(
    repo: RepoBuilder,
    name: str,
    environ: Mapping[str, str] = WITHOUT_EMBEDDER,
    *,
    is_online: bool = False,
) -> Probe:
    (probe,) = probes(repo, name, environ, is_online=is_online)
    return probe


def amiss(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [
        (probe.name, probe.state) for probe in diagnosis.probes if probe.state in ("warn", "fail")
    ]


def commit_from_the_future(project: Project) -> None:
    project.at(NOW + timedelta(days=400)).commit("Later")
