"""Whether the check of an instruction's words says the same of examples as its expression."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from benchmarks.memorycode_data import Instruction
from memory_ci.checks.judge import AddedLine, CheckedChange, judge
from memory_ci.checks.repository import list_repository_files
from memory_ci.checks.templates import derive_check
from memory_ci.commands.record.drafted_checks import MAX_ASKED
from memory_ci.commands.record.model_checks import write_checks
from memory_ci.extraction.engines import Engine
from memory_ci.records.check import ChangeCheck
from memory_ci.records.history import FileChange

Checks = dict[str, ChangeCheck | None]
"""The check of each text, None for a text without one."""

PATH = "app/totals.py"
REPOSITORY = list_repository_files([PATH, "app/__init__.py"])

LINES = {
    "function": "def {}(rows):",
    "method": "    def {}(self, rows):",
    "class": "class {}:",
    "variable": "    {} = rows[0]",
    "attribute": "        self.{} = rows",
    "function argument": "def add({}):",
}
"""The line of code that shows a name of an object."""

LINE_SHOWS = frozenset({*LINES, "import", "comment", "function annotation", "method annotation"})
"""Objects of which a line shows whether it is as it must be, or a new file whether it has it.

For docstrings, decorators, `try` and `assert` in each function it takes the lines around.
"""

NAMES = (
    "total", "totals_by_day", "x", "read_all", "TotalRow", "TOTAL", "TOTAL_ROWS", "totalRows", "HTTPReader",
    "total1", "row2col", "rows22", "Total3",
)  # fmt: skip
"""Names to which the words of an instruction are added at the start, at the end and in between."""


class ExpressionResult(NamedTuple):
    """How the check of an instruction compares.

    Attributes:
        is_expressible: whether a line, or a new file, shows what is wanted.
        is_understood: whether it has a check.
        differences: the examples that are judged otherwise.
    """

    is_expressible: bool
    is_understood: bool
    differences: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether all examples are judged as the expression does."""
        return self.is_understood and not self.differences


class Example(NamedTuple):
    """Lines of a new file, and whether the expression accepts them."""

    text: str
    is_accepted: bool


def find_checks(texts: Iterable[str], engine: Engine | None = None) -> Checks:
    """Return the checks of texts: those of templates, and for other texts those of a model.

    Args:
        texts: the words of instructions, or titles of entries.
        engine: the model; None for templates alone.

    Raises:
        EngineError: as the engine.
    """
    checks: Checks = {text: derive_check(text, REPOSITORY) for text in texts}
    unclear = [text for text, check in checks.items() if check is None]
    if engine is not None:
        for rules in batched(unclear, MAX_ASKED):
            checks |= zip(rules, write_checks(engine, rules, REPOSITORY), strict=True)
    return checks


def compare_expression(instruction: Instruction, check: ChangeCheck | None) -> ExpressionResult:
    """Return how the check of an instruction's words compares with its expression."""
    is_expressible = instruction.object in LINE_SHOWS
    if check is None:
        return ExpressionResult(is_expressible, is_understood=False)
    differences: list[str] = []
    for example in list_examples(instruction):
        lines = example.text.splitlines()
        change = CheckedChange(
            files=(FileChange("A", PATH),),
            added=tuple(AddedLine(PATH, number, line) for number, line in enumerate(lines, 1)),
        )
        judgement = judge(check, change)
        is_accepted = judgement.fault is None and not judgement.unjudged
        if is_accepted != example.is_accepted:
            differences.append(example.text.strip())
    return ExpressionResult(is_expressible, is_understood=True, differences=tuple(differences))


def batched(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield slices of texts."""
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


def list_examples(instruction: Instruction) -> Iterator[Example]:
    """Yield lines that an expression accepts, and lines that it does not."""
    kind, expression = instruction.object, instruction.expression
    if kind == "comment":
        yield Example("total = 1  # of all days", is_accepted=True)
        yield Example("# Totals of all days.\ntotal = 1", is_accepted=True)
        yield Example("total = 1", is_accepted=False)
    elif kind == "import" and isinstance(expression, tuple):
        module = expression[0]
        yield Example(f"import {module}\n\ntotal = 1", is_accepted=True)
        yield Example(f"import csv, {module}", is_accepted=True)
        yield Example("import csv", is_accepted=False)
        yield Example(f"import {module}_tools", is_accepted=False)
        yield Example(f"{module} = 1", is_accepted=False)
    elif kind.endswith("annotation"):
        yield from _list_annotated("    " if kind.startswith("method") else "")
    elif isinstance(expression, str) and kind in LINES:
        # As the data set's `compute_score` does: `re.match` of the name.
        for name in _list_names(instruction):
            is_accepted = re.match(expression, name) is not None
            yield Example(LINES[kind].format(name), is_accepted=is_accepted)


def _list_annotated(indent: str) -> Iterator[Example]:
    """Yield definitions with and without annotations; one annotation is enough for the data set."""
    own = "self, " if indent else ""
    yield Example(f"{indent}def add({own}rows: list[str]) -> int:", is_accepted=True)
    yield Example(f"{indent}def add({own}rows: dict[str, int], day: str = 'x'):", is_accepted=True)
    yield Example(f"{indent}def add({own}rows) -> int:", is_accepted=True)
    yield Example(f"{indent}def add({own}rows):", is_accepted=False)
    yield Example(f"{indent}def add({own}rows, day='a'):", is_accepted=False)


def _list_names(instruction: Instruction) -> Iterator[str]:
    """Yield names, alone and with the quoted word of an instruction in every place."""
    yield from NAMES
    quoted = re.search(r"'(\w+)'", instruction.text)
    if quoted is None:
        return
    word = quoted[1]
    for name in ("total", "read_all", "Total", "row2col"):
        bare = word.strip("_")
        yield from (f"{word}{name}", f"{name}{word}", f"{name}_{word}_{name}", f"{bare}{name}")
        yield from (
            f"{name}{bare}",
            f"{name}{bare}{name}",
            f"_{word}{name}",
            f"{word.upper()}{name}",
        )
