"""Tests of finding requests that people repeat in several sessions."""

from __future__ import annotations

import pytest

from memory_ci.repetition.requests import find_standing_requests, is_same_request
from tests.cost import count_calls
from tests.repetition.typed_turns import find_one, find_texts, make_turn, make_turns

DRAFT = ("open a draft PR", "please open a draft PR", "Open a draft PR, thanks")
ASK = ("ask before you start", "Ask me before you start.", "please ask before you start")


def test_a_request_in_three_sessions_is_a_standing_request() -> None:
    request = find_one(make_turns(*DRAFT))
    assert request.sessions == 3
    assert request.days == 3
    assert request.text in ("open a draft PR", "please open a draft PR", "Open a draft PR")
    assert [occurrence.session for occurrence in request.occurrences] == ["s1", "s2", "s3"]


def test_a_session_counts_once() -> None:
    turns = [make_turn(text, 1) for text in DRAFT]
    assert find_texts(turns) == []
    assert find_one([*turns, *make_turns(*DRAFT)]).sessions == 3


def test_two_sessions_are_too_few() -> None:
    assert find_texts(make_turns(*DRAFT[:2])) == []


def test_two_sessions_suffice_if_the_words_of_both_last() -> None:
    lasting = make_turns("from now on open a draft PR", "always open a draft PR")
    assert find_one(lasting).sessions == 2
    assert find_texts(make_turns("from now on open a draft PR", "open a draft PR")) == []


def test_statements_and_questions_are_not_requests() -> None:
    assert find_texts(make_turns(*["the draft is on the page"] * 4)) == []
    assert find_texts(make_turns(*["where does the draft go?"] * 4)) == []


def test_an_order_about_the_current_work_ranks_lower() -> None:
    turns = [
        make_turn(f"{text}. Fix test_retry in line 12{day}", day)
        for day, text in enumerate(DRAFT, start=1)
    ]
    assert find_texts(turns)[0] in DRAFT
    assert not any("test_retry" in text for text in find_texts(turns))


def test_the_topic_of_sessions_is_not_a_request() -> None:
    topic = "check the gateway queue. " * 12
    assert find_texts([make_turn(topic, day) for day in range(1, 5)]) == []


def test_the_newest_requests_rank_highest() -> None:
    old = [make_turn(text, day) for day, text in enumerate(ASK, start=1)]
    between = [make_turn(f"the page of day {day} is green", day) for day in range(4, 80)]
    new = [make_turn(text, day) for day, text in enumerate(DRAFT, start=80)]
    assert find_texts([*old, *between, *new])[0] in DRAFT


def test_the_order_of_turns_does_not_matter() -> None:
    turns = make_turns(*DRAFT, *ASK)
    assert find_standing_requests(turns, 10) == find_standing_requests(turns[::-1], 10)


def test_the_number_of_requests_is_limited() -> None:
    turns = make_turns(*DRAFT, *ASK)
    assert len(find_texts(turns)) == 2
    assert len(find_texts(turns, 1)) == 1
    assert find_texts(turns, 0) == []


def test_another_wording_of_a_listed_request_is_not_listed_again() -> None:
    turns = make_turns(*DRAFT, "push and open a draft PR", "push it and open a draft PR")
    assert len(find_texts(turns)) == 1


def test_a_clause_of_many_words_is_not_compared() -> None:
    long = "open a draft PR of queue cache index clock table reader writer gateway"
    assert find_texts(make_turns(long, long, long)) == []


def test_copies_of_a_session_count_once() -> None:
    opening = "Look at the client of the gateway, it retries a POST."
    copies = [
        make_turn(text, 1, session=session)
        for session in ("a", "b", "c")
        for text in (opening, DRAFT[0])
    ]
    assert find_texts(copies) == []


def test_sessions_that_share_one_of_many_long_turns_are_not_copies() -> None:
    shared = "The client of the gateway retries a POST, as we know."
    turns = []
    for day, text in enumerate(DRAFT, start=1):
        turns += [make_turn(shared, day), make_turn(text, day)]
        turns += [
            make_turn(f"The page {name} of day {day} shows the total twice to me.", day)
            for name in ("one", "two")
        ]
    assert find_one(turns).sessions == 3


def test_the_people_of_a_request_are_counted() -> None:
    turns = [
        make_turn(text, day, person=person)
        for day, (text, person) in enumerate(
            zip(DRAFT, ("Ada <a@x>", "Bo <b@x>", "Ada <a@x>"), strict=True), start=1
        )
    ]
    assert find_one(turns).people == 2


def test_the_first_and_the_last_two_wordings_are_quoted() -> None:
    turns = make_turns("open a draft PR", "Open a draft PR!", "do open a draft PR", "open draft PR")
    request = find_one(turns)
    assert [quotation.session for quotation in request.quotes] == ["s1", "s3", "s4"]


