# SPDX-License-Identifier: Apache-2.0
"""Checks for values of a profile that are well-formed but impossible; errors name the line."""

import dataclasses
import ipaddress
import itertools
import re
from collections.abc import Mapping

from hybridlab.profiles.model import NodeGroup, Profile

NODE_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
WINDOWS_BUILD = re.compile(r"^10\.0\.\d{4,6}\.\d+$")
TAINT = re.compile(r"^[^:=]+(=[^:=]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$")
VERSION = re.compile(r"^v\d+\.\d+\.\d+([-+.][0-9A-Za-z.+-]+)?$")
POD_ADDRESSES_RESERVED_ON_WINDOWS = 4
MOST_NODES = 250
"""The maximum number of nodes. Measured (docs/lab.md): a lab of this size is ready in 14 s, and the
suite runs on it. Labs with up to 400 nodes were started but not tested."""
SERVICE_ADDRESSES = 32
"""The minimum number of Service addresses: the cluster's own Services have the first and the tenth
address; the others are for the user's Services."""


class ProfileError(ValueError):
    """A profile that cannot be used; the message starts with the place of the error (file and line,
    or ``--set``)."""


class Where:
    """The lines of a YAML document by dotted path, so that an error can give the line."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[tuple[str, ...], int] = {}
        self.overridden: dict[tuple[str, ...], str] = {}

    def of(self, path: tuple[str, ...]) -> str:
        """Return ``file:line`` of the key, or of the nearest key above it; ``--set ...`` for a
        value of that option."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.overridden:
                return self.overridden[path[:end]]
            if path[:end] in self.lines:
                return f"{self.source}:{self.lines[path[:end]]}"
        return self.source

    def within(self, path: tuple[str, ...]) -> str:
        """Return the origin as :meth:`of` does, but ``--set ...`` if that option set a value below
        the key."""
        below = [origin for key, origin in self.overridden.items() if key[: len(path)] == path]
        return below[-1] if below else self.of(path)


def check(profile: Profile, where: Where) -> None:
    """Check for values that are well-formed but impossible. Raise ProfileError."""
    network = profile.network
    cidrs: dict[str, ipaddress.IPv4Network] = {}
    named = {key: getattr(network, key) for key in ("pod_cidr", "service_cidr", "node_cidr")}
    named |= {f"pools[{index}]": text for index, text in enumerate(network.pools)}
    further = {group.node_cidr for group in profile.nodes} - {"", network.node_cidr}
    named |= {f"node_cidr of {text}": text for text in sorted(further)}
    for key, text in named.items():
        try:
            cidrs[key] = ipaddress.IPv4Network(text)
        except ValueError as error:
            raise ProfileError(
                f"{where.of(('network', key))}: network.{key} is {text!r}: {error}"
            ) from error
    for one, other in itertools.combinations(cidrs, 2):
        if cidrs[one].overlaps(cidrs[other]):
            raise ProfileError(
                f"{where.of(('network', one))}: network.{one} {cidrs[one]} overlaps network.{other} {cidrs[other]}"
            )
    if cidrs["service_cidr"].num_addresses < SERVICE_ADDRESSES:
        raise ProfileError(
            f"{where.of(('network', 'service_cidr'))}: network.service_cidr {cidrs['service_cidr']} has "
            f"{cidrs['service_cidr'].num_addresses} addresses, expected {SERVICE_ADDRESSES} or more"
        )
    _check_outside(profile, cidrs, where)
    _check_ranges(profile, where)
    _check_names(profile, where)
    if not profile.nodes:
        raise ProfileError(f"{where.source}: a cluster needs at least one node group under nodes")
    if not any(group.control_plane for group in profile.nodes):
        raise ProfileError(f"{where.of(('nodes',))}: no node group has control_plane: true")
    _check_nodes(profile, where)
    _check_room(profile, cidrs, where)


def _check_outside(
    profile: Profile, cidrs: Mapping[str, ipaddress.IPv4Network], where: Where
) -> None:
    text = profile.network.outside_address
    at = where.of(("network", "outside_address"))
    if not text:
        return
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError as error:
        raise ProfileError(f"{at}: network.outside_address is {text!r}: {error}") from error
    for key, cidr in cidrs.items():
        if address in cidr:
            raise ProfileError(
                f"{at}: network.outside_address {address} lies in network.{key} {cidr}"
            )


def _check_ranges(profile: Profile, where: Where) -> None:
    network = profile.network
    ranges = {
        "block_size": (network.block_size, 20, 32),
        "underlay_mtu": (network.underlay_mtu, 576, 65535),
        "calico_mtu": (network.calico_mtu or 1450, 576, 65535),
        "windows_mtu": (network.windows_mtu or 1450, 576, 65535),
    }
    for key, (value, low, high) in ranges.items():
        if not low <= value <= high:
            raise ProfileError(
                f"{where.of(('network', key))}: network.{key} is {value}, expected {low} to {high}"
            )
    if problem := network.plane.problem(profile):
        path = ("network", "plane", *filter(None, problem[:1]))
        raise ProfileError(f"{where.of(path)}: {'.'.join(path)} {problem[1]}")
    first, dash, last = profile.kube_proxy.node_port_range.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last) <= 65535):
        raise ProfileError(
            f"{where.of(('kube_proxy', 'node_port_range'))}: kube_proxy.node_port_range is "
            f"{profile.kube_proxy.node_port_range!r}, expected a range such as 30000-32767"
        )
    directory = profile.windows.cni_config_dir
    if not re.fullmatch(r"(/[^/\\]+)+", directory):
        raise ProfileError(
            f"{where.of(('windows', 'cni_config_dir'))}: windows.cni_config_dir is {directory!r}, "
            "expected a path such as /etc/cni/net.d"
        )
    for field in dataclasses.fields(profile.timing):
        if getattr(profile.timing, field.name) < 0:
            raise ProfileError(
                f"{where.of(('timing', field.name))}: timing.{field.name} is negative, "
                "expected 0 or more"
            )


