"""Executable programs for the engines that run a program."""

from __future__ import annotations

import sys
from pathlib import Path

DUMP = """
import json, os, pathlib, sys
here = pathlib.Path.cwd()
files = [word.partition("=")[2] for word in sys.argv if word.startswith("--system-prompt-file=")]
seen = {"argv": sys.argv[1:], "env": dict(os.environ), "cwd": str(here), "files": os.listdir(here)}
seen |= {"input": sys.stdin.read(), "system": "".join(pathlib.Path(name).read_text() for name in files)}
pathlib.Path(__file__).with_suffix(".seen").write_text(json.dumps(seen))
"""
"""Python source that stores the program's input in files next to the program."""


def make_program(folder: Path, source: str, name: str = "claude") -> Path:
    """Write an executable with this name, which runs Python source, and return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{DUMP}{source}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
