"""Learning from merged changes: events, evidence, candidates, and the entries that are written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
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
from memory_ci.extraction.cites import name_places
from memory_ci.extraction.engines.rules import RulesEngine
from memory_ci.extraction.entries import (
    EARLIEST,
    common_directory,
    content_key,
    entry_id,
    find_aka,
    list_changed,
    to_entry,
)
from memory_ci.extraction.judge import JudgedCase, is_record, judge_reply, settle
from memory_ci.extraction.support import (
    DOCUMENT,
    Paragraph,
    find_told,
    is_document,
    list_paragraphs,
)
from memory_ci.extraction.tombstones import Tombstones
from memory_ci.gitrepo.forges import find_branch
from memory_ci.gitrepo.history import iter_merged_changes, plan_range, read_authorship, read_hunks
from memory_ci.gitrepo.squash_trailers import BuriedTrailers
from memory_ci.gitrepo.trailers import format_trailers
from memory_ci.lifecycle.fold import is_covered, is_kept, is_proved, strip_claims
from memory_ci.lifecycle.reinforcement import Use, list_named
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
from memory_ci.memory.workspace import memory_test
from memory_ci.records.candidate import ACCEPTED_IN, Candidate, Judged, Request
from memory_ci.records.entry import Entry, Located, ScopeOf
from memory_ci.records.event import EvidenceSet
from memory_ci.records.history import Commit, MergedChange, PullRequest
from memory_ci.records.names import HOLDOUT, SERVED, SHA_WIDTH, USED, work_ref
from memory_ci.records.plan import Change, Join
from memory_ci.records.report import Finding
from memory_ci.sessions import checkpoints
from memory_ci.store.edits import format_entry
from memory_ci.store.layout import parse_target
from memory_ci.text import NAMES_CODE, plural

OnProgress = Callable[[int, int], None]  # Called with (merged changes done, merged changes in all).
COMMIT = re.compile(r"\bcommit:([0-9a-f]{7,64})\b")
MAX_FAILURES = (
    3  # Declined requests that a model may fail at before a run asks it for no more of them.
)
MAX_DOCUMENTS = 300  # And as many files of code.
MAX_DOCUMENT_BYTES = 200_000  # What is longer was generated.

MAX_CHANGED, CHANGED_WIDTH = 3, 2_000
"""Files that people spoke about of which hunks are shown to a model, and the characters of all."""


class WorkItem(NamedTuple):
    """A merged change, or work that was not merged, whose `tip` is "": a declined request, or a checkpoint that belongs
    to no change. `day` is when it was merged or closed. `called` are its title, branch and labels, masked; `start` is
    the commit that it is based on."""

    label: str
    tip: str
    day: date
    called: str = ""
    start: str | None = None
    is_declined: bool = False


class Tally(msgspec.Struct):
    """What a run found: for its report, and for the steps that follow. `failure` says why the model stopped the run;
    `covered` is then the tip of the last change before that."""

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
    """Reads a range once, oldest change first, and tallies what it finds. `past` has the ids of what was written
    before, and the content keys of what was rejected; `accepted` the keys of candidates that a person accepted. What is
    `forgotten` is neither read nor written."""

    def __init__(
        self,
        run: RecordRun,
        writer: EpisodeWriter,
        past: frozenset[str],
        accepted: frozenset[str],
        forgotten: Tombstones,
    ) -> None:
        self._accepted, self._forgotten = accepted, forgotten
        self._run, self._draft, self._past, self.writer = run, run.draft, past, writer
        self._repo, self._config = run.workspace.repo, run.workspace.config
        self._buried, self._copies = (
            BuriedTrailers(self._repo, run.base.sha),
            Copies(self._repo, run.since),
        )
        self.tally = Tally()

    def learn(self, progress: OnProgress) -> Iterator[Change]:
        """The additions of every merged change in the range; each is in the draft before the next is read. A model that
        fails ends it: the changes before that are learned from, the rest is for the next run."""
        history = plan_range(self._repo, self._run.since, self._run.base.sha)
        if self.tally.failure is not None:
            return
        for done, merged in enumerate(iter_merged_changes(self._repo, history), start=1):
            try:
                changes = self._learn(merged)
            except EngineError as error:
                self.tally.failure = error
                return
            self.tally.history += (replace(commit, files=()) for commit in merged.commits)
            self.tally.covered = merged.tip.sha
            yield from self._draft.take(changes)
            progress(done, history.change_count)

    def read_declined(self, since: datetime) -> tuple[PullRequest, ...]:
        """The next requests that were closed without a merge since then, or left by earlier runs; a failure is tallied.
        Comes before the range is learned from: where the list cannot be read nothing of it is covered, so that the next
        run asks again. What was not merged is in no history that a later run would find it in."""
        try:
            told, episodes = frozenset(self.writer.known), self.writer.episodes.values()
            return self._run.gatherer.read_declined(
                find_window(self._run.base, since, told, episodes)
            )
        except EngineError as error:
            self.tally.failure = error
            return ()

    def learn_declined(self, requests: Sequence[PullRequest]) -> Iterator[Change]:
        """The additions of what was declined: negative knowledge, and what reviewers said. Comes after what was merged.
        What a model fails at is a problem of the run, and is found again by the next one; after `MAX_FAILURES` of them
        the rest is left to it as well."""
        failures = 0
        for number, request in enumerate(requests):
            if self.tally.failure is not None or failures == MAX_FAILURES:
                left = plural(len(requests) - number, "closed request")
                self.tally.problems.append(f"{left} not read: the run had stopped asking")
                return
            self._past |= (
                self._all_past
            )  # a run that ended between its merge and this closing may have learned from it
            day = (request.closed_at or request.created_at).astimezone(UTC).date()
            work = WorkItem(f"#{request.number}", "", day, is_declined=True)
            gathered = self._run.gatherer.gather_declined(request)
            try:
                _, changes = self._study(work, gathered)
            except EngineError as error:
                failures += 1
                self.tally.problems.append(
                    f"#{request.number}, closed without a merge: {error.message} [{error.slug}]"
                )
                continue
            given, used = (self._resolve(list_ids([request.body], key)) for key in (SERVED, USED))
            self.writer.add_declined(request, Uses(given, frozenset(used)))
            self.tally.declined += 1
            yield from self._draft.take(changes)

    def learn_left(self) -> Iterator[Change]:
        """Yield the additions of sessions that were joined to no change; the rules alone read them."""
        if self.tally.failure is not None:
            return
        for checkpoint, gathered in self._run.gatherer.gather_left():
            called = redact(checkpoint.branch.replace("/", " ")).text
            day = checkpoint.at.astimezone(UTC).date()
            _, changes = self._study(
                WorkItem(f"checkpoint {checkpoint.id}", "", day, called), gathered
            )
            yield from self._draft.take(changes)
        if message := self._run.gatherer.tell_unnamed():
            self.tally.findings.append(
                Finding(".", 1, "unnamed-checkpoints", message, checkpoints.HINT, "notice")
            )

    def _learn(self, merged: MergedChange) -> list[Change]:
        """What one change adds; who brought it and what it used are tallied, and its episode is written."""
        gathered, label, day = self._run.gatherer.gather(merged), merged.label, merged_on(merged)
        request, start, tip = gathered.request, start_of(merged), merged.tip.sha
        names = (
            (request.title, request.branch, *request.labels)
            if request
            else (find_branch(merged.tip.message),)
        )
        called = redact("\n".join([title_of(merged), *names]).replace("/", " ")).text
        judged, changes = self._study(WorkItem(label, tip, day, called, start), gathered)
        for commit in merged.commits:  # those of outsiders may say nothing of other work
            if not self._run.gatherer.may_claim(commit, merged, request):
                self.tally.strangers[commit.sha[:SHA_WIDTH]] = (start or commit.sha, tip)
                self.tally.findings += find_claimed_uses(commit, "notice")
        ours = [
            commit
            for commit in merged.commits
            if commit.sha[:SHA_WIDTH] not in self.tally.strangers
        ]
        uses = self._find_uses(merged, ours, gathered, judged)
        use = Use(label, work_ref(merged.number, tip), day, uses.reinforced, uses.restated)
        self.tally.uses.append((merged, use))
        self.writer.add_merged(merged, gathered, uses, judged)
        return [*changes, *(self._take_notes(label, gathered) if merged.tip in ours else ())]

    def _take_notes(self, label: str, gathered: Gathered) -> Iterator[Change]:
        """What an agent marked in a session of this change, and no commit brought along; nothing twice. What the
        session does not prove is no learning. It is a problem of the run."""
        keys = [join.id for join in gathered.joins if join.kind == "session"]
        for key, entry in read_session_notes(self._run.base, keys):
            content = content_key(entry.title, entry.body)
            if {entry.id, content} & {*self._past, *self._all_past, *self._draft.by_id}:
                continue
            target = parse_target(entry.scope or "project")
            path = self._draft.path_of(target) if target.name in ("team", "project") else None
            proved = prove(self._run.base, entry)
            plain = strip_claims(Located(entry, path or "", 1, target), self._run.today)
            place = replace(
                plain, entry=replace(plain.entry, evidence=proved.evidence, cites=proved.cites)
            )
            if self._forgotten and find_forgotten(self._forgotten, place):
                continue
            if (
                path is None
                or not is_proved(proved)
                or find_fault(place.entry)
                or any(find_unsafe(place))
            ):
                self.tally.problems.append(
                    f"a note of the session {key} proves something else, or is not fit: {entry.id[:8]}"
                )
            elif not any(
                is_kept(place, other) for other in (*self._draft.kept, *self._draft.inbox)
            ):
                self._past |= {entry.id}
                yield Change(
                    step="extract", kind="add", path=path, entry=place.entry, why=f"from {label}"
                )

    @cached_property
    def _all_past(self) -> frozenset[str]:
        return list_past_ids(self._run.workspace, self._run.base.sha)

    def _study(self, work: WorkItem, gathered: Gathered) -> tuple[tuple[Judged, ...], list[Change]]:
        """The verdicts on all that was found in one piece of work, and the additions that they make."""
        forgotten = self._forgotten
        called = forgotten.mask(work.called)
        evidence = collect(forgotten.mask_all(gathered.events), self._config.extraction, called)
        found = self._judge(work, evidence)  # may fail: nothing of the change is counted before
        found = [one for one in found if not forgotten.refuses_candidate(one.candidate)]
        self.tally.joins += gathered.joins
        self.tally.redactions += evidence.redactions
        self.tally.left_out.update(left.reason for left in evidence.left_out)
        judged = self._cite(
            self._settle(found, frozenset(one.id for one in evidence.pieces if one.kind == "adr"))
        )
        self.tally.judged += judged
        written = [one.candidate for one in judged if one.verdict == "written"]
        paths = [self._draft.path_of(parse_target(candidate.scope)) for candidate in written]
        entries = [self._entry(candidate, work) for candidate in written]
        anchored = cite_named(self._run.workspace, entries, work.tip or self._run.base.sha)
        changes: list[Change] = []
        for candidate, path, entry in zip(written, paths, anchored, strict=True):
            if path is None:
                message = f"{candidate.scope} memory has no file that could be written: a directory or link is there"
                hint = "Move it out of the way, or name another file under `scopes:`. Nothing was recorded."
                raise UnreadableMemoryError(message, slug="no-scope-file", hint=hint)
            changes.append(
                Change(step="extract", kind="add", path=path, entry=entry, why=f"from {work.label}")
            )
        return judged, changes

    def _settle(self, found: Sequence[Judged], records: Set[str]) -> tuple[Judged, ...]:
        """The verdicts of a change together: what a person accepted is written, what an earlier run wrote is not, even
        if a person reworded or removed it, and counts towards the limit; `records` are pieces, and count for nothing.
        """
        limit = self._config.extraction.max_entries_per_change

        def accept(one: Judged) -> Judged:
            if (
                one.verdict != "suspected"
                or content_key(one.candidate.title, one.candidate.body) not in self._accepted
            ):
                return one
            candidate = replace(one.candidate, accepted=ACCEPTED_IN)
            return replace(
                one, verdict="written", reason="accepted by a person", candidate=candidate
            )

        def is_written(candidate: Candidate) -> bool:
            names = (entry_id(candidate), content_key(candidate.title, candidate.body))
            return names[0] in self._draft.by_id or not self._past.isdisjoint(names)

        again = "written by an earlier run, and reworded or removed since"
        over = f"earlier runs wrote {limit} of this change"
        settled = list(settle(list(map(accept, found)), limit, records))
        earlier = [is_written(one.candidate) for one in settled]
        counts = [not is_record(one.candidate, records) for one in settled]
        room = limit - sum(
            is_old and is_counted for is_old, is_counted in zip(earlier, counts, strict=True)
        )
        for at, one in enumerate(settled):
            if one.verdict == "written" and earlier[at]:
                settled[at] = replace(one, verdict="restates", reason=again)
            elif one.verdict == "written" and counts[at]:
                settled[at] = one if room > 0 else replace(one, verdict="over_limit", reason=over)
                room -= 1
        return tuple(settled)

    def _cite(self, judged: Sequence[Judged]) -> tuple[Judged, ...]:
        """The verdicts, each candidate with what it is about of the files that it was found with."""
        found = [one.candidate for one in judged]
        proses = [f"{one.title}\n{one.body}" for one in found]
        cites = cite_touched(
            self._run.workspace,
            [(text, one.cites) for text, one in zip(proses, found, strict=True)],
        )
        cited = []
        for one, prose, own in zip(judged, proses, cites, strict=True):
            # A rule of conduct is about no code, whatever its commit touched.
            names_code = NAMES_CODE.search(prose) or list_mentions(prose)
            kept = own if one.candidate.type != "directive" or names_code else ()
            cited.append(replace(one, candidate=replace(one.candidate, cites=kept)))
        return tuple(cited)

    def _judge(self, work: WorkItem, evidence: EvidenceSet) -> list[Judged]:
        """What the rules find, and what the model finds: the rules write only what is marked, and lose nothing of it.
        What the rules merely suspect shows the model where to look; it is proposed where there is none."""
        where = common_directory(evidence.pieces)
        project = find_project(where, self._run.phases)
        has_file = self._draft.path_of(ScopeOf("team", project)) is not None
        case = JudgedCase(
            label=work.label,
            project=f"team:{project}" if project and has_file else self._draft.home_of(where),
            takes_norms=self._config.extraction.norms == "seed",
            tip=work.tip,
            is_declined=work.is_declined,
            pieces=evidence.pieces,
            existing=self._draft.entries,
            is_writable=lambda candidate: find_fault(self._entry(candidate, work)),
            find_document=lambda candidate: self._find_document(
                candidate, list_changed(evidence.pieces)
            ),
            known_to=self._list_known,
        )
        reply = RulesEngine().extract(Request(change=case.label, evidence=case.pieces))
        by_rules = list(judge_reply(case, reply.text).judged)
        if self._run.asker is None or not (work.tip or work.is_declined):
            return by_rules
        shown = replace(evidence, changed=self._read_changed(work, evidence))
        answer = self._run.asker.ask(work.label, shown, self._draft.entries)
        if answer is None:
            return by_rules
        by_model = judge_reply(case, answer.text, answer.engine)
        self.tally.windows += [f"{work.label}: {answer.notice}"] if answer.notice else []
        self.tally.dropped.update(by_model.dropped)
        return [
            one for one in by_rules if one.verdict != "suspected" or one.candidate.marker
        ] + list(by_model.judged)

    def _read_changed(self, work: WorkItem, evidence: EvidenceSet) -> str:
        """Hunks of the changed files that people spoke about in sessions, or that a call named which they refused."""
        turns = [piece for piece in evidence.pieces if piece.session and piece.actor == "human"]
        if not (turns and work.start):
            return ""
        changed = list_changed(evidence.pieces)
        named = name_places("\n".join(f"{turn.text}\n{turn.before}" for turn in turns), changed)
        touched = (path for turn in turns for path in turn.paths if path in changed)
        paths = list(dict.fromkeys([*named, *touched]))[:MAX_CHANGED]
        with suppress(RepositoryError):  # a blob that is missing here
            found = read_hunks(self._repo, work.start, work.tip, paths) if paths else {}
            width = CHANGED_WIDTH // max(len(found), 1)
            return "\n".join(f"{path}\n{redact(text).text[:width]}" for path, text in found.items())
        return ""

    def _list_known(self, candidate: Candidate) -> list[Entry]:
        """The entries that everybody already has for whom the candidate is meant."""
        wanted = parse_target(candidate.scope)
        return [place.entry for place in self._draft.kept if is_covered(wanted, place.scope)]

    def _entry(self, candidate: Candidate, work: WorkItem) -> Entry:
        day = min(max(work.day, EARLIEST), self._run.today)
        aka = find_aka(candidate.title, candidate.body, work.called, candidate.aka)
        entry = to_entry(
            candidate, entry_id=entry_id(candidate), today=self._run.today, merged_on=day, aka=aka
        )
        project = find_project(parse_target(candidate.scope).where, self._run.phases)
        return replace(entry, phase=self._run.phases.get(project))

    def _find_uses(
        self,
        merged: MergedChange,
        ours: Sequence[Commit],
        gathered: Gathered,
        judged: Sequence[Judged],
    ) -> Uses:
        """The entries that this change was given, that it used, that its learnings restate, and that it confirms.

        Used is what a trailer names, and of what was given what the agent names in a sentence of its own. Trailers of
        outsiders count for nothing, only those of `ours`: in messages, in those that a squash buried, in the request.
        """
        request, is_ours = gathered.request, merged.tip in ours
        texts = [commit.message for commit in ours if self._copies.claim(commit)]
        if is_ours:
            buried = self._buried.find(merged, request.commits if request else ())
            texts += [format_trailers(one.trailers) for one in buried if one.how != "commit"]
            texts += [request.body] if request else []
        written, named = list_ids(texts, SERVED), list_ids(texts, USED)
        self.tally.has_uses |= bool(written or named)
        given = self._resolve(written)
        if is_ours:
            turns = (
                one.text for one in gathered.events if one.actor == "agent" and one.kind == "text"
            )
            said = (one for text in turns for one in list_named(text))
            named += tuple(one for one in said if find_id(self._draft.entries, one) in given)
        restated = (
            item.entry_id
            for item in judged
            if item.verdict == "restates" and not self._is_copy(item)
        )
        return Uses(
            given,
            frozenset(self._resolve(named)),
            frozenset(filter(None, restated)),
            self.writer.list_confirmed([file.path for one in ours for file in one.files], request),
            self._config.prominence.reinforced_by,
            list_ids(texts, HOLDOUT),
        )

    def _is_copy(self, item: Judged) -> bool:
        """Whether the words come from the commit that the entry came from, or from a copy of it. A cherry-pick or
        rebase keeps author and time: it brings old words, it does not say them again."""
        known = self._draft.by_id.get(item.entry_id or "")
        if known is None or known.entry.id == entry_id(item.candidate):
            return True
        shas = COMMIT.findall(known.entry.source or "") + COMMIT.findall(item.candidate.source)
        made = {read_authorship(self._repo, sha) for sha in shas}
        return len(shas) == 2 and len(made) == 1 and None not in made

    def _resolve(self, written: Iterable[str]) -> tuple[str, ...]:
        """The ids of known entries for the ids as written, in order."""
        found = (find_id(self._draft.entries, text) for text in dict.fromkeys(written))
        return tuple(dict.fromkeys(filter(None, found)))

    def _find_document(self, candidate: Candidate, changed: Iterable[str]) -> str | None:
        """The document that says what a candidate says, or the one of the `changed` files whose help text does."""
        code = [path for path in changed if not DOCUMENT.fullmatch(path)][:MAX_DOCUMENTS]
        return find_told(candidate.title, self._documents) or find_told(
            candidate.title, self._read_prose(code)
        )

    @cached_property
    def _documents(self) -> tuple[Paragraph, ...]:
        """What prose at the tip says already, read when a learning of a model is first held to it."""
        return tuple(
            self._read_prose(sorted(filter(is_document, self._run.base.tree.files))[:MAX_DOCUMENTS])
        )

    def _read_prose(self, paths: Iterable[str]) -> Iterator[Paragraph]:
        is_memory = memory_test(self._run.workspace)
        for content in self._run.base.tree.read(
            {one for one in paths if not is_memory(one)}, MAX_DOCUMENT_BYTES
        ):
            if content.data is not None:
                yield from list_paragraphs(
                    content.file.path, content.data.decode("utf-8", "replace")
                )


def find_fault(entry: Entry) -> str | None:
    """Why an entry cannot be written, or None: one that cannot must not stop the others."""
    try:
        format_entry(entry)
    except UsageError as error:
        return error.slug
    return None
