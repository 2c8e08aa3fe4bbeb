"""Known failures: commands of agents that fail for the same reason in one session after another.

Only the misuse of a tool counts: an unknown option or subcommand, a missing program or script,
a refused hook, a lock. A failing test or a finding of a linter belongs to the current task.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from memory_ci.records.repetition import AwareTime, CommandRun, KnownFailure
from memory_ci.regex import Regex
from memory_ci.repetition.commands import CommandForm, list_forms, mask_line

LEAST_SESSIONS = 3
"""Sessions of a known failure. Two suffice if the same other form worked in both, or if what fails
is the environment, which no other form of the command avoids.
"""

NEXT_RUNS = 6
"""Number of commands after a failure that are searched for one that worked."""

MAX_LINES = 40  # Lines of output that are searched for the reason.
MAX_QUIET_LINES = 2  # Lines that are searched where the exit status is a success, as behind a pipe.
MAX_LINE = 200  # Characters of the line that says why.

MISUSE = Regex(
    r"unknown (?:shorthand )?(?:flag|option|command|subcommand|argument|json field)"
    r"|un(?:recognized|expected) (?:arguments?|option|subcommand|command|flag)"
    r"|no such (?:option|command|subcommand)|(?:invalid|illegal) (?:option|flag)"
    r"|command not found|: not found\s*$|is not (?:a|recognized as)\b.*\bcommand"
    r"|missing script|no rule to make target|no module named"
    r"|permission denied|operation not permitted|not a git repository"
    r"|ambiguous argument|did not match any file|ignored by one of your"
    r"|index\.lock|another git process|unable to create .*\.lock|could not lock"
    r"|hook (?:failed|declined|refused)|husky|protected branch|cannot find (?:main )?module"
    r"|required (?:flag|option|argument)|missing required|accepts (?:at most |between )?\d+ arg"
    r"|no matches found|no such file or directory",
    re.IGNORECASE,
)
"""The line of a tool that says it was used in the wrong way."""

ENVIRONMENT = Regex(
    r"command not found|: not found\s*$|no module named"
    r"|cannot find (?:main )?module|permission denied|operation not permitted|not a git repository",
    re.IGNORECASE,
)
"""The line of a tool or module that the environment lacks or refuses."""

TOOL_MESSAGE_START = Regex(
    r"\s*(?:\(eval\)|error|fatal|usage|unknown|unrecognized|invalid|\w[\w./-]*:)", re.IGNORECASE
)
"""The beginning of a line by which a tool speaks of itself, not of what it prints."""

TEST_OUTPUT = Regex(
    r"\w+_test\.\w+:\d|--- FAIL|\bpanic:|\bassert|\.go:\d+:|\.py\", line \d|\bat .*:\d+:\d+"
)
"""A line of a test, a compiler or a stack trace."""

OPTION_NAMED = Regex(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
CHANGED_DIRECTORY = Regex(r"(?:^|:)\s*cd:")
"""An error of the shell's own `cd`."""

SHELL_PREFIX = Regex(r"(?:\(eval\)|(?:/bin/)?(?:ba|z|da|k)?sh)(?::(?: line)? ?[\dN]+)?: ", re.I)
"""What a shell writes before its errors: its name and the line, which vary from one to the next."""

NOT_FOUND = Regex(r"(\S+): (?:command )?not found")
"""A missing program, as most shells say it; zsh names it last."""

MISSING_PROGRAM = "command not found"
HOOK_MESSAGE = Regex(r"\bhook\b|\bhusky\b", re.IGNORECASE)
SUBCOMMANDS_WITH_HOOKS = frozenset(("commit", "push", "merge", "rebase", "cherry-pick"))
"""Subcommands of git whose hooks may refuse."""

UNNAMED_FILE = Regex(r"PATH.*no such file|no matches found", re.IGNORECASE)
"""A missing file whose name was masked, or a pattern: the next session misses another one."""


