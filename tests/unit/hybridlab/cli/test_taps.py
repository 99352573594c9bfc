# SPDX-License-Identifier: Apache-2.0
"""A test gives a lab its taps; the command gives it none."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.cli import main, up
from hybridlab.faults.model import Taps


@pytest.mark.parametrize("taps", [None, Taps()])
def test_a_lab_starts_with_the_taps_that_whoever_starts_it_gives(
    taps: Taps | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def run(**options: Any) -> int:
        given.update(options)
        return 0

    monkeypatch.setattr(up, "run", run)
    assert main.main(["up"], taps) == 0
    assert given["taps"] is taps