@pytest.mark.parametrize(
    ("text", "next_moment", "when"),
    [
        ("run the linter before you commit", "before:commit", "before:commit"),
        ("run the linter before you push", "before:push", "before:push"),
        ("open a draft PR", "before:pull-request", "before:pull-request"),
        ("update the changelog", "before:commit", "before:commit"),
        ("open a draft PR", "before:commit", "start"),
        ("ask before you start", "before:commit", "start"),
        ("open a draft PR", "", "before:pull-request"),
        ("ask before you start", "", "start"),
    ],
    ids=[
        *("a commit", "a push", "a pull request", "the changelog"),
        *("its words name another action", "its words name no action", "no commands", "neither"),
    ],
)
def test_the_moment_of_a_request_is_the_named_action_that_agents_did_next(
    text: str, next_moment: str, when: str
) -> None:
    assert find_one([make_turn(text, day, then=next_moment) for day in (1, 2, 3)]).when == when


def test_a_moment_in_less_than_half_of_the_sessions_is_ignored() -> None:
    next_moments = ["before:push", "", "before:commit", ""]
    turns = [make_turn("push a draft", day, then=moment) for day, moment in enumerate(next_moments)]
    assert find_one(turns).when == "start"


def test_a_request_is_recognised_in_other_words() -> None:
    assert is_same_request(("draft", "open", "pr"), "Look. Please open the PR as a draft.")
    assert not is_same_request(("draft", "open", "pr"), "Please open the door.")
    assert not is_same_request((), "Please open the door.")
    assert not is_same_request(("draft", "open", "pr"), "")


def test_requests_are_found_in_linear_time() -> None:
    names = ("queue", "cache", "index", "clock", "table", "reader", "writer", "gateway")
    turns = [
        make_turn(
            f"fix the {names[day % 8]} of {names[day * 5 % 7]} now. {DRAFT[day % 3]}. check line {day}",
            day,
        )
        for day in range(1, 1_000)
    ]
    assert find_texts(turns)
    assert count_calls(lambda: find_texts(turns)) < 3 * count_calls(lambda: find_texts(turns[:500]))


def test_a_wording_that_was_changed_later_is_not_chosen() -> None:
    turns = make_turns(
        "always start method names with 'm_'",
        "always start method names with 'm_' please",
        "always start method names with 'n_' please",
    )
    assert "'n_'" in find_one(turns).text


REQUEST = "Always open a draft PR first."
WORK = ("Look at the client.", "Read the parser.", "Mend the queue.", "Draw a map.", "Sort it.")

QUOTED = {
    "a quotation": f"Ben wrote this:\n\n> {REQUEST}\n\nIs that so?",
    "a nested quotation": f">> {REQUEST}\n\nIs that so?",
    "a block of code": f"See the file:\n\n```\n{REQUEST}\n```\n\nIs that so?",
    "an indented block": f"See the file:\n\n    {REQUEST}\n\nIs that so?",
    "a code span": f"The file says `{REQUEST}` in its head.",
    "reported speech": f"Ben said: {REQUEST}",
    "reported speech without a name": f"he said: {REQUEST}",
    "reported speech in quotation marks": f'Our lead told me "{REQUEST}" yesterday.',
    "reported speech in typographic marks": f"Our lead wrote \u201c{REQUEST}\u201d yesterday.",
    "quotation marks alone": f'"{REQUEST}"',
    "a chat with times": f"[10:32] Ben: {REQUEST}\n[10:33] Ada: why?",
    "a chat with times behind": f"Ben  10:32 AM\n{REQUEST}\nAda  10:33 AM\nwhy?",
    "a chat with names": f"Ben: {REQUEST}\nAda: why?\nBen: it is late",
    "a chat with bold names": f"**Ben**: {REQUEST}\n**Ada**: why?",
    "a mail": f"On Tue, 5 May 2026 Ben <ben@x.example> wrote:\n{REQUEST}",
    "a document": f"The guide says: {REQUEST}",
    "what the agent said": f"You said: {REQUEST}",
    "a forwarded mail": f"-----Original Message-----\nFrom: Ben\n\n{REQUEST}",
    "a chat with times of day": f"Ben \u2014 Today at 10:32\n{REQUEST}",
    "a quotation in HTML": f"<blockquote>{REQUEST}</blockquote>",
}


@pytest.mark.parametrize("source", QUOTED)
def test_text_that_a_person_quotes_is_no_request(source: str) -> None:
    assert find_texts(make_turns(*[f"{work}\n\n{QUOTED[source]}" for work in WORK])) == []


@pytest.mark.parametrize(
    "turn",
    [
        f"> the diff of Ben\n\n{REQUEST}",
        f"```\nBen: why?\n```\n\n{REQUEST}",
        f"Ben says it fails at 10:32. {REQUEST}",
        f"{REQUEST}\n\nOn Tue, 5 May 2026 Ben <ben@x.example> wrote:\n> why?",
        f"- {REQUEST}",
    ],
    ids=["a quotation", "code", "a report", "a mail", "a list"],
)
def test_a_person_s_own_words_next_to_a_quotation_are_a_request(turn: str) -> None:
    turns = make_turns(*[f"{work}\n\n{turn}" for work in WORK])
    assert find_texts(turns) == [REQUEST.rstrip(".")]
