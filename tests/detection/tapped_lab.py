# SPDX-License-Identifier: Apache-2.0
"""Starts a lab with the faults that only rows need, and one tap: ``python tapped_lab.py TAP up
...``. An empty TAP means no tap.

An empty TAP means no tap. The taps are the values of ``tests/detection/taps``; labs of users know
none of them. The lab has its own session, so that Ctrl-C reaches only pytest. It ends with the
thread that started it, in every case.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]

from tests.detection.taps import clocks  # noqa: E402  # found by that path where a lab is started

if __name__ == "__main__":
    if sys.argv[1] == clocks.ALL_BEHIND:
        clocks.all_behind()
    from hybridlab.cli.main import main
    from hybridlab.kernel.namespaces import die_with_parent
    from tests.detection.taps.table import taps

    die_with_parent(signal.SIGTERM)
    sys.exit(main(sys.argv[2:], taps(sys.argv[1])))
