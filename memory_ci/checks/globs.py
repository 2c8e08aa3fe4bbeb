"""The globs of checks: those of gitignore(5), except that `!` always takes files out.

git takes nothing out again below a directory that an earlier glob names. A check may say
`src/**` and `!*.test.*`.

Globs are translated to regular expressions without catastrophic backtracking: what follows a `*` or
a `**` is matched as early as possible, and the choice is not taken back (an atomic group).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from memory_ci.regex import Regex

MAX_GLOBS = 50  # Globs of one list.
MAX_GLOB = 300  # Characters of a glob.

TOKEN = Regex(
    r"\\(?P<escaped>.)|(?P<stars>\*+)|(?P<any>\?)"
    r"|\[(?P<not>[!^])?(?P<members>\]?[^\]\[/\\]*)\]|(?P<literal>[^\\\[*?])",
    re.DOTALL,
)
WILDCARD = Regex(r"[*?\[\\]")


class GlobError(ValueError):
    """A glob that is not allowed; the message says why."""


class Globs:
    """A list of globs, matched as in a .gitignore file: the last matching glob decides.

    A glob that names a directory matches all files below it. Matching is case-sensitive on every
    system. A glob with `!` in front excludes files that an earlier glob of the list matches.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        """Translate the globs to regular expressions.

        Raises:
            GlobError: one of them is not allowed.
        """
        validate_globs(globs)
        self._rules: list[tuple[bool, re.Pattern[str]]] = []
        included_patterns: list[str] = []
        for glob in globs:
            is_negated = glob.startswith("!")
            pattern = _compile_glob(glob.removeprefix("!"))
            self._rules.append((is_negated, re.compile(pattern, re.DOTALL)))
            if not is_negated:
                included_patterns.append(pattern)
        # One search for all globs: most files of a repository match none.
        self._any = re.compile("|".join(included_patterns), re.DOTALL)

    def matches(self, path: str) -> bool:
        """Return whether a file is among those that the globs name.

        >>> globs = Globs(["src/*", "!src/api/"])
        >>> [globs.matches(path) for path in ("src/a.py", "src/api/b.py")]
        [True, False]
        """
        if self._any.match(path) is None:
            return False
        for is_negated, pattern in reversed(self._rules):
            if pattern.match(path):
                return not is_negated
        return False

    def select(self, paths: Iterable[str]) -> list[str]:
        """Return the paths that the globs name."""
        return [path for path in paths if self.matches(path)]


@lru_cache(maxsize=256)
def compile_globs(globs: tuple[str, ...]) -> Globs:
    """Return the globs of a check, which are translated once.

    Raises:
        GlobError: one of them is not allowed.
    """
    return Globs(globs)


def is_literal(glob: str) -> bool:
    """Return whether a glob names one path, without a wildcard."""
    return WILDCARD.search(glob) is None and not glob.startswith("!")


def list_pathspecs(globs: Iterable[str]) -> list[str]:
    """Return pathspecs of git that name at least the files of some globs.

    >>> list_pathspecs(["*.py"])
    [':(top,glob)**/*.py', ':(top,glob)**/*.py/**']
    """
    pathspecs: list[str] = []
    for glob in globs:
        if glob.startswith("!"):
            continue
        body = glob.rstrip("/")
        pattern = body.removeprefix("/") if "/" in body else f"**/{body}"
        pathspecs += [f":(top,glob){pattern}", f":(top,glob){pattern}/**"]
    return pathspecs


def validate_globs(globs: Sequence[str]) -> None:
    """Raise an error unless a list of globs is allowed.

    It is if it has neither too many nor too long globs, if each can be translated, and if not all
    are negated.

    Raises:
        GlobError: the list is not allowed; the message says why.
    """
    if not globs:
        raise GlobError("needs at least one glob")
    if len(globs) > MAX_GLOBS:
        raise GlobError(f"has more than {MAX_GLOBS} globs")
    for glob in globs:
        if len(glob) > MAX_GLOB:
            raise GlobError(f"has a glob of more than {MAX_GLOB} characters")
        _compile_glob(glob.removeprefix("!"))
    if all(glob.startswith("!") for glob in globs):
        raise GlobError("has nothing but negated globs, which name no file")


