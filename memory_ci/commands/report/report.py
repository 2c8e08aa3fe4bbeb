"""The values of the report: what memory learned, served and missed (docs/report.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from memory_ci import progress
from memory_ci.commands.health.health import measure_health, measure_history
from memory_ci.commands.record.run import RecordOptions
from memory_ci.commands.report.inputs import (
    MAX_BODY,
    ReportInputs,
    RepositoryLinks,
    map_merge_days,
    note_failure,
)
from memory_ci.commands.report.lives import list_entries
from memory_ci.commands.report.page import render_report
from memory_ci.commands.report.records import (
    AskedQuestion,
    Overview,
    ReleaseHealth,
    SourceCount,
)
from memory_ci.commands.report.summary import summarise
from memory_ci.commands.report.tasks import explain_tasks
from memory_ci.commands.report.work import WEEKS, count_weeks, list_changes, list_files
from memory_ci.commands.retrieve.anchor_verdicts import judge_cites
from memory_ci.commands.review.queue import list_queue
from memory_ci.config import CONFIG_FILE
from memory_ci.gitrepo import history, record_commits
from memory_ci.gitrepo.addresses import find_forge_address
from memory_ci.gitrepo.repo import find_commit, find_setting, read_tips
from memory_ci.lifecycle import episodes as episode_rules
from memory_ci.lifecycle.fold import CLAIMED
from memory_ci.memory.edits import add_last_edits
from memory_ci.memory.episodes import load_written
from memory_ci.memory.workspace import Workspace, load_memory
from memory_ci.records.anchor import Verdict
from memory_ci.records.candidate import Question
from memory_ci.records.entry import Located
from memory_ci.records.report import Finding
from memory_ci.store.files import write_file
from memory_ci.text import plural, shorten

MAX_QUESTIONS = 60
MAX_RELEASES = 6
MAX_NAMED = 3  # Memory files with findings.


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
    inputs = _read_inputs(workspace, today, RepositoryLinks(address, tip), notes)
    questions = _list_questions(workspace, now, notes)
    entries = tuple(list_entries(inputs))
    tasks = explain_tasks(inputs, task, environ, notes)
    overview = Overview(
        name=name,
        address=address,
        today=today,
        commit=tip,
        summary=summarise(inputs, entries, tasks, notes),
        entries=entries,
        weeks=tuple(count_weeks(inputs, questions)),
        files=tuple(list_files(inputs)),
        tasks=tasks,
        inbox=_summarise_questions(questions, inputs.links)[:MAX_QUESTIONS],
        waiting=len(questions),
        releases=_list_releases(inputs, notes),
        sources=_count_sources(inputs.located),
        cost_usd=_sum_costs(inputs, notes),
        found_by_model=_count_found_by_model(inputs),
    )
    return replace(overview, notes=tuple(notes))


def _read_inputs(
    workspace: Workspace, today: date, links: RepositoryLinks, notes: list[str]
) -> ReportInputs:
    """Read the memory of the work tree, and the history of the default branch."""
    memory = load_memory(workspace, None)
    tellings = load_written(workspace, None).tellings
    episodes = episode_rules.combine(tellings)
    heirs = episode_rules.find_heirs_among(located.entry for located in memory.located)
    feedback = episode_rules.move_to_heirs(episode_rules.list_feedback(tellings), heirs)
    changes = list_changes(workspace, links.tip, today, notes)
    notes += _note_findings(memory.findings)
    return ReportInputs(
        workspace=workspace,
        today=today,
        links=links,
        located=memory.located,
        verdicts=_judge_entries(workspace, memory.located),
        changes=changes,
        merge_days=map_merge_days(changes),
        episodes=episodes,
        usage=episode_rules.count_usage(episodes, heirs),
        feedback=feedback,
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
    verdicts = add_last_edits(workspace, judged, None)
    return {
        located.entry.id: entry_verdicts
        for located, entry_verdicts in zip(located_entries, verdicts, strict=True)
    }


def _count_sources(located_entries: Iterable[Located]) -> tuple[SourceCount, ...]:
    counts: Counter[tuple[str, str]] = Counter()
    for located in located_entries:
        kind = (located.entry.source or "by hand").removeprefix(CLAIMED).partition(":")[0]
        counts[kind, located.entry.engine or "people"] += 1
    return tuple(SourceCount(kind, engine, count) for (kind, engine), count in counts.most_common())


def _sum_costs(inputs: ReportInputs, notes: list[str]) -> float:
    since = inputs.today - timedelta(weeks=WEEKS)
    with note_failure(notes, "Costs"):
        return record_commits.sum_costs(inputs.workspace.repo, since, inputs.tip)
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


def _list_releases(inputs: ReportInputs, notes: list[str]) -> tuple[ReleaseHealth, ...]:
    """Return the health at the newest releases and today.

    Where there are fewer than two releases, it is that of the ends of months.
    """
    workspace = inputs.workspace
    with note_failure(notes, "Health"):
        start = history.find_addition(workspace.repo, inputs.tip, CONFIG_FILE)
        names = []
        if start:
            names = history.list_releases(workspace.repo, start, inputs.tip, MAX_RELEASES - 1)
        if len(names) < 2:
            past = measure_history(workspace, inputs.today, limit=MAX_RELEASES)
            return tuple(ReleaseHealth(str(health.today), health) for health in reversed(past))

        releases = [
            ReleaseHealth(name, measure_health(workspace, inputs.today, at=name))
            for name in progress.count("Measuring releases", names)
        ]
        releases.append(ReleaseHealth("today", measure_health(workspace, inputs.today)))
        return tuple(releases)
    return ()


# -- the inbox


def _list_questions(workspace: Workspace, now: datetime, notes: list[str]) -> Sequence[Question]:
    with note_failure(notes, "The inbox"):
        show = partial(progress.report, "Looking for what waits for you")
        return list_queue(workspace, RecordOptions(), now, {}, progress=show).found
    return ()


def _summarise_questions(
    questions: Iterable[Question], links: RepositoryLinks
) -> tuple[AskedQuestion, ...]:
    """Return the questions with the commands that answer them, the most useful first.

    A command names an entry by its id, and a candidate by its number in `review --all`.
    """
    numbered = sorted(enumerate(questions, start=1), key=lambda pair: (-pair[1].score, pair[0]))
    return tuple(_summarise_question(number, question, links) for number, question in numbered)


def _summarise_question(number: int, question: Question, links: RepositoryLinks) -> AskedQuestion:
    key = str(number)
    entry_id = question.located.entry.id if question.located else ""
    if entry_id and "keep" in question.answers:
        key = entry_id[:8]
    text = ""
    origins: list[str] = []
    if question.suggestion:
        candidate = question.suggestion.candidate
        origins = candidate.source.split()
        text = " ".join(candidate.quotes[0].text.split()) if candidate.quotes else ""
    return AskedQuestion(
        kind=question.kind,
        title=question.title,
        why=question.why,
        quote=shorten(text, MAX_BODY),
        commands=tuple(f"memory-ci review --all --{verb} {key}" for verb in question.answers),
        entry_id=entry_id,
        links=tuple(links.link_origin(ref) for ref in origins),
    )
