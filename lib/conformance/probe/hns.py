# SPDX-License-Identifier: Apache-2.0
"""The output of PowerShell's HNS cmdlets through ConvertTo-Json, as typed objects. Pure: no exec,
no clock.

ConvertTo-Json writes a single object as an object, several objects as an array, and no objects as
nothing. It treats lists inside objects in the same way, and Windows PowerShell 5.1 wraps some lists
as ``{"value": [...], "Count": n}``. Unreadable output raises ProbeBroken, and never means that an
object is absent. Networks that are not Calico's may have any form.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from conformance.errors import ProbeBroken
from conformance.model import expression
from conformance.model.host import (
    AclRule,
    HnsEndpoint,
    HnsNetwork,
    HnsSubnet,
    LoadBalancer,
    RemoteSubnet,
)

Obj = dict[str, Any]

NETWORK_MEMBERS = (
    "ID",
    "Name",
    "Type",
    "ManagementIP",
    "Subnets",
    "Ipams",
    "Policies",
    "Health",
)
ENDPOINT_MEMBERS = (
    "ID",
    "Name",
    "State",
    "IPAddress",
    "MacAddress",
    "VirtualNetwork",
    "IsRemoteEndpoint",
    "Policies",
)
BALANCER_MEMBERS = ("ID", "Policies", "References")
"""The fields of load balancers that are read; the two lists above are the fields of networks and
endpoints. All of HNS' data about 60 endpoints would have more than 1 MB."""
_PROTOCOLS = {"tcp": 6, "udp": 17}
REMOTE_SUBNET = "RemoteSubnetRoute"
"""The type of the policy by which a network reaches another node's block (hcsshim:
hcn.RemoteSubnetRoute)."""
_FIRST_TICK = datetime(1601, 1, 1, tzinfo=UTC)
_LAST_TICK = 2**61
"""The last moment of Windows' time, in units of 100 ns, that is accepted. It is in the year
8907."""
PODS = "calico.*"
"""Felix' default expression for names of pods' networks (WindowsNetworkName), used if the cluster's
expression is not known."""


class NoAnswer(ProbeBroken):
    """The output of a cmdlet to which HNS has not answered."""


def documents(stdout: bytes, what: str) -> list[Obj]:
    """Return the objects in an output; none for an empty output. Raise ProbeBroken, which names the
    request ``what``.

    Hosts print in their OEM code page. A byte that is not UTF-8 is replaced, since no name that the
    suite uses has such a letter.
    """
    text = stdout.decode("utf-8-sig", errors="replace").strip()
    if not text:
        return []
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ProbeBroken(
            f"{what}: garbled output {stdout[:200]!r}", transport=str(error)
        ) from None
    if found is None or found == "":
        raise NoAnswer(f"{what}: HNS gave no answer (printed: {text})", transport=text)
    found_documents = many(found)
    if not all(isinstance(item, dict) for item in found_documents):
        raise ProbeBroken(
            f"{what}: the output is not a list of objects: {stdout[:200]!r}",
            transport="not objects",
        )
    return found_documents


def many(value: Any) -> list[Any]:
    """Return the items of a list that ConvertTo-Json may have written as a single object, as
    nothing, or wrapped."""
    if value is None or value == "":
        return []
    if isinstance(value, dict) and set(value) == {"value", "Count"}:
        return many(value["value"])
    return list(value) if isinstance(value, list) else [value]


def network(found: Obj, pods: str = PODS) -> HnsNetwork:
    """Return an object of Get-HnsNetwork as a network. Its subnets are left out if the expression
    ``pods`` does not match the network's name.

    As in Felix (KUBE_NETWORK), a match anywhere in the name counts, ignoring case. Raise
    ProbeBroken.
    """
    name = str(found.get("Name") or "")
    if not expression.matches(pods, name):
        if not (name or found.get("ID")):
            raise ProbeBroken(
                f"an HNS network has neither Name nor ID: {str(found)[:200]}",
                transport="garbled output",
            )
        return HnsNetwork(
            id=str(found.get("ID") or ""), name=name, type=str(found.get("Type") or "")
        )
    kind = _text(found, "Type")
    subnets = many(found.get("Subnets"))
    if kind == "Overlay" and not subnets and many(found.get("Ipams")):
        raise ProbeBroken(
            f"HNS network {name} lists its subnets under Ipams, but the suite reads VSIDs only from "
            f"Subnets: {str(found)[:200]}",
            transport="another shape",
        )
    policies = [policy for policy in many(found.get("Policies")) if isinstance(policy, dict)]
    return HnsNetwork(
        id=_text(found, "ID"),
        name=name,
        type=kind,
        pods=True,
        management_address=str(found.get("ManagementIP") or ""),
        subnets=tuple(map(_subnet, subnets)),
        remote_subnets=tuple(
            _remote_subnet(policy) for policy in policies if policy.get("Type") == REMOTE_SUBNET
        ),
        shows_policies=bool(policies),
        updated=_updated(found.get("Health")),
    )


