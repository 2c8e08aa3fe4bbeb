"""Subjects: the definitions that an entry is about, by the change that it comes from and by the words that it says."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from memory_ci.anchors.anchors import join_words, say_definition
from memory_ci.anchors.symbols import Definition, is_type, list_definitions, list_mentions, tail_of

MAX_CITES = 3
MAX_FILES = 2  # More definitions, or those of more files, are no guess for an entry that names none of them.
SUPPORT = re.compile(
    r"(?:.*/)?(?:tests?|testing|specs?|__tests__|testdata|fixtures|examples?|bench(?:marks|es)?|docs?|playground)/.*"
    r"|(?:.*/)?(?:test_|conftest\.)[^/]*|.*(?:[._-]tests?|[.-]spec|[.-]bench)\.\w+",
    re.IGNORECASE,
)  # Files whose code a change touches beside what it is about.
Words = tuple[str, ...]
Texts = Mapping[str, str]  # Texts of files by path.


class TouchedDefinition(NamedTuple):
    """A definition that a change made or edited: `weight` is how many words are other."""

    path: str
    name: str
    weight: int
    is_type: bool


def list_touched(before: Texts, after: Texts) -> list[TouchedDefinition]:
    """The definitions of `after` that do not say what one of their name said before. What only moved is not touched. Of
    a method and its class that is the method, of a function and one inside of it the outer one."""
    was = {path: _say_by_name(path, text) for path, text in before.items()}
    moved = {(tail_of(name), words) for own in was.values() for name, (_, words) in own.items()}
    found: list[TouchedDefinition] = []
    for path, text in after.items():
        touched: dict[str, TouchedDefinition] = {}
        for name, (one, words) in _say_by_name(path, text).items():
            if (tail_of(name), words) not in moved:
                now, old = Counter(words), Counter(was.get(path, {}).get(name, (None, ()))[1])
                weight = ((now - old) + (old - now)).total()
                touched[name] = TouchedDefinition(path, name, weight, is_type(path, text, one))
        parts = {name: name.split(".") for name in touched}
        above = {
            name: [".".join(own[:end]) for end in range(1, len(own))] for name, own in parts.items()
        }
        owners = {name: [touched[one] for one in above[name] if one in touched] for name in touched}
        inside = {owner.name for own in owners.values() for owner in own if owner.is_type}
        outer = (
            name
            for name in touched
            if name not in inside and all(owner.is_type for owner in owners[name])
        )
        found += map(touched.__getitem__, outer)
    return found


def choose_touched(
    prose: str, touched: Sequence[TouchedDefinition], named_paths: Collection[str]
) -> list[TouchedDefinition]:
    """What an entry is about of all that its change touched: what it names as code does, else what is in the files
    that it names, else all of it if that is little; three at most."""
    mentions = list_mentions(prose)
    named = [one for one in touched if any(is_meant(mention, one.name) for mention in mentions)]
    found = named or _functions(one for one in touched if one.path in named_paths)
    if not found:
        main = [one for one in touched if not SUPPORT.fullmatch(one.path)]
        found = _functions(main or touched)
        if len(found) > MAX_CITES or len({one.path for one in found}) > MAX_FILES:
            return []
    words = set(re.findall(r"\w+", prose))
    return sorted(found, key=lambda one: (tail_of(one.name) not in words, -one.weight))[:MAX_CITES]


def find_named(prose: str, texts: Texts) -> list[tuple[str, str]]:
    """(path, name) of definitions in `texts` that an entry names as code, though nobody touched them; three at most."""
    mentions = list_mentions(prose)
    names = (
        (path, one.name)
        for path, text in texts.items()
        for one in list_definitions(path, text)
        if mentions
    )
    return [one for one in names if any(is_meant(mention, one[1]) for mention in mentions)][
        :MAX_CITES
    ]


def is_meant(mention: str, name: str) -> bool:
    """Whether a name as it is mentioned, with or without owners, can be that of a definition.

    >>> [is_meant(mention, "Client.post") for mention in ("api.Client.post", "post", "Server.post")]
    [True, True, False]
    """
    one, other = mention.split("."), name.split(".")
    common = min(len(one), len(other))
    return one[-common:] == other[-common:]


def _say_by_name(path: str, text: str) -> dict[str, tuple[Definition, Words]]:
    """The definitions of a text by name, the first of those that share one, with the words of all of them."""
    groups: dict[str, list[Definition]] = defaultdict(list)
    for one in list_definitions(path, text):
        groups[one.name].append(one)
    return {
        name: (own[0], join_words([say_definition(path, text, one) for one in own]).words)
        for name, own in groups.items()
    }


def _functions(touched: Iterable[TouchedDefinition]) -> list[TouchedDefinition]:
    """Functions and constants; types where there is nothing else, for any edit of a member is one of theirs."""
    found = list(touched)
    return [one for one in found if not one.is_type] or found
