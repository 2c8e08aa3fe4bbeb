"""Tests of `memory-ci init` and `init --remove`: set up as a new user would, and removed to the byte."""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from memory_ci import __version__
from memory_ci.cli import manual
from memory_ci.commands.root import main
from memory_ci.commands.setup import command, init
from memory_ci.commands.setup.ci_files import Release, find_release
from memory_ci.commands.setup.init import CHANGED_REMARK, guess_ci
from tests.command_line import Run
from tests.integration.runner import load_yaml
from tests.project import Project
from tests.repos import RepoBuilder, make_repo

pytestmark = pytest.mark.in_project

SOURCE = ("--ci-source", f"acme/memory-ci@v{__version__}")
ALL = ("--pre-commit", "--ci", "github", "--agent", "claude-code", *SOURCE)
CONFIG = """\
# Ask Ada before you add one.
repos:
  - repo: local
    hooks:
      - id: tabs   # they hurt
"""
PIPELINE = """\
stages: [lint, build]   # in this order
include:
  - local: /ci/build.yml

build:
  script: [make]
"""


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RepoBuilder:
    """Return a repository with a commented pre-commit configuration and a workflow."""
    repo = make_repo(tmp_path / "old")
    repo.commit(
        "Begin",
        {".pre-commit-config.yaml": CONFIG, ".github/workflows/test.yml": "on: push\njobs: {}\n"},
    )
    monkeypatch.chdir(repo.path)
    return repo


def snapshot(repo: RepoBuilder) -> dict[str, bytes]:
    """Return all files outside of .git, and those in it that `init --clone` writes."""
    files = [
        path
        for path in repo.path.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(repo.path).parts
    ]
    files += [repo.path / ".git" / "config", *(repo.path / ".git" / "hooks").glob("*")]
    return {path.relative_to(repo.path).as_posix(): path.read_bytes() for path in files}


def test_one_command_sets_all_up_and_another_takes_it_out(old: RepoBuilder, run: Run) -> None:
    before = snapshot(old)
    preview = run("init", *ALL, "--dry-run")
    assert snapshot(old) == before
    assert "would be written .github/workflows/memory.yml" in preview.stdout
    assert "+  - repo: https://github.com/acme/memory-ci\n" in preview.stdout
    assert run("init", *ALL).exit_code == 0
    done = snapshot(old)
    config = yaml.safe_load(done[".pre-commit-config.yaml"])
    assert [each_repo["repo"] for each_repo in config["repos"]] == [
        "local",
        "https://github.com/acme/memory-ci",
    ]
    assert config["repos"][1]["rev"] == f"v{__version__}"
    assert config["default_stages"] == ["pre-commit", "manual"], (
        "hooks that name no stage run when they ran before"
    )
    assert ".claude/settings.local.json" in done
    assert ".git/hooks/prepare-commit-msg" not in done, "pre-commit runs it"
    assert {step["result"] for step in json.loads(run("init", *ALL, "--json").stdout)["files"]} == {
        "kept"
    }
    assert snapshot(old) == done
    assert run("init", "--remove", "--dry-run").exit_code == 0
    assert snapshot(old) == done
    run("init", "--remove")
    assert snapshot(old) == before
    assert "Nothing that init wrote is here." in run("init", "--remove").stdout


def test_changed_files_stay_and_are_named(old: RepoBuilder, run: Run) -> None:
    run("init", *ALL[:3], *SOURCE)
    for path, was, now in (
        (".pre-commit-config.yaml", f"rev: v{__version__}", "rev: v9.9"),
        (".github/workflows/memory.yml", "17 3", "18 4"),
        ("MEMORY.md", "# Memory", "# Our memory"),
    ):
        old.write(path, (old.path / path).read_text().replace(was, now))
    done = snapshot(old)
    again = json.loads(run("init", *ALL[:3], *SOURCE, "--json").stdout)["files"]
    assert snapshot(old) == done
    assert {step["remark"] for step in again[3:]} == {CHANGED_REMARK}
    out = json.loads(run("init", "--remove", "--json").stdout)["files"]
    assert {step["path"] for step in out if step["result"] == "left" and step["remark"]} == {
        "MEMORY.md",
        ".github/workflows/memory.yml",
    }
    remaining_text = (old.path / ".pre-commit-config.yaml").read_text()
    assert remaining_text.startswith(CONFIG)
    assert ("v9.9" in remaining_text, "default_stages" in remaining_text) == (True, False)


