"""The values of the report: what memory learned, served and missed (docs/report.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from memory_ci import progress
from memory_ci.commands.health.health import measure_health, measure_history
from memory_ci.commands.record.run_options import RecordOptions
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

    Nothing is asked of a forge or a model. For a part that cannot be read, say in a shallow
    clone, `notes` of the result has a sentence.

    Args:
        workspace: the repository and its configuration.
        now: the present time.
        environ: the environment that `retrieve` reads.
        task: a task whose search is explained before others.
        address: the web address that links begin with; None: that of the remote.
    """
    today = now.date()
    if address is None:
        address = _find_address(workspace)
    address = address.rstrip("/")
    # A bare repository has no work tree; its git directory has the name then.
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
    """Read the memory of the work tree, and the history of the default branch.

    Use and feedback of an entry that was superseded count for its successor, which replaced it.

    Args:
        workspace: the repository and its configuration.
        today: the day that counts as today.
        links: the links to the commits of the history.
        notes: gets a sentence for each part that could not be read.
    """
    memory = load_memory(workspace, None)
    episode_files = load_written(workspace, None).records
    episodes = episode_rules.apply_amendments(episode_files)
    successors = episode_rules.find_successors_among(located.entry for located in memory.located)
    feedback = episode_rules.move_to_successors(
        episode_rules.list_feedback(episode_files), successors
    )
    changes = list_changes(workspace, links.tip, today, notes)
    if memory.findings:
        notes.append(_describe_findings(memory.findings))
    return ReportInputs(
        workspace=workspace,
        today=today,
        links=links,
        located=memory.located,
        verdicts=_judge_entries(workspace, memory.located),
        changes=changes,
        merge_days=map_merge_days(changes),
        episodes=episodes,
        usage=episode_rules.count_usage(episodes, successors),
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


def _describe_findings(findings: Collection[Finding]) -> str:
    """Return a sentence that counts findings and names the first files that have any."""
    unique_paths = list(dict.fromkeys(finding.path for finding in findings))
    names = ", ".join(unique_paths[:MAX_NAMED])
    if len(unique_paths) > MAX_NAMED:
        names += ", …"
    return f"{plural(len(findings), 'finding')} in {names}: `memory-ci check` names them."


def _find_address(workspace: Workspace) -> str:
    remote = workspace.config.publish.remote
    return find_forge_address(find_setting(workspace.repo, f"remote.{remote}.url") or "")


def _judge_entries(
    workspace: Workspace, located_entries: Sequence[Located]
) -> dict[str, tuple[Verdict, ...]]:
    """Return for each entry id whether the code that the entry cites is unchanged.

    The entry has a verdict for each place of code that it cites, as the code is in the work tree.
    The verdict on changed code also says by whom it was last edited.
    """
    verdicts_by_entry = judge_cites(workspace, located_entries, None)
    entries_with_verdicts = []
    for located in located_entries:
        verdicts = verdicts_by_entry.get(located.entry, ())
        entries_with_verdicts.append((located.entry, verdicts))

    verdicts_by_id: dict[str, tuple[Verdict, ...]] = {}
    all_verdicts = add_last_edits(workspace, entries_with_verdicts, None)
    for located, verdicts in zip(located_entries, all_verdicts, strict=True):
        verdicts_by_id[located.entry.id] = verdicts
    return verdicts_by_id


def _count_sources(located_entries: Iterable[Located]) -> tuple[SourceCount, ...]:
    """Count the entries by the kind of their source (`pr`, `commit`) and by who extracted them."""
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
    """Return how many entries a language model extracted in the weeks shown."""
    since = inputs.today - timedelta(weeks=WEEKS)
    count = 0
    for located in inputs.located:
        entry = located.entry
        is_by_model = entry.engine not in (None, "rules")
        if is_by_model and entry.created_at is not None and entry.created_at >= since:
            count += 1
    return count


def _list_releases(inputs: ReportInputs, notes: list[str]) -> tuple[ReleaseHealth, ...]:
    """Return the health metrics at the newest releases and today, oldest first.

    With fewer than two releases since memory was set up, they are measured at the ends of months.

    Args:
        inputs: the memory and history.
        notes: gets a sentence if health cannot be measured; the result is empty then.
    """
    workspace = inputs.workspace
    with note_failure(notes, "Health"):
        setup_commit = history.find_addition(workspace.repo, inputs.tip, CONFIG_FILE)
        names = []
        if setup_commit:
            names = history.list_releases(
                workspace.repo, setup_commit, inputs.tip, MAX_RELEASES - 1
            )
        if len(names) < 2:
            months = measure_history(workspace, inputs.today, limit=MAX_RELEASES)
            return tuple(ReleaseHealth(str(health.today), health) for health in reversed(months))

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
        return list_queue(workspace, RecordOptions(), now, {}, progress=show).questions
    return ()


def _summarise_questions(
    questions: Iterable[Question], links: RepositoryLinks
) -> tuple[AskedQuestion, ...]:
    """Return the questions with the commands that answer them, the most useful first."""
    numbered = list(enumerate(questions, start=1))
    # Sorting is stable: of equally useful questions the one with the lower number comes first.
    numbered.sort(key=lambda number_and_question: number_and_question[1].score, reverse=True)
    return tuple(_summarise_question(number, question, links) for number, question in numbered)


def _summarise_question(number: int, question: Question, links: RepositoryLinks) -> AskedQuestion:
    """Return a question for a maintainer, with one `memory-ci review` command for each answer.

    Args:
        number: the number of the question in the list of `memory-ci review --all`.
        question: the question, about an entry or about a candidate that may become one.
        links: links to the changes that the candidate was found in.
    """
    entry_id = ""
    if question.located:
        entry_id = question.located.entry.id
    # A command names an entry by its id, and a candidate by its number.
    argument = str(number)
    if entry_id and "keep" in question.answers:
        argument = entry_id[:8]

    quote = ""
    origins: list[str] = []
    if question.suggestion:
        candidate = question.suggestion.candidate
        origins = candidate.source.split()
        if candidate.quotes:
            quote = " ".join(candidate.quotes[0].text.split())
    return AskedQuestion(
        kind=question.kind,
        title=question.title,
        why=question.why,
        quote=shorten(quote, MAX_BODY),
        commands=tuple(
            f"memory-ci review --all --{answer} {argument}" for answer in question.answers
        ),
        entry_id=entry_id,
        links=tuple(links.link_origin(origin) for origin in origins),
    )
