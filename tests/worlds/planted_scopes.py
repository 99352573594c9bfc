# SPDX-License-Identifier: Apache-2.0
"""Further planted misreadings about scopes: fields that leak from one rule into the next, peers
that are combined wrongly, policies that count only once, nodes and namespaces that are left out."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from conformance.policy import labels
from conformance.policy.selectors import calico_namespaces

Obj = dict[str, Any]
DIRECTIONS = ("ingress", "egress")
SIDES = ("source", "destination")
CALICO, K8S = "projectcalico.org", "networking.k8s.io"
NEGATIONS = {"notNets": "nets", "notPorts": "ports", "notSelector": "selector"}


def policies(objects: Sequence[Obj], api: str = "") -> Iterator[Obj]:
    """Yield the policies of an API."""
    for obj in objects:
        if obj["kind"].endswith("NetworkPolicy") and str(obj["apiVersion"]).startswith(api):
            yield obj


def lists(objects: Sequence[Obj], api: str = "") -> Iterator[list[Obj]]:
    """Yield the lists of rules."""
    for obj in policies(objects, api):
        yield from (obj["spec"][way] for way in DIRECTIONS if obj["spec"].get(way))


def peers(objects: Sequence[Obj]) -> Iterator[tuple[Obj, Obj]]:
    """Yield each Calico policy with each end of its rules."""
    for obj in policies(objects, CALICO):
        for way in DIRECTIONS:
            for rule in obj["spec"].get(way) or ():
                yield from ((obj, rule[side]) for side in SIDES if rule.get(side))


def first_ports_for_all(objects: list[Obj]) -> None:
    """Give all rules of a list the ports of the first rule that has ports."""
    for listed in lists(objects, K8S):
        ports = next((rule["ports"] for rule in listed if rule.get("ports")), None)
        for rule in listed:
            if ports and rule.get("ports"):
                rule["ports"] = ports


def protocol_stays(objects: list[Obj]) -> None:
    """Give a rule without a protocol the protocol of the rule before it."""
    for listed in lists(objects, CALICO):
        last = None
        for rule in listed:
            last = rule.get("protocol", last)
            if last is not None and "notProtocol" not in rule:
                rule["protocol"] = last


def source_stays(objects: list[Obj]) -> None:
    """Give a rule without a source the source of the rule before it."""
    for listed in lists(objects, CALICO):
        last: Obj = {}
        for rule in listed:
            last = rule.get("source") or last
            if last:
                rule["source"] = last


def alike_policies_once(objects: list[Obj]) -> None:
    """Of policies with the same rules, keep only the first, whatever pods they select."""
    known: set[str] = set()
    for obj in policies(objects):
        text = json.dumps([obj["spec"].get(way) for way in DIRECTIONS], sort_keys=True)
        if text in known:
            obj["kind"] = "Lost"
        known.add(text)
    objects[:] = [obj for obj in objects if obj["kind"] != "Lost"]


def directions_crossed(objects: list[Obj]) -> None:
    """Swap the rules of ingress and egress."""
    for obj in policies(objects, CALICO):
        spec = obj["spec"]
        rules = {way: spec.pop(way, None) for way in DIRECTIONS}
        spec.update(
            {way: rules[other] for way, other in zip(DIRECTIONS, DIRECTIONS[::-1], strict=True)}
        )


def negations_are_wanted(objects: list[Obj]) -> None:
    """Let a rule match exactly what it excludes."""
    for _, end in peers(objects):
        for negated, wanted in NEGATIONS.items():
            if negated in end:
                end[wanted] = end.pop(negated)


def ports_of_eight_bits(objects: list[Obj]) -> None:
    """Cut port numbers to their lower eight bits."""
    for _, end in peers(objects):
        for key in ("ports", "notPorts"):
            end[key] = [
                port % 256 if isinstance(port, int) and port % 256 else port
                for port in end.get(key) or ()
            ]
    for listed in lists(objects, K8S):
        for port in (port for rule in listed for port in rule.get("ports") or ()):
            if isinstance(port.get("port"), int) and port["port"] % 256 and "endPort" not in port:
                port["port"] %= 256


def peers_joined(objects: list[Obj]) -> None:
    """Join two peers, one of pods and one of namespaces, into a single peer that needs both."""
    for listed in lists(objects, K8S):
        for rule in listed:
            for side in ("from", "to"):
                if len(rule.get(side) or ()) > 1:
                    rule[side] = [{key: one[key] for one in rule[side] for key in one}]
                    if "ipBlock" in rule[side][0]:
                        rule[side] = [{"ipBlock": rule[side][0]["ipBlock"]}]


def peers_or_ports(objects: list[Obj]) -> None:
    """Let either a rule's peers or its ports be enough."""
    for listed in lists(objects, K8S):
        listed[:] = [
            {key: rule[key]} if key else {}
            for rule in listed
            for key in ([one for one in ("from", "to", "ports") if rule.get(one)] or [""])
        ]


