"""A git on PATH that runs a shell script before git."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def make_git_wrapper(folder: Path, patch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function: `wrap(script)` puts a git on PATH that runs a shell script ($GIT is the real git), then git."""
    real = shutil.which("git")
    assert real

    def wrap(script: str) -> None:
        directory = folder / "bin"
        directory.mkdir(exist_ok=True)
        (directory / "git").write_text(f'#!/bin/sh\nGIT={real}\n{script}\nexec "$GIT" "$@"\n')
        (directory / "git").chmod(0o755)
        patch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")

    return wrap
