"""Config: the settings of a repository, read once and passed down (docs/configuration.md)."""

from __future__ import annotations

import msgspec


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

    max_entries_per_change: int = 3
    trusted_authors: tuple[str, ...] = ("*",)
    bot_authors: tuple[str, ...] = ("*[bot]*", "dependabot*", "renovate*", "github-actions*")
    adr_paths: tuple[str, ...] = ("docs/adr/*.md", "doc/adr/*.md", "**/adr/[0-9]*.md", "**/decisions/[0-9]*.md")


class RetrieveConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much an agent's job is given, in characters."""

    max_chars: int = 8000
    institutional_max_chars: int = 4000


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything `.memory-ci.yaml` may say; each key optional."""

    scopes: ScopePatterns = ScopePatterns()
    extraction: ExtractionConfig = ExtractionConfig()
    retrieve: RetrieveConfig = RetrieveConfig()
