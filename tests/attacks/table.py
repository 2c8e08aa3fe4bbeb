"""The table of attacks in README.md, made from the cases."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.attacks.attack import Area, Case

MODULES = (
    "test_embedded",
    "test_killed",
    "test_disk",
    "test_addresses",
    "test_writers",
    "test_caches",
    "test_outputs",
    "test_yaml_bombs",
    "test_credential_paths",
    "test_size",
    "test_forged_words",
    "test_hostile_checks",
    "test_repeated_words",
)
BEGIN = "<!-- The campaign: written by `pytest tests/test_attack_table.py --update-golden`. -->"
END = "<!-- The end of the campaign. -->"


class Row(NamedTuple):
    """An area with all its cases."""

    module: str
    area: Area
    cases: Mapping[str, Case]


def list_rows() -> Iterator[Row]:
    for name in MODULES:
        module = importlib.import_module(f"tests.attacks.{name}")
        yield Row(name, module.AREA, module.ALL_CASES)


def list_modules() -> set[str]:
    """Return the names of all modules with cases."""
    return {path.stem for path in Path(__file__).parent.glob("test_*.py")}


def render_table() -> str:
    """Return the table in Markdown, between its markers."""
    rows = list(list_rows())
    lines = [
        "| area | cases | what is tried | what must hold | what makes it hold |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        holds = list(dict.fromkeys(word for case in row.cases.values() for word in case.holds))
        cells = (row.area.name, str(len(row.cases)), row.area.tried, ", ".join(holds), row.area.how)
        lines.append(f"| {' | '.join(cells)} |")
    count = sum(len(row.cases) for row in rows)
    return f"{BEGIN}\n{count} cases:\n\n" + "\n".join(lines) + f"\n{END}"
