"""The line that reports a violated check: the fault, who asked for the rule, and the remedy."""

from __future__ import annotations

from datetime import date

from memory_ci.checks.judge import ChangeFault
from memory_ci.records.check import SKIP_TRAILER, RuleCheck
from memory_ci.text import plural

MONTHS = (
    "January February March April May June July August September October November December"
).split()


def render_violation(rule: RuleCheck, fault: ChangeFault, today: date) -> str:
    """Return the line that reports a violation: the fault, the reason of the rule, what to do.

    >>> rule = RuleCheck(id="7f3a", name="7f3a", title="", check=None, sessions=2,
    ...     last=date(2026, 11, 12))
    >>> fault = ChangeFault("CHANGELOG.md is not touched", "add a line")
    >>> render_violation(rule, fault, date(2026, 11, 28)).partition(": ")[0]
    'CHANGELOG.md is not touched (asked in 2 sessions, last 12 November; 7f3a)'
    """
    why = render_why(rule, today)
    reason = f"{why}; {rule.name}" if why else rule.name
    skip = f"or {SKIP_TRAILER}: {rule.name} <reason>"
    return f"{fault.message} ({reason}): {fault.remedy}, {skip}"


def render_why(rule: RuleCheck, today: date) -> str:
    """Return how often people asked for a rule, or since when memory has it; "" if unknown."""
    day = _render_day(rule.last, today) if rule.last else ""
    if not rule.sessions:
        return f"a rule since {day}" if day else ""
    reason = f"asked in {plural(rule.sessions, 'session')}"
    return f"{reason}, last {day}" if day else reason


def _render_day(day: date, today: date) -> str:
    text = f"{day.day} {MONTHS[day.month - 1]}"
    return text if day.year == today.year else f"{text} {day.year}"
