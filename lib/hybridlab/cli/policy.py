"""``hybridlab policy``: from manifests alone, what Calico makes of policies for each pod, and what of packets."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hybridlab.cli.policy_text import print_answer
from hybridlab.cluster.exits import OK, USAGE, Stop
from hybridlab.dataplane.model import Acl
from hybridlab.policy.acls import ports_text
from hybridlab.policy.flattener import FelixPanic
from hybridlab.policy.manifests import Cluster, cluster
from hybridlab.policy.offline import Endpoint, Objects, allowed_on_windows
from hybridlab.policy.packets import NUMBERS, Packet
from hybridlab.policy.release import OLDEST_WITH_TIERS, Release, as_shipped, numbers
from hybridlab.profiles.documents import documents

DEFAULT_VERSION = "v3.31.7"


def run(
    files: Sequence[Path],
    *,
    version: str | None,
    world: Path | None,
    probes: Path | None,
    as_json: bool,
) -> int:
    """Answer and print; returns the exit code."""
    release = version or DEFAULT_VERSION
    if len(numbers(release)) < 2 or numbers(release) < OLDEST_WITH_TIERS[:2]:
        raise Stop(
            USAGE,
            f"--calico-version {release}: not emulated: expected v3.29 or later, for example {DEFAULT_VERSION}",
        )
    objects = [obj for file in (*([world] if world else []), *files) for obj in _objects(file)]
    answered = _answer(
        objects, Release(release, as_shipped(release)), _probes(probes) if probes else []
    )
    if as_json:
        print(json.dumps(answered, indent=1))
    else:
        print_answer(answered)
    return USAGE if answered["not_read"] else OK


def _text(file: Path) -> str:
    try:
        return (sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(USAGE, f"{file}: cannot be read: {error}") from error


def _objects(file: Path) -> Iterator[Any]:
    """The objects of a manifest, or of a document that lists them as ``objects``."""
    try:
        for document in documents(_text(file)):
            if isinstance(document, dict) and "objects" in document:
                yield from (*document["objects"], *document.get("network_sets", ()))
            else:
                yield document
    except ValueError as error:
        raise Stop(USAGE, f"{file}: {error}") from error


def _probes(file: Path) -> list[Mapping[str, Any]]:
    """Probes: a list of ``{from, to, protocol, port, sourcePort, icmp}``, ends as ``namespace/pod`` or address."""
    try:
        found = [probe for document in documents(_text(file)) for probe in document]
    except ValueError as error:
        raise Stop(USAGE, f"--probes {file}: {error}") from error
    for probe in found:
        if not isinstance(probe, dict) or not {"from", "to"} <= probe.keys():
            raise Stop(
                USAGE, f"--probes {file}: {str(probe)[:60]}: a probe is a mapping with from and to"
            )
    return found


def _answer(
    given: Sequence[Any], release: Release, probes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    try:
        made = cluster(given, release)
    except (ValueError, AttributeError, TypeError) as error:
        raise Stop(USAGE, f"{error}") from error
    objects = Objects(release, made.hosts)
    objects.take(made.objects)
    pods = {
        name: _pod(objects, endpoint, made.os[name]) for name, endpoint in objects.endpoints.items()
    }
    return {
        "calico": release.version,
        "pods": pods,
        "probes": [_probed(probe, objects, made) for probe in probes],
        "assumed": made.assumed,
        "not_read": objects.unread,
    }


def _pod(objects: Objects, endpoint: Endpoint, os: str) -> dict[str, Any]:
    found: dict[str, Any] = {"os": os, "address": objects.graph.pod(endpoint.uid).address}
    if os == "linux":
        program = objects.linux(endpoint)
        return found | {
            direction: [
                {
                    "tier": tier.name,
                    "rules": [_rule(rule, objects) for rule in tier.rules],
                    "end": tier.end,
                }
                for tier in tiers
            ]
            for direction, tiers in (("ingress", program.ingress), ("egress", program.egress))
        }
    try:
        policy = objects.windows(endpoint)
    except FelixPanic as panic:
        return found | {"panic": str(panic)}
    left_out = [
        {"rule": out.where, "why": out.why, "warned": out.warned} for out in policy.left_out
    ]
    return found | {"acls": listed(policy.acls), "left_out": left_out}


def listed(acls: Sequence[Acl]) -> list[dict[str, Any]]:
    """A list as ``hns.ACLPolicy`` has it."""
    return [
        {
            "Action": acl.action,
            "Direction": acl.direction,
            "Protocol": acl.protocol,
            **({"LocalAddresses": ",".join(sorted(acl.local))} if acl.local else {}),
            **({"RemoteAddresses": ",".join(sorted(acl.remote))} if acl.remote else {}),
            **({"LocalPorts": ports_text(acl.local_ports)} if acl.local_ports else {}),
            **({"RemotePorts": ports_text(acl.remote_ports)} if acl.remote_ports else {}),
            "Priority": acl.priority,
            "RuleType": acl.rule_type,
            **({"Id": acl.id} if acl.id else {}),
        }
        for acl in acls
    ]


def _rule(rule: Any, objects: Objects) -> dict[str, Any]:
    """A Linux rule: what it matches, with the members of its sets."""
    said = {name: value for name, value in vars(rule.match).items() if value not in ((), None)}
    sets = {
        name: objects.graph.members(name)
        for key, value in said.items()
        if key.endswith("_sets")
        for name in value
    }
    return {"action": rule.action, "from": rule.comment, "match": said, "members": sets}


def _probed(probe: Mapping[str, Any], objects: Objects, made: Cluster) -> dict[str, Any]:
    """The verdict of a probe at each end that is a pod, by that pod's operating system."""
    ends = {side: str(probe[side]) for side in ("from", "to")}
    addresses = {side: _address(end, objects) for side, end in ends.items()}
    protocol = str(probe.get("protocol", "TCP")).lower()
    number = int(protocol) if protocol.isdigit() else NUMBERS.get(protocol)
    if number is None:
        raise Stop(USAGE, f"--probes: unknown protocol {probe.get('protocol')!r}")
    icmp = probe.get("icmp")
    verdicts = {}
    for side, direction in (("from", "egress"), ("to", "ingress")):
        endpoint = objects.endpoints.get(ends[side])
        if endpoint is None:
            continue
        packet = Packet(
            direction,
            addresses["from"],
            addresses["to"],
            number,
            probe.get("sourcePort", 40000),
            probe.get("port"),
            (icmp["type"], icmp.get("code", 0)) if icmp else None,
        )
        verdicts[direction] = _verdict(objects, endpoint, made.os[ends[side]], packet)
    final = (
        "block"
        if "block" in verdicts.values()
        else "panic"
        if "panic" in verdicts.values()
        else "allow"
    )
    return {**probe, **verdicts, "verdict": final}


def _verdict(objects: Objects, endpoint: Endpoint, os: str, packet: Packet) -> str:
    try:
        (allowed,) = (
            allowed_on_windows(objects.windows(endpoint), [packet])
            if os == "windows"
            else objects.allowed_on_linux(endpoint, [packet])
        )
    except FelixPanic:
        return "panic"
    return "allow" if allowed else "block"


def _address(end: str, objects: Objects) -> str:
    endpoint = objects.endpoints.get(end)
    if endpoint is None:
        if "/" in end:
            raise Stop(
                USAGE,
                f"--probes: no pod {end}; known are {', '.join(sorted(objects.endpoints)) or 'none'}",
            )
        return end
    return objects.graph.pod(endpoint.uid).address or ""
