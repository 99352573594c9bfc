"""Starts a lab whose own code is patched in one place: ``python patched_lab.py PATCH up ...``.

The patches live here and not in the lab: nothing that a user can start knows them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lib"))


def windows_allows_what_policy_denies() -> None:
    """On Windows the end of a tier that no rule matched allows instead of denying."""
    from hybridlab.policy import acls
    from hybridlab.policy.flattener import tier_rules

    def patched(policies: Any, end: Any) -> Any:
        *rules, last = tier_rules(policies, end)
        return [*rules, replace(last, action="Allow") if last.action == "Block" else last]

    acls.tier_rules = patched  # type: ignore[attr-defined]


def allow_rules_deny() -> None:
    """Every rule that allows denies, on both operating systems."""
    from hybridlab.policy.policy import Policy

    true = Policy.rules

    def patched(self: Policy, direction: Any) -> Any:
        rules = true(self, direction)
        return tuple(replace(rule, action="deny") if rule.action == "allow" else rule for rule in rules)

    Policy.rules = patched  # type: ignore[method-assign]


def ports_are_ignored() -> None:
    """Rules match every destination port."""
    from hybridlab.policy.policy import Policy, Ports

    true = Policy.rules

    def patched(self: Policy, direction: Any) -> Any:
        rules = true(self, direction)
        return tuple(replace(rule, destination=replace(rule.destination, ports=Ports())) for rule in rules)

    Policy.rules = patched  # type: ignore[method-assign]


def kubelet_probes_of_windows_pods_fail() -> None:
    """Every probe that the kubelet sends to the address of a pod on a Windows node fails; those in the pod do not."""
    from hybridlab.controllers.probes import Prober
    from hybridlab.runtime.model import ProbeResult

    true = Prober._probe

    async def patched(self: Any, probe: Any) -> Any:
        if "windows" in self._pod["spec"].get("nodeName", "") and "exec" not in probe:
            return ProbeResult(ok=False, message="connect: connection timed out")
        return await true(self, probe)

    Prober._probe = patched  # type: ignore[method-assign]


def acl_lists_look_unchanged() -> None:
    """HNS shows nothing of an endpoint's ACL list but what Calico always puts there, whatever was given anew."""
    from hybridlab.calico.acl_lists import AclLists
    from hybridlab.policy.acls import shown

    def patched(self: Any) -> Any:
        return {endpoint: shown(acls)[:1] for endpoint, acls in self._given.items()}

    AclLists.shown = patched  # type: ignore[method-assign]


def every_update_replaces_lists() -> None:
    """Windows endpoints get their ACL list anew with every update, a label's change included, as before v3.31."""
    from hybridlab.calico.acl_lists import AclLists

    true = AclLists.__init__

    def patched(self: Any, calico_version: str) -> None:
        true(self, calico_version)
        self.every_update_replaces = True

    AclLists.__init__ = patched  # type: ignore[method-assign]


def _misread(node: str, made: Callable[[Any, str], list[Any]]) -> None:
    """The Felix of nodes whose name contains this has other rules: ``made`` of a rule and its direction."""
    from hybridlab.calico.felix_faults import FelixFaults

    true = FelixFaults.read

    def rules(policy: Any, direction: str) -> Any:
        return tuple(other for rule in getattr(policy, direction) for other in made(rule, direction))

    def patched(self: Any, tiers: Any) -> Any:
        if node not in self.node:
            return true(self, tiers)
        return tuple(
            replace(
                tier,
                policies=tuple(
                    replace(policy, ingress=rules(policy, "ingress"), egress=rules(policy, "egress"))
                    for policy in tier.policies
                ),
            )
            for tier in true(self, tiers)
        )

    FelixFaults.read = patched  # type: ignore[method-assign]


def exceptions_are_ignored() -> None:
    """Addresses that a rule leaves out of its block are let in with the rest, on both operating systems."""
    _misread("", lambda rule, _: [replace(rule, source=replace(rule.source, not_nets=()))])


def port_ranges_are_cut_or_long() -> None:
    """On windows-2019 a range of ports is its first one, on linux-2 it ends one port later."""

    def changed(change: Callable[[int, int], tuple[int, int]]) -> Callable[[Any, str], list[Any]]:
        def made(rule: Any, _: str) -> list[Any]:
            ports = replace(rule.destination.ports, ranges=tuple(change(*one) for one in rule.destination.ports.ranges))
            return [replace(rule, destination=replace(rule.destination, ports=ports))]

        return made

    _misread("windows-2019", changed(lambda first, _: (first, first)))
    _misread("linux-2", changed(lambda first, last: (first, last + (last > first))))


