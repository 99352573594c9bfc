# SPDX-License-Identifier: Apache-2.0
"""Lines that a test prints while it runs, such as a search through stories, appear at once."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.plugin.fixtures.traffic import _Report
from conformance.run.progress import Progress


def test_each_line_of_a_search_is_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    nobody: Any = None
    report = _Report(record_of_test=nobody, attachments=nobody, lines=Progress(every=60.0))
    for line in ("1 stories, 0 without verdict, seed 1", "a story without verdict: too late"):
        report.progress(line)
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines() if line] == [
        "1 stories", "a story without verdict: too late",
    ]  # fmt: skip
