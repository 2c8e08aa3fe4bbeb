"""The YAML texts that `memory-ci init` writes for pre-commit, GitHub and GitLab, in marked blocks.

All texts name one release of memory-ci: its repository, from the package's metadata, and its tag,
`v` and the version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from textwrap import dedent, indent
from typing import NamedTuple

import msgspec

from memory_ci import __version__
from memory_ci.cli.manual import list_urls
from memory_ci.errors import UsageError
from memory_ci.regex import Regex
from memory_ci.store.yamltext import YamlEvent, YamlTextError, format_flow_scalar, list_events

RELEASE_NAME = Regex(
    r"(?:(?P<host>https://[\w.:-]+)/)?(?P<path>[\w.-]+(?:/[\w.-]+)+)"
    r"@(?P<rev>v\d+(?:\.\d+)*|[0-9a-f]{40})"
)
"""A release: `acme/memory-ci@v0.2.0`, or `https://git.example.com/acme/memory-ci@` and a commit."""

OWNER_PLACEHOLDER = "OWNER"
"""The name that the documents give to the account that holds memory-ci."""

PROJECT_URL = Regex(r"Repository, *(?P<host>https://[^/]+)/(?P<path>\S+?)(?:\.git)?/?")
"""The Project-URL of a package: `Repository, https://github.com/acme/memory-ci.git`."""

RELEASE_TAG = f"v{__version__}"
HOOK_TYPES = ("pre-commit", "pre-merge-commit", "prepare-commit-msg", "pre-push")
HOOK_TYPES_LINE = f"default_install_hook_types: [{', '.join(HOOK_TYPES)}]\n"
MEMORY_CI_CALL = Regex(
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
    match = RELEASE_NAME.fullmatch(text)
    if match is None:
        hint = (
            f"Write OWNER/REPO@{RELEASE_TAG}, or https://HOST/OWNER/REPO@ and a tag or a full "
            "commit: a branch would move."
        )
        raise UsageError(f"{text!r} names no release of memory-ci", slug="bad-ci-source", hint=hint)
    host, path, rev = match["host"] or "https://github.com", match["path"], match["rev"]
    if OWNER_PLACEHOLDER in path.split("/"):
        # Copied from the documents, which have it in place of an account.
        message = f"{OWNER_PLACEHOLDER} in {text!r} is a placeholder; nothing was written"
        example = text.replace(OWNER_PLACEHOLDER, "acme")
        hint = (
            f"Put the account that holds memory-ci, or your copy of it, for {OWNER_PLACEHOLDER}: "
            f"if that is acme, --ci-source {example}"
        )
        raise UsageError(message, slug="bad-ci-source", hint=hint)
    return Release(host, path, rev)


def find_release() -> Release | None:
    """Return the installed release, None if its metadata has no Project-URL `Repository`."""
    for url in list_urls():
        match = PROJECT_URL.fullmatch(url)
        if match:
            return Release(match["host"], match["path"], RELEASE_TAG)
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
        hint = f"Say which release hooks and CI are to run: --ci-source OWNER/REPO@{RELEASE_TAG}"
        raise UsageError(message, slug="no-ci-source", hint=hint)
    if must_be_tag and not release.rev.startswith("v"):
        message = (
            f"GitLab's component installs a tag of memory-ci, and {release.rev[:10]} is a commit"
        )
        raise UsageError(
            message, slug="bad-ci-source", hint=f"Name a tag: {release.path}@{RELEASE_TAG}"
        )
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
        new_keys = HOOK_TYPES_LINE
        if "default_stages" not in keys and "repos" in keys:
            # With more types installed, hooks that name no stage would run in all of them.
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

BLOCK_BEGIN = "# memory-ci init: begin"
BLOCK_END = "# memory-ci init: end"
MARKED_BLOCK = Regex(
    rf"^[ \t]*{BLOCK_BEGIN} (?P<digest>[0-9a-f]{{8}})[^\n]*\n(?P<content>.*?)"
    rf"^[ \t]*{BLOCK_END}[ \t]*(?:\r?\n|\Z)",
    re.M | re.S,
)
"""A block of ours: a line with a digest, the content, and a line that ends it."""

BLOCK_NOTE = "(taken out by `memory-ci init --remove`, unless it was changed)"
WHOLE_FILE_MARK = "(this file; "  # Also what 0.2 wrote.
WHOLE_FILE_NOTE = f"{WHOLE_FILE_MARK}taken out by `memory-ci init --remove`, unless it was changed)"
ROW_TEXT = Regex(r"[^\n]*\n|[^\n]+")  # A line with its end; the last one may lack it.


def fence(text: str, note: str = BLOCK_NOTE) -> str:
    """Return a text in a block; each of its lines has an end."""
    return f"{BLOCK_BEGIN} {_digest_of(text)} {note}\n{text}{BLOCK_END}\n"


def list_blocks(text: str) -> tuple[str, ...]:
    """Return the contents of our blocks, sorted, without the indentation of the block."""
    return tuple(sorted(_block_content(block) for block in MARKED_BLOCK.finditer(text)))


def is_changed(text: str) -> bool:
    """Return whether somebody changed one of our blocks."""
    return any(_is_block_changed(block) for block in MARKED_BLOCK.finditer(text))


def remove_blocks(text: str) -> str | None:
    """Return a text as it was before our blocks were added; a block that a user changed stays.

    Returns:
        The text, or None if `init` wrote the whole file.
    """
    block_count = len(MARKED_BLOCK.findall(text))
    for index in reversed(range(block_count)):  # From the last one, so that indices stay.
        # Find the blocks again: the block before a removed one may have lost its newline.
        block = list(MARKED_BLOCK.finditer(text))[index]
        if _is_block_changed(block):
            continue
        text_before = text[: block.start()]
        if not block.group().endswith("\n"):  # The file did not end with a newline.
            text_before = text_before.removesuffix("\n").removesuffix("\r")
        text = text_before + text[block.end() :]
        if not text and WHOLE_FILE_MARK in block.group():
            return None
    return text


EMPTY_EVENT_COUNT = 2
"""The events of a YAML text without content: the start and the end of the stream."""

CLOSING_EVENT_COUNT = 3
"""The last events of a YAML mapping: the ends of the mapping, of the document, of the stream.

