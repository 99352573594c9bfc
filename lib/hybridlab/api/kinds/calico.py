# SPDX-License-Identifier: Apache-2.0
"""Calico's own kinds, with the defaults and checks of calico-apiserver and its datastore client
(v3.31).

The caller passes the function that checks the syntax of selectors, so that this package does not
depend on the parser of selectors.
"""

from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import Any, Final

from hybridlab.api.contract import Obj
from hybridlab.api.errors import (
    Cause,
    already_exists,
    forbidden,
    invalid_value,
    required,
    unexplained,
)
from hybridlab.api.kinds.calico_rules import SelectorProblem, policy_problems
from hybridlab.api.kinds.networking import cidr_problem
from hybridlab.api.kinds.strategy import Strategy, fill
from hybridlab.api.kinds.values import in_range, invalid_if, malformed, one_of, unchanged
from hybridlab.api.store import Store
from hybridlab.api.views import other_name

GROUP: Final = "projectcalico.org"
POLICIES: Final = (
    "networkpolicies",
    "stagednetworkpolicies",
    "globalnetworkpolicies",
    "stagedglobalnetworkpolicies",
)
BUILT_IN_TIERS: Final = frozenset(
    {"default", "adminnetworkpolicy", "baselineadminnetworkpolicy", "kube-admin", "kube-baseline"}
)
TIER_LABEL: Final = "projectcalico.org/tier"
_ENCAPSULATION = ("Always", "CrossSubnet", "Never")


class CalicoStrategy(Strategy):
    """Default strategy for Calico kinds.

    Calico's datastore client checks values, and a dry run ends before the object reaches this
    client.
    """

    unconditional_update = False
    checks_dry_runs = False


class PolicyStrategy(CalicoStrategy):
    """The rules of NetworkPolicies, GlobalNetworkPolicies and their staged twins."""

    def __init__(
        self,
        selector_problem: SelectorProblem,
        store: Store,
        storage: str,
        *,
        names_with_tier: bool,
    ) -> None:
        self._selector_problem = selector_problem
        self._store = store
        self._storage = storage
        self._names_with_tier = names_with_tier

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        meta = obj["metadata"]
        tier = spec.get("tier") or "default"
        spec["tier"] = tier
        meta["labels"] = {**(meta.get("labels") or {}), TIER_LABEL: tier}
        if not spec.get("types"):
            given = [name for name in ("Ingress", "Egress") if spec.get(name.lower())]
            spec["types"] = given or ["Ingress"]

    def prepare_create(self, obj: Obj) -> None:
        """Raise the error of Calico's datastore client: for a name without its tier, and for a name
        that is an alias of an existing policy."""
        name = obj["metadata"]["name"]
        namespace = obj["metadata"].get("namespace", "")
        tier = obj["spec"]["tier"]
        if not self._names_with_tier:
            return
        if not (name.startswith(f"{tier}.") or (tier == "default" and "." not in name)):
            raise unexplained(f"Incorrectly formatted policy name {name}")
        if self._store.bucket(self._storage).get((namespace, other_name(name))) is not None:
            raise already_exists(self._storage.partition(".")[0], GROUP, name)

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        spec = obj["spec"]
        tier = spec["tier"]
        if (
            tier not in BUILT_IN_TIERS
            and self._store.bucket(f"tiers.{GROUP}").get(("", tier)) is None
        ):
            yield Cause.of("FieldValueNotFound", "spec.tier", tier, "the tier does not exist")
        if old is not None:
            yield from unchanged("spec.tier", tier, old["spec"].get("tier", "default"))
        yield from policy_problems(obj["kind"], spec, self._selector_problem)


def net_problems(nets: list[str], at: str) -> Iterator[Cause]:
    """Yield a problem for each item of the list that is neither a network nor a single address."""
    for index, net in enumerate(nets):
        try:
            ip_network(net, strict=False)
        except ValueError:
            yield invalid_value(f"{at}[{index}]", net, "must be a valid IP address or CIDR")