def _one_port_entry(which: slice) -> None:
    """On windows-2022 and linux-1 a rule's list of ports is one of its entries."""

    def made(rule: Any, _: str) -> list[Any]:
        ports = replace(rule.destination.ports, ranges=rule.destination.ports.ranges[which])
        return [replace(rule, destination=replace(rule.destination, ports=ports))]

    _misread("windows-2022", made)
    _misread("linux-1", made)


def first_of_several_ports() -> None:
    """On windows-2022 and linux-1 a rule's list of ports is its first entry."""
    _one_port_entry(slice(1))


def last_of_several_ports() -> None:
    """On windows-2022 and linux-1 a rule's list of ports is its last entry."""
    _one_port_entry(slice(-1, None))


def port_names_mean_all_or_nothing() -> None:
    """On linux-1 a rule with a port's name is for every port of its protocol, on linux-3 for none."""

    def made(rule: Any, _: str) -> list[Any]:
        ports = replace(rule.destination.ports, names=())
        return [replace(rule, destination=replace(rule.destination, ports=ports))]

    _misread("linux-1", made)
    _misread("linux-3", lambda rule, _: [] if rule.destination.ports.names else [rule])


def egress_datagrams_without_port_or_at_all() -> None:
    """On windows-2019 egress rules for UDP are for every port, on linux-2 there are none."""
    from hybridlab.policy.policy import Ports

    def any_port(rule: Any, direction: str) -> list[Any]:
        datagrams = direction == "egress" and rule.protocol == "udp"
        return [replace(rule, destination=replace(rule.destination, ports=Ports())) if datagrams else rule]

    _misread("windows-2019", any_port)
    _misread("linux-2", lambda rule, direction: [] if (direction, rule.protocol) == ("egress", "udp") else [rule])


def either_selector_is_enough() -> None:
    """What one of a peer's two selectors selects is let in, on both operating systems."""
    from hybridlab.policy import kubernetes_policy

    true = kubernetes_policy._rules

    def patched(rule: Any, peers: str, side: str) -> Any:
        alone = [{key: value} for peer in rule.get(peers) or () for key, value in peer.items()]
        return true({**rule, peers: alone}, peers, side)

    kubernetes_policy._rules = patched


def service_accounts_are_ignored() -> None:
    """A rule for service accounts is for everybody, on both operating systems."""
    from hybridlab.policy import policy

    policy._accounts = lambda accounts: ""


def service_accounts_are_nobodys() -> None:
    """No pod has a service account: a rule for some is for nobody, on both operating systems."""
    from hybridlab.policy import policy

    policy._accounts = lambda accounts: "has(account)" if accounts else ""


def negations_are_ignored() -> None:
    """A negation in a selector holds for everybody, on both operating systems."""
    from hybridlab.policy.selectors import In, Not

    true = In.matches

    def among(self: Any, labels: Any) -> bool:
        return self.negated or true(self, labels)

    def anybody(self: Any, labels: Any) -> bool:
        return True

    In.matches = among  # type: ignore[method-assign]
    Not.matches = anybody  # type: ignore[method-assign]


def labels_of_namespaces_stay() -> None:
    """Felix knows the labels alone that a namespace had when it came."""
    from hybridlab.policy.resolve import Graph

    true = Graph.set_namespace

    def patched(self: Any, name: str, labels: Any) -> None:
        if labels is None or name not in self._namespaces:
            true(self, name, labels)

    Graph.set_namespace = patched  # type: ignore[method-assign]


def namesake_policies_collide() -> None:
    """A policy takes the place of one of its name in another namespace."""
    from hybridlab.policy.resolve import Graph

    true = Graph.set_policy

    def patched(self: Any, policy: Any) -> None:
        for key in list(self._policies):
            if (key.name, key.kind) == (policy.key.name, policy.key.kind) and key.namespace != policy.key.namespace:
                self.remove_policy(key)
        true(self, policy)

    Graph.set_policy = patched  # type: ignore[method-assign]


def edits_of_kubernetes_policies_are_ignored() -> None:
    """A policy of Kubernetes stays what it was when it came."""
    from hybridlab.policy.resolve import Graph

    true = Graph.set_policy

    def patched(self: Any, policy: Any) -> None:
        if policy.key not in self._policies or policy.key.kind != "KubernetesNetworkPolicy":
            true(self, policy)

    Graph.set_policy = patched  # type: ignore[method-assign]


