"""Decisions on learnings that rules or a model found: to write, to propose, or to refuse each."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.extraction.cites import SHA_WIDTH, find_cites
from memory_ci.extraction.entries import (
    MAX_IMPORTANCE,
    check_entry,
    compute_base_importance,
    derive_extraction_scope,
    find_memory_scope,
    to_entry,
)
from memory_ci.extraction.gate import check_candidate
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.extraction.restatement import (
    CandidateWords,
    find_restated,
    is_same_learning,
    split_words,
)
from memory_ci.extraction.support import find_ungrounded, find_unsupported
from memory_ci.extraction.wording import is_edit_report, tidy_wording
from memory_ci.records.candidate import Candidate, Judged, Kind, Quote, Verdict
from memory_ci.records.entry import Adoption, Domain, Entry, EntryType
from memory_ci.records.event import Evidence, Origin
from memory_ci.regex import Regex
from memory_ci.secrets import mask_secrets
from memory_ci.text import spell_negations

MAX_PER_PIECE = 50
"""Number of learnings of one piece of evidence that are judged."""

RULES_ENGINE = "rules"
"""Name of the engine that is code of ours; it alone may say that a learning is marked."""


class KindDefaults(NamedTuple):
    """The properties of an entry of a kind; the importance holds unless a mark gives another."""

    type: EntryType
    domain: Domain
    importance: float


DEFAULTS_BY_KIND: dict[Kind, KindDefaults] = {
    "preference": KindDefaults("directive", "team", 0.6),
    "convention": KindDefaults("procedural", "team", 0.5),
    "decision": KindDefaults("declarative", "task", 0.7),
    "gotcha": KindDefaults("procedural", "task", 0.6),
    "fix": KindDefaults("corrective", "task", 0.6),
}

PROHIBITION_ANYWHERE = Regex(
    r"(?!\w+ing\b).*\b(?:not|never|\w+n't|instead of|rather than|avoid)\b", re.IGNORECASE
)
"""A title by a model that says what not to do: `Use pnpm, not npm`."""

PROHIBITION_START = Regex(
    r"(?:we |you )?(?:must |should )?(?:do not|don't|never|not|avoid)\b", re.IGNORECASE
)
"""A title by an author that says what not to do: `Never retry`."""

ASKED_IMPORTANCE = 0.9
COSTLY_IMPORTANCE = 0.8
SPOKEN_KINDS = frozenset({"text", "rejection", "interrupt", "intervention", "review"})


TOOL_OUTPUT = "tool_result"


class ShownByTools(NamedTuple):
    """A learning of a model that only the output of tools in one change shows.

    Attributes:
        label: the change.
        session: the session with the output; None if none is known.
        words: the words of the learning.
    """

    label: str
    session: str | None
    words: CandidateWords


def _find_nothing(_candidate: Candidate) -> None:
    return None


class JudgedCase(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of one merged change, and the facts of its repository.

    Attributes:
        label: the name of the change: `#` and a number, or a commit.
        pieces: the evidence.
        tip: the commit with which the change was merged; "" without one.
        existing: the entries known so far, including those of earlier changes of the same run.
        is_declined: whether the request was closed without a merge, so that nobody should follow
            its proposal.
        project: the scope of a learning about the project: `project`, or the scope of the
            subproject that has the change.
        find_fault: returns why a candidate cannot be kept as an entry, or None.
        find_document: returns the document of the repository that says the same as a candidate,
            or None.
        list_known: returns the existing entries that the readers of a candidate are given; all of
            them if None.
        shown_by_tools: learnings of earlier changes of the run that only the output of tools shows.
    """

    label: str
    pieces: tuple[Evidence, ...]
    tip: str = ""
    existing: tuple[Entry, ...] = ()
    is_declined: bool = False
    project: str = "project"
    find_fault: Callable[[Candidate], str | None] = _find_nothing
    find_document: Callable[[Candidate], str | None] = _find_nothing
    list_known: Callable[[Candidate], Sequence[Entry]] | None = None
    shown_by_tools: tuple[ShownByTools, ...] = ()


