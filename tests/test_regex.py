"""Tests of regular expressions that are compiled at their first use."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import memory_ci
from memory_ci.regex import Regex


def iter_modules() -> Iterator[ModuleType]:
    """Yield all modules of the package whose requirements are installed."""
    for module_info in pkgutil.walk_packages(memory_ci.__path__, "memory_ci."):
        try:
            yield import_module(module_info.name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("memory_ci"):
                raise  # else an extra is not installed


def iter_expressions(value: Any) -> Iterator[Regex[Any]]:
    """Yield the expressions in a constant: itself, or in its items, rows and values."""
    if isinstance(value, Regex):
        yield value
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            yield from iter_expressions(item)
    elif isinstance(value, Mapping):
        for item in (*value.keys(), *value.values()):
            yield from iter_expressions(item)


def test_every_expression_can_be_compiled() -> None:
    count = 0
    faulty: list[str] = []
    for module in iter_modules():
        for name, constant in vars(module).items():
            if name.startswith("__"):
                continue
            for expression in iter_expressions(constant):
                count += 1
                try:
                    re.compile(expression.pattern, expression.flags)
                except re.error as error:
                    faulty.append(f"{module.__name__}.{name}: {error}")
    assert faulty == []
    assert count > 100


def test_an_expression_behaves_like_a_compiled_one() -> None:
    lazy, compiled = Regex("(a)|b", re.IGNORECASE), re.compile("(a)|b", re.IGNORECASE)
    for method in ("findall", "split"):
        assert getattr(lazy, method)("xAyb") == getattr(compiled, method)("xAyb")
    assert [match.span() for match in lazy.finditer("xAyb")] == [(1, 2), (3, 4)]
    assert (lazy.sub("-", "ab"), lazy.subn("-", "ab", count=1)) == ("--", ("-b", 1))
    assert [bool(find("bx")) for find in (lazy.search, lazy.match, lazy.fullmatch)] == [1, 1, 0]
