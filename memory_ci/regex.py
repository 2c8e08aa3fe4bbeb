"""Regular expressions that are compiled when they are first used.

Compiling one takes 0.1 to 2 ms. The modules that a hook loads define hundreds of them, and most
runs use a few: compiled at import they were half of the time of a hook.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, AnyStr, Generic


class Regex(Generic[AnyStr]):
    """A `re.Pattern` that is compiled at its first use.

    Each method is a bound method of the compiled pattern, cached as an attribute, so that later
    calls are as fast as with `re.compile`.

    Attributes:
        pattern: the text of the expression.
        flags: flags of `re`.
    """

    def __init__(self, pattern: AnyStr, flags: int = 0) -> None:
        """Store an expression; if it is invalid, its first use raises `re.error`."""
        self.pattern: AnyStr = pattern
        self.flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[AnyStr]:
        """The compiled pattern, for a function that takes one."""
        return re.compile(self.pattern, self.flags)

    @cached_property
    def search(self) -> Callable[..., re.Match[AnyStr] | None]:
        """See `re.Pattern.search`."""
        return self.compiled.search

    @cached_property
    def match(self) -> Callable[..., re.Match[AnyStr] | None]:
        """See `re.Pattern.match`."""
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> Callable[..., re.Match[AnyStr] | None]:
        """See `re.Pattern.fullmatch`."""
        return self.compiled.fullmatch

    @cached_property
    def finditer(self) -> Callable[..., Iterator[re.Match[AnyStr]]]:
        """See `re.Pattern.finditer`."""
        return self.compiled.finditer

    @cached_property
    def findall(self) -> Callable[..., list[Any]]:
        """See `re.Pattern.findall`."""
        return self.compiled.findall

    @cached_property
    def split(self) -> Callable[..., list[Any]]:
        """See `re.Pattern.split`."""
        return self.compiled.split

    @cached_property
    def sub(self) -> Callable[..., AnyStr]:
        """See `re.Pattern.sub`."""
        return self.compiled.sub

    @cached_property
    def subn(self) -> Callable[..., tuple[AnyStr, int]]:
        """See `re.Pattern.subn`."""
        return self.compiled.subn
