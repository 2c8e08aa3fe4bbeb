"""The text of the memory pull request: what would change in memory, why, and what that does to the budget.

Everything that comes from entries stands in code spans, in which a forge sees no mention, no issue to close, no HTML
and no link (docs.github.com, "Basic writing and formatting syntax").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from memory_ci.cli.markdown import code, describe_cost, fit
from memory_ci.findings import printable
from memory_ci.lifecycle.relations import MIN_PREFIX
from memory_ci.memory.commit_message import REFERENCE
from memory_ci.memory.maintainer_decisions import Boxes
from memory_ci.records.candidate import Question, Suggestion
from memory_ci.records.entry import Entry, name_entry
from memory_ci.records.names import ORIGIN
from memory_ci.records.plan import Change, Plan
from memory_ci.records.retrieval import Task
from memory_ci.secrets import find_secrets
from memory_ci.text import plural, shorten, strip_comments, unfenced_lines

TITLE = "memory: what recent work taught"
SHOWN = 30  # Entries of one section without boxes.
SHOWN_BOXES = 200  # Entries that can be unticked.
DETAIL_BYTES = (
    30_000  # Of where they come from and what was said; what is over has its title alone.
)
SHOWN_EPISODES = 10
MAX_BYTES = 60_000  # The body of a pull request holds 65,536 characters (GitHub).
CUT = "The text ends here, for a pull request holds no more: see the files."
HELD = re.compile(r"\A<!-- memory-ci holds:(?P<keys>(?: [0-9a-f]+)*) -->$", re.MULTILINE)
"""The first line of the text, which a forge does not show: the keys of what the pull request holds."""

MAX_LINES = 100  # Of one comment, and keys of one line.
BOX = re.compile(
    r"^- \[(?P<mark>[ xX~])\] .*<!-- (?P<kind>entry|candidate|rejected) (?P<key>[\w-]+) -->$",
    re.MULTILINE | re.ASCII,
)
"""A line with a box, and behind it what it is about: a forge changes the mark alone when somebody clicks on it."""

CLOSED = "Nothing is left to propose.\n\n"
TITLE_WIDTH = 120
QUOTE_WIDTH = 240
SECTIONS = ("Changed", "Retired", "Moved")
TITLED = {"Added": "", "Changed": "change ", "Retired": "retire ", "Moved": "move "}
TITLE_WORDS = 72  # characters of a learning in the title
READ = re.compile(r"^<!-- memory-ci read comments: (\d{1,18}) -->$", re.MULTILINE | re.ASCII)
"""The second line of the text: the number of the last comment that was obeyed."""

COMMAND = re.compile(
    r"^/memory[ \t]+(?P<verb>[a-z]+)(?P<keys>(?:[ \t]+[\w-]+)+)[ \t]*$", re.MULTILINE | re.ASCII
)
VERBS = {
    "accept": (("candidate",), "x"),
    "drop": (("entry", "candidate"), " "),
    "restore": (("rejected",), "x"),
}
"""What a comment may ask: of which kinds of box, and the mark that it gets."""


class Links(msgspec.Struct, frozen=True):
    """What stands before a number or a commit id in the address of a pull request or commit; "" where there is none."""

    pull: str = ""
    commit: str = ""


class Effect(msgspec.Struct, frozen=True):
    """Active entries and their characters, before and after; `limit`: characters of them that a job is given."""

    entries_before: int
    chars_before: int
    entries_after: int
    chars_after: int
    limit: int


class SharedEntry(msgspec.Struct, frozen=True):
    """An entry that several repositories say: their names, and (name, link, commit, id there) of each that says it."""

    entry: Entry
    said_in: str
    sources: tuple[tuple[str, str, str, str], ...]


class TaskAnswers(msgspec.Struct, frozen=True):
    """What an agent with a past task is given after a request and not before, the other way round, and both times."""

    task: Task
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    kept: int


class Declined(msgspec.Struct, frozen=True):
    """A pull request that was closed without a merge, and the titles of what it held and is proposed again."""

    number: int
    titles: tuple[str, ...]


class Proposed(msgspec.Struct, frozen=True):
    """All that the text says: the plan, lines of what maintainers took out, the effect.

    `kept` are the entries (title, id) and files (path, "") that stood on the branch and stay: what people wrote there,
    and what was learned of a range that an earlier run was asked for.
    `accepted` are the ids of entries that were ticked as candidates, with the keys of those. `lost` are titles of what
    maintainers wrote that does not stand here as they wrote it. `held` are the keys of all that is proposed: what a
    later run compares, should this pull request be closed. `questions` are those of the week that are no candidates.
    `read` is the number of the last comment that was obeyed, `unclear` are those that say nothing.
    """

    plan: Plan
    kept: tuple[tuple[str, str], ...]
    rejected: tuple[str, ...]
    effect: Effect
    links: Links
    held: tuple[str, ...] = ()
    declined: Declined | None = None
    lost: tuple[str, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    questions: tuple[Question, ...] = ()
    accepted: Mapping[str, str] = {}
    answers: tuple[TaskAnswers, ...] = ()
    read: int = 0
    unclear: tuple[str, ...] = ()


def render_pull_request(proposed: Proposed) -> str:
    """Markdown, the same for the same input."""
    return fit(_lines(proposed), MAX_BYTES, CUT)


def render_shared(found: Sequence[SharedEntry], held: Iterable[str]) -> str:
    """The text of the request that proposes to the organisation's memory what several repositories say."""
    lines = [
        f"<!-- memory-ci holds:{''.join(f' {key}' for key in sorted(held))} -->",
        "Several repositories say these. Take an entry out on this branch and it is not proposed again;",
        "a branch on which people committed is left as it is. Merge what the organisation is to remember.",
    ]
    for one in found:
        lines += [
            "",
            f"### {code(shorten(one.entry.title, TITLE_WIDTH))}",
            "",
            code(shorten(one.entry.body, 600)),
            "",
        ]
        for name, link, head, key in one.sources:
            lines.append(f"- {_repository(name, link)} at {code(head[:12])}, entry {code(key)}")
    return fit(lines, MAX_BYTES, CUT)


