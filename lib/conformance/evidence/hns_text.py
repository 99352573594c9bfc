# SPDX-License-Identifier: Apache-2.0
"""The state of HNS for pods as text: endpoints with their ACL lists, and networks with their VSIDs.

The text has HNS' own order and words; its reader judges whether the state is correct.
"""

import json
from collections.abc import Iterable, Sequence

from conformance.journal.redaction import redacted
from conformance.model.counted import counted
from conformance.model.endpoint import Workload
from conformance.model.host import AclRule, HnsEndpoint, HnsNetwork

STATES = {
    "0": "uninitialized", "1": "created, attached to nothing", "2": "attached", "3": "attached, shared by containers",
    "4": "detached", "5": "degraded", "6": "destroyed",
}  # fmt: skip
"""hcsshim's names of an endpoint's states (internal/hns, EndpointState)."""
COLUMNS = ("priority", "direction", "action", "protocol", "local", "remote", "id")
ANY = "any"


def endpoints(node: str, pods: Iterable[Workload], there: Sequence[HnsEndpoint]) -> str:
    """Return the endpoints of these pods on a node. For a pod without an endpoint, list the
    addresses of the node's endpoints."""
    texts = []
    for pod in pods:
        own = [endpoint for endpoint in there if endpoint.address == pod.address]
        head = f"{pod.label}, {pod.address}"
        if not own:
            addresses = (
                ", ".join(endpoint.address or f"none ({endpoint.name})" for endpoint in there)
                or "none"
            )
            texts.append(
                f"{head}\nno HNS endpoint of node {node} has this address; addresses of its "
                f"endpoints: {addresses}"
            )
        texts += [f"{head}\n{_endpoint(endpoint)}" for endpoint in own]
    return "\n\n".join(texts)


def networks(there: Sequence[HnsNetwork]) -> str:
    """Return all networks of a node; only the networks of pods have subnets and VSIDs."""
    lines = []
    for network in there:
        since = f"  last changed {network.updated}" if network.updated else ""
        lines.append(
            f"{network.name or '(no name)'}  {network.type or '(no type)'}  id {network.id}{since}"
        )
        for subnet in network.subnets:
            vsid = "no VSID" if subnet.vsid is None else f"VSID {subnet.vsid}"
            lines.append(f"  subnet {subnet.prefix}, gateway {subnet.gateway or 'none'}, {vsid}")
    return "\n".join(lines) or "HNS has no network"


def _endpoint(endpoint: HnsEndpoint) -> str:
    state = (
        f"{endpoint.state} ({STATES.get(endpoint.state, 'not known here')})"
        if endpoint.state
        else "not reported by HNS"
    )
    others = [policy for policy in endpoint.policies if policy.get("Type") != "ACL"]
    return "\n".join(
        [
            f"endpoint  {endpoint.id}",
            f"name      {endpoint.name}",
            f"state     {state}",
            f"MAC       {endpoint.mac}",
            f"network   {endpoint.network}",
            f"ACL list  {counted(len(endpoint.acls), 'rule')}, in HNS' order",
            *_table(endpoint.acls),
            f"other policies  {len(others)}",
            *(f"  {json.dumps(redacted(policy), sort_keys=True)}" for policy in others),
        ]
    )


def _table(acls: Sequence[AclRule]) -> list[str]:
    if not acls:
        return []
    rows = [COLUMNS, *map(_row, acls)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _row(rule: AclRule) -> tuple[str, ...]:
    return (
        str(rule.priority),
        rule.direction,
        rule.action,
        rule.protocol or ANY,
        _end(rule.local_addresses, rule.local_ports),
        _end(rule.remote_addresses, rule.remote_ports),
        rule.id or "-",
    )


def _end(addresses: str, ports: str) -> str:
    """Return ``10.1.0.0/16 port 80``; ``any`` if a rule names neither addresses nor ports."""
    return " ".join([addresses, *([f"port {ports}"] if ports else [])]).strip() or ANY
