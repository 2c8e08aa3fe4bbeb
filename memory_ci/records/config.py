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


class ScopePatterns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which files belong to which scope. `{where}` is the directory or job; `*` stays in one segment."""

    institutional: tuple[str, ...] = ("institutional.md",)
    project: tuple[str, ...] = ("MEMORY.md",)
    session: tuple[str, ...] = (".teaparty/jobs/{where}/institutional.md",)
    team: tuple[str, ...] = ("{where}/MEMORY.md",)


class ExtractionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a record run may learn from, and how much of it.

    `norms`: whether what one mark or one model calls a norm becomes one (`seed`), or is ranked with the project's
    entries until a person promotes it or several changes say it.
    """

    max_entries_per_change: Size = 3
    norms: Literal["ranked", "seed"] = "ranked"
    trusted_authors: tuple[str, ...] = ("*",)
    bot_authors: tuple[str, ...] = ("*[bot]*", "dependabot*", "renovate*", "github-actions*")
    adr_paths: tuple[str, ...] = ("docs/adr/*.md", "doc/adr/*.md", "**/adr/[0-9]*.md", "**/decisions/[0-9]*.md")


class EvidenceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of people's words stands in the evidence of entries: all, where they were said, or neither."""

    quotes: Quotes = "full"


class EngineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which model reads the evidence, and what it may cost. Where the newest change edits these settings, those from
    before it hold: they decide where data go.

    `allowed`: the engines that may be asked, also by `--engine`; none: all. `prompt_tokens` bounds one prompt;
    `max_cost_usd` and `deadline_seconds` bound a whole run, `max_cost_usd_month` all runs of a calendar month (0: no
    limit); `price` is USD per million tokens in and out, for a model that has none in our table.
    """

    name: EngineName = "auto"
    allowed: tuple[EngineName, ...] = ()
    model: Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,200}(?!\n)$")] = "claude-haiku-5-5"
    provider: Provider = "anthropic"
    prompt_tokens: Annotated[int, msgspec.Meta(ge=2_000, le=90_000)] = 30_000
    max_tokens: Annotated[int, msgspec.Meta(ge=256, le=64_000)] = 8_000
    max_cost_usd: Amount = 5.0
    max_cost_usd_month: Amount = 0.0
    deadline_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 900
    price: tuple[Amount, Amount] | None = None


class SessionsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of agents' sessions, under refs/memory-ci/sessions/, never in the work tree.

    `push`: whether they go with a push; `private`: to a remote that does not answer strangers.
    """

    read: bool = True
    push: bool | Literal["private"] = "private"
    keep_full: bool = False
    keep_days: Size = 90
    max_bytes: Annotated[int, msgspec.Meta(ge=1_000, le=100_000_000)] = 2_000_000


class ForgeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose pull requests and reviews are read. `auto`: the one that the environment of the job names, else none."""

    name: ForgeName = "auto"


class PublishConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How what a run recorded reaches others (docs/publishing.md): the mode where the command names none, the branch of
    the memory pull request, the remote.

    `every`: how often a run publishes; what is merged between is for the next one that is due. `split`: one
    request for all, or one for each team that CODEOWNERS names. `labels`, `draft` and
    `reviewers` are given to a request that is opened. `author` (`NAME <MAIL>`) makes the commits, `signoff` adds its
    Signed-off-by, `sign` the signature of git's key.
    """

    mode: PublishMode = "none"
    allowed: tuple[PublishMode, ...] = ()
    branch: Annotated[str, msgspec.Meta(pattern=r"^\w[\w-]{0,60}(?:[./][\w-]{1,60}){0,5}$")] = "memory-ci/update"
    remote: Annotated[str, msgspec.Meta(pattern=r"^\w[\w.-]{0,100}$")] = "origin"
    every: Annotated[str, msgspec.Meta(pattern=r"^(?:merge|day|week|[1-9]\d{0,3} entr(?:y|ies))(?!\n)$")] = "merge"
    split: Literal["none", "codeowners"] = "none"
    labels: tuple[Annotated[str, msgspec.Meta(pattern=r"^[^,\n]{1,50}(?!\n)$")], ...] = ()
    draft: bool = False
    reviewers: tuple[Annotated[str, msgspec.Meta(pattern=r"^\w[\w./-]{0,100}(?!\n)$")], ...] = ()
    auto_merge: Literal["none", "merge", "squash", "rebase"] = "none"
    author: Annotated[str, msgspec.Meta(pattern=r"^(?:[^<>\s][^<>\n]{0,100} <[^<>@\s]+@[^<>@\s]+>)?(?!\n)$")] = ""
    signoff: bool = False
    sign: bool = False


class RetrieveConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much an agent's job is given, in characters: of ranked entries, of those of one type, of the norms.

    `embedder` decides who is sent the texts for the vector lane; `embedder_model` is one of theirs, "" the usual one.
    `hints`: whether git history is asked where memory says little; `walk`: how many relations away entries are added.
    `holdout`: the share of sessions that are given nothing, so that `health --effect` can compare them with the others.
    """

    max_chars: Size = 8000
    institutional_max_chars: Size = 4000
    prominence: Literal["bounded", "seed"] = "bounded"
    reinforcement: Literal["log", "linear"] = "log"
    type_max_chars: dict[EntryType, Size] = {}
    walk: Annotated[int, msgspec.Meta(ge=0, le=1)] = 0
    fusion: Literal["blend", "rrf", "cosine_x_importance", "linear4"] = "blend"
    vector_weight: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.4
    embedder: EmbedderName = "auto"
    embedder_model: Annotated[str, msgspec.Meta(pattern=r"^[\w.:/-]{0,200}$")] = ""
    hints: bool = True
    holdout: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.0


class ProminenceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How prominence falls with age, and what renews it: to be used, or in the seed to be given (docs/lifecycle.md)."""

    decay: Decay = "hyperbolic"
    reinforced_by: Literal["used", "given"] = "used"


class GlobalConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where memory that holds in every repository is read from: a file, or a directory with a MEMORY.md.

    An empty path reads none.
    """

    path: str = "~/MEMORY.md"


class StageConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that says which stage a project is in: at the root, and in each directory of `projects/`."""

    file: str = "INTENT.md"


class ReviewConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many questions people are asked in one week, in all places together (docs/reviewing.md)."""

    per_week: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5


class EpisodesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether each merged change is noted as an episode, and how episodes are kept and ranked (docs/episodes.md).

    `fold_after_days`: when the files of a month become one. `ignored_policy`: `split` shares the -0.05 among all that
    one job was given and did not use, `full` takes it from each. `ranking` orders the episodes that are recalled.
    """

    write: bool = True
    fold_after_days: Size = 180
    ignored_policy: Literal["split", "full"] = "split"
    ranking: Literal["similar", "mempalace", "t4dm"] = "similar"


class NudgeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """After how many commits or merged changes without a change of memory a line says so; 0: never."""

    after: Size = 60
    unit: Literal["commits", "changes"] = "commits"


class HealthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By which definitions memory is scored (docs/health.md)."""

    profile: Literal["git", "crewship"] = "git"


class CiConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """After which stops `ci` ends red: those that last (a wrong permission, a bad answer), any, or none.

    `comment`: whether it comments on a pull request that changes code which entries cite.
    """

    fail_on: Literal["lasting", "any", "never"] = "lasting"
    comment: bool = True


FORMAT = 1  # The newest format of a repository's files that is known here; docs/compatibility.md says what it covers.


class ExportConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that `export --to agents-md` writes its block into; `record`: each run brings the block up to date."""

    path: Annotated[str, msgspec.Meta(pattern=r"^(?!.*\.\.|\.git/)[\w@.-]+(/[\w@.-]+)*\.md$")] = "AGENTS.md"
    record: bool = False


class OrgConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `retrieve` takes from the organisation's index, where the environment of a job names one.

    `max_share`: of the characters of an answer; `weight`: of a score beside this repository's own; `audiences`: of
    those that the environment allows. After `deadline_ms` nothing of it is given.
    """

    max_share: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.25
    weight: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.8
    audiences: tuple[Annotated[str, msgspec.Meta(pattern=rf"^(?:{AUDIENCE})(?!\n)$")], ...] = ()
    deadline_ms: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"global_": "global"}):
    """Everything `.memory-ci.yaml` may say; each key optional. `format` is that of the files of the repository.

    `extends` pins the central policy that narrows the rest (`memory-ci policy` writes it). `minimum_version`: an older
    memory-ci refuses to run.
    """

    format: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    extends: Annotated[str, msgspec.Meta(pattern=r"^(|[^\s@]\S{0,500}@[^\s@]{1,200} sha256:[0-9a-f]{64})$")] = ""
    minimum_version: Annotated[str, msgspec.Meta(pattern=VERSION)] = ""
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
    minimum_version: Annotated[str, msgspec.Meta(pattern=VERSION)] = ""
