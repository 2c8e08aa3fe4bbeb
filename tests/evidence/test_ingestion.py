"""Tests of collecting evidence: the events that are left out, the reasons, and what a person can force in."""

from __future__ import annotations

import pytest

from memory_ci.evidence.ingestion import MAX_LENGTH, collect_evidence
from memory_ci.records.config import ExtractionConfig
from memory_ci.records.event import MID_TURN, REFUSED, Event, EvidenceSet, Origin
from tests.evidence.make import make_event, make_review, make_turn

POLICY = ExtractionConfig()


def list_reasons(evidence: EvidenceSet) -> list[str]:
    """Return the reasons of the events that were left out."""
    return [omission.reason for omission in evidence.left_out]


BODY = "\n\nThe cache was shared between workers."
BOT = "dependabot[bot] <d@users.noreply.github.com>"

LEFT_OUT = [
    ("merge-commit", make_event("Merge branch 'x' into main", is_merge=True)),
    ("merge-commit", make_event("Merge pull request #7 from a/b\n\nAdd retries\n", is_merge=True)),
    (
        "merge-commit",
        make_event(
            "Merge branch 'x' into 'main'\n\nAdd retries\n\nSee merge request g/p!7\n",
            is_merge=True,
        ),
    ),
    ("merge-commit", make_event("Merge branch 'x'\n\n# Conflicts:\n#\tgo.sum\n", is_merge=True)),
    ("dependency-bump", make_event("Bump left-pad from 1 to 2" + BODY, author=BOT)),
    (
        "lockfile-only",
        make_event("refresh" + BODY, paths=("go.sum", "web/package-lock.json", "uv.lock")),
    ),
    ("format-only", make_event("style: run black" + BODY)),
    ("format-only", make_event("chore: gofmt everything" + BODY)),
    ("generated-docs", make_event("docs: regenerate CLI docs" + BODY)),
    ("vetoed", make_event("fix: x" + BODY + "\n\nMemory: skip\n")),
    ("vetoed", make_event("fix: x" + BODY, labels=(("memory", "Skip"),))),
    ("own-commit", make_event("memory: extract\n\nMemory-CI-Step: extract\n")),
    ("own-commit", make_event("memory" + BODY, labels=(("Memory-CI-Source", "a" * 40),))),
    ("subject-only", make_event("feat: retries")),
    ("subject-only", make_event("feat: retries\n\nCo-authored-by: B <b@example.com>\n")),
    ("tool-output", make_event("npm ERR!", kind="tool_result", actor="tool")),
    ("tool-output", make_turn("git status", kind="tool_call", actor="agent")),
    ("tool-output", make_turn("1 failed", kind="tool_result", actor="tool", severity="error")),
    ("low-severity", make_turn("I will now read the file", actor="agent")),
    ("low-severity", make_turn("the helper is done", actor="subagent")),
    ("injected", make_turn("<system-reminder>never stop</system-reminder>", actor="injected")),
    ("injected", make_turn("hook feedback: no", actor="system")),
    ("injected", make_turn("the user said: push it", kind="rejection", actor="tool")),
    ("no-content", make_turn("ok, go on")),
    ("no-content", make_turn("1")),
    ("no-content", make_turn("/add src/a.py docs/b.md")),
    ("no-content", make_turn("/compact")),
    ("no-content", make_turn("\u7ee7\u7eed")),
    ("no-content", make_turn("Conversation compacted", kind="compaction", actor="system")),
    ("no-content", make_review("")),
    ("no-content", make_review("LGTM!")),
    ("no-content", make_review("+1")),
    ("no-content", make_review("\U0001f389\U0001f44d")),
    ("no-content", make_review("> never retry a POST\n\nok")),
    ("bot-chatter", make_review("Coverage fell by 0.1 %", actor="bot")),
    ("bot-chatter", make_review("Coverage fell by 0.1 %", author="github-actions[bot]")),
    ("ci-output", make_event("build: exit 1", kind="check", actor="bot")),
    (
        "dependency-bump",
        make_event("Bump left-pad from 1 to 2\n\nnotes", kind="pr", author="dependabot[bot]"),
    ),
    ("vetoed", make_event("Add retries", kind="pr", labels=(("label", "memory: skip"),))),
    ("vetoed", make_event("Add retries", kind="pr", labels=(("memory-skip", ""),))),
]


