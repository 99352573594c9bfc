# SPDX-License-Identifier: Apache-2.0
"""The arguments and results of the container runtime inside labd: plain frozen classes that are
converted to and from JSON."""

from dataclasses import dataclass, field
from typing import Literal

OS = Literal["linux", "windows"]

CLAIM = "claim/"
"""The beginning of a volume's key if the volume belongs to a PersistentVolumeClaim and not to a
pod."""

USUAL_CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "SETFCAP": 31,
}
"""A container runtime's default capabilities, by the numbers of linux/capability.h; never SYS_ADMIN
or NET_ADMIN."""


@dataclass(frozen=True, kw_only=True)
class PowerShell:
    """A PowerShell of this machine that runs the probe programs of Windows containers."""

    home: str
    """The PowerShell's ``$PSHOME``, the folder of ``pwsh.dll``."""
    dotnet: str
    """The root of the .NET that the PowerShell uses; ``home`` if the runtime is in the same folder
    as ``pwsh.dll``."""
    version: str


@dataclass(frozen=True, kw_only=True)
class ContainerSpec:
    """A container of a pod, ready to run."""

    id: str
    """The container's id, unique during the lab's lifetime; a restarted container gets a new id."""
    pod: str
    """The pod's id, as in ``dataplane.model.PodSpec``."""
    name: str
    os: OS
    image: str
    command: tuple[str, ...] = ()
    """Kubernetes' ``command``; empty: the image's entrypoint."""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    working_dir: str = ""
    files: dict[str, str] = field(default_factory=dict)
    """The base64 contents of files from ConfigMaps and tokens, by absolute path in the container
    (``/probe/x.py``, ``C:\\probe\\x.ps1``)."""
    empty_dirs: dict[str, str] = field(default_factory=dict)
    """The volumes' keys by absolute mount path; containers of a pod with the same key share the
    volume. A claim's volume is shared by the containers of all pods, and outlives the pods."""
    host_network: bool = False
    host_process: bool = False
    capabilities: tuple[str, ...] = tuple(USUAL_CAPABILITIES)
    """The capabilities of the container's processes, out of the default capabilities."""
    port_start: int = 0
    """The lowest port that needs no NET_BIND_SERVICE; 0 on Windows, where no port needs it."""
    may_ping: bool = True

    def volume(self, key: str) -> str:
        """Return a volume's name, which is unique in the lab, from the volume's key in this pod."""
        return key if key.startswith(CLAIM) else f"{self.pod}/{key}"

    @property
    def lowest_port(self) -> int:
        """Return the lowest port on which the container's programs may listen."""
        return 0 if "NET_BIND_SERVICE" in self.capabilities else self.port_start


@dataclass(frozen=True, kw_only=True)
class ContainerExit:
    """The event that the main process of a container ended."""

    container: str
    exit_code: int
    reason: Literal["Completed", "Error", "OOMKilled", "ContainerCannotRun"]
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """The image table's facts about an image, known before any container of the image runs."""

    reference: str
    os: tuple[OS, ...]
    windows_builds: tuple[int, ...] = ()
    """Builds of hosts that can run the image (process isolation); empty on Linux."""
    known: bool = True


@dataclass(frozen=True, kw_only=True)
class ExecSpec:
    """A command in a running container; its three streams are inherited descriptors."""

    container: str
    argv: tuple[str, ...]
    tty: bool = False


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """The end of a command. ``start_error`` is set if the command never started (no such binary,
    container not running)."""

    exit_code: int | None
    start_error: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProbeSpec:
    """A kubelet's probe, which runs in the node's network namespace (http, tcp) or as a command in
    the container (exec)."""

    kind: Literal["http", "tcp", "exec"]
    node: str
    address: str = ""
    port: int = 0
    path: str = "/"
    container: str = ""
    argv: tuple[str, ...] = ()
    timeout: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The result of a kubelet's probe."""

    ok: bool
    message: str


@dataclass(frozen=True, kw_only=True)
class HostAnswer:
    """A machine's answer to a request from one of its containers, or the reason why the machine
    cannot answer."""

    answer: object = None
    kind: str = ""
    """The kind of error that PowerShell shows; empty: there is no error, and ``answer`` is
    valid."""
    problem: str = ""
