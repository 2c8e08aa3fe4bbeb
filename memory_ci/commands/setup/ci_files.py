"""The YAML texts that `memory-ci init` writes for pre-commit, GitHub and GitLab, in marked blocks.

All texts name one release of memory-ci: its repository, from the package's metadata, and its tag,
`v` and the version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from textwrap import dedent, indent

import msgspec

from memory_ci import __version__
from memory_ci.cli.manual import list_urls
from memory_ci.errors import UsageError
from memory_ci.regex import Regex
from memory_ci.store.yamltext import YamlEvent, YamlTextError, format_flow_scalar, list_events

SOURCE = Regex(
    r"(?:(?P<host>https://[\w.:-]+)/)?(?P<path>[\w.-]+(?:/[\w.-]+)+)"
    r"@(?P<rev>v\d+(?:\.\d+)*|[0-9a-f]{40})"
)
"""A release: `acme/memory-ci@v0.2.0`, or `https://git.example.com/acme/memory-ci@` and a commit."""

PLACEHOLDER = "OWNER"
"""The name that the documents give to the account that holds memory-ci."""

REPOSITORY = Regex(r"Repository, *(?P<host>https://[^/]+)/(?P<path>\S+?)(?:\.git)?/?")
"""The Project-URL of a package: `Repository, https://github.com/acme/memory-ci.git`."""

TAG = f"v{__version__}"
TYPES = ("pre-commit", "pre-merge-commit", "prepare-commit-msg", "pre-push")
TYPES_LINE = f"default_install_hook_types: [{', '.join(TYPES)}]\n"
BY_HAND = Regex(
    r"memory-ci-(?:check|fix|notes|trailers|rules|push|sync)"
    r"|\S*/memory-ci(?:/\S*)?@\S+"
    r"|.*\bmemory-ci ci\b.*"
)
"""A text in a file of pre-commit or of CI that calls memory-ci."""


class Release(msgspec.Struct, frozen=True):
    """A release of memory-ci.

    Attributes:
        host: the URL of the forge.
        path: the repository on the forge.
        rev: the tag or commit.
    """

    host: str
    path: str
    rev: str

    @property
    def url(self) -> str:
        """The URL of the repository."""
        return f"{self.host}/{self.path}"


def parse_release(text: str) -> Release:
    """Return the release that `--ci-source` names.

    Raises:
        UsageError: bad-ci-source.
    """
    match = SOURCE.fullmatch(text)
    if match is None:
        hint = (
            f"Write OWNER/REPO@{TAG}, or https://HOST/OWNER/REPO@ and a tag or a full commit: "
            "a branch would move."
        )
        raise UsageError(f"{text!r} names no release of memory-ci", slug="bad-ci-source", hint=hint)
    host, path, rev = match["host"] or "https://github.com", match["path"], match["rev"]
    if PLACEHOLDER in path.split("/"):
        # The documents name the repository so.
        message = f"{PLACEHOLDER} in {text!r} is a placeholder; nothing was written"
        example = text.replace(PLACEHOLDER, "acme")
        hint = (
            f"Put the account that holds memory-ci, or your copy of it, for {PLACEHOLDER}: "
            f"if that is acme, --ci-source {example}"
        )
        raise UsageError(message, slug="bad-ci-source", hint=hint)
    return Release(host, path, rev)


def find_release() -> Release | None:
    """Return the installed release, None if its metadata has no Project-URL `Repository`."""
    for url in list_urls():
        match = REPOSITORY.fullmatch(url)
        if match:
            return Release(match["host"], match["path"], TAG)
    return None


def need_release(release: Release | None, *, must_be_tag: bool) -> Release:
    """Return the release that hooks and CI are to run.

    Args:
        release: the release that was named or is installed, None if neither is known.
        must_be_tag: refuse a release that is named by a commit.

    Raises:
        UsageError: bad-ci-source, no-ci-source.
    """
    if release is None:
        message = (
            "the repository of memory-ci is unknown: "
            "this package names no repository in its metadata yet"
        )
        hint = f"Say which release hooks and CI are to run: --ci-source OWNER/REPO@{TAG}"
        raise UsageError(message, slug="no-ci-source", hint=hint)
    if must_be_tag and not release.rev.startswith("v"):
        message = (
            f"GitLab's component installs a tag of memory-ci, and {release.rev[:10]} is a commit"
        )
        raise UsageError(message, slug="bad-ci-source", hint=f"Name a tag: {release.path}@{TAG}")
    return release


# -- pre-commit


def pre_commit_item(release: Release) -> str:
    """Return our hooks as an item of `repos`."""
    return f"""\
- repo: {release.url}
  rev: {release.rev}
  hooks:
  - id: memory-ci-check # memory files in order? As they are staged
  - id: memory-ci-notes # stages what agents marked as worth remembering
  - id: memory-ci-trailers # notes in a commit which memory its work was given
  - id: memory-ci-push # sends captured sessions along
