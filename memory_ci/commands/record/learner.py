"""Learning from merged changes: candidates for memory entries are found, judged and planned.

The events of a change (commits, reviews, sessions) become evidence, which is bounded and without
credentials. Rules and a model find candidates in it, and each gets a verdict: whether it is written
as an entry, or why not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from memory_ci.anchors.symbols import list_mentions
from memory_ci.commands.record.change_uses import UseFinder
from memory_ci.commands.record.documents import Documents
from memory_ci.commands.record.episode_writer import EpisodeWriter
from memory_ci.commands.record.gatherer import GatheredEvents, RecordRun, find_declined_window
from memory_ci.commands.record.run_results import RunResults
from memory_ci.commands.record.work_item import WorkItem, describe_change, find_misspelt_marks
from memory_ci.errors import EngineError, RepositoryError, UnreadableMemoryError, UsageError
from memory_ci.evidence.content import redact
from memory_ci.evidence.ingestion import collect_evidence
from memory_ci.extraction.cites import find_named_places
from memory_ci.extraction.engines.rules import RulesEngine
from memory_ci.extraction.entries import (
    EARLIEST_DATE,
    compute_content_key,
    entry_id,
    find_aka,
    find_common_directory,
    list_changed_files,
    to_entry,
)
from memory_ci.extraction.judge import (
    JudgedCase,
    ShownByTools,
    judge_reply,
    list_shown_by_tools,
)
from memory_ci.extraction.settlement import settle_candidates
from memory_ci.extraction.tombstones import Tombstones
from memory_ci.gitrepo.history import iter_merged_changes, plan_range, read_hunks
from memory_ci.lifecycle.fold import is_covered, is_proved, is_restated_by, keep_note_text
from memory_ci.lifecycle.reinforcement import Use
from memory_ci.memory.cites import cite_touched
from memory_ci.memory.claims import find_claimed_uses, mark_unproved, read_session_notes
from memory_ci.memory.commit_texts import find_start
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

MAX_HUNKS_CHARS = 2_000
"""Characters of all these hunks."""


def ignore_progress(_done: int, _total: int) -> None:
    """Show nothing, where nobody waits for the progress."""


class LearnedWork(NamedTuple):
    """The candidates found in one piece of work, and the entries to write.

    Attributes:
        judged_candidates: all candidates, each with its verdict.
        additions: the additions of the entries whose verdict is "written".
    """

    judged_candidates: tuple[Judged, ...]
    additions: list[Change]


class Learner:
    """A reader of a range of merged changes, the oldest first, which plans entries from them."""

    def __init__(
        self,
        run: RecordRun,
        writer: EpisodeWriter,
        past_keys: frozenset[str],
        accepted_keys: frozenset[str],
        tombstones: Tombstones,
    ) -> None:
        """Create a learner.

        Args:
            run: the state that the parts of the run share.
            writer: writes the episodes of the changes.
            past_keys: ids of entries that were written before, and content keys of rejected
                entries. A content key is a hash of title and body.
            accepted_keys: content keys of candidates that a person accepted.
            tombstones: hashes of text that was removed for good, and is neither read nor written.
        """
        self.writer = writer
        self.results = RunResults()
        self._run = run
        self._draft = run.draft
        self._repo = run.workspace.repo
        self._config = run.workspace.config
        self._past_keys = past_keys
        self._accepted_keys = accepted_keys
        self._tombstones = tombstones
        self._use_finder = UseFinder(run)
        self._documents = Documents(run.base)
        # Learnings of the changes so far that only the output of tools showed, not a person.
        self._shown_by_tools: list[ShownByTools] = []

    def learn(self, progress: OnProgress) -> Iterator[Change]:
        """Yield the new entries of every merged change in the range, the oldest change first.

        The draft of memory takes each entry before the next change is read. If the model fails, the
        range ends before the change, and the rest is for the next run.

        Args:
            progress: called after each change.
        """
        # A range that cannot be read is an error, even after a failure of the model.
        history = plan_range(self._repo, self._run.since, self._run.base.sha)
        if self.results.model_failure is not None:
            return
        for done_count, merged in enumerate(iter_merged_changes(self._repo, history), start=1):
            try:
                additions = self._learn_from_change(merged)
            except EngineError as error:
                self.results.model_failure = error
                return
            self.results.range_commits += (replace(commit, files=()) for commit in merged.commits)
            self.results.last_change_sha = merged.tip.sha
            yield from self._draft.apply(additions)
            progress(done_count, history.change_count)

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
            window = find_declined_window(self._run.base, since, self.writer.known_ids, episodes)
            return self._run.gatherer.read_declined(window)
        except EngineError as error:
            self.results.model_failure = error
            return ()

    def learn_declined(self, requests: Sequence[PullRequest]) -> Iterator[Change]:
        """Yield the new entries of declined pull requests: rejected choices, words of reviewers.

        They are read after the merged changes. If the model fails at a request, that is a problem
        of the run, and the next run reads the request again. After `MAX_FAILURES` no more are read.
        """
        if requests and self.results.model_failure is None:
            # If the work of a request was merged before it was closed, an earlier run may have
            # learned from it, and a person may have removed the entry since.
            self._past_keys |= self._all_past_ids
        failure_count = 0
        for index, request in enumerate(requests):
            if self.results.model_failure is not None or failure_count == MAX_FAILURES:
                unread_text = plural(len(requests) - index, "closed request")
                self.results.problems.append(f"{unread_text} not read: the run had stopped asking")
                return
            day = (request.closed_at or request.created_at).astimezone(UTC).date()
            work = WorkItem(label=f"#{request.number}", tip_sha="", day=day, is_declined=True)
            gathered_events = self._run.gatherer.gather_declined(request)
            try:
                additions = self._learn_from_work(work, gathered_events).additions
            except EngineError as error:
                failure_count += 1
                reason = f"{error.message} [{error.slug}]"
                self.results.problems.append(f"#{request.number}, closed without a merge: {reason}")
                continue
            self.writer.add_declined(request, self._use_finder.find_declined(request))
            self.results.declined_count += 1
            yield from self._draft.apply(additions)

    def learn_unmerged(self) -> Iterator[Change]:
        """Yield the new entries of agent sessions that belong to no merged change.

        Only the rules read them, not the model.
        """
        if self.results.model_failure is not None:
            return
        gatherer = self._run.gatherer
        for unmerged_work, gathered_events in gatherer.gather_unmerged():
            branch_words = redact(unmerged_work.branch.replace("/", " ")).text
            day = unmerged_work.at.astimezone(UTC).date()
            work = WorkItem(
                label=unmerged_work.label, tip_sha="", day=day, masked_names=branch_words
            )
            yield from self._draft.apply(self._learn_from_work(work, gathered_events).additions)

        checkpoints_message = gatherer.describe_unnamed_checkpoints()
        if checkpoints_message:
            self._add_notice("unnamed-checkpoints", checkpoints_message, checkpoints.HINT)
        sessions_message = gatherer.describe_unmerged_sessions()
        if sessions_message:
            self._add_notice("unmerged-sessions", sessions_message, session_join.HINT)

    def _add_notice(self, code: str, message: str, hint: str) -> None:
        """Add a notice on the whole repository to the findings of the run."""
        self.results.findings.append(Finding(".", 1, code, message, hint, "notice"))

    def _learn_from_change(self, merged: MergedChange) -> list[Change]:
        """Return the additions of the new entries of one merged change.

        The entries that the change used are added to the results of the run, and the episode (the
        record of the change and its outcome) is passed to the writer.

        Raises:
            EngineError: if the model or the forge fails.
        """
        gathered_events = self._run.gatherer.gather(merged)
        work = describe_change(merged, gathered_events.request)
        judged_candidates, additions = self._learn_from_work(work, gathered_events)

        member_commits = self._select_member_commits(merged, gathered_events.request)
        self.results.findings += find_misspelt_marks(member_commits)
        change_uses = self._use_finder.find(
            merged, member_commits, gathered_events, judged_candidates
        )
        self.results.has_use_trailers = self._use_finder.has_trailers
        paths = [file.path for commit in member_commits for file in commit.files]
        confirmed_ids = self.writer.list_confirmed(paths, gathered_events.request)
        change_uses = replace(change_uses, confirmed_ids=confirmed_ids)
        counted_use = Use(
            label=merged.label,
            ref=format_work_ref(merged.number, merged.tip.sha),
            day=work.day,
            ids=change_uses.reinforced,
            restated=change_uses.restated_ids,
        )
        self.results.counted_uses.append((merged, counted_use))
        self.writer.add_merged(merged, gathered_events, change_uses, judged_candidates)

        is_by_member = merged.tip in member_commits
        if is_by_member:
            additions += self._plan_session_notes(merged.label, gathered_events)
        return additions

    def _select_member_commits(
        self, merged: MergedChange, request: PullRequest | None
    ) -> list[Commit]:
        """Return the commits of people who may write to the repository, whose trailers count.

        Commits of outsiders are noted in the results: their trailers count neither in this change
        nor in a later change that holds the same commits.
        """
        outsiders = self.results.outsider_commits
        member_commits: list[Commit] = []
        for commit in merged.commits:
            if self._run.gatherer.is_by_member(commit, merged, request):
                member_commits.append(commit)
                continue
            # The value is the range of the change, in which git can prove what the commit claims.
            start = find_start(merged) or commit.sha
            outsiders[commit.sha[:SHA_WIDTH]] = (start, merged.tip.sha)
            self.results.findings += find_claimed_uses(commit, "notice")
        return [commit for commit in member_commits if commit.sha[:SHA_WIDTH] not in outsiders]

    def _plan_session_notes(self, label: str, gathered_events: GatheredEvents) -> Iterator[Change]:
        """Yield additions of the notes that an agent wrote in a session and nobody committed.

        Left out are notes that memory holds or held, and notes that repeat an entry. A note becomes
        a problem of the run if its session does not hold its quotes, if it cannot be written as
        text, or if it must not be shown to agents.

        Args:
            label: the name of the merged change, such as `#128`.
            gathered_events: the change's sessions.
        """
        session_keys = [source.id for source in gathered_events.sources if source.kind == "session"]
        for session_key, entry in read_session_notes(self._run.base, session_keys):
            written_keys = {*self._past_keys, *self._all_past_ids, *self._draft.by_id}
            if {entry.id, compute_content_key(entry.title, entry.body)} & written_keys:
                continue
            located_note = self._locate_session_note(entry)
            note = located_note.entry
            if self._tombstones and find_forgotten(self._tombstones, located_note):
                continue
            is_writable = bool(located_note.path) and not find_fault(note)
            if not is_writable or not is_proved(note) or any(find_unsafe_entry(located_note)):
                self.results.problems.append(
                    f"the note {entry.id[:8]} of the session {session_key}: the session does not "
                    "hold its quotes, or the note cannot be written"
                )
                continue
            existing = (*self._draft.located, *self._draft.inbox)
            if not any(is_restated_by(located_note, located) for located in existing):
                self._past_keys |= {entry.id}
                yield Change(
                    step="extract",
                    kind="add",
                    path=located_note.path,
                    entry=note,
                    why=f"from {label}",
                )

    def _locate_session_note(self, entry: Entry) -> Located:
        """Return a note of a session, with the memory file that it is to be added to.

        Anyone may have written the note into the session's ref. So it keeps its title, body and
        type, its cites, and its quotes, each marked if the session does not hold it; all other
        claims, such as its importance, are removed. The path is "" if its scope has no file that
        could be written.
        """
        scope = parse_target(entry.scope or "project")
        path = self._draft.path_of(scope) if scope.name in ("team", "project") else None
        note_with_proofs = mark_unproved(self._run.base, entry)
        stripped = keep_note_text(Located(entry, path or "", 1, scope), self._run.today)
        note = replace(
            stripped.entry, evidence=note_with_proofs.evidence, cites=note_with_proofs.cites
        )
        return replace(stripped, entry=note)

    @cached_property
    def _all_past_ids(self) -> frozenset[str]:
        """The ids of all entries that history ever held."""
        return list_past_ids(self._run.workspace, self._run.base.sha)

    def _learn_from_work(self, work: WorkItem, gathered_events: GatheredEvents) -> LearnedWork:
        """Find and judge all candidates of one piece of work, and plan entries for the good ones.

        Text that was removed from memory for good (tombstones hold its hashes) is masked in the
        evidence, and candidates that say it again are dropped.

        Args:
            work: the piece of work.
            gathered_events: its events.

        Raises:
            EngineError: if the model fails; then nothing of the work is added to the results.
            UnreadableMemoryError: no-scope-file.
        """
        tombstones = self._tombstones
        events = tombstones.mask_all(gathered_events.events)
        evidence = collect_evidence(
            events, self._config.extraction, tombstones.mask(work.masked_names)
        )
        found_candidates = self._find_candidates(work, evidence)
        allowed_candidates = [
            judged
            for judged in found_candidates
            if not tombstones.refuses_candidate(judged.candidate)
        ]
        self.results.joined_sources += gathered_events.sources
        self.results.redaction_count += evidence.redactions
        self.results.left_out_events.update(left_out.reason for left_out in evidence.left_out)
        judged_candidates = self._cite_touched_code(self._decide_verdicts(allowed_candidates))
        self.results.judged_candidates += judged_candidates
        written_candidates = [
            judged.candidate for judged in judged_candidates if judged.verdict == "written"
        ]
        return LearnedWork(judged_candidates, self._plan_additions(work, written_candidates))

    def _plan_additions(self, work: WorkItem, candidates: Sequence[Candidate]) -> list[Change]:
        """Return the additions of the entries of candidates, each to the file of its scope.

        Raises:
            UnreadableMemoryError: no-scope-file if the memory file of a scope cannot be written.
        """
        paths = [self._draft.path_of(parse_target(candidate.scope)) for candidate in candidates]
        entries = [self._build_entry(candidate, work) for candidate in candidates]
        cited_entries = cite_named(self._run.workspace, entries, work.tip_sha or self._run.base.sha)
        changes: list[Change] = []
        for candidate, path, entry in zip(candidates, paths, cited_entries, strict=True):
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

    def _decide_verdicts(self, judged_candidates: Sequence[Judged]) -> tuple[Judged, ...]:
        """Return the candidates of one change with their final verdicts.

        A candidate that a person accepted gets the verdict "written". A candidate that an earlier
        run wrote is not written again, even if a person reworded or removed its entry: it
        "restates". At most `max_entries_per_change` candidates that no author marked as a learning
        are written for a change, by all runs together; further ones are "over_limit".
        """
        limit = self._config.extraction.max_entries_per_change
        accepted = [self._apply_acceptance(judged) for judged in judged_candidates]
        # `settle_candidates` merges equal candidates and applies the limit to this run alone.
        settled = settle_candidates(accepted, limit)
        unmarked_count = 0  # Entries without an author's mark, of earlier runs and of this one.
        for judged in settled:
            if self._is_written_before(judged.candidate) and not judged.candidate.is_marked:
                unmarked_count += 1
        final: list[Judged] = []
        for judged in settled:
            if judged.verdict != "written":
                final.append(judged)
            elif self._is_written_before(judged.candidate):
                reason = "written by an earlier run, and reworded or removed since"
                final.append(replace(judged, verdict="restates", reason=reason))
            elif judged.candidate.is_marked:
                final.append(judged)
            elif unmarked_count < limit:
                unmarked_count += 1
                final.append(judged)
            else:
                reason = f"earlier runs wrote {limit} of this change"
                final.append(replace(judged, verdict="over_limit", reason=reason))
        return tuple(final)

    def _apply_acceptance(self, judged: Judged) -> Judged:
        """Return a candidate, with the verdict "written" if a person has accepted it.

        People are asked about candidates with the verdict "suspected" only, in the pull request
        with the memory branch.
        """
        candidate = judged.candidate
        if judged.verdict != "suspected":
            return judged
        if compute_content_key(candidate.title, candidate.body) not in self._accepted_keys:
            return judged
        accepted_candidate = replace(candidate, accepted=ACCEPTED_IN_REQUEST)
        return replace(
            judged, verdict="written", reason="accepted by a person", candidate=accepted_candidate
        )

    def _is_written_before(self, candidate: Candidate) -> bool:
        """Return whether memory holds a candidate's entry, or held it before this run."""
        own_id = entry_id(candidate)
        own_keys = {own_id, compute_content_key(candidate.title, candidate.body)}
        return own_id in self._draft.by_id or not self._past_keys.isdisjoint(own_keys)

    def _cite_touched_code(self, judged_candidates: Sequence[Judged]) -> tuple[Judged, ...]:
        """Return candidates that cite the code they are about, among the code their commit touched.

        Until then a candidate cites all code that its commit touched. A rule of conduct, which
        names no code, gets no cites.
        """
        texts: list[str] = []
        touched_cites: list[tuple[str, ...]] = []
        for judged in judged_candidates:
            texts.append(f"{judged.candidate.title}\n{judged.candidate.body}")
            touched_cites.append(judged.candidate.cites)
        chosen_cites = cite_touched(
            self._run.workspace, list(zip(texts, touched_cites, strict=True))
        )
        cited_candidates: list[Judged] = []
        for judged, text, cites in zip(judged_candidates, texts, chosen_cites, strict=True):
            candidate = judged.candidate
            names_code = NAMES_CODE.search(text) or list_mentions(text)
            is_conduct = candidate.type == "directive" and not names_code
            candidate = replace(candidate, cites=() if is_conduct else cites)
            cited_candidates.append(replace(judged, candidate=candidate))
        return tuple(cited_candidates)

    def _find_candidates(self, work: WorkItem, evidence: EvidenceSet) -> list[Judged]:
        """Return the candidates that the rules and the model find in evidence, with verdicts.

        The rules write each learning that an author marked, so that the model cannot lose any.
        Sentences that merely look like a learning to the rules are kept only if no model is asked.
        No model is asked about sessions that belong to no change.
        """
        case = self._collect_judging_data(work, evidence)
        rules_reply = RulesEngine().extract(Request(change=case.label, evidence=case.pieces))
        found_by_rules = list(judge_reply(case, rules_reply.text).judged)
        is_change = bool(work.tip_sha) or work.is_declined
        if self._run.client is None or not is_change:
            return found_by_rules

        evidence = replace(evidence, changed=self._read_named_hunks(work, evidence))
        model_answer = self._run.client.ask(work.label, evidence, self._draft.entries)
        if model_answer is None:
            return found_by_rules
        model_reply = judge_reply(case, model_answer.text, model_answer.engine)
        # Candidates of later changes are judged by what tools printed in this one, too.
        self._shown_by_tools += list_shown_by_tools(model_reply.judged, evidence.pieces)
        if model_answer.notice:
            self.results.evidence_gaps.append(f"{work.label}: {model_answer.notice}")
        self.results.unread_learnings.update(model_reply.dropped)
        certain: list[Judged] = []
        for judged in found_by_rules:
            is_merely_suspected = judged.verdict == "suspected" and not judged.candidate.marker
            if not is_merely_suspected:
                certain.append(judged)
        return [*certain, *model_reply.judged]

    def _collect_judging_data(self, work: WorkItem, evidence: EvidenceSet) -> JudgedCase:
        """Return the data by which the candidates of one piece of work are judged.

        These are its evidence, the existing entries, the documents that may say the same, and the
        scope that candidates get: the team of the project or directory that the work changed.
        """
        directory = find_common_directory(evidence.pieces)
        project = find_project(directory, self._run.phases)
        scope = self._draft.find_scope_of_directory(directory)
        if project and self._draft.path_of(ScopeOf("team", project)) is not None:
            scope = f"team:{project}"
        changed_paths = list_changed_files(evidence.pieces)

        def find_fault_of_candidate(candidate: Candidate) -> str | None:
            return find_fault(self._build_entry(candidate, work))

        def find_restating_document(candidate: Candidate) -> str | None:
            return self._documents.find_restating(candidate.title, changed_paths)

        return JudgedCase(
            label=work.label,
            project=scope,
            tip=work.tip_sha,
            is_declined=work.is_declined,
            pieces=evidence.pieces,
            existing=self._draft.entries,
            find_fault=find_fault_of_candidate,
            find_document=find_restating_document,
            list_known=self._list_entries_in_scope,
            shown_by_tools=tuple(self._shown_by_tools),
        )

    def _read_named_hunks(self, work: WorkItem, evidence: EvidenceSet) -> str:
        """Return hunks of the changed files that people wrote about in sessions, for the model.

        These are files that a person named, or read about in the text before (`turn.before`), and
        files of tool calls that a person refused (`turn.paths`). The hunks are cut to
        `MAX_HUNKS_CHARS` characters, and credentials in them are masked.
        """
        turns = [piece for piece in evidence.pieces if piece.session and piece.actor == "human"]
        if not turns or not work.base_sha:
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
            hunks = read_hunks(self._repo, work.base_sha, work.tip_sha, distinct_paths)
        except RepositoryError:  # a blob that is missing in this clone
            return ""
        width = MAX_HUNKS_CHARS // max(len(hunks), 1)
        return "\n".join(f"{path}\n{redact(text).text[:width]}" for path, text in hunks.items())

    def _list_entries_in_scope(self, candidate: Candidate) -> list[Entry]:
        """Return the entries that are served to all agents to whom a candidate would be served."""
        scope = parse_target(candidate.scope)
        return [
            located.entry for located in self._draft.located if is_covered(scope, located.scope)
        ]

    def _build_entry(self, candidate: Candidate, work: WorkItem) -> Entry:
        """Return a candidate as an entry of memory, dated as of its merge."""
        day = min(max(work.day, EARLIEST_DATE), self._run.today)
        aka = find_aka(candidate.title, candidate.body, work.masked_names, candidate.aka)
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
