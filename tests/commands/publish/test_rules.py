"""Tests of twelve rule sets of forges: memory can be merged, or the refusal names the setting to change.

A pre-receive hook applies the rules that a forge checks on a push, with the forge's own messages; a double of the
API applies those that it checks on a request.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_ci.commands.ci.event import github_job
from memory_ci.errors import EngineError, RepositoryError
from memory_ci.forge.rules import RULES, find_rules, format_settings
from tests.make import make_entry
from tests.project import DECIDED, Project
from tests.remote import UPDATE, GitHubDouble, Publisher, Remote
from tests.servers import Server, json_answer

DOCS = Path(__file__).parents[3] / "docs" / "platform.md"
EACH = 'for sha in $(git rev-list $new --not --all); do {check} || {{ echo "{words}" >&2; exit 1; }}; done'
GH013 = (
    'test "$ref" = refs/heads/main && '
    '{{ echo "error: GH013: Repository rule violations found for $ref."; echo "- {words}"; }} >&2 && exit 1'
)


class Case:
    """A rule set, and what a project that publishes to the forge must do under it."""

    def __init__(
        self, remote: Remote, forge: GitHubDouble, publish: Publisher, scratch: Path
    ) -> None:
        self.remote, self.forge, self.publish, self.scratch = remote, forge, publish, scratch

    def configure(self, text: str) -> None:
        """Put a configuration on the forge's branch, as an owner does, past the rules."""
        project = self.publish.project
        project.commit("Configure", {".memory-ci.yaml": f"publish: {{{text}}}\n"})
        self.bring()

    def bring(self) -> None:
        """Put the project's commits on the forge's branch, as if they were merged there."""
        self.remote.git("fetch", "-q", str(self.publish.project.path), "+main:refs/heads/main")

    def work(self) -> None:
        self.publish.project.merge_work(
            DECIDED.format(name="refund"), "refund", 129, "src/refund.py"
        )
        self.bring()

    def merge(self) -> None:
        """Merge by the forge's button: one commit on the branch, without hooks, with all messages."""
        tree = self.remote.git("rev-parse", f"{UPDATE}^{{tree}}")
        bodies = self.remote.git("log", "--reverse", "--format=* %B", f"main..{UPDATE}")
        made = self.remote.git(
            "commit-tree", tree, "-p", "main", "-m", f"memory: learned (#7)\n\n{bodies}"
        )
        self.remote.git("update-ref", "refs/heads/main", made)
        self.remote.git("update-ref", "-d", f"refs/heads/{UPDATE}")
        self.forge.pulls[-1] |= {"state": "closed", "merged_at": "2026-11-21T12:00:00Z"}

    def lands_by_request(self, words: str) -> None:
        """Assert that a push is refused with these words, and that the request can be merged and leaves nothing."""
        published = self.publish("auto")
        assert words in published.reason
        assert published.url == self.forge.pulls[-1]["html_url"]
        assert "[skip ci]" not in self.remote.git("log", "--format=%B", f"main..{UPDATE}")
        self.merge()
        assert self.publish("pr").reason.startswith("nothing to propose")

    def lands_by_push(self) -> None:
        assert self.publish("push").tip == self.remote.sha("main")

    def is_refused(self, setting: str, mode: str = "push") -> None:
        with pytest.raises((RepositoryError, EngineError)) as caught:
            self.publish(mode)  # type: ignore[arg-type] # a mode of the test
        assert caught.value.slug in ("push-refused", "forge-refused")
        assert setting in (caught.value.hint or "")


def required_checks(case: Case) -> None:
    words = 'Required status check \\"test\\" is expected.'
    case.remote.run_before_receive(GH013.format(words=words))
    case.lands_by_request(words.replace("\\", ""))


def required_reviews(case: Case) -> None:
    words = "At least 1 approving review is required by reviewers with write access."
    case.remote.run_before_receive(GH013.format(words=words))
    case.configure("reviewers: [ann, acme/platform]")
    case.lands_by_request(words)
    assert case.forge.requests == [
        ("requested_reviewers", {"reviewers": ["ann"], "team_reviewers": ["platform"]})
    ]