As many events start it.
"""


class EventSpan(NamedTuple):
    """The indices of the first and the last event of a value in a list of YAML events."""

    first: int
    last: int


def list_keys(text: str) -> dict[str, tuple[str, ...]]:
    """Return the keys of a YAML mapping, each with the scalars below it, at any depth.

    Raises:
        YamlTextError: the text is no YAML mapping with a key a line.
    """
    events = list_events(text)
    if len(events) <= EMPTY_EVENT_COUNT:
        return {}
    keys: dict[str, tuple[str, ...]] = {}
    for key, span in _map_value_spans(events).items():
        value_events = events[span.first : span.last + 1]
        keys[key] = tuple(event.value for event in value_events if event.kind == "Scalar")
    return keys


def add_keys(text: str, lines: str) -> str:
    """Return a text with more keys at its end, in a block of ours.

    Raises:
        YamlTextError: the edit would change the rest of the text.
    """
    events = list_events(text)
    if len(events) == EMPTY_EVENT_COUNT:
        event_index = 1  # between the start and the end of the stream
    else:
        _map_value_spans(events)  # raises if the text cannot be edited
        event_index = len(events) - CLOSING_EVENT_COUNT
    row_count = len(ROW_TEXT.findall(text))
    expected_events = _list_expected_events(events, event_index, lines)
    return _insert_block(text, row_count, fence(lines), expected_events)


def add_items(text: str, key: str, lines: str) -> str:
    """Return a text with more items at the end of the list `key`, in a block of ours.

    Args:
        text: a YAML mapping.
        key: the key of the list.
        lines: the lines of the items, not indented.

    Raises:
        YamlTextError: `key` is no list with an item a line, or the edit would change the rest.
    """
    events = list_events(text)
    span = _map_value_spans(events)[key]
    list_start = events[span.first]
    start_row, column = list_start.start
    if list_start.kind != "SequenceStart" or list_start.is_flow:
        raise YamlTextError(start_row, f"`{key}` is no list with an item a line")

    # Events that end a nested collection have no text, and may lie behind following comments.
    item_events = events[span.first + 1 : span.last]
    last_text_end = max(event.end for event in item_events if event.end > event.start)
    row = _find_end_row(text, last_text_end, column)
    block = indent(fence(lines), " " * column)
    expected_events = _list_expected_events(events, span.last, lines)
    return _insert_block(text, row, block, expected_events)


def _find_end_row(text: str, end: tuple[int, int], column: int) -> int:
    """Return the first row behind a list, to which a new item can be added.

    Comments that follow the last item, and are indented more than the list, belong to the list.

    Args:
        text: the YAML text.
        end: the row and column where the last item ends, both from 0.
        column: the column of the list, from 0.

    Returns:
        The row, from 0; the number of rows if the list ends the text.
    """
    last_row, last_column = end
    end_row = last_row + 1 if last_column else last_row
    for next_row, line in enumerate(ROW_TEXT.findall(text)[end_row:], start=end_row + 1):
        content = line.lstrip()
        if not content:
            continue
        indentation = len(line) - len(content)
        if not content.startswith("#") or indentation <= column:
            break
        end_row = next_row
    return end_row


def _insert_block(
    text: str, row: int, block: str, expected_events: Sequence[tuple[str, ...]]
) -> str:
    """Return a text with a block before a row.

    Args:
        text: the YAML text.
        row: the number of the row, from 0.
        block: the block to put in.
        expected_events: the kind and value of each event that the result must have.

    Raises:
        YamlTextError: the result has other events, or its blocks cannot be removed again.
    """
    rows = ROW_TEXT.findall(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    block = block.replace("\n", newline)
    if row == len(rows) and rows and not rows[-1].endswith("\n"):
        block = newline + block.removesuffix(newline)
    new_text = "".join([*rows[:row], block, *rows[row:]])

    new_events = [event.details for event in list_events(new_text)]
    is_removable = remove_blocks(new_text) == remove_blocks(text)
    if new_events != expected_events or not is_removable:
        raise YamlTextError(row, "a block inserted here would change the meaning of the rest")
    return new_text


def _list_expected_events(
    events: Sequence[YamlEvent], index: int, lines: str
) -> list[tuple[str, ...]]:
    """Return the kind and value of each event that a text has after lines are put into it.

    Args:
        events: the events of the text.
        index: the index of the event before which the lines are put.
        lines: the lines, as a YAML text of their own.
    """
    # The new lines lose the events that the text has already: the start and the end of the stream,
    # and, unless the text is empty, of the document and the collection.
    edge_count = 1 if len(events) == EMPTY_EVENT_COUNT else CLOSING_EVENT_COUNT
    new_events = list_events(lines)[edge_count:-edge_count]
    return [event.details for event in (*events[:index], *new_events, *events[index:])]


def _map_value_spans(events: Sequence[YamlEvent]) -> dict[str, EventSpan]:
    """Return where the value of each key of the top mapping is among the events of a text.

    Raises:
        YamlTextError: the text is no single document, or no mapping with a key a line.
    """
    # Directly in the top mapping keys and values take turns. A collection counts by its start.
    starts: list[int] = []
    mapping_depth = 3  # in the stream, the document and the mapping
    depth = 0
    for index, event in enumerate(events):
        if event.kind.endswith("End"):
            depth -= 1
        elif depth == mapping_depth:
            starts.append(index)
        if event.kind.endswith("Start"):
            depth += 1

    if [event.kind for event in events].count("DocumentStart") != 1:
        raise YamlTextError(0, "not one YAML document")
    top_event = events[2]  # after the starts of the stream and of the document
    if top_event.kind != "MappingStart" or top_event.is_flow:
        raise YamlTextError(top_event.start[0], "not a mapping with a key a line")

    key_starts = starts[::2]
    value_starts = starts[1::2]
    next_starts = [*key_starts[1:], len(events) - CLOSING_EVENT_COUNT]
    spans: dict[str, EventSpan] = {}
    for key_start, first, next_start in zip(key_starts, value_starts, next_starts, strict=True):
        spans[events[key_start].value] = EventSpan(first, next_start - 1)
    return spans


def _is_block_changed(block: re.Match[str]) -> bool:
    return block["digest"] != _digest_of(_block_content(block))


def _block_content(block: re.Match[str]) -> str:
    """Return the text of a block without its indentation."""
    return dedent(block["content"].replace("\r", ""))


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]
