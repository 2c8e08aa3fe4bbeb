"""Programs that stand in for those which engines run: real executables, so that nothing of running them is faked."""

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
"""Keeps what the program was given, beside the program."""


def make_program(folder: Path, source: str, name: str = "claude") -> Path:
    """An executable of this name in `folder`, run by our own Python."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{DUMP}{source}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
