# SPDX-License-Identifier: Apache-2.0
"""A kubelet's state of a container in a pod, and its form in the pod's status."""

from dataclasses import dataclass, field

from hybridlab.api.contract import Obj
from hybridlab.controllers.images import canonical, image_id


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of a container's run."""

    exit_code: int
    reason: str
    started: str
    finished: str
    container_id: str = ""
    message: str = ""

    def to_json(self) -> Obj:
        found: Obj = {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "startedAt": self.started,
            "finishedAt": self.finished,
        }
        if self.container_id:
            found["containerID"] = f"containerd://{self.container_id}"
        if self.message:
            found["message"] = self.message
        return found


@dataclass
class ContainerState:
    """The state of a container: exactly one of waiting, running and terminated is set."""

    spec: Obj
    waiting: tuple[str, str] | None = ("ContainerCreating", "")
    running_since: str | None = None
    ended: Ended | None = None
    last: Ended | None = None
    id: str = ""
    """The identifier of the present or last run; empty before the first."""
    previous_id: str = ""
    restarts: int = 0
    ready: bool = False
    started: bool | None = None
    pulled: bool = False
    """The image is present, so that its id is known."""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def succeeded(self) -> bool:
        """Return whether the container ended with exit code 0 and will not be run again now."""
        return self.ended is not None and self.ended.exit_code == 0

    def wait(self, reason: str, message: str = "") -> bool:
        """Set the container's state to waiting; return whether this changed the state."""
        if self.waiting == (reason, message):
            return False
        if self.ended is not None:
            self.last = self.ended
        self.waiting = (reason, message)
        self.running_since = None
        self.ended = None
        self.ready = False
        self.started = False
        return True

    def run(self, since: str) -> None:
        if self.ended is not None:
            self.last = self.ended
        self.waiting = None
        self.running_since = since
        self.ended = None

    def end(self, ended: Ended) -> None:
        self.waiting = None
        self.running_since = None
        self.ended = ended
        self.ready = False
        self.started = False

    def to_json(self) -> Obj:
        state: Obj
        if self.running_since is not None:
            state = {"running": {"startedAt": self.running_since}}
        elif self.ended is not None:
            state = {"terminated": self.ended.to_json()}
        else:
            reason, message = self.waiting or ("ContainerCreating", "")
            state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        found: Obj = {
            "name": self.name,
            "image": canonical(self.spec["image"]) if self.pulled else self.spec["image"],
            "imageID": image_id(self.spec["image"]) if self.pulled else "",
            "state": state,
            "lastState": {"terminated": self.last.to_json()} if self.last else {},
            "ready": self.ready,
            "restartCount": self.restarts,
            "started": bool(self.started),
        }
        if self.id:
            found["containerID"] = f"containerd://{self.id}"
        return found