"""


def add_pre_commit(text: str, release: Release) -> str:
    """Return a configuration of pre-commit with our hooks.

    If it names no types of hooks to install, those that our hooks need are added.

    Raises:
        YamlTextError: the text cannot be edited.
    """
    keys = list_keys(text)
    item = pre_commit_item(release)
    new_keys = ""
    if "default_install_hook_types" not in keys:
        new_keys = TYPES_LINE
        if "default_stages" not in keys and "repos" in keys:
            new_keys += (
                "default_stages: [pre-commit, manual] "
                "# hooks that name no stage run when they ran before\n"
            )
    if "repos" not in keys:
        return add_keys(text, f"{new_keys}repos:\n{item}")
    text = add_items(text, "repos", item)
    return add_keys(text, new_keys) if new_keys else text


# -- GitHub and GitLab


def github_workflow(release: Release, branch: str) -> str:
    """Return the workflow for GitHub, which calls our reusable workflow."""
    return f"""\
# What was merged becomes committed memory; what a pull request does to memory is verified.
# {release.url}/blob/{release.rev}/docs/ci.md explains it.
name: memory

on:
  pull_request: # verify
  merge_group: # verify
  push: # record what was merged
    branches: [{format_flow_scalar(branch)}]
  schedule:
    - cron: "17 3 * * 1" # once a week: makes up for runs that were cancelled or dropped
  workflow_dispatch:

permissions: {{}} # none but for what the job below names

jobs:
  memory:
    # The most that its jobs may have. Each takes less: the one that reads with a model's key can \
write nothing.
    permissions:
      contents: write # to commit memory; only the job that applies the plan has it
      pull-requests: write # to open the memory pull request, and to comment where a change \
touches cited code
      checks: read # checks that failed tell what went wrong in merged work
    uses: {release.path}/.github/workflows/memory.yml@{release.rev}
    with:
      # To the branch, or as a pull request where the branch is protected.
      push: auto
