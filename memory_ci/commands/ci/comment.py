"""The comment on a pull request that changes code which memory entries cite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory_ci.commands.ci.event import CiJob
from memory_ci.commands.record.text import render_findings
from memory_ci.errors import EngineError
from memory_ci.forge.selection import choose_proposals
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.workspace import Workspace, workspace_at
from memory_ci.records.config import Config
from memory_ci.records.report import Finding

MARKER = "<!-- memory-ci: cited code -->"
TITLE = "This change edits code that entries of memory cite"
NO_LONGER_CITED_COMMENT = (
    f"{MARKER}\nThis change no longer edits code that entries of memory cite.\n"
)
MAX_BYTES = 60_000  # GitHub takes 65,536 characters.
CITED_CODE_FINDINGS = ("anchor-changed", "anchor-gone")


def comment_on_cited(
    workspace: Workspace, job: CiJob, findings: Sequence[Finding], environ: Mapping[str, str]
) -> str:
    """Add or update the comment on a pull request that changes cited code.

    The configuration of the base decides whether there is a comment. A fork gets none, because it
    could steer the text of the comment.

    Args:
        workspace: the repository.
        job: the task of the job, with the pull request.
        findings: the findings on the change.
        environ: environment variables, which name the forge.

    Returns:
        The action taken, in words; "" if there is nothing to say. A refusal of the forge is
        returned as well, because it does not fail the job.
    """
    base = find_commit(workspace.repo, job.base) if job.base else None
    if job.number is None or job.is_fork or base is None:
        return ""
    config = workspace_at(workspace.repo, base).config
    if not config.ci.comment:
        return ""
    cited_findings = [finding for finding in findings if finding.code in CITED_CODE_FINDINGS]
    try:
        return _update_comment(workspace, config, job.number, cited_findings, environ)
    except EngineError as error:
        return f"no comment on the request: {error.message}"


def _update_comment(
    workspace: Workspace,
    config: Config,
    number: int,
    cited_findings: Sequence[Finding],
    environ: Mapping[str, str],
) -> str:
    """Write the comment on the forge, if its text changes.

    A comment that was written before stays when the change no longer touches cited code, and says
    so.

    Args:
        workspace: the repository.
        config: the configuration of the base.
        number: the number of the pull request.
        cited_findings: the findings on cited code.
        environ: environment variables, which name the forge.

    Returns:
        The action taken, in words; "" for none.

    Raises:
        EngineError: `forge-…`.
    """
    cache = workspace.repo.common_dir / "memory-ci" / "forge-cache"
    forge = choose_proposals(config.forge, environ, cache)
    if forge is None:
        return ""
    body = NO_LONGER_CITED_COMMENT
    if cited_findings:
        body = f"{MARKER}\n{render_findings(TITLE, cited_findings, MAX_BYTES - len(MARKER) - 1)}"
    comment = forge.find_comment(number, MARKER)
    if comment is None:
        if not cited_findings:
            return ""
        forge.add_comment(number, body)
        return "commented on the request"
    if comment.body.replace("\r\n", "\n").strip() == body.strip():
        return ""
    forge.update_comment(number, comment, body)
    return "the comment on the request is up to date"
