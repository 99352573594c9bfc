# SPDX-License-Identifier: Apache-2.0
"""Every network namespace in which a socket may be opened: pod sandboxes and nodes, by id.

The data plane fills the registry, the container runtime reads it::

    sandbox = sandboxes.get(pod_id)             # UnknownSandbox when there is none (any more)
    # A socket created in the pod takes about 10 us and is usable from any thread.
    sock = sandbox.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sandbox.entered():                     # this thread is in the pod's network namespace inside the block
        pid = spawn(...)

A socket stays in the namespace in which it was created, whichever thread uses it later.  The
sandbox of a hostNetwork or HostProcess pod is its node's namespace.  Nodes themselves are
registered too: ``sandboxes.node(name)``.  This module knows no containers, mounts or processes:
removing a sandbox does not end them, and a process or descriptor that uses the namespace keeps it
alive.
"""

import contextlib
import os
import socket as sockets
from collections.abc import Iterator
from dataclasses import dataclass

from hybridlab.kernel import namespaces
from hybridlab.kernel.wire import Refused


class UnknownSandbox(Refused):
    """There is no such sandbox: never added, or removed."""


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """A network namespace with a name, an address and resolver settings."""

    id: str
    """The pod's id (``PodSpec.id``), or ``node:NAME``."""
    netns: int
    """The descriptor of the network namespace; the registry owns it, and it is valid until the
    sandbox is removed."""
    node: str
    name: str
    namespace: str
    """Kubernetes namespace; empty for a node."""
    hostname: str
    address: str
    """The pod's address; for a node, and for pods that use the node's network, the node's address.
    """
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    resolver_options: tuple[str, ...] = ()
    etc_hosts: str = ""

    def socket(
        self, family: int = sockets.AF_INET, kind: int = sockets.SOCK_STREAM, proto: int = 0
    ) -> sockets.socket:
        """Return a socket created in this namespace: non-blocking, close-on-exec. Raise OSError as
        ``socket()`` does."""
        with namespaces.entered(self.netns):
            return sockets.socket(family, kind | sockets.SOCK_NONBLOCK, proto)

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """Put the calling thread into this namespace inside the block; never await in it."""
        return namespaces.entered(self.netns)


class Sandboxes:
    """The registry; there is one per labd. Only the event loop's thread may use it, except
    :meth:`get`."""

    def __init__(self) -> None:
        self._by_id: dict[str, Sandbox] = {}

    def add(self, sandbox: Sandbox) -> None:
        """Register a sandbox; the registry owns the descriptor from now on. A second sandbox with
        the same id is refused.
        """
        if sandbox.id in self._by_id:
            raise Refused(f"sandbox {sandbox.id} already exists ({self._by_id[sandbox.id].name})")
        self._by_id[sandbox.id] = sandbox

    def get(self, sandbox_id: str) -> Sandbox:
        """Return the sandbox with this id. Raise :class:`UnknownSandbox`."""
        try:
            return self._by_id[sandbox_id]
        except KeyError:
            raise UnknownSandbox(
                f"there is no sandbox {sandbox_id}: it was never added, or it was removed"
            ) from None

    def node(self, name: str) -> Sandbox:
        """Return the sandbox of a node; raise :class:`UnknownSandbox`."""
        return self.get(node_id(name))

    def remove(self, sandbox_id: str) -> None:
        """Remove the sandbox and close its descriptor. Raise :class:`UnknownSandbox`."""
        sandbox = self.get(sandbox_id)
        del self._by_id[sandbox_id]
        os.close(sandbox.netns)

    def __contains__(self, sandbox_id: str) -> bool:
        return sandbox_id in self._by_id

    def __iter__(self) -> Iterator[Sandbox]:
        return iter(list(self._by_id.values()))


def node_id(name: str) -> str:
    """Return the sandbox id of a node."""
    return f"node:{name}"