def stale_dismissal(case: Case) -> None:
    case.publish("pr")
    case.forge.review("APPROVED")
    case.remote.refuse(f"refs/heads/{UPDATE}", "this push would dismiss the approval")
    case.work()
    assert "is approved" in case.publish("pr").reason
    case.remote.run_before_receive("true")
    case.merge()
    case.forge.reviews.clear()
    assert case.publish("pr").url == case.forge.pulls[1]["html_url"]


def code_owners(case: Case) -> None:
    words = "Waiting on code owner review from acme/billing."
    case.remote.run_before_receive(GH013.format(words=words))
    project = case.publish.project
    project.commit(
        "Owners", {".github/CODEOWNERS": "/billing/ @acme/billing\n", "billing/bill.py": "one\n"}
    )
    project.put_fragment(make_entry(201, scope="team:billing"))
    case.lands_by_request(words)


def linear_history(case: Case) -> None:
    words = "This branch must not contain merge commits."
    case.remote.run_before_receive(
        EACH.format(check='test -z "$(git rev-list --merges $new --not --all)"', words=words)
    )
    case.lands_by_push()


def signed_commits(case: Case) -> None:
    key = case.scratch / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    signers = case.scratch / "signers"
    signers.write_text(f"memory@acme.example {key.with_suffix('.pub').read_text()}")
    case.remote.git("config", "gpg.ssh.allowedSignersFile", str(signers))
    words = "Commits must have verified signatures."
    case.remote.run_before_receive(
        EACH.format(check="git verify-commit $sha 2>/dev/null", words=words)
    )
    case.is_refused("publish.sign: true")
    for name, value in {"gpg.format": "ssh", "user.signingkey": str(key)}.items():
        case.publish.project.git("config", name, value)
    case.configure("author: 'Memory <memory@acme.example>', sign: true")
    case.lands_by_push()


def sign_off(case: Case) -> None:
    words = "Commit message must contain a DCO signoff"
    check = 'git log -1 --format=%B $sha | grep -q "^Signed-off-by: $(git log -1 --format="%an <%ae>" $sha)\\$"'
    case.remote.run_before_receive(EACH.format(check=check, words=words))
    case.is_refused("publish.signoff: true")
    case.configure("signoff: true")
    case.lands_by_push()
    assert case.publish("push").subjects == (), "the trailers of the run are read as before"


def email_pattern(case: Case) -> None:
    words = "GitLab: Committer's e-mail 'x' does not follow the pattern '@acme.example'"
    check = 'git log -1 --format="%ce %ae" $sha | grep -q "@acme.example .*@acme.example"'
    case.remote.run_before_receive(EACH.format(check=check, words=words))
    case.is_refused("publish.author")
    case.configure("author: 'Memory <memory@acme.example>'")
    case.lands_by_push()


def merge_queue(case: Case) -> None:
    words = "Changes must be made through the merge queue"
    case.remote.run_before_receive(GH013.format(words=words))
    case.configure("auto_merge: squash")
    case.lands_by_request(words)
    (what, asked), *_ = case.forge.requests
    assert (what, asked["variables"]["input"]["mergeMethod"]) == ("auto-merge", "SQUASH")
    assert (
        github_job({"GITHUB_EVENT_NAME": "merge_group"}, b'{"merge_group": {"base_sha": "1"}}').kind
        == "verify"
    )


def path_filters(case: Case) -> None:
    """A required check that a path filter skips is reported only for a skipped job, never for `[skip ci]`."""
    case.remote.run_before_receive(
        EACH.format(
            check='! git log -1 --format=%B $sha | grep -q "skip ci"', words="no check reported"
        )
    )
    case.publish("pr")
    case.merge()
    assert case.publish("pr").reason == "nothing to propose"


def no_bot_requests(case: Case) -> None:
    words = "GitHub Actions is not permitted to create or approve pull requests."
    case.forge.answers["open"] = json_answer({"message": words}, 403)
    case.is_refused(
        "Allow GitHub Actions to create and approve pull requests; or the token of an App", "pr"
    )
    del case.forge.answers["open"]  # the token of an App
    case.publish("pr")
    case.merge()


def protected_tags(case: Case) -> None:
    case.remote.run_before_receive(
        'case "$ref" in refs/tags/*) echo "You are not allowed to create this protected tag"; exit 1;; esac'
    )
    case.lands_by_push()
    assert case.remote.git("tag") == ""