"""


def gitlab_item(release: Release, stage: str = "test") -> str:
    """Return our GitLab component, which runs in a stage, as an item of `include`."""
    stage_input = ""
    if stage != "test":  # the component's default
        stage_input = f"      stage: {format_flow_scalar(stage)}\n"
    return f"""\
  - component: $CI_SERVER_FQDN/{release.path}/memory@{release.rev}
    inputs:
      source: {release.url}
      release: {release.rev}
      # To the branch, or as a merge request where the branch is protected.
      push: auto
{stage_input}"""


def add_gitlab(text: str, release: Release) -> str:
    """Return a pipeline of GitLab with our component, in a stage that the pipeline has.

    Raises:
        YamlTextError: the text cannot be edited.
    """
    keys = list_keys(text)
    stages = keys.get("stages", ())
    stage = "test"
    if stages and "test" not in stages:
        stage = stages[-1]
    item = gitlab_item(release, stage)
    if "include" not in keys:
        return add_keys(text, f"include:\n{item}")
    return add_items(text, "include", re.sub("(?m)^  ", "", item))


# -- blocks of ours in YAML files of others: edited as text, so that comments and formatting stay

BEGIN = "# memory-ci init: begin"
END = "# memory-ci init: end"
BLOCK = Regex(
    rf"^[ \t]*{BEGIN} (?P<digest>[0-9a-f]{{8}})[^\n]*\n(?P<content>.*?)"
    rf"^[ \t]*{END}[ \t]*(?:\r?\n|\Z)",
    re.M | re.S,
)
"""A block of ours: a line with a digest, the content, and a line that ends it."""

NOTE = "(taken out by `memory-ci init --remove`, unless it was changed)"
WHOLE_FILE = "(this file; "  # Also what 0.2 wrote.
WHOLE = f"{WHOLE_FILE}taken out by `memory-ci init --remove`, unless it was changed)"
ROW = Regex(r"[^\n]*\n|[^\n]+")  # A line with its end; the last one may lack it.


def fence(text: str, note: str = NOTE) -> str:
    """Return a text in a block; each of its lines has an end."""
    return f"{BEGIN} {_digest(text)} {note}\n{text}{END}\n"


def list_blocks(text: str) -> tuple[str, ...]:
    """Return the contents of our blocks, sorted, without the indentation of the block."""
    return tuple(sorted(_content(block) for block in BLOCK.finditer(text)))


def is_changed(text: str) -> bool:
    """Return whether somebody changed one of our blocks."""
    return any(_is_block_changed(block) for block in BLOCK.finditer(text))


def remove_blocks(text: str) -> str | None:
    """Return a text as it was before our blocks were added; a block that a user changed stays.

    Returns:
        The text, or None if `init` wrote the whole file.
    """
    for number in reversed(range(len(BLOCK.findall(text)))):
        # Find the blocks again: the block before a removed one may have lost its newline.
        block = list(BLOCK.finditer(text))[number]
        if _is_block_changed(block):
            continue
        text_before = text[: block.start()]
        if not block.group().endswith("\n"):  # The file did not end with a newline.
            text_before = text_before.removesuffix("\n").removesuffix("\r")
        text = text_before + text[block.end() :]
        if not text and WHOLE_FILE in block.group():
            return None
    return text


def list_keys(text: str) -> dict[str, tuple[str, ...]]:
    """Return the keys of a YAML mapping, each with the scalars below it, at any depth.

    Raises:
        YamlTextError: the text is no YAML mapping with a key a line.
    """
    events = list_events(text)
    if len(events) <= 2:  # the start and the end of the stream alone: an empty text
        return {}
    keys: dict[str, tuple[str, ...]] = {}
    for key, (first, last) in _find_values(events).items():
        value_events = events[first : last + 1]
        keys[key] = tuple(event.value for event in value_events if event.kind == "Scalar")
    return keys


def add_keys(text: str, lines: str) -> str:
    """Return a text with more keys at its end, in a block of ours.

    Raises:
        YamlTextError: the edit would change the rest of the text.
    """
    events = list_events(text)
    position = 1
    if len(events) > 2:  # not comments and blank lines alone
        _find_values(events)  # raises if the text cannot be edited
        position = len(events) - 3  # before the ends of the mapping, the document and the stream
    row_count = len(ROW.findall(text))
    return _put_block(text, row_count, fence(lines), _expect_events(events, position, lines))


def add_items(text: str, key: str, lines: str) -> str:
    """Return a text with more items at the end of the list `key`, in a block of ours.

    Raises:
        YamlTextError: `key` is no list with an item a line, or the edit would change the rest.
    """
    events = list_events(text)
    first, last = _find_values(events)[key]
    opening = events[first]
    opening_row, column = opening.start
    if opening.kind != "SequenceStart" or opening.is_flow:
        raise YamlTextError(opening_row, f"`{key}` is no list with an item a line")

    ends = [event.end for event in events[first + 1 : last] if event.end > event.start]
    row = _find_end_row(text, max(ends), column)
    block = indent(fence(lines), " " * column)
    return _put_block(text, row, block, _expect_events(events, last, lines))


def _find_end_row(text: str, end: tuple[int, int], column: int) -> int:
    """Return the row behind a list, and behind the comments that belong to it.

    Args:
        text: the YAML text.
        end: the row and column where the last item ends.
        column: the column of the list.
    """
    last_row, last_column = end
    end_row = last_row + 1 if last_column else last_row
    for next_row, line in enumerate(ROW.findall(text)[end_row:], start=end_row + 1):
        content = line.lstrip()
        if not content:
            continue
        indentation = len(line) - len(content)
        if not content.startswith("#") or indentation <= column:
            break
        end_row = next_row
    return end_row


def _put_block(text: str, row: int, block: str, expected: Sequence[object]) -> str:
    """Return a text with a block before a row.

    Args:
        text: the YAML text.
        row: the number of the row.
        block: the block to put in.
        expected: the meaning of each event of the result.

    Raises:
        YamlTextError: the result has other events, or cannot be taken out again.
    """
    rows = ROW.findall(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    block = block.replace("\n", newline)
    if row == len(rows) and rows and not rows[-1].endswith("\n"):
        block = newline + block.removesuffix(newline)
    edited = "".join([*rows[:row], block, *rows[row:]])

    events = [event.details for event in list_events(edited)]
    if events != expected or remove_blocks(edited) != remove_blocks(text):
        raise YamlTextError(row, "a block inserted here would change the meaning of the rest")
    return edited


def _expect_events(events: Sequence[YamlEvent], position: int, lines: str) -> list[object]:
    """Return the meaning of the events of a text after `lines` are put in at a position."""
    # A text with content begins with the starts of the stream, the document and the collection,
    # which are there only once. An empty text has the stream alone.
    edge = 3 if len(events) > 2 else 1
    new_events = list_events(lines)[edge:-edge]
    return [event.details for event in (*events[:position], *new_events, *events[position:])]


def _find_values(events: Sequence[YamlEvent]) -> dict[str, tuple[int, int]]:
    """Return the keys of the top mapping, with the indices of the first and last event of a value.

    Raises:
        YamlTextError: the text is no single document, or no mapping with a key a line.
    """
    starts: list[int] = []  # of each key and of each value, in turn
    depth = 0
    for index, event in enumerate(events):
        if event.kind.endswith("End"):
            depth -= 1
        elif depth == 3:  # in the stream, the document and the mapping
            starts.append(index)
        if event.kind.endswith("Start"):
            depth += 1

    if [event.kind for event in events].count("DocumentStart") != 1:
        raise YamlTextError(0, "not one YAML document")
    if events[2].kind != "MappingStart" or events[2].is_flow:
        raise YamlTextError(events[2].start[0], "not a mapping with a key a line")

    key_starts = starts[::2]
    value_starts = starts[1::2]
    ends = [*key_starts[1:], len(events) - 3]
    values: dict[str, tuple[int, int]] = {}
    for key, first, end in zip(key_starts, value_starts, ends, strict=True):
        values[events[key].value] = (first, end - 1)
    return values


def _is_block_changed(block: re.Match[str]) -> bool:
    return block["digest"] != _digest(_content(block))


def _content(block: re.Match[str]) -> str:
    """Return the text of a block without its indentation."""
    return dedent(block["content"].replace("\r", ""))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]
