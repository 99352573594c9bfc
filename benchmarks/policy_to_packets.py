# SPDX-License-Identifier: Apache-2.0
"""The time from the request that creates a policy to the first packet that it drops, between two
Linux pods of a lab."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from kubernetes import client

from benchmarks.exec_client import exec_once

NAMESPACE = "policy-to-packets"
IMAGE = "docker.io/library/python:3.13.1-alpine3.21"
ANSWERS = """
import socket
ears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ears.bind(("", 7000))
while True:
    ears.sendto(*ears.recvfrom(100))
"""
# Each datagram has a new port: after an answer, datagrams of the same flow pass under any policy.
# The monotonic clock is the machine's, so this process and the pods share it.
ASKS = """
import select, socket, sys, time
server, port, ends, last, waiting = (sys.argv[1], 7000), int(sys.argv[2]), time.monotonic() + 0.8, 0.0, {}
while time.monotonic() < ends:
    mouth, sent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), time.monotonic()
    mouth.bind(("", port))
    port += 1
    mouth.sendto(b"?", server)
    waiting[mouth] = sent
    for answered in select.select(list(waiting), [], [], 0.0005)[0]:
        last = max(last, waiting.pop(answered))
        answered.close()
    for unanswered in [waited for waited, since in waiting.items() if sent - since > 0.05]:
        del waiting[unanswered]
        unanswered.close()
print(last, len(waiting) > 5)
"""


def pods(core: client.CoreV1Api) -> str:
    """Make the pods and return the address of the answering pod."""
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    for name, program in (("answers", ANSWERS), ("asks", "import time; time.sleep(3600)")):
        container = {"name": "main", "image": IMAGE, "command": ["python3", "-c", program]}
        spec = {
            "os": {"name": "linux"},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "containers": [container],
        }
        core.create_namespaced_pod(
            NAMESPACE, {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
        )
    while True:
        found = [core.read_namespaced_pod(name, NAMESPACE) for name in ("answers", "asks")]
        if all(pod.status.phase == "Running" for pod in found):
            return str(found[0].status.pod_ip)
        time.sleep(0.05)


def seconds_to_packets(core: client.CoreV1Api, rounds: int) -> list[float]:
    """Return, for each round, the seconds from sending the request to the last datagram that
    passed, to a millisecond."""
    address, networking = pods(core), client.NetworkingV1Api(core.api_client)
    policy = {
        "metadata": {"name": "nobody"},
        "spec": {"podSelector": {"matchLabels": {"app": "answers"}}},
    }
    found = []
    for number in range(rounds):
        command = ["python3", "-c", ASKS, address, str(8000 + 2000 * number)]
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(exec_once, core.api_client, NAMESPACE, "asks", command)
            time.sleep(0.4)
            begun = time.monotonic()
            networking.create_namespaced_network_policy(NAMESPACE, policy)
            last, dropped = asking.result().split()
        if dropped != b"True":
            raise SystemExit("the policy dropped nothing")
        networking.delete_namespaced_network_policy("nobody", NAMESPACE)
        found.append(float(last) - begun)
    return found
