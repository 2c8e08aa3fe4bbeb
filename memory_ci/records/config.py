"""Settings of a repository, which are read once and passed down (docs/reference/settings.md)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memory_ci.records.entry import ScopeName
from memory_ci.records.names import AUDIENCE

Size = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
EngineName = Literal["auto", "rules", "anthropic", "claude-cli", "command", "replay"]
Provider = Literal["anthropic", "bedrock", "vertex", "foundry"]
ForgeName = Literal["auto", "github", "gitlab", "none"]
RepeatedMode = Literal["propose", "write", "off"]
PublishMode = Literal["none", "push", "pr", "api", "auto"]
EmbedderName = Literal["none", "auto", "local", "ollama", "openai", "gemini"]
VERSION = r"^(|\d{1,5}(\.\d{1,5}){0,3})$"
Quotes = Literal["full", "link", "none"]
Amount = Annotated[float, msgspec.Meta(ge=0, le=10_000)]


def text_like(pattern: str, *examples: str) -> msgspec.Meta:
    """Return a constraint on a text; messages about another text show the examples."""
    return msgspec.Meta(pattern=pattern, examples=list(examples))


class ScopePatterns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns of the files of each scope.

    `{where}` is the directory or job; `*` does not match a slash.
    """

    institutional: tuple[str, ...] = ("institutional.md",)
    """Files that every job is served whole."""
    project: tuple[str, ...] = ("MEMORY.md",)
    """Files of the whole project."""
    session: tuple[str, ...] = (".teaparty/jobs/{where}/institutional.md",)
    """Files of one job."""
    team: tuple[str, ...] = ("{where}/MEMORY.md",)
    """Files of one directory, also of the work tree of a task."""


class ExtractionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sources that a record run may learn from, and its limit."""

    max_entries_per_change: Size = 3
    """How many learnings that nobody marked one merged change may add; the others wait as
    candidates.
    """
    trusted_authors: tuple[str, ...] = ("*",)
    """Globs over `Name <e-mail>` of the authors whose marks become memory. The default trusts
    everyone whose commit reached the branch.
    """
    bot_authors: tuple[str, ...] = ("*[bot]*", "dependabot*", "renovate*", "github-actions*")
    """Globs of the authors whose commits are never evidence."""
    repeated: RepeatedMode = "propose"
    """What people ask in several sessions, and what fails in several: `propose` asks a person,
    `write` also writes what was asked in four sessions on three days, `off` looks for neither
    (docs/learning.md).
    """
    adr_paths: tuple[str, ...] = (
        "docs/adr/*.md",
        "doc/adr/*.md",
        "**/adr/[0-9]*.md",
        "**/decisions/[0-9]*.md",
    )
    """Globs of architecture decision records."""


class EvidenceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Quotations in the evidence of entries."""

    quotes: Quotes = "full"
    """Quotations of people in the `evidence` of entries, pull requests and reports: `full`, `link`
    (only their addresses) or `none`. A run still proves each learning by the words before it
    removes them (docs/security.md).
    """


class EngineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model that reads the evidence, and the limits of its cost.

    If the newest change edits these settings, their former values hold: they decide where data go.
    """

    name: EngineName = "auto"
    """The engine that reads the evidence, in addition to the rules: `auto` is a model that the
    environment has credentials for, if there is one (docs/models.md).
    """
    allowed: tuple[EngineName, ...] = ()
    """Engines that may be used, also by `--engine`; if empty, all. The rules always may."""
    model: Annotated[str, text_like(r"^[!-~]{1,200}(?!\n)$", "claude-haiku-5-5")] = (
        "claude-haiku-5-5"
    )
    """The id of the model."""
    provider: Provider = "anthropic"
    """The provider of the model."""
    max_cost_usd: Amount = 5.0
    """The limit of the cost of a run, which stops before the call that could exceed it. `0` is no
    limit.
    """
    max_cost_usd_month: Amount = 0.0
    """The limit of the cost of all runs of a calendar month (UTC), by the trailers of their commits
    (docs/formats.md#commit-trailers). `0` is no limit. Runs without a known price or a commit are
    not counted.
    """
    deadline_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 900
    """The time limit of all calls of a run together."""
    price: tuple[Amount, Amount] | None = None
    """USD for a million tokens in and out, for a model without a known price."""


class SessionsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of agent sessions.

    They are stored under refs/memory-ci/sessions/, never in the work tree.
    """

    read: bool = True
    """Whether captured and committed sessions, Entire's checkpoints and git-ai's notes are read
    (docs/agents.md#sessions).
    """
    push: bool | Literal["private"] = "private"
    """Whether captured sessions are pushed with the branch: `private` only to a remote that does
    not answer strangers (docs/agents.md#where-sessions-go), `true` to any, `false` to none.
    """
    keep_days: Size = 90
    """Days that captured sessions are kept in a clone."""


class ForgeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The forge whose pull requests and reviews are read."""

    name: ForgeName = "auto"
    """The forge whose pull requests and reviews are read: `auto` is the forge that the environment
    of the job names, if it names one (docs/ci.md#what-is-read-from-the-forge).
    """


class PublishConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of publishing the commits of a run (docs/platform.md)."""

    mode: PublishMode = "none"
    """How `record` publishes its commits, if the command does not say (docs/platform.md)."""
    allowed: tuple[PublishMode, ...] = ()
    """Modes that may be used, also by `--push`; if empty, all. `none` always may."""
    branch: Annotated[
        str, text_like(r"^\w[\w-]{0,60}(?:[./][\w-]{1,60}){0,5}$", "memory-ci/update")
    ] = "memory-ci/update"
    """The branch of the memory pull request."""
    remote: Annotated[str, text_like(r"^\w[\w.-]{0,100}$", "origin")] = "origin"
    """The name of the remote."""
    every: Annotated[
        str,
        text_like(r"^(?:merge|day|week|[1-9]\d{0,3} entr(?:y|ies))(?!\n)$", "week", "20 entries"),
    ] = "merge"
    """How often a run publishes: at each `merge`, once a `day` or a `week`, or at `N entries`
    (docs/reviewing.md#how-often)."""
    labels: tuple[Annotated[str, text_like(r"^[^,\n]{1,50}(?!\n)$", "memory")], ...] = ()
    """Labels of a new memory pull request (docs/platform.md#under-the-rules-of-a-repository).
    """

    reviewers: tuple[
        Annotated[str, text_like(r"^\w[\w./-]{0,100}(?!\n)$", "ann", "acme/maintainers")], ...
    ] = ()
    """Reviewers of the memory pull request: people, on GitHub also teams (`owner/team`)."""
    auto_merge: Literal["none", "merge", "squash", "rebase"] = "none"
    """Whether the forge merges the memory pull request when its rules are met, and how."""
    author: Annotated[
        str,
        text_like(
            r"^(?:[^<>\s][^<>\n]{0,100} <[^<>@\s]+@[^<>@\s]+>)?(?!\n)$", "Ann <ann@example.com>"
        ),
    ] = ""
    """The author of commits of memory, `NAME <MAIL>` (docs/platform.md#who-commits)."""
    signoff: bool = False
    """Whether these commits have a Signed-off-by of the author (DCO)."""
    sign: bool = False
    """Whether these commits are signed with git's key."""


class RetrieveConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The amount of memory that an agent's job is served, and its ranking.

    The embedder decides who is sent the texts to embed.
    """

    max_chars: Size = 8000
    """Characters that a job is served, everything counted."""

    embedder: EmbedderName = "auto"
    """The service that embeds texts: `auto` is the local model if it is installed
    (docs/models.md#embedders).
    """
    embedder_model: Annotated[str, text_like(r"^[\w.:/-]{0,200}$", "nomic-embed-text")] = ""
    """The model of that service; if empty, its usual one."""
    hints: bool = True
    """Whether hints of git history are added for a job that is served fewer than two entries
    (docs/serving.md#hints).
    """
    holdout: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.0
    """The share of sessions that are served nothing, so `health --effect` can compare them with the
    others (docs/report.md#does-it-help).
    """


class GlobalConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The source of memory that holds in every repository."""

    path: str = "~/MEMORY.md"
    """Memory that holds in every repository: a file, or a directory with a `MEMORY.md`. Only
    `upkeep promote --global` writes to it, as one commit there; empty for none.
    """


class ReviewConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of questions to people (docs/reviewing.md)."""

    per_week: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5
    """Questions to people per week, in all places together (docs/reviewing.md)."""


class EpisodesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether episodes are written, and how they are kept and ranked (docs/episodes.md)."""

    write: bool = True
    """Whether `record` writes an episode for each merged change, with all feedback that follows
    from facts (docs/episodes.md).
    """
    ranking: Literal["similar", "mempalace", "t4dm"] = "similar"
    """The order of recalled episodes (docs/episodes.md#recall)."""


class NudgeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reminder that memory has not changed for long."""

    after: Size = 60
    """The number of commits without a change of memory after which a line says so; `0`: never."""


class HealthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The definitions by which memory is scored (docs/report.md)."""

    profile: Literal["git", "crewship"] = "git"
    """The definitions by which memory is scored (docs/report.md)."""


class CiConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of `ci`."""

    comment: bool = True
    """Whether `ci` comments on a pull request that changes cited code, if its token may
    (docs/ci.md#the-comment). The configuration of the base decides.
    """


FORMAT = 1
"""The newest format of files that this version reads and writes (docs/upgrading.md)."""


class ExportConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file into which `export --to agents-md` writes its block."""

    path: Annotated[str, text_like(r"^(?!.*\.\.|\.git/)[\w@.-]+(/[\w@.-]+)*\.md$", "AGENTS.md")] = (
        "AGENTS.md"
    )
    """The file into which `export` writes its block, as a path from the root
    (docs/agents.md#an-agent-without-hooks).
    """
    record: bool = False
    """Whether each `record` updates that block, in the same commit."""


class OrgConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the organisation's index, if the environment of a job names one."""

    audiences: tuple[
        Annotated[str, text_like(rf"^(?:{AUDIENCE})(?!\n)$", "public", "group-payments")], ...
    ] = ()
    """The audiences to search, of those that the environment allows; if empty, all of these."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"global_": "global"}):
    """The content of `.memory-ci.yaml`; each key is optional."""

    format: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    """The format of the memory files of this repository; `memory-ci check --migrate` changes it
    (docs/upgrading.md#what-is-promised)."""
    extends: Annotated[
        str,
        text_like(
            r"^(|[^\s@]\S{0,500}@[^\s@]{1,200} sha256:[0-9a-f]{64})$", "ADDRESS@REV sha256:DIGEST"
        ),
    ] = ""
    """The policy that narrows these settings, `SOURCE@REV sha256:…`; `memory-ci init --policy`
    writes it (docs/platform.md#a-policy-for-all-repositories)."""
    minimum_version: Annotated[str, text_like(VERSION, "0.2.0")] = ""
    """An older memory-ci refuses to run: `"0.2"`."""
    scopes: ScopePatterns = ScopePatterns()
    extraction: ExtractionConfig = ExtractionConfig()
    evidence: EvidenceConfig = EvidenceConfig()
    engine: EngineConfig = EngineConfig()
    sessions: SessionsConfig = SessionsConfig()
    forge: ForgeConfig = ForgeConfig()
    publish: PublishConfig = PublishConfig()
    retrieve: RetrieveConfig = RetrieveConfig()
    global_: GlobalConfig = GlobalConfig()
    episodes: EpisodesConfig = EpisodesConfig()
    review: ReviewConfig = ReviewConfig()
    nudge: NudgeConfig = NudgeConfig()
    health: HealthConfig = HealthConfig()
    ci: CiConfig = CiConfig()
    export: ExportConfig = ExportConfig()
    org: OrgConfig = OrgConfig()
    roles: dict[str, tuple[ScopeName, ...]] = {}
    """The scopes that each role may be served: `{reviewer: [project, team]}`
    (docs/serving.md#who-asks).
    """


class PolicyEngine(msgspec.Struct, frozen=True):
    """The limits of a policy on engines.

    Attributes:
        allowed: engines that may be used; if empty, all.
        max_cost_usd: the limit of a run; 0 is no limit.
        max_cost_usd_month: the limit of a calendar month; 0 is no limit.
    """

    allowed: tuple[EngineName, ...] = ()
    max_cost_usd: Amount = 0.0
    max_cost_usd_month: Amount = 0.0


class PolicyPublish(msgspec.Struct, frozen=True):
    """The limits of a policy on publishing.

    Attributes:
        allowed: modes that may be used; if empty, all.
    """

    allowed: tuple[PublishMode, ...] = ()


class Policy(msgspec.Struct, frozen=True):
    """Limits that a platform sets for many repositories.

    Its keys are the keys of a configuration that `apply_policy` reads.
    """

    engine: PolicyEngine = PolicyEngine()
    publish: PolicyPublish = PolicyPublish()
    minimum_version: Annotated[str, text_like(VERSION, "0.2.0")] = ""
