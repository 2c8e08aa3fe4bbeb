"""Learning from merged changes: candidates for memory entries are found, judged and planned.

The events of a change (commits, reviews, sessions) become evidence, which is bounded and without
credentials. Rules and a model find candidates in it, and each gets a verdict: whether it is written
as an entry, or why not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.symbols import list_mentions
from memory_ci.commands.record.documents import Documents
from memory_ci.commands.record.episode_writer import EpisodeWriter
from memory_ci.commands.record.gatherer import Gathered, RecordRun, find_window
from memory_ci.commands.record.tally import Tally
from memory_ci.commands.record.uses import UseFinder
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
from memory_ci.extraction.markers import find_misspelt
from memory_ci.extraction.settlement import settle
from memory_ci.extraction.tombstones import Tombstones
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import iter_merged_changes, plan_range, read_hunks
from memory_ci.lifecycle.fold import is_covered, is_proved, is_restated_by, keep_note_text
from memory_ci.lifecycle.reinforcement import Use
from memory_ci.memory.cites import cite_touched
from memory_ci.memory.claims import find_claimed_uses, mark_unproved, read_session_notes
from memory_ci.memory.commit_texts import find_start
from memory_ci.memory.eligible import merged_on, title_of
from memory_ci.memory.forgotten import find_forgotten
from memory_ci.memory.lookup import list_past_ids
from memory_ci.memory.named_code import cite_named
from memory_ci.memory.screening import find_unsafe_entry
from memory_ci.memory.stage import find_project
from memory_ci.records.candidate import ACCEPTED_IN_REQUEST, Candidate, Judged, Request
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.event import EvidenceSet
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.records.names import (
    SHA_WIDTH,
    format_work_ref,
)
from memory_ci.records.plan import Change
from memory_ci.records.report import Finding
from memory_ci.sessions import checkpoints, session_join
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import parse_target
from memory_ci.text import NAMES_CODE, plural

OnProgress = Callable[[int, int], None]
"""Called with how many merged changes are done, and how many there are."""

MAX_FAILURES = 3
"""Declined requests that a model may fail at before a run stops asking it about them."""

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
        names: title, branch and labels, with credentials masked.
        start: the commit that it is based on.
        is_declined: whether it was closed without a merge.
    """

    label: str
    tip: str
    day: date
    names: str = ""
    start: str | None = None
    is_declined: bool = False


def _find_misspelt_marks(commits: Iterable[Commit]) -> Iterator[Finding]:
    """Yield a notice for each line of a commit message that looks like a misspelt mark."""
    for commit in commits:
        for label, mark in find_misspelt(commit.message):
            message = (
                f"{commit.sha[:SHA_WIDTH]} has a line `{label}:`, which is ignored: "
                f"it should be `{mark}:`"
            )
            hint = "Keep it with `memory-ci add`."
            yield Finding(".", 1, "misspelt-mark", message, hint, "notice")


def _describe_change(merged: MergedChange, request: PullRequest | None) -> WorkItem:
    """Return the work item of a merged change, named by its pull request or else its branch."""
    if request:
        names = [title_of(merged), request.title, request.branch, *request.labels]
    else:
        names = [title_of(merged), find_branch(merged.tip.message)]
    words = "\n".join(names).replace("/", " ")
    return WorkItem(
        label=merged.label,
        tip=merged.tip.sha,
        day=merged_on(merged),
        names=redact(words).text,
        start=find_start(merged),
    )


