"""Tests of the published JSON Schemas, which must match the code."""

from __future__ import annotations

import inspect
import json
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from memory_ci.commands.setup.init import CONFIG_TEXT
from memory_ci.records.config import Config
from memory_ci.records.plan import Plan, RunLine
from tests.project import Project, make_project

DOCS = Path(__file__).parent.parent / "docs"
REFERENCE = runpy.run_path(str(DOCS.parent / ".ci" / "reference.py"))
SCHEMAS = {
    "config.schema.json": (Config | None, "memory-ci configuration (.memory-ci.yaml)"),
    "run-line.schema.json": (RunLine, "memory-ci ci, the last line of standard output"),
    "plan.schema.json": (Plan, "memory-ci plan"),
}


def clean_descriptions(node: Any) -> Any:
    """Return the schema with descriptions as in Python 3.13, which removes the indentation of docstrings."""
    if isinstance(node, list):
        return [clean_descriptions(child) for child in node]
    if not isinstance(node, dict):
        return node
    return {
        k: inspect.cleandoc(v)
        if k == "description" and isinstance(v, str)
        else clean_descriptions(v)
        for k, v in node.items()
    }


def published(name: str) -> Any:
    return json.loads((DOCS / name).read_text())


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schema_equals_that_of_the_record(
    name: str, request: pytest.FixtureRequest
) -> None:
    record, title = SCHEMAS[name]
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **clean_descriptions(msgspec.json.schema(record)),
    }
    for (owner, field), meaning in (
        REFERENCE["read_meanings"]().items() if name == "config.schema.json" else ()
    ):
        schema["$defs"][owner]["properties"][field.rstrip("_")]["description"] = meaning
    if request.config.getoption("--update-golden"):
        (DOCS / name).write_text(json.dumps(schema, indent=2, sort_keys=True) + "\n")
    assert published(name) == json.loads(json.dumps(schema)), (
        "docs are behind: pytest --update-golden"
    )


@pytest.mark.parametrize("page", REFERENCE["PAGES"])
def test_the_reference_equals_the_generated_one(page: str) -> None:
    assert (DOCS / page).read_text("utf-8") == REFERENCE["PAGES"][page](), "make reference"


def test_a_real_plan_fits_the_schema(tmp_path: Path) -> None:
    project: Project = make_project(tmp_path / "shop")
    plan = msgspec.to_builtins(project.plan(), str_keys=True)
    jsonschema.validate(json.loads(json.dumps(plan)), published("plan.schema.json"))


def test_an_unknown_key_does_not_fit_the_schema_of_the_configuration() -> None:
    schema = published("config.schema.json")
    jsonschema.validate(yaml.safe_load("retrieve: {max_chars: 100}"), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load("retrieve: {max_char: 100}"), schema)


def test_what_init_writes_fits_the_schema_of_the_configuration() -> None:
    jsonschema.validate(yaml.safe_load(CONFIG_TEXT), published("config.schema.json"))