def _compile_glob(glob: str) -> str:
    """Return the regular expression of a glob without its negation.

    It matches at the start of a path that the glob names, or of a path below such a directory.

    Raises:
        GlobError: the glob is not allowed.
    """
    if not glob.strip("/"):
        raise GlobError(f"{glob!r} names no file")
    if glob.startswith("#"):
        raise GlobError(f"{glob!r} is a comment in gitignore; write \\#")
    if glob != glob.rstrip(" "):
        raise GlobError(f"{glob!r} ends in a blank, which gitignore drops")
    if "\0" in glob or "\n" in glob:
        raise GlobError(f"{glob!r} holds a character that no path has")
    is_directory = glob.endswith("/")
    body = glob.removesuffix("/")
    segments = body.removeprefix("/").split("/")
    if "/" not in body:
        segments = ["**", *segments]  # A glob without a slash matches at any depth.
    end = "(?=/)" if is_directory else r"(?=/|\Z)"
    return f"(?:{_translate_path(segments)}{end})"


def _translate_path(segments: Sequence[str]) -> str:
    """Return the regular expression of a glob such as `src/**/test_*.py`.

    `**` stands for any number of directories, also none. Names that follow it are searched for at
    each depth, and the first match counts. Another match further on would not help the rest of the
    glob to match. Therefore `(?>…)`, an atomic group, keeps the regular expression from trying it,
    which could take very long.

    Args:
        segments: the names between the slashes.
    """
    # The names before the first `**`, between two of them, and after the last one.
    groups: list[list[str]] = [[]]
    for segment in segments:
        if segment != "**":
            groups[-1].append(segment)
        elif len(groups) == 1 or groups[-1]:  # `**/**` is the same as `**`
            groups.append([])

    first_group, *other_groups = groups
    pattern = "/".join(map(_translate_segment, first_group))
    if first_group and other_groups:
        pattern += "/"
    for number, group in enumerate(other_groups, start=1):
        is_last = number == len(other_groups)
        names = "/".join(map(_translate_segment, group))
        if not group:
            pattern += "[^/]+"  # `a/**` names all that is in a
        elif is_last:
            pattern += rf"(?>(?:[^/]+/)*?{names}(?=/|\Z))"
        else:
            pattern += f"(?>(?:[^/]+/)*?{names}/)"
    return pattern


def _translate_segment(segment: str) -> str:
    """Return the regular expression of one name in a glob, such as `test_*.py`.

    Between two stars, the first match of a part counts: as in `_translate_path`, an atomic group
    keeps the regular expression from trying others. The part after the last star must be the end
    of the name.

    Raises:
        GlobError: a class or an escape in it is not complete.
    """
    parts: list[str] = [""]  # The patterns before, between and after the stars.
    position = 0
    while position < len(segment):
        token = TOKEN.match(segment, position)
        if token is None:
            raise GlobError(
                f"{segment!r} has an unclosed [ or \\, or a class of this kind: [[:x:]]"
            )
        position = token.end()
        if token["stars"]:
            if len(token["stars"]) > 1:
                raise GlobError(f"{segment!r} has ** beside other characters; it stands alone")
            parts.append("")
        else:
            parts[-1] += _translate_token(token)
    if len(parts) == 1:
        return parts[0]
    first_part, *middle_parts, last_part = parts
    middle_pattern = "".join(f"(?>[^/]*?{part})" for part in middle_parts if part)
    # `(?!/)`: a name has at least one character.
    return rf"(?!/){first_part}{middle_pattern}[^/]*{last_part}(?=/|\Z)"


def _translate_token(token: re.Match[str]) -> str:
    if token["any"]:
        return "[^/]"
    if token["members"] is not None:
        return _translate_class(token["members"], is_negated=bool(token["not"]))
    return re.escape(token["escaped"] or token["literal"])


def _translate_class(members: str, *, is_negated: bool) -> str:
    """Return the regular expression of a class of characters in a glob, such as `[a-z]`.

    A class never matches a slash, even if it is negated (`[!a]`): hence the `(?!/)`.

    Raises:
        GlobError: it is empty or has an invalid range, such as `[z-a]`.
    """
    if not members:
        raise GlobError("has an empty class: []")
    escaped_members = re.sub(r"([\]\\^&~|])", r"\\\1", members)
    negation = "^" if is_negated else ""
    pattern = f"(?!/)[{negation}{escaped_members}]"
    try:
        re.compile(pattern)
    except re.error:
        raise GlobError(f"has a range that is none: [{members}]") from None
    return pattern