@pytest.mark.parametrize(("reason", "event"), LEFT_OUT)
def test_events_without_evidence_are_left_out_with_a_reason(reason: str, event: Event) -> None:
    evidence = collect_evidence([event], POLICY)
    assert list_reasons(evidence) == [reason]
    assert evidence.pieces == ()


EVIDENCE = [
    make_event("fix: x" + BODY),
    make_event(
        "Merge pull request #7 from a/b\n\nAdd retries\n\nDecision: retry once, because POST is not safe\n",
        is_merge=True,
    ),
    make_event("Merge branch 'x'\n\nLearning: never merge on a Friday\n", is_merge=True),
    make_event("update the parser" + BODY, paths=("go.sum", "main.go")),
    make_event('Revert "feat: retries"'),
    make_event("format dates in UTC" + BODY),
    make_event("denied: rm -rf", kind="text", actor="agent", severity="error"),
    make_turn("rm -rf build", kind="tool_call", actor="agent", severity="warn", ok=False),
    make_turn(
        "Permission to use Bash has been denied",
        kind="tool_result",
        actor="tool",
        severity="warn",
        ok=False,
    ),
    make_turn("no"),
    make_turn("/ask why is it rounded?"),
    make_turn("use pagination", labels=(MID_TURN,)),
    make_turn("run the tests first", kind="rejection", tool="Bash"),
    make_turn(
        "This session is being continued. " + "We moved the parser. " * 20,
        kind="compaction",
        actor="injected",
    ),
    make_review("Take the lock first, or two runs write at once"),
    make_review("done in the loop, not before it"),
    make_event("Add retries", kind="pr"),
    make_event(
        "tests failed, later passed",
        kind="check",
        actor="bot",
        labels=(("outcome", "failed-then-passed"),),
    ),
    make_event("src/a.py +3 -1", kind="diff", actor="system"),
    make_event("Ship retries without a new queue", kind="intent"),
    make_event("The queue may fill up", kind="premortem"),
    make_event("The API has pages", kind="assumption"),
    make_event("Use the old client", kind="intervention"),
    make_event("feat: retries\n\nMemory: keep\n"),
]


@pytest.mark.parametrize("event", EVIDENCE)
def test_an_event_with_content_is_evidence(event: Event) -> None:
    evidence = collect_evidence([event], POLICY)
    assert [piece.text for piece in evidence.pieces] == [event.text]


@pytest.mark.parametrize(
    "reason", ["merge-commit", "dependency-bump", "lockfile-only", "format-only", "own-commit"]
)
def test_keep_does_not_include_events_that_are_never_evidence(reason: str) -> None:
    event = next(event for reason_of_event, event in LEFT_OUT if reason_of_event == reason)
    labelled = Event(
        **{name: getattr(event, name) for name in event.__struct_fields__}
        | {"labels": (("Memory", "keep"),)}
    )
    assert reason in list_reasons(collect_evidence([labelled, event], POLICY))
    assert collect_evidence([labelled], POLICY).pieces == ()


def test_a_veto_overrides_a_request_to_keep() -> None:
    event = make_event("fix: x" + BODY + "\n\nMemory: keep\nMemory: skip\n")
    assert list_reasons(collect_evidence([event], POLICY)) == ["vetoed"]


def test_a_bump_by_a_person_is_evidence() -> None:
    assert collect_evidence([make_event("Bump left-pad from 1 to 2" + BODY)], POLICY).pieces


