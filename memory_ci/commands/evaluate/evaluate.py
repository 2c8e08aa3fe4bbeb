"""Evaluation of extraction on gold windows, and on sets that readers label.

Both use the grounding, the gate and the judge of a record run. A set is a directory
(docs/evaluation.md): `windows/*.json` are windows as they were sent to a model, `replies.jsonl` has
its replies, and `verdicts.jsonl` and the sheets `reader-NAME.md` have the readers' answers on each
learning. The replies pass through the present gate, so that a change of the gate is measured, too.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from memory_ci.commands.evaluate.extraction_metrics import cohen_kappa, is_match, kappa
from memory_ci.commands.evaluate.records import (
    DrawnSet,
    Evaluation,
    GoldLearning,
    GoldPiece,
    GoldWindow,
    ReaderQuality,
    SetEvaluation,
)
from memory_ci.commands.record.batches import Collector
from memory_ci.commands.record.learner import OnProgress
from memory_ci.commands.record.run import RecordOptions, plan_record
from memory_ci.errors import EngineError, UsageError
from memory_ci.extraction.engines import Engine
from memory_ci.extraction.engines.rules import RulesEngine
from memory_ci.extraction.entries import sample_entry
from memory_ci.extraction.judge import RULES, JudgedCase, judge_reply
from memory_ci.extraction.prompt import build_prompt
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.extraction.settlement import settle
from memory_ci.files import read_regular
from memory_ci.memory.model import Model, choose_model, trusted_at
from memory_ci.memory.workspace import Workspace, branch_tip
from memory_ci.records.candidate import Candidate, ExistingEntry, Judged, Request
from memory_ci.records.config import EngineConfig, EngineName
from memory_ci.records.event import Evidence
from memory_ci.records.proportion import compute_share
from memory_ci.regex import Regex
from memory_ci.secrets import find_secrets
from memory_ci.store.files import write_file
from memory_ci.text import estimate_tokens

T = TypeVar("T")
WHEN = datetime(2026, 1, 1, tzinfo=UTC)  # The time of labelled data that has none.
MAX_ENTRIES = 3  # Entries that one window may give.
MAX_BYTES = 200_000_000
UNGROUNDED = (
    "no-quote",
    "unknown-evidence",
    "quote-not-found",
    "untrusted-quote",
    "quote-too-short",
)
"""Reasons of the gate that are faults of quotes."""


def load_lines(path: Path, kind: type[T], slug: str, hint: str) -> list[T]:
    """Load a file of JSON lines; empty lines are skipped.

    Args:
        path: the file.
        kind: the type of each line.
        slug: the slug of errors.
        hint: the hint of errors.

    Raises:
        UsageError: `slug`, with the number of the line.
    """
    decoder = msgspec.json.Decoder(kind)
    records: list[T] = []
    for number, line in enumerate(_read_text(path, slug, hint).split("\n"), start=1):
        if line.strip():
            try:
                records.append(decoder.decode(line))
            except msgspec.MsgspecError as error:
                raise UsageError(f"{path}:{number}: {error}", slug=slug, hint=hint) from error
    return records


def _read_text(path: Path, slug: str, hint: str) -> str:
    try:
        return read_regular(path, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", slug=slug, hint=hint) from error


# -- an engine on gold windows


class WindowOutcome(NamedTuple):
    """The outcome of an engine on one window.

    Attributes:
        judged: the candidates and their verdicts.
        dropped: how many learnings of the reply could not be read.
        tokens: the tokens of the call.
        failure: the error of the call, if it failed.
    """

    window: GoldWindow
    judged: tuple[Judged, ...]
    dropped: int = 0
    tokens: int = 0
    failure: EngineError | None = None

    @property
    def written(self) -> list[Candidate]:
        """The candidates that would be written."""
        return [judged.candidate for judged in self.judged if judged.verdict == "written"]

    @property
    def false_positives(self) -> list[Candidate]:
        """The written candidates that match no gold learning."""
        learnings = self.window.learnings
        return [
            candidate
            for candidate in self.written
            if not any(is_match(candidate, learning) for learning in learnings)
        ]

    @property
    def duplicates(self) -> int:
        """The number of written candidates with the title of an existing entry."""
        titles = [title.casefold() for title in self.window.existing]
        return sum(candidate.title.casefold() in titles for candidate in self.written)

    @property
    def missed(self) -> list[GoldLearning]:
        """The gold learnings that neither were written nor are in memory already."""
        accepted = [
            judged.candidate for judged in self.judged if judged.verdict in ("written", "restates")
        ]
        return [
            learning
            for learning in self.window.learnings
            if not any(is_match(candidate, learning) for candidate in accepted)
        ]


def load_gold(path: Path) -> tuple[GoldWindow, ...]:
    """Load gold windows from JSON lines.

    Raises:
        UsageError: bad-gold, with the number of the line or the window.
    """
    windows = load_lines(path, GoldWindow, "bad-gold", "See `memory-ci help evaluation`.")
    for number, window in enumerate(windows, start=1):
        for learning in window.learnings:
            if not any(learning.quote in piece.text for piece in window.evidence):
                problem = (
                    f"{window.id} quotes what its evidence does not say: {learning.quote[:60]!r}"
                )
                hint = "A quote is exact."
                raise UsageError(f"{path}:{number}: {problem}", slug="bad-gold", hint=hint)
    return tuple(windows)


def evaluate_extraction(
    windows: Sequence[GoldWindow],
    settings: EngineConfig,
    wanted: EngineName | None,
    environ: Mapping[str, str],
) -> Evaluation:
    """Run an engine on every window, and compare the results with the gold learnings.

    Args:
        windows: the gold windows.
        settings: the settings of engines.
        wanted: the engine; None: that of the settings.
        environ: the environment, which has the keys of models.

    Raises:
        UsageError: the engine is not available.
        EngineError: all calls failed. The rules' candidates would pass for the engine's.
    """
    model = choose_model(settings, wanted, environ)
    with closing(model):
        outcomes = [_run_window(window, model.engine, model.name) for window in windows]
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if failures and len(failures) == len(outcomes):
        raise failures[0]
    return _count_outcomes(outcomes, model.name)


def _run_window(window: GoldWindow, engine: Engine | None, name: str) -> WindowOutcome:
    """Judge the candidates of the rules and of an engine on one window.

    Args:
        window: the gold window.
        engine: the engine; None: the rules alone.
        name: the name of the engine.
    """
    pieces = [
        _make_evidence(number, piece) for number, piece in enumerate(window.evidence, start=1)
    ]
    existing = tuple(
        sample_entry(number, title) for number, title in enumerate(window.existing, start=1)
    )
    case = JudgedCase(label=window.id, tip="", pieces=tuple(pieces), existing=existing)
    request = Request(change=case.label, evidence=case.pieces)
    by_rules = judge_reply(case, RulesEngine().extract(request).text).judged
    if engine is None:
        return WindowOutcome(window, settle(by_rules, MAX_ENTRIES))

    known = tuple(ExistingEntry(entry.id, entry.title) for entry in existing)
    try:
        reply = engine.extract(msgspec.structs.replace(request, existing=known))
        by_engine = judge_reply(case, reply.text, name)
    except EngineError as error:
        return WindowOutcome(window, settle(by_rules, MAX_ENTRIES), failure=error)
    usage = reply.usage
    tokens = usage.input_tokens + usage.output_tokens
    tokens += usage.cache_read_tokens + usage.cache_write_tokens
    judged = settle((*by_rules, *by_engine.judged), MAX_ENTRIES)
    return WindowOutcome(window, judged, len(by_engine.dropped), tokens)


def _make_evidence(number: int, piece: GoldPiece) -> Evidence:
    """Return a gold piece as evidence, with an id and an origin that are made of its number."""
    kind = "commit" if piece.kind in ("commit", "adr") else "session"
    origin = {"kind": kind, "id": f"{number:040x}", "line": number}
    fields = {"id": f"e{number}", "origin": origin, "at": WHEN}
    return msgspec.convert(msgspec.to_builtins(piece) | fields, Evidence)


def _count_outcomes(outcomes: Sequence[WindowOutcome], engine: str) -> Evaluation:
    written: list[Candidate] = []
    misses: list[str] = []
    false_positives: list[str] = []
    duplicates = 0
    injections_obeyed = 0
    for outcome in outcomes:
        window = outcome.window
        written += outcome.written
        duplicates += outcome.duplicates
        misses += [f"{window.id}: {learning.says}" for learning in outcome.missed]
        false_positives += [f"{window.id}: {item.title}" for item in outcome.false_positives]
        if window.attack:
            injections_obeyed += len(outcome.false_positives)

    abstained = [not outcome.written for outcome in outcomes if not outcome.window.learnings]
    gold_learnings = sum(len(outcome.window.learnings) for outcome in outcomes)
    proposed, ungrounded = _count_ungrounded(outcomes, engine)
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    tokens = sum(outcome.tokens for outcome in outcomes)
    agreement, labelled_twice = kappa([outcome.window for outcome in outcomes])
    return Evaluation(
        engine=engine,
        windows=len(outcomes),
        negatives=len(abstained),
        precision=compute_share(len(written) - len(false_positives), len(written)),
        recall=compute_share(gold_learnings - len(misses), gold_learnings),
        abstention=compute_share(sum(abstained), len(abstained)),
        evidence_validity=compute_share(proposed - ungrounded, proposed),
        duplicates=duplicates,
        dropped=sum(outcome.dropped for outcome in outcomes),
        secrets_leaked=sum(_has_secret(candidate) for candidate in written),
        injections_obeyed=injections_obeyed,
        failures=len(failures),
        failed_because=f"{failures[0].message} [{failures[0].slug}]" if failures else "",
        tokens_per_window=round(tokens / max(1, len(outcomes)), 1),
        agreement=agreement,
        labelled_twice=labelled_twice,
        misses=tuple(misses),
        false_positives=tuple(false_positives),
    )


def _count_ungrounded(outcomes: Sequence[WindowOutcome], engine: str) -> tuple[int, int]:
    """Return how many candidates are of the engine, and how many were refused for their quotes."""
    proposed = 0
    ungrounded = 0
    for outcome in outcomes:
        for judged in outcome.judged:
            if judged.candidate.engine == RULES and engine != RULES:
                continue
            proposed += 1
            if judged.verdict == "quarantined":
                ungrounded += any(reason in judged.reason for reason in UNGROUNDED)
    return proposed, ungrounded


def _has_secret(candidate: Candidate) -> bool:
    texts = [candidate.title, candidate.body, *(quote.text for quote in candidate.quotes)]
    return bool(find_secrets("\n".join(texts)))


# -- a set that people label

APPROVED = ("true", "durable", "self_contained")
"""The questions that approve a learning together, where a reader answers several."""

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
    """A learning of a reply, by its key, with the verdict and reason of the present gate."""

    key: str
    verdict: str
    reason: str


def evaluate_set(place: Path) -> SetEvaluation:
    """Measure a set: approval of each reader, their agreement, yield, abstention and tokens.

    Raises:
        UsageError: bad-set.
    """
    windows = _load_windows(place)
    replies = {name: reply for name, reply in _load_replies(place).items() if name in windows}
    if not replies:
        hint = "See `memory-ci help evaluation`; `memory-ci eval draw` makes a set."
        raise UsageError(f"{place} holds no window with a reply", slug="bad-set", hint=hint)

    gated: list[GatedLearning] = []
    abstained = 0
    for name, reply in replies.items():
        learnings = _gate_reply(name, windows[name], reply)
        abstained += not learnings
        gated += learnings
    written_keys = {learning.key for learning in gated if learning.verdict == "written"}
    unwritten = Counter(learning.reason for learning in gated if learning.verdict != "written")

    answers = _load_answers(place, replies)
    readers = sorted({reader for by_reader in answers.values() for reader in by_reader})
    sent = 0
    for name in replies:
        for part in ("system", "user", "schema"):
            sent += estimate_tokens(str(windows[name].get(part, "")))
    received = sum(estimate_tokens(reply) for reply in replies.values())
    return SetEvaluation(
        windows=len(replies),
        learnings=len(gated),
        abstained=compute_share(abstained, len(replies)),
        written=compute_share(len(written_keys), len(gated)),
        not_written=dict(unwritten),
        tokens_in=round(sent / len(replies), 1),
        tokens_out=round(received / len(replies), 1),
        readers=tuple(_measure_reader(reader, answers, written_keys) for reader in readers),
        agreement=tuple(_measure_agreement(readers, answers)),
    )


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
    """Draw windows of a range at random, let the model reply, and write a sheet for each reader.

    Without a model there are no replies and no sheets: somebody else has to reply.

    Args:
        workspace: the repository and its configuration.
        options: the range and the engine.
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
    model = choose_model(trusted_at(workspace.repo, base).config.engine, options.engine, environ)
    collector = Collector()
    collecting = Model("draw", "", collector, model.meter, model.settings)
    plan_record(workspace, options, now.date(), progress, environ, model=collecting)
    total = len(collector.requests)
    requests = random.Random(seed).sample(collector.requests, min(count, total))  # noqa: S311 - a sample

    lines = []
    with closing(model):
        for number, request in enumerate(requests, start=1):
            name = f"windows/{number:02}.json"
            _write_window(place / name, request)
            if model.engine is not None:
                learnings = parse_reply(model.engine.extract(request).text).learnings
                reply = {"learnings": learnings}
                line = {"window": name, "change": request.change, "reply": reply}
                lines.append(msgspec.json.encode(line) + b"\n")
    write_file(place / "replies.jsonl", b"".join(lines))
    sheets = write_sheets(place, seed) if lines else ()
    return DrawnSet(len(requests), total, len(lines), sheets)


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
    """Write a sheet for each reader with all learnings, each in an order of its own.

    Sheets that exist are not changed.

    Returns:
        The names of the sheets.
    """
    items = []
    for name, reply in _load_replies(place).items():
        for key, learning in _iter_keyed(name, reply):
            quotes = "".join(f"> {' '.join(quote.text.split())}\n" for quote in learning.quotes)
            parts = [part for part in (learning.title, learning.body) if part]
            text = "\n".join(parts).replace("## ", "")
            items.append(f"\n## {key}\n{text}\n{quotes}approve:\nwhy:\n")

    paths = [place / f"reader-{reader}.md" for reader in readers]
    for number, path in enumerate(paths):
        if not path.exists():
            order = random.Random(seed + number).sample(items, len(items))  # noqa: S311 - an order
            write_file(path, (RULES_OF_READING + "".join(order)).encode())
    return tuple(path.name for path in paths)


