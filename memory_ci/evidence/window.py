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

from memory_ci.evidence.filters import REVERT_SUBJECT, has_outcome
from memory_ci.records.event import MID_TURN, SHOWN_PATHS, Evidence, EvidenceSet
from memory_ci.text import estimate_tokens, plural

PIECE_TOKENS = 40
"""Tokens of a piece in addition to its text: its id, kind, actor, session and the names of the
fields.
"""

MIN_TEXT_TOKENS = 40  # Tokens to which a text may be shortened; fewer would say nothing.
TEXTS_PER_BUDGET = 8  # No text takes more than one in eight of a budget that is too small for all.

MAX_DETAILS = 10  # Paths and labels of a piece that does not fit whole.
MAX_DETAIL_LENGTH = 200  # Characters of each.

OWN_LABELS = frozenset({"outcome", "state", "via", "permission"})
LAST_TURNS = 10  # Turns at the end of a session that belong to its outline.
PIECES_AROUND_SIGN = (
    2  # Pieces before and after a piece with signs of a learning that are taken with it.
)
CORRECTION_KINDS = frozenset(
    {"rejection", "interrupt", "check", "premortem", "assumption", "intervention"}
)

OMISSION = "[… {} characters left out …]"
"""The line in place of the middle of a shortened text; as nobody's words it is never quoted."""


class Rank(Enum):
    """The order in which pieces are taken.

    Attributes:
        CORRECTION: what shows by its kind that something was corrected or foreseen.
        OUTLINE: the first prompt and the last turns of a session, and all texts of the change.
        NEAR_SIGN: pieces with signs of a learning, and those around them.
        REST: all others.
    """

    CORRECTION = auto()
    OUTLINE = auto()
    NEAR_SIGN = auto()
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
    evidence: EvidenceSet, budget_tokens: int, has_learning_signs: Callable[[str], bool]
) -> EvidenceWindow:
    """Return the pieces of evidence that fit into a budget: all, or the first ranks.

    Pieces are taken in the order of `Rank`. As soon as one does not fit, no further one is taken.

    Args:
        evidence: the evidence of one change.
        budget_tokens: the budget.
        has_learning_signs: a function that returns whether a text may hold a learning, by rules.
    """
    total = sum(estimate_piece_tokens(piece) for piece in evidence.pieces)
    if total <= budget_tokens:
        return EvidenceWindow(pieces=evidence.pieces, tokens=total)
    queues_by_rank = _iter_queues_by_rank(evidence.pieces, has_learning_signs)
    chosen_by_index = _take_in_order(queues_by_rank, evidence.pieces, budget_tokens)
    pieces = tuple(chosen_by_index[index] for index in sorted(chosen_by_index))
    return EvidenceWindow(
        pieces=pieces,
        notice=_describe_missing(evidence.pieces, chosen_by_index),
        tokens=sum(estimate_piece_tokens(piece) for piece in pieces),
    )


def _describe_missing(pieces: Sequence[Evidence], chosen_by_index: Mapping[int, Evidence]) -> str:
    """Return how many pieces were left out, by session, and how many were shortened; "" if none.

    Args:
        pieces: all pieces.
        chosen_by_index: the pieces that were taken, perhaps shortened, by index.
    """
    totals: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    shortened_count = 0
    for index, piece in enumerate(pieces):
        session = piece.session or ""
        totals[session] += 1
        if index not in chosen_by_index:
            missing[session] += 1
        elif chosen_by_index[index].text != piece.text:
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


def estimate_piece_tokens(piece: Evidence) -> int:
    """Return an upper estimate of the tokens that a piece of evidence takes in a prompt.

    There it is JSON with `<` and `>` escaped.
    """
    labels = (f"{key} {value}" for key, value in piece.labels)
    fields = (piece.tool or "", piece.before, *piece.paths[:SHOWN_PATHS], *labels)
    # Each value has two quotation marks and a comma, estimated as two tokens.
    field_tokens = sum(estimate_tokens(text) + 2 for text in fields)
    return PIECE_TOKENS + _estimate_text_tokens(piece.text) + field_tokens


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


def _estimate_text_tokens(text: str) -> int:
    encoded = json.dumps(text, ensure_ascii=False)
    return estimate_tokens(encoded.replace("<", "\\u003c").replace(">", "\\u003e"))


def _iter_queues_by_rank(
    pieces: Sequence[Evidence], has_learning_signs: Callable[[str], bool]
) -> Iterator[list[list[int]]]:
    """Yield the queues of each rank, in which pieces wait to be taken into a prompt.

    A rank has one queue per session, and one for the pieces of no session. A queue is a list of
    indices of pieces, the latest first.

    Args:
        pieces: the pieces of evidence.
        has_learning_signs: a function that returns whether a text may hold a learning.
    """
    indices_by_session: defaultdict[str, list[int]] = defaultdict(list)
    for index, piece in enumerate(pieces):
        indices_by_session[piece.session or ""].append(index)

    rank_by_index: dict[int, Rank] = {}
    for indices in indices_by_session.values():
        session_ranks = _rank_pieces([pieces[index] for index in indices], has_learning_signs)
        rank_by_index.update(zip(indices, session_ranks, strict=True))

    for rank in Rank:
        queues: list[list[int]] = []
        for indices in indices_by_session.values():
            queue = [index for index in reversed(indices) if rank_by_index[index] is rank]
            if queue and rank is Rank.OUTLINE:
                # The first prompt goes to the head: without it the last words say little.
                first_prompt = queue.pop()
                queue.insert(0, first_prompt)
            queues.append(queue)
        yield queues


