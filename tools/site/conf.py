# SPDX-License-Identifier: Apache-2.0
"""Sphinx' settings for the documentation site: ``make site`` (decision 18).

docs/ stays plain Markdown that can be read in place. This module adds what Sphinx needs while it
reads the pages: the tables of links in each README become the navigation, and links to files that
are no pages of the site lead to the repository, if SITE_SOURCE names it (https://.../blob/main).
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = os.environ.get("SITE_SOURCE", "").rstrip("/")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```|(?:^ {4}[^\n]*\n)+", re.MULTILINE | re.DOTALL)
"""Matches blocks of code, in which links are plain text."""

project = "Conformance suite for Calico for Windows"
html_title = project
html_show_copyright = html_show_sphinx = False
extensions = ["myst_parser"]
root_doc = "README"
html_theme = "furo"
html_copy_source = False
myst_heading_anchors = 4
exclude_patterns = ["detection.md", "modes-table.md"]
suppress_warnings = ["misc.highlighting_failure"]


def is_page(path: Path) -> bool:
    """Return whether a file is a page of the site."""
    return path.suffix == ".md" and path.is_file() and path.is_relative_to(DOCS)


def prepare(_: Sphinx, name: str, source: list[str]) -> None:
    """Change the source of a page before Sphinx reads it."""
    folder = (DOCS / name).parent
    text = source[0]
    code = [found.span() for found in FENCE.finditer(text)]

    def led(link: re.Match[str]) -> str:
        if any(begin <= link.start() < end for begin, end in code):
            return link[0]
        return link[0] if is_page((folder / link[2]).resolve()) else elsewhere(link, folder)

    source[0] = LINK.sub(led, text)
    if Path(name).name == "README":
        source[0] += navigation(text, folder)


def elsewhere(link: re.Match[str], folder: Path) -> str:
    """Return a link to a file of the repository; without a repository, only the text of the
    link."""
    path = (folder / link[2]).resolve().relative_to(DOCS.parent)
    return f"[{link[1]}]({SOURCE}/{path.as_posix()}{link[3] or ''})" if SOURCE else link[1]


def navigation(text: str, folder: Path) -> str:
    """Return a part of the navigation for each section of a README that links to pages."""
    found = ""
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        title = section.partition("\n")[0]
        targets = dict.fromkeys(link[2] for link in LINK.finditer(section))
        pages = [target for target in targets if is_page((folder / target).resolve())]
        caption = f":caption: {title}\n" if folder == DOCS else ""
        if pages:
            lines = "\n".join(pages)
            found += f"\n\n```{{toctree}}\n:hidden:\n{caption}\n{lines}\n```\n"
    return found


def open_at_the_index(app: Sphinx, problem: Exception | None) -> None:
    """Copy the first page to where servers and ``make site`` open a site."""
    if problem is None:
        shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Connect the functions of this module to Sphinx."""
    app.connect("source-read", prepare)
    app.connect("build-finished", open_at_the_index)
