"""Tests of episode files: written records read back, and others are refused."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.errors import UsageError
from memory_ci.records.episode import Action, EpisodeRecord
from memory_ci.store.episodes import (
    MAX_DOCUMENT_BYTES,
    episode_record_path,
    format_episode_record,
    is_episode_path,
    parse_episode_file,
)
from tests.store.episode_records import EPISODE_RECORDS, PATH, WHEN, make_episode

DOCS = Path(__file__).parents[2] / "docs" / "episodes.md"


@given(EPISODE_RECORDS)
def test_a_written_document_reads_back_unchanged(record: EpisodeRecord) -> None:
    file = parse_episode_file(PATH, format_episode_record(record))
    assert (file.findings, file.records) == ((), (record,))


@given(EPISODE_RECORDS)
def test_a_yaml_1_1_parser_reads_the_same_texts(record: EpisodeRecord) -> None:
    plain = msgspec.to_builtins(record)
    head = yaml.safe_load(
        format_episode_record(record).decode().split("\n---\n")[0].removeprefix("---\n")
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
def test_any_bytes_are_read_or_reported_with_their_line(data: bytes) -> None:
    file = parse_episode_file(PATH, data)
    assert file.records or file.findings
    assert all(1 <= finding.line <= data.count(b"\n") + 1 for finding in file.findings)


@given(
    st.lists(
        st.sampled_from(
            ["---", "id: a", "at: '2026-11-20T14:02:11Z'", "feedback:", "- {id: x}", "", "text"]
        )
    )
)
def test_any_lines_are_read_or_reported(lines: list[str]) -> None:
    file = parse_episode_file(PATH, "\n".join(lines).encode())
    assert file.records or file.findings
    assert len(file.lines) == len(file.records)


def test_the_examples_of_the_documentation_are_read_without_a_finding() -> None:
    examples = re.findall(r"```markdown\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    files = [parse_episode_file(PATH, text.encode()) for text in examples]
    assert [file.findings for file in files] == [(), ()]
    assert files[0].records[0].feedback[0].kind == "confirmed"
    assert [format_episode_record(file.records[0]).decode() for file in files] == examples


@pytest.mark.parametrize(
    "text", ["id: x", "at: noon", "---", "--- so", "<<<<<<< HEAD", " a", "a\n", "a\nb", "a\x1b"]
)
def test_a_text_unfit_for_the_body_is_quoted_in_the_front_matter(
    text: str,
) -> None:
    data = format_episode_record(make_episode(text=text))
    assert b"\ntext: " in data
    assert parse_episode_file(PATH, data).records == (make_episode(text=text),)


def test_a_time_is_written_in_utc_and_decides_the_month_of_the_file() -> None:
    zone = datetime.fromisoformat("2026-12-01T00:30:00+02:00")
    episode = make_episode(occurred_at=zone)
    assert b"occurred_at: '2026-11-30T22:30:00+00:00'" in format_episode_record(episode)
    assert episode_record_path(episode) == ".memory/episodes/2026-11/pr-128.md"


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
def test_an_episode_that_does_not_read_back_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        format_episode_record(make_episode(**fields))
    assert raised.value.slug == "bad-episode"


@pytest.mark.parametrize("name", ["../../MEMORY", "a/b", "."])
def test_an_episode_id_cannot_lead_out_of_its_month_folder(name: str) -> None:
    with pytest.raises(UsageError):
        episode_record_path(make_episode(name))


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
def test_an_episode_file_is_recognised_by_its_path(path: str, expected: bool) -> None:
    assert is_episode_path(path) is expected
