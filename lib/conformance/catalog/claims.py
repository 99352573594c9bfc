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
    """The modality of a statement: the statement always holds, or it describes an effect that can
    happen."""

    ALWAYS = "always"
    CAN_HAPPEN = "can happen"
    """The statement describes an effect that can happen. If a witness shows that the cause was
    present but the effect is absent, this does not contradict the statement."""


class IsolationKind(StrEnum):
    """Kinds of isolation: which tests may run at the same time as a claim's tests."""

    PARALLEL = "parallel"
    NODE_EXCLUSIVE = "node-exclusive"
    """No other test uses this test's node at the same time. ``Isolation.os`` is the operating
    system of that node."""
    DISRUPTIVE = "disruptive"
    """No other test runs on the cluster; everything is restored afterwards."""
    MANUAL = "manual"
    """No program can decide the claim. Lists show it, and no test runs it."""


@dataclass(frozen=True)
class Isolation:
    """The kind of isolation; for node-exclusive tests, also the operating system of the node."""

    kind: IsolationKind
    os: OS | None = None

    def __str__(self) -> str:
        """Return the form in the catalog: ``node-exclusive(windows)``."""
        return f"{self.kind}({self.os})" if self.os else str(self.kind)


PARALLEL = Isolation(IsolationKind.PARALLEL)


@dataclass(frozen=True)
class Source:
    """The document or code that states a claim."""

    title: str
    url: str
    where: str = ""
    """The document's versions, or the path in the source code."""

    def __str__(self) -> str:
        """Return ``Calico for Windows, Requirements (v3.16-v3.32)``."""
        return f"{self.title} ({self.where})" if self.where else self.title


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The clusters that a claim is about. All given conditions must hold; a condition that is not
    given always holds."""

    modes: tuple[str, ...] = ()
    calico: Range | None = None
    kubernetes: Range | None = None
    platforms: tuple[str, ...] = ()
    windows_builds: Range | None = None
    """The ``build.revision`` of at least one Windows node lies in this range."""
    datastores: tuple[str, ...] = ()
    installs: tuple[str, ...] = ()
    cnis: tuple[str, ...] = ()
    dsr: bool | None = None
    """True: direct server return must be effective (by build and --enable-dsr) on at least one
    Windows node. False: it must not be effective."""
    ipam: tuple[str, ...] = ()
    """The IPAM plugin of pods; the plugin of the Windows nodes if the claim is about Windows."""
    windows_plane: tuple[str, ...] = ()
    """The plane of Windows pods, ``overlay`` or ``l2bridge``, on at least one Windows node."""
    single_network: bool | None = None
    """Calico restricts each Windows node to a single HNS network."""
    mesh: bool | None = None
    """BGP's node-to-node mesh is on."""
    dual_stack: bool | None = None
    """Pods get addresses of both IP versions."""
    two_nodes: bool | None = None
    """The cluster has exactly two nodes: an untainted Linux control-plane node, and a Windows
    node."""
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
        """Return ``modes vxlan; dsr true``, in the catalog's wording."""
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
    """The requirements on a cluster without which a check is impossible. A *demand* of a claim is
    different: the check itself decides it."""

    linux: int = 0
    """The number of schedulable Linux nodes."""
    windows: int = 0
    """The number of schedulable Windows nodes."""
    host_network: bool = False
    """The run's namespaces may contain hostNetwork pods."""
    host_process: bool = False
    """HostProcess pods may run on Windows nodes."""
    v3_api: bool = False
    """projectcalico.org/v3 is served."""
    calico_policy: bool = False
    """Calico policies can be written: projectcalico.org/v3 is served, or calicoctl was given."""
    calicoctl: bool = False
    """``--calicoctl=PATH`` was given."""
    vni_delivery: bool = False
    """The cluster has a component that delivers a VNI to Windows nodes: the operator, or Calico's
    DaemonSet for Windows nodes."""
    node_fill: bool = False
    """Pods may fill a Windows node: ``--allow-node-fill``."""
    lab: bool = False
    """The cluster is a lab. The check runs on no other kind of cluster."""
    load_balancer: bool = False
    """A Service may ask for a load balancer: ``--allow-load-balancer``."""
    external_target: bool = False
    """A host outside the cluster answers ping and TCP: ``--external-target ADDRESS``. A lab has a
    host of its own for this."""
    outside: str = ""
    """A description of equipment that the check needs outside the cluster; empty if it needs
    none."""

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
    """The name of the claim's area, which reports show as the epic."""
    statement: str
    kind: ClaimKind
    modality: Modality
    sources: tuple[Source, ...]
    verify: str
    tags: frozenset[str]
    applies: Conditions = field(default_factory=Conditions)
    needs: Needs = field(default_factory=Needs)
    isolation: Isolation = PARALLEL
    """The isolation of the check. If a half of the check changes something, this is the isolation
    of the read-only half."""
    active: Isolation | None = None
    """The isolation of the half of the check that changes something; None: the check has no such
    half. Tests of this half are marked ``active=True``."""
    denial: bool = False
    """The claim states that a path is closed, or that a policy closes some paths and leaves others
    open. A test can show the claim only with a path that was observed closed."""
    holds: str = ""
    """The observation if the claim holds, in one sentence."""
    fails: str = ""
    """The observation if the claim does not hold."""
    danger: str = ""
    """The danger if a limitation is CONFIRMED and leaves a path open that a policy should close."""
    origin: Literal[""] | str = ""
    """The claim's place in the catalog, ``file:line``."""
