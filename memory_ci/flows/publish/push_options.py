"""Push options: what GitLab is told together with a push (docs.gitlab.com, "Push options").

They are sent in a job of GitLab alone. Each is one line, and none has words of entries in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from memory_ci.rendering.pull_request import TITLE

SKIP_PIPELINE = "ci.skip"
"""Unlike `[skip ci]` it is said of one push and stands in no commit, so that nothing can copy it."""

DESCRIPTION = (
    "What memory would gain from merged work: the commits say it entry by entry. Maintainers have the last word on "
    "this branch: an entry taken out is not proposed again, one reworded keeps their words."
)


def branch_options(environ: Mapping[str, str]) -> tuple[str, ...]:
    """For commits of ours on the default branch: the pipeline of a branch would find nothing to do."""
    return (SKIP_PIPELINE,) if is_gitlab(environ) else ()


def request_options(environ: Mapping[str, str], base: str) -> tuple[str, ...]:
    """Ask for a merge request into `base`; one that is open already is given the same title and text again."""
    if not is_gitlab(environ):
        return ()
    told = {"target": base, "title": TITLE, "description": DESCRIPTION}
    return ("merge_request.create", *(f"merge_request.{name}={value}" for name, value in told.items()))


def is_gitlab(environ: Mapping[str, str]) -> bool:
    """Whether this is a job of GitLab, so that its remote is GitLab's as a rule."""
    return "GITLAB_CI" in environ
