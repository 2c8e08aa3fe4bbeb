"""Tests of the words of source code, which ignore formatting, comments and type annotations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.anchors.words import read_code

PYTHON = """\
@retry(times=3)
def post(url, key=None, *rest):
    if key is None:
        raise ValueError("no key")
    for part in rest:
        url = url + part
    return send(url, headers={"Key": key}, timeout=30)
"""
GO = """\
func (c *Client) Post(url string) (int, error) {
\tif url == "" {
\t\treturn 0, fmt.Errorf("no url")
\t}
\treturn c.send(url, map[string]int{"a": 1})
}
"""


def list_words(path: str, text: str) -> tuple[str, ...]:
    """Return the words of a source text."""
    return read_code(path, text).normalize_all().words


@given(
    st.lists(st.sampled_from(["", "# a remark", "    # deeper", "\t", '# "quoted"'])),
    st.integers(0, 7),
)
def test_blank_lines_and_comments_of_python_are_ignored(more: list[str], at: int) -> None:
    lines = PYTHON.split("\n")
    text = "\n".join([*lines[:at], *more, *lines[at:]])
    assert list_words("a.py", text) == list_words("a.py", PYTHON)


@given(
    st.lists(st.sampled_from(["", "// a remark", "/* two\n\tlines */", "\t"])), st.integers(0, 6)
)
def test_blank_lines_and_comments_of_go_are_ignored(more: list[str], at: int) -> None:
    lines = GO.split("\n")
    text = "\n".join([*lines[:at], *more, *lines[at:]])
    assert list_words("a.go", text) == list_words("a.go", GO)


@given(st.lists(st.sampled_from(["", " ", "\n", "\n  ", "  // why\n"]), min_size=40, max_size=40))
def test_spaces_inside_brackets_are_ignored(gaps: list[str]) -> None:
    words = 'f ( a , [ 1 , b . c ] , { "k" : - x } )'.split()
    for path in ("a.ts", "a.go", "a.rs"):
        text = "".join(word + gap for word, gap in zip(words, gaps, strict=False))
        assert list_words(path, text) == list_words(path, " ".join(words))
    python = "".join(
        word + gap.replace("//", "#") for word, gap in zip(words[1:-1], gaps, strict=False)
    )
    assert list_words("a.py", f"f{python})") == list_words("a.py", " ".join(words))


@pytest.mark.parametrize(("path", "text"), [("a.py", PYTHON), ("a.go", GO)])
@given(data=st.data())
def test_an_additional_word_changes_the_words(path: str, text: str, data: st.DataObject) -> None:
    words = read_code(path, text).words
    at = data.draw(st.integers(0, len(words) - 1))
    other_word = data.draw(st.sampled_from(["other", "7", '"text"', "%"]))
    start = 0
    for word in words[:at]:
        start = text.index(word, start) + len(word)
    start = text.index(words[at], start)
    changed = f"{text[:start]} {other_word} {text[start + len(words[at]) :]}"
    dropped = f"{text[:start]} {text[start + len(words[at]) :]}"
    assert list_words(path, changed) != list_words(path, text)
    assert list_words(path, dropped) != list_words(path, text) or words[at] in "()"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x = 'a'", 'x = "a"'),
        ("x = u'a' 'b'", 'x = ("a"\n     "b")'),
        ("x = r'a'", "x = 'a'"),
        ("x = 'it\\'s'", 'x = "it\'s"'),
        ("x = f'{ a }'", "x = f'{a}'"),
        ("x = '''a'''", "x = 'a'"),
        ("f(a, b)", "f(\n    a,\n    b,\n)"),
        ("return (a or b)", "return a or b"),
        ("for a, b in (c, d):\n    e", "for (a, b) in c, d:\n  e"),
        ("x = a + \\\n    b", "x = a + b"),
        ("if x: y = 1", "if x:\n    y = 1"),
        ("a = 1; b = 2", "a = 1\nb = 2"),
        ('def f():\n    """Says."""\n    return 1', "def f():\n    return 1"),
        ('class E(Exception):\n    """Says."""', "class E(Exception):\n    pass"),
        ("def f():\n\treturn 1", "def f():\n    return 1"),
        ("from a import (b, c,)", "from a import b, c"),
    ],
)
def test_equivalent_python_has_the_same_words(first: str, second: str) -> None:
    assert list_words("a.py", first) == list_words("a.py", second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x = f", "x = f()"),
        ("x = (a,)", "x = a"),
        ("x = (a + b) * c", "x = a + b * c"),
        ("x = [a]", "x = a"),
        ("x = not (a and b)", "x = not a and b"),
        ("x = b'a'", "x = 'a'"),
        ("x = f'{a}'", "x = '{a}'"),
        ("x = 'a b'", "x = 'ab'"),
        ("if x:\n    y()\nz()", "if x:\n    y()\n    z()"),
        ("if x:\n    if y:\n        a()\n    b()", "if x:\n    if y:\n        a()\n        b()"),
        ("x = '# no remark'", "x = '# another'"),
        ('def f():\n    x = """a"""', 'def f():\n    x = """b"""'),
    ],
)
def test_different_python_has_different_words(first: str, second: str) -> None:
    assert list_words("a.py", first) != list_words("a.py", second)


@pytest.mark.parametrize(
    ("path", "first", "second"),
    [
        ("a.ts", "const a = 'x';", 'export const a = "x"'),
        ("a.ts", "f(a, b)", "f(\n  a,\n  b,\n);"),
        ("a.rs", "fn f() { return 1 }", "fn f() {\n    return 1; // why\n}"),
        ("a.go", "x := f(a)", "x  :=  f(a) // why"),
        ("a.toml", "a = [1, 2] # why", "a = [\n  1,\n  2,\n]"),
        ("a.md", "One two\nthree.", "One\ntwo three."),
    ],
)
def test_words_of_other_languages_ignore_formatting(path: str, first: str, second: str) -> None:
    assert list_words(path, first) == list_words(path, second)


@pytest.mark.parametrize(
    ("path", "first", "second"),
    [
        ("a.ts", 'x = /a"b/.test(y)', 'x = /a"c/.test(y)'),
        ("a.ts", "x = `a // b`", "x = `a // c`"),
        ("a.rs", 'x = r#"a // "b" "#;', 'x = r#"a // "c" "#;'),
        ("a.rs", "fn f<'a>(x: &'a u8) { 'x' }", "fn f<'a>(x: &'a u8) { 'y' }"),
        ("a.go", "x := `a // b`", "x := `a // c`"),
        ("a.go", 'x := "a // b"', 'x := "a // c"'),
        ("a.md", "One.\n\nTwo.", "One.\nTwo."),
        ("a.yml", "a:\n  b: 1\nc: 2", "a:\n  b: 1\n  c: 2"),
    ],
)
def test_comment_signs_inside_a_literal_are_part_of_it(path: str, first: str, second: str) -> None:
    assert list_words(path, first) != list_words(path, second)


@given(
    st.text("def f():\n\t\"'`#/*\\(){}[],;xr=", max_size=80),
    st.sampled_from("py ts rs go toml ini md".split()),
)
def test_any_text_has_words_without_an_error(text: str, extension: str) -> None:
    code = read_code(f"a.{extension}", text)
    assert sorted(code.rows) == code.rows
    assert all(1 <= row <= text.count("\n") + 1 for row in code.rows)
    assert [line.start for line in code.lines] == sorted({line.start for line in code.lines})
    code.normalize_all()


@pytest.mark.parametrize(
    "part", ["/*", "\\`", '\\"', "\\'", '"""\\', "'", "(/[", 'r#"', "(", "`${", "'\\"]
)
@pytest.mark.parametrize("extension", ["py", "ts", "rs"])
def test_unclosed_brackets_and_quotes_are_read_in_linear_time(part: str, extension: str) -> None:
    read_code(f"a.{extension}", f"x = {part[-1]}{part * 4_000}").normalize_all()


def test_type_annotations_of_a_signature_are_ignored() -> None:
    def words(text: str) -> tuple[str, ...]:
        return read_code("a.py", text).normalize_all().words

    plain = words("def f(a, b={'x': 1}, *args, key=lambda x: x, **kw):\n    return a\n")
    typed = "def f(a: int, b: dict[str, int] = {'x': 1}, *args: int, key=lambda x: x, **kw: Any) -> dict[str, int]:\n"
    typed += "    return a\n"
    assert words(typed) == plain
    assert words(typed.replace("'x': 1", "'x': 2")) != plain, "a default is compared"
    assert words("class A:\n    x: int\n") != words("class A:\n    x: str\n"), (
        "a field's type may be its meaning"
    )


def test_type_annotations_of_local_variables_are_ignored() -> None:
    def words(text: str) -> tuple[str, ...]:
        return read_code("a.py", text).normalize_all().words

    plain = words("async def f(a):\n    if a:\n        x = {1: 2}\n        a.b = 1\n    return x\n")
    typed = (
        "async def f(a):\n    x: dict[int, int]\n    if a:\n        x: dict[int, int] = {1: 2}\n"
    )
    typed += "        a.b: int = 1\n    return x\n"
    assert words(typed) == plain
    assert words(typed.replace("1: 2", "1: 3")) != plain
    assert words("x: int = 1\n") != words("x = 1\n"), (
        "a constant of the module is compared as it is written"
    )
    fields = "def f():\n    class A:\n        x: int = 1\n    return A\n"
    assert words(fields) != words(fields.replace(": int", "")), "a field's type may be its meaning"
    cases = "def f(a):\n    match a:\n        case [x, y]:\n            return 1\n        case b.c:\n            return 2\n"
    for name in ("a:", "[x, y]", "b.c"):
        assert words(cases.replace(name, "other" + ":" * (name == "a:"))) != words(cases)
