# SPDX-License-Identifier: Apache-2.0
"""The PowerShell commands that docs/lab.md promises, read from the lab's own registry.

``python -m tests.unit.hybridlab.powershell.promised`` writes the page's section again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hybridlab.powershell.binding import Declared, common
from hybridlab.powershell.command_line import library

PAGE = Path(__file__).parents[4] / "docs" / "lab.md"
BEGIN, END = "<!-- powershell: begin -->\n", "<!-- powershell: end -->\n"


def section() -> str:
    """Return the table of cmdlets and the text below it, as Markdown."""
    known = library()
    lines = ["| cmdlet | aliases | parameters |", "| --- | --- | --- |"]
    for key, cmdlet in sorted(known.cmdlets.items()):
        aliases = " ".join(f"`{alias}`" for alias, name in known.aliases.items() if name == key)
        lines.append(f"| `{cmdlet.name}` | {aliases} | {_named(cmdlet.parameters)} |")
    lines += [
        "",
        f"Every cmdlet also takes {_named(common())}.",
        f"Programs: {_words(known.tools)}. Types with static members: {_words(known.types)}.",
        f"`New-Object` makes {_words(known.constructors)}.",
    ]
    return "\n".join(lines) + "\n"


def written() -> str:
    """Return the text between the two marks of the page."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def _named(parameters: Sequence[Declared]) -> str:
    return " ".join(f"`-{parameter.name}`" for parameter in parameters if parameter.kind != "*")


def _words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        page.replace(BEGIN + written() + END, BEGIN + section() + END), encoding="utf-8"
    )
