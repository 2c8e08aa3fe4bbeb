"""Judging: from the evidence of one merged change to what is written, restated, proposed or refused, and why."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memory_ci.extraction.cites import SHA_WIDTH, find_cites
from memory_ci.extraction.entries import (
    MAX_IMPORTANCE,
    base_importance,
    check_entry,
    derive_scope,
    target_of,
    to_entry,
)
from memory_ci.extraction.gate import check_candidate
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.extraction.support import find_ungrounded, find_unsupported
from memory_ci.extraction.wording import make_title
from memory_ci.records.candidate import Candidate, Judged, Kind, Quote
from memory_ci.records.entry import Domain, Entry, EntryType
from memory_ci.records.event import Evidence, Origin
from memory_ci.secrets import mask_secrets
from memory_ci.text import content_words, jaccard, words

SAME = 0.8  # Jaccard of content words strictly above this is the same learning in other words.


class CandidateWords(NamedTuple):
    """What a candidate says, taken apart once: its words in order, those that carry meaning, and its quotes."""

    words: tuple[str, ...]
    content: frozenset[str]
    quotes: frozenset[str]


def _take_apart(learning: Candidate | Entry, quotes: Iterable[str]) -> CandidateWords:
    # The body repeats a title that was cut; a title that says it all has no body.
    text = learning.body or learning.title
    said = frozenset(" ".join(quote.split()) for quote in quotes)
    return CandidateWords(tuple(words(text)), content_words(text), said)


def said_by(candidate: Candidate) -> CandidateWords:
    """What `candidate` says, to be compared with others of the same run."""
    return _take_apart(candidate, (quote.text for quote in candidate.quotes))


def find_restated(candidate: Candidate, existing: Sequence[Entry]) -> str | None:
    """The id of the first entry that says what `candidate` says: equal words, the same quote, or nearly all words."""
    said = said_by(candidate)
    for entry in existing:
        proofs = (
            line.partition(" ")[2] for line in entry.evidence
        )  # no words where `evidence.quotes` keeps none
        if is_same_said(said, _take_apart(entry, filter(None, proofs))):
            return entry.id
    return None


def is_same_said(one: CandidateWords, other: CandidateWords) -> bool:
    """Equal words, a quote in common, or a Jaccard of content words above `SAME`: one learning. A branch commit and the
    squash message repeat it."""
    is_equal = one.words == other.words or not one.quotes.isdisjoint(other.quotes)
    return is_equal or jaccard(one.content, other.content) > SAME


MAX_PER_PIECE = (
    50  # Learnings of one piece of evidence that are looked at: nobody learns more from one commit.
)
RULES = "rules"


class KindDefaults(NamedTuple):
    """What an entry of a kind is; its importance where no mark says."""

    type: EntryType
    domain: Domain
    importance: float


BY_KIND: dict[Kind, KindDefaults] = {
    "preference": KindDefaults("directive", "team", 0.6),
    "convention": KindDefaults("procedural", "team", 0.5),
    "decision": KindDefaults("declarative", "task", 0.7),
    "gotcha": KindDefaults("procedural", "task", 0.6),
    "fix": KindDefaults("corrective", "task", 0.6),
}
CONTRAST = re.compile(
    r"(?!\w+ing\b).*\b(?:not|never|\w+n't|instead of|rather than|avoid)\b", re.IGNORECASE
)
# A title of a model, and one of an author, that says itself what not to do: as rejected it would say the opposite.
FORBIDS = re.compile(
    r"(?:we |you )?(?:must |should )?(?:do not|don't|never|not|avoid)\b", re.IGNORECASE
)
ASKED, COSTLY = 0.9, 0.8
SPOKEN = frozenset({"text", "rejection", "interrupt", "intervention", "review"})


class JudgedCase(msgspec.Struct, frozen=True, kw_only=True):
    """What is judged: the evidence of one merged change, named by `label` and the sha of its `tip`.

    `existing` are the entries known so far, those of earlier changes of the same run included. `known_to` gives of
    `existing` what all are given that a candidate is for. `is_writable` says why a candidate could not be kept as an
    entry, or None; `find_document` which document of the repository says what a model found already.
    `is_declined`: the request was closed without a merge, so that what it proposes is nothing to follow.
    `project` is where a learning of the project goes: its scope, or that of the sub-project which the change lies in.
    `takes_norms`: what is a norm by its mark or scope goes to institutional memory at once, as the seed has it.
    """

    label: str
    pieces: tuple[Evidence, ...]
    tip: str = ""
    existing: tuple[Entry, ...] = ()
    is_declined: bool = False
    project: str = "project"
    takes_norms: bool = False
    is_writable: Callable[[Candidate], str | None] = lambda candidate: None
    find_document: Callable[[Candidate], str | None] = lambda candidate: None
    known_to: Callable[[Candidate], Sequence[Entry]] | None = None

    @property
    def by_id(self) -> dict[str, Evidence]:
        return {piece.id: piece for piece in self.pieces}


class ReplyVerdicts(NamedTuple):
    """The verdicts on one reply, and why learnings of it could not even be read."""

    judged: tuple[Judged, ...]
    dropped: tuple[str, ...] = ()


def judge_reply(case: JudgedCase, text: str, engine: str = RULES) -> ReplyVerdicts:
    """Every candidate of one reply with its verdict by itself; `settle` looks at them together.

    `engine` is the name that entries will have; the rules are code of ours, and alone may say what is marked.
    Of the learnings that one piece of evidence has beyond `MAX_PER_PIECE` only the first is judged; its reason tells
    how many they are. Raises EngineError (unreadable-reply) when there is no list of learnings in the reply.
    """
    parsed = parse_reply(text, trusted=engine == RULES)
    pieces = [
        learning.quotes[0].evidence if learning.quotes else "" for learning in parsed.learnings
    ]
    totals, seen = Counter(pieces), Counter[str]()
    judged: list[Judged] = []
    for learning, piece in zip(parsed.learnings, pieces, strict=True):
        seen[piece] += 1
        if seen[piece] > MAX_PER_PIECE + 1:
            continue
        one = _judged(learning, case, engine)
        if (
            seen[piece] > MAX_PER_PIECE and one.verdict != "quarantined"
        ):  # what must not be written stays so
            reason = f"one of {totals[piece] - MAX_PER_PIECE} beyond the first {MAX_PER_PIECE} of one message"
            one = replace(one, verdict="over_limit", reason=reason, entry_id=None)
        judged.append(one)
    return ReplyVerdicts(tuple(judged), parsed.reasons)


def settle(
    judged: Sequence[Judged], limit: int, records: Collection[str] = ()
) -> tuple[Judged, ...]:
    """The verdicts on one merged change: what is said twice is one, no title stands twice, at most `limit` are written.
    `records` are the pieces that are decision records: each was written to be kept, and counts towards no limit."""
    apart = _apart(_deduplicated(judged))
    counted = (at for at, one in enumerate(apart) if not is_record(one.candidate, records))
    written = [at for at in counted if apart[at].verdict == "written"]
    # The most important stay, marked ones first; among equals the earlier.
    over = sorted(
        written, key=lambda at: (not apart[at].candidate.is_marked, -apart[at].candidate.importance)
    )[limit:]
    reason = f"more than {limit} of one merged change"
    return tuple(
        replace(one, verdict="over_limit", reason=reason) if at in over else one
        for at, one in enumerate(apart)
    )


def is_record(candidate: Candidate, records: Collection[str]) -> bool:
    """Whether a candidate is what a decision record decides."""
    return candidate.is_marked and any(quote.evidence in records for quote in candidate.quotes)


def _judged(learning: Learning, case: JudgedCase, engine: str) -> Judged:
    """The verdict on one learning by itself."""
    pieces = case.by_id
    candidate = _candidate(learning, case, engine)
    # The entry as a whole would be refused where a plan is applied, whatever its id and its dates.
    entry = to_entry(candidate, entry_id="", today=date.min, merged_on=date.min)
    refusal = (
        find_ungrounded(learning, pieces)
        or check_candidate(candidate, case.pieces)
        or ", ".join(check_entry(entry))
        or case.is_writable(candidate)
    )
    if refusal:
        return Judged(
            candidate=_masked(candidate), verdict="quarantined", reason=refusal, change=case.label
        )
    if engine == RULES:
        doubt = _doubt(learning, pieces)
    elif (doubt := find_unsupported(learning, pieces)) is None and (
        document := case.find_document(candidate)
    ):
        doubt = f"restates-document: {document}"
    if doubt:
        return Judged(candidate=candidate, verdict="suspected", reason=doubt, change=case.label)
    if known := _find_known(learning, candidate, case):
        reason = "known already"
        return Judged(
            candidate=candidate,
            verdict="restates",
            reason=reason,
            change=case.label,
            entry_id=known,
        )
    reason = (
        f"marked by its author ({learning.marker})"
        if engine == RULES
        else f"quoted, found by {engine}"
    )
    return Judged(candidate=candidate, verdict="written", reason=reason, change=case.label)


def _masked(candidate: Candidate) -> Candidate:
    """`candidate` as a report may name it: what is refused is still shown, and logs and plans are read by many."""
    quotes = tuple(
        Quote(mask_secrets(one.evidence), mask_secrets(one.text), one.origin)
        for one in candidate.quotes
    )
    texts = (candidate.title, candidate.body, candidate.instead or "", candidate.marker)
    title, body, instead, marker = map(mask_secrets, texts)
    return replace(
        candidate, title=title, body=body, instead=instead or None, marker=marker, quotes=quotes
    )


def _find_known(learning: Learning, candidate: Candidate, case: JudgedCase) -> str | None:
    """The entry that says this already: as code compares words, else as the engine claims of one that there is. What
    was retired is no answer to an author who marks it again: it is on its way out."""
    given = case.existing if case.known_to is None else case.known_to(candidate)
    known = [entry for entry in given if not (candidate.is_marked and entry.status == "retired")]
    ids = {entry.id for entry in known}
    return find_restated(candidate, known) or (
        learning.restates if learning.restates in ids else None
    )


def _doubt(learning: Learning, pieces: Mapping[str, Evidence]) -> str | None:
    """Why a sound learning is only proposed: a mark counts when a trusted author made it."""
    if not learning.is_marked:
        return learning.doubt or "not marked by its author"
    is_trusted = any(pieces[quote.evidence].trust == "T0" for quote in learning.quotes)
    return None if is_trusted else "marked by an author who is not trusted"


def _deduplicated(judged: Sequence[Judged]) -> list[Judged]:
    """Candidates of one verdict that say the same become one, proven by the quotes of both. What says the same has a
    key in common: its words in order, a quote, or one of as many of its words in the order of the alphabet as a text
    must share that has more than `SAME` of them (the prefix filter of PPJoin, Xiao et al. 2008)."""
    kept: list[Judged] = []
    said: list[CandidateWords] = []
    by_key: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for one in judged:
        own = said_by(one.candidate)
        prefix = sorted(own.content)[: len(own.content) - math.ceil(SAME * len(own.content)) + 1]
        keys = [
            (one.verdict, key)
            for key in {
                f"= {' '.join(own.words)}",
                *(f"> {quote}" for quote in own.quotes),
                *prefix,
            }
        ]
        near = sorted({at for key in keys for at in by_key.get(key, ())})
        at = next((at for at in near if is_same_said(own, said[at])), None)
        if at is not None:
            quotes = tuple(dict.fromkeys(kept[at].candidate.quotes + one.candidate.quotes))
            kept[at] = replace(kept[at], candidate=replace(kept[at].candidate, quotes=quotes))
            continue
        for key in keys:
            by_key[key].append(len(kept))
        kept.append(one)
        said.append(own)
    return kept


def _apart(judged: Sequence[Judged]) -> list[Judged]:
    """Each of those to be written under a title of its own: several causes of one fix share its subject."""
    told: list[Judged] = []
    titles: set[str] = set()
    for one in judged:
        if one.verdict == "written" and one.candidate.title.casefold() in titles:
            title = make_title(one.candidate.body.removeprefix("Cause: "))
            one = replace(one, candidate=replace(one.candidate, title=title or one.candidate.title))
            if one.candidate.title.casefold() in titles:
                one = replace(
                    one, verdict="suspected", reason="has the title of another of this change"
                )
        titles |= {one.candidate.title.casefold()} if one.verdict == "written" else set()
        told.append(one)
    return told


def _candidate(learning: Learning, case: JudgedCase, engine: str) -> Candidate:
    """The learning with what code knows better than an engine: scope, type, importance, origin, date and anchors."""
    defaults, pieces = BY_KIND[learning.kind], case.by_id
    quoted = [pieces[quote.evidence] for quote in learning.quotes if quote.evidence in pieces]
    piece = quoted[0] if quoted else None
    known = {entry.id for entry in case.existing}
    extraction_scope = derive_scope(learning.kind, learning.reach, quoted)
    adoption, instead = learning.adoption, learning.instead
    if adoption and (FORBIDS if engine == RULES else CONTRAST).match(learning.title):
        adoption, instead = None, None
    # What stands on the words of a declined request alone: reviewers' words are what holds.
    is_declined = case.is_declined and all(one.kind == "pr" for one in quoted)
    composed = partial(unicodedata.normalize, "NFC")
    target = learning.scope or target_of(extraction_scope, case.pieces)
    if target == "institutional" and not case.takes_norms:
        target = "project"
    return Candidate(
        title=composed(learning.title),
        body=composed(learning.body),
        type=defaults.type,
        domain=defaults.domain,
        importance=min(_weigh(learning, quoted), MAX_IMPORTANCE),
        scope=case.project if target == "project" else target,
        extraction_scope=extraction_scope,
        quotes=tuple(
            Quote(
                one.evidence,
                one.text,
                _address(pieces[one.evidence].origin) if one.evidence in pieces else "",
            )
            for one in learning.quotes
        ),
        is_marked=learning.is_marked,
        marker=learning.marker,
        cites=_cites(learning, piece, case) if piece else (),
        adoption="rejected" if is_declined else adoption,
        instead=instead and composed(instead),
        source=_source(piece, case) if piece else "",
        occurred_at=piece.at.date() if piece else None,
        engine=engine,
        session=piece.session if piece else None,
        aka=learning.aka,
        relations=tuple(f"contradicts {found}" for found in learning.contradicts if found in known),
    )


def _weigh(learning: Learning, quoted: Sequence[Evidence]) -> float:
    """What a rule says; else what the kind gives, or more for its weight or where the events quoted are graver. That
    somebody asked for it counts where a person is quoted who could: in a session or a review."""
    if learning.importance is not None:
        return learning.importance
    is_asked = learning.weight == "asked" and any(
        one.actor == "human" and one.kind in SPOKEN for one in quoted
    )
    weight = ASKED if is_asked else COSTLY if learning.weight == "costly" else 0.0
    return max(BY_KIND[learning.kind].importance, weight, base_importance(quoted))


def _cites(learning: Learning, piece: Evidence, case: JudgedCase) -> tuple[str, ...]:
    """Anchors in the files of the piece; a session or a review speaks of the files of the whole change. What was not
    merged has left no files."""
    if case.is_declined or not (case.tip or piece.origin.kind == "commit"):
        return ()
    is_commit = piece.origin.kind == "commit"
    paths = (
        piece.paths
        if is_commit
        else dict.fromkeys(path for one in case.pieces for path in one.paths)
    )
    return find_cites(
        f"{learning.title}\n{learning.body}",
        tuple(paths),
        piece.origin.id if is_commit else case.tip,
    )


def _source(piece: Evidence, case: JudgedCase) -> str:
    """`pr:128 commit:3f2ab91…`; a change without a number is its commit alone. What was said in a session or a review
    came in with the tip of the change; a request that was declined left none."""
    if case.is_declined:
        return f"pr:{case.label[1:]}"
    request = f"pr:{case.label[1:]} " if case.label.startswith("#") else ""
    is_commit = piece.origin.kind == "commit" or not case.tip
    commit = (
        _address(piece.origin).partition(" ")[0] if is_commit else f"commit:{case.tip[:SHA_WIDTH]}"
    )
    return request + commit


def _address(origin: Origin) -> str:
    """An origin as provenance: commits shortened, in one word, so that a quote can follow it."""
    return (
        f"commit:{origin.id[:SHA_WIDTH]}"
        if origin.kind == "commit"
        else str(origin).replace(" ", "#")
    )