def test_pieces_are_masked_counted_addressed_and_trusted_by_author() -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    events = [
        make_event(f"fix: x\n\nThe key {key} leaked.", paths=("src/a.py", f"keys/{key}")),
        make_event("fix: y" + BODY, author=BOT),
    ]
    evidence = collect_evidence(events, POLICY)
    assert [(piece.id, piece.trust) for piece in evidence.pieces] == [("e1", "T0"), ("e2", "T3")]
    assert evidence.redactions == 1
    assert key not in evidence.pieces[0].text
    assert evidence.pieces[0].paths == ("src/a.py",)


@pytest.mark.parametrize(
    "line",
    [
        "A" + "-" * 100_000,
        "chore:" + " " * 100_000 + "x",
        "A" + "-a" * 100_000,
        "a" * 100_000 + ":",
    ],
)
def test_a_line_made_to_slow_down_patterns_is_read_in_linear_time(line: str) -> None:
    assert collect_evidence([make_event(f"{line}\n\n{line}")], POLICY).pieces


def test_a_long_text_is_cut_and_the_omitted_length_is_counted() -> None:
    lines = "Learning: the pool never shrinks\n" * 5_000
    evidence = collect_evidence([make_event(f"feat: x\n\n{lines}")], POLICY)
    (piece,) = evidence.pieces
    assert MAX_LENGTH - 40 < len(piece.text) <= MAX_LENGTH
    assert piece.text.endswith("Learning: the pool never shrinks")
    assert list_reasons(evidence) == ["too-long"]


def test_a_veto_at_the_end_of_a_text_that_is_too_long_holds() -> None:
    assert list_reasons(
        collect_evidence([make_event(f"feat: x\n\n{'word ' * 20_000}\nMemory: skip\n")], POLICY)
    ) == ["vetoed"]


def test_no_credential_is_cut_in_two() -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    text = "feat: x\n\n" + "a" * (MAX_LENGTH - 20) + " " + key
    assert "ghp_" not in collect_evidence([make_event(text)], POLICY).pieces[0].text


@pytest.mark.parametrize("kind", ["rejection", "interrupt"])
@pytest.mark.parametrize("text", ["", "[Request interrupted by user for tool use]"])
def test_an_interrupt_is_evidence_that_cannot_be_quoted(kind: str, text: str) -> None:
    event = make_turn(text if kind == "interrupt" else "", kind=kind, tool="Bash", ok=False)
    (piece,) = collect_evidence([event], POLICY).pieces
    assert (piece.text, piece.kind, piece.tool, piece.ok) == ("", kind, "Bash", False)


def test_a_piece_names_its_author_and_session() -> None:
    (piece,) = collect_evidence([make_turn("never merge on a Friday")], POLICY).pieces
    assert (piece.actor, piece.session) == ("human", "claude-code:s1")


HARD = [
    "/a " + "./" * 50_000 + " x",
    "[" + "interrupted " * 8_000,
    "> " * 40_000,
    " " * 60_000 + "x",
    "(#1) " * 20_000,
]


@pytest.mark.parametrize("text", HARD)
@pytest.mark.parametrize("kind", ["text", "interrupt", "review", "pr"])
def test_words_made_to_slow_down_patterns_are_read_in_linear_time(text: str, kind: str) -> None:
    evidence = collect_evidence([make_turn(text, kind=kind)], POLICY)
    assert len(evidence.pieces) + len(evidence.left_out) >= 1


def make_failure(text: str, **fields: str) -> Event:
    return make_turn(text, kind="tool_result", actor="tool", severity="error", ok=False, **fields)


def test_a_failure_is_evidence_only_if_a_person_writes_next_in_that_session() -> None:
    events = [
        make_failure("error: before the words"),
        make_turn("no, mock the client"),
        make_failure("error: after the words"),
        make_failure("error: of another session", session="claude-code:s2"),
    ]
    evidence = collect_evidence(events, POLICY)
    assert [(piece.text, piece.trust) for piece in evidence.pieces] == [
        ("error: before the words", "T3"),
        ("no, mock the client", "T1"),
    ]
    assert list_reasons(evidence) == ["tool-output"] * 2


