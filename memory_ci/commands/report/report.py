"""The values of the report: what memory learned, served and missed (docs/report.md)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import msgspec

from memory_ci.anchors.text import format_verdict
from memory_ci.anchors.verdicts import judge_entry
from memory_ci.commands.health.health import measure_health, measure_history
from memory_ci.commands.record.run import RecordOptions
from memory_ci.commands.report.page import render_report
from memory_ci.commands.report.records import (
    AskedQuestion,
    ChurnedFile,
    Cover,
    EntryLife,
    ExplainedTask,
    FoundState,
    LifeStep,
    Overview,
    ReleaseHealth,
    ScoredEntry,
    SourceCount,
    WebLink,
    WorkWeek,
)
from memory_ci.commands.retrieve.anchor_verdicts import judge_cites
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import retrieve
from memory_ci.commands.retrieve.text import entry_cost, norm_cost
from memory_ci.commands.review.queue import list_queue
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import MemoryCIError
from memory_ci.gitrepo import history
from memory_ci.gitrepo.addresses import find_forge_address
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.repo import find_commit, find_setting, read_tips
from memory_ci.lifecycle import episodes as episode_rules
from memory_ci.lifecycle.prominence import is_in_force, prominence
from memory_ci.lifecycle.relations import relations_of
from memory_ci.memory.edits import name_edits
from memory_ci.memory.eligible import is_work, merged_on, own_commits
from memory_ci.memory.episodes import load_written
from memory_ci.memory.past_tasks import load_tasks
from memory_ci.memory.workspace import Workspace, build_memory_test, load_memory, readable_path
from memory_ci.records.anchor import STALE_KINDS, Verdict
from memory_ci.records.candidate import Question
from memory_ci.records.entry import Entry, Located, name_entry
from memory_ci.records.episode import Episode, Feedback, UseCount
from memory_ci.records.history import MergedChange
from memory_ci.records.report import Finding
from memory_ci.records.retrieval import Hit
from memory_ci.search.strength import score_alone
from memory_ci.store.files import write_file
from memory_ci.store.layout import memory_pathspecs
from memory_ci.text import plural, shorten

WEEKS = 52
SHORT_SHA = 7  # Digits of a commit id.
MAX_TASKS = 5
MAX_TRIED = 8  # Tasks that are explained to choose from them.
MAX_FOUND = 14  # Entries that one task finds.
MAX_WITHHELD = 3  # Entries that are withheld from one task.
MAX_FILES = 60
MAX_QUESTIONS = 60
MAX_RELEASES = 6
MAX_NAMED = 3  # Memory files with findings.
MAX_STEPS = 3  # Events of one kind in the life of an entry.
MAX_BODY = 400  # Characters of a body or a quote.
HOT = 4  # A file that no entry cites is hot among the 1/HOT of the files that change most.


class RepositoryLinks(msgspec.Struct, frozen=True):
    """Links to the parts of a repository on the web.

    Attributes:
        address: the address of the repository, "" if it has none.
        tip: the commit that links to files show.
    """

    address: str
    tip: str

    def link_commit(self, sha: str) -> WebLink:
        """Return a link to a commit."""
        return WebLink(sha[:SHORT_SHA], f"{self._base}/commit/{sha}" if self.address else "")

    def link_origin(self, ref: str) -> WebLink:
        """Return a link for `commit:3f2ab91` or `pr:128`; anything else becomes a label."""
        kind, _, name = ref.partition(":")
        if kind == "commit" and name.isalnum():
            return self.link_commit(name)
        if kind == "pr" and name.isdecimal() and self.address:
            request = "merge_requests" if "/-" in self._base else "pull"
            return WebLink(f"#{name}", f"{self._base}/{request}/{name}")
        return WebLink(ref)

    def link_work(self, episode: Episode) -> tuple[WebLink, ...]:
        """Return the link to the change of an episode, if it names one."""
        action = episode.action
        if action.pr:
            return (self.link_origin(f"pr:{action.pr}"),)
        if action.commit:
            return (self.link_origin(f"commit:{action.commit}"),)
        return ()

    def file_url(self, path: str) -> str:
        """Return the URL of a file, "" if the repository has no address."""
        return f"{self._base}/blob/{self.tip}/{quote(path)}" if self.address else ""

    @property
    def _base(self) -> str:
        return f"{self.address}/-" if "gitlab" in self.address else self.address


class ReportInputs(msgspec.Struct, frozen=True):
    """The memory and history that the parts of the report are counted in.

    Attributes:
        tip: the commit whose history counts.
        located: the entries of the work tree.
        verdicts: the verdicts of each entry's cites, by id.
        changes: the merged changes of the weeks shown, oldest first.
    """

    workspace: Workspace
    tip: str
    today: date
    links: RepositoryLinks
    located: tuple[Located, ...]
    verdicts: Mapping[str, tuple[Verdict, ...]]
    changes: tuple[MergedChange, ...]
    episodes: tuple[Episode, ...]


def gather_report(
    workspace: Workspace,
    now: datetime,
    environ: Mapping[str, str],
    task: str | None = None,
    address: str | None = None,
) -> Overview:
    """Return the values of the report: of the work tree, and of its default branch's history.

    No forge and no model is asked. A part that cannot be had, say in a shallow clone, becomes
    a note.

    Args:
        workspace: the repository and its configuration.
        now: the present time.
        environ: the environment that `retrieve` reads.
        task: a task that is explained first.
        address: the address that links begin with; None: that of the remote.
    """
    today = now.date()
    address = (_find_address(workspace) if address is None else address).rstrip("/")
    name = (workspace.repo.root or workspace.repo.common_dir).name
    tip = read_tips(workspace.repo).commit or find_commit(workspace.repo, "HEAD")
    if not tip:
        return Overview(
            name=name, address=address, today=today, commit="", notes=("There is no commit yet.",)
        )

    notes: list[str] = []
    memory = load_memory(workspace, None)
    tellings = load_written(workspace, None).tellings
    inputs = ReportInputs(
        workspace=workspace,
        tip=tip,
        today=today,
        links=RepositoryLinks(address, tip),
        located=memory.located,
        verdicts=_judge_entries(workspace, memory.located),
        changes=_list_changes(workspace, tip, today, notes),
        episodes=episode_rules.combine(tellings),
    )
    heirs = episode_rules.find_heirs_among(located.entry for located in memory.located)
    usage = episode_rules.count_usage(inputs.episodes, heirs)
    feedback = episode_rules.move_to_heirs(episode_rules.list_feedback(tellings), heirs)
    questions = _list_questions(workspace, now, notes)
    notes += _note_findings(memory.findings)
    if len(questions) > MAX_QUESTIONS:
        notes.append(
            f"The inbox shows {MAX_QUESTIONS} of {len(questions)} questions:"
            " `memory-ci review --all` lists the rest."
        )
    return Overview(
        name=name,
        address=address,
        today=today,
        commit=tip,
        entries=tuple(_list_entries(inputs, usage, feedback)),
        weeks=tuple(_count_weeks(inputs, questions)),
        files=tuple(_list_files(inputs)),
        tasks=_explain_tasks(inputs, task, environ, notes),
        inbox=_summarise_questions(questions[:MAX_QUESTIONS]),
        releases=_list_releases(inputs, notes),
        sources=_count_sources(memory.located),
        cost_usd=_sum_costs(inputs, notes),
        found_by_model=_count_found_by_model(inputs),
        notes=tuple(notes),
    )


def save_report(page: Overview, path: Path) -> int:
    """Write the page and return its size in bytes.

    Raises:
        UsageError: missing-extra.
        RepositoryError: write-failed.
    """
    data = render_report(page).encode()
    write_file(path, data)
    return len(data)


@contextmanager
def _note_failure(notes: list[str], part: str) -> Iterator[None]:
    """Turn an error in the block into a note that a part of the report cannot be shown."""
    try:
        yield
    except MemoryCIError as error:
        reason = error.message.splitlines()[0]
        notes.append(f"{part} cannot be shown: {reason}. {error.hint}".strip())


def _note_findings(findings: Iterable[Finding]) -> list[str]:
    paths = [finding.path for finding in findings]
    if not paths:
        return []
    unique_paths = list(dict.fromkeys(paths))
    names = ", ".join(unique_paths[:MAX_NAMED])
    if len(unique_paths) > MAX_NAMED:
        names += ", …"
    return [f"{plural(len(paths), 'finding')} in {names}: `memory-ci check` names them."]


def _find_address(workspace: Workspace) -> str:
    remote = workspace.config.publish.remote
    return find_forge_address(find_setting(workspace.repo, f"remote.{remote}.url") or "")


def _judge_entries(
    workspace: Workspace, located_entries: Sequence[Located]
) -> dict[str, tuple[Verdict, ...]]:
    """Return the verdicts of each entry's cites in the work tree, by id, with their edits."""
    truth = judge_cites(workspace, located_entries, None)
    judged = [(located.entry, truth.get(located.entry, ())) for located in located_entries]
    verdicts = name_edits(workspace, judged, None)
    return {
        located.entry.id: entry_verdicts
        for located, entry_verdicts in zip(located_entries, verdicts, strict=True)
    }


