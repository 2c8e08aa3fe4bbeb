"""Doctor on privacy: what leaves this machine, where to, and since when. `ok`: nothing does, by this way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from memory_ci.config import CONFIG_FILE
from memory_ci.flows.doctor.case import DoctorCheck, Surroundings
from memory_ci.flows.model import choose_model
from memory_ci.flows.serve.embedding import load_note
from memory_ci.flows.sessions.public_remote import find_audience, list_addresses
from memory_ci.flows.setup.agents import list_parts
from memory_ci.forge.selection import choose_forge
from memory_ci.gitrepo.history import commit_time, find_addition
from memory_ci.gitrepo.process import run_git
from memory_ci.gitrepo.sessionrefs import NOTES, list_pushed, list_stored, read_stored
from memory_ci.index.embedders import choose_embedder
from memory_ci.records.health import Probe
from memory_ci.records.run_line import ENDPOINTS
from memory_ci.secrets import mask_secrets
from memory_ci.text import plural

READERS = {
    "anybody": "anybody can read it",
    "members": "strangers cannot read it",
    "unknown": "who can read it is not known (--online asks)",
}


def _leaves(name: str, what: str) -> Probe:
    return Probe(name, "out", what)


def check_model(case: Surroundings) -> Iterator[Probe]:
    """The provider of the model, and since when answers of it are kept here."""
    model = choose_model(case.workspace.config.engine, None, case.environ)
    model.close()
    if model.name == "rules":
        yield Probe("model", "ok", f"nothing leaves here: {model.reason}. A job with a key of its own may ask one")
        return
    kept = (case.workspace.repo.common_dir / "memory-ci" / "replies").rglob("*.json")
    settings = case.workspace.config.engine
    where = settings.provider if model.name == "anthropic" else model.name
    what = f"evidence of merged work, to {where} ({settings.model}; {model.reason}); {_since(kept, 'first answer')}"
    yield _leaves("model", what)


def check_embedder(case: Surroundings) -> Iterator[Probe]:
    """Who is sent tasks and entries for vectors."""
    name = case.workspace.config.retrieve.embedder
    choice = choose_embedder(case.workspace.config.retrieve, case.environ)
    if choice.embedder is None or name in ("auto", "local"):
        yield Probe("embedder", "ok", f"nothing leaves: {choice.reason}")
        return
    note = load_note(case.workspace)
    seen = f"last on {note.worked_on}" if note.worked_on else "not seen working in this clone"
    yield _leaves("embedder", f"tasks and entries, to {name} ({choice.reason}); {seen}")


def check_collector(case: Surroundings) -> Iterator[Probe]:
    """The collector that `ci` tells how it went."""
    named = [name for name in ENDPOINTS if case.environ.get(name)]
    if named:
        yield _leaves("collector", f"counts, costs and the reason of a stop of each `ci`, to that of {named[0]}")
    else:
        yield Probe("collector", "ok", f"nothing leaves: {ENDPOINTS[0]} is not set")


def check_pushed(case: Surroundings) -> Iterator[Probe]:
    """Captured sessions: how many are here, and for each remote how many it was sent, and who can read it."""
    repo, wish = case.workspace.repo, case.workspace.config.sessions.push
    told = {True: "any remote", False: "no remote", "private": "remotes that do not answer strangers"}[wish]
    stored, sent = list_stored(repo), list_pushed(repo)
    yield Probe("sessions", "ok", f"{plural(len(stored), 'session')} captured here; pushed to {told} (sessions.push)")
    for remote, ones in sent.items():
        noted = sum(1 for _ in read_stored(repo, ones, name=NOTES))
        since = min(one.at for one in ones)
        readers = find_audience(case.workspace, remote, case.environ, case.now, may_ask=case.is_online).readers
        what = f"{plural(len(ones), 'session')}, {noted} with notes, to {remote} since {since:%Y-%m-%d}"
        what = f"{what}; {READERS[readers]}"
        if readers == "anybody":
            remedy = f"memory-ci sessions --purge ID --remote {remote}, and sessions.push: private"
            yield Probe("sessions", "warn", what, remedy)
        else:
            yield _leaves("sessions", what)


def check_memory(case: Surroundings) -> Iterator[Probe]:
    """Memory itself: it goes wherever the repository goes."""
    config, repo = case.workspace.config, case.workspace.repo
    added = case.head and find_addition(repo, case.head, CONFIG_FILE)
    since = f"since {commit_time(repo, added):%Y-%m-%d}" if added else "nothing is committed yet"
    parts = ["entries", *(["episodes"] if config.episodes.write else [])]
    parts += {"full": ["quotes of people"], "link": ["links to what people said"], "none": []}[config.evidence.quotes]
    remotes = run_git(repo.cwd, "remote").decode("utf-8", "replace").split()
    if not remotes:
        yield Probe("memory", "ok", f"nothing leaves: there is no remote; {', '.join(parts)} {since}")
    for remote in remotes:
        readers = find_audience(case.workspace, remote, case.environ, case.now, may_ask=case.is_online).readers
        places = mask_secrets(", ".join(list_addresses(case.workspace, remote)))
        yield _leaves("memory", f"{', '.join(parts)}, with pushes to {remote} ({places}), {since}; {READERS[readers]}")


def check_global_memory(case: Surroundings) -> Iterator[Probe]:
    """Memory of the home that agents of this repository are given, too."""
    path = case.workspace.config.global_.path
    file = Path(path).expanduser() if path else None
    if file is None or not file.exists():
        yield Probe("global", "ok", "no global memory is read")
    else:
        yield _leaves("global", f"{file} is given to agents here, as far as it fits; `promote --global` writes to it")


def check_given(case: Surroundings) -> Iterator[Probe]:
    """The agents and MCP clients that are given memory, by the files that say so."""
    root = case.workspace.repo.root
    found = [*list_parts(root), *list_parts(Path.home(), "user")] if root else []
    ways = {"hooks": "what fits its task", "mcp": "what it asks for by MCP", "text": "what it reads in the file"}
    for one in {(one.part.name, one.path): one for one in reversed(found) if one.part.name in ways}.values():
        since = _since([one.path], "file of")
        yield _leaves("agents", f"{ways[one.part.name]}, to {one.agent.name} and its provider ({one.path}); {since}")
    if not found:
        yield Probe("agents", "ok", "no agent of this clone is given memory")


def check_asked(case: Surroundings) -> Iterator[Probe]:
    """The forge, and what else is measured or reported."""
    cache = case.workspace.repo.common_dir / "memory-ci" / "forge-cache"
    forge, reason = choose_forge(case.workspace.config.forge, case.environ, cache)
    since = _since(cache.rglob("*"), "first answer")
    yield (
        _leaves("forge", f"numbers of requests and commits ({reason}); {since}")
        if forge
        else Probe("forge", "ok", f"nobody is asked here: {reason}")
    )
    share = case.workspace.config.retrieve.holdout
    held = f"{share:.0%} of sessions are given nothing, to compare them; it stays in git" if share else "none"
    yield Probe("holdout", "ok", held)
    yield Probe("telemetry", "ok", "none: memory-ci reports to nobody")


def _since(paths: Iterable[Path], word: str) -> str:
    """The day of the oldest of these files, as far as they are still kept."""
    times = [path.stat().st_mtime for path in paths if path.is_file()]
    return f"{word} {datetime.fromtimestamp(min(times), UTC):%Y-%m-%d}" if times else f"no {word} is kept here"


PRIVACY: tuple[tuple[str, DoctorCheck], ...] = (
    ("model", check_model),
    ("embedder", check_embedder),
    ("collector", check_collector),
    ("sessions", check_pushed),
    ("memory", check_memory),
    ("global", check_global_memory),
    ("agents", check_given),
    ("forge", check_asked),
)
"""What leaves the machine, in the order of docs/privacy.md."""
