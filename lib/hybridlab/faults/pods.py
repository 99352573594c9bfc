# SPDX-License-Identifier: Apache-2.0
"""Faults of pods: a container that ends and is started again by its kubelet."""

from collections.abc import Mapping

from hybridlab.api.contract import ApiError, Obj
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Fault, Parameter, Types

TYPES = Types()


@TYPES.fault(
    "pod-restarts",
    "pods",
    Parameter("pod", "NAMESPACE/NAME"),
    Parameter("container", "name of a container (default: the first)", ""),
    scope="pod",
)
class PodRestarts(Fault):
    """A container's main process is killed once, and its kubelet starts it again."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._container = parameters["container"]
        self._namespace, slash, self._name = parameters["pod"].partition("/")
        if not slash:
            raise BadFault(f"pod is {parameters['pod']!r}, expected NAMESPACE/NAME")
        self._killed = ""

    async def inject(self) -> None:
        """Kill the container's main process. Raise BadFault without such a pod or container."""
        try:
            pod = await self._lab.client.get("pods", self._name, self._namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            raise BadFault(f"there is no Pod {self._namespace}/{self._name}") from error
        names = [item["name"] for item in pod["spec"]["containers"]]
        container = self._container or names[0]
        if container not in names:
            raise BadFault(
                f"pod {self._namespace}/{self._name} has no container {container!r}; "
                f"its containers: {', '.join(names)}"
            )
        killed = _running(pod, container)
        if not killed:
            raise BadFault(
                f"container {container} of pod {self._namespace}/{self._name} is not running"
            )
        await self._lab.kill_container(pod, container)
        self._container = container
        self._killed = killed

    async def heal(self) -> None:
        """Do nothing: the kubelet restarts the container by itself, and a restart cannot be
        undone."""
        self._killed = ""

    async def evidence(self) -> list[str]:
        return (
            [f"container {self._killed} of pod {self._namespace}/{self._name} was killed"]
            if self._killed
            else []
        )


def _running(pod: Obj, container: str) -> str:
    """Return the id of the container; return an empty string if the container does not run."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    found = next(
        (
            status
            for status in statuses
            if status["name"] == container and "running" in (status.get("state") or {})
        ),
        None,
    )
    return str(found.get("containerID") or container) if found else ""
