"""The text of the memory pull request: the proposed entries, their reasons and their effect.

Everything that comes from entries is in code spans, in which a forge sees no mention, no issue to
close, no HTML and no link (docs.github.com, "Basic writing and formatting syntax"). People answer
by ticking boxes, or by comments such as `/memory drop 3f2ab91c`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from memory_ci.cli.markdown import code_span, cut_lines, describe_cost
from memory_ci.findings import printable
from memory_ci.memory.commit_message import REFERENCE
from memory_ci.records.candidate import CheckProposal, Question, Suggestion
from memory_ci.records.entry import Entry, name_entry
from memory_ci.records.names import ORIGIN
from memory_ci.records.plan import Change, Plan
from memory_ci.records.retrieval import Task
from memory_ci.secrets import find_secrets
from memory_ci.sessions.backtest_text import describe_proposal
from memory_ci.store.episodes import list_ids
from memory_ci.text import plural, shorten

TITLE = "memory: what recent work taught"

SHOWN = 30
"""Number of lines of a section without boxes."""

SHOWN_BOXES = 200
"""Number of entries of a memory pull request that can be unticked."""

SHOWN_EPISODES = 10

DETAIL_BYTES = 30_000
"""Size of the origins and quotes of added entries; entries beyond have their titles alone."""

MAX_BYTES = 60_000
"""Size of the text. GitHub accepts 65,536 characters for the body of a pull request."""

CUT_NOTE = "The text ends here, for a pull request holds no more: see the files."

CLOSED = "Nothing is left to propose.\n\n"
"""The beginning of the text of a pull request that memory-ci closed."""

TITLE_WIDTH = 120
QUOTE_WIDTH = 240

SECTIONS = ("Changed", "Retired", "Moved")

TITLE_PREFIXES = {"Added": "", "Changed": "change ", "Retired": "retire ", "Moved": "move "}
"""The word before the title of an entry, by the section of its change.