class _Adoption(NamedTuple):
    """Whether a learning tells of something adopted or rejected, and what to do instead.

    Each is None if it is not known.
    """

    adoption: Adoption | None
    instead: str | None


class ReplyVerdicts(NamedTuple):
    """The verdicts on one reply, and why some of its learnings could not be read."""

    judged: tuple[Judged, ...]
    dropped: tuple[str, ...] = ()


def judge_reply(case: JudgedCase, text: str, engine: str = RULES_ENGINE) -> ReplyVerdicts:
    """Decide for each learning of an engine's reply whether it is written, proposed or refused.

    Each is judged by itself; `settlement.settle_candidates` then looks at them together. At most
    `MAX_PER_PIECE` learnings of one piece of evidence (a commit message, a turn of a session) are
    judged. The next one stands for all that are left out: it is refused as over the limit, with
    their number.

    Args:
        case: the evidence of the merged change, and what its repository holds already.
        text: the reply.
        engine: the name of the engine, which the entries will have.

    Raises:
        EngineError: unreadable-reply, if the reply contains no list of learnings.
    """
    reply = parse_reply(text, trusted=engine == RULES_ENGINE)
    judge = Judge(case, engine)
    totals = Counter(_get_first_piece_id(learning) for learning in reply.learnings)
    counts_so_far = Counter[str]()
    judged: list[Judged] = []
    for learning in reply.learnings:
        piece_id = _get_first_piece_id(learning)
        counts_so_far[piece_id] += 1
        if counts_so_far[piece_id] > MAX_PER_PIECE + 1:
            continue
        is_over_limit = counts_so_far[piece_id] > MAX_PER_PIECE
        item = judge.judge_learning(learning)
        # A quarantined learning stays so: it must not be written under any limit.
        if is_over_limit and item.verdict != "quarantined":
            excess = totals[piece_id] - MAX_PER_PIECE
            reason = f"one of {excess} beyond the first {MAX_PER_PIECE} of one message"
            item = replace(item, verdict="over_limit", reason=reason, entry_id=None)
        judged.append(item)
    return ReplyVerdicts(tuple(judged), reply.reasons)


def _get_first_piece_id(learning: Learning) -> str:
    """Return the id of the piece of evidence that a learning quotes first, "" for none."""
    return learning.quotes[0].evidence if learning.quotes else ""