def _count_sources(located_entries: Iterable[Located]) -> tuple[SourceCount, ...]:
    counts: Counter[tuple[str, str]] = Counter()
    for located in located_entries:
        kind = (located.entry.source or "by hand").partition(":")[0]
        counts[kind, located.entry.engine or "people"] += 1
    return tuple(SourceCount(kind, engine, count) for (kind, engine), count in counts.most_common())


def _sum_costs(inputs: ReportInputs, notes: list[str]) -> float:
    since = inputs.today - timedelta(weeks=WEEKS)
    with _note_failure(notes, "Costs"):
        return history.sum_costs(inputs.workspace.repo, since, inputs.tip)
    return 0.0


def _count_found_by_model(inputs: ReportInputs) -> int:
    """Return how many entries a model wrote in the weeks shown."""
    since = inputs.today - timedelta(weeks=WEEKS)
    entries = [located.entry for located in inputs.located]
    return sum(
        entry.engine not in (None, "rules")
        and entry.created_at is not None
        and entry.created_at >= since
        for entry in entries
    )


# -- history


def _list_changes(
    workspace: Workspace, tip: str, today: date, notes: list[str]
) -> tuple[MergedChange, ...]:
    """Return the merged changes of the weeks shown that did work, oldest first."""
    repo = workspace.repo
    with _note_failure(notes, "What was merged"):
        since = history.find_commit_of_day(repo, tip, _first_monday(today) - timedelta(days=1))
        changes = history.iter_merged_changes(repo, history.plan_range(repo, since, tip))
        return tuple(change for change in changes if is_work(workspace, change))
    return ()


