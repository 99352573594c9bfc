# SPDX-License-Identifier: Apache-2.0
"""Texts of others within Markdown, where they are no markup."""

import re


def cell(text: str) -> str:
    """Return a text as one line without markup, links, images and cells of its own."""
    return re.sub(r"[\\|\[]", r"\\\g<0>", text).replace("<", "&lt;").replace("\n", " ")


def fenced(text: str, language: str = "") -> str:
    """Return a block of code that no text can end."""
    ticks = "`" * max([3, *(len(found) + 1 for found in re.findall("`+", text))])
    return f"{ticks}{language}\n{text}\n{ticks}"