The title of a pull request names the changes of earlier sections first.
"""

TITLE_LEARNING_WIDTH = 72
"""Length of a learning in the title, in characters."""

INTRODUCTION = (
    "memory-ci keeps this pull request up to date with each run; merge it to make it memory.",
    "Edit an entry on this branch and your words stay. Untick one, or take it out there: "
    "then the next run takes",
    "it out and does not propose it again, even if this is merged before. "
    "A comment can say the same:",
    "`/memory drop ID`, `/memory accept ID` for a candidate, `/memory restore ID`.",
)

WAITING_INTRODUCTION = (
    "Tick a candidate, and the next run writes it. Untick an entry that does not hold, "
    "and it takes it out.",
    "What you leave is not asked again for 90 days. `memory-ci review` has more answers.",
)


class Links(msgspec.Struct, frozen=True):
    """Address prefixes for the number of a pull request and the id of a commit.

    A prefix is "" if there is no such address.
    """

    pull: str = ""
    commit: str = ""


class Effect(msgspec.Struct, frozen=True):
    """The number of active entries and of their characters, before and after a pull request.

    `limit` is the number of characters that a job is served.
    """

    entries_before: int
    chars_before: int
    entries_after: int
    chars_after: int
    limit: int


class TaskAnswers(msgspec.Struct, frozen=True):
    """The change that a pull request makes to the entries served for a past task.

    Attributes:
        task: the task.
        gained_titles: titles of the entries that are served after it only.
        lost_titles: titles of the entries that are served before it only.
        unchanged_count: the number of entries that are served before and after it.
    """

    task: Task
    gained_titles: tuple[str, ...]
    lost_titles: tuple[str, ...]
    unchanged_count: int


class Declined(msgspec.Struct, frozen=True):
    """A pull request that was closed without a merge, and its titles that are proposed again."""

    number: int
    titles: tuple[str, ...]


class KeptItem(NamedTuple):
    """An entry or a file of the earlier branch that stays on the memory branch.

    Attributes:
        title: the title of the entry, or the path of the file.
        entry_id: the id of the entry; "" for a file.
    """

    title: str
    entry_id: str = ""


class Proposed(msgspec.Struct, frozen=True):
    """The content of the text of a memory pull request.

    Attributes:
        plan: the changes to memory.
        kept_items: the entries and files that stay on the branch: those that people wrote, and
            learnings of a range that an earlier run was asked for.
        rejected_lines: lines of the file of rejections.
        effect: the effect on the budget.
        links: the addresses of the forge.
        keys: the keys of all that is proposed, which a later run compares if this pull request is
            closed.
        declined: an earlier pull request that was closed without a merge.
        lost_titles: titles of entries that maintainers wrote and that are different here.
        suggestions: candidates that a person may accept.
        questions: the questions of the week that are about no candidate.
        accepted_keys: the keys of accepted candidates, by the ids of the entries that they became.
        answers: what changes for past tasks.
        last_comment: the number of the last comment that was applied.
        unclear_lines: lines of comments that could not be applied.
    """

    plan: Plan
    kept_items: tuple[KeptItem, ...]
    rejected_lines: tuple[str, ...]
    effect: Effect
    links: Links
    keys: tuple[str, ...] = ()
    declined: Declined | None = None
    lost_titles: tuple[str, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    questions: tuple[Question, ...] = ()
    accepted_keys: Mapping[str, str] = {}
    answers: tuple[TaskAnswers, ...] = ()
    last_comment: int = 0
    unclear_lines: tuple[str, ...] = ()

    @property
    def changes(self) -> list[Change]:
        """The changes of all steps."""
        return [change for step in self.plan.steps for change in step.changes]


def render_pull_request(proposed: Proposed) -> str:
    """Render the text of a pull request as Markdown; the same input gives the same text."""
    return cut_lines(_list_text_lines(proposed), MAX_BYTES, CUT_NOTE)


def _render_keys(keys: Iterable[str]) -> str:
    """Return the hidden first line of a request's text, which `parse_keys` reads."""
    joined_keys = "".join(f" {key}" for key in keys)
    return f"<!-- memory-ci holds:{joined_keys} -->"


def render_title(proposed: Proposed) -> str:
    """Return a title such as `memory: run migrations before the seed, and 3 more`.

    It names a learning, so that two requests have different titles. A squash puts the title into a
    commit message. So references such as `#128` and `@ada`, which make a forge link or notify, are
    removed from it, and a learning with a credential is not named.
    """
    names = list(dict.fromkeys(_name_entries(proposed) or _name_episodes(proposed.plan)))
    safe_names = [name for name in names if not find_secrets(name)]
    if not safe_names:
        return TITLE
    short_name = shorten(_lower_first(safe_names[0]), TITLE_LEARNING_WIDTH)
    words = printable(REFERENCE.sub("", short_name))
    others = f", and {len(names) - 1} more" if len(names) > 1 else ""
    return f"memory: {words}{others}"


def _name_entries(proposed: Proposed) -> list[str]:
    """Return a name for each proposed entry, such as `run migrations` or `retire run migrations`.

    Entries and files that stay on the branch come first, then the changes by section.
    """
    names = [item.title for item in proposed.kept_items]
    for section, prefix in TITLE_PREFIXES.items():
        for change in proposed.changes:
            if _find_section(change) == section:
                names.append(prefix + _lower_first(name_entry(change.entry)))
    return names


def _name_episodes(plan: Plan) -> list[str]:
    """Return a name for each new episode, such as `what became of pr-128`."""
    names = []
    for file in plan.episodes:
        for episode_id in list_ids(file.path, file.text.encode()):
            # The id of an amendment is that of its episode, `+`, and a suffix.
            names.append(f"what became of {episode_id.partition('+')[0]}")
    if not names and plan.unwritten.changes:
        names.append(f"read {plural(plan.unwritten.changes, 'merged change')}")
    return names


