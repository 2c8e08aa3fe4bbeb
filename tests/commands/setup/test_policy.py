"""Tests of a platform's policy: pinned by digest, and it can only narrow settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_ci.commands.check.verify import verify_change
from memory_ci.commands.publish.publish import PublishOptions, publish_mode
from memory_ci.commands.setup.policy import SOURCE_FILE, pin_policy
from memory_ci.config import CONFIG_FILE, POLICY_FILE
from memory_ci.errors import MemoryCIError, UsageError
from memory_ci.memory.model import choose_model
from memory_ci.memory.workspace import configure_from_work_tree, workspace_at
from memory_ci.records.config import Config
from tests.project import Project
from tests.remote import Publisher, make_remote
from tests.repos import RepoBuilder, make_repo

POLICY = """engine:
  allowed: [rules, anthropic]
  max_cost_usd: 2
  max_cost_usd_month: 20
publish:
  allowed: [pr]
"""


@pytest.fixture
def platform(tmp_path: Path) -> RepoBuilder:
    repo = make_repo(tmp_path / "policy")
    repo.commit("Policy", {SOURCE_FILE: POLICY})
    repo.git("tag", "v1")
    return repo


def extend(project: Project, platform: RepoBuilder, own: str = "") -> Config:
    """Commit a configuration of the project that extends the policy, and return the effective one."""
    project.write(CONFIG_FILE, own)
    pin_policy(project.path, f"{platform.path}@v1", {}, write=True)
    project.git("add", ".")
    project.commit("Extend")
    return workspace_at(project.workspace.repo, "HEAD").config


@pytest.mark.parametrize(
    ("own", "run", "month", "allowed"),
    [
        ("", 2, 20, ("rules", "anthropic")),
        ("engine: {max_cost_usd: 1, max_cost_usd_month: 50}\n", 1, 20, ("rules", "anthropic")),
        ("engine: {max_cost_usd: 0, allowed: [rules, command]}\n", 2, 20, ("rules",)),
        ("engine: {allowed: [command]}\n", 2, 20, ("rules",)),
    ],
)
def test_the_lower_of_two_limits_and_the_intersection_of_two_lists_apply(
    project: Project,
    platform: RepoBuilder,
    own: str,
    run: float,
    month: float,
    allowed: tuple[str, ...],
) -> None:
    engine = extend(project, platform, own).engine
    assert (engine.max_cost_usd, engine.max_cost_usd_month, engine.allowed) == (run, month, allowed)


def test_an_engine_and_a_way_to_publish_that_are_not_allowed_are_refused(
    project: Project, platform: RepoBuilder
) -> None:
    config = extend(project, platform)
    with pytest.raises(
        UsageError,
        match=r"engine 'command' is not allowed here: engine\.allowed is rules, anthropic",
    ):
        choose_model(config.engine, "command", {})
    with pytest.raises(UsageError, match="publishing by push is not allowed here"):
        publish_mode(project.workspace, PublishOptions("push"))
    assert publish_mode(project.workspace, PublishOptions("pr")) == "pr"
    project.commit(
        "Push all the same",
        {CONFIG_FILE: project.show("HEAD", CONFIG_FILE) + "publish: {mode: push}\n"},
    )
    with pytest.raises(UsageError) as caught:
        configure_from_work_tree(project.workspace.repo)
    assert caught.value.slug == "policy-forbids"


def test_a_changed_or_removed_copy_is_refused_and_restored(
    project: Project, platform: RepoBuilder
) -> None:
    extend(project, platform)
    repo = project.workspace.repo
    project.write(POLICY_FILE, POLICY.replace("2", "200"))
    with pytest.raises(UsageError, match="is not the text that `extends` pins"):
        configure_from_work_tree(repo)
    (project.path / POLICY_FILE).unlink()
    with pytest.raises(UsageError, match="is missing"):
        configure_from_work_tree(repo)
    assert not pin_policy(project.path, None, {}, write=True).is_new
    assert configure_from_work_tree(repo).config.engine.max_cost_usd == 2


def test_a_tag_that_moved_is_seen_and_nothing_is_written_without_being_asked(
    project: Project, platform: RepoBuilder
) -> None:
    config = extend(project, platform)
    platform.commit("Tighter", {SOURCE_FILE: POLICY.replace("max_cost_usd: 2", "max_cost_usd: 1")})
    platform.git("tag", "--force", "v1")
    assert pin_policy(project.path, None, {}, write=False).is_new
    assert configure_from_work_tree(project.workspace.repo).config == config
    pin_policy(project.path, None, {}, write=True)
    assert configure_from_work_tree(project.workspace.repo).config.engine.max_cost_usd == 1


def test_the_environment_can_ask_for_a_policy(
    project: Project, platform: RepoBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = pin_policy(project.path, f"{platform.path}@v1", {}, write=False).extends.rpartition(
        " "
    )[2]
    repo = project.workspace.repo
    monkeypatch.setenv("MEMORY_CI_POLICY", digest)
    with pytest.raises(UsageError) as caught:
        workspace_at(repo, "HEAD")
    assert caught.value.slug == "policy-missing"
    project.git("commit", "--allow-empty", "-qm", "Go on")
    pin_policy(project.path, f"{platform.path}@v1", {}, write=True)
    assert configure_from_work_tree(repo).config.engine.max_cost_usd_month == 20


@pytest.mark.parametrize(
    ("text", "source", "slug"),
    [
        (POLICY, "{}@v9", "remote-failed"),
        (POLICY, "{}", "bad-policy-source"),
        (
            POLICY,
            "https://ada:ghp_0123456789abcdefghijABCDEFGHIJ012345@example.com/p@v1",
            "bad-policy-source",
        ),
        ("retrieve: {max_chars: 1}\n", "{}@main", "bad-config"),
        ("engine: {allowed: [gpt]}\n", "{}@main", "bad-config"),
        (None, "{}@main", "policy-missing"),
    ],
)
def test_an_invalid_policy_is_not_pinned(
    project: Project, platform: RepoBuilder, text: str | None, source: str, slug: str
) -> None:
    if text is None:
        platform.git("rm", "-q", SOURCE_FILE)
        platform.commit("None")
    elif text != POLICY:
        platform.commit("Another", {SOURCE_FILE: text})
    with pytest.raises(MemoryCIError) as caught:
        pin_policy(project.path, source.format(platform.path), {}, write=True)
    assert caught.value.slug == slug
    assert not (project.path / POLICY_FILE).exists()


def test_an_older_memory_ci_refuses(project: Project) -> None:
    project.write(CONFIG_FILE, 'minimum_version: "99.0"\n')
    with pytest.raises(UsageError, match=r"memory-ci 99\.0 or newer is asked for here"):
        configure_from_work_tree(project.workspace.repo)


def test_a_change_that_takes_the_policy_out_is_a_finding(
    project: Project, platform: RepoBuilder
) -> None:
    extend(project, platform)
    project.branch("free")
    project.commit("Be free", {CONFIG_FILE: "", POLICY_FILE: None})
    codes = [finding.code for finding in verify_change(project.workspace, "main", "HEAD").findings]
    assert codes == ["policy-removed"]


def test_the_remote_s_policy_decides_the_ways_to_publish(
    project: Project, platform: RepoBuilder, tmp_path: Path
) -> None:
    extend(project, platform)
    remote = make_remote(project, tmp_path / "remote.git")
    project.commit("Be free", {CONFIG_FILE: "", POLICY_FILE: None})
    tip = remote.sha("main")
    with pytest.raises(UsageError, match="publishing by push is not allowed here"):
        Publisher(project)("push")
    assert remote.sha("main") == tip


def test_an_address_that_is_longer_than_the_name_of_a_file_is_asked_as_one(
    project: Project,
) -> None:
    with pytest.raises(MemoryCIError) as caught:
        pin_policy(project.path, f"file:///{'x' * 5_000}@v1", {}, write=False)
    assert caught.value.slug == "remote-failed"
