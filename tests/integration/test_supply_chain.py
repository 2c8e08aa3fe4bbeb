"""Tests of the packages that the Action installs: locked by hash, within our ranges, listed with their licences."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent.parent
LOCKS = sorted((ROOT / "action" / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_lock(path: Path) -> dict[str, list[str]]:
    """Return the versions by package; each requirement must be one version with hashes."""
    versions: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        words = re.fullmatch(
            r"([a-z0-9-]+)==(\S+)( ; [^\\]+?)?((?: +--hash=sha256:[0-9a-f]{64})+)", line.strip()
        )
        assert words, line
        versions.setdefault(words[1], []).append(words[2])
    return versions


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_a_lock_contains_the_dependencies_of_the_package(lock: Path) -> None:
    dependencies = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"].get(lock.stem, [])]
    held = read_lock(lock)
    for requirement in map(Requirement, dependencies):
        assert any(
            requirement.specifier.contains(version) for version in held.get(requirement.name, ())
        ), requirement


def test_all_locks_agree_on_each_version() -> None:
    together: dict[str, list[str]] = {}
    for lock in LOCKS:
        for name, versions in read_lock(lock).items():
            assert together.setdefault(name, versions) == versions, name


def test_every_locked_package_is_named_with_its_licence() -> None:
    page = (ROOT / "action" / "requirements" / "licences.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| ([\w-]+) \| [^|]+ \| ([^|?]+) \|$", page, re.M))
    assert named.keys() - {"package"} == {name for lock in LOCKS for name in read_lock(lock)}


def test_an_extra_without_a_lock_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    command = [
        "bash",
        str(ROOT / "action" / "pip_install.sh"),
        str(tmp_path / "place"),
        "anthropic,../base",
    ]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 2
    assert (
        "no extra '../base' for jobs; extras: anthropic, bedrock, mcp, org-postgres, otel, report, vectors,"
        in completed.stdout
    )
    assert not (tmp_path / "place").exists()