class FailedRun(msgspec.Struct, frozen=True):
    """A command that failed by misuse, and what did the same afterwards.

    Attributes:
        session: the key of the session.
        at: when it failed.
        form: its form, with the option that the tool named.
        error: the line that says why, masked.
        worked: the form that worked next, "" if none did.
    """

    session: str
    at: AwareTime
    form: str
    error: str
    worked: str = ""


def list_failed(runs: Sequence[CommandRun]) -> list[FailedRun]:
    """Return the commands of a session that failed because a tool was misused, oldest first.

    Args:
        runs: all commands of the session, oldest first.
    """
    failed = []
    for index, run in enumerate(runs):
        error = find_misuse(run)
        if not error:
            continue
        form = _find_failed_form(run, error)
        if form is None:
            continue
        next_runs = runs[index + 1 : index + 1 + NEXT_RUNS]
        worked = _find_form_that_worked(form, next_runs)
        failed.append(
            FailedRun(
                session=run.session,
                at=run.at,
                form=_name_failed_form(form, error),
                error=error,
                worked=worked,
            )
        )
    return failed


def list_succeeded(runs: Iterable[CommandRun]) -> dict[str, datetime]:
    """Return when each form of command last succeeded in a session, by its text: `git push`."""
    succeeded: dict[str, datetime] = {}
    for run in runs:
        if run.ok and not find_misuse(run):
            for form in list_forms(run.command):
                succeeded[str(form)] = run.at
    return succeeded


def find_known_failures(
    failed: Iterable[FailedRun], success_times: Iterable[dict[str, datetime]] = ()
) -> list[KnownFailure]:
    """Return the failures that recur in several sessions, those of most sessions first.

    A failure whose form of command has succeeded since it last failed is left out.

    Args:
        failed: the failed commands of all sessions.
        success_times: for each session, when each form of command last succeeded.
    """
    success_times_by_session = list(success_times)
    runs_by_failure: defaultdict[tuple[str, str], list[FailedRun]] = defaultdict(list)
    for run in failed:
        runs_by_failure[run.form, run.error].append(run)

    failures = []
    for (form, error), runs in runs_by_failure.items():
        sessions = {run.session for run in runs}
        if not _is_repeated(runs, sessions):
            continue
        last_failure = max(run.at for run in runs)
        later_successes = find_successes(form, error, success_times_by_session)
        if any(time > last_failure for time in later_successes):
            continue
        failures.append(_summarise_failure(runs, len(sessions)))
    return sorted(failures, key=lambda failure: (-failure.sessions, failure.form))


def find_successes(
    failed_form: str, error: str, success_times_by_session: Iterable[Mapping[str, datetime]]
) -> list[datetime]:
    """Return when a command that is known to fail succeeded, in the order of the sessions.

    The form of a command is its program, subcommands and options without values: `gh pr diff
    --stat`. A command of the same form counts. If the program was missing, any command of it does.

    Args:
        failed_form: the form of the command that fails.
        error: the line of output that says why.
        success_times_by_session: for each session, when each form of command last succeeded.
    """
    success_times = []
    if MISSING_PROGRAM not in error:
        for time_by_form in success_times_by_session:
            if failed_form in time_by_form:
                success_times.append(time_by_form[failed_form])
        return success_times

    missing_program = failed_form.partition(" ")[0]
    for time_by_form in success_times_by_session:
        for form, time in time_by_form.items():
            if form.partition(" ")[0] == missing_program:
                success_times.append(time)
    return success_times


def find_misuse(run: CommandRun) -> str:
    """Return the line of a command's output that says how a tool was misused, masked.

    Where the exit status is a success, as behind a pipe, only the first lines count.

    Returns:
        "" for a command that succeeded, or failed for another reason, such as a failing test.
    """
    lines = []
    for line in run.output.splitlines():
        if line.strip() and not line.lower().startswith("exit code"):
            lines.append(line)
    searched = lines[:MAX_QUIET_LINES] if run.ok else lines[:MAX_LINES]
    for line in searched:
        if len(line) > MAX_LINE or TEST_OUTPUT.search(line) or not MISUSE.search(line):
            continue
        if run.ok and not TOOL_MESSAGE_START.match(line):
            continue
        masked = mask_line(line)
        return "" if UNNAMED_FILE.search(masked) else _without_shell(masked)
    return ""


