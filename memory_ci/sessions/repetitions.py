"""What people ask for in session after session, and commands that fail again, proposed as entries.

A proposal becomes an entry of memory only if a person agrees to it. The same list is proposed by
`record` and `review`, and served to agents as not yet agreed. So it is written into the git
directory, where hooks read it without reading a session.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.errors import RepositoryError
from memory_ci.extraction.entries import compute_content_key, entry_id, to_entry
from memory_ci.extraction.norms import is_conduct_request
from memory_ci.extraction.stance import is_opposite
from memory_ci.files import save_if_changed
from memory_ci.gitrepo.edits import blame_lines
from memory_ci.gitrepo.repo import find_commit
from memory_ci.memory.forgotten import read_rejected, read_tombstones_at
from memory_ci.memory.gone_names import describe_gone_name
from memory_ci.memory.known_hooks import read_hook_settings, suggest_hook
from memory_ci.memory.screening import find_unsafe_entry
from memory_ci.memory.workspace import Snapshot, Workspace, open_workspace
from memory_ci.records.candidate import Candidate, Quote, Repetition
from memory_ci.records.entry import Located, ScopeOf
from memory_ci.records.repetition import KnownFailure, PersonTurn, Quotation, StandingRequest
from memory_ci.repetition.clauses import read_clause
from memory_ci.repetition.failures import find_known_failures
from memory_ci.repetition.requests import find_standing_requests, is_same_request
from memory_ci.repetition.written import RULE_FILES, WrittenRule, find_written, list_rules
from memory_ci.sessions.pending_requests import PendingLine, pending_path
from memory_ci.sessions.rule_outcomes import (
    ServedTimes,
    count_outcome_of_request,
    read_served_times,
)
from memory_ci.sessions.session_archive import SessionArchive, read_archive
from memory_ci.text import jaccard, plural

REPETITION_ENGINE = "repetition"
"""The engine of candidates that were found by counting."""

MAX_REQUESTS = 10  # Requests that are looked at; a person answers a few a week.
MAX_FAILURES = 10
MIN_SESSIONS = 2  # Sessions that made a request and not its opposite.
MIN_SESSIONS_SINCE = (
    2  # Sessions that asked for a rule since it was written, from which it is proposed.
)
REQUEST_IMPORTANCE = 0.9  # As that of a directive that an author marked.
FAILURE_IMPORTANCE = 0.7
MIN_TERM_SIMILARITY = 0.6  # Jaccard index of the terms of two wordings of one request.
MAX_DOCUMENT = 200_000  # Bytes of a document of rules that is compared.
REFRESH_SECONDS = 86_400


class Repeated(NamedTuple):
    """A repeated request or a repeated failure.

    Attributes:
        candidate: the candidate for an entry.
        keys: content keys of all its wordings: a person may have answered an earlier one.
        occurrences: the wording of a request in each session, the earliest first.
    """

    candidate: Candidate
    keys: frozenset[str]
    occurrences: tuple[Quotation, ...] = ()

    @property
    def days(self) -> int:
        """The number of days on which it was asked."""
        return len({occurrence.day for occurrence in self.occurrences})


class StandingRule(NamedTuple):
    """A rule that memory or a document holds.

    Attributes:
        place: the id of the entry, or the document and line, as `AGENTS.md:12`.
        title: the rule.
        since: the day on which it was written.
        is_entry: whether memory holds it.
    """

    place: str
    title: str
    since: date
    is_entry: bool = False


def find_repeated(
    snapshot: Snapshot, archive: SessionArchive, limit: int = MAX_REQUESTS
) -> list[Repeated]:
    """Return the repeated requests, then the repeated failures, each most useful first.

    A request is useful if it is likely to be made again (its score). It is less useful if sessions
    were shown it before and people had to make it nevertheless. Left out are requests and failures
    that

    - are about the work itself, and not about how it is done,
    - a person declined, or later said the opposite of,
    - memory holds, or a document of rules holds and nobody asked for since,
    - name a file or task that does not exist any more,
    - must not be in memory, such as credentials.

    Args:
        snapshot: the commit whose memory and documents are compared.
        archive: the sessions of the repository.
        limit: the greatest number of requests.
    """
    requests = _list_proposed_requests(snapshot, archive, limit)
    repeated = _order_by_outcome(requests, archive, read_served_times(snapshot.workspace))
    moments_in_memory = {located.entry.when for located in snapshot.memory.located}
    for failure in find_known_failures(archive.failed, archive.succeeded)[:MAX_FAILURES]:
        if _get_moment(failure) not in moments_in_memory:
            repeated.append(_propose_failure(failure, snapshot))
    return _remove_declined_and_unsafe(snapshot, repeated)


def _list_proposed_requests(
    snapshot: Snapshot, archive: SessionArchive, limit: int
) -> list[Repeated]:
    """Return the repeated requests that could become a rule of memory.

    A request that a document states as a rule is proposed only if people made it in enough sessions
    after that: then the document alone does not work.
    """
    written_rules = list_written_rules(snapshot)
    settings = read_hook_settings(snapshot)
    proposed: list[Repeated] = []
    for standing_request in find_standing_requests(archive.turns, limit):
        request = _remove_opposites(standing_request)
        if request.sessions < MIN_SESSIONS or not _is_about_conduct(request.text):
            continue
        if _is_taken_back(request, archive.turns):
            continue
        if describe_gone_name(snapshot, request.text):
            continue
        rule = find_existing_rule(snapshot, request.terms, written_rules)
        if rule is None:
            proposed.append(_propose_request(request, settings))
            continue
        sessions_since = sum(occurrence.day > rule.since for occurrence in request.occurrences)
        if not rule.is_entry and sessions_since >= MIN_SESSIONS_SINCE:
            proposed.append(_propose_request(request, settings, rule.place, sessions_since))
    return proposed


def _is_about_conduct(text: str) -> bool:
    """Return whether a request is about how the agent works (its conduct), not about one task."""
    clause = read_clause(text)
    names_document = any(term.startswith("@") for term in clause.terms)
    is_about_agent = clause.is_complaint or clause.is_lasting or names_document
    return is_conduct_request(text, is_about_agent=is_about_agent)


def _order_by_outcome(
    requests: Sequence[Repeated], archive: SessionArchive, served: ServedTimes
) -> list[Repeated]:
    """Return requests in the order of their score, weighted by how well sessions followed them.

    The score says how likely people are to make a request again. Agents in some sessions were
    served the request before anybody agreed to it. If people had to make it there nevertheless, it
    does not work in these words, and comes later.
    """
    return sorted(
        requests,
        key=lambda request: _compute_weighted_score(request, archive, served),
        reverse=True,
    )


def _compute_weighted_score(
    request: Repeated, archive: SessionArchive, served: ServedTimes
) -> float:
    """Return the score of a request times the share of served sessions that followed it.

    The share is estimated as (followed + 1) / (served + 1), which is 1 if no session was served it.

    Args:
        request: the request.
        archive: the sessions of the repository.
        served: when sessions were served which request.
    """
    repetition = request.candidate.repetition
    if repetition is None:
        return 0.0
    served_at_by_session: dict[str, datetime] = {}
    for wording_key in request.keys:
        served_at_by_session.update(served.requests.get(wording_key, {}))
    title = request.candidate.title
    terms = read_clause(title).terms
    outcome = count_outcome_of_request("", title, terms, archive, served_at_by_session)
    followed_share = (outcome.followed + 1) / (outcome.sessions + 1)
    return repetition.score * followed_share


def find_existing_rule(
    snapshot: Snapshot, terms: Sequence[str], written_rules: Iterable[WrittenRule]
) -> StandingRule | None:
    """Return the rule in memory, or else in a document, that says the same as a request; or None.

    In memory only entries of the type directive are rules. A retired directive counts, because a
    person has decided on it.

    Args:
        snapshot: the commit that has the memory and the documents.
        terms: the words of the request that carry its meaning, by which it is compared.
        written_rules: the lines of the documents.
    """
    for located in snapshot.memory.located:
        entry = located.entry
        if entry.type == "directive" and is_same_request(terms, entry.title):
            since = entry.created_at or entry.last_reinforced
            return StandingRule(entry.id, entry.title, since, is_entry=True)
    written_rule = find_written(terms, written_rules)
    if written_rule is None:
        return None
    since = _find_day_written(snapshot, written_rule)
    return StandingRule(written_rule.place, written_rule.text, since)


def describe_repetition(repetition: Repetition) -> str:
    """Return the reason to propose a repetition, in words.

    Example: `asked in 10 sessions by 2 people, last on 2026-02-14`.
    """
    sessions = plural(repetition.sessions, "session")
    if repetition.kind == "failure":
        return f"failed in {sessions}, last on {repetition.last}"
    if repetition.written_in:
        return f"{repetition.written_in} says it; asked in {sessions} since"
    people = f" by {repetition.people} people" if repetition.people > 1 else ""
    return f"asked in {sessions}{people}, last on {repetition.last}"


def save_pending_lines(workspace: Workspace, repeated: Iterable[Repeated]) -> None:
    """Write the list of proposals on which nobody has decided yet.

    Hooks read it, and serve the proposals to agents with the note that nobody has agreed to them.
    """
    lines = []
    for item in repeated:
        candidate = item.candidate
        repetition = candidate.repetition
        if repetition is None:
            continue
        text = candidate.title
        if repetition.kind == "failure":
            text = f"{candidate.title}. {candidate.body}".strip()
        key = compute_content_key(candidate.title, candidate.body)
        lines.append(PendingLine(key, text, repetition.when, repetition.kind))
    save_if_changed(pending_path(workspace), msgspec.json.encode(lines))


def refresh_pending(start: Path, now: datetime) -> None:
    """Write the list of proposals again if it is more than a day old, from all sessions of a clone.

    Args:
        start: a directory in the repository.
        now: the time.

    Raises:
        RepositoryError: not-a-repository, git-failed.
        UsageError: bad-config.
    """
    workspace = open_workspace(start)
    path = pending_path(workspace)
    with suppress(OSError):
        if 0 <= now.timestamp() - path.lstat().st_mtime < REFRESH_SECONDS:
            return
    head = find_commit(workspace.repo, "HEAD")
    if head is None or workspace.config.extraction.repeated == "off":
        return
    repeated = find_repeated(workspace.at(head), read_archive(workspace, head))
    save_pending_lines(workspace, repeated)
    with suppress(OSError):
        os.utime(path, follow_symlinks=False)  # an unchanged list is not written


def _propose_request(
    request: StandingRequest, settings: str, written_in: str = "", sessions_since: int = 0
) -> Repeated:
    """Return a repeated request with the candidate for an entry: a directive for the whole team.

    Args:
        request: the request.
        settings: the settings of hooks, for a suggested hook that carries out the request.
        written_in: the document that has the rule already, "" for none.
        sessions_since: in how many sessions it was asked for since it was written there.
    """
    repetition = Repetition(
        kind="request",
        sessions=sessions_since or request.sessions,
        people=request.people,
        first=request.first,
        last=request.last,
        quotes=request.quotes,
        when=request.when,
        score=round(request.score, 3),
        written_in=written_in,
        hook=suggest_hook(request.text, settings),
    )
    title = request.text[:1].upper() + request.text[1:]
    candidate = Candidate(
        title=title,
        body="",
        type="directive",
        domain="team",
        importance=REQUEST_IMPORTANCE,
        scope="institutional",
        extraction_scope="institutional",
        quotes=tuple(_quote(quotation) for quotation in request.quotes),
        is_marked=False,
        occurred_at=request.last,
        engine=REPETITION_ENGINE,
        repetition=repetition,
    )
    wordings = [title, *(occurrence.text for occurrence in request.occurrences)]
    keys = frozenset(compute_content_key(wording, "") for wording in wordings)
    return Repeated(candidate, keys, request.occurrences)


def _propose_failure(failure: KnownFailure, snapshot: Snapshot) -> Repeated:
    """Return a command that failed in several sessions, with the candidate for an entry on it.

    The entry says what fails and what works instead. If the command is a script of the repository,
    the entry cites it. No person asked for it, so it has no people.

    Args:
        failure: the failure: the command without its changing arguments, and its error.
        snapshot: the commit whose files count.
    """
    repetition = Repetition(
        kind="failure",
        sessions=failure.sessions,
        people=0,
        first=failure.first,
        last=failure.last,
        when=_get_moment(failure),
    )
    program = failure.form.split()[0].removeprefix("./")
    is_script_of_repository = program in snapshot.tree.files
    candidate = Candidate(
        title=f"`{failure.form}` fails: {failure.error}",
        body=f"`{failure.worked}` works." if failure.worked else "",
        type="corrective",
        domain="task",
        importance=FAILURE_IMPORTANCE,
        scope="project",
        extraction_scope="project",
        quotes=(Quote("", failure.error, f"session:{failure.session}"),),
        is_marked=False,
        cites=(program,) if is_script_of_repository else (),
        occurred_at=failure.last,
        engine=REPETITION_ENGINE,
        repetition=repetition,
    )
    return Repeated(candidate, frozenset({compute_content_key(candidate.title, candidate.body)}))


def _get_moment(failure: KnownFailure) -> str:
    """Return the moment at which agents are served a failure: before they run the command."""
    return f"before:command {failure.form}"


def _quote(quotation: Quotation) -> Quote:
    return Quote("", quotation.text, f"session:{quotation.session}")


# -- what is not proposed


def list_written_rules(snapshot: Snapshot) -> tuple[WrittenRule, ...]:
    """Return the lines of documents like AGENTS.md and CLAUDE.md, which hold rules for agents."""
    paths = [path for path in snapshot.tree.files if RULE_FILES.fullmatch(path)]
    rules: list[WrittenRule] = []
    for content in snapshot.tree.read(paths, MAX_DOCUMENT):
        if content.data is not None:
            rules += list_rules(content.file.path, content.data.decode("utf-8", "replace"))
    return tuple(rules)


def _remove_opposites(request: StandingRequest) -> StandingRequest:
    """Return a request without the sessions in which somebody said its opposite.

    A request and its opposite have the same terms, so they were counted together.
    """
    agreeing = [
        occurrence
        for occurrence in request.occurrences
        if not is_opposite(request.text, [occurrence.text])
    ]
    return replace(request, occurrences=tuple(agreeing), sessions=len(agreeing))


def _is_taken_back(request: StandingRequest, turns: Sequence[PersonTurn]) -> bool:
    """Return whether somebody said the opposite after the last session that made the request."""
    last_session = request.occurrences[-1].session
    last_made = max(turn.at for turn in turns if turn.session == last_session)
    later_texts = [
        turn.text
        for turn in turns
        if turn.at > last_made and is_same_request(request.terms, turn.text)
    ]
    return is_opposite(request.text, later_texts)


def _find_day_written(snapshot: Snapshot, rule: WrittenRule) -> date:
    """Return the day on which a line of a document was committed, the first of all if unknown."""
    with suppress(RepositoryError):
        repo = snapshot.workspace.repo
        for commit_line in blame_lines(repo, rule.path, (rule.line, rule.line), snapshot.sha):
            return commit_line.day
    return date.min


def _remove_declined_and_unsafe(snapshot: Snapshot, repeated: Iterable[Repeated]) -> list[Repeated]:
    """Return the repetitions that may be proposed to a person.

    Left out are those that a person declined (in these or nearly these words), those that hold
    words which a person had memory forget, and those that must not be in memory, as credentials.
    """
    declined_keys: set[str] = set()
    declined_titles: list[str] = []
    for line in read_rejected(snapshot):  # a content key, or a key and a title
        key, *titles = line.split(maxsplit=1)
        declined_keys.add(key)
        declined_titles += titles
    tombstones = read_tombstones_at(snapshot)  # hashes of forgotten words
    wanted = []
    for item in repeated:
        if not item.keys.isdisjoint(declined_keys) or _is_reworded(item, declined_titles):
            continue
        if tombstones.refuses_candidate(item.candidate) or _is_unsafe(item.candidate):
            continue
        wanted.append(item)
    return wanted


def _is_reworded(item: Repeated, declined_titles: Iterable[str]) -> bool:
    """Return whether a request has nearly the terms of a title that a person declined."""
    if not item.occurrences:
        return False
    terms = read_clause(item.candidate.title).terms
    return any(
        jaccard(terms, read_clause(title).terms) >= MIN_TERM_SIMILARITY for title in declined_titles
    )


def _is_unsafe(candidate: Candidate) -> bool:
    """Return whether an entry made of a candidate would be withheld, as one with a credential."""
    day = candidate.occurred_at or date.min
    entry = to_entry(candidate, entry_id=entry_id(candidate), today=day, merged_on=day)
    return any(find_unsafe_entry(Located(entry, "", 1, ScopeOf("project"))))
