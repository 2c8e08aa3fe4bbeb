"""The window: what of the evidence of one merged change fits into one prompt. Late corrections are not cut off.

A window that reads from the start loses what a person said last, which is where work is corrected. So pieces are taken
by rank (`_ranked`) until the budget is used up, each rank from all sessions in turn; the window keeps their order.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto

import msgspec
from msgspec.structs import replace

from memory_ci.evidence.filters import REVERT, has_outcome
from memory_ci.records.event import MID_TURN, SHOWN_PATHS, Evidence, EvidenceSet
from memory_ci.text import estimate_tokens, plural

PIECE_TOKENS = 40  # What a piece costs beside its text: its id, kind, actor, session and the names of the fields.
MIN_TEXT_TOKENS = 40  # A piece is not shortened to less: what is left would say nothing.
SHARE = 8  # No text takes more than this part (one in eight) of a budget that is too small for all.
# Paths and labels of a piece that does not fit whole, and the characters of each.
MAX_BESIDE, MAX_BESIDE_LENGTH = 10, 200
OWN_LABELS = frozenset({"outcome", "state", "via", "permission"})
LAST_TURNS = 10
AROUND_HIT = 2
STRUCTURE = frozenset(
    {"rejection", "interrupt", "check", "premortem", "assumption", "intervention"}
)
# The line that stands for what a shortened text lacks: no words of anybody, so never to be quoted.
OMISSION = "[… {} characters left out …]"


class Rank(Enum):
    """What is taken first. A frame: of a session its first prompt and last turns, of a change all that was written."""

    STRUCTURE = auto()
    FRAME = auto()
    HIT = auto()
    REST = auto()


class EvidenceWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The pieces that fit, in their order and with their ids; at most `tokens` by estimate. `notice` says in words how
    many pieces are missing and of how many a part is; it is empty where nothing is missing."""

    pieces: tuple[Evidence, ...]
    notice: str = ""
    tokens: int = 0


def choose(
    evidence: EvidenceSet, budget_tokens: int, is_hit: Callable[[str], bool]
) -> EvidenceWindow:
    """What fits into `budget_tokens`: everything, or by rank. `is_hit` says whether a rule would look at a text.

    Structure (rejections, interrupts, requested changes, checks that failed and then passed, reverts, pre-mortems and
    assumptions) comes first: where a piece of it does not fit, nothing of a later rank is taken.
    """
    total = sum(map(cost, evidence.pieces))
    if total <= budget_tokens:
        return EvidenceWindow(pieces=evidence.pieces, tokens=total)
    taken = _take(_ranked(evidence.pieces, is_hit), evidence.pieces, budget_tokens)
    kept = tuple(taken[at] for at in sorted(taken))
    totals = Counter(piece.session or "" for piece in evidence.pieces)
    missing = Counter(
        piece.session or "" for at, piece in enumerate(evidence.pieces) if at not in taken
    )
    told = [
        f"{count} of {plural(totals[of], 'turn')} of session {of} left out"
        if of
        else f"{count} of {plural(totals[of], 'piece')} outside sessions left out"
        for of, count in sorted(missing.items())
    ]
    if shortened := sum(piece.text != evidence.pieces[at].text for at, piece in taken.items()):
        told.append(f"{plural(shortened, 'long piece')} shortened")
    return EvidenceWindow(pieces=kept, notice="; ".join(told), tokens=sum(map(cost, kept)))


def cost(piece: Evidence) -> int:
    """Tokens that `piece` takes in a prompt, where it stands as JSON with `<` and `>` escaped; an upper estimate."""
    labels = (f"{key} {value}" for key, value in piece.labels)
    beside = (piece.tool or "", piece.before, *piece.paths[:SHOWN_PATHS], *labels)
    return PIECE_TOKENS + _text_cost(piece.text) + sum(estimate_tokens(text) + 2 for text in beside)


def shorten_middle(text: str, fits: Callable[[str], bool]) -> str:
    """Head and tail of `text` around an `OMISSION`, as much of both as `fits`; at worst the omission alone. Each is a
    part of `text` as it stands, cut at a line end, where none is near at a blank, else where it must be."""
    low, high = 0, len(text) // 2
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(_ends(text, middle)) else (low, middle - 1)
    return _ends(text, low)


