"""Files and tasks (`make lint`) that a text names and the repository does not have any more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory_ci.gitrepo.history import list_commits_replacing
from memory_ci.gitrepo.log import is_deleted
from memory_ci.memory.workspace import Snapshot
from memory_ci.regex import Regex

MAX_TASK_FILES = 20  # Files of tasks that are read.
MAX_TASK_FILE = 1_000_000  # Bytes of a file of tasks that are read.

NAMED_PATH = Regex(r"(?<![\w./@-])(?:[\w.-]+/)*[\w-][\w.-]*\.[A-Za-z]\w{0,7}(?![\w/-])")
"""A path or a file name with an ending, as `docs/style.md` or `CHANGELOG.md`."""

NAMED_TASK = Regex(
    r"(?:\b(?P<runner>npm run|pnpm run|yarn run|mise run)|`(?P<word>make|just|task))"
    r" (?P<task>[a-z](?:[\w:.-]*\w)?)"
)
"""A task of a runner, as `npm run lint`. Runners that are English words count only as code."""

TASK_FILES = {
    "npm run": r"(?:.*/)?package\.json",
    "pnpm run": r"(?:.*/)?package\.json",
    "yarn run": r"(?:.*/)?package\.json",
    "make": r"(?:.*/)?(?:GNU)?[Mm]akefile|.*\.mk",
    "just": r"(?:.*/)?\.?justfile",
    "mise run": r"(?:.*/)?\.?mise(?:\.\w+)?\.toml|(?:.*/)?\.?mise/(?:config|tasks).*|mise-tasks/.*",
    "task": r"(?:.*/)?Taskfile\.ya?ml",
}
"""The files in which each runner's tasks are defined."""


def describe_gone_name(tip: Snapshot, text: str) -> str:
    """Return which file or task that a text names is gone: `docs/style.md is gone`, or "".

    A file is gone if history has removed it and no file has its name.
    """
    return _describe_gone_file(tip, text) or _describe_gone_task(tip, text)


def _describe_gone_file(tip: Snapshot, text: str) -> str:
    """Return which file that a text names was removed, as `docs/style.md is gone`; "" for none.

    A file that was only moved is not gone.
    """
    named_paths = [path.removeprefix("./") for path in NAMED_PATH.findall(text)]
    if not named_paths:
        return ""
    names = {_base_name(path) for path in tip.tree.files}
    for path in named_paths:
        if _base_name(path) not in names and is_deleted(tip.workspace.repo, tip.sha, path):
            return f"{path} is gone"
    return ""


def _base_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _describe_gone_task(tip: Snapshot, text: str) -> str:
    """Return which task that a text names was removed, as `make lint is gone`; "" for none.

    A task is removed if the files of its runner named it once, and no longer do. Where the
    repository has no such file, or none ever named it, the task is another project's.
    """
    for match in NAMED_TASK.finditer(text):
        runner = match["runner"] or match["word"]
        name = re.split(":+", match["task"])[-1]  # `unit` of `npm run test:unit`
        paths = _list_task_files(tip, runner)
        if _mentions_task(tip, paths, name):
            continue
        repo = tip.workspace.repo
        if any(list_commits_replacing(repo, tip.sha, path, name) for path in paths):
            return f"{match[0].lstrip('`')} is gone"
    return ""


def _list_task_files(tip: Snapshot, runner: str) -> list[str]:
    """Return the first MAX_TASK_FILES files that define the tasks of a runner such as `make`."""
    pattern = re.compile(TASK_FILES[runner])
    return [path for path in tip.tree.files if pattern.fullmatch(path)][:MAX_TASK_FILES]


def _mentions_task(tip: Snapshot, paths: Sequence[str], name: str) -> bool:
    """Return whether one of some files has a task's name as a word, in its path or its text."""
    word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    contents = [content.data or b"" for content in tip.tree.read(paths, MAX_TASK_FILE)]
    texts = [*paths, *(content.decode("utf-8", "replace") for content in contents)]
    return any(word.search(text) for text in texts)
