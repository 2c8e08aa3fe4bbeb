"""Tests of doctor's checks of agents, their hooks and their captured sessions."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from pathlib import Path

from memory_ci.commands.setup.agents import AgentOptions
from memory_ci.commands.setup.install import install, install_for_user
from memory_ci.memory.workspace import open_workspace
from memory_ci.sessions.session_note import SessionActivity, note_activity
from tests.commands.doctor.diagnosed_projects import one, probes
from tests.make import make_id
from tests.project import NOW, Project


def test_the_interpreter_of_an_agents_hook_is_looked_for_but_never_started(
    healthy: Project, tmp_path: Path
) -> None:
    settings = healthy.path / ".claude/settings.local.json"
    program, trace = tmp_path / "python3", tmp_path / "trace"
    program.write_text(f"#!/bin/sh\ntouch {trace}\n")
    program.chmod(0o755)
    settings.write_text(settings.read_text().replace(sys.executable, str(program)))
    assert "fail" not in states(healthy)
    assert not trace.exists()
    program.unlink()
    assert probes(healthy, "agents")[0].remedy == "memory-ci init --clone --agent claude-code"


def states(project: Project) -> list[str]:
    return [probe.state for probe in probes(project, "agents")]


def test_each_part_of_an_agent_has_a_row_with_its_last_use(healthy: Project) -> None:
    reads, asked, captures, server = probes(healthy, "agents")
    assert (reads.state, asked.state, captures.state, server.state) == ("skip", "ok", "ok", "ok")
    assert reads.remedy.startswith("start claude-code here")
    assert ("may write them" in asked.message, ".mcp.json" in server.message) == (True, True)
    note_activity(healthy.workspace, SessionActivity(agent="claude-code", session="s1", at=NOW))
    assert (
        "reads memory, last at a prompt of 2026-11-21 12:00" in probes(healthy, "agents")[0].message
    )
    install(
        healthy.workspace,
        sys.executable,
        agents=["claude-code"],
        serves_memory=False,
        asks_for_notes=False,
        is_mcp=False,
    )
    assert states(healthy) == ["skip", "skip", "ok"]


def test_the_last_commit_with_served_memory_is_shown_with_its_day(healthy: Project) -> None:
    text = f"Memory-Retrieved: {make_id(1)}"
    healthy.at(NOW).commit(f"One\n\n{text}\nMemory-Session: codex:0a1b", {"a.py": "1\n"})
    healthy.at(NOW).commit(
        f"Two\n\n{text}\nMemory-Session: codex:0a1c\nMemory-Surface: jules", {"a.py": "2\n"}
    )
    healthy.commit("Three\n\nMemory-Session: gemini:0a1d", {"a.py": "3\n"})
    (told,) = [
        each_probe.message
        for each_probe in probes(healthy, "agents")
        if "last committed by" in each_probe.message
    ]
    assert "codex on 2026-11-21" in told
    assert "jules on 2026-11-21" in told
    assert "gemini" not in told


def test_a_work_tree_without_hooks_of_an_agent_is_reported(
    healthy: Project, tmp_path: Path
) -> None:
    healthy.git("worktree", "add", "-q", str(tmp_path / "other"))
    *_, told = probes(healthy, "agents")
    assert (told.state, "reads nothing in the work tree" in told.message) == ("warn", True)
    install(open_workspace(tmp_path / "other"), sys.executable, agents=["claude-code"])
    assert "warn" not in states(healthy)
    note_activity(
        open_workspace(tmp_path / "other"),
        SessionActivity(agent="claude-code", session="s1", at=NOW),
    )
    assert probes(healthy, "agents")[-1].message.startswith(
        "claude-code last read at 2026-11-21 12:00 in the work tree"
    )


def test_an_agent_with_a_plugin_is_shown_with_its_last_use(project: Project) -> None:
    note_activity(project.workspace, SessionActivity(agent="codex", session="s1", at=NOW))
    (told_probe,) = probes(project, "agents")
    assert told_probe.state == "ok"
    assert told_probe.message.startswith("codex last read at 2026-11-21 12:00, by a plugin")


def test_hooks_in_the_home_directory_are_reported(project: Project) -> None:
    install_for_user(Path.home(), ["gemini"], AgentOptions(sys.executable, "user"))
    rows = probes(project, "agents")
    assert [row.state for row in rows] == ["skip", "ok", "ok"]
    assert rows[0].remedy.startswith("start gemini here")


def date_capture(project: Project, at: datetime) -> None:
    """Set the time at which the agent's hook was installed, independent of the clock."""
    for path in (
        project.path / ".claude/settings.local.json",
        project.path / ".git/memory-ci/made",
    ):
        os.utime(path, (at.timestamp(), at.timestamp()))


def test_tracked_settings_with_a_local_path_are_reported(healthy: Project) -> None:
    healthy.git("add", "-f", ".claude/settings.local.json")
    tracked, server = probes(healthy, "agents")
    assert (tracked.state, server.state) == ("warn", "ok")
    assert tracked.remedy.startswith("git rm --cached .claude/settings.local.json, commit that")


def test_work_merged_before_capture_was_set_up_needs_no_session(
    healthy: Project,
) -> None:
    for number in range(10):
        healthy.commit(f"Work {number}", {"a.txt": f"{number}\n"})
    date_capture(healthy, healthy.clock.now)
    probe = one(healthy, "sessions")
    assert (probe.state, probe.message) == ("skip", "nothing was merged since capture was set up")
    healthy.commit("Set memory-ci up", {".memory-ci.yaml": "# ours\n"})
    assert one(healthy, "sessions").state == "skip"
    healthy.commit("Work since", {"a.txt": "since\n"})
    assert one(healthy, "sessions").state == "warn"


def test_settings_rewritten_by_the_agent_do_not_change_the_start_of_capture(
    healthy: Project,
) -> None:
    healthy.write(".git/memory-ci/made", f"{healthy.path}/.claude/settings.local.json\n")
    date_capture(healthy, healthy.clock.now)
    for number in range(10):
        healthy.commit(f"Work {number}", {"a.txt": f"{number}\n"})
    later = healthy.clock.now.timestamp() + 60
    os.utime(healthy.path / ".claude/settings.local.json", (later, later))
    assert one(healthy, "sessions").state == "warn"


def test_capture_without_any_session_is_reported(healthy: Project) -> None:
    date_capture(healthy, healthy.clock.now)
    for number in range(10):
        healthy.commit(f"Work {number}", {"a.txt": f"{number}\n"})
    probe = one(healthy, "sessions")
    assert probe.state == "warn"
    assert (
        "none of the last 10 merged changes has a session, though sessions are captured"
        in probe.message
    )


def test_where_nothing_captures_sessions_their_absence_is_no_second_warning(
    project: Project,
) -> None:
    assert [one(project, name).state for name in ("agents", "sessions")] == ["skip", "skip"]
    assert one(project, "agents").remedy.startswith(
        "optional: memory-ci init --clone --agent claude-code"
    )
