"""The episode codec: what is written reads back, what cannot be read is named, and folding loses nothing."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import UsageError
from memory_ci.records.episode import (
    Action,
    Amendment,
    Episode,
    Feedback,
    FeedbackKind,
    Given,
    Outcome,
    Situation,
    Telling,
)
from memory_ci.store.episodes import (
    MAX_DOCUMENT_BYTES,
    MAX_FILE_BYTES,
    fold_months,
    format_telling,
    is_episode_path,
    merge_documents,
    month_path,
    parse_episode_file,
    telling_path,
)
from tests.make import ID

SEPTEMBER = ".memory/episodes/2026-09/_all.md"
WHEN = datetime(2026, 11, 20, 14, 2, 11, tzinfo=UTC)
PATH = ".memory/episodes/2026-11/pr-128.md"
DOCS = Path(__file__).parents[2] / "docs" / "episodes.md"

YAML = [
    "---",
    "a\n---\nid: x\n---\n",
    "NO",
    "0123",
    "12:30",
    "null",
    "~",
    "it's",
    '"',
    "a: b",
    "a #b",
    "{",
    "]",
    "- a",
    "&a",
]
ODD = [
    "*a",
    "!t",
    "\x00\x1b[2J\x7f",
    "\x85\u2028",
    "\ufeff",
    "\r\n",
    " ",
    "",
    "<<<<<<< HEAD",
    "at: noon",
    "\U0001f600",
    "?",
]
HOSTILE = st.sampled_from([*YAML, *ODD, "e\u0301", "\\u0041", "a,"])
TEXTS = st.one_of(HOSTILE, st.text(st.characters(codec="utf-8"), max_size=20))
TIMES = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the bounds are bare
SHARES = st.floats(0, 1)
IDS = st.from_regex(r"[a-z0-9][a-z0-9.+-]{0,80}", fullmatch=True)
FEEDBACK = st.builds(
    Feedback,
    id=st.one_of(st.just(ID), TEXTS),
    kind=st.sampled_from(get_args(FeedbackKind)),
    at=TIMES,
    by=TEXTS,
    ref=TEXTS,
)


def tuples(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=3).map(tuple)


EPISODES = st.builds(
    Episode,
    id=IDS,
    occurred_at=TIMES,
    situation=st.builds(Situation, domain=TEXTS, topic=TEXTS, summary=TEXTS),
    context=st.dictionaries(
        st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True), TEXTS, max_size=3
    ),
    retrieved=tuples(
        st.builds(
            Given,
            id=TEXTS,
            rank=st.integers(0, 10**18 - 1),
            at=TEXTS,
        )
    ),
    used=tuples(TEXTS),
    action=st.builds(
        Action,
        pr=st.one_of(st.none(), st.integers(0, 10**18 - 1)),
        commit=TEXTS,
        files=tuples(TEXTS),
        tools=tuples(TEXTS),
    ),
    outcome=st.sampled_from(get_args(Outcome)),
    valence=SHARES,
    feedback=tuples(FEEDBACK),
    text=TEXTS,
)
AMENDMENTS = st.builds(
    Amendment,
    id=IDS.map(lambda name: f"{name}+0123456789ab"),
    at=TIMES,
    amends=st.one_of(st.just(""), IDS),
    outcome=st.one_of(st.none(), st.sampled_from(get_args(Outcome))),
    valence=st.one_of(st.none(), SHARES),
    feedback=tuples(FEEDBACK),
    text=TEXTS,
)
TELLINGS = st.one_of(EPISODES, AMENDMENTS)


def make_episode(name: str = "pr-128", **fields: Any) -> Episode:
    defaults: dict[str, Any] = {"id": name, "occurred_at": WHEN, "situation": Situation()}
    return Episode(**defaults | fields)


def document(**fields: str) -> str:
    """A document with some lines of its front matter set, or with None of them."""
    lines = {
        "id": "pr-128",
        "occurred_at": "'2026-11-20T14:02:11+00:00'",
        "outcome": "success",
    } | fields
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in lines.items()) + "---\nText\n"


def read(text: str) -> tuple[list[str], list[tuple[int, str, str]]]:
    """The ids that are served, and what was found."""
    file = parse_episode_file(PATH, text.encode())
    return [told.id for told in file.tellings], [(f.line, f.code, f.message) for f in file.findings]


# -- there and back


@given(TELLINGS)
def test_what_is_written_reads_back_as_it_was(telling: Telling) -> None:
    file = parse_episode_file(PATH, format_telling(telling))
    assert (file.findings, file.tellings) == ((), (telling,))


@given(TELLINGS)
def test_a_yaml_1_1_reader_takes_every_text_for_the_same_text(telling: Telling) -> None:
    plain = msgspec.to_builtins(telling)
    head = yaml.safe_load(
        format_telling(telling).decode().split("\n---\n")[0].removeprefix("---\n")
    )
    for key in ("situation", "context", "used", "amends"):
        for text in _texts(head.get(key)):
            assert isinstance(text, str)
            assert text in list(_texts(plain[key]))


def _texts(value: Any) -> list[Any]:
    if isinstance(value, dict | list | tuple):
        return [
            text
            for item in (value.values() if isinstance(value, dict) else value)
            for text in _texts(item)
        ]
    return [] if value is None else [value]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_named_with_a_line(data: bytes) -> None:
    file = parse_episode_file(PATH, data)
    assert file.tellings or file.findings
    assert all(1 <= finding.line <= data.count(b"\n") + 1 for finding in file.findings)


@given(
    st.lists(
        st.sampled_from(
            ["---", "id: a", "at: '2026-11-20T14:02:11Z'", "feedback:", "- {id: x}", "", "text"]
        )
    )
)
def test_any_lines_are_read_or_named(lines: list[str]) -> None:
    file = parse_episode_file(PATH, "\n".join(lines).encode())
    assert file.tellings or file.findings
    assert len(file.lines) == len(file.tellings)


def test_the_examples_of_the_documentation_read_without_a_finding() -> None:
    examples = re.findall(r"```markdown\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    files = [parse_episode_file(PATH, text.encode()) for text in examples]
    assert [file.findings for file in files] == [(), ()]
    assert files[0].tellings[0].feedback[0].kind == "confirmed"
    assert [format_telling(file.tellings[0]).decode() for file in files] == examples


@pytest.mark.parametrize(
    "text", ["id: x", "at: noon", "---", "--- so", "<<<<<<< HEAD", " a", "a\n", "a\nb", "a\x1b"]
)
def test_a_text_that_would_not_read_back_from_below_stands_quoted_in_the_front_matter(
    text: str,
) -> None:
    data = format_telling(make_episode(text=text))
    assert b"\ntext: " in data
    assert parse_episode_file(PATH, data).tellings == (make_episode(text=text),)


def test_a_time_is_written_in_utc_and_lies_in_its_month_there() -> None:
    zone = datetime.fromisoformat("2026-12-01T00:30:00+02:00")
    told = make_episode(occurred_at=zone)
    assert b"occurred_at: '2026-11-30T22:30:00+00:00'" in format_telling(told)
    assert telling_path(told) == ".memory/episodes/2026-11/pr-128.md"


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "../pr"},
        {"id": "PR-1"},
        {"id": ""},
        {"id": "a" * 82},
        {"id": "pr-1\n"},
        {"occurred_at": WHEN.replace(tzinfo=None)},
        {"valence": float("nan")},
        {"valence": 1.5},
        {"context": {"a b": "c"}},
        {"text": "\ud800"},
        {"action": Action(files=("\udcff",))},
        {"action": Action(pr=-1)},
        {"used": ("x" * MAX_DOCUMENT_BYTES,)},
    ],
)
def test_what_would_not_read_back_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        format_telling(make_episode(**fields))
    assert raised.value.slug == "bad-episode"


@pytest.mark.parametrize("name", ["../../MEMORY", "a/b", "."])
def test_no_id_leads_out_of_its_month(name: str) -> None:
    with pytest.raises(UsageError):
        telling_path(make_episode(name))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".memory/episodes/2026-11/pr-1.md", True),
        (".memory/episodes/2026-11/_all.md", True),
        (".memory/episodes/2026-11.md", False),
        (".memory/episodes/2026-13/pr-1.md", False),
        (".memory/episodes/2026-11/a/b.md", False),
        (".memory/episodes/pr-1.md", False),
        ("src/.memory/episodes/2026-11/pr-1.md", False),
        (".memory/episodes/2026-11/pr-1.md\n", False),
    ],
)
def test_an_episode_file_is_known_by_its_path(path: str, expected: bool) -> None:
    assert is_episode_path(path) is expected


# -- what cannot be read


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (document(outcome="a\noutcome: b"), 5, "twice"),
        (document(situation="{domain: a, domain: b}"), 5, "twice"),
        (document(situation="&a {domain: x}"), 5, "anchors"),
        (document(used="[*a]"), 5, "anchors"),
        (document(used="[!!str a]"), 5, "tag"),
        (document(outcome="great"), 4, "outcome"),
        (
            document(feedback=f"\n- {{id: {ID}, kind: praised, at: '2026-11-20T14:02:11Z'}}"),
            6,
            "kind",
        ),
        (
            document(feedback=f"\n- {{id: {ID}, kind: confirmed, at: '1700000000'}}"),
            6,
            "not a time",
        ),
        (document(occurred_at="'2026-11-20T14:02:11'"), 1, "no zone"),
        (document(occurred_at="'2026-11-20'"), 3, "not a time"),
        (document(occurred_at="'0001-01-01T00:00:00+05:00'"), 1, "calendar"),
        (document(valence="2"), 1, "valence"),
        (document(used="a"), 5, "used"),
        (document(text="here"), 5, "keep one"),
        (document(id="Bad Id"), 1, "id"),
        (document() + "<<<<<<< HEAD\n", 7, "conflict"),
        (document() + "---\n", 7, "---"),
        (document().replace("---\nText\n", ""), 1, "not closed"),
        ("Prose\n", 1, "no episode"),
        ("", 1, "no episode"),
        ("---\nsituation: {}\n---\n", 1, "no episode"),
        (document(used="[" + "x" * MAX_DOCUMENT_BYTES + "]"), 1, "64,000"),
        (document(used="[" * 30 + "]" * 30), 5, "nested"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line_and_not_served(
    text: str, line: int, words: str
) -> None:
    served, ((found, code, message),) = read(text)
    assert (found, code) == (line, "bad-episode")
    assert words in message
    assert served == []


def test_prose_above_the_documents_is_named_and_keeps_the_file_from_being_folded() -> None:
    served, found = read("\nProse\n" + document())
    assert served == ["pr-128"]
    assert [line for line, _, _ in found] == [2]


def test_the_other_documents_of_a_file_are_served() -> None:
    text = (
        document(id="a")
        + "\n"
        + document(id="b", outcome="great")
        + "\n---\nid: c\n"
        + document(id="d")
    )
    served, found = read(text)
    assert served == ["a", "d"]
    assert [line for line, _, _ in found] == [11, 15]


def test_a_document_that_lost_its_id_is_not_taken_for_text_of_the_one_above() -> None:
    served, found = read(document(id="a") + document().replace("id: pr-128\n", ""))
    assert served == ["a"]
    assert [line for line, _, _ in found] == [7]


def test_a_file_of_more_than_20_mb_or_of_no_text_is_a_finding() -> None:
    assert [f.code for f in parse_episode_file(PATH, b" " * (MAX_FILE_BYTES + 1)).findings] == [
        "bad-episode"
    ]
    assert [(f.line, f.code) for f in parse_episode_file(PATH, b"---\nid: \xff").findings] == [
        (2, "not-utf8")
    ]


def test_a_bom_and_windows_line_ends_are_read() -> None:
    data = b"\xef\xbb\xbf" + format_telling(make_episode(text="Done")).replace(b"\n", b"\r\n")
    assert parse_episode_file(PATH, data).tellings == (make_episode(text="Done"),)


def test_keys_that_nobody_knows_do_no_harm() -> None:
    assert read(document(mood="{good: [1]}", action="{pr: 128, reviewers: [ada]}")) == (
        ["pr-128"],
        [],
    )


# -- folding


def month_files(*names: str, month: int = 9) -> dict[str, bytes]:
    told = [
        make_episode(
            name, occurred_at=datetime(2026, month, 3, tzinfo=UTC) + timedelta(days=n), text=name
        )
        for n, name in enumerate(names)
    ]
    return {telling_path(episode): format_telling(episode) for episode in told}


def fold(files: dict[str, bytes], before: date = date(2026, 11, 1)) -> dict[str, bytes]:
    """The files as they are afterwards."""
    after: dict[str, bytes | None] = {**files, **fold_months(files, before)}
    return {path: data for path, data in after.items() if data is not None}


def tellings(files: dict[str, bytes]) -> set[bytes]:
    return {
        format_telling(told)
        for path, data in files.items()
        for told in parse_episode_file(path, data).tellings
    }


def test_a_month_that_has_ended_becomes_one_file_that_tells_the_same() -> None:
    files = month_files("pr-2", "pr-1", "pr-3") | month_files("pr-4", "pr-5", "pr-6", month=10)
    files |= month_files("pr-7", "pr-8", "pr-9", month=11)
    after = fold(files)
    folded = [month_path("2026-09"), month_path("2026-10")]
    assert sorted(after) == [*folded, *sorted(path for path in files if "2026-11" in path)]
    assert tellings(after) == tellings(files)
    assert [told.id for told in parse_episode_file("x", after[folded[0]]).tellings] == [
        "pr-2",
        "pr-1",
        "pr-3",
    ]


@given(st.lists(TELLINGS, max_size=6))
def test_folding_loses_nothing_and_a_second_time_does_nothing(told: list[Telling]) -> None:
    files = {telling_path(telling): format_telling(telling) for telling in told}
    after = fold(files, date.max)
    assert tellings(after) == tellings(files)
    assert fold_months(after, date.max) == {}


def test_what_comes_later_joins_its_month_once() -> None:
    first = month_files("pr-1", "pr-2", "pr-3")
    late = month_files("pr-9") | {path: first[path] for path in list(first)[:1]}
    after = fold(fold(first) | late)
    assert list(after) == [SEPTEMBER]
    assert after == fold(first | late)


def test_documents_are_copied_with_the_keys_that_nobody_knows() -> None:
    files = {
        f".memory/episodes/2026-09/{name}.md": document(id=name, mood="good  # as ever")
        for name in "abc"
    }
    after = fold({path: text.encode() for path, text in files.items()})
    assert after == {SEPTEMBER: "\n".join(files.values()).encode()}


@pytest.mark.parametrize("sizes", [[1], [2, 1], [300, 1, 1]])
def test_a_month_that_is_one_document_by_half_or_more_stays_for_git_would_call_it_renamed(
    sizes: list[int],
) -> None:
    told = [
        make_episode(
            f"pr-{n}", occurred_at=WHEN.replace(month=9), action=Action(files=("src/x.py",) * size)
        )
        for n, size in enumerate(sizes)
    ]
    files = {telling_path(episode): format_telling(episode) for episode in told}
    assert fold(files) == files


def test_a_file_that_cannot_be_read_whole_stays() -> None:
    broken = {".memory/episodes/2026-09/x.md": (document() + document(outcome="great")).encode()}
    assert fold(broken) == broken
    after = fold(broken | month_files("pr-1", "pr-2", "pr-3"))
    assert sorted(after) == [SEPTEMBER, ".memory/episodes/2026-09/x.md"]


def test_nothing_is_added_to_a_month_that_cannot_be_read_whole() -> None:
    files = month_files("pr-1", "pr-2", "pr-3") | {SEPTEMBER: b"---\nid: x\n"}
    assert fold(files) == files
    assert fold_months({**files, SEPTEMBER: None}, date(2026, 11, 1)) == {}


# -- merging


def month_of(*told: Telling) -> bytes:
    """A month's file, in the order in which folding has its documents."""
    ordered = sorted(
        told, key=lambda one: (one.occurred_at if isinstance(one, Episode) else one.at, one.id)
    )
    return b"\n".join(map(format_telling, ordered))


