# SPDX-License-Identifier: Apache-2.0
"""Typed settings of a run: the options' values, and the timings.

The settings are frozen, and every worker gets them unchanged. The package only reads YAML; it uses
neither pytest nor the cluster.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from conformance.errors import UsageProblem
from conformance.settings.assumptions import number
from conformance.settings.images import ImageChoice as ImageChoice
from conformance.settings.images import Images as Images
from conformance.settings.images import Mirror as Mirror
from conformance.settings.images import PodLimits as PodLimits
from conformance.settings.images import load_choices as load_choices
from conformance.settings.timings import OsTimings as OsTimings
from conformance.settings.timings import RunTimings as RunTimings
from conformance.settings.timings import Timings as Timings
from conformance.settings.timings import load_timings as load_timings

EXTERNAL_PORT = 80
"""The port of a target outside the cluster that is named without a port."""

OWN = "calico-demo"
"""The beginning of the names of namespaces that runs create themselves."""
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_TOLERATION = re.compile(
    r"(?P<key>[A-Za-z0-9./_-]+)(?:=(?P<value>[A-Za-z0-9._-]*))?"
    r"(?::(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?"
)


@dataclass(frozen=True, kw_only=True)
class Toleration:
    """A taint that the suite's pods tolerate, in addition to the usual Windows and control-plane
    taints."""

    key: str
    """The taint's key."""
    value: str | None = None
    """The taint's value; None: any value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; None: all effects."""

    @classmethod
    def parse(cls, text: str) -> Toleration:
        """Parse ``key[=value][:effect]`` as ``--tolerate`` takes it. Raise UsageProblem."""
        match = _TOLERATION.fullmatch(text)
        if not match:
            raise UsageProblem(
                f"--tolerate {text}: expected KEY[=VALUE][:EFFECT]; EFFECT is NoSchedule, PreferNoSchedule or NoExecute"
            )
        return cls(key=match["key"], value=match["value"], effect=match["effect"])  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Limits from which the number of workers of ``-n auto`` is computed, given the load of a
    worker on each covered node. Workers mostly wait, so CPUs do not limit their number."""

    at_least: int = 1
    """The minimum number of workers. A single worker already covers every node."""
    at_most: int = 8
    """The maximum number of workers, each with its own pods. Kubernetes' netpol suite uses 3
    workers, Calico's Windows lanes 1."""
    on_busy: int = 3
    """The maximum number of workers on a busy machine that the run shares with its lab. A run with
    a single worker would take six times as long; with six workers a policy change takes half of its
    budget (``plugin.options``).
    """
    per_windows_node: int = number("WIN-STARTS-AT-ONCE")
    """The maximum number of workers per Windows node. Each worker starts PowerShell on a covered
    Windows node; a start takes 2 to 4 s and a core (dotnet-framework-docker#25)."""
    powershell_starts: int = number("WIN-STARTS-AT-ONCE")
    """The maximum number of simultaneous PowerShell starts on a Windows node, by all workers."""
    addresses: int = 9
    """The addresses that a worker needs on each covered Windows node: a client, a server, a client
    in the second namespace, a new pod, the two replicas of the web server, and two seats and a
    bystander (pods for worlds of policies)."""
    memory: int = 9 * 256
    """The memory that a worker's pods request on each covered Windows node, in MiB."""
    agents_per_node: int = 4
    """The number of a worker's agents on each covered node: in three pods, and in a new pod on
    Windows or on the node itself on Linux."""
    agents_per_windows_node: int = number("WIN-AGENTS")
    """The maximum number of live agents on a Windows node, of all workers: parallel execs have made
    Windows nodes unusable (kubernetes#124700). The number suffices for two workers, each with
    agents in four pods and two more agents for streams."""
    agents: int = 60
    """The maximum number of live agents of all workers: each agent holds an exec stream through API
    server and kubelet."""
    lab_files: int = 700
    """The number of open files of a process of the run's own lab, without the files that each
    worker adds."""
    files: int = 450
    """The number of open files that each worker adds to a process of the run's own lab: the process
    had 1,148 open files with one worker, 3,162 with six."""
    watch: int = 2
    """The number of pods of the standing watch on each covered node, and of agents in them; 0: no
    standing watch (``--no-watch``)."""

    def on_windows_nodes(self, workers: int) -> Workers:
        """Return the limits that allow this number of workers on a Windows node: program starts,
        agents per node, and total agents.

        The limits of memory and addresses are read from the nodes instead.
        """
        usual = Workers()
        return replace(
            self,
            per_windows_node=workers,
            powershell_starts=workers,
            agents_per_windows_node=workers
            * (usual.agents_per_windows_node // usual.per_windows_node),
            agents=workers * (usual.agents // usual.per_windows_node),
        )


@dataclass(frozen=True, kw_only=True)
class Cover:
    """The nodes that a run decides on (:mod:`conformance.pods.coverage`)."""

    at_most: int = 3
    """The maximum number of nodes of each operating system (``--max-nodes-per-os``); only the first
    node of each Windows build may exceed it. Each node costs pods and agents of the suite. A third
    node shows faults that two nodes cannot show: faults of a node between two other nodes."""
    nodes: tuple[str, ...] = ()
    """The only covered nodes, for each operating system with a node in this list (``--nodes``)."""
    selector: str = ""
    """Only nodes with these labels are covered (``--node-selector``)."""
    every: bool = False
    """All nodes are covered (``--every-node``)."""
    pairs: int = 256
    """The maximum number of ordered pairs of nodes that a test tries at once; 16 nodes have as
    many. With three paths for each pair these are 768 paths, which two cores can carry together
    with the lab. With twenty nodes on two cores, 1,200 paths were late."""


@dataclass(frozen=True, kw_only=True)
class OwnPod:
    """The pod in which the run itself takes place (``--cluster in-cluster``)."""

    node: str = ""
    """The pod's node; empty: not known."""
    overlay: str = ""
    """The reason why the pod's path to the API server may cross the overlay; empty: it does not."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a run."""

    timings: Timings = field(default_factory=load_timings)
    """The time limits, per operating system."""
    images: Images = field(default_factory=Images)
    """The sources of images."""
    pod_limits: PodLimits | None = None
    """The resource limits of every container (``--pod-limits``); None: no limits."""
    tolerations: tuple[Toleration, ...] = ()
    """Further taints that the suite's pods tolerate (``--tolerate``)."""
    cover: Cover = field(default_factory=Cover)
    """The choice of nodes on which the run decides."""
    workers: Workers = field(default_factory=Workers)
    """The limits of ``-n auto``."""
    calicoctl: Path | None = None
    """A calicoctl that writes Calico objects if projectcalico.org/v3 is not served
    (``--calicoctl``)."""
    calico_version: str | None = None
    """The version of Calico by which claims are judged instead of the detected version
    (``--calico-version``)."""
    windows_calico_version: str | None = None
    """The version by which Windows nodes are judged, since they may run another version of Calico
    than Linux nodes (``--windows-calico-version``)."""
    external_target: tuple[str, int] | None = None
    """Address and TCP port of a host outside the cluster that answers ping (``--external-target``);
    a lab of the run's own provides such a host."""
    dry_run: bool = False
    """Describe changes instead of making them (``--dry-run``)."""
    plan: bool = False
    """Print the tests that would run, and end (``--plan``)."""
    verified_only: bool = False
    """Refuse a cluster whose TLS certificate is not verified, because a gate relies on the
    cluster's answers.
    """
    max_minutes: float | None = None
    """Minutes after which no further test begins (``--max-minutes``); None: no limit."""
    namespaces_prefix: str = ""
    """Run in namespaces with this prefix that the cluster's owner has prepared
    (``--namespaces-prefix``); empty: in namespaces of the run's own."""
    keep: bool = False
    """Leave the run's objects behind (``--keep``)."""
    capture_packets: bool = False
    """Capture packets of a failing path while it is tried again (``--capture-packets``)."""
    disruptive: bool = False
    """Tests that change a whole node may run (``--allow-disruptive``)."""
    cluster_disruptive: bool = False
    """Tests that change objects of the whole cluster may run (``--allow-cluster-disruptive``)."""
    not_cluster_disruptive: str = ""
    """The reason why cluster-disruptive tests may not run although the option allows them; empty:
    they may run, or the option was not given."""
    max_disrupted_nodes: int = 4
    """The maximum number of Windows nodes that a change of the whole cluster may affect
    (``--max-disrupted-nodes``). The nodes are drained one after the other, and restoring takes the
    same time again."""
    delete_emptydir_data: bool = False
    """Pods with emptyDir may be evicted, which deletes their data (``--delete-emptydir-data``)."""
    node_fill: bool = False
    """Tests may fill a Windows node with pause pods (``--allow-node-fill``)."""
    load_balancer: bool = False
    """Services may request load balancers (``--allow-load-balancer``)."""
    not_disruptive: str = ""
    """The reason why tests that fill a node may not run although the option allows them; empty:
    they may run, or the option was not given."""
    disruptive_node: str = ""
    """The only node on which tests may change a whole node (``--disruptive-node``); empty: any
    node."""
    own_pod: OwnPod | None = None
    """The pod in which the run takes place; None: the run is in no pod of the cluster."""
    shard: str = ""
    """The part of the tests that runs, ``1/3`` (``--shard``); empty: all."""
    clearing_up: float = 20.0
    """Seconds after an interruption to remove objects and to restore changes. CI systems kill a
    process that does not end in time (GitHub Actions after 7.5 s more, Kubernetes after 30 s unless
    a pod specifies another time). The run names changes and objects that are left; the next run
    restores and removes them."""
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The rights that the run's user lacks, for each need of tests; tests with such a need do not
    run."""
    token_ends: float | None = None
    """The Unix time at which the user's credentials end, if nothing renews them; None: not known,
    or never."""
    run_id: str = "local"
    """A short name of the run, which is part of the names of its namespaces."""
    worker: str = "main"
    """A short name of this process, ``main`` or ``gw0``, ``gw1`` ..., which is part of the names of
    its namespaces."""

    @property
    def reads_only(self) -> bool:
        """Return whether the run only reads from the cluster, whatever its other options."""
        return self.dry_run or self.plan


def prefix_problem(text: str) -> str:
    """Return the reason why names of namespaces cannot begin with a text; empty if they can."""
    if not _PREFIX.fullmatch(text):
        return "expected at most 40 lower-case letters, digits and hyphens, with no hyphen at the beginning or end"
    return (
        f"{OWN} is reserved for namespaces that runs create; choose another prefix"
        if text.startswith(OWN)
        else ""
    )


def external_target(text: str) -> tuple[str, int]:
    """Parse ``198.51.100.10`` or ``198.51.100.10:443``. Raise UsageProblem."""
    address, colon, port = text.partition(":")
    try:
        ipaddress.IPv4Address(address)
        number = int(port) if colon else EXTERNAL_PORT
        if not 0 < number < 65536:
            raise ValueError(f"{number} is not a port")
    except ValueError as error:
        raise UsageProblem(
            f"--external-target {text}: expected an IPv4 address, with or without a port, such as 198.51.100.10:443 ({error})"
        ) from None
    return address, number
