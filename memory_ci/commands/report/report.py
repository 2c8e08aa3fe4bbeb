"""Report: what memory learned, gave and missed, for the page that people look at (docs/report.md)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from memory_ci.anchors.text import say_verdict
from memory_ci.anchors.verdicts import judge_entry
from memory_ci.commands.health.health import measure_history, measure_health
from memory_ci.commands.record.run import RecordOptions
from memory_ci.commands.report import records as overview
from memory_ci.commands.report.page import render_report
from memory_ci.commands.report.records import EntryLife, LifeStep, Overview, WebLink
from memory_ci.commands.retrieve.anchor_verdicts import judge_located
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import retrieve
from memory_ci.commands.retrieve.text import entry_cost, norm_cost
from memory_ci.commands.review.queue import list_queue
from memory_ci.config import CONFIG_FILE
from memory_ci.errors import MemoryCIError
from memory_ci.gitrepo import history
from memory_ci.gitrepo.addresses import find_address
from memory_ci.gitrepo.blobs import tree_at
from memory_ci.gitrepo.repo import find_commit, find_setting, read_tips
from memory_ci.lifecycle.episodes import (
    combine,
    count_usage,
    find_heirs_among,
    list_feedback,
    pass_on,
)
from memory_ci.lifecycle.prominence import is_in_force, prominence
from memory_ci.lifecycle.relations import relations_of
from memory_ci.memory.edits import name_edits
from memory_ci.memory.eligible import is_work, merged_on, own_commits
from memory_ci.memory.episodes import load_episodes
from memory_ci.memory.past_tasks import load_tasks
from memory_ci.memory.workspace import Workspace, load_memory, memory_test, readable_path
from memory_ci.records.anchor import MARKED, Verdict
from memory_ci.records.candidate import Question
from memory_ci.records.entry import Entry, Located
from memory_ci.records.episode import Episode, Feedback, UseCount
from memory_ci.records.history import MergedChange
from memory_ci.records.retrieval import Hit
from memory_ci.store.files import write_file
from memory_ci.store.layout import memory_pathspecs
from memory_ci.text import plural, shorten

T = TypeVar("T")
WEEKS = 52
SHORT_SHA = 7  # digits
MAX_TASKS, MAX_TRIED = 5, 8
MAX_FOUND, MAX_WITHHELD = 14, 3  # by one task
MAX_FILES = MAX_ASKED = 60
MAX_RELEASES = 6
MAX_NAMED = 3  # memory files with findings
MAX_STEPS = 3  # of one kind in the life of an entry
MAX_BODY = 400
HOT = 4  # a file without memory is hot if it is among the fourth part that changes most


class _Scene(msgspec.Struct, frozen=True):
    """What all views look at: the commit whose history counts, the entries, and the merged changes of the window."""

    workspace: Workspace
    tip: str
    today: date
    address: str
    located: tuple[Located, ...]
    verdicts: Mapping[str, tuple[Verdict, ...]]
    changes: tuple[MergedChange, ...]
    episodes: tuple[Episode, ...]

    def commit(self, sha: str) -> WebLink:
        return WebLink(sha[:7], f"{self._base}/commit/{sha}" if self.address else "")

    def origin(self, ref: str) -> WebLink:
        """`commit:3f2ab91` or `pr:128` as a link; anything else is only named."""
        kind, _, name = ref.partition(":")
        if kind == "commit" and name.isalnum():
            return self.commit(name)
        request = "merge_requests" if "/-" in self._base else "pull"
        is_linked = kind == "pr" and name.isdecimal() and self.address
        return WebLink(f"#{name}", f"{self._base}/{request}/{name}") if is_linked else WebLink(ref)

    def file(self, path: str) -> str:
        return f"{self._base}/blob/{self.tip}/{quote(path)}" if self.address else ""

    @property
    def _base(self) -> str:
        return f"{self.address}/-" if "gitlab" in self.address else self.address


def gather_report(
    workspace: Workspace,
    now: datetime,
    environ: Mapping[str, str],
    task: str | None = None,
    address: str | None = None,
) -> Overview:
    """What there is to show of the work tree and of the history of its default branch.

    `task` is explained first; `address` is where links lead, instead of what the remote says. What a view cannot have
    (a shallow clone) is a note. No forge and no model is asked for it.
    """
    today, notes = now.date(), list[str]()
    remote = find_setting(workspace.repo, f"remote.{workspace.config.publish.remote}.url")
    where = (find_address(remote or "") if address is None else address).rstrip("/")
    tip = read_tips(workspace.repo).commit or find_commit(workspace.repo, "HEAD") or ""
    name = (workspace.repo.root or workspace.repo.common_dir).name
    if not tip:
        return Overview(
            name=name, address=where, today=today, commit="", notes=("There is no commit yet.",)
        )
    memory = load_memory(workspace, None)
    located = memory.located
    tellings = load_episodes(workspace, None).tellings
    truth = judge_located(workspace, located, None)
    named = name_edits(
        workspace, [(place.entry, truth.get(place.entry, ())) for place in located], None
    )
    scene = _Scene(
        workspace=workspace,
        tip=tip,
        today=today,
        address=where,
        located=located,
        verdicts={place.entry.id: verdicts for place, verdicts in zip(located, named, strict=True)},
        changes=_try(
            notes, "What was merged", lambda: tuple(_list_changes(workspace, tip, today)), ()
        ),
        episodes=combine(tellings),
    )
    heirs = find_heirs_among(place.entry for place in located)
    usage = count_usage(scene.episodes, heirs)
    said = pass_on(list_feedback(tellings), heirs)
    nothing: tuple[Question, ...] = ()
    queue = _try(
        notes, "The inbox", lambda: list_queue(workspace, RecordOptions(), now, {}).found, nothing
    )
    if faulty := list(dict.fromkeys(one.path for one in memory.findings)):
        where_from = f"{', '.join(faulty[:MAX_NAMED])}{', …' * (len(faulty) > MAX_NAMED)}"
        notes.append(
            f"{plural(len(memory.findings), 'finding')} in {where_from}: `memory-ci check` names them."
        )
    if len(queue) > MAX_ASKED:
        notes.append(
            f"The inbox shows {MAX_ASKED} of {len(queue)} questions: `memory-ci review --all` lists the rest."
        )
    sources = Counter(
        ((place.entry.source or "by hand").partition(":")[0], place.entry.engine or "people")
        for place in located
    )
    return Overview(
        name=name,
        address=where,
        today=today,
        commit=tip,
        entries=tuple(_list_entries(scene, usage, said)),
        weeks=_count_weeks(scene, queue),
        files=tuple(_list_files(scene)),
        tasks=_try(notes, "Tasks", lambda: _explain_tasks(scene, task, environ), ()),
        inbox=tuple(_ask(number, one) for number, one in enumerate(queue[:MAX_ASKED], start=1)),
        releases=_try(notes, "Health", lambda: tuple(_list_releases(scene)), ()),
        sources=tuple(overview.SourceCount(*kind, count) for kind, count in sources.most_common()),
        cost_usd=_try(
            notes,
            "Costs",
            lambda: history.sum_costs(workspace.repo, today - timedelta(weeks=WEEKS), tip),
            0.0,
        ),
        notes=tuple(notes),
    )


def save_report(page: Overview, path: Path) -> int:
    """Write the page; its size in bytes. Raises UsageError (missing-extra), RepositoryError (write-failed)."""
    data = render_report(page).encode()
    write_file(path, data)
    return len(data)


def _try(notes: list[str], what: str, ask: Callable[[], T], otherwise: T) -> T:
    """What a view shows; where it cannot be had, a note says why."""
    try:
        return ask()
    except MemoryCIError as error:
        notes.append(
            f"{what} cannot be shown: {error.message.splitlines()[0]}. {error.hint}".strip()
        )
        return otherwise


# -- history


def _list_changes(workspace: Workspace, tip: str, today: date) -> Iterator[MergedChange]:
    since = history.find_commit_of_day(
        workspace.repo, tip, _first_monday(today) - timedelta(days=1)
    )
    for change in history.iter_merged_changes(
        workspace.repo, history.plan_range(workspace.repo, since, tip)
    ):
        if is_work(workspace, change):
            yield change


def _first_monday(today: date) -> date:
    return _monday(today) - timedelta(weeks=WEEKS - 1)


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _count_weeks(scene: _Scene, queue: Iterable[Question]) -> tuple[overview.WorkWeek, ...]:
    """Each week from the first in which anything happened to today's, those without anything too."""
    merges, newest, days = Counter[date](), dict[date, WebLink](), dict[str, date]()
    for change in scene.changes:
        week = _monday(merged_on(change))
        merges[week] += 1
        newest[week] = scene.commit(change.tip.sha)
        days |= {change.label: week, change.tip.sha[:SHORT_SHA]: week}
    candidates = Counter(
        days[label]
        for one in queue
        if one.suggestion
        for label in one.suggestion.changes[:1]
        if label in days
    )
    retired, written = Counter[date](), dict[date, WebLink]()
    paths, starts = memory_pathspecs(scene.workspace.config.scopes), ("id: ", "status: retired")
    first = _first_monday(scene.today)
    for one in history.count_added_lines(scene.workspace.repo, scene.tip, first, paths, starts):
        week = _monday(one.at.astimezone(UTC).date())
        retired[week] += max(one.added["status: retired"], 0)
        if any(one.added.values()):
            written.setdefault(week, scene.commit(one.sha))
    # At the time of the work: a run over old history learns in one day what was taught in months.
    taught = (_day_of_work(place.entry, days) for place in scene.located)
    learned = Counter(_monday(day) for day in taught if day is not None)
    known = [week for week in {*merges, *written, *learned} if first <= week <= scene.today]
    begin, end = min(known, default=scene.today), _monday(scene.today)
    count = (end - begin).days // 7 + 1 if known else 0
    return tuple(
        overview.WorkWeek(
            start=week,
            merges=merges[week],
            learned=learned[week],
            candidates=candidates[week],
            retired=retired[week],
            newest=newest.get(week, WebLink("")),
            written=written.get(week, WebLink("")),
        )
        for week in (begin + timedelta(weeks=number) for number in range(count))
    )


