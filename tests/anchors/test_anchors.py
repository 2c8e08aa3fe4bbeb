"""Anchors: written and read, made from text, and judged against another text."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.anchors.anchors import enrich_anchor, fold, format_anchor, make_anchor, parse_anchor
from memory_ci.anchors.symbols import find_definition, find_named, list_definitions
from memory_ci.anchors.verdicts import FILE_LOST, judge, judge_entry, judge_parts, truth_factor
from memory_ci.lifecycle.upkeep import first_change, plan_repoint, plan_stale_retirement
from memory_ci.records.anchor import Anchor, Verdict
from tests.make import examples, make_id, make_located

COMMIT = "3f2ab91c0ffe"
CLIENT = """import time

class Client:
    def get(self, url):
        return self.session.get(url, timeout=30)

    def post(self, url, key):
        if key is None:
            raise ValueError("no idempotency key")
        return self.session.post(url, headers={"Idempotency-Key": key})

RETRIES = 3
"""
POST = (7, 10)

paths = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), min_size=1
).filter(lambda path: not path.startswith(("/", "./", "../")))
lines = st.none() | st.tuples(st.integers(1, 9999), st.integers(0, 99)).map(
    lambda pair: (pair[0], sum(pair))
)
names = st.none() | st.text(
    st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=1
).filter(lambda name: "@" not in name)


@examples(200)
@given(paths, lines, st.text("0123456789abcdef", min_size=7, max_size=40), names, st.booleans())
def test_an_anchor_reads_as_it_was_written(
    path: str, span: tuple[int, int] | None, commit: str, symbol: str | None, is_hashed: bool
) -> None:
    first, last = span or (None, None)
    text = "9f31c2d09f31" if is_hashed else None
    anchor = Anchor(path=path, commit=commit, first=first, last=last, symbol=symbol, text=text)
    assert parse_anchor(format_anchor(anchor)) == anchor


@pytest.mark.parametrize(
    "path", ["a:12", "a:3-4", "a:-", "a:-:-", "a:0", "a@3f2ab91", "a text:9f31c2d0", "a "]
)
@pytest.mark.parametrize("line", [None, 7])
def test_a_path_that_looks_like_more_than_a_path_is_one(path: str, line: int | None) -> None:
    anchor = Anchor(path=path, commit=COMMIT, first=line, last=line)
    assert parse_anchor(format_anchor(anchor)) == anchor


@examples(200)
@given(st.text() | st.from_regex(r"\A.{0,9}:?[0-9-]{0,5}@[0-9a-f]{5,9}( symbol:.?)?( text:.*)?"))
def test_any_text_is_an_anchor_or_none_and_never_an_error(cite: str) -> None:
    anchor = parse_anchor(cite)
    assert anchor is None or parse_anchor(format_anchor(anchor)) == anchor


@pytest.mark.parametrize(
    "cite",
    [
        "",
        "the client",
        "src/client.py",
        "a.py@main",
        "a.py@3f2ab9",
        "/etc/passwd@3f2ab91",
        "../a.py@3f2ab91",
        "./a.py@3f2ab91",
        "a.py:9-3@3f2ab91",
        "a\nb@3f2ab91",
        "a.py@3f2ab91 text:short",
        "a.py@3f2ab91 and more",
    ],
)
def test_what_is_no_anchor_is_none(cite: str) -> None:
    assert parse_anchor(cite) is None


def test_the_forms_that_extraction_and_the_manual_write_are_read() -> None:
    assert parse_anchor("src/client.py@3f2ab91c0ffe") == Anchor(path="src/client.py", commit=COMMIT)
    assert parse_anchor("a b:c@d.py:12@3f2ab91") == Anchor(
        path="a b:c@d.py", commit="3f2ab91", first=12, last=12
    )
    whole = parse_anchor("src/payments/client.py:41-58@3f2ab91 symbol:Client.post text:9f31c2d0")
    assert whole == Anchor(
        path="src/payments/client.py",
        commit="3f2ab91",
        first=41,
        last=58,
        symbol="Client.post",
        text="9f31c2d0",
    )


def test_folding_takes_out_what_formatters_touch_and_nothing_else() -> None:
    assert fold("f (\n\t'b' ,  c,\r\n\n);") == fold('f("b", c)')
    assert fold("value = (\n    a\n    + b\n)") == fold("value = a \\\n  + b")
    assert (
        len({fold(text) for text in ("x = 1", "x = 2", "x == 1", "y = 1", "x = [1]", "X = 1")}) == 6
    )


@given(st.lists(st.text(max_size=8)))
def test_folding_lines_and_joining_them_is_folding_the_text(parts: list[str]) -> None:
    assert "".join(map(fold, parts)) == fold("\n".join(parts))


def test_an_anchor_of_a_definition_has_its_lines_and_its_whole_name() -> None:
    anchor = make_anchor("client.py", CLIENT, COMMIT, symbol="post")
    assert (anchor.first, anchor.last, anchor.symbol) == (*POST, "Client.post")
    assert make_anchor("client.py", CLIENT, COMMIT, lines=POST).text == anchor.text
    assert make_anchor("client.py", CLIENT, COMMIT).text != anchor.text


@pytest.mark.parametrize(
    ("prose", "symbol"),
    [
        ("Client.post needs a key", "Client.post"),
        ("call `post` with a key", "Client.post"),
        ("post() needs a key", "Client.post"),
        ("post the letter and get the answer", None),
        ("RETRIES is too low for the client", None),
        ("`RETRIES` is too low", "RETRIES"),
        ("see client.py", None),
    ],
)
def test_only_what_looks_like_code_names_a_definition(prose: str, symbol: str | None) -> None:
    found = find_named("client.py", CLIENT, prose)
    assert (found.name if found else None) == symbol


def test_enriching_gives_a_bare_cite_a_hash_and_a_named_definition_and_nothing_twice() -> None:
    bare = Anchor(path="client.py", commit=COMMIT)
    assert enrich_anchor(bare, CLIENT, "about nothing").first is None
    rich = enrich_anchor(bare, CLIENT, "Client.post needs a key")
    assert (rich.first, rich.last, rich.symbol) == (*POST, "Client.post")
    assert enrich_anchor(rich, "another text", "Client.get is fine") == rich
    cited = enrich_anchor(
        Anchor(path="client.py", commit=COMMIT, first=5, last=5), CLIENT, "Client.post needs a key"
    )
    assert (cited.first, cited.symbol, cited.text is None) == (5, None, False)


DEFINITIONS = [
    (
        "a.py",
        "@cache\nasync def run(\n    a,\n) -> None:\n    # x\n\n    return 1\n\nrun()\n",
        "run",
        (1, 7),
    ),
    ("a.py", "LIMITS = [\n    1,\n]\nx = 2\n", "LIMITS", (1, 3)),
    ("a.ts", "export const load = async () => {\n  go();\n};\nload();\n", "load", (1, 3)),
    (
        "a.ts",
        "export class Api {\n  private async send(x: T) {\n    if (x) {\n    }\n  }\n}\n",
        "Api.send",
        (2, 5),
    ),
    ("a.js", "function* walk()\n{\n\treturn 1;\n}\n", "walk", (1, 4)),
    (
        "a.go",
        "func (c *Client) Post(u string) error {\n\treturn nil\n}\n\ntype T struct {\n}\n",
        "Client.Post",
        (1, 3),
    ),
    (
        "a.rs",
        "impl X {\n    pub(crate) async fn send<T>(&self) -> T\n    where T: A\n    {\n    }\n}\n",
        "X.send",
        (2, 5),
    ),
    (
        "A.java",
        "public class A {\n    public List<X> find(String a) {\n        return x;\n    }\n}\n",
        "A.find",
        (2, 4),
    ),
    (
        "a.c",
        "static int\nx;\nint main(int argc)\n{\n#ifdef X\n    go();\n#endif\n}\n",
        "main",
        (3, 8),
    ),
    ("a.cpp", "void Client::post(int a) {\n  go();\n}\n", "Client.post", (1, 3)),
    ("a.hpp", "class Api {\npublic:\n  int x;\n};\n", "Api", (1, 4)),
    ("a.rb", "class A\n  def ok?\n    1\n  rescue E\n    2\n  end\nend\n", "A.ok?", (2, 6)),
    ("a.py", "@cache\n@app.get(\n    '/',\n)\ndef index():\n    pass\n", "index", (1, 6)),
    ("a.py", "def post(\n    a,\n    b,\n) -> int:\n    return 1\n\nx = 1\n", "post", (1, 5)),
    ("a.py", "levels = {\n    'a': 1,\n}\nx = 1\n", "levels", (1, 3)),
    ("a.py", '"""def a(): ..."""\ndef b(): ...\n', "b", (2, 2)),
    (
        "a.py",
        "class A:\n    @property\n    def x(self): ...\n    @x.setter\n    def x(self, y): ...\n",
        "A.x",
        (2, 5),
    ),
    ("a.go", "const (\n\tA = 1\n\tB = []int{\n\t\t1,\n\t}\n\tC\n)\n", "B", (3, 5)),
    ("a.go", "var (\n\tx, y int\n\tz string // why\n)\n", "z", (3, 3)),
    ("a.go", "func F() interface{} {\n\treturn `}`\n}\n", "F", (1, 3)),
    (
        "a.rs",
        "impl<'a, T: X> fmt::Display for Y<'a, T> {\n    fn fmt(&self) {\n    }\n}\n",
        "Y.fmt",
        (2, 3),
    ),
    ("a.rs", "#[test]\nfn works() {\n    let x = '}';\n}\nfn b() {}\n", "works", (2, 4)),
    (
        "a.rs",
        "impl<T: Into<u8>> Parse\n    for a::Y<T>\nwhere\n    T: X,\n{\n    fn go() {}\n}\n",
        "Y.go",
        (6, 6),
    ),
    ("a.rs", "mod tests {\n    const N: [u8; 2] = [\n        1, 2,\n    ];\n}\n", "N", (2, 4)),
    (
        "a.ts",
        "export class Z<\n  T extends X,\n> extends Y<T> {\n  a = 1;\n  get(\n    b: B,\n  ) {\n  }\n}\n",
        "Z",
        (1, 9),
    ),
    ("a.ts", "class Z {\n  a = 1;\n  get(\n    b: B,\n  ): C {\n  }\n}\n", "Z.get", (3, 6)),
    ("a.ts", "type A =\n  | B\n  | { c: D }\n\nconst e = f\n  .g()\n", "A", (1, 3)),
    ("a.ts", "const e = f\n  .g()\nconst h = (a): I<B> =>\n  j(a)\n", "h", (3, 4)),
    ("a.ts", "function f(a: A): void\nfunction f(a: B) {\n  go()\n}\n", "f", (1, 4)),
    ("a.sh", "run_all() {\n  go\n}\nfunction stop\n{\n  go\n}\n", "stop", (4, 7)),
]


@pytest.mark.parametrize(("path", "text", "symbol", "span"), DEFINITIONS)
def test_a_definition_is_found_with_all_its_lines(
    path: str, text: str, symbol: str, span: tuple[int, int]
) -> None:
    found = find_definition(path, text, symbol)
    assert found is not None
    assert (found.name, (found.first, found.last)) == (symbol, span)


def test_a_call_is_no_definition_and_a_name_that_two_have_is_none() -> None:
    assert find_definition("a.ts", "  if (x) {\n  }\n  return f(x) {\n", "if") is None
    assert (
        find_definition(
            "a.py", "class A:\n    def f(self): ...\nclass B:\n    def f(self): ...\n", "f"
        )
        is None
    )
    assert find_definition("notes.md", "def f(): ...\n", "f") is None


@given(
    st.text("def(){}[] \n\tclass:abc#=;", max_size=120),
    st.sampled_from(["a.py", "a.ts", "a.c", "a.java", "a.rs"]),
)
def test_definitions_of_any_text_lie_inside_it(text: str, path: str) -> None:
    for found in list_definitions(path, text):
        assert 1 <= found.first <= found.last <= text.count("\n") + 1


# -- verdicts

SYMBOL = make_anchor("client.py", CLIENT, COMMIT, symbol="Client.post")
LINES = make_anchor("client.py", CLIENT, COMMIT, lines=POST)
WHOLE = make_anchor("client.py", CLIENT, COMMIT)

REINDENTED = CLIENT.replace("    ", "\t").replace("\n", "\n\n")
WRAPPED = CLIENT.replace(
    '(url, headers={"Idempotency-Key": key})',
    '(\n            url,\n            headers={"Idempotency-Key": key}\n        )',
)
CRLF = CLIENT.replace("\n", "\r\n")
SHIFTED = "# a licence\n# in three\n# lines\n" + CLIENT
EDITED = CLIENT.replace("no idempotency key", "a key is needed")


def seen(anchor: Anchor, text: str | None, then: str | None = CLIENT, **others: str) -> Verdict:
    """The verdict where the file reads `text` now (None: it is gone) and `others` may hold it."""
    files = ({"client.py": text} if text is not None else {}) | {
        f"{name}.py": other for name, other in others.items()
    }
    return judge(anchor, then, files, "client.py" if text is not None else None)


@pytest.mark.parametrize("then", [CLIENT, None])
@pytest.mark.parametrize("anchor", [WHOLE, LINES, SYMBOL])
@pytest.mark.parametrize(
    "text", [CLIENT, CRLF, WRAPPED, CLIENT.rstrip(), CLIENT.replace("(url, key)", "( url,key )")]
)
def test_a_reformatted_text_is_fresh(anchor: Anchor, text: str, then: str | None) -> None:
    verdict = seen(anchor, text, then)
    assert (verdict.kind, verdict.path) == ("fresh", "client.py")


@pytest.mark.parametrize("anchor", [LINES, SYMBOL])
def test_shifted_and_respaced_lines_are_moved(anchor: Anchor) -> None:
    verdict = seen(anchor, SHIFTED)
    assert (verdict.kind, verdict.first, verdict.last) == ("moved", 10, 13)
    assert seen(anchor, REINDENTED).kind == "moved"
    assert seen(anchor, SHIFTED, then=None).kind == "moved"


@pytest.mark.parametrize("anchor", [WHOLE, LINES, SYMBOL])
@pytest.mark.parametrize("then", [CLIENT, None])
def test_another_text_in_the_same_place_is_changed(anchor: Anchor, then: str | None) -> None:
    assert seen(anchor, EDITED, then).kind == "changed"


def test_a_changed_definition_is_shown_where_it_is_now() -> None:
    verdict = seen(SYMBOL, "# one line more\n" + EDITED)
    assert (verdict.kind, verdict.first, verdict.last) == ("changed", 8, 11)


def test_what_changes_around_a_definition_leaves_it_fresh_and_the_file_changed() -> None:
    text = CLIENT.replace("RETRIES = 3", "RETRIES = 4").replace("timeout=30", "timeout=60")
    assert [seen(anchor, text).kind for anchor in (WHOLE, LINES, SYMBOL)] == [
        "changed",
        "fresh",
        "fresh",
    ]


@pytest.mark.parametrize("anchor", [WHOLE, LINES, SYMBOL])
def test_a_renamed_file_is_moved_and_not_stale(anchor: Anchor) -> None:
    verdict = judge(anchor, CLIENT, {"net/http.py": CLIENT}, "net/http.py")
    assert (verdict.kind, verdict.path, verdict.note) == ("moved", "net/http.py", "was client.py")
    assert judge(anchor, CLIENT, {"net/http.py": EDITED}, "net/http.py").kind == "changed"


@pytest.mark.parametrize("anchor", [LINES, SYMBOL])
def test_a_definition_moved_into_another_file_is_moved(anchor: Anchor) -> None:
    rest = CLIENT.replace("\n".join(CLIENT.split("\n")[6:10]), "")
    other = "class Sender:\n" + "\n".join(CLIENT.split("\n")[6:10]) + "\n"
    verdict = seen(anchor, rest, sender=other)
    assert (verdict.kind, verdict.path, verdict.first) == ("moved", "sender.py", 2)


def test_a_definition_that_is_nowhere_is_gone_and_one_that_lost_its_name_only_is_moved() -> None:
    removed = CLIENT.replace("\n".join(CLIENT.split("\n")[6:10]), "")
    assert seen(SYMBOL, removed).kind == "gone"
    renamed = CLIENT.replace("def post", "def send")
    assert (seen(SYMBOL, renamed).kind, seen(SYMBOL, renamed).note) == ("moved", "was Client.post")
    assert seen(SYMBOL, renamed.replace("no idem", "an idem")).kind == "changed"
    assert seen(SYMBOL, CLIENT.replace("post", "send")).kind == "changed", (
        "what it calls has another name, too"
    )


def test_overloads_that_left_together_are_found_together() -> None:
    heads = "".join(f"@overload\ndef turn(x: {kind}) -> {kind}: ...\n" for kind in ("int", "str"))
    text = f"{heads}def turn(x):\n    return type(x)(x) if x else None\n"
    anchor = make_anchor("a.py", f"a = 1\n{text}", COMMIT, symbol="turn")
    for files, successor in (({"a.py": "a = 1\n", "b.py": text}, "a.py"), ({"b.py": text}, None)):
        found = judge(anchor, f"a = 1\n{text}", files, successor)
        assert (found.kind, found.path, found.first, found.last) == ("moved", "b.py", 1, 6)


def test_a_short_definition_of_another_name_is_another() -> None:
    anchor = make_anchor(
        "a.py", "def first(row):\n    return row.cells[0]\n", COMMIT, symbol="first"
    )
    then = "def first(row):\n    return row.cells[0]\n"
    assert judge(anchor, then, {"a.py": then.replace("first", "head")}, "a.py").kind == "changed"


@pytest.mark.parametrize("anchor", [WHOLE, LINES, SYMBOL])
def test_a_file_that_is_not_there_any_more_is_gone(anchor: Anchor) -> None:
    assert seen(anchor, None).kind == "gone"
    assert seen(anchor, None, other="x = 1\n").kind == "gone"


def test_a_definition_of_the_same_name_that_says_something_else_is_not_the_one_that_went() -> None:
    removed = CLIENT.replace("\n".join(CLIENT.split("\n")[6:10]), "")
    namesake = (
        "class Letter:\n    def post(self):\n        self.box.open()\n        self.box.drop(self)\n"
    )
    assert seen(SYMBOL, removed, letter=namesake).kind == "gone"
    assert seen(SYMBOL, removed + namesake).kind == "gone"
    assert seen(SYMBOL, None, letter=namesake).kind == "gone"


def test_without_commit_and_hash_nothing_is_claimed() -> None:
    bare = Anchor(path="client.py", commit=COMMIT)
    assert seen(bare, CLIENT, then=None).kind == "unverifiable"
    assert seen(WHOLE, None, then=None).kind == "unverifiable", (
        "perhaps it was renamed: without its commit nobody knows"
    )
    assert judge(WHOLE, CLIENT, {}, "client.py").kind == "unverifiable", "there, but not readable"


def test_a_line_that_says_little_is_not_found_elsewhere() -> None:
    text = "def f():\n    return 1\n\ndef g():\n    return 1\n"
    anchor = make_anchor("a.py", text, COMMIT, lines=(2, 2))
    assert (
        judge(anchor, text, {"a.py": text.replace("return 1", "return 2", 1)}, "a.py").kind
        == "changed"
    )


def test_a_copy_does_not_stand_for_the_one_that_changed() -> None:
    block = "    value = compute_the_first_thing(argument)\n"
    text = f"def f():\n{block}\ndef g():\n{block}"
    anchor = make_anchor("a.py", text, COMMIT, lines=(2, 2))
    assert (
        judge(anchor, text, {"a.py": text.replace("first", "second", 1)}, "a.py").kind == "changed"
    )


def test_part_of_a_line_is_not_the_line() -> None:
    text = "total = price_of(order) + shipping\n"
    anchor = make_anchor("a.py", text, COMMIT, lines=(1, 1))
    assert (
        judge(
            anchor, text, {"a.py": "total = price_of(order) + shipping - discount\n"}, "a.py"
        ).kind
        == "changed"
    )


LIMITED = """import os

