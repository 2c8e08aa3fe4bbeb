"""Tests of the table of attacks in the documentation, which is made from the cases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.attacks.attack import BELIEVED, BOUNDED, COMMAND, ERROR, LOST, SECRET
from tests.attacks.table import BEGIN, END, MODULES, list_modules, list_rows, render_table

PAGE = Path(__file__).parent / "attacks" / "README.md"


def test_the_documented_table_equals_the_cases(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    block = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    assert len(block.findall(text)) == 1
    if request.config.getoption("--update-golden"):
        text = block.sub(lambda _: render_table(), text)
        PAGE.write_text(text, encoding="utf-8")
    assert render_table() in text, "intended? pytest tests/test_attack_table.py --update-golden"


def test_there_are_at_least_150_cases_and_each_names_its_promises() -> None:
    cases = [case for row in list_rows() for case in row.cases.values()]
    assert len(cases) >= 150
    promises = {LOST, BELIEVED, COMMAND, SECRET, ERROR, BOUNDED}
    assert {word for case in cases for word in case.holds} == promises
    assert [case.name for case in cases if not (case.name and case.does and case.holds)] == []


def test_every_module_of_the_campaign_is_in_the_table() -> None:
    assert list_modules() == set(MODULES)
