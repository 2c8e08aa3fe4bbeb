"""Tests of finding definitions in source code of many languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.anchors.symbols import find_definition, list_definitions

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
    definition = find_definition(path, text, symbol)
    assert definition is not None
    assert (definition.name, (definition.first, definition.last)) == (symbol, span)


def test_calls_and_ambiguous_names_are_not_definitions() -> None:
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
def test_definitions_found_in_any_text_have_lines_inside_it(text: str, path: str) -> None:
    for definition in list_definitions(path, text):
        assert 1 <= definition.first <= definition.last <= text.count("\n") + 1
