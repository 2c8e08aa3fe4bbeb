"""The one comment on a pull request that changes code which entries cite: written, brought up to date, marked done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory_ci.errors import EngineError
from memory_ci.flows.publish.ci_event import CiJob
from memory_ci.flows.workspace import Workspace, workspace_at
from memory_ci.forge.selection import choose_comments
from memory_ci.gitrepo.repo import find_commit
from memory_ci.records.report import Finding
from memory_ci.rendering.plan import render_findings

MARKER = "<!-- memory-ci: cited code -->"
TITLE = "This change edits code that memory speaks about"
DONE = f"{MARKER}\nThis change no longer edits code that memory speaks about.\n"
MAX_BYTES = 60_000
"""Of a comment; GitHub takes 65,536 characters."""


def comment_on_cited(workspace: Workspace, job: CiJob, findings: Sequence[Finding], environ: Mapping[str, str]) -> str:
    """What became of the comment, "" where there is nothing to say. A forge that refuses does not fail the job.

    A fork has none: it could steer what is said. Whether there is one says the configuration of the base.
    """
    base = find_commit(workspace.repo, job.base) if job.base else None
    if job.number is None or job.is_fork or base is None:
        return ""
    config = workspace_at(workspace.repo, base).config
    if not config.ci.comment:
        return ""
    cited = [one for one in findings if one.code in ("anchor-changed", "anchor-gone")]
    body = f"{MARKER}\n{render_findings(TITLE, cited, MAX_BYTES - len(MARKER) - 1)}" if cited else DONE
    try:
        comments = choose_comments(config.forge, environ, workspace.repo.common_dir / "memory-ci" / "forge-cache")
        if comments is None:
            return ""
        known = comments.find(job.number, MARKER)
        if known is None and cited:
            comments.add(job.number, body)
            return "commented on the request"
        if known is None or known.body.replace("\r\n", "\n").strip() == body.strip():
            return ""
        comments.update(job.number, known, body)
    except EngineError as error:
        return f"no comment on the request: {error.message}"
    return "the comment on the request is up to date"
