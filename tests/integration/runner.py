"""The parts of a GitHub runner that our composite actions need: expressions in `env:`, bash steps, outputs.

Steps with `uses:` are skipped, like those of a cache without a hit.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

EXPRESSION = re.compile(r"\$\{\{ *(.+?) *\}\}")


class Finished(NamedTuple):
    """The result of an action: its outputs and its printed text."""

    outputs: Mapping[str, str]
    printed: str


def load_yaml(path: Path) -> dict[str, Any]:
    """Return the last document of a file; `on` stays a string, which YAML 1.1 reads as true."""
    documents = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader))
    loaded: dict[str, Any] = documents[-1]
    return loaded


class ActionRunner:
    """Runs actions in a work tree with the environment of a runner."""

    def __init__(self, work: Path, scratch: Path, env: Mapping[str, str]) -> None:
        self.work, self.scratch, self.env = work, scratch, env
        self.temp = scratch / "temp"
        self.temp.mkdir()

    def run(self, action: Path, **inputs: str) -> Finished:
        """Run `action`/action.yml; `_` in an input's name becomes `-`. A failing step raises AssertionError."""
        described = load_yaml(action / "action.yml")
        given_inputs = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert given_inputs.keys() <= described["inputs"].keys()
        input_values = {
            name: given_inputs.get(name, description.get("default", ""))
            for name, description in described["inputs"].items()
        }
        context = {
            f"inputs.{name}": self._evaluate(value, {}) for name, value in input_values.items()
        }
        printed = ""
        for step in described["runs"]["steps"]:
            if "run" in step:
                outputs, step_output = self._step(action, step, context)
                printed += step_output
                context |= {
                    f"steps.{step.get('id')}.outputs.{name}": value
                    for name, value in outputs.items()
                }
        output_values = {
            name: self._evaluate(description["value"], context)
            for name, description in described["outputs"].items()
        }
        return Finished(output_values, printed)

    def _step(
        self, action: Path, step: Mapping[str, Any], context: Mapping[str, str]
    ) -> tuple[dict[str, str], str]:
        """Run a step like the runner: a script file with `bash --noprofile --norc -eo pipefail` (docs.github.com, `shell`)."""
        script, outputs = self.scratch / "step.sh", self.scratch / "outputs"
        script.write_text(step["run"], encoding="utf-8")
        outputs.write_text("", encoding="utf-8")
        variables = {
            "GITHUB_ACTION_PATH": str(action),
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_STEP_SUMMARY": str(self.scratch / "summary.md"),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_ACTIONS": "true",
            "CI": "true",
        }
        step_env = {
            name: self._evaluate(value, context) for name, value in step.get("env", {}).items()
        }
        assert step["shell"] == "bash"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        env = {**os.environ, **variables, **self.env, **step_env}
        completed = subprocess.run(
            command, cwd=self.work, env=env, capture_output=True, text=True, check=False
        )
        assert completed.returncode == 0, f"{step['name']}: {completed.stdout}{completed.stderr}"
        return read_outputs(
            outputs.read_text(encoding="utf-8")
        ), completed.stdout + completed.stderr

    def _evaluate(self, text: str, context: Mapping[str, str]) -> str:
        """Replace expressions that name a value; `a || b` gives the first that is not empty."""

        def value(match: re.Match[str]) -> str:
            return next(
                filter(None, (context.get(name.strip(), "") for name in match[1].split("||"))), ""
            )

        return EXPRESSION.sub(value, text)


def read_outputs(text: str) -> dict[str, str]:
    """Read GITHUB_OUTPUT like a runner: `name<<delimiter`, lines, the delimiter."""
    outputs: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        name, mark, delimiter = line.partition("<<")
        assert mark, f"not an output: {line}"
        value: list[str] = []
        while (line := next(lines)) != delimiter:
            value.append(line)
        outputs[name] = "\n".join(value)
    return outputs