def removals_take_all_policies() -> None:
    """With a policy go all others of its namespace."""
    from hybridlab.policy.resolve import Graph

    true = Graph.remove_policy

    def patched(self: Any, key: Any) -> None:
        for other in [other for other in self._policies if other.namespace == key.namespace]:
            true(self, other)

    Graph.remove_policy = patched  # type: ignore[method-assign]


def policies_keep_to_first_labels() -> None:
    """On linux-2 and windows-2019 a pod is under the policies that select the labels which it came with."""
    from hybridlab.policy.resolve import Graph

    true, first = Graph._apply_policy, dict[str, Any]()

    def patched(self: Any, uid: str, endpoint: Any, policy: Any, **how: bool) -> None:
        labels = first.setdefault(uid, endpoint.labels)
        stays = endpoint.node in {"linux-2", "windows-2019"}
        true(self, uid, replace(endpoint, labels=labels) if stays else endpoint, policy, **how)

    Graph._apply_policy = patched  # type: ignore[method-assign]


def policies_reach_namesakes() -> None:
    """A policy selects pods of other namespaces too that have the labels that it asks for."""
    from hybridlab.policy import policy

    true = policy._policy_selector

    def patched(spec: Any, namespace: str) -> str:
        own = namespace.startswith("calico-demo") and spec.get("selector")
        return str(own or true(spec, namespace))

    policy._policy_selector = patched


def _service_ports(changed: Callable[[str, Any], Any]) -> None:
    """Each node has other Service ports: ``changed`` of the node and the port."""
    from hybridlab.faults.service_gate import ServiceGate

    true = ServiceGate.set_services

    async def patched(self: Any, node: str, table: Any) -> None:
        await true(self, node, replace(table, ports=tuple(changed(node, port) for port in table.ports)))

    ServiceGate.set_services = patched  # type: ignore[method-assign]


def services_lead_to_their_own_port() -> None:
    """On windows-2019 the port of the run's Services is taken for that of their backends."""

    def changed(node: str, port: Any) -> Any:
        if node != "windows-2019" or not port.name.startswith("calico-demo"):
            return port
        return replace(port, backends=tuple(replace(backend, port=port.port) for backend in port.backends))

    _service_ports(changed)


def node_ports_for_streams_alone() -> None:
    """On linux-2 and windows-2019 NodePorts forward no datagrams."""
    nodes = {"linux-2", "windows-2019"}
    _service_ports(
        lambda node, port: replace(port, node_port=None) if node in nodes and port.protocol == "udp" else port
    )


def one_peer_has_another_vni() -> None:
    """linux-2 and windows-2019 send to windows-2022 alone with another VNI than their own."""
    from hybridlab.calico.felix_faults import FelixFaults

    true = FelixFaults.laid

    def patched(self: Any, block: Any) -> Any:
        wrong = self.node in {"linux-2", "windows-2019"} and block.node_address == "10.0.0.14"
        return replace(true(self, block), vni=4999) if wrong else true(self, block)

    FelixFaults.laid = patched  # type: ignore[method-assign]


def policies_stay_on_one_node() -> None:
    """On linux-2 what a policy closed stays closed once no policy applies any more."""
    from hybridlab.calico.felix_faults import FelixFaults

    true, last = FelixFaults.read, list[Any]()

    def patched(self: Any, tiers: Any) -> Any:
        read = true(self, tiers)
        if self.node != "linux-2":
            return read
        last[:] = [read] if read else last
        return read or (last[0] if last else read)

    FelixFaults.read = patched  # type: ignore[method-assign]


def one_policy_of_several() -> None:
    """On linux-2 and windows-2019 the first alone of a tier's policies for a pod is enforced."""
    from hybridlab.calico.felix_faults import FelixFaults

    true = FelixFaults.read

    def patched(self: Any, tiers: Any) -> Any:
        if self.node not in {"linux-2", "windows-2019"}:
            return true(self, tiers)
        return true(self, tuple(replace(tier, policies=tier.policies[:1]) for tier in tiers))

    FelixFaults.read = patched  # type: ignore[method-assign]


