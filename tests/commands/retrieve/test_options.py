"""Tests of the options of `retrieve`: filters, roles, budgets, and memory of another time."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from memory_ci.commands.retrieve.options import MAX_CHARS, MAX_LIMIT, RetrieveOptions, bound_options
from memory_ci.commands.retrieve.retrieve import list_served_ids
from memory_ci.commands.retrieve.text import render_context
from memory_ci.errors import RepositoryError, UsageError
from memory_ci.records.config import Config
from memory_ci.records.entry import ScopeName
from memory_ci.sessions.served_ids import record_path
from memory_ci.store.edits import format_entry
from tests.make import make_entry, make_id
from tests.project import TODAY, Project


def put(project: Project, path: str, *numbers: int, **fields: object) -> str:
    entry_fields = {"title": "Zebra crossing"} | fields
    return project.commit(
        "Put", {path: "\n".join(format_entry(make_entry(n, **entry_fields)) for n in numbers)}
    )


def ids(project: Project, **options: object) -> tuple[str, ...]:
    return list_served_ids(project.retrieve("zebra", **options))


# -- numbers and roles


@pytest.mark.parametrize(
    ("limit", "chars", "sound"),
    [(-1, -5, (1, 0)), (0, 0, (1, 0)), (10**9, 10**9, (MAX_LIMIT, MAX_CHARS)), (7, 70, (7, 70))],
)
def test_values_out_of_range_are_clamped_with_a_note(
    limit: int, chars: int, sound: tuple[int, int]
) -> None:
    request = bound_options(RetrieveOptions(limit=limit, max_chars=chars), Config(), TODAY)
    assert (request.limit, request.max_chars) == sound
    assert len(request.notes) == (limit != sound[0]) + (chars != sound[1])


ROLES: dict[str, tuple[ScopeName, ...]] = {
    "lead": ("project", "team", "global"),
    "guest": ("team", "institutional"),
}


@pytest.mark.parametrize(
    ("role", "roles", "scopes", "is_known"),
    [
        (None, ROLES, ("global", "project", "session", "team"), True),
        ("lead", ROLES, ("global", "project", "team"), True),
        ("guest", ROLES, ("team",), True),
        ("stranger", ROLES, ("team",), False),
        ("stranger", {}, ("session",), False),
    ],
)
def test_a_role_sees_its_scopes_and_a_stranger_the_narrowest(
    role: str | None,
    roles: dict[str, tuple[ScopeName, ...]],
    scopes: tuple[ScopeName, ...],
    is_known: bool,
) -> None:
    request = bound_options(RetrieveOptions(role=role), Config(roles=roles), TODAY)
    assert request.filters["scopes"] == scopes
    assert (request.notes == ()) is is_known


def test_a_configured_role_narrows_the_served_entries(project: Project) -> None:
    put(project, "MEMORY.md", 1)
    put(project, "src/MEMORY.md", 2)
    project.write(".memory-ci.yaml", "roles:\n  guest: [team]\n")
    assert set(ids(project)) == {make_id(1), make_id(2)}
    assert ids(project, role="guest") == (make_id(2),)
    assert ids(project, role="guest", scopes=("project",)) == ()
    assert ids(project, scopes=("project",)) == (make_id(1),)


# -- filters


def test_a_retired_entry_is_served_only_on_demand_and_marked(project: Project) -> None:
    put(project, "MEMORY.md", 1, status="retired")
    assert ids(project) == ()
    answer = project.retrieve("zebra", statuses=("retired",))
    assert list_served_ids(answer) == (make_id(1),)
    assert "\nRETIRED: " in render_context(answer)


FILTERS: list[tuple[dict[str, object], dict[str, object], dict[str, object]]] = [
    ({"domains": ("team",)}, {"domain": "team"}, {"domain": "task"}),
    ({"phases": ("review",)}, {"phase": "review"}, {"phase": "design"}),
    ({"types": ("corrective",)}, {"type": "corrective"}, {"type": "directive"}),
    (
        {"occurred_between": (date(2026, 1, 1), date(2026, 1, 31))},
        {"occurred_at": date(2026, 1, 31)},
        {"occurred_at": date(2026, 2, 1)},
    ),
    ({}, {"valid_until": date(2026, 11, 22)}, {"valid_until": date(2026, 11, 21)}),
]


@pytest.mark.parametrize(("options", "right", "wrong"), FILTERS)
def test_a_filter_lets_the_right_entry_through(
    project: Project, options: dict[str, object], right: dict[str, object], wrong: dict[str, object]
) -> None:
    entries = [make_entry(1, title="Zebra", **right), make_entry(2, title="Zebra", **wrong)]
    project.write("MEMORY.md", "\n".join(map(format_entry, entries)))
    assert ids(project, **options) == (make_id(1),)


def test_entries_of_other_sessions_are_seen_only_on_demand(project: Project) -> None:
    for number in (1, 2):
        put(project, f".teaparty/jobs/j{number}/institutional.md", number)
    assert ids(project, session="j1") == (make_id(1),)
    assert set(ids(project, session="j1", all_sessions=True)) == {make_id(1), make_id(2)}


# -- budgets and corrections


def test_a_budget_below_the_smallest_entry_says_so_and_prints_no_empty_wrapper(
    project: Project,
) -> None:
    put(project, "MEMORY.md", 1, 2)
    answer = project.retrieve("zebra", max_chars=20)
    assert render_context(answer) == ""
    (note,) = answer.notes
    assert note.startswith("2 entries found, but no room: ")


@pytest.mark.parametrize("chars", [600, 900, 1_500])
def test_max_chars_counts_everything_that_is_printed(project: Project, chars: int) -> None:
    put(project, "MEMORY.md", *range(1, 12), body=" ".join(["word"] * 20))
    project.write(
        "institutional.md", format_entry(make_entry(100, title="Norm", body="Never on Fridays."))
    )
    text = render_context(project.retrieve("zebra", max_chars=chars, reserved=50))
    assert chars - 400 < len(text) <= chars - 50


def test_other_output_of_the_caller_reduces_the_budget(project: Project) -> None:
    put(project, "MEMORY.md", 1, 2)
    exact = len(render_context(project.retrieve("zebra")))
    assert len(project.retrieve("zebra", max_chars=exact).hits) == 2
    assert len(project.retrieve("zebra", max_chars=exact + 9, reserved=10).hits) < 2


def test_the_whole_text_stays_within_its_bound_however_much_there_is(project: Project) -> None:
    put(project, "MEMORY.md", *range(1, 60), body=" ".join(["word"] * 60))
    norms = "\n".join(
        format_entry(make_entry(n, title="Norm", body="w\n" * 19 + "w")) for n in range(100, 200)
    )
    project.write("institutional.md", norms)
    project.write(
        ".memory-ci.yaml", "retrieve: {max_chars: 100000, institutional_max_chars: 100000}\n"
    )
    answer = project.retrieve("zebra", total_chars=10_000, limit=1000)
    assert answer.norms
    assert answer.hits
    assert 5_000 < len(render_context(answer)) <= 10_000


def test_a_correction_is_served_instead_of_the_superseded_entry(project: Project) -> None:
    old = make_entry(1, title="Zebra crossing zebra", importance=1.0)
    new = make_entry(2, title="About the zebra and much else", supersedes=(make_id(1),))
    project.write("MEMORY.md", format_entry(old) + "\n" + format_entry(new))
    answer = project.retrieve("zebra crossing")
    assert list_served_ids(answer) == (make_id(2),)
    assert [withheld_entry.why for withheld_entry in answer.withheld] == [
        f"superseded by {make_id(2)[:8]}"
    ]


def test_a_task_without_words_gets_a_note(project: Project) -> None:
    assert project.retrieve("?! \u202e").notes == ("The task has no words to search for.",)
    assert project.retrieve("").notes == ()


# -- another time


def test_the_memory_of_a_commit_is_ranked_as_on_its_day(project: Project) -> None:
    project.at(datetime(2026, 3, 1, 12, tzinfo=UTC))
    then = put(project, "MEMORY.md", 1, last_reinforced=date(2026, 3, 1))
    project.at(datetime(2026, 9, 1, 12, tzinfo=UTC))
    put(project, "MEMORY.md", 1, 2, last_reinforced=date(2026, 3, 1))
    now = project.retrieve("zebra", at="HEAD")
    assert len(now.hits) == 2
    answer = project.retrieve("zebra", at=then)
    assert list_served_ids(answer) == (make_id(1),)
    assert answer.notes == (f"Memory of {then[:12]}, ranked as on 2026-03-01.",)
    old, new = (dict(found.hits[0].factors)["prominence"] for found in (answer, now))
    assert old > new, "it was younger then"
    assert project.retrieve("zebra", at="2026-06-01").notes == (
        f"Memory of {then[:12]}, ranked as on 2026-06-01.",
    )


def test_memory_of_the_past_is_compared_with_the_code_of_the_past(project: Project) -> None:
    code = project.commit("Write", {"src/x.py": "def zebra_crossing():\n    return 'wait'\n"})
    put(
        project,
        "MEMORY.md",
        1,
        title="Zebra crossing of x.py",
        cites=(f"src/x.py:1-2@{code[:12]}",),
    )
    project.commit("Remove", {"src/x.py": None})
    assert ids(project) == ()
    assert ids(project, at="HEAD~1") == (make_id(1),)
    assert ids(project, at="HEAD~1", tree="HEAD") == ()


def test_a_time_before_history_gives_nothing_and_a_note(project: Project) -> None:
    put(project, "MEMORY.md", 1)
    answer = project.retrieve("zebra", at="2020-01-01")
    assert (answer.hits, answer.norms) == ((), ())
    assert answer.notes == ("There was no commit yet on 2020-01-01, and no memory.",)


def test_the_past_of_a_shallow_clone_names_the_remedy(project: Project, tmp_path: Path) -> None:
    put(project, "MEMORY.md", 1)
    project.git("clone", "-q", "--depth=1", f"file://{project.path}", str(tmp_path / "clone"))
    with pytest.raises(RepositoryError) as raised:
        Project(tmp_path / "clone").retrieve("zebra", at="2020-01-01")
    assert (raised.value.slug, "--unshallow" in raised.value.hint) == ("shallow-clone", True)


def test_a_fork_gets_memory_and_configuration_of_its_merge_base(
    project: Project,
) -> None:
    put(project, "MEMORY.md", 1)
    base = project.sha()
    project.branch("fork")
    put(project, "MEMORY.md", 1, 2)
    project.commit(
        "Take over", {".memory-ci.yaml": "scopes: {project: [evil.md]}\n", "evil.md": "# Evil\n"}
    )
    answer = project.retrieve("zebra", base="main")
    assert list_served_ids(answer) == (make_id(1),)
    assert answer.notes == (f"Memory of {base[:12]}, where this branch left main.",)


def test_two_other_times_at_once_are_refused(project: Project) -> None:
    with pytest.raises(UsageError) as raised:
        project.retrieve("zebra", at="HEAD", base="main")
    assert raised.value.slug == "option-conflict"


def test_reading_the_past_writes_nothing(project: Project) -> None:
    put(project, "MEMORY.md", 1)
    ids(project, at="HEAD")
    assert project.status() == ""
    assert not record_path(project.workspace).exists()
    assert not (project.path / ".git" / "memory-ci" / "index.db").exists()
