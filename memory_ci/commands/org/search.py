"""The organisation's lane: what other repositories learned about a task, marked as theirs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from datetime import date
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from memory_ci.commands.org.address import INDEX, choose_audiences, find_index
from memory_ci.commands.org.engine import OrgEngine
from memory_ci.commands.org.index import open_engine
from memory_ci.commands.org.records import LONGEST, OrgFilters, OrgMatch
from memory_ci.commands.retrieve.options import RetrieveOptions
from memory_ci.commands.retrieve.ranking import FeedbackWeights, weights_of
from memory_ci.commands.retrieve.text import ORGANISATION_CHARS, context_cost, entry_cost
from memory_ci.errors import MemoryCIError
from memory_ci.gitrepo.addresses import address_of
from memory_ci.gitrepo.process import decode_path, run_git
from memory_ci.memory.screening import find_unsafe
from memory_ci.memory.workspace import Workspace
from memory_ci.records.config import Config
from memory_ci.records.entry import ScopeOf
from memory_ci.records.retrieval import Hit, Match, Retrieval
from memory_ci.search.query import Corpus, build_terms
from memory_ci.search.rank import Place, diversify, fit, place_of, rank
from memory_ci.search.strength import drop_weak, lexical_lane, margin

DEPTH = 100  # Matches that are ranked; a share of one budget holds a few.


def search_org(
    task: str,
    index: str,
    audiences: tuple[str, ...],
    top: int,
    environ: Mapping[str, str],
    today: date,
) -> tuple[Hit, ...]:
    """What the repositories of these audiences know of a task, best first. Raises EngineError: org-missing,
    org-damaged, org-digest; UsageError (bad-org-index)."""
    with closing(open_engine(find_index(index, environ))) as engine:
        hits = _find(engine, Config(), task, RetrieveOptions(), OrgFilters(today=today), audiences)
    return tuple(hits[:top])


def add_organisation(
    answer: Retrieval,
    workspace: Workspace,
    options: RetrieveOptions,
    max_chars: int,
    environ: Mapping[str, str],
    today: date,
    is_new: Callable[[Hit], bool],
    known: Collection[str | None],
) -> Retrieval:
    """The answer with entries of other repositories in what it leaves of the room; its own part stays as it is. `known`
    are ids of this repository's own entries. What cannot be answered in time, or at all, is a note."""
    config = workspace.config
    share = int(config.org.max_share * max_chars)
    left = max_chars - context_cost(answer) - sum(map(entry_cost, answer.hits)) - ORGANISATION_CHARS
    room = min(share, left - (300 if answer.hits_dropped or answer.norms_dropped else 0))
    if room <= 0:
        return answer
    try:
        audiences = choose_audiences(environ, config.org.audiences)
        place = find_index(environ[INDEX], environ)
        filters = OrgFilters(
            options.types, options.domains, options.phases, today, _own_addresses(workspace)
        )
        deadline = time.monotonic() + config.org.deadline_ms / 1000
        with closing(open_engine(place, deadline=deadline)) as engine:
            hits = _find(engine, config, answer.task, options, filters, audiences)
        if time.monotonic() > deadline:
            raise TimeoutError
    except TimeoutError:
        note = f"The organisation's index did not answer within {config.org.deadline_ms} ms: nothing of it is given."
        return replace(answer, notes=(*answer.notes, note))
    except MemoryCIError as error:
        return replace(
            answer, notes=(*answer.notes, f"Nothing of the organisation is given: {error.message}.")
        )
    fresh = [hit for hit in hits if hit.located.entry.id not in known and is_new(hit)]
    return replace(answer, organisation=fit(fresh, room, entry_cost, {})[0])


def _find(
    engine: OrgEngine,
    config: Config,
    task: str,
    options: RetrieveOptions,
    filters: OrgFilters,
    audiences: tuple[str, ...],
) -> list[Hit]:
    """Ranked as this repository's own entries are, by the words of the task and the statistics of the audiences. Their
    feedback is not known here, and what they cite is not judged: it stands in another tree."""
    asked: list[str] = []

    def note(term: str) -> int:
        asked.append(term)
        return 1

    build_terms(task, Corpus(1, note))  # what will be asked for, so that a server is asked once
    total, together = engine.count(asked, audiences)

    @lru_cache(None)
    def holding(term: str) -> int:
        return together[term] if term in together else engine.count([term], audiences)[1][term]

    corpus = Corpus(total, holding)
    terms = build_terms(task, corpus)
    found: dict[Place, OrgMatch] = {}
    matches: list[Match] = []
    for one in engine.search(terms, filters, audiences, DEPTH):
        if len(one.located.entry.title) + len(one.located.entry.body) > LONGEST:
            continue  # to compare megabytes would take the time that all the others have
        place = replace(
            one.located, path=f"{one.repository.id}:{one.located.path}", scope=ScopeOf("global")
        )
        found[place_of(place)] = one
        matches.append(Match(place, one.lexical))
    weights = weights_of(
        config, options, FeedbackWeights(filters.today or date.max, config.prominence.decay)
    )
    by = config.org.weight
    weighed = [
        replace(hit, score=hit.score * by, factors=(*hit.factors, ("organisation", by)))
        for hit in rank(matches, weights, lexical_lane(task, matches, {}))
    ]
    hits = diversify(weighed)
    near = bool(matches) and margin(task, matches, terms, corpus) >= 0
    best = hits if options.all_matches else drop_weak(hits, is_near=near, is_exempt=lambda _: False)
    # The sync has screened them, but by what was known then, and a file can have been changed since.
    safe = []
    for hit in best:
        if not any(find_unsafe(hit.located)):
            one = found[place_of(hit.located)]
            place = replace(hit.located, path=one.located.path)
            safe.append(
                replace(
                    hit, located=place, repository=one.repository.name, link=one.repository.link
                )
            )
    return safe


def _own_addresses(workspace: Workspace) -> tuple[str, ...]:
    """By what this repository may stand in the index: where it lies, and where its remotes are."""
    repo = workspace.repo
    places = {
        place.resolve().as_uri()
        for place in (repo.root, repo.common_dir, repo.cwd)
        if place is not None
    }
    answer = decode_path(
        run_git(repo.cwd, "config", "--get-regexp", "-z", r"^remote\..*\.url$", ok=(0, 1))
    )
    remotes = [one.partition("\n")[2] for one in answer.split("\0") if one]
    web = {address for remote in remotes if (address := address_of(remote))}
    local = {
        Path(remote).resolve().as_uri()
        for remote in remotes
        if not address_of(remote) and "://" not in remote
    }
    return tuple(sorted({*places, *local, *web, *(f"https://{address}" for address in web)}))
