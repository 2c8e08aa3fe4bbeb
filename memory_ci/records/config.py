"""Config: the settings of a repository, read once and passed down (docs/configuration.md)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Size = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Decay = Literal["exp", "linear", "fsrs", "t4dm"]


class ScopePatterns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which files belong to which scope. `{where}` is the directory or job; `*` stays in one segment."""

    institutional: tuple[str, ...] = ("institutional.md",)
    project: tuple[str, ...] = ("MEMORY.md",)
    session: tuple[str, ...] = (".teaparty/jobs/{where}/institutional.md",)
    team: tuple[str, ...] = (
        ".teaparty/jobs/{where}/worktree/MEMORY.md",
        "projects/{where}/MEMORY.md",
        "{where}/MEMORY.md",
    )


class ExtractionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a record run may learn from, and how much of it."""

    max_entries_per_change: Size = 3
    trusted_authors: tuple[str, ...] = ("*",)
    bot_authors: tuple[str, ...] = ("*[bot]*", "dependabot*", "renovate*", "github-actions*")
    adr_paths: tuple[str, ...] = ("docs/adr/*.md", "doc/adr/*.md", "**/adr/[0-9]*.md", "**/decisions/[0-9]*.md")


class RetrieveConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much an agent's job is given, in characters."""

    max_chars: Size = 8000
    institutional_max_chars: Size = 4000


class ProminenceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How prominence falls with age (docs/lifecycle.md)."""

    decay: Decay = "exp"


class GlobalConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where memory that holds in every repository is read from: a file, or a directory with a MEMORY.md.

    An empty path reads none.
    """

    path: str = "~/MEMORY.md"


class StageConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that says which stage a project is in: at the root, and in each directory of `projects/`."""

    file: str = "INTENT.md"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"global_": "global"}):
    """Everything `.memory-ci.yaml` may say; each key optional."""

    scopes: ScopePatterns = ScopePatterns()
    extraction: ExtractionConfig = ExtractionConfig()
    retrieve: RetrieveConfig = RetrieveConfig()
    prominence: ProminenceConfig = ProminenceConfig()
    global_: GlobalConfig = GlobalConfig()
    stage: StageConfig = StageConfig()