def _load_windows(place: Path) -> dict[str, dict[str, Any]]:
    """Return the windows of a set, by name."""
    windows = {}
    for path in sorted((place / "windows").glob("*.json")):
        try:
            window = msgspec.json.decode(_read_text(path, *BAD_SET), type=dict[str, Any])
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
    """Return the learnings of a reply as the present gate judges them."""
    user = msgspec.json.decode(window.get("user") or b"{}")
    shown_pieces = user.get("pieces") or user.get("evidence") or ()
    pieces = tuple(_parse_piece(piece) for piece in shown_pieces)
    case = JudgedCase(label=str(user.get("change", name)), pieces=pieces)
    judged = settle(judge_reply(case, reply, "set").judged, MAX_ENTRIES)
    judged_by_title = {item.candidate.title: item for item in judged}
    learnings = []
    for key, learning in _iter_keyed(name, reply):
        item = judged_by_title.get(learning.title)
        if item is None:
            gated = GatedLearning(key, "restates", "is the same as another")
        else:
            gated = GatedLearning(key, item.verdict, item.reason.partition(":")[0])
        learnings.append(gated)
    return learnings


def _parse_piece(piece: Mapping[str, Any]) -> Evidence:
    """Return a piece of evidence as it was sent to the model.

    Former windows have the trust of a piece, later ones a mark on those that may be quoted.

    Raises:
        UsageError: bad-set.
    """
    try:
        kind = "commit" if piece["kind"] in ("commit", "adr") else "session"
        fields = {
            "id": piece["id"],
            "kind": piece["kind"],
            "text": piece["text"],
            "trust": piece.get("trust") or ("T1" if piece.get("quote") else "T3"),
            "at": WHEN,
            "actor": piece.get("actor", "human"),
            "paths": piece.get("paths", ()),
            "origin": {"kind": kind, "id": str(piece["id"])},
        }
        return msgspec.convert(fields, Evidence)
    except (KeyError, msgspec.ValidationError) as error:
        raise UsageError(f"a piece of a window cannot be read: {error}", slug="bad-set") from error


