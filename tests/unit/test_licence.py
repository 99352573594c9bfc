# SPDX-License-Identifier: Apache-2.0
"""Every Python file names its licence; probe programs, known by their hash, stay as they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINE = "# SPDX-License-Identifier: Apache-2.0"
UNCHANGED = "manifests/probes/"


def test_every_python_file_begins_with_its_licence() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [name for name in listed.stdout.split() if not name.startswith(UNCHANGED)]
    assert files
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in files}
    missing = [name for name, text in texts.items() if text and LINE not in text.splitlines()[:2]]
    assert missing == [], f"begin these files with {LINE}"
