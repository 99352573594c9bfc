# SPDX-License-Identifier: Apache-2.0
"""What PowerShell's HNS cmdlets print through ConvertTo-Json, as typed objects.  Pure: no exec, no clock.

ConvertTo-Json writes one object as an object, several as an array, none as nothing at all; inside objects the same
happens to lists, and Windows PowerShell 5.1 wraps some as ``{"value": [...], "Count": n}``.  What cannot be read is
ProbeBroken, never an absence; networks that are not Calico's may be of any shape.
"""

import json
import re
from typing import Any

from conformance.errors import ProbeBroken
from conformance.model.host import AclRule, HnsEndpoint, HnsNetwork, HnsSubnet, RemoteSubnet

Obj = dict[str, Any]

NETWORK_MEMBERS = ("ID", "Name", "Type", "ManagementIP", "Subnets", "Ipams", "Policies")
ENDPOINT_MEMBERS = ("ID", "Name", "State", "IPAddress", "MacAddress", "VirtualNetwork", "Policies")
"""What is read of them.  All that HNS knows of 60 endpoints is over 1 MB."""
REMOTE_SUBNET = "RemoteSubnetRoute"
"""Type of the policy by which a network reaches another node's block (hcsshim: hcn.RemoteSubnetRoute)."""
PODS = "calico.*"
"""Felix' default expression for names of pods' networks (WindowsNetworkName), where nothing else is known."""


class NoAnswer(ProbeBroken):
    """A cmdlet printed what it prints when HNS does not answer it."""


def documents(stdout: bytes, what: str) -> list[Obj]:
    """The objects of an output; none for an empty one.  Raises ProbeBroken, naming ``what`` was asked.

    Hosts print in their OEM code page: a letter that is no UTF-8 is replaced, since no name that is read has one.
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
    several = many(found)
    if not all(isinstance(item, dict) for item in several):
        raise ProbeBroken(
            f"{what}: output is not of objects: {stdout[:200]!r}", transport="not objects"
        )
    return several


def many(value: Any) -> list[Any]:
    """The members of a list that ConvertTo-Json may have written as one thing, as nothing, or wrapped."""
    if value is None or value == "":
        return []
    if isinstance(value, dict) and set(value) == {"value", "Count"}:
        return many(value["value"])
    return list(value) if isinstance(value, list) else [value]


def network(found: Obj, pods: str = PODS) -> HnsNetwork:
    """One of Get-HnsNetwork's objects; one that the expression ``pods`` does not name without the subnets.

    As Felix reads it (KUBE_NETWORK): anywhere in the name, in any case.  Raises ProbeBroken.
    """
    name = str(found.get("Name") or "")
    if not re.search(pods, name, re.IGNORECASE):
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
            f"HNS network {name} has its subnets under Ipams, where no VSID is read: {str(found)[:200]}",
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
    )


def endpoint(found: Obj) -> HnsEndpoint:
    """One of Get-HnsEndpoint's objects.  Raises ProbeBroken."""
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
    )


def _subnet(found: Any) -> HnsSubnet:
    if not isinstance(found, dict):
        raise ProbeBroken(
            f"a subnet of an HNS network is no object: {found!r}", transport="garbled output"
        )
    vsids = [item.get("VSID") for item in many(found.get("Policies")) if isinstance(item, dict)]
    known = [_number(vsid, "VSID", found) for vsid in vsids if vsid is not None]
    return HnsSubnet(
        prefix=_text(found, "AddressPrefix"),
        gateway=str(found.get("GatewayAddress") or ""),
        vsid=known[0] if known else None,
    )


def _remote_subnet(found: Obj) -> RemoteSubnet:
    """The first version of HNS' interface shows a policy's settings beside its type, the second under Settings."""
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
    )


def _listed(value: Any) -> str:
    """HNS writes lists as text with commas, some versions as arrays or numbers."""
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
            f"{key} is no number: {str(found)[:200]}", transport="garbled output"
        ) from None
