"""The data plane inside labd: what ``dataplane.remote`` calls, carried out in the kernel on one programming thread."""

from __future__ import annotations

from collections.abc import Mapping

from hybridlab.kernel.sandbox import Sandboxes
from hybridlab.kernel.wire import Handler


class DataplaneService:
    """Handlers named ``dataplane.*`` for labd's channel."""

    def __init__(self, sandboxes: Sandboxes, *, unprogrammed: Mapping[str, str]) -> None:
        self._sandboxes = sandboxes
        self._unprogrammed = dict(unprogrammed)

    async def start(self) -> None:
        """Make the underlay."""

    def handlers(self) -> dict[str, Handler]:
        """Method name to handler, for ``Channel.register``."""
        return {}

    def close(self) -> None:
        """Let go of every namespace."""
