# SPDX-License-Identifier: Apache-2.0
"""A wrong clock of the machine that runs a lab, as seen by Python; imported before the lab."""

from __future__ import annotations

import datetime
import time

ALL_BEHIND = "clocks all-behind"
"""The name of the tap in rows; it has no seam but the process itself."""
SECONDS = 120


def all_behind() -> None:
    """Set the clock of this process back by two minutes; call it before anything of the lab is
    imported."""
    real = time.time
    broken_down = time.gmtime

    class Behind(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Behind:
            return super().now(tz) - datetime.timedelta(seconds=SECONDS)

    time.time = lambda: real() - SECONDS
    time.gmtime = lambda seconds=None: broken_down(time.time() if seconds is None else seconds)
    datetime.datetime = Behind  # type: ignore[misc]