@retry(times=3)
def limited(job):
    \"\"\"Run a job.\"\"\"
    limit = 30
    for part in job.parts:
        if part.is_done:
            continue
        part.run(limit)
    return job
"""


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("    return job\n", "    return job\n\n\n# the end\nx = 1\n", "fresh"),
        ("Run a job.", "Run all parts of a job.", "fresh"),
        ("    limit = 30", "    # in seconds\n    limit = 30", "fresh"),
        ("import os\n", "", "moved"),
        ("    return job\n", "    return job\n\n    job.close()\n", "changed"),
        ("times=3", "times=9", "changed"),
        ("@retry", "@log\n@retry", "changed"),
        ("        part.run(limit)", "            part.run(limit)", "changed"),
        ("def limited", "def bounded", "moved"),
    ],
)
@pytest.mark.parametrize("then", [LIMITED, None])
def test_all_of_a_definition_is_compared_and_nothing_else(
    old: str, new: str, kind: str, then: str | None
) -> None:
    anchor = make_anchor("a.py", LIMITED, COMMIT, symbol="limited")
    found = judge(anchor, then, {"a.py": LIMITED.replace(old, new)}, "a.py").kind
    assert found == (kind if then or old != "def limited" else "gone")
    lines = make_anchor("a.py", LIMITED, COMMIT, lines=(4, 11))
    assert (lines.symbol, lines.text) == (anchor.symbol, anchor.text), (
        "lines that are all of it cite the definition"
    )


@pytest.mark.parametrize(
    ("lines", "old", "new", "kind"),
    [
        ((6, 6), "import os", "import os\nlimit = 30\nimport re", "moved"),
        ((6, 6), "limit = 30", "limit = 60", "changed"),
        ((6, 6), "def limited", "limit = 30\ndef limited", "moved"),
        ((6, 6), "    limit = 30\n", "", "changed"),
        ((8, 9), "            continue", "            continue\n            log(part)", "changed"),
        (
            (8, 9),
            "            continue",
            "            continue\n        else:\n            log(part)",
            "changed",
        ),
        ((7, 10), "    return job", "    log(job)\n    return job", "fresh"),
        (
            (7, 10),
            "        part.run(limit)",
            "        part.run(limit)\n        log(part)",
            "changed",
        ),
    ],
)
def test_cited_lines_are_looked_for_in_the_definition_that_they_stood_in(
    lines: tuple[int, int], old: str, new: str, kind: str
) -> None:
    anchor = make_anchor("a.py", LIMITED, COMMIT, lines=lines)
    assert judge(anchor, LIMITED, {"a.py": LIMITED.replace(old, new)}, "a.py").kind == kind


def test_lines_outside_of_definitions_are_mapped_by_a_diff() -> None:
    text = "a: 1\nb: 1\nc:\n  a: 1\n"
    anchor = make_anchor("a.yml", text, COMMIT, lines=(1, 1))
    assert judge(anchor, text, {"a.yml": "z: 2\na: 1\nc:\n  b: 1\n"}, "a.yml").kind == "moved"
    assert judge(anchor, text, {"a.yml": "b: 1\nc:\n  a: 1\n"}, "a.yml").kind == "changed"


def test_what_moved_and_changed_is_changed_and_a_copy_that_was_there_is_not_where_it_went() -> None:
    anchor = make_anchor("a.py", LIMITED, COMMIT, symbol="limited")
    moved = LIMITED.replace("limit = 30", "limit = 60")
    files = {"a.py": "import os\n", "b.py": moved}
    assert judge(anchor, LIMITED, files, "a.py") == Verdict("changed", "b.py", 3, 11, "was a.py")
    assert judge(anchor, LIMITED, files, "a.py", {"b.py": moved}).kind == "gone"
    assert (
        judge(anchor, LIMITED, files | {"b.py": LIMITED}, "a.py", {"b.py": moved}).kind == "moved"
    )
    assert judge(anchor, LIMITED, files | {"b.py": LIMITED}, "a.py").kind == "moved"
    assert (
        judge(anchor, LIMITED, files | {"b.py": LIMITED}, "a.py", {"b.py": LIMITED}).kind == "gone"
    )


@pytest.mark.parametrize("then", [CLIENT, None])
def test_an_anchor_of_old_is_read_as_it_was_written(then: str | None) -> None:
    old = parse_anchor("client.py:7-10@3f2ab91c0ffe symbol:Client.post text:7981136aa91b")
    assert old is not None
    assert seen(old, CLIENT, then).kind == "fresh"
    assert seen(old, SHIFTED, then).kind == "moved"
    assert seen(old, WRAPPED, then).kind == "fresh"
    assert seen(old, EDITED, then).kind == "changed"
    lines = parse_anchor("client.py:7-10@3f2ab91c0ffe text:7981136aa91b")
    assert lines is not None
    assert (seen(lines, SHIFTED, then).kind, seen(lines, EDITED, then).kind) == ("moved", "changed")


def test_a_whole_file_says_how_much_of_it_changed() -> None:
    edited = seen(WHOLE, CLIENT.replace("RETRIES = 3", "RETRIES = 4"))
    assert (edited.kind, edited.edited, edited.note) == (
        "changed",
        0.05,
        "edited since: 5% of its words",
    )
    assert seen(WHOLE, CLIENT.replace("RETRIES = 3", "# so often\nRETRIES = 3")).kind == "fresh"
    assert truth_factor([Verdict("fresh", "a.py", edited=0.2)]) == 0.8
    assert truth_factor([Verdict("fresh", "a.py", edited=0.9)]) == 0.5


@pytest.mark.parametrize(
    "text",
    [
        CLIENT + "\n\ndef close():\n    return None\n",
        CLIENT.replace(
            "    def post", "    def put(self, url):\n        return None\n\n    def post"
        ),
        CLIENT.replace("import time\n", "import os\nimport time\n"),
        CLIENT.replace("import time\n", ""),
    ],
)
def test_what_is_added_to_a_whole_file_and_its_imports_leave_it_fresh(text: str) -> None:
    assert seen(WHOLE, text).kind == "fresh"


def test_a_whole_file_of_which_a_fiftieth_was_edited_is_fresh() -> None:
    then = "".join(f"x{number} = 1\n" for number in range(100))
    anchor = make_anchor("data.py", then, COMMIT)
    edits = [
        then.replace("x7 = 1\n", "x7 = 2\n"),
        then.replace("x7 = 1\nx8 = 1\nx9 = 1\n", "y = 2\n"),
    ]
    assert [judge(anchor, then, {"data.py": text}, "data.py").kind for text in edits] == [
        "fresh",
        "changed",
    ]


def test_the_parts_that_an_entry_names_decide_on_a_file_that_is_cited_whole() -> None:
    fresh, changed = Verdict("fresh", "client.py", 7, 10), Verdict("changed", "client.py", 1, 2)
    moved, gone = Verdict("moved", "net.py", 3, 6), Verdict("gone", "client.py", note=FILE_LOST)
    unread = Verdict("unverifiable", "client.py", 1, 2, "the file cannot be read")
    assert judge_parts(WHOLE, [fresh, fresh]) == Verdict("fresh", "client.py")
    assert judge_parts(WHOLE, [moved, moved]) == Verdict("moved", "net.py", note="was client.py")
    assert judge_parts(WHOLE, [fresh, changed]) == changed
    assert judge_parts(WHOLE, [gone, gone]) == Verdict("gone", "client.py", note=FILE_LOST)
    assert judge_parts(WHOLE, [fresh, gone]).kind == "changed"
    assert judge_parts(WHOLE, [fresh, unread]).kind == "unverifiable"


def test_an_entry_fades_with_the_share_of_edited_places_where_it_names_many() -> None:
    fresh, changed = Verdict("fresh", "client.py", 7, 10), Verdict("changed", "client.py", 1, 2)
    verdict = judge_parts(WHOLE, [fresh, fresh, changed, fresh])
    assert (verdict.kind, verdict.edited) == ("changed", 0.25)
    assert verdict.note == "edited since: 1 of 4 places that it names"


def test_an_empty_file_is_not_found_in_every_other_empty_file() -> None:
    anchor = Anchor(path="a/__init__.py", commit=COMMIT)
    assert judge(anchor, "", {"b/__init__.py": ""}, None).kind == "gone"


@given(st.lists(st.sampled_from(["", " ", "\t", "\n", "  \n"]), min_size=9, max_size=9))
def test_no_spacing_between_tokens_makes_a_text_stale(gaps: list[str]) -> None:
    tokens = "total = price ( order , 2 ) ;".split()
    text = "".join(gap + token for gap, token in zip(gaps, tokens, strict=True))
    plain = " ".join(tokens)
    assert judge(make_anchor("a.c", plain, COMMIT), plain, {"a.c": text}, "a.c").kind == "fresh"


@pytest.mark.parametrize(
    ("kinds", "together", "factor"),
    [
        ([], "fresh", 1.0),
        (["fresh", "moved"], "moved", 1.0),
        (["fresh", "gone"], "changed", 0.5),
        (["changed", "fresh"], "changed", 0.5),
        (["gone", "gone"], "gone", 0.0),
        (["unverifiable"], "unverifiable", 1.0),
    ],
)
def test_the_anchors_of_an_entry_speak_together(
    kinds: list[str], together: str, factor: float
) -> None:
    verdicts = [Verdict(kind, "a.py") for kind in kinds]  # type: ignore[arg-type] # kinds as written above
    assert (judge_entry(verdicts), truth_factor(verdicts)) == (together, factor)


# -- where a range changed something


@pytest.mark.parametrize(
    ("new", "span", "line"),
    [
        (CLIENT, None, None),
        (CRLF, None, None),
        (SHIFTED, POST, None),
        (EDITED, POST, 9),
        ("# more\n" + EDITED, POST, 10),
        (EDITED, (4, 5), None),
        (EDITED, None, 9),
        (CLIENT.replace("        if key", "        log(url)\n        if key"), POST, 8),
        (CLIENT.replace("        if key is None:\n", ""), POST, 8),
        ("", POST, 1),
    ],
)
def test_the_line_that_changed_is_named(
    new: str, span: tuple[int, int] | None, line: int | None
) -> None:
    assert first_change(CLIENT, new, span) == line


# -- upkeep

CITE = format_anchor(SYMBOL)
KEY = (make_id(1), CITE)


def test_a_rename_is_followed_once_with_the_lines_of_its_new_place() -> None:
    place = make_located(1, cites=("not an anchor", CITE))
    moved = Verdict("moved", "net/http.py", 17, 20)
    (change,) = plan_repoint([place], {KEY: moved}, "a" * 40)
    assert (change.step, change.kind, change.why) == (
        "consolidate",
        "update",
        "client.py is now net/http.py",
    )
    assert change.entry.cites == (
        "not an anchor",
        f"net/http.py:17-20@{'a' * 12} symbol:Client.post words:{SYMBOL.text}",
    )
    followed = make_located(1, cites=change.entry.cites)
    assert (
        plan_repoint(
            [followed],
            {(make_id(1), followed.entry.cites[1]): Verdict("fresh", "net/http.py")},
            "b",
        )
        == ()
    )


@pytest.mark.parametrize("kind", ["fresh", "changed", "gone", "unverifiable"])
def test_only_what_moved_to_another_file_is_pointed_anew(kind: str) -> None:
    verdict = Verdict(kind, "net/http.py")  # type: ignore[arg-type] # kinds as written above
    assert plan_repoint([make_located(1, cites=(CITE,))], {KEY: verdict}, "a" * 40) == ()
    shifted = {KEY: Verdict("moved", "client.py", 17, 20)}
    assert plan_repoint([make_located(1, cites=(CITE,))], shifted, "a" * 40) == ()
    elsewhere = {KEY: Verdict("moved", "net/http.py", 17, 20)}
    assert (
        plan_repoint([make_located(1, cites=(CITE,), status="retired")], elsewhere, "a" * 40) == ()
    )


GONE = {KEY: Verdict("gone", "client.py")}
SINCE = {make_id(1): date(2026, 1, 1)}


def test_what_has_been_gone_for_long_is_retired() -> None:
    place = make_located(1, title="`client.py` retries", cites=(CITE,))
    (change,) = plan_stale_retirement([place], GONE, SINCE, date(2026, 4, 2))
    assert (change.step, change.kind, change.entry.status) == ("retire", "update", "retired")
    assert plan_stale_retirement([place], GONE, SINCE, date(2026, 4, 1)) == (), "90 days, not more"
    assert len(plan_stale_retirement([place], GONE, SINCE, date(2026, 1, 9), after_days=7)) == 1
    assert plan_stale_retirement([place], GONE, {}, date(2026, 4, 2)) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "retired"},
        {"adoption": "rejected"},
        {"priority": "pin"},
        {"cites": (CITE, "a.py@3f2ab91")},
        {"title": "Never merge on Fridays"},
    ],
)
def test_what_is_kept_for_another_reason_is_not_retired(fields: dict[str, Any]) -> None:
    place = make_located(
        1, "MEMORY.md", **({"title": "`client.py` retries", "cites": (CITE,)} | fields)
    )
    verdicts = GONE | {(make_id(1), "a.py@3f2ab91"): Verdict("fresh", "a.py")}
    assert plan_stale_retirement([place], verdicts, SINCE, date(2026, 12, 1)) == ()
