# SPDX-License-Identifier: Apache-2.0
"""What the container runtime inside labd is told and what it tells: plain frozen shapes, JSON in and out."""

from dataclasses import dataclass, field
from typing import Literal

OS = Literal["linux", "windows"]


@dataclass(frozen=True, kw_only=True)
class ContainerSpec:
    """One container of a pod, ready to run."""

    id: str
    """Unique for the lab's lifetime; a restarted container gets a new one."""
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
    """Absolute path in the container (``/probe/x.py``, ``C:\\probe\\x.ps1``) to base64: ConfigMaps and tokens."""
    empty_dirs: dict[str, str] = field(default_factory=dict)
    """Absolute mount path to the volume's key; containers of one pod that name the same key share it."""
    host_network: bool = False
    host_process: bool = False


@dataclass(frozen=True, kw_only=True)
class ContainerExit:
    """Event: the main process of a container ended."""

    container: str
    exit_code: int
    reason: Literal["Completed", "Error", "OOMKilled", "ContainerCannotRun"]
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """What the image table knows of an image before anything runs."""

    reference: str
    os: tuple[OS, ...]
    windows_builds: tuple[int, ...] = ()
    """Builds whose hosts can run it (process isolation); empty on Linux."""
    known: bool = True


@dataclass(frozen=True, kw_only=True)
class ExecSpec:
    """One command in a running container; its three streams are inherited descriptors."""

    container: str
    argv: tuple[str, ...]
    tty: bool = False


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """How a command ended.  ``start_error`` is set when it never started (no such binary, container not running)."""

    exit_code: int | None
    start_error: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProbeSpec:
    """A kubelet probe, made from the node's network namespace (http, tcp) or as a command in the container (exec)."""

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
    """What a kubelet probe found."""

    ok: bool
    message: str


@dataclass(frozen=True, kw_only=True)
class HostAnswer:
    """What a Windows host says to a HostProcess container, or why it cannot do what was asked."""

    answer: object = None
    kind: str = ""
    """Which error PowerShell shows; empty: none, ``answer`` counts."""
    problem: str = ""