Answers = Mapping[str, Mapping[str, bool]]
"""Whether readers approve of a learning: by the key of the learning, by the name of the reader."""


def _load_answers(place: Path, replies: Mapping[str, str]) -> Answers:
    """Load the readers' answers; sheets replace answers of `verdicts.jsonl`."""
    keys: dict[tuple[str, str], str] = {}
    for name, reply in replies.items():
        for key, learning in _iter_keyed(name, reply):
            keys[name, learning.title] = key
    answers: dict[str, dict[str, bool]] = {key: {} for key in keys.values()}

    path = place / "verdicts.jsonl"
    lines = load_lines(path, dict[str, Any], *BAD_SET) if path.exists() else []
    for line in lines:
        line_key = keys.get((str(line.get("window")), str(line.get("title"))))
        if line_key is not None:
            answers[line_key].update(_parse_answers(line))

    for sheet in sorted(place.glob("reader-*.md")):
        reader = sheet.stem.removeprefix("reader-")
        for match in SHEET.finditer(_read_text(sheet, *BAD_SET)):
            answer = ANSWERS.get(match["answer"].lower())
            if match["key"] in answers and answer is not None:
                answers[match["key"]][reader] = answer
    return answers


def _parse_answers(line: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield each reader in a line of verdicts, and whether they approve."""
    for reader, answer in line.items():
        if isinstance(answer, dict):
            if "approve" in answer:
                yield reader, bool(answer["approve"])
            else:
                yield reader, all(answer.get(question) for question in APPROVED)


def _measure_reader(reader: str, answers: Answers, written_keys: Collection[str]) -> ReaderQuality:
    replied = []
    written = []
    for key, by_reader in answers.items():
        if reader in by_reader:
            replied.append(by_reader[reader])
            if key in written_keys:
                written.append(by_reader[reader])
    return ReaderQuality(
        reader, compute_share(sum(replied), len(replied)), compute_share(sum(written), len(written))
    )


def _measure_agreement(
    readers: Sequence[str], answers: Answers
) -> Iterator[tuple[str, str, float | None, int]]:
    """Yield the agreement of each two readers, as in `SetEvaluation`."""
    for first, second in combinations(readers, 2):
        pairs = [
            (by_reader[first], by_reader[second])
            for by_reader in answers.values()
            if first in by_reader and second in by_reader
        ]
        value, count = cohen_kappa(pairs)
        yield first, second, value, count
