"""The pull request of the memory branch on a forge: it is found, opened, updated and closed.

The request proposes the entries that memory would gain. If people close it without a merge, its
entries are not proposed again. The text of a request has the keys of its entries, in a comment that
a forge does not show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.commands.publish.answered_text import (
    apply_comments,
    parse_boxes,
    parse_keys,
    parse_last_comment,
)
from memory_ci.commands.publish.answers import compare_answers
from memory_ci.commands.publish.carry_over import Carried
from memory_ci.commands.publish.landing import Run
from memory_ci.commands.publish.text import (
    TITLE,
    Declined,
    Effect,
    Links,
    Proposed,
    render_closed,
    render_pull_request,
    render_title,
)
from memory_ci.commands.review.priority import ASKED
from memory_ci.errors import EngineError
from memory_ci.extraction.entries import content_key
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.extraction.tombstones import TOMBSTONE
from memory_ci.forge.proposals import Proposal, Proposals
from memory_ci.forge.selection import choose_proposals
from memory_ci.memory.apply import trim_plan_quotes
from memory_ci.memory.maintainer_decisions import Boxes
from memory_ci.memory.workspace import Workspace
from memory_ci.records.candidate import LISTED, Question, Suggestion
from memory_ci.records.config import Config, PublishConfig
from memory_ci.records.entry import Entry
from memory_ci.records.plan import Plan, Published
from memory_ci.store.edits import format_entry

CLOSED = "was closed without a merge"
KEY_LENGTH = 8

MAX_KEYS = 2_000
"""Number of keys that the text of a request holds; one more key stands for all others."""

NEEDED = {
    "labels": "It needs pull-requests: write (GitLab: api, role Reporter)",
    "reviewers": "It needs pull-requests: write and people who may read the repository; "
    "a team, the token of an App that may read members (GitLab: api, role Developer)",
    "auto_merge": "It needs contents: write, pull-requests: write, and auto-merge allowed "
    "in Settings, General (GitLab: api, and the right to merge)",
}
"""The permission that may be missing on the forge, by the key of the configuration."""


class Built(NamedTuple):
    """The memory branch as this run made it, on the tip of its base.

    Attributes:
        base: the commit that the branch begins at.
        tip: the newest commit of the branch.
        plan: the changes of the run to `base`.
        subjects: the subjects of its commits.
        rejected: what maintainers took out of the request, as lines of the file of rejections.
        carried: what maintainers wrote on the branch.
        lost: titles of maintainers' edits that could not be preserved.
        questions: the questions of the week.
    """

    base: str
    tip: str
    plan: Plan
    subjects: tuple[str, ...]
    rejected: tuple[str, ...] = ()
    carried: Carried = Carried()
    lost: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()


class RequestState(NamedTuple):
    """The memory request on the forge.

    Attributes:
        forge: the forge; None if none can be reached.
        open: the open request.
        closed: the request that was closed last, if none is open.
        text: the text of the open request, with boxes ticked as comments ask for.
        read: the number of the newest comment that was read.
        unclear: the lines of comments that are no command.
    """

    forge: Proposals | None
    open: Proposal | None = None
    closed: Proposal | None = None
    text: str = ""
    read: int = 0
    unclear: tuple[str, ...] = ()

    @property
    def declined(self) -> Proposal | None:
        """The request that was closed last without a merge, if none is open."""
        return None if self.closed is None or self.closed.is_merged else self.closed

    @property
    def boxes(self) -> Boxes:
        """The boxes that people ticked and unticked; of a closed request only the latter."""
        if self.open is not None:
            return parse_boxes(self.text)
        if self.closed is not None:
            return Boxes(unticked_ids=parse_boxes(self.closed.body).unticked_ids)
        return Boxes()


def find_request_state(run: Run, settings: Config) -> RequestState:
    """Find the pull request of the memory branch, with the boxes that people ticked in it.

    Raises:
        EngineError: `forge-…`.
    """
    cache = run.workspace.repo.common_dir / "memory-ci" / "forge-cache"
    forge = choose_proposals(settings.forge, run.environ, cache)
    if forge is None:
        return RequestState(None)
    request = forge.find(settings.publish.branch, run.branch)
    if request is None:
        closed = forge.find_closed(settings.publish.branch, run.branch)
        return RequestState(forge, closed=closed)
    last_read = parse_last_comment(request.body)
    comments = forge.list_commands(request, last_read)
    text, unclear = apply_comments(request.body, (comment.body for comment in comments))
    newest = max((last_read, *(comment.id for comment in comments)))
    return RequestState(forge, open=request, text=text, read=newest, unclear=unclear)


def find_decline(built: Built, request: RequestState) -> str:
    """Return that people declined all of this before, as the reason to propose nothing, or "".

    They did if they closed a request without a merge that proposed all of it already.
    """
    declined = request.declined
    if declined is None or not list_keys(built) <= parse_keys(declined.body):
        return ""
    return (
        f"pull request {declined.number} {CLOSED}, "
        "and there is nothing to propose that it did not hold"
    )


def update_request(
    run: Run, settings: Config, built: Built, published: Published, request: RequestState
) -> Published:
    """Open or update the pull request, and return the outcome of the run with its address.

    Without a forge that can be reached, the outcome says how to open it.

    Args:
        run: the run.
        settings: the configuration at the base.
        built: the memory branch.
        published: the outcome of the push.
        request: the request as it was found.

    Raises:
        EngineError: `forge-…`.
    """
    if built.tip == built.base:
        return replace(published, reason="nothing to propose")
    forge = request.forge
    if forge is None:
        return replace(published, reason=_say_branch_only(run, settings.publish))

    proposed = _make_proposed(run, settings, built, request)
    title = render_title(proposed)
    body = render_pull_request(proposed)
    proposal = request.open
    is_new = proposal is None
    if proposal is None:
        proposal = forge.open(settings.publish.branch, run.branch, title, body)
    else:
        forge.update(proposal, title, body)
    failures = _apply_settings(forge, proposal, settings.publish, is_new=is_new)
    reasons = [published.reason, *failures]
    return replace(
        published,
        url=proposal.url,
        opened=proposal.opened,
        reason="; ".join(filter(None, reasons)),
    )


def _say_branch_only(run: Run, publish: PublishConfig) -> str:
    """Return the message that the branch was pushed and that its request must be opened by hand."""
    remaining = "open its pull request by hand"
    if "GITLAB_CI" in run.environ:
        remaining = "GitLab was asked for its merge request with the push"
    return f"the branch {publish.branch} is pushed; no token for a forge: {remaining}"


def _apply_settings(
    forge: Proposals, proposal: Proposal, publish: PublishConfig, *, is_new: bool
) -> Iterator[str]:
    """Set labels, reviewers and auto-merge of a pull request as configured.

    Yields:
        The steps that failed, and why; a failure stops no other step.
    """
    steps: list[tuple[str, Callable[[], None]]] = []
    if is_new and publish.labels:
        steps.append(("labels", partial(forge.label, proposal, publish.labels)))
    if is_new and publish.reviewers:
        steps.append(("reviewers", partial(forge.request_reviews, proposal, publish.reviewers)))
    if publish.auto_merge != "none" and not proposal.is_draft:
        merge = partial(forge.merge_when_ready, proposal, publish.auto_merge)
        steps.append(("auto_merge", merge))
    for setting, take_step in steps:
        try:
            take_step()
        except EngineError as error:
            yield f"publish.{setting} failed: {error.message}. {NEEDED[setting]}"


def close_request(request: RequestState) -> str:
    """Close the open request, if there is one, and note in its text that memory-ci did.

    The branch of the request stays.

    Returns:
        The URL of the request, or "".

    Raises:
        EngineError: `forge-…`.
    """
    if request.forge is None or request.open is None:
        return ""
    request.forge.update(request.open, TITLE, render_closed(request.open.body))
    try:
        request.forge.close(request.open)
    except EngineError as error:
        if error.slug != "forge-refused":  # It is closed already.
            raise
    return request.open.url


# -- the keys of what a request holds


def list_keys(built: Built) -> frozenset[str]:
    """Return the keys of all that a request proposes, which are short hashes.

    Beyond `MAX_KEYS` one key, the hash of the other keys, replaces the rest.
    """
    keys = sorted({key for key, _ in _list_proposed_items(built)})
    rest = keys[MAX_KEYS:]
    if not rest:
        return frozenset(keys)
    return frozenset((*keys[:MAX_KEYS], _key(" ".join(rest))))


def _list_proposed_items(built: Built) -> Iterator[tuple[str, str]]:
    """Yield the key and the title of each thing that a request proposes.

    These are the changes of entries, what maintainers wrote, and the files of episodes.
    """
    for step in built.plan.steps:
        for change in step.changes:
            yield _key_entry(step.step, change.entry), change.entry.title
    for entry in built.carried.entries:
        yield _key_entry("written", entry), entry.title
    for path in built.carried.paths:
        yield _key(f"written {path}"), path
    for file in built.plan.episodes:
        yield _key(f"episode {file.path}"), file.path
    if built.plan.unwritten.changes:
        yield _key(f"read {built.plan.until}"), "merged changes that were read"


def _key_entry(step: str, entry: Entry) -> str:
    return _key(f"{step} {content_key(entry.title, entry.body)}")


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


# -- the text of a request


def _make_proposed(run: Run, settings: Config, built: Built, request: RequestState) -> Proposed:
    """Return the facts for the text of the pull request.

    Args:
        run: the run.
        settings: the configuration at the base.
        built: the memory branch.
        request: the request as it was found.
    """
    workspace = Workspace(run.workspace.repo, settings)
    added: list[Entry] = []
    for step in built.plan.steps:
        added += [change.entry for change in step.changes if change.kind == "add"]
    suggestions = _list_proposed_suggestions(settings, built)
    accepted = _find_accepted(suggestions, added)
    today = run.now.astimezone(UTC).date()
    return Proposed(
        plan=trim_plan_quotes(built.plan, settings.evidence.quotes),
        carried=_list_carried(built.carried),
        rejected=tuple(line for line in built.rejected if not _is_bookkeeping(line)),
        lost=built.lost,
        effect=_measure_effect(workspace, built),
        links=_make_links(run.environ),
        keys=tuple(sorted(list_keys(built))),
        accepted=accepted,
        suggestions=tuple(item for item in suggestions if item.key not in accepted.values()),
        questions=tuple(item for item in built.questions if item.kind not in LISTED),
        declined=_find_declined(built, request),
        answers=compare_answers(workspace, built.base, built.tip, added, today),
        last_comment=request.read,
        unclear=request.unclear,
    )


def _list_carried(carried: Carried) -> tuple[tuple[str, str], ...]:
    """Return the title and id of each entry that maintainers wrote, then the paths of files."""
    entries = [(entry.title, entry.id) for entry in carried.entries]
    files = [(path, "") for path in carried.paths]
    return (*entries, *files)


def _measure_effect(workspace: Workspace, built: Built) -> Effect:
    """Return the size of memory before and after the request."""
    count_before, chars_before = _measure_memory(workspace, built.base)
    count_after, chars_after = _measure_memory(workspace, built.tip)
    budget = workspace.config.retrieve.max_chars
    return Effect(count_before, chars_before, count_after, chars_after, budget)


def _list_proposed_suggestions(settings: Config, built: Built) -> list[Suggestion]:
    """Return the candidates that a person accepted, and those that this week asks about.

    They have no quotes if the configuration does not allow to keep them.
    """
    suggestions = [item for item in list_suggestions(built.plan.judged) if item.is_accepted]
    for question in built.questions:
        if question.suggestion and question.suggestion.weight:
            suggestions.append(question.suggestion)
    if settings.evidence.quotes == "full":
        return suggestions
    return [replace(item, candidate=replace(item.candidate, quotes=())) for item in suggestions]


def _find_accepted(suggestions: Iterable[Suggestion], added: Iterable[Entry]) -> dict[str, str]:
    """Return the keys of accepted candidates by the ids of the entries that they became."""
    ids_by_content = {content_key(entry.title, entry.body): entry.id for entry in added}
    keys_by_id: dict[str, str] = {}
    for suggestion in suggestions:
        if suggestion.is_accepted and suggestion.key in ids_by_content:
            keys_by_id[ids_by_content[suggestion.key]] = suggestion.key
    return keys_by_id


def _is_bookkeeping(line: str) -> bool:
    """Return whether a line of the file of rejections is no rejection of a maintainer."""
    return bool(TOMBSTONE.match(line) or ASKED.match(line))


def _find_declined(built: Built, request: RequestState) -> Declined | None:
    """Return the request that people declined, with the titles that are proposed again."""
    if request.declined is None:
        return None
    keys = parse_keys(request.declined.body)
    titles = tuple(title for key, title in _list_proposed_items(built) if key in keys)
    return Declined(request.declined.number, titles)


def _make_links(environ: Mapping[str, str]) -> Links:
    """Return the addresses of pull requests and commits, by the variables of the CI job."""
    repository = environ.get("GITHUB_REPOSITORY", "")
    if repository:
        server = environ.get("GITHUB_SERVER_URL", "https://github.com")
        return Links(f"{server}/{repository}/pull/", f"{server}/{repository}/commit/")
    project_url = environ.get("CI_PROJECT_URL", "")
    if project_url:
        return Links(f"{project_url}/-/merge_requests/", f"{project_url}/-/commit/")
    return Links()


def _measure_memory(workspace: Workspace, rev: str) -> tuple[int, int]:
    """Return how many active entries a tree has, and how many characters they take."""
    entries = [located.entry for located in workspace.at(rev).memory.located]
    active = [entry for entry in entries if entry.status == "active"]
    return len(active), sum(len(format_entry(entry)) for entry in active)