def _day_of_work(entry: Entry, weeks: Mapping[str, date]) -> date | None:
    """Return the day of the work that taught an entry; `weeks` has that of each change by its label or short id."""
    for ref in (entry.source or "").split():
        kind, _, name = ref.partition(":")
        label = f"#{name}" if kind == "pr" else name[:SHORT_SHA]
        if label in weeks:
            return weeks[label]
    return entry.occurred_at or entry.created_at


def _list_files(scene: _Scene) -> Iterator[overview.ChurnedFile]:
    """The files that merged changes touched most, and those that entries cite and that changed or are gone."""
    is_memory = memory_test(scene.workspace)
    present = {
        path
        for file in tree_at(scene.workspace.repo, scene.tip).files.values()
        if (path := readable_path(file))
    }
    touched = (
        {file.path for commit in own_commits(one) for file in commit.files} for one in scene.changes
    )
    churn = Counter(
        path for paths in touched for path in paths if path in present and not is_memory(path)
    )
    states = defaultdict[str, list[bool]](list)
    for place in scene.located:
        if is_in_force(place.entry, scene.today):
            marked = {one.path: False for one in scene.verdicts[place.entry.id]}
            marked |= {
                one.path: True for one in scene.verdicts[place.entry.id] if one.kind in MARKED
            }
            for path, is_marked in marked.items():
                states[path].append(is_marked)
    chosen = sorted(churn.items(), key=lambda item: (-item[1], item[0]))[:MAX_FILES]
    hot = chosen[len(chosen) // HOT][1] if len(chosen) >= HOT else 2
    for path, count in chosen:
        marks = states.get(path, [])
        cover: overview.Cover = (
            "covered" if not all(marks) else "stale" if marks else "hot" if count > hot else "bare"
        )
        yield overview.ChurnedFile(
            path=path, churn=count, entries=len(marks), cover=cover, url=scene.file(path)
        )


def _list_releases(scene: _Scene) -> Iterator[overview.ReleaseHealth]:
    """The health at the newest releases and today; where there are no two releases, at the ends of months."""
    start = history.find_addition(scene.workspace.repo, scene.tip, CONFIG_FILE)
    names = (
        history.list_releases(scene.workspace.repo, start, scene.tip, MAX_RELEASES - 1)
        if start
        else []
    )
    if len(names) < 2:
        past = measure_history(scene.workspace, scene.today, limit=MAX_RELEASES)
        yield from (overview.ReleaseHealth(str(health.today), health) for health in reversed(past))
        return
    for name in names:
        yield overview.ReleaseHealth(name, measure_health(scene.workspace, scene.today, at=name))
    yield overview.ReleaseHealth("today", measure_health(scene.workspace, scene.today))


# -- entries


def _list_entries(
    scene: _Scene, usage: Mapping[str, UseCount], said: Iterable[Feedback]
) -> Iterator[EntryLife]:
    """The entries, the most prominent first; what stands in force before what is retired."""
    work, heard = defaultdict[str, list[Episode]](list), defaultdict[str, list[Feedback]](list)
    for episode in scene.episodes:
        for id_ in {*(one.id for one in episode.retrieved), *episode.used}:
            work[id_].append(episode)
    for one in said:
        heard[one.id].append(one)
    decay = scene.workspace.config.prominence.decay
    ranked = [(prominence(place.entry, scene.today, decay), place) for place in scene.located]
    titles = {place.entry.id: place.entry.title for place in scene.located}
    for value, place in sorted(ranked, key=lambda pair: (-pair[0], pair[1].path, pair[1].line)):
        entry, verdicts = place.entry, scene.verdicts[place.entry.id]
        count = usage.get(entry.id, UseCount())
        older = [("supersedes", old) for old in entry.supersedes if old in titles]
        others = [*((one.kind, one.id) for one in relations_of(entry)), *older]
        yield EntryLife(
            id=entry.id,
            title=entry.title,
            body=shorten(entry.body, MAX_BODY),
            type=entry.type,
            scope=place.scope.target,
            status=entry.status,
            place=f"{place.path}:{place.line}",
            prominence=round(value, 3),
            given=count.given,
            used=count.used,
            verdict=judge_entry(verdicts) if verdicts else "",
            quotes=tuple(shorten(line, MAX_BODY) for line in entry.evidence),
            life=tuple(_tell_life(scene, entry, verdicts, work[entry.id], heard[entry.id])),
            others=tuple((kind, titles.get(id_, id_)) for kind, id_ in others),
        )


def _tell_life(
    scene: _Scene,
    entry: Entry,
    verdicts: Sequence[Verdict],
    work: Sequence[Episode],
    heard: Sequence[Feedback],
) -> Iterator[LifeStep]:
    origins = tuple(map(scene.origin, (entry.source or "").split()))
    yield LifeStep(
        at=entry.created_at or entry.occurred_at,
        what="learned",
        text=entry.engine or "",
        links=origins,
    )
    for what in ("given", "used"):
        for one in [one for one in work if (entry.id in one.used) == (what == "used")][-MAX_STEPS:]:
            ref = (
                f"pr:{one.action.pr}"
                if one.action.pr
                else f"commit:{one.action.commit}"
                if one.action.commit
                else ""
            )
            links = (scene.origin(ref),) if ref else ()
            yield LifeStep(
                at=one.occurred_at.date(), what=what, text=one.situation.summary, links=links
            )
    for fact in heard[-MAX_STEPS:]:
        if fact.kind != "touched":
            links = (scene.origin(fact.ref),) if fact.ref else ()
            yield LifeStep(
                at=fact.at.date(),
                what=fact.kind,
                text=f"by {fact.by}" if fact.by else "",
                links=links,
            )
    yield from (
        LifeStep(at=None, what=f"code {one.kind}", text=say_verdict(one))
        for one in verdicts
        if one.kind in MARKED
    )
    if entry.status != "active":
        yield LifeStep(at=None, what=entry.status)
    elif entry.valid_until:
        yield LifeStep(at=entry.valid_until, what="ends")


# -- what people ask and are asked


def _explain_tasks(
    scene: _Scene, task: str | None, environ: Mapping[str, str]
) -> tuple[overview.ExplainedTask, ...]:
    """The task that is asked for, then what jobs asked in CI and what was merged last."""
    asked = [one.situation.summary for one in reversed(scene.episodes) if one.retrieved]
    merged = [
        one.title for one in reversed(load_tasks(scene.workspace, scene.tip).tasks) if one.is_merged
    ]
    tried = list(filter(None, dict.fromkeys((task or "", *asked, *merged))))[:MAX_TRIED]
    explained = [_explain(scene.workspace, one, scene.today, environ) for one in tried]
    # What finds nothing explains little; the one that is asked for stays the first.
    explained.sort(
        key=lambda one: (one.task != task, all(hit.state != "given" for hit in one.found))
    )
    return tuple(explained[:MAX_TASKS])


def _ask(number: int, one: Question) -> overview.AskedQuestion:
    """A question with its commands: an entry by its id, what is new by its number in `review --all`."""
    key = one.located.entry.id[:8] if one.located and "keep" in one.answers else str(number)
    quotes = one.suggestion.candidate.quotes if one.suggestion else ()
    return overview.AskedQuestion(
        kind=one.kind,
        title=one.title,
        why=one.why,
        quote=shorten(" ".join(quotes[0].text.split()), MAX_BODY) if quotes else "",
        commands=tuple(f"memory-ci review --all --{verb} {key}" for verb in one.answers),
    )


def _explain(
    workspace: Workspace, task: str, today: date, environ: Mapping[str, str]
) -> overview.ExplainedTask:
    """What a job with this task is given, in the order of `retrieve`, and the best of what it is not.

    Raises:
        RepositoryError: what `retrieve` raises.
    """
    answer = retrieve(workspace, task, RetrieveOptions(), today, environ)
    every = retrieve(workspace, task, RetrieveOptions(all_matches=True), today, environ)
    strong = {hit.located.entry.id for hit in (*answer.hits, *answer.hits_dropped)}
    weak = [hit for hit in (*every.hits, *every.hits_dropped) if hit.located.entry.id not in strong]
    weak.sort(key=lambda hit: -hit.score)
    shown = weak[: max(0, MAX_FOUND - len(strong))]

    found = [_score(hit, "given") for hit in answer.hits]
    found += [_score(hit, "no room") for hit in answer.hits_dropped]
    found += [_score(hit, "weak") for hit in shown]
    found += [_score(one.hit, "withheld", one.why) for one in answer.withheld[:MAX_WITHHELD]]
    budget = (
        ("for every job", sum(map(norm_cost, answer.norms))),
        ("for this task", sum(map(entry_cost, answer.hits))),
        (
            "no room",
            sum(map(entry_cost, answer.hits_dropped)) + sum(map(norm_cost, answer.norms_dropped)),
        ),
    )
    return overview.ExplainedTask(
        task=answer.task,
        found=tuple(found),
        more=len(weak) - len(shown),
        budget=budget,
        room=workspace.config.retrieve.max_chars,
    )


def _score(hit: Hit, state: overview.FoundState, why: str = "") -> overview.ScoredEntry:
    score, parts = 0.0, list[tuple[str, float]]()
    for name, value in hit.factors:
        after = score * value if parts else value
        parts.append((name, round(after - score, 4)))
        score = after
    entry = hit.located.entry
    return overview.ScoredEntry(
        id=entry.id,
        title=entry.title,
        state=state,
        score=score,
        parts=tuple(p for p in parts if p[1]),
        why=why,
    )