class Learner:
    """A reader of a range of merged changes, the oldest first, which plans entries from them."""

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
            past: ids of entries that were written before, and content keys of rejected ones. A
                content key is a hash of title and body.
            accepted: content keys of candidates that a person accepted.
            forgotten: hashes of text that was removed for good, and is neither read nor written.
        """
        self.writer = writer
        self.tally = Tally()
        self._run = run
        self._draft = run.draft
        self._repo = run.workspace.repo
        self._config = run.workspace.config
        self._past_keys = past
        self._accepted_keys = accepted
        self._tombstones = forgotten
        self._use_finder = UseFinder(run)
        self._documents = Documents(run.base)
        self._shown_by_tools: list[ShownByTools] = []

    def learn(self, progress: OnProgress) -> Iterator[Change]:
        """Yield the new entries of every merged change in the range, the oldest change first.

        Each entry is in the draft of memory before the next change is read. If the model fails, the
        range ends before the change, and the rest is for the next run.
        """
        # A range that cannot be read is an error, even after a failure of the model.
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
            yield from self._draft.apply(changes)
            progress(done, history.change_count)

    def read_declined(self, since: datetime) -> tuple[PullRequest, ...]:
        """Return the next pull requests that were closed without a merge; none after a failure.

        It is called before the range is learned from. If the list cannot be read, nothing of the
        range counts as read and the next run asks again, because git's history does not hold
        unmerged requests.

        Args:
            since: when the range begins; older requests that earlier runs did not reach are
                returned as well.
        """
        try:
            episodes = self.writer.episodes.values()
            window = find_window(self._run.base, since, self.writer.known_ids, episodes)
            return self._run.gatherer.read_declined(window)
        except EngineError as error:
            self.tally.failure = error
            return ()

    def learn_declined(self, requests: Sequence[PullRequest]) -> Iterator[Change]:
        """Yield the new entries of declined pull requests: rejected choices, words of reviewers.

        It comes after the merged changes. If the model fails at a request, that is a problem of the
        run, and the next run reads the request again. After `MAX_FAILURES` no more are read.
        """
        failures = 0
        for index, request in enumerate(requests):
            if self.tally.failure is not None or failures == MAX_FAILURES:
                unread = plural(len(requests) - index, "closed request")
                self.tally.problems.append(f"{unread} not read: the run had stopped asking")
                return
            # If its work was merged before it was closed, an earlier run may have learned from it.
            self._past_keys |= self._all_past_ids
            day = (request.closed_at or request.created_at).astimezone(UTC).date()
            work = WorkItem(label=f"#{request.number}", tip="", day=day, is_declined=True)
            gathered = self._run.gatherer.gather_declined(request)
            try:
                _, changes = self._study(work, gathered)
            except EngineError as error:
                failures += 1
                reason = f"{error.message} [{error.slug}]"
                self.tally.problems.append(f"#{request.number}, closed without a merge: {reason}")
                continue
            self.writer.add_declined(request, self._use_finder.find_declined(request))
            self.tally.declined += 1
            yield from self._draft.apply(changes)

    def learn_unmerged(self) -> Iterator[Change]:
        """Yield the new entries of agent sessions that belong to no merged change.

        Only the rules read them, not the model.
        """
        if self.tally.failure is not None:
            return
        gatherer = self._run.gatherer
        for unmerged, gathered in gatherer.gather_unmerged():
            branch_words = redact(unmerged.branch.replace("/", " ")).text
            day = unmerged.at.astimezone(UTC).date()
            work = WorkItem(label=unmerged.label, tip="", day=day, names=branch_words)
            _, changes = self._study(work, gathered)
            yield from self._draft.apply(changes)

        checkpoints_message = gatherer.describe_unnamed_checkpoints()
        if checkpoints_message:
            self._add_notice("unnamed-checkpoints", checkpoints_message, checkpoints.HINT)
        sessions_message = gatherer.describe_unmerged_sessions()
        if sessions_message:
            self._add_notice("unmerged-sessions", sessions_message, session_join.HINT)

    def _add_notice(self, code: str, message: str, hint: str) -> None:
        """Add a notice on the whole repository to the findings of the run."""
        self.tally.findings.append(Finding(".", 1, code, message, hint, "notice"))

    def _learn_from_change(self, merged: MergedChange) -> list[Change]:
        """Return the new entries of one merged change; note its uses of memory and its episode.

        An episode is the record of a change and its outcome.
        """
        gathered = self._run.gatherer.gather(merged)
        work = _describe_change(merged, gathered.request)
        judged, changes = self._study(work, gathered)
        member_commits = self._select_member_commits(merged, gathered.request)
        self.tally.findings += _find_misspelt_marks(member_commits)
        uses = self._use_finder.find(merged, member_commits, gathered, judged)
        self.tally.has_uses = self._use_finder.has_trailers
        paths = [file.path for commit in member_commits for file in commit.files]
        uses = replace(uses, confirmed=self.writer.list_confirmed(paths, gathered.request))
        work_name = format_work_ref(merged.number, merged.tip.sha)
        use = Use(
            label=merged.label,
            ref=work_name,
            day=work.day,
            ids=uses.reinforced,
            restated=uses.restated,
        )
        self.tally.uses.append((merged, use))
        self.writer.add_merged(merged, gathered, uses, judged)
        if merged.tip in member_commits:
            changes += self._take_session_notes(merged.label, gathered)
        return changes

    def _select_member_commits(
        self, merged: MergedChange, request: PullRequest | None
    ) -> list[Commit]:
        """Return the commits of people who may write to the repository, whose trailers count.

        Commits of outsiders are noted in the tally: their trailers count neither in this change nor
        in a later change that holds the same commits.
        """
        outsiders = self.tally.outsiders
        member_commits: list[Commit] = []
        for commit in merged.commits:
            if self._run.gatherer.is_by_member(commit, merged, request):
                member_commits.append(commit)
                continue
            # The value is the range of the change, in which git can prove what the commit claims.
            start = find_start(merged) or commit.sha
            outsiders[commit.sha[:SHA_WIDTH]] = (start, merged.tip.sha)
            self.tally.findings += find_claimed_uses(commit, "notice")
        return [commit for commit in member_commits if commit.sha[:SHA_WIDTH] not in outsiders]

    def _take_session_notes(self, label: str, gathered: Gathered) -> Iterator[Change]:
        """Yield the notes that an agent added to memory in a session, but that nobody committed.

        A note whose quotes its session does not hold becomes a problem of the run instead.

        Args:
            label: the name of the merged change, such as `#128`.
            gathered: the change's sessions.
        """
        session_keys = [join.id for join in gathered.joins if join.kind == "session"]
        for session_key, entry in read_session_notes(self._run.base, session_keys):
            written_before = {*self._past_keys, *self._all_past_ids, *self._draft.by_id}
            if {entry.id, content_key(entry.title, entry.body)} & written_before:
                continue
            place = self._file_session_note(entry)
            note = place.entry
            if self._tombstones and find_forgotten(self._tombstones, place):
                continue
            is_writable = bool(place.path) and not find_fault(note)
            if not is_writable or not is_proved(note) or any(find_unsafe_entry(place)):
                self.tally.problems.append(
                    f"the note {entry.id[:8]} of the session {session_key}: the session does not "
                    "hold its quotes, or the note cannot be written"
                )
                continue
            existing = (*self._draft.located, *self._draft.inbox)
            if not any(is_restated_by(place, existing_place) for existing_place in existing):
                self._past_keys |= {entry.id}
                why = f"from {label}"
                yield Change(step="extract", kind="add", path=place.path, entry=note, why=why)

    def _file_session_note(self, entry: Entry) -> Located:
        """Return a note of a session with the memory file that it belongs to.

        It has its title, body, type and looked-up quotes alone. The path is "" if its scope has no
        file that could be written.
        """
        target = parse_target(entry.scope or "project")
        path = self._draft.path_of(target) if target.name in ("team", "project") else None
        proved = mark_unproved(self._run.base, entry)
        plain = keep_note_text(Located(entry, path or "", 1, target), self._run.today)
        note = replace(plain.entry, evidence=proved.evidence, cites=proved.cites)
        return replace(plain, entry=note)

    @cached_property
    def _all_past_ids(self) -> frozenset[str]:
        """The ids of all entries that history ever held."""
        return list_past_ids(self._run.workspace, self._run.base.sha)

    def _study(self, work: WorkItem, gathered: Gathered) -> tuple[tuple[Judged, ...], list[Change]]:
        """Judge all candidates of one piece of work, and plan the entries that are written.

        Returns:
            The candidates with their verdicts, and the additions of entries.

        Raises:
            EngineError: if the model fails; then nothing of the work is tallied.
            UnreadableMemoryError: no-scope-file.
        """
        tombstones = self._tombstones
        events = tombstones.mask_all(gathered.events)
        evidence = collect(events, self._config.extraction, tombstones.mask(work.names))
        proposed = [
            judged
            for judged in self._judge(work, evidence)
            if not tombstones.refuses_candidate(judged.candidate)
        ]
        self.tally.joins += gathered.joins
        self.tally.redactions += evidence.redactions
        self.tally.left_out.update(left_out.reason for left_out in evidence.left_out)
        outcomes = self._cite(self._settle(proposed))
        self.tally.judged += outcomes
        written = [judged.candidate for judged in outcomes if judged.verdict == "written"]
        return outcomes, self._plan_additions(work, written)

    def _plan_additions(self, work: WorkItem, candidates: Sequence[Candidate]) -> list[Change]:
        """Return the additions of the entries of candidates, each to the file of its scope.

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
        """Return the candidates of one change with their final verdicts.

        A candidate that a person accepted is written. A candidate that an earlier run wrote is not
        written again, even if a person reworded or removed it. The limit of entries per change
        counts candidates that no author marked as a learning, those of earlier runs included.
        """
        limit = self._config.extraction.max_entries_per_change
        settled = settle([self._accept(judged) for judged in proposed], limit)
        candidates = [judged.candidate for judged in settled]
        written_before = [self._was_written(candidate) for candidate in candidates]
        available = limit
        for candidate, is_written_before in zip(candidates, written_before, strict=True):
            if is_written_before and not candidate.is_marked:
                available -= 1
        outcomes: list[Judged] = []
        for judged, is_written_before in zip(settled, written_before, strict=True):
            outcome = judged
            if judged.verdict == "written" and is_written_before:
                reason = "written by an earlier run, and reworded or removed since"
                outcome = replace(judged, verdict="restates", reason=reason)
            elif judged.verdict == "written" and not judged.candidate.is_marked:
                if available <= 0:
                    reason = f"earlier runs wrote {limit} of this change"
                    outcome = replace(judged, verdict="over_limit", reason=reason)
                available -= 1
            outcomes.append(outcome)
        return tuple(outcomes)

    def _accept(self, judged: Judged) -> Judged:
        """Return a candidate that was only suspected as written, if a person has accepted it."""
        candidate = judged.candidate
        if judged.verdict != "suspected":
            return judged
        if content_key(candidate.title, candidate.body) not in self._accepted_keys:
            return judged
        accepted = replace(candidate, accepted=ACCEPTED_IN_REQUEST)
        return replace(judged, verdict="written", reason="accepted by a person", candidate=accepted)

    def _was_written(self, candidate: Candidate) -> bool:
        """Return whether memory holds a candidate's entry, or held it before this run."""
        own_id = entry_id(candidate)
        own_keys = {own_id, content_key(candidate.title, candidate.body)}
        return own_id in self._draft.by_id or not self._past_keys.isdisjoint(own_keys)

    def _cite(self, outcomes: Sequence[Judged]) -> tuple[Judged, ...]:
        """Return the candidates with their cites: places in the code that their commit touched."""
        candidates = [judged.candidate for judged in outcomes]
        texts = [f"{candidate.title}\n{candidate.body}" for candidate in candidates]
        touched_places = [candidate.cites for candidate in candidates]
        cites = cite_touched(self._run.workspace, list(zip(texts, touched_places, strict=True)))
        cited: list[Judged] = []
        for judged, text, own_cites in zip(outcomes, texts, cites, strict=True):
            candidate = judged.candidate
            names_code = NAMES_CODE.search(text) or list_mentions(text)
            # A rule of conduct cites no code, whatever its commit touched.
            is_conduct = candidate.type == "directive" and not names_code
            candidate = replace(candidate, cites=() if is_conduct else own_cites)
            cited.append(replace(judged, candidate=candidate))
        return tuple(cited)

    def _judge(self, work: WorkItem, evidence: EvidenceSet) -> list[Judged]:
        """Return the candidates that the rules and the model find in evidence, with verdicts.

        The rules write each learning that an author marked, so that the model cannot lose any.
        Sentences that merely look like a learning to the rules are kept only if no model is asked.
        No model is asked about sessions that belong to no change.
        """
        case = self._open_case(work, evidence)
        reply = RulesEngine().extract(Request(change=case.label, evidence=case.pieces))
        by_rules = list(judge_reply(case, reply.text).judged)
        is_change = bool(work.tip) or work.is_declined
        if self._run.client is None or not is_change:
            return by_rules
        evidence = replace(evidence, changed=self._read_named_hunks(work, evidence))
        answer = self._run.client.ask(work.label, evidence, self._draft.entries)
        if answer is None:
            return by_rules
        by_model = judge_reply(case, answer.text, answer.engine)
        self._shown_by_tools += list_shown_by_tools(by_model.judged, evidence.pieces)
        if answer.notice:
            self.tally.windows.append(f"{work.label}: {answer.notice}")
        self.tally.dropped.update(by_model.dropped)
        kept: list[Judged] = []
        for judged in by_rules:
            is_merely_suspected = judged.verdict == "suspected" and not judged.candidate.marker
            if not is_merely_suspected:
                kept.append(judged)
        return [*kept, *by_model.judged]

    def _open_case(self, work: WorkItem, evidence: EvidenceSet) -> JudgedCase:
        """Return the case of one piece of work: all that its candidates are judged by.

        That is its evidence, the existing entries, and the documents that may say the same.
        """
        directory = common_directory(evidence.pieces)
        project = find_project(directory, self._run.phases)
        scope = self._draft.find_scope_of_directory(directory)
        if project and self._draft.path_of(ScopeOf("team", project)) is not None:
            scope = f"team:{project}"
        changed_paths = list_changed_files(evidence.pieces)
        return JudgedCase(
            label=work.label,
            project=scope,
            tip=work.tip,
            is_declined=work.is_declined,
            pieces=evidence.pieces,
            existing=self._draft.entries,
            find_fault=lambda candidate: find_fault(self._build_entry(candidate, work)),
            find_document=lambda candidate: self._documents.find_restating(
                candidate.title, changed_paths
            ),
            list_known=self._list_served,
            shown_by_tools=tuple(self._shown_by_tools),
        )

    def _read_named_hunks(self, work: WorkItem, evidence: EvidenceSet) -> str:
        """Return hunks of the changed files that people named in sessions, for the model.

        A file counts as well if a person refused a tool call that named it. The hunks are cut to
        `CHANGED_WIDTH` characters, and credentials in them are masked.
        """
        turns = [piece for piece in evidence.pieces if piece.session and piece.actor == "human"]
        if not turns or not work.start:
            return ""
        changed_paths = list_changed_files(evidence.pieces)
        words = "\n".join(f"{turn.text}\n{turn.before}" for turn in turns)
        paths = list(find_named_places(words, changed_paths))
        for turn in turns:
            paths += [path for path in turn.paths if path in changed_paths]
        distinct_paths = list(dict.fromkeys(paths))[:MAX_CHANGED_FILES]
        if not distinct_paths:
            return ""
        try:
            hunks = read_hunks(self._repo, work.start, work.tip, distinct_paths)
        except RepositoryError:  # a blob that is missing in this clone
            return ""
        width = CHANGED_WIDTH // max(len(hunks), 1)
        return "\n".join(f"{path}\n{redact(text).text[:width]}" for path, text in hunks.items())

    def _list_served(self, candidate: Candidate) -> list[Entry]:
        """Return the entries that all agents are shown whom a candidate is for."""
        wanted = parse_target(candidate.scope)
        return [place.entry for place in self._draft.located if is_covered(wanted, place.scope)]

    def _build_entry(self, candidate: Candidate, work: WorkItem) -> Entry:
        """Return a candidate as an entry of memory, dated as of its merge."""
        day = min(max(work.day, EARLIEST_DATE), self._run.today)
        aka = find_aka(candidate.title, candidate.body, work.names, candidate.aka)
        entry = to_entry(
            candidate, entry_id=entry_id(candidate), today=self._run.today, merged_on=day, aka=aka
        )
        project = find_project(parse_target(candidate.scope).where, self._run.phases)
        return replace(entry, phase=self._run.phases.get(project))


def find_fault(entry: Entry) -> str | None:
    """Return the slug of why an entry cannot be written as text, or None if it can."""
    try:
        format_entry(entry)
    except UsageError as error:
        return error.slug
    return None
