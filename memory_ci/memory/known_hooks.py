"""Tools that test a rule better than a check of memory does: hooks of pre-commit, and linters.

A check is not proposed if a tool of the repository tests the rule already. If a known hook would
test it, its lines for `.pre-commit-config.yaml` are proposed instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from memory_ci.checks.habits import LOCK_FILE
from memory_ci.memory.workspace import Snapshot
from memory_ci.regex import Regex

MAX_SETTINGS = 200_000  # Bytes of a file of settings that are read.

SETTINGS = Regex(
    r"\.pre-commit-config\.yaml|lefthook\.ya?ml|\.husky/.+|package\.json|pyproject\.toml|setup\.cfg"
    r"|\.?ruff\.toml|\.flake8|commitlint\.config\.\w+|\.commitlintrc(?:\.\w+)?|\.czrc|\.gitlint"
    r"|\.?eslint[.\w]*|\.eslintrc[.\w]*|biome\.jsonc?|\.golangci\.ya?ml|\.github/workflows/[^/]+"
)
"""Files that say which tools test a change."""


class KnownHook(NamedTuple):
    """A hook of pre-commit that tests a rule.

    Attributes:
        rule: the words of such a rule.
        repo: where the hook comes from.
        rev: its version, of November 2026.
        id: its name.
        tool_names: names in the settings by which this tool, or one that tests the same, is found.
        stage: the stage in which it runs, "" for the usual one.
    """

    rule: Regex[str]
    repo: str
    rev: str
    id: str
    tool_names: tuple[str, ...]
    stage: str = ""


COMMON = "https://github.com/pre-commit/pre-commit-hooks"
HOOKS = (
    KnownHook(
        Regex(r"\bconventional[ -]commits?\b", re.IGNORECASE),
        "https://github.com/compilerla/conventional-pre-commit",
        "v4.3.0",
        "conventional-pre-commit",
        ("conventional-pre-commit", "commitlint", "commitizen", "gitlint", "semantic-pull-request"),
        "commit-msg",
    ),
    KnownHook(
        Regex(r"\btrailing (?:white ?space|spaces?|blanks?)\b", re.IGNORECASE),
        COMMON,
        "v6.0.0",
        "trailing-whitespace",
        ("trailing-whitespace", "prettier", "ruff-format", "biome", "editorconfig-checker"),
    ),
    KnownHook(
        Regex(r"\b(?:new ?line|line break)s? at (?:the )?(?:end|eof)\b", re.IGNORECASE),
        COMMON,
        "v6.0.0",
        "end-of-file-fixer",
        ("end-of-file-fixer", "prettier", "ruff-format", "biome", "editorconfig-checker"),
    ),
    KnownHook(
        Regex(r"\b(?:no|never|don't|do not)\b.*\bprivate keys?\b", re.IGNORECASE),
        COMMON,
        "v6.0.0",
        "detect-private-key",
        ("detect-private-key", "gitleaks", "detect-secrets", "trufflehog"),
    ),
    KnownHook(
        Regex(r"\b(?:no|never|don't|do not)\b.*\b(?:large|big|binary) files?\b", re.IGNORECASE),
        COMMON,
        "v6.0.0",
        "check-added-large-files",
        ("check-added-large-files",),
    ),
)

LINTED = (
    (Regex(r"\bf-?strings?\b", re.IGNORECASE), Regex(r"\bruff\b")),
    (
        Regex(r"\btype (?:annotation|hint)s?\b|\bannotat", re.IGNORECASE),
        Regex(r"disallow_untyped_defs|mypy --strict|strict ?= ?true|\bANN\d*\b|pyright"),
    ),
    (
        Regex(r"\bchangesets?\b", re.IGNORECASE),
        Regex(
            r"changeset status|(?:verify|validate|check|require|enforce)[\w -]*changeset"
            r"|changesets?[ _-](?:validat|verif|check|require|enforce|bot)",
            re.IGNORECASE,
        ),
    ),
    (Regex(r"\bprint\b", re.IGNORECASE), Regex(r"\bT20\d?\b|flake8-print")),
    (Regex(r"\bconsole\.log\b"), Regex(r"no-console|noConsole")),
    (Regex(r"\bdebugger\b|\bbreakpoint\b"), Regex(r"debug-statements|no-debugger")),
    (Regex(r"\b(?:TODO|FIXME)s?\b"), Regex(r"\bTD\d|\bFIX\d|no-warning-comments|godox")),
    (
        Regex(r"\bchangelog\b", re.IGNORECASE),
        Regex(r"changelog-enforcer|\bdanger(?:file|-js)\b|\bdanger ci\b", re.IGNORECASE),
    ),
    (
        Regex(r"\b(?:licen[cs]e headers?|SPDX)\b", re.IGNORECASE),
        Regex(r"insert-license|fsfe/reuse-(?:tool|action)|\breuse lint\b|addlicense"),
    ),
)
"""Words of a rule, and the settings of a tool that tests it."""

ENFORCED = Regex(
    r"\benforced? (?:by|in|with)\b|\benforces? (?:this|it)\b"
    r"|\b(?:lint(?:er)?|CI|check) (?:will )?fails?\b"
    r"|\bfails? (?:the )?(?:`?(?:errcheck|lint(?:er)?|CI|build|clippy|eslint|ruff|mypy)\b)",
    re.IGNORECASE,
)
"""Words of a rule by which something tests it already."""

LOCK_CHECK = Regex(
    r"\bnpm ci\b|--frozen|--locked|--immutable|\buv lock --check\b|\bpoetry check\b"
    r"|\bgo mod (?:tidy|verify)\b|\bpnpm (?:i|install)\b|\bbundle install --deployment\b"
)
"""Commands of CI that fail where a lock file does not fit."""


def read_hook_settings(snapshot: Snapshot) -> str:
    """Return the text of the files that say which tools test a change: of hooks, linters and CI."""
    paths = [path for path in snapshot.tree.files if SETTINGS.fullmatch(path)]
    contents = snapshot.tree.read(paths, MAX_SETTINGS)
    texts = [(content.data or b"").decode("utf-8", "replace") for content in contents]
    return "\n".join([*paths, *texts])


def find_hook(rule: str) -> KnownHook | None:
    """Return the hook that tests a rule, None if no known hook does."""
    for hook in HOOKS:
        if hook.rule.search(rule):
            return hook
    return None


def is_linted(rule: str, settings: str) -> bool:
    """Return whether a tool of the repository tests a rule already, or the rule says so itself.

    Args:
        rule: the rule in words.
        settings: the text of the files that say which tools test a change.
    """
    if ENFORCED.search(rule):
        return True
    for rule_words, tool_settings in LINTED:
        if rule_words.search(rule) and tool_settings.search(settings):
            return True
    return False


def is_lock_tested(globs: Iterable[str], settings: str) -> bool:
    """Return whether globs name a lock file, and CI fails where it does not fit."""
    return any(LOCK_FILE.fullmatch(glob) for glob in globs) and bool(LOCK_CHECK.search(settings))


def suggest_hook(rule: str, settings: str) -> str:
    """Return the lines for `.pre-commit-config.yaml` that add a hook to test a rule.

    Args:
        rule: the rule in words.
        settings: the text of the files that say which tools test a change, such as
            `.pre-commit-config.yaml` and workflows of CI.

    Returns:
        "" if no known hook tests the rule, or if the settings name a tool that does.
    """
    hook = find_hook(rule)
    if hook is None:
        return ""
    is_tested_already = any(tool_name in settings for tool_name in hook.tool_names)
    if is_tested_already:
        return ""
    stage = f"\n      stages: [{hook.stage}]" if hook.stage else ""
    return f"- repo: {hook.repo}\n  rev: {hook.rev}\n  hooks:\n    - id: {hook.id}{stage}"
