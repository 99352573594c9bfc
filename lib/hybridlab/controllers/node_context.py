# SPDX-License-Identifier: Apache-2.0
"""The data that all parts of a node's kubelet share."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from hybridlab.api.contract import Client, Obj
from hybridlab.controllers.environment import Sources
from hybridlab.controllers.events import Recorder
from hybridlab.controllers.settings import KubeletSettings
from hybridlab.controllers.volumes import TokenIssuer
from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.pod_network import PodNetwork
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import Profile
from hybridlab.runtime.contract import Runtime
from hybridlab.runtime.model import ContainerExit
from hybridlab.runtime.stalls import KubeletStalls

ContainerHook = Callable[[str, Obj, str], None]
"""Called with (node, pod, container name)."""


@dataclass(kw_only=True)
class NodeContext:
    """The data of a node's kubelet."""

    machine: Machine
    profile: Profile
    client: Client
    recorder: Recorder
    runtime: Runtime
    dataplane: Dataplane
    network: PodNetwork
    sources: Sources
    settings: KubeletSettings
    issue_token: TokenIssuer | None
    container_started: ContainerHook
    container_stopped: ContainerHook
    faults: KubeletStalls = field(default_factory=KubeletStalls)
    images: set[str] = field(default_factory=set)
    """Images that were pulled."""
    exits: dict[str, asyncio.Future[ContainerExit]] = field(default_factory=dict)
    """Maps each container's id to a future that is set when its main process ends."""

    def event(
        self,
        pod: Obj,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",
        container: str = "",
        init: bool = False,
    ) -> None:
        """Report an event about a pod or one of its containers."""
        group = "initContainers" if init else "containers"
        self.recorder.record(
            pod,
            reason,
            message,
            component="kubelet",
            host=self.machine.name,
            type=type,
            field_path=f"spec.{group}{{{container}}}" if container else "",
        )
