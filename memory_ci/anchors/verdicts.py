"""Judge whether the code that an entry cites is still the same (docs/serving.md#anchors)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.anchors import (
    MIN_DISTINCTIVE_WORDS,
    Lines,
    Subject,
    cut_lines,
    cut_tokens,
    find_subject,
    get_lines,
    has_hash,
    normalize_definition,
    strip_layout,
)
from memory_ci.anchors.named_parts import FEW_PARTS, find_edited_share
from memory_ci.anchors.symbols import (
    Definition,
    find_definition,
    list_definitions,
    merge_definitions,
    strip_owners,
)
from memory_ci.anchors.words import (
    BRANCH_KEYWORDS,
    DEDENT,
    LINE_END,
    PARAGRAPH,
    Tokens,
    read_code,
)
from memory_ci.records.anchor import STALE_KINDS, Anchor, Verdict, VerdictKind
from memory_ci.regex import Regex

EDITED = "edited since"
FILE_LOST = "the file is not there any more"

# Lines. A longer text is not searched by its hash alone, which would be computed at each line.
MAX_WINDOW = 300

MIN_SIMILARITY = 0.6
"""Dice coefficient from which a definition of the same name elsewhere is the cited one, edited."""

MIN_RENAMED_WORDS = 20
MIN_RENAMED_SIMILARITY = 0.85
"""For a definition of another name or file that is to hold the cited lines.

