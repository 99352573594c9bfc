# SPDX-License-Identifier: Apache-2.0
"""Seams pass messages on as taps leave them."""

from __future__ import annotations

from hybridlab.taps import Seam


def test_a_seam_without_taps_passes_a_message_on_as_it_is() -> None:
    seam: Seam[list[int]] = Seam()
    message = [1]
    assert seam(message, "about") is message


def test_taps_change_a_message_in_the_order_in_which_they_came() -> None:
    seam: Seam[str] = Seam()
    seam.taps["one"] = lambda message, node: f"{message} one on {node}"
    seam.taps["two"] = lambda message, node: f"{message} two"
    assert seam("message", "linux-1") == "message one on linux-1 two"
    del seam.taps["one"]
    assert seam("message", "linux-1") == "message two"


def test_a_tap_that_goes_while_a_message_passes_is_asked_once_more_at_most() -> None:
    seam: Seam[int] = Seam()

    def once(message: int) -> int:
        seam.taps.clear()
        return message + 1

    seam.taps["once"] = once
    assert (seam(1), seam(1)) == (2, 1)