def _lower_first(title: str) -> str:
    """Return a title for the middle of a sentence, with a small first letter.

    A first word of capitals alone, such as `CI`, is unchanged.

    >>> _lower_first("Run migrations first"), _lower_first("CI runs them")
    ('run migrations first', 'CI runs them')
    """
    is_acronym = not title[1:2].islower()
    return title if is_acronym else title[0].lower() + title[1:]


def render_closed(text: str) -> str:
    """Render the text of a pull request that memory-ci closes.

    The keys are no longer at its beginning, so they do not count.
    """
    return text if text.startswith(CLOSED) else CLOSED + text


# -- the sections of the text


def _list_text_lines(proposed: Proposed) -> Iterator[str]:
    """Yield the lines of the request's text, section by section.

    The first two lines are HTML comments, which later runs read: the keys of all that is proposed,
    and the number of the last comment that was applied.
    """
    yield _render_keys(proposed.keys)
    yield f"<!-- memory-ci read comments: {proposed.last_comment} -->"
    yield from INTRODUCTION
    yield from _list_titles("Comments that no box answers to", proposed.unclear_lines)
    yield from _list_added(proposed)
    yield from _list_answers(proposed.answers, proposed.links)
    for section in SECTIONS:
        changes = [change for change in proposed.changes if _find_section(change) == section]
        lines = [f"- {_render_change(change)}" for change in changes]
        yield from _list_section(f"{section}: {plural(len(lines), 'entry')}", lines)
    yield from _list_episodes(proposed.plan)
    yield from _list_kept_items(proposed.kept_items)
    yield from _list_titles(
        "Edits on this branch that were dropped: the base or this run decided otherwise",
        proposed.lost_titles,
    )
    yield from _list_rejected(proposed.rejected_lines)
    yield from _list_questions(proposed)
    if proposed.declined is not None:
        yield from _list_declined(proposed.declined, proposed.links)
    yield ""
    yield _render_effect(proposed.effect)
    yield f"Cost: {describe_cost(proposed.plan.engine)}."


def _list_section(heading: str, lines: Sequence[str], limit: int = SHOWN) -> Iterator[str]:
    """Yield a heading and at most `limit` lines; nothing if there are no lines."""
    if not lines:
        return
    yield from ("", f"### {heading}", "", *lines[:limit])
    if len(lines) > limit:
        yield f"- and {len(lines) - limit} more: see the files"


def _list_titles(heading: str, titles: Sequence[str]) -> Iterator[str]:
    lines = [f"- {code_span(shorten(title, TITLE_WIDTH))}" for title in titles[:SHOWN]]
    yield from _list_section(heading, lines)


def _find_section(change: Change) -> str:
    """Return the section of the text that lists a change."""
    if change.step == "promote" or change.kind in ("move", "drop"):
        return "Moved"
    if change.step == "retire" or change.entry.status == "retired":
        return "Retired"
    return "Added" if change.kind == "add" else "Changed"


def _list_added(proposed: Proposed) -> Iterator[str]:
    """Yield a ticked box for each new entry, with its origins and its first quote.

    Beyond `DETAIL_BYTES` of origins and quotes, entries have their boxes alone.
    """
    free_bytes = DETAIL_BYTES
    lines: list[str] = []
    for change in proposed.changes:
        if _find_section(change) != "Added":
            continue
        entry = change.entry
        compute_candidate_key = proposed.accepted_keys.get(entry.id)
        subject = (
            f"candidate {compute_candidate_key}" if compute_candidate_key else f"entry {entry.id}"
        )
        line = f"- [x] {_render_change(change)} {code_span(entry.id)} <!-- {subject} -->"

        details = _list_details(entry, proposed.links)
        free_bytes -= sum(len(detail.encode("utf-8", "replace")) for detail in details)
        if free_bytes >= 0:
            line = "\n".join([line, *details])
        lines.append(line)
    yield from _list_section(f"Added: {plural(len(lines), 'entry')}", lines, SHOWN_BOXES)