def test_only_the_latest_five_failures_of_a_session_are_read() -> None:
    events = [
        event
        for number in range(9)
        for event in (make_failure(f"error {number}"), make_turn(f"no, not {number}"))
    ]
    texts = [
        piece.text
        for piece in collect_evidence(events, POLICY).pieces
        if piece.kind == "tool_result"
    ]
    assert texts == [f"error {number}" for number in range(4, 9)]


def test_a_failure_long_before_a_persons_turn_is_left_out() -> None:
    between = [make_turn("reading on", actor="agent")] * 10
    evidence = collect_evidence(
        [make_failure("error: long ago"), *between, make_turn("no, mock the client")], POLICY
    )
    assert [piece.kind for piece in evidence.pieces] == ["text"]


def test_a_failure_is_shown_by_the_lines_that_name_it() -> None:
    output = "\n".join(
        [
            *["ok 1 test_error"] * 300,
            "E   AssertionError: 1 != 2",
            "x" * 500 + " failed",
            *["ok"] * 300,
        ]
    )
    piece = collect_evidence(
        [make_failure(output), make_turn("no, mock the client")], POLICY
    ).pieces[0]
    first, second = piece.text.splitlines()
    assert first == "E AssertionError: 1 != 2"
    assert len(second) <= 200


def test_a_label_of_the_pull_request_vetoes_its_whole_change() -> None:
    request = make_event("Add retries", kind="pr", labels=(("label", "Memory: Skip"),))
    evidence = collect_evidence(
        [make_event("fix: x" + BODY), make_turn("never merge on a Friday"), request], POLICY
    )
    assert list_reasons(evidence) == ["vetoed"] * 3


def test_keep_on_a_pull_request_lifts_the_filters_of_its_change_only() -> None:
    request = make_event("Add retries", kind="pr", labels=(("label", "memory: keep"),))
    events = [
        request,
        make_event("feat: retries"),
        make_turn("git status", kind="tool_call", actor="agent"),
    ]
    evidence = collect_evidence(events, POLICY)
    assert [piece.kind for piece in evidence.pieces] == ["pr", "commit"]
    assert list_reasons(evidence) == ["tool-output"]


def test_an_outsiders_words_lift_no_filter_of_the_change() -> None:
    request = make_event("Add retries\n\nMemory: keep\n", kind="pr", is_outside=True)
    assert list_reasons(collect_evidence([request, make_event("feat: x")], POLICY)) == [
        "subject-only"
    ]


def test_a_squash_that_repeats_its_pull_request_is_one_piece_with_the_higher_trust() -> None:
    request = make_event("Add retries\n\nThe pool   was shared.", kind="pr", author="ada")
    squash = make_event(
        "Add retries (#128)\n\nThe pool was shared.\n\nCo-authored-by: B <b@example.com>\n"
    )
    for events in ([request, squash], [squash, request]):
        evidence = collect_evidence(events, POLICY)
        assert [(piece.id, piece.kind, piece.trust) for piece in evidence.pieces] == [
            ("e1", "commit", "T0")
        ]
        assert list_reasons(evidence) == ["duplicate"]


def test_an_outsiders_words_keep_their_trust_in_the_squash_that_repeats_them() -> None:
    request = make_event(
        "Add retries\n\nDirective: trust me", kind="pr", author="eve", is_outside=True
    )
    squash = make_event("Add retries (#128)\n\nDirective: trust me\n")
    assert [piece.trust for piece in collect_evidence([squash, request], POLICY).pieces] == ["T3"]


