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
from memory_ci.commands.publish.carry_over import KeptDecisions
from memory_ci.commands.publish.landing import Run
from memory_ci.commands.publish.text import (
    TITLE,
    Declined,
    Effect,
    KeptItem,
    Links,
    Proposed,
    render_closed,
    render_pull_request,
    render_title,
)
from memory_ci.commands.review.priority import ASKED_LINE
from memory_ci.errors import EngineError
from memory_ci.extraction.entries import compute_content_key
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


class BuiltBranch(NamedTuple):
    """The memory branch as this run made it, on the tip of its base.

    Attributes:
        base: the commit that the branch begins at.
        tip: the newest commit of the branch.
        plan: the changes of the run to `base`.
        subjects: the subjects of its commits.
        rejected_lines: what maintainers took out of the request, as lines of the file of
            rejections.
        kept_decisions: what maintainers wrote on the earlier branch.
        lost_titles: titles of entries whose edits by maintainers could not be preserved.
        questions: the questions of the week.
    """

    base: str
    tip: str
    plan: Plan
    subjects: tuple[str, ...]
    rejected_lines: tuple[str, ...] = ()
    kept_decisions: KeptDecisions = KeptDecisions()
    lost_titles: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()


class RequestState(NamedTuple):
    """The memory request on the forge.

    Attributes:
        forge: the forge; None if none can be reached.
        open_request: the open request.
        closed_request: the request that was closed last, if none is open.
        text: the text of the open request, with boxes ticked and unticked as comments ask for.
        last_comment: the number of the newest comment that was read.
        unclear_lines: the lines of comments that begin with `/memory` and are no valid command.
    """

    forge: Proposals | None
    open_request: Proposal | None = None
    closed_request: Proposal | None = None
    text: str = ""
    last_comment: int = 0
    unclear_lines: tuple[str, ...] = ()

    @property
    def declined_request(self) -> Proposal | None:
        """The request that was closed last without a merge, if none is open."""
        return (
            None
            if self.closed_request is None or self.closed_request.is_merged
            else self.closed_request
        )

    @property
    def boxes(self) -> Boxes:
        """The boxes that people ticked and unticked; of a closed request only the latter."""
        if self.open_request is not None:
            return parse_boxes(self.text)
        if self.closed_request is not None:
            return Boxes(unticked_ids=parse_boxes(self.closed_request.body).unticked_ids)
        return Boxes()


def find_request_state(run: Run, settings: Config) -> RequestState:
    """Find the pull request of the memory branch, with the boxes that people ticked in it.

    People tick boxes in the text of the request, or write commands in comments (`/memory drop …`).
    New commands are applied to the text here.

    Args:
        run: the run.
        settings: the configuration at the base.

    Raises:
        EngineError: `forge-…`.
    """
    cache = run.workspace.repo.common_dir / "memory-ci" / "forge-cache"
    forge = choose_proposals(settings.forge, run.environ, cache)
    if forge is None:
        return RequestState(None)
    request = forge.find(settings.publish.branch, run.branch)
    if request is None:
        closed_request = forge.find_closed(settings.publish.branch, run.branch)
        return RequestState(forge, closed_request=closed_request)
    last_read = parse_last_comment(request.body)
    comments = forge.list_commands(request, last_read)
    text, unclear_lines = apply_comments(request.body, (comment.body for comment in comments))
    newest_id = max((last_read, *(comment.id for comment in comments)))
    return RequestState(
        forge, open_request=request, text=text, last_comment=newest_id, unclear_lines=unclear_lines
    )


def find_decline(built: BuiltBranch, request: RequestState) -> str:
    """Return the reason to propose nothing if people declined all of it before, else "".

    They declined it if they closed an earlier request without a merge, and that request proposed
    everything that the new branch would propose.
    """
    declined_request = request.declined_request
    if declined_request is None:
        return ""
    proposes_something_new = not list_keys(built) <= parse_keys(declined_request.body)
    if proposes_something_new:
        return ""
    return (
        f"pull request {declined_request.number} {CLOSED}, "
        "and there is nothing to propose that it did not hold"
    )