def any_pod_selects_its_namespace(objects: list[Obj]) -> None:
    """Let a policy select all pods of its namespace."""
    for obj in policies(objects):
        if obj["kind"] == "NetworkPolicy":
            is_kubernetes = obj["apiVersion"].startswith(K8S)
            obj["spec"]["podSelector" if is_kubernetes else "selector"] = (
                {} if is_kubernetes else "all()"
            )


def one_policy_of_a_tier(objects: list[Obj]) -> None:
    """Of a tier's policies in a namespace, keep only the first in order."""
    found = sorted(policies(objects, CALICO), key=lambda obj: obj["spec"].get("order", 1e9))
    known: set[tuple[str, str]] = set()
    for obj in found:
        key = (obj["spec"].get("tier", ""), obj["metadata"].get("namespace", ""))
        if key in known:
            objects.remove(obj)
        known.add(key)


def pass_to_the_default_tier(objects: list[Obj]) -> None:
    """Let Pass go to the default tier at once, without the tiers between."""
    tiers = sorted(
        (obj for obj in objects if obj["kind"] == "Tier" and obj["metadata"]["name"] != "default"),
        key=lambda one: one["spec"].get("order", 1e9),
    )
    between = {tier["metadata"]["name"] for tier in tiers[1:]}
    objects[:] = [obj for obj in objects if obj.get("spec", {}).get("tier") not in between]


def own_namespaces_labels(objects: list[Obj]) -> None:
    """Test a peer's namespaceSelector on the policy's own namespace."""
    spaces = {
        obj["metadata"]["name"]: labels.of_namespace(obj)
        for obj in objects
        if obj["kind"] == "Namespace"
    }
    for obj, end in peers(objects):
        wanted = end.get("namespaceSelector")
        if obj["kind"] == "NetworkPolicy" and wanted:
            own = calico_namespaces(wanted).selects(spaces[obj["metadata"]["namespace"]])
            end["namespaceSelector"] = "all()"
            if not own:
                end["selector"] = "has(nobody)"


def peers_but_the_own_pods(objects: list[Obj]) -> None:
    """Let a rule's selector never match the pods that the policy selects."""
    for obj, end in peers(objects):
        own = obj["spec"].get("selector")
        if end.get("selector") and own and own.strip() != "all()":
            end["selector"] = f"({end['selector']}) && !({own})"


def services_of_the_own_namespace(objects: list[Obj]) -> None:
    """Ignore the namespace of a Service in a rule."""
    for obj, end in peers(objects):
        if end.get("services") and obj["kind"] == "NetworkPolicy":
            end["services"]["namespace"] = obj["metadata"]["namespace"]


def deny_is_of_tcp(objects: list[Obj]) -> None:
    """Limit Deny rules without a protocol to TCP."""
    for listed in lists(objects, CALICO):
        for rule in listed:
            if rule["action"] == "Deny" and "protocol" not in rule and "notProtocol" not in rule:
                rule["protocol"] = "TCP"


