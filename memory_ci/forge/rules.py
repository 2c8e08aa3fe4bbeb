"""Recognise which rule of GitHub or GitLab refused a push, and name the settings that help.

A rule is recognised by the words of GitHub and GitLab on a push or in a reply. For other words the
words alone are shown. docs/platform.md has the table, and a test compares.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class ForgeRule(NamedTuple):
    """A rule of a repository.

    Attributes:
        name: its name.
        words: the pattern of the forge's words for it.
        setting: the setting with which memory lands under it.
    """

    name: str
    words: re.Pattern[str]
    setting: str


def _rule(name: str, words: str, setting: str) -> ForgeRule:
    """Return a rule; `words` is a regular expression, in any case."""
    return ForgeRule(name, re.compile(words, re.IGNORECASE), setting)


RULES = (
    _rule(
        "pull-request",
        r"must be made through a pull request"
        r"|not allowed to push (?:code )?to (?:a )?protected branch",
        "publish.mode: pr, or auto",
    ),
    _rule(
        "required-checks",
        r"required status checks? ",
        "publish.mode: pr, and the token of an App (app-client-id, app-private-key): then "
        "checks start on the request",
    ),
    _rule(
        "required-reviews",
        r"approving review|changes have been requested",
        "publish.mode: pr, publish.reviewers",
    ),
    _rule("code-owners", r"code ?owner", "publish.mode: pr"),
    _rule(
        "linear-history",
        r"must not contain merge commits",
        "publish.mode: pr, publish.auto_merge: squash",
    ),
    _rule(
        "signed-commits",
        r"verified signature|must be signed|unsigned commit|unverified",
        "publish.mode: api (GitHub signs), or publish.sign: true with a key of the runner "
        "and its publish.author",
    ),
    _rule("sign-off", r"\bDCO\b|sign(?:ed)?-?off", "publish.signoff: true"),
    _rule(
        "email-pattern",
        r"e-?mail .*(?:does not follow the pattern|must match|is not verified)|GH007",
        "publish.author: NAME <MAIL>, with an address that the rule admits",
    ),
    _rule(
        "message-pattern",
        r"commit message (?:does not follow|must match|contains the forbidden)",
        "let the rule admit messages that begin with `memory: `",
    ),
    _rule(
        "merge-queue",
        r"merge queue",
        "publish.mode: pr, publish.auto_merge; memory.yml on merge_group",
    ),
    _rule(
        "no-bot-requests",
        r"not permitted to create or approve pull requests",
        "Settings, Actions, General: Allow GitHub Actions to create and approve pull "
        "requests; or the token of an App",
    ),
    _rule(
        "no-force-push",
        r"force[- ]push|not allowed to force",
        "leave the branches memory-ci/* out of the rule, or name others: publish.branch",
    ),
    _rule(
        "protected-refs",
        r"creations being restricted|cannot (?:create|update) (?:this )?(?:protected )?ref"
        r"|protected tag",
        "leave the branches memory-ci/* out of the rule, or name others: publish.branch; "
        "no tag is pushed",
    ),
    _rule(
        "auto-merge",
        r"auto[- ]?merge is not (?:allowed|enabled)",
        "Settings, General: Allow auto-merge",
    ),
    _rule(
        "nothing-to-wait-for",
        r"in clean status",
        "no rule asks for anything before the merge: merge it by hand",
    ),
    _rule(
        "permission",
        r"resource not accessible by|permission to .* denied|returned error: 403|denied to ",
        "give the token contents: write and pull-requests: write (GitLab: api, "
        "write_repository, role Developer)",
    ),
)


def find_rules(message: str) -> tuple[ForgeRule, ...]:
    """Return the rules that a forge's message names, in the order of the table."""
    return tuple(rule for rule in RULES if rule.words.search(message))


def format_settings(message: str, default: str) -> str:
    """Return a hint on the settings to change, for the rules that a forge's message names.

    Args:
        message: the message.
        default: returned if the message names no rule of the table.

    >>> format_settings("remote: - Commits must have a DCO signoff", "Ask.")
    'Rule sign-off: publish.signoff: true.'
    """
    settings = [f"Rule {rule.name}: {rule.setting}." for rule in find_rules(message)]
    return " ".join(settings) or default
