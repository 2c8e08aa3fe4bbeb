"""Insertion and removal of values in the text of JSON settings; every other byte stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from memory_ci.regex import Regex

BLANKS = Regex(r"[ \t\n\r]*")
EMPTY_OBJECT = "{\n}\n"  # the text of a new file, before an element is put into it


class WrongShapeError(ValueError):
    """JSON that is not the objects and the array that were expected."""


class JsonMember(NamedTuple):
    """A member of an object, or an element of an array.

    Attributes:
        key: the name of the member, "" for an element of an array.
        start: the offset where the member begins, with its key.
        value_start: the offset where its value begins.
        end: the offset behind its value.
        value: the decoded value.
    """

    key: str
    start: int
    value_start: int
    end: int
    value: Any


class MemberPosition(NamedTuple):
    """The offset where a container (an object or an array) opens, and the index of a member."""

    container_offset: int
    member_index: int


def insert(
    text: str, keys: Sequence[str], element: object, *, is_member_value: bool = False
) -> str:
    """Put an element at the end of the array under `keys`, and make the array if it is missing.

    Args:
        text: the JSON document.
        keys: the names of the nested objects' members that lead to the array.
        element: the value to put in.
        is_member_value: there is no array: make the element the value of the last key, unless that
            key is there.

    Raises:
        ValueError: the text is no JSON.
        RecursionError: it is nested too deep.
        WrongShapeError: a value on the way is no object, or the last is no array.

    >>> insert('{"a": 1}', ["b"], 2)
    '{"a": 1,\\n  "b": [\\n    2\\n  ]}'
    """
    _check_json(text)
    container_offset = _skip_blanks(text, 0)
    missing_keys = list(keys)

    # Follow the keys from one object to the next, as far as they are there.
    while True:
        if is_member_value and not missing_keys:
            return text  # The member has a value already.
        _require_container(text, container_offset, keys, missing_keys)
        members = _list_members(text, container_offset)
        member = _find_member(members, missing_keys[0]) if missing_keys else None
        if member is None:
            break
        container_offset = member.value_start
        missing_keys = missing_keys[1:]

    is_array_missing = missing_keys and not is_member_value
    value = [element] if is_array_missing else element
    depth = 1 + len(keys) - len(missing_keys)  # the outermost object, and one for each key found
    addition = _format_addition(text, missing_keys, value, depth)
    if members:
        end = members[-1].end
        return text[:end] + "," + addition + text[end:]
    inside = container_offset + 1
    return text[:inside] + addition + text[inside:]


def remove(
    text: str,
    keys: Sequence[str],
    is_ours: Callable[[Any], bool],
    *,
    is_member_value: bool = False,
    max_count: int | None = None,
) -> str:
    """Remove elements from the array under `keys`, and the containers that `insert` made for them.

    It is the inverse of `insert`. An empty container on one line was written by the owner of the
    file, and stays.

    Args:
        text: the JSON document.
        keys: the names of the nested objects' members that lead to the array.
        is_ours: whether to remove a value.
        is_member_value: the value of the last key is removed instead of elements of an array.
        max_count: how many elements to remove at most, from the end of the array; None for all.

    Raises:
        ValueError: the text is no JSON.
        RecursionError: it is nested too deep.
        WrongShapeError: a key occurs twice in one object.

    >>> remove(insert('{"a": 1}', ["b"], 2), ["b"], lambda value: value == 2)
    '{"a": 1}'
    """
    _check_json(text)
    removed_count = 0
    while max_count is None or removed_count < max_count:
        path = _find_last_accepted(text, keys, is_ours, is_member_value)
        if path is None:
            break
        text = _cut_with_made_containers(text, path)
        removed_count += 1
    return text


def _check_json(text: str) -> None:
    """Raise ValueError or RecursionError unless a text is JSON whose objects have unique keys."""
    json.loads(text, object_pairs_hook=_refuse_doubles)


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object, and raise WrongShapeError for a key that occurs twice.

    Programs differ in which of the two values they read.
    """
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise WrongShapeError(f"the key {json.dumps(key)} is twice in one object")
        members[key] = value
    return members


def _require_container(
    text: str, offset: int, keys: Sequence[str], missing_keys: Sequence[str]
) -> None:
    """Raise WrongShapeError unless the container that is expected opens at an offset.

    It is an array if all keys were followed, else an object.

    Args:
        text: the JSON document.
        offset: the offset, which the first of the keys have led to.
        keys: all keys.
        missing_keys: the rest of the keys, which were not followed yet.
    """
    bracket, shape = ("{", "an object") if missing_keys else ("[", "a list")
    if text[offset] == bracket:
        return
    present_keys = keys[: len(keys) - len(missing_keys)]
    subject = f"the value of `{'.'.join(present_keys)}`" if present_keys else "the file"
    raise WrongShapeError(f"{subject} must be {shape}")