def test_text_added_below_our_block_does_not_move_it(old: RepoBuilder, run: Run) -> None:
    run("init", "--pre-commit", *SOURCE)
    path, more = (
        old.path / ".pre-commit-config.yaml",
        "  - repo: meta\n    hooks: [{id: identity}]\n",
    )
    path.write_text(path.read_text().replace("init: end\n", f"init: end\n{more}", 1))
    done = path.read_text()
    run("init", "--pre-commit", *SOURCE)
    assert path.read_text() == done
    newer = ("--ci-source", "acme/memory-ci@v99.0")
    run("init", "--pre-commit", *newer)
    assert ("v99.0" in path.read_text(), f"v{__version__}" in path.read_text()) == (True, False), (
        "a newer release"
    )
    run("init", "--remove")
    assert path.read_text() == CONFIG + more


def test_the_configuration_of_version_0_2_is_taken_out_unless_it_was_changed(
    old: RepoBuilder, run: Run
) -> None:
    run("init")
    path = old.path / ".memory-ci.yaml"
    former_line = "#   institutional_max_chars: 4000   # how much of institutional.md, which is always given\n"
    former_text = path.read_text() + former_line
    path.write_text(former_text + "publish:\n  mode: none\n")
    assert "left     .memory-ci.yaml" in run("init", "--remove").stdout
    path.write_text(former_text)
    assert "removed  .memory-ci.yaml" in run("init", "--remove").stdout
    assert not path.exists()


def test_files_for_cloud_agents_are_removed_and_exported_memory_stays(
    old: RepoBuilder, run: Run
) -> None:
    old.write("institutional.md", "# Norms\n\nAmounts are kept in cents.\n")
    run("init", "--cloud", "copilot-cloud")
    old.write(".memory/inbox/one.md", "## One\n\nText.\n")
    assert (old.path / ".github" / "workflows" / "copilot-setup-steps.yml").exists()
    output = [
        step["path"]
        for step in json.loads(run("init", "--remove", "--json").stdout)["files"]
        if step["result"] == "left"
    ]
    assert output == ["institutional.md", ".memory", "AGENTS.md"]
    assert sorted(path.name for path in (old.path / ".github").rglob("*") if path.is_file()) == [
        "test.yml"
    ]
    assert not (old.path / ".memory-ci-setup.sh").exists()


def test_changes_of_init_clone_are_left_to_its_own_removal(old: RepoBuilder, run: Run) -> None:
    run("init", "--clone")
    run("init")
    assert "`memory-ci init --remove --clone` takes it out" in run("init", "--remove").stdout
    assert (old.path / ".gitattributes").exists()


def test_the_workflow_has_minimal_permissions_with_reasons(old: RepoBuilder, run: Run) -> None:
    old.git("branch", "-m", "trunk")
    run("init", "--ci", "github", *SOURCE)
    text = (old.path / ".github" / "workflows" / "memory.yml").read_text()
    workflow = load_yaml(old.path / ".github" / "workflows" / "memory.yml")
    job = workflow["jobs"]["memory"]
    assert (workflow["permissions"], workflow["on"]["push"]["branches"]) == ({}, ["trunk"])
    assert job["permissions"] == {"contents": "write", "pull-requests": "write", "checks": "read"}
    for name in job["permissions"]:
        assert re.search(rf"^ +{name}: \w+ # \w+", text, re.MULTILINE), name
    assert job["uses"] == f"acme/memory-ci/.github/workflows/memory.yml@v{__version__}"
    assert {"pull_request", "schedule"} <= workflow["on"].keys()


def test_a_pipeline_of_gitlab_gets_the_component_in_a_stage_it_has(
    old: RepoBuilder, run: Run
) -> None:
    old.write(".gitlab-ci.yml", PIPELINE)
    run("init", "--ci", "gitlab", *SOURCE)
    pipeline = yaml.safe_load((old.path / ".gitlab-ci.yml").read_text())
    ours = pipeline["include"].pop()
    assert pipeline == yaml.safe_load(PIPELINE)
    assert ours["component"] == f"$CI_SERVER_FQDN/acme/memory-ci/memory@v{__version__}"
    assert ours["inputs"] == {
        "source": "https://github.com/acme/memory-ci",
        "release": f"v{__version__}",
        "push": "auto",
        "stage": "build",
    }
    run("init", "--remove")
    assert (old.path / ".gitlab-ci.yml").read_text() == PIPELINE
    (old.path / ".gitlab-ci.yml").unlink()
    run("init", "--ci", "gitlab", *SOURCE)
    assert (
        yaml.safe_load((old.path / ".gitlab-ci.yml").read_text())["include"][0]["inputs"]["push"]
        == "auto"
    )


