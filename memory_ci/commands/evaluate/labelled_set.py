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
from typing import Any, NamedTuple, TypedDict

import msgspec

from memory_ci.commands.evaluate.evaluate import MAX_ENTRIES
from memory_ci.commands.evaluate.extraction_metrics import cohen_kappa
from memory_ci.commands.evaluate.json_lines import DEFAULT_TIME, load_lines, read_labelled_file
from memory_ci.commands.evaluate.records import DrawnSet, ReaderQuality, SetEvaluation
from memory_ci.commands.record.batches import Collector
from memory_ci.commands.record.learner import OnProgress
from memory_ci.commands.record.run import plan_record
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.errors import UsageError
from memory_ci.extraction.judge import JudgedCase, judge_reply
from memory_ci.extraction.prompt import build_prompt
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.extraction.settlement import settle_candidates
from memory_ci.memory.model import Model, choose_model, trust_config_at
from memory_ci.memory.workspace import Workspace, find_branch_tip
from memory_ci.records.candidate import Request
from memory_ci.records.event import Evidence
from memory_ci.records.proportion import compute_share
from memory_ci.regex import Regex
from memory_ci.store.files import write_file
from memory_ci.text import estimate_tokens

APPROVAL_QUESTIONS = ("true", "durable", "self_contained")
"""The questions that approve a learning together, where a reader answers several."""

# An answered learning in a sheet: `## KEY`, its text and quotes, and the line `approve: y`.
SHEET_ITEM = Regex(
    r"^## (?P<key>\S+)$(?P<text>.*?)^approve: *(?P<answer>\S*) *$", re.MULTILINE | re.DOTALL
)
ANSWER_WORDS = {"y": True, "yes": True, "n": False, "no": False}
SHEET_INTRODUCTION = (
    "Answer each with `approve: y` or `approve: n`; leave what you cannot judge."
    " Yes if it is true as far as the\n"
    "quoted words say, if work elsewhere and later is done differently because of it,"
    " and if it is understood without\n"
    "the change. Do not talk with the other reader before both are done.\n"
)


class _ErrorWords(TypedDict):
    slug: str
    hint: str


BAD_SET_ERROR: _ErrorWords = {"slug": "bad-set", "hint": "See `memory-ci help evaluation`."}
"""The slug and the hint of errors in the files of a set."""


class JudgedLearning(NamedTuple):
    """A learning of a reply, and the decision of the present gate whether it is written.

    Attributes:
        key: the window of the learning and its number there, as `windows/01.json#2`.
        verdict: `written`, or why it is not.
        reason: the reason in a few words.
    """

    key: str
    verdict: str
    reason: str


def evaluate_set(set_directory: Path) -> SetEvaluation:
    """Measure a set of windows, the replies of a model, and the answers of people who read them.

    A window is the prompt on one merged change, and the reply to it holds learnings. The gate, the
    checks that a learning has to pass, decides today which of them are written. The figures are the
    approval of each reader, the readers' agreement, how many learnings are written, how often the
    model abstained, and the mean of tokens for each window.

    Raises:
        UsageError: bad-set.
    """
    windows = _load_windows(set_directory)
    replies = {
        name: reply for name, reply in _load_replies(set_directory).items() if name in windows
    }
    if not replies:
        hint = "See `memory-ci help evaluation`; `memory-ci eval draw` makes a set."
        raise UsageError(f"{set_directory} holds no window with a reply", slug="bad-set", hint=hint)

    learnings: list[JudgedLearning] = []
    abstained_count = 0
    for window_name, reply in replies.items():
        learnings_of_reply = _judge_learnings(window_name, windows[window_name], reply)
        learnings += learnings_of_reply
        if not learnings_of_reply:
            abstained_count += 1
    written_keys = {learning.key for learning in learnings if learning.verdict == "written"}
    reasons = Counter(learning.reason for learning in learnings if learning.verdict != "written")

    answers = _load_answers(set_directory, replies)
    readers = _list_readers(answers)
    prompt_tokens = sum(_estimate_prompt_tokens(windows[name]) for name in replies)
    reply_tokens = sum(estimate_tokens(reply) for reply in replies.values())
    return SetEvaluation(
        windows=len(replies),
        learnings=len(learnings),
        abstained=compute_share(abstained_count, len(replies)),
        written=compute_share(len(written_keys), len(learnings)),
        not_written=dict(reasons),
        tokens_in=round(prompt_tokens / len(replies), 1),
        tokens_out=round(reply_tokens / len(replies), 1),
        readers=tuple(_measure_reader(reader, answers, written_keys) for reader in readers),
        agreement=tuple(_measure_agreement(readers, answers)),
    )