def _updated(health: Any) -> str:
    """Return the time of ``LastUpdateTime``, a FILETIME; an empty string if there is none."""
    ticks = health.get("LastUpdateTime") if isinstance(health, dict) else None
    if not isinstance(ticks, int) or not 0 < ticks < _LAST_TICK:
        return ""
    return (_FIRST_TICK + timedelta(microseconds=ticks // 10)).strftime("%Y-%m-%dT%H:%M:%SZ")


def endpoint(found: Obj) -> HnsEndpoint:
    """Return an object of Get-HnsEndpoint as an endpoint.  Raise ProbeBroken."""
    policies = [item for item in many(found.get("Policies")) if isinstance(item, dict)]
    return HnsEndpoint(
        id=_text(found, "ID"),
        name=str(found.get("Name") or ""),
        address=str(found.get("IPAddress") or ""),
        mac=str(found.get("MacAddress") or ""),
        network=str(found.get("VirtualNetwork") or ""),
        state="" if found.get("State") is None else str(found["State"]),
        policies=tuple(policies),
        acls=tuple(_acl(policy) for policy in policies if policy.get("Type") == "ACL"),
        is_remote=found.get("IsRemoteEndpoint") is True,
    )


def load_balancers(found: Obj) -> list[LoadBalancer]:
    """Return the load balancers in an object of Get-HnsPolicyList.  Raise ProbeBroken."""
    references = [str(one).rpartition("/")[2].upper() for one in many(found.get("References"))]
    return [
        LoadBalancer(
            addresses=tuple(map(str, many(policy.get("VIPs")))),
            protocol=_PROTOCOLS.get(str(policy.get("Protocol")).lower())
            or _number(policy.get("Protocol") or 0, "Protocol", policy),
            port=_number(policy.get("ExternalPort") or 0, "ExternalPort", policy),
            endpoints=tuple(references),
        )
        for policy in many(found.get("Policies"))
        if isinstance(policy, dict) and policy.get("Type") == "ELB"
    ]


def _subnet(found: Any) -> HnsSubnet:
    if not isinstance(found, dict):
        raise ProbeBroken(
            f"a subnet of an HNS network is not an object: {found!r}", transport="garbled output"
        )
    vsids = [item.get("VSID") for item in many(found.get("Policies")) if isinstance(item, dict)]
    known = [_number(vsid, "VSID", found) for vsid in vsids if vsid is not None]
    return HnsSubnet(
        prefix=_text(found, "AddressPrefix"),
        gateway=str(found.get("GatewayAddress") or ""),
        vsid=known[0] if known else None,
    )


def _remote_subnet(found: Obj) -> RemoteSubnet:
    """Return a RemoteSubnetRoute. In HNS version 1 its settings stand next to the policy's type, in
    version 2 under Settings."""
    settings = found.get("Settings")
    given: Obj = settings if isinstance(settings, dict) else found
    vni = given.get("IsolationId")
    return RemoteSubnet(
        prefix=_text(given, "DestinationPrefix"),
        provider=_text(given, "ProviderAddress"),
        mac=_text(given, "DistributedRouterMacAddress").lower().replace("-", ":"),
        vni=None if vni is None else _number(vni, "IsolationId", given),
    )


def _acl(found: Obj) -> AclRule:
    return AclRule(
        id=str(found.get("Id") or found.get("ID") or ""),
        action=str(found.get("Action") or ""),
        direction=str(found.get("Direction") or ""),
        protocol=_listed(
            found.get("Protocol") if found.get("Protocol") is not None else found.get("Protocols")
        ),
        local_addresses=_listed(found.get("LocalAddresses")),
        remote_addresses=_listed(found.get("RemoteAddresses")),
        local_ports=_listed(found.get("LocalPorts")),
        remote_ports=_listed(found.get("RemotePorts")),
        priority=_number(found.get("Priority") or 0, "Priority", found),
        rule_type=str(found.get("RuleType") or ""),
    )


def _listed(value: Any) -> str:
    """Return a list of HNS as text. HNS separates items with commas; some versions write arrays or
    numbers."""
    return ",".join(str(item) for item in many(value))


def _text(found: Obj, key: str) -> str:
    if not isinstance(found.get(key), str):
        raise ProbeBroken(
            f"an HNS object has no {key}: {str(found)[:200]}", transport="garbled output"
        )
    return str(found[key])


def _number(value: Any, key: str, found: Obj) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ProbeBroken(
            f"{key} is not a number: {str(found)[:200]}", transport="garbled output"
        ) from None
