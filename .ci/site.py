"""Hooks of mkdocs: the README is the home page; links out of docs/ lead to the repository."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#]+)\)")


def on_files(files: Files, config: MkDocsConfig, **_: object) -> Files:
    text = Path(config.config_file_path).with_name("README.md").read_text("utf-8")
    inside = re.sub(r"\]\((?!docs/|[a-z]+:|#)", "](../", text).replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=inside))
    return files


def on_page_markdown(markdown: str, config: MkDocsConfig, **_: object) -> str:
    place = f"{config.repo_url.rstrip('/')}/blob/HEAD/" if config.repo_url else ""
    return OUTSIDE.sub(rf"[\1]({place}\2)" if place else r"\1", markdown)