def _estimate_prompt_tokens(window: Mapping[str, Any]) -> int:
    """Estimate the tokens that were sent to a model for a window."""
    return sum(estimate_tokens(str(window.get(part, ""))) for part in ("system", "user", "schema"))


def draw_set(
    workspace: Workspace,
    options: RecordOptions,
    set_directory: Path,
    *,
    count: int,
    seed: int,
    now: datetime,
    environ: Mapping[str, str],
    progress: OnProgress,
) -> DrawnSet:
    """Draw windows of merged work at random, let the model reply, and write a sheet per reader.

    A window is the prompt on one merged change, as a model is sent it. A sheet lists the learnings
    of all replies, for a person to approve or refuse. Without a model there are no replies and no
    sheets: somebody else has to reply.

    Args:
        workspace: the repository and its configuration.
        options: the range of merged changes, and the engine.
        set_directory: the directory of the new set.
        count: how many windows to draw.
        seed: the seed of the draw.
        now: the present time.
        environ: the environment, which has the keys of models.
        progress: is called as merged work is read.

    Raises:
        UsageError: set-exists.
        EngineError: errors of the engine.
    """
    if (set_directory / "windows").exists():
        message = f"{set_directory} holds a set already"
        raise UsageError(message, slug="set-exists", hint="Name another directory.")

    _, base = find_branch_tip(workspace, options.ref)
    model = choose_model(
        trust_config_at(workspace.repo, base).config.engine, options.engine, environ
    )
    # A run of `record` makes the requests, with an engine that collects them and sends none.
    collector = Collector()
    collecting_model = Model(
        name="draw", reason="", engine=collector, meter=model.meter, settings=model.settings
    )
    plan_record(workspace, options, now.date(), progress, environ, model=collecting_model)
    total = len(collector.requests)
    requests = random.Random(seed).sample(collector.requests, min(count, total))  # noqa: S311 - a sample

    reply_lines = []
    with closing(model):
        for number, request in enumerate(requests, start=1):
            name = f"windows/{number:02}.json"
            _write_window(set_directory / name, request)
            if model.engine is not None:
                learnings = parse_reply(model.engine.extract(request).text).learnings
                reply = {"learnings": learnings}
                line = {"window": name, "change": request.change, "reply": reply}
                reply_lines.append(msgspec.json.encode(line) + b"\n")
    write_file(set_directory / "replies.jsonl", b"".join(reply_lines))
    sheets: tuple[str, ...] = ()
    if reply_lines:
        sheets = write_sheets(set_directory, seed)
    return DrawnSet(windows=len(requests), total=total, answered=len(reply_lines), sheets=sheets)


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
    set_directory: Path, seed: int, readers: Sequence[str] = ("one", "two")
) -> tuple[str, ...]:
    """Write for each reader a Markdown sheet, in which to approve or refuse each learning.

    Each sheet has all learnings of the set in an order of its own. Sheets that exist are not
    changed.

    Args:
        set_directory: the directory of the set.
        seed: the seed by which the learnings are shuffled, differently for each reader.
        readers: the names of the readers.

    Returns:
        The names of the sheets.
    """
    items = []
    for name, reply in _load_replies(set_directory).items():
        for key, learning in _iter_learnings_with_keys(name, reply):
            items.append(_format_sheet_item(key, learning))

    paths = [set_directory / f"reader-{reader}.md" for reader in readers]
    for number, path in enumerate(paths):
        if not path.exists():
            shuffled = random.Random(seed + number).sample(items, len(items))  # noqa: S311 - no secret
            write_file(path, (SHEET_INTRODUCTION + "".join(shuffled)).encode())
    return tuple(path.name for path in paths)


def _format_sheet_item(key: str, learning: Learning) -> str:
    """Return a learning as an item of a sheet, with its quotes and a line for the answer."""
    parts = [part for part in (learning.title, learning.body) if part]
    text = "\n".join(parts).replace("## ", "")  # A heading would begin another item.
    quotes = "".join(f"> {' '.join(quote.text.split())}\n" for quote in learning.quotes)
    return f"\n## {key}\n{text}\n{quotes}approve:\nwhy:\n"


def _load_windows(set_directory: Path) -> dict[str, dict[str, Any]]:
    """Return the windows of a set by name, such as `windows/01.json`.

    Raises:
        UsageError: bad-set.
    """
    windows = {}
    for path in sorted((set_directory / "windows").glob("*.json")):
        try:
            text = read_labelled_file(path, **BAD_SET_ERROR)
            window = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise UsageError(f"{path}: {error}", **BAD_SET_ERROR) from error
        windows[f"windows/{path.name}"] = window
    return windows