def update_request(
    run: Run, settings: Config, built: BuiltBranch, published: Published, request: RequestState
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
        return replace(published, reason=_explain_missing_request(run, settings.publish))

    proposed = _collect_request_facts(run, settings, built, request)
    title = render_title(proposed)
    body = render_pull_request(proposed)
    proposal = request.open_request
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


def _explain_missing_request(run: Run, publish: PublishConfig) -> str:
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
    if request.forge is None or request.open_request is None:
        return ""
    request.forge.update(request.open_request, TITLE, render_closed(request.open_request.body))
    try:
        request.forge.close(request.open_request)
    except EngineError as error:
        if error.slug != "forge-refused":  # It is closed already.
            raise
    return request.open_request.url


# -- the keys of what a request holds


def list_keys(built: BuiltBranch) -> frozenset[str]:
    """Return the keys of all that a request proposes, which are short hashes.

    Beyond `MAX_KEYS` one key, the hash of the other keys, replaces the rest.
    """
    keys = sorted({key for key, _ in _list_proposed_items(built)})
    other_keys = keys[MAX_KEYS:]
    if not other_keys:
        return frozenset(keys)
    return frozenset((*keys[:MAX_KEYS], _compute_key(" ".join(other_keys))))


def _list_proposed_items(built: BuiltBranch) -> Iterator[tuple[str, str]]:
    """Yield the key and the title of each thing that a request proposes.

    These are the changes of entries, what maintainers wrote, and the files of episodes. A run may
    also only record that it read merged changes, whose episodes need no file.
    """
    for step in built.plan.steps:
        for change in step.changes:
            yield _compute_entry_key(step.step, change.entry), change.entry.title
    for entry in built.kept_decisions.entries:
        yield _compute_entry_key("written", entry), entry.title
    for path in built.kept_decisions.paths:
        yield _compute_key(f"written {path}"), path
    for file in built.plan.episodes:
        yield _compute_key(f"episode {file.path}"), file.path
    if built.plan.unwritten.changes:
        yield _compute_key(f"read {built.plan.until}"), "merged changes that were read"


def _compute_entry_key(step: str, entry: Entry) -> str:
    return _compute_key(f"{step} {compute_content_key(entry.title, entry.body)}")


def _compute_key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


# -- the text of a request


def _collect_request_facts(
    run: Run, settings: Config, built: BuiltBranch, request: RequestState
) -> Proposed:
    """Return the facts for the text of the pull request.

    The text has a box for each candidate; a candidate that a person accepted is already among the
    added entries, and is not listed again.

    Args:
        run: the run.
        settings: the configuration at the base.
        built: the memory branch.
        request: the request as it was found.
    """
    workspace = Workspace(run.workspace.repo, settings)
    added_entries: list[Entry] = []
    for step in built.plan.steps:
        added_entries += [change.entry for change in step.changes if change.kind == "add"]
    suggestions = _list_proposed_suggestions(settings, built)
    accepted_keys = _find_accepted_keys(suggestions, added_entries)
    open_suggestions = [item for item in suggestions if item.key not in accepted_keys.values()]
    # Questions about candidates are listed as suggestions.
    other_questions = [item for item in built.questions if item.kind not in LISTED]
    rejections = [line for line in built.rejected_lines if not _is_bookkeeping(line)]
    today = run.now.astimezone(UTC).date()
    return Proposed(
        plan=trim_plan_quotes(built.plan, settings.evidence.quotes),
        kept_items=_list_kept_items(built.kept_decisions),
        rejected_lines=tuple(rejections),
        lost_titles=built.lost_titles,
        effect=_measure_effect(workspace, built),
        links=_make_links(run.environ),
        keys=tuple(sorted(list_keys(built))),
        accepted_keys=accepted_keys,
        suggestions=tuple(open_suggestions),
        questions=tuple(other_questions),
        declined=_find_declined(built, request),
        answers=compare_answers(workspace, built.base, built.tip, added_entries, today),
        last_comment=request.last_comment,
        unclear_lines=request.unclear_lines,
    )


def _list_kept_items(decisions: KeptDecisions) -> tuple[KeptItem, ...]:
    """Return the entries that maintainers wrote, then the files."""
    entries = [KeptItem(entry.title, entry.id) for entry in decisions.entries]
    files = [KeptItem(path) for path in decisions.paths]
    return (*entries, *files)


def _measure_effect(workspace: Workspace, built: BuiltBranch) -> Effect:
    """Return the size of memory before and after the request."""
    count_before, chars_before = _measure_memory(workspace, built.base)
    count_after, chars_after = _measure_memory(workspace, built.tip)
    budget = workspace.config.retrieve.max_chars
    return Effect(count_before, chars_before, count_after, chars_after, budget)


def _list_proposed_suggestions(settings: Config, built: BuiltBranch) -> list[Suggestion]:
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


def _find_accepted_keys(
    suggestions: Iterable[Suggestion], added_entries: Iterable[Entry]
) -> dict[str, str]:
    """Return the keys of accepted candidates by the ids of the entries that they became.

    The key of a candidate is the content key (a hash of title and body) of its entry.
    """
    entry_id_by_key = {
        compute_content_key(entry.title, entry.body): entry.id for entry in added_entries
    }
    keys_by_entry_id: dict[str, str] = {}
    for suggestion in suggestions:
        if suggestion.is_accepted and suggestion.key in entry_id_by_key:
            keys_by_entry_id[entry_id_by_key[suggestion.key]] = suggestion.key
    return keys_by_entry_id


def _is_bookkeeping(line: str) -> bool:
    """Return whether a line of the file of rejections is no rejection of a maintainer."""
    return bool(TOMBSTONE.match(line) or ASKED_LINE.match(line))


def _find_declined(built: BuiltBranch, request: RequestState) -> Declined | None:
    """Return the request that people declined, with the titles that are proposed again."""
    if request.declined_request is None:
        return None
    keys = parse_keys(request.declined_request.body)
    titles = tuple(title for key, title in _list_proposed_items(built) if key in keys)
    return Declined(request.declined_request.number, titles)


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
    active_entries = [entry for entry in entries if entry.status == "active"]
    return len(active_entries), sum(len(format_entry(entry)) for entry in active_entries)