class PoolStrategy(CalicoStrategy):
    """The rules of IPPools."""

    def __init__(self, selector_problem: SelectorProblem, store: Store) -> None:
        self._selector_problem = selector_problem
        self._store = store

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        version6 = ":" in spec.get("cidr", "")
        fill(
            spec,
            blockSize=122 if version6 else 26,
            ipipMode="Never",
            vxlanMode="Never",
            nodeSelector="all()",
            allowedUses=["Workload", "Tunnel"],
            assignmentMode="Automatic",
        )

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        spec = obj["spec"]
        cidr = spec["cidr"]
        size = spec["blockSize"]
        if problem := cidr_problem(cidr):
            yield invalid_value("spec.cidr", cidr, problem)
            return
        network: Any = ip_network(cidr, strict=False)
        low, high = (20, 32) if network.version == 4 else (116, 128)
        if not low <= size <= high:
            detail = f"block size must be between {low} and {high}"
            yield invalid_value("spec.blockSize", size, detail)
        elif network.prefixlen > size:
            yield invalid_value(
                "spec.cidr",
                cidr,
                "IP pool size is too small for use with Calico IPAM: it is smaller than a block",
            )
        for field in ("ipipMode", "vxlanMode"):
            yield from one_of(f"spec.{field}", spec[field], _ENCAPSULATION)
        yield from invalid_if(
            spec["ipipMode"] != "Never" and spec["vxlanMode"] != "Never",
            "spec.vxlanMode",
            spec["vxlanMode"],
            "ipipMode and vxlanMode cannot both be enabled",
        )
        for field in ("nodeSelector", "namespaceSelector"):
            text = spec.get(field)
            if text:
                yield from malformed(f"spec.{field}", text, self._selector_problem(text))
        for index, use in enumerate(spec["allowedUses"]):
            yield from one_of(
                f"spec.allowedUses[{index}]", use, ("Workload", "Tunnel", "LoadBalancer")
            )
        yield from one_of("spec.assignmentMode", spec["assignmentMode"], ("Automatic", "Manual"))
        if old is None:
            yield from self._overlaps(obj, network)
            return
        before = old["spec"]
        yield from invalid_if(
            before["cidr"] != cidr, "spec.cidr", cidr, "IPPool CIDR cannot be modified"
        )
        yield from invalid_if(
            before["blockSize"] != size,
            "spec.blockSize",
            size,
            "IPPool BlockSize cannot be modified",
        )

    def _overlaps(self, obj: Obj, network: Any) -> Iterator[Cause]:
        for other in self._store.bucket("ippools.projectcalico.org").within(None):
            theirs: Any = ip_network(other["spec"]["cidr"], strict=False)
            if theirs.version == network.version and theirs.overlaps(network):
                name = other["metadata"]["name"]
                detail = f"IPPool({obj['metadata']['name']}) CIDR overlaps with IPPool({name}) CIDR {theirs}"
                yield invalid_value("spec.cidr", obj["spec"]["cidr"], detail)


_FELIX_ENUMS: Final = {
    "logSeverityScreen": ("Trace", "Debug", "Info", "Warning", "Error", "Fatal"),
    "logSeverityFile": ("Trace", "Debug", "Info", "Warning", "Error", "Fatal"),
    "bpfLogLevel": ("Debug", "Info", "Off"),
    "logSeveritySys": ("Trace", "Debug", "Info", "Warning", "Error", "Fatal"),
    "windowsManageFirewallRules": ("Enabled", "Disabled"),
    "iptablesBackend": ("Legacy", "NFT", "Auto"),
    "nftablesMode": ("Disabled", "Enabled", "Auto"),
    "chainInsertMode": ("Insert", "Append"),
    "defaultEndpointToHostAction": ("Drop", "Accept", "Return"),
    "serviceLoopPrevention": ("Drop", "Reject", "Disabled"),
    "routeSource": ("WorkloadIPs", "CalicoIPAM"),
    "floatingIPs": ("Enabled", "Disabled"),
    "workloadSourceSpoofing": ("Disabled", "Any"),
}
_FELIX_RANGES: Final = {
    "vxlanPort": (1, 65535),
    "healthPort": (1, 65535),
    "prometheusMetricsPort": (1, 65535),
    "vxlanMTU": (0, 65535),
    "ipipMTU": (0, 65535),
}


