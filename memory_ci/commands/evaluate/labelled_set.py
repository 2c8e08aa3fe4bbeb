"""Sets of windows of merged work whose learnings people label: drawn at random, and measured.

A set is a directory (docs/evaluation.md): `windows/*.json` are windows as they were sent to a
model, `replies.jsonl` has its replies, and `verdicts.jsonl` and the sheets `reader-NAME.md` have
the readers' answers on each learning. The replies pass through the present gate, so that a change
of the gate is measured, too.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from memory_ci.commands.evaluate.evaluate import MAX_ENTRIES
from memory_ci.commands.evaluate.extraction_metrics import cohen_kappa
from memory_ci.commands.evaluate.json_lines import WHEN, load_lines, read_labelled_file
from memory_ci.commands.evaluate.records import DrawnSet, ReaderQuality, SetEvaluation
from memory_ci.commands.record.batches import Collector
from memory_ci.commands.record.learner import OnProgress
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.errors import UsageError
from memory_ci.extraction.judge import JudgedCase, judge_reply
from memory_ci.extraction.prompt import build_prompt
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.extraction.settlement import settle
from memory_ci.memory.model import Model, choose_model, trust_config_at
from memory_ci.memory.workspace import Workspace, branch_tip
from memory_ci.records.candidate import Request
from memory_ci.records.event import Evidence
from memory_ci.records.proportion import compute_share
from memory_ci.regex import Regex
from memory_ci.store.files import write_file
from memory_ci.text import estimate_tokens

APPROVED = ("true", "durable", "self_contained")
"""The questions that approve a learning together, where a reader answers several."""

# An answered learning in a sheet: `## KEY`, its text and quotes, and the line `approve: y`.
SHEET = Regex(
    r"^## (?P<key>\S+)$(?P<text>.*?)^approve: *(?P<answer>\S*) *$", re.MULTILINE | re.DOTALL
)
ANSWERS = {"y": True, "yes": True, "n": False, "no": False}
RULES_OF_READING = (
    "Answer each with `approve: y` or `approve: n`; leave what you cannot judge."
    " Yes if it is true as far as the\n"
    "quoted words say, if work elsewhere and later is done differently because of it,"
    " and if it is understood without\n"
    "the change. Do not talk with the other reader before both are done.\n"
)
BAD_SET = ("bad-set", "See `memory-ci help evaluation`.")  # The slug and the hint of errors.


class GatedLearning(NamedTuple):
    """A learning of a reply, and the decision of the present gate whether it is written.

    Attributes:
        key: the window of the learning and its number there, as `windows/01.json#2`.
        verdict: `written`, or why it is not.
        reason: the reason in a few words.
    """

    key: str
    verdict: str
    reason: str


def evaluate_set(place: Path) -> SetEvaluation:
    """Measure a set of windows, the replies of a model, and the answers of people who read them.

    The figures are the approval of each reader, the readers' agreement, how many learnings are
    written, how often the model abstained, and tokens.

    Raises:
        UsageError: bad-set.
    """
    windows = _load_windows(place)
    replies = {name: reply for name, reply in _load_replies(place).items() if name in windows}
    if not replies:
        hint = "See `memory-ci help evaluation`; `memory-ci eval draw` makes a set."
        raise UsageError(f"{place} holds no window with a reply", slug="bad-set", hint=hint)

    learnings: list[GatedLearning] = []
    abstained_count = 0
    for name, reply in replies.items():
        learnings_of_reply = _gate_reply(name, windows[name], reply)
        learnings += learnings_of_reply
        if not learnings_of_reply:
            abstained_count += 1
    written_keys = {learning.key for learning in learnings if learning.verdict == "written"}
    reasons = Counter(learning.reason for learning in learnings if learning.verdict != "written")

    answers = _load_answers(place, replies)
    readers = _list_readers(answers)
    tokens_in = sum(_estimate_prompt_tokens(windows[name]) for name in replies)
    tokens_out = sum(estimate_tokens(reply) for reply in replies.values())
    return SetEvaluation(
        windows=len(replies),
        learnings=len(learnings),
        abstained=compute_share(abstained_count, len(replies)),
        written=compute_share(len(written_keys), len(learnings)),
        not_written=dict(reasons),
        tokens_in=round(tokens_in / len(replies), 1),
        tokens_out=round(tokens_out / len(replies), 1),
        readers=tuple(_measure_reader(reader, answers, written_keys) for reader in readers),
        agreement=tuple(_measure_agreement(readers, answers)),
    )


def _estimate_prompt_tokens(window: Mapping[str, Any]) -> int:
    """Estimate the tokens that were sent to a model for a window."""
    return sum(estimate_tokens(str(window.get(part, ""))) for part in ("system", "user", "schema"))


def draw_set(
    workspace: Workspace,
    options: RecordOptions,
    place: Path,
    *,
    count: int,
    seed: int,
    now: datetime,
    environ: Mapping[str, str],
    progress: OnProgress,
) -> DrawnSet:
    """Draw windows of merged work at random, let the model reply, and write a sheet per reader.

    A window is the evidence of one merged change, as a model reads it. Without a model there are
    no replies and no sheets: somebody else has to reply.

    Args:
        workspace: the repository and its configuration.
        options: the range of merged changes, and the engine.
        place: the directory of the new set.
        count: how many windows to draw.
        seed: the seed of the draw.
        now: the present time.
        environ: the environment, which has the keys of models.
        progress: is called as merged work is read.

    Raises:
        UsageError: set-exists.
        EngineError: errors of the engine.
    """
    if (place / "windows").exists():
        message = f"{place} holds a set already"
        raise UsageError(message, slug="set-exists", hint="Name another directory.")

    _, base = branch_tip(workspace, options.ref)
    model = choose_model(
        trust_config_at(workspace.repo, base).config.engine, options.engine, environ
    )
    # A record run with an engine that only keeps the requests which it would send.
    collector = Collector()
    collecting = Model("draw", "", collector, model.meter, model.settings)
    plan_record(workspace, options, now.date(), progress, environ, model=collecting)
    total = len(collector.requests)
    requests = random.Random(seed).sample(collector.requests, min(count, total))  # noqa: S311 - a sample

    reply_lines = []
    with closing(model):
        for number, request in enumerate(requests, start=1):
            name = f"windows/{number:02}.json"
            _write_window(place / name, request)
            if model.engine is not None:
                learnings = parse_reply(model.engine.extract(request).text).learnings
                reply = {"learnings": learnings}
                line = {"window": name, "change": request.change, "reply": reply}
                reply_lines.append(msgspec.json.encode(line) + b"\n")
    write_file(place / "replies.jsonl", b"".join(reply_lines))
    sheets: tuple[str, ...] = ()
    if reply_lines:
        sheets = write_sheets(place, seed)
    return DrawnSet(len(requests), total, len(reply_lines), sheets)


def _write_window(path: Path, request: Request) -> None:
    """Write the prompt of a request, as it is sent to a model."""
    prompt = build_prompt(request)
    window = {
        "version": 1,
        "task": request.task,
        "system": prompt.system,
        "user": prompt.user,
        "schema": prompt.schema,
    }
    write_file(path, msgspec.json.format(msgspec.json.encode(window), indent=1))


def write_sheets(
    place: Path, seed: int, readers: Sequence[str] = ("one", "two")
) -> tuple[str, ...]:
    """Write for each reader a Markdown sheet, in which to approve or refuse each learning.

    Each sheet has all learnings of the set in an order of its own. Sheets that exist are not
    changed.

    Args:
        place: the directory of the set.
        seed: the seed of the orders.
        readers: the names of the readers.

    Returns:
        The names of the sheets.
    """
    items = []
    for name, reply in _load_replies(place).items():
        for key, learning in _iter_keyed(name, reply):
            items.append(_format_sheet_item(key, learning))

    paths = [place / f"reader-{reader}.md" for reader in readers]
    for number, path in enumerate(paths):
        if not path.exists():
            shuffled = random.Random(seed + number).sample(items, len(items))  # noqa: S311 - an order
            write_file(path, (RULES_OF_READING + "".join(shuffled)).encode())
    return tuple(path.name for path in paths)


def _format_sheet_item(key: str, learning: Learning) -> str:
    """Return a learning as an item of a sheet, with its quotes and a line for the answer."""
    parts = [part for part in (learning.title, learning.body) if part]
    text = "\n".join(parts).replace("## ", "")  # A heading would begin another item.
    quotes = "".join(f"> {' '.join(quote.text.split())}\n" for quote in learning.quotes)
    return f"\n## {key}\n{text}\n{quotes}approve:\nwhy:\n"


def _load_windows(place: Path) -> dict[str, dict[str, Any]]:
    """Return the windows of a set, by name."""
    windows = {}
    for path in sorted((place / "windows").glob("*.json")):
        try:
            window = msgspec.json.decode(read_labelled_file(path, *BAD_SET), type=dict[str, Any])
        except msgspec.DecodeError as error:
            slug, hint = BAD_SET
            raise UsageError(f"{path}: {error}", slug=slug, hint=hint) from error
        windows[f"windows/{path.name}"] = window
    return windows


def _load_replies(place: Path) -> dict[str, str]:
    """Return the replies of a set, by the names of their windows."""
    lines = load_lines(place / "replies.jsonl", dict[str, Any], *BAD_SET)
    return {
        str(line.get("window")): msgspec.json.encode(line.get("reply")).decode() for line in lines
    }


def _iter_keyed(name: str, reply: str) -> Iterator[tuple[str, Learning]]:
    """Yield the learnings of a reply, each with its key: its window and its number there."""
    for number, learning in enumerate(parse_reply(reply).learnings, start=1):
        yield f"{name}#{number}", learning


def _gate_reply(name: str, window: Mapping[str, Any], reply: str) -> list[GatedLearning]:
    """Return the learnings of a model's reply, each with the decision of the present gate.

    Args:
        name: the name of the window.
        window: the prompt that was sent to the model.
        reply: its reply.
    """
    user_prompt = msgspec.json.decode(window.get("user") or b"{}")
    # The evidence was called `evidence` in windows of former versions.
    evidence = user_prompt.get("pieces") or user_prompt.get("evidence") or ()
    pieces = tuple(_parse_piece(piece) for piece in evidence)
    case = JudgedCase(label=str(user_prompt.get("change", name)), pieces=pieces)
    settled = settle(judge_reply(case, reply, "set").judged, MAX_ENTRIES)
    judged_by_title = {judged.candidate.title: judged for judged in settled}
    learnings = []
    for key, learning in _iter_keyed(name, reply):
        judged = judged_by_title.get(learning.title)
        if judged is None:  # Candidates that say the same were settled as one.
            gated = GatedLearning(key, "restates", "is the same as another")
        else:
            reason = judged.reason.partition(":")[0]
            gated = GatedLearning(key, judged.verdict, reason)
        learnings.append(gated)
    return learnings


def _parse_piece(piece: Mapping[str, Any]) -> Evidence:
    """Return a piece of evidence of a window as a record.

    Raises:
        UsageError: bad-set.
    """
    try:
        # Former windows have the trust of a piece, later ones a mark on those that may be quoted.
        trust = piece.get("trust")
        if not trust:
            trust = "T1" if piece.get("quote") else "T3"
        origin_kind = "commit" if piece["kind"] in ("commit", "adr") else "session"
        fields = {
            "id": piece["id"],
            "kind": piece["kind"],
            "text": piece["text"],
            "trust": trust,
            "at": WHEN,
            "actor": piece.get("actor", "human"),
            "paths": piece.get("paths", ()),
            "origin": {"kind": origin_kind, "id": str(piece["id"])},
        }
        return msgspec.convert(fields, Evidence)
    except (KeyError, msgspec.ValidationError) as error:
        raise UsageError(f"a piece of a window cannot be read: {error}", slug="bad-set") from error


Answers = Mapping[str, Mapping[str, bool]]
"""Whether readers approve of a learning: by the key of the learning, by the name of the reader."""


def _load_answers(place: Path, replies: Mapping[str, str]) -> Answers:
    """Load the readers' answers on each learning of the replies.

    They are in `verdicts.jsonl` and in one sheet for each reader, which replaces the reader's
    answers in the former.

    Args:
        place: the directory of the set.
        replies: the replies, by the names of their windows.
    """
    keys: dict[tuple[str, str], str] = {}
    for name, reply in replies.items():
        for key, learning in _iter_keyed(name, reply):
            keys[name, learning.title] = key
    answers: dict[str, dict[str, bool]] = {key: {} for key in keys.values()}

    verdicts_path = place / "verdicts.jsonl"
    if verdicts_path.exists():
        for line in load_lines(verdicts_path, dict[str, Any], *BAD_SET):
            window_and_title = (str(line.get("window")), str(line.get("title")))
            if window_and_title in keys:
                answers[keys[window_and_title]].update(_parse_answers(line))

    for sheet in sorted(place.glob("reader-*.md")):
        reader = sheet.stem.removeprefix("reader-")
        for match in SHEET.finditer(read_labelled_file(sheet, *BAD_SET)):
            answer = ANSWERS.get(match["answer"].lower())
            if match["key"] in answers and answer is not None:
                answers[match["key"]][reader] = answer
    return answers


def _list_readers(answers: Answers) -> list[str]:
    """Return the names of all readers who answered, in alphabetical order."""
    readers: set[str] = set()
    for answers_by_reader in answers.values():
        readers.update(answers_by_reader)
    return sorted(readers)


def _parse_answers(line: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield each reader in a line of verdicts, and whether they approve of its learning.

    A line is `{"window": …, "title": …, "anna": {"approve": true}}`. Instead of `approve` there
    may be the answers to the questions in `APPROVED`.
    """
    for reader, answer in line.items():
        if not isinstance(answer, dict):  # The window or the title.
            continue
        if "approve" in answer:
            yield reader, bool(answer["approve"])
        else:
            yield reader, all(answer.get(question) for question in APPROVED)


def _measure_reader(reader: str, answers: Answers, written_keys: Collection[str]) -> ReaderQuality:
    """Return which shares a reader approves of: of all learnings, and of those that are written."""
    approvals = []
    approvals_of_written = []
    for key, answers_by_reader in answers.items():
        if reader not in answers_by_reader:
            continue
        approvals.append(answers_by_reader[reader])
        if key in written_keys:
            approvals_of_written.append(answers_by_reader[reader])
    return ReaderQuality(
        reader,
        replied=compute_share(sum(approvals), len(approvals)),
        written=compute_share(sum(approvals_of_written), len(approvals_of_written)),
    )


def _measure_agreement(
    readers: Sequence[str], answers: Answers
) -> Iterator[tuple[str, str, float | None, int]]:
    """Yield for each two readers their names, Cohen's kappa, and how many learnings both judged."""
    for first, second in combinations(readers, 2):
        answer_pairs = []
        for answers_by_reader in answers.values():
            if first in answers_by_reader and second in answers_by_reader:
                answer_pairs.append((answers_by_reader[first], answers_by_reader[second]))
        kappa, count = cohen_kappa(answer_pairs)
        yield first, second, kappa, count
