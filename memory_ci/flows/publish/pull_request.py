"""The pull request of the memory branch: found, opened, brought up to date, closed.

One that people closed without a merge is an answer: what it held is no reason to open another. Its text says what it
held, in keys that a forge does not show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.errors import EngineError
from memory_ci.extraction.entries import content_key
from memory_ci.extraction.suggestions import list_suggestions
from memory_ci.extraction.tombstones import TOMBSTONE
from memory_ci.flows.publish.carry_over import Carried
from memory_ci.flows.publish.landing import Run, is_gitlab
from memory_ci.flows.record.apply import trim_plan
from memory_ci.flows.workspace import Workspace
from memory_ci.forge.proposals import Proposal, Proposals
from memory_ci.forge.selection import choose_proposals
from memory_ci.records.candidate import MAX_SUGGESTIONS, Suggestion
from memory_ci.records.config import Config, Quotes
from memory_ci.records.plan import Plan, Published
from memory_ci.rendering.pull_request import (
    TITLE,
    Declined,
    Effect,
    Links,
    Proposed,
    parse_held,
    parse_ticked,
    render_closed,
    render_pull_request,
    render_title,
)
from memory_ci.store.edits import format_entry

KEY_LENGTH = 8
MAX_KEYS = 2_000
"""Keys that the text of a pull request has room for; of the rest there is one key for all."""


class Built(NamedTuple):
    """The branch made anew: what it adds to `base`, what of it maintainers decided, and titles of what they lost."""

    base: str
    tip: str
    plan: Plan
    subjects: tuple[str, ...]
    rejected: tuple[str, ...] = ()
    carried: Carried = Carried()
    lost: tuple[str, ...] = ()


class RequestState(NamedTuple):
    """The forge, if one can be asked, and there the open request, or without it the one that people closed last."""

    forge: Proposals | None
    open: Proposal | None = None
    declined: Proposal | None = None


def find_request_state(run: Run, settings: Config, built: Built) -> RequestState:
    """The state of the request on the forge. Raises EngineError (`forge-…`)."""
    forge, names = _forge(run, settings), (settings.publish.branch, run.branch)
    if forge is None:
        return RequestState(None)
    found = forge.find(*names)
    if found is not None or built.tip == built.base:
        return RequestState(forge, found)
    return RequestState(forge, None, forge.find_declined(*names))


def find_ticked(run: Run, settings: Config) -> frozenset[str]:
    """The keys of candidates that people ticked in the open request. Raises EngineError (`forge-…`)."""
    forge = _forge(run, settings)
    found = forge.find(settings.publish.branch, run.branch) if forge else None
    return parse_ticked(found.body) if found else frozenset()


def find_answer(built: Built, standing: RequestState) -> str:
    """The reason not to propose: people closed a pull request that held all of this; "" if something is new."""
    if standing.declined is None or not list_keys(built) <= parse_held(standing.declined.body):
        return ""
    number = standing.declined.number
    return f"pull request {number} was closed without a merge, and there is nothing to propose that it did not hold"


def update_request(run: Run, settings: Config, built: Built, done: Published, standing: RequestState) -> Published:
    """The pull request opened, or brought up to date; without a forge the branch alone."""
    forge = standing.forge
    if forge is None:
        why = f"the branch {settings.publish.branch} is pushed; no token for a forge: {_left_to_do(run)}"
        return replace(done, reason=why if built.tip != built.base else "nothing to propose")
    if built.tip == built.base:
        return replace(done, reason="nothing to propose")
    proposed = _proposed(run, settings, built, standing)
    title, body = render_title(proposed), render_pull_request(proposed)
    if standing.open is None:
        return replace(done, url=forge.open(settings.publish.branch, run.branch, title, body).url)
    forge.update(standing.open, title, body)
    return replace(done, url=standing.open.url)


def close_request(standing: RequestState) -> str:
    """Close the open request, if there is one, and say in its text that it was us; where it is. It keeps its branch.

    Raises EngineError (`forge-…`).
    """
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


def _forge(run: Run, settings: Config) -> Proposals | None:
    """The forge on which the pull request may be opened."""
    cache = run.workspace.repo.common_dir / "memory-ci" / "forge-cache"
    return choose_proposals(settings.forge, run.environ, cache)


def _left_to_do(run: Run) -> str:
    """What becomes of the branch where no forge can be asked."""
    if is_gitlab(run.environ):
        return "GitLab was asked for its merge request with the push"
    return "open its pull request by hand"


def _list_held(built: Built) -> Iterator[tuple[str, str]]:
    """(key, title) of all that is proposed: what a step does to which words, which words people wrote, the episodes."""
    for step in built.plan.steps:
        for change in step.changes:
            entry = change.entry
            yield _key(f"{step.step} {content_key(entry.title, entry.body)}"), entry.title
    for entry in built.carried.entries:
        yield _key(f"written {content_key(entry.title, entry.body)}"), entry.title
    for path in built.carried.paths:
        yield _key(f"written {path}"), path
    for file in built.plan.episodes:
        yield _key(f"episode {file.path}"), file.path


def list_keys(built: Built) -> frozenset[str]:
    """The keys of all that is proposed, as many as the text of a pull request can hold."""
    keys = sorted({key for key, _ in _list_held(built)})
    rest = keys[MAX_KEYS:]
    return frozenset((*keys[:MAX_KEYS], *([_key(" ".join(rest))] if rest else ())))


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def _declined(built: Built, declined: Proposal) -> Declined:
    """What is proposed again of a request that people closed."""
    known = parse_held(declined.body)
    return Declined(declined.number, tuple(title for key, title in _list_held(built) if key in known))


def _proposed(run: Run, settings: Config, built: Built, standing: RequestState) -> Proposed:
    """What the text of the pull request says."""
    workspace = Workspace(run.workspace.repo, settings)
    effect = Effect(*_size(workspace, built.base), *_size(workspace, built.tip), settings.retrieve.max_chars)
    return Proposed(
        plan=trim_plan(built.plan, settings.evidence.quotes),
        kept=(*(entry.title for entry in built.carried.entries), *built.carried.paths),
        rejected=tuple(line.partition(" ")[2] or line for line in built.rejected if not TOMBSTONE.match(line)),
        lost=built.lost,
        effect=effect,
        links=_links(run),
        held=tuple(sorted(list_keys(built))),
        suggestions=_list_suggestions(built, settings.evidence.quotes),
        declined=_declined(built, standing.declined) if standing.declined else None,
    )


def _list_suggestions(built: Built, quotes: Quotes) -> tuple[Suggestion, ...]:
    """What people accepted, and the best of what else was proposed, without what they took out before."""
    found = list_suggestions(built.plan.judged, {line.split()[0] for line in built.rejected})
    accepted = [one for one in found if one.is_accepted]
    shown = (*accepted, *[one for one in found if not one.is_accepted][:MAX_SUGGESTIONS])
    if quotes == "full":
        return shown
    return tuple(replace(one, candidate=replace(one.candidate, quotes=())) for one in shown)


def _size(workspace: Workspace, rev: str) -> tuple[int, int]:
    """How many entries a tree serves, and how many characters they are."""
    served = [place.entry for place in workspace.at(rev).memory.located if place.entry.status == "active"]
    return len(served), sum(len(format_entry(entry)) for entry in served)


def _links(run: Run) -> Links:
    server, name = run.environ.get("GITHUB_SERVER_URL", "https://github.com"), run.environ.get("GITHUB_REPOSITORY", "")
    if name:
        return Links(f"{server}/{name}/pull/", f"{server}/{name}/commit/")
    project = run.environ.get("CI_PROJECT_URL", "")
    return Links(f"{project}/-/merge_requests/", f"{project}/-/commit/") if project else Links("", "")