def _first_monday(today: date) -> date:
    return _monday(today) - timedelta(weeks=WEEKS - 1)


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


class WeekCounts(msgspec.Struct):
    """The counts of one week while they are summed, as in `WorkWeek`."""

    merges: int = 0
    learned: int = 0
    candidates: int = 0
    retired: int = 0
    newest: WebLink = WebLink("")
    written: WebLink = WebLink("")


def _count_weeks(inputs: ReportInputs, questions: Iterable[Question]) -> Iterator[WorkWeek]:
    """Yield each week from the first one in which anything happened to the present one."""
    weeks: defaultdict[date, WeekCounts] = defaultdict(WeekCounts)
    week_by_change: dict[str, date] = {}
    for change in inputs.changes:
        week = _monday(merged_on(change))
        weeks[week].merges += 1
        weeks[week].newest = inputs.links.link_commit(change.tip.sha)
        week_by_change[change.label] = week
        week_by_change[change.tip.sha[:SHORT_SHA]] = week

    for question in questions:
        labels = question.suggestion.changes[:1] if question.suggestion else ()
        for label in labels:
            if label in week_by_change:
                weeks[week_by_change[label]].candidates += 1

    _count_written(inputs, weeks)

    # At the time of the work: a run over old history learns in one day what months taught.
    for located in inputs.located:
        day = _find_day_of_work(located.entry, week_by_change)
        if day is not None:
            weeks[_monday(day)].learned += 1

    first = _first_monday(inputs.today)
    shown = [monday for monday in weeks if first <= monday <= inputs.today]
    if shown:
        monday = min(shown)
        while monday <= inputs.today:
            yield WorkWeek(start=monday, **msgspec.structs.asdict(weeks[monday]))
            monday += timedelta(weeks=1)