def _check_names(profile: Profile, where: Where) -> None:
    for path, value in (
        (("kubernetes", "version"), profile.kubernetes.version),
        (("calico", "version"), profile.calico.version),
        (("calico", "windows_version"), profile.calico.on("windows")),
    ):
        if not VERSION.match(value):
            raise ProfileError(
                f"{where.of(path)}: {'.'.join(path)} is {value!r}, "
                "expected a version such as v1.34.1"
            )
    domain = profile.network.dns_domain
    if not all(NODE_NAME.match(label) for label in domain.split(".")):
        raise ProfileError(
            f"{where.of(('network', 'dns_domain'))}: network.dns_domain is {domain!r}, "
            "expected a name such as cluster.local"
        )
    if not (profile.calico.v3_api or profile.calico.crd_v1_api):
        raise ProfileError(
            f"{where.within(('calico',))}: calico.v3_api and calico.crd_v1_api are both false, "
            "expected at least one of them to be true"
        )


def _check_nodes(profile: Profile, where: Where) -> None:
    if (count := sum(group.count for group in profile.nodes)) > MOST_NODES:
        raise ProfileError(
            f"{where.within(('nodes',))}: the profile has {count} nodes, "
            f"expected at most {MOST_NODES}"
        )
    names: set[str] = set()
    for index, group in enumerate(profile.nodes):
        path = ("nodes", str(index))
        problem = _node_problem(group)
        if problem:
            raise ProfileError(f"{where.within(path)}: node group {group.name!r}: {problem}")
        for name in node_names(group):
            if name in names:
                raise ProfileError(f"{where.within(path)}: two nodes are named {name!r}")
            names.add(name)


def _node_problem(group: NodeGroup) -> str:
    if not NODE_NAME.match(group.name) or len(group.name) > 50:
        return "a node's name must have at most 50 lower-case letters, digits and dashes"
    if group.count < 1:
        return f"count is {group.count}, expected 1 or more"
    if group.os == "windows":
        if group.control_plane:
            return "Windows nodes cannot be control planes"
        if not WINDOWS_BUILD.match(group.windows_build):
            return (
                f"windows_build is {group.windows_build!r}, "
                "expected a build with UBR such as 10.0.20348.2762"
            )
    else:
        names = ("windows_build", "windows_updates", "windows_registry", "windows_dsr")
        if strange := [name for name in names if getattr(group, name) not in ("", (), {}, None)]:
            return f"{strange[0]} is set, but only Windows nodes can have it"
    for taint in group.taints:
        if not TAINT.match(taint):
            return f"taint is {taint!r}, expected key=value:Effect or key:Effect"
    return ""


def _check_room(profile: Profile, cidrs: Mapping[str, ipaddress.IPv4Network], where: Where) -> None:
    """Check that blocks and underlay addresses suffice for the nodes."""
    network = profile.network
    count = sum(group.count for group in profile.nodes)
    pool = cidrs["pod_cidr"]
    if network.block_size < pool.prefixlen:
        raise ProfileError(
            f"{where.of(('network', 'block_size'))}: network.block_size /{network.block_size} is larger than "
            f"network.pod_cidr {pool}"
        )
    blocks = 2 ** (network.block_size - pool.prefixlen)
    if blocks < count:
        raise ProfileError(
            f"{where.of(('network', 'pod_cidr'))}: {pool} has {blocks} blocks of /{network.block_size}, "
            f"but {count} nodes need one block each"
        )
    addresses = 2 ** (32 - network.block_size)
    if (
        any(group.os == "windows" for group in profile.nodes)
        and addresses <= POD_ADDRESSES_RESERVED_ON_WINDOWS
    ):
        raise ProfileError(
            f"{where.of(('network', 'block_size'))}: a block of /{network.block_size} has {addresses} addresses, "
            f"but a Windows node reserves {POD_ADDRESSES_RESERVED_ON_WINDOWS} of them "
            "and needs at least one for a pod"
        )
    if network.ipam != "calico-ipam" and 256 * count > pool.num_addresses:
        raise ProfileError(
            f"{where.of(('network', 'ipam'))}: network.ipam is {network.ipam}, "
            f"but {pool} does not have a /24 for each of {count} nodes"
        )
    for subnet in (cidr for key, cidr in cidrs.items() if key.startswith("node_cidr")):
        room = subnet.num_addresses - 20
        if count > room:
            raise ProfileError(
                f"{where.of(('network', 'node_cidr'))}: {subnet} has room for {max(room, 0)} nodes, "
                f"but the profile has {count}"
            )


def node_names(group: NodeGroup) -> list[str]:
    """Return the names of a group's machines: the group's own name for a single machine, otherwise
    numbered names from 1 on."""
    return (
        [group.name]
        if group.count == 1
        else [f"{group.name}-{number}" for number in range(1, group.count + 1)]
    )