@pytest.mark.parametrize(
    ("path", "text", "option"),
    [
        (".pre-commit-config.yaml", "repos: []\n", "--pre-commit"),
        (".gitlab-ci.yml", "include: /ci/build.yml\n", "--ci=gitlab"),
        (".github/workflows/memory.yml", "on: push\njobs: {}\n", "--ci=github"),
    ],
)
def test_a_file_that_cannot_be_merged_is_refused_with_the_lines_to_paste(
    old: RepoBuilder, run: Run, path: str, text: str, option: str
) -> None:
    old.write(path, text)
    refused = run("init", option, *SOURCE)
    assert (refused.exit_code, "[cannot-merge]" in refused.stderr) == (2, True)
    assert (old.path / path).read_text() == text
    assert not (old.path / "MEMORY.md").exists(), "nothing is written"
    pasted = refused.stderr.partition("again:\n\n")[2]
    old.write(path, pasted if "include" in pasted or "jobs:" in pasted else f"repos:\n{pasted}")
    assert run("init", option, *SOURCE).exit_code == 0, "it is found there"
    assert "init: begin" not in (old.path / path).read_text()


def test_a_release_that_is_not_known_has_to_be_named(
    old: RepoBuilder, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        manual, "metadata", lambda name: metadata.PathDistribution(old.path / "none").metadata
    )
    old.write("none/METADATA", "Name: memory-ci\n")
    refused = run("init", "--pre-commit")
    assert (refused.exit_code, "[no-ci-source]" in refused.stderr) == (2, True)
    assert "names no repository in its metadata yet" in refused.stderr
    for source in ("acme/memory-ci@main", "memory-ci@v1", "acme/memory-ci"):
        assert "[bad-ci-source]" in run("init", "--ci", "github", "--ci-source", source).stderr
    commit = f"acme/memory-ci@{'a' * 40}"
    assert "is a commit" in run("init", "--ci", "gitlab", "--ci-source", commit).stderr
    old.write(
        "none/METADATA",
        "Name: memory-ci\nProject-URL: Repository, https://github.com/acme/memory-ci.git\n",
    )
    assert find_release() == Release("https://github.com", "acme/memory-ci", f"v{__version__}")
    assert run("init", "--pre-commit").exit_code == 0


def test_older_work_is_shown_before_anything_is_written(project: Project, run: Run) -> None:
    project.merge_work(
        "Lock\n\nNever close a drawer twice, because the lock jams.", "lock", 301, "src/lock.py"
    )
    output = run("init", "--from", "5y", "--dry-run").stdout
    first, rest = output.split("\n", 1)
    assert re.fullmatch(r"Since 5y: \d+ merged changes\.", first)
    assert re.match(
        r"Marked in commit messages: 2 learnings\.\n  .+\n  .+\n  write them: memory-ci record --since 5y\n",
        rest,
    )
    assert "Without a model: " in rest
    assert re.search(
        r"With a model: \d+ questions, [\d,]+ tokens in, about \d+\.\d\d USD \(anthropic: as an example",
        rest,
    )
    data = json.loads(run("init", "--from", "5y", "--dry-run", "--json").stdout)["preview"]
    assert (data["changes"] > 0, data["offer"]["windows"] > 0) == (True, True)


def test_an_empty_repository_has_no_older_work(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_repo(tmp_path / "new").path)
    assert run("init", "--from", "90d").stdout.startswith("Since 90d: 0 merged changes.\n")


def test_a_dry_run_asks_nothing_at_a_terminal(
    old: RepoBuilder, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "has_input", lambda: False)
    monkeypatch.setattr(command, "is_terminal", lambda: True)
    shown_result = run("init", "--from", "90d", "--dry-run")
    assert shown_result.exit_code == 0
    assert "OWNER/REPO@TAG" not in shown_result.output
    assert "would be written MEMORY.md" in shown_result.stdout


def test_paths_are_printed_relative_to_the_work_tree(old: RepoBuilder, run: Run) -> None:
    output = run("init", "--agent", "claude-code").stdout + run("init", "--remove").stdout
    assert "written  merge-driver  .git/config\n" in output
    assert "removed  attributes    .gitattributes\n" in output
    assert str(old.path) not in output


