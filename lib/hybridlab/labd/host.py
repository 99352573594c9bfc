# SPDX-License-Identifier: Apache-2.0
"""A Windows host for HostProcess containers in labd: requests are passed to the cluster at the
other end of the channel."""

from collections.abc import Mapping
from functools import partial

from hybridlab.kernel.rpc import Caller, client
from hybridlab.runtime.applet import HostProblem
from hybridlab.runtime.contract import WindowsHosts


class RemoteHost:
    """The ``runtime.applet.Host`` of a node."""

    def __init__(self, hosts: WindowsHosts, node: str) -> None:
        self._hosts = hosts
        self._node = node

    async def ask(self, question: str, arguments: Mapping[str, object]) -> object:
        found = await self._hosts.ask(self._node, question, dict(arguments))
        if found.kind:
            raise HostProblem(found.kind, found.problem)
        return found.answer


def remote_hosts(channel: Caller) -> WindowsHosts:
    """Return the cluster's hosts. A call that fails raises a HostProblem of kind ``unknown``."""
    return client(WindowsHosts, channel, partial(HostProblem, "unknown"))
