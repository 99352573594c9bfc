# SPDX-License-Identifier: Apache-2.0
"""Faults of HNS' objects: endpoints, ACL lists and load balancers that differ from the request.
Packets are not affected."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Fault, Parameter, Types

TYPES = Types()
Entry = dict[str, Any]
Change = Callable[[list[Entry], str], list[Entry]]
"""Maps the objects of an answer, and the subject of the fault, to the objects that replace them."""

NOBODY = "f" * 64
"""A sandbox id that no pod has."""


def _pods(entries: list[Entry]) -> list[Entry]:
    return [
        one
        for one in entries
        if one["VirtualNetworkName"] == "Calico"
        and not one["IsRemoteEndpoint"]
        and not one["Name"].endswith("_ep")
    ]


def _twin(entries: list[Entry], _: str) -> list[Entry]:
    """Give a pod's endpoint the address of another pod."""
    first, second, *_rest = _pods(entries)
    return [{**one, "IPAddress": first["IPAddress"]} if one is second else one for one in entries]


def _left(entries: list[Entry], _: str) -> list[Entry]:
    """Add a leftover endpoint of a pod that is gone."""
    made = copy.deepcopy(_pods(entries)[0])
    address = made["IPAddress"].rpartition(".")[0] + ".62"
    return [*entries, {**made, "ID": NOBODY[:32], "Name": f"{NOBODY}_Calico", "IPAddress": address}]


def _earlier_sandbox(entries: list[Entry], _: str) -> list[Entry]:
    """Let a pod's endpoint belong to another sandbox, with the pod's address."""
    chosen = _pods(entries)[0]
    return [{**one, "Name": f"{NOBODY}_Calico"} if one is chosen else one for one in entries]


def _lost(entries: list[Entry], _: str) -> list[Entry]:
    """Remove a pod's endpoint."""
    gone = _pods(entries)[-1]
    return [one for one in entries if one is not gone]


def _of_lists(change: Callable[[list[Entry]], list[Entry]]) -> Change:
    """Return a change of those ACL lists that contain a rule of a policy."""

    def changed(entries: list[Entry], _: str) -> list[Entry]:
        return [
            {**one, "Policies": change(one["Policies"])}
            if any(str(each.get("Id", "")).startswith("policy-") for each in one["Policies"])
            else one
            for one in entries
        ]

    return changed


def _of_a_policy(policies: list[Entry]) -> list[Entry]:
    return [one for one in policies if str(one.get("Id", "")).startswith("policy-")]


def _rule_lost(policies: list[Entry]) -> list[Entry]:
    gone = _of_a_policy(policies)[-1]
    return [one for one in policies if one is not gone]


def _rule_added(policies: list[Entry]) -> list[Entry]:
    made = {**_of_a_policy(policies)[0], "Id": "policy-shop/default.gone-0123456789abcdef-0"}
    return [*policies, {**made, "RemoteAddresses": "203.0.113.7/32"}]


def _rule_opened(policies: list[Entry]) -> list[Entry]:
    chosen = next(one for one in _of_a_policy(policies) if one["RemoteAddresses"])
    return [{**one, "RemoteAddresses": ""} if one is chosen else one for one in policies]


def _rules_swapped(policies: list[Entry]) -> list[Entry]:
    """Put the end of the tier before its rules."""
    return [
        {**one, "Priority": 999} if one.get("Action") == "Block" and not one.get("Id") else one
        for one in policies
    ]


def _balancer_lost(entries: list[Entry], service: str) -> list[Entry]:
    return [one for one in entries if not any(service in each["VIPs"] for each in one["Policies"])]


def _member_lost(entries: list[Entry], service: str) -> list[Entry]:
    return [
        {**one, "References": one["References"][1:]}
        if any(service in each["VIPs"] for each in one["Policies"])
        else one
        for one in entries
    ]


ENDPOINTS: Mapping[str, Change] = {
    "twin-address": _twin,
    "endpoint-left": _left,
    "earlier-sandbox": _earlier_sandbox,
    "endpoint-lost": _lost,
    "rule-lost": _of_lists(_rule_lost),
    "rule-added": _of_lists(_rule_added),
    "rule-opened": _of_lists(_rule_opened),
    "rules-swapped": _of_lists(_rules_swapped),
}
BALANCERS: Mapping[str, Change] = {
    "balancer-lost": _balancer_lost,
    "member-lost": _member_lost,
    "no-balancers": lambda _entries, _: [],
}
QUESTIONS = {"endpoints": ENDPOINTS, "policy-lists": BALANCERS}


@TYPES.fault(
    "hns-holds",
    "hns",
    WINDOWS_OR_ALL,
    Parameter("way", "what is wrong", choices=(*ENDPOINTS, *BALANCERS)),
    Parameter("service", "the Service of balancer-lost and member-lost", "kube-system/kube-dns"),
    Parameter("once", "true: one answer alone is wrong", "false", ("false", "true")),
)
class HnsHolds(Fault):
    """HNS of a node shows something other than the request."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._identity = identity
        self._nodes = lab.nodes_of("windows", parameters["node"])
        self._way = parameters["way"]
        self._service = parameters["service"]
        self._left = dict.fromkeys(self._nodes, 1) if parameters["once"] == "true" else None
        self._address = ""

    async def inject(self) -> None:
        if self._way in BALANCERS:
            self._address = (await self._lab.service(self._service))["spec"]["clusterIP"]
        self._lab.host_answers.taps[self._identity] = self._answer

    async def heal(self) -> None:
        self._lab.host_answers.taps.pop(self._identity, None)

    async def evidence(self) -> list[str]:
        there = self._identity in self._lab.host_answers.taps
        return [f"HNS of {node} shows {self._way}" for node in self._nodes if there]

    def _answer(self, answer: Any, node: str, question: str) -> Any:
        change = QUESTIONS.get(question, {}).get(self._way)
        if change is None or node not in self._nodes:
            return answer
        if self._left is not None:
            if not self._left[node]:
                return answer
            self._left[node] -= 1
        return change(answer, self._address)