def _repository(name: str, link: str) -> str:
    is_page = link.startswith("https://") and not set(link) & set(" ()<>")
    return f"[{code(name)}]({link})" if is_page else code(name)


def render_title(proposed: Proposed) -> str:
    """Return `memory: run migrations before the seed, and 3 more`, so that two requests are told apart.

    A squash puts the title into a commit message: nothing in it acts on a forge, and a learning that holds a credential
    is not named.
    """
    changes = [change for step in proposed.plan.steps for change in step.changes]
    changes.sort(key=lambda change: list(TITLED).index(_section(change)))
    titles = [title for title, _ in proposed.kept]
    titles += [
        f"{TITLED[_section(change)]}{_lower_first(name_entry(change.entry))}" for change in changes
    ]
    if not titles:
        names = (
            file.path.rpartition("/")[2].removesuffix(".md") for file in proposed.plan.episodes
        )
        titles = [f"what became of {name}" for name in names]
    titles = list(dict.fromkeys(titles))
    first = next((title for title in titles if not find_secrets(title)), None)
    if first is None:
        return TITLE
    words = printable(REFERENCE.sub("", shorten(_lower_first(first), TITLE_WORDS)))
    return f"memory: {words}" + (f", and {len(titles) - 1} more" if len(titles) > 1 else "")


def _lower_first(title: str) -> str:
    """Return a title that goes on in the middle of a sentence: its first letter is lower case, but for a name.

    >>> _lower_first("Run migrations first"), _lower_first("CI runs them")
    ('run migrations first', 'CI runs them')
    """
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def render_closed(text: str) -> str:
    """The text of a pull request that memory-ci closes: with other words before its keys they count no more."""
    return text if text.startswith(CLOSED) else CLOSED + text


def parse_held(text: str) -> frozenset[str]:
    """The keys of what a pull request of this text held; none where it is not ours."""
    found = HELD.search(text.replace("\r\n", "\n"))
    return frozenset(found["keys"].split()) if found else frozenset()


def parse_boxes(text: str) -> Boxes:
    """What the boxes of a text of ours say; of one that we closed ourselves they say nothing."""
    boxes = (
        [] if text.startswith(CLOSED.strip()) else list(BOX.finditer(text.replace("\r\n", "\n")))
    )

    def keys(kind: str, marks: str) -> frozenset[str]:
        return frozenset(
            box["key"] for box in boxes if box["kind"] == kind and box["mark"] in marks
        )

    return Boxes(keys("candidate", "xX"), keys("entry", " ~"), keys("rejected", "xX"))


def parse_read(text: str) -> int:
    """The number of the last comment that a text of ours has obeyed; 0 where it says none."""
    found = READ.search(text.replace("\r\n", "\n"))
    return int(found[1]) if found else 0


