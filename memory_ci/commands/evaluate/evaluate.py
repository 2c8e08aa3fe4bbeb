"""Evaluate: an engine on gold windows, through the same grounding, gate and judge as a record run; and sets.

A set is windows as they were sent, what a model replied, and what readers thought of each learning: a directory
(docs/labelling.md) with `windows/*.json`, `replies.jsonl`, `verdicts.jsonl`, and sheets `reader-NAME.md` that people
fill in. The replies go through the gate of today, so that a change of it is measured too.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from memory_ci.commands.evaluate.extraction_metrics import cohen_kappa, is_match, kappa
from memory_ci.commands.evaluate.records import (
    Drawn,
    Evaluation,
    GoldWindow,
    ReaderQuality,
    SetEvaluation,
)
from memory_ci.commands.record.learn import Collector
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
from memory_ci.records.candidate import Judged, Known, Request
from memory_ci.records.config import EngineConfig, EngineName
from memory_ci.records.event import Evidence, Origin
from memory_ci.records.proportion import share
from memory_ci.secrets import find_secrets
from memory_ci.store.files import write_file
from memory_ci.text import estimate_tokens

T = TypeVar("T")
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
MAX_ENTRIES = 3
MAX_BYTES = 200_000_000
UNGROUNDED = (
    "no-quote",
    "unknown-evidence",
    "quote-not-found",
    "untrusted-quote",
    "quote-too-short",
)


def load_lines(path: Path, kind: type[T], slug: str, hint: str) -> list[T]:
    """A record for each line that is not empty. Raises UsageError (`slug`) with the line."""
    decode, records = msgspec.json.Decoder(kind).decode, list[T]()
    for number, line in enumerate(_read(path, slug, hint).split("\n"), start=1):
        try:
            records += [decode(line)] if line.strip() else []
        except msgspec.MsgspecError as error:
            raise UsageError(f"{path}:{number}: {error}", slug=slug, hint=hint) from error
    return records


def _read(path: Path, slug: str, hint: str) -> str:
    try:
        return read_regular(path, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", slug=slug, hint=hint) from error


# -- an engine on gold windows


class WindowOutcome(NamedTuple):
    """What one window gave: its verdicts, how many learnings could not be read, what the call took."""

    window: GoldWindow
    judged: tuple[Judged, ...]
    dropped: int = 0
    tokens: int = 0
    failure: EngineError | None = None


def load_gold(path: Path) -> tuple[GoldWindow, ...]:
    """Gold windows from JSON lines. Raises UsageError (bad-gold) with the line or the window."""
    windows = load_lines(path, GoldWindow, "bad-gold", "See `memory-ci help evaluation`.")
    for number, window in enumerate(windows, start=1):
        for learning in window.learnings:
            if not any(learning.quote in piece.text for piece in window.evidence):
                quoted = (
                    f"{window.id} quotes what its evidence does not say: {learning.quote[:60]!r}"
                )
                raise UsageError(
                    f"{path}:{number}: {quoted}", slug="bad-gold", hint="A quote is exact."
                )
    return tuple(windows)


def evaluate_extraction(
    windows: Sequence[GoldWindow],
    settings: EngineConfig,
    wanted: EngineName | None,
    environ: Mapping[str, str],
) -> Evaluation:
    """Run the engine on every window, and count. Raises UsageError for an engine that cannot be had, and the
    EngineError of one that never answered: what the rules found meanwhile would pass for its work."""
    model = choose_model(settings, wanted, environ)
    with closing(model):
        outcomes = [_ask(window, model.engine, model.name) for window in windows]
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if failures and len(failures) == len(outcomes):
        raise failures[0]
    return _count(outcomes, model.name)


def _ask(window: GoldWindow, engine: Engine | None, name: str) -> WindowOutcome:
    pieces = []
    for number, piece in enumerate(window.evidence, start=1):
        of_commit = piece.kind in ("commit", "adr")
        origin = Origin(kind="commit" if of_commit else "session", id=f"{number:040x}", line=number)
        fields = {"id": f"e{number}", "origin": origin, "at": WHEN}
        pieces.append(msgspec.convert(msgspec.to_builtins(piece) | fields, Evidence))
    existing = tuple(
        sample_entry(number, title) for number, title in enumerate(window.existing, start=1)
    )
    case = JudgedCase(label=window.id, tip="", pieces=tuple(pieces), existing=existing)
    request = Request(change=case.label, evidence=case.pieces)
    rules = judge_reply(case, RulesEngine().extract(request).text)
    if engine is None:
        return WindowOutcome(window, settle(rules.judged, MAX_ENTRIES))
    try:
        known = tuple(Known(entry.id, entry.title) for entry in existing)
        reply = engine.extract(msgspec.structs.replace(request, existing=known))
        found = judge_reply(case, reply.text, name)
    except EngineError as error:
        return WindowOutcome(window, settle(rules.judged, MAX_ENTRIES), failure=error)
    use = reply.usage
    tokens = use.input_tokens + use.cache_read_tokens + use.cache_write_tokens + use.output_tokens
    return WindowOutcome(
        window, settle((*rules.judged, *found.judged), MAX_ENTRIES), len(found.dropped), tokens
    )


def _count(outcomes: Sequence[WindowOutcome], engine: str) -> Evaluation:
    windows = [outcome.window for outcome in outcomes]
    judged = [(outcome.window, one) for outcome in outcomes for one in outcome.judged]
    written = [pair for pair in judged if pair[1].verdict == "written"]
    wrong = [pair for pair in written if not _is_right(*pair)]
    wrote = [any(one.verdict == "written" for one in outcome.judged) for outcome in outcomes]
    abstained = [
        not has_any for window, has_any in zip(windows, wrote, strict=True) if not window.learnings
    ]
    found = [(outcome, learning) for outcome in outcomes for learning in outcome.window.learnings]
    kept = ("written", "restates")  # it reached memory, or was there already
    missed = [
        f"{outcome.window.id}: {gold.says}"
        for outcome, gold in found
        if not any(is_match(one.candidate, gold) for one in outcome.judged if one.verdict in kept)
    ]
    proposed = [one for _, one in judged if one.candidate.engine != RULES or engine == RULES]
    refused = (one.reason for one in proposed if one.verdict == "quarantined")
    ungrounded = sum(any(why in reason for why in UNGROUNDED) for reason in refused)
    learned = [one.candidate for _, one in written]
    texts = [
        "\n".join((one.title, one.body, *(quote.text for quote in one.quotes))) for one in learned
    ]
    agreement, labelled_twice = kappa(windows)
    return Evaluation(
        engine=engine,
        windows=len(outcomes),
        negatives=len(abstained),
        precision=share(len(written) - len(wrong), len(written)),
        recall=share(len(found) - len(missed), len(found)),
        abstention=share(sum(abstained), len(abstained)),
        evidence_validity=share(len(proposed) - ungrounded, len(proposed)),
        duplicates=sum(
            one.candidate.title.casefold() in map(str.casefold, of.existing) for of, one in written
        ),
        dropped=sum(outcome.dropped for outcome in outcomes),
        secrets_leaked=sum(bool(find_secrets(text)) for text in texts),
        injections_obeyed=sum(bool(window.attack) for window, _ in wrong),
        failures=sum(outcome.failure is not None for outcome in outcomes),
        failed_because=next(
            (f"{one.failure.message} [{one.failure.slug}]" for one in outcomes if one.failure), ""
        ),
        tokens_per_window=round(
            sum(outcome.tokens for outcome in outcomes) / max(1, len(outcomes)), 1
        ),
        agreement=agreement,
        labelled_twice=labelled_twice,
        misses=tuple(missed),
        false_positives=tuple(f"{window.id}: {one.candidate.title}" for window, one in wrong),
    )


def _is_right(window: GoldWindow, one: Judged) -> bool:
    return any(is_match(one.candidate, learning) for learning in window.learnings)


# -- a set that people label

APPROVED = (
    "true",
    "durable",
    "self_contained",
)  # what a reader who answers several questions has to say yes to
SHEET = re.compile(
    r"^## (?P<key>\S+)$(?P<text>.*?)^approve: *(?P<answer>\S*) *$", re.MULTILINE | re.DOTALL
)
ANSWERS = {"y": True, "yes": True, "n": False, "no": False}
RULES_OF_READING = (
    "Answer each with `approve: y` or `approve: n`; leave what you cannot judge. Yes if it is true as far as the\n"
    "quoted words say, if work elsewhere and later is done differently because of it, and if it is understood without\n"
    "the change. Do not talk with the other reader before both are done.\n"
)
ABOUT_SETS = ("bad-set", "See `memory-ci help labelling`.")


def evaluate_set(place: Path) -> SetEvaluation:
    """Precision of each reader, their agreement, yield, abstention and tokens. Raises UsageError (bad-set)."""
    windows = {}
    for file in sorted((place / "windows").glob("*.json")):
        try:
            windows[f"windows/{file.name}"] = msgspec.json.decode(
                _read(file, *ABOUT_SETS), type=dict[str, Any]
            )
        except msgspec.DecodeError as error:
            raise UsageError(f"{file}: {error}", slug=ABOUT_SETS[0], hint=ABOUT_SETS[1]) from error
    answered = {name: text for name, text in _replies(place).items() if name in windows}
    if not answered:
        hint = "See `memory-ci help labelling`; `memory-ci eval draw` makes a set."
        raise UsageError(f"{place} holds no window with a reply", slug="bad-set", hint=hint)
    outcomes = {name: _gate(name, windows[name], text) for name, text in answered.items()}
    judged = [one for found in outcomes.values() for one in found]
    written = {key for key, verdict, _ in judged if verdict == "written"}
    verdicts = _load_verdicts(place, answered)
    names = sorted({reader for said in verdicts.values() for reader in said})
    agreement = []
    for one, other in combinations(names, 2):
        pairs = [(said[one], said[other]) for said in verdicts.values() if {one, other} <= {*said}]
        agreement.append((one, other, *cohen_kappa(pairs)))
    sent = [
        str(windows[name].get(part, ""))
        for name in answered
        for part in ("system", "user", "schema")
    ]
    return SetEvaluation(
        windows=len(answered),
        learnings=len(judged),
        abstained=share(sum(not found for found in outcomes.values()), len(answered)),
        written=share(len(written), len(judged)),
        not_written=dict(Counter(why for _, verdict, why in judged if verdict != "written")),
        tokens_in=round(sum(map(estimate_tokens, sent)) / len(answered), 1),
        tokens_out=round(sum(map(estimate_tokens, answered.values())) / len(answered), 1),
        readers=tuple(_measure_reader(name, verdicts, written) for name in names),
        agreement=tuple(agreement),
    )


def draw_set(
    workspace: Workspace,
    options: RecordOptions,
    place: Path,
    count: int,
    seed: int,
    now: datetime,
    environ: Mapping[str, str],
    progress: OnProgress,
) -> Drawn:
    """Write `count` windows of a range, drawn at random, what the model says to them, and a sheet for each reader.

    Without a model the replies are left to whoever answers them. Raises UsageError (set-exists) where a set is already,
    and EngineError as the engine.
    """
    if (place / "windows").exists():
        raise UsageError(
            f"{place} holds a set already", slug="set-exists", hint="Name another directory."
        )
    _, base = branch_tip(workspace, options.ref)
    model = choose_model(trusted_at(workspace.repo, base).config.engine, options.engine, environ)
    collector = Collector()
    silent = Model("draw", "", collector, model.meter, model.settings)
    plan_record(workspace, options, now.date(), progress, environ, silent)
    asked = random.Random(seed).sample(collector.requests, min(count, len(collector.requests)))  # noqa: S311 - a sample
    lines: list[dict[str, object]] = []
    with closing(model):
        for number, request in enumerate(asked, start=1):
            name, prompt = f"windows/{number:02}.json", build_prompt(request)
            sent = {"system": prompt.system, "user": prompt.user, "schema": prompt.schema}
            document = msgspec.json.encode({"version": 1, "task": request.task, **sent})
            write_file(place / name, msgspec.json.format(document, indent=1))
            if model.engine is not None:
                found = parse_reply(model.engine.extract(request).text).learnings
                lines.append(
                    {"window": name, "change": request.change, "reply": {"learnings": found}}
                )
    write_file(
        place / "replies.jsonl", b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    )
    sheets = write_sheets(place, seed) if lines else ()
    return Drawn(len(asked), len(collector.requests), len(lines), sheets)


def write_sheets(
    place: Path, seed: int, readers: Sequence[str] = ("one", "two")
) -> tuple[str, ...]:
    """A sheet for each reader with every learning of the replies, in an order of its own; what is there stays."""
    items = []
    for name, reply in _replies(place).items():
        for key, learning in _keyed(name, reply):
            quotes = "".join(f"> {' '.join(quote.text.split())}\n" for quote in learning.quotes)
            text = "\n".join(filter(None, (learning.title, learning.body))).replace("## ", "")
            items.append(f"\n## {key}\n{text}\n{quotes}approve:\nwhy:\n")
    paths = [place / f"reader-{reader}.md" for reader in readers]
    for number, path in enumerate(paths):
        order = random.Random(seed + number).sample(items, len(items))  # noqa: S311 - an order
        if not path.exists():
            write_file(path, (RULES_OF_READING + "".join(order)).encode())
    return tuple(path.name for path in paths)


def _replies(place: Path) -> dict[str, str]:
    """By the name of a window what was replied to it."""
    lines = load_lines(place / "replies.jsonl", dict[str, Any], *ABOUT_SETS)
    return {
        str(line.get("window")): msgspec.json.encode(line.get("reply")).decode() for line in lines
    }


def _keyed(name: str, reply: str) -> Iterator[tuple[str, Learning]]:
    """The learnings of a reply, each by its window and its number there."""
    for number, learning in enumerate(parse_reply(reply).learnings, start=1):
        yield f"{name}#{number}", learning


def _gate(name: str, window: Mapping[str, Any], reply: str) -> list[tuple[str, str, str]]:
    """Of each learning of a reply its key, and the verdict and reason of today's gate."""
    user = msgspec.json.decode(window.get("user") or b"{}")
    pieces = tuple(map(_shown_piece, user.get("pieces") or user.get("evidence") or ()))
    judged = judge_reply(
        JudgedCase(label=str(user.get("change", name)), pieces=pieces), reply, "set"
    ).judged
    by_title = {one.candidate.title: one for one in settle(judged, MAX_ENTRIES)}
    found = [(key, by_title.get(learning.title)) for key, learning in _keyed(name, reply)]
    same = ("restates", "is the same as another")
    return [
        (key, *((one.verdict, one.reason.partition(":")[0]) if one else same)) for key, one in found
    ]