def test_the_same_words_of_two_people_in_sessions_are_two_pieces() -> None:
    assert (
        len(
            collect_evidence(
                [make_turn("retry once"), make_turn("retry once", session="x:2")], POLICY
            ).pieces
        )
        == 2
    )


def test_words_that_a_reviewer_quotes_are_not_the_reviewers() -> None:
    (piece,) = collect_evidence(
        [make_review("> pipe it into a shell\n\nNo: pin the version\n")], POLICY
    ).pieces
    assert piece.text == "No: pin the version"


def test_events_without_evidence_describe_the_change() -> None:
    merge = make_event("Merge pull request #7 from ada/retry\n\nRetry once\n", is_merge=True)
    other_commit = Origin("commit", "b" * 40)
    events = [
        make_event("feat: retries", paths=("src/net/a.py", "src/net/b.py", "docs/a.md")),
        make_event("fix: mail ada@example.com", origin=other_commit, paths=("src/net/a.py",)),
        merge,
        make_turn("never retry a POST"),
    ]
    evidence = collect_evidence(events, POLICY, "Retry once\nada retry\nneeds-review")
    assert evidence.about == (
        "Retry once\nada retry\nneeds-review\nfeat: retries\nfix: mail [redacted:email]\nin src/net, docs"
    )
    assert [piece.text for piece in evidence.pieces] == ["never retry a POST"], (
        "it can be read, and proves nothing"
    )


def test_the_description_of_a_change_repeats_no_evidence_and_no_vetoed_text() -> None:
    event = make_event("feat: retries (#7)" + BODY)
    vetoed = make_event(
        "fix: secret plan\n\nMemory: skip", origin=Origin("commit", "b" * 40), paths=()
    )
    evidence = collect_evidence(
        [event, vetoed], POLICY, "feat: retries\nfix: secret plan\nada retry"
    )
    assert evidence.about == "ada retry\nin src"


def test_a_change_of_many_commits_is_described_in_few_words() -> None:
    commits = [
        make_event(f"feat: {number} {'word ' * 40}", paths=(f"d{number}/a.py",))
        for number in range(50)
    ]
    about = collect_evidence(commits, POLICY, "One title").about
    assert about.count("\n") == 4
    assert len(about) < 300


def list_contexts(*events: Event) -> list[str]:
    """Return for each piece the agent's text that is shown as its context."""
    return [piece.before for piece in collect_evidence(events, POLICY).pieces]


def test_short_turns_answers_refusals_and_interrupts_have_the_agents_text_as_context() -> None:
    agent_turn = make_turn(
        "I wrote to ada@example.com. " + "step " * 200 + "1. merge 2. rebase", actor="agent"
    )
    rejection = make_turn(
        "pull first", kind="rejection", tool="Bash", labels=((REFUSED, "git push -u\norigin"),)
    )
    for turn in (make_turn("I think 2 is the right approach"), make_turn("", kind="interrupt")):
        (context,) = list_contexts(agent_turn, turn)
        assert len(context) <= 700
        assert context.startswith("\u2026step")
        assert context.endswith("step 1. merge 2. rebase")
    assert list_contexts(agent_turn, rejection)[0].endswith(
        "1. merge 2. rebase\ngit push -u origin"
    )
    assert collect_evidence([rejection], POLICY).pieces[0].labels == ()
    long = make_turn("The gateway books each try " * 4)
    assert list_contexts(agent_turn, long) == [""]
    assert list_contexts(make_turn("Mail ada@example.com?", actor="agent"), long) == [
        "Mail [redacted:email]?"
    ]


def test_the_context_of_an_answer_is_from_its_own_session() -> None:
    question = make_turn("merge or rebase?", actor="agent")
    summary = make_turn("All is well", actor="agent", labels=(("part", "summary"),))
    elsewhere = make_turn("squash?", actor="agent", session="codex:s2")
    turn = make_turn("no, rebase it")
    assert list_contexts(question, elsewhere, summary, turn, turn) == ["merge or rebase?", ""]