class Judge:
    """Judges the learnings that one engine found in one merged change."""

    def __init__(self, case: JudgedCase, engine: str) -> None:
        """Create the judge of the learnings of an engine."""
        self.case = case
        self.engine = engine
        self.is_rules_engine = engine == RULES_ENGINE
        self.pieces = {piece.id: piece for piece in case.pieces}
        self.existing_ids = {entry.id for entry in case.existing}

    def judge_learning(self, learning: Learning) -> Judged:
        """Return the candidate of one learning and what becomes of it.

        The verdict is `quarantined` (must not be written), `suspected` (only proposed to a person),
        `restates` (an entry says it already) or `written`.
        """
        candidate = self._make_candidate(learning)
        earlier = self._find_shown_earlier(candidate)
        refusal = self._find_refusal(learning, candidate, is_shown_twice=earlier is not None)
        if refusal:
            return self._make_judged(_mask_candidate(candidate), "quarantined", refusal)
        if earlier is not None:
            reason = f"output of tools shows it in {earlier.label} and {self.case.label}"
            return self._make_judged(candidate, "suspected", reason)
        doubt = self._find_doubt(learning, candidate)
        if doubt:
            return self._make_judged(candidate, "suspected", doubt)
        restated_id = self._find_restated_id(learning, candidate)
        if restated_id:
            judged = self._make_judged(candidate, "restates", "known already")
            return replace(judged, entry_id=restated_id)
        if self.is_rules_engine:
            reason = f"marked by its author ({learning.marker})"
        else:
            reason = f"quoted, found by {self.engine}"
        return self._make_judged(candidate, "written", reason)

    def _make_judged(self, candidate: Candidate, verdict: Verdict, reason: str) -> Judged:
        return Judged(candidate=candidate, verdict=verdict, reason=reason, change=self.case.label)

    def _find_shown_earlier(self, candidate: Candidate) -> ShownByTools | None:
        """Return an earlier change whose tool output shows the same learning, or None.

        None is also returned for a candidate that quotes anything but the output of tools. In one
        change such output may come from a passing fault, or from a page that an agent read. If a
        change of another session shows the same, the candidate is proposed to a person.
        """
        if not is_shown_by_tools(candidate, self.pieces):
            return None
        candidate_words = split_words(candidate)
        for shown in self.case.shown_by_tools:
            is_other = shown.label != self.case.label and shown.session != candidate.session
            if is_other and is_same_learning(candidate_words, shown.words):
                return shown
        return None

    def _find_refusal(
        self, learning: Learning, candidate: Candidate, *, is_shown_twice: bool
    ) -> str | None:
        """Return why a learning must not be written, or None.

        Args:
            learning: the learning.
            candidate: its candidate.
            is_shown_twice: whether output of tools counts as evidence, since two changes have it.
        """
        ungrounded = find_ungrounded(learning, self.pieces, is_tool_output_quotable=is_shown_twice)
        if ungrounded:
            return ungrounded
        refused = check_candidate(candidate, self.case.pieces)
        if refused:
            return refused
        # The check of the whole entry depends neither on its id nor on its dates.
        entry = to_entry(candidate, entry_id="", today=date.min, merged_on=date.min)
        reasons = check_entry(entry)
        if reasons:
            return ", ".join(reasons)
        return self.case.find_fault(candidate)

    def _find_doubt(self, learning: Learning, candidate: Candidate) -> str | None:
        """Return why a learning is only proposed to a person, or None if it may be written."""
        if self.is_rules_engine:
            return self._find_doubt_about_mark(learning)
        if is_edit_report(candidate.title):
            return "tells-an-edit"
        unsupported = find_unsupported(learning, self.pieces)
        if unsupported is not None:
            return unsupported
        document = self.case.find_document(candidate)
        return f"restates-document: {document}" if document else None

    def _find_doubt_about_mark(self, learning: Learning) -> str | None:
        """Return why a mark does not count, or None; it counts if a trusted author made it."""
        if not learning.is_marked:
            return learning.doubt or "not marked by its author"
        if any(self.pieces[quote.evidence].trust == "T0" for quote in learning.quotes):
            return None
        return "marked by an author who is not trusted"

    def _find_restated_id(self, learning: Learning, candidate: Candidate) -> str | None:
        """Return the id of the entry that says the same as a learning, or None.

        The words decide. If no entry has them, the entry that the engine itself named counts, if it
        exists. A retired entry does not count if an author marked the learning, who wants it back.
        """
        entries = self.case.existing
        if self.case.list_known is not None:
            entries = tuple(self.case.list_known(candidate))
        if candidate.is_marked:
            entries = tuple(entry for entry in entries if entry.status != "retired")
        restated_id = find_restated(candidate, entries)
        if restated_id:
            return restated_id
        known_ids = {entry.id for entry in entries}
        return learning.restates if learning.restates in known_ids else None

    # -- the candidate

    def _make_candidate(self, learning: Learning) -> Candidate:
        """Return a learning, which an engine found, as a candidate for an entry of memory.

        Type, importance, source, date and cites come from code, not from the engine. So do the two
        scopes: the extraction scope says what the learning is from (`corrective`, `team` …), and
        the memory scope where it is written (`project`, `team:src/api` …).
        """
        defaults = DEFAULTS_BY_KIND[learning.kind]
        quoted = self._list_quoted(learning)
        adoption = self._find_adoption(learning, quoted)
        title = _normalize(learning.title)
        body = _normalize(learning.body)
        if not self.is_rules_engine:
            title, body = tidy_wording(title, body)
        extraction_scope = derive_extraction_scope(learning.kind, learning.reach, quoted)
        memory_scope = learning.scope or find_memory_scope(extraction_scope, self.case.pieces)
        candidate = Candidate(
            title=title,
            body=body,
            type=defaults.type,
            domain=defaults.domain,
            importance=min(_find_importance(learning, quoted), MAX_IMPORTANCE),
            scope=self._limit_scope(memory_scope),
            extraction_scope=extraction_scope,
            quotes=self._make_quotes(learning),
            is_marked=learning.is_marked,
            marker=learning.marker,
            adoption=adoption.adoption,
            instead=adoption.instead,
            engine=self.engine,
            aka=learning.aka,
            relations=self._list_relations(learning),
        )
        if not quoted:
            return candidate
        first_quoted = quoted[0]
        return replace(
            candidate,
            cites=self._find_cites(learning, first_quoted),
            source=self._make_source(first_quoted),
            occurred_at=first_quoted.at.date(),
            session=first_quoted.session,
        )

    def _list_relations(self, learning: Learning) -> tuple[str, ...]:
        """Return the relations to existing entries that a learning contradicts."""
        ids = [entry_id for entry_id in learning.contradicts if entry_id in self.existing_ids]
        return tuple(f"contradicts {entry_id}" for entry_id in ids)

    def _list_quoted(self, learning: Learning) -> list[Evidence]:
        """Return the pieces of evidence that a learning quotes, without unknown ones."""
        ids = [quote.evidence for quote in learning.quotes]
        return [self.pieces[piece_id] for piece_id in ids if piece_id in self.pieces]

    def _make_quotes(self, learning: Learning) -> tuple[Quote, ...]:
        """Return the quotes of a learning, each with the address of the quoted commit or turn."""
        quotes: list[Quote] = []
        for quote in learning.quotes:
            piece = self.pieces.get(quote.evidence)
            address = _format_address(piece.origin) if piece else ""
            quotes.append(Quote(quote.evidence, quote.text, address))
        return tuple(quotes)

    def _limit_scope(self, memory_scope: str) -> str:
        """Return a scope of memory; instead of institutional memory, the scope of the project.

        Only a person promotes a learning to institutional memory, which the whole organisation
        shares.
        """
        return self.case.project if memory_scope in ("project", "institutional") else memory_scope

    def _find_adoption(self, learning: Learning, quoted: Sequence[Evidence]) -> _Adoption:
        """Return whether what a learning describes was adopted or rejected, and what to do instead.

        A title such as "Never retry" says by itself what not to do. Marked as rejected, it would
        say the opposite. So a learning with such a title is neither adopted nor rejected.
        """
        adoption = learning.adoption
        instead = learning.instead
        # An author states a prohibition at the beginning; a model's title may have it anywhere.
        prohibition = PROHIBITION_START if self.is_rules_engine else PROHIBITION_ANYWHERE
        if adoption and prohibition.match(spell_negations(learning.title)):
            adoption = None
            instead = None
        # What a declined pull request proposes was rejected; what its reviewers say still holds.
        if self.case.is_declined and all(piece.kind == "pr" for piece in quoted):
            adoption = "rejected"
        return _Adoption(adoption, _normalize(instead) if instead else instead)

    def _find_cites(self, learning: Learning, piece: Evidence) -> tuple[str, ...]:
        """Return cites (addresses like `path@commit`) of the code that a learning names.

        The code is looked for in the files of the commit that the learning quotes. A session or a
        review is about the files of the whole change, at its merge. A change that was not merged
        has no files.

        Args:
            learning: the learning.
            piece: the piece of evidence that it quotes first.
        """
        if self.case.is_declined:
            return ()
        text = f"{learning.title}\n{learning.body}"
        if piece.origin.kind == "commit":
            return find_cites(text, tuple(piece.paths), piece.origin.id)
        if not self.case.tip:
            return ()
        paths: dict[str, None] = {}
        for case_piece in self.case.pieces:
            paths |= dict.fromkeys(case_piece.paths)
        return find_cites(text, tuple(paths), self.case.tip)

    def _make_source(self, piece: Evidence) -> str:
        """Return the source of an entry: `pr:128 commit:3f2ab91…`.

        A change without a number is its commit alone. Sessions and reviews belong to the tip of
        the change. A declined request has no commit.
        """
        label = self.case.label
        number = label[1:] if label.startswith("#") or self.case.is_declined else ""
        request = f"pr:{number}" if number else ""
        if self.case.is_declined:
            return request
        if piece.origin.kind == "commit" or not self.case.tip:
            commit = _format_address(piece.origin).partition(" ")[0]
        else:
            commit = f"commit:{self.case.tip[:SHA_WIDTH]}"
        return f"{request} {commit}".lstrip()


