# SPDX-License-Identifier: Apache-2.0
"""The content of a claim: its statement, its sources, the clusters it applies to, and the
requirements of its check."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal

from conformance.catalog.versions import Range
from conformance.model.claim import ClaimKind
from conformance.model.endpoint import OS


class Modality(StrEnum):
    """The modality of a statement: it holds always, or can happen."""

    ALWAYS = "always"
    CAN_HAPPEN = "can happen"
    """If a witness shows that its cause took effect, the absence of the effect is no
    contradiction."""


class IsolationKind(StrEnum):
    """The tests that may run at the same time as a claim's tests."""

    PARALLEL = "parallel"
    NODE_EXCLUSIVE = "node-exclusive"
    """Nothing else on one node of ``os``."""
    DISRUPTIVE = "disruptive"
    """Nothing else on the cluster; everything is put back."""
    MANUAL = "manual"
    """No program can decide it; listed, never run."""


@dataclass(frozen=True)
class Isolation:
    """Kind, and for node-exclusive tests the operating system of the node."""

    kind: IsolationKind
    os: OS | None = None

    def __str__(self) -> str:
        """Return the form in the catalog: ``node-exclusive(windows)``."""
        return f"{self.kind}({self.os})" if self.os else str(self.kind)


PARALLEL = Isolation(IsolationKind.PARALLEL)


@dataclass(frozen=True)
class Source:
    """The publication of a statement."""

    title: str
    url: str
    where: str = ""
    """Versions of the document, or the path in the source code."""

    def __str__(self) -> str:
        """Return ``Calico for Windows, Requirements (v3.16-v3.32)``."""
        return f"{self.title} ({self.where})" if self.where else self.title


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The clusters that a claim is about; all given conditions must hold, an absent condition
    always does."""

    modes: tuple[str, ...] = ()
    calico: Range | None = None
    kubernetes: Range | None = None
    platforms: tuple[str, ...] = ()
    windows_builds: Range | None = None
    """At least one Windows node's ``build.revision`` lies in it."""
    datastores: tuple[str, ...] = ()
    installs: tuple[str, ...] = ()
    cnis: tuple[str, ...] = ()
    dsr: bool | None = None
    """Whether direct server return must be effective (by build and --enable-dsr) on at least one
    Windows node, or must not be."""
    ipam: tuple[str, ...] = ()
    """IPAM plugin of pods; of the Windows nodes' own, where the claim is about Windows."""
    windows_plane: tuple[str, ...] = ()
    """The plane of Windows pods, ``overlay`` or ``l2bridge``, on at least one Windows node."""
    single_network: bool | None = None
    """Calico keeps each Windows node to one network."""
    mesh: bool | None = None
    """BGP's node-to-node mesh is on."""
    dual_stack: bool | None = None
    """Pods get addresses of both IP versions."""
    two_nodes: bool | None = None
    """There are an untainted Linux node of the control plane, a Windows node, and no other."""
    kube_proxy_pods: bool | None = None
    """kube-proxy runs in a pod on every Windows node, and not as a service of the host."""

    @property
    def plain(self) -> dict[str, Any]:
        """Return the conditions that are given, as the catalog's YAML has them."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            name: list(value)
            if isinstance(value, tuple)
            else str(value)
            if isinstance(value, Range)
            else value
            for name, value in given.items()
            if value not in (None, ())
        }

    def __str__(self) -> str:
        """Return ``modes vxlan; dsr true``, in the catalog's words."""
        return "; ".join(
            f"{name} {', '.join(value) if isinstance(value, list) else str(value).lower()}"
            for name, value in self.plain.items()
        )

    def missing(self, demanded: Conditions) -> Conditions:
        """Return the demanded conditions that do not follow from these conditions."""

        def implied(name: str) -> bool:
            own = getattr(self, name)
            wanted = getattr(demanded, name)
            return (
                bool(own) and set(own) <= set(wanted)
                if isinstance(own, tuple)
                else bool(own == wanted)
            )

        return Conditions(
            **{name: getattr(demanded, name) for name in demanded.plain if not implied(name)}
        )


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The requirements on a cluster for a check to be possible. A *demand* of a claim is different:
    the check decides whether the cluster meets it."""

    linux: int = 0
    """Schedulable Linux nodes."""
    windows: int = 0
    """Schedulable Windows nodes."""
    host_network: bool = False
    """The run's namespaces may hold hostNetwork pods."""
    host_process: bool = False
    """HostProcess pods may run on Windows nodes."""
    v3_api: bool = False
    """projectcalico.org/v3 is served."""
    calico_policy: bool = False
    """Calico policies can be written: projectcalico.org/v3 is served, or calicoctl was given."""
    calicoctl: bool = False
    """``--calicoctl=PATH`` was given."""
    vni_delivery: bool = False
    """Something in the cluster carries a VNI to Windows nodes: the operator, or Calico's DaemonSet there."""
    node_fill: bool = False
    """Pods may fill a Windows node: ``--allow-node-fill``."""
    lab: bool = False
    """The cluster is a lab: others are not filled so."""
    load_balancer: bool = False
    """A Service may ask for a load balancer: ``--allow-load-balancer``."""
    external_target: bool = False
    """A host beyond the cluster that answers ping and TCP: ``--external-target ADDRESS``; a lab has its own."""
    outside: str = ""
    """Something beyond the cluster, in words."""

    def plus(self, other: Needs) -> Needs:
        return Needs(
            **{
                one.name: max(getattr(self, one.name), getattr(other, one.name))
                for one in fields(self)
            }
        )


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A documented, testable statement."""

    id: str
    area: str
    """Name of its area, the epic in reports."""
    statement: str
    kind: ClaimKind
    modality: Modality
    sources: tuple[Source, ...]
    verify: str
    tags: frozenset[str]
    applies: Conditions = field(default_factory=Conditions)
    needs: Needs = field(default_factory=Needs)
    isolation: Isolation = PARALLEL
    """Isolation of the check, or of its read-only half where there is an active one."""
    active: Isolation | None = None
    """Isolation of the half that changes something, where the claim has one; tests say ``active=True``."""
    denial: bool = False
    """The claim states that a path is closed, or which policy keeps other paths open: it cannot be
    shown without a path that was observed closed."""
    holds: str = ""
    """The observation if the claim holds, in one sentence."""
    fails: str = ""
    """The observation if the claim does not hold."""
    danger: str = ""
    """The danger of a CONFIRMED limitation that leaves a path open that policy closes."""
    origin: Literal[""] | str = ""
    """``file:line`` in the catalog."""
