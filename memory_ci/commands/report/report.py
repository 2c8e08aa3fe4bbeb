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


