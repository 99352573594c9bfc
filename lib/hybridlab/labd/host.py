"""A Windows host as HostProcess containers in labd reach it: the cluster, at the other end of the channel, knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from hybridlab.kernel.wire import CallFailed, Channel
from hybridlab.runtime.applet import HostProblem
from hybridlab.runtime.model import HOST_METHOD


class RemoteHost:
    """``runtime.applet.Host`` of one node."""

    def __init__(self, channel: Channel, node: str) -> None:
        self._channel, self._node = channel, node

    async def ask(self, question: str, arguments: Mapping[str, object]) -> object:
        """As ``Host.ask``."""
        request = {"node": self._node, "question": question, "arguments": arguments}
        try:
            found = await self._channel.call(HOST_METHOD, request)
        except CallFailed as error:
            raise HostProblem("unknown", f"{question} of a Windows host: {error}") from error
        if "problem" in found:
            raise HostProblem(found["kind"], found["problem"])
        return cast("object", found["answer"])
