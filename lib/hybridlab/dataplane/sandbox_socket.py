# SPDX-License-Identifier: Apache-2.0
"""The only call of the data plane that transfers a descriptor: a socket created in a sandbox.

Whoever holds the socket sends as the pod, from any process, as tests and benchmarks do.
"""

import os
import socket
from typing import Any

from hybridlab.dataplane.contract import DataplaneError
from hybridlab.kernel.rpc import refused_as
from hybridlab.kernel.sandbox import Sandboxes
from hybridlab.kernel.wire import Channel, DescriptorReply, Refused

METHOD = "sandbox.socket"


async def sandbox_socket(
    channel: Channel,
    sandbox: str,
    family: int = socket.AF_INET,
    kind: int = socket.SOCK_STREAM,
    proto: int = 0,
) -> socket.socket:
    """Return a non-blocking socket of ``sandbox``: a pod's id, ``node:NAME``, ``fabric`` or
    ``outside``.

    Raise DataplaneError.
    """
    params = {"sandbox": sandbox, "family": family, "kind": kind, "proto": proto}
    with refused_as(DataplaneError, METHOD):
        _, fds = await channel.call_fds(METHOD, params)
    return socket.socket(fileno=fds[0])


def serve_sockets(sandboxes: Sandboxes, channel: Channel) -> None:
    """Answer, in labd, the calls that :func:`sandbox_socket` makes."""

    async def answer(params: Any, fds: list[int]) -> DescriptorReply:
        for fd in fds:
            os.close(fd)
        sandbox = sandboxes.get(params["sandbox"])
        try:
            born = sandbox.socket(params["family"], params["kind"], params["proto"])
        except OSError as error:
            raise Refused(
                f"no socket can be opened in sandbox {sandbox.id} ({sandbox.name}): {error}"
            ) from error
        return DescriptorReply(None, [born.detach()])

    channel.register(METHOD, answer)
