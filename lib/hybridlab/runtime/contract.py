# SPDX-License-Identifier: Apache-2.0
"""The container runtime's interface for kubelets; ``runtime.service`` implements it in labd."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from hybridlab.runtime.model import (
    ContainerExit,
    ContainerSpec,
    ExecResult,
    ExecSpec,
    HostAnswer,
    ImageFacts,
    ProbeResult,
    ProbeSpec,
)


class RuntimeRefused(Exception):
    """The runtime cannot execute the call: the container is unknown, the image is not in the table,
    or no file system can be built for the container.

    The message contains the call.
    """


class Containers(Protocol):
    """The calls to labd without descriptors, through ``kernel.rpc``."""

    async def start(self, spec: ContainerSpec) -> None:
        """Start the main process; return when it runs. Its end is reported to ``on_exit``."""

    async def stop(self, container: str, *, grace: float) -> None:
        """End the main process (TERM, then KILL after ``grace`` seconds) and everything it opened; idempotent."""

    async def remove(self, container: str) -> None:
        """Forget a stopped container and its logs."""

    async def update_files(self, container: str, files: dict[str, str]) -> None:
        """Replace the content of mounted files (path to base64), as a kubelet syncs a ConfigMap."""

    async def probe(self, spec: ProbeSpec) -> ProbeResult: ...

    async def append_log(self, container: str, line: str) -> None:
        """Add a line to a container's log, for system workloads whose programs run outside labd:
        Felix and kube-proxy."""


class ContainerStreams(Protocol):
    """The calls that pass descriptors; ``runtime.descriptors`` sends them through the channel."""

    async def exec(
        self, spec: ExecSpec, *, stdin: int | None, stdout: int, stderr: int
    ) -> ExecResult:
        """Run a command with three descriptors that are passed to labd (the caller closes its own
        copies).

        Return when the command has ended. Cancellation kills the command.
        """

    def logs(self, container: str, *, follow: bool) -> AsyncIterator[tuple[float, bytes]]:
        """Yield (wall-clock seconds, line with newline) from the start; with ``follow`` until the
        container ends.
        """


class ContainerNews(Protocol):
    """The methods that need no call to labd."""

    def image(self, reference: str) -> ImageFacts:
        """Return the facts about an image from the image table; ``known=False`` if the registry has
        no such image."""

    def on_exit(self, callback: Callable[[ContainerExit], None]) -> None:
        """Call ``callback`` for every container that ends from now on."""


class Runtime(Containers, ContainerStreams, ContainerNews, Protocol):
    """The container runtime of a lab; all containers run inside labd's namespaces."""


class WindowsHosts(Protocol):
    """labd's requests to machines, each addressed by the name of the machine's node.

    A Windows machine answers requests that come from its HostProcess containers. A Linux machine
    answers requests of ``birdcl``.
    """

    async def ask(self, node: str, question: str, arguments: dict[str, object]) -> HostAnswer: ...
