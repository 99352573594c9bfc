"""The container runtime as kubelets see it; ``runtime.remote`` implements it over the socket to labd."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from hybridlab.runtime.model import (
    ContainerExit,
    ContainerSpec,
    ExecResult,
    ExecSpec,
    ImageFacts,
    ProbeResult,
    ProbeSpec,
)


class RuntimeRefused(Exception):
    """The runtime cannot do it: unknown container, image not in the table, container file system not possible."""


class Runtime(Protocol):
    """Containers of one lab, all inside labd's namespaces."""

    def image(self, reference: str) -> ImageFacts:
        """Looked up in the image table (no call to labd); ``known=False`` when the registry has no such image."""
        ...

    async def start(self, spec: ContainerSpec) -> None:
        """Start the main process; returns once it runs.  Its end arrives at ``on_exit``."""
        ...

    async def stop(self, container: str, *, grace: float) -> None:
        """End the main process (TERM, then KILL after ``grace`` seconds) and everything it opened; idempotent."""
        ...

    async def remove(self, container: str) -> None:
        """Forget a stopped container and its logs."""
        ...

    async def update_files(self, container: str, files: dict[str, str]) -> None:
        """Replace the content of mounted files (path to base64), as a kubelet syncs a ConfigMap."""
        ...

    async def exec(self, spec: ExecSpec, *, stdin: int | None, stdout: int, stderr: int) -> ExecResult:
        """Run a command with three descriptors that labd inherits (the caller closes its own copies).

        Returns when it ended.  Cancellation kills the command.
        """
        ...

    async def probe(self, spec: ProbeSpec) -> ProbeResult: ...

    def logs(self, container: str, *, follow: bool) -> AsyncIterator[tuple[float, bytes]]:
        """(wall-clock seconds, line with newline) from the start; with ``follow`` until the container ends."""
        ...

    async def append_log(self, container: str, line: str) -> None:
        """Add a line to a container's log (system workloads whose program runs outside labd: Felix, kube-proxy)."""
        ...

    def on_exit(self, callback: Callable[[ContainerExit], None]) -> None: ...
