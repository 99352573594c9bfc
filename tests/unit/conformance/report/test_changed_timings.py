# SPDX-License-Identifier: Apache-2.0
"""A report names the timings that differ from the packaged ones."""

from __future__ import annotations

from dataclasses import replace

from conformance.report.provenance import changed
from conformance.settings import load_timings


def test_packaged_timings_are_no_difference() -> None:
    assert changed(load_timings()) == {}


def test_each_entry_that_differs_is_named_with_both_values() -> None:
    packaged = load_timings()
    hold = packaged.windows.hold
    mine = replace(packaged, windows=replace(packaged.windows, hold=hold + 1.5))
    assert changed(mine) == {"windows.hold": f"{hold + 1.5:g} s instead of {hold:g} s"}
