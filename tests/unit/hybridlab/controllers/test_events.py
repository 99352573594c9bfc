# SPDX-License-Identifier: Apache-2.0
"""Events as every client reads them."""

from __future__ import annotations

import asyncio

from hybridlab.api.core import Core, Settings
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.times import seconds_of


def test_an_event_has_the_time_that_the_newer_group_requires() -> None:
    async def scenario() -> None:
        client = Core(Settings()).client("test")
        recorder = Recorder(client)
        recorder.start()
        about = await client.get("namespaces", "default")
        recorder.record(about, "Tried", "a message", component="test")
        while not (found := (await client.list("events"))[0]):  # noqa: ASYNC110 - the recorder signals nobody
            await asyncio.sleep(0)
        await recorder.stop()
        assert 0 <= seconds_of(found[0]["eventTime"]) - seconds_of(found[0]["firstTimestamp"]) <= 1

    asyncio.run(scenario())