def _count_written(inputs: ReportInputs, weeks: defaultdict[date, WeekCounts]) -> None:
    """Add the commits that changed memory, and the entries that they retired, to their weeks."""
    paths = memory_pathspecs(inputs.workspace.config.scopes)
    line_counts = history.count_added_lines(
        inputs.workspace.repo,
        inputs.tip,
        _first_monday(inputs.today),
        paths,
        ("id: ", "status: retired"),
    )
    for line_count in line_counts:  # The newest commit comes first.
        if any(line_count.added.values()):
            week = weeks[_monday(line_count.committed_at.astimezone(UTC).date())]
            week.retired += max(line_count.added["status: retired"], 0)
            if not week.written.label:
                week.written = inputs.links.link_commit(line_count.sha)


def _find_day_of_work(entry: Entry, week_by_change: Mapping[str, date]) -> date | None:
    """Return a day in the week of the work that taught an entry, None if it is not recorded.

    Args:
        entry: the entry.
        week_by_change: the Monday of each merged change, by its label and by its short id.
    """
    for ref in (entry.source or "").split():
        kind, _, name = ref.partition(":")
        label = f"#{name}" if kind == "pr" else name[:SHORT_SHA]
        if label in week_by_change:
            return week_by_change[label]
    return entry.occurred_at or entry.created_at


