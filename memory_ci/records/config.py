"""Config: the settings of a repository, read once and passed down (docs/configuration.md)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memory_ci.records.entry import EntryType, ScopeName
from memory_ci.records.names import AUDIENCE

Size = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Decay = Literal["hyperbolic", "seed", "exp", "linear", "fsrs", "t4dm"]
EngineName = Literal["auto", "rules", "anthropic", "claude-cli", "command", "replay"]
Provider = Literal["anthropic", "bedrock", "vertex", "foundry"]
ForgeName = Literal["auto", "github", "gitlab", "none"]
PublishMode = Literal["none", "push", "pr", "api", "auto"]
EmbedderName = Literal["none", "auto", "local", "ollama", "openai", "gemini"]
VERSION = r"^(|\d{1,5}(\.\d{1,5}){0,3})$"
Quotes = Literal["full", "link", "none"]
Amount = Annotated[float, msgspec.Meta(ge=0, le=10_000)]


def like(pattern: str, *examples: str) -> msgspec.Meta:
    """A text that fits a pattern; what is wrong is told of by the examples."""
    return msgspec.Meta(pattern=pattern, examples=list(examples))


class ScopePatterns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which files belong to which scope. `{where}` is the directory or job; `*` stays in one segment."""

    institutional: tuple[str, ...] = ("institutional.md",)
    """Files that every job is given whole."""
    project: tuple[str, ...] = ("MEMORY.md",)
    """Files of the whole project."""
    session: tuple[str, ...] = (".teaparty/jobs/{where}/institutional.md",)
    """Files of one job."""
    team: tuple[str, ...] = ("{where}/MEMORY.md",)
    """Files of one directory, the work tree of a task too."""


class ExtractionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a record run may learn from, and how much of it."""

    max_entries_per_change: Size = 3
    """How many learnings one merged change may add; the others are listed as left out."""
    norms: Literal["ranked", "seed"] = "ranked"
    """`seed`: a `Directive:`, and what a model takes for a norm in the words of people, goes to institutional memory
    at once, as the original design has it; `ranked`: to the project, until people or three changes
    say that it always holds (docs/extraction.md#marks-of-an-author)."""
    trusted_authors: tuple[str, ...] = ("*",)
    """Globs over `Name <e-mail>`: whose marks become memory. The default trusts everyone whose commit reached the
    branch."""
    bot_authors: tuple[str, ...] = ("*[bot]*", "dependabot*", "renovate*", "github-actions*")
    """Globs: whose commits are never evidence."""
    adr_paths: tuple[str, ...] = (
        "docs/adr/*.md",
        "doc/adr/*.md",
        "**/adr/[0-9]*.md",
        "**/decisions/[0-9]*.md",
    )
    """Where architecture decision records are added."""


class EvidenceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of people's words stands in the evidence of entries: all, where they were said, or neither."""

    quotes: Quotes = "full"
    """How much of people's words stands in the `evidence` of entries, pull requests and reports: `full`, `link` (only
    where they were said), `none`. A run still proves each learning by the words before they go
    (docs/privacy.md)."""


class EngineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which model reads the evidence, and what it may cost. Where the newest change edits these settings, those from
    before it hold: they decide where data go."""

    name: EngineName = "auto"
    """Who reads the evidence besides the rules: `auto` is a model that the environment has credentials for, else none
    (docs/engines.md)."""
    allowed: tuple[EngineName, ...] = ()
    """Engines that may be asked, also by `--engine`; none: all. The rules always may."""
    model: Annotated[str, like(r"^[!-~]{1,200}(?!\n)$", "claude-haiku-5-5")] = "claude-haiku-5-5"
    """The model that is asked; any id."""
    provider: Provider = "anthropic"
    """Through whom it is asked."""
    prompt_tokens: Annotated[int, msgspec.Meta(ge=2_000, le=90_000)] = 30_000
    """Tokens of evidence in one prompt. Of more, a part is chosen (docs/extraction.md) and the rest named."""
    max_tokens: Annotated[int, msgspec.Meta(ge=256, le=64_000)] = 8_000
    """Tokens of one answer."""
    max_cost_usd: Amount = 5.0
    """What a run may cost; it stops before the call that could pass it. `0` is no limit."""
    max_cost_usd_month: Amount = 0.0
    """What all runs of a calendar month (UTC) may cost, by the trailers of their commits
    (docs/formats.md#commit-trailers). `0` is no limit. Runs without a known price or a commit are not in the sum."""
    deadline_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 900
    """How long all calls of a run may take together."""
    price: tuple[Amount, Amount] | None = None
    """USD for a million tokens in and out, for a model that has no known price."""


class SessionsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of agents' sessions, under refs/memory-ci/sessions/, never in the work tree."""

    read: bool = True
    """Whether captured and committed sessions, Entire's checkpoints and git-ai's notes are read (docs/sessions.md)."""
    push: bool | Literal["private"] = "private"
    """Whether captured sessions are pushed with the branch: `private` only to a remote that does not answer strangers
    (docs/sessions.md#sharing-and-forgetting), `true` to any, `false` to none."""
    keep_full: bool = False
    """Keep the whole redacted transcript, not only its digest."""
    keep_days: Size = 90
    """Days that captured sessions are kept in a clone."""
    max_bytes: Annotated[int, msgspec.Meta(ge=1_000, le=100_000_000)] = 2_000_000
    """Size of one digest."""


class ForgeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose pull requests and reviews are read. `auto`: the one that the environment of the job names, else none."""

    name: ForgeName = "auto"
    """Whose pull requests and reviews are read: `auto` is the one that the environment of the job names
    (docs/forge.md)."""


class PublishConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How what a run recorded reaches others (docs/publishing.md): the mode where the command names none, the branch of
    the memory pull request, the remote."""

    mode: PublishMode = "none"
    """How `record` brings its commits to the remote, where the command does not say (docs/publishing.md)."""
    allowed: tuple[PublishMode, ...] = ()
    """Modes that may be used, also by `--push`; none: all. `none` always may."""
    branch: Annotated[str, like(r"^\w[\w-]{0,60}(?:[./][\w-]{1,60}){0,5}$", "memory-ci/update")] = (
        "memory-ci/update"
    )
    """The branch of the memory pull request."""
    remote: Annotated[str, like(r"^\w[\w.-]{0,100}$", "origin")] = "origin"
    """The remote, by its name."""
    every: Annotated[
        str, like(r"^(?:merge|day|week|[1-9]\d{0,3} entr(?:y|ies))(?!\n)$", "week", "20 entries")
    ] = "merge"
    """How often a run publishes: at each `merge`, once a `day` or a `week`, or at `N entries`
    (docs/publishing.md#how-often)."""
    labels: tuple[Annotated[str, like(r"^[^,\n]{1,50}(?!\n)$", "memory")], ...] = ()
    """Labels of a request that is opened (docs/publishing.md#labels-drafts-reviewers-auto-merge)."""
    draft: bool = False
    """Whether it is opened as a draft."""
    reviewers: tuple[
        Annotated[str, like(r"^\w[\w./-]{0,100}(?!\n)$", "ann", "acme/maintainers")], ...
    ] = ()
    """Who is asked to review it: people, on GitHub also teams (`owner/team`)."""
    auto_merge: Literal["none", "merge", "squash", "rebase"] = "none"
    """Whether the forge merges it as soon as its rules are met, and how."""
    author: Annotated[
        str,
        like(r"^(?:[^<>\s][^<>\n]{0,100} <[^<>@\s]+@[^<>@\s]+>)?(?!\n)$", "Ann <ann@example.com>"),
    ] = ""
    """`NAME <MAIL>` of commits of memory (docs/publishing.md#who-commits)."""
    signoff: bool = False
    """Whether they have its Signed-off-by (DCO)."""
    sign: bool = False
    """Whether git's key signs them."""


class RetrieveConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much an agent's job is given, in characters: of ranked entries, of those of one type, of the norms.

    `embedder` decides who is sent the texts for the vector lane; `embedder_model` is one of theirs, "" the usual one.
    `hints`: whether git history is asked where memory says little; `walk`: how many relations away entries are added.
    `holdout`: the share of sessions that are given nothing, so that `health --effect` can compare them with the others.
    """

    max_chars: Size = 8000
    """Characters that a job is given, everything counted."""
    institutional_max_chars: Size = 4000
    """Characters of institutional memory that a job is given, at most half of `retrieve.max_chars`."""
    prominence: Literal["bounded", "seed"] = "bounded"
    """`seed`: relevance is multiplied by importance x recency x (1 + n) as it stands (docs/ranking.md)."""
    reinforcement: Literal["log", "linear"] = "log"
    """`linear`: each use counts as much as the first (docs/ranking.md)."""
    type_max_chars: dict[EntryType, Size] = {}
    """Characters that entries of one type may take of `retrieve.max_chars`: `{declarative: 2000}`."""
    walk: Annotated[int, msgspec.Meta(ge=0, le=1)] = 0
    """`1` adds entries that are one relation away from those that were found (docs/relations.md)."""
    fusion: Literal["blend", "rrf", "cosine_x_importance", "linear4"] = "blend"
    """How words and vectors become one order (docs/ranking.md)."""
    vector_weight: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.4
    """The share of the vectors in a blend."""
    embedder: EmbedderName = "auto"
    """Who gives texts their vectors: `auto` is the local model where it is installed
    (docs/embedders.md)."""
    embedder_model: Annotated[str, like(r"^[\w.:/-]{0,200}$", "nomic-embed-text")] = ""
    """Another model of that service."""
    hints: bool = True
    """Whether a job that is given fewer than two entries is told what git history says (docs/similar.md#hints)."""
    holdout: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.0
    """The share of sessions that are given nothing, so that `health --effect` can tell what memory changes
    (docs/health.md#does-it-help)."""


class ProminenceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How prominence falls with age, and what renews it: to be used, or in the seed to be given (docs/lifecycle.md)."""

    decay: Decay = "hyperbolic"
    """The curve by which prominence falls with age; `exp` is another name of `seed`, `fsrs` needs `memory-ci[fsrs]`
    (docs/lifecycle.md#prominence)."""
    reinforced_by: Literal["used", "given"] = "used"
    """What counts an entry once more and renews its date: `used`, or as in the seed `given`
    (docs/lifecycle.md#reinforcement)."""


class GlobalConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where memory that holds in every repository is read from: a file, or a directory with a MEMORY.md."""

    path: str = "~/MEMORY.md"
    """Memory that holds in every repository: a file, or a directory with a `MEMORY.md`. `upkeep promote --global` alone
    writes to it, as one commit there; empty for none."""


class StageConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that says which stage a project is in: at the root, and in each directory of `projects/`."""

    file: str = "INTENT.md"
    """The file that says which stage a project is in: at the root, and in each directory of `projects/`
    (docs/lifecycle.md)."""


class ReviewConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many questions people are asked in one week, in all places together (docs/reviewing.md)."""

    per_week: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5
    """So many questions are asked of people in a week, in all places together (docs/reviewing.md)."""


class EpisodesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether each merged change is noted as an episode, and how episodes are kept and ranked (docs/episodes.md)."""

    write: bool = True
    """Whether `record` notes each merged change as an episode, and with it all feedback that follows from facts
    (docs/episodes.md)."""
    fold_after_days: Size = 180
    """How old a month is when the files of its episodes become one."""
    ignored_policy: Literal["split", "full"] = "split"
    """How much it counts that an entry was given to a job that did not use it: `split` shares 0.05 among all of that
    job, `full` takes 0.05 from each."""
    ranking: Literal["similar", "mempalace", "t4dm"] = "similar"
    """The order of episodes that are recalled (docs/episodes.md#recall)."""


class NudgeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """After how many commits or merged changes without a change of memory a line says so; 0: never."""

    after: Size = 60
    """After so many commits without a change of memory, a line says so; `0` never."""
    unit: Literal["commits", "changes"] = "commits"
    """What is counted: commits, or merged changes."""


class HealthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By which definitions memory is scored (docs/health.md)."""

    profile: Literal["git", "crewship"] = "git"
    """By which definitions memory is scored (docs/health.md)."""


class CiConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """After which stops `ci` ends red: those that last (a wrong permission, a bad answer), any, or none."""

    fail_on: Literal["lasting", "any", "never"] = "lasting"
    """After which stops `ci` ends with status 5: `lasting` is a wrong permission or a bad answer
    (docs/ci.md#when-a-run-stops)."""
    comment: bool = True
    """Whether `ci` comments on a pull request that changes cited code, where its token may (docs/ci.md#the-comment).
    The base's configuration decides."""


FORMAT = 1  # The newest format of a repository's files that is known here; docs/compatibility.md says what it covers.


class ExportConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that `export --to agents-md` writes its block into; `record`: each run brings the block up to date."""

    path: Annotated[str, like(r"^(?!.*\.\.|\.git/)[\w@.-]+(/[\w@.-]+)*\.md$", "AGENTS.md")] = (
        "AGENTS.md"
    )
    """The file into which `export` writes its block, by its path from the top
    (docs/agents.md#memory-in-agentsmd)."""
    record: bool = False
    """Whether each `record` brings that block up to date, in the same commit."""


class OrgConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `retrieve` takes from the organisation's index, where the environment of a job names one."""

    max_share: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.25
    """The share of an answer's characters that the organisation's index may fill (docs/organisation.md)."""
    weight: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.8
    """What a score from there counts beside this repository's own."""
    audiences: tuple[
        Annotated[str, like(rf"^(?:{AUDIENCE})(?!\n)$", "public", "group-payments")], ...
    ] = ()
    """The audiences that are asked, of those that the environment allows; none: all of these."""
    deadline_ms: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500
    """After so many milliseconds nothing of it is given."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"global_": "global"}):
    """Everything `.memory-ci.yaml` may say; each key optional. `format` is that of the files of the repository."""

    format: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    """The format of the memory files of this repository; `memory-ci check --migrate` changes it
    (docs/compatibility.md#formats)."""
    extends: Annotated[
        str,
        like(
            r"^(|[^\s@]\S{0,500}@[^\s@]{1,200} sha256:[0-9a-f]{64})$", "ADDRESS@REV sha256:DIGEST"
        ),
    ] = ""
    """The policy that narrows these settings, `SOURCE@REV sha256:…`; `memory-ci init --policy` writes it
    (docs/configuration.md#policy)."""
    minimum_version: Annotated[str, like(VERSION, "0.2.0")] = ""
    """An older memory-ci refuses to run: `"0.2"`."""
    scopes: ScopePatterns = ScopePatterns()
    extraction: ExtractionConfig = ExtractionConfig()
    evidence: EvidenceConfig = EvidenceConfig()
    engine: EngineConfig = EngineConfig()
    sessions: SessionsConfig = SessionsConfig()
    forge: ForgeConfig = ForgeConfig()
    publish: PublishConfig = PublishConfig()
    retrieve: RetrieveConfig = RetrieveConfig()
    prominence: ProminenceConfig = ProminenceConfig()
    global_: GlobalConfig = GlobalConfig()
    stage: StageConfig = StageConfig()
    episodes: EpisodesConfig = EpisodesConfig()
    review: ReviewConfig = ReviewConfig()
    nudge: NudgeConfig = NudgeConfig()
    health: HealthConfig = HealthConfig()
    ci: CiConfig = CiConfig()
    export: ExportConfig = ExportConfig()
    org: OrgConfig = OrgConfig()
    roles: dict[str, tuple[ScopeName, ...]] = {}
    """The scopes that each role may be given: `{reviewer: [project, team]}` (docs/retrieving.md#who-asks)."""


class PolicyEngine(msgspec.Struct, frozen=True):
    """What a policy says of engines: those that may be asked (none: all), and caps in USD (0: no limit)."""

    allowed: tuple[EngineName, ...] = ()
    max_cost_usd: Amount = 0.0
    max_cost_usd_month: Amount = 0.0


class PolicyPublish(msgspec.Struct, frozen=True):
    """What a policy says of publishing: the modes that may be used; none: all."""

    allowed: tuple[PublishMode, ...] = ()


class Policy(msgspec.Struct, frozen=True):
    """What a platform lays down for many repositories: keys of a configuration that `narrow` takes."""

    engine: PolicyEngine = PolicyEngine()
    publish: PolicyPublish = PolicyPublish()
    minimum_version: Annotated[str, like(VERSION, "0.2.0")] = ""
