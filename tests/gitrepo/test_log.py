"""Tests of reading commits, and of searching words in the work tree."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.gitrepo import log
from memory_ci.gitrepo.log import FILE_OPTIONS, find_words, parse_date, read_log
from memory_ci.gitrepo.repo import Repository
from memory_ci.records.history import Commit, FileChange
from tests.repos import START, RepoBuilder


def newest(repo: Repository) -> Commit:
    return next(commit for commit, _ in read_log(repo, *FILE_OPTIONS, "HEAD"))


def test_a_commit_is_read_whole(builder: RepoBuilder, repo: Repository) -> None:
    parent = builder.sha()
    builder.commit("Begin here", {"a.md": "a\n"}, author="Zoë <zoe@example.com>")
    sha = builder.commit(
        "Fix it\n\nWhy.\n\nMemory: keep\nLearning: long\n text\n", {"a.md": "b\n", "b.md": "b\n"}
    )
    commit = newest(repo)
    assert commit == Commit(
        sha=sha,
        parents=(builder.sha("HEAD~1"),),
        author="Ann Author",
        email="ann@example.com",
        authored_at=START + timedelta(minutes=2),
        committed_at=START + timedelta(minutes=2),
        message="Fix it\n\nWhy.\n\nMemory: keep\nLearning: long\n text",
        trailers=(("Memory", "keep"), ("Learning", "long text")),
        files=(FileChange("M", "a.md"), FileChange("A", "b.md")),
    )
    authors = [logged.author for logged, _ in read_log(repo, f"{parent}..")]
    assert authors == ["Ann Author", "Zoë"]


def test_the_first_commit_has_all_its_files_whatever_the_setting_log_showroot(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.git("config", "log.showRoot", "false")
    assert newest(repo).files == (FileChange("A", "README.md"),)


def test_exact_renames_are_renames_and_deletions_have_no_object(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Two", {"old.md": "some text\n", "gone.md": "x\n"})
    builder.git("mv", "old.md", "new.md")
    builder.commit("Move", {"gone.md": None})
    commit, oids = next(read_log(repo, *FILE_OPTIONS, "HEAD"))
    assert commit.files == (FileChange("D", "gone.md"), FileChange("R", "new.md", "old.md"))
    assert oids == ("0" * 40, builder.sha("HEAD:new.md"))


def test_a_moved_and_changed_file_is_not_a_rename(builder: RepoBuilder, repo: Repository) -> None:
    lines = "".join(f"line {number}\n" for number in range(99))
    builder.commit("Add", {"old.md": lines})
    builder.commit("Move", {"old.md": None, "new.md": f"{lines}another\n"})
    assert newest(repo).files == (FileChange("A", "new.md"), FileChange("D", "old.md"))


def test_a_merge_has_the_files_that_differ_from_its_first_parent(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.branch("topic")
    builder.commit("Topic", {"topic.md": "t\n"})
    builder.checkout("main")
    builder.commit("Main", {"main.md": "m\n"})
    builder.merge("topic")
    assert newest(repo).files == (FileChange("A", "topic.md"),)


def test_odd_paths_in_a_commit_are_read(builder: RepoBuilder, repo: Repository) -> None:
    odd = ('quo"te', "new\nline", "tab\t", "café", os.fsdecode(b"latin\xe9"))
    builder.commit("Odd", dict.fromkeys(odd, "x"))
    assert {file.path for file in newest(repo).files} == set(odd)


def test_a_message_in_a_declared_encoding_is_converted(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.git("config", "i18n.commitEncoding", "ISO-8859-1")
    builder.git("config", "i18n.logOutputEncoding", "ISO-8859-1")
    builder.commit("Café\n".encode("latin-1"))
    assert newest(repo).message == "Café"


def test_a_message_with_a_wrong_encoding_raises_no_error(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.git("config", "i18n.commitEncoding", "no-such-encoding")
    builder.commit(b"Caf\xe9\n\nLearning: \xff\n")
    assert newest(repo).message == "Caf\ufffd\n\nLearning: \ufffd"
    assert newest(repo).trailers == (("Learning", "\ufffd"),)


def test_an_empty_message_and_an_empty_commit_are_read(
    builder: RepoBuilder, repo: Repository
) -> None:
    tree = builder.sha("HEAD^{tree}")
    builder.git("reset", "-q", "--hard", builder.git("commit-tree", tree, "-p", "HEAD", input=b""))
    builder.commit("After")
    assert [commit.message for commit, _ in read_log(repo, *FILE_OPTIONS, "HEAD")] == [
        "After",
        "",
        "Begin",
    ]
    assert newest(repo).files == ()


def test_settings_of_the_user_do_not_change_the_result(
    builder: RepoBuilder, repo: Repository
) -> None:
    builder.commit("Move", {"README.md": None, "b.md": "hello\n"})
    headers, _, message = builder.git("cat-file", "commit", "HEAD").partition("\n\n")
    signed = f"{headers}\ngpgsig -----BEGIN PGP SIGNATURE-----\n -----END PGP SIGNATURE-----\n\n{message}\n"
    builder.git(
        "reset",
        "-q",
        "--hard",
        builder.git("hash-object", "-t", "commit", "-w", "--stdin", input=signed.encode()),
    )
    builder.commit("After the signed one", {"c.md": "c\n"})
    before = list(read_log(repo, *FILE_OPTIONS, "HEAD"))
    builder.git("notes", "add", "-m", "a note", "HEAD")
    gpg = builder.write(".git/gpg", "#!/bin/sh\necho 'gpg: bad signature' >&2\nexit 1\n")
    gpg.chmod(0o755)
    (builder.path / ".git" / "mailmap").write_text("Another <else@example.com> <ann@example.com>\n")
    for name, value in {
        "color.ui": "always",
        "log.showSignature": "true",
        "gpg.program": str(gpg),
        "log.date": "relative",
        "log.decorate": "full",
        "log.diffMerges": "combined",
        "log.follow": "true",
        "log.mailmap": "true",
        "mailmap.file": ".git/mailmap",
        "diff.renames": "false",
        "diff.orderFile": "/nowhere",
        "diff.noprefix": "true",
        "core.quotePath": "true",
        "core.abbrev": "4",
        "format.pretty": "oneline",
    }.items():
        builder.git("config", name, value)
    assert list(read_log(repo, *FILE_OPTIONS, "HEAD")) == before


DATES = {
    "1767603600 +0000": datetime(2026, 1, 5, 9, 0, tzinfo=UTC),
    "1767603600 -0330": datetime(
        2026, 1, 5, 5, 30, tzinfo=timezone(-timedelta(hours=3, minutes=30))
    ),
    "0 +0000": datetime(1970, 1, 1, tzinfo=UTC),
    "-60 +0100": datetime(1970, 1, 1, 0, 59, tzinfo=timezone(timedelta(hours=1))),
    "1767603600 +9900": datetime(2026, 1, 5, 9, 0, tzinfo=UTC),
    "99999999999999 +0000": datetime(1970, 1, 1, tzinfo=UTC),
    "": datetime(1970, 1, 1, tzinfo=UTC),
}


@pytest.mark.parametrize("raw", DATES)
def test_dates_keep_their_zone_and_impossible_dates_raise_no_error(raw: str) -> None:
    assert parse_date(raw) == DATES[raw]
    assert parse_date(raw).utcoffset() == DATES[raw].utcoffset()


WORDS = (
    "retry",
    "retry.po",
    "re",
    "a-b",
    "b",
    "$go",
    "C++",
    "x[0]",
    "(y)",
    "p|q",
    "^top",
    "back\\slash",
    "~none~",
)


def test_words_are_found_like_with_one_pattern_each(builder: RepoBuilder, repo: Repository) -> None:
    chance = random.Random(5)  # noqa: S311 - no secret
    glue = (" ", ".", "s", "-", "(", "\t")
    for name in ("a.txt", "b/c.txt"):
        lines = ("".join(chance.choice((*WORDS, *glue)) for _ in range(12)) for _ in range(60))
        builder.write(name, "\n".join(lines))
    builder.commit("Words", {"other.txt": "nothing\n"})
    for words in (WORDS, WORDS[:2], WORDS[3:]):
        patterns = [part for word in words for part in ("-e", word)]
        grep_lines = builder.git(
            "grep", "-o", "-w", "-F", "--untracked", *patterns, "--"
        ).splitlines()
        expected = {(path, word) for path, _, word in (line.partition(":") for line in grep_lines)}
        assert find_words(repo, None, words) == expected
    assert {path for path, _ in find_words(repo, None, WORDS, ["b/*"])} == {"a.txt"}


def test_a_hundred_words_are_searched_by_one_pattern(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched_patterns: list[str] = []

    def run_git(cwd: Path, *args: str, ok: tuple[int, ...]) -> bytes:
        searched_patterns.extend(args)
        return b""

    monkeypatch.setattr(log, "run_git", run_git)
    find_words(repo, None, [f"name_{number:02}" for number in range(100)])
    assert len([part for part in searched_patterns if part.startswith("-e")]) == 1, (
        "a pattern each takes seconds where all stand"
    )


def test_a_credential_is_not_searched(builder: RepoBuilder, repo: Repository) -> None:
    key = "AKIA" + "Q7XW3PLM5RTZ2NKB"
    builder.commit("Names", {"a.py": f"{key}\nread_name\n"})
    assert find_words(repo, "HEAD", (key, "read_name")) == {("a.py", "read_name")}


@given(st.sets(st.text("ab_", min_size=1, max_size=5), max_size=30))
def test_no_word_of_a_group_is_a_prefix_of_another(words: set[str]) -> None:
    groups = log.group_without_prefixes(sorted(words))
    assert sorted(word for group in groups for word in group) == sorted(words)
    for group in groups:
        pairs = [(word, longer) for word in group for longer in group if word != longer]
        assert not any(word.startswith(longer) for word, longer in pairs)
    assert all(groups)
