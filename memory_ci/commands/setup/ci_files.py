"""What `init` writes for pre-commit and for CI: our hooks, a workflow of GitHub, an include of GitLab.

All name one release of memory-ci: where it is kept, from the package's metadata, and its tag, `v` and the version.
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
from memory_ci.store.yamltext import YamlTextError, YamlToken, format_flow_scalar, list_tokens

SOURCE = re.compile(r"(?:(https://[\w.:-]+)/)?([\w.-]+(?:/[\w.-]+)+)@(v\d+(?:\.\d+)*|[0-9a-f]{40})")
REPOSITORY = re.compile(r"Repository, *(https://[^/]+)/(\S+?)(?:\.git)?/?")
TAG = f"v{__version__}"
TYPES = ("pre-commit", "pre-merge-commit", "prepare-commit-msg", "pre-push")
TYPES_LINE = f"default_install_hook_types: [{', '.join(TYPES)}]\n"
BY_HAND = re.compile(
    r"memory-ci-(?:check|fix|notes|trailers|push|sync)|\S*/memory-ci(?:/\S*)?@\S+|.*\bmemory-ci ci\b.*"
)
"""A text in a file of pre-commit or of CI that calls memory-ci already."""


class Release(msgspec.Struct, frozen=True):
    """A release of memory-ci: the forge, the repository there, and the tag or commit."""

    host: str
    path: str
    rev: str

    @property
    def url(self) -> str:
        return f"{self.host}/{self.path}"


def read_source(text: str) -> Release:
    """What `--ci-source` names. Raises UsageError (bad-ci-source)."""
    if found := SOURCE.fullmatch(text):
        return Release(found[1] or "https://github.com", found[2], found[3])
    hint = f"Write OWNER/REPO@{TAG}, or https://HOST/OWNER/REPO@ and a tag or a full commit: a branch would move."
    raise UsageError(f"{text!r} names no release of memory-ci", slug="bad-ci-source", hint=hint)


def find_release() -> Release | None:
    """The release that is installed, None where its metadata names no repository (the Project-URL Repository)."""
    found = next((match for url in list_urls() if (match := REPOSITORY.fullmatch(url))), None)
    return Release(found[1], found[2], TAG) if found else None


def need_release(source: str | None, *, is_tag: bool) -> Release:
    """The release that is named (`is_tag`: not by a commit), else the one that is installed. Raises UsageError:
    bad-ci-source, no-ci-source."""
    release = read_source(source) if source else find_release()
    if release is None:
        message = "where memory-ci is kept is not known: this package names no repository in its metadata yet"
        hint = f"Say which release hooks and CI are to run: --ci-source OWNER/REPO@{TAG}"
        raise UsageError(message, slug="no-ci-source", hint=hint)
    if is_tag and not release.rev.startswith("v"):
        message = (
            f"GitLab's component installs a tag of memory-ci, and {release.rev[:10]} is a commit"
        )
        raise UsageError(message, slug="bad-ci-source", hint=f"Name a tag: {release.path}@{TAG}")
    return release


# -- pre-commit


def pre_commit_item(release: Release) -> str:
    """Our hooks, as an item of `repos`."""
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
    """The file with our hooks, and the types of hooks they need where it names none. Raises YamlTextError."""
    keys, item = list_keys(text), pre_commit_item(release)
    more = "" if "default_install_hook_types" in keys else TYPES_LINE
    if more and "default_stages" not in keys and "repos" in keys:
        more += "default_stages: [pre-commit, manual] # hooks that name no stage run when they ran before\n"
    if "repos" not in keys:
        return add_keys(text, f"{more}repos:\n{item}")
    text = add_items(text, "repos", item)
    return add_keys(text, more) if more else text


# -- GitHub and GitLab


def github_workflow(release: Release, branch: str) -> str:
    """The workflow that calls ours."""
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
    # The most that its jobs may have. Each takes less: the one that reads with a model's key can write nothing.
    permissions:
      contents: write # to commit memory; only the job that applies the plan has it
      pull-requests: write # to open the memory pull request, and to comment where a change touches cited code
      checks: read # checks that failed tell what went wrong in merged work
    uses: {release.path}/.github/workflows/memory.yml@{release.rev}
    with:
      # To the branch, or as a pull request where the branch is protected.
      push: auto
"""


def gitlab_item(release: Release, stage: str = "test") -> str:
    """Our component, as an item of `include`."""
    inputs = f"      stage: {format_flow_scalar(stage)}\n" if stage != "test" else ""
    return f"""\
  - component: $CI_SERVER_FQDN/{release.path}/memory@{release.rev}
    inputs:
      source: {release.url}
      release: {release.rev}
      # To the branch, or as a merge request where the branch is protected.
      push: auto
{inputs}"""


def add_gitlab(text: str, release: Release) -> str:
    """The file with our component, in a stage that it has. Raises YamlTextError."""
    keys = list_keys(text)
    stages = keys.get("stages", ("test",))
    item = gitlab_item(release, "test" if "test" in stages or not stages else stages[-1])
    if "include" not in keys:
        return add_keys(text, f"include:\n{item}")
    return add_items(text, "include", re.sub("(?m)^  ", "", item))


# -- Blocks of ours in YAML files of somebody else: put in as text, so that comments and formatting stay byte for byte