def _find_member(members: Sequence[JsonMember], key: str) -> JsonMember | None:
    return next((member for member in members if member.key == key), None)


def _find_last_accepted(
    text: str, keys: Sequence[str], is_ours: Callable[[Any], bool], is_member_value: bool
) -> list[MemberPosition] | None:
    """Find the last value that `is_ours` accepts, in the array that some keys lead to.

    Args:
        text: the JSON document.
        keys: the names of the nested objects' members that lead to the array.
        is_ours: whether a value is accepted.
        is_member_value: the value of the last key is looked at instead of elements of an array.

    Returns:
        The position of each member on the way, from the outermost object to the value; None if no
        value is accepted.
    """
    container_offset = _skip_blanks(text, 0)
    path: list[MemberPosition] = []
    object_keys = keys[:-1] if is_member_value else keys
    for key in object_keys:
        if text[container_offset] != "{":
            return None
        members = _list_members(text, container_offset)
        member = _find_member(members, key)
        if member is None:
            return None
        path.append(MemberPosition(container_offset, members.index(member)))
        container_offset = member.value_start

    bracket = "{" if is_member_value else "["
    if text[container_offset] != bracket:
        return None
    last_index = None
    for index, member in enumerate(_list_members(text, container_offset)):
        has_key = member.key == keys[-1] if is_member_value else True
        if has_key and is_ours(member.value):
            last_index = index
    if last_index is None:
        return None
    path.append(MemberPosition(container_offset, last_index))
    return path


def _cut_with_made_containers(text: str, path: Sequence[MemberPosition]) -> str:
    """Cut out the member at the end of a path, and the containers around it that `insert` made.

    A container was made by `insert` if it is empty afterwards, and its brackets are on two lines.
    """
    text = _cut_member(text, path[-1])
    for position in reversed(path[:-1]):
        member = _list_members(text, position.container_offset)[position.member_index]
        value_text = text[member.value_start : member.end]
        if not re.fullmatch(r"[\[{]\s*\n\s*[\]}]", value_text):
            break
        text = _cut_member(text, position)
    return text


def _cut_member(text: str, position: MemberPosition) -> str:
    """Cut out one member, with the comma and the blanks between it and the member before it."""
    members = _list_members(text, position.container_offset)
    index = position.member_index
    if index > 0:
        start, end = members[index - 1].end, members[index].end
    elif len(members) > 1:  # the first of several: with the comma behind it
        start, end = members[0].start, members[1].start
    else:
        start, end = position.container_offset + 1, members[0].end
    return text[:start] + text[end:]


def _list_members(text: str, container_offset: int) -> list[JsonMember]:
    """Return the members of the container that opens at an offset of a text that is JSON."""
    decode = json.JSONDecoder().raw_decode
    is_object = text[container_offset] == "{"
    members: list[JsonMember] = []

    offset = _skip_blanks(text, container_offset + 1)
    while text[offset] not in "]}":
        start = offset
        key = ""
        if is_object:
            key, key_end = decode(text, start)
            colon = _skip_blanks(text, key_end)
            offset = _skip_blanks(text, colon + 1)
        value, end = decode(text, offset)
        members.append(JsonMember(key, start, value_start=offset, end=end, value=value))
        offset = _skip_blanks(text, end)
        if text[offset] == ",":
            offset = _skip_blanks(text, offset + 1)
    return members


def _skip_blanks(text: str, offset: int) -> int:
    """Return the offset of the first character at or after an offset that is no blank."""
    blanks = BLANKS.match(text, offset)
    return blanks.end() if blanks else offset


def _format_addition(text: str, keys: Sequence[str], value: object, depth: int) -> str:
    """Return a value nested under keys, on lines of its own, indented like the rest of the text.

    Args:
        text: the JSON document that the lines are for.
        keys: the keys, from the outermost inwards; none for an element of an array.
        value: the value.
        depth: the number of containers around the lines.
    """
    indented_key = re.search(r'\n([ \t]+)"', text)
    unit = indented_key[1] if indented_key else "  "
    newline = "\r\n" if "\r\n" in text else "\n"

    for key in reversed(keys[1:]):
        value = {key: value}
    addition = json.dumps(value, indent=unit, ensure_ascii=False)
    if keys:
        addition = f"{json.dumps(keys[0], ensure_ascii=False)}: {addition}"
    return "".join(f"{newline}{unit * depth}{line}" for line in addition.split("\n"))