def _without_shell(error: str) -> str:
    """Return an error of a shell without the shell's name and line, the same for all shells.

    >>> _without_shell("bash: line N: rg: command not found")
    'command not found: rg'
    """
    prefix = SHELL_PREFIX.match(error)
    if prefix is None:
        return error
    message = error[prefix.end() :]
    missing = NOT_FOUND.fullmatch(message)
    return f"command not found: {missing[1]}" if missing else message


def _is_repeated(runs: Sequence[FailedRun], sessions: set[str]) -> bool:
    """Return whether a failure occurs in enough sessions to be known.

    One session less suffices if the environment fails, or if the same other command always worked.
    """
    if len(sessions) >= LEAST_SESSIONS:
        return True
    if len(sessions) < LEAST_SESSIONS - 1:
        return False
    if ENVIRONMENT.search(runs[0].error):
        return True
    worked = {run.worked for run in runs}
    return len(worked) == 1 and "" not in worked


def _summarise_failure(runs: Sequence[FailedRun], session_count: int) -> KnownFailure:
    """Return what is known of a failure: how often and when it occurred, and what worked instead.

    Args:
        runs: the commands that failed, all of the same form and with the same error.
        session_count: the number of their sessions.
    """
    # The command that most often worked instead, "" if none did.
    working_forms = Counter(run.worked for run in runs if run.worked)
    most_common_form = ""
    if working_forms:
        most_common_form, _ = working_forms.most_common(1)[0]
    days = [run.at.date() for run in runs]
    last_run = max(runs, key=lambda run: run.at)
    return KnownFailure(
        form=runs[0].form,
        error=runs[0].error,
        worked=most_common_form,
        sessions=session_count,
        first=min(days),
        last=max(days),
        session=last_run.session,
    )


def _find_failed_form(run: CommandRun, error: str) -> CommandForm | None:
    """Return the form of the command that failed in a command line such as `cd app && make x`.

    That is the first command with an option that the error names, else the first whose program it
    names, else the first of all. If a hook failed, the commands of git that run hooks come first.
    """
    if CHANGED_DIRECTORY.search(error):
        return CommandForm("cd")
    forms = list_forms(run.command)
    if HOOK_MESSAGE.search(error):
        forms_with_hooks = []
        for form in forms:
            if form.program == "git" and SUBCOMMANDS_WITH_HOOKS & {*form.subcommands}:
                forms_with_hooks.append(form)
        forms = forms_with_hooks or forms

    named_options = OPTION_NAMED.findall(error)
    for form in forms:
        if any(option in named_options for option in form.options):
            return form
    for form in forms:
        if re.search(rf"(?<![\w-]){re.escape(form.program)}(?![\w-])", error):
            return form
    return forms[0] if forms else None


def _name_failed_form(form: CommandForm, error: str) -> str:
    """Return a form as text, with only those options that the error names."""
    named_options = set(OPTION_NAMED.findall(error))
    options = tuple(option for option in form.options if option in named_options)
    return str(form._replace(options=options))


def _find_form_that_worked(failed: CommandForm, next_runs: Iterable[CommandRun]) -> str:
    """Return the form of the next command that did the same thing and succeeded, "" for none.

    It has the same program and subcommand.
    """
    for run in next_runs:
        if not run.ok or find_misuse(run):
            continue
        for form in list_forms(run.command):
            is_alike = form.program == failed.program
            is_alike = is_alike and form.subcommands[:1] == failed.subcommands[:1]
            if is_alike and form != failed:
                return str(form)
    return ""