class FelixConfigurationStrategy(CalicoStrategy):
    """The rules of FelixConfigurations."""

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        name = obj["metadata"]["name"]
        yield from invalid_if(
            name != "default" and not name.startswith("node."),
            "metadata.name",
            name,
            "must be 'default' or 'node.NODENAME'",
        )
        spec = obj["spec"]
        for field, allowed in _FELIX_ENUMS.items():
            yield from one_of(f"spec.{field}", spec.get(field, allowed[0]), allowed)
        for field, (low, high) in _FELIX_RANGES.items():
            yield from in_range(f"spec.{field}", spec.get(field, low), low, high)


class SingletonStrategy(CalicoStrategy):
    """A strategy for kinds with a single object, called ``default``."""

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        name = obj["metadata"]["name"]
        return invalid_if(name != "default", "metadata.name", name, "must be 'default'")


class TierStrategy(CalicoStrategy):
    """The rules of Tiers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check_delete(self, obj: Obj) -> None:
        """Refuse to delete a tier that Calico needs, or a tier with policies."""
        name = obj["metadata"]["name"]
        if name in BUILT_IN_TIERS:
            raise forbidden(
                "tiers",
                GROUP,
                name,
                f"operation Delete is not supported on {name}: Cannot delete {name} tier",
            )
        if any(
            policy["spec"].get("tier") == name
            for plural in POLICIES
            for policy in self._store.bucket(f"{plural}.{GROUP}").within(None)
        ):
            raise unexplained(
                f"operation delete is not supported on {name}: Cannot delete a non-empty tier"
            )

    def default(self, obj: Obj) -> None:
        obj["spec"].setdefault("defaultAction", "Deny")

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        spec = obj["spec"]
        yield from one_of("spec.defaultAction", spec["defaultAction"], ("Deny", "Pass"))
        yield from invalid_if(
            obj["metadata"]["name"] == "default" and spec.get("order") not in {None, 1000000},
            "spec.order",
            spec.get("order"),
            "default tier order must be 1000000",
        )


class NetworkSetStrategy(CalicoStrategy):
    """The rules of NetworkSets and GlobalNetworkSets."""

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        return net_problems(obj["spec"].get("nets") or [], "spec.nets")


class HostEndpointStrategy(CalicoStrategy):
    """The rules of HostEndpoints."""

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        spec = obj["spec"]
        if not spec.get("node"):
            yield required("spec.node", "no node name specified")
        if not spec.get("interfaceName") and not spec.get("expectedIPs"):
            yield required("spec.interfaceName", "no interface name or expected IPs specified")
        yield from net_problems(spec.get("expectedIPs") or [], "spec.expectedIPs")


_PLAIN: Final = (
    "bgpconfigurations",
    "bgpfilters",
    "bgppeers",
    "blockaffinities",
    "caliconodestatuses",
    "ipamblocks",
    "ipamhandles",
    "ipreservations",
    "profiles",
    "stagedkubernetesnetworkpolicies",
)


def calico_strategies(
    store: Store, selector_problem: SelectorProblem, *, names_with_tier: bool
) -> dict[str, Strategy]:
    """Return the strategies of Calico's stored kinds."""
    plain = CalicoStrategy()
    found: dict[str, Strategy] = dict.fromkeys(_PLAIN, plain)
    for plural in POLICIES:
        found[plural] = PolicyStrategy(
            selector_problem, store, f"{plural}.{GROUP}", names_with_tier=names_with_tier
        )
    found["ippools"] = PoolStrategy(selector_problem, store)
    found["felixconfigurations"] = FelixConfigurationStrategy()
    for plural in ("ipamconfigurations", "clusterinformations", "kubecontrollersconfigurations"):
        found[plural] = SingletonStrategy()
    found["tiers"] = TierStrategy(store)
    found["networksets"] = found["globalnetworksets"] = NetworkSetStrategy()
    found["hostendpoints"] = HostEndpointStrategy()
    return {f"{plural}.projectcalico.org": strategy for plural, strategy in found.items()}
