"""Tests of workflows, actions and the component with the forges' JSON schemas and zizmor's strictest mode."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from textwrap import dedent, indent

import pytest
from click.testing import CliRunner

from memory_ci.commands.setup.ci_files import (
    RELEASE_TAG,
    Release,
    find_release,
    github_workflow,
    gitlab_item,
)

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sysconfig.get_path("scripts"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = sorted((ROOT / "action").rglob("action.yml"))
DOUBLES = sorted((ROOT / "tests" / "edges" / "doubles").rglob("action.yml"))
GUIDE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
COMPONENT = (ROOT / "templates" / "memory.yml").read_text(encoding="utf-8")
SECONDS = 300


def run(tool: str, *args: str | Path) -> str:
    """Return the output of a tool; an empty text if it found nothing."""
    command = [BIN / tool, *args]
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return completed.stdout + completed.stderr if completed.returncode else ""


def run_schema(schema: str, *files: Path, options: tuple[str, ...] = ()) -> str:
    """Return the output of check-jsonschema, run in this process because loading it takes longer than the check."""
    from check_jsonschema.cli import main  # type: ignore[import-untyped] # it has no types

    result = CliRunner().invoke(
        main, [*options, "--builtin-schema", f"vendor.{schema}", *map(str, files)]
    )
    return result.output if result.exit_code else ""


def run_zizmor(*places: Path) -> str:
    return run(
        "zizmor", "--offline", "--no-config", "--persona", "pedantic", "--no-progress", *places
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return the workflow of the guide in its place; its tag is replaced by a commit, for people who pin everything."""
    (text,) = re.findall(r"```yaml\n( +# What was merged .*?)```", GUIDE, re.DOTALL)
    place = tmp_path / ".github" / "workflows" / "memory.yml"
    place.parent.mkdir(parents=True)
    place.write_text(dedent(text).replace(f"@{RELEASE_TAG}", f"@{'a' * 40}"))
    return place


def test_the_guide_shows_what_init_writes() -> None:
    release = Release("https://github.com", "OWNER/memory-ci", RELEASE_TAG)
    assert indent(github_workflow(release, "main"), "   ") in GUIDE
    assert indent(gitlab_item(release), "   ") in GUIDE


def test_all_references_to_a_release_name_the_current_one() -> None:
    texts = [
        path.read_text("utf-8")
        for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *WORKFLOWS)
    ]
    named = [tag for text in texts for tag in re.findall(r"OWNER/memory-ci\S*@([^\s`]+)", text)]
    named += [tag for text in texts for tag in re.findall(r"OWNER/memory-ci\n +rev: (\S+)", text)]
    named += re.findall(r"default: (v\S+)", COMPONENT)
    assert len(named) > 8
    assert set(named) == {RELEASE_TAG}


def test_once_the_package_names_its_repository_no_placeholder_is_left() -> None:
    texts = [COMPONENT, *(path.read_text("utf-8") for path in WORKFLOWS)]
    assert find_release() is None or not any("OWNER/" in text for text in texts)


def split_component(place: Path) -> list[Path]:
    """Return the two documents of the component as files: its inputs, and the jobs."""
    parts = [place / "spec.yml", place / "jobs.yml"]
    for part, text in zip(parts, COMPONENT.split("\n---\n"), strict=True):
        part.write_text(text, encoding="utf-8")
    return parts


def test_the_schema_of_the_forge_accepts_every_workflow(copied: Path) -> None:
    assert run_schema("github-workflows", *WORKFLOWS, copied) == ""


def test_the_schema_of_the_forge_accepts_every_action() -> None:
    assert len(ACTIONS) == 3
    assert run_schema("github-actions", *ACTIONS, *DOUBLES) == ""


def test_the_schema_of_gitlab_accepts_the_component(tmp_path: Path) -> None:
    options = ("--data-transform", "gitlab-ci")
    assert run_schema("gitlab-ci", *split_component(tmp_path), options=options) == ""


def test_zizmor_finds_nothing_at_its_strictest(copied: Path) -> None:
    assert run_zizmor(*WORKFLOWS, *ACTIONS, copied) == ""


def test_every_exemption_from_zizmor_has_its_reason() -> None:
    lines = [
        line for path in (*WORKFLOWS, *ACTIONS) for line in path.read_text("utf-8").splitlines()
    ]
    exempt = [line.partition("zizmor: ignore")[2] for line in lines if "zizmor: ignore" in line]
    assert exempt
    assert [words for words in exempt if not re.fullmatch(r"\[[a-z-]+\] \w.{10,}", words)] == []


def test_pre_commit_accepts_our_manifest_and_our_configuration() -> None:
    assert run("pre-commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml") == ""
    assert run("pre-commit", "validate-config", ROOT / ".pre-commit-config.yaml") == ""


def test_the_tools_find_planted_faults(tmp_path: Path) -> None:
    action = tmp_path / "action.yml"
    shutil.copy(ROOT / "action" / "verify" / "action.yml", action)
    text = action.read_text(encoding="utf-8")
    action.write_text(text.replace('"$COMMAND" ci', "${{ github.head_ref }} ci"), encoding="utf-8")
    assert "template-injection" in run_zizmor(action)
    action.write_text(text.replace("using: composite", "using: magic"), encoding="utf-8")
    assert "magic" in run_schema("github-actions", action)
    jobs = split_component(tmp_path)[1]
    jobs.write_text(
        jobs.read_text("utf-8").replace("resource_group: memory-ci", "resource_group: [1]"), "utf-8"
    )
    assert "resource_group" in run_schema("gitlab-ci", jobs)