It needs at least that number of words and that Dice coefficient. A definition of that number of
words that differs only in its name was renamed.
"""

MAX_EDITED = 0.02
"""Share of the edited words up to which a file cited as a whole counts as unchanged
(benchmarks/results/truth.md)."""

# Pairs of lines. A larger region between the first and the last difference is not compared.
MAX_PAIRS = 2_000_000
EDGES = Regex(r"^\W+|\W+$")
CODE_LINE = Regex(r"\s*[\w@})\]]")  # A line that does not look like a comment.
TRUTH_FACTORS: Mapping[VerdictKind, float] = {
    "fresh": 1.0,
    "moved": 1.0,
    "unverifiable": 1.0,
    "changed": 0.5,
    "gone": 0.0,
}
PRECEDENCE: tuple[VerdictKind, ...] = ("moved", "fresh", "unverifiable")


class _Candidate(NamedTuple):
    """A definition that may be the cited one."""

    path: str
    definition: Definition
    tokens: Tokens

    @property
    def lines(self) -> Lines:
        return self.definition.first, self.definition.last


class _Search(NamedTuple):
    """An anchor, and the files in which its code is searched.

    Attributes:
        anchor: the anchor.
        old_text: the text of its file at its commit.
        files: the texts of files now that may hold the cited code, by path.
        current_path: the path of the cited file now, which differs after a rename; None if the
            file was deleted.
        old_files: texts that some of `files` had at the commit of the anchor.
    """

    anchor: Anchor
    old_text: str
    files: Mapping[str, str]
    current_path: str | None
    old_files: Mapping[str, str]


def judge_anchor(
    anchor: Anchor,
    old_text: str | None,
    files: Mapping[str, str],
    successor: str | None,
    old_files: Mapping[str, str] | None = None,
) -> Verdict:
    """Return whether the code of an anchor (a place at a commit) is the same, moved or gone.

    Args:
        anchor: the anchor to judge.
        old_text: the text of its file at its commit; None if it cannot be read.
        files: the texts of files, as they are now, that may hold the cited code, by path, the
            likeliest first.
        successor: the path of the cited file now, which differs after a rename; None if the file
            was deleted. A successor that is not in `files` cannot be read.
        old_files: texts that some of `files` had at the commit of the anchor. Code that a file
            had then was not moved to it.

    Returns:
        The verdict, with the place where the code is now. It is `unverifiable` if the file cannot
        be read now, or if neither its old text nor a hash of the cited words is known.
    """
    lines = get_lines(anchor)
    new_text = files.get(successor or "")
    if lines and successor and old_text is not None and new_text is not None:
        untouched_lines = _map_untouched(old_text, new_text, lines)
        if untouched_lines:
            return _judge_unchanged(anchor, successor, untouched_lines)

    subject = find_subject(anchor, old_text) if old_text is not None else None
    can_use_hash = old_text is None and bool(anchor.digest)
    if subject is None and not can_use_hash:
        note = "nothing to compare with is known"
        return Verdict("unverifiable", anchor.path, first=anchor.first, last=anchor.last, note=note)
    if successor is not None and successor not in files:
        note = "the file cannot be read"
        return Verdict("unverifiable", successor, first=anchor.first, last=anchor.last, note=note)
    if subject is None or old_text is None:
        return _judge_by_hash(anchor, files, successor)

    search = _Search(anchor, old_text, files, successor, old_files or {})
    if subject.definition is not None:
        verdict = _judge_definition(subject, subject.definition, search)
    elif subject.lines:
        verdict = _judge_lines(subject, subject.lines, search)
    else:
        verdict = _judge_file(subject, search)
    return verdict or _judge_lost(subject, search)


def find_search_text(anchor: Anchor, old_text: str | None, new_text: str | None) -> str:
    """Return a text by which to search other files for cited code that may have moved there.

    It is the name of a definition that the file no longer has, else the longest of the cited lines.

    Args:
        anchor: the anchor whose code is searched for.
        old_text: the text of its file at its commit; None if it cannot be read.
        new_text: the text of its file now; None if the file was deleted.

    Returns:
        The text, or "" if neither is distinctive.
    """
    subject = find_subject(anchor, old_text) if old_text is not None else None
    if subject is None or old_text is None:
        return strip_owners(anchor.symbol or "")
    if subject.definition is not None:
        name = subject.definition.name
        definitions = list_definitions(anchor.path, new_text) if new_text is not None else ()
        is_still_defined = any(definition.name == name for definition in definitions)
        return "" if is_still_defined else strip_owners(name)
    if subject.lines is None or not subject.is_distinctive:
        return ""
    lines = cut_lines(old_text, subject.lines).split("\n")
    stripped_lines = [EDGES.sub("", line) for line in lines]
    return max(stripped_lines, key=len)


def judge_entry(verdicts: Iterable[Verdict]) -> VerdictKind:
    """Return the kind of verdict on an entry, from the verdicts on its anchors.

    An entry may cite several places. It is gone if all of them are gone, and changed if any is
    changed or gone. Else the first kind of PRECEDENCE that occurs counts.
    """
    kinds = {verdict.kind for verdict in verdicts}
    if kinds == {"gone"}:
        return "gone"
    if kinds & {"changed", "gone"}:
        return "changed"
    for kind in PRECEDENCE:
        if kind in kinds:
            return kind
    return "fresh"


def judge_parts(anchor: Anchor, verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a file that is cited as a whole, from those on some parts of it.

    A stale part (changed or gone) makes the verdict `changed`, for the file itself still exists.
    If the entry names many parts, the share of the stale ones is noted.

    Args:
        anchor: the anchor of the file.
        verdicts: the verdicts on the parts of the file that its entry names.
    """
    are_gone = all(verdict.kind == "gone" and verdict.path == anchor.path for verdict in verdicts)
    if are_gone and any(verdict.note == FILE_LOST for verdict in verdicts):
        return Verdict("gone", anchor.path, note=FILE_LOST)
    stale_verdicts = [verdict for verdict in verdicts if verdict.kind in STALE_KINDS]
    if stale_verdicts and len(verdicts) > FEW_PARTS:
        note = f"{EDITED}: {len(stale_verdicts)} of {len(verdicts)} places that it names"
        edited_share = round(len(stale_verdicts) / len(verdicts), 2)
        return Verdict("changed", stale_verdicts[0].path, note=note, edited=edited_share)
    if stale_verdicts:
        return replace(stale_verdicts[0], kind="changed")
    for verdict in verdicts:
        if verdict.kind == "unverifiable":
            return replace(verdict, first=None, last=None)
    return _judge_unchanged(anchor, verdicts[0].path, None)


def truth_factor(verdicts: Sequence[Verdict]) -> float:
    """Return the factor by which an entry's score in ranking is multiplied.

    It follows from the verdicts on the anchors of the entry. 0 means that the entry is withheld.
    For a file that is cited as a whole the factor is 1 less the share of its words that were
    edited, but at least the factor of changed code.
    """
    edited_share = max((verdict.edited for verdict in verdicts), default=0.0)
    factor_by_edits = max(TRUTH_FACTORS["changed"], 1 - edited_share)
    return min(TRUTH_FACTORS[judge_entry(verdicts)], round(factor_by_edits, 2))


