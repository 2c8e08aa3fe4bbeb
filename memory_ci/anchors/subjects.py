"""Find the definitions that an entry is about, by the change it comes from and by its words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from memory_ci.anchors.anchors import join_tokens, normalize_definition
from memory_ci.anchors.symbols import (
    Definition,
    is_type,
    list_definitions,
    list_mentions,
    strip_owners,
)
from memory_ci.regex import Regex

MAX_CITES = 3  # Places of code that an entry is given as cites.
# Files. Definitions of more files are no guess for an entry that names none of them.
MAX_FILES = 2
SUPPORT_FILE = Regex(
    r"(?:.*/)?(?:tests?|testing|specs?|__tests__|testdata|fixtures|examples?|bench(?:marks|es)?"
    r"|docs?|playground)/.*"
    r"|(?:.*/)?(?:test_|conftest\.)[^/]*|.*(?:[._-]tests?|[.-]spec|[.-]bench)\.\w+",
    re.IGNORECASE,
)
"""The path of a file that a change touches in addition to the code it is about."""

Words = tuple[str, ...]
Texts = Mapping[str, str]
"""Texts of files by path."""


class TouchedDefinition(NamedTuple):
    """A definition that a change made or edited.

    Attributes:
        path: the path of its file.
        name: its name with its owners.
        weight: number of words that were added or removed.
        is_type: whether it is a type.
    """

    path: str
    name: str
    weight: int
    is_type: bool


def list_touched_definitions(before: Texts, after: Texts) -> list[TouchedDefinition]:
    """Return the definitions that a change made or edited.

    A definition that only moved is not touched. Of a method and its class the method is returned,
    of a function and one inside of it the outer function.

    Args:
        before: the texts of the changed files before the change.
        after: their texts after it.
    """
    old_words_by_path: dict[str, dict[str, Words]] = {}  # By path, then by name of the definition.
    old_definitions: set[tuple[str, Words]] = set()  # Name without owners, and words.
    for path, text in before.items():
        old_words = {name: words for name, (_, words) in _group_by_name(path, text).items()}
        old_words_by_path[path] = old_words
        old_definitions.update((strip_owners(name), words) for name, words in old_words.items())

    touched_definitions: list[TouchedDefinition] = []
    for path, text in after.items():
        old_words = old_words_by_path.get(path, {})
        touched_in_file: dict[str, TouchedDefinition] = {}
        for name, (definition, words) in _group_by_name(path, text).items():
            is_unchanged = (strip_owners(name), words) in old_definitions
            if is_unchanged:
                continue
            weight = _count_edited(old_words.get(name, ()), words)
            is_touched_type = is_type(path, text, definition)
            touched_in_file[name] = TouchedDefinition(path, name, weight, is_touched_type)
        touched_definitions += _drop_nested(touched_in_file)
    return touched_definitions


def _count_edited(old_words: Words, new_words: Words) -> int:
    """Return how many words were added or removed."""
    old_counts = Counter(old_words)
    new_counts = Counter(new_words)
    return ((new_counts - old_counts) + (old_counts - new_counts)).total()


def _drop_nested(definitions_by_name: Mapping[str, TouchedDefinition]) -> list[TouchedDefinition]:
    """Drop types that have a touched member, and functions inside of touched functions.

    Args:
        definitions_by_name: the touched definitions of a file by name.
    """
    dropped_names: set[str] = set()
    for name in definitions_by_name:
        for owner in _list_owners(name):
            if owner in definitions_by_name:
                dropped_names.add(owner if definitions_by_name[owner].is_type else name)
    return [
        definition for name, definition in definitions_by_name.items() if name not in dropped_names
    ]


def _list_owners(name: str) -> list[str]:
    """Return the full names of the definitions around one, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def choose_touched_definitions(
    prose: str, touched_definitions: Sequence[TouchedDefinition], named_paths: Collection[str]
) -> list[TouchedDefinition]:
    """Return the definitions that an entry is about, of those that its change touched.

    These are the definitions that it names as code, else those in the files that it names, else
    all of them if they are few. At most three are returned.

    Args:
        prose: the text of the entry.
        touched_definitions: the definitions that its change touched.
        named_paths: the files that the entry names.
    """
    mentions = list_mentions(prose)
    chosen_definitions = [
        definition for definition in touched_definitions if _is_mentioned(definition.name, mentions)
    ]
    if not chosen_definitions:
        in_named_files = [
            definition for definition in touched_definitions if definition.path in named_paths
        ]
        chosen_definitions = _prefer_functions(in_named_files)
    if not chosen_definitions:
        in_main_code: list[TouchedDefinition] = []
        for definition in touched_definitions:
            if not SUPPORT_FILE.fullmatch(definition.path):
                in_main_code.append(definition)
        chosen_definitions = _prefer_functions(in_main_code or touched_definitions)
        paths = {definition.path for definition in chosen_definitions}
        if len(chosen_definitions) > MAX_CITES or len(paths) > MAX_FILES:
            return []

    words = set(re.findall(r"\w+", prose))
    chosen_definitions = (
        sorted(  # Definitions whose plain name the entry has come first, then the most edited.
            chosen_definitions,
            key=lambda definition: (strip_owners(definition.name) not in words, -definition.weight),
        )
    )
    return chosen_definitions[:MAX_CITES]


def find_mentioned_definitions(prose: str, texts: Texts) -> list[tuple[str, str]]:
    """Find the definitions in some files that an entry names as code.

    Args:
        prose: the text of the entry.
        texts: the texts of the files by path.

    Returns:
        The path and the name of each, at most three.
    """
    mentions = list_mentions(prose)
    if not mentions:
        return []
    mentioned_definitions: list[tuple[str, str]] = []
    for path, text in texts.items():
        names = [definition.name for definition in list_definitions(path, text)]
        mentioned_definitions += [(path, name) for name in names if _is_mentioned(name, mentions)]
    return mentioned_definitions[:MAX_CITES]


def matches_name(mention: str, name: str) -> bool:
    """Return whether a mention, with or without owners, can be the name of a definition.

    >>> mentions = ("api.Client.post", "post", "Server.post")
    >>> [matches_name(mention, "Client.post") for mention in mentions]
    [True, True, False]
    """
    mention_parts = mention.split(".")
    name_parts = name.split(".")
    common_count = min(len(mention_parts), len(name_parts))
    return mention_parts[-common_count:] == name_parts[-common_count:]


def _is_mentioned(name: str, mentions: Sequence[str]) -> bool:
    return any(matches_name(mention, name) for mention in mentions)


def _group_by_name(path: str, text: str) -> dict[str, tuple[Definition, Words]]:
    """Return for each name in a file its first definition, and the words of all its definitions."""
    groups: dict[str, list[Definition]] = defaultdict(list)
    for definition in list_definitions(path, text):
        groups[definition.name].append(definition)
    first_and_words: dict[str, tuple[Definition, Words]] = {}
    for name, definitions in groups.items():
        tokens = [normalize_definition(path, text, definition) for definition in definitions]
        first_and_words[name] = (definitions[0], join_tokens(tokens).words)
    return first_and_words


def _prefer_functions(definitions: Sequence[TouchedDefinition]) -> list[TouchedDefinition]:
    """Return functions and constants; types only if there is nothing else.

    An edit of any member is an edit of its type.
    """
    functions = [definition for definition in definitions if not definition.is_type]
    return functions or list(definitions)