def _load_replies(set_directory: Path) -> dict[str, str]:
    """Return the replies of a set, by the names of their windows."""
    lines = load_lines(set_directory / "replies.jsonl", dict[str, Any], **BAD_SET_ERROR)
    return {
        str(line.get("window")): msgspec.json.encode(line.get("reply")).decode() for line in lines
    }


def _iter_learnings_with_keys(name: str, reply: str) -> Iterator[tuple[str, Learning]]:
    """Yield the learnings of a reply, each with its key: its window and its number there."""
    for number, learning in enumerate(parse_reply(reply).learnings, start=1):
        yield f"{name}#{number}", learning


def _judge_learnings(name: str, window: Mapping[str, Any], reply: str) -> list[JudgedLearning]:
    """Return the learnings of a model's reply, each with whether `record` would write it today.

    The reply is judged by the gate, the checks that a learning has to pass. Then candidates that
    say the same are united, so a learning without a candidate of its own restates another one.

    Args:
        name: the name of the window.
        window: the prompt that was sent to the model.
        reply: its reply.
    """
    user_prompt = msgspec.json.decode(window.get("user") or b"{}")
    # The evidence was called `evidence` in windows of former versions.
    pieces = user_prompt.get("pieces") or user_prompt.get("evidence") or ()
    evidence = tuple(_parse_evidence(piece) for piece in pieces)
    case = JudgedCase(label=str(user_prompt.get("change", name)), pieces=evidence)
    candidates = settle_candidates(judge_reply(case, reply, "set").judged, MAX_ENTRIES)
    candidate_by_title = {judged.candidate.title: judged for judged in candidates}

    learnings = []
    for key, learning in _iter_learnings_with_keys(name, reply):
        judged = candidate_by_title.get(learning.title)
        if judged is None:
            learnings.append(JudgedLearning(key, "restates", "is the same as another"))
        else:
            short_reason = judged.reason.partition(":")[0]
            learnings.append(JudgedLearning(key, judged.verdict, short_reason))
    return learnings


def _parse_evidence(piece: Mapping[str, Any]) -> Evidence:
    """Return a piece of evidence of a window as a record.

    The trust of a piece is T1 for words of people, which a learning may quote, and T3 for others.

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
            "at": DEFAULT_TIME,
            "actor": piece.get("actor", "human"),
            "paths": piece.get("paths", ()),
            "origin": {"kind": origin_kind, "id": str(piece["id"])},
        }
        return msgspec.convert(fields, Evidence)
    except (KeyError, msgspec.ValidationError) as error:
        raise UsageError(f"a piece of a window cannot be read: {error}", slug="bad-set") from error


Answers = Mapping[str, Mapping[str, bool]]
"""Whether readers approve of a learning: by the key of the learning, by the name of the reader."""


def _load_answers(set_directory: Path, replies: Mapping[str, str]) -> Answers:
    """Load the readers' answers on each learning of the replies.

    They are in `verdicts.jsonl`, with all readers, and in one sheet for each reader. If both have
    an answer of a reader on a learning, the sheet counts.

    Args:
        set_directory: the directory of the set.
        replies: the replies, by the names of their windows.
    """
    key_by_window_and_title: dict[tuple[str, str], str] = {}
    for window_name, reply in replies.items():
        for key, learning in _iter_learnings_with_keys(window_name, reply):
            key_by_window_and_title[window_name, learning.title] = key
    answers: dict[str, dict[str, bool]] = {key: {} for key in key_by_window_and_title.values()}

    verdicts_path = set_directory / "verdicts.jsonl"
    if verdicts_path.exists():
        for line in load_lines(verdicts_path, dict[str, Any], **BAD_SET_ERROR):
            window_and_title = (str(line.get("window")), str(line.get("title")))
            if window_and_title in key_by_window_and_title:
                key = key_by_window_and_title[window_and_title]
                answers[key].update(_parse_answers(line))

    for sheet in sorted(set_directory.glob("reader-*.md")):
        reader = sheet.stem.removeprefix("reader-")
        for match in SHEET_ITEM.finditer(read_labelled_file(sheet, **BAD_SET_ERROR)):
            answer = ANSWER_WORDS.get(match["answer"].lower())
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
    may be the answers to the questions in `APPROVAL_QUESTIONS`.
    """
    for reader, answer in line.items():
        if not isinstance(answer, dict):  # The window or the title.
            continue
        if "approve" in answer:
            yield reader, bool(answer["approve"])
        else:
            yield reader, all(answer.get(question) for question in APPROVAL_QUESTIONS)


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