def _list_details(entry: Entry, links: Links) -> list[str]:
    """Return lines on where an entry comes from, and with which words."""
    details: list[str] = []
    origins = _link_origins(entry.source or "", links)
    if origins:
        details.append(f"  - from {', '.join(origins)}")
    # A line of evidence is an address and the quoted words.
    quote = entry.evidence[0].partition(" ")[2] if entry.evidence else ""
    if quote:
        details.append(f"  - {_render_quote(quote)}")
    return details


def _render_quote(quote: str) -> str:
    return f"said: {code_span(shorten(quote, QUOTE_WIDTH))}"


def _list_answers(answers: Sequence[TaskAnswers], links: Links) -> Iterator[str]:
    """Yield which entries are served for past tasks, before and after the request is merged.

    For each task: how many entries stay the same, the titles that are served in addition, and the
    titles that are no longer served.
    """
    if not answers:
        return
    yield from ("", "### Entries served to agents: before and after", "")
    yield from ("The most similar past tasks, retrieved again:", "")
    for answer in answers:
        title = code_span(shorten(answer.task.title, TITLE_WIDTH))
        comparison = "nothing before"
        if answer.unchanged_count:
            comparison = f"{plural(answer.unchanged_count, 'entry')} as before"
        yield f"- {title} ({_link_task(answer.task, links)}): {comparison}"
        for gained_title in answer.gained_titles:
            yield f"  - also served: {code_span(shorten(gained_title, TITLE_WIDTH))}"
        for lost_title in answer.lost_titles:
            yield f"  - no longer served: {code_span(shorten(lost_title, TITLE_WIDTH))}"


def _link_task(task: Task, links: Links) -> str:
    if task.number and links.pull:
        return f"[{task.label}]({links.pull}{task.number})"
    if links.commit:
        return f"[{task.label}]({links.commit}{task.sha})"
    return code_span(task.label)


def _render_change(change: Change) -> str:
    title = shorten(name_entry(change.entry), TITLE_WIDTH)
    why = shorten(change.why, TITLE_WIDTH)
    return f"{code_span(title)} in {code_span(change.path)} ({code_span(why)})"


def _list_episodes(plan: Plan) -> Iterator[str]:
    """Yield the files of new episodes (records of merged changes), and how many need no file.

    Files of past months may be combined as well, into one file a month.
    """
    lines = [f"- {code_span(file.path)}" for file in plan.episodes]
    yield from _list_section(f"Episodes: {len(lines)}", lines, SHOWN_EPISODES)
    if plan.unwritten.changes:
        count = plural(plan.unwritten.changes, "merged change")
        yield ""
        yield f"Read, and recorded in one line each: {count} that git's history fully describes."
    if plan.fold_before is not None:
        yield ""
        yield f"Months of episodes that ended before {plan.fold_before} become one file each."


def _list_kept_items(items: Sequence[KeptItem]) -> Iterator[str]:
    """Yield a ticked box for each entry that stays on the branch; a file has no box."""
    lines: list[str] = []
    for item in items:
        label = code_span(shorten(item.title, TITLE_WIDTH))
        if item.entry_id:
            lines.append(f"- [x] {label} <!-- entry {item.entry_id} -->")
        else:
            lines.append(f"- {label}")
    yield from _list_section("Kept from this branch", lines)


def _list_rejected(rejected_lines: Sequence[str]) -> Iterator[str]:
    """Yield a box for each rejected entry, which restores it when ticked; episodes have no box.

    A line is the key of an entry and its title, or the path of an episode.
    """
    lines: list[str] = []
    for rejected_line in rejected_lines[:SHOWN]:
        key, _, title = rejected_line.partition(" ")
        if title:
            hint = f"(tick it, or restore {code_span(key[:8])}) <!-- rejected {key} -->"
            lines.append(f"- [ ] {code_span(title)} {hint}")
        else:
            lines.append(f"- {code_span(key)}")
    yield from _list_section("Not proposed again", lines)


