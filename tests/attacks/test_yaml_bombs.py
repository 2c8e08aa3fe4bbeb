"""Tests of hostile YAML in front matter, notes, configuration and policy: it is not expanded, other entries are served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_ci.config import CONFIG_FILE
from memory_ci.store.edits import format_entry
from tests.attacks.attack import (
    BOUNDED,
    COMMAND,
    ERROR,
    LOST,
    Area,
    Case,
    Launcher,
    assert_ended_clearly,
)
from tests.attacks.scene import FIXED_TIME
from tests.make import ID, make_entry
from tests.project import Project, copy_project, make_project

pytestmark = pytest.mark.slow

AREA = Area(
    "hostile YAML",
    "aliases that multiply, tags of Python, nesting, duplicate and merge keys, 20,000 keys, numbers of 100,000 digits, "
    "dates that are none, odd line ends: in front matter, in a note, in the configuration, in its policy",
    "a reader of its own without tags and aliases, bounded in size and depth; an entry that cannot be read "
    "costs itself",
)
HOLDS = (COMMAND, LOST, ERROR, BOUNDED)
MEMORY = 2 << 30
CANARY = "{canary}"

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghij", "bcdefghijk", strict=True)
)
PAYLOADS = {
    "aliases that multiply": BOMB,
    "an alias of itself": "title: &t [*t]\n",
    "a tag that runs a program": f"title: !!python/object/apply:os.system ['touch {CANARY}']\n",
    "a tag that makes an object": f"title: !!python/object/new:subprocess.Popen [['touch', '{CANARY}']]\n",
    "a tag that names a module": "title: !!python/module:os\n",
    "a tag of a file": "title: !!binary /etc/passwd\n",
    "lists 50,000 deep": "title: " + "[" * 50_000 + "\n",
    "mappings 50,000 deep": "title: " + "{a: " * 50_000 + "\n",
    "blocks 5,000 deep": "".join(f"{' ' * depth}a:\n" for depth in range(5_000)),
    "a key twice": "importance: 0.1\nimportance: 0.9\nimportance: 0.5\n",
    "a merge key": "base: &b {importance: 1.0}\n<<: *b\n",
    "20,000 keys": "".join(f"key-{number}: {number}\n" for number in range(20_000)),
    "a number of 100,000 digits": f"reinforcement_count: {'9' * 100_000}\n",
    "a number in base 60": f"reinforcement_count: {':'.join(['59'] * 20_000)}\n",
    "a float of 100,000 digits": f"importance: 0.{'1' * 100_000}e{'9' * 1_000}\n",
    "no number": "importance: .nan\nreinforcement_count: .inf\n",
    "an impossible date": "last_reinforced: 99999-99-99\ncreated_at: 0000-00-00\n",
    "a string of 10 MB": f"title: '{'x' * 10_000_000}'\n",
    "a quotation without end": "title: 'x\n" + "y\n" * 100_000,
    "a block without end": "title: |\n" + "  y\n" * 100_000,
    "null bytes": "title: a\0b\n",
    "a byte order mark inside": "\ufefftitle: x\n",
    "other line ends": "title: x\u2028importance: 1.0\x85status: retired\n",
    "two documents": "title: x\n---\ntitle: y\n...\n",
    "a directive": "%YAML 9.9\n%TAG ! tag:evil,2026:\n",
    "keys that are no words": "? [a, b]\n: x\n{}: y\n1: z\nnull: n\n",
}


def list_cases() -> Iterator[Case]:
    for name, text in PAYLOADS.items():
        yield Case(f"memory, {name}", f"{name} in front matter and in a note", HOLDS, text)
        yield Case(f"configuration, {name}", f"{name} in the configuration", HOLDS, text)


CASES = {case.name: case for case in list_cases()}
ALL_CASES = CASES
GOOD = make_entry(2, title="Zebra crossings need a light at night")
COMMANDS = (
    ("list",),
    ("list", "--json"),
    ("check",),
    ("retrieve", "a zebra crossing at night"),
    ("check", "--fix", "--dry-run"),
    ("health",),
    ("record", "--yes"),
    ("verify", "--base", "HEAD~1"),
    ("hook", "pre-commit"),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("yaml") / "shop")
    project.commit("Zoo", {"src/MEMORY.md": format_entry(GOOD)})
    return project


def front_matter(text: str) -> str:
    """Return a memory file with an entry that contains `text`, and a valid entry after it."""
    plain = format_entry(make_entry(1, title="Before it"))
    hostile = f"---\nid: {ID}\ntype: procedural\n{text}---\n## Hostile\n\nBody.\n"
    return f"# Memory\n\n{plain}\n{hostile}"


@pytest.mark.parametrize("case", CASES)
def test_hostile_yaml_is_read_in_linear_time_and_memory(
    case: str, template: Project, launcher: Launcher, tmp_path: Path
) -> None:
    project = copy_project(template, tmp_path / "shop")
    canary = tmp_path / "canary"
    text = CASES[case].data.replace(CANARY, str(canary))
    is_configuration = case.startswith("configuration")
    if is_configuration:
        files: dict[str, str | bytes | None] = {CONFIG_FILE: text}
    else:
        note = f"---\nid: {ID[:-1]}2\nscope: project\n{text}---\n## A note\n"
        files = {"MEMORY.md": front_matter(text), ".memory/inbox/note.md": note}
    project.commit("Hostile", files)
    for words in COMMANDS:
        result = launcher.run(project.path, *words, env=FIXED_TIME, memory=MEMORY)
        assert_ended_clearly(result, words)
        assert not canary.exists(), words
        if words[0] == "retrieve" and not is_configuration:
            assert GOOD.title in result.stdout
        if words == ("list",) and not is_configuration:
            assert "Before it" in result.stdout
    assert GOOD.title in project.show("HEAD", "src/MEMORY.md")
