"""Hooks of mkdocs.

The README is the start page, links out of docs/ lead to the repository, and commands are copied
without their output.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

BADGE = re.compile(r"(?m)^\[?!\[[^\]]*\]\(https://img\.shields\.io/.*\n")
"""A picture from another host in the README: the site fetches nothing from elsewhere."""
CHECKOUT = re.compile(r"(?ms)^```\nmake demo.*?^```\n\n.*?\n\n")
"""The first commands of the README, which need the checkout, and the line below them."""
START = """```console
$ memory-ci init --from 90d --agent claude-code
```

[First steps](docs/tutorial.md) take 15 minutes. [How to](docs/how-to.md) has a line for each thing
that teams want.

"""
BOOSTS = {"index.md": 0.5, "how-to.md": 0.4}
"""What a page weighs in search if not 1: pages that only lead to others weigh less."""
CONSOLE = re.compile(r'(?s)<div class="language-console highlight">(.*?</pre>)')


def on_files(files: Files, config: MkDocsConfig, **_: object) -> Files:
    """Make the start page of the README."""
    text = Path(config.config_file_path).with_name("README.md").read_text("utf-8")
    text, count = CHECKOUT.subn(lambda _: START, BADGE.sub("", text))
    if count != 1:
        raise ValueError("README.md has no block of `make demo`, or several")
    inside = re.sub(r"\]\((?!docs/|[a-z]+:|#)", "](../", text).replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=inside))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Weigh a page in search, and let links out of docs/ lead to the repository, or be no links."""
    page.meta["search"] = {"boost": BOOSTS.get(page.file.src_uri, 1)}
    place = f"{config.repo_url.rstrip('/')}/blob/HEAD/" if config.repo_url else ""
    above = re.escape("../" * (page.file.src_uri.count("/") + 1))
    outside = re.compile(rf"\[([^\]]*)\]\({above}([^)#]+)(?:#[^)]*)?\)")
    return outside.sub(rf"[\1]({place}\2)" if place else r"\1", markdown)


def on_page_content(content: str, **_: object) -> str:
    """Say for each block of a terminal what its button copies: the commands alone."""
    return CONSOLE.sub(_add_commands, content)


def _add_commands(block: re.Match[str]) -> str:
    lines = html.unescape(re.sub(r"<[^>]+>", "", block[1])).splitlines()
    commands = "\n".join(line.removeprefix("$ ") for line in lines if line.startswith("$ "))
    opening = f'<div class="language-console highlight" data-copy="{html.escape(commands)}">'
    return f"{opening}{block[1]}"


def on_post_page(output: str, **_: object) -> str:
    """Name the dialog of the search for screen readers: the theme does not."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"')