def _ends(text: str, width: int) -> str:
    """At most `width` characters of each end of `text`."""
    start = len(text) - width
    cuts = (text.rfind(blank, width // 2, width) for blank in "\n ")
    head = text[: next((at for at in cuts if at >= 0), width)]
    cuts = (text.find(blank, start, start + width // 2) for blank in "\n ")
    tail = text[next((at + 1 for at in cuts if at >= 0), start) :]
    return "\n".join((head, OMISSION.format(len(text) - len(head) - len(tail)), tail))


def _text_cost(text: str) -> int:
    sent = json.dumps(text, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e")
    return estimate_tokens(sent)


def _ranked(pieces: Sequence[Evidence], is_hit: Callable[[str], bool]) -> Iterator[list[list[int]]]:
    """Rank by rank, the places of the pieces of each session, those to be taken first at the front."""
    sessions: defaultdict[str, list[int]] = defaultdict(list)
    for at, piece in enumerate(pieces):
        sessions[piece.session or ""].append(at)
    ranks = [_ranks([pieces[at] for at in places], is_hit) for places in sessions.values()]
    for rank in Rank:
        queues = []
        for places, of_session in zip(sessions.values(), ranks, strict=True):
            newest = [at for at, found in zip(places, of_session, strict=True) if found is rank][
                ::-1
            ]
            # newest first; but a frame begins with its first piece, without which the last words say little
            queues.append(newest[-1:] + newest[:-1] if rank is Rank.FRAME else newest)
        yield queues


def _ranks(pieces: Sequence[Evidence], is_hit: Callable[[str], bool]) -> list[Rank]:
    """The rank of each piece of one session, or of the change itself."""
    spoken = [
        at for at, piece in enumerate(pieces) if piece.actor == "human" and piece.kind == "text"
    ]
    told = [at for at, piece in enumerate(pieces) if piece.session is None and piece.kind != "diff"]
    hits = [at for at, piece in enumerate(pieces) if MID_TURN in piece.labels or is_hit(piece.text)]
    near = {at + step for at in hits for step in range(-AROUND_HIT, AROUND_HIT + 1)}
    ranks = dict.fromkeys(near, Rank.HIT) | dict.fromkeys(
        [*spoken[:1], *spoken[-LAST_TURNS:], *told], Rank.FRAME
    )
    return [
        Rank.STRUCTURE if is_structure(piece) else ranks.get(at, Rank.REST)
        for at, piece in enumerate(pieces)
    ]


def is_structure(piece: Evidence) -> bool:
    """Whether `piece` tells by what it is, not by its words, that something was corrected or foreseen."""
    if piece.kind == "commit":
        return bool(REVERT.search(piece.text.partition("\n")[0]))
    is_requested = ("state", "changes_requested") in piece.labels
    return piece.kind in STRUCTURE or is_requested or has_outcome(piece.labels)


def _take(
    ranks: Iterable[list[list[int]]], pieces: Sequence[Evidence], budget: int
) -> dict[int, Evidence]:
    """The pieces that fit, by their places: always the next of the session that has taken the least so far."""
    taken: dict[int, Evidence] = {}
    spent: Counter[str] = Counter()
    for queues in ranks:
        waiting = [deque(queue) for queue in queues if queue]
        while waiting:
            queue = min(waiting, key=lambda queue: spent[pieces[queue[0]].session or ""])
            at = queue.popleft()
            piece = _fitted(
                pieces[at], budget - spent.total(), max(budget // SHARE, MIN_TEXT_TOKENS)
            )
            if piece is None:
                return taken
            taken[at] = piece
            spent[piece.session or ""] += cost(piece)
            waiting = [queue for queue in waiting if queue]
    return taken


def _fitted(piece: Evidence, room: int, share: int) -> Evidence | None:
    """`piece` within `room` tokens, its text within `share`: whole, else with few paths and labels, else shortened. Of
    the labels those come first that our own readers set, then trailers."""
    if cost(piece) <= min(room, PIECE_TOKENS + share):
        return piece
    paths = [path for path in piece.paths if len(path) <= MAX_BESIDE_LENGTH]
    labels = [label for label in piece.labels if sum(map(len, label)) <= MAX_BESIDE_LENGTH]
    labels.sort(key=lambda label: label[0] not in OWN_LABELS)
    few = replace(
        piece, before="", paths=tuple(paths[:MAX_BESIDE]), labels=tuple(labels[:MAX_BESIDE])
    )
    left = min(share, room - cost(few) + _text_cost(piece.text))
    if left >= _text_cost(piece.text):
        return few
    if left < MIN_TEXT_TOKENS:
        return None
    return replace(few, text=shorten_middle(piece.text, lambda short: _text_cost(short) <= left))
