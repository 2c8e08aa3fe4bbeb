"""Proposing: one branch and one pull request that hold what memory would gain, made anew by each run.

What maintainers did on that branch stays: `flows.rejected`. The branch moves only from where it was read.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from memory_ci.errors import EngineError
from memory_ci.flows.branch import PRIVATE
from memory_ci.flows.landing import Run, contended, fetch, is_own_push, named, perform, refusal
from memory_ci.flows.push_options import is_gitlab, request_options
from memory_ci.flows.rejected import KEEP, Verdicts, carry_over, read_verdicts
from memory_ci.flows.workspace import Workspace, config_at, load_memory
from memory_ci.forge.choose import choose_proposals
from memory_ci.forge.proposals import Proposals
from memory_ci.gitrepo.follow import private_ref, tree_of
from memory_ci.gitrepo.history import STEP
from memory_ci.gitrepo.push import Outcome, find_remote_tip, push_tip
from memory_ci.gitrepo.repo import is_ancestor
from memory_ci.records.config import Config
from memory_ci.records.plan import Plan
from memory_ci.records.publish import Published
from memory_ci.rendering.pull_request import TITLE, Effect, Links, Proposed, render_pull_request
from memory_ci.store.edit import format_entry

CARRIED = f"memory: keep what maintainers decided on this branch\n\n{STEP}: {KEEP}\n"


class Built(NamedTuple):
    """The branch made anew: what it adds to `base`, and what of it maintainers decided."""

    base: str
    tip: str
    plan: Plan
    subjects: tuple[str, ...]
    verdicts: Verdicts


def propose(run: Run, reason: str = "") -> Published:
    """Bring the memory branch and its pull request up to date; both go away when there is nothing to propose.

    Raises RepositoryError (push-refused), EngineError (push-contended, remote-failed, `forge-…`).
    """
    for tries in run.pace.tries():
        with private_ref(run.workspace.repo, PRIVATE) as ref, private_ref(run.workspace.repo, PRIVATE) as theirs:
            base = fetch(run, run.branch, ref)
            settings = config_at(run.workspace.repo, base)
            if is_own_push(run, base):
                return Published("pr", base, tries=tries, reason="nothing but memory was pushed: nothing to do")
            old = find_remote_tip(run.workspace.repo, run.remote, settings.publish.branch)
            if old is not None:
                old = fetch(run, settings.publish.branch, theirs)
            verdicts = read_verdicts(Workspace(run.workspace.repo, settings), base, old) if old else Verdicts()
            if old and verdicts.obstacle:
                return Published("pr", old, tries=tries, reason=f"the branch is left as it is: {verdicts.obstacle}")
            built = _build(run, ref, base, verdicts)
            if old and built.plan.engine.failure:
                why = "the run stopped before its end: the branch is left as it is"
                return named(run, Published("pr", old, tries=tries, reason=why, plan=built.plan))
            outcome = _push(run, settings, built, old)
            if outcome.state == "refused":
                raise refusal(settings.publish.branch, outcome)
            if outcome.state == "done":
                done = Published("pr", outcome.said or built.tip, "", tries, reason, built.plan, built.subjects)
                return named(run, _request(run, settings, built, done))
    raise contended(run.branch)


def _build(run: Run, ref: str, base: str, verdicts: Verdicts) -> Built:
    """What maintainers decided first, so that the plan is made with it; then the plan."""
    from memory_ci.gitrepo.writer import IN_ACTIONS, MEMORY_CI, PlannedCommit, commit_series  # GitPython: 75 ms

    workspace = Workspace(run.workspace.repo, config_at(run.workspace.repo, base))
    files = carry_over(workspace, base, verdicts)
    if files:
        commit_series(
            workspace.repo,
            ref=ref,
            expected=base,
            commits=[PlannedCommit(files, CARRIED)],
            identity=IN_ACTIONS if "GITHUB_ACTIONS" in run.environ else MEMORY_CI,
            when=run.now,
        )
    plan, applied = perform(run, ref, base if files else None)
    return Built(base, applied.tip, plan, applied.subjects, verdicts)


def _push(run: Run, settings: Config, built: Built, old: str | None) -> Outcome:
    """Move the branch, or remove it when it adds nothing. `said` is its tip where it stays as it is."""
    repo, branch = run.workspace.repo, settings.publish.branch
    if built.tip == built.base:
        return Outcome("done") if old is None else push_tip(repo, run.remote, branch, None, old)
    if old and is_ancestor(repo, built.base, old) and tree_of(repo, old) == tree_of(repo, built.tip):
        return Outcome("done", old)
    options = request_options(run.environ, run.branch) if _forge(run, settings) is None else ()
    return push_tip(repo, run.remote, branch, built.tip, old, options)


def _request(run: Run, settings: Config, built: Built, done: Published) -> Published:
    """The pull request opened, brought up to date, or closed; without a forge the branch alone."""
    forge = _forge(run, settings)
    if forge is None:
        why = f"the branch {settings.publish.branch} is pushed; no token for a forge: {_left_to_do(run)}"
        return msgspec.structs.replace(done, reason=why if built.tip != built.base else "nothing to propose")
    if built.tip == built.base:
        return msgspec.structs.replace(done, reason="nothing to propose", url=_close(forge, settings, run.branch))
    body = render_pull_request(_proposed(run, settings, built))
    return msgspec.structs.replace(done, url=_offer(forge, settings.publish.branch, run.branch, body))


def _forge(run: Run, settings: Config) -> Proposals | None:
    """The forge on which the pull request may be opened."""
    cache = run.workspace.repo.common_dir / "memory-ci" / "forge-cache"
    return choose_proposals(settings.forge, run.environ, cache)


def _left_to_do(run: Run) -> str:
    """What becomes of the branch where no forge can be asked."""
    if is_gitlab(run.environ):
        return "GitLab was asked for its merge request with the push"
    return "open its pull request by hand"


def _offer(forge: Proposals, branch: str, base: str, body: str) -> str:
    open_one = forge.find(branch, base)
    if open_one is None:
        return forge.open(branch, base, TITLE, body).url
    forge.update(open_one, TITLE, body)
    return open_one.url


def _close(forge: Proposals, settings: Config, base: str) -> str:
    """A forge closes it by itself when its branch is gone; one that was slower is told."""
    open_one = forge.find(settings.publish.branch, base)
    if open_one is None:
        return ""
    try:
        forge.close(open_one)
    except EngineError as error:
        if error.slug != "forge-refused":  # it is closed already
            raise
    return open_one.url


def _proposed(run: Run, settings: Config, built: Built) -> Proposed:
    """What the text of the pull request says."""
    workspace = Workspace(run.workspace.repo, settings)
    effect = Effect(*_size(workspace, built.base), *_size(workspace, built.tip), settings.retrieve.max_chars)
    return Proposed(
        plan=built.plan,
        kept=tuple(place.entry.title for place, _ in built.verdicts.written),
        rejected=tuple(line.partition(" ")[2] for line in built.verdicts.rejected),
        effect=effect,
        links=_links(run),
    )


def _size(workspace: Workspace, rev: str) -> tuple[int, int]:
    """How many entries a tree serves, and how many characters they are."""
    served = [place.entry for place in load_memory(workspace, rev).located if place.entry.status == "active"]
    return len(served), sum(len(format_entry(entry)) for entry in served)


def _links(run: Run) -> Links:
    server, name = run.environ.get("GITHUB_SERVER_URL", "https://github.com"), run.environ.get("GITHUB_REPOSITORY", "")
    if name:
        return Links(f"{server}/{name}/pull/", f"{server}/{name}/commit/")
    project = run.environ.get("CI_PROJECT_URL", "")
    return Links(f"{project}/-/merge_requests/", f"{project}/-/commit/") if project else Links("", "")
