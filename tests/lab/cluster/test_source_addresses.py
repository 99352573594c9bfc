# SPDX-License-Identifier: Apache-2.0
"""The source address that a server receives: by each kind of address, on each plane, with and
without direct server return, within a node and between two nodes.

The expected address follows from kube-proxy's choice of a source (kubernetes
pkg/proxy/winkernel/proxier.go: in an overlay the source VIP, the third address of the node's block;
on an l2bridge network the node's address) and from OutBoundNAT. OutBoundNAT hides pods from
addresses outside their pools, and from themselves if Calico's CNI adds it for direct server return
(cni-plugin/pkg/dataplane/windows, windows_loopback_DSR).
"""

from __future__ import annotations

import ipaddress
import json
import shutil
from dataclasses import dataclass
from typing import Any

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on the PATH"
)

PROFILES = {
    "overlay": "default",
    "l2bridge": "bgp",
    "calico": "cloud-routes",
    "win-bridge": "static-routes",
    "azure": "aks-operator",
    "vpc": "eks-vpc",
    "flannel": "canal-host-gw",
    "flannel-overlay": "flannel-vxlan",
}
"""A profile of each plane, and on routed networks of each CNI plugin."""
OVERLAYS = ("overlay", "flannel-overlay")
KEPT = ("win-bridge", "azure", "vpc", "flannel")
"""Plugins whose outbound NAT leaves out the network of nodes: a server on a node's host sees the
pod."""
NODES = {"dsr": "windows-2022", "no dsr": "windows-2019"}
"""kube-proxy of one is told to use direct server return, that of the other nothing."""
PLACES = {
    "windows-2022": "windows-2022",
    "windows-2019": "windows-2019",
    "linux": "linux-1",
    "on-host": "linux-2",
}
"""Pods to nodes; a second one is beside each."""
OUTSIDE = "http://198.51.100.10/"
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  nodeName: {node}
  nodeSelector: {{kubernetes.io/os: {os}}}
  hostNetwork: {on_host}
  containers:
  - {{name: server, image: "registry.k8s.io/e2e-test-images/agnhost:2.53", args: [netexec, "--http-port={port}"]}}
  - {{name: client, image: "{image}", command: [{command}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: default}}
spec: {{type: NodePort, selector: {{app: {name}}}, ports: [{{port: 80, targetPort: {port}}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}-local, namespace: default}}
spec:
  {{type: NodePort, externalTrafficPolicy: Local, selector: {{app: {name}}}, ports: [{{port: 80, targetPort: {port}}}]}}
---
"""
TABLE = [
    # to whom, by what, and whom it sees: in the overlay with DSR and without, on l2bridge with DSR and without
    ("beside", "address", ("pod", "pod"), ("pod", "pod")),
    ("other", "address", ("pod", "pod"), ("pod", "pod")),
    ("linux", "address", ("pod", "pod"), ("pod", "pod")),
    ("on-host", "address", ("node", "node"), ("node", "node")),
    ("outside", "address", ("node", "node"), ("node", "node")),
    ("beside", "cluster-ip", ("pod", "vip"), ("pod", "node")),
    ("other", "cluster-ip", ("pod", "vip"), ("pod", "node")),
    ("linux", "cluster-ip", ("pod", "vip"), ("pod", "node")),
    ("on-host", "cluster-ip", ("node", "node"), ("node", "node")),
    ("itself", "cluster-ip", ("node", "vip"), ("node", "node")),
    ("beside", "node-port", ("vip", "vip"), ("node", "node")),
    ("other", "node-port", ("vip", "vip"), ("node", "node")),
    ("linux", "node-port", ("vip", "vip"), ("node", "node")),
    ("beside", "node-port-local", ("stranger", "vip"), ("stranger", "node")),
]
"""By NodePort a stranger asks, from the host of another node; the NodePort is that of the first node."""
ON_HOST = {("on-host", "address"): ("pod", "pod"), ("on-host", "cluster-ip"): ("pod", "node")}
"""With DSR and without, for plugins of ``KEPT``; their other rows are those of l2bridge."""
WANTED = {
    (plane, dsr, to, way): seen[index]
    for to, way, overlay, l2bridge in TABLE
    for plane in PROFILES
    for seen in (
        overlay
        if plane in OVERLAYS
        else ON_HOST.get((to, way), l2bridge)
        if plane in KEPT
        else l2bridge,
    )
    for index, dsr in enumerate(NODES)
}


@dataclass(frozen=True)
class Town:
    """A lab whose pods are servers and clients."""

    lab: RunningLab
    pods: dict[str, str]
    nodes: dict[str, str]
    """Name to address, as in ``pods``."""
    services: dict[str, Any]
    blocks: dict[str, Any]
    """Node to its pods' network."""

    def url(self, node: str, to: str, way: str) -> str:
        other = next(name for name in NODES.values() if name != node)
        server = {"beside": f"{node}-beside", "other": other, "itself": node}.get(to, to)
        if to == "outside":
            return OUTSIDE
        if way == "address":
            return f"http://{self.pods[server]}:{port_of(server)}/clientip"
        spec = self.services[f"{server}-local" if way == "node-port-local" else server]
        if way == "cluster-ip":
            return f"http://{spec['clusterIP']}/clientip"
        return f"http://{self.nodes[node]}:{spec['ports'][0]['nodePort']}/clientip"

    def seen(self, client: str, urls: list[str]) -> list[str]:
        """Return the sources that servers saw, or the errors; all by one exec, because the start of
        an exec takes most of the time."""
        powershell = [
            f"(Invoke-WebRequest -Uri {url} -UseBasicParsing -TimeoutSec 5).Content" for url in urls
        ]
        shell = [f"wget -T 5 -qO- {url}; echo" for url in urls]
        ask = (
            ["powershell", "-c", *powershell] if client in NODES.values() else ["sh", "-c", *shell]
        )
        said = self.lab.kubectl(
            "exec", client, "-c", "client", "--", *ask[:2], "; ".join(ask[2:]), check=False
        )
        lines = [line.partition(":")[0] for line in said.stdout.split()]
        assert len(lines) == len(urls), said.stdout + said.stderr
        return lines

    def answers(self) -> dict[tuple[str, str, str], str]:
        """By DSR, server and way whom a server saw."""
        found: dict[tuple[str, str, str], str] = {}
        for dsr, node in NODES.items():
            for by_node_port, client in ((False, node), (True, "on-host")):
                ways = [
                    (to, way)
                    for to, way, *_ in TABLE
                    if way.startswith("node-port") is by_node_port
                ]
                seen = self.seen(client, [self.url(node, *each) for each in ways])
                found |= {
                    (dsr, *each): self.named(who, node)
                    for each, who in zip(ways, seen, strict=True)
                }
        return found

    def named(self, address: str, node: str) -> str:
        """Return the owner of an address: the node's pod, the node, or the stranger."""
        whose = {
            self.pods[node]: "pod",
            self.nodes[node]: "node",
            str(self.blocks[node][2]) if node in self.blocks else "": "vip",
            self.nodes[PLACES["on-host"]]: "stranger",
        }
        return whose.get(address, address)


def port_of(server: str) -> int:
    return 8090 if server.endswith("-beside") else 8080


def manifest() -> str:
    names = [*PLACES, *(f"{name}-beside" for name in NODES.values())]
    windows = "mcr.microsoft.com/windows/servercore:ltsc20{}"
    return "".join(
        POD.format(
            name=name,
            node=PLACES[name.removesuffix("-beside")],
            os="windows" if name.startswith("windows") else "linux",
            on_host=str(name == "on-host").lower(),
            port=port_of(name),
            image=windows.format(name.removesuffix("-beside")[-2:])
            if name.startswith("windows")
            else "busybox:1.36",
            command="powershell, -c, Start-Sleep 36000"
            if name.startswith("windows")
            else 'sleep, "36000"',
        )
        for name in names
    )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.xdist_group(f"source-addresses-{name}"))
        for name in PROFILES
    ],
)
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, ...], str]:
    one_without = f"nodes.{NODES['no dsr']}.windows_dsr=false"
    with running_lab(
        tmp_path_factory.mktemp("lab"), "--profile", PROFILES[request.param], "--set", one_without
    ) as lab:
        lab.kubectl("apply", "-f", "-", stdin=manifest())
        lab.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")

        def items(kind: str) -> list[Any]:
            return list(json.loads(lab.kubectl("get", kind, "-o", "json").stdout)["items"])

        town = Town(
            lab=lab,
            pods={item["metadata"]["name"]: item["status"]["podIP"] for item in items("pods")},
            nodes={
                item["metadata"]["name"]: item["status"]["addresses"][0]["address"]
                for item in items("nodes")
            },
            services={item["metadata"]["name"]: item["spec"] for item in items("services")},
            blocks={
                item["spec"]["node"]: ipaddress.IPv4Network(item["spec"]["cidr"])
                for item in items("blockaffinities")
            },
        )
        if request.param == "flannel-overlay":  # its nodes' networks are podCIDRs, no blocks
            town.blocks.update(
                (item["metadata"]["name"], ipaddress.IPv4Network(item["spec"]["podCIDR"]))
                for item in items("nodes")
            )
        return {(request.param, *key): who for key, who in town.answers().items()}


@pytest.mark.parametrize("to_and_way", [(to, way) for to, way, *_ in TABLE], ids=" by ".join)
@pytest.mark.parametrize("dsr", NODES)
def test_a_server_sees(
    answers: dict[tuple[str, ...], str], dsr: str, to_and_way: tuple[str, str]
) -> None:
    (plane,) = {key[0] for key in answers}
    assert answers[plane, dsr, *to_and_way] == WANTED[plane, dsr, *to_and_way]