def lost_behind_several_ports(objects: list[Obj]) -> None:
    """Lose all rules after a rule with several ports."""
    for listed in lists(objects, CALICO):
        for number, rule in enumerate(listed):
            if any(len((rule.get(side) or {}).get("ports") or ()) > 1 for side in SIDES):
                del listed[number + 1 :]
                break


def values_of_one_character(objects: list[Obj]) -> None:
    """Compare only the first characters of values."""
    for obj, end in peers(objects):
        for holder in (end, obj["spec"]):
            if holder.get("selector"):
                holder["selector"] = re.sub(
                    r"(\S+) == '(\w)[^']*'", r"\1 starts with '\2'", holder["selector"]
                )


def accounts_of_any_namespace(objects: list[Obj]) -> None:
    """Know service accounts only by name: of accounts with the same name, the last one's labels
    count."""
    last = {
        obj["metadata"]["name"]: obj["metadata"].get("labels") or {}
        for obj in objects
        if obj["kind"] == "ServiceAccount"
    }
    for obj in objects:
        if obj["kind"] == "ServiceAccount":
            obj["metadata"]["labels"] = last[obj["metadata"]["name"]]


def global_policies_of_one_namespace(objects: list[Obj]) -> None:
    """Apply a GlobalNetworkPolicy only to the first namespace that it selects."""
    first = next(obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace")
    for obj in policies(objects, CALICO):
        if obj["kind"] == "GlobalNetworkPolicy":
            spaces = obj["spec"].get("namespaceSelector") or "all()"
            obj["spec"]["namespaceSelector"] = (
                f"({spaces}) && kubernetes.io/metadata.name == '{first}'"
            )


def except_is_the_block(objects: list[Obj]) -> None:
    """Swap an IP block and its exception."""
    for listed in lists(objects, K8S):
        for peer in (
            one for rule in listed for side in ("from", "to") for one in rule.get(side) or ()
        ):
            if peer.get("ipBlock", {}).get("except"):
                peer["ipBlock"] = {"cidr": peer["ipBlock"]["except"][0]}


def unordered_first_in_global(objects: list[Obj]) -> None:
    """Give a Calico policy without an order Kubernetes' order 1000."""
    for obj in policies(objects, CALICO):
        obj["spec"].setdefault("order", 999)


def empty_labels_lost(objects: list[Obj]) -> None:
    """Remove labels with an empty value."""
    for obj in objects:
        given = obj["metadata"].get("labels")
        if given:
            obj["metadata"]["labels"] = {key: value for key, value in given.items() if value}


def accounts_of_one_name(objects: list[Obj]) -> None:
    """Ignore a pod's account if a rule has both names and a selector of accounts."""
    for _, end in peers(objects):
        if end.get("serviceAccounts") and (end.get("selector") or end.get("namespaceSelector")):
            del end["serviceAccounts"]


def ends_that_pass_allow(objects: list[Obj]) -> None:
    """Allow packets that reach the end of a tier that passes, as if later tiers had no policies."""
    tiers = {
        obj["metadata"]["name"]
        for obj in objects
        if obj["kind"] == "Tier" and obj["spec"].get("defaultAction") == "Pass"
    }
    for obj in policies(objects, CALICO):
        if obj["spec"].get("tier") in tiers:
            for kind in obj["spec"].get("types") or ["Ingress"]:
                obj["spec"].setdefault(kind.lower(), []).append({"action": "Allow"})


def ports_of_tcp_are_of_udp(objects: list[Obj]) -> None:
    """Give all ports of a Kubernetes rule the first port's protocol."""
    for listed in lists(objects, K8S):
        for ports in (rule["ports"] for rule in listed if rule.get("ports")):
            for port in ports:
                port["protocol"] = ports[0].get("protocol", "TCP")


def nets_of_a_set_by_octets(objects: list[Obj]) -> None:
    """Replace a NetworkSet's addresses by their /24."""
    for obj in objects:
        if obj["kind"].endswith("NetworkSet"):
            nets = obj["spec"]["nets"]
            obj["spec"]["nets"] = [f"{net.rpartition('.')[0]}.0/24" for net in nets if "." in net]


def ingress_is_of_other_namespaces(objects: list[Obj]) -> None:
    """Allow ingress from a policy's own namespace after its rules."""
    for obj in policies(objects, CALICO):
        if obj["kind"] == "NetworkPolicy" and "Ingress" in (obj["spec"].get("types") or ()):
            own = {"action": "Allow", "source": {"selector": "all()"}}
            obj["spec"]["ingress"] = [*(obj["spec"].get("ingress") or ()), own]


def first_half_of_ranges(objects: list[Obj]) -> None:
    """Let a range of ports end in its middle."""
    for _, end in peers(objects):
        for key in ("ports", "notPorts"):
            end[key] = [_halved(port) for port in end.get(key) or ()]


def _halved(port: Any) -> Any:
    first, colon, last = str(port).partition(":")
    return f"{first}:{(int(first) + int(last)) // 2}" if colon else port


def _pods(objects: list[Obj], is_known: Callable[[Obj], bool]) -> None:
    """Remove all labels, except those that name a seat, from pods that are not known."""
    for obj in objects:
        if obj["kind"] == "Pod" and not is_known(obj):
            obj["metadata"]["labels"] = {}
            obj["spec"].pop("serviceAccountName", None)


def _node(objects: list[Obj], pod: str) -> str:
    return next(
        str(obj["spec"]["nodeName"])
        for obj in objects
        if obj["kind"] == "Pod" and obj["metadata"]["name"] == pod
    )


def members_of_the_own_node(objects: list[Obj], pod: str) -> None:
    """Let a rule's selectors have no members on other nodes."""
    here = _node(objects, pod)
    _pods(objects, lambda obj: bool(obj["spec"]["nodeName"] == here))


def members_of_other_nodes(objects: list[Obj], pod: str) -> None:
    """Let a rule's selectors have no members on the pod's own node, except the pod itself."""
    here = _node(objects, pod)
    _pods(
        objects,
        lambda obj: obj["spec"]["nodeName"] != here or obj["metadata"]["name"] == pod,
    )


def rules_of_the_own_address(objects: list[Obj], pod: str) -> None:
    """If a network contains the pod's own address, let it contain no other address."""
    own = next(
        obj["status"]["podIP"]
        for obj in objects
        if obj["kind"] == "Pod" and obj["metadata"]["name"] == pod
    )
    for _, end in peers(objects):
        if end.get("nets"):
            end["nets"] = [
                f"{own}/32"
                if ipaddress.ip_address(own) in ipaddress.ip_network(net, strict=False)
                else net
                for net in end["nets"]
            ]


OF_OBJECTS: tuple[Callable[[list[Obj]], object], ...] = (
    first_ports_for_all,
    protocol_stays,
    source_stays,
    alike_policies_once,
    directions_crossed,
    negations_are_wanted,
    ports_of_eight_bits,
    peers_joined,
    peers_or_ports,
    any_pod_selects_its_namespace,
    one_policy_of_a_tier,
    pass_to_the_default_tier,
    own_namespaces_labels,
    peers_but_the_own_pods,
    services_of_the_own_namespace,
    deny_is_of_tcp,
    lost_behind_several_ports,
    values_of_one_character,
    accounts_of_any_namespace,
    global_policies_of_one_namespace,
    except_is_the_block,
    unordered_first_in_global,
    empty_labels_lost,
    accounts_of_one_name,
    ends_that_pass_allow,
    ports_of_tcp_are_of_udp,
    nets_of_a_set_by_octets,
    ingress_is_of_other_namespaces,
    first_half_of_ranges,
)
AT_A_POD: tuple[Callable[[list[Obj], str], object], ...] = (
    members_of_the_own_node,
    members_of_other_nodes,
    rules_of_the_own_address,
)
"""Edits of all objects by the node of a pod; pods are known by name."""
