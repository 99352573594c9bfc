"""A sandbox as applets see it: sockets born in it, and its resolver."""

import socket
from collections.abc import Sequence

from hybridlab.kernel.sandbox import Sandbox
from hybridlab.runtime.applets import dns


class SandboxNet:
    """``applet.Net`` over a kernel sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.hostname = sandbox.hostname or sandbox.name
        self.address = sandbox.address
        self.nameservers: Sequence[str] = sandbox.nameservers
        self.searches: Sequence[str] = sandbox.searches

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, proto: int = 0) -> socket.socket:
        """Non-blocking, close-on-exec."""
        return self._sandbox.socket(family, kind, proto)

    async def resolve(self, name: str, *, timeout: float = 5.0) -> list[str]:  # noqa: ASYNC109 - the contract's name
        """A records, with this pod's search list; raises ``dns.NameNotFound`` or ``dns.ResolverSilent``."""
        return await dns.resolve(self, name, limit=timeout)