class Difference(NamedTuple):
    """Lines of an old text that are others, more, fewer or none in a new text.

    Attributes:
        old_start: the index of the first of them in the old text.
        old_stop: the index after the last of them.
        new_start: the index of the first line of the new text instead of them.
        new_stop: the index after the last such line.
    """

    old_start: int
    old_stop: int
    new_start: int
    new_stop: int


def list_differences(old_lines: Sequence[str], new_lines: Sequence[str]) -> Iterator[Difference]:
    """Yield the differences of two lists of lines, in order.

    The equal lines at the beginning and the end, most of a file, are cut off first. What remains
    is one difference if it is too large to compare.
    """
    head, tail = _count_equal_ends(old_lines, new_lines)
    old_middle = old_lines[head : len(old_lines) - tail]
    new_middle = new_lines[head : len(new_lines) - tail]
    opcodes = [("replace", 0, len(old_middle), 0, len(new_middle))]
    if len(old_middle) * len(new_middle) <= MAX_PAIRS:
        matcher = SequenceMatcher(None, old_middle, new_middle, autojunk=False)
        opcodes = list(matcher.get_opcodes())
    for tag, old_start, old_stop, new_start, new_stop in opcodes:
        if tag != "equal":
            yield Difference(head + old_start, head + old_stop, head + new_start, head + new_stop)


