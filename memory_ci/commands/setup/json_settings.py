"""Settings in JSON, edited as text: one element goes in or out, and every other byte stays as its owner wrote it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

BLANKS = re.compile(r"[ \t\n\r]*")
EMPTY = "{\n}\n"  # the file that an element is put into where there is none


class WrongShapeError(ValueError):
    """JSON that is not the objects and the array that were expected."""


class JsonMember(NamedTuple):
    """A member of an object or an element of an array: text[start:end], its value beginning at `at`."""

    key: str
    start: int
    at: int
    end: int
    value: Any


def insert(text: str, keys: Sequence[str], element: object, *, is_member: bool = False) -> str:
    """Put `element` at the end of the array under `keys`, which is made where it is missing; with `is_member` it is the
    value of the last key, unless that is there.

    Raises ValueError when it is no JSON, RecursionError when it is nested too deep, WrongShapeError.

    >>> insert('{"a": 1}', ["b"], 2)
    '{"a": 1,\\n  "b": [\\n    2\\n  ]}'
    """
    _check(text)
    place, depth, path = _skip(text, 0), 1, list(keys)
    while True:
        if is_member and not path:
            return text
        if text[place] != ("{" if path else "["):
            above = ".".join(keys[: len(keys) - len(path)])
            what = f"the value of `{above}`" if above else "the file"
            raise WrongShapeError(f"{what} must be {'an object' if path else 'a list'}")
        members = _members(text, place)
        known = next((one for one in members if path and one.key == path[0]), None)
        if known is None:
            break
        place, depth, path = known.at, depth + 1, path[1:]
    end = members[-1].end if members else place + 1
    value = [element] if path and not is_member else element
    return text[:end] + "," * bool(members) + _format(text, path, value, depth) + text[end:]


def remove(
    text: str,
    keys: Sequence[str],
    is_ours: Callable[[Any], bool],
    *,
    is_member: bool = False,
    most: int | None = None,
) -> str:
    """Take the elements that are ours out of the array under `keys`, `most` of them from its end, and what `insert`
    made around them; with `is_member` the value of the last key.

    The inverse of `insert`; what its owner left empty in one line stays. Raises as `insert`.

    >>> remove(insert('{"a": 1}', ["b"], 2), ["b"], lambda value: value == 2)
    '{"a": 1}'
    """
    _check(text)
    while most != 0 and (path := _find(text, keys, is_ours, is_member)) is not None:
        text, most = _cut(text, *path[-1]), most and most - 1
        # From the inside outwards: a container that held nothing else, in lines of its own, was made by `insert`.
        for place, number in reversed(path[:-1]):
            member = _members(text, place)[number]
            if not re.fullmatch(r"[\[{]\s*\n\s*[\]}]", text[member.at : member.end]):
                break
            text = _cut(text, place, number)
    return text


def _check(text: str) -> None:
    json.loads(text, object_pairs_hook=_refuse_doubles)


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A key that occurs twice is refused: readers differ in which one counts."""
    members = dict(pairs)
    if len(members) < len(pairs):
        double = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise WrongShapeError(f"the key {json.dumps(double)} stands twice in one object")
    return members


def _find(
    text: str, keys: Sequence[str], is_ours: Callable[[Any], bool], is_member: bool
) -> list[tuple[int, int]] | None:
    """The way to the last element that is ours: in each container, its place and the number of the member."""
    place, path = _skip(text, 0), list[tuple[int, int]]()
    for key in keys if is_member else [*keys, None]:
        if text[place] != ("[" if key is None else "{"):
            return None
        members = _members(text, place)
        is_last = is_member and len(path) == len(keys) - 1
        hits = (
            number
            for number, one in reversed([*enumerate(members)])
            if (key is None or one.key == key)
            and (not (key is None or is_last) or is_ours(one.value))
        )
        number = next(hits, None)
        if number is None:
            return None
        path.append((place, number))
        place = members[number].at
    return path


def _cut(text: str, place: int, number: int) -> str:
    """The text without one member, and without the comma and the blanks that parted it from the one before."""
    members = _members(text, place)
    if number == 0 and len(members) > 1:
        return text[: members[0].start] + text[members[1].start :]
    start = members[number - 1].end if number else place + 1
    return text[:start] + text[members[number].end :]


def _members(text: str, place: int) -> list[JsonMember]:
    """What the container that opens at `place` holds; the text is known to be JSON."""
    decode, found = json.JSONDecoder().raw_decode, list[JsonMember]()
    is_object, at = text[place] == "{", _skip(text, place + 1)
    while text[at] not in "]}":
        start, key = at, ""
        if is_object:
            key, at = decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # past the colon
        value, end = decode(text, at)
        found.append(JsonMember(key, start, at, end, value))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _skip(text: str, at: int) -> int:
    found = BLANKS.match(text, at)
    return found.end() if found else at


def _format(text: str, path: Sequence[str], element: object, depth: int) -> str:
    """The addition on lines of its own, indented as the rest of the text is."""
    found = re.search(r'\n([ \t]+)"', text)
    unit, newline = found[1] if found else "  ", "\r\n" if "\r\n" in text else "\n"
    value: Any = element
    for key in reversed(path[1:]):
        value = {key: value}
    label = f"{json.dumps(path[0], ensure_ascii=False)}: " if path else ""
    lines = (label + json.dumps(value, indent=unit, ensure_ascii=False)).split("\n")
    return "".join(f"{newline}{unit * depth}{line}" for line in lines)