def new_pods_are_no_members() -> None:
    """On linux-3 and windows-2022 a selector's members are pods that were there when the first policy named it."""
    from hybridlab.calico.felix_faults import FelixFaults

    true, there = FelixFaults.members, dict[int, Any]()

    def patched(self: Any, sets: Any, name: str) -> Any:
        members = true(self, sets, name)
        if self.node not in {"linux-3", "windows-2022"}:
            return members
        _, old = there.setdefault(id(sets._sets[name]), (sets._sets[name], frozenset(sets._endpoints)))
        addresses = {sets._endpoints[uid].address for uid in old & sets._endpoints.keys()}
        return tuple(member for member in members if member in addresses)

    FelixFaults.members = patched  # type: ignore[method-assign]


def new_pods_are_members_whatever_their_labels() -> None:
    """A pod that comes after a policy is a member of the selectors that its rules have for pods of that namespace."""
    from hybridlab.policy.resolve import Graph

    true, later = Graph._refresh, dict[str, list[str]]()

    def patched(self: Any, pod: Any) -> None:
        if pod.uid not in self._endpoints and pod.namespace.startswith("calico-demo"):
            later[pod.uid] = list(self._sets_in.get(pod.namespace, ()))
        true(self, pod)
        for name in later.get(pod.uid, ()):
            if pod.address and name in self._sets and self._sets[name].contribute(pod.uid, (pod.address,)):
                self._set_due(name)

    Graph._refresh = patched  # type: ignore[method-assign]


def left_out_types_are_both() -> None:
    """A policy that does not say which directions it is about is about both."""
    from hybridlab.api.kinds.calico import PolicyStrategy
    from hybridlab.api.kinds.networking import NetworkPolicyStrategy

    def patch(strategy: Any, types: str) -> None:
        true = strategy.default

        def patched(self: Any, obj: Any) -> None:
            if not obj["spec"].get(types):
                obj["spec"][types] = ["Ingress", "Egress"]
            true(self, obj)

        strategy.default = patched

    patch(NetworkPolicyStrategy, "policyTypes")
    patch(PolicyStrategy, "types")


def empty_namespace_selectors_mean_the_own() -> None:
    """A rule's selector of all namespaces is taken for none: it is about the policy's own namespace."""
    from hybridlab.policy import policy

    true = policy.selectors_of

    def patched(peer: Any, namespace: str) -> tuple[str, str]:
        return true({**peer, "namespaceSelector": peer.get("namespaceSelector", "").replace("all()", "")}, namespace)

    policy.selectors_of = patched


def empty_pod_selectors_select_nobody() -> None:
    """A policy of the run's that is for all pods of its namespace is for none."""
    from hybridlab.policy import policy
    from hybridlab.policy.label_selectors import PODS_ONLY

    true = policy._policy_selector

    def patched(spec: Any, namespace: str) -> str:
        is_for_all = namespace.startswith("calico-demo") and spec.get("selector") in {PODS_ONLY, "all()"}
        return true({**spec, "selector": "!all()"} if is_for_all else spec, namespace)

    policy._policy_selector = patched


PATCHES: dict[str, Callable[[], None]] = {
    item.__name__.replace("_", "-"): item
    for item in (
        windows_allows_what_policy_denies,
        allow_rules_deny,
        ports_are_ignored,
        kubelet_probes_of_windows_pods_fail,
        acl_lists_look_unchanged,
        every_update_replaces_lists,
        exceptions_are_ignored,
        port_ranges_are_cut_or_long,
        first_of_several_ports,
        last_of_several_ports,
        port_names_mean_all_or_nothing,
        egress_datagrams_without_port_or_at_all,
        either_selector_is_enough,
        negations_are_ignored,
        service_accounts_are_ignored,
        service_accounts_are_nobodys,
        labels_of_namespaces_stay,
        namesake_policies_collide,
        edits_of_kubernetes_policies_are_ignored,
        removals_take_all_policies,
        policies_keep_to_first_labels,
        policies_reach_namesakes,
        services_lead_to_their_own_port,
        node_ports_for_streams_alone,
        one_peer_has_another_vni,
        policies_stay_on_one_node,
        one_policy_of_several,
        new_pods_are_no_members,
        new_pods_are_members_whatever_their_labels,
        left_out_types_are_both,
        empty_namespace_selectors_mean_the_own,
        empty_pod_selectors_select_nobody,
    )
}


if __name__ == "__main__":
    PATCHES[sys.argv[1]]()
    from hybridlab.cli.main import main

    sys.exit(main(sys.argv[2:]))
