# SPDX-License-Identifier: Apache-2.0
"""How late programs of Windows hear of a refused TCP connection.

Winsock takes a reset for an accident at first: it sends its SYN again, 500 ms apart, and reports the refusal only when
all were refused (Microsoft KB175523).  That takes 1 to 3 s; Linux reports the first.
"""

import asyncio
import errno
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


async def heard_late(
    connecting: Coroutine[Any, Any, T], settings: Mapping[str, float | str | int]
) -> T:
    """What ``connecting`` returns; on Windows a refusal is raised the lab's ``windows_refused_ms`` later.

    That belongs to the connecting: who waits for it less long times out and never hears of the refusal.
    """
    try:
        return await connecting
    except OSError as error:
        if error.errno == errno.ECONNREFUSED and settings.get("os") == "windows":
            await asyncio.sleep(float(settings.get("windows_refused_ms", 0)) / 1000)
        raise
