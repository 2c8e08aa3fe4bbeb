"""Tests of `doctor --privacy`: what leaves the machine, to which address, and since when."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import msgspec

from memory_ci.commands.doctor.doctor import diagnose
from memory_ci.commands.doctor.machine import PRIVACY_CHECKS
from memory_ci.commands.doctor.records import Probe
from memory_ci.gitrepo.sessionrefs import store
from memory_ci.sessions.active_session import push_sessions
from memory_ci.sessions.public_remote import KnownAudience, find_audience
from tests.project import NOW, Project


def look(project: Project, **environ: str) -> dict[str, Probe]:
    diagnosis = diagnose(project.path, environ, NOW, sys.executable, checks=PRIVACY_CHECKS)
    assert not [probe for probe in diagnosis.probes if probe.state == "fail"]
    return {probe.name: probe for probe in diagnosis.probes}


def test_a_plain_clone_sends_nothing(project: Project) -> None:
    rows = look(project)
    assert {name: row.state for name, row in rows.items() if row.state != "ok"} == {}
    assert {
        "model",
        "embedder",
        "collector",
        "sessions",
        "memory",
        "global",
        "agents",
        "forge",
        "holdout",
    } <= set(rows)


def test_data_that_leaves_the_machine_is_listed_with_target_and_day(
    project: Project, tmp_path: Path
) -> None:
    project.git("remote", "add", "origin", str(project.bare(tmp_path / "bare").path))
    store(project.workspace.repo, "codex", "s1", {"digest.jsonl": b"{}\n", "notes.md": b"x"}, NOW)
    assert push_sessions(project.workspace, "origin", {}, NOW)
    config = "engine: {name: command}\nretrieve: {embedder: openai, holdout: 0.1}\nevidence: {quotes: link}\n"
    project.commit("Configure", {".memory-ci.yaml": config, "AGENTS.md": "x\n"})
    project.write(".memory-ci.yaml", config)
    rows = look(project, MEMORY_CI_ENGINE_COMMAND="cat", OPENAI_API_KEY="k")
    assert (
        rows["model"].state
        == rows["embedder"].state
        == rows["sessions"].state
        == rows["memory"].state
        == "out"
    )
    assert (
        rows["sessions"].message
        == "1 session, 1 with notes, to origin since 2026-11-21; strangers cannot read it"
    )
    assert "links to what people said" in rows["memory"].message
    assert "since 2026-01-05" in rows["memory"].message
    assert "openai" in rows["embedder"].message
    assert rows["holdout"].message.startswith("10% of sessions")


def test_sessions_on_a_public_remote_are_something_to_do(project: Project) -> None:
    address = "https://github.invalid/acme/shop"
    project.git("remote", "add", "origin", address)
    stored = store(project.workspace.repo, "codex", "s1", {"digest.jsonl": b"{}\n"}, NOW)
    project.git("update-ref", "refs/memory-ci/pushed/origin/codex/s1", stored.oid)
    assert find_audience(project.workspace, "origin", {}, NOW, may_ask=False).readers == "unknown"
    known_values = {
        hashlib.sha256(address.encode()).hexdigest()[:16]: KnownAudience("anybody", NOW)
    }
    place = project.path / ".git" / "memory-ci" / "remotes.json"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(msgspec.json.encode(known_values))
    assert look(project)["sessions"].state == "warn"
