# SPDX-License-Identifier: Apache-2.0
"""The content of a run's folder according to reports/README.md."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

README = Path(__file__).parents[2] / "reports" / "README.md"


def told() -> list[str]:
    """Return the names in the first column of the page's table; ``attachments/<test>/`` counts as
    the folder ``attachments/``."""
    rows = [
        line.split("|")[1]
        for line in README.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    return [re.sub(r"/.*", "/", name) for name in names]


def untold(folder: Path) -> list[str]:
    """Return the names of files that a run left and the page does not mention."""
    left = sorted(f"{path.name}/" if path.is_dir() else path.name for path in folder.iterdir())
    return [name for name in left if not any(fnmatch(name, pattern) for pattern in told())]
