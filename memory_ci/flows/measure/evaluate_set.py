"""Evaluate a set: windows as they were sent, what a model replied, and what readers thought of each learning.

A set is a directory (docs/labelling.md): `windows/*.json`, `replies.jsonl`, `verdicts.jsonl`, and sheets
`reader-NAME.md` that people fill in. The replies go through the gate of today, so that a change of it is measured too.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from memory_ci.errors import UsageError
from memory_ci.extraction.judge import JudgedCase, judge_reply, settle
from memory_ci.extraction.metrics import cohen_kappa, share
from memory_ci.extraction.prompt import build_prompt
from memory_ci.extraction.reply import Learning, parse_reply
from memory_ci.files import read_regular
from memory_ci.flows.measure.evaluate import MAX_ENTRIES, MAX_GOLD_BYTES, WHEN
from memory_ci.flows.model import Model, choose_model, trusted_config
from memory_ci.flows.record.backfill import Collector
from memory_ci.flows.record.learner import OnProgress
from memory_ci.flows.record.run import RecordOptions, plan_record
from memory_ci.flows.workspace import Workspace, branch_tip
from memory_ci.records.candidate import Request
from memory_ci.records.event import Evidence, Origin
from memory_ci.records.health import Drawn, ReaderQuality, SetEvaluation
from memory_ci.store.files import write_file
from memory_ci.text import estimate_tokens

APPROVED = ("true", "durable", "self_contained")
"""What a reader who answers several questions has to say yes to."""

SHEET = re.compile(r"^## (?P<key>\S+)$(?P<text>.*?)^approve: *(?P<answer>\S*) *$", re.MULTILINE | re.DOTALL)
ANSWERS = {"y": True, "yes": True, "n": False, "no": False}
RULES_OF_READING = (
    "Answer each with `approve: y` or `approve: n`; leave what you cannot judge. Yes if it is true as far as the\n"
    "quoted words say, if work elsewhere and later is done differently because of it, and if it is understood without\n"
    "the change. Do not talk with the other reader before both are done.\n"
)


def evaluate_set(place: Path) -> SetEvaluation:
    """Precision of each reader, their agreement, yield, abstention and tokens. Raises UsageError (bad-set)."""
    windows = {f"windows/{file.name}": _decode(file) for file in sorted((place / "windows").glob("*.json"))}
    replies = {str(one.get("window")): one.get("reply") for one in _lines(place / "replies.jsonl")}
    answered = {name: msgspec.json.encode(reply).decode() for name, reply in replies.items() if name in windows}
    if not answered:
        hint = "See `memory-ci help labelling`; `memory-ci eval draw` makes a set."
        raise UsageError(f"{place} holds no window with a reply", slug="bad-set", hint=hint)
    verdicts = dict(_verdicts(place, answered))
    outcomes = {name: _gate(name, windows[name], text) for name, text in answered.items()}
    written = {key for found in outcomes.values() for key, verdict, _ in found if verdict == "written"}
    learnings = [key for found in outcomes.values() for key, _, _ in found]
    names = sorted({reader for said in verdicts.values() for reader in said})
    tokens = [
        sum(estimate_tokens(str(windows[name].get(part, ""))) for part in ("system", "user", "schema"))
        for name in answered
    ]
    return SetEvaluation(
        windows=len(answered),
        learnings=len(learnings),
        abstained=share(sum(not found for found in outcomes.values()), len(answered)),
        written=share(len(written), len(learnings)),
        not_written=dict(Counter(why for found in outcomes.values() for _, is_in, why in found if is_in != "written")),
        tokens_in=round(sum(tokens) / len(tokens), 1),
        tokens_out=round(sum(map(estimate_tokens, answered.values())) / len(answered), 1),
        readers=tuple(_quality(name, verdicts, written) for name in names),
        agreement=tuple(
            (
                one,
                other,
                *cohen_kappa([(said[one], said[other]) for said in verdicts.values() if {one, other} <= {*said}]),
            )
            for one, other in combinations(names, 2)
        ),
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
        raise UsageError(f"{place} holds a set already", slug="set-exists", hint="Name another directory.")
    _, base = branch_tip(workspace, options.ref)
    model = choose_model(trusted_config(workspace.repo, base).engine, options.engine, environ)
    collector = Collector()
    silent = Model("draw", "", collector, model.meter, model.settings)
    plan_record(workspace, options, now.date(), progress, environ, silent)
    asked = random.Random(seed).sample(collector.requests, min(count, len(collector.requests)))  # noqa: S311 - a sample
    lines: list[dict[str, object]] = []
    with closing(model):
        for number, request in enumerate(asked, start=1):
            name = f"windows/{number:02}.json"
            write_file(place / name, msgspec.json.format(msgspec.json.encode(_document(request)), indent=1))
            if model.engine is not None:
                found = parse_reply(model.engine.extract(request).text).learnings
                lines.append({"window": name, "change": request.change, "reply": {"learnings": found}})
    write_file(place / "replies.jsonl", b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    sheets = write_sheets(place, seed) if lines else ()
    return Drawn(len(asked), len(collector.requests), len(lines), sheets)


def write_sheets(place: Path, seed: int, readers: Sequence[str] = ("one", "two")) -> tuple[str, ...]:
    """A sheet for each reader with every learning of the replies, in an order of its own; what is there stays."""
    learnings = [pair for line in _lines(place / "replies.jsonl") for pair in _keyed(line)]
    paths = [place / f"reader-{reader}.md" for reader in readers]
    for number, path in enumerate(paths):
        items = random.Random(seed + number).sample(learnings, len(learnings))  # noqa: S311 - an order
        if not path.exists():
            text = RULES_OF_READING + "".join(_item(key, learning) for key, learning in items)
            write_file(path, text.encode())
    return tuple(path.name for path in paths)


def _document(request: Request) -> dict[str, object]:
    prompt = build_prompt(request)
    return {"version": 1, "task": request.task, "system": prompt.system, "user": prompt.user, "schema": prompt.schema}


def _item(key: str, learning: Learning) -> str:
    quotes = "".join(f"> {' '.join(quote.text.split())}\n" for quote in learning.quotes)
    text = "\n".join(filter(None, (learning.title, learning.body)))
    return f"\n## {key}\n{text.replace('## ', '')}\n{quotes}approve:\nwhy:\n"


def _keyed(line: Mapping[str, Any]) -> Iterator[tuple[str, Learning]]:
    """The learnings of a line of replies, each by its window and its number there."""
    text = msgspec.json.encode(line.get("reply")).decode()
    for number, learning in enumerate(parse_reply(text).learnings, start=1):
        yield f"{line.get('window')}#{number}", learning


def _gate(name: str, window: Mapping[str, Any], text: str) -> list[tuple[str, str, str]]:
    """Of each learning of a reply its key, and the verdict and reason of today's gate."""
    user = msgspec.json.decode(window.get("user") or b"{}")
    pieces = tuple(map(_piece, user.get("pieces") or user.get("evidence") or ()))
    case = JudgedCase(label=str(user.get("change", name)), pieces=pieces)
    judged = settle(judge_reply(case, text, "set").judged, MAX_ENTRIES)
    by_title = {one.candidate.title: one for one in judged}
    found: list[tuple[str, str, str]] = []
    for number, learning in enumerate(parse_reply(text).learnings, start=1):
        one = by_title.get(learning.title)
        reason = one.reason.partition(":")[0] if one else "is the same as another"
        found.append((f"{name}#{number}", one.verdict if one else "restates", reason))
    return found