def numbered(*numbers: int, text: str = "") -> list[Episode]:
    return [
        make_episode(f"pr-{n}", occurred_at=WHEN + timedelta(days=n % 5), text=text)
        for n in numbers
    ]


NUMBERS = st.frozensets(st.integers(1, 9))


@given(NUMBERS, NUMBERS, NUMBERS)
def test_any_documents_merge_as_sets_in_the_order_of_folding(
    base: frozenset[int], ours: frozenset[int], theirs: frozenset[int]
) -> None:
    expected = month_of(*numbered(*((ours & theirs) | (ours - base) | (theirs - base))))
    texts = [month_of(*numbered(*side)) for side in (base, ours, theirs)]
    assert merge_documents(*texts) == merge_documents(texts[0], texts[2], texts[1]) == (expected, 0)


@given(st.lists(TELLINGS, max_size=4, unique_by=lambda one: one.id), st.integers(0, 4))
def test_whatever_two_branches_tell_is_told_by_both(told: list[Telling], parted: int) -> None:
    merged = merge_documents(b"", month_of(*told[:parted]), month_of(*told[max(0, parted - 1) :]))
    assert merged == (month_of(*told), 0)


def test_two_documents_of_one_id_conflict_within_the_file_and_the_others_do_not() -> None:
    (mine,), (yours,) = numbered(2, text="Mine"), numbered(2, text="Yours")
    one, three, four = numbered(1, 3, 4)
    merged = merge_documents(month_of(one), month_of(one, mine, three), month_of(one, yours, four))
    assert merged is not None
    text, conflicts = merged
    markers = (b"<<<<<<< ours\n", b"=======\n", b">>>>>>> theirs\n")
    dispute = b"%s%s%s%s%s" % (
        markers[0],
        format_telling(mine),
        markers[1],
        format_telling(yours),
        markers[2],
    )
    assert (text, conflicts) == (
        b"\n".join([format_telling(one), dispute, month_of(three, four)]),
        1,
    )
    read = parse_episode_file(SEPTEMBER, text)
    assert {finding.code for finding in read.findings} == {"bad-episode"}
    assert read.tellings[-2:] == (three, four)


def test_a_document_that_one_side_changed_is_taken_so_and_one_taken_away_with_a_change_stays() -> (
    None
):
    (old,), (new,) = numbered(2), numbered(2, text="By hand")
    one = numbered(1)[0]
    assert merge_documents(month_of(one, old), month_of(one, new), month_of(old)) == (
        month_of(new),
        0,
    )
    assert merge_documents(month_of(one, old), month_of(one), month_of(one, new)) == (
        month_of(one, new),
        0,
    )


@pytest.mark.parametrize(
    "side",
    [
        b"Prose\n",
        document(outcome="great").encode(),
        (document() + document(outcome="failure")).encode(),
        document().replace("\n", "\r\n").encode(),
        b"\xff",
    ],
    ids=["no-document", "unreadable", "two-of-one-id", "other-line-ends", "not-utf8"],
)
def test_a_side_that_cannot_be_read_without_doubt_is_not_merged_by_documents(side: bytes) -> None:
    good = month_of(*numbered(1))
    assert merge_documents(b"", side, good) is merge_documents(side, b"", good) is None
