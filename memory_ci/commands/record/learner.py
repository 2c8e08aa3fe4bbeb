"""Learning from merged changes: events become evidence, candidates and written entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.anchors.symbols import list_mentions
from memory_ci.commands.record.episode_writer import EpisodeWriter, Uses
from memory_ci.commands.record.gatherer import Gathered, RecordRun, find_window
from memory_ci.errors import EngineError, RepositoryError, UnreadableMemoryError, UsageError
from memory_ci.evidence.content import redact
from memory_ci.evidence.ingestion import collect
from memory_ci.extraction.cites import find_named_places
from memory_ci.extraction.engines.rules import RulesEngine
from memory_ci.extraction.entries import (
    EARLIEST_DATE,
    common_directory,
    content_key,
    entry_id,
    find_aka,
    list_changed_files,
    to_entry,
)
from memory_ci.extraction.judge import (
    JudgedCase,
    ShownByTools,
    judge_reply,
    list_shown_by_tools,
)
from memory_ci.extraction.settlement import settle
from memory_ci.extraction.support import (
    DOCUMENT,
    Paragraph,
    find_restating_document,
    is_document,
    list_paragraphs,
)
from memory_ci.extraction.tombstones import Tombstones
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import (
    iter_merged_changes,
    plan_range,
    read_authorship,
    read_hunks,
)
from memory_ci.gitrepo.squash_trailers import BuriedTrailers
from memory_ci.gitrepo.trailers import format_trailers
from memory_ci.lifecycle.fold import is_covered, is_kept, is_proved, strip_claims
from memory_ci.lifecycle.reinforcement import Use, list_named_ids
from memory_ci.lifecycle.relations import find_id
from memory_ci.memory.cites import cite_touched
from memory_ci.memory.claims import Copies, find_claimed_uses, list_ids, prove, read_session_notes
from memory_ci.memory.commit_texts import start_of
from memory_ci.memory.eligible import merged_on, title_of
from memory_ci.memory.forgotten import find_forgotten
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.named_code import cite_named
from memory_ci.memory.screening import find_unsafe
from memory_ci.memory.stage import find_project
from memory_ci.memory.workspace import build_memory_test
from memory_ci.records.candidate import ACCEPTED_IN_REQUEST, Candidate, Judged, Request
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.event import EvidenceSet
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.records.names import (
    HOLDOUT_TRAILER,
    SERVED_TRAILER,
    SHA_WIDTH,
    USED_TRAILER,
    format_work_ref,
)
from memory_ci.records.plan import Change, Join
from memory_ci.records.report import Finding
from memory_ci.regex import Regex
from memory_ci.sessions import checkpoints, session_join
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import parse_target
from memory_ci.text import NAMES_CODE, plural

OnProgress = Callable[[int, int], None]
"""Called with how many merged changes are done, and how many there are."""

COMMIT = Regex(r"\bcommit:([0-9a-f]{7,64})\b")

MAX_FAILURES = 3
"""Declined requests that a model may fail at before a run stops asking it about them."""

MAX_DOCUMENTS = 300
"""Documents that are read for what they say already, and as many files of code."""

MAX_DOCUMENT_BYTES = 200_000
"""A longer document was generated and is not read."""

MAX_CHANGED_FILES = 3
"""Files that people spoke about of which a model is shown hunks."""

CHANGED_WIDTH = 2_000
"""Characters of all these hunks."""


def ignore_progress(_done: int, _total: int) -> None:
    """Show nothing, where nobody waits for the progress."""


class WorkItem(NamedTuple):
    """One piece of work that is learned from.

    Attributes:
        label: its name for people, such as `#128`.
        tip: the last commit of a merged change; "" for a declined request, or for a checkpoint that
            belongs to no change.
        day: when it was merged or closed.
        called: title, branch and labels, with secrets masked.
        start: the commit that it is based on.
        is_declined: whether it was closed without a merge.
    """

    label: str
    tip: str
    day: date
    called: str = ""
    start: str | None = None
    is_declined: bool = False


def _describe_change(merged: MergedChange, request: PullRequest | None) -> WorkItem:
    """Return the work item of a merged change, named by its request or else by its branch."""
    if request:
        names = (request.title, request.branch, *request.labels)
    else:
        names = (find_branch(merged.tip.message),)
    called = redact("\n".join([title_of(merged), *names]).replace("/", " ")).text
    return WorkItem(merged.label, merged.tip.sha, merged_on(merged), called, start_of(merged))


class Tally(msgspec.Struct):
    """The findings of a run, for its report and for the steps that follow.

    Attributes:
        history: the commits of the range, without their files.
        strangers: commits of outsiders by shortened id, each with the range of its change.
        uses: what each merged change used of memory.
        judged: the candidates with their outcome.
        joins: sessions and requests that were joined to changes.
        windows: notes about evidence that a model was not shown.
        findings: remarks on files.
        problems: what could not be read or asked.
        dropped: why learnings of replies could not be read, counted.
        left_out: why events were left out of the evidence, counted.
        redactions: how many secrets were masked.
        declined: how many declined requests were read.
        has_uses: whether a commit names entries it was served or used.
        failure: why the model stopped the run.
        covered: the last change before the failure.
    """

    history: list[Commit] = []
    strangers: dict[str, tuple[str, str]] = {}
    uses: list[tuple[MergedChange, Use]] = []
    judged: list[Judged] = []
    joins: list[Join] = []
    windows: list[str] = []
    findings: list[Finding] = []
    problems: list[str] = []
    dropped: Counter[str] = msgspec.field(default_factory=Counter)
    left_out: Counter[str] = msgspec.field(default_factory=Counter)
    redactions: int = 0
    declined: int = 0
    has_uses: bool = False
    failure: EngineError | None = None
    covered: str | None = None


class Learner:
    """Reads a range once, the oldest change first, and tallies its findings."""

    def __init__(
        self,
        run: RecordRun,
        writer: EpisodeWriter,
        past: frozenset[str],
        accepted: frozenset[str],
        forgotten: Tombstones,
    ) -> None:
        """Create a learner.

        Args:
            run: the state that the parts of the run share.
            writer: writes the episodes of the changes.
            past: ids of entries that were written before, and content keys of rejected ones.
            accepted: content keys of candidates that a person accepted.
            forgotten: hashes of text that is neither read nor written.
        """
        self.writer = writer
        self.tally = Tally()
        self._run = run
        self._draft = run.draft
        self._repo = run.workspace.repo
        self._config = run.workspace.config
        self._past = past
        self._accepted = accepted
        self._forgotten = forgotten
        self._buried = BuriedTrailers(self._repo, run.base.sha)
        self._copies = Copies(self._repo, run.since)
        self._shown_by_tools: list[ShownByTools] = []

    def learn(self, progress: OnProgress) -> Iterator[Change]:
        """Yield the additions of every merged change in the range.

        Each addition is in the draft before the next change is read. A model that fails ends the
        range: the changes before are learned from, the rest is for the next run.
        """
        history = plan_range(self._repo, self._run.since, self._run.base.sha)
        if self.tally.failure is not None:
            return
        for done, merged in enumerate(iter_merged_changes(self._repo, history), start=1):
            try:
                changes = self._learn_from_change(merged)
            except EngineError as error:
                self.tally.failure = error
                return
            self.tally.history += (replace(commit, files=()) for commit in merged.commits)
            self.tally.covered = merged.tip.sha
            yield from self._draft.take(changes)
            progress(done, history.change_count)

    def read_declined(self, since: datetime) -> tuple[PullRequest, ...]:
        """Return the next requests that were closed without a merge, and tally a failure.

        It comes before the range is learned from: if the list cannot be read, nothing of the range
        is covered and the next run asks again, because no history holds what was not merged.

        Args:
            since: when the range begins; requests that earlier runs left are returned as well.
        """
        try:
            episodes = self.writer.episodes.values()
            window = find_window(self._run.base, since, self.writer.known_ids, episodes)
            return self._run.gatherer.read_declined(window)
        except EngineError as error:
            self.tally.failure = error
            return ()

    def learn_declined(self, requests: Sequence[PullRequest]) -> Iterator[Change]:
        """Yield the additions of declined requests: rejected choices and words of reviewers.

        It comes after the merged changes. A request that a model fails at is a problem of the run
        and is found again by the next one; after `MAX_FAILURES` the rest is left to it as well.
        """
        failures = 0
        for index, request in enumerate(requests):
            if self.tally.failure is not None or failures == MAX_FAILURES:
                unread = plural(len(requests) - index, "closed request")
                self.tally.problems.append(f"{unread} not read: the run had stopped asking")
                return
            # A run that ended between the request's merge and its closing may have learned from it.
            self._past |= self._all_past
            day = (request.closed_at or request.created_at).astimezone(UTC).date()
            work = WorkItem(f"#{request.number}", "", day, is_declined=True)
            gathered = self._run.gatherer.gather_declined(request)
            try:
                _, changes = self._study(work, gathered)
            except EngineError as error:
                failures += 1
                reason = f"{error.message} [{error.slug}]"
                self.tally.problems.append(f"#{request.number}, closed without a merge: {reason}")
                continue
            served = self._resolve(list_ids([request.body], SERVED_TRAILER))
            used = self._resolve(list_ids([request.body], USED_TRAILER))
            self.writer.add_declined(request, Uses(served, frozenset(used)))
            self.tally.declined += 1
            yield from self._draft.take(changes)

    def learn_unmerged(self) -> Iterator[Change]:
        """Yield additions of sessions that were joined to no change; only the rules read them."""
        if self.tally.failure is not None:
            return
        gatherer = self._run.gatherer
        for unmerged, gathered in gatherer.gather_unmerged():
            called = redact(unmerged.branch.replace("/", " ")).text
            day = unmerged.at.astimezone(UTC).date()
            _, changes = self._study(WorkItem(unmerged.label, "", day, called), gathered)
            yield from self._draft.take(changes)

        checkpoints_message = gatherer.tell_unnamed()
        if checkpoints_message:
            self._note("unnamed-checkpoints", checkpoints_message, checkpoints.HINT)
        sessions_message = gatherer.describe_unmerged_sessions()
        if sessions_message:
            self._note("unmerged-sessions", sessions_message, session_join.HINT)

    def _note(self, code: str, message: str, hint: str) -> None:
        """Add a notice on the whole repository to the findings of the run."""
        self.tally.findings.append(Finding(".", 1, code, message, hint, "notice"))

    def _learn_from_change(self, merged: MergedChange) -> list[Change]:
        """Learn from one merged change, tally its uses of memory and write its episode.

        Returns:
            The additions to memory files.
        """
        gathered = self._run.gatherer.gather(merged)
        work = _describe_change(merged, gathered.request)
        judged, changes = self._study(work, gathered)
        member_commits = self._select_member_commits(merged, gathered.request)
        uses = self._find_uses(merged, member_commits, gathered, judged)
        work_name = format_work_ref(merged.number, merged.tip.sha)
        use = Use(merged.label, work_name, work.day, uses.reinforced, uses.restated)
        self.tally.uses.append((merged, use))
        self.writer.add_merged(merged, gathered, uses, judged)
        if merged.tip in member_commits:
            changes += self._take_notes(merged.label, gathered)
        return changes

    def _select_member_commits(
        self, merged: MergedChange, request: PullRequest | None
    ) -> list[Commit]:
        """Return the commits whose trailers count, and tally those of outsiders.

        The trailers of an outsider's commit count neither in this change nor in a later one.
        """
        member_commits: list[Commit] = []
        for commit in merged.commits:
            if self._run.gatherer.may_claim(commit, merged, request):
                member_commits.append(commit)
                continue
            start = start_of(merged) or commit.sha
            self.tally.strangers[commit.sha[:SHA_WIDTH]] = (start, merged.tip.sha)
            self.tally.findings += find_claimed_uses(commit, "notice")
        strangers = self.tally.strangers
        return [commit for commit in member_commits if commit.sha[:SHA_WIDTH] not in strangers]

    def _take_notes(self, label: str, gathered: Gathered) -> Iterator[Change]:
        """Yield the notes that an agent made in a session of this change and no commit holds.

        A note that its session does not prove is no learning but a problem of the run.
        """
        session_keys = [join.id for join in gathered.joins if join.kind == "session"]
        for key, entry in read_session_notes(self._run.base, session_keys):
            written_before = {*self._past, *self._all_past, *self._draft.by_id}
            if {entry.id, content_key(entry.title, entry.body)} & written_before:
                continue
            target = parse_target(entry.scope or "project")
            path = self._draft.path_of(target) if target.name in ("team", "project") else None
            proved = prove(self._run.base, entry)
            plain = strip_claims(Located(entry, path or "", 1, target), self._run.today)
            note = replace(plain.entry, evidence=proved.evidence, cites=proved.cites)
            place = replace(plain, entry=note)
            if self._forgotten and find_forgotten(self._forgotten, place):
                continue
            is_fit = is_proved(proved) and not find_fault(note) and not any(find_unsafe(place))
            if path is None or not is_fit:
                self.tally.problems.append(
                    f"a note of the session {key} proves something else, or is not fit: "
                    f"{entry.id[:8]}"
                )
                continue
            existing = (*self._draft.kept, *self._draft.inbox)
            if not any(is_kept(place, existing_place) for existing_place in existing):
                self._past |= {entry.id}
                why = f"from {label}"
                yield Change(step="extract", kind="add", path=path, entry=note, why=why)

    @cached_property
    def _all_past(self) -> frozenset[str]:
        return list_past_ids(self._run.workspace, self._run.base.sha)

    def _study(self, work: WorkItem, gathered: Gathered) -> tuple[tuple[Judged, ...], list[Change]]:
        """Return the outcomes of all candidates of one piece of work, and its additions.

        Raises:
            EngineError: if the model fails; then nothing of the work is tallied.
            UnreadableMemoryError: no-scope-file.
        """
        forgotten = self._forgotten
        called = forgotten.mask(work.called)
        events = forgotten.mask_all(gathered.events)
        evidence = collect(events, self._config.extraction, called)
        proposed = [
            judged
            for judged in self._judge(work, evidence)
            if not forgotten.refuses_candidate(judged.candidate)
        ]
        self.tally.joins += gathered.joins
        self.tally.redactions += evidence.redactions
        self.tally.left_out.update(left_out.reason for left_out in evidence.left_out)
        outcomes = self._cite(self._settle(proposed))
        self.tally.judged += outcomes
        written = [judged.candidate for judged in outcomes if judged.verdict == "written"]
        return outcomes, self._plan_additions(work, written)

    def _plan_additions(self, work: WorkItem, candidates: Sequence[Candidate]) -> list[Change]:
        """Return the additions of candidates that are written.

        Raises:
            UnreadableMemoryError: no-scope-file if the memory file of a scope cannot be written.
        """
        paths = [self._draft.path_of(parse_target(candidate.scope)) for candidate in candidates]
        entries = [self._build_entry(candidate, work) for candidate in candidates]
        cited = cite_named(self._run.workspace, entries, work.tip or self._run.base.sha)
        changes: list[Change] = []
        for candidate, path, entry in zip(candidates, paths, cited, strict=True):
            if path is None:
                message = (
                    f"{candidate.scope} memory has no file that could be written: "
                    "a directory or link is there"
                )
                hint = (
                    "Move it out of the way, or name another file under `scopes:`. "
                    "Nothing was recorded."
                )
                raise UnreadableMemoryError(message, slug="no-scope-file", hint=hint)
            why = f"from {work.label}"
            changes.append(Change(step="extract", kind="add", path=path, entry=entry, why=why))
        return changes

    def _settle(self, proposed: Sequence[Judged]) -> tuple[Judged, ...]:
        """Return the final outcomes of the candidates of one change.

        A candidate that a person accepted is written. One that an earlier run wrote is not written
        again, even if a person reworded or removed it. The limit counts what nobody marked.
        """
        limit = self._config.extraction.max_entries_per_change
        settled = list(settle([self._accept(judged) for judged in proposed], limit))
        was_written = [self._was_written(judged.candidate) for judged in settled]
        counts = [not judged.candidate.is_marked for judged in settled]
        available = limit
        for written, counted in zip(was_written, counts, strict=True):
            available -= written and counted
        for index, judged in enumerate(settled):
            if judged.verdict != "written":
                continue
            if was_written[index]:
                reason = "written by an earlier run, and reworded or removed since"
                settled[index] = replace(judged, verdict="restates", reason=reason)
            elif counts[index]:
                if available <= 0:
                    reason = f"earlier runs wrote {limit} of this change"
                    settled[index] = replace(judged, verdict="over_limit", reason=reason)
                available -= 1
        return tuple(settled)

    def _accept(self, judged: Judged) -> Judged:
        """Return a suspected candidate as written if a person accepted it."""
        candidate = judged.candidate
        if judged.verdict != "suspected":
            return judged
        if content_key(candidate.title, candidate.body) not in self._accepted:
            return judged
        accepted = replace(candidate, accepted=ACCEPTED_IN_REQUEST)
        return replace(judged, verdict="written", reason="accepted by a person", candidate=accepted)

    def _was_written(self, candidate: Candidate) -> bool:
        own_id = entry_id(candidate)
        content = content_key(candidate.title, candidate.body)
        return own_id in self._draft.by_id or not self._past.isdisjoint((own_id, content))

    def _cite(self, outcomes: Sequence[Judged]) -> tuple[Judged, ...]:
        """Return the outcomes with what each candidate cites of the files it was found with."""
        candidates = [judged.candidate for judged in outcomes]
        proses = [f"{candidate.title}\n{candidate.body}" for candidate in candidates]
        texts = [
            (prose, candidate.cites) for prose, candidate in zip(proses, candidates, strict=True)
        ]
        cites = cite_touched(self._run.workspace, texts)
        cited: list[Judged] = []
        for judged, prose, touched in zip(outcomes, proses, cites, strict=True):
            candidate = judged.candidate
            # A rule of conduct cites no code, whatever its commit touched.
            names_code = NAMES_CODE.search(prose) or list_mentions(prose)
            own_cites = touched if candidate.type != "directive" or names_code else ()
            cited.append(replace(judged, candidate=replace(candidate, cites=own_cites)))
        return tuple(cited)

    def _judge(self, work: WorkItem, evidence: EvidenceSet) -> list[Judged]:
        """Return the candidates that the rules and the model find, judged.

        The rules write only what is marked, and lose none of it. What they merely suspect shows the
        model where to look, and is proposed where there is no model.
        """
        case = self._open_case(work, evidence)
        reply = RulesEngine().extract(Request(change=case.label, evidence=case.pieces))
        by_rules = list(judge_reply(case, reply.text).judged)
        if self._run.asker is None or not (work.tip or work.is_declined):
            return by_rules
        shown = replace(evidence, changed=self._read_changed(work, evidence))
        answer = self._run.asker.ask(work.label, shown, self._draft.entries)
        if answer is None:
            return by_rules
        by_model = judge_reply(case, answer.text, answer.engine)
        self._shown_by_tools += list_shown_by_tools(by_model.judged, evidence.pieces)
        if answer.notice:
            self.tally.windows.append(f"{work.label}: {answer.notice}")
        self.tally.dropped.update(by_model.dropped)
        marked = [
            judged
            for judged in by_rules
            if judged.verdict != "suspected" or judged.candidate.marker
        ]
        return [*marked, *by_model.judged]

    def _open_case(self, work: WorkItem, evidence: EvidenceSet) -> JudgedCase:
        """Return the case of one piece of work: its evidence, and what candidates are judged by."""
        directory = common_directory(evidence.pieces)
        project = find_project(directory, self._run.phases)
        has_file = self._draft.path_of(ScopeOf("team", project)) is not None
        changed = list_changed_files(evidence.pieces)
        return JudgedCase(
            label=work.label,
            project=f"team:{project}" if project and has_file else self._draft.home_of(directory),
            tip=work.tip,
            is_declined=work.is_declined,
            pieces=evidence.pieces,
            existing=self._draft.entries,
            is_writable=lambda candidate: find_fault(self._build_entry(candidate, work)),
            find_document=lambda candidate: self._find_document(candidate, changed),
            known_to=self._list_known,
            shown_by_tools=tuple(self._shown_by_tools),
        )

    def _read_changed(self, work: WorkItem, evidence: EvidenceSet) -> str:
        """Return hunks of changed files that people spoke about in sessions.

        Files count as well that a tool call named which a person refused.
        """
        turns = [piece for piece in evidence.pieces if piece.session and piece.actor == "human"]
        if not turns or not work.start:
            return ""
        changed = list_changed_files(evidence.pieces)
        spoken = "\n".join(f"{turn.text}\n{turn.before}" for turn in turns)
        paths = list(find_named_places(spoken, changed))
        for turn in turns:
            paths += [path for path in turn.paths if path in changed]
        paths = list(dict.fromkeys(paths))[:MAX_CHANGED_FILES]
        if not paths:
            return ""
        try:
            hunks = read_hunks(self._repo, work.start, work.tip, paths)
        except RepositoryError:  # a blob that is missing in this clone
            return ""
        width = CHANGED_WIDTH // max(len(hunks), 1)
        return "\n".join(f"{path}\n{redact(text).text[:width]}" for path, text in hunks.items())

    def _list_known(self, candidate: Candidate) -> list[Entry]:
        """Return the entries that everybody is served already whom the candidate is for."""
        wanted = parse_target(candidate.scope)
        return [place.entry for place in self._draft.kept if is_covered(wanted, place.scope)]

    def _build_entry(self, candidate: Candidate, work: WorkItem) -> Entry:
        day = min(max(work.day, EARLIEST_DATE), self._run.today)
        aka = find_aka(candidate.title, candidate.body, work.called, candidate.aka)
        entry = to_entry(
            candidate, entry_id=entry_id(candidate), today=self._run.today, merged_on=day, aka=aka
        )
        project = find_project(parse_target(candidate.scope).where, self._run.phases)
        return replace(entry, phase=self._run.phases.get(project))

    def _find_uses(
        self,
        merged: MergedChange,
        members_commits: Sequence[Commit],
        gathered: Gathered,
        outcomes: Sequence[Judged],
    ) -> Uses:
        """Return the entries that a change was served, used, restated and confirmed.

        An entry was used if a trailer says so, or if the agent names a served entry in a sentence
        of its own. Trailers count in messages, in messages that a squash buried, and in the text of
        the request, but only those of members.
        """
        request = gathered.request
        is_by_member = merged.tip in members_commits
        texts = [commit.message for commit in members_commits if self._copies.claim(commit)]
        if is_by_member:
            buried = self._buried.find(merged, request.commits if request else ())
            texts += [
                format_trailers(trailers.trailers)
                for trailers in buried
                if trailers.how != "commit"
            ]
            texts += [request.body] if request else []
        served_as_written = list_ids(texts, SERVED_TRAILER)
        used_as_written = list_ids(texts, USED_TRAILER)
        self.tally.has_uses |= bool(served_as_written or used_as_written)
        served = self._resolve(served_as_written)
        if is_by_member:
            used_as_written += tuple(self._list_named_by_agent(gathered, served))
        restated = frozenset(
            judged.entry_id
            for judged in outcomes
            if judged.verdict == "restates" and judged.entry_id and not self._is_copy(judged)
        )
        paths = [file.path for commit in members_commits for file in commit.files]
        return Uses(
            served,
            frozenset(self._resolve(used_as_written)),
            restated,
            self.writer.list_confirmed(paths, request),
            list_ids(texts, HOLDOUT_TRAILER),
        )

    def _list_named_by_agent(self, gathered: Gathered, served: Sequence[str]) -> Iterator[str]:
        """Yield the ids, as written, of served entries that the agent names in its own text."""
        for event in gathered.events:
            if event.actor == "agent" and event.kind == "text":
                for name in list_named_ids(event.text):
                    if find_id(self._draft.entries, name) in served:
                        yield name

    def _is_copy(self, judged: Judged) -> bool:
        """Return whether a restating candidate comes from a copy of the entry's own commit.

        A cherry-pick or rebase keeps author and time: it repeats old words and is no new statement.
        """
        place = self._draft.by_id.get(judged.entry_id or "")
        if place is None or place.entry.id == entry_id(judged.candidate):
            return True
        shas = COMMIT.findall(place.entry.source or "") + COMMIT.findall(judged.candidate.source)
        authorships = {read_authorship(self._repo, sha) for sha in shas}
        return len(shas) == 2 and len(authorships) == 1 and None not in authorships

    def _resolve(self, ids_as_written: Iterable[str]) -> tuple[str, ...]:
        """Return the full ids of existing entries for ids as people write them, in order."""
        ids = (find_id(self._draft.entries, text) for text in dict.fromkeys(ids_as_written))
        return tuple(dict.fromkeys(filter(None, ids)))

    def _find_document(self, candidate: Candidate, changed: Iterable[str]) -> str | None:
        """Return the document or the changed file of code that says the same as a candidate."""
        document = find_restating_document(candidate.title, self._documents)
        if document:
            return document
        code = [path for path in changed if not DOCUMENT.fullmatch(path)][:MAX_DOCUMENTS]
        return find_restating_document(candidate.title, self._read_prose(code))

    @cached_property
    def _documents(self) -> tuple[Paragraph, ...]:
        """The paragraphs of the documents at the tip, read when a model's learning needs them."""
        documents = sorted(filter(is_document, self._run.base.tree.files))
        return tuple(self._read_prose(documents[:MAX_DOCUMENTS]))

    def _read_prose(self, paths: Iterable[str]) -> Iterator[Paragraph]:
        is_memory = build_memory_test(self._run.workspace)
        wanted = {path for path in paths if not is_memory(path)}
        for content in self._run.base.tree.read(wanted, MAX_DOCUMENT_BYTES):
            if content.data is not None:
                text = content.data.decode("utf-8", "replace")
                yield from list_paragraphs(content.file.path, text)


def find_fault(entry: Entry) -> str | None:
    """Return the slug of why an entry cannot be written, or None; it must not stop the others."""
    try:
        format_entry(entry)
    except UsageError as error:
        return error.slug
    return None