def _count_equal_ends(old_lines: Sequence[str], new_lines: Sequence[str]) -> tuple[int, int]:
    """Return how many lines are equal at the beginning and, apart from those, at the end."""
    shorter = min(len(old_lines), len(new_lines))
    head = 0
    while head < shorter and old_lines[head] == new_lines[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old_lines[-1 - tail] == new_lines[-1 - tail]:
        tail += 1
    return head, tail


def _map_untouched(old_text: str, new_text: str, lines: Lines) -> Lines | None:
    """Return where lines are now if all edits of the file are below them, or all are above.

    Then neither text needs to be parsed: the lines are unchanged, and only shifted by the edits
    above them.

    Args:
        old_text: the text of the file that has the lines.
        new_text: its text now.
        lines: the first and the last line.

    Returns:
        The lines; None if they or their neighbours were edited, or if the cited block may go on
        where the file was edited: it may begin above the lines or end below them.
    """
    comparison = _compare_ends(old_text, new_text)
    old_lines = comparison.old_lines
    first, last = lines
    first_line_edited = comparison.equal_at_start + 1
    last_line_edited = len(old_lines) - comparison.equal_at_end
    if last > len(old_lines):
        return None

    if last < first_line_edited:
        lines_between = old_lines[last : first_line_edited - 1]
        ends_above_edits = _ends_block(old_lines[first - 1], lines_between)
        return lines if ends_above_edits else None
    if first > last_line_edited:
        lines_between = old_lines[last_line_edited : first - 1]
        begins_below_edits = _has_code_above(lines_between)
        return (first + comparison.shift, last + comparison.shift) if begins_below_edits else None
    return None


def _ends_block(first_line: str, lines_below: Sequence[str]) -> bool:
    """Return whether a block of code surely ends with the cited lines.

    It does if the next line of code is not indented deeper than the first line of the block.

    Args:
        first_line: the first cited line.
        lines_below: the lines after the last cited one that were not edited.
    """
    for line in lines_below:
        if CODE_LINE.match(line):
            return _measure_indent(line) <= _measure_indent(first_line)
    return False


def _has_code_above(lines_above: Sequence[str]) -> bool:
    """Return whether the nearest of some lines that is not blank is code of another block.

    A decorator or a comment may belong to the block below it.
    """
    for line in reversed(lines_above):
        if line.strip():
            is_decorator = line.lstrip().startswith("@")
            return not is_decorator and CODE_LINE.match(line) is not None
    return False


class _EndsComparison(NamedTuple):
    """Two texts compared line by line from both ends.

    Attributes:
        old_lines: the lines of the old text.
        equal_at_start: how many lines are equal at the beginning.
        equal_at_end: how many lines are equal at the end.
        shift: how many more lines the new text has.
    """

    old_lines: list[str]
    equal_at_start: int
    equal_at_end: int
    shift: int


@lru_cache(maxsize=64)
def _compare_ends(old_text: str, new_text: str) -> _EndsComparison:
    """Compare two texts line by line from both ends."""
    old_lines = old_text.split("\n")
    new_lines = new_text.split("\n")
    head, tail = _count_equal_ends(old_lines, new_lines)
    return _EndsComparison(old_lines, head, tail, len(new_lines) - len(old_lines))


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _judge_definition(subject: Subject, cited: Definition, search: _Search) -> Verdict | None:
    """Return the verdict on a definition or on lines inside of it; None if it is not found.

    The definition is searched for by its name, then by its words. Lines inside of it are unchanged
    if the definition that was found has their words as often as before.

    Args:
        subject: the cited part: the definition, or lines inside of it.
        cited: the definition at the commit of the anchor.
        search: the texts to search.
    """
    anchor = search.anchor
    definition_tokens = subject.tokens
    if subject.is_line_range:
        definition_tokens = normalize_definition(anchor.path, search.old_text, cited)
    current = _find_namesake(cited, definition_tokens, search, is_line_range=subject.is_line_range)
    if current is None:
        current = _find_renamed(subject, definition_tokens, search)
    if current is None:
        return None

    if subject.is_line_range:
        old_ranges = _find_occurrences(definition_tokens, subject.tokens)
        new_ranges = _find_occurrences(current.tokens, subject.tokens)
        if new_ranges and len(new_ranges) >= len(old_ranges):
            expected_first = (anchor.first or 0) + current.definition.first - cited.first
            nearest = _choose_nearest(new_ranges, expected_first)
            return _judge_unchanged(anchor, current.path, nearest)
    elif current.tokens.words == definition_tokens.words:
        return _judge_unchanged(anchor, current.path, current.lines)
    elif _differs_in_name_only(cited, definition_tokens, current):
        return Verdict("moved", current.path, *current.lines, note=f"was {cited.name}")
    note = _note_move(anchor, current.path)
    return Verdict("changed", current.path, *current.lines, note=note)


def _differs_in_name_only(cited: Definition, cited_tokens: Tokens, candidate: _Candidate) -> bool:
    """Return whether a definition has the words of the cited one but for its own name.

    Args:
        cited: the cited definition.
        cited_tokens: its words.
        candidate: the other definition.
    """
    old_words = cited_tokens.words
    new_words = candidate.tokens.words
    if len(old_words) < MIN_RENAMED_WORDS or len(old_words) != len(new_words):
        return False
    differences: list[tuple[str, str]] = []
    for old_word, new_word in zip(old_words, new_words, strict=True):
        if old_word != new_word:
            differences.append((old_word, new_word))
    return differences == [(strip_owners(cited.name), strip_owners(candidate.definition.name))]


def _find_namesake(
    cited: Definition, cited_tokens: Tokens, search: _Search, *, is_line_range: bool
) -> _Candidate | None:
    """Find the cited definition by its name, in its own file or in files to which it moved.

    The first of these that exists is returned:

    1. in its own file, a definition with its full name;
    2. a definition with the same last name and the same words, if its file did not have it before;
    3. of the definitions with the same last name whose full name is new in their file, the most
       similar, if it has most of the words.

    The files are tried in order, rules 1 and 2 for each of them.

    Args:
        cited: the cited definition.
        cited_tokens: its words.
        search: the texts to search.
        is_line_range: whether lines inside of the definition are cited.
    """
    new_namesakes: list[_Candidate] = []
    for path, text in search.files.items():
        namesakes = _list_namesakes(path, text, cited)
        same_full_name = [item for item in namesakes if item.definition.name == cited.name]
        if path == search.current_path and same_full_name:
            return _choose_most_similar(same_full_name, cited_tokens)

        old_namesakes = _list_namesakes(path, search.old_files.get(path, ""), cited)
        old_words = {namesake.tokens.words for namesake in old_namesakes}
        old_names = {namesake.definition.name for namesake in old_namesakes}
        for namesake in namesakes:
            has_same_words = namesake.tokens.words == cited_tokens.words
            if has_same_words and cited_tokens.words not in old_words:
                return namesake
            if namesake.definition.name not in old_names:
                new_namesakes.append(namesake)

    min_similarity = MIN_RENAMED_SIMILARITY if is_line_range else MIN_SIMILARITY
    best: _Candidate | None = None
    best_similarity = 0.0
    for namesake in new_namesakes:
        similarity = _measure_similarity(namesake.tokens, cited_tokens)
        if best is None or similarity > best_similarity:
            best = namesake
            best_similarity = similarity
    return best if best_similarity >= min_similarity else None


def _choose_most_similar(candidates: Sequence[_Candidate], cited_tokens: Tokens) -> _Candidate:
    """Return the first definition with the same words, else the one with the most common words."""
    for candidate in candidates:
        if candidate.tokens.words == cited_tokens.words:
            return candidate
    return max(
        candidates, key=lambda candidate: _measure_similarity(candidate.tokens, cited_tokens)
    )


def _list_namesakes(path: str, text: str, cited: Definition) -> list[_Candidate]:
    """Return the definitions of a file that have the last name of the cited one.

    Definitions of one name are merged if the cited definition was.
    """
    short_name = strip_owners(cited.name)
    if short_name not in text:
        return []
    definitions: list[Definition] = []
    for definition in list_definitions(path, text):
        if strip_owners(definition.name) == short_name:
            definitions.append(definition)
    if len(cited.spans) > 1:
        overloads_by_name: dict[str, list[Definition]] = {}
        for definition in definitions:
            overloads_by_name.setdefault(definition.name, []).append(definition)
        definitions = [merge_definitions(overloads) for overloads in overloads_by_name.values()]

    namesakes: list[_Candidate] = []
    for definition in definitions:
        tokens = normalize_definition(path, text, definition)
        namesakes.append(_Candidate(path, definition, tokens))
    return namesakes


def _find_renamed(subject: Subject, cited_tokens: Tokens, search: _Search) -> _Candidate | None:
    """Find the cited definition under a new name in its own file.

    It is the most similar of the definitions with names that the file did not have before, if it
    is similar enough. If only lines of the definition are cited, more words and a higher similarity
    are required.

    Args:
        subject: the cited part: the definition, or lines inside of it.
        cited_tokens: the words of the whole definition.
        search: the texts to search.
    """
    min_words = MIN_RENAMED_WORDS if subject.is_line_range else MIN_DISTINCTIVE_WORDS
    min_similarity = MIN_RENAMED_SIMILARITY if subject.is_line_range else MIN_SIMILARITY
    path = search.current_path
    if path is None or len(cited_tokens.words) < min_words:
        return None

    text = search.files[path]
    old_definitions = list_definitions(search.anchor.path, search.old_text)
    old_names = {definition.name for definition in old_definitions}
    best_similarity = 0.0
    best: _Candidate | None = None
    for definition in list_definitions(path, text):
        if definition.name in old_names:
            continue
        tokens = normalize_definition(path, text, definition)
        similarity = _measure_similarity(tokens, cited_tokens)
        if similarity > best_similarity:
            best_similarity = similarity
            best = _Candidate(path, definition, tokens)
    return best if best_similarity >= min_similarity else None


def _measure_similarity(first: Tokens, second: Tokens) -> float:
    """Return the Dice coefficient of two bags of words, in [0, 1]."""
    common = (Counter(first.words) & Counter(second.words)).total()
    return 2 * common / max(1, len(first.words) + len(second.words))


def _judge_file(cited_file: Subject, search: _Search) -> Verdict | None:
    """Return the verdict on a file that is cited as a whole; None if it is not found.

    The file is unchanged if a file has all its words, or if few of its words were edited. A file
    of few words occurs in many places: it is recognised only at the path where it is expected.

    Args:
        cited_file: the cited file with its words.
        search: the texts to search.
    """
    anchor = search.anchor
    current_path = search.current_path
    for path, text in search.files.items():
        has_same_words = read_code(path, text).normalize_all().words == cited_file.tokens.words
        if not has_same_words:
            continue
        is_new_text = search.old_files.get(path) != text
        if path == current_path or (cited_file.is_distinctive and is_new_text):
            return _judge_unchanged(anchor, path, None)
    if current_path is None:
        return None

    current_text = search.files[current_path]
    edited_share = find_edited_share(anchor.path, search.old_text, current_path, current_text)
    if edited_share <= MAX_EDITED:
        return _judge_unchanged(anchor, current_path, None)
    note = f"{EDITED}: {edited_share:.0%} of its words"
    return Verdict("changed", current_path, note=note, edited=round(edited_share, 2))


def _judge_lines(cited_part: Subject, lines: Lines, search: _Search) -> Verdict | None:
    """Return the verdict on lines outside of definitions; None if they are not found.

    In their own file they are unchanged if their words occur as often as before, or if a diff
    shows no edit of them. Distinctive words may also occur more often there: they were copied. In
    another file distinctive words must occur more often than before.

    Args:
        cited_part: the cited lines with their words.
        lines: their numbers.
        search: the texts to search.
    """
    anchor = search.anchor
    old_count = len(_list_line_ranges(cited_part, cited_part.path, search.old_text))
    for path, text in search.files.items():
        line_ranges = _list_line_ranges(cited_part, path, text)
        if path != search.current_path:
            old_text = search.old_files.get(path)
            count_before = 0
            if old_text is not None:
                count_before = len(_list_line_ranges(cited_part, path, old_text))
            if cited_part.is_distinctive and len(line_ranges) > count_before:
                return _judge_unchanged(anchor, path, line_ranges[0])
            continue

        has_copies = len(line_ranges) > old_count and cited_part.is_distinctive
        if line_ranges and (len(line_ranges) == old_count or has_copies):
            return _judge_unchanged(anchor, path, _choose_nearest(line_ranges, lines[0]))
        mapped_lines = _map_lines(search.old_text, text, lines)
        if mapped_lines:
            return _judge_unchanged(anchor, path, mapped_lines)
    return None


def _list_line_ranges(cited_part: Subject, path: str, text: str) -> list[Lines]:
    """Return the ranges of lines in a text that have the words of the cited lines.

    The text is read as the cited lines were: in the language of its path, or as prose.
    """
    code = read_code(path if cited_part.path else "", text)
    return _find_occurrences(code.normalize_all(), cited_part.tokens)


def _find_occurrences(tokens: Tokens, part: Tokens) -> list[Lines]:
    """Return the ranges of lines at which the words of `part` occur in `tokens`, as whole lines."""
    words = tokens.words
    first_word = part.words[0]
    line_ranges: list[Lines] = []
    start = -1
    for _ in range(words.count(first_word)):
        start = words.index(first_word, start + 1)
        stop = start + len(part.words)
        if words[start:stop] == part.words and _are_whole_lines(tokens, start, stop):
            rows = [row for row in tokens.rows[start:stop] if row]
            line_ranges.append((rows[0], rows[-1]))
    return line_ranges


def _are_whole_lines(tokens: Tokens, start: int, stop: int) -> bool:
    """Return whether a range of words begins and ends with a line, and no `else` follows it.

    With an `else` below, an `if` block is only the half of a statement.

    Args:
        tokens: the words, with words that mark the layout (such as LINE_END) among them.
        start: the index of the first word.
        stop: the index after the last word.
    """
    words = tokens.words
    rows = tokens.rows
    is_same_row = start > 0 and rows[start - 1] == rows[start]
    if is_same_row and words[start - 1] != LINE_END and words[start] != PARAGRAPH:
        return False
    if stop == len(words):
        return True

    next_word = words[stop]
    ends_line = next_word in (",", LINE_END, PARAGRAPH)
    # A mark of layout without a row of its own has row 0.
    row_goes_on = rows[stop - 1] > 0 and rows[stop] == rows[stop - 1]
    if row_goes_on and not ends_line:
        return False
    is_branch_of_block = next_word in BRANCH_KEYWORDS and words[stop - 1] == DEDENT
    return not is_branch_of_block


def _choose_nearest(line_ranges: Sequence[Lines], first: int) -> Lines:
    """Return the range of lines that begins nearest to a line."""
    return min(line_ranges, key=lambda lines: abs(lines[0] - first))


def _map_lines(old_text: str, new_text: str, lines: Lines) -> Lines | None:
    """Return where lines of an old text are in the new one, by a diff; None if it edits them."""
    first, last = lines
    old_lines = [line.strip() for line in old_text.split("\n")]
    new_lines = [line.strip() for line in new_text.split("\n")]
    shift = 0  # How many more lines the new text has above the lines.
    for difference in list_differences(old_lines, new_lines):
        first_edited = difference.old_start + 1
        last_edited = difference.old_stop
        if first_edited > last:
            break
        if last_edited >= first:
            return None
        shift = difference.new_stop - difference.old_stop
    return first + shift, last + shift


def _judge_unchanged(anchor: Anchor, path: str, lines: Lines | None) -> Verdict:
    """Return the verdict on cited text that was found: fresh or moved."""
    first, last = lines or (None, None)
    if path != anchor.path:
        return Verdict("moved", path, first, last, note=f"was {anchor.path}")
    if anchor.first not in (None, first):
        return Verdict("moved", path, first, last, note=f"was line {anchor.first}")
    return Verdict("fresh", path, first, last)


def _judge_lost(subject: Subject, search: _Search) -> Verdict:
    """Return the verdict on a cited part of a file that was not found.

    It is `gone` if the file was deleted or a whole definition is cited, else `changed`.
    """
    anchor = search.anchor
    current_path = search.current_path
    if current_path is None:
        return Verdict("gone", anchor.path, note=FILE_LOST)
    if subject.definition is None or subject.is_line_range:
        return Verdict("changed", current_path, note=_note_move(anchor, current_path))
    note = f"{subject.definition.name} is not defined there any more"
    return Verdict("gone", current_path, note=note)


def _judge_by_hash(anchor: Anchor, files: Mapping[str, str], current_path: str | None) -> Verdict:
    """Return the verdict on an anchor whose commit is not in this clone, by the hash in it.

    The code is unchanged if a file has text with that hash. Else it is changed if its file still
    has a definition with the name in the anchor, and gone if the file has none.

    Args:
        anchor: the anchor.
        files: the texts in which its code is searched, by path.
        current_path: the path of its file now; None if it was deleted.
    """
    for path, text in files.items():
        named_definition: Definition | None = None
        if anchor.symbol:
            may_define = strip_owners(anchor.symbol) in text
            if path != current_path and not may_define:
                continue
            named_definition = find_definition(path, text, anchor.symbol)
        verdict = _judge_hash_in_file(anchor, named_definition, path, text)
        if verdict is not None:
            return verdict
        if path == current_path and named_definition:
            note = _note_move(anchor, path)
            return Verdict(
                "changed", path, named_definition.first, named_definition.last, note=note
            )

    if current_path is None:
        return Verdict("unverifiable", anchor.path, note=FILE_LOST)
    if anchor.symbol:
        return Verdict("gone", current_path, note=f"{anchor.symbol} is not defined there any more")
    return Verdict("changed", current_path, note=_note_move(anchor, current_path))


def _judge_hash_in_file(
    anchor: Anchor, named_definition: Definition | None, path: str, text: str
) -> Verdict | None:
    """Return the verdict on a file that has text with the hash of an anchor; None if it has none.

    If the file has the definition that the anchor names, its hash is compared. Otherwise the hash
    of the whole file is or, if the anchor cites lines, the hashes of any as many lines. An anchor
    of an older version (`text:`) may name a definition but have the hash of its lines.

    Args:
        anchor: the anchor.
        named_definition: the definition of the file that the anchor names.
        path: the path of the file.
        text: its text.
    """
    cited_lines = get_lines(anchor)
    if named_definition:
        named_lines = (named_definition.first, named_definition.last)
        tokens = normalize_definition(path, text, named_definition)
        if has_hash(anchor, tokens, cut_lines(text, named_lines)):
            return _judge_unchanged(anchor, path, named_lines)
        if anchor.is_word_digest:
            return None

    if cited_lines:
        window = _find_window(anchor, cited_lines, path, text)
        return _judge_unchanged(anchor, path, window) if window else None
    if not named_definition and has_hash(anchor, read_code(path, text).normalize_all(), text):
        return _judge_unchanged(anchor, path, None)
    return None


def _find_window(anchor: Anchor, lines: Lines, path: str, text: str) -> Lines | None:
    """Return the nearest lines of a file that have the hash of an anchor, as many as it cites.

    Args:
        anchor: the anchor.
        lines: the lines that it cites.
        path: the path of the file.
        text: its text.
    """
    cited_first, cited_last = lines
    width = cited_last - cited_first + 1
    if width > MAX_WINDOW:
        return None
    rows = text.split("\n")
    tokens = read_code(path, text).normalize_all()
    stripped_rows = [] if anchor.is_word_digest else [strip_layout(row) for row in rows]
    possible_first_lines = range(1, len(rows) - width + 2)
    for first in sorted(possible_first_lines, key=lambda number: abs(number - cited_first)):
        last = first + width - 1
        if anchor.is_word_digest:
            if has_hash(anchor, cut_tokens(tokens, (first, last)), ""):
                return first, last
        elif stripped_rows[first - 1]:
            window = "".join(stripped_rows[first - 1 : last])
            if has_hash(anchor, tokens, window):
                return first, last
    return None


def _note_move(anchor: Anchor, path: str) -> str:
    return f"was {anchor.path}" if path != anchor.path else ""