def _rank_pieces(
    pieces: Sequence[Evidence], has_learning_signs: Callable[[str], bool]
) -> list[Rank]:
    """Return the rank of each piece of one session, or of the pieces of no session.

    - A correction is one by its kind, whatever its words.
    - The outline is the first and the last turns of a person, and all messages and reviews.
    - Near a sign are the pieces with words like those of a learning or typed while the agent
      worked, and a few pieces before and after them.
    """
    turn_indices: list[int] = []
    outline: set[int] = set()
    near_signs: set[int] = set()
    for index, piece in enumerate(pieces):
        if piece.actor == "human" and piece.kind == "text":
            turn_indices.append(index)
        if piece.session is None and piece.kind != "diff":
            outline.add(index)
        if MID_TURN in piece.labels or has_learning_signs(piece.text):
            near_signs.update(range(index - PIECES_AROUND_SIGN, index + PIECES_AROUND_SIGN + 1))
    outline.update(turn_indices[:1], turn_indices[-LAST_TURNS:])

    ranks: list[Rank] = []
    for index, piece in enumerate(pieces):
        if is_correction(piece):
            ranks.append(Rank.CORRECTION)
        elif index in outline:
            ranks.append(Rank.OUTLINE)
        elif index in near_signs:
            ranks.append(Rank.NEAR_SIGN)
        else:
            ranks.append(Rank.REST)
    return ranks


def is_correction(piece: Evidence) -> bool:
    """Return whether a piece shows by its kind that something was corrected or foreseen."""
    if piece.kind == "commit":
        return bool(REVERT_SUBJECT.search(piece.text.partition("\n")[0]))
    is_requested = ("state", "changes_requested") in piece.labels
    return piece.kind in CORRECTION_KINDS or is_requested or has_outcome(piece.labels)


def _take_in_order(
    queues_by_rank: Iterable[list[list[int]]], pieces: Sequence[Evidence], budget: int
) -> dict[int, Evidence]:
    """Return the pieces that fit into a budget of tokens, by their indices.

    The next piece is always of the session whose pieces took the fewest tokens so far.

    Args:
        queues_by_rank: the indices of pieces, as `_iter_queues_by_rank` yields them.
        pieces: all pieces.
        budget: the tokens for all pieces.
    """
    chosen_by_index: dict[int, Evidence] = {}
    spent_by_session: Counter[str] = Counter()
    max_text_tokens = max(budget // TEXTS_PER_BUDGET, MIN_TEXT_TOKENS)

    def tokens_spent(queue: deque[int]) -> int:
        return spent_by_session[pieces[queue[0]].session or ""]

    for queues_of_rank in queues_by_rank:
        queues = [deque(queue) for queue in queues_of_rank if queue]
        while queues:
            index = min(queues, key=tokens_spent).popleft()
            available = budget - spent_by_session.total()
            piece = _shorten_to_fit(pieces[index], available, max_text_tokens)
            if piece is None:
                return chosen_by_index
            chosen_by_index[index] = piece
            spent_by_session[piece.session or ""] += estimate_piece_tokens(piece)
            queues = [queue for queue in queues if queue]
    return chosen_by_index


def _shorten_to_fit(piece: Evidence, available: int, max_text_tokens: int) -> Evidence | None:
    """Return a piece of evidence as a whole, or with few paths and labels, or shortened to fit.

    Labels that our readers of events give (such as `outcome`) are kept before the trailers of a
    commit.

    Args:
        piece: the piece.
        available: the tokens that are left of the budget.
        max_text_tokens: the tokens that its text may take.

    Returns:
        The piece, or None if too little of its text would fit.
    """
    if estimate_piece_tokens(piece) <= min(available, PIECE_TOKENS + max_text_tokens):
        return piece
    paths = [path for path in piece.paths if len(path) <= MAX_DETAIL_LENGTH]
    labels = [
        (key, value) for key, value in piece.labels if len(key) + len(value) <= MAX_DETAIL_LENGTH
    ]
    own_labels = [(key, value) for key, value in labels if key in OWN_LABELS]
    trailers = [(key, value) for key, value in labels if key not in OWN_LABELS]
    trimmed = replace(
        piece,
        before="",
        paths=tuple(paths[:MAX_DETAILS]),
        labels=tuple([*own_labels, *trailers][:MAX_DETAILS]),
    )

    text_tokens = _estimate_text_tokens(piece.text)
    other_tokens = estimate_piece_tokens(trimmed) - text_tokens
    limit = min(max_text_tokens, available - other_tokens)
    if limit >= text_tokens:
        return trimmed
    if limit < MIN_TEXT_TOKENS:
        return None
    text = shorten_middle(piece.text, lambda shorter: _estimate_text_tokens(shorter) <= limit)
    return replace(trimmed, text=text)