BEGIN = "# memory-ci init: begin"
END = "# memory-ci init: end"
BLOCK = re.compile(
    rf"^[ \t]*{BEGIN} ([0-9a-f]{{8}})[^\n]*\n(.*?)^[ \t]*{END}[ \t]*(?:\r?\n|\Z)", re.M | re.S
)
NOTE = "(taken out by `memory-ci uninit`, unless it was changed)"
WHOLE = "(this file; taken out by `memory-ci uninit`, unless it was changed)"
ROW = re.compile(r"[^\n]*\n|[^\n]+")


def fence(text: str, note: str = NOTE) -> str:
    """The block that holds `text`, whose lines all end."""
    return f"{BEGIN} {_digest(text)} {note}\n{text}{END}\n"


def list_blocks(text: str) -> tuple[str, ...]:
    """What our blocks hold, each as it was before it was indented, in order."""
    return tuple(sorted(map(_held, BLOCK.finditer(text))))


def is_changed(text: str) -> bool:
    """Whether somebody changed one of our blocks."""
    return any(found[1] != _digest(_held(found)) for found in BLOCK.finditer(text))


def take_out(text: str) -> str | None:
    """The text without our blocks: as it was before they were put in. None where it was a file of ours, and no more.
    Blocks that were changed stay."""
    for number in reversed(range(len(BLOCK.findall(text)))):
        found = list(BLOCK.finditer(text))[
            number
        ]  # anew: taking one out may end the one before without a newline
        if found[1] != _digest(_held(found)):
            continue
        before, after = text[: found.start()], text[found.end() :]
        if not found.group().endswith("\n"):
            before = before.removesuffix("\n").removesuffix("\r")
        text = before + after
        if not text and WHOLE in found.group():
            return None
    return text


def list_keys(text: str) -> dict[str, tuple[str, ...]]:
    """The keys at the top of a mapping, with the texts in what each holds, at any depth. Raises YamlTextError."""
    tokens = list_tokens(text)
    return {
        key: tuple(token.value for token in tokens[first : last + 1] if token.kind == "Scalar")
        for key, (first, last) in (_find_values(tokens) if len(tokens) > 2 else {}).items()
    }


def add_keys(text: str, lines: str) -> str:
    """The text with more keys at its end, in a block of ours. Raises YamlTextError where that cannot be proved."""
    tokens = list_tokens(text)
    is_empty = len(tokens) == 2  # comments and blank lines alone
    if not is_empty:
        _find_values(tokens)
    return _put(
        text,
        len(ROW.findall(text)),
        fence(lines),
        tokens,
        1 if is_empty else len(tokens) - 3,
        lines,
    )


def add_items(text: str, key: str, lines: str) -> str:
    """The text with more items at the end of the list `key`, in a block of ours. Raises YamlTextError as `add_keys`."""
    tokens = list_tokens(text)
    first, last = _find_values(tokens)[key]
    start = tokens[first]
    if start.kind != "SequenceStart" or start.is_flow:
        raise YamlTextError(start.start[0], f"`{key}` is no list with an item a line")
    column = start.start[1]
    inside = [token.end for token in tokens[first + 1 : last] if token.end > token.start]
    row, behind = max(inside)
    row, rows = row + bool(behind), ROW.findall(text)
    for number, line in enumerate(
        rows[row:], start=row + 1
    ):  # comments of the list behind its last item
        if not line.strip():
            continue
        if not line.lstrip().startswith("#") or len(line) - len(line.lstrip()) <= column:
            break
        row = number
    return _put(text, row, indent(fence(lines), " " * column), tokens, last, lines)


def _put(
    text: str, row: int, block: str, tokens: Sequence[YamlToken], place: int, lines: str
) -> str:
    """The text with the block before a row, if it then says what it said, with that of `lines` at `place`."""
    rows = ROW.findall(text)
    if "\r\n" in text:
        block = block.replace("\n", "\r\n")
    if row == len(rows) and rows and not rows[-1].endswith("\n"):
        ending = "\r\n" if "\r\n" in text else "\n"
        block = ending + block.removesuffix(ending)
    new = "".join([*rows[:row], block, *rows[row:]])
    around = (
        3 if len(tokens) > 2 else 1
    )  # beginnings and ends: of the stream, else the document and the collection too
    ours = list_tokens(lines)[around:-around]
    wanted = [token.says for token in (*tokens[:place], *ours, *tokens[place:])]
    if [token.says for token in list_tokens(new)] != wanted or take_out(new) != take_out(text):
        raise YamlTextError(row, "what was put in here would change what the rest says")
    return new


def _find_values(tokens: Sequence[YamlToken]) -> dict[str, tuple[int, int]]:
    """The keys at the top, and the first and last token of what each holds."""
    starts, depth = [], 0
    for place, token in enumerate(tokens):
        depth -= token.kind.endswith("End")
        if depth == 3 and not token.kind.endswith(
            "End"
        ):  # in the stream, the document and the mapping
            starts.append(place)
        depth += token.kind.endswith("Start")
    if [token.kind for token in tokens].count("DocumentStart") != 1:
        raise YamlTextError(0, "not one YAML document")
    if tokens[2].kind != "MappingStart" or tokens[2].is_flow:
        raise YamlTextError(tokens[2].start[0], "not a mapping with a key a line")
    ends = [*starts[2::2], len(tokens) - 3]
    return {
        tokens[key].value: (first, end - 1)
        for key, first, end in zip(starts[::2], starts[1::2], ends, strict=True)
    }


def _held(found: re.Match[str]) -> str:
    return dedent(found[2].replace("\r", ""))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]