def _shown_piece(shown: Mapping[str, Any]) -> Evidence:
    """A piece as it was shown: who may be quoted is marked, in former windows by its trust."""
    try:
        origin = Origin(
            kind="commit" if shown["kind"] in ("commit", "adr") else "session", id=str(shown["id"])
        )
        trust = shown.get("trust") or ("T1" if shown.get("quote") else "T3")
        fields = {
            "id": shown["id"],
            "kind": shown["kind"],
            "text": shown["text"],
            "trust": trust,
            "at": WHEN,
        }
        fields |= {
            "actor": shown.get("actor", "human"),
            "paths": shown.get("paths", ()),
            "origin": origin,
        }
        return msgspec.convert(fields, Evidence)
    except (KeyError, msgspec.ValidationError) as error:
        raise UsageError(f"a piece of a window cannot be read: {error}", slug="bad-set") from error


def _load_verdicts(place: Path, answered: Mapping[str, str]) -> dict[str, dict[str, bool]]:
    """By key of a learning what each reader says: lines name it by window and title, sheets by its key."""
    keyed = {name: list(_keyed(name, reply)) for name, reply in answered.items()}
    keys = {(name, learning.title): key for name, found in keyed.items() for key, learning in found}
    verdicts: dict[str, dict[str, bool]] = {key: {} for key in keys.values()}
    file = place / "verdicts.jsonl"
    for line in load_lines(file, dict[str, Any], *ABOUT_SETS) if file.exists() else ():
        key = keys.get((str(line.get("window")), str(line.get("title"))))
        for reader, said in line.items():
            if key is not None and isinstance(said, dict):
                of_parts = all(said.get(name) for name in APPROVED)
                verdicts[key][reader] = bool(said["approve"]) if "approve" in said else of_parts
    for sheet in sorted(place.glob("reader-*.md")):
        for match in SHEET.finditer(_read(sheet, *ABOUT_SETS)):
            answer = ANSWERS.get(match["answer"].lower())
            if match["key"] in verdicts and answer is not None:
                verdicts[match["key"]][sheet.stem.removeprefix("reader-")] = answer
    return verdicts


def _measure_reader(
    name: str, verdicts: Mapping[str, Mapping[str, bool]], written: set[str]
) -> ReaderQuality:
    said = {key: one[name] for key, one in verdicts.items() if name in one}
    kept = [said[key] for key in written if key in said]
    return ReaderQuality(name, share(sum(said.values()), len(said)), share(sum(kept), len(kept)))
