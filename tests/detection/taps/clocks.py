# SPDX-License-Identifier: Apache-2.0
"""The clock of the machine on which a lab runs, as Python reads it; imported before the lab."""

from __future__ import annotations

import datetime
import time

ALL_BEHIND = "clocks all-behind"
"""Name of the row's tap; there is no seam for it but the process itself."""
SECONDS = 120


def all_behind() -> None:
    """Put the clock of this process two minutes behind; to be called before anything of the lab
    is imported."""
    real = time.time
    broken_down = time.gmtime

    class Behind(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Behind:
            return super().now(tz) - datetime.timedelta(seconds=SECONDS)

    time.time = lambda: real() - SECONDS
    time.gmtime = lambda seconds=None: broken_down(time.time() if seconds is None else seconds)
    datetime.datetime = Behind  # type: ignore[misc]