def is_shown_by_tools(candidate: Candidate, pieces: Mapping[str, Evidence]) -> bool:
    """Return whether a candidate quotes output of tools, and nothing else."""
    if not candidate.quotes:
        return False
    for quote in candidate.quotes:
        piece = pieces.get(quote.evidence)
        if piece is None or piece.kind != TOOL_OUTPUT or piece.actor != "tool":
            return False
    return True


def list_shown_by_tools(
    judged: Iterable[Judged], pieces: Iterable[Evidence]
) -> Iterator[ShownByTools]:
    """Yield the learnings that were refused because only output of tools shows them.

    Args:
        judged: the judged learnings of one change.
        pieces: its evidence.
    """
    pieces_by_id = {piece.id: piece for piece in pieces}
    for item in judged:
        candidate = item.candidate
        if item.reason == "untrusted-quote" and is_shown_by_tools(candidate, pieces_by_id):
            yield ShownByTools(item.change, candidate.session, split_words(candidate))


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _mask_candidate(candidate: Candidate) -> Candidate:
    """Return a refused candidate with its secrets masked, because reports and logs show it."""
    quotes = tuple(
        Quote(mask_secrets(quote.evidence), mask_secrets(quote.text), quote.origin)
        for quote in candidate.quotes
    )
    return replace(
        candidate,
        title=mask_secrets(candidate.title),
        body=mask_secrets(candidate.body),
        instead=mask_secrets(candidate.instead or "") or None,
        marker=mask_secrets(candidate.marker),
        quotes=quotes,
    )


def _find_importance(learning: Learning, quoted: Sequence[Evidence]) -> float:
    """Return the importance of a learning, from 0 to 1.

    A learning that our own rules found has one already. For one of a model it is the greatest of
    the default of its kind, the importance of the events that it quotes, and that of its weight
    (`asked` or `costly`). The weight `asked` counts only if the words of a person in a session or
    a review are quoted.
    """
    if learning.importance is not None:
        return learning.importance
    is_of_person = any(piece.actor == "human" and piece.kind in SPOKEN_KINDS for piece in quoted)
    weight_importance = 0.0
    if learning.weight == "asked" and is_of_person:
        weight_importance = ASKED_IMPORTANCE
    elif learning.weight == "costly":
        weight_importance = COSTLY_IMPORTANCE
    default = DEFAULTS_BY_KIND[learning.kind].importance
    return max(default, weight_importance, compute_base_importance(quoted))


def _format_address(origin: Origin) -> str:
    """Return an origin as one word, with a short commit, so that a quote can follow it."""
    if origin.kind == "commit":
        return f"commit:{origin.id[:SHA_WIDTH]}"
    return str(origin).replace(" ", "#")