def _piece(shown: Mapping[str, Any]) -> Evidence:
    """A piece as it was shown: who may be quoted is marked, in former windows by its trust."""
    try:
        origin = Origin(kind="commit" if shown["kind"] in ("commit", "adr") else "session", id=str(shown["id"]))
        trust = shown.get("trust") or ("T1" if shown.get("quote") else "T3")
        fields = {"id": shown["id"], "kind": shown["kind"], "text": shown["text"], "trust": trust, "at": WHEN}
        fields |= {"actor": shown.get("actor", "human"), "paths": shown.get("paths", ()), "origin": origin}
        return msgspec.convert(fields, Evidence)
    except (KeyError, msgspec.ValidationError) as error:
        raise UsageError(f"a piece of a window cannot be read: {error}", slug="bad-set") from error


def _verdicts(place: Path, answered: Mapping[str, str]) -> Iterator[tuple[str, dict[str, bool]]]:
    """By key of a learning what each reader says: lines name it by window and title, sheets by its key."""
    keys = {}
    for name, text in answered.items():
        for number, learning in enumerate(parse_reply(text).learnings, start=1):
            keys[name, learning.title] = f"{name}#{number}"
    found: dict[str, dict[str, bool]] = {key: {} for key in keys.values()}
    file = place / "verdicts.jsonl"
    for line in _lines(file) if file.exists() else ():
        key = keys.get((str(line.get("window")), str(line.get("title"))))
        if key is not None:
            found[key] |= {name: _approves(said) for name, said in line.items() if isinstance(said, dict)}
    for sheet in sorted(place.glob("reader-*.md")):
        for match in SHEET.finditer(_read(sheet)):
            answer = ANSWERS.get(match["answer"].lower())
            if match["key"] in found and answer is not None:
                found[match["key"]][sheet.stem.removeprefix("reader-")] = answer
    yield from found.items()


def _approves(said: Mapping[str, Any]) -> bool:
    return bool(said["approve"]) if "approve" in said else all(said.get(name) for name in APPROVED)


def _quality(name: str, verdicts: Mapping[str, Mapping[str, bool]], written: Iterable[str]) -> ReaderQuality:
    said = {key: one[name] for key, one in verdicts.items() if name in one}
    kept = [said[key] for key in written if key in said]
    return ReaderQuality(name, share(sum(said.values()), len(said)), share(sum(kept), len(kept)))


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_read(file).splitlines(), start=1):
        if line.strip():
            yield _decode(file, line, f":{number}")


def _decode(file: Path, text: str | None = None, where: str = "") -> dict[str, Any]:
    try:
        return msgspec.json.decode(_read(file) if text is None else text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise UsageError(f"{file}{where}: {error}", slug="bad-set", hint="See `memory-ci help labelling`.") from error


def _read(file: Path) -> str:
    try:
        return read_regular(file, MAX_GOLD_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file} cannot be read: {error}", slug="bad-set", hint="See `memory-ci help labelling`."
        ) from error
