"""What a piece of work was about, told from its paths, its labels and its title."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from memory_ci.records.episode import Situation
from memory_ci.text import content_words, shorten, words

SUMMARY_WIDTH = 120
MAX_TOPIC_WORDS = 3

AREA = re.compile(r"(?:area|domain|component|module|pkg|package|scope)\s*[:/]\s*(?P<name>\S.*?)\s*", re.IGNORECASE)
"""A label of the forge that names a part: `area: payments`, `component/search`."""

CONVENTIONAL = re.compile(r"\w+\((?P<topic>[^()]{1,40})\)!?:\s")  # `fix(retries): …`, as Conventional Commits have it.
KIND = re.compile(r"\w+!?:\s+")
CONTAINERS = frozenset(
    {"src", "lib", "libs", "app", "apps", "packages", "pkg", "crates", "cmd", "internal", "modules", "services"}
)
"""Directories that hold the parts and are none themselves."""

ASIDE = frozenset({"tests", "test", "docs", "doc", "spec", "examples", "benchmarks", ".github", "changelog.d"})
"""Where work leaves traces whatever it is about."""


def situation_of(title: str, paths: Sequence[str], labels: Collection[str]) -> Situation:
    """The situation of a change.

    >>> situation_of("fix(retries): charge once", ["src/payments/client.py", "tests/test_client.py"], ["bug"])
    Situation(domain='payments', topic='retries', summary='fix(retries): charge once')
    """
    return Situation(domain=find_domain(paths, labels), topic=find_topic(title), summary=shorten(title, SUMMARY_WIDTH))


def find_domain(paths: Sequence[str], labels: Collection[str]) -> str:
    """The part of the repository that a label names, else the one that most of the paths are in; "" for the root."""
    for label in sorted(labels):
        if match := AREA.fullmatch(label):
            return match["name"].lower()
    parts = [part for path in paths if (part := _part_of(path))]
    counts = Counter(part for part in parts if part not in ASIDE) or Counter(parts)
    return min(counts, key=lambda part: (-counts[part], part), default="")


def find_topic(title: str) -> str:
    """The scope of a conventional title, else its first words of content."""
    if match := CONVENTIONAL.match(title):
        return match["topic"].strip().lower()
    plain = KIND.sub("", title, count=1)
    telling = content_words(plain)
    return " ".join(list(dict.fromkeys(word for word in words(plain) if word in telling))[:MAX_TOPIC_WORDS])


def _part_of(path: str) -> str:
    directories = path.split("/")[:-1]
    return next((name for name in directories if name not in CONTAINERS), "")