def obey(text: str, comments: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """(a text of ours with the boxes as the comments want them, the lines that name no box or no verb that is known).

    A line `/memory drop KEY…` unticks the one box whose key begins so, as a click does; the last word counts. A key of
    less than MIN_PREFIX characters may be a word of the line.
    """
    unclear: list[str] = []
    text = text.replace("\r\n", "\n")
    for line in (line.strip(" \t`") for comment in comments for line in _said(comment)):
        command = COMMAND.fullmatch(line)
        kinds, mark = VERBS.get(command["verb"], ((), "")) if command else ((), "")
        for key in command["keys"].split()[:MAX_LINES] if command else [""]:
            found = BOX.finditer(text) if len(key) >= MIN_PREFIX else ()
            boxes = [box for box in found if box["kind"] in kinds and box["key"].startswith(key)]
            if len(boxes) == 1:
                at = boxes[0].start("mark")
                text = f"{text[:at]}{mark}{text[at + 1 :]}"
            elif line.startswith("/memory"):
                unclear.append(line)
    return text, tuple(dict.fromkeys(unclear))


def _said(comment: str) -> list[str]:
    """The lines that people see as text, as many as one comment may have."""
    text = strip_comments(comment.replace("\r\n", "\n"), keeps_lines=True)
    return list(unfenced_lines(text.splitlines()))[:MAX_LINES]


def _lines(proposed: Proposed) -> Iterator[str]:
    plan, links = proposed.plan, proposed.links
    changes = [change for step in plan.steps for change in step.changes]
    yield f"<!-- memory-ci holds:{''.join(f' {key}' for key in proposed.held)} -->"
    yield f"<!-- memory-ci read comments: {proposed.read} -->"
    yield "memory-ci keeps this pull request up to date with each run; merge it to make it memory."
    yield "Edit an entry on this branch and your words stay. Untick one, or take it out there: then the next run takes"
    yield "it out and does not propose it again, even if this is merged before. A comment can say the same:"
    yield "`/memory drop ID`, `/memory accept ID` for a candidate, `/memory restore ID`."
    yield from _titles("Comments that no box answers to", proposed.unclear)
    yield from _added([one for one in changes if _section(one) == "Added"], proposed)
    yield from _answers(proposed.answers, links)
    for section in SECTIONS:
        lines = [f"- {_entry_line(one)}" for one in changes if _section(one) == section]
        yield from _items(f"{section}: {plural(len(lines), 'entry')}", lines)
    paths = [f"- {code(file.path)}" for file in plan.episodes]
    yield from _items(f"Episodes: {len(paths)}", paths, SHOWN_EPISODES)
    if plan.fold_before is not None:
        yield from (
            "",
            f"Months of episodes that ended before {plan.fold_before} become one file each.",
        )
    kept = [
        (code(shorten(title, TITLE_WIDTH)), key) for title, key in proposed.kept
    ]  # a file has no key, and no box
    boxes = [f"- [x] {title} <!-- entry {key} -->" if key else f"- {title}" for title, key in kept]
    yield from _items("Kept from this branch", boxes)
    yield from _titles(
        "Edited on this branch, and not kept: the base or this run decides otherwise", proposed.lost
    )
    yield from _rejected(proposed.rejected)
    yield from _waiting(proposed)
    if proposed.declined is not None:
        yield from _declined(proposed.declined, links)
    effect = proposed.effect
    yield from (
        "",
        f"Budget: {plural(effect.entries_before, 'active entry')} become {effect.entries_after}, "
        f"{effect.chars_before:,} characters become {effect.chars_after:,}; "
        f"a job is given at most {effect.limit:,} of them.",
    )
    yield f"Cost: {describe_cost(plan.engine)}."


def _items(heading: str, lines: Sequence[str], most: int = SHOWN) -> Iterator[str]:
    """A section of so many lines; nothing for none."""
    if lines:
        yield from ("", f"### {heading}", "", *lines[:most])
    if len(lines) > most:
        yield f"- and {len(lines) - most} more: see the files"


def _titles(heading: str, titles: Sequence[str]) -> Iterator[str]:
    yield from _items(
        heading, [f"- {code(shorten(title, TITLE_WIDTH))}" for title in titles[:SHOWN]]
    )


def _section(change: Change) -> str:
    if change.step == "promote" or change.kind in ("move", "drop"):
        return "Moved"
    if change.step == "retire" or change.entry.status == "retired":
        return "Retired"
    return "Added" if change.kind == "add" else "Changed"


def _added(changes: Sequence[Change], proposed: Proposed) -> Iterator[str]:
    """A ticked box for each entry that is new to memory, where it comes from, and the first words that prove it."""
    room = DETAIL_BYTES
    lines = []
    for change in changes:
        entry = change.entry
        key = proposed.accepted.get(entry.id)
        box = f"candidate {key}" if key else f"entry {entry.id}"
        origins = ", ".join(_origins(entry.source or "", proposed.links))
        words = entry.evidence[0].partition(" ")[2] if entry.evidence else ""
        details = [f"  - from {origins}"] if origins else []
        details += [f"  - said: {code(shorten(words, QUOTE_WIDTH))}"] if words else []
        room -= sum(len(line.encode("utf-8", "replace")) for line in details)
        line = f"- [x] {_entry_line(change)} {code(entry.id)} <!-- {box} -->"
        lines.append("\n".join([line, *details] if room >= 0 else [line]))
    yield from _items(f"Added: {plural(len(changes), 'entry')}", lines, SHOWN_BOXES)


def _answers(answers: Sequence[TaskAnswers], links: Links) -> Iterator[str]:
    """What agents with past tasks are given, before and after."""
    if answers:
        yield from ("", "### What agents are told: before and after", "")
        yield from ("The past tasks that are most like this, asked again:", "")
    for one in answers:
        task = one.task
        of_commit = links.commit and links.commit + task.sha
        address = f"{links.pull}{task.number}" if task.number and links.pull else of_commit
        label = f"[{task.label}]({address})" if address else code(task.label)
        both = f"{plural(one.kept, 'entry')} as before" if one.kept else "nothing before"
        yield f"- {code(shorten(task.title, TITLE_WIDTH))} ({label}): {both}"
        yield from (f"  - also given: {code(shorten(title, TITLE_WIDTH))}" for title in one.gained)
        yield from (
            f"  - no longer given: {code(shorten(title, TITLE_WIDTH))}" for title in one.lost
        )


def _entry_line(change: Change) -> str:
    title, why = shorten(name_entry(change.entry), TITLE_WIDTH), shorten(change.why, TITLE_WIDTH)
    return f"{code(title)} in {code(change.path)} ({code(why)})"


def _rejected(lines: Sequence[str]) -> Iterator[str]:
    """A box for each learning that was declined; an episode has none."""
    shown = []
    for line in lines[:SHOWN]:
        key, _, title = line.partition(" ")
        box = f"(tick it, or restore {code(key[:8])}) <!-- rejected {key} -->"
        shown.append(f"- [ ] {code(title)} {box}" if title else f"- {code(key)}")
    yield from _items("Not proposed again", shown)


def _waiting(proposed: Proposed) -> Iterator[str]:
    """A box for each candidate, and a ticked one for each entry that may not hold; what was quarantined has none:
    nobody may write it as it is."""
    if proposed.suggestions or proposed.questions:
        yield from ("", "### Waiting for you", "")
        yield "Tick a candidate, and the next run writes it. Untick an entry that does not hold, and it takes it out."
        yield "What you leave is not asked again for 90 days. `memory-ci review` has more answers."
        yield ""
    for one in proposed.suggestions:
        candidate = one.candidate
        said = f" (said in {len(one.changes)} changes)" if len(one.changes) > 1 else ""
        box, title = "x" if one.is_accepted else " ", code(shorten(candidate.title, TITLE_WIDTH))
        yield f"- [{box}] {title}{said} {code(one.key[:8])} <!-- candidate {one.key} -->"
        quote = candidate.quotes[0].text if candidate.quotes else ""
        told = [f"said: {code(shorten(quote, QUOTE_WIDTH))}"] if quote else []
        yield f"  - {', '.join((*told, *_origins(candidate.source, proposed.links)))}; {code(one.reason)}"
    for asked in proposed.questions:
        title, place = code(shorten(asked.title, TITLE_WIDTH)), asked.located
        yield f"- [x] {title} <!-- entry {place.entry.id} -->" if place else f"- {title}"
        yield f"  - {asked.kind}: {code(shorten(asked.why, QUOTE_WIDTH))}"


def _declined(declined: Declined, links: Links) -> Iterator[str]:
    """What people said no to before, and is here beside what is new."""
    name = f"pull request {declined.number}"
    yield from _titles(f"Closed before, in {name}", declined.titles)
    yield ""
    yield f"{f'[{name}]({links.pull}{declined.number})' if links.pull else name} was closed without a merge, and is not"
    yield "opened again. What it held opens no pull request alone; it stands here beside what is new. Take out on this"
    yield "branch what is not wanted, and it does not come again."


def _origins(source: str, links: Links) -> Iterator[str]:
    """Links to the pull requests and commits that a source names."""
    for match in re.finditer(ORIGIN, source):
        if match["number"] and links.pull:
            yield f"[pull request {match['number']}]({links.pull}{match['number']})"
        elif not match["number"] and links.commit:
            yield f"[commit {match['sha'][:10]}]({links.commit}{match['sha']})"
