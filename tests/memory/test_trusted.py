"""Tests of the trusted configuration: no change decides for itself whom to trust."""

from __future__ import annotations

import hashlib

import pytest

from memory_ci.config import CONFIG_FILE, POLICY_FILE
from memory_ci.memory.model import trust_config_at
from memory_ci.records.config import Config
from tests.project import Project

OURS = "engine:\n  name: rules\nextraction:\n  trusted_authors: ['Ada *']\n"
THEIRS = "engine:\n  name: command\nextraction:\n  trusted_authors: ['*']\n"
UNREADABLE = OURS + ": : [\n"
POLICY = "engine:\n  allowed: [rules]\n  max_cost_usd: 0.5\n"
EXTENDS = f"extends: ../policy@v1 sha256:{hashlib.sha256(POLICY.encode()).hexdigest()}\n"


def read_trusted(project: Project, *texts: str) -> Config:
    """Commit configurations one after another, and return the configuration that a run at the last one trusts."""
    for number, text in enumerate(texts):
        project.commit(f"Configure {number}", {CONFIG_FILE: text, POLICY_FILE: POLICY})
    repo = project.workspace.repo
    return trust_config_at(repo, project.sha()).config


def test_a_change_cannot_set_its_engine_or_trusted_authors(project: Project) -> None:
    config = read_trusted(project, OURS, THEIRS)
    assert config.engine.name == "rules"
    assert config.extraction.trusted_authors == ("Ada *",)


def test_the_change_after_it_uses_the_new_configuration(project: Project) -> None:
    config = read_trusted(project, OURS, THEIRS)
    project.commit("Work", {"src/client.py": "x = 1\n"})
    config = trust_config_at(project.workspace.repo, project.sha()).config
    assert config.engine.name == "command"


def test_a_change_that_fixes_an_unreadable_configuration_does_not_trust_itself(
    project: Project,
) -> None:
    config = read_trusted(project, OURS, UNREADABLE, UNREADABLE + "\n", THEIRS)
    assert config.engine.name == "rules"
    assert config.extraction.trusted_authors == ("Ada *",)


def test_without_any_readable_configuration_nobody_is_trusted(project: Project) -> None:
    project.git("checkout", "-q", "--orphan", "other")
    config = read_trusted(project, UNREADABLE, THEIRS)
    assert config.engine == Config().engine
    assert config.extraction.trusted_authors == ()


def test_a_policy_restricts_the_run_that_adopts_it(project: Project) -> None:
    config = read_trusted(project, THEIRS, EXTENDS + THEIRS)
    assert config.engine.allowed == ("rules",)
    assert config.engine.max_cost_usd == 0.5


def test_a_change_that_adopts_the_required_policy_does_not_trust_itself(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_CI_POLICY", f"sha256:{hashlib.sha256(POLICY.encode()).hexdigest()}")
    project.commit("Start", {CONFIG_FILE: OURS})
    config = read_trusted(project, EXTENDS + THEIRS)
    assert config.engine.name == "rules"
    assert config.extraction.trusted_authors == ("Ada *",)
    assert config.engine.allowed == ("rules",)