CASES: dict[str, Callable[[Case], None]] = {
    "required checks": required_checks,
    "required reviews": required_reviews,
    "stale dismissal": stale_dismissal,
    "code owners": code_owners,
    "linear history": linear_history,
    "signed commits": signed_commits,
    "sign-off (DCO)": sign_off,
    "e-mail pattern": email_pattern,
    "merge queue": merge_queue,
    "path-filtered checks": path_filters,
    "no requests by bots": no_bot_requests,
    "protected tags": protected_tags,
}


@pytest.fixture
def case(
    project: Project, remote: Remote, forge: GitHubDouble, server: Server, tmp_path: Path
) -> Case:
    return Case(remote, forge, Publisher(project, forge.environ(server.url)), tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_memory_is_merged_under_the_rules_or_the_refusal_names_the_setting(
    case: Case, name: str
) -> None:
    CASES[name](case)


def rows() -> dict[str, list[str]]:
    """Return the table in the documents: the cells of each rule set."""
    table = DOCS.read_text().split("### Under the rules of a repository")[1].split("\n### ")[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {row[0]: row for row in cells[1:]}


def test_the_table_of_the_documents_has_the_rule_sets_and_the_settings_of_the_code() -> None:
    rows_by_rule = rows()
    assert list(rows_by_rule) == list(CASES)
    for _, words, _, setting in rows_by_rule.values():
        for quoted in re.findall(r"`([^`]+)`", words):
            assert {rule.setting for rule in find_rules(quoted)} == {setting}, quoted


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (
            "GH006: Protected branch update failed; 3 of 3 required status checks are expected.",
            "required-checks",
        ),
        (
            "GitLab: You are not allowed to push code to protected branches on this project.",
            "pull-request",
        ),
        (
            "GitLab: You are not allowed to force push code to a protected branch on this project.",
            "no-force-push",
        ),
        ("error: GH007: Your push would publish a private email address.", "email-pattern"),
        ("Cannot create ref due to creations being restricted.", "protected-refs"),
        ("Resource not accessible by integration", "permission"),
        ("Pull request Auto merge is not allowed for this repository", "auto-merge"),
        ("Pull request Pull request is in clean status", "nothing-to-wait-for"),
        ("GitLab: Commit message does not follow the pattern 'JIRA-\\d+'", "message-pattern"),
    ],
)
def test_the_words_of_the_forges_name_their_rule(said: str, name: str) -> None:
    assert [rule.name for rule in find_rules(said)] == [name]
    assert format_settings(said, "").startswith(f"Rule {name}: ")


def test_words_that_are_not_known_are_shown_as_they_are(case: Case) -> None:
    case.remote.refuse("refs/heads/main", "The moon is full")
    with pytest.raises(RepositoryError) as caught:
        case.publish("push")
    assert "The moon is full" in caught.value.message
    assert "Let the rules of the branch admit memory-ci" in (caught.value.hint or "")
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_a_refused_action_on_a_request_is_reported_and_the_request_stays(
    case: Case,
) -> None:
    words = "Pull request Auto merge is not allowed for this repository"
    case.forge.answers = {
        "auto-merge": json_answer({"data": None, "errors": [{"message": words}]}),
        "labels": json_answer({"message": "Resource not accessible by integration"}, 403),
    }
    case.configure("labels: [memory], auto_merge: squash")
    published = case.publish("pr")
    assert published.url == case.forge.pulls[0]["html_url"]
    assert (
        f"publish.auto_merge failed: 127.0.0.1 refused: {words}. It needs contents: write"
        in published.reason
    )
    assert "publish.labels failed" in published.reason
    assert "Resource not accessible by integration" in published.reason
    case.work()
    case.publish("pr")
    assert [what for what, _ in case.forge.requests] == ["labels", "auto-merge", "auto-merge"], (
        "labels are the reviewers'"
    )


def test_a_maintainer_s_words_stay_where_another_author_commits(case: Case) -> None:
    case.publish("pr")
    case.configure("author: 'Memory <memory@acme.example>', signoff: true")
    tip = case.publish("pr").tip
    body = case.remote.git("log", "-1", "--format=%an <%ae> %cn%n%B", tip)
    assert body.startswith("Memory <memory@acme.example> Memory")
    assert body.rstrip().endswith("Signed-off-by: Memory <memory@acme.example>")
    case.work()
    case.publish("pr")
    assert "Kept from this branch" not in case.forge.pulls[0]["body"], (
        "our own commits are no decision of theirs"
    )