def _list_files(inputs: ReportInputs) -> Iterator[ChurnedFile]:
    """Yield the files that merged changes touched most, and whether entries cite them."""
    churn = _count_churn(inputs)
    marks = _list_cite_marks(inputs)
    most_churned = sorted(churn.items(), key=lambda item: (-item[1], item[0]))[:MAX_FILES]
    hot_churn = 2
    if len(most_churned) >= HOT:
        hot_churn = most_churned[len(most_churned) // HOT][1]
    for path, count in most_churned:
        file_marks = marks.get(path, [])
        yield ChurnedFile(
            path=path,
            churn=count,
            entries=len(file_marks),
            cover=_judge_cover(file_marks, is_hot=count > hot_churn),
            url=inputs.links.file_url(path),
        )


def _count_churn(inputs: ReportInputs) -> Counter[str]:
    """Count the merged changes that touched each present file outside memory."""
    is_memory = build_memory_test(inputs.workspace)
    tree = tree_at(inputs.workspace.repo, inputs.tip)
    present_paths = {readable_path(file) for file in tree.files.values()}
    churn: Counter[str] = Counter()
    for change in inputs.changes:
        paths: set[str] = set()
        for commit in own_commits(change):
            paths.update(file.path for file in commit.files)
        churn.update(path for path in paths if path in present_paths and not is_memory(path))
    return churn


def _list_cite_marks(inputs: ReportInputs) -> dict[str, list[bool]]:
    """Return for each path whether each entry in force that cites it cites changed code."""
    marks: defaultdict[str, list[bool]] = defaultdict(list)
    for located in inputs.located:
        if not is_in_force(located.entry, inputs.today):
            continue
        is_marked: dict[str, bool] = {}
        for verdict in inputs.verdicts[located.entry.id]:
            is_marked.setdefault(verdict.path, False)
            if verdict.kind in STALE_KINDS:
                is_marked[verdict.path] = True
        for path, mark in is_marked.items():
            marks[path].append(mark)
    return marks


def _judge_cover(marks: Sequence[bool], *, is_hot: bool) -> Cover:
    if marks:
        return "stale" if all(marks) else "covered"
    return "hot" if is_hot else "bare"


def _list_releases(inputs: ReportInputs, notes: list[str]) -> tuple[ReleaseHealth, ...]:
    """Return the health at the newest releases and today.

    Where there are fewer than two releases, it is that of the ends of months.
    """
    workspace = inputs.workspace
    with _note_failure(notes, "Health"):
        start = history.find_addition(workspace.repo, inputs.tip, CONFIG_FILE)
        names = []
        if start:
            names = history.list_releases(workspace.repo, start, inputs.tip, MAX_RELEASES - 1)
        if len(names) < 2:
            past = measure_history(workspace, inputs.today, limit=MAX_RELEASES)
            return tuple(ReleaseHealth(str(health.today), health) for health in reversed(past))

        releases = [
            ReleaseHealth(name, measure_health(workspace, inputs.today, at=name)) for name in names
        ]
        releases.append(ReleaseHealth("today", measure_health(workspace, inputs.today)))
        return tuple(releases)
    return ()


# -- entries


class EntryEvents(msgspec.Struct, frozen=True):
    """Events of one entry: the work that it was served to, and feedback on it, oldest first."""

    episodes: list[Episode] = []
    feedback: list[Feedback] = []


def _list_entries(
    inputs: ReportInputs, usage: Mapping[str, UseCount], feedback: Iterable[Feedback]
) -> Iterator[EntryLife]:
    """Yield the entries, the most prominent first."""
    events: defaultdict[str, EntryEvents] = defaultdict(EntryEvents)
    for episode in inputs.episodes:
        served_ids = {retrieved.id for retrieved in episode.retrieved}
        for entry_id in served_ids.union(episode.used):
            events[entry_id].episodes.append(episode)
    for event in feedback:
        events[event.id].feedback.append(event)

    ranked = [(prominence(located.entry, inputs.today), located) for located in inputs.located]
    ranked.sort(key=lambda pair: (-pair[0], pair[1].path, pair[1].line))
    titles = {located.entry.id: name_entry(located.entry) for located in inputs.located}
    for value, located in ranked:
        entry = located.entry
        verdicts = inputs.verdicts[entry.id]
        use_count = usage.get(entry.id, UseCount())
        yield EntryLife(
            id=entry.id,
            title=name_entry(entry),
            body=shorten(entry.body, MAX_BODY),
            type=entry.type,
            scope=located.scope.target,
            status=entry.status,
            place=f"{located.path}:{located.line}",
            prominence=round(value, 3),
            given=use_count.given,
            used=use_count.used,
            verdict=judge_entry(verdicts) if verdicts else "",
            quotes=tuple(shorten(line, MAX_BODY) for line in entry.evidence),
            life=tuple(_list_life_steps(inputs, entry, events[entry.id])),
            others=_name_relations(entry, titles),
        )


def _name_relations(entry: Entry, titles: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the kind of each relation of an entry, with the title or id of the other entry."""
    relations = [
        (relation.kind, titles.get(relation.id, relation.id)) for relation in relations_of(entry)
    ]
    replaced = [("supersedes", titles[old]) for old in entry.supersedes if old in titles]
    return (*relations, *replaced)


def _list_life_steps(inputs: ReportInputs, entry: Entry, events: EntryEvents) -> Iterator[LifeStep]:
    """Yield the life of an entry: learning, work, feedback, changed code, end."""
    yield LifeStep(
        at=entry.created_at or entry.occurred_at,
        what="learned",
        text=entry.engine or "",
        links=tuple(inputs.links.link_origin(ref) for ref in (entry.source or "").split()),
    )

    unused = [episode for episode in events.episodes if entry.id not in episode.used]
    used = [episode for episode in events.episodes if entry.id in episode.used]
    for what, episodes in (("given", unused), ("used", used)):
        for episode in episodes[-MAX_STEPS:]:
            yield LifeStep(
                at=episode.occurred_at.date(),
                what=what,
                text=episode.situation.summary,
                links=inputs.links.link_work(episode),
            )

    for event in events.feedback[-MAX_STEPS:]:
        if event.kind != "touched":
            yield LifeStep(
                at=event.at.date(),
                what=event.kind,
                text=f"by {event.by}" if event.by else "",
                links=(inputs.links.link_origin(event.ref),) if event.ref else (),
            )

    for verdict in inputs.verdicts[entry.id]:
        if verdict.kind in STALE_KINDS:
            yield LifeStep(at=None, what=f"code {verdict.kind}", text=format_verdict(verdict))

    if entry.status != "active":
        yield LifeStep(at=None, what=entry.status)
    elif entry.valid_until:
        yield LifeStep(at=entry.valid_until, what="ends")


# -- the inbox


def _list_questions(workspace: Workspace, now: datetime, notes: list[str]) -> Sequence[Question]:
    with _note_failure(notes, "The inbox"):
        return list_queue(workspace, RecordOptions(), now, {}).found
    return ()


def _summarise_questions(questions: Iterable[Question]) -> tuple[AskedQuestion, ...]:
    """Return the questions with the commands that answer them.

    A command names an entry by its id, and a candidate by its number in `review --all`.
    """
    summaries = []
    for number, question in enumerate(questions, start=1):
        key = str(number)
        if question.located and "keep" in question.answers:
            key = question.located.entry.id[:8]
        quotes = question.suggestion.candidate.quotes if question.suggestion else ()
        text = " ".join(quotes[0].text.split()) if quotes else ""
        summary = AskedQuestion(
            kind=question.kind,
            title=question.title,
            why=question.why,
            quote=shorten(text, MAX_BODY),
            commands=tuple(f"memory-ci review --all --{verb} {key}" for verb in question.answers),
        )
        summaries.append(summary)
    return tuple(summaries)


# -- tasks


def _explain_tasks(
    inputs: ReportInputs, task: str | None, environ: Mapping[str, str], notes: list[str]
) -> tuple[ExplainedTask, ...]:
    """Explain the task of the user, then tasks of jobs in CI, then those of the newest merges."""
    with _note_failure(notes, "Tasks"):
        past_tasks = load_tasks(inputs.workspace, inputs.tip).tasks
        served = [episode.situation.summary for episode in inputs.episodes if episode.retrieved]
        merged = [past_task.title for past_task in past_tasks if past_task.is_merged]
        candidates = dict.fromkeys((task or "", *reversed(served), *reversed(merged)))
        tasks = [candidate for candidate in candidates if candidate]

        explained = [
            _explain_task(inputs.workspace, tried, inputs.today, environ)
            for tried in tasks[:MAX_TRIED]
        ]
        # A task that finds nothing explains little; the user's stays the first.
        explained.sort(key=lambda one: (one.task != task, not _is_served(one)))
        return tuple(explained[:MAX_TASKS])
    return ()


def _is_served(task: ExplainedTask) -> bool:
    return any(entry.state == "given" for entry in task.found)


def _explain_task(
    workspace: Workspace, task: str, today: date, environ: Mapping[str, str]
) -> ExplainedTask:
    """Return the entries that a task finds, first those that `retrieve` serves, in its order.

    Raises:
        RepositoryError: as `retrieve`.
    """
    served = retrieve(workspace, task, RetrieveOptions(), today, environ)
    matches = retrieve(workspace, task, RetrieveOptions(all_matches=True), today, environ)
    strong_ids = {hit.located.entry.id for hit in (*served.hits, *served.hits_dropped)}
    unserved_hits = [
        hit
        for hit in (*matches.hits, *matches.hits_dropped)
        if hit.located.entry.id not in strong_ids
    ]
    unserved_hits.sort(key=lambda hit: -score_alone(hit))
    shown_hits = unserved_hits[: max(0, MAX_FOUND - len(strong_ids))]

    entries = [_score_entry(hit, "given") for hit in served.hits]
    entries += [_score_entry(hit, "no room") for hit in served.hits_dropped]
    entries += [_score_entry(hit, "over limit") for hit in shown_hits[: served.over_limit]]
    entries += [_score_entry(hit, "weak") for hit in shown_hits[served.over_limit :]]
    entries += [
        _score_entry(withheld.hit, "withheld", withheld.why)
        for withheld in served.withheld[:MAX_WITHHELD]
    ]
    norms_size = sum(norm_cost(norm) for norm in served.norms)
    hits_size = sum(entry_cost(hit) for hit in served.hits)
    dropped_size = sum(entry_cost(hit) for hit in served.hits_dropped)
    dropped_size += sum(norm_cost(norm) for norm in served.norms_dropped)
    return ExplainedTask(
        task=served.task,
        found=tuple(entries),
        more=len(unserved_hits) - len(shown_hits),
        budget=(
            ("for every job", norms_size),
            ("for this task", hits_size),
            ("no room", dropped_size),
        ),
        room=workspace.config.retrieve.max_chars,
    )


def _score_entry(hit: Hit, state: FoundState, why: str = "") -> ScoredEntry:
    """Split the product of the factors into the differences that each factor made."""
    score = 0.0
    parts: list[tuple[str, float]] = []
    for name, value in hit.factors:
        product = score * value if parts else value
        parts.append((name, round(product - score, 4)))
        score = product
    entry = hit.located.entry
    return ScoredEntry(
        id=entry.id,
        title=name_entry(entry),
        state=state,
        score=score,
        parts=tuple((name, difference) for name, difference in parts if difference),
        why=why,
    )
