"""The pull request of the memory branch: found, opened, brought up to date, closed.

One that people closed without a merge is an answer: what it held is no reason to open another. Its text says what it
held, in keys that a forge does not show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.commands.publish.carry_over import Carried
from memory_ci.commands.publish.landing import Run
from memory_ci.commands.publish.text import (
    TITLE,
    Declined,
    Effect,
    Links,
    Proposed,
    TaskAnswers,
    obey,
    parse_boxes,
    parse_held,
    parse_read,
    render_closed,
    render_pull_request,
    render_title,
)
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.retrieve import View, injected_ids, retrieve
from memory_ci.commands.review.priority import ASKED
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.extraction.entries import content_key
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.extraction.tombstones import TOMBSTONE
from memory_ci.forge.proposals import Proposal, Proposals
from memory_ci.forge.selection import choose_proposals
from memory_ci.memory.apply import trim_plan
from memory_ci.memory.maintainer_decisions import Boxes
from memory_ci.memory.past_index import Past
from memory_ci.memory.past_tasks import load_tasks
from memory_ci.memory.workspace import Workspace
from memory_ci.records.candidate import Question
from memory_ci.records.config import Config, PublishConfig
from memory_ci.records.entry import Entry
from memory_ci.records.plan import Plan, Published
from memory_ci.records.retrieval import Task
from memory_ci.search.similar_tasks import TaskQuery, find_similar
from memory_ci.store.edits import format_entry

CLOSED = "was closed without a merge"
KEY_LENGTH = 8
MAX_KEYS = 2_000  # Keys that the text of a pull request has room for; of the rest there is one key for all.
TASKS = 3
MAX_ASKED = 30  # Entries whose tasks are looked for.
MAX_ENTRIES = (
    2_000  # Of memory; each answer builds an index of its commit, which takes seconds beyond.
)

NEEDED = {
    "labels": "It needs pull-requests: write (GitLab: api, role Reporter)",
    "reviewers": "It needs pull-requests: write and people who may read the repository; a team, the token of an App "
    "that may read members (GitLab: api, role Developer)",
    "auto_merge": "It needs contents: write, pull-requests: write, and auto-merge allowed in Settings, General "
    "(GitLab: api, and the right to merge)",
}
"""The permission that the forge may miss, by the key of the configuration."""


class Built(NamedTuple):
    """The branch made anew: what it adds to `base`, what of it maintainers decided, titles of what they lost, and what
    the week asks of people."""

    base: str
    tip: str
    plan: Plan
    subjects: tuple[str, ...]
    rejected: tuple[str, ...] = ()
    carried: Carried = Carried()
    lost: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()


class RequestState(NamedTuple):
    """The forge, if one can be asked, and there the open request, or without it the one that was closed last.

    `text` is that of the open request with the boxes as comments want them; `read` is the number of the last comment,
    and `unclear` are the lines of comments that say nothing.
    """

    forge: Proposals | None
    open: Proposal | None = None
    closed: Proposal | None = None
    text: str = ""
    read: int = 0
    unclear: tuple[str, ...] = ()

    @property
    def declined(self) -> Proposal | None:
        """The request that was closed last, without a merge, where none is open."""
        return None if self.closed is None or self.closed.is_merged else self.closed

    @property
    def boxes(self) -> Boxes:
        """What people say with the boxes. In a closed request what they ticked is void, what they unticked is not."""
        if self.open is not None:
            return parse_boxes(self.text)
        return Boxes(unticked=parse_boxes(self.closed.body).unticked) if self.closed else Boxes()


def find_request_state(run: Run, settings: Config) -> RequestState:
    """The state of the request on the forge. Raises EngineError (`forge-…`)."""
    cache = run.workspace.repo.common_dir / "memory-ci" / "forge-cache"
    forge, names = (
        choose_proposals(settings.forge, run.environ, cache),
        (settings.publish.branch, run.branch),
    )
    if forge is None:
        return RequestState(None)
    found = forge.find(*names)
    if found is None:
        return RequestState(forge, closed=forge.find_closed(*names))
    read = parse_read(found.body)
    comments = forge.list_commands(found, read)
    text, unclear = obey(found.body, (one.body for one in comments))
    return RequestState(
        forge, found, None, text, max((read, *(one.id for one in comments))), unclear
    )


def find_answer(built: Built, standing: RequestState) -> str:
    """The reason not to propose: people closed a pull request that held all of this; "" if something is new."""
    if standing.declined is None or not list_keys(built) <= parse_held(standing.declined.body):
        return ""
    number = standing.declined.number
    return f"pull request {number} {CLOSED}, and there is nothing to propose that it did not hold"


def update_request(
    run: Run, settings: Config, built: Built, done: Published, standing: RequestState
) -> Published:
    """The pull request opened, or brought up to date; without a forge the branch alone."""
    if built.tip == built.base:
        return replace(done, reason="nothing to propose")
    forge = standing.forge
    if forge is None:
        asked, by_hand = (
            "GitLab was asked for its merge request with the push",
            "open its pull request by hand",
        )
        left = asked if "GITLAB_CI" in run.environ else by_hand
        return replace(
            done,
            reason=f"the branch {settings.publish.branch} is pushed; no token for a forge: {left}",
        )
    proposed = _proposed(run, settings, built, standing)
    title, body = render_title(proposed), render_pull_request(proposed)
    known, wanted = standing.open, settings.publish
    if known is None:
        request = forge.open(wanted.branch, run.branch, title, body, is_draft=wanted.draft)
    else:
        request = known
        forge.update(request, title, body)
    failed = _arrange(forge, request, wanted, is_new=known is None)
    return replace(
        done,
        url=request.url,
        opened=request.opened,
        reason="; ".join(filter(None, (done.reason, *failed))),
    )


def _arrange(
    forge: Proposals, request: Proposal, wanted: PublishConfig, *, is_new: bool
) -> Iterator[str]:
    """Do what the configuration wants of a request beside its text; what failed, and why. The request stands."""
    tried: list[tuple[str, Callable[[], None]]] = []
    if is_new and wanted.labels:
        tried.append(("labels", lambda: forge.label(request, wanted.labels)))
    if is_new and wanted.reviewers:
        tried.append(("reviewers", lambda: forge.ask(request, wanted.reviewers)))
    if wanted.auto_merge != "none" and not request.is_draft:
        tried.append(("auto_merge", lambda: forge.merge_when_ready(request, wanted.auto_merge)))
    for name, do in tried:
        try:
            do()
        except EngineError as error:
            yield f"publish.{name} failed: {error.message}. {NEEDED[name]}"


def close_request(standing: RequestState) -> str:
    """Close the open request, if there is one, and say in its text that it was us; where it is. It keeps its branch.
    Raises EngineError (`forge-…`)."""
    forge, found = standing.forge, standing.open
    if forge is None or found is None:
        return ""
    forge.update(found, TITLE, render_closed(found.body))
    try:
        forge.close(found)
    except EngineError as error:
        if error.slug != "forge-refused":  # it is closed already
            raise
    return found.url


def _list_held(built: Built) -> Iterator[tuple[str, str]]:
    """(key, title) of all that is proposed: what a step does to which words, which words people wrote, the episodes."""
    entries = [(step.step, change.entry) for step in built.plan.steps for change in step.changes]
    for what, entry in (*entries, *(("written", entry) for entry in built.carried.entries)):
        yield _key(f"{what} {content_key(entry.title, entry.body)}"), entry.title
    episodes = (("episode", file.path) for file in built.plan.episodes)
    for what, path in (*(("written", path) for path in built.carried.paths), *episodes):
        yield _key(f"{what} {path}"), path


def list_keys(built: Built) -> frozenset[str]:
    """The keys of all that is proposed, as many as the text of a pull request can hold."""
    keys = sorted({key for key, _ in _list_held(built)})
    rest = keys[MAX_KEYS:]
    return frozenset((*keys[:MAX_KEYS], *([_key(" ".join(rest))] if rest else ())))


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def _proposed(run: Run, settings: Config, built: Built, standing: RequestState) -> Proposed:
    """What the text of the pull request says."""
    workspace = Workspace(run.workspace.repo, settings)
    said = [one for one in list_suggestions(built.plan.judged) if one.is_accepted]
    said += [one.suggestion for one in built.questions if one.suggestion and one.suggestion.weight]
    if settings.evidence.quotes != "full":
        said = [replace(one, candidate=replace(one.candidate, quotes=())) for one in said]
    declined, again = standing.declined, None
    if declined is not None:
        known = parse_held(declined.body)
        again = Declined(
            declined.number, tuple(title for key, title in _list_held(built) if key in known)
        )
    added = [one.entry for step in built.plan.steps for one in step.changes if one.kind == "add"]
    keys = {content_key(entry.title, entry.body): entry.id for entry in added}
    accepted = {keys[one.key]: one.key for one in said if one.is_accepted and one.key in keys}
    server, project = (
        run.environ.get("GITHUB_SERVER_URL", "https://github.com"),
        run.environ.get("CI_PROJECT_URL", ""),
    )
    links = Links(f"{project}/-/merge_requests/", f"{project}/-/commit/") if project else Links()
    if name := run.environ.get("GITHUB_REPOSITORY", ""):
        links = Links(f"{server}/{name}/pull/", f"{server}/{name}/commit/")
    return Proposed(
        plan=trim_plan(built.plan, settings.evidence.quotes),
        kept=(
            *((one.title, one.id) for one in built.carried.entries),
            *((path, "") for path in built.carried.paths),
        ),
        rejected=tuple(
            line for line in built.rejected if not TOMBSTONE.match(line) and not ASKED.match(line)
        ),
        lost=built.lost,
        effect=Effect(
            *_size(workspace, built.base), *_size(workspace, built.tip), settings.retrieve.max_chars
        ),
        links=links,
        held=tuple(sorted(list_keys(built))),
        accepted=accepted,
        suggestions=tuple(one for one in said if one.key not in accepted.values()),
        questions=tuple(one for one in built.questions if one.kind != "candidate"),
        declined=again,
        answers=compare_answers(
            workspace, built.base, built.tip, added, run.now.astimezone(UTC).date()
        ),
        read=standing.read,
        unclear=standing.unclear,
    )


def _size(workspace: Workspace, rev: str) -> tuple[int, int]:
    """How many entries a tree serves, and how many characters they are."""
    served = [
        place.entry for place in workspace.at(rev).memory.located if place.entry.status == "active"
    ]
    return len(served), sum(len(format_entry(entry)) for entry in served)


def compare_answers(
    workspace: Workspace, base: str, tip: str, added: Iterable[Entry], today: date
) -> tuple[TaskAnswers, ...]:
    """The answers of `base` and `tip` to the past tasks that are most like the entries `added`, by words alone. None
    without such a task, in a shallow clone, and where memory has more than MAX_ENTRIES."""
    places = {rev: workspace.at(rev).places for rev in (base, tip)}
    asked = list(added)[:MAX_ASKED]
    if not asked or len(places[tip]) > MAX_ENTRIES:
        return ()
    past = Past(workspace)  # both commits hold most files alike

    def answer(rev: str, tasks: Sequence[Task]) -> list[tuple[str, ...]]:
        """The ids that each task is given by the memory of a commit."""
        options = RetrieveOptions(at=rev, walk=0)
        with past.index(rev) as index:
            view = View(workspace, today, index, rev)
            return [
                injected_ids(retrieve(workspace, one.title, options, today, opened=view))
                for one in tasks
            ]

    with suppress(RepositoryError):
        kept = load_tasks(workspace, base)
        like = [
            one
            for entry in asked
            for one in find_similar(TaskQuery(entry.title), kept.tasks, kept.prompts, TASKS)
        ]
        ranked = sorted(like, key=lambda one: (-one.score, one.task.sha))
        tasks = list({one.task.sha: one.task for one in ranked if one.task.sha}.values())[:TASKS]
        before, after = (answer(rev, tasks) if tasks else [] for rev in (base, tip))
        return tuple(
            TaskAnswers(
                task,
                gained=tuple(
                    places[tip][key].entry.title
                    for key in new
                    if key not in old and key in places[tip]
                ),
                lost=tuple(
                    places[base][key].entry.title
                    for key in old
                    if key not in new and key in places[base]
                ),
                kept=len(set(old) & set(new)),
            )
            for task, old, new in zip(tasks, before, after, strict=True)
        )
    return ()
