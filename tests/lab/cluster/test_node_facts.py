# SPDX-License-Identifier: Apache-2.0
"""A program in a hostNetwork pod reads its node over netlink: VXLAN device, routes, forwarding entries, neighbours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("node-facts"),
]

NODE = "linux-1"
POD = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: NAME, namespace: default}}
spec:
  nodeName: {NODE}
  hostNetwork: HOST
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: "python:3.13-slim", command: [sleep, "3600"]}}]
---
"""
PROGRAM = r"""
import json, socket, struct

def attributes(data):
    found = {}
    while len(data) >= 4:
        size, kind = struct.unpack_from("HH", data)
        found[kind & 0x3fff] = data[4:size]
        data = data[(size + 3) & ~3:]
    return found

def dump(request, header):
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    sock.send(struct.pack("IHHII", 16 + len(header), request, 0x301, 1, 0) + header)
    while True:
        data = sock.recv(1 << 20)
        while data:
            size, kind = struct.unpack_from("IH", data)
            if kind == 3:
                return
            assert kind != 2, "the kernel refused"
            yield data[16:size]
            data = data[(size + 3) & ~3:]

mac = lambda raw: ":".join(f"{byte:02x}" for byte in raw)
facts = {"links": {}, "routes": [], "fdb": {}, "neighbours": {}}
names = {}
for message in dump(18, bytes(16)):
    index = struct.unpack_from("i", message, 4)[0]
    found = attributes(message[16:])
    names[index] = name = found[3].rstrip(b"\0").decode()
    link = facts["links"][name] = {"mtu": struct.unpack("I", found[4])[0], "mac": mac(found.get(1, b""))}
    info = attributes(found.get(18, b""))
    if info.get(1, b"").rstrip(b"\0") == b"vxlan":
        data = attributes(info[2])
        link |= {"vni": struct.unpack("I", data[1])[0], "port": struct.unpack("!H", data[15])[0]}
        link["local"] = socket.inet_ntoa(data[4])
for message in dump(26, struct.pack("B11x", socket.AF_INET)):
    length = message[1]
    found = attributes(message[12:])
    if 5 in found and 1 in found:
        device = names[struct.unpack("i", found[4])[0]]
        facts["routes"].append([f"{socket.inet_ntoa(found[1])}/{length}", socket.inet_ntoa(found[5]), device])
for message in dump(30, struct.pack("B11x", 7)):
    found = attributes(message[12:])
    if 1 in found:
        facts["fdb"][mac(found[2])] = socket.inet_ntoa(found[1])
for message in dump(30, struct.pack("B11x", socket.AF_INET)):
    found = attributes(message[12:])
    if names[struct.unpack_from("i", message, 4)[0]] == "vxlan.calico":
        facts["neighbours"][socket.inet_ntoa(found[1])] = mac(found[2])
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("facts")) as running:
        pods = POD.replace("NAME", "host").replace("HOST", "true") + POD.replace(
            "NAME", "pod"
        ).replace("HOST", "false")
        running.kubectl("apply", "-f", "-", stdin=pods)
        running.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
        yield running


def facts(lab: RunningLab, pod: str) -> dict[str, Any]:
    return dict(json.loads(lab.kubectl("exec", pod, "--", "python3", "-c", PROGRAM).stdout))


def test_a_pod_on_the_host_network_reads_its_node(lab: RunningLab) -> None:
    found = facts(lab, "host")
    nodes = {
        item["metadata"]["name"]: item
        for item in json.loads(lab.kubectl("get", "nodes", "-o", "json").stdout)["items"]
    }
    addresses = {name: one["status"]["addresses"][0]["address"] for name, one in nodes.items()}
    windows = nodes["windows-2022"]["metadata"]["annotations"]
    tunnel, mac = (
        windows["projectcalico.org/IPv4VXLANTunnelAddr"],
        windows["projectcalico.org/VXLANTunnelMACAddr"],
    )

    device = found["links"]["vxlan.calico"]
    assert (device["vni"], device["port"], device["local"]) == (4096, 4789, addresses[NODE])
    assert 1400 <= device["mtu"] <= 1450
    others = {address for name, address in addresses.items() if name != NODE}
    assert set(found["fdb"].values()) == others
    assert found["fdb"][mac] == addresses["windows-2022"]
    assert found["neighbours"][tunnel] == mac
    block = f"{tunnel.rpartition('.')[0]}.{int(tunnel.rpartition('.')[2]) - 1}/26"
    assert [block, tunnel, "vxlan.calico"] in found["routes"]


def test_it_reads_the_new_vni_once_felix_is_back(lab: RunningLab) -> None:
    old = facts(lab, "host")["links"]["vxlan.calico"]
    patch = '{"spec":{"vxlanVNI":4097}}'
    lab.kubectl(
        "patch", "felixconfigurations.projectcalico.org", "default", "--type=merge", "-p", patch
    )
    for _ in range(100):
        found = facts(lab, "host")
        if found["links"].get("vxlan.calico", old) != old and len(found["fdb"]) == 5:
            break
    assert found["links"]["vxlan.calico"] == {**old, "vni": 4097}


def test_a_pod_with_a_network_of_its_own_does_not(lab: RunningLab) -> None:
    assert set(facts(lab, "pod")["links"]) == {"lo", "eth0"}
