"""Tests of `forget`: thirty strings vanish from the tip, the refs and derived data, and are not learned again."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from memory_ci.commands.add.add import add_entry
from memory_ci.commands.forget.forget import (
    ForgetPlan,
    ForgetSubject,
    apply_forget,
    find_subject,
    plan_forget,
)
from memory_ci.commands.import_.importer import ImportOptions, import_memory
from memory_ci.commands.record.run_options import RecordOptions
from memory_ci.commands.review.queue import list_queue
from memory_ci.errors import FindingsError, UsageError
from memory_ci.extraction.tombstones import format_tombstones, parse_tombstones
from memory_ci.gitrepo.sessionrefs import PUSHED, list_stored, read_stored, store
from memory_ci.memory.apply import apply_plan
from memory_ci.memory.forgotten import REJECTED_FILE
from memory_ci.memory.index import synced_index
from memory_ci.memory.plan_checks import find_objections
from memory_ci.records.episode import Action, Episode, Feedback, Situation
from memory_ci.sessions.capture import capture
from memory_ci.store.edits import format_entry
from memory_ci.store.episodes import format_episode_record
from tests.make import make_entry, make_id
from tests.project import NOW, TODAY, Project, make_project
from tests.sessions.test_capture import write_transcript
from tests.standin import StandIn, make_learning

SALT = "5a" * 16
PLACES = (
    "title body instead evidence source aka extra occurrence relation inbox team norm prose comment summary topic "
    "episode branch by folded plan rejected turn agent notes full pushed reply forge log loose export waiting worktree "
    "marked suspected modelled"
).split()
WORDS = {place: f"Kestrel {place} umbra" for place in PLACES}


def say(place: str) -> str:
    """Return a sentence with the string of a place."""
    return f"Before each release the {WORDS[place]} has to be asked"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, ForgetPlan]:
    """Return a repository that had a string in each kind of place, after all were forgotten."""
    folder = tmp_path_factory.mktemp("forget")
    project = make_project(folder / "shop")
    entries = [
        make_entry(1, title=say("title")),
        make_entry(2, body=f"{say('body').lower()}."),
        make_entry(3, instead=say("instead")),
        make_entry(
            4,
            evidence=(
                f"commit:0123456789ab {say('evidence')}",
                "commit:0123456789ab Keep this one",
            ),
        ),
        make_entry(5, source=f"teaparty:{WORDS['source']}", aka=WORDS["aka"].lower()),
        make_entry(6, extra=(("note", f" {WORDS['extra']}"),), occurrences=(WORDS["occurrence"],)),
    ]
    episode = Episode(
        id="pr-7",
        occurred_at=NOW,
        situation=Situation(topic=WORDS["topic"], summary=say("summary")),
        context={"branch": WORDS["branch"]},
        action=Action(pr=7),
        feedback=(Feedback(id=make_id(1), kind="confirmed", at=NOW, by=WORDS["by"], ref="pr:7"),),
        text=say("episode"),
    )
    month = b"".join(format_episode_record(msgspec.structs.replace(episode, id=f"pr-{n}", action=Action(pr=n),
        situation=Situation(summary=say("folded") if n == 8 else "kept as it was"), context={}, feedback=(), text=""))
        for n in (8, 9))  # fmt: skip
    memory = (
        "# Memory\n\n"
        + say("prose")
        + f".\n\n<!-- {WORDS['comment']} -->\n\n"
        + "\n".join(map(format_entry, entries))
    )
    project.commit(
        "Plant",
        {
            "MEMORY.md": memory,
            "src/MEMORY.md": "# Memory\n\n" + format_entry(make_entry(7, title=say("team"))),
            "institutional.md": f"# Norms\n\n- {say('norm')}.\n",
            ".memory/inbox/one.md": format_entry(
                make_entry(8, title=say("inbox"), scope="project")
            ),
            ".memory/episodes/2026-11/pr-7.md": format_episode_record(episode),
            ".memory/episodes/2026-01/_all.md": month,
            ".memory/plans/x.md": f"# Plan\n\n{say('plan')}\n",
            REJECTED_FILE: f"# Declined\n0123456789ab {say('rejected')}\nba9876543210 Kept\n",
            "AGENTS.md": "# Agents\n",
        },
    )
    project.git("worktree", "add", "-q", str(folder / "tree"), "-b", "side", "HEAD~1")
    workspace = project.workspace
    own, linked = (
        project.path / ".git" / "memory-ci",
        project.path / ".git" / "worktrees" / "tree" / "memory-ci",
    )
    turn = {"text": say("turn"), "reply": say("agent")}
    files = {"digest.jsonl": f"{json.dumps(turn)}\n".encode(), "transcript": say("full").encode()}
    files["notes.md"] = format_entry(make_entry(9, title=say("notes"))).encode()
    captured_sessions = store(workspace.repo, "codex", "s1", files, NOW)
    sent = store(workspace.repo, "codex", "s2", {"digest.jsonl": say("pushed").encode()}, NOW)
    project.git("update-ref", f"{PUSHED}origin/codex/s2", sent.oid)
    project.git("update-ref", "refs/memory-ci/publish/x", captured_sessions.oid)
    with synced_index(workspace):
        pass
    derived = {
        own / "replies" / "a.json": json.dumps({"text": say("reply")}),
        own / "forge-cache" / "b": json.dumps(
            {"body": say("forge").replace("Kestrel", "K\u00e9strel")}
        ),
        own / "retrieved.jsonl": json.dumps({"task": say("log")}),
        own / "notes" / "n.md": format_entry(make_entry(10, title=say("waiting"))),
        linked / "given" / "c": say("worktree").replace(" ", "\\n"),
        project.path / ".memory" / "inbox" / "two.md": format_entry(
            make_entry(11, title=say("loose"))
        ),
    }
    for path, text in derived.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    texts = [
        text.replace("Kestrel", "K\u00e9strel") if place == "forge" else text
        for place, text in WORDS.items()
    ]
    subject = ForgetSubject("words", tuple(("words", text) for text in texts))
    before = plan_forget(workspace, subject, folder)
    assert not before.is_done
    return project, apply_forget(workspace, subject, folder, SALT, NOW)


def read_everything(project: Project) -> str:
    """Return all text at the tip, in our refs, beside the index and in the work tree."""
    tips = [
        "HEAD",
        *project.git("for-each-ref", "--format=%(objectname)", "refs/memory-ci/").split(),
    ]
    blobs = [
        line.split()[2] for tip in tips for line in project.git("ls-tree", "-r", tip).splitlines()
    ]
    all_paths = (path for path in project.path.rglob("*") if path.is_file())
    files = [path for path in all_paths if ".git" not in path.parts or "memory-ci" in path.parts]
    texts = [project.git("cat-file", "blob", blob) for blob in blobs]
    return "\n".join(
        [*texts, *(path.read_bytes().decode("utf-8", "replace") for path in files)]
    ).casefold()


@pytest.fixture(scope="module")
def leftovers(planted: tuple[Project, ForgetPlan]) -> str:
    return read_everything(planted[0])


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_string_is_gone(leftovers: str, place: str) -> None:
    assert f"{place} umbra" not in " ".join(leftovers.replace("\\n", " ").split())


def test_the_steps_are_listed_without_the_forgotten_words(
    planted: tuple[Project, ForgetPlan],
) -> None:
    project, plan = planted
    plan_text = msgspec.json.encode(plan).decode()
    assert "umbra" not in plan_text.casefold()
    assert {place.kind for place in plan.places} >= {"memory", "session", "note", "derived", "ref"}
    assert project.git("log", "-1", "--format=%s") == "memory: forget (words)"
    assert [
        each_step
        for each_step in plan.steps
        if "git push --no-verify origin +refs/memory-ci/sessions/codex/s2" in each_step
    ]
    assert PUSHED not in project.git("for-each-ref", "--format=%(refname)")
    assert "umbra" not in project.show("HEAD", REJECTED_FILE)


def test_the_rest_stays(planted: tuple[Project, ForgetPlan]) -> None:
    project, _ = planted
    kept_by_id = {entry.id: entry for entry in project.entries()}
    assert set(kept_by_id) >= {make_id(3), make_id(4), make_id(5), make_id(6)}
    assert kept_by_id[make_id(4)].evidence == ("commit:0123456789ab Keep this one",)
    assert "kept as it was" in project.show("HEAD", ".memory/episodes/2026-01/_all.md")
    assert "Kept" in project.show("HEAD", REJECTED_FILE)
    assert not [finding for finding in project.check().findings if finding.level == "error"]
    stored = list_stored(project.workspace.repo)
    assert next(data for _, data in read_stored(project.workspace.repo, stored)).startswith(
        b'{"text":"Before each'
    )


def test_it_is_not_learned_again(planted: tuple[Project, ForgetPlan], tmp_path: Path) -> None:
    project, _ = planted
    since = project.git("rev-parse", "HEAD")
    body = f"Decision: {say('marked')}, because the gateway asks for it.\n\n{say('suspected')} and must never be skipped."
    project.merge_work(f"fix: {WORDS['topic']}\n\n{body}", "again", 200)
    model = StandIn(tmp_path / "model")
    words = "because the gateway asks for it"
    model.will_find(make_learning(words, title=f"Ask the {WORDS['modelled']} first"))
    plan = model.plan(project, since)
    assert "umbra" not in json.dumps(model.documents).casefold()
    assert "umbra" not in msgspec.json.encode(plan).decode().casefold()
    apply_plan(project.workspace, plan, NOW)
    questions = list_queue(project.workspace, RecordOptions(since), NOW, {})
    assert "umbra" not in msgspec.json.encode(questions).decode().casefold()
    legacy = tmp_path / "MEMORY.md"
    legacy.write_text(
        f"# Memory\n\n## [2026-03-01] Corrective Learning\n**Prevention:** {say('title')}\n"
    )
    report = import_memory(project.workspace, [legacy], ImportOptions("legacy"), TODAY)
    assert ([item.code for item in report.refused], report.imported) == (["forgotten"], ())
    with pytest.raises(FindingsError, match="people had forgotten"):
        add_entry(project.workspace, make_entry(40, title=say("body"), scope="project"))
    capture(
        project.workspace,
        write_transcript(tmp_path / "t.jsonl", project.path, [say("turn"), "Go on."]),
        NOW,
    )
    for place in PLACES:
        assert f"{place} umbra" not in read_everything(project)


def test_the_same_command_finishes_an_interrupted_forget(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = make_entry(1, title=say("title"))
    project.commit("Plant", {"MEMORY.md": f"# Memory\n\n{format_entry(entry)}"})
    with synced_index(project.workspace):
        pass
    database = project.path / ".git" / "memory-ci" / "index.db"
    assert database.exists()
    steps: list[bool] = []

    def stop(*_: object, **__: object) -> str:
        steps.append(database.exists())
        raise KeyboardInterrupt

    subject = find_subject(project.workspace, entry.id, None)
    with monkeypatch.context() as patch:
        patch.setattr("memory_ci.gitrepo.writer.commit_series", stop)
        with pytest.raises(KeyboardInterrupt):
            apply_forget(project.workspace, subject, tmp_path, SALT, NOW)
    assert steps == [False], "derived data goes before the commit"
    again = find_subject(project.workspace, entry.id, None)
    assert again == subject
    assert apply_forget(project.workspace, again, tmp_path, SALT, NOW).is_done
    assert entry.title not in (project.show("HEAD", "MEMORY.md"))


def test_an_id_that_no_entry_has_any_more_is_never_taken_for_words(
    project: Project, tmp_path: Path
) -> None:
    entry = make_entry(1, title=say("title"))
    project.commit("Plant", {"MEMORY.md": f"# Memory\n\n{format_entry(entry)}"})
    subject = find_subject(project.workspace, entry.id, None)
    done = apply_forget(project.workspace, subject, tmp_path, SALT, NOW)
    with pytest.raises(UsageError) as caught:
        find_subject(project.workspace, entry.id, None)
    assert caught.value.slug == "unknown-entry"
    assert done.commit[:7] in caught.value.message
    assert find_subject(project.workspace, entry.id, "words").kind == "words"


def test_an_entry_is_known_by_its_id_and_a_person_by_name(project: Project) -> None:
    workspace = project.workspace
    project.put_fragment(
        make_entry(
            50, title="Never retry a charge without a key", evidence=("accepted by Ann Author",)
        )
    )
    assert find_subject(workspace, make_id(50)[:8], None).kind == "entry"
    assert find_subject(workspace, "ann author", None).kind == "person"
    assert find_subject(workspace, "Bob <bob@example.org>", None).kind == "person"
    assert find_subject(workspace, "something else", None).kind == "words"
    assert find_subject(workspace, "ann author", "words").kind == "words"
    subject = find_subject(workspace, "Ann Author", None)
    apply_forget(workspace, subject, project.path, SALT, NOW)
    text = project.show("HEAD", f".memory/inbox/{make_id(50)}.md")
    assert "accepted by [redacted:person]" in text
    apply_forget(workspace, find_subject(workspace, make_id(50), None), project.path, SALT, NOW)
    assert make_id(50) not in project.git("ls-files")
    with pytest.raises(FindingsError, match="forgotten"):
        add_entry(
            workspace, make_entry(51, title="Never retry a charge without a key!", scope="project")
        )


@pytest.mark.parametrize(("written", "is_named"), [("~/notes", True), ("", False)])
def test_global_memory_is_named_where_it_is_configured(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, is_named: bool
) -> None:
    project.commit("Set", {".memory-ci.yaml": f"global:\n  path: '{written}'\n"})
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "MEMORY.md").write_text("Ask the kestrel umbra first\n")
    monkeypatch.chdir(tmp_path / "notes")
    subject = find_subject(project.workspace, "kestrel umbra", None)
    remaining = plan_forget(project.workspace, subject, tmp_path).places_for_person
    assert [place.kind for place in remaining] == ["global"] * is_named


def test_a_short_text_of_an_entry_is_refused_only_as_a_whole() -> None:
    gone = parse_tombstones(format_tombstones("text", "Use uv", SALT))
    assert gone.refuses("use UV.")
    assert not gone.refuses("Use uv to build the wheel")


def test_long_phrases_are_windows_and_are_masked_whole() -> None:
    phrase = " ".join(f"w{number}" for number in range(20))
    gone = parse_tombstones(format_tombstones("words", phrase, SALT))
    assert gone.mask(f"so {phrase}, then") == "so [redacted:forgotten], then"
    assert "w3" not in "".join(format_tombstones("words", phrase, SALT))


def test_a_plan_of_another_job_and_a_note_do_not_bring_it_back(project: Project) -> None:
    plan = project.plan()
    (title, *_) = [change.entry.title for step in plan.steps for change in step.changes]
    lines = [
        *format_tombstones("words", title, SALT),
        *format_tombstones("words", "the zephyr gateway", SALT),
    ]
    tip = project.commit("Forget", {REJECTED_FILE: "\n".join([*lines, ""])})
    objections = [
        *find_objections(project.workspace, msgspec.structs.replace(plan, base=tip), TODAY)
    ]
    assert len([objection for objection in objections if "people had forgotten" in objection]) == 1
    path = project.put_fragment(
        make_entry(80, title="Ask the zephyr gateway first", scope="project")
    )
    again = project.plan()
    assert [each_finding.code for each_finding in again.findings if each_finding.path == path] == [
        "forgotten"
    ]
    project.record()
    assert path in project.git("ls-files")
    assert title not in project.titles()


def test_a_branch_from_before_does_not_bring_it_back(project: Project) -> None:
    project.branch("old")
    project.checkout("main")
    apply_forget(
        project.workspace,
        ForgetSubject("words", (("words", "the zephyr gateway"),)),
        project.path,
        SALT,
        NOW,
    )
    project.checkout("old")
    with pytest.raises(FindingsError, match="people had forgotten"):
        add_entry(
            project.workspace, make_entry(81, title="Ask the zephyr gateway first", scope="project")
        )


def test_other_branches_and_messages_are_named_with_their_request(project: Project) -> None:
    project.branch("old")
    project.commit(
        "Ask the zephyr gateway (#9)", {"MEMORY.md": "# Memory\n\nAsk the zephyr gateway.\n"}
    )
    project.checkout("main")
    subject = find_subject(project.workspace, "zephyr gateway", None)
    places = [
        (item.kind, item.location)
        for item in plan_forget(project.workspace, subject, project.path).places_for_person
    ]
    assert places == [("branch", "refs/heads/old")]
    plan = plan_forget(project.workspace, subject, project.path)
    assert any(
        "pull request 9" in location.location
        for location in plan.places
        if location.kind == "message"
    )
    assert "zephyr" not in msgspec.json.encode(plan).decode()


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("K\u00e9strel umbra", "the Ke\u0301strel-Umbra gate"),
        ("Kestrel umbra", "kestrel\n> umbra"),
        ("kestrel_umbra", "KESTREL UMBRA!"),
        ("\u6771\u4eac\u652f\u5e97", "\u305d\u306e\u6771\u4eac\u652f\u5e97\u3067"),
    ],
)
def test_case_accents_layout_and_script_do_not_hide_it(phrase: str, text: str) -> None:
    gone = parse_tombstones(format_tombstones("words", phrase, SALT))
    assert "[redacted:forgotten]" in gone.mask(text)
    assert gone.mask("another kestrel, umbrage") == "another kestrel, umbrage"