@pytest.mark.parametrize("option", [("--ci", "github"), ("--ci", "gitlab"), ("--pre-commit",)])
@pytest.mark.parametrize("host", ["", "https://git.example.com/group/"])
def test_a_placeholder_that_was_copied_is_refused_before_anything_is_written(
    old: RepoBuilder, run: Run, option: tuple[str, ...], host: str
) -> None:
    source = f"{host}OWNER/memory-ci@v{__version__}"
    refused = run("init", *option, "--ci-source", source)
    assert refused.exit_code == 2
    assert f"Error: OWNER in '{source}' is a placeholder; nothing was written" in refused.stderr
    assert f"--ci-source {source.replace('OWNER', 'acme')}" in refused.stderr
    assert not old.git("status", "--porcelain")


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `init` take its streams for a terminal, on a machine without agents."""
    monkeypatch.setattr(command, "has_input", lambda: False)
    monkeypatch.setattr(command, "is_terminal", lambda: True)
    monkeypatch.setattr(init, "which", lambda _program: None)


def answer(*answers: str) -> Result:
    """Run `init` with an answer to each question."""
    return CliRunner().invoke(main, ["init"], input="".join(f"{text}\n" for text in answers))


@pytest.mark.usefixtures("at_terminal")
def test_a_release_that_nobody_names_leaves_ci_and_pre_commit_out(old: RepoBuilder) -> None:
    result = answer("y", "y", "", "n")
    assert result.exit_code == 0, result.output
    assert (old.path / "MEMORY.md").exists()
    assert (old.path / ".pre-commit-config.yaml").read_text() == CONFIG
    assert not (old.path / ".github/workflows/memory.yml").exists()


@pytest.mark.usefixtures("at_terminal")
def test_empty_answers_set_up_the_detected_tools(old: RepoBuilder) -> None:
    (old.path / ".claude").mkdir()
    result = answer("", "", SOURCE[1], "", "n")
    assert result.exit_code == 0, result.output
    assert "Set up GitHub Actions to record merged work? [Y/n]" in result.output
    assert "Give Claude Code what memory knows, in this clone? [Y/n]" in result.output
    assert "init: begin" in (old.path / ".pre-commit-config.yaml").read_text()
    assert (old.path / ".github" / "workflows" / "memory.yml").exists()
    assert sys.executable in (old.path / ".claude" / "settings.local.json").read_text()


@pytest.mark.usefixtures("at_terminal")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("acme/memory-ci", "'acme/memory-ci' names no release of memory-ci"),
        ("OWNER/memory-ci@v1", "OWNER in 'OWNER/memory-ci@v1' is a placeholder"),
    ],
)
def test_a_release_that_cannot_be_used_is_asked_again(
    old: RepoBuilder, text: str, reason: str
) -> None:
    result = answer("", "", text, SOURCE[1], "n")
    assert reason in result.output
    assert (old.path / ".github" / "workflows" / "memory.yml").exists()


@pytest.mark.usefixtures("at_terminal")
def test_a_commit_where_gitlab_needs_a_tag_is_asked_again(
    old: RepoBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init, "guess_ci", lambda _: "gitlab")
    result = answer("", "", f"acme/memory-ci@{'1' * 40}", SOURCE[1], "n")
    assert "GitLab's component installs a tag of memory-ci" in result.output
    assert (old.path / ".gitlab-ci.yml").exists()


@pytest.mark.usefixtures("at_terminal")
def test_no_question_is_asked_about_existing_setup(old: RepoBuilder) -> None:
    answer("", "", SOURCE[1], "n")
    again = answer()
    assert again.exit_code == 0, again.output
    assert "?" not in again.output


@pytest.mark.usefixtures("at_terminal")
def test_without_forge_and_agent_the_output_explains_how_to_add_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_repo(tmp_path / "new").path)
    result = answer()
    assert result.exit_code == 0, result.output
    assert "No forge was found: `memory-ci init --ci github`" in result.output
    assert "No agent was found: `memory-ci init --agent NAME`" in result.output


@pytest.mark.usefixtures("at_terminal")
def test_older_work_is_shown_at_the_end_if_a_person_wants_it(old: RepoBuilder) -> None:
    result = answer("n", "n", "y")
    written, _, preview = result.stdout.partition("Commit these files")
    assert "written  MEMORY.md" in written
    assert "Since 90d: " in preview


def test_an_agent_is_found_by_its_program(
    old: RepoBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init, "which", lambda program: program if program == "codex" else None)
    assert init.guess_agents(old.path, tmp_path / "home") == ("codex",)


@pytest.mark.parametrize(
    ("remote", "ci"),
    [
        ("git@github.com:acme/gitlab-tools.git", "github"),
        ("https://gitlab.acme.dev/acme/github-tools", "gitlab"),
        ("https://forge.acme.dev/gitlab/github", "none"),
    ],
)
def test_the_host_of_the_remote_suggests_the_ci(project: Project, remote: str, ci: str) -> None:
    project.git("remote", "add", "origin", remote)
    assert guess_ci(project.workspace) == ci