def _list_questions(proposed: Proposed) -> Iterator[str]:
    """Yield this week's questions, each with a box.

    A candidate has a box to tick, so that it becomes an entry. A question about an entry has a
    ticked box, so that the entry is removed if a person unticks it. A question without an entry is
    about a candidate that was withheld: it has no box, because nobody may write it unchanged.
    """
    if not proposed.suggestions and not proposed.questions:
        return
    yield from ("", "### Waiting for you", "", *WAITING_INTRODUCTION, "")
    for suggestion in proposed.suggestions:
        yield from _list_candidate_box(suggestion, proposed.links)
    for question in proposed.questions:
        title = code_span(shorten(question.title, TITLE_WIDTH))
        if question.located:
            yield f"- [x] {title} <!-- entry {question.located.entry.id} -->"
        else:
            yield f"- {title}"
        yield f"  - {question.kind}: {code_span(shorten(question.why, QUOTE_WIDTH))}"


def _list_candidate_box(suggestion: Suggestion, links: Links) -> Iterator[str]:
    """Yield the box of a suggested candidate, with its quote and where it comes from.

    A candidate with a proposal is a check of later changes: its box has other words.
    """
    candidate = suggestion.candidate
    if candidate.proposal is not None:
        yield from _list_check_box(suggestion, candidate.proposal)
        return
    key = suggestion.key
    mark = "x" if suggestion.is_accepted else " "
    title = code_span(shorten(candidate.title, TITLE_WIDTH))
    change_count = len(suggestion.changes)
    times = f" (said in {change_count} changes)" if change_count > 1 else ""
    yield f"- [{mark}] {title}{times} {code_span(key[:8])} <!-- candidate {key} -->"

    details = _link_origins(candidate.source, links)
    if candidate.quotes and candidate.quotes[0].text:
        details.insert(0, _render_quote(candidate.quotes[0].text))
    yield f"  - {', '.join(details)}; {code_span(suggestion.reason)}"


def _list_check_box(suggestion: Suggestion, proposal: CheckProposal) -> Iterator[str]:
    """Yield the box of a proposed check, and lines on the merged changes that violate it."""
    mark = "x" if suggestion.is_accepted else " "
    key = suggestion.key
    title = code_span(shorten(suggestion.candidate.title, TITLE_WIDTH))
    box = f"- [{mark}] remind agents of this before a commit: {title}"
    yield f"{box} {code_span(key[:8])} <!-- candidate {key} -->"
    for line in describe_proposal(proposal):
        yield f"  - {code_span(line)}"


def _list_declined(declined: Declined, links: Links) -> Iterator[str]:
    """Yield lines on an earlier request that people closed, with the titles proposed again."""
    name = f"pull request {declined.number}"
    yield from _list_titles(f"Closed before, in {name}", declined.titles)
    link = f"[{name}]({links.pull}{declined.number})" if links.pull else name
    yield ""
    yield f"{link} was closed without a merge."
    yield (
        "What it proposed is repeated here only because there is something new as well. Remove on "
        "this branch"
    )
    yield "what is not wanted, and it is not proposed again."


def _render_effect(effect: Effect) -> str:
    """Return the line on the size of memory before and after, and on the limit for one job."""
    return (
        f"Budget: {plural(effect.entries_before, 'active entry')} become {effect.entries_after}, "
        f"{effect.chars_before:,} characters become {effect.chars_after:,}; "
        f"a job is served at most {effect.limit:,} of them."
    )


def _link_origins(source: str, links: Links) -> list[str]:
    """Return links to the pull requests and commits that a source names."""
    origins: list[str] = []
    for match in re.finditer(ORIGIN, source):
        number, sha = match["number"], match["sha"]
        if number and links.pull:
            origins.append(f"[pull request {number}]({links.pull}{number})")
        elif not number and links.commit:
            origins.append(f"[commit {sha[:10]}]({links.commit}{sha})")
    return origins
