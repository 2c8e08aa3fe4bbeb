"""The choice of the evidence of a merged change that fits into one prompt.

A window that reads from the start would lose a person's last words, by which work is corrected. So
pieces are taken by rank until the budget is used up, each rank from all sessions in turn; the
window keeps their order.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto

import msgspec
from msgspec.structs import replace

from memory_ci.evidence.filters import REVERT, has_outcome
from memory_ci.records.event import MID_TURN, SHOWN_PATHS, Evidence, EvidenceSet
from memory_ci.text import estimate_tokens, plural

PIECE_TOKENS = 40
"""Tokens of a piece in addition to its text: its id, kind, actor, session and the names of the
fields.
"""

MIN_TEXT_TOKENS = 40  # Tokens to which a text may be shortened; fewer would say nothing.
SHARE = 8  # No text takes more than one in eight of a budget that is too small for all.

MAX_BESIDE = 10  # Paths and labels of a piece that does not fit whole.
MAX_BESIDE_LENGTH = 200  # Characters of each.

OWN_LABELS = frozenset({"outcome", "state", "via", "permission"})
LAST_TURNS = 10
AROUND_HIT = 2
STRUCTURE = frozenset(
    {"rejection", "interrupt", "check", "premortem", "assumption", "intervention"}
)

OMISSION = "[… {} characters left out …]"
"""The line in place of the middle of a shortened text; as nobody's words it is never quoted."""


class Rank(Enum):
    """The order in which pieces are taken.

    A frame is the first prompt and the last turns of a session, and all texts of the change itself.
    """

    STRUCTURE = auto()
    FRAME = auto()
    HIT = auto()
    REST = auto()


class EvidenceWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The pieces that fit into a prompt.

    Attributes:
        pieces: the pieces in their order and with their ids.
        notice: in words, how many pieces are missing or shortened; "" if none.
        tokens: an upper estimate of their tokens.
    """

    pieces: tuple[Evidence, ...]
    notice: str = ""
    tokens: int = 0


def choose_pieces(
    evidence: EvidenceSet, budget_tokens: int, is_hit: Callable[[str], bool]
) -> EvidenceWindow:
    """Return the pieces of evidence that fit into a budget: all, or the first ranks.

    Structure (rejections, interrupts, requested changes, checks that failed and then passed,
    reverts, pre-mortems and assumptions) comes first: if a piece of it does not fit, no piece of a
    later rank is taken.

    Args:
        evidence: the evidence of one change.
        budget_tokens: the budget.
        is_hit: a function that returns whether a rule would look at a text.
    """
    total = sum(cost(piece) for piece in evidence.pieces)
    if total <= budget_tokens:
        return EvidenceWindow(pieces=evidence.pieces, tokens=total)
    taken = _take(_iter_ranked(evidence.pieces, is_hit), evidence.pieces, budget_tokens)
    pieces = tuple(taken[index] for index in sorted(taken))
    return EvidenceWindow(
        pieces=pieces,
        notice=_describe_missing(evidence.pieces, taken),
        tokens=sum(cost(piece) for piece in pieces),
    )


def _describe_missing(pieces: Sequence[Evidence], taken: Mapping[int, Evidence]) -> str:
    """Return how many pieces were left out, by session, and how many were shortened; "" if none.

    Args:
        pieces: all pieces.
        taken: by index the pieces that were taken, perhaps shortened.
    """
    totals: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    shortened_count = 0
    for index, piece in enumerate(pieces):
        session = piece.session or ""
        totals[session] += 1
        if index not in taken:
            missing[session] += 1
        elif taken[index].text != piece.text:
            shortened_count += 1

    notices: list[str] = []
    for session, count in sorted(missing.items()):
        if session:
            total = plural(totals[session], "turn")
            notices.append(f"{count} of {total} of session {session} left out")
        else:
            total = plural(totals[session], "piece")
            notices.append(f"{count} of {total} outside sessions left out")
    if shortened_count:
        notices.append(f"{plural(shortened_count, 'long piece')} shortened")
    return "; ".join(notices)


def cost(piece: Evidence) -> int:
    """Return an upper estimate of the tokens that a piece of evidence takes in a prompt.

    There it is JSON with `<` and `>` escaped.
    """
    labels = (f"{key} {value}" for key, value in piece.labels)
    fields = (piece.tool or "", piece.before, *piece.paths[:SHOWN_PATHS], *labels)
    fields_cost = sum(estimate_tokens(text) + 2 for text in fields)
    return PIECE_TOKENS + _text_cost(piece.text) + fields_cost


def shorten_middle(text: str, fits: Callable[[str], bool]) -> str:
    """Return a text without its middle: as much of both ends as fits, around an `OMISSION`.

    Each end is unchanged, cut at a near line end, else at a blank, else anywhere. At worst the
    omission alone is returned.
    """
    # Binary search for the greatest width of an end that fits.
    low = 0
    high = len(text) // 2
    while low < high:
        middle = (low + high + 1) // 2
        if fits(_keep_ends(text, middle)):
            low = middle
        else:
            high = middle - 1
    return _keep_ends(text, low)


def _keep_ends(text: str, width: int) -> str:
    """Return the start and the end of a text, at most `width` characters each, and an `OMISSION`.

    Both are shortened to the nearest line break, else to a space, but keep at least half of
    `width`.
    """
    head_end = width
    for blank in "\n ":
        cut = text.rfind(blank, width // 2, width)
        if cut >= 0:
            head_end = cut
            break
    tail_start = len(text) - width
    latest_start = tail_start + width // 2
    for blank in "\n ":
        cut = text.find(blank, len(text) - width, latest_start)
        if cut >= 0:
            tail_start = cut + 1
            break
    head = text[:head_end]
    tail = text[tail_start:]
    omission = OMISSION.format(len(text) - len(head) - len(tail))
    return f"{head}\n{omission}\n{tail}"


def _text_cost(text: str) -> int:
    encoded = json.dumps(text, ensure_ascii=False)
    return estimate_tokens(encoded.replace("<", "\\u003c").replace(">", "\\u003e"))


def _iter_ranked(
    pieces: Sequence[Evidence], is_hit: Callable[[str], bool]
) -> Iterator[list[list[int]]]:
    """Yield for each rank the pieces of each session in the order in which they are to be taken.

    The latest comes first. Pieces are named by their indices.
    """
    indices_by_session: defaultdict[str, list[int]] = defaultdict(list)
    for index, piece in enumerate(pieces):
        indices_by_session[piece.session or ""].append(index)

    ranks: dict[int, Rank] = {}
    for indices in indices_by_session.values():
        session_ranks = _rank([pieces[index] for index in indices], is_hit)
        ranks.update(zip(indices, session_ranks, strict=True))

    for rank in Rank:
        queues: list[list[int]] = []
        for indices in indices_by_session.values():
            queue = [index for index in reversed(indices) if ranks[index] is rank]
            if rank is Rank.FRAME:
                # The first piece of a frame, without which the last words say little, comes first.
                queue = queue[-1:] + queue[:-1]
            queues.append(queue)
        yield queues


def _rank(pieces: Sequence[Evidence], is_hit: Callable[[str], bool]) -> list[Rank]:
    """Return the rank of each piece of one session, or of the change itself."""
    turns: list[int] = []
    frame: set[int] = set()
    around_hits: set[int] = set()
    for index, piece in enumerate(pieces):
        if piece.actor == "human" and piece.kind == "text":
            turns.append(index)
        if piece.session is None and piece.kind != "diff":
            frame.add(index)
        if MID_TURN in piece.labels or is_hit(piece.text):
            around_hits.update(range(index - AROUND_HIT, index + AROUND_HIT + 1))
    first_turn = turns[:1]
    frame.update(first_turn, turns[-LAST_TURNS:])

    ranks: list[Rank] = []
    for index, piece in enumerate(pieces):
        if is_structure(piece):
            ranks.append(Rank.STRUCTURE)
        elif index in frame:
            ranks.append(Rank.FRAME)
        elif index in around_hits:
            ranks.append(Rank.HIT)
        else:
            ranks.append(Rank.REST)
    return ranks


def is_structure(piece: Evidence) -> bool:
    """Return whether a piece shows by its kind that something was corrected or foreseen."""
    if piece.kind == "commit":
        return bool(REVERT.search(piece.text.partition("\n")[0]))
    is_requested = ("state", "changes_requested") in piece.labels
    return piece.kind in STRUCTURE or is_requested or has_outcome(piece.labels)


def _take(
    ranks: Iterable[list[list[int]]], pieces: Sequence[Evidence], budget: int
) -> dict[int, Evidence]:
    """Return the pieces that fit into a budget of tokens, by their indices.

    The next piece is always of the session whose pieces took the fewest tokens so far.

    Args:
        ranks: for each rank and session the indices of its pieces, as `_iter_ranked` yields them.
        pieces: all pieces.
        budget: the tokens for all pieces.
    """
    taken: dict[int, Evidence] = {}
    spent_by_session: Counter[str] = Counter()
    max_text_tokens = max(budget // SHARE, MIN_TEXT_TOKENS)

    def tokens_spent(queue: deque[int]) -> int:
        return spent_by_session[pieces[queue[0]].session or ""]

    for rank_queues in ranks:
        queues = [deque(queue) for queue in rank_queues if queue]
        while queues:
            index = min(queues, key=tokens_spent).popleft()
            piece = _fit(pieces[index], budget - spent_by_session.total(), max_text_tokens)
            if piece is None:
                return taken
            taken[index] = piece
            spent_by_session[piece.session or ""] += cost(piece)
            queues = [queue for queue in queues if queue]
    return taken


def _fit(piece: Evidence, available: int, max_text_tokens: int) -> Evidence | None:
    """Return a piece of evidence as a whole, or with few paths and labels, or shortened to fit.

    Of the labels those of our own readers come first, then trailers.

    Args:
        piece: the piece.
        available: the tokens for all of it.
        max_text_tokens: the tokens for its text.

    Returns:
        The piece, or None if too little of its text would fit.
    """
    if cost(piece) <= min(available, PIECE_TOKENS + max_text_tokens):
        return piece
    paths = [path for path in piece.paths if len(path) <= MAX_BESIDE_LENGTH]
    labels = [
        (key, value) for key, value in piece.labels if len(key) + len(value) <= MAX_BESIDE_LENGTH
    ]
    own_labels = [(key, value) for key, value in labels if key in OWN_LABELS]
    trailers = [(key, value) for key, value in labels if key not in OWN_LABELS]
    trimmed = replace(
        piece,
        before="",
        paths=tuple(paths[:MAX_BESIDE]),
        labels=tuple([*own_labels, *trailers][:MAX_BESIDE]),
    )

    text_cost = _text_cost(piece.text)
    limit = min(max_text_tokens, available - cost(trimmed) + text_cost)
    if limit >= text_cost:
        return trimmed
    if limit < MIN_TEXT_TOKENS:
        return None
    text = shorten_middle(piece.text, lambda shorter: _text_cost(shorter) <= limit)
    return replace(trimmed, text=text)
