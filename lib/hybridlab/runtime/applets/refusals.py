# SPDX-License-Identifier: Apache-2.0
"""The delay of refused TCP connections in programs of Windows.

After a reset Winsock first repeats its SYN every 500 ms, and reports the refusal only when all SYNs
were refused (Microsoft KB175523). That takes 1 to 3 s; Linux reports the first refusal.
"""

import asyncio
import errno
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


async def heard_late(
    connecting: Coroutine[Any, Any, T], settings: Mapping[str, float | str | int]
) -> T:
    """Return the result of ``connecting``; on Windows raise a refusal ``windows_refused_ms`` later.

    The delay is part of the time to connect: a caller with a shorter time-out never gets the
    refusal.
    """
    try:
        return await connecting
    except OSError as error:
        if error.errno == errno.ECONNREFUSED and settings.get("os") == "windows":
            await asyncio.sleep(float(settings.get("windows_refused_ms", 0)) / 1000)
        raise
